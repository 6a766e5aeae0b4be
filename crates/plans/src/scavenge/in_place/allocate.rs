//! Where mutators get pieces of free lines and free blocks to allocate in.
//!
//! A hole is a TLAB: the fast path is the one of eden. What does not fit into the hole goes to a second block, so that the
//! hole is not given up for one larger object (overflow allocation, PLDI 2008, section 2.1); if more is left there than in
//! the TLAB, the two change places. Blocks with holes come before free ones, but for larger objects, which look at few.
//!
//! # Invariants
//! - What is handed out reads as zero (I2), unless the caller promised to write all of it.
//! - A free block is taken with the lock for allocation beside the TLABs, as what large and pinned objects take: all of
//!   them together exceed no limit (I7).

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::zero;
use gleaner_spaces::precise::bump::LocalBuffer;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::mark_region::in_place::NewHoles;
use gleaner_spaces::precise::mark_region::lines::LINE_BYTES;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use super::state::InPlace;
use crate::scavenge::Scavenge;
use crate::scavenge::allocate::Fresh;
use crate::scavenge::decide::zeroing::Mode;
use crate::scavenge::mutator::Mutator;

impl<F: SlotFormat> Scavenge<F> {
    /// Room for an object of `bytes` bytes that may move. `None` if a collection comes before it, or there is none.
    pub(in crate::scavenge) fn take_in_place(
        &self,
        pieces: &InPlace,
        mutator: &Mutator,
        bytes: usize,
        fresh: Fresh,
    ) -> Option<Address> {
        if let Some(object) = self.next_window(mutator, bytes, fresh) {
            return Some(object);
        }
        let blocks = &mutator.blocks;
        // A line is worth keeping for smaller objects, which every hole has room for.
        if bytes > LINE_BYTES && mutator.tlab_left() >= LINE_BYTES {
            return self.take_overflow(pieces, mutator, bytes, fresh);
        }
        let mut rest = blocks.rest.get();
        let piece = self.take_piece(pieces, &mut rest, bytes);
        blocks.rest.set(rest);
        let piece = piece?;
        self.note_touched(mutator, piece, false);
        // SAFETY: the buffer is the calling mutator's.
        unsafe { mutator.retire_tlab() };
        mutator.note_allocated(piece.1);
        let unwritten = fresh == Fresh::Unwritten && piece.1 == bytes;
        self.refill_in_place(mutator, piece, unwritten);
        let object = match mutator.tlab.allocate(bytes) {
            Some(object) => object,
            None => self.next_window(mutator, bytes, fresh)?,
        };
        if fresh == Fresh::Zeroed && mutator.zeroes.get() != 0 {
            // SAFETY: the piece is the calling mutator's alone.
            unsafe { zero::zero(object, bytes) };
        }
        if self.config.options.stress > 0 {
            // The rest of the last line would take others without a call.
            // SAFETY: the buffer is the calling mutator's.
            unsafe { mutator.retire_tlab() };
        }
        Some(object)
    }

    /// Room for an object for which the TLAB is too small, which stays.
    fn take_overflow(
        &self,
        pieces: &InPlace,
        mutator: &Mutator,
        bytes: usize,
        fresh: Fresh,
    ) -> Option<Address> {
        let blocks = &mutator.blocks;
        let object = match blocks.overflow.allocate(bytes) {
            Some(object) => object,
            None => {
                let mut rest = blocks.overflow_rest.get();
                let piece = self.take_piece(pieces, &mut rest, bytes);
                blocks.overflow_rest.set(rest);
                let piece = piece?;
                self.note_touched(mutator, piece, false);
                // SAFETY: the hole is the calling mutator's.
                unsafe { blocks.overflow.retire() };
                blocks.overflow.refill(piece);
                blocks.overflow.allocate(bytes)?
            }
        };
        mutator.note_allocated(bytes);
        if fresh == Fresh::Zeroed {
            // SAFETY: the memory is the calling mutator's alone.
            let zero = || unsafe { self.zeroing.kernel().zero(object, bytes) };
            self.zeroing.zero_as_mutator(mutator, bytes, zero);
        }
        if blocks.overflow.left() > mutator.tlab_left() {
            self.change_places(mutator, &blocks.overflow);
        }
        Some(object)
    }

