//! New objects in free lines: pieces for mutators, and the sweep behind a marking of what is new (sticky mark bits).
//!
//! A mutator takes a block with holes, or a free one, and fills its holes one after the other; a piece is a hole or part of
//! one. The lines of a piece are those of new objects until the next collection, so that these are found without start
//! bits: a piece is walked from its first byte. A collection of new objects marks the lines of those that live, and sweeps
//! the blocks alone that had an owner: in all others nothing has changed.
//!
//! # Invariants
//! - A block that an owner had since the last sweep is in state `New` until the next one. So is each block with a piece.
//! - Pieces are whole lines, and each lies in one block.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;

use super::blocks::State;
use super::lines::LINE_BYTES;
use super::{MarkRegion, STRIP_BLOCKS};
use crate::precise::bump::BumpRegion;
use crate::precise::tenured::{BLOCK_BYTES, Holes};

/// Runs of free lines for those that allocate new objects there.
pub struct NewHoles<'a>(pub &'a MarkRegion);

impl Holes for NewHoles<'_> {
    fn next_hole(&self, from: Address, end: Address, least: usize) -> Option<(Address, usize)> {
        self.0.next_hole(from, end, least)
    }

    fn hole_within(&self, low: Address, high: Address) -> usize {
        self.0.hole_within(low, high)
    }

    fn live_bytes(&self, low: Address, high: Address) -> usize {
        self.0.live_bytes(low, high)
    }

    fn mark_used(&self, start: Address, bytes: usize) {
        self.0.mark_used(start, bytes);
    }

    /// Whole lines: what begins inside of one leaves that.
    fn take_fresh(&self, region: &BumpRegion) -> Option<(Address, usize)> {
        loop {
            let (start, bytes) = self.0.take_fresh(region)?;
            self.note_taken(start);
            let (first, end) = (
                start.align_up(LINE_BYTES),
                start.add(bytes).align_down(LINE_BYTES),
            );
            if first < end {
                return Some((first, end.offset_from(first)));
            }
        }
    }

    fn is_swept(&self, block: Address) -> bool {
        self.0.is_swept(block)
    }

    fn note_taken(&self, block: Address) {
        self.0.blocks.set(self.0.blocks.number(block), State::New);
    }

    fn note_given(&self, block: Address) {
        self.0.note_given(block);
    }
}

impl MarkRegion {
    /// A piece of whole free lines gets new objects: its owner's from now on.
    pub fn hand_out(&self, start: Address, bytes: usize) {
        self.lines.hand_out(start, bytes);
    }

    /// Marks the lines of a new object that lives.
    #[inline(always)]
    pub fn mark_new(&self, object: Address, bytes: usize) {
        self.lines.mark_new(object, bytes);
    }

    /// Whether nothing that is older than the last collection lies in `low..high`, whole lines.
    #[inline]
    pub fn are_new(&self, low: Address, high: Address) -> bool {
        self.lines.are_new(low, high)
    }

    /// Calls `each` with the bounds of every piece that was handed out since the last collection, in ascending order.
    pub fn for_each_piece(&self, region: &BumpRegion, mut each: impl FnMut(Address, Address)) {
        for number in 0..region.used().div_ceil(BLOCK_BYTES) {
            if self.blocks.get(number) != State::New {
                continue;
            }
            let (mut at, end) = (self.blocks.start(number), self.blocks.start(number + 1));
            while let Some((start, bytes)) = self.lines.next_piece(at, end) {
                at = start.add(bytes);
                each(start, at);
            }
        }
    }

    /// Before new objects are marked: what is swept next is not counted yet.
    pub fn begin_marking_new(&self, _: &mut WorldStopped<'_>) {
        self.swept_free.store(0, Ordering::Relaxed);
    }

    /// Sweeps a strip of blocks after new objects were marked. Each strip is swept once, by any worker.
    pub fn sweep_new(&self, region: &BumpRegion, strip: usize) {
        let all = region.used().div_ceil(BLOCK_BYTES);
        let mut total = 0;
        for number in strip * STRIP_BLOCKS..all.min((strip + 1) * STRIP_BLOCKS) {
            let (low, high) = (self.blocks.start(number), self.blocks.start(number + 1));
            match self.blocks.get(number) {
                State::New => {
                    self.lines.settle_new(low, high);
                    total += self.sweep_block(region, number);
                }
                State::Given => total += self.sweep_block(region, number),
                State::Sparse(_) => total += self.lines.free_in(low, high).bytes,
                State::Other | State::Vacant | State::Released | State::Candidate => {}
            }
        }
        self.swept_free.fetch_add(total, Ordering::Relaxed);
    }

