//! What collections lately found in use: memory that is needed again soon.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicUsize, Ordering};

use crate::scavenge::state::Lately;

/// The most that was used lately when a collection began, in bytes. Written in stopped worlds; relaxed, since they are numbers
/// to compare with, no more.
#[derive(Default)]
pub struct Needed {
    old: AtomicUsize,
    beside: AtomicUsize,
}

impl Needed {
    /// A collection is over.
    pub(in crate::scavenge) fn set(&self, _: &mut WorldStopped<'_>, lately: &Lately) {
        self.old.store(lately.most_old, Ordering::Relaxed);
        self.beside.store(lately.most_beside, Ordering::Relaxed);
    }

    /// Of the old space.
    pub(super) fn old(&self) -> usize {
        self.old.load(Ordering::Relaxed)
    }

    /// Of the spaces beside it that share its limit.
    pub(super) fn beside(&self) -> usize {
        self.beside.load(Ordering::Relaxed)
    }
}
