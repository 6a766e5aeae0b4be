//! What was found of arrays.

use alloc::vec::Vec;

use gleaner_mem::object_model::TypeId;

use crate::scavenge::arrays::{ArrayCounts, Geometry};
use crate::scavenge::tally::{Allocated, Tally};

/// Arrays of a type that live. Bytes are those of objects that lie in one piece, headers included, unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Living {
    /// How many.
    pub arrays: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many have more than N bytes of elements, and are cut or would be.
    pub large: u64,
    /// Bytes of these.
    pub large_bytes: u64,
    /// Of these, bytes of elements beyond N.
    pub beyond: u64,
    /// Bytes of their spines.
    pub spines: u64,
    /// How many arraylets they have if each has all of them.
    pub arraylets: u64,
    /// Of these, those that hold nothing but zeros.
    pub zero: u64,
    /// Of these, those that take no memory: they are the zero arraylet.
    pub absent: u64,
    /// Arraylets that a spine shares, or has shared, with another one.
    pub shared: u64,
}

impl Living {
    /// Adds what else lives.
    pub fn add(&mut self, other: &Living) {
        self.arrays += other.arrays;
        self.bytes += other.bytes;
        self.large += other.large;
        self.large_bytes += other.large_bytes;
        self.beyond += other.beyond;
        self.spines += other.spines;
        self.arraylets += other.arraylets;
        self.zero += other.zero;
        self.absent += other.absent;
        self.shared += other.shared;
    }
}

/// All objects that live.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// How many.
    pub objects: u64,
    /// Their bytes if all arrays lie in one piece.
    pub bytes: u64,
    /// Their bytes as they lie, arraylets included.
    pub taken: u64,
    /// Arraylets, each counted once.
    pub arraylets: u64,
}

/// What censuses have found so far.
#[derive(Debug, Default)]
pub(in crate::scavenge) struct Censuses {
    /// How many there were.
    pub(super) count: u64,
    pub(super) sum: Footprint,
    pub(super) last: Footprint,
    /// Sums, and the last census, by the number of the type.
    pub(super) types: Vec<(Living, Living)>,
    /// What mutators did that are gone.
    pub(super) gone: Option<Tally>,
    /// The bytes that these mutators had allocated.
    pub(super) gone_bytes: u64,
}

/// A type of arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayType {
    /// The type.
    pub id: TypeId,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Whether elements are references.
    pub references: bool,
    /// Arrays that were allocated.
    pub allocated: Allocated,
    /// What censuses found, added up.
    pub sum: Living,
    /// What the last one found.
    pub last: Living,
}

/// The report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayReport {
    /// How arrays are cut, or would be.
    pub geometry: Geometry,
    /// Bytes that were allocated, of all objects, if all arrays lie in one piece.
    pub allocated: u64,
    /// Accesses and copies.
    pub tally: Tally,
    /// What became of arrays in pieces.
    pub counts: ArrayCounts,
    /// How many censuses there were.
    pub censuses: u64,
    /// What they found of all objects, added up.
    pub sum: Footprint,
    /// What the last one found.
    pub last: Footprint,
    /// The types of arrays, in the order of their numbers.
    pub types: Vec<ArrayType>,
}

impl ArrayReport {
    /// The allocated arrays of the types that `which` takes.
    pub fn allocated_of(&self, which: impl Fn(&ArrayType) -> bool) -> Allocated {
        let mut all = Allocated::default();
        let types = self.types.iter().filter(|of| which(of));
        types.for_each(|of| all.add(&of.allocated));
        all
    }

    /// The living arrays of the types that `which` takes, added up over all censuses.
    pub fn living_of(&self, which: impl Fn(&ArrayType) -> bool) -> Living {
        let mut all = Living::default();
        let types = self.types.iter().filter(|of| which(of));
        types.for_each(|of| all.add(&of.sum));
        all
    }
}
