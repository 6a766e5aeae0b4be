//! The young generation: eden and two survivor spaces, side by side, each in a fragment for each memory node (ASPLOS
//! 2013, sections 2.1 and 3.2).
//!
//! Mutators allocate in eden. A scavenge copies what lives in eden and in the from-space to the to-space or to the old
//! space; then eden and the from-space are empty, and the survivor spaces change names.
//!
//! # Invariants
//! - The three spaces lie next to each other, eden lowest, so that one comparison tells young from old; so do the
//!   fragments of a space.
//! - Each fragment has a range that never changes, and a size that may be less. Under quarantine the range has room for
//!   several of the largest size, the turns, and an empty fragment goes from one to the next, so that where it was is
//!   used again late.
//! - When a scavenge begins, the to-space is empty, or holds objects that have kept their places: then it copies nothing
//!   there, and promotes everything.
//! - After a full collection eden, and if that is full the survivor spaces, hold what found no room in the old space; any
//!   of them may hold what keeps its place.
//!
//! Mutators take pieces of eden; all else happens in a stopped world.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_os::memory;

use crate::precise::fragmented::{Cut, Fragmented};
use crate::precise::regions::{Kind, MOST_NODES, Regions};

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
    /// Empty spaces from `start` on, of these sizes, which they never exceed, cut like this; each fragment has room to
    /// lie in `turns` places.
    pub fn new(start: Address, eden: usize, survivor: usize, turns: usize, cut: Cut) -> Nursery {
        assert!(
            (1..=MOST_NODES).contains(&cut.nodes),
            "memory nodes: {}",
            cut.nodes
        );
        let eden = Fragmented::new(start, eden, turns, cut);
        let first = start.add(eden.range());
        let survivors = [0, 1].map(|place| {
            let start = first.add(place * cut.nodes * turns * survivor);
            Fragmented::new(start, survivor, turns, cut)
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

    /// Where a fragment is, whether it is used or not, as (start, bytes).
    pub fn here(&self, kind: Kind, node: usize) -> (Address, usize) {
        let space = self.space(kind);
        let turn = space.turn[node].load(Ordering::Relaxed);
        space.place(node, turn)
    }

    /// Where it goes next.
    pub fn next(&self, kind: Kind, node: usize) -> (Address, usize) {
        let space = self.space(kind);
        let turn = space.turn[node].load(Ordering::Relaxed) + 1;
        space.place(node, turn % space.turns)
    }

    /// A fragment, of which nothing is in use, goes to its next place. The memory there is the caller's.
    pub fn move_on(&self, world: &mut WorldStopped<'_>, kind: Kind, node: usize) {
        let (start, _) = self.next(kind, node);
        let space = self.space(kind);
        let turn = space.turn[node].load(Ordering::Relaxed) + 1;
        space.turn[node].store(turn % space.turns, Ordering::Relaxed);
        space.fragments[node].move_to(world, start);
    }

    /// The fragment and the turn of it that an address lies in, and whether the fragment is there, as (kind, node,
    /// turn, is there).
    pub fn turn_of(&self, at: Address) -> Option<(Kind, usize, usize, bool)> {
        Kind::YOUNG.into_iter().find_map(|kind| {
            let space = self.space(kind);
            let offset = at.offset_from(space.start);
            (offset < space.range()).then(|| {
                let place = offset / space.most;
                let (node, turn) = (place / space.turns, place % space.turns);
                let is_there = turn == space.turn[node].load(Ordering::Relaxed);
                (kind, node, turn, is_there)
            })
        })
    }

    /// The addresses of each fragment, all its places together, as (node, start, bytes).
    pub fn ranges(&self) -> impl Iterator<Item = (usize, Address, usize)> + '_ {
        Kind::YOUNG.into_iter().flat_map(|kind| {
            let space = self.space(kind);
            let bytes = space.turns * space.most;
            (0..space.cut.nodes).map(move |node| (node, space.start.add(node * bytes), bytes))
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

    /// All addresses of the to-space, as (start, bytes); other spaces have none among them.
    pub fn to_range(&self) -> (Address, usize) {
        (self.to().start, self.to().range())
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
    /// more. With one node, each ends with a page.
    pub fn resize(&self, world: &mut WorldStopped<'_>, eden: usize, survivor: usize) {
        self.eden.resize(world, eden);
        self.survivors
            .iter()
            .for_each(|space| space.resize(world, survivor));
    }

    /// As [`Nursery::resize`], with less than that if all three would have more than `most` bytes together: of eden
    /// first. What is in use stays.
    pub fn resize_within(
        &self,
        world: &mut WorldStopped<'_>,
        eden: usize,
        survivor: usize,
        most: usize,
    ) {
        self.resize(world, eden, survivor);
        let page = memory::page_size();
        let excess = self.capacity().saturating_sub(most).next_multiple_of(page);
        self.resize(
            world,
            self.eden.bytes().min(eden).saturating_sub(excess),
            survivor,
        );
        let excess = self.capacity().saturating_sub(most);
        if excess > 0 {
            let each = excess.div_ceil(2).next_multiple_of(page);
            self.resize(world, self.eden.used(), survivor.saturating_sub(each));
        }
        if self.capacity() > most {
            self.resize(world, 0, 0);
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
    pub fn reset(&self, world: &mut WorldStopped<'_>) {
        self.eden.reset(world);
        self.survivors.iter().for_each(|space| space.reset(world));
    }

    /// After sliding: each region ends where the plan says, and what is in use of each space changed with that.
    pub fn set_tops(&self, world: &mut WorldStopped<'_>, tops: impl IntoIterator<Item = Address>) {
        let sizes = [&self.eden, &self.survivors[0], &self.survivors[1]].map(Fragmented::bytes);
        for (region, top) in self.regions().iter().zip(tops) {
            region.space.set_top(world, top);
        }
        for (kind, bytes) in Kind::YOUNG.into_iter().zip(sizes) {
            let space = self.space(kind);
            let left = bytes.saturating_sub(space.used());
            space.left.store(left, Ordering::Relaxed);
        }
    }

    /// After a collection: memory goes to the fragments whose nodes lacked it ([`Fragmented::take`] found it elsewhere,
    /// [`Fragmented::take_own`] nowhere). Returns how many bytes were lacking since the last time. The caller gives the memory back
    /// that lies above the new ends. No object of `most` bytes is refused afterwards while eden has `most` bytes free.
    pub fn balance(&self, world: &mut WorldStopped<'_>, most: usize) -> usize {
        let elsewhere = |kind| self.space(kind).balance(&mut *world);
        let bytes = Kind::YOUNG.into_iter().map(elsewhere).sum();
        self.eden.gather(world, most);
        bytes
    }

    /// After a scavenge that left nothing behind: eden and from-space are empty, and the survivor spaces change names.
    pub fn flip(&self, world: &mut WorldStopped<'_>) {
        self.eden.reset(world);
        self.from().reset(world);
        self.to.fetch_xor(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::precise::bump::BumpRegion;
    use crate::precise::regions::Region;
    use crate::precise::single_thread::stopped;
    use std::vec::Vec;

    #[test]
    fn the_survivor_spaces_change_names() {
        let nursery = Nursery::new(Address::new(0x10000), 0x4000, 0x1000, 1, Cut::WHOLE);
        assert_eq!(nursery.bytes(), 0x6000);
        nursery.eden.take(0, 8, 64, false).unwrap();
        let (copied, _) = nursery.to().take(0, 8, 24, false).unwrap();
        assert_eq!(nursery.used(), 88);
        nursery.flip(&mut stopped());
        assert!(nursery.from().contains(copied) && nursery.used() == 24);
        assert_eq!(nursery.to().used(), 0);
        nursery.resize(&mut stopped(), 0x2000, 16);
        assert_eq!(
            nursery.capacity(),
            0x2000 + 2 * 0x1000,
            "each ends with a page"
        );
        assert_eq!(nursery.bytes(), 0x6000);
        nursery.resize(&mut stopped(), 0x9000, 0x9000);
        assert_eq!(nursery.capacity(), 0x6000);
    }

    #[test]
    fn a_nursery_takes_no_more_than_it_may_unless_that_is_in_use() {
        let nursery = Nursery::new(Address::new(0x10_0000), 0x40_000, 0x10_000, 1, Cut::WHOLE);
        nursery.resize_within(&mut stopped(), 0x20_000, 0x4000, 0x28_000);
        assert_eq!(
            (nursery.eden.bytes(), nursery.capacity()),
            (0x20_000, 0x28_000)
        );
        nursery.resize_within(&mut stopped(), 0x20_000, 0x4000, 0x27_800);
        assert_eq!(
            (nursery.eden.bytes(), nursery.capacity()),
            (0x1f_000, 0x27_000)
        );
        nursery.resize_within(&mut stopped(), 0x20_000, 0x4000, 0x5800);
        assert_eq!((nursery.eden.bytes(), nursery.capacity()), (0, 0x4000));
        nursery.resize_within(&mut stopped(), 0x20_000, 0x4000, 0x10_000);
        nursery.eden.take(0, 8, 0x4008, false).unwrap();
        nursery.to().take(0, 8, 0x2008, false).unwrap();
        nursery.resize_within(&mut stopped(), 0x20_000, 0x4000, 0);
        assert_eq!(nursery.capacity(), 0x5000 + 0x3000);
    }

    #[test]
    fn one_counter_governs_the_fragments_of_four_nodes() {
        let start = Address::new(0x10_0000);
        let nursery = Nursery::new(start, 0x8000, 0x2000, 1, Cut::in_turn(4));
        assert_eq!((nursery.most(), nursery.bytes()), (0xc000, 4 * 0xc000));
        let regions = nursery.regions();
        assert_eq!(regions.len(), 12);
        for (index, region) in regions.iter().enumerate() {
            assert_eq!(
                (region.kind, region.node),
                (Kind::YOUNG[index / 4], index % 4)
            );
            assert!(index == 0 || regions[index - 1].space.end() <= region.space.start());
        }
        nursery.resize(&mut stopped(), 0x3000, 0x1000);
        assert_eq!((nursery.eden.bytes(), nursery.capacity()), (0x3000, 0x5000));
        // A node may have all of the space, and what one has the others lack.
        let (object, bytes) = nursery.eden.take(2, 8, 0x2000, false).unwrap();
        assert_eq!((object, bytes), (start.add(2 * 0x8000), 0x2000));
        assert_eq!(nursery.turn_of(object), Some((Kind::Eden, 2, 0, true)));
        assert_eq!(nursery.eden.take(0, 0x1008, 0x2000, false), None);
        assert_eq!(
            nursery.eden.take(0, 8, 0x2000, false).unwrap(),
            (start, 0x1000)
        );
        assert_eq!(
            (nursery.eden.free(), nursery.eden.take(3, 8, 8, false)),
            (0, None)
        );
        nursery.resize(&mut stopped(), 0x2000, 0x1000);
        assert_eq!(nursery.eden.bytes(), 0x3000, "what is in use stays");
        nursery.resize(&mut stopped(), 0x4000, 0x1000);
        assert_eq!(nursery.eden.free(), 0x1000);
        let (low, bytes) = nursery.to_range();
        for (node, survivors) in nursery.to().fragments().iter().enumerate() {
            let (copied, _) = nursery.to().take(node, 8, 64, false).unwrap();
            // There is memory for one page, which the first took.
            assert_eq!(survivors.contains(copied), node == 0);
            assert_eq!(nursery.to().node_of(copied), 0);
            assert!(copied.offset_from(low) < bytes && !nursery.from().contains(copied));
        }
        nursery.flip(&mut stopped());
        assert_eq!((nursery.eden.used(), nursery.eden.free()), (0, 0x4000));
        assert_eq!((nursery.from().used(), nursery.to().free()), (256, 0x1000));
        let slid = |region: &Region<'_>| region.space.start().add(region.space.bytes().min(16));
        nursery.set_tops(&mut stopped(), regions.iter().map(slid));
        assert_eq!(
            (nursery.eden.used(), nursery.eden.free()),
            (32, 0x4000 - 32)
        );
    }

    #[test]
    fn the_to_space_has_the_addresses_of_all_its_fragments_and_no_others() {
        for turns in [1, 3] {
            let start = Address::new(0x10_0000);
            let nursery = Nursery::new(start, 0x8000, 0x2000, turns, Cut::in_turn(4));
            for _ in 0..2 {
                let (to, to_bytes) = nursery.to_range();
                for (index, (node, low, bytes)) in nursery.ranges().enumerate() {
                    let kind = Kind::YOUNG[index / 4];
                    for at in [low, low.add(bytes - 8)] {
                        let is_in = at.offset_from(to) < to_bytes;
                        assert_eq!(is_in, kind == nursery.to_kind(), "{kind:?} of {node}");
                    }
                }
                nursery.flip(&mut stopped());
            }
        }
    }

    /// Bytes of memory that the fragments of eden have.
    fn backed(nursery: &Nursery) -> Vec<usize> {
        let fragments = nursery.eden.fragments();
        fragments.iter().map(BumpRegion::bytes).collect()
    }

    #[test]
    fn memory_goes_to_the_fragments_whose_nodes_lack_it() {
        let nursery = Nursery::new(
            Address::new(0x10_0000),
            0x10_000,
            0x1000,
            1,
            Cut::in_turn(3),
        );
        assert_eq!(backed(&nursery), [0, 0, 0]);
        while nursery.eden.take(1, 8, 0x4000, false).is_some() {}
        assert_eq!(backed(&nursery), [0, 0x10_000, 0]);
        assert_eq!(nursery.balance(&mut stopped(), 8), 0, "nobody lacked any");
        nursery.flip(&mut stopped());
        // The thread moved to another node: it finds memory, not its own, until the budget is used up.
        let mut pieces = 0;
        while let Some((piece, bytes)) = nursery.eden.take(2, 8, 0x4000, false) {
            assert_eq!((nursery.eden.node_of(piece), bytes), (1, 0x4000));
            pieces += 1;
        }
        assert_eq!((pieces, nursery.eden.free()), (4, 0));
        nursery.flip(&mut stopped());
        assert_eq!(nursery.balance(&mut stopped(), 8), 0x10_000);
        assert_eq!(
            backed(&nursery),
            [0, 0, 0],
            "the memory above is given back"
        );
        assert_eq!(
            nursery
                .eden
                .node_of(nursery.eden.take(2, 8, 0x4000, false).unwrap().0),
            2
        );
        assert_eq!(
            nursery
                .eden
                .node_of(nursery.eden.take(0, 8, 0x2000, false).unwrap().0),
            0
        );
        assert_eq!(backed(&nursery), [0x2000, 0, 0x4000]);
        // Less memory: what is in use stays, and the idlest gives first.
        nursery.flip(&mut stopped());
        nursery.eden.take(0, 8, 0x1000, false).unwrap();
        nursery.resize(&mut stopped(), 0x3000, 0x1000);
        assert_eq!(backed(&nursery), [0x2000, 0, 0x1000]);
        nursery.resize(&mut stopped(), 0x800, 0x1000);
        assert_eq!(backed(&nursery), [0x1000, 0, 0]);
        assert_eq!(
            (nursery.eden.bytes(), nursery.eden.used()),
            (0x1000, 0x1000)
        );
    }

    #[test]
    fn a_node_keeps_the_memory_that_it_asked_for_and_no_more() {
        let nursery = Nursery::new(Address::new(0x10_0000), 0x8000, 0x1000, 1, Cut::in_turn(2));
        nursery.eden.take(0, 8, 0x8000, false).unwrap();
        nursery.flip(&mut stopped());
        assert_eq!(nursery.balance(&mut stopped(), 8), 0);
        nursery.eden.take(0, 8, 0x1008, false).unwrap();
        nursery.eden.take(1, 8, 0x4000, false).unwrap();
        nursery.flip(&mut stopped());
        assert_eq!(nursery.balance(&mut stopped(), 8), 0x4000);
        assert_eq!(backed(&nursery), [0x2000, 0]);
        // There is some left for a node that needs more than the last time.
        let (piece, bytes) = nursery.eden.take(1, 8, 0x6000, false).unwrap();
        assert_eq!((nursery.eden.node_of(piece), bytes), (1, 0x6000));
    }

    #[test]
    fn what_is_to_be_a_nodes_own_is_nothing_else() {
        let nursery = Nursery::new(Address::new(0x10_0000), 0x1000, 0x8000, 1, Cut::in_turn(2));
        let to = nursery.to();
        to.take_own(0, 8, 0x4000).unwrap();
        let (own, bytes) = to.take_own(1, 8, 0x4000).unwrap();
        assert_eq!((to.node_of(own), bytes), (1, 0x4000));
        assert_eq!((to.take_own(1, 8, 8), to.free()), (None, 0));
        assert_eq!(nursery.balance(&mut stopped(), 8), 0, "all is in use");
        to.reset(&mut stopped());
        // There is memory, but on the other node.
        assert_eq!(to.take_own(0, 0x6000, 0x6000), None);
        assert_eq!(to.take_own(0, 8, 0x6000).unwrap().1, 0x4000);
        assert_eq!(to.free(), 0x4000);
        assert_eq!(nursery.balance(&mut stopped(), 8), 0x6000);
        assert!(to.fragments()[1].bytes() == 0, "it is anyone's");
        assert_eq!(
            to.take_own(0, 0x4000, 0x4000)
                .map(|piece| to.node_of(piece.0)),
            Some(0)
        );
    }

    #[test]
    fn fragments_together_have_no_more_memory_than_their_space() {
        let nursery = Nursery::new(Address::new(0x10_0000), 0x8000, 0x1000, 1, Cut::in_turn(2));
        nursery.eden.take(0, 8, 0x6000, false).unwrap();
        nursery.flip(&mut stopped());
        // There are two pages that no fragment has.
        let (piece, bytes) = nursery.eden.take(1, 8, 0x4000, false).unwrap();
        assert_eq!((nursery.eden.node_of(piece), bytes), (1, 0x2000));
        assert_eq!(backed(&nursery), [0x6000, 0x2000]);
    }

    #[test]
    fn a_piece_is_found_where_there_is_one() {
        let nursery = Nursery::new(Address::new(0x10_0000), 0x4000, 0x1000, 1, Cut::in_turn(4));
        for node in 0..4 {
            nursery.eden.take(node, 8, 0x800, false).unwrap();
        }
        assert_eq!(
            (nursery.eden.free(), nursery.eden.has_piece(0x800)),
            (0x2000, true)
        );
        assert!(
            !nursery.eden.has_piece(0x808) && nursery.eden.take(3, 0x808, 0x808, false).is_none()
        );
        assert_eq!(
            nursery.eden.free(),
            0x2000,
            "what was not found is not gone"
        );
        // A shorter piece than was wanted leaves the rest to others.
        assert_eq!(nursery.eden.take(3, 8, 0x1000, false).unwrap().1, 0x800);
        assert_eq!(nursery.eden.free(), 0x1800);
    }

    #[test]
    fn where_there_is_a_piece_it_is_found() {
        let nursery = Nursery::new(
            Address::new(0x10_0000),
            0x10_000,
            0x1000,
            1,
            Cut::in_turn(2),
        );
        nursery.eden.take(1, 8, 0xe000, false).unwrap();
        nursery.eden.take(1, 8, 8, false).unwrap();
        assert_eq!(backed(&nursery), [0, 0xf000]);
        assert!(nursery.eden.has_piece(0x1ff0));
        assert!(nursery.eden.take(0, 0x1ff0, 0x1ff0, false).is_some());
    }

    #[test]
    fn memory_that_all_have_a_little_of_is_gathered() {
        let nursery = Nursery::new(Address::new(0x10_0000), 0x4000, 0x1000, 1, Cut::in_turn(4));
        for node in 0..4 {
            nursery.eden.take(node, 8, 0x400, false).unwrap();
        }
        nursery.flip(&mut stopped());
        assert!(!nursery.eden.has_piece(0x2000) && nursery.eden.free() == 0x4000);
        assert_eq!(nursery.balance(&mut stopped(), 0x2000), 0);
        assert!(
            nursery.eden.has_piece(0x2000) && nursery.eden.take(3, 0x2000, 0x2000, false).is_some()
        );
    }

    #[test]
    fn with_shares_a_node_has_its_part_and_no_more() {
        let cut = Cut {
            shares: true,
            ..Cut::in_turn(4)
        };
        let nursery = Nursery::new(Address::new(0x10_0000), 0x80_000, 0x40_000, 1, cut);
        let eden = &nursery.eden;
        assert_eq!(backed(&nursery), [0x20_000; 4]);
        assert_eq!(eden.take(1, 8, 0x40_000, false).unwrap().1, 0x20_000);
        assert_eq!((eden.take(1, 8, 8, false), eden.free()), (None, 0x60_000));
        assert!(eden.has_piece(8));
        let (others, _) = eden.take(1, 8, 8, true).expect("of others, at last");
        assert_eq!(eden.node_of(others), 2);
        assert_eq!(nursery.balance(&mut stopped(), 8), 8);
        assert_eq!(backed(&nursery), [0x20_000; 4], "shares stay");
        nursery.resize(&mut stopped(), 0x40_000, 0x40_000);
        assert_eq!(backed(&nursery), [0x10_000, 0x20_000, 0x10_000, 0x10_000]);
        nursery.flip(&mut stopped());
        nursery.resize(&mut stopped(), 0x40_000, 0x40_000);
        assert_eq!(
            (backed(&nursery), eden.bytes()),
            (std::vec![0x10_000; 4], 0x40_000)
        );
        // Shares that are too small for an object are none: who comes first has what there is.
        nursery.resize(&mut stopped(), 0x10_000, 0x40_000);
        assert_eq!(eden.take(3, 0x4000, 0x4000, false).unwrap().1, 0x4000);
        assert_eq!(eden.take(3, 0x4000, 0x4000, false).unwrap().1, 0x4000);
        nursery.flip(&mut stopped());
        nursery.balance(&mut stopped(), 0x4000);
        nursery.resize(&mut stopped(), 0x40_000, 0x40_000);
        assert_eq!(backed(&nursery), [0x10_000; 4]);
        // Also after there were none, a share is all that a node has, and nothing is gathered from the others'.
        nursery.balance(&mut stopped(), 0x20_000);
        assert_eq!(backed(&nursery), [0x10_000; 4]);
        assert_eq!(eden.take(3, 8, 0x40_000, false).unwrap().1, 0x10_000);
        assert_eq!(eden.take(3, 8, 8, false), None);
    }

    #[test]
    fn a_space_is_no_smaller_than_the_pages_in_use() {
        let nursery = Nursery::new(Address::new(0x10_0000), 0x8000, 0x1000, 1, Cut::in_turn(2));
        nursery.eden.take(0, 8, 0x1008, false).unwrap();
        nursery.eden.take(1, 8, 8, false).unwrap();
        nursery.resize(&mut stopped(), 0, 0x1000);
        assert_eq!(
            (nursery.eden.bytes(), nursery.eden.used()),
            (0x3000, 0x1010)
        );
        assert_eq!(backed(&nursery), [0x2000, 0x1000]);
    }

    #[test]
    fn an_empty_space_goes_from_turn_to_turn() {
        let start = Address::new(0x10000);
        let nursery = Nursery::new(start, 0x4000, 0x1000, 3, Cut::WHOLE);
        assert_eq!((nursery.bytes(), nursery.most()), (3 * 0x6000, 0x6000));
        nursery.resize(&mut stopped(), 0x2000, 0x800);
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
                nursery.move_on(&mut stopped(), kind, 0);
            }
            assert_eq!(seen[0], seen[3]);
            assert!(!nursery.turn_of(seen[0]).unwrap().3);
        }
        assert_eq!(nursery.turn_of(start.add(nursery.bytes())), None);
    }
}
