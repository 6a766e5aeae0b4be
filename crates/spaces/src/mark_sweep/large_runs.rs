//! Runs of blocks for large objects, free and used, in a range of their own.
//!
//! Each run, used or free, has its length in its first descriptor; a free run also has it in its last one, so that a
//! freed run joins its neighbours at once. Free runs hang in bins by length. A run is *clean* while all its pages
//! read as zero, *dirty* otherwise.
//!
//! Blocks of this part have a page, so a run in use is as long as its object. Where addresses are short
//! (`Layout::is_in_pieces`), a free run may be *torn*: none of it is mapped. It is clean then.
//!
//! # Invariants
//! - Runs tile the large part from its start to the frontier; no two neighbours are both free.
//! - A bin's bit is set exactly if the bin is not empty.
//! - Of a torn run no page is touched before it is mapped anew.
//!
//! All methods run under the allocator lock.

use crate::mark_sweep::block::{Block, BlockIndex, LARGE_BYTES, LARGE_SHIFT, NO_BLOCK, State};
use crate::mark_sweep::layout::Layout;

/// Lengths that have a bin each; of longer runs, four bins share the lengths up to twice as many. The last bin has the rest.
const EXACT_BINS: u32 = 64;
const BINS: usize = 128;

/// In `class` of a free run's first descriptor: its pages read as zero.
const CLEAN: u8 = 1;
/// There too: it is torn.
const TORN: u8 = 2;

/// The free runs and the frontier of the large part.
pub struct LargeSpace {
    bins: [BlockIndex; BINS],
    occupied: u128,
    frontier: BlockIndex,
    dirty_blocks: usize,
    /// Torn runs.
    torn: usize,
    /// How often a free run came or went.
    changes: u64,
}

/// Where [`LargeSpace::release_piece`] goes on. It begins anew if free runs came or went meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// A run, and how many of its blocks were released.
    run: BlockIndex,
    released: BlockIndex,
    /// What the space had counted then.
    changes: u64,
}

impl Progress {
    /// At the first run.
    pub const START: Progress = Progress {
        run: 0,
        released: 0,
        changes: 0,
    };
}

/// A run that is taken from the space or given to it.
#[derive(Clone, Copy)]
pub struct Run {
    /// Its first block.
    pub first: BlockIndex,
    /// How many blocks it has.
    pub blocks: BlockIndex,
    /// Whether its pages already read as zero.
    pub clean: bool,
    /// Whether it is not mapped.
    pub torn: bool,
}

impl Run {
    /// What is left of it behind its first `blocks` blocks.
    pub fn behind(self, blocks: BlockIndex) -> Run {
        Run {
            first: self.first + blocks,
            blocks: self.blocks - blocks,
            ..self
        }
    }

    /// Its first `blocks` blocks.
    pub fn cut(self, blocks: BlockIndex) -> Run {
        Run { blocks, ..self }
    }
}

fn bin_of(blocks: BlockIndex) -> usize {
    if blocks < EXACT_BINS {
        return blocks as usize;
    }
    let log = blocks.ilog2();
    let quarter = (blocks >> (log - 2)) & 3;
    ((EXACT_BINS + (log - EXACT_BINS.ilog2()) * 4 + quarter) as usize).min(BINS - 1)
}

impl LargeSpace {
    /// An empty space; `layout` gives the first block of the large part.
    pub fn new(layout: &Layout) -> LargeSpace {
        LargeSpace {
            bins: [NO_BLOCK; BINS],
            occupied: 0,
            frontier: layout.table.large_start,
            dirty_blocks: 0,
            torn: 0,
            changes: 0,
        }
    }

    /// The first block that was never used.
    pub fn frontier(&self) -> BlockIndex {
        self.frontier
    }

    /// Bytes in dirty free runs.
    pub fn dirty_bytes(&self) -> usize {
        self.dirty_blocks << LARGE_SHIFT
    }

