//! Threads: how they come to the heap and leave it (gc.h).
//!
//! A record is found through the thread word. It is taken away when the thread ends: by a key of the C library whose
//! function runs after the client's own, by `GC_unregister_my_thread`, or when a stop finds that the thread is gone.
//! A thread without a record allocates under the lock; it may not start a collection.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use gleaner_mem::Address;
use gleaner_os::{signals, threads};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::{AltStack, Mutator, SLOW};
use gleaner_plans::mark_sweep::stop::signal::{here, on_suspend};

use crate::message::{die, say};
use crate::state::{
    LOCK, MAIN_THREAD, WORLD, first_stack_base, heap, is_ready, new_record, start, with_heap,
};
use crate::variables::{GC_parallel, GC_stackbottom};

/// `struct GC_stack_base`.
#[repr(C)]
pub struct StackBase {
    /// Cold end of the stack.
    pub mem_base: *mut c_void,
}

/// `GC_stack_base_func`.
pub type StackBaseFn = unsafe extern "C-unwind" fn(*mut StackBase, *mut c_void) -> *mut c_void;

const SUCCESS: c_int = 0;
const DUPLICATE: c_int = 1;
const UNIMPLEMENTED: c_int = 3;

/// Whether the client did what makes libgc run mark procedures on its helpers.
static PROCS_ON_HELPERS: AtomicBool = AtomicBool::new(false);

/// Whether mark procedures may run on helpers.
pub fn procs_may_run_on_helpers() -> bool {
    PROCS_ON_HELPERS.load(Ordering::Relaxed)
}

/// Makes the calling thread the first registered one. The heap is just starting.
pub fn register_first_thread(heap: &mut Heap) {
    let record = new_record();
    // SAFETY: fresh memory that is never freed.
    unsafe {
        heap.mutators.add(record);
        heap.mutators
            .occupy(record, &raw const WORLD, first_stack_base(), false);
    }
    let is_first = threads::current_tid().0 == threads::current_process();
    if is_first {
        MAIN_THREAD.store(record, Ordering::Relaxed);
        if GC_stackbottom.get().is_null() {
            // SAFETY: just occupied.
            GC_stackbottom.set(unsafe { (*record).stack_base.ptr() });
        }
    }
    enter(heap, record);
}

/// Lets the calling thread find its record.
fn enter(heap: &Heap, record: *mut Mutator) {
    threads::set_thread_word(word_for(heap, record));
}

/// Whether the thread may use the fast path when it is not in a blocking region.
fn word_for(heap: &Heap, record: *mut Mutator) -> usize {
    let options = &heap.options;
    let fast =
        options.thread_lists && options.stress == 0 && !options.poison && !crate::leaks::is_armed();
    record as usize | if fast { 0 } else { SLOW }
}

/// Restores the thread word after a blocking region. Under the lock. In a callback of a collection nothing is allocated or
/// freed without it.
pub fn reenter(heap: &Heap, record: *mut Mutator) {
    let slow = if crate::collect::is_inside() { SLOW } else { 0 };
    threads::set_thread_word(word_for(heap, record) | slow);
}

/// Hooks of the C library and the suspend handler.
pub fn install_hooks() {
    let signal = with_heap(|heap| heap.settings.suspend_signal);
    if !signals::install_suspend_handler(signal, on_suspend) {
        die(format_args!(
            "cannot install a handler for signal {signal}: choose another with GC_set_suspend_signal"
        ));
    }
    signals::unblock(signal);
    if !threads::set_thread_exit_key(thread_ends) {
        say(format_args!(
            "no thread-specific key is left: threads that end without unregistering are noticed late"
        ));
    }
    // The first thread may end by pthread_exit while others go on.
    threads::arm_thread_exit(Mutator::current() as usize);
}

extern "C" fn thread_ends(record: usize) {
    if threads::thread_word() & !SLOW == record {
        leave(record as *mut Mutator);
    }
}

