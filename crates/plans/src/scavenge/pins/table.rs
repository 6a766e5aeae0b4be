//! The table of what is pinned, of ranges of words, and of what is kept in a collection.
//!
//! # Invariants
//! - A mutator touches the table inside the gate, with `lock`; the collector touches it in a stopped world. No mutator
//!   stops while it holds the lock, so the table is whole in a stopped world, and workers may read it.
//! - The lists that are made in a stopped world have room for all pins and words, so they grow in none (I1).
//! - `pinned` and `kept` are sorted, and name an object once.

use alloc::vec::Vec;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{RawLock, UnsafeCell};
use gleaner_mem::Address;

use super::errors::{PinError, WordRange, WordRangeError};
use super::sorted::Sorted;

#[derive(Default)]
pub(super) struct Table {
    pinned: Sorted,
    pub(super) ranges: Vec<WordRange>,
    /// Words of all ranges.
    words: usize,
    /// Words of this collection that may lead into the nursery or to large objects, sorted.
    pub(super) candidates: Vec<Address>,
    /// Objects to which words lead in this collection, sorted: root slots of 8 bytes, each with a reference.
    pub(super) referents: Vec<Address>,
    /// Objects that keep their places in this collection and could move otherwise.
    pub(super) kept: Vec<Address>,
}

/// Pins and conservative roots of one heap.
pub struct Pins {
    lock: RawLock,
    table: UnsafeCell<Table>,
}

// SAFETY: the table is touched with the lock, or in a stopped world (see the invariants).
unsafe impl Sync for Pins {}
// SAFETY: nothing in it belongs to a thread; the embedder vouches for the ranges.
unsafe impl Send for Pins {}

/// Makes room for `length` elements in all.
fn reserve(list: &mut Vec<Address>, length: usize) -> Option<()> {
    list.try_reserve(length.saturating_sub(list.len())).ok()
}

impl Table {
    /// Room for one pin or so many words more, in all lists that are made in a stopped world.
    fn make_room(&mut self, pins: usize, words: usize) -> Option<()> {
        let words = self.words.checked_add(words)?;
        reserve(&mut self.candidates, words)?;
        reserve(&mut self.referents, words)?;
        reserve(&mut self.kept, words.checked_add(self.pinned.len() + pins)?)
    }

    /// Behind the look at all words: what is kept of these and of what is pinned, as far as it `may_move`.
    pub(super) fn keep(&mut self, may_move: impl Fn(Address) -> bool) {
        self.referents.sort_unstable();
        self.referents.dedup();
        self.kept.clear();
        let all = self.pinned.iter().chain(self.referents.iter().copied());
        self.kept.extend(all.filter(|&object| may_move(object)));
        self.kept.sort_unstable();
        self.kept.dedup();
    }
}

impl Pins {
    /// Nothing is pinned.
    pub(in crate::scavenge) fn new() -> Pins {
        Pins {
            lock: RawLock::new(),
            table: UnsafeCell::new(Table::default()),
        }
    }

    /// A mutator inside the gate: lends the table.
    fn with<R>(&self, body: impl FnOnce(&mut Table) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held, and the world is not stopped while a mutator is inside the gate.
        let result = self.table.with_mut(|table| body(unsafe { &mut *table }));
        self.lock.unlock();
        result
    }

    /// The thread that stopped the world: lends the table.
    pub(super) fn change<R>(
        &self,
        _: &mut WorldStopped<'_>,
        body: impl FnOnce(&mut Table) -> R,
    ) -> R {
        // SAFETY: the world is stopped, and the caller has the only proof that may change what it protects.
        self.table.with_mut(|table| body(unsafe { &mut *table }))
    }

    /// In a stopped world: lends the table to any number of workers.
    fn in_stopped_world<R>(&self, body: impl FnOnce(&Table) -> R) -> R {
        // SAFETY: the world is stopped, and nobody changes the table while workers are at work.
        self.table.with(|table| body(unsafe { &*table }))
    }

    /// A mutator inside the gate: an object that may move has one pin more.
    pub(super) fn pin(&self, object: Address) -> Result<(), PinError> {
        self.with(|table| {
            let room = table.make_room(1, 0);
            room.and_then(|()| table.pinned.pin(object))
                .ok_or(PinError::Memory)
        })
    }

    /// A mutator inside the gate: the object has one pin less.
    pub(super) fn unpin(&self, object: Address) -> Result<(), PinError> {
        self.with(|table| table.pinned.unpin(object).ok_or(PinError::NotPinned))
    }

    /// A mutator inside the gate: the words of a range are conservative roots from now on.
    pub(super) fn add_words(&self, range: WordRange) -> Result<(), WordRangeError> {
        let (start, lowest) = (range.start.word(), range.lowest.word());
        let end = range.words.checked_mul(WordRange::WORD);
        let end = end.and_then(|bytes| start.checked_add(bytes));
        if start == 0 || range.words == 0 || end.is_none() {
            return Err(WordRangeError::Empty);
        }
        if !start.is_multiple_of(WordRange::WORD) || !lowest.is_multiple_of(WordRange::WORD) {
            return Err(WordRangeError::Unaligned);
        }
        self.with(|table| {
            if table.ranges.iter().any(|known| known.start == range.start) {
                return Err(WordRangeError::Twice);
            }
            let room = table.ranges.try_reserve(1).ok();
            room.and_then(|()| table.make_room(0, range.words))
                .ok_or(WordRangeError::Memory)?;
            table.words += range.words;
            table.ranges.push(range);
            Ok(())
        })
    }

