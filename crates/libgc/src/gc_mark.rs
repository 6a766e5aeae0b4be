//! `gc_mark.h`: kinds, mark procedures, pushing of roots, mark bits.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::Heap;
use gleaner_spaces::mark_sweep::MARKED;
use gleaner_spaces::mark_sweep::kinds::Kind;
use gleaner_spaces::mark_sweep::scan::{Entry, MAX_PROCS, MarkProc};
use gleaner_spaces::mark_sweep::size_classes::CLASSES;

use crate::collect::GC_push_other_roots;
use crate::message::die;
use crate::start::with_heap;
use crate::state::{Locked, context, is_collecting, is_ready, table};
use crate::variables::Procedure;

/// Indices below this are given out by no call (`GC_RESERVED_MARK_PROCS`).
const RESERVED_PROCS: usize = 8;

/// Free lists as clients see them: always empty, since cells are handed out by functions only.
#[repr(transparent)]
pub struct EmptyLists(UnsafeCell<[*mut c_void; CLASSES + 200]>);
// SAFETY: this library never writes to it.
unsafe impl Sync for EmptyLists {}
/// What `GC_new_free_list` returns.
pub static EMPTY_LISTS: EmptyLists =
    EmptyLists(UnsafeCell::new([core::ptr::null_mut(); CLASSES + 200]));

/// As in gc_mark.h: the list array is a token to pass to `GC_new_kind`; it stays empty.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_new_free_list() -> *mut *mut c_void {
    EMPTY_LISTS.0.get().cast()
}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_new_free_list_inner() -> *mut *mut c_void {
    GC_new_free_list()
}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_new_kind(
    _lists: *mut *mut c_void,
    descriptor: usize,
    add_size: c_int,
    clear: c_int,
) -> u32 {
    with_heap(|heap| new_kind(heap, descriptor, add_size, clear))
}

fn new_kind(heap: &mut Heap, descriptor: usize, add_size: c_int, clear: c_int) -> u32 {
    let kind = Kind {
        descriptor,
        add_size: add_size != 0,
        clear: clear != 0,
        uncollectable: false,
        disclaim: None,
        mark_unconditionally: false,
        unlocked: false,
    };
    add_kind(heap, kind) as u32
}

/// As in gc_mark.h; the caller holds the allocator lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_new_kind_inner(
    _lists: *mut *mut c_void,
    descriptor: usize,
    add_size: c_int,
    clear: c_int,
) -> u32 {
    // SAFETY: the caller holds the lock, as gc_mark.h asks.
    let mut heap = unsafe { Locked::by_contract() };
    new_kind(&mut heap, descriptor, add_size, clear)
}

/// Adds a kind.
pub fn add_kind(heap: &mut Heap, mut kind: Kind) -> usize {
    crate::leaks::adapt(&mut kind);
    match heap.space.kinds.add(kind) {
        Some(number) => number,
        None => die(format_args!(
            "too many object kinds: at most {}",
            gleaner_spaces::mark_sweep::kinds::MAX_KINDS
        )),
    }
}

static NEXT_PROC: AtomicUsize = AtomicUsize::new(RESERVED_PROCS);

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_new_proc(procedure: MarkProc) -> u32 {
    with_heap(|heap| add_proc(heap, procedure) as u32)
}

/// As in gc_mark.h; the caller holds the allocator lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_new_proc_inner(procedure: MarkProc) -> u32 {
    // SAFETY: the caller holds the lock, as gc_mark.h asks.
    let mut heap = unsafe { Locked::by_contract() };
    add_proc(&mut heap, procedure) as u32
}

/// Registers a mark procedure; returns its index.
pub fn add_proc(heap: &mut Heap, procedure: MarkProc) -> usize {
    let index = NEXT_PROC.fetch_add(1, Ordering::Relaxed);
    if index >= MAX_PROCS {
        die(format_args!(
            "too many mark procedures: at most {MAX_PROCS}"
        ));
    }
    heap.context.procs[index] = Some(procedure);
    index
}

/// As in gc_mark.h: for mark procedures.
///
/// # Safety
/// `top` and `limit` must be those given to the mark procedure, or derived from them.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_mark_and_push(
    object: *mut c_void,
    top: *mut Entry,
    limit: *mut Entry,
    _source: *mut *mut c_void,
) -> *mut Entry {
    // SAFETY: `top` and `limit` are those of the mark procedure that calls this, as asked.
    unsafe { context().mark_and_push(object as usize, top, limit) }
}

