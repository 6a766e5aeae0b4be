//! `RawLock`: a mutex of one futex word, without a guard.
//!
//! The idea: the word says free, locked, or locked with sleepers; only the last needs a system
//! call on unlock. There is no guard on purpose: a frame that calls client code must hold nothing
//! whose drop `pthread_exit`, `longjmp` or a foreign exception would skip, so locking and
//! unlocking are plain statements.
//!
//! Invariants: a thread that sleeps has first made the word `CONTENDED`, and one that leaves a
//! `CONTENDED` word wakes one sleeper. A woken thread takes the lock as `CONTENDED`, because it
//! cannot know whether others still sleep. Not recursive. Any thread runs it, also in a signal
//! handler as long as the interrupted thread does not hold the lock.

use super::{AtomicU32, Ordering, futex_wait, futex_wake, spin_hint, spin_rounds};

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// Rounds of spinning before a thread sleeps: about the time of one system call, so that a short
/// critical section on another core is outwaited at no more than double its cost.
const SPIN: u32 = 100;

/// A futex mutex without a guard.
#[derive(Debug)]
pub struct RawLock {
    /// `FREE`, `LOCKED` or `CONTENDED`. Taken with Acquire, left with Release: the two partner,
    /// so that a holder sees what the holders before it wrote.
    word: AtomicU32,
}

impl Default for RawLock {
    fn default() -> Self {
        Self::new()
    }
}

impl RawLock {
    crate::sync_const_fn! {
        /// A free lock.
        pub fn new() -> Self {
            Self { word: AtomicU32::new(FREE) }
        }
    }

    /// Takes the lock, waiting as long as another thread holds it.
    #[inline]
    pub fn lock(&self) {
        if !self.try_lock() {
            self.lock_slowly();
        }
    }

    /// As [`RawLock::lock`], for a caller that may have to do something else first: it looks whether it `gives_up`
    /// before it sleeps, and when it was woken. Whether it has the lock.
    pub fn lock_unless(&self, gives_up: impl Fn() -> bool) -> bool {
        if self.try_lock() || self.spin() {
            return true;
        }
        // Acquire partners the Release in `unlock`.
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            if gives_up() {
                return false;
            }
            futex_wait(&self.word, CONTENDED);
        }
        true
    }

    /// Has all who sleep here look whether they give up, or whether the lock is free. One that is about to sleep may
    /// miss it.
    pub fn wake_all(&self) {
        futex_wake(&self.word, u32::MAX >> 1);
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        // Acquire partners the Release in `unlock`. On failure nothing is read.
        self.word
            .compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives the lock back. Only its holder may call this.
    #[inline]
    pub fn unlock(&self) {
        // Release partners the Acquire of the next holder.
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            futex_wake(&self.word, 1);
        }
    }

    /// Whether some thread holds the lock at this moment (for assertions and statistics).
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    /// Makes the lock free, whichever thread held it. Only for a forked child, which has one thread: the
    /// holder may be a thread that does not exist here.
    pub fn reset_after_fork(&self) {
        self.word.store(FREE, Ordering::Relaxed);
    }

    #[cold]
    fn lock_slowly(&self) {
        self.lock_unless(|| false);
    }

    /// Waits for the lock without sleeping; whether that was enough.
    fn spin(&self) -> bool {
        for _ in 0..spin_rounds(SPIN) {
            if self.word.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return true;
            }
            spin_hint();
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::UnsafeCell;
    use std::sync::Arc;
    use std::thread;

    struct Counter {
        lock: RawLock,
        value: UnsafeCell<u64>,
    }

    // SAFETY: the value is accessed under the lock only.
    unsafe impl Sync for Counter {}

    #[test]
    fn sixteen_threads_count_without_loss() {
        let counter = Arc::new(Counter {
            lock: RawLock::new(),
            value: UnsafeCell::new(0),
        });
        let threads: Vec<_> = (0..16)
            .map(|_| {
                let counter = counter.clone();
                thread::spawn(move || {
                    for _ in 0..5_000 {
                        counter.lock.lock();
                        // SAFETY: the lock is held.
                        counter.value.with_mut(|value| unsafe { *value += 1 });
                        counter.lock.unlock();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // SAFETY: all threads that wrote are joined.
        assert_eq!(counter.value.with(|value| unsafe { *value }), 80_000);
        assert!(!counter.lock.is_locked());
    }

    #[test]
    fn a_sleeper_gives_up_when_it_is_told_to() {
        use std::sync::atomic::AtomicBool;

        let (lock, over) = (RawLock::new(), AtomicBool::new(false));
        let gives_up = || over.load(Ordering::Relaxed);
        assert!(lock.lock_unless(gives_up));
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| lock.lock_unless(gives_up));
            over.store(true, Ordering::Relaxed);
            while !sleeper.is_finished() {
                lock.wake_all();
                thread::yield_now();
            }
            assert!(!sleeper.join().unwrap());
        });
        lock.unlock();
        assert!(lock.lock_unless(gives_up), "it was free");
    }

    #[test]
    fn try_lock_fails_on_a_held_lock_and_a_reset_frees_it() {
        let lock = RawLock::new();
        assert!(lock.try_lock());
        assert!(!lock.try_lock());
        assert!(lock.is_locked());
        lock.reset_after_fork();
        assert!(lock.try_lock());
        lock.unlock();
        assert!(!lock.is_locked());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::thread;
    use std::sync::Arc;

    struct Counter {
        lock: RawLock,
        value: UnsafeCell<u64>,
    }

    // SAFETY: the value is accessed under the lock only; loom checks that.
    unsafe impl Sync for Counter {}

    fn bump(counter: &Counter) {
        counter.lock.lock();
        // SAFETY: the lock is held.
        counter.value.with_mut(|value| unsafe { *value += 1 });
        counter.lock.unlock();
    }

    #[test]
    fn no_two_holders_and_no_lost_wake() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let counter = Arc::new(Counter {
                lock: RawLock::new(),
                value: UnsafeCell::new(0),
            });
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let counter = counter.clone();
                    thread::spawn(move || bump(&counter))
                })
                .collect();
            bump(&counter);
            for other in others {
                other.join().unwrap();
            }
            // SAFETY: all threads that wrote are joined.
            assert_eq!(counter.value.with(|value| unsafe { *value }), 3);
        });
    }
}
