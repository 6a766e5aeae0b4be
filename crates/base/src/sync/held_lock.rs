//! `HeldLock`: a [`RawLock`] that knows which thread holds it, so that the holder can take it again.
//!
//! The idea: a thread that asks for a lock that it holds itself would wait for ever. Here it is told so, and the
//! caller decides: whether the inner section may go on under the outer one, or the process ends with a message.
//!
//! A thread that works under the lock in the background takes it with [`HeldLock::try_lock_to_yield`], and gives it back
//! as soon as others wait. These are counted, and spin for a while before they sleep, or give up if they only try.
//!
//! Invariants: `holder` is 0 or the number of the thread that holds the lock; only that thread writes its own number
//! and takes it away again, so a thread that reads its own number there holds the lock. `depth` belongs to the holder.
//! A thread's number is any nonzero word that no other living thread uses. `waiting` and `yields` are hints: whatever they
//! say, the lock decides. Any thread runs it.

use super::{AtomicBool, AtomicU32, AtomicUsize, Ordering, RawLock, spin_hint, spin_rounds};

/// Rounds of spinning for a lock whose holder is about to give it back: some tens of microseconds. A holder that takes longer
/// has lost its processor.
const PATIENCE: u32 = 1000;

/// See the module.
#[derive(Debug)]
pub struct HeldLock {
    lock: RawLock,
    /// Relaxed: a thread looks only for its own number, which it wrote itself.
    holder: AtomicUsize,
    /// Inner sections. Protected by `lock`.
    depth: AtomicU32,
    /// Threads that wait for the lock. Relaxed: a hint.
    waiting: AtomicU32,
    /// Whether the holder gives the lock back as soon as others wait. Relaxed: a hint.
    yields: AtomicBool,
}

impl Default for HeldLock {
    fn default() -> Self {
        Self::new()
    }
}

impl HeldLock {
    crate::sync_const_fn! {
        /// A free lock.
        pub fn new() -> Self {
            Self {
                lock: RawLock::new(),
                holder: AtomicUsize::new(0),
                depth: AtomicU32::new(0),
                waiting: AtomicU32::new(0),
                yields: AtomicBool::new(false),
            }
        }
    }

    /// Takes the lock for thread `own`, waiting for other threads. False if `own` holds it already; then nothing has
    /// changed.
    #[inline]
    pub fn lock(&self, own: usize) -> bool {
        if !self.lock.try_lock() {
            if self.is_held_by(own) {
                return false;
            }
            self.wait();
        }
        self.holder.store(own, Ordering::Relaxed);
        true
    }

    #[cold]
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut rounds = spin_rounds(PATIENCE);
        while rounds > 0 && self.yields.load(Ordering::Relaxed) {
            spin_hint();
            rounds -= 1;
        }
        self.lock.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the lock for thread `own` if nobody holds it, or one who yields gives it back at once.
    pub fn try_lock(&self, own: usize) -> bool {
        let taken = self.lock.try_lock() || self.yields.load(Ordering::Relaxed) && self.ask();
        if taken {
            self.holder.store(own, Ordering::Relaxed);
        }
        taken
    }

    /// Has a holder that yields give the lock back, and takes it if it does so soon.
    #[cold]
    fn ask(&self) -> bool {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut taken = self.lock.try_lock();
        let mut rounds = spin_rounds(PATIENCE);
        while !taken && rounds > 0 {
            spin_hint();
            taken = !self.lock.is_locked() && self.lock.try_lock();
            rounds -= 1;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        taken
    }

    /// Takes the lock for thread `own` if nobody holds it or waits for it. The holder looks at [`HeldLock::waiting`] often, and
    /// calls [`HeldLock::unlock_yielding`] as soon as that is not 0.
    pub fn try_lock_to_yield(&self, own: usize) -> bool {
        let taken = self.waiting.load(Ordering::Relaxed) == 0 && self.lock.try_lock();
        if taken {
            self.holder.store(own, Ordering::Relaxed);
            self.yields.store(true, Ordering::Relaxed);
        }
        taken
    }

    /// Gives a lock back that was taken with [`HeldLock::try_lock_to_yield`].
    pub fn unlock_yielding(&self) {
        self.yields.store(false, Ordering::Relaxed);
        self.unlock();
    }

    /// How many threads wait for the lock.
    pub fn waiting(&self) -> &AtomicU32 {
        &self.waiting
    }

    /// Whether the lock seems free, and nobody waits for it.
    pub fn is_unwanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0 && !self.lock.is_locked()
    }