/// Takes the calling thread's record away.
fn leave(record: *mut Mutator) {
    LOCK.lock();
    threads::set_thread_word(0);
    // SAFETY: the calling thread's own record, which no word of it names any more.
    unsafe { heap().retire(record) };
    LOCK.unlock();
}

/// Registers the calling thread with a stack that ends at `stack_base`.
pub fn register(stack_base: Address, explicit: bool) -> c_int {
    if !Mutator::current().is_null() {
        return DUPLICATE;
    }
    LOCK.lock();
    let unused = heap().mutators.unused();
    LOCK.unlock();
    let fresh = if unused.is_none() {
        new_record()
    } else {
        core::ptr::null_mut()
    };
    LOCK.lock();
    let heap = heap();
    // SAFETY: fresh memory that is never freed, or a record of the list.
    let record = unsafe {
        if !fresh.is_null() {
            heap.mutators.add(fresh);
        }
        let record = heap.mutators.unused();
        if let Some(record) = record {
            heap.mutators
                .occupy(record, &raw const WORLD, stack_base, explicit);
            enter(heap, record);
        }
        record
    };
    let signal = heap.settings.suspend_signal;
    LOCK.unlock();
    match record {
        Some(record) => {
            signals::unblock(signal);
            threads::arm_thread_exit(record as usize);
            SUCCESS
        }
        None => register(stack_base, explicit), // Another thread took the record in between.
    }
}

/// Notices that blocking regions or active sections of the calling thread were left by `longjmp` or an exception.
#[inline]
pub fn check_regions() {
    let record = Mutator::current();
    if record.is_null() || LOCK.is_own() {
        return; // Where the lock is held, a region was left already, or the client is about to hear of it.
    }
    // SAFETY: the calling thread's own record.
    let thread = unsafe { &*record };
    if thread.is_blocked() || !thread.active.is_empty() {
        crate::blocking::leave_stale_regions(record);
    }
}

/// Whether the calling thread runs on a stack that nobody told us of. Under the lock.
pub fn is_on_foreign_stack() -> bool {
    let record = Mutator::current();
    if record.is_null() {
        return false;
    }
    // SAFETY: the calling thread's own record, under the lock.
    let thread = unsafe { &mut *record };
    let base = crate::collect::stack_base(thread);
    !thread.is_on_known_stack(here(), base)
}

/// As in gc.h.
///
/// # Safety
/// `base` must be readable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_register_my_thread(base: *const StackBase) -> c_int {
    if !is_ready() {
        die(format_args!(
            "GC_register_my_thread was called before GC_init"
        ));
    }
    if !PROCS_ON_HELPERS.load(Ordering::Relaxed) {
        die(format_args!(
            "GC_register_my_thread was called before GC_allow_register_threads"
        ));
    }
    // SAFETY: the caller vouches for it.
    register(Address::of(unsafe { (*base).mem_base }), true)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_unregister_my_thread() -> c_int {
    if crate::collect::is_inside() {
        die(format_args!(
            "GC_unregister_my_thread was called in a callback of a collection, which the calling thread runs"
        ));
    }
    let record = Mutator::current();
    if !record.is_null() {
        threads::arm_thread_exit(0);
        leave(record);
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
    PROCS_ON_HELPERS.store(true, Ordering::Relaxed);
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
    // SAFETY: the caller vouches for it.
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
    // SAFETY: the caller vouches for the function; this frame holds no guard.
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
    // SAFETY: the calling thread's own record; the caller vouches for `base`.
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
    // SAFETY: the caller vouches for it.
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
    if record == MAIN_THREAD.load(Ordering::Relaxed) {
        GC_stackbottom.set(bottom.cast());
    }
    if !record.is_null() {
        // SAFETY: a record of ours, under the lock.
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

/// The record of the thread with this number of the C library.
pub fn record_of(heap: &Heap, thread: usize) -> Option<*mut Mutator> {
    heap.mutators.find(|record| record.pthread == thread)
}
