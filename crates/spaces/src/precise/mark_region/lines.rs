//! Line marks: a byte for each line of a space, beside it (Immix, PLDI 2008, sections 2.1 and 3.1).
//!
//! A line is in use if something that lives lies in it. An object that is no larger than a line marks the one in which it
//! begins, and may reach into the next; so the line behind a marked one counts as in use, too (conservative line marking).
//! A larger object marks all its lines, and so does one that reaches into another block: no line of a block is in use
//! because of a mark in the block below.
//!
//! Where new objects are allocated in free lines ([`in_place`](super::in_place)), these lines say so until the next
//! collection: which were handed out since the last one, where each piece begins, and which of them hold something that
//! this collection has reached. All of these are in use.
//!
//! # Invariants
//! - Workers of a marking set marks, all of them the same value; between markings the owner of a block does.
//! - No object that is older than the last collection lies in a line that was handed out since, or begins there.
//! - Marks are removed in a stopped world, by the leader.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicU8, Ordering};
use gleaner_mem::Address;
use gleaner_mem::side::Side;

use crate::precise::tenured::BLOCK_BYTES;

/// Bytes of a line, as a power of two.
pub const LINE_SHIFT: u32 = 7;
/// Bytes of a line.
pub const LINE_BYTES: usize = 1 << LINE_SHIFT;
/// Lines of a block.
pub const BLOCK_LINES: usize = BLOCK_BYTES / LINE_BYTES;

const FREE: u8 = 0;
const MARKED: u8 = 1;
/// Handed out since the last collection.
const NEW: u8 = 2;
/// The same, and a piece begins there.
const PIECE: u8 = 3;
/// Handed out since the last collection, and something new that lives begins there or reaches into it.
const NEW_MARKED: u8 = 4;

/// The marks of the lines of a space.
pub struct Lines {
    marks: Side<AtomicU8>,
}

/// What is free in a block.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Free {
    /// Bytes in free lines.
    pub bytes: usize,
    /// Bytes of the largest hole.
    pub largest: usize,
}

impl Lines {
    /// No line is marked; `None` when the system gives no memory. `start` is a multiple of [`LINE_BYTES`].
    pub fn new(start: Address, bytes: usize) -> Option<Lines> {
        debug_assert!(start.word().is_multiple_of(LINE_BYTES));
        Some(Lines {
            marks: Side::new(start, bytes, LINE_SHIFT)?,
        })
    }

    #[inline(always)]
    fn is_marked(&self, line: usize) -> bool {
        self.marks.get(line).load(Ordering::Relaxed) != FREE
    }

    /// Most lines were marked before: a look leaves the cache line to all workers.
    #[inline(always)]
    fn set(&self, line: usize) {
        if !self.is_marked(line) {
            self.marks.get(line).store(MARKED, Ordering::Relaxed);
        }
    }

    /// Marks the lines of an object of `bytes` bytes.
    #[inline(always)]
    pub fn mark(&self, object: Address, bytes: usize) {
        let first = self.marks.index(object);
        let last = self.marks.index(object.add(bytes - 1));
        self.set(first);
        if bytes > LINE_BYTES || first / BLOCK_LINES != last / BLOCK_LINES {
            (first + 1..=last).for_each(|line| self.set(line));
        }
    }

    /// Marks the lines of a new object of `bytes` bytes, which were handed out since the last collection: those of one block.
    #[inline(always)]
    pub fn mark_new(&self, object: Address, bytes: usize) {
        let first = self.marks.index(object);
        let last = self.marks.index(object.add(bytes - 1));
        self.marks.get(first).store(NEW_MARKED, Ordering::Relaxed);
        if bytes > LINE_BYTES {
            for line in first + 1..=last {
                self.marks.get(line).store(NEW_MARKED, Ordering::Relaxed);
            }
        }
    }

