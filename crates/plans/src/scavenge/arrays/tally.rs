//! What a mutator does with arrays, counted under option `array-report` (PLDI 2010, section 6, with
//! Table 1 and Figure 2).
//!
//! Accesses and copies are counted by position: by how many bits the number has that says how many bytes from the start
//! of the elements they are. So they can be told apart at any power of two afterwards, and N is one.
//!
//! # Invariants
//! - A tally is touched by its mutator while that is inside the gate, and by the collector while the world is stopped.

use alloc::vec::Vec;

use gleaner_mem::object_model::TypeId;

use crate::scavenge::arrays::Geometry;

/// Elements of an array have fewer than 2^32 * 8 bytes.
const POSITIONS: usize = 36;

/// A number for each position: the first is for offset 0, the next for 1, the next for 2 and 3, then 4 to 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByPosition([u64; POSITIONS]);

impl ByPosition {
    /// Nothing.
    pub const NONE: ByPosition = ByPosition([0; POSITIONS]);

    /// The numbers by position.
    pub fn numbers(&self) -> &[u64] {
        &self.0
    }

    const fn position(offset: usize) -> usize {
        (usize::BITS - offset.leading_zeros()) as usize
    }

    /// Adds `count` things of `bytes` bytes each that lie side by side from an offset on.
    pub fn add(&mut self, offset: usize, count: usize, bytes: usize) {
        let (mut offset, mut left) = (offset, count);
        while left > 0 {
            let position = ByPosition::position(offset);
            let here = ((1 << position) - offset).div_ceil(bytes).min(left);
            self.0[position] += here as u64;
            offset += here * bytes;
            left -= here;
        }
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many there are below an offset, which is a power of two or 0.
    pub fn below(&self, offset: usize) -> u64 {
        self.0[..ByPosition::position(offset)].iter().sum()
    }

    fn add_all(&mut self, other: &ByPosition) {
        let pairs = self.0.iter_mut().zip(other.0);
        pairs.for_each(|(number, other)| *number += other);
    }
}

/// What is done with elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// They are read.
    Load,
    /// They are written.
    Store,
}

/// Arrays of a type that were allocated. Bytes are those of objects that lie in one piece, headers included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allocated {
    /// How many.
    pub arrays: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many have more than N bytes of elements.
    pub large: u64,
    /// Bytes of these.
    pub large_bytes: u64,
}

impl Allocated {
    /// Adds what others allocated.
    pub fn add(&mut self, other: &Allocated) {
        self.arrays += other.arrays;
        self.bytes += other.bytes;
        self.large += other.large;
        self.large_bytes += other.large_bytes;
    }
}

/// What one mutator did with arrays, or several did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Elements that were read by code that counts.
    pub loads: ByPosition,
    /// Elements that were written by code that counts.
    pub stores: ByPosition,
    /// Bytes that copies from array to array wrote.
    pub copied: ByPosition,
    /// Of these, bytes of whole arraylets that were copied to where an arraylet begins, and so can be shared.
    pub shareable: u64,
    /// Arrays that were allocated, by the number of their type.
    pub(in crate::scavenge) allocated: Vec<Allocated>,
    /// What their objects took when they were allocated.
    pub(in crate::scavenge) taken: u64,
}

impl Tally {
    /// Of nothing, with room for `types` types.
    pub(in crate::scavenge) fn new(types: usize) -> Tally {
        Tally {
            loads: ByPosition::NONE,
            stores: ByPosition::NONE,
            copied: ByPosition::NONE,
            shareable: 0,
            allocated: Vec::with_capacity(types),
            taken: 0,
        }
    }

    /// Counts an access to `count` elements of `bytes` bytes each from an offset on.
    pub fn note(&mut self, access: Access, offset: usize, count: usize, bytes: usize) {
        match access {
            Access::Load => self.loads.add(offset, count, bytes),
            Access::Store => self.stores.add(offset, count, bytes),
        }
    }

    /// Counts a copy of bytes between offsets of arrays.
    pub(in crate::scavenge) fn note_copy(
        &mut self,
        geometry: &Geometry,
        from: usize,
        to: usize,
        bytes: usize,
    ) {
        self.copied.add(to, bytes, 1);
        self.shareable += geometry.shareable(from, to, bytes) as u64;
    }

    /// Counts an array that was allocated.
    pub(in crate::scavenge) fn note_array(
        &mut self,
        id: TypeId,
        allocated: &Allocated,
        taken: usize,
    ) {
        let number = id.get() as usize;
        if self.allocated.len() <= number {
            self.allocated.resize(number + 1, Allocated::default());
        }
        self.allocated[number].add(allocated);
        self.taken += taken as u64;
    }

    /// Adds another tally. Allocates no memory where there is room for the types.
    pub(in crate::scavenge) fn add(&mut self, other: &Tally) {
        self.loads.add_all(&other.loads);
        self.stores.add_all(&other.stores);
        self.copied.add_all(&other.copied);
        self.shareable += other.shareable;
        self.taken += other.taken;
        if self.allocated.len() < other.allocated.len() {
            self.allocated
                .resize(other.allocated.len(), Allocated::default());
        }
        let pairs = self.allocated.iter_mut().zip(&other.allocated);
        pairs.for_each(|(all, others)| all.add(others));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_where_they_lie() {
        for bytes in [1, 2, 4, 8] {
            for first in [0, 1, 3, 7, 8, 100] {
                for count in [0, 1, 2, 9, 1000] {
                    let mut numbers = ByPosition::NONE;
                    numbers.add(first * bytes, count, bytes);
                    assert_eq!(numbers.total(), count as u64);
                    for shift in 0..20 {
                        let below =
                            (first..first + count).filter(|index| index * bytes < 1 << shift);
                        assert_eq!(numbers.below(1 << shift), below.count() as u64);
                    }
                    assert_eq!(numbers.below(0), 0);
                }
            }
        }
    }

    #[test]
    fn the_last_byte_of_the_longest_array_has_a_position() {
        let mut numbers = ByPosition::NONE;
        numbers.add((u32::MAX as usize) * 8 - 8, 1, 8);
        assert_eq!((numbers.total(), numbers.below(1 << 34)), (1, 0));
    }
}