    /// Takes a free run of at least `blocks` blocks out of the bins, cut to size.
    pub fn take_free(&mut self, layout: &Layout, blocks: BlockIndex) -> Option<Run> {
        if blocks > layout.large_blocks() {
            return None;
        }
        let first = self.find(layout, blocks)?;
        Some(self.cut(layout, first, blocks))
    }

    /// Takes the `blocks` blocks from `first` on, which is the end of a used run, if they are free or were never used, and mapped.
    pub fn take_at(
        &mut self,
        layout: &mut Layout,
        first: BlockIndex,
        blocks: BlockIndex,
    ) -> Option<Run> {
        if first == self.frontier {
            return self.take_fresh(layout, blocks);
        }
        let next = descriptor(layout, first);
        if next.state != State::Free || next.next < blocks || next.is_torn() {
            return None;
        }
        Some(self.cut(layout, first, blocks))
    }

    /// Takes a run that was never used, if the range and the system allow.
    pub fn take_fresh(&mut self, layout: &mut Layout, blocks: BlockIndex) -> Option<Run> {
        let first = self.frontier;
        let end = first.checked_add(blocks)?;
        if end > layout.end() || !layout.commit_large(end) {
            return None;
        }
        self.frontier = end;
        Some(Run {
            first,
            blocks,
            clean: true,
            torn: false,
        })
    }

    /// Gives the run of an object back.
    pub fn give_used(&mut self, layout: &Layout, first: BlockIndex) {
        let run = Run {
            first,
            blocks: descriptor(layout, first).next,
            clean: false,
            torn: false,
        };
        self.give(layout, run);
    }

    /// Gives a run back; it joins free neighbours.
    pub fn give(&mut self, layout: &Layout, run: Run) {
        let mut run = run;
        // A run that joins the one before it keeps this descriptor inside: it must be no object's head any more.
        let head = descriptor(layout, run.first);
        head.state = State::Free;
        head.objects = 0;
        let after = run.first + run.blocks;
        if after < self.frontier && descriptor(layout, after).state == State::Free {
            let more = self.unlink(layout, after);
            run = joined(run, more);
        }
        let first = run.first;
        if first > layout.table.large_start && descriptor(layout, first - 1).state == State::Free {
            let before = first - 1 - descriptor(layout, first - 1).inverse;
            let more = self.unlink(layout, before);
            run = joined(more, run);
        }
        if run.torn {
            layout.unmap_free(run.first, run.blocks);
            run.clean = true;
        }
        self.link(layout, run);
    }

    /// Calls `visit` with the first block of each run, free or used, in address order.
    pub fn for_each_run(&self, layout: &Layout, mut visit: impl FnMut(BlockIndex)) {
        let mut run = layout.table.large_start;
        while run < self.frontier {
            let length = descriptor(layout, run).next;
            visit(run);
            run += length;
        }
    }

    /// Releases dirty free runs for which `due` says so, until `enough` bytes were released; returns how many were.
    pub fn release(
        &mut self,
        layout: &Layout,
        enough: usize,
        mut due: impl FnMut(BlockIndex, &mut Block) -> bool,
    ) -> usize {
        let mut released = 0;
        let mut run = layout.table.large_start;
        while run < self.frontier && released < enough {
            let block = descriptor(layout, run);
            let length = block.next;
            if block.state == State::Free && !is_clean(block) && due(run, block) {
                layout.release(run, length);
                layout.release_descriptors(run, length);
                block.class |= CLEAN;
                self.dirty_blocks -= length as usize;
                released += (length as usize) << LARGE_SHIFT;
            }
            run += length;
        }
        released
    }