    /// A piece of whole free lines is handed out by its owner.
    pub fn hand_out(&self, start: Address, bytes: usize) {
        let first = self.marks.index(start);
        self.marks.get(first).store(PIECE, Ordering::Relaxed);
        for line in first + 1..first + bytes / LINE_BYTES {
            self.marks.get(line).store(NEW, Ordering::Relaxed);
        }
    }

    /// Whether all lines of `low..high`, whole lines, were handed out since the last collection: no older object begins
    /// there or reaches into it.
    #[inline]
    pub fn are_new(&self, low: Address, high: Address) -> bool {
        let mut lines = self.marks.index(low)..self.marks.index(high);
        lines.all(|line| self.marks.get(line).load(Ordering::Relaxed) >= NEW)
    }

    /// Whether something in `low..high`, whole lines, may be older than the last collection.
    pub fn have_older(&self, low: Address, high: Address) -> bool {
        let mut lines = self.marks.index(low)..self.marks.index(high);
        lines.any(|line| self.marks.get(line).load(Ordering::Relaxed) == MARKED)
    }

    /// The first piece in `from..end`, whole lines, that was handed out since the last collection; with its bytes.
    pub fn next_piece(&self, from: Address, end: Address) -> Option<(Address, usize)> {
        let value = |line: usize| self.marks.get(line).load(Ordering::Relaxed);
        let end = self.marks.index(end);
        let first = (self.marks.index(from)..end).find(|&line| value(line) == PIECE)?;
        let behind = (first + 1..end).find(|&line| value(line) != NEW);
        let lines = behind.unwrap_or(end) - first;
        Some((self.marks.address(first), lines * LINE_BYTES))
    }

    /// Behind a marking of new objects: of the lines of `low..high`, whole lines, that were handed out, those that hold
    /// something that lives are marked from now on, and the others are free.
    pub fn settle_new(&self, low: Address, high: Address) {
        for line in self.marks.index(low)..self.marks.index(high) {
            let mark = self.marks.get(line);
            match mark.load(Ordering::Relaxed) {
                NEW | PIECE => mark.store(FREE, Ordering::Relaxed),
                NEW_MARKED => mark.store(MARKED, Ordering::Relaxed),
                _ => {}
            }
        }
    }

    /// Marks each line that the `bytes` bytes from `start` on touch.
    pub fn mark_all(&self, start: Address, bytes: usize) {
        let last = self.marks.index(start.add(bytes - 1));
        (self.marks.index(start)..=last).for_each(|line| self.set(line));
    }

    /// The first run of free lines in `from..end` of at least `least` bytes, with its bytes. A line behind a marked one of
    /// the same block is in use.
    pub fn next_hole(&self, from: Address, end: Address, least: usize) -> Option<(Address, usize)> {
        // A thread without a block asks about an empty range that lies nowhere.
        if from >= end {
            return None;
        }
        let end = self.marks.index(end);
        let mut line = self.marks.index(from.align_up(LINE_BYTES));
        let mut may_be_reached = !line.is_multiple_of(BLOCK_LINES) && self.is_marked(line - 1);
        while line < end {
            if line.is_multiple_of(BLOCK_LINES) {
                may_be_reached = false;
            }
            if self.is_marked(line) || may_be_reached {
                may_be_reached = self.is_marked(line);
                line += 1;
                continue;
            }
            let first = line;
            while line < end && !self.is_marked(line) {
                line += 1;
            }
            let bytes = (line - first) * LINE_BYTES;
            if bytes >= least {
                return Some((self.marks.address(first), bytes));
            }
        }
        None
    }

    /// What is free in `low..high`, a block.
    pub fn free_in(&self, low: Address, high: Address) -> Free {
        let (mut free, mut at) = (Free::default(), low);
        while let Some((hole, bytes)) = self.next_hole(at, high, LINE_BYTES) {
            free.bytes += bytes;
            free.largest = free.largest.max(bytes);
            at = hole.add(bytes);
        }
        free
    }

