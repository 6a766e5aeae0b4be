//! What says which memory of the blocks of a space is free: the live bits of granules, or the marks of lines.

use gleaner_mem::Address;
use gleaner_mem::object_bits::ObjectBits;

use crate::precise::bump::BumpRegion;

/// Bytes of a block: what one thread allocates in at a time.
pub const BLOCK_BYTES: usize = 32 << 10;
/// Blocks are sorted by one of their holes: those of one class differ by less than this. Where holes are multiples of it, each block
/// of a class has room for the same.
pub const CLASS_BYTES: usize = 128;

/// What says which memory of the blocks of a space is free, asked about a block by its owner, or with the lock of the
/// blocks without an owner. Blocks are named by where they begin.
pub trait Holes {
    /// The first hole in `from..end`, part of a block, of at least `least` bytes; with its bytes.
    fn next_hole(&self, from: Address, end: Address, least: usize) -> Option<(Address, usize)>;

    /// The bytes of the smallest hole that there can be with at least `bytes` bytes.
    fn least_for(&self, bytes: usize) -> usize;

    /// Bytes of a hole that there surely is in the block `low..high`; 0 if none is worth anything.
    fn hole_within(&self, low: Address, high: Address) -> usize;

    /// Bytes in the block `low..high` that are not free.
    fn live_bytes(&self, low: Address, high: Address) -> usize;

    /// The `bytes` bytes from `start` on, part of a block, are in use.
    fn mark_used(&self, start: Address, bytes: usize);

    /// Memory that is free as a whole and has no owner: where it begins, and its bytes. It ends where a block does, or
    /// the region.
    fn take_fresh(&self, region: &BumpRegion) -> Option<(Address, usize)>;

    /// Whether a block below those that the last marking knew has holes since then, and had no owner. Asked once about each.
    fn is_swept(&self, block: Address) -> bool;

    /// A block of those with holes has an owner from now on.
    fn note_taken(&self, block: Address);

    /// The owner of a block gives it back, with its holes.
    fn note_given(&self, block: Address);
}

/// Each granule that no live object has is free, and what lies above the top of the region.
impl Holes for ObjectBits {
    #[inline(always)]
    fn next_hole(&self, from: Address, end: Address, least: usize) -> Option<(Address, usize)> {
        ObjectBits::next_hole(self, from, end, least)
    }

    #[inline(always)]
    fn least_for(&self, bytes: usize) -> usize {
        bytes
    }

    #[inline(always)]
    fn hole_within(&self, low: Address, high: Address) -> usize {
        ObjectBits::hole_within(self, low, high)
    }

    #[inline(always)]
    fn live_bytes(&self, low: Address, high: Address) -> usize {
        ObjectBits::live_bytes(self, low, high)
    }

    #[inline(always)]
    fn mark_used(&self, start: Address, bytes: usize) {
        self.mark_granules(start, bytes);
    }

    #[inline(always)]
    fn take_fresh(&self, region: &BumpRegion) -> Option<(Address, usize)> {
        region.take_block(BLOCK_BYTES)
    }

    #[inline(always)]
    fn is_swept(&self, _: Address) -> bool {
        true
    }

    #[inline(always)]
    fn note_taken(&self, _: Address) {}

    #[inline(always)]
    fn note_given(&self, _: Address) {}
}
