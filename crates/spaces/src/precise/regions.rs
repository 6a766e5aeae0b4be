//! The regions of a precise heap, in the order of their addresses: constants, pinned, old, eden, the two survivor spaces,
//! large, arraylets. Constants are in no list: nothing that loops over regions looks at them.
//!
//! Each space of the nursery has a fragment for each memory node, one above the other; every other space is one region.
//! All loops over regions run from one list. In this order "surely old", "in the nursery" and "in the to-space" are one
//! comparison each.

use core::ops::Deref;

use crate::precise::bump::BumpRegion;

/// The most memory nodes that a heap can be cut for.
pub const MOST_NODES: usize = gleaner_base::options::MOST_NODES;
/// The most regions that are filled upward: all but the large space.
pub const MOST_REGIONS: usize = 2 + 3 * MOST_NODES;

/// What a region holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Objects that never move and never die, and that refer to none that do.
    Constants,
    /// Small objects that never move.
    Pinned,
    /// What was promoted.
    Old,
    /// What was just born.
    Eden,
    /// One of the two survivor spaces, by its place: 0 is the lower one.
    Survivor(usize),
    /// Objects with pages of their own.
    Large,
    /// Pieces of arrays: no objects.
    Arraylets,
}

impl Kind {
    /// All of them, in the order of their addresses.
    pub const ALL: [Kind; 8] = [
        Kind::Constants,
        Kind::Pinned,
        Kind::Old,
        Kind::Eden,
        Kind::Survivor(0),
        Kind::Survivor(1),
        Kind::Large,
        Kind::Arraylets,
    ];
    /// The kinds of the nursery.
    pub const YOUNG: [Kind; 3] = [Kind::Eden, Kind::Survivor(0), Kind::Survivor(1)];

    /// The name of the kind, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Constants => "constants",
            Kind::Pinned => "pinned",
            Kind::Old => "old",
            Kind::Eden => "eden",
            Kind::Survivor(0) => "survivor 0",
            Kind::Survivor(_) => "survivor 1",
            Kind::Large => "large",
            Kind::Arraylets => "arraylets",
        }
    }

    /// Whether it belongs to the nursery.
    pub fn is_nursery(self) -> bool {
        matches!(self, Kind::Eden | Kind::Survivor(_))
    }
}

/// A region that is filled upward.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// What it holds.
    pub kind: Kind,
    /// The memory node that its memory is to be on, counted from 0; 0 where it is on no particular one.
    pub node: usize,
    /// Its bounds at the moment, and what of it is in use.
    pub space: &'a BumpRegion,
}

/// Regions in ascending order of addresses, one at least: a slice of them, in a value of fixed size, so that one can be
/// made in a stopped world.
#[derive(Clone, Copy, Debug)]
pub struct Regions<'a> {
    /// The regions; the entries behind `count` repeat the first.
    list: [Region<'a>; MOST_REGIONS],
    count: usize,
}

impl<'a> Regions<'a> {
    /// A list of one region.
    pub fn of(kind: Kind, node: usize, space: &'a BumpRegion) -> Regions<'a> {
        Regions {
            list: [Region { kind, node, space }; MOST_REGIONS],
            count: 1,
        }
    }

    /// These regions and one more, which lies above all others.
    pub fn and(mut self, kind: Kind, node: usize, space: &'a BumpRegion) -> Regions<'a> {
        debug_assert!(self[self.count - 1].space.end() <= space.start());
        self.list[self.count] = Region { kind, node, space };
        self.count += 1;
        self
    }

    /// These regions and `others`, which lie above all of these.
    pub fn and_all(self, others: &[Region<'a>]) -> Regions<'a> {
        let with = |all: Regions<'a>, one: &Region<'a>| all.and(one.kind, one.node, one.space);
        others.iter().fold(self, with)
    }
}

impl<'a> Deref for Regions<'a> {
    type Target = [Region<'a>];

    fn deref(&self) -> &[Region<'a>] {
        &self.list[..self.count]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use gleaner_mem::Address;

    #[test]
    fn a_list_keeps_kind_node_and_space_of_each() {
        let spaces = [0, 1, 2, 3].map(|at| BumpRegion::new(Address::new((at + 1) << 20), 1 << 20));
        let nursery = Regions::of(Kind::Eden, 0, &spaces[1])
            .and(Kind::Eden, 1, &spaces[2])
            .and(Kind::Survivor(0), 2, &spaces[3]);
        let all = Regions::of(Kind::Old, 0, &spaces[0]).and_all(&nursery);
        let found: Vec<_> = all.iter().map(|one| (one.kind, one.node)).collect();
        let expected = [
            (Kind::Old, 0),
            (Kind::Eden, 0),
            (Kind::Eden, 1),
            (Kind::Survivor(0), 2),
        ];
        assert_eq!(found, expected);
        for (one, space) in all.iter().zip(&spaces) {
            assert!(core::ptr::eq(one.space, space));
        }
    }
}
