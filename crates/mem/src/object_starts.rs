//! Object starts: from a card to the object that covers its first byte.
//!
//! One byte for each card (512 bytes, as in [`cards`](crate::cards)): 0, no object begins in the card and the answer
//! is one card back; 1 to 64, the first object begins at granule n - 1 of the card; 65 + k, go back 2^k cards, which is
//! written for objects of many cards only. A walk from the first start of a card then visits what follows.
//!
//! # Invariants
//! - Objects are recorded in ascending order within a card, by one thread at a time for each card; a range is cleared
//!   before other objects are put there.
//! - Back steps never leave the object that they were written for.

use gleaner_base::sync::{AtomicU8, Ordering};

use crate::Address;
use crate::cards::{CARD_BYTES, CARD_SHIFT};
use crate::object_model::GRANULE;
use crate::side::Side;

const NOTHING: u8 = 0;
const STEP: u8 = 65;
/// Objects that cover more cards than this get back steps.
const FEW_CARDS: usize = 8;

/// The starts in a span.
pub struct ObjectStarts {
    cards: Side<AtomicU8>,
}

impl ObjectStarts {
    /// No object begins anywhere; `None` when the system gives no memory.
    pub fn new(base: Address, bytes: usize) -> Option<ObjectStarts> {
        // SAFETY: a zero byte says that nothing begins there.
        let cards = unsafe { Side::new(base, bytes, CARD_SHIFT) }?;
        Some(ObjectStarts { cards })
    }

    /// Records an object or filler of `bytes` bytes at `start`.
    #[inline]
    pub fn record(&self, start: Address, bytes: usize) {
        let first = self.cards.index(start);
        let entry = self.cards.get(first);
        // Relaxed: the card belongs to this thread; readers come after the end of the phase.
        if !is_start(entry.load(Ordering::Relaxed)) {
            let granule = start.offset_from(self.cards.address(first)) / GRANULE;
            entry.store(granule as u8 + 1, Ordering::Relaxed);
        }
        if bytes > FEW_CARDS * CARD_BYTES {
            self.record_steps(first, self.cards.index(start.add(bytes - 1)));
        }
    }

    /// The object begins in card `first` and covers all cards up to `last`.
    fn record_steps(&self, first: usize, last: usize) {
        for card in first + 1..=last {
            let power = (card - first).ilog2() as u8;
            self.cards.get(card).store(STEP + power, Ordering::Relaxed);
        }
    }

    /// A start at or before `at` from which walking object by object leads to the object that covers `at`. There must
    /// be objects from `low`, a card's first byte, without a gap to `at`.
    #[inline]
    pub fn start_before(&self, at: Address, low: Address) -> Address {
        let lowest = self.cards.index(low);
        let mut card = self.cards.index(at);
        if let Some(start) = self.start_in(card).filter(|&start| start <= at) {
            return start;
        }
        while card > lowest {
            let entry = self.cards.get(card).load(Ordering::Relaxed);
            card -= if entry >= STEP {
                1 << (entry - STEP)
            } else {
                1
            };
            if let Some(start) = self.start_in(card) {
                return start;
            }
        }
        low
    }

    fn start_in(&self, card: usize) -> Option<Address> {
        let entry = self.cards.get(card).load(Ordering::Relaxed);
        is_start(entry).then(|| {
            self.cards
                .address(card)
                .add(usize::from(entry - 1) * GRANULE)
        })
    }

    /// Forgets the starts in `low..high`, whole cards.
    ///
    /// # Safety
    /// Nobody else reads or records there meanwhile.
    pub unsafe fn clear(&self, low: Address, high: Address) {
        // SAFETY: the caller's promise.
        unsafe { self.cards.clear(low, high) };
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.cards.bytes()
    }
}

const fn is_start(entry: u8) -> bool {
    entry != NOTHING && entry < STEP
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_byte_leads_to_a_start_from_which_its_object_is_reached() {
        let base = Address::new(0x40_0000);
        let sizes = [
            16usize, 8, 504, 496, 24, 5000, 16, 4096, 40_000, 8, 8, 600, 512, 512, 70_000, 24,
        ];
        let total = sizes.iter().sum::<usize>().next_multiple_of(CARD_BYTES);
        let starts = ObjectStarts::new(base, total).unwrap();
        let mut objects = Vec::new();
        let mut at = base;
        for size in sizes {
            starts.record(at, size);
            objects.push((at, size));
            at = at.add(size);
        }
        for offset in (0..at.offset_from(base)).step_by(8) {
            let place = base.add(offset);
            let mut object = starts.start_before(place, base);
            let mut steps = 0;
            loop {
                let (start, size) = *objects.iter().find(|one| one.0 == object).expect("a start");
                if place < start.add(size) {
                    assert!(start <= place);
                    break;
                }
                object = start.add(size);
                steps += 1;
                assert!(steps <= 64 + FEW_CARDS, "a long walk to {offset:#x}");
            }
        }
    }
}
