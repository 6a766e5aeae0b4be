//! What is counted of arrays for a report on them (option `array-report`; PLDI 2010, section 6).
//!
//! Allocations and copies are counted wherever they come from: an allocation of an array takes the slow path then. An
//! access is counted if its code was compiled with elements [`In`](super::element::In) the layout [`Counted`]. Such
//! code does what it does for [`AnyArrays`], and counts each element that it reads or writes.
//!
//! Accesses through other layouts have no trace of this: [`Layout::COUNTED`] is a constant.

use gleaner_mem::spine::Pieces;
use gleaner_plans::scavenge::mutator::Mutator as Record;
use gleaner_plans::scavenge::tally::Access;

use super::element::Element;
use super::layout::{AnyArrays, Layout};
use crate::body::with_heap;
use crate::mutator::Mutator;
use crate::new_object::NewObject;

/// Nothing is known of arrays, and each access is counted in a heap with option `array-report`.
#[derive(Debug)]
pub struct Counted;

impl Layout for Counted {
    const COUNTED: bool = true;

    #[inline(always)]
    fn is_whole(record: &Record, end: usize, bytes: usize) -> bool {
        AnyArrays::is_whole(record, end, bytes)
    }

    #[inline(always)]
    fn pieces(record: &Record) -> Pieces {
        AnyArrays::pieces(record)
    }
}

impl Mutator {
    /// Counts an object that was allocated if it is an array. Its object takes `taken` bytes: of an array in pieces
    /// that is the spine.
    pub(crate) fn count_array(&self, new: NewObject, taken: usize) {
        let record = self.record();
        if let Some(length) = new.length
            && record.has_tally()
        {
            with_heap!(&self.shared.kind, heap => heap.note_array(record, new.id, length, taken));
        }
    }

    /// Whether copies are counted.
    #[inline(always)]
    pub(super) fn counts_copies(&self) -> bool {
        self.record().has_tally()
    }

    /// Counts a copy of `bytes` bytes from offset `from` of one array to offset `to` of another.
    pub(super) fn count_copy(&self, from: usize, to: usize, bytes: usize) {
        if self.counts_copies() {
            let record = self.record();
            with_heap!(&self.shared.kind, heap => heap.note_copy(record, from, to, bytes));
        }
    }

    /// Counts an access to `count` elements from `index` on if the layout of `E` is [`Counted`]. Accessors that are
    /// told the elements do it themselves. For a window, or a copy from or to a buffer, the caller does it.
    #[inline(always)]
    pub fn count_elements_in<E: Element>(&self, access: Access, index: usize, count: usize) {
        if E::Layout::COUNTED {
            let record = self.record();
            record.tally(|tally| tally.note(access, index * E::BYTES, count, E::BYTES));
        }
    }
}
