//! The young generation: eden and two survivor spaces, side by side (ASPLOS 2013, section 2.1).
//!
//! Mutators allocate in eden. A scavenge copies what lives in eden and in the from-space to the to-space or to the old
//! space; then eden and the from-space are empty, and the survivor spaces change names.
//!
//! # Invariants
//! - The three spaces lie next to each other, eden lowest, so that one comparison tells young from old.
//! - Each has a range that never changes, and a size that may be less. Under quarantine the range has room for several of
//!   the largest size, the turns, and an empty space goes from one to the next, so that where it was is used again late.
//! - When a scavenge begins, the to-space is empty.
//! - After a full collection eden, and if that is full the survivor spaces, hold what found no room in the old space.
//!
//! Mutators take pieces of eden; all else happens in a stopped world.

use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_os::memory;

use crate::precise::bump::BumpRegion;

/// Eden and the survivor spaces.
#[derive(Debug)]
pub struct Nursery {
    /// Where mutators allocate.
    pub eden: BumpRegion,
    survivors: [BumpRegion; 2],
    /// Which survivor space is the to-space. Written in a stopped world.
    to: AtomicUsize,
    /// Where the range begins, and its bytes.
    start: Address,
    bytes: usize,
    /// The largest sizes of eden and of a survivor space.
    largest: [usize; 2],
    /// How often each space fits into its range.
    turns: usize,
    /// Which turn each is in. Written in a stopped world.
    turn: [AtomicUsize; 3],
}

impl Nursery {
    /// Empty spaces from `start` on, of these sizes, which they never exceed; each has room to lie in so many places.
    pub fn new(start: Address, eden: usize, survivor: usize, turns: usize) -> Nursery {
        let first = start.add(turns * eden);
        Nursery {
            eden: BumpRegion::new(start, eden),
            survivors: [
                BumpRegion::new(first, survivor),
                BumpRegion::new(first.add(turns * survivor), survivor),
            ],
            to: AtomicUsize::new(0),
            start,
            bytes: turns * (eden + 2 * survivor),
            largest: [eden, survivor],
            turns,
            turn: core::array::from_fn(|_| AtomicUsize::new(0)),
        }
    }

    /// The lowest address.
    #[inline(always)]
    pub fn start(&self) -> Address {
        self.start
    }

    /// Bytes from the lowest to the highest address.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that the three spaces may have together.
    pub fn most(&self) -> usize {
        self.largest[0] + 2 * self.largest[1]
    }

    /// The largest size of a space, as in [`Nursery::regions`].
    fn largest(&self, space: usize) -> usize {
        self.largest[space.min(1)]
    }

    /// A place of a space, as (start, bytes).
    fn place(&self, space: usize, turn: usize) -> (Address, usize) {
        let [eden, survivor] = self.largest;
        let before = [0, eden, eden + survivor][space] * self.turns;
        let bytes = self.largest(space);
        (self.start.add(before + turn * bytes), bytes)
    }

    /// Where a space is, whether it is used or not, as (start, bytes).
    pub fn here(&self, space: usize) -> (Address, usize) {
        self.place(space, self.turn[space].load(Ordering::Relaxed))
    }

    /// Where it goes next.
    pub fn next(&self, space: usize) -> (Address, usize) {
        let turn = self.turn[space].load(Ordering::Relaxed) + 1;
        self.place(space, turn % self.turns)
    }

    /// A space, of which nothing is in use, goes to its next place. In a stopped world, by one thread; the memory there
    /// is the caller's.
    pub fn move_on(&self, space: usize) {
        let (start, _) = self.next(space);
        let turn = self.turn[space].load(Ordering::Relaxed) + 1;
        self.turn[space].store(turn % self.turns, Ordering::Relaxed);
        self.regions()[space].move_to(start);
    }

    /// The space and the turn of it that an address lies in, and whether the space is there.
    pub fn turn_of(&self, at: Address) -> Option<(usize, usize, bool)> {
        (0..3).find_map(|space| {
            let (start, bytes) = self.place(space, 0);
            let offset = at.offset_from(start);
            (offset < bytes * self.turns).then(|| {
                let turn = offset / bytes;
                (
                    space,
                    turn,
                    turn == self.turn[space].load(Ordering::Relaxed),
                )
            })
        })
    }

    /// Where survivors are copied to.
    pub fn to(&self) -> &BumpRegion {
        &self.survivors[self.to.load(Ordering::Relaxed)]
    }

    /// Where the survivors of the last scavenge are.
    pub fn from(&self) -> &BumpRegion {
        &self.survivors[1 - self.to.load(Ordering::Relaxed)]
    }

    /// All three, in the order of their addresses.
    pub fn regions(&self) -> [&BumpRegion; 3] {
        [&self.eden, &self.survivors[0], &self.survivors[1]]
    }

