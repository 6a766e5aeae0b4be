//! The queue of `prefetch=edges`: what was found waits here, first as a word, then as an object whose mark is to be checked.
//!
//! While an object waits, its mark byte and its first line are on the way. This is edge enqueuing (Garner, Blackburn,
//! Frampton, "Effective prefetch for mark-sweep garbage collection", ISMM 2007), with marks at the side.
//!
//! The older policies check the mark of a candidate at once and wait for its cache line, or for a branch that the
//! processor guessed wrong because the line was not there. Here three loops take turns, each short enough to stay in
//! registers and without a branch on what nobody can guess. The first scans small objects and keeps their words that
//! lead into the heap. When there are enough words, the second resolves them and prefetches what they refer to. The
//! third checks the marks of the objects of the turn before, whose lines have come.
//!
//! # Invariants
//! - What is in the queue is neither marked by being there nor lost: a worker is idle only when the queue is empty.
//! - The stack has room for half a queue before the marks of one are checked, else they are checked one by one.
//!
//! Used by the worker that owns it. It is empty when a stop ends, or a step beside the program.

use core::hint::select_unpredictable;
use core::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_mem::address::CACHE_LINE;

use super::edge_queue::{PLACES, SMALL, read_fields};
use super::entry::{Entry, FROM_HEAP, read_halves};
use super::prefetch::Policy;
use super::scan::Scanner;
use super::{MARKED, WHITE};
use crate::mark_sweep::block::Resolved;

/// Writes those of the words of `low..high` to `next` that lie in the span of the heap, without a branch on which do; answers
/// with the place behind them. Elements of a typed array may begin within a word, so the last word may end behind the range.
///
/// # Safety
/// The words must be readable, and there must be places for all of them and for one more.
#[inline(always)]
unsafe fn keep_candidates(
    low: usize,
    high: usize,
    heap: usize,
    span: usize,
    next: *mut usize,
) -> *mut usize {
    let (mut at, mut next) = (low, next);
    while at < high {
        // SAFETY: the word is readable, and there are places for all words and for one more, as asked.
        unsafe {
            let word = Address::new(at).load_shared();
            next.write(word);
            next = next.add(usize::from(word.wrapping_sub(heap) < span));
        }
        at += 8;
    }
    next
}
impl Scanner {
    /// Pops and scans small objects, up to `most` of them, until nothing is grey or the newest entry is of another sort; how
    /// many were scanned. Under policies that keep no words there are none of this sort.
    ///
    /// # Safety
    /// As for [`Scanner::scan_entry`], of the entries on the stack.
    #[inline(always)]
    pub(super) unsafe fn scan_small<P: Policy>(&mut self, most: u32) -> u32 {
        if !P::KEEPS_WORDS {
            return 0;
        }
        let (heap, span) = (self.context().table.heap.word(), self.context().table.span);
        let ahead = self.look_ahead * CACHE_LINE;
        let mut words = self.edges.words.as_mut_ptr();
        // SAFETY: places of the array.
        let (mut next, mut enough) =
            unsafe { (words.add(self.edges.found), words.add(self.edges.half)) };
        let (mut left, mut bytes, mut top) = (most, 0, self.top);
        while left != 0 && top != self.bottom {
            // SAFETY: the stack is not empty.
            let newest = unsafe { top.sub(1) };
            // SAFETY: the stack is not empty, so its newest entry is readable.
            let Entry { start, descriptor } = unsafe { read_halves(newest) };
            if descriptor & !SMALL != 0 {
                break;
            }
            if descriptor > CACHE_LINE && ahead != 0 {
                P::touch(start + ahead);
            }
            top = newest;
            left -= 1;
            bytes += descriptor;
            // SAFETY: the entry describes readable words, as asked; fewer than are enough are kept, and they are few.
            next = unsafe { keep_candidates(start, start + descriptor, heap, span, next) };
            if next >= enough {
                self.top = top;
                // SAFETY: both point into the array.
                self.edges.found = unsafe { next.offset_from_unsigned(words) };
                self.resolve_words::<P>();
                words = self.edges.words.as_mut_ptr();
                // SAFETY: places of the array.
                (next, enough) =
                    unsafe { (words.add(self.edges.found), words.add(self.edges.half)) };
                top = self.top;
            }
        }
        self.top = top;
        // SAFETY: both point into the array.
        self.edges.found = unsafe { next.offset_from_unsigned(words) };
        let scanned = most - left;
        self.scanned += scanned as usize;
        self.scanned_bytes += bytes;
        scanned
    }

    /// Keeps the words of `low..high`, both 8-aligned, that lie in the span of the heap.
    ///
    /// # Safety
    /// The range must be readable.
    #[inline]
    pub(super) unsafe fn keep_words<P: Policy>(&mut self, low: usize, high: usize) {
        let (heap, span) = (self.context().table.heap.word(), self.context().table.span);
        let mut low = low;
        while low < high {
            let end = high.min(low + CACHE_LINE);
            let words = self.edges.words.as_mut_ptr();
            // SAFETY: `low..high` is readable, as asked; fewer words than are enough are kept, and these are few.
            unsafe {
                let next = words.add(self.edges.found);
                let next = keep_candidates(low, end, heap, span, next);
                self.edges.found = next.offset_from_unsigned(words);
            }
            if self.edges.found >= self.edges.half {
                self.resolve_words::<P>();
            }
            low = end;
        }
    }

