//! What is known of new objects in the old space: how much was taken, where a mutator takes pieces, and how the heap grows.

use core::cell::Cell;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicBool, AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_spaces::precise::bump::LocalBuffer;

/// How much is allocated between two collections. Relaxed: numbers to compare with, no more.
pub struct InPlace {
    /// Whether new objects lie in the old space now. Written in stopped worlds.
    used: AtomicBool,
    /// Bytes of the pieces that were taken since the last collection.
    taken: AtomicUsize,
    /// How many there may be. Written in stopped worlds.
    most: AtomicUsize,
}

impl InPlace {
    /// Nothing was taken, and `most` bytes may be. Whether new objects lie in the old space from the start, is `used`.
    pub fn new(most: usize, used: bool) -> InPlace {
        InPlace {
            used: AtomicBool::new(used),
            taken: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
        }
    }

    /// Whether new objects lie in the old space now.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// New objects lie in the old space from now on, or not any more.
    pub(super) fn set_used(&self, _: &mut WorldStopped<'_>, used: bool) {
        self.used.store(used, Ordering::Relaxed);
    }

    /// Bytes that were taken since the last collection.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether a collection comes before another piece, if young objects take so many bytes beside the old space. Not before the
    /// first.
    pub(super) fn is_due(&self, beside: usize) -> bool {
        let taken = self.taken();
        taken > 0 && taken + beside >= self.most.load(Ordering::Relaxed)
    }

    /// A piece of so many bytes was taken.
    pub(super) fn note_taken(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A collection is over: so many bytes may be taken until the next one.
    pub(super) fn begin(&self, most: usize) {
        self.taken.store(0, Ordering::Relaxed);
        self.most.store(most, Ordering::Relaxed);
    }
}

/// Where a mutator gets the pieces in which it allocates: its block, and a second one for objects that do not fit into the
/// hole that it fills.
#[derive(Debug, Default)]
pub struct Blocks {
    /// The rest of the block whose holes are filled one after the other, behind the present one; or an empty range.
    pub(super) rest: Cell<(Address, Address)>,
    /// A hole of the second block.
    pub(super) overflow: LocalBuffer,
    /// What lies behind it in that block.
    pub(super) overflow_rest: Cell<(Address, Address)>,
}

impl Blocks {
    /// Gives both blocks up, and fills what is left of the hole in the second.
    ///
    /// # Safety
    /// They are the calling thread's, or their owner is stopped.
    pub unsafe fn retire(&self) {
        self.rest.take();
        self.overflow_rest.take();
        // SAFETY: the hole is the calling thread's, or its owner is stopped, as asked.
        unsafe { self.overflow.retire() };
    }
}

/// What is remembered from one collection to the next.
#[derive(Clone, Copy, Debug)]
pub(in crate::scavenge) struct Growth {
    /// What all spaces held, holes left out.
    pub(super) filled: usize,
    /// How many collections of new objects in a row gave little back.
    pub(super) poor: u32,
    /// What lived of the new objects that the last collection of them found, in thousandths of what was handed out for them.
    pub(super) survival: usize,
    /// Bytes of the object that a mutator waits to allocate; 0 if none does.
    pub(in crate::scavenge) asked: usize,
    /// Bytes that it waits for outside of the young generation.
    pub(in crate::scavenge) needed: usize,
}

impl Growth {
    /// Nothing was collected.
    pub(in crate::scavenge) const NEW: Growth = Growth {
        filled: 0,
        poor: 0,
        survival: 1000,
        asked: 0,
        needed: 0,
    };

    /// Of `taken` bytes that were handed out `lived` hold something that a collection of new objects has reached.
    pub(super) fn note_survival(&mut self, lived: usize, taken: usize) {
        if let Some(survival) = lived.saturating_mul(1000).checked_div(taken) {
            self.survival = survival.min(1000);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_due_when_what_may_be_was_taken_and_never_before_the_first_piece() {
        let pieces = InPlace::new(1000, true);
        assert!(!pieces.is_due(0));
        assert!(
            !pieces.is_due(5000),
            "nothing would be collected but large objects"
        );
        pieces.note_taken(999);
        assert!(!pieces.is_due(0) && pieces.is_due(1));
        pieces.note_taken(1);
        assert!(pieces.is_due(0) && pieces.taken() == 1000);
        pieces.begin(0);
        assert!(!pieces.is_due(0));
        pieces.note_taken(8);
        assert!(pieces.is_due(0));
    }
}
