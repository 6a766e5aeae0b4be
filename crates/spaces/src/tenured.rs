//! A space of the precise heap whose objects were promoted or may not move: filled block by block, hole by hole.
//!
//! Memory comes from the holes that the last marking left (mark-sweep, swept lazily: a block is looked at when somebody
//! wants to allocate in it), then from the top of the region. A thread that allocates has a block to itself. Sweeping
//! writes nothing: the object bits say what there is, and what is between is free. A compactor slides what lives to
//! the bottom instead ([`mark_compact`](crate::mark_compact)).
//!
//! # Invariants
//! - The start bits of the region's objects, and of nothing else, are set; except while a marking or a sliding is under
//!   way.
//! - A block is handed out at most once after a marking. What is handed out was not live, or lies above everything.
//! - A slot that refers to a young object lies on a dirty card (I5).
//!
//! Pieces are taken by any thread; markings are begun and finished by one thread in a stopped world.

use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_mem::object_bits::{ObjectBits, WORD_BYTES};

use crate::bump::{BumpRegion, LocalBuffer};

/// Bytes of a block: what one thread allocates in at a time.
pub const BLOCK_BYTES: usize = 32 << 10;
/// Holes with fewer bytes are not looked into.
const LEAST_HOLE: usize = 64;

/// The space.
#[derive(Debug)]
pub struct Tenured {
    /// Its memory. No object lies above the top.
    pub region: BumpRegion,
    /// The next block whose holes are handed out. Relaxed: the number decides who gets the block; its bits were
    /// written in a phase before.
    next_block: AtomicUsize,
    /// Blocks below have the holes of the last marking; none after a sliding. Set in a stopped world.
    swept_blocks: AtomicUsize,
    /// Bytes in the holes of blocks that were not handed out yet.
    hole_bytes: AtomicUsize,
}

/// Where one thread allocates in a space: a hole, and the rest of its block.
#[derive(Debug, Default)]
pub struct BlockBuffer {
    hole: LocalBuffer,
    next: Address,
    end: Address,
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
        self.hole.retract(start);
    }
}

impl Tenured {
    /// An empty space over a region.
    pub fn new(region: BumpRegion) -> Tenured {
        debug_assert_eq!(region.start().word() % WORD_BYTES, 0);
        Tenured {
            region,
            next_block: AtomicUsize::new(0),
            swept_blocks: AtomicUsize::new(0),
            hole_bytes: AtomicUsize::new(0),
        }
    }

