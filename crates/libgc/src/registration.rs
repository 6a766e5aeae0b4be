//! Threads: how they come to the heap and leave it (gc.h). Their records are in [`crate::records`].

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use gleaner_mem::Address;
use gleaner_os::threads;
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::{AltStack, Mutator};

use crate::message::die;
use crate::records::{SUCCESS, learn_of_a_stack, leave, register};
use crate::start::{start, with_heap};
use crate::state::{MAIN_THREAD, is_collecting, is_ready, started};
use crate::variables::{GC_parallel, GC_stackbottom};

/// `struct GC_stack_base`.
#[repr(C)]
pub struct StackBase {
    /// Cold end of the stack.
    pub mem_base: *mut c_void,
}

/// `GC_stack_base_func`.
pub type StackBaseFn = unsafe extern "C-unwind" fn(*mut StackBase, *mut c_void) -> *mut c_void;

const UNIMPLEMENTED: c_int = 3;

/// Whether the client did what makes libgc run mark procedures on its helpers.
static PROCS_ON_HELPERS: AtomicBool = AtomicBool::new(false);

/// Whether mark procedures may run on helpers.
pub fn procs_may_run_on_helpers() -> bool {
    PROCS_ON_HELPERS.load(Ordering::Relaxed)
}

/// As in gc.h.
///
/// # Safety
/// `base` must be readable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_register_my_thread(base: *const StackBase) -> c_int {
    let Some(heap) = started() else {
        die(format_args!(
            "GC_register_my_thread was called before GC_init"
        ));
    };
    if !PROCS_ON_HELPERS.load(Ordering::Relaxed) {
        die(format_args!(
            "GC_register_my_thread was called before GC_allow_register_threads"
        ));
    }
    // SAFETY: `base` is readable, as asked.
    let stack_base = Address::of(unsafe { (*base).mem_base });
    register(heap, stack_base, true)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_unregister_my_thread() -> c_int {
    if is_collecting() {
        die(format_args!(
            "GC_unregister_my_thread was called in a callback of a collection, which the calling thread runs"
        ));
    }
    let record = Mutator::current();
    if !record.is_null() {
        threads::arm_thread_exit(0);
        leave(start(), record);
    }
    SUCCESS
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_thread_is_registered() -> c_int {
    c_int::from(!Mutator::current().is_null())
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_allow_register_threads() {
    start();
    GC_start_mark_threads();
}

/// As in gc.h: from now on mark procedures may run on helper threads. Helpers themselves come when they are needed.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_start_mark_threads() {
    start();
    // Asked again for each thread that is created.
    if PROCS_ON_HELPERS.swap(true, Ordering::Relaxed) {
        return;
    }
    let most = with_heap(Heap::most_workers);
    GC_parallel.set(most as c_int - 1);
}

/// As in gc.h.
///
/// # Safety
/// `base` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_get_stack_base(base: *mut StackBase) -> c_int {
    let top = threads::stack_top();
    if top == 0 {
        return UNIMPLEMENTED;
    }
    // SAFETY: `base` is writable, as asked.
    unsafe { (*base).mem_base = top as *mut c_void };
    SUCCESS
}

/// As in gc.h.
///
/// # Safety
/// `function` must be callable with `argument`.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C-unwind" fn GC_call_with_stack_base(
    function: StackBaseFn,
    argument: *mut c_void,
) -> *mut c_void {
    let mut base = StackBase {
        mem_base: core::ptr::null_mut(),
    };
    base.mem_base = (&raw mut base).cast();
    // SAFETY: `function` is callable with `argument`, as asked; this frame holds no guard.
    let result = unsafe { function(&mut base, argument) };
    core::hint::black_box(&base);
    result
}

/// As in gc.h.
///
/// # Safety
/// `base` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_get_my_stackbottom(base: *mut StackBase) -> *mut c_void {
    start();
    let record = Mutator::current();
    if record.is_null() {
        die(format_args!(
            "GC_get_my_stackbottom was called by a thread that is not registered"
        ));
    }
    let moved = GC_stackbottom.get();
    let is_first = record == MAIN_THREAD.load(Ordering::Relaxed);
    // SAFETY: the calling thread's own record; `base` is writable, as asked.
    unsafe {
        (*base).mem_base = if is_first {
            moved.cast()
        } else {
            (*record).stack_base.ptr()
        }
    };
    record.cast()
}

/// As in gc.h; the caller holds the allocator lock unless the heap has not started.
///
/// # Safety
/// `handle` must be null or come from `GC_get_my_stackbottom`; `base` must be readable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_set_stackbottom(handle: *mut c_void, base: *const StackBase) {
    // SAFETY: `base` is readable, as asked.
    let bottom = unsafe { (*base).mem_base };
    if !is_ready() {
        GC_stackbottom.set(bottom.cast());
        return;
    }
    let record = if handle.is_null() {
        Mutator::current()
    } else {
        handle.cast()
    };
    if !record.is_null() {
        // SAFETY: a record, as below, under the lock, which the caller holds.
        unsafe { learn_of_a_stack(record, Address::of(bottom)) };
    }
    if record == MAIN_THREAD.load(Ordering::Relaxed) {
        GC_stackbottom.set(bottom.cast());
    }
    if !record.is_null() {
        // SAFETY: `handle` is a record, as asked, or this is the calling thread's own; the caller holds the lock.
        unsafe { (*record).stack_base = Address::of(bottom) };
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_register_altstack(
    normal: *mut c_void,
    _normal_bytes: usize,
    alternate: *mut c_void,
    alternate_bytes: usize,
) {
    let record = Mutator::current();
    if record.is_null() {
        die(format_args!(
            "GC_register_altstack was called by a thread that is not registered"
        ));
    }
    with_heap(|_| {
        // SAFETY: the calling thread's own record, under the lock.
        unsafe {
            (*record).alt_stack = AltStack {
                normal_low: Address::of(normal),
                low: Address::of(alternate),
                bytes: alternate_bytes,
            };
        }
    });
}
