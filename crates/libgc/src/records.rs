//! Records of threads: how they are made, found and taken away.
//!
//! A record is found through the thread word. It is taken away when the thread ends: by a key of the C library whose
//! function runs after the client's own, by `GC_unregister_my_thread`, or when a stop finds that the thread is gone.
//! A thread without a record allocates under the lock; it may not start a collection.

use alloc::boxed::Box;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use gleaner_mem::Address;
use gleaner_os::{fork, signals, threads};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::{Mutator, SLOW};
use gleaner_plans::mark_sweep::stop::signal::{here, on_suspend};
use gleaner_plans::mark_sweep::view::HeapView;

use crate::callbacks::CALLBACKS;
use crate::message::{die, say};
use crate::settings::CLIENT;
use crate::state::{MAIN_THREAD, Started, WORLD, is_collecting, started, view};
use crate::variables::GC_stackbottom;

/// Result of registering: the thread is registered now.
pub const SUCCESS: c_int = 0;
/// Result of registering: the thread was registered before.
pub const DUPLICATE: c_int = 1;

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

/// Restores the thread word after a blocking region. Under the lock. In a callback of a collection nothing is allocated
/// or freed without it.
pub fn reenter(heap: &Heap, record: *mut Mutator) {
    let slow = if is_collecting() { SLOW } else { 0 };
    threads::set_thread_word(word_for(heap, record) | slow);
}

/// Hooks of the C library, and the handlers of the two signals.
pub fn install_hooks() {
    let Some(suspend) = view().map(HeapView::suspend_signal) else {
        return;
    };
    let restart = CLIENT.restart_signal.get();
    if !signals::install_suspend_handler(suspend, on_suspend) {
        die_of_signal(suspend, "GC_set_suspend_signal");
    }
    // The same signal for both has the handler that suspends, which does nothing outside of a stop.
    if !signals::install_idle_handler(restart) {
        die_of_signal(restart, "GC_set_thr_restart_signal");
    }
    signals::unblock(suspend);
    signals::unblock(restart);
    if !threads::set_thread_exit_key(thread_ends) {
        say(format_args!(
            "no thread-specific key is left: threads that end without unregistering are noticed late"
        ));
    }
    // The first thread may end by pthread_exit while others go on.
    threads::arm_thread_exit(Mutator::current() as usize);
}

fn die_of_signal(signal: c_int, setter: &str) -> ! {
    die(format_args!(
        "cannot install a handler for signal {signal}: choose another with {setter}"
    ))
}

extern "C" fn thread_ends(record: usize) {
    if threads::thread_word() & !SLOW == record
        && let Some(heap) = started()
    {
        leave(heap, record as *mut Mutator);
    }
}

/// Takes the calling thread's record away.
pub fn leave(heap: Started, record: *mut Mutator) {
    if fork::is_new_process() {
        // As it ends a thread makes no heap whole, for which others of the parent may have left the lock. Who comes later does, and
        // keeps its own record alone.
        threads::set_thread_word(0);
        return;
    }
    let mut heap = heap.lock();
    threads::set_thread_word(0);
    // SAFETY: the calling thread's own record, which no word of it names any more.
    unsafe { heap.retire(record) };
    crate::non_gc_bytes::sync_variables(&heap);
    heap.unlock();
}

/// Registers the calling thread with a stack that ends at `stack_base`.
pub fn register(heap: Started, stack_base: Address, explicit: bool) -> c_int {
    if !Mutator::current().is_null() {
        return DUPLICATE;
    }
    let mut locked = heap.lock();
    let unused = locked.mutators.unused();
    locked.unlock();
    let fresh = if unused.is_none() {
        new_record()
    } else {
        core::ptr::null_mut()
    };
    let mut locked = heap.lock();
    // SAFETY: fresh memory that is never freed, or a record of the list.
    let record = unsafe {
        if !fresh.is_null() {
            locked.mutators.add(fresh);
        }
        let record = locked.mutators.unused();
        if let Some(record) = record {
            locked
                .mutators
                .occupy(record, &raw const WORLD, stack_base, explicit);
            enter(&locked, record);
        }
        record
    };
    let signal = locked.settings.suspend_signal;
    locked.unlock();
    match record {
        Some(record) => {
            signals::unblock(signal);
            threads::arm_thread_exit(record as usize);
            SUCCESS
        }
        None => register(heap, stack_base, explicit), // Another thread took the record in between.
    }
}

/// Whether the program has said where a stack is that is not its thread's own. Relaxed: it does so before each collection scans
/// them, or at each switch, on the thread whose stack it is.
static NAMES_STACKS: AtomicBool = AtomicBool::new(false);
/// A thread whose stack ends so near to where it did before is said to be on its own: what an embedder says for once.
const OWN_END: usize = 64 << 10;

/// The program says where the stack of a thread is.
///
/// # Safety
/// `record` is one of the list, and the calling thread holds the lock.
pub unsafe fn learn_of_a_stack(record: *mut Mutator, named: Address) {
    // SAFETY: a record of the list, which the lock guards, as asked.
    let thread = unsafe { &mut *record };
    if named.word().abs_diff(stack_base(thread).word()) > OWN_END {
        thread.shows_unknown = false;
        NAMES_STACKS.store(true, Ordering::Relaxed);
    }
}

/// Whether the calling thread runs on a stack that the collector does not know, in a program that has named none. Under the
/// lock.
pub fn is_on_foreign_stack() -> bool {
    let record = Mutator::current();
    if record.is_null()
        || NAMES_STACKS.load(Ordering::Relaxed)
        || CALLBACKS.sp_corrector.get().is_some()
    {
        return false;
    }
    // SAFETY: the calling thread's own record, under the lock.
    let thread = unsafe { &mut *record };
    let base = stack_base(thread);
    !thread.is_on_known_stack(here(), base)
}

/// The cold end of a thread's stack: where the client says that it is.
pub fn stack_base(thread: &Mutator) -> Address {
    let first = MAIN_THREAD.load(Ordering::Relaxed);
    let moved = GC_stackbottom.get();
    if core::ptr::eq(first, thread) && !moved.is_null() {
        Address::of(moved)
    } else {
        thread.stack_base
    }
}

/// The record of the thread with this number of the C library.
pub fn record_of(heap: &Heap, thread: usize) -> Option<*mut Mutator> {
    heap.mutators.find(|record| record.pthread == thread)
}

/// The cold end of the first thread's stack, as far as known when the heap starts.
fn first_stack_base() -> Address {
    let given = GC_stackbottom.get();
    if !given.is_null() {
        return Address::of(given);
    }
    Address::new(threads::stack_top())
}

/// A new record's memory. Called without the lock.
fn new_record() -> *mut Mutator {
    Box::into_raw(Box::<Mutator>::new_uninit()).cast()
}
