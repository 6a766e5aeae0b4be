//! What the helper shares with those that begin cycles, fork, or end the process.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use gleaner_os::threads;
use gleaner_work::IdleWatch;

/// Whether a collection has seen that the heap wants a helper. Relaxed: it carries nothing but itself.
static IS_CALLED_FOR: AtomicBool = AtomicBool::new(false);
/// What the thread shares with those that begin cycles; its lock is the allocator lock.
pub static WATCH: IdleWatch = IdleWatch::new();
/// The process that has the thread: a child that was forked behind the library's back does not. Relaxed, as it is written by the
/// thread that starts the helper.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// A collection has ended; whether a helper is wanted for the next ones. Under the lock.
pub fn note_collection(is_wanted: bool) {
    IS_CALLED_FOR.store(is_wanted, Ordering::Relaxed);
}

/// Whether there is to be a helper and is none.
#[inline]
pub fn is_missing() -> bool {
    IS_CALLED_FOR.load(Ordering::Relaxed) && WATCH.is_absent()
}

/// The calling thread is about to start the helper.
pub fn note_helper() {
    OWNER.store(threads::current_process(), Ordering::Relaxed);
}

/// Marking in steps has begun, or goes on. Under the lock.
pub fn stir() {
    WATCH.stir();
}

/// The process ends: from now on the lock is free unless a thread of the program's has it.
pub fn end() {
    // One that comes later ends at once.
    if WATCH.is_absent() || OWNER.load(Ordering::Relaxed) == threads::current_process() {
        WATCH.dismiss();
    }
}

/// In a forked child: the helper exists in the parent only.
pub fn forget_after_fork() {
    WATCH.forget_after_fork();
    crate::state::forget_waiting_after_fork();
}
