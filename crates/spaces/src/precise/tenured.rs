//! A space of the precise heap whose objects were promoted or may not move: filled block by block, hole by hole.
//!
//! Memory comes from the holes that the last marking left (mark-sweep, swept lazily: a block is looked at when a thread
//! wants to allocate in it), then from the top of the region. A thread that allocates has two blocks to itself, as in
//! Immix (PLDI 2008, section 2.1). The holes of one are filled one after the other. What finds no room in the hole goes
//! to the other, the overflow block, so that no hole is given up for one object that is larger. An overflow block that
//! has no room either is given back, with its holes. Sweeping writes nothing: the object bits say what there is, and
//! what is between is free. Holes may also be [free lines](crate::precise::mark_region), which a sweep has counted. A
//! compactor slides what lives to the bottom instead ([`mark_compact`](crate::precise::mark_compact)).
//!
//! # Invariants
//! - The start bits of the region's objects, and of nothing else, are set; except while a marking or a sliding is under
//!   way. New objects, where they lie in the space, have none.
//! - A block has one owner at most. What is handed out was not live, or lies above everything.
//! - A slot that refers to a young object lies on a dirty card (I5).
//!
//! Pieces are taken by any thread; markings are begun and finished by one thread in a stopped world.

mod blocks;
mod holes;

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_mem::object_bits::{ObjectBits, WORD_BYTES};

use crate::precise::bump::{BumpRegion, LocalBuffer};
use blocks::{Blocks, LEAST_HOLE, Search, Taken};
pub use holes::{BLOCK_BYTES, CLASS_BYTES, Holes};

/// Larger objects do not ask for a block whose holes are filled one after the other.
const SMALL_BYTES: usize = 256;

/// The space.
pub struct Tenured {
    /// Its memory. No object lies above the top.
    pub region: BumpRegion,
    blocks: Blocks,
}

/// Whether a space may take memory that it never used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// It may, as far as its region goes.
    Allowed,
    /// There are only the holes.
    Forbidden,
}

/// Where one thread allocates in a space.
#[derive(Debug, Default)]
pub struct BlockBuffer {
    /// The hole that is being filled, and the rest of its block.
    hole: LocalBuffer,
    rest: (Address, Address),
    overflow: Overflow,
}

/// A block for what found no room in the hole.
#[derive(Debug, Default)]
struct Overflow {
    hole: LocalBuffer,
    /// Where the hole began.
    start: Address,
    /// What lies between this and the cursor is in use, whatever the live bits say.
    used_from: Address,
    /// The rest of the block.
    rest: (Address, Address),
    /// The block, if it is to be given back.
    block: Option<Address>,
}

impl BlockBuffer {
    /// Room in the hole.
    #[inline(always)]
    pub fn allocate(&mut self, bytes: usize) -> Option<Address> {
        self.hole.allocate(bytes)
    }

    /// Takes back the object that was allocated last.
    #[inline]
    pub fn retract(&mut self, start: Address) {
        let overflow = &mut self.overflow;
        if start.offset_from(overflow.start)
            < overflow.hole.cursor.get().offset_from(overflow.start)
        {
            overflow.hole.retract(start);
        } else {
            self.hole.retract(start);
        }
    }
}

impl Overflow {
    fn use_hole(&mut self, hole: (Address, usize), end: Address) {
        self.hole.refill(hole);
        (self.start, self.used_from) = (hole.0, hole.0);
        self.rest = (self.hole.limit.get(), end);
    }

    fn use_block(&mut self, Taken { start, hole }: Taken) {
        self.use_hole(hole, start.add(BLOCK_BYTES));
        self.block = Some(start);
    }

    /// What was allocated since the hole was taken is in use from now on, and the live bits say so.
    fn mark_used(&self, bits: &impl Holes) {
        let bytes = self.hole.cursor.get().offset_from(self.used_from);
        if bytes > 0 {
            bits.mark_used(self.used_from, bytes);
        }
    }
}

impl Tenured {
    /// An empty space over a region; `None` when the system gives no memory.
    pub fn new(region: BumpRegion) -> Option<Tenured> {
        debug_assert_eq!(region.start().word() % WORD_BYTES, 0);
        Some(Tenured {
            blocks: Blocks::new(region.start(), region.bytes())?,
            region,
        })
    }

    /// Bytes in holes of blocks that nobody allocates in.
    pub fn holes(&self) -> usize {
        self.blocks.free()
    }

    /// Bytes that are left: above the top, and in holes.
    pub fn free(&self) -> usize {
        self.region.free() + self.holes()
    }

    /// How many blocks were looked at for holes, ever.
    pub fn looks(&self) -> usize {
        self.blocks.looks()
    }

