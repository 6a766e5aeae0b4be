//! One piece after the other.

use super::state::Part;
use crate::mark_sweep::block::{
    BLOCK_BYTES, BLOCK_SHIFT, BlockIndex, LARGE_BYTES, LARGE_SHIFT, QUEUED, SETTLED, State,
};
use crate::mark_sweep::kinds::{Kind, ThreadLists};
use crate::mark_sweep::space::{MarkSweep, Stage};
use crate::mark_sweep::sweep::{GROUP, cells_marked};
use crate::mark_sweep::{SweepMode, WHITE};

/// The most bytes of a piece.
const MOST_BYTES: usize = 4 << 20;
const _: () = assert!(MOST_BYTES.is_multiple_of(BLOCK_BYTES));
/// How many blocks or runs are looked at for a piece.
const MOST_LOOKS: usize = 4096;
/// What it takes to look for pages between survivors, beside looking at a descriptor.
const LOOKS_FOR_PAGES: usize = 4;
/// Bytes of a word; the second of a debug object is never 0.
const WORD: usize = size_of::<usize>();
/// Pages of a block.
const PAGES: usize = BLOCK_BYTES / LARGE_BYTES;

/// What went back in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenBack {
    /// Bytes; those of marks are not counted.
    pub bytes: usize,
    /// How many of them were in free blocks and runs.
    pub free_bytes: usize,
    /// Whether nothing is left.
    pub is_all: bool,
}

/// What has gone back in a piece, and how many looks it may still take.
struct Piece {
    bytes: usize,
    /// Of them, in free blocks and runs.
    free_bytes: usize,
    looks: usize,
}

impl Piece {
    /// Bytes that may still go back.
    fn room(&self) -> usize {
        MOST_BYTES.saturating_sub(self.bytes)
    }

    fn is_complete(&self) -> bool {
        self.room() == 0 || self.looks == 0
    }

    fn add_free(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.free_bytes += bytes;
    }

    fn look(&mut self, looks: usize) {
        self.looks = self.looks.saturating_sub(looks);
    }
}

impl MarkSweep {
    /// Bytes that may go back: free memory that the system backs, and what lies dead in blocks that wait to be swept, unless that
    /// was looked through since the last collection.
    pub fn unused_bytes(&self) -> usize {
        let mut unused = self.dirty_bytes();
        if !self.giving_back.pages_are_back && self.may_give_pages_back() {
            let known = self.census.live_bytes() + self.account.handed;
            unused += self.used_bytes().saturating_sub(known);
        }
        unused
    }

    /// Gives a piece of the unused memory back to the system.
    pub fn give_back_piece(&mut self) -> GivenBack {
        let mut piece = Piece {
            bytes: 0,
            free_bytes: 0,
            looks: MOST_LOOKS,
        };
        let mut is_all = false;
        while !is_all && !piece.is_complete() {
            let is_done = match self.giving_back.part {
                Part::Ahead => {
                    piece.bytes += self.pool.release_ahead(&self.layout);
                    true
                }
                Part::Blocks => self.give_blocks_back(&mut piece),
                Part::Runs => self.give_runs_back(&mut piece),
                Part::Marks => self.give_marks_back(&mut piece),
                Part::Pages => self.give_pages_back(&mut piece),
            };
            if is_done {
                is_all = self.giving_back.go_on();
            }
        }
        GivenBack {
            bytes: piece.bytes,
            free_bytes: piece.free_bytes,
            is_all,
        }
    }

    // Each of these says whether its part is done. If not, the piece is complete.

    fn give_blocks_back(&mut self, piece: &mut Piece) -> bool {
        // A number of whole blocks, since nothing but such goes before them in a piece.
        let most = piece.room() / BLOCK_BYTES;
        let blocks = self.pool.release(&self.layout, most);
        self.giving_back.some_blocks |= blocks > 0;
        piece.add_free(blocks << BLOCK_SHIFT);
        blocks < most
    }

    fn give_runs_back(&mut self, piece: &mut Piece) -> bool {
        let MarkSweep {
            large,
            layout,
            giving_back,
            ..
        } = self;
        let room = piece.room();
        let (bytes, is_done) =
            large.release_piece(layout, room, &mut piece.looks, &mut giving_back.runs);
        piece.add_free(bytes);
        is_done
    }