    /// Bytes in holes that were not handed out yet.
    pub fn holes(&self) -> usize {
        self.hole_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are left: above the top, and in holes.
    pub fn free(&self) -> usize {
        self.region.free() + self.holes()
    }

    /// Room for an object, from a buffer that has none; none for an object larger than a block. The caller owns the
    /// buffer.
    pub fn allocate(
        &self,
        bits: &ObjectBits,
        buffer: &mut BlockBuffer,
        bytes: usize,
    ) -> Option<Address> {
        if bytes > BLOCK_BYTES {
            return None;
        }
        loop {
            if let Some(object) = buffer.allocate(bytes) {
                return Some(object);
            }
            let least = bytes.max(LEAST_HOLE);
            if let Some(hole) = bits.next_hole(buffer.next, buffer.end, least) {
                buffer.next = hole.0.add(hole.1);
                buffer.hole.refill(hole);
            } else if let Some((start, end)) = self.take_swept_block(bits) {
                (buffer.next, buffer.end) = (start, end);
            } else {
                let piece = self.region.take_block(BLOCK_BYTES)?;
                buffer.hole.refill(piece);
                buffer.next = buffer.end;
            }
        }
    }

    fn take_swept_block(&self, bits: &ObjectBits) -> Option<(Address, Address)> {
        let blocks = self.swept_blocks.load(Ordering::Relaxed);
        if self.next_block.load(Ordering::Relaxed) >= blocks {
            return None;
        }
        let block = self.next_block.fetch_add(1, Ordering::Relaxed);
        if block >= blocks {
            return None;
        }
        let start = self.region.start().add(block * BLOCK_BYTES);
        let end = start.add(BLOCK_BYTES);
        let free = BLOCK_BYTES - bits.live_bytes(start, end);
        self.hole_bytes.fetch_sub(free, Ordering::Relaxed);
        Some((start, end))
    }

    /// Everything counts as dead until it is marked. Buffers of the space are not used again.
    ///
    /// # Safety
    /// The world is stopped, and nobody else uses the bits.
    pub unsafe fn begin_marking(&self, bits: &ObjectBits) {
        // SAFETY: the caller's promise.
        unsafe { bits.clear(self.region.start(), self.region.top().align_up(WORD_BYTES)) };
        self.forget_holes();
    }

    /// What was not marked is free from now on.
    ///
    /// # Safety
    /// As for [`Tenured::begin_marking`]; all that lives was marked, with its granules.
    pub unsafe fn finish_marking(&self, bits: &ObjectBits) {
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
        region.set_top(region.start().add(used));
        let whole = used / BLOCK_BYTES;
        let swept = region.start().add(whole * BLOCK_BYTES);
        let live = bits.live_bytes(region.start(), swept);
        self.hole_bytes
            .store(whole * BLOCK_BYTES - live, Ordering::Relaxed);
        self.swept_blocks.store(whole, Ordering::Relaxed);
    }

    /// Nothing lies above `end` any more, and there are no holes below.
    ///
    /// # Safety
    /// The world is stopped; the objects were slid together, and their start bits are set.
    pub unsafe fn finish_sliding(&self, bits: &ObjectBits, end: Address) {
        debug_assert!(
            bits.live_bytes(self.region.start(), end.align_up(WORD_BYTES)) == 0,
            "live bits are from before the sliding"
        );
        self.forget_holes();
        self.region.set_top(end);
    }

    fn forget_holes(&self) {
        self.next_block.store(0, Ordering::Relaxed);
        self.swept_blocks.store(0, Ordering::Relaxed);
        self.hole_bytes.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn holes_are_filled_before_the_top_and_each_once() {
        let base = Address::new(0x100_0000);
        let span = 4 * BLOCK_BYTES;
        let bits = ObjectBits::new(base, span).unwrap();
        let space = Tenured::new(BumpRegion::new(base, span));
        let mut buffer = BlockBuffer::default();
        let first: Vec<Address> = (0..2 * BLOCK_BYTES / 1024)
            .map(|_| space.allocate(&bits, &mut buffer, 1024).unwrap())
            .collect();
        assert_eq!(space.region.used(), 2 * BLOCK_BYTES);
        // Every other object of the first block lives, and none of the second.
        // SAFETY: there is only this thread.
        unsafe { space.begin_marking(&bits) };
        for object in first.iter().take(BLOCK_BYTES / 1024).step_by(2) {
            assert!(bits.mark(*object));
            bits.mark_granules(*object, 1024);
        }
        // SAFETY: as above.
        unsafe { space.finish_marking(&bits) };
        assert_eq!(space.region.used(), BLOCK_BYTES, "an empty end is cut off");
        assert_eq!(space.free(), 3 * BLOCK_BYTES + BLOCK_BYTES / 2);
        let mut buffer = BlockBuffer::default();
        let mut second = Vec::new();
        while let Some(object) = space.allocate(&bits, &mut buffer, 1024) {
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
        let space = Tenured::new(BumpRegion::new(base, 2 * BLOCK_BYTES));
        space.region.take(8, BLOCK_BYTES).unwrap();
        // SAFETY: there is only this thread.
        unsafe { space.begin_marking(&bits) };
        bits.mark_granules(base.add(100 * 8), BLOCK_BYTES - 200 * 8);
        // SAFETY: as above.
        unsafe { space.finish_marking(&bits) };
        let mut buffer = BlockBuffer::default();
        let object = space.allocate(&bits, &mut buffer, 100 * 8 + 8).unwrap();
        assert_eq!(object, base.add(BLOCK_BYTES));
    }
}