    /// In a forked child: threads that waited exist in the parent only.
    pub fn forget_waiting_after_fork(&self) {
        self.waiting.store(0, Ordering::Relaxed);
    }

    /// Begins an inner section of the holder's; [`HeldLock::unlock`] ends it.
    pub fn enter_again(&self) {
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
    }

    /// Ends the innermost section; the outermost gives the lock back. Only the holder may call this.
    #[inline]
    pub fn unlock(&self) {
        let depth = self.depth.load(Ordering::Relaxed);
        if depth > 0 {
            self.depth.store(depth - 1, Ordering::Relaxed);
            return;
        }
        self.holder.store(0, Ordering::Relaxed);
        self.lock.unlock();
    }

    /// As [`RawLock::wake_all`].
    pub fn wake_all(&self) {
        self.lock.wake_all();
    }

    /// Whether the holder, which is the calling thread, is in an inner section.
    pub fn is_inner(&self) -> bool {
        self.depth.load(Ordering::Relaxed) > 0
    }

    /// Whether thread `own`, which is the calling one, holds the lock.
    #[inline]
    pub fn is_held_by(&self, own: usize) -> bool {
        self.holder.load(Ordering::Relaxed) == own
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::UnsafeCell;

    struct Counter {
        lock: HeldLock,
        value: UnsafeCell<u64>,
    }

    // SAFETY: the value is accessed under the lock only.
    unsafe impl Sync for Counter {}

    #[test]
    fn the_holder_is_told_and_may_enter_again() {
        let lock = HeldLock::new();
        assert!(lock.lock(7) && lock.is_held_by(7) && !lock.is_held_by(8));
        assert!(!lock.lock(7) && !lock.try_lock(7) && !lock.try_lock(8));
        lock.enter_again();
        assert!(lock.is_inner());
        lock.unlock();
        assert!(lock.is_held_by(7) && !lock.is_inner());
        lock.unlock();
        assert!(!lock.is_held_by(7) && lock.try_lock(8));
        lock.unlock();
    }

    #[test]
    fn a_holder_that_yields_gives_way_to_others() {
        let lock = HeldLock::new();
        assert!(lock.is_unwanted() && lock.try_lock_to_yield(7));
        assert!(lock.is_held_by(7) && !lock.is_unwanted() && !lock.try_lock_to_yield(8));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let taken = lock.lock(8);
                lock.unlock();
                taken
            });
            while lock.waiting().load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            lock.unlock_yielding();
            assert!(other.join().unwrap());
        });
        assert_eq!(lock.waiting().load(Ordering::Relaxed), 0);
        // One that only tries does not wait for it, if the holder has no processor.
        assert!(lock.try_lock_to_yield(7) && !lock.try_lock(8));
        assert_eq!(lock.waiting().load(Ordering::Relaxed), 0);
        lock.unlock_yielding();
        // Somebody waits, if only in a parent.
        lock.waiting().store(1, Ordering::Relaxed);
        assert!(!lock.is_unwanted() && !lock.try_lock_to_yield(7));
        lock.forget_waiting_after_fork();
        assert!(lock.is_unwanted() && lock.try_lock_to_yield(7));
        lock.unlock_yielding();
        assert!(!lock.yields.load(Ordering::Relaxed));
    }

    /// The holder gives way to one that tries, as to one that waits.
    #[test]
    fn a_holder_that_yields_hears_of_those_who_try() {
        let lock = HeldLock::new();
        assert!(lock.try_lock_to_yield(7));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let taken = (0..1_000_000).any(|_| lock.try_lock(8));
                if taken {
                    lock.unlock();
                }
                taken
            });
            while lock.waiting().load(Ordering::Relaxed) == 0 && !other.is_finished() {
                std::thread::yield_now();
            }
            lock.unlock_yielding();
            assert!(other.join().unwrap());
        });
        assert!(lock.is_unwanted());
    }

    #[test]
    fn sections_inside_sections_count_without_loss() {
        let counter = Counter {
            lock: HeldLock::new(),
            value: UnsafeCell::new(0),
        };
        let counter = &counter;
        let add = move |own| {
            if !counter.lock.lock(own) {
                counter.lock.enter_again();
            }
            // SAFETY: the lock is held.
            counter.value.with_mut(|value| unsafe { *value += 1 });
        };
        std::thread::scope(|scope| {
            for own in 1..=8 {
                scope.spawn(move || {
                    for _ in 0..5_000 {
                        add(own);
                        add(own);
                        counter.lock.unlock();
                        counter.lock.unlock();
                    }
                });
            }
        });
        // SAFETY: all threads that wrote have ended.
        assert_eq!(counter.value.with(|value| unsafe { *value }), 80_000);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::thread;
    use std::sync::Arc;

    struct Counter {
        lock: HeldLock,
        value: UnsafeCell<u64>,
    }

    // SAFETY: the value is accessed under the lock only; loom checks that.
    unsafe impl Sync for Counter {}

    fn bump_twice(counter: &Counter, own: usize) {
        assert!(
            counter.lock.lock(own),
            "nobody else's section is taken for ours"
        );
        // SAFETY: `bump_twice` holds `lock`, which protects the value.
        counter.value.with_mut(|value| unsafe { *value += 1 });
        assert!(!counter.lock.lock(own));
        counter.lock.enter_again();
        // SAFETY: `bump_twice` holds `lock`, taken a second time.
        counter.value.with_mut(|value| unsafe { *value += 1 });
        counter.lock.unlock();
        counter.lock.unlock();
    }

    #[test]
    fn inner_sections_belong_to_the_holder() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let counter = Arc::new(Counter {
                lock: HeldLock::new(),
                value: UnsafeCell::new(0),
            });
            let other = {
                let counter = counter.clone();
                thread::spawn(move || bump_twice(&counter, 2))
            };
            bump_twice(&counter, 1);
            other.join().unwrap();
            // SAFETY: the other thread has ended.
            assert_eq!(counter.value.with(|value| unsafe { *value }), 4);
        });
    }

    /// A thread works in the background in turns, each of which ends as soon as another wants the lock: it never waits, and
    /// nobody waits for ever.
    #[test]
    fn who_yields_shares_the_lock_with_those_who_want_it() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let counter = Arc::new(Counter {
                lock: HeldLock::new(),
                value: UnsafeCell::new(0),
            });
            let background = {
                let counter = counter.clone();
                thread::spawn(move || {
                    let mut done = 0;
                    for _ in 0..2 {
                        if !counter.lock.try_lock_to_yield(1) {
                            continue;
                        }
                        for _ in 0..2 {
                            // SAFETY: the lock is held.
                            counter.value.with_mut(|value| unsafe { *value += 1 });
                            done += 1;
                            if counter.lock.waiting().load(Ordering::Relaxed) > 0 {
                                break;
                            }
                        }
                        counter.lock.unlock_yielding();
                    }
                    done
                })
            };
            let tried = counter.lock.try_lock(2);
            if tried {
                // SAFETY: the lock is held.
                counter.value.with_mut(|value| unsafe { *value += 1 });
                counter.lock.unlock();
            }
            bump_twice(&counter, 2);
            let done = background.join().unwrap() + 2 + u64::from(tried);
            // SAFETY: the other thread has ended.
            assert_eq!(counter.value.with(|value| unsafe { *value }), done);
            assert!(counter.lock.is_unwanted());
        });
    }
}