    /// Removes the marks of the lines that lie in `low..high`, or begin there.
    pub fn clear(&self, _: &mut WorldStopped<'_>, low: Address, high: Address) {
        // SAFETY: no mutator runs and no worker is at work, so nobody else uses the marks; both ends are those of lines.
        unsafe { self.marks.clear(low, high.align_up(LINE_BYTES)) };
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.marks.bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::precise::single_thread::stopped;
    use std::vec::Vec;

    const BASE: Address = Address::new(0x100_0000);

    fn line(number: usize) -> Address {
        BASE.add(number * LINE_BYTES)
    }

    fn holes(lines: &Lines, blocks: usize) -> Vec<(usize, usize)> {
        let (mut found, mut at) = (Vec::new(), BASE);
        while let Some((hole, bytes)) = lines.next_hole(at, BASE.add(blocks * BLOCK_BYTES), 1) {
            let first = hole.offset_from(BASE) / LINE_BYTES;
            found.push((first, first + bytes / LINE_BYTES));
            at = hole.add(bytes);
        }
        found
    }

    #[test]
    fn a_small_object_takes_the_line_in_which_it_begins_and_the_one_behind() {
        let lines = Lines::new(BASE, BLOCK_BYTES).unwrap();
        assert_eq!(holes(&lines, 1), [(0, BLOCK_LINES)]);
        lines.mark(line(3).add(120), 16);
        assert_eq!(holes(&lines, 1), [(0, 3), (5, BLOCK_LINES)]);
        lines.mark(line(5), LINE_BYTES);
        lines.mark(line(8), 8);
        assert_eq!(holes(&lines, 1), [(0, 3), (7, 8), (10, BLOCK_LINES)]);
        assert_eq!(
            lines.next_hole(BASE, line(BLOCK_LINES), 4 * LINE_BYTES),
            Some((line(10), (BLOCK_LINES - 10) * LINE_BYTES))
        );
        assert_eq!(lines.next_hole(line(4), line(7), 8), None);
        assert_eq!(lines.next_hole(Address::NULL, Address::NULL, 8), None);
        assert_eq!(
            lines.next_hole(line(6).add(8), line(9), 8),
            Some((line(7), LINE_BYTES))
        );
        lines.clear(&mut stopped(), BASE, line(4));
        assert_eq!(holes(&lines, 1), [(0, 5), (7, 8), (10, BLOCK_LINES)]);
    }

    #[test]
    fn a_larger_object_takes_all_its_lines() {
        let lines = Lines::new(BASE, BLOCK_BYTES).unwrap();
        lines.mark(line(2).add(8), LINE_BYTES + 8);
        assert_eq!(holes(&lines, 1), [(0, 2), (5, BLOCK_LINES)]);
        lines.mark(line(10), 10 * LINE_BYTES);
        assert_eq!(holes(&lines, 1), [(0, 2), (5, 10), (21, BLOCK_LINES)]);
        let free = lines.free_in(BASE, line(BLOCK_LINES));
        assert_eq!(free.bytes, (2 + 5 + BLOCK_LINES - 21) * LINE_BYTES);
        assert_eq!(free.largest, (BLOCK_LINES - 21) * LINE_BYTES);
        lines.mark_all(line(0).add(8), 2 * LINE_BYTES);
        assert_eq!(holes(&lines, 1), [(5, 10), (21, BLOCK_LINES)]);
    }

    #[test]
    fn a_block_knows_nothing_of_marks_in_the_block_below() {
        let lines = Lines::new(BASE, 3 * BLOCK_BYTES).unwrap();
        // At the end of a block, and from one into the next: as objects lie that were slid.
        lines.mark(line(BLOCK_LINES - 1), 64);
        lines.mark(line(2 * BLOCK_LINES).sub(8), 16);
        assert_eq!(
            holes(&lines, 3),
            [
                (0, BLOCK_LINES - 1),
                (BLOCK_LINES, 2 * BLOCK_LINES - 1),
                (2 * BLOCK_LINES + 2, 3 * BLOCK_LINES)
            ]
        );
    }
}
