//! The young generation in place (`nursery=in-place`): new objects lie in free lines and free blocks of the old space, and
//! those that live stay there (sticky mark bits; Demers and others, POPL 1990; on lines, sticky Immix, PLDI 2008).
//!
//! What is old is said by a mark, not by an address: the start bit of an object in the table of objects. A new object of the
//! old space has none. A collection of new objects ([`trace`]) begins at roots and dirty cards, sets the start bit of each new
//! object that it reaches, and marks its lines. It then sweeps the blocks that had an owner ([`collect`]). Nothing is copied,
//! so there is nothing for which room could lack. All that was reached is old from then on, so no card is dirty afterwards,
//! and old objects on clean cards are not looked at. A collection of everything is that of `old=mark-region`, which may
//! evacuate, or slides; when there is one, [`decide::in_place`](crate::scavenge::decide::in_place) says.
//!
//! Where "young" was an address, and what says it here:
//!
//! - `Scavenge::is_young`: a new object of the old space has no start bit. Large objects are young by their byte, as before;
//!   pinned ones and constants are never young.
//! - The barrier dirties the card of every slot that is stored to, also those of new objects. A card whose lines were all
//!   handed out since the last collection is left out: nothing old lies there.
//! - Walks find old objects by their start bits, and new ones piece by piece: the lines of a piece say where it begins. Each
//!   piece ends with a filler when its owner gives it up.
//! - A collection is due when so many bytes of pieces were taken as the [`InPlace`] allows, not when eden is full.
//! - Eden and the survivor spaces are there and have no bytes.
//!
//! # Invariants
//! - In the old space: an object has a start bit, or lies in a piece that was handed out since the last collection.
//! - A piece has one owner. Mutators give theirs up before a collection, and before a walk.

pub mod allocate;
mod collect;
mod sizes;
mod trace;

use core::cell::Cell;

use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_spaces::precise::bump::LocalBuffer;

pub(super) use sizes::Growth;

/// How much is allocated between two collections. Relaxed: numbers to compare with, no more.
pub struct InPlace {
    /// Bytes of the pieces that were taken since the last collection.
    taken: AtomicUsize,
    /// How many there may be. Written in stopped worlds.
    most: AtomicUsize,
}

impl InPlace {
    /// Nothing was taken, and `most` bytes may be.
    pub fn new(most: usize) -> InPlace {
        InPlace {
            taken: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
        }
    }

    /// Bytes that were taken since the last collection.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether a collection comes before another piece. Not before the first.
    fn is_due(&self) -> bool {
        let taken = self.taken();
        taken > 0 && taken >= self.most.load(Ordering::Relaxed)
    }

    /// A piece of so many bytes was taken.
    fn note_taken(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A collection is over: so many bytes may be taken until the next one.
    fn begin(&self, most: usize) {
        self.taken.store(0, Ordering::Relaxed);
        self.most.store(most, Ordering::Relaxed);
    }
}

/// Where a mutator gets the pieces in which it allocates: its block, and a second one for objects that do not fit into the
/// hole that it fills.
#[derive(Debug, Default)]
pub struct Blocks {
    /// The rest of the block whose holes are filled one after the other, behind the present one; or an empty range.
    rest: Cell<(Address, Address)>,
    /// A hole of the second block.
    overflow: LocalBuffer,
    /// What lies behind it in that block.
    overflow_rest: Cell<(Address, Address)>,
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_due_when_what_may_be_was_taken_and_never_before_the_first_piece() {
        let pieces = InPlace::new(1000);
        assert!(!pieces.is_due());
        pieces.note_taken(999);
        assert!(!pieces.is_due());
        pieces.note_taken(1);
        assert!(pieces.is_due() && pieces.taken() == 1000);
        pieces.begin(0);
        assert!(!pieces.is_due());
        pieces.note_taken(8);
        assert!(pieces.is_due());
    }
}