    /// Room for an object, from a buffer that has none; none for an object larger than a block. The caller owns the
    /// buffer.
    pub fn allocate(
        &self,
        bits: &impl Holes,
        buffer: &mut BlockBuffer,
        bytes: usize,
        growth: Growth,
    ) -> Option<Address> {
        if bytes > BLOCK_BYTES {
            return None;
        }
        if bytes <= SMALL_BYTES {
            while buffer.hole.left() < LEAST_HOLE && self.next_hole(bits, buffer, growth) {}
        }
        if let Some(object) = buffer.allocate(bytes) {
            return Some(object);
        }
        let overflow = &mut buffer.overflow;
        if let Some(object) = overflow.hole.allocate(bytes) {
            return Some(object);
        }
        if self
            .refill_overflow(bits, overflow, bytes, growth)
            .is_some()
        {
            return overflow.hole.allocate(bytes);
        }
        // There is nothing else: what is left of the hole, and smaller holes, are given up.
        let (next, end) = buffer.rest;
        let hole = bits.next_hole(next, end, bytes)?;
        buffer.hole.refill(hole);
        buffer.rest.0 = buffer.hole.limit.get();
        buffer.allocate(bytes)
    }

    /// A hole of `bytes` bytes at least, which a thread fills by itself: in the block of which it has the `rest`, or of another
    /// one with holes, which is its own from then on. With `small` the holes of a block are taken one after the other, and
    /// blocks with the smallest ones come first. The search looks at a few blocks alone, or at all that are left.
    pub fn take_hole(
        &self,
        holes: &impl Holes,
        rest: &mut (Address, Address),
        (bytes, small): (usize, bool),
        at_all: bool,
    ) -> Option<(Address, usize)> {
        loop {
            let (next, end) = *rest;
            if let Some((start, size)) = holes.next_hole(next, end, bytes) {
                rest.0 = start.add(size);
                return Some((start, size));
            }
            let search = match at_all {
                false => Search::Bounded,
                true => Search::Complete,
            };
            let start = match small {
                true => self.blocks.take_any(holes)?,
                false => self.blocks.take_fitting(holes, bytes, search)?.start,
            };
            *rest = (start, start.add(BLOCK_BYTES));
        }
    }

    /// Whether a block without an owner has a hole of `bytes` bytes.
    pub fn has_hole(&self, _: &mut WorldStopped<'_>, holes: &impl Holes, bytes: usize) -> bool {
        let taken = self.blocks.take_fitting(holes, bytes, Search::Complete);
        if let Some(Taken { start, .. }) = taken {
            self.blocks.give(holes, start);
        }
        taken.is_some()
    }

    /// The next hole of the block, or of another one; whether there was one.
    fn next_hole(&self, bits: &impl Holes, buffer: &mut BlockBuffer, growth: Growth) -> bool {
        let (next, end) = buffer.rest;
        if let Some(hole) = bits.next_hole(next, end, LEAST_HOLE) {
            buffer.hole.refill(hole);
            buffer.rest.0 = buffer.hole.limit.get();
        } else if let Some(start) = self.blocks.take_any(bits) {
            buffer.rest = (start, start.add(BLOCK_BYTES));
        } else if let Some(piece) = self.take_fresh(bits, growth) {
            buffer.hole.refill(piece);
            buffer.rest = (buffer.hole.limit.get(), buffer.hole.limit.get());
        } else {
            return false;
        }
        true
    }

    /// The overflow block, or another one, has a hole of `bytes` bytes; none if there is no such hole.
    fn refill_overflow(
        &self,
        bits: &impl Holes,
        overflow: &mut Overflow,
        bytes: usize,
        growth: Growth,
    ) -> Option<()> {
        overflow.mark_used(bits);
        overflow.used_from = overflow.hole.cursor.get();
        let (next, end) = overflow.rest;
        if let Some(hole) = bits.next_hole(next, end, bytes) {
            overflow.use_hole(hole, end);
            return Some(());
        }
        if let Some(block) = core::mem::take(overflow).block {
            self.blocks.give(bits, block);
        }
        if let Some(taken) = self.blocks.take_fitting(bits, bytes, Search::Bounded) {
            overflow.use_block(taken);
            return Some(());
        }
        while let Some((start, piece)) = self.take_fresh(bits, growth) {
            let block = self.block_of(start);
            overflow.use_hole((start, piece), start.add(piece));
            // What lies below in the block was never free, and the live bits need not know of it.
            overflow.used_from = block;
            // A piece that ends with the region is not all of the block.
            overflow.block = (overflow.hole.limit.get() == block.add(BLOCK_BYTES)).then_some(block);
            if piece >= bytes {
                return Some(());
            }
            overflow.mark_used(bits);
            if let Some(block) = core::mem::take(overflow).block {
                self.blocks.give(bits, block);
            }
        }
        let taken = self.blocks.take_fitting(bits, bytes, Search::Complete)?;
        overflow.use_block(taken);
        Some(())
    }

    /// What is left of the block at the top, as a rule, if the space may grow.
    fn take_fresh(&self, bits: &impl Holes, growth: Growth) -> Option<(Address, usize)> {
        match growth {
            Growth::Allowed => bits.take_fresh(&self.region),
            Growth::Forbidden => None,
        }
    }