    /// Resolves the words that were kept, and lets what they refer to wait for its marks to be checked.
    #[inline(never)]
    fn resolve_words<P: Policy>(&mut self) {
        if self.edges.filled != 0 {
            self.turn_edges();
        }
        let table = self.context().table;
        let mut start = self.edges.start();
        let mut next = start;
        let mut at = self.edges.words.as_ptr();
        // SAFETY: `found` words are in the array.
        let end = unsafe { at.add(core::mem::take(&mut self.edges.found)) };
        while at != end {
            // SAFETY: a word of the array.
            let word = unsafe { at.read() };
            // SAFETY: the end of a word of the array.
            at = unsafe { at.add(1) };
            let Some((block, mark)) = table.resolve_base(word) else {
                // SAFETY: both point into the half that is filled.
                self.edges.filled = unsafe { next.offset_from_unsigned(start) };
                self.resolve_other::<P>(word);
                start = self.edges.start();
                // SAFETY: `filled` edges are in the half that is filled.
                next = unsafe { start.add(self.edges.filled) };
                continue;
            };
            P::touch_mark(mark as usize);
            // SAFETY: the block of an object; and there are as many places as words.
            unsafe {
                let descriptor = (*block).descriptor;
                // What holds no pointers is not looked at; a line that is asked for twice costs less than a branch.
                P::touch(select_unpredictable(descriptor != 0, word, mark as usize));
                (&raw mut (*next).base).write(word);
                (&raw mut (*next).descriptor).write(descriptor);
                (&raw mut (*next).mark).write(mark);
                next = next.add(1);
            }
        }
        // SAFETY: both point into the half that is filled.
        self.edges.filled = unsafe { next.offset_from_unsigned(start) };
        self.turn_edges();
    }

    /// Lets wait what `word` refers to: the inside of an object, a large object, or nothing.
    #[inline(never)]
    fn resolve_other<P: Policy>(&mut self, word: usize) {
        if let Some(found) = self.context().find(word, FROM_HEAP) {
            self.put_edge::<P>(found);
        }
    }

    /// Lets an object wait for its mark to be checked that something refers to whose words are not kept, as a stack.
    #[inline(always)]
    pub(super) fn enqueue<P: Policy>(&mut self, found: Resolved) {
        self.put_edge::<P>(found);
        if self.edges.filled >= self.edges.half {
            self.turn_edges();
        }
    }

    #[inline(always)]
    fn put_edge<P: Policy>(&mut self, found: Resolved) {
        // SAFETY: a resolved object's block.
        let descriptor = unsafe { (*found.block).descriptor };
        P::touch_mark(found.mark as usize);
        if descriptor != 0 {
            P::touch(found.base.word());
        }
        self.edges.put(found, descriptor);
    }

    /// Checks everything that waits, oldest first; true if something did.
    #[inline]
    pub(super) fn check_all_edges<P: Policy>(&mut self) -> bool {
        if self.edges.is_empty() {
            return false;
        }
        if self.edges.found != 0 {
            self.resolve_words::<P>();
        }
        self.turn_edges();
        self.turn_edges();
        true
    }

    /// Checks the older half; what was filled is the older one now, and what was checked is filled again.
    #[inline(never)]
    fn turn_edges(&mut self) {
        let filled = core::mem::take(&mut self.edges.filled);
        let count = core::mem::replace(&mut self.edges.older, filled);
        self.edges.filling ^= 1;
        if count > 0 {
            self.check_edges(count);
        }
    }

    /// Greys those of the `count` edges of the half to be filled next that are white, and pushes those that must be scanned.
    fn check_edges(&mut self, count: usize) {
        if self.room() < PLACES && !(self.grow() && self.room() >= PLACES) {
            self.check_edges_without_room(count);
            return;
        }
        let mut top = self.top;
        let mut at = self.edges.start().cast_const();
        let nowhere = &raw const self.edges.nowhere;
        // SAFETY: `count` edges are in this half.
        let end = unsafe { at.add(count) };
        while at != end {
            // SAFETY: an edge of this half, and the mark of an object.
            let (edge, white) = unsafe {
                let edge = read_fields(at);
                (edge, (*edge.mark).load(Ordering::Relaxed) == WHITE)
            };
            let mark = select_unpredictable(white, edge.mark, nowhere);
            // SAFETY: a mark or our own byte; the stack has room for all of these.
            unsafe {
                // Relaxed: two markers may both find it white; both push it (I4).
                (*mark).store(MARKED, Ordering::Relaxed);
                (&raw mut (*top).start).write(edge.base);
                (&raw mut (*top).descriptor).write(edge.descriptor);
                let above = select_unpredictable(white, top.add(1), top);
                top = select_unpredictable(edge.descriptor != 0, above, top);
                at = at.add(1);
            }
        }
        self.top = top;
    }

    #[cold]
    #[inline(never)]
    fn check_edges_without_room(&mut self, count: usize) {
        for at in 0..count {
            // SAFETY: `count` edges are in this half.
            let edge = unsafe { read_fields(self.edges.start().add(at)) };
            // SAFETY: the mark of a resolved object.
            let mark = unsafe { &*edge.mark };
            if mark.load(Ordering::Relaxed) != WHITE {
                continue;
            }
            mark.store(MARKED, Ordering::Relaxed);
            let entry = Entry {
                start: edge.base,
                descriptor: edge.descriptor,
            };
            if edge.descriptor != 0 && !self.push(entry) {
                self.context().drop_grey(Address::new(edge.base));
            }
        }
    }
}
