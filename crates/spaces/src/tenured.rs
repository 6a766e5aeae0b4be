//! The old space of the precise heap: bump-allocated, walkable, with cards and object starts.
//!
//! Workers promote into PLABs, mutators allocate large objects here directly (ASPLOS 2013, section 2.4); the
//! mark-compact collector slides what lives to the bottom.
//!
//! # Invariants
//! - Pieces are whole cards, so no two threads record starts in one card.
//! - From the start to the top there is an object or filler at every granule's turn (walkable).
//! - A slot that refers to a young object lies on a dirty card (I5).

use gleaner_mem::cards::{CARD_BYTES, CardTable};
use gleaner_mem::object_starts::ObjectStarts;
use gleaner_mem::{Address, object_model};

use crate::bump::{BumpRegion, LocalBuffer};

/// The old space.
pub struct Tenured {
    /// Its memory. The top is at a card's first byte.
    pub region: BumpRegion,
    /// Which cards were stored into, for the whole span.
    pub cards: CardTable,
    /// Where objects begin.
    pub starts: ObjectStarts,
}

impl Tenured {
    /// An empty space over `region`, with the cards of a span.
    pub fn new(region: BumpRegion, cards: CardTable, starts: ObjectStarts) -> Tenured {
        debug_assert_eq!(region.start().word() % CARD_BYTES, 0);
        Tenured {
            region,
            cards,
            starts,
        }
    }

    /// Room for one object in pieces of its own; its tail is filled. The memory is as it was left.
    pub fn allocate_alone(&self, bytes: usize) -> Option<Address> {
        let whole = bytes.next_multiple_of(CARD_BYTES);
        let (start, _) = self.region.take(whole, whole)?;
        self.starts.record(start, bytes);
        let mut rest = LocalBuffer {
            cursor: start.add(bytes),
            limit: start.add(whole),
        };
        // SAFETY: the piece is this thread's, and the object ends where the rest begins.
        unsafe { self.retire(&mut rest) };
        Some(start)
    }

    /// A piece for promoting objects of at least `bytes` bytes.
    pub fn take_plab(&self, bytes: usize, wanted: usize) -> Option<(Address, usize)> {
        let least = bytes.next_multiple_of(CARD_BYTES);
        self.region.take(least, wanted.max(least))
    }

    /// Fills the rest of a buffer of this space and gives it up.
    ///
    /// # Safety
    /// As for [`LocalBuffer::retire`].
    pub unsafe fn retire(&self, buffer: &mut LocalBuffer) {
        // SAFETY: the caller's promise.
        if let Some((start, bytes)) = unsafe { buffer.retire() } {
            self.starts.record(start, bytes);
        }
    }

    /// Sets the top after objects were slid to the bottom: fills up to a card's end.
    ///
    /// # Safety
    /// The world is stopped, and no object lies above `end`.
    pub unsafe fn finish_sliding(&self, end: Address) {
        let top = end.align_up(CARD_BYTES);
        let bytes = top.offset_from(end);
        if bytes > 0 {
            // SAFETY: nothing lies above `end`.
            unsafe { object_model::fill(end, bytes) };
            self.starts.record(end, bytes);
        }
        self.region.set_top(top);
    }
}
