//! What calls of the program do for idle time: they wake the watcher, or look themselves where there is none.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use gleaner_base::options::Options;
use gleaner_os::threads;
use gleaner_plans::mark_sweep::Heap;
use gleaner_work::IdleWatch;

/// How many nanoseconds without an allocation make the program idle; 0: nobody asks. Written before the heap is published.
static AFTER_NS: AtomicU64 = AtomicU64::new(0);
/// What the watcher and those whom it watches share; its lock is the allocator lock.
pub static WATCH: IdleWatch = IdleWatch::new();

/// The process that has the watcher: a child that was forked behind the library's back does not. Relaxed, as it is written by the thread
/// that starts the watcher.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Remembers what the options ask for.
pub fn prepare(options: &Options) {
    AFTER_NS.store(options.idle.after_ns().unwrap_or(0), Ordering::Relaxed);
}

/// After how many nanoseconds without an allocation something is done, if ever.
#[inline]
pub fn after_ns() -> Option<u64> {
    match AFTER_NS.load(Ordering::Relaxed) {
        0 => None,
        nanoseconds => Some(nanoseconds),
    }
}

/// Memory was handed out. Under the lock.
#[inline]
pub fn note_call(heap: &mut Heap) {
    if after_ns().is_some() {
        if WATCH.is_absent() {
            heap.note_call();
        } else {
            WATCH.stir();
        }
    }
}

/// The calling thread is about to start the watcher.
pub fn note_watcher() {
    OWNER.store(threads::current_process(), Ordering::Relaxed);
}

/// The process ends: from now on the lock is free unless a thread of the program's has it.
pub fn end() {
    if !WATCH.is_absent() && OWNER.load(Ordering::Relaxed) == threads::current_process() {
        WATCH.dismiss();
    }
}

/// Memory was freed, by the program or by a collection. Under the lock.
#[inline]
pub fn note_free() {
    WATCH.stir();
}
