//! `gc_disclaim.h`: procedures that are asked before objects of a kind are reclaimed, and finalized allocation on
//! top of them.
//!
//! The procedures run at the end of the collection that found an object dead, in the running world, under the
//! allocator lock.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::Heap;
use gleaner_spaces::mark_sweep::kinds::{DisclaimProc, Kind, descriptor};

use crate::allocate::allocate_marked;
use crate::message::{die, out_of_memory};
use crate::settings::register_displacement;
use crate::start::with_heap;
use crate::state::table;
use crate::variables::{GC_find_leak, TwoPointersFn};

const WORD: usize = size_of::<usize>();

/// Low bit of the word in front of a finalized object while its closure has not been called.
const PENDING: usize = 1;

/// The kind of finalized objects; 0 until it is needed.
static FINALIZED_KIND: AtomicUsize = AtomicUsize::new(0);

/// As in gc_disclaim.h: what to call for a finalized object.
#[repr(C)]
pub struct Closure {
    proc: Option<TwoPointersFn>,
    data: *mut c_void,
}

/// As in gc_disclaim.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_register_disclaim_proc(
    kind: c_int,
    procedure: Option<DisclaimProc>,
    mark_from_all: c_int,
) {
    with_heap(|heap| {
        if GC_find_leak.get() != 0 {
            return;
        }
        let has_blocks = heap.space.has_blocks_of(kind as usize);
        match heap.space.kinds.get_mut(kind as usize) {
            Some(known) => {
                let had_one = known.disclaim.is_some();
                // Free cells of these blocks bear no mark, and threads may be taking them without the lock.
                known.unlocked |= has_blocks && !had_one && procedure.is_some();
                // Where free cells bear marks, they go on doing so.
                known.disclaim = procedure.or(had_one.then_some(keep_nothing as DisclaimProc));
                known.mark_unconditionally = procedure.is_some() && mark_from_all != 0;
            }
            None => die(format_args!(
                "GC_register_disclaim_proc: {kind} is no object kind"
            )),
        }
    });
}

/// The procedure of a kind whose own was taken back.
unsafe extern "C-unwind" fn keep_nothing(_object: *mut c_void) -> c_int {
    0
}

/// As in gc_disclaim.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_init_finalized_malloc() {
    with_heap(make_kind);
}

fn make_kind(heap: &mut Heap) {
    if FINALIZED_KIND.load(Ordering::Relaxed) != 0 {
        return;
    }
    // Pointers to the object stand a word behind its base, pointers to closures have the low bit set.
    register_displacement(Some(heap), WORD);
    register_displacement(Some(heap), PENDING);
    let kind = Kind {
        descriptor: descriptor::LENGTH,
        add_size: true,
        clear: true,
        uncollectable: false,
        disclaim: (GC_find_leak.get() == 0).then_some(call_closure as DisclaimProc),
        mark_unconditionally: GC_find_leak.get() == 0,
        unlocked: false,
    };
    let kind = crate::gc_mark::add_kind(heap, kind);
    // Relaxed: read under the lock, or by a thread that called the initialisation before.
    FINALIZED_KIND.store(kind, Ordering::Relaxed);
}

/// The disclaim procedure of finalized objects: calls the closure; nothing is ever kept.
unsafe extern "C-unwind" fn call_closure(object: *mut c_void) -> c_int {
    let base = Address::of(object);
    // SAFETY: a dead object of the kind; its first word is 0 until the closure was stored.
    let word = unsafe { base.load() };
    if word & PENDING != 0 {
        // SAFETY: the object is dead and goes right away; the closure is alive, since this kind is scanned from all
        // objects, and the client promised that its procedure may be called with them.
        unsafe {
            base.store(0);
            let closure = &*((word - PENDING) as *const Closure);
            if let Some(proc) = closure.proc {
                proc(base.add(WORD).ptr(), closure.data);
            }
        }
    }
    0
}

/// As in gc_disclaim.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_finalized_malloc(bytes: usize, closure: *const Closure) -> *mut c_void {
    let kind = FINALIZED_KIND.load(Ordering::Relaxed);
    if kind == 0 {
        die(format_args!(
            "GC_finalized_malloc was called before GC_init_finalized_malloc"
        ));
    }
    let Some(total) = bytes.checked_add(WORD) else {
        return out_of_memory(bytes);
    };
    let object = Address::of(allocate_marked(total, kind, |_, _, object| object));
    if object.is_null() || !table().contains(object.word()) {
        return object.ptr();
    }
    // SAFETY: the first word of a fresh object, which reads as 0 until now: the collector finds no closure there.
    unsafe { object.store(closure as usize | PENDING) };
    object.add(WORD).ptr()
}