    /// The marks of free blocks, if blocks went back since that was done last.
    fn give_marks_back(&mut self, piece: &mut Piece) -> bool {
        let end = self.pool.frontier();
        while self.giving_back.some_blocks && self.giving_back.at < end {
            if piece.is_complete() {
                return false;
            }
            let first = self.giving_back.at;
            let mut free = first;
            while free < end && !piece.is_complete() && self.block(free).state == State::Free {
                free += 1;
                piece.look(1);
            }
            self.layout.release_marks(first, free - first);
            // The block behind them, if it is in use.
            piece.look(1);
            self.giving_back.at = free.max(first + 1);
        }
        self.giving_back.some_blocks = false;
        true
    }

    fn may_give_pages_back(&self) -> bool {
        self.sweep_mode == SweepMode::Lazy
            && self.written.is_none()
            && self.stage == Stage::Between
            && !self.marked_in_steps
            && !self.poison
            // The rest of a huge page stays, and loses what it was good for.
            && !self.layout.huge_pages()
    }

    /// Pages on which nothing survived the last collection, once after each.
    fn give_pages_back(&mut self, piece: &mut Piece) -> bool {
        if self.giving_back.pages_are_back || !self.may_give_pages_back() {
            return true;
        }
        while self.giving_back.at < self.pool.frontier() {
            if piece.is_complete() {
                return false;
            }
            let index = self.giving_back.at;
            piece.look(1);
            if self.waits_with_holes(index) {
                piece.look(LOOKS_FOR_PAGES);
                piece.bytes += self.give_pages_of(index);
            }
            self.giving_back.at += 1;
        }
        self.giving_back.pages_are_back = true;
        true
    }

    /// Whether a block waits to be swept and no list has cells of it that are not marked: nobody owns it, and the pause has not swept
    /// it, since that is done with `sweep=eager` and for other kinds alone. Not where a cycle was given up that had settled it: objects
    /// that live may be unmarked there.
    fn waits_with_holes(&self, index: BlockIndex) -> bool {
        let block = self.block(index);
        let kind = self.kinds.get(usize::from(block.kind));
        block.state == State::Small
            && block.has_flag(QUEUED)
            && !block.has_flag(SETTLED)
            && kind.map(Kind::thread_lists) == Some(ThreadLists::Plain)
    }

    fn give_pages_of(&self, index: BlockIndex) -> usize {
        let survived = self.pages_with_survivors(index);
        let cell_bytes = self.block(index).bytes;
        let (mut page, mut given) = (0, 0);
        while page < PAGES {
            let first = page;
            while page < PAGES && survived & 1 << page == 0 {
                page += 1;
            }
            if page > first {
                let bytes = (page - first) << LARGE_SHIFT;
                let at = first << LARGE_SHIFT;
                self.forget_header_before(index, at, cell_bytes);
                self.layout.release_dead(self.start(index).add(at), bytes);
                given += bytes;
            }
            page += 1;
        }
        given
    }

    /// The cell that begins before byte `at` of a block, and loses what lies behind, is dead. A stale word may find it until it is
    /// swept: then it is no debug object, whose end would be missing.
    fn forget_header_before(&self, index: BlockIndex, at: usize, cell_bytes: usize) {
        let begins = at / cell_bytes * cell_bytes;
        if begins < at {
            // SAFETY: a cell has at least two words, which lie on one page. That page stays, and nobody uses the cell, whose block is
            // nobody's; the lock is held.
            unsafe { self.start(index).add(begins + WORD).store(0) };
        }
    }

    /// The pages of a block that a marked object reaches, one bit for each.
    fn pages_with_survivors(&self, index: BlockIndex) -> u32 {
        const ALL: u32 = (1 << PAGES) - 1;
        let (bytes, objects) = {
            let block = self.block(index);
            (block.bytes, usize::from(block.objects))
        };
        let marks = self.layout.table.marks_of(index);
        let mut pages = 0;
        let mut group = 0;
        while group < objects && pages != ALL {
            // SAFETY: a block has marks for as many cells as the smallest class has, whole groups of them, and a table of them is
            // aligned; the lock is held, and the block is nobody's, so no other thread changes them.
            let mut survivors = !unsafe { cells_marked(marks, group, WHITE) };
            if objects - group < GROUP {
                survivors &= (1 << (objects - group)) - 1;
            }
            while survivors != 0 {
                let start = (group + survivors.trailing_zeros() as usize) * bytes;
                survivors &= survivors - 1;
                for page in start >> LARGE_SHIFT..=(start + bytes - 1) >> LARGE_SHIFT {
                    pages |= 1 << page;
                }
            }
            group += GROUP;
        }
        pages
    }
}
