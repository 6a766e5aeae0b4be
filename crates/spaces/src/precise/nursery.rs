//! The young generation: eden and two survivor spaces, side by side, each in a fragment for each memory node (ASPLOS
//! 2013, sections 2.1 and 3.2).
//!
//! Mutators allocate in eden. A scavenge copies what lives in eden and in the from-space to the to-space or to the old
//! space; then eden and the from-space are empty, and the survivor spaces change names.
//!
//! A space has a fragment for each memory node (ASPLOS 2013, section 3.2). Each fragment has a range as large as the
//! whole space's, so that a node may have all of it; one counter governs the bytes of all fragments. With one node the
//! end of the only fragment is that counter.
//!
//! # Invariants
//! - The three spaces lie next to each other, eden lowest, so that one comparison tells young from old; so do the
//!   fragments of a space.
//! - Each fragment has a range that never changes, and a size that may be less. Under quarantine the range has room for
//!   several of the largest size, the turns, and an empty fragment goes from one to the next, so that where it was is
//!   used again late.
//! - When a scavenge begins, the to-space is empty.
//! - After a full collection eden, and if that is full the survivor spaces, hold what found no room in the old space.
//!
//! Mutators take pieces of eden; all else happens in a stopped world.

use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_os::memory;

use crate::precise::bump::BumpRegion;
use crate::precise::regions::{Kind, MOST_NODES, Regions};

/// A space of the nursery, in fragments.
#[derive(Debug)]
pub struct Fragmented {
    /// Those behind `nodes` are empty.
    fragments: [BumpRegion; MOST_NODES],
    nodes: usize,
    /// The most bytes that a fragment, and all together, ever have.
    most: usize,
    /// With several fragments, the bytes that may yet be taken of all together. Taken by compare-and-swap before a
    /// fragment is asked; set by one thread in a stopped world. Relaxed: it is no more than a number to compare with.
    left: AtomicUsize,
    /// How often a fragment fits into its range.
    turns: usize,
    /// Which turn each is in. Written in a stopped world.
    turn: [AtomicUsize; MOST_NODES],
}

impl Fragmented {
    fn new(start: Address, most: usize, turns: usize, nodes: usize) -> Fragmented {
        let fragment = |node: usize| {
            let bytes = if node < nodes { most } else { 0 };
            BumpRegion::new(start.add(node.min(nodes) * turns * most), bytes)
        };
        Fragmented {
            fragments: core::array::from_fn(fragment),
            nodes,
            most,
            left: AtomicUsize::new(most),
            turns,
            turn: core::array::from_fn(|_| AtomicUsize::new(0)),
        }
    }

    /// The fragments, by node.
    pub fn fragments(&self) -> &[BumpRegion] {
        &self.fragments[..self.nodes]
    }

    /// Bytes of addresses.
    fn range(&self) -> usize {
        self.nodes * self.turns * self.most
    }

    /// Takes `wanted` bytes of a node's fragment, or what is left if that is at least `least`. All are multiples of 8.
    #[inline]
    pub fn take(&self, node: usize, least: usize, wanted: usize) -> Option<(Address, usize)> {
        if self.nodes == 1 {
            return self.fragments[0].take(least, wanted);
        }
        let taken = |left: usize| (left >= least).then(|| left - wanted.min(left));
        let relaxed = Ordering::Relaxed;
        let left = self.left.fetch_update(relaxed, relaxed, taken).ok()?;
        let granted = wanted.min(left);
        // The range of a fragment is as large as the whole space: what the counter grants is there.
        let piece = self.fragments[node].take(granted, granted);
        debug_assert!(piece.is_some());
        piece
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.fragments().iter().map(BumpRegion::used).sum()
    }

    /// Bytes that may yet be taken.
    pub fn free(&self) -> usize {
        match self.nodes {
            1 => self.fragments[0].free(),
            _ => self.left.load(Ordering::Relaxed),
        }
    }