    /// The TLAB goes on in the hole of the second block, and that one in what is left of the TLAB.
    fn change_places(&self, mutator: &Mutator, overflow: &LocalBuffer) {
        let (blocks, left) = (&mutator.blocks, mutator.tlab_left());
        let small = (mutator.tlab.cursor.get(), left);
        let large = (overflow.cursor.get(), overflow.left());
        // The TLAB counts as allocated as a whole, and objects of the second block as they come.
        mutator
            .allocated_bytes
            .set(mutator.allocated_bytes.get() + large.1 as u64 - left as u64);
        overflow.refill(small);
        self.refill_in_place(mutator, large, false);
        let (rest, other) = (blocks.rest.get(), blocks.overflow_rest.get());
        blocks.rest.set(other);
        blocks.overflow_rest.set(rest);
    }

    /// The mutator allocates in a piece from now on, of which nothing is known to be zero. It is zeroed as the policy says, unless it
    /// is `unwritten`: an object that the caller writes takes all of it.
    fn refill_in_place(&self, mutator: &Mutator, piece: (Address, usize), unwritten: bool) {
        let (start, bytes) = piece;
        mutator.tlab.refill(piece);
        mutator.tlab_end.set(start.add(bytes));
        mutator.zeroes.set(0);
        match self.zeroing.mode() {
            Mode::HotPath => mutator.zeroes.set(1),
            Mode::Window => mutator.tlab.limit.set(start),
            Mode::Bulk | Mode::NonTemporal | Mode::Concurrent if unwritten => {}
            Mode::Bulk | Mode::NonTemporal | Mode::Concurrent => {
                // SAFETY: the piece is this mutator's alone.
                let zero = || unsafe { self.zeroing.kernel().zero(start, bytes) };
                self.zeroing.zero_as_mutator(mutator, bytes, zero);
            }
        }
    }

    /// A piece for at least `bytes` bytes, as large as the hole or as buffers are to be: of the block of which the mutator
    /// has the `rest`, or of another one.
    fn take_piece(
        &self,
        pieces: &InPlace,
        rest: &mut (Address, Address),
        bytes: usize,
    ) -> Option<(Address, usize)> {
        if pieces.is_due(self.young_beside()) {
            return None;
        }
        let lines = self.lines()?;
        let holes = NewHoles(lines);
        let small = bytes <= LINE_BYTES;
        let hole = self.old.take_hole(&holes, rest, (bytes, small), false);
        let hole = hole.or_else(|| self.take_free_block(lines, rest, bytes));
        // There is nothing else: all blocks are looked at.
        let hole = hole.or_else(|| self.old.take_hole(&holes, rest, (bytes, false), true));
        let (start, size) = hole?;
        // Under stress each object has a buffer of its own, so that every allocation comes here.
        let wanted = match self.config.options.stress {
            0 => self.config.options.tlab.max(bytes),
            _ => bytes,
        };
        let size = size.min(wanted.next_multiple_of(LINE_BYTES));
        rest.0 = start.add(size);
        lines.hand_out(start, size);
        pieces.note_taken(size);
        Some((start, size))
    }

    /// A block that is free as a whole, of which the mutator has the `rest` from then on; or the rest of the block at the top.
    fn take_free_block(
        &self,
        lines: &MarkRegion,
        rest: &mut (Address, Address),
        bytes: usize,
    ) -> Option<(Address, usize)> {
        let region = &self.old.region;
        let take = |locked: &mut AllocatorLocked<'_>| {
            self.make_old_room(locked, self.old_left().min(BLOCK_BYTES));
            lines.take_new(region, self.most_in_place(lines))
        };
        loop {
            // SAFETY: the calling mutator is inside the gate, and gives the proof to parts of this heap.
            let (start, size) = unsafe { self.beside.with(take) }?;
            if size >= bytes {
                *rest = (start, start.add(size));
                return Some((start, size));
            }
        }
    }

    /// Whether [`Scavenge::take_in_place`] would find room behind this collection.
    pub(in crate::scavenge) fn has_room_in_place(
        &self,
        world: &mut WorldStopped<'_>,
        bytes: usize,
    ) -> bool {
        let Some(lines) = self.lines() else {
            return false;
        };
        lines.has_new(world, &self.old.region, self.most_in_place(lines), bytes)
            || self.old.has_hole(world, &NewHoles(lines), bytes)
    }

    /// Bytes of the old space that may be in use now, vacant blocks left out: what is beside it may have grown since the last
    /// collection. Blocks that the next evacuation is to have are left as a whole.
    fn most_in_place(&self, lines: &MarkRegion) -> usize {
        let limit = self.old_limit.load(Ordering::Relaxed);
        let left = limit.saturating_sub(self.beside_used());
        let most = match lines.held() {
            0 => left,
            held => (left / BLOCK_BYTES).saturating_sub(held) * BLOCK_BYTES,
        };
        most.min(self.old.region.bytes())
    }
}