    /// A mutator inside the gate: the words of the range that begins at `start` are no roots any more.
    pub fn remove_words(&self, start: Address) -> Result<WordRange, WordRangeError> {
        self.with(|table| {
            let place = table.ranges.iter().position(|known| known.start == start);
            let removed = table
                .ranges
                .swap_remove(place.ok_or(WordRangeError::Unknown)?);
            table.words -= removed.words;
            Ok(removed)
        })
    }

    /// In a stopped world: whether anything is kept in this collection that could move otherwise.
    #[inline]
    pub fn keeps(&self) -> bool {
        self.in_stopped_world(|table| !table.kept.is_empty())
    }

    /// In a stopped world: whether an object is kept in this collection.
    pub fn is_kept(&self, object: Address) -> bool {
        self.in_stopped_world(|table| table.kept.binary_search(&object).is_ok())
    }

    /// In a stopped world: calls `each` with what is kept.
    pub fn for_each_kept(&self, mut each: impl FnMut(Address)) {
        self.in_stopped_world(|table| table.kept.iter().for_each(|&object| each(object)));
    }

    /// In a stopped world: how many root slots there are with what words lead to.
    pub(in crate::scavenge) fn slots(&self) -> usize {
        self.in_stopped_world(|table| table.referents.len())
    }

    /// In a stopped world: visits those of these numbers.
    pub(in crate::scavenge) fn visit(
        &self,
        numbers: core::ops::Range<usize>,
        mut visit: impl FnMut(Address),
    ) {
        self.in_stopped_world(|table| {
            table.referents[numbers]
                .iter()
                .for_each(|slot| visit(Address::of(core::ptr::from_ref(slot).cast_mut())));
        });
    }

    /// In a stopped world: pins of objects that `lives` says no of are none any more.
    pub(in crate::scavenge) fn retain(
        &self,
        world: &mut WorldStopped<'_>,
        lives: impl Fn(Address) -> bool,
    ) {
        self.change(world, |table| table.pinned.retain(lives));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn stopped() -> WorldStopped<'static> {
        // SAFETY: a test that calls this has one thread.
        unsafe { WorldStopped::begin() }
    }

    const fn at(place: usize) -> Address {
        Address::new(place)
    }

    fn kept(pins: &Pins) -> Vec<Address> {
        let mut all = Vec::new();
        pins.for_each_kept(|object| all.push(object));
        all
    }

    #[test]
    fn pins_of_one_object_are_counted() {
        let pins = Pins::new();
        for object in [0x3000, 0x1000, 0x3000, 0x2000] {
            pins.pin(at(object)).unwrap();
        }
        pins.change(&mut stopped(), |table| {
            table.keep(|object| object != at(0x2000))
        });
        assert_eq!(kept(&pins), [at(0x1000), at(0x3000)]);
        assert!(pins.keeps() && pins.is_kept(at(0x3000)) && !pins.is_kept(at(0x2000)));
        assert_eq!(pins.unpin(at(0x3000)), Ok(()));
        pins.change(&mut stopped(), |table| table.keep(|_| true));
        assert!(pins.is_kept(at(0x3000)), "one pin is left");
        assert_eq!(pins.unpin(at(0x3000)), Ok(()));
        assert_eq!(pins.unpin(at(0x3000)), Err(PinError::NotPinned));
        pins.retain(&mut stopped(), |object| object == at(0x1000));
        assert_eq!(
            pins.unpin(at(0x2000)),
            Err(PinError::NotPinned),
            "it has died"
        );
        pins.change(&mut stopped(), |table| table.keep(|_| true));
        assert_eq!(kept(&pins), [at(0x1000)]);
    }

    /// Lists that are made in a stopped world have room for all that is registered then, and none for all that ever was.
    #[test]
    fn lists_have_room_for_what_there_is() {
        let pins = Pins::new();
        let range = WordRange {
            start: at(0x1000),
            words: 1000,
            lowest: Address::NULL,
        };
        let room = |least: [usize; 3], most: usize| {
            pins.change(&mut stopped(), |table| {
                let lists = [&table.candidates, &table.referents, &table.kept];
                for (list, least) in lists.iter().zip(least) {
                    let room = list.capacity();
                    assert!((least..most).contains(&room), "{room} of {least}");
                }
            });
        };
        for _ in 0..100 {
            pins.add_words(range).unwrap();
            pins.remove_words(range.start).unwrap();
        }
        room([1000; 3], 5000);
        (0..5000).for_each(|place| pins.pin(at(8 * (place + 1))).unwrap());
        room([1000, 1000, 5000], 20_000);
        pins.add_words(range).unwrap();
        room([1000, 1000, 6000], 20_000);
    }

    #[test]
    fn a_range_of_words_is_registered_once() {
        let pins = Pins::new();
        let range = WordRange {
            start: at(0x1000),
            words: 4,
            lowest: Address::NULL,
        };
        assert_eq!(pins.add_words(range), Ok(()));
        assert_eq!(pins.add_words(range), Err(WordRangeError::Twice));
        for (start, words, lowest, why) in [
            (0, 4, 0, WordRangeError::Empty),
            (0x2000, 0, 0, WordRangeError::Empty),
            (0x2000, usize::MAX / 8, 0, WordRangeError::Empty),
            (0x2004, 4, 0, WordRangeError::Unaligned),
            (0x2000, 4, 0x2001, WordRangeError::Unaligned),
            (0x2000, usize::MAX / 64, 0, WordRangeError::Memory),
        ] {
            let refused = WordRange {
                start: at(start),
                words,
                lowest: at(lowest),
            };
            assert_eq!(pins.add_words(refused), Err(why), "{start:#x} {words}");
        }
        assert_eq!(pins.remove_words(at(0x2000)), Err(WordRangeError::Unknown));
        assert_eq!(pins.remove_words(at(0x1000)), Ok(range));
        assert_eq!(pins.remove_words(at(0x1000)), Err(WordRangeError::Unknown));
    }
}