    /// The size: bytes in use and bytes that may yet be taken.
    pub fn bytes(&self) -> usize {
        self.used() + self.free()
    }

    /// Whether a fragment contains an address.
    pub fn contains(&self, at: Address) -> bool {
        self.fragments()
            .iter()
            .any(|fragment| fragment.contains(at))
    }

    /// All fragments are empty.
    pub fn reset(&self) {
        let bytes = self.bytes();
        self.fragments().iter().for_each(BumpRegion::reset);
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// The size is this from now on, or that of a fragment's range if that is less, or what is in use if that is more.
    fn resize(&self, bytes: usize) {
        let bytes = bytes.min(self.most);
        self.left
            .store(bytes.saturating_sub(self.used()), Ordering::Relaxed);
        if self.nodes > 1 {
            return;
        }
        let fragment = &self.fragments[0];
        fragment.set_end(fragment.start().add(bytes));
        let whole = fragment.end().align_up(memory::page_size());
        fragment.set_end(whole.min(fragment.start().add(self.most)));
    }

    /// A place of a fragment, as (start, bytes).
    fn place(&self, start: Address, node: usize, turn: usize) -> (Address, usize) {
        (start.add((node * self.turns + turn) * self.most), self.most)
    }
}

/// Eden and the survivor spaces.
#[derive(Debug)]
pub struct Nursery {
    /// Where mutators allocate.
    pub eden: Fragmented,
    survivors: [Fragmented; 2],
    /// Which survivor space is the to-space. Written in a stopped world.
    to: AtomicUsize,
    /// Where the range begins, and its bytes.
    start: Address,
    bytes: usize,
}

impl Nursery {
    /// Empty spaces from `start` on, of these sizes, which they never exceed, in fragments for so many nodes; each has
    /// room to lie in so many places.
    pub fn new(
        start: Address,
        eden: usize,
        survivor: usize,
        turns: usize,
        nodes: usize,
    ) -> Nursery {
        assert!((1..=MOST_NODES).contains(&nodes), "{nodes} memory nodes");
        let eden = Fragmented::new(start, eden, turns, nodes);
        let first = start.add(eden.range());
        let survivors = [0, 1].map(|place| {
            let start = first.add(place * nodes * turns * survivor);
            Fragmented::new(start, survivor, turns, nodes)
        });
        Nursery {
            to: AtomicUsize::new(0),
            start,
            bytes: eden.range() + 2 * survivors[0].range(),
            eden,
            survivors,
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
        self.eden.most + 2 * self.survivors[0].most
    }

    /// A space of the nursery.
    fn space(&self, kind: Kind) -> &Fragmented {
        match kind {
            Kind::Survivor(place) => &self.survivors[place],
            _ => &self.eden,
        }
    }

    /// Where the range of a space of the nursery begins.
    fn start_of(&self, kind: Kind) -> Address {
        match kind {
            Kind::Survivor(place) => {
                let survivors = &self.survivors[0];
                self.start
                    .add(self.eden.range() + place * survivors.range())
            }
            _ => self.start,
        }
    }

    /// Where a fragment is, whether it is used or not, as (start, bytes).
    pub fn here(&self, kind: Kind, node: usize) -> (Address, usize) {
        let space = self.space(kind);
        let turn = space.turn[node].load(Ordering::Relaxed);
        space.place(self.start_of(kind), node, turn)
    }

    /// Where it goes next.
    pub fn next(&self, kind: Kind, node: usize) -> (Address, usize) {
        let space = self.space(kind);
        let turn = space.turn[node].load(Ordering::Relaxed) + 1;
        space.place(self.start_of(kind), node, turn % space.turns)
    }

    /// A fragment, of which nothing is in use, goes to its next place. In a stopped world, by one thread; the memory
    /// there is the caller's.
    pub fn move_on(&self, kind: Kind, node: usize) {
        let (start, _) = self.next(kind, node);
        let space = self.space(kind);
        let turn = space.turn[node].load(Ordering::Relaxed) + 1;
        space.turn[node].store(turn % space.turns, Ordering::Relaxed);
        space.fragments[node].move_to(start);
    }

    /// The fragment and the turn of it that an address lies in, and whether the fragment is there, as (kind, node,
    /// turn, is there).
    pub fn turn_of(&self, at: Address) -> Option<(Kind, usize, usize, bool)> {
        Kind::YOUNG.into_iter().find_map(|kind| {
            let space = self.space(kind);
            let offset = at.offset_from(self.start_of(kind));
            (offset < space.range()).then(|| {
                let place = offset / space.most;
                let (node, turn) = (place / space.turns, place % space.turns);
                let is_there = turn == space.turn[node].load(Ordering::Relaxed);
                (kind, node, turn, is_there)
            })
        })
    }

    /// Where survivors are copied to.
    pub fn to(&self) -> &Fragmented {
        &self.survivors[self.to.load(Ordering::Relaxed)]
    }

    /// Which survivor space that is.
    pub fn to_kind(&self) -> Kind {
        Kind::Survivor(self.to.load(Ordering::Relaxed))
    }

    /// All addresses where the fragments of the to-space are, as (start, bytes); other spaces have none among them.
    pub fn to_range(&self) -> (Address, usize) {
        let fragments = self.to().fragments();
        let (first, last) = (&fragments[0], &fragments[fragments.len() - 1]);
        (first.start(), last.end().offset_from(first.start()))
    }

    /// Where the survivors of the last scavenge are.
    pub fn from(&self) -> &Fragmented {
        &self.survivors[1 - self.to.load(Ordering::Relaxed)]
    }

    /// All fragments, in the order of their addresses.
    pub fn regions(&self) -> Regions<'_> {
        let mut all = Regions::of(Kind::Eden, 0, &self.eden.fragments[0]);
        for kind in Kind::YOUNG {
            for (node, fragment) in self.space(kind).fragments().iter().enumerate() {
                if (kind, node) != (Kind::Eden, 0) {
                    all = all.and(kind, node, fragment);
                }
            }
        }
        all
    }

