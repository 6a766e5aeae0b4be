//! The card table: which parts of a span had a reference stored into them.
//!
//! A card is 512 bytes and has one byte: 0 is clean. The write barrier stores [`DIRTY`] without looking; the scavenger
//! cleans a card, scans its slots, and dirties it again if one still refers to a young object (invariant I5).
//!
//! Mutators and workers store bytes without competing for them: all of them store the same value, and only the worker
//! that was given a strip of cards cleans them, while no mutator runs, by a swap. Between phases the collecting thread
//! may clean whole ranges.

use core::ptr::NonNull;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicU8, Ordering};

use crate::Address;
use crate::side::Side;

/// Bytes of a card, as a power of two.
pub const CARD_SHIFT: u32 = 9;
/// Bytes of a card.
pub const CARD_BYTES: usize = 1 << CARD_SHIFT;
/// The byte of a card that was stored into.
pub const DIRTY: u8 = 1;

/// The cards of a span.
pub struct CardTable {
    cards: Side<AtomicU8>,
}

impl CardTable {
    /// Clean cards for a span; `None` when the system gives no memory.
    pub fn new(base: Address, bytes: usize) -> Option<CardTable> {
        Some(CardTable {
            cards: Side::new(base, bytes, CARD_SHIFT)?,
        })
    }

    /// Notes that a slot at `at` may refer to a young object.
    #[inline(always)]
    pub fn dirty(&self, at: Address) {
        // Release: a worker that promoted an object notes it before it dirties a card of it (see `take_dirty`).
        self.cards
            .get(self.cards.index(at))
            .store(DIRTY, Ordering::Release);
    }

    /// Whether the card of `at` is dirty.
    pub fn is_dirty(&self, at: Address) -> bool {
        self.cards.get(self.cards.index(at)).load(Ordering::Relaxed) != 0
    }

    /// Cleans each dirty card of `low..high` and hands its bounds to `scan`, which may dirty it again. The bounds are
    /// whole cards, and the calling worker is the only one that cleans these; others may promote objects into them and
    /// dirty them. What was noted of such an object is seen here, or its card stays dirty.
    pub fn take_dirty(&self, low: Address, high: Address, mut scan: impl FnMut(Address, Address)) {
        let mut index = self.cards.index(low);
        let end = self.cards.index(high);
        while index < end {
            if index.is_multiple_of(8) && index + 8 <= end && self.eight_are_clean(index) {
                index += 8;
                continue;
            }
            let card = self.cards.get(index);
            if card.load(Ordering::Relaxed) != 0 {
                // A swap, not a store: it takes the last dirtying there was, and what follows sees what came before
                // that. With a store, an object that was promoted meanwhile could be missed and its card be cleaned.
                card.swap(0, Ordering::Acquire);
                let start = self.cards.address(index);
                scan(start, start.add(CARD_BYTES));
            }
            index += 1;
        }
    }

    fn eight_are_clean(&self, index: usize) -> bool {
        (index..index + 8).all(|one| self.cards.get(one).load(Ordering::Relaxed) == 0)
    }

    /// Cleans all cards of `low..high`.
    pub fn clean(&self, _: &mut WorldStopped<'_>, low: Address, high: Address) {
        // SAFETY: no mutator stores and no worker scans while the stopped world is borrowed, so nobody else uses the cards.
        unsafe { self.cards.clear(low, high) };
    }

