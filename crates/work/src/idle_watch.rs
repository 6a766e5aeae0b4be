//! A thread that watches for idle time: it looks from time to time, rests when nothing is left to be done, and is woken by those
//! whom it watches. The helper that marks beside a program is another such thread: it watches for cycles that begin.
//!
//! # Invariants
//! - The watcher begins to rest under the lock that those whom it watches hold while they do what it looks for, and only after it has
//!   looked under that lock. They call [`IdleWatch::stir`] there, behind what they did. So either the watcher sees what they did, or
//!   they see that it rests: no wake-up is lost.
//! - The watcher is inside while it tries the lock, for which it does not wait, and while it has it. Who has dismissed it meets it
//!   there no more.
//! - There is one watcher at a time: a thread starts it if it has claimed the word that said that there was none.

use gleaner_base::sync::{
    AtomicBool, AtomicU32, Gate, Ordering, futex_wait, futex_wait_timeout, futex_wake,
};

const ABSENT: u32 = 0;
const AWAKE: u32 = 1;
const RESTING: u32 = 2;

/// What the watcher and those whom it watches share.
#[derive(Debug)]
pub struct IdleWatch {
    /// `ABSENT`, `AWAKE` or `RESTING`. Claimed by compare-and-swap; later changed under the lock only, so the lock orders it.
    word: AtomicU32,
    /// Passed by the watcher; closed for good when it is dismissed.
    inside: Gate,
    /// Whether that was done. Relaxed: the gate orders what matters.
    dismissed: AtomicBool,
}

impl Default for IdleWatch {
    fn default() -> Self {
        Self::new()
    }
}

impl IdleWatch {
    gleaner_base::sync_const_fn! {
        /// Without a watcher.
        pub fn new() -> Self {
            Self {
                word: AtomicU32::new(ABSENT),
                inside: Gate::new(),
                dismissed: AtomicBool::new(false),
            }
        }
    }

    /// Whether there is no watcher.
    #[inline]
    pub fn is_absent(&self) -> bool {
        // Relaxed: who starts one claims the word.
        self.word.load(Ordering::Relaxed) == ABSENT
    }