    /// The spaces have these sizes from now on, or those of their ranges if that is less, or what is in use if that is
    /// more. With one node, each ends with a page. In a stopped world, by one thread.
    pub fn resize(&self, eden: usize, survivor: usize) {
        self.eden.resize(eden);
        self.survivors
            .iter()
            .for_each(|space| space.resize(survivor));
    }

    /// As [`Nursery::resize`], with less than that if all three would have more than `most` bytes together: of eden
    /// first. What is in use stays.
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
        self.eden.bytes() + self.survivors[0].bytes() + self.survivors[1].bytes()
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.eden.used() + self.survivors[0].used() + self.survivors[1].used()
    }

    /// Everything is empty.
    pub fn reset(&self) {
        self.eden.reset();
        self.survivors.iter().for_each(Fragmented::reset);
    }

    /// After sliding: each region ends where the plan says, and what is in use of each space changed with that.
    pub fn set_tops(&self, tops: impl IntoIterator<Item = Address>) {
        let sizes = [&self.eden, &self.survivors[0], &self.survivors[1]].map(Fragmented::bytes);
        for (region, top) in self.regions().iter().zip(tops) {
            region.space.set_top(top);
        }
        for (kind, bytes) in Kind::YOUNG.into_iter().zip(sizes) {
            let space = self.space(kind);
            let left = bytes.saturating_sub(space.used());
            space.left.store(left, Ordering::Relaxed);
        }
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
        let nursery = Nursery::new(Address::new(0x10000), 0x4000, 0x1000, 1, 1);
        assert_eq!(nursery.bytes(), 0x6000);
        nursery.eden.take(0, 8, 64).unwrap();
        let (copied, _) = nursery.to().take(0, 8, 24).unwrap();
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
        let nursery = Nursery::new(Address::new(0x10_0000), 0x40_000, 0x10_000, 1, 1);
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
        nursery.eden.take(0, 8, 0x4008).unwrap();
        nursery.to().take(0, 8, 0x2008).unwrap();
        nursery.resize_within(0x20_000, 0x4000, 0);
        assert_eq!(nursery.capacity(), 0x5000 + 0x3000);
    }

