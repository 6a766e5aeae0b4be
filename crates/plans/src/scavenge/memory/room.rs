//! Memory for what is about to be used, within the limit (I7): what is free elsewhere goes back to the system before.
//!
//! Which memory that is, and how much at once, is decided by [`decide::giving_back`](crate::scavenge::decide::giving_back).
//! What is about to be used comes first from memory that the old space holds already: from vacant blocks that hold some, and
//! from what is above the top, but for blocks without memory, which are taken between the two. So the highest goes back first.

use gleaner_base::contexts::AllocatorLocked;
use gleaner_base::sync::Ordering;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::memory;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use crate::scavenge::Scavenge;
use crate::scavenge::decide::giving_back::{self, Part};

/// Memory of the old space that nobody uses and that may go back, in bytes.
#[derive(Clone, Copy)]
struct Spare {
    /// Above its top.
    above: usize,
    /// Of vacant blocks.
    vacant: usize,
}

impl<F: SlotFormat> Scavenge<F> {
    /// Gives memory back that no object of the spaces with a common limit uses, as far as `bytes` more would exceed it.
    pub(in crate::scavenge) fn make_resident_room(
        &self,
        locked: &mut AllocatorLocked<'_>,
        bytes: usize,
    ) {
        let spare = self.held_by_old();
        self.make_room(locked, bytes, spare);
    }

    /// The same for `bytes` more of the old space, which come first from what it holds.
    pub(in crate::scavenge) fn make_old_room(
        &self,
        locked: &mut AllocatorLocked<'_>,
        bytes: usize,
    ) {
        let held = self.held_by_old();
        let released = self.lines().map_or(0, MarkRegion::released_bytes);
        let from_vacant = bytes.min(held.vacant);
        let from_released = (bytes - from_vacant).min(released);
        let from_above = (bytes - from_vacant - from_released).min(held.above);
        let spare = Spare {
            above: held.above - from_above,
            vacant: held
                .vacant
                .saturating_sub(bytes.next_multiple_of(BLOCK_BYTES)),
        };
        self.make_room(locked, bytes - from_vacant - from_above, spare);
    }

    /// Memory of the old space that nobody uses.
    fn held_by_old(&self) -> Spare {
        Spare {
            above: self.old_reached().offset_from(self.old.region.top()),
            vacant: self.lines().map_or(0, MarkRegion::held_vacant_bytes),
        }
    }

    /// As [`Scavenge::make_resident_room`]; of the old space no more than is `spare`.
    fn make_room(&self, locked: &mut AllocatorLocked<'_>, bytes: usize, spare: Spare) {
        let limit = self.old_limit.load(Ordering::Relaxed);
        let excess = || {
            let resident = self.old_resident() + self.beside_resident();
            (resident + bytes).saturating_sub(limit)
        };
        let most = excess();
        if most == 0 {
            return;
        }
        let (used, beside) = (self.old_space_used(), self.beside_used());
        let old = Part {
            free: spare.above + spare.vacant,
            needed: self.needed.old().saturating_sub(used),
        };
        let others = Part {
            free: self.beside_resident().saturating_sub(beside),
            needed: self.needed.beside().saturating_sub(beside),
        };
        let decided = giving_back::decide(most, old, others);
        let released = self.release_old(locked, decided.old, spare);
        self.release_beside(locked, decided.beside);
        // The system may refuse some, and what was counted as free may be in use by now.
        let left = excess();
        if left > 0 {
            let spare = Spare {
                above: spare.above.saturating_sub(released),
                ..spare
            };
            let left = left.saturating_sub(self.release_old(locked, left, spare));
            self.release_beside(locked, left);
        }
    }

    /// Gives as many bytes of the old space back, or all that is spare: above the top first. How many did.
    fn release_old(&self, locked: &mut AllocatorLocked<'_>, bytes: usize, spare: Spare) -> usize {
        let above = bytes.min(spare.above);
        let mut released = 0;
        if above > 0 {
            let reached = self.old_reached();
            let low = reached.sub(above).align_down(memory::page_size());
            released = self.release_old_above(low.max(reached.sub(spare.above)));
        }
        let left = bytes.saturating_sub(released).min(spare.vacant);
        released + self.release_vacant(locked, left)
    }
}