    /// Whether the calling thread is to start the watcher.
    pub fn claim(&self) -> bool {
        // Relaxed: starting the thread orders what it reads.
        self.word
            .compare_exchange(ABSENT, AWAKE, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// The watcher could not be started.
    pub fn abandon(&self) {
        self.word.store(ABSENT, Ordering::Relaxed);
    }

    /// Watcher: goes inside, to look under the lock; false if it was dismissed.
    pub fn enter(&self) -> bool {
        self.inside.try_enter()
    }

    /// Watcher: leaves, without the lock.
    pub fn leave(&self) {
        self.inside.leave();
    }

    /// Watcher, under the lock: it is going to rest, since nothing was done that it has not seen.
    pub fn begin_to_rest(&self) {
        self.word.store(RESTING, Ordering::Relaxed);
    }

    /// Watcher: rests until somebody stirs it. Without the lock.
    pub fn rest(&self) {
        // Relaxed: what was done is seen under the lock.
        while self.word.load(Ordering::Relaxed) == RESTING {
            futex_wait(&self.word, RESTING);
        }
    }

    /// Watcher: sleeps for this time, awake. Without the lock.
    pub fn sleep(&self, nanoseconds: u64) {
        futex_wait_timeout(&self.word, AWAKE, nanoseconds);
    }

    /// Under the lock: something was done for which the watcher looks.
    #[inline]
    pub fn stir(&self) {
        if self.word.load(Ordering::Relaxed) == RESTING {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.word.store(AWAKE, Ordering::Relaxed);
        futex_wake(&self.word, 1);
    }

    /// Has the watcher stay outside from now on, and waits until it is there; a second time does nothing.
    pub fn dismiss(&self) {
        if !self.dismissed.swap(true, Ordering::Relaxed) {
            self.inside.close();
        }
    }

    /// In a forked child: the watcher exists in the parent only.
    pub fn forget_after_fork(&self) {
        self.word.store(ABSENT, Ordering::Relaxed);
        self.dismissed.store(false, Ordering::Relaxed);
        self.inside.open();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thread_starts_the_watcher_until_it_is_gone() {
        let watch = IdleWatch::new();
        assert!(watch.is_absent() && watch.claim() && !watch.claim());
        watch.abandon();
        assert!(watch.claim() && !watch.is_absent());
        assert!(watch.enter());
        watch.leave();
        watch.dismiss();
        watch.dismiss();
        assert!(!watch.enter());
        watch.forget_after_fork();
        assert!(watch.is_absent() && watch.enter() && watch.claim());
    }

    #[test]
    fn nobody_rests_who_was_stirred() {
        let watch = IdleWatch::new();
        assert!(watch.claim());
        watch.begin_to_rest();
        watch.stir();
        watch.rest();
        // A watcher that is awake needs no wake-up.
        watch.stir();
        watch.sleep(1);
        assert_eq!(watch.word.load(Ordering::Relaxed), AWAKE);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use gleaner_base::sync::{RawLock, UnsafeCell};
    use loom::thread;
    use std::sync::Arc;

    /// What is watched: how often something was done, under the lock.
    struct Watched {
        watch: IdleWatch,
        lock: RawLock,
        done: UnsafeCell<u32>,
    }

    // SAFETY: the number is accessed under the lock only; loom checks that.
    unsafe impl Sync for Watched {}

    impl Watched {
        /// The number, under the lock, and what `then` does there.
        fn look(&self, then: impl FnOnce(u32)) -> u32 {
            self.lock.lock();
            // SAFETY: the lock is held.
            let done = self.done.with(|done| unsafe { *done });
            then(done);
            self.lock.unlock();
            done
        }

        fn work(&self) {
            self.lock.lock();
            // SAFETY: the lock is held.
            self.done.with_mut(|done| unsafe { *done += 1 });
            self.watch.stir();
            self.lock.unlock();
        }
    }

    fn check(body: impl Fn(Arc<Watched>) + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            body(Arc::new(Watched {
                watch: IdleWatch::new(),
                lock: RawLock::new(),
                done: UnsafeCell::new(0),
            }));
        });
    }

    /// A watcher that slept through what was done would never end.
    #[test]
    fn the_watcher_sees_what_was_done_or_is_woken_for_it() {
        check(|watched| {
            assert!(watched.watch.claim());
            let other = {
                let watched = watched.clone();
                thread::spawn(move || {
                    watched.work();
                    watched.work();
                })
            };
            let mut seen = 0;
            while seen < 2 {
                let before = seen;
                seen = watched.look(|done| {
                    if done == before {
                        watched.watch.begin_to_rest();
                    }
                });
                if seen == before {
                    watched.watch.rest();
                }
            }
            other.join().unwrap();
        });
    }

    /// Two threads want a watcher, and the system refuses the first one: in the end there is one, and never two.
    #[test]
    fn there_is_one_watcher_though_two_threads_want_it_and_one_is_refused() {
        check(|watched| {
            let refuses = Arc::new(AtomicBool::new(true));
            let want = {
                let (watched, refuses) = (watched.clone(), refuses.clone());
                move || {
                    let watch = &watched.watch;
                    if !watch.claim() {
                        return false;
                    }
                    let is_refused = refuses.swap(false, Ordering::Relaxed);
                    if is_refused {
                        watch.abandon();
                    }
                    !is_refused
                }
            };
            let other = thread::spawn(want.clone());
            let made = want();
            let others = other.join().unwrap();
            assert!(!(made && others), "two watchers");
            assert_eq!(made || others, !watched.watch.is_absent());
            // Who finds none later makes it.
            assert_eq!(want(), !made && !others);
            assert!(!watched.watch.is_absent());
        });
    }

    /// The whole life of a watcher: it rests as often as it sees nothing new, and ends when it is dismissed, at the latest when somebody
    /// stirs it. Nobody waits for one that rests.
    #[test]
    fn a_watcher_that_was_dismissed_while_it_rests_ends() {
        check(|watched| {
            assert!(watched.watch.claim());
            let watcher = {
                let watched = watched.clone();
                thread::spawn(move || {
                    let mut seen = 0;
                    while watched.watch.enter() {
                        let before = seen;
                        seen = watched.look(|done| {
                            if done == before {
                                watched.watch.begin_to_rest();
                            }
                        });
                        watched.watch.leave();
                        if seen == before {
                            watched.watch.rest();
                        }
                    }
                })
            };
            watched.work();
            watched.watch.dismiss();
            // SAFETY: the watcher stays outside, and nobody else looks.
            watched.done.with_mut(|done| unsafe { *done += 1 });
            watched.work();
            watcher.join().unwrap();
        });
    }

    #[test]
    fn a_watcher_that_was_dismissed_is_met_inside_no_more() {
        check(|watched| {
            assert!(watched.watch.claim());
            let watcher = {
                let watched = watched.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        if !watched.watch.enter() {
                            return;
                        }
                        watched.look(|_| {});
                        watched.watch.leave();
                    }
                })
            };
            watched.watch.dismiss();
            // SAFETY: the watcher stays outside, and nobody else looks.
            watched.done.with_mut(|done| unsafe { *done += 1 });
            watcher.join().unwrap();
        });
    }
}