    #[test]
    fn one_counter_governs_the_fragments_of_four_nodes() {
        let start = Address::new(0x10_0000);
        let nursery = Nursery::new(start, 0x8000, 0x2000, 1, 4);
        assert_eq!((nursery.most(), nursery.bytes()), (0xc000, 4 * 0xc000));
        let regions = nursery.regions();
        assert_eq!(regions.len(), 12);
        for (index, region) in regions.iter().enumerate() {
            assert_eq!(
                (region.kind, region.node),
                (Kind::YOUNG[index / 4], index % 4)
            );
            assert!(index == 0 || regions[index - 1].space.end() == region.space.start());
        }
        nursery.resize(0x3000, 0x1000);
        assert_eq!((nursery.eden.bytes(), nursery.capacity()), (0x3000, 0x5000));
        // A node may have all of the space, and what one has the others lack.
        let (object, bytes) = nursery.eden.take(2, 8, 0x2000).unwrap();
        assert_eq!((object, bytes), (start.add(2 * 0x8000), 0x2000));
        assert_eq!(nursery.turn_of(object), Some((Kind::Eden, 2, 0, true)));
        assert_eq!(nursery.eden.take(0, 0x1008, 0x2000), None);
        assert_eq!(nursery.eden.take(0, 8, 0x2000).unwrap(), (start, 0x1000));
        assert_eq!((nursery.eden.free(), nursery.eden.take(3, 8, 8)), (0, None));
        nursery.resize(0x2000, 0x1000);
        assert_eq!(nursery.eden.bytes(), 0x3000, "what is in use stays");
        nursery.resize(0x4000, 0x1000);
        assert_eq!(nursery.eden.free(), 0x1000);
        let (low, bytes) = nursery.to_range();
        for (node, survivors) in nursery.to().fragments().iter().enumerate() {
            let (copied, _) = nursery.to().take(node, 8, 64).unwrap();
            assert!(survivors.contains(copied) && copied.offset_from(low) < bytes);
            assert!(!nursery.from().contains(copied));
        }
        nursery.flip();
        assert_eq!((nursery.eden.used(), nursery.eden.free()), (0, 0x4000));
        assert_eq!((nursery.from().used(), nursery.to().free()), (256, 0x1000));
        let tops: Vec<Address> = regions
            .iter()
            .map(|region| region.space.start().add(16))
            .collect();
        nursery.set_tops(tops);
        assert_eq!(
            (nursery.eden.used(), nursery.eden.free()),
            (64, 0x4000 - 64)
        );
    }

    #[test]
    fn an_empty_space_goes_from_turn_to_turn() {
        let start = Address::new(0x10000);
        let nursery = Nursery::new(start, 0x4000, 0x1000, 3, 1);
        assert_eq!((nursery.bytes(), nursery.most()), (3 * 0x6000, 0x6000));
        nursery.resize(0x2000, 0x800);
        for (place, kind) in Kind::YOUNG.into_iter().enumerate() {
            let mut seen = Vec::new();
            for turn in 0..4 {
                let region = nursery.regions()[place].space;
                let (here, bytes) = nursery.here(kind, 0);
                assert_eq!(region.start(), here);
                assert!(region.bytes() <= bytes);
                assert_eq!(nursery.turn_of(here), Some((kind, 0, turn % 3, true)));
                assert_eq!(
                    nursery.turn_of(here.add(bytes - 1)),
                    Some((kind, 0, turn % 3, true))
                );
                seen.push(here);
                nursery.move_on(kind, 0);
            }
            assert_eq!(seen[0], seen[3]);
            assert!(!nursery.turn_of(seen[0]).unwrap().3);
        }
        assert_eq!(nursery.turn_of(start.add(nursery.bytes())), None);
    }
}