    /// The spaces have these sizes from now on, or those of their ranges if that is less, or what is in use if that is
    /// more. Each ends with a page. In a stopped world, by one thread.
    pub fn resize(&self, eden: usize, survivor: usize) {
        for (space, region) in self.regions().into_iter().enumerate() {
            let bytes = if space == 0 { eden } else { survivor };
            let most = region.start().add(self.largest(space));
            region.set_end(region.start().add(bytes.min(self.largest(space))));
            let whole = region.end().align_up(memory::page_size());
            region.set_end(whole.min(most));
        }
    }

    /// As [`Nursery::resize`], with less than that if all three would have more than `most` bytes together: of eden first.
    /// What is in use stays.
    pub fn resize_within(&self, eden: usize, survivor: usize, most: usize) {
        self.resize(eden, survivor);
        let page = memory::page_size();
        let excess = self.capacity().saturating_sub(most).next_multiple_of(page);
        self.resize(self.eden.bytes().min(eden).saturating_sub(excess), survivor);
        let excess = self.capacity().saturating_sub(most);
        if excess > 0 {
            let each = excess.div_ceil(2).next_multiple_of(page);
            self.resize(self.eden.used(), survivor.saturating_sub(each));
        }
        if self.capacity() > most {
            self.resize(0, 0);
        }
    }

    /// The sizes of all three together.
    pub fn capacity(&self) -> usize {
        self.regions().iter().map(|region| region.bytes()).sum()
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.regions().iter().map(|region| region.used()).sum()
    }

    /// After a scavenge that left nothing behind: eden and from-space are empty, and the survivor spaces change names.
    pub fn flip(&self) {
        self.eden.reset();
        self.from().reset();
        self.to.fetch_xor(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_survivor_spaces_change_names() {
        let nursery = Nursery::new(Address::new(0x10000), 0x4000, 0x1000, 1);
        assert_eq!(nursery.bytes(), 0x6000);
        nursery.eden.take(8, 64).unwrap();
        let (copied, _) = nursery.to().take(8, 24).unwrap();
        assert_eq!(nursery.used(), 88);
        nursery.flip();
        assert!(nursery.from().contains(copied) && nursery.used() == 24);
        assert_eq!(nursery.to().used(), 0);
        nursery.resize(0x2000, 16);
        assert_eq!(
            nursery.capacity(),
            0x2000 + 2 * 0x1000,
            "each ends with a page"
        );
        assert_eq!(nursery.bytes(), 0x6000);
        nursery.resize(0x9000, 0x9000);
        assert_eq!(nursery.capacity(), 0x6000);
    }

    #[test]
    fn a_nursery_takes_no_more_than_it_may_unless_that_is_in_use() {
        let nursery = Nursery::new(Address::new(0x10_0000), 0x40_000, 0x10_000, 1);
        nursery.resize_within(0x20_000, 0x4000, 0x28_000);
        assert_eq!(
            (nursery.eden.bytes(), nursery.capacity()),
            (0x20_000, 0x28_000)
        );
        nursery.resize_within(0x20_000, 0x4000, 0x27_800);
        assert_eq!(
            (nursery.eden.bytes(), nursery.capacity()),
            (0x1f_000, 0x27_000)
        );
        nursery.resize_within(0x20_000, 0x4000, 0x5800);
        assert_eq!((nursery.eden.bytes(), nursery.capacity()), (0, 0x4000));
        nursery.resize_within(0x20_000, 0x4000, 0x10_000);
        nursery.eden.take(8, 0x4008).unwrap();
        nursery.to().take(8, 0x2008).unwrap();
        nursery.resize_within(0x20_000, 0x4000, 0);
        assert_eq!(nursery.capacity(), 0x5000 + 0x3000);
    }

    #[test]
    fn an_empty_space_goes_from_turn_to_turn() {
        let start = Address::new(0x10000);
        let nursery = Nursery::new(start, 0x4000, 0x1000, 3);
        assert_eq!((nursery.bytes(), nursery.most()), (3 * 0x6000, 0x6000));
        nursery.resize(0x2000, 0x800);
        for space in 0..3 {
            let mut seen = Vec::new();
            for turn in 0..4 {
                let region = nursery.regions()[space];
                let (here, bytes) = nursery.here(space);
                assert_eq!(region.start(), here);
                assert!(region.bytes() <= bytes);
                assert_eq!(nursery.turn_of(here), Some((space, turn % 3, true)));
                assert_eq!(
                    nursery.turn_of(here.add(bytes - 1)),
                    Some((space, turn % 3, true))
                );
                seen.push(here);
                nursery.move_on(space);
            }
            assert_eq!(seen[0], seen[3]);
            assert!(!nursery.turn_of(seen[0]).unwrap().2);
        }
        assert_eq!(nursery.turn_of(start.add(nursery.bytes())), None);
    }
}
