//! The lock for allocation beside the TLABs: in the pinned space, the large space and that of arraylets.
//!
//! Held by a mutator inside the gate, which collects nothing meanwhile, or by a worker that reserves more. While the world
//! is stopped nobody needs it between phases.

use gleaner_base::contexts::AllocatorLocked;
use gleaner_base::sync::{RawLock, UnsafeCell};
use gleaner_spaces::precise::tenured::BlockBuffer;

/// The lock, and what it protects beside these spaces.
pub struct Beside {
    lock: RawLock,
    /// Where the pinned space is filled.
    pinned_buffer: UnsafeCell<BlockBuffer>,
}

impl Beside {
    /// Nobody holds it.
    pub fn new() -> Beside {
        Beside {
            lock: RawLock::new(),
            pinned_buffer: UnsafeCell::new(BlockBuffer::default()),
        }
    }

    /// Runs `body` with the lock.
    ///
    /// # Safety
    /// The caller is a mutator inside the gate, or a worker of a phase, and has no proof for the allocator of this heap:
    /// the only one is the body's, which gives it to parts of this heap alone.
    pub unsafe fn with<R>(&self, body: impl FnOnce(&mut AllocatorLocked<'_>) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock was taken, and is held until the body is over; the caller has no other proof, as it promises.
        let result = body(&mut unsafe { AllocatorLocked::begin() });
        self.lock.unlock();
        result
    }

    /// Where the pinned space is filled.
    #[allow(
        clippy::mut_from_ref,
        reason = "who has borrowed the lock has what it protects"
    )]
    pub fn pinned_buffer<'a>(&'a self, _: &'a mut AllocatorLocked<'_>) -> &'a mut BlockBuffer {
        // SAFETY: the lock protects the buffer, and is borrowed for as long as this reference is.
        self.pinned_buffer
            .with_mut(|buffer| unsafe { &mut *buffer })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_lock_protects_is_lent_while_it_is_held_alone() {
        let beside = Beside::new();
        let look = |locked: &mut AllocatorLocked<'_>| {
            beside.pinned_buffer(locked);
            beside.lock.is_locked()
        };
        // SAFETY: there is only this thread.
        let is_held = unsafe { beside.with(look) };
        assert!(is_held && !beside.lock.is_locked());
    }
}