    /// Releases dirty free runs: up to `most` bytes of them, of a run as many as fit, for `looks` looks at runs, which are taken off. Goes
    /// on at `progress`. Returns how many bytes that were, and whether no dirty run is left.
    pub fn release_piece(
        &mut self,
        layout: &Layout,
        most: usize,
        looks: &mut usize,
        progress: &mut Progress,
    ) -> (usize, bool) {
        let start = layout.table.large_start;
        if progress.run < start || progress.changes != self.changes {
            *progress = Progress {
                run: start,
                changes: self.changes,
                ..Progress::START
            };
        }
        let mut bytes = 0;
        while progress.run < self.frontier {
            if bytes >= most || *looks == 0 {
                return (bytes, false);
            }
            *looks -= 1;
            let block = descriptor(layout, progress.run);
            let length = block.next;
            if block.state == State::Free && !is_clean(block) {
                let room = BlockIndex::try_from((most - bytes).div_ceil(LARGE_BYTES));
                let left = length - progress.released;
                let blocks = left.min(room.unwrap_or(BlockIndex::MAX));
                layout.release(progress.run + progress.released, blocks);
                bytes += (blocks as usize) << LARGE_SHIFT;
                progress.released += blocks;
                if progress.released < length {
                    continue;
                }
                layout.release_descriptors(progress.run, length);
                block.class |= CLEAN;
                self.dirty_blocks -= length as usize;
            }
            progress.run += length;
            progress.released = 0;
        }
        *progress = Progress::START;
        (bytes, true)
    }

    /// Where addresses are short: gives those of a free run at the end back, and those that were committed for a run in vain;
    /// whether there was such a run, without which another attempt would fail like the last.
    pub fn retreat(&mut self, layout: &mut Layout) -> bool {
        if !layout.is_in_pieces() {
            return false;
        }
        let (start, before) = (layout.table.large_start, self.frontier);
        // No two neighbours are free, so there is one such run at most.
        if self.frontier > start && descriptor(layout, self.frontier - 1).state == State::Free {
            let last = self.frontier - 1;
            let first = last - descriptor(layout, last).inverse;
            self.unlink(layout, first);
            self.frontier = first;
        }
        layout.uncommit_large(self.frontier);
        self.frontier < before
    }

    /// Maps a torn run that is to be used, or else takes it back: false if the system refuses.
    pub fn mend(&mut self, layout: &Layout, run: &mut Run) -> bool {
        if run.torn && !layout.map_anew(run.first, run.blocks) {
            self.give(layout, *run);
            return false;
        }
        run.torn = false;
        true
    }

    /// Where addresses are short: gives those of free runs back, of the longest first; whether there were any.
    pub fn tear(&mut self, layout: &Layout) -> bool {
        let before = self.torn;
        for bin in (0..BINS).rev() {
            let mut run = self.bins[bin];
            while run != NO_BLOCK && self.torn < layout.most_torn() {
                let block = descriptor(layout, run);
                if !block.is_torn() && layout.unmap_free(run, block.next) {
                    if !is_clean(block) {
                        self.dirty_blocks -= block.next as usize;
                    }
                    block.class = TORN | CLEAN;
                    self.torn += 1;
                }
                run = block.next_link();
            }
        }
        self.torn > before
    }

    /// Whether torn runs and dirty blocks are counted.
    pub fn is_counted(&self, layout: &Layout) -> bool {
        let (mut torn, mut dirty) = (0, 0);
        self.for_each_run(layout, |run| {
            let block = descriptor(layout, run);
            if block.state == State::Free {
                torn += usize::from(block.is_torn());
                dirty += if is_clean(block) {
                    0
                } else {
                    block.next as usize
                };
            }
        });
        (torn, dirty) == (self.torn, self.dirty_blocks)
    }

    fn find(&self, layout: &Layout, blocks: BlockIndex) -> Option<BlockIndex> {
        let mut bin = bin_of(blocks);
        let mut run = self.bins[bin];
        while run != NO_BLOCK {
            let block = descriptor(layout, run);
            if block.next >= blocks {
                return Some(run);
            }
            run = block.next_link();
        }
        bin += 1;
        let larger = if bin < BINS {
            self.occupied >> bin << bin
        } else {
            0
        };
        (larger != 0).then(|| self.bins[larger.trailing_zeros() as usize])
    }