    /// Everything in the region was slid together: all its lines are in use, until everything is marked.
    pub fn fill(&self, _: &mut WorldStopped<'_>, region: &BumpRegion) {
        if region.used() > 0 {
            self.lines.mark_all(region.start(), region.used());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::precise::single_thread::stopped;
    use crate::precise::tenured::Tenured;

    const BASE: Address = Address::new(0x100_0000);
    const BLOCKS: usize = 4;

    fn space() -> (MarkRegion, Tenured) {
        let region = BumpRegion::new(BASE, BLOCKS * BLOCK_BYTES);
        let lines = MarkRegion::new(BASE, BLOCKS * BLOCK_BYTES, true).unwrap();
        (lines, Tenured::new(region).unwrap())
    }

    fn pieces(lines: &MarkRegion, space: &Tenured) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        lines.for_each_piece(&space.region, |low, high| {
            found.push((low.offset_from(BASE), high.offset_from(BASE)));
        });
        found
    }

    fn sweep(lines: &MarkRegion, space: &Tenured) {
        (0..lines.strips(&space.region)).for_each(|strip| lines.sweep_new(&space.region, strip));
        lines.finish_sweeping(&mut stopped(), space);
    }

    #[test]
    fn pieces_are_found_until_a_sweep_frees_the_lines_in_which_nothing_lives() {
        let (lines, space) = space();
        let holes = NewHoles(&lines);
        for _ in 0..2 {
            let (start, bytes) = holes.take_fresh(&space.region).unwrap();
            assert_eq!(bytes, BLOCK_BYTES);
            lines.hand_out(start, 3 * LINE_BYTES);
            lines.hand_out(start.add(3 * LINE_BYTES), LINE_BYTES);
        }
        let second = BASE.add(BLOCK_BYTES);
        let found = [(0, 384), (384, 512), (BLOCK_BYTES, BLOCK_BYTES + 384)];
        assert_eq!(pieces(&lines, &space)[..3], found);
        assert!(lines.are_new(BASE, BASE.add(512)) && !lines.are_new(BASE, BASE.add(640)));
        lines.begin_marking_new(&mut stopped());
        // A small object that reaches into the next line, and a larger one.
        lines.mark_new(second.add(120), 16);
        lines.mark_new(second.add(2 * LINE_BYTES), 2 * LINE_BYTES);
        assert!(lines.are_new(second, second.add(512)));
        sweep(&lines, &space);
        assert!(pieces(&lines, &space).is_empty());
        assert_eq!(lines.vacant_bytes(), BLOCK_BYTES);
        let mut rest = (Address::NULL, Address::NULL);
        let hole = space.take_hole(&holes, &mut rest, (8, true), false);
        // The line behind the last marked one counts as in use.
        let start = second.add(5 * LINE_BYTES);
        assert_eq!(hole, Some((start, BLOCK_BYTES - 5 * LINE_BYTES)));
        assert_eq!(holes.take_fresh(&space.region), Some((BASE, BLOCK_BYTES)));
        assert!(!lines.are_new(second, second.add(512)));
    }

    #[test]
    fn blocks_without_an_owner_are_as_before() {
        let (lines, space) = space();
        let holes = NewHoles(&lines);
        let live = |number: usize| BASE.add(number * BLOCK_BYTES);
        for number in 0..3 {
            let (start, bytes) = holes.take_fresh(&space.region).unwrap();
            lines.hand_out(start, bytes);
            lines.mark_new(live(number), 8);
        }
        sweep(&lines, &space);
        let free = BLOCK_BYTES - 2 * LINE_BYTES;
        assert_eq!(space.holes(), 3 * free);
        let mut rest = (Address::NULL, Address::NULL);
        let taken = space
            .take_hole(&holes, &mut rest, (free, false), true)
            .unwrap();
        assert_eq!((taken.1, space.holes()), (free, 2 * free));
        lines.hand_out(taken.0, taken.1);
        // Nothing new lives. The other two are not looked at for anything but what is free there.
        sweep(&lines, &space);
        assert_eq!((space.holes(), lines.vacant_bytes()), (3 * free, 0));
        assert!(space.has_hole(&mut stopped(), &holes, free));
        assert!(!space.has_hole(&mut stopped(), &holes, free + 8));
        assert_eq!(space.holes(), 3 * free);
    }

    #[test]
    fn what_was_slid_together_has_no_hole_and_a_piece_begins_with_a_line() {
        let (lines, space) = space();
        let holes = NewHoles(&lines);
        space.region.take(8, BLOCK_BYTES + 72).unwrap();
        lines.fill(&mut stopped(), &space.region);
        let (start, bytes) = holes.take_fresh(&space.region).unwrap();
        let first = BASE.add(BLOCK_BYTES + LINE_BYTES);
        assert_eq!((start, bytes), (first, BLOCK_BYTES - LINE_BYTES));
        lines.hand_out(start, bytes);
        sweep(&lines, &space);
        let mut rest = (Address::NULL, Address::NULL);
        let taken = space.take_hole(&holes, &mut rest, (8, true), false);
        let second = first.add(LINE_BYTES);
        assert_eq!(taken, Some((second, BLOCK_BYTES - 2 * LINE_BYTES)));
        assert_eq!(space.take_hole(&holes, &mut rest, (8, true), true), None);
    }
}
