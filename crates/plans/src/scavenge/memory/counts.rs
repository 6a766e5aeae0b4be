//! Counts of objects by type.
//!
//! # Invariants
//! - The counts are touched by mutators inside the gate, with the lock, or in a stopped world, where nobody holds it.

use alloc::vec::Vec;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{RawLock, UnsafeCell};

/// Objects, and their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Count {
    /// How many.
    pub objects: u64,
    /// How many bytes they have together.
    pub bytes: u64,
}

impl Count {
    pub(in crate::scavenge) fn add(&mut self, bytes: usize) {
        self.objects += 1;
        self.bytes += bytes as u64;
    }
}

/// What there is of each type, by its number.
#[derive(Clone, Default, Debug)]
pub struct Census {
    /// What lives.
    pub live: Vec<Count>,
    /// What was allocated since the heap was made; empty without option `count-types`.
    pub allocated: Vec<Count>,
}

/// What was allocated of each type.
pub(in crate::scavenge) struct ByType {
    lock: RawLock,
    counts: UnsafeCell<Vec<Count>>,
}

impl ByType {
    pub(in crate::scavenge) fn new() -> ByType {
        ByType {
            lock: RawLock::new(),
            counts: UnsafeCell::new(Vec::new()),
        }
    }

    /// Lends the counts to a mutator inside the gate. `body` does not come here again.
    pub(in crate::scavenge) fn with<R>(&self, body: impl FnOnce(&mut Vec<Count>) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held, and in a stopped world no mutator is here.
        let result = self.counts.with_mut(|counts| body(unsafe { &mut *counts }));
        self.lock.unlock();
        result
    }

    /// The same in a stopped world, where no mutator is inside the gate.
    pub(in crate::scavenge) fn stopped(
        &self,
        _: &WorldStopped<'_>,
        body: impl FnOnce(&mut [Count]),
    ) {
        // SAFETY: the world is stopped, so no mutator has the counts, and `body` has the only reference.
        self.counts.with_mut(|counts| body(unsafe { &mut *counts }));
    }
}