    fn link(&mut self, layout: &Layout, run: Run) {
        self.changes += 1;
        let Run { first, blocks, .. } = run;
        let bin = bin_of(blocks);
        let successor = self.bins[bin];
        let last = descriptor(layout, first + blocks - 1);
        last.state = State::Free;
        last.inverse = blocks - 1;
        let head = descriptor(layout, first);
        head.state = State::Free;
        head.next = blocks;
        head.class = if run.clean { CLEAN } else { 0 } | if run.torn { TORN } else { 0 };
        head.age = 0;
        head.set_links(NO_BLOCK, successor);
        if successor != NO_BLOCK {
            let next = descriptor(layout, successor).next_link();
            descriptor(layout, successor).set_links(first, next);
        }
        self.bins[bin] = first;
        self.occupied |= 1 << bin;
        self.torn += usize::from(run.torn);
        if !run.clean {
            self.dirty_blocks += blocks as usize;
        }
    }

    /// Takes the first blocks of a free run.
    fn cut(&mut self, layout: &Layout, first: BlockIndex, blocks: BlockIndex) -> Run {
        let run = self.unlink(layout, first);
        if run.blocks > blocks {
            self.link(layout, run.behind(blocks));
        }
        run.cut(blocks)
    }

    /// Takes a free run out of its bin.
    fn unlink(&mut self, layout: &Layout, first: BlockIndex) -> Run {
        self.changes += 1;
        let head = descriptor(layout, first);
        let run = Run {
            first,
            blocks: head.next,
            clean: is_clean(head),
            torn: head.is_torn(),
        };
        let bin = bin_of(run.blocks);
        let (previous, successor) = (head.previous_link(), head.next_link());
        if previous == NO_BLOCK {
            self.bins[bin] = successor;
            if successor == NO_BLOCK {
                self.occupied &= !(1 << bin);
            }
        } else {
            let before = descriptor(layout, previous).previous_link();
            descriptor(layout, previous).set_links(before, successor);
        }
        if successor != NO_BLOCK {
            let next = descriptor(layout, successor).next_link();
            descriptor(layout, successor).set_links(previous, next);
        }
        self.torn -= usize::from(run.torn);
        if !run.clean {
            self.dirty_blocks -= run.blocks as usize;
        }
        run
    }
}

/// Two neighbours as one run.
fn joined(run: Run, next: Run) -> Run {
    Run {
        first: run.first,
        blocks: run.blocks + next.blocks,
        clean: run.clean && next.clean,
        torn: run.torn || next.torn,
    }
}

impl Block {
    /// Whether a free run, whose first descriptor this is, is not mapped.
    pub(super) fn is_torn(&self) -> bool {
        self.class & TORN != 0
    }

    /// The links of a free run share the words that describe objects in a used one.
    fn set_links(&mut self, previous: BlockIndex, next: BlockIndex) {
        self.descriptor = previous as usize;
        self.bytes = next as usize;
    }

    fn previous_link(&self) -> BlockIndex {
        self.descriptor as BlockIndex
    }

    fn next_link(&self) -> BlockIndex {
        self.bytes as BlockIndex
    }
}

fn is_clean(block: &Block) -> bool {
    block.class & CLEAN != 0
}

#[allow(
    clippy::mut_from_ref,
    reason = "descriptors are guarded by the allocator lock, not by the layout"
)]
fn descriptor(layout: &Layout, index: BlockIndex) -> &mut Block {
    // SAFETY: indices come from runs inside the committed large part; the lock is held, and no two references made
    // here are used at once.
    unsafe { &mut *layout.table.block(index) }
}

/// Blocks of the large part needed for `bytes` bytes.
pub fn blocks_for(bytes: usize) -> Option<BlockIndex> {
    BlockIndex::try_from(bytes.div_ceil(LARGE_BYTES)).ok()
}
