//! A value behind a lock that a thread may hold over a fork: it is taken before, and given back on both sides.
//!
//! # Invariants
//! - The value is touched by the holder of the lock alone.
//! - A thread that holds one of these locks waits for no other thread, except where the lock's own comment says so.

use std::cell::UnsafeCell;

use gleaner_base::sync::RawLock;

/// The value, and its lock.
pub(crate) struct Guarded<T> {
    lock: RawLock,
    /// Protected by `lock`.
    value: UnsafeCell<T>,
}

// SAFETY: the value is lent to the holder of the lock alone, on whatever thread.
unsafe impl<T: Send> Sync for Guarded<T> {}

/// Gives the lock back, also when a panic passes by.
struct Held<'a>(&'a RawLock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Guarded<T> {
        Guarded {
            lock: RawLock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Lends the value. `body` does not come here again.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.lock.lock();
        let _held = Held(&self.lock);
        // SAFETY: the lock is held, and given back when the reference is gone.
        body(unsafe { &mut *self.value.get() })
    }

    /// Takes the lock until [`Guarded::unlock`].
    pub(crate) fn lock(&self) {
        self.lock.lock();
    }

    /// Gives back what [`Guarded::lock`] took: in the same process, or in a child of it.
    pub(crate) fn unlock(&self) {
        self.lock.unlock();
    }

    /// Lends the value to the thread that has taken the lock by [`Guarded::lock`].
    ///
    /// # Safety
    /// The calling thread has it, and no other reference to the value exists.
    #[allow(
        clippy::mut_from_ref,
        reason = "the lock makes the reference the only one"
    )]
    pub(crate) unsafe fn held(&self) -> &mut T {
        // SAFETY: the calling thread has the lock and no other reference, as the caller promises.
        unsafe { &mut *self.value.get() }
    }
}
