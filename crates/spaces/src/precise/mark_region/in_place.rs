//! New objects in free lines: pieces for mutators, and the sweep behind a marking of what is new (sticky mark bits).
//!
//! A mutator takes a block with holes, or a free one, and fills its holes one after the other; a piece is a hole or part of
//! one. The lines of a piece are those of new objects until the next collection, so that these are found without start
//! bits: a piece is walked from its first byte. A collection of new objects marks the lines of those that live, and sweeps
//! the blocks alone that had an owner: in all others nothing has changed. Blocks in which nothing is old may be chosen
//! before: what lives there is copied to whole free blocks.
//!
//! # Invariants
//! - A block that an owner had since the last sweep is in state `New` until the next one. So is each block with a piece.
//! - Pieces are whole lines, and each lies in one block.
//! - Blocks that were chosen are candidates while new objects are marked, and `New` before and behind that.

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

    fn least_for(&self, bytes: usize) -> usize {
        self.0.least_for(bytes)
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

    fn take_fresh(&self, region: &BumpRegion) -> Option<(Address, usize)> {
        self.0.take_new(region, self.0.most())
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
    /// What is free as a whole and has no owner, for new objects: a vacant block, or what is left of the one at the top, with
    /// its bytes. Whole lines: what begins inside of one leaves that. No more than `most` bytes are in use then: none is taken,
    /// or a part of the block at the top.
    pub fn take_new(&self, region: &BumpRegion, most: usize) -> Option<(Address, usize)> {
        let most = most / LINE_BYTES * LINE_BYTES;
        loop {
            let (start, bytes) = self.blocks.take_free(region, most)?;
            self.blocks.set(self.blocks.number(start), State::New);
            let (first, end) = (start.align_up(LINE_BYTES), start.add(bytes));
            if first < end {
                return Some((first, end.offset_from(first)));
            }
        }
    }

    /// Whether [`MarkRegion::take_new`] would give `bytes` bytes in one piece, if it is asked until it does. These are no more
    /// than a block.
    pub fn has_new(
        &self,
        _: &mut WorldStopped<'_>,
        region: &BumpRegion,
        most: usize,
        bytes: usize,
    ) -> bool {
        let used = self.used(region);
        let left = (most / LINE_BYTES * LINE_BYTES).saturating_sub(used);
        if self.vacant_bytes() > 0 {
            return left >= BLOCK_BYTES;
        }
        // What is left of the block at the top comes first.
        let rest = left.min(BLOCK_BYTES - used % BLOCK_BYTES);
        rest / LINE_BYTES * LINE_BYTES >= bytes || left - rest >= bytes
    }

    /// Bytes in holes of at least `least` bytes, in blocks without an owner; or `enough`, if there are as many.
    pub fn in_holes(
        &self,
        _: &mut WorldStopped<'_>,
        region: &BumpRegion,
        least: usize,
        enough: usize,
    ) -> usize {
        let mut found = 0;
        for number in 0..region.used() / BLOCK_BYTES {
            let (mut at, end) = (self.blocks.start(number), self.blocks.start(number + 1));
            if !matches!(self.blocks.get(number), State::Sparse(_) | State::Given) {
                continue;
            }
            while let Some((hole, bytes)) = self.lines.next_hole(at, end, least) {
                found += bytes;
                at = hole.add(bytes);
            }
            if found >= enough {
                return enough;
            }
        }
        found
    }

    /// New objects lie in free lines from now on. What was promoted since the sweep has marked no lines: all lines of the blocks in
    /// which it may lie are in use, until everything is marked.
    pub fn begin_new(&self, _: &mut WorldStopped<'_>, region: &BumpRegion) {
        for number in 0..region.used().div_ceil(BLOCK_BYTES) {
            if self.blocks.get(number) == State::Other {
                let start = self.blocks.start(number);
                let end = self.blocks.start(number + 1).min(region.top());
                self.lines.mark_all(start, end.offset_from(start));
            }
        }
    }

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

    /// Whether an object of the space is newer than the last collection, or lies in a line that was handed out since.
    #[inline]
    pub fn is_new(&self, object: Address) -> bool {
        let line = object.align_down(LINE_BYTES);
        self.lines.are_new(line, line.add(LINE_BYTES))
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

    /// Before everything is marked: of the first `blocks` blocks, those in which nothing is old stay in state `New` until they are
    /// swept, and no others.
    pub(super) fn keep_new(&self, blocks: usize) {
        for number in 0..blocks {
            let (low, high) = (self.blocks.start(number), self.blocks.start(number + 1));
            if self.blocks.get(number) == State::New && self.lines.have_older(low, high) {
                self.blocks.set(number, State::Other);
            }
        }
        self.new_swept.0.store(0, Ordering::Relaxed);
        self.new_swept.1.store(0, Ordering::Relaxed);
    }

    /// Of blocks in which nothing was old when everything was marked, the share that something lives in since then, in thousandths;
    /// `None` if there were none, or that was taken before.
    pub fn take_new_lived(&self) -> Option<usize> {
        let swept = self.new_swept.0.swap(0, Ordering::Relaxed);
        let free = self.new_swept.1.swap(0, Ordering::Relaxed);
        ((swept - free) * 1000).checked_div(swept)
    }

    /// Before new objects are marked: what is swept next is not counted yet.
    pub fn begin_marking_new(&self, _: &mut WorldStopped<'_>) {
        self.swept_free.store(0, Ordering::Relaxed);
    }

    /// Before new objects are marked: those of blocks in which nothing older lies are evacuated. How many blocks that are.
    pub fn choose_new(&self, _: &mut WorldStopped<'_>, region: &BumpRegion) -> usize {
        let mut chosen = 0;
        for number in 0..region.used() / BLOCK_BYTES {
            let (low, high) = (self.blocks.start(number), self.blocks.start(number + 1));
            if self.blocks.get(number) == State::New && !self.lines.have_older(low, high) {
                self.blocks.set(number, State::Candidate);
                chosen += 1;
            }
        }
        chosen
    }

    /// What lives in the blocks that were chosen is copied into up to `copies` others.
    pub fn evacuate_new(&self, _: &mut WorldStopped<'_>, copies: usize) {
        self.copies.store(copies, Ordering::Relaxed);
    }

    /// The block of a new object that keeps its place is not evacuated.
    pub fn spare_new(&self, _: &mut WorldStopped<'_>, object: Address) {
        if self.is_candidate(object) {
            self.blocks.set(self.blocks.number(object), State::New);
        }
    }

    /// A whole free block for copies of new objects, with its bytes, if any may be taken. What is left of the one at the top is
    /// passed by, and swept with the others: old objects may reach into its first cards.
    pub fn take_for_copies_of_new(&self, region: &BumpRegion) -> Option<(Address, usize)> {
        let (ok, relaxed) = (Ordering::Relaxed, Ordering::Relaxed);
        let one_less = |left: usize| left.checked_sub(1);
        self.copies.fetch_update(ok, relaxed, one_less).ok()?;
        loop {
            let block = self.take_new(region, self.most())?;
            if block.1 == BLOCK_BYTES {
                return Some(block);
            }
        }
    }

    /// Behind the marking: blocks that were chosen are swept as others with new objects.
    pub fn end_evacuation_of_new(&self, _: &mut WorldStopped<'_>, region: &BumpRegion) {
        for number in 0..region.used() / BLOCK_BYTES {
            if self.blocks.get(number) == State::Candidate {
                self.blocks.set(number, State::New);
            }
        }
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
        let has = |most| lines.has_new(&mut stopped(), &space.region, most, 8);
        assert!(has(2 * BLOCK_BYTES) && !has(2 * BLOCK_BYTES - 8));
        let mut rest = (Address::NULL, Address::NULL);
        let hole = space.take_hole(&holes, &mut rest, (8, true), false);
        // The line behind the last marked one counts as in use.
        let start = second.add(5 * LINE_BYTES);
        assert_eq!(hole, Some((start, BLOCK_BYTES - 5 * LINE_BYTES)));
        assert_eq!(holes.take_fresh(&space.region), Some((BASE, BLOCK_BYTES)));
        assert!(!lines.are_new(second, second.add(512)));
    }

    /// A sweep of everything tells how much of the blocks is in use in which nothing was old before, and of no others.
    #[test]
    fn a_sweep_of_everything_tells_how_much_of_what_is_new_lives() {
        let (lines, space) = space();
        let block = |number: usize| BASE.add(number * BLOCK_BYTES);
        for number in 0..2 {
            let (start, _) = lines.take_new(&space.region, BLOCKS * BLOCK_BYTES).unwrap();
            lines.hand_out(start, BLOCK_BYTES);
            lines.mark_new(block(number), 2 * LINE_BYTES);
        }
        sweep(&lines, &space);
        assert_eq!(lines.take_new_lived(), None, "only what is new was swept");
        // New objects lie in a block with old ones, and in two without.
        let mut rest = (Address::NULL, Address::NULL);
        let holes = NewHoles(&lines);
        let (start, bytes) = space
            .take_hole(&holes, &mut rest, (8, true), false)
            .unwrap();
        lines.hand_out(start, bytes);
        for _ in 2..BLOCKS {
            let (start, _) = lines.take_new(&space.region, BLOCKS * BLOCK_BYTES).unwrap();
            lines.hand_out(start, BLOCK_BYTES);
        }
        lines.begin_marking(&mut stopped(), &space.region);
        lines.mark(start, bytes);
        let half = BLOCK_BYTES / 2 - LINE_BYTES;
        lines.mark(block(2), half);
        (0..lines.strips(&space.region)).for_each(|strip| lines.sweep(&space.region, strip));
        lines.finish_sweeping(&mut stopped(), &space);
        // A half of one block with the line behind it, and nothing of the other.
        assert_eq!(lines.take_new_lived(), Some(250));
        assert_eq!(lines.take_new_lived(), None, "it was taken");
    }

    /// What scavenges have promoted marks no lines; what is free of other blocks stays so.
    #[test]
    fn where_others_were_promoted_no_line_is_free() {
        let (lines, space) = space();
        let live = |number: usize| BASE.add(number * BLOCK_BYTES);
        for number in 0..2 {
            lines.take_new(&space.region, BLOCKS * BLOCK_BYTES).unwrap();
            lines.mark_new(live(number), 8);
        }
        sweep(&lines, &space);
        let mut rest = (Address::NULL, Address::NULL);
        space
            .take_hole(&lines, &mut rest, (8, true), false)
            .unwrap();
        // And a part of the block at the top.
        let most = 2 * BLOCK_BYTES + 3 * LINE_BYTES;
        Holes::take_fresh(&lines, &space.region).unwrap();
        let top = live(2).add(3 * LINE_BYTES);
        space.region.set_top(&mut stopped(), top);
        lines.begin_new(&mut stopped(), &space.region);
        let mut found = Vec::new();
        lines.for_each_free(&space.region, |start, bytes| {
            found.push((start.offset_from(BASE), bytes));
        });
        let behind = 2 * LINE_BYTES;
        assert_eq!(found, [(behind, BLOCK_BYTES - behind)]);
        let (start, bytes) = lines
            .take_new(&space.region, most + 5 * LINE_BYTES)
            .unwrap();
        assert_eq!((start, bytes), (top, 5 * LINE_BYTES));
        lines.hand_out(start, bytes);
        sweep(&lines, &space);
        assert_eq!(space.region.top(), live(2).add(8 * LINE_BYTES));
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
        // One that was asked about was given back, and is swept as the others.
        sweep(&lines, &space);
        assert_eq!(space.holes(), 3 * free);
        for left in (0..3).rev() {
            let mut rest = (Address::NULL, Address::NULL);
            let hole = space.take_hole(&holes, &mut rest, (free, false), true);
            assert_eq!((hole.unwrap().1, space.holes()), (free, left * free));
        }
    }

    #[test]
    fn new_objects_leave_blocks_without_anything_old_for_whole_free_ones() {
        let (lines, space) = space();
        let (region, mut world) = (&space.region, stopped());
        let block = |number: usize| BASE.add(number * BLOCK_BYTES);
        // Something is old in block 0, which has new objects, too, as the others.
        let holes = NewHoles(&lines);
        let (start, bytes) = holes.take_fresh(region).unwrap();
        lines.hand_out(start, bytes);
        lines.mark_new(start, 8);
        sweep(&lines, &space);
        let mut rest = (Address::NULL, Address::NULL);
        let hole = space.take_hole(&holes, &mut rest, (8, true), false);
        let (start, bytes) = hole.unwrap();
        lines.hand_out(start, bytes);
        for number in 1..3 {
            let (start, bytes) = lines.take_new(region, BLOCKS * BLOCK_BYTES).unwrap();
            assert_eq!(start, block(number));
            lines.hand_out(start, bytes);
        }
        assert!(!lines.is_new(block(0)) && lines.is_new(start) && lines.is_new(block(2)));
        assert_eq!(lines.choose_new(&mut world, region), 2);
        let chosen = [0, 1, 2].map(|number| lines.is_candidate(block(number).add(40)));
        assert_eq!(chosen, [false, true, true]);
        lines.spare_new(&mut world, block(2).add(8));
        lines.spare_new(&mut world, block(0));
        assert!(lines.is_candidate(block(1)) && !lines.is_candidate(block(2)));
        lines.evacuate_new(&mut world, 2);
        let copies = lines.take_for_copies_of_new(region);
        assert_eq!(copies, Some((block(3), BLOCK_BYTES)));
        assert_eq!(lines.take_for_copies_of_new(region), None, "it is full");
        lines.mark(block(3), 64);
        lines.mark_new(block(2), 64);
        lines.end_evacuation_of_new(&mut world, region);
        lines.begin_marking_new(&mut world);
        sweep(&lines, &space);
        assert_eq!(lines.vacant_bytes(), BLOCK_BYTES);
        assert_eq!(
            space.holes(),
            3 * (BLOCK_BYTES - 2 * LINE_BYTES),
            "copies leave holes as others do"
        );
    }

    #[test]
    fn copies_of_new_objects_pass_by_the_rest_of_a_block() {
        let (lines, space) = space();
        let (region, mut world) = (&space.region, stopped());
        region.take(8, 1000).unwrap();
        lines.fill(&mut world, region);
        lines.evacuate_new(&mut world, 1);
        let copies = lines.take_for_copies_of_new(region);
        assert_eq!(copies, Some((BASE.add(BLOCK_BYTES), BLOCK_BYTES)));
        assert_eq!(lines.take_for_copies_of_new(region), None, "one was to be");
        lines.mark(BASE.add(BLOCK_BYTES), 8);
        sweep(&lines, &space);
        // What was passed by is a hole, behind eight lines and the one that may be reached into.
        assert_eq!(space.holes(), 2 * BLOCK_BYTES - (9 + 2) * LINE_BYTES);
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

    #[test]
    fn the_block_at_the_top_is_taken_as_far_as_it_may_be_in_use() {
        let (lines, space) = space();
        let (region, mut world) = (&space.region, stopped());
        region.take(8, BLOCK_BYTES + 200).unwrap();
        let first = BASE.add(BLOCK_BYTES + 2 * LINE_BYTES);
        let left = BLOCK_BYTES - 2 * LINE_BYTES;
        let has =
            |world: &mut WorldStopped<'_>, most, bytes| lines.has_new(world, region, most, bytes);
        // The block at the top, and another one.
        let (one, two) = (2 * BLOCK_BYTES, 3 * BLOCK_BYTES);
        assert!(has(&mut world, one, left) && !has(&mut world, one - 1, left));
        assert!(!has(&mut world, one, left + 8) && has(&mut world, two - 1, left + 8));
        assert!(has(&mut world, two, BLOCK_BYTES) && !has(&mut world, two - 1, BLOCK_BYTES));
        // Lines as a whole.
        let part = BLOCK_BYTES + 8 * LINE_BYTES;
        assert_eq!(lines.take_new(region, BLOCK_BYTES + 2 * LINE_BYTES), None);
        assert_eq!(
            lines.take_new(region, part + 8),
            Some((first, 6 * LINE_BYTES))
        );
        assert_eq!(lines.take_new(region, part + LINE_BYTES - 8), None);
        let rest = (BASE.add(part), BLOCK_BYTES - 8 * LINE_BYTES);
        assert_eq!(lines.take_new(region, one), Some(rest));
        lines.hand_out(rest.0, LINE_BYTES);
        lines.hand_out(first, 6 * LINE_BYTES);
        let found = [first, rest.0].map(|start| start.offset_from(BASE));
        let found = [(found[0], part), (part, part + LINE_BYTES)];
        assert_eq!(pieces(&lines, &space), found);
        assert!(has(&mut world, two, BLOCK_BYTES));
        // Nothing new lives, and nothing else does in these lines.
        sweep(&lines, &space);
        assert_eq!((lines.vacant_bytes(), region.used()), (0, BLOCK_BYTES));
        // A part of a block that lives is no hole, and the rest of it is taken once more.
        let (start, bytes) = lines.take_new(region, part).unwrap();
        assert_eq!((start, bytes), (BASE.add(BLOCK_BYTES), 8 * LINE_BYTES));
        lines.hand_out(start, bytes);
        lines.mark_new(start, 8);
        sweep(&lines, &space);
        assert_eq!((space.holes(), region.used()), (0, part));
        assert_eq!(lines.take_new(region, two), Some(rest));
        // Vacant blocks are taken as a whole.
        lines.take_new(region, two).unwrap();
        sweep(&lines, &space);
        assert_eq!(region.used(), two - BLOCK_BYTES);
        let hole = BLOCK_BYTES - 2 * LINE_BYTES;
        assert_eq!(space.holes(), hole);
        let mut holes = |least, enough| lines.in_holes(&mut world, region, least, enough);
        assert_eq!(
            [8, hole, hole + 8].map(|least| holes(least, !0)),
            [hole, hole, 0]
        );
        assert_eq!(holes(8, 1000), 1000);
    }

    /// No line is left of a block in whose last one something begins: the next block is taken.
    #[test]
    fn what_is_left_of_a_line_is_passed_by() {
        let (lines, space) = space();
        let (region, mut world) = (&space.region, stopped());
        region.take(8, BLOCK_BYTES - 64).unwrap();
        let most = 2 * BLOCK_BYTES;
        let less = BLOCK_BYTES + LINE_BYTES - 8;
        assert!(!lines.has_new(&mut world, region, less, 8));
        assert!(lines.has_new(&mut world, region, less + 8, 8));
        assert!(lines.has_new(&mut world, region, most, BLOCK_BYTES));
        let second = BASE.add(BLOCK_BYTES);
        assert_eq!(lines.take_new(region, most), Some((second, BLOCK_BYTES)));
    }
}

/// The shipped code under loom.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    const BASE: Address = Address::new(0x100_0000);

    struct Space {
        lines: MarkRegion,
        region: BumpRegion,
    }

    impl Space {
        fn new() -> Arc<Space> {
            Arc::new(Space {
                lines: MarkRegion::new(BASE, BLOCK_BYTES, true).unwrap(),
                region: BumpRegion::new(BASE, BLOCK_BYTES),
            })
        }

        /// What a mutator does that finds no hole: it takes what is left up to `most` lines, and hands a line out, which a
        /// search for the next hole passes by. How many lines it took.
        fn allocate(&self, most: usize) -> usize {
            let taken = self.lines.take_new(&self.region, most * LINE_BYTES);
            let Some((start, bytes)) = taken else {
                return 0;
            };
            self.lines.hand_out(start, LINE_BYTES);
            let (behind, end) = (start.add(LINE_BYTES), start.add(bytes));
            // The line behind one that is in use counts as in use, too.
            let third = behind.add(LINE_BYTES);
            let expected = (third < end).then(|| (third, end.offset_from(third)));
            assert_eq!(self.lines.next_hole(behind, end, 8), expected);
            bytes / LINE_BYTES
        }
    }

    /// The limit rises while two mutators take parts of the block at the top: what one takes the other does not, and each
    /// piece is found as it was handed out.
    #[test]
    fn parts_of_a_block_have_one_owner_each() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let space = Space::new();
            let other = {
                let space = space.clone();
                thread::spawn(move || space.allocate(3))
            };
            let own = space.allocate(6);
            let others = other.join().unwrap();
            assert!(matches!((others, own), (3, 3) | (0, 6)));
            let mut pieces = std::vec::Vec::new();
            space.lines.for_each_piece(&space.region, |low, high| {
                assert_eq!(high.offset_from(low), LINE_BYTES);
                pieces.push(low.offset_from(BASE) / LINE_BYTES);
            });
            assert_eq!(pieces, if others > 0 { &[0, 3][..] } else { &[0] });
        });
    }

    /// Two workers mark new objects that share a line, and one looks at a card there: all its lines are new whatever the
    /// other has marked, and what lives keeps its lines.
    #[test]
    fn lines_of_new_objects_are_marked_by_several_workers() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let space = Space::new();
            let line = |number: usize| BASE.add(number * LINE_BYTES);
            let lines = &space.lines;
            lines.take_new(&space.region, 8 * LINE_BYTES).unwrap();
            lines.hand_out(BASE, 8 * LINE_BYTES);
            let other = {
                let space = space.clone();
                thread::spawn(move || {
                    space.lines.mark_new(line(1), 64);
                    assert!(space.lines.are_new(BASE, line(4)));
                })
            };
            lines.mark_new(line(1).add(64), LINE_BYTES + 8);
            assert!(lines.are_new(BASE, line(4)));
            other.join().unwrap();
            lines.lines.settle_new(BASE, line(8));
            assert!(!lines.are_new(line(1), line(3)));
            let holes = [BASE, line(1)].map(|from| lines.next_hole(from, line(8), 8));
            let behind = (line(4), 4 * LINE_BYTES);
            assert_eq!(holes, [Some((BASE, LINE_BYTES)), Some(behind)]);
        });
    }
}