    fn block_of(&self, at: Address) -> Address {
        let start = self.region.start();
        start.add(at.offset_from(start) / BLOCK_BYTES * BLOCK_BYTES)
    }

    /// Clears the bits of the space in a table.
    pub fn clear(&self, world: &mut WorldStopped<'_>, bits: &ObjectBits) {
        bits.clear(
            world,
            self.region.start(),
            self.region.top().align_up(WORD_BYTES),
        );
    }

    /// What has no bits is free from now on. Buffers of the space are not used again.
    ///
    /// # Safety
    /// All that lives has its bits, with its granules.
    pub unsafe fn finish_marking(&self, world: &mut WorldStopped<'_>, bits: &ObjectBits) {
        let region = &self.region;
        let end = bits.live_end(region.start(), region.top().align_up(WORD_BYTES));
        let used = end.offset_from(region.start());
        let rounded = used.next_multiple_of(BLOCK_BYTES);
        // A last block that is not whole is filled from the top, above its objects.
        let used = if rounded <= region.used() {
            rounded
        } else {
            used
        };
        region.set_top(world, region.start().add(used));
        let whole = used / BLOCK_BYTES;
        let swept = region.start().add(whole * BLOCK_BYTES);
        let live = bits.live_bytes(region.start(), swept);
        self.blocks.reset(whole, whole * BLOCK_BYTES - live);
    }

    /// The first `swept` blocks were swept otherwise, and have holes of `free` bytes together. Buffers of the space are not
    /// used again.
    pub fn adopt_swept(&self, _: &mut WorldStopped<'_>, swept: usize, free: usize) {
        self.blocks.reset(swept, free);
    }

    /// Nothing lies above `end` any more, and there are no holes below.
    ///
    /// # Safety
    /// The objects were slid together, and their start bits are set.
    pub unsafe fn finish_sliding(
        &self,
        world: &mut WorldStopped<'_>,
        bits: &ObjectBits,
        end: Address,
    ) {
        debug_assert!(
            bits.live_bytes(self.region.start(), end.align_up(WORD_BYTES)) == 0,
            "live bits are from before the sliding"
        );
        self.blocks.reset(0, 0);
        self.region.set_top(world, end);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::precise::single_thread::stopped;
    use std::vec::Vec;

    #[test]
    fn holes_are_filled_before_the_top_and_each_once() {
        let base = Address::new(0x100_0000);
        let span = 4 * BLOCK_BYTES;
        let bits = ObjectBits::new(base, span).unwrap();
        let space = Tenured::new(BumpRegion::new(base, span)).unwrap();
        let mut buffer = BlockBuffer::default();
        let first: Vec<Address> = (0..2 * BLOCK_BYTES / 1024)
            .map(|_| {
                space
                    .allocate(&bits, &mut buffer, 1024, Growth::Allowed)
                    .unwrap()
            })
            .collect();
        assert_eq!(space.region.used(), 2 * BLOCK_BYTES);
        // Every other object of the first block lives, and none of the second.
        space.clear(&mut stopped(), &bits);
        for object in first.iter().take(BLOCK_BYTES / 1024).step_by(2) {
            assert!(bits.mark(*object));
            bits.mark_granules(*object, 1024);
        }
        // SAFETY: this thread alone has the space, and marked what lives with its granules.
        unsafe { space.finish_marking(&mut stopped(), &bits) };
        assert_eq!(space.region.used(), BLOCK_BYTES, "an empty end is cut off");
        assert_eq!(space.free(), 3 * BLOCK_BYTES + BLOCK_BYTES / 2);
        let mut buffer = BlockBuffer::default();
        let mut second = Vec::new();
        while let Some(object) = space.allocate(&bits, &mut buffer, 1024, Growth::Allowed) {
            assert!(!bits.is_marked(object));
            bits.add(object);
            second.push(object);
        }
        assert_eq!(second.len(), 16 + 3 * 32);
        assert_eq!(second[0], base.add(1024));
        assert_eq!(space.free(), 0);
    }

    #[test]
    fn a_hole_that_is_too_small_is_passed_by() {
        let base = Address::new(0x100_0000);
        let bits = ObjectBits::new(base, 2 * BLOCK_BYTES).unwrap();
        let space = Tenured::new(BumpRegion::new(base, 2 * BLOCK_BYTES)).unwrap();
        space.region.take(8, BLOCK_BYTES).unwrap();
        space.clear(&mut stopped(), &bits);
        bits.mark_granules(base.add(100 * 8), BLOCK_BYTES - 200 * 8);
        // SAFETY: this thread alone has the space, and marked what lives with its granules.
        unsafe { space.finish_marking(&mut stopped(), &bits) };
        let mut buffer = BlockBuffer::default();
        let object = space
            .allocate(&bits, &mut buffer, 100 * 8 + 8, Growth::Allowed)
            .unwrap();
        assert_eq!(object, base.add(BLOCK_BYTES));
    }
}