    /// The byte of the card at address 0, as if the table began there: card of `at` is `biased + (at >> CARD_SHIFT)`.
    pub fn biased(&self) -> usize {
        let first: NonNull<AtomicU8> = self.cards.first();
        (first.as_ptr() as usize).wrapping_sub(self.cards.address(0).word() >> CARD_SHIFT)
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.cards.bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn dirty_cards_are_taken_once() {
        let base = Address::new(0x10_0000);
        let table = CardTable::new(base, 64 * CARD_BYTES).unwrap();
        for card in [0usize, 9, 10, 63] {
            table.dirty(base.add(card * CARD_BYTES + 17));
        }
        let mut taken = Vec::new();
        table.take_dirty(base, base.add(64 * CARD_BYTES), |low, high| {
            assert_eq!(high.offset_from(low), CARD_BYTES);
            taken.push(low.offset_from(base) / CARD_BYTES);
            if low == base {
                table.dirty(low);
            }
        });
        assert_eq!(taken, [0, 9, 10, 63]);
        assert!(table.is_dirty(base) && !table.is_dirty(base.add(9 * CARD_BYTES)));
        assert_eq!(
            table.biased().wrapping_add(base.word() >> 9),
            table.cards.first().as_ptr() as usize
        );
    }
}

/// The shipped code under loom, with the start bits by which a scan finds the objects of a card.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::object_bits::ObjectBits;
    use gleaner_base::sync::UnsafeCell;
    use loom::thread;
    use std::sync::Arc;
    use std::vec::Vec;

    const BASE: Address = Address::new(0x10_0000);

    struct Space {
        cards: CardTable,
        bits: ObjectBits,
        /// The contents of two objects, 8 and 16 bytes into the card: false until they were copied there.
        objects: [UnsafeCell<bool>; 2],
        /// Whether their promotion has dirtied the card. Not an atomic of loom's: it is set in the same step.
        dirtied: [core::sync::atomic::AtomicBool; 2],
    }

    // SAFETY: contents are written by the worker that promotes the object, and read by those who found its bit; loom
    // checks that.
    unsafe impl Sync for Space {}
    // SAFETY: nothing in it belongs to a thread.
    unsafe impl Send for Space {}

    impl Space {
        fn object(index: usize) -> Address {
            BASE.add(8 + index * 8)
        }

        /// A worker promotes an object that refers to a young one, notes it, and scans it.
        fn promote(&self, index: usize) {
            // SAFETY: nobody knows the object yet.
            self.objects[index].with_mut(|contents| unsafe { *contents = true });
            self.bits.add(Self::object(index));
            self.cards.dirty(Self::object(index));
            self.dirtied[index].store(true, Ordering::Relaxed);
        }

        /// What a worker does that was given the card: it sees each object whose dirtying it takes away. Which it saw.
        fn take(&self) -> Vec<Address> {
            let mut seen = Vec::new();
            self.cards.take_dirty(BASE, BASE.add(CARD_BYTES), |low, _| {
                let taken = [0, 1].map(|index| self.dirtied[index].load(Ordering::Relaxed));
                for object in self.bits.starts(self.bits.word_of(low)) {
                    let index = (object.offset_from(BASE) - 8) / 8;
                    // SAFETY: the one that sees the bit sees the object.
                    self.objects[index].with(|contents| assert!(unsafe { *contents }));
                    seen.push(object);
                }
                for index in (0..2).filter(|&index| taken[index]) {
                    assert!(seen.contains(&Self::object(index)), "forgotten");
                }
            });
            seen
        }
    }

    /// While a worker cleans a card, another promotes objects into it. Each of them is seen by the scan, or dirties the
    /// card after it was cleaned: it is not forgotten (I5). Loom knows no order of two stores of which no thread has
    /// seen both, so the card itself does not tell; the model asks for the objects whose dirtying came before the
    /// cleaning.
    #[test]
    fn what_was_promoted_before_a_card_is_cleaned_is_seen() {
        loom::model(|| {
            let space = Arc::new(Space {
                cards: CardTable::new(BASE, CARD_BYTES).unwrap(),
                bits: ObjectBits::new(BASE, CARD_BYTES).unwrap(),
                objects: [UnsafeCell::new(false), UnsafeCell::new(false)],
                dirtied: Default::default(),
            });
            space.cards.dirty(BASE);
            let promoter = {
                let space = space.clone();
                thread::spawn(move || (0..2).for_each(|index| space.promote(index)))
            };
            space.take();
            promoter.join().unwrap();
            // With the world stopped the next scan sees both.
            space.cards.dirty(BASE);
            assert_eq!(space.take().len(), 2);
        });
    }
}
