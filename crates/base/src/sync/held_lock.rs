//! `HeldLock`: a [`RawLock`] that knows which thread holds it, so that the holder can take it again.
//!
//! The idea: a thread that asks for a lock that it holds itself would wait for ever. Here it is told so, and the
//! caller decides: whether the inner section may go on under the outer one, or the process ends with a message.
//!
//! Invariants: `holder` is 0 or the number of the thread that holds the lock; only that thread writes its own number
//! and takes it away again, so a thread that reads its own number there holds the lock. `depth` belongs to the holder.
//! A thread's number is any nonzero word that no other living thread uses. Any thread runs it.

use super::{AtomicU32, AtomicUsize, Ordering, RawLock};

/// See the module.
#[derive(Debug)]
pub struct HeldLock {
    lock: RawLock,
    /// Relaxed: a thread looks only for its own number, which it wrote itself.
    holder: AtomicUsize,
    /// Inner sections. Protected by `lock`.
    depth: AtomicU32,
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
            Self { lock: RawLock::new(), holder: AtomicUsize::new(0), depth: AtomicU32::new(0) }
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
            self.lock.lock();
        }
        self.holder.store(own, Ordering::Relaxed);
        true
    }

    /// Takes the lock for thread `own` if nobody holds it.
    pub fn try_lock(&self, own: usize) -> bool {
        let taken = self.lock.try_lock();
        if taken {
            self.holder.store(own, Ordering::Relaxed);
        }
        taken
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
}