/// As in gc_mark.h: for callbacks that push roots.
///
/// # Safety
/// The range must be readable, and a collection must be pushing roots.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_push_all(low: *mut c_void, high: *mut c_void) {
    // SAFETY: a collection pushes roots, as asked, so it lent the heap to its callback, which calls this; the range is
    // readable.
    unsafe {
        Locked::by_contract()
            .engine
            .push_range(Address::of(low), Address::of(high))
    };
}

/// As in gc_mark.h: scans at once, with the rule of stacks.
///
/// # Safety
/// As for `GC_push_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_push_all_eager(low: *mut c_void, high: *mut c_void) {
    // SAFETY: a collection pushes roots, as asked, so it lent the heap to its callback, which calls this; the range is
    // readable.
    unsafe {
        Locked::by_contract()
            .engine
            .scan_stack(Address::of(low), Address::of(high))
    };
}

/// As in gc_mark.h: there are no dirty bits, so everything is pushed.
///
/// # Safety
/// As for `GC_push_all`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_push_conditional(
    low: *mut c_void,
    high: *mut c_void,
    _all: c_int,
) {
    // SAFETY: the range is readable and a collection pushes roots, as asked.
    unsafe { GC_push_all(low, high) };
}

/// As in gc_mark.h: finalizer tables are always treated as roots, so there is nothing to push.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_push_finalizer_structures() {}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_push_other_roots(function: Option<Procedure>) {
    GC_push_other_roots.set(function);
}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_push_other_roots() -> Option<Procedure> {
    GC_push_other_roots.get()
}

fn mark_of(object: *const c_void) -> Option<&'static core::sync::atomic::AtomicU8> {
    if !is_ready() {
        return None;
    }
    // SAFETY: the mark of a resolved object.
    table()
        .resolve_checked(object as usize)
        .map(|found| unsafe { &*found.mark })
}

/// Marks that a client changes between collections are not to be built on by one that keeps marks.
fn note_change() {
    if !is_collecting() {
        context().disturbed.store(true, Ordering::Relaxed);
    }
}

/// As in gc_mark.h; the caller holds the allocator lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_marked(object: *const c_void) -> c_int {
    mark_of(object).map_or(0, |mark| {
        c_int::from(mark.load(Ordering::Relaxed) == MARKED)
    })
}

/// As in gc_mark.h; the caller holds the allocator lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_mark_bit(object: *const c_void) {
    if let Some(mark) = mark_of(object) {
        mark.store(MARKED, Ordering::Relaxed);
        note_change();
    }
}

/// As in gc_mark.h; the caller holds the allocator lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_clear_mark_bit(object: *const c_void) {
    if !is_ready() {
        return;
    }
    if let Some(found) = table().resolve_checked(object as usize) {
        // SAFETY: the caller holds the lock, as gc_mark.h asks.
        let heap = unsafe { Locked::by_contract() };
        heap.space.clear_mark(&found);
        note_change();
    }
}

/// `GC_reachable_object_proc`.
pub type ReachableFn = unsafe extern "C-unwind" fn(*mut c_void, usize, *mut c_void);

/// As in gc_mark.h: visits the objects that the last collection marked; the caller holds the allocator lock.
///
/// # Safety
/// `visit` must be callable with `data`, and must not allocate.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_enumerate_reachable_objects_inner(
    visit: ReachableFn,
    data: *mut c_void,
) {
    // SAFETY: the caller holds the lock, as gc_mark.h asks, and `visit` does not allocate.
    let heap = unsafe { Locked::by_contract() };
    // SAFETY: `visit` is callable with `data`, as asked.
    heap.space
        .for_each_marked(|object| unsafe { visit(object.base.ptr(), object.bytes, data) });
}

/// As in gc_mark.h: no root is temporary.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_tmp_root(_address: *mut c_void) -> c_int {
    0
}

/// As in gc_mark.h: clears what calls that have returned left on the stack, near below the caller.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_clear_stack(argument: *mut c_void) -> *mut c_void {
    clear_below();
    argument
}

/// Less than libgc clears now and then: stacks may be small.
const CLEARED_WORDS: usize = 512;

#[inline(never)]
fn clear_below() {
    core::hint::black_box(&mut [0_usize; CLEARED_WORDS]);
}
