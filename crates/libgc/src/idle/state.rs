//! What the watcher and the program's calls share.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use gleaner_base::options::{Idle, Options};
use gleaner_os::threads;
use gleaner_plans::mark_sweep::Heap;
use gleaner_work::IdleWatch;

/// How many nanoseconds without an allocation make the program idle; 0: nobody asks. Written before the heap is published.
static AFTER_NS: AtomicU64 = AtomicU64::new(0);
/// Whether the option asks for collections by name. Written before the heap is published.
static ASKS_TO_COLLECT: AtomicBool = AtomicBool::new(false);
/// The collection that the program's next call is to make, by number; 0: none. Under the lock.
static CALLED_FOR: AtomicU64 = AtomicU64::new(0);
/// What the watcher and those whom it watches share; its lock is the allocator lock.
pub static WATCH: IdleWatch = IdleWatch::new();

/// The process that has the watcher: a child that was forked behind the library's back does not. Relaxed, as it is written by the thread
/// that starts the watcher.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Remembers what the options ask for.
pub fn prepare(options: &Options) {
    AFTER_NS.store(options.idle.after_ns().unwrap_or(0), Ordering::Relaxed);
    let asks = matches!(options.idle, Idle::Collect(_));
    ASKS_TO_COLLECT.store(asks, Ordering::Relaxed);
}

/// Whether the option asks for collections in idle time, in every program.
pub fn asks_to_collect() -> bool {
    ASKS_TO_COLLECT.load(Ordering::Relaxed)
}

/// Why a call of the program's is to collect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Its calls have become rare.
    CallsBecameRare,
    /// It was idle, and the watcher may not collect.
    WasIdle,
}

/// Has the program's next call collect, unless another collection comes first. Under the lock.
pub fn call_on_program(heap: &Heap) {
    CALLED_FOR.store(heap.collections + 1, Ordering::Relaxed);
}

/// Whether the calling thread is to collect for that, once. Under the lock.
#[inline]
pub fn take_call(heap: &Heap) -> Option<Why> {
    let called_for = CALLED_FOR.load(Ordering::Relaxed);
    if called_for == 0 {
        return None;
    }
    CALLED_FOR.store(0, Ordering::Relaxed);
    (called_for == heap.collections + 1).then_some(Why::WasIdle)
}

/// After how many nanoseconds without an allocation something is done, if ever.
#[inline]
pub fn after_ns() -> Option<u64> {
    match AFTER_NS.load(Ordering::Relaxed) {
        0 => None,
        nanoseconds => Some(nanoseconds),
    }
}

/// The calling thread is about to start the watcher.
pub fn note_watcher() {
    OWNER.store(threads::current_process(), Ordering::Relaxed);
}

/// The process ends: from now on the lock is free unless a thread of the program's has it.
pub fn end() {
    // One that comes later ends at once.
    if WATCH.is_absent() || OWNER.load(Ordering::Relaxed) == threads::current_process() {
        WATCH.dismiss();
    }
}

/// Something has changed for which the watcher looks, beside an allocation: memory was freed, or a thread waits in a blocking region.
/// Under the lock.
#[inline]
pub fn stir() {
    WATCH.stir();
}
