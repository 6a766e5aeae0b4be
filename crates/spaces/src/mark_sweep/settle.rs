//! Blocks that wait to be swept when a cycle of marking in steps begins (ISMM 2000, sections 5 and 6).
//!
//! Marks tell a sweep which cells are dead. A cycle clears them, or adds to them, and until it ends they do not tell that
//! any more. So the sweep would have to be finished before a cycle begins, or what is dead in these blocks would be lost
//! to allocators meanwhile. Instead it is *settled*: in the stop in which the cycle begins, dead cells get the mark
//! `FREE`. No marker greys such a cell, whatever looks like a reference to it. The block stays in its queue, and
//! allocators sweep it when they need its cells, cycle or not.
//!
//! That is done for kinds whose free cells bear no mark otherwise. Blocks of others are taken back, as before any other
//! collection: a disclaim procedure has had them swept, or they have uncollectable objects.
//!
//! A single block is settled where the program takes away the mark of one of its objects.
//!
//! # Invariants
//! - A settled block is queued. Its dead cells, and no others, are `FREE`.
//! - A block of a kind without marks for free cells that is not settled has no cell with that mark.
//! - An object that was marked before a cell stopped being settled may hold a stale word that leads there: what was handed out at
//!   that place is not found through it, and need not be. The verifier knows since when cells are no longer settled.
//!
//! Runs under the allocator lock: in the stopped world, but for what a sweep does.

use core::slice;
use core::sync::atomic::{AtomicU8, Ordering};

use super::marks::{FREE, WHITE};
use super::space::{MarkSweep, SweepQueue};
use crate::mark_sweep::block::{BlockIndex, NO_BLOCK, QUEUED, Resolved, SETTLED, SWEPT, State};
use crate::mark_sweep::kinds::{Kind, MAX_KINDS};
use crate::mark_sweep::size_classes::CLASSES;

/// What becomes of the blocks that wait to be swept when marks are about to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// They are taken back: it is found anew what is dead in them.
    TakenBack,
    /// They are settled and stay in their queues, since a cycle may begin.
    Settled,
    /// Those that are settled stay, since a cycle may go on.
    Stays,
}

/// Whether blocks of a kind can be settled.
fn settles(kind: &Kind) -> bool {
    !kind.marks_free_cells() && kind.disclaim.is_none()
}

impl MarkSweep {
    /// Forgets all queues. Blocks that stay are put back by [`MarkSweep::leave_queued`].
    pub(super) fn empty_queues(&mut self) {
        self.queues = [[SweepQueue::EMPTY; CLASSES]; MAX_KINDS];
        self.unswept_bytes = 0;
    }

    /// Whether a small block stays in its queue, of which it becomes the last then. Unless marks are `kept`, those of its
    /// cells that were not dead are cleared.
    pub(super) fn leave_queued(&mut self, index: BlockIndex, waiting: Waiting, kept: bool) -> bool {
        let block = self.block(index);
        let (kind, class, bytes) = (block.kind, block.class, block.bytes);
        let stays = match waiting {
            Waiting::TakenBack => false,
            Waiting::Settled => {
                block.has_flag(QUEUED) && self.kinds.get(usize::from(kind)).is_some_and(settles)
            }
            Waiting::Stays => block.has_flag(SETTLED),
        };
        if stays {
            let free = self.settle(index, kept);
            self.enqueue(index, usize::from(kind), usize::from(class), free * bytes);
        }
        stays
    }

    /// Gives the dead cells of a queued block the mark `FREE`, and the others none unless marks are `kept`; how many are
    /// dead. In a block that is settled already these are known.
    fn settle(&self, index: BlockIndex, kept: bool) -> usize {
        let settled = self.block(index).has_flag(SETTLED);
        let mut free = 0;
        for mark in self.marks(index) {
            let before = mark.load(Ordering::Relaxed);
            let dead = before == FREE || !settled && before == WHITE;
            free += usize::from(dead);
            let now = match dead {
                true => FREE,
                false if kept => before,
                false => WHITE,
            };
            mark.store(now, Ordering::Relaxed);
        }
        self.block(index).set_flag(SETTLED);
        free
    }

    /// Gives the free cells of a block that is settled no more the mark of any cell that was not reached.
    pub(super) fn unsettle(&self, index: BlockIndex) {
        let (start, bytes) = (self.start(index), self.block(index).bytes);
        for (object, mark) in self.marks(index).iter().enumerate() {
            if mark.load(Ordering::Relaxed) == FREE {
                mark.store(WHITE, Ordering::Relaxed);
                if let Some(written) = &self.written {
                    written.note_cell(start.add(object * bytes));
                }
            }
        }
    }

    /// The program takes the mark of an object away, between collections. Where the block waits to be swept, a sweep would take the
    /// object for dead, and so would a cycle that begins; so the block is settled first.
    pub fn clear_mark(&self, object: &Resolved) {
        // SAFETY: a resolved object's block, which stays mapped.
        let block = unsafe { &*object.block };
        let waits = block.state == State::Small
            && block.has_flag(QUEUED)
            && !block.has_flag(SETTLED)
            && self.kinds.get(usize::from(block.kind)).is_some_and(settles);
        if waits {
            self.settle(self.layout.table.index_of(object.base), true);
        }
        // SAFETY: a resolved object's mark, which stays mapped.
        unsafe { (*object.mark).store(WHITE, Ordering::Relaxed) };
    }

    /// The marks of the cells of a small block.
    fn marks(&self, index: BlockIndex) -> &[AtomicU8] {
        let objects = usize::from(self.block(index).objects);
        // SAFETY: a block of the small part has marks for all its cells, and the table stays mapped.
        unsafe { slice::from_raw_parts(self.layout.table.marks_of(index), objects) }
    }

    /// Takes back the blocks that stayed in their queues: marking has ended, and it is decided anew what becomes of them.
    pub(super) fn take_back_queues(&mut self) {
        for kind in 0..self.kinds.count() {
            for class in 0..CLASSES {
                let mut index = self.queues[kind][class].first;
                while index != NO_BLOCK {
                    let next = self.block(index).next;
                    self.take_back(index);
                    index = next;
                }
            }
        }
        self.empty_queues();
    }

    /// Takes a small block back, if it waits to be swept.
    pub(super) fn take_back(&mut self, index: BlockIndex) {
        self.cut_swept_list(index);
        if self.block(index).has_flag(SETTLED) {
            self.unsettle(index);
        }
        self.block(index).clear_flag(QUEUED | SWEPT | SETTLED);
    }
}
