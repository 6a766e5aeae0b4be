//! The pool of free blocks of the small part.
//!
//! Free blocks hang in three lists: dirty (backed by memory, contents unknown), clean (read as zero), and away. Where
//! addresses are short (`Layout::is_in_pieces`), those of free blocks go back, for large objects or the program, and
//! are mapped anew when they are needed. The lists are rebuilt in address order at each collection, so that the heap
//! stays dense at its low end. Beyond the frontier all is clean and was never used.
//!
//! All methods run under the allocator lock. Who reads cells without the lock is inside of `readers` meanwhile.

use gleaner_base::sync::Gate;

use crate::mark_sweep::block::{BLOCK_SHIFT, Block, BlockIndex, NO_BLOCK, State};
use crate::mark_sweep::layout::Layout;

/// What there is of a free block. In `class` of its descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Backing {
    /// Memory with unknown contents.
    Dirty = 0,
    /// It reads as zero.
    Clean = 1,
    /// It is not mapped.
    Away = 2,
}

impl Backing {
    /// What the pool noted of a free block.
    pub(super) fn of(block: &Block) -> Backing {
        match block.class {
            0 => Backing::Dirty,
            1 => Backing::Clean,
            _ => Backing::Away,
        }
    }
}

/// A block taken from the pool.
#[derive(Clone, Copy)]
pub struct Taken {
    /// Which block.
    pub index: BlockIndex,
    /// Whether it reads as zero.
    pub clean: bool,
}

#[derive(Clone, Copy)]
struct List {
    first: BlockIndex,
    last: BlockIndex,
    blocks: usize,
}

impl List {
    const EMPTY: List = List {
        first: NO_BLOCK,
        last: NO_BLOCK,
        blocks: 0,
    };
}

/// Beyond the frontier, at most one block for this many below it is backed with memory before it is taken. That is
/// little enough to be no part of what a heap is said to need.
const POPULATED_PART: BlockIndex = 64;

/// Blocks whose addresses are back, as many as may be mapped anew at once.
const MAPPED_AT_ONCE: BlockIndex = 64;
/// Which runs of free blocks go back, in this order: those with at least this many blocks.
const LEAST_RUNS: [BlockIndex; 3] = [256, 16, 1];

/// Free blocks and the frontier of the small part.
pub struct FreePool {
    dirty: List,
    clean: List,
    away: List,
    /// Passed by threads that read cells without the lock; closed while addresses go back.
    pub(super) readers: Gate,
    pub(super) frontier: BlockIndex,
    /// Beyond the frontier, the blocks below this one count as backed, also where the system did not back them when it
    /// was asked; they read as zero.
    populated: BlockIndex,
    /// The most blocks that are backed with memory at once; 0: pages come when they are written.
    pub populate_ahead: BlockIndex,
}

impl FreePool {
    /// A pool with nothing in it.
    pub fn new() -> FreePool {
        FreePool {
            dirty: List::EMPTY,
            clean: List::EMPTY,
            away: List::EMPTY,
            readers: Gate::new(),
            frontier: 0,
            populated: 0,
            populate_ahead: 0,
        }
    }

    /// The first block that was never used.
    pub fn frontier(&self) -> BlockIndex {
        self.frontier
    }

    /// Number of dirty free blocks.
    pub fn dirty(&self) -> usize {
        self.dirty.blocks
    }

    /// Number of clean free blocks below the frontier.
    pub fn clean(&self) -> usize {
        self.clean.blocks
    }

    /// Number of free blocks whose addresses went back.
    pub fn away(&self) -> usize {
        self.away.blocks
    }

    /// Bytes of free blocks that memory backs.
    pub fn dirty_bytes(&self) -> usize {
        (self.dirty.blocks + self.populated_ahead()) << BLOCK_SHIFT
    }

    /// Number of blocks beyond the frontier that are backed with memory.
    fn populated_ahead(&self) -> usize {
        self.populated.saturating_sub(self.frontier) as usize
    }

    /// Whether the next clean block is one that is backed already.
    pub fn is_next_populated(&self) -> bool {
        self.clean.blocks + self.away.blocks == 0 && self.populated_ahead() > 0
    }

    /// Gives what is backed beyond the frontier back to the system, and returns how many bytes that were.
    pub fn release_ahead(&mut self, layout: &Layout) -> usize {
        let blocks = self.populated_ahead();
        if blocks > 0 {
            layout.release(self.frontier, blocks as BlockIndex);
            self.populated = self.frontier;
        }
        blocks << BLOCK_SHIFT
    }

    /// Takes a dirty block.
    pub fn take_dirty(&mut self, layout: &Layout) -> Option<Taken> {
        pop(&mut self.dirty, layout).map(|index| Taken {
            index,
            clean: false,
        })
    }

    /// Takes a clean block, extending the frontier if need be and if the system allows. It is about to be written, so
    /// it is backed with memory, together with some of what will be taken next: no more than `room` blocks.
    pub fn take_clean(&mut self, layout: &mut Layout, room: usize) -> Option<Taken> {
        if self.clean.blocks == 0 {
            self.map_anew(layout);
        }
        if let Some(index) = pop(&mut self.clean, layout) {
            if self.populate_ahead > 0 {
                layout.populate(index, 1);
            }
            return Some(Taken { index, clean: true });
        }
        let index = self.frontier;
        if !layout.commit_small(index + 1) {
            return None;
        }
        if index >= self.populated && self.populate_ahead > 0 {
            let blocks = (index / POPULATED_PART)
                .min(self.populate_ahead)
                .min(BlockIndex::try_from(room).unwrap_or(BlockIndex::MAX))
                .clamp(1, layout.small_committed() - index);
            layout.populate(index, blocks);
            self.populated = index + blocks;
        }
        self.frontier += 1;
        Some(Taken { index, clean: true })
    }

    /// Forgets the lists; [`FreePool::put`] then rebuilds them in address order.
    pub fn clear(&mut self) {
        self.dirty = List::EMPTY;
        self.clean = List::EMPTY;
        self.away = List::EMPTY;
    }

    /// Appends a free block.
    pub fn put(&mut self, layout: &Layout, index: BlockIndex, backing: Backing) {
        // SAFETY: the block lies below the frontier and the lock is held.
        let block = unsafe { &mut *layout.table.block(index) };
        // One that is free already may be looked at meanwhile.
        if block.state != State::Free {
            block.state = State::Free;
            block.objects = 0;
        }
        block.next = NO_BLOCK;
        block.class = backing as u8;
        let list = match backing {
            Backing::Dirty => &mut self.dirty,
            Backing::Clean => &mut self.clean,
            Backing::Away => &mut self.away,
        };
        if list.last == NO_BLOCK {
            list.first = index;
        } else {
            // SAFETY: the last listed block lies below the frontier, is another one than `block`, and the lock is held.
            unsafe { (*layout.table.block(list.last)).next = index };
        }
        list.last = index;
        list.blocks += 1;
    }

    /// Releases up to `enough` dirty blocks, oldest addresses last, neighbours of the list together, and returns how many.
    pub fn release(&mut self, layout: &Layout, enough: usize) -> usize {
        let mut released = 0;
        while released < enough
            && let Some(first) = pop(&mut self.dirty, layout)
        {
            let mut end = first + 1;
            released += 1;
            while released < enough && self.dirty.first == end {
                pop(&mut self.dirty, layout);
                end += 1;
                released += 1;
            }
            layout.release(first, end - first);
            for index in first..end {
                self.put(layout, index, Backing::Clean);
            }
        }
        released
    }

    /// Where addresses are short: gives those of free blocks back, of the longest runs first; whether there were any. Not
    /// while a thread reads cells without the lock.
    pub fn give_addresses_back(&mut self, layout: &Layout) -> bool {
        if self.dirty.blocks + self.clean.blocks == 0
            || !layout.is_in_pieces()
            || !self.readers.try_close()
        {
            return false;
        }
        let (mut any, mut runs) = (false, 0);
        for least in LEAST_RUNS {
            let mut first = 0;
            while first < self.frontier && runs < layout.most_small_holes() {
                let (blocks, mapped) = free_run(layout, first, self.frontier);
                if mapped > 0 && blocks >= least && layout.unmap_free(first, blocks) {
                    mark_as_away(layout, first, blocks);
                    any = true;
                }
                runs += usize::from(blocks > 0 && (mapped == 0 || blocks >= least));
                first += blocks.max(1);
            }
        }
        self.readers.open();
        self.rebuild(layout);
        any
    }

    /// Maps blocks of the first run of those that are away; none if the system refuses.
    fn map_anew(&mut self, layout: &Layout) {
        let first = self.away.first;
        if first == NO_BLOCK {
            return;
        }
        let mut blocks = 1;
        while blocks < MAPPED_AT_ONCE && next_of(layout, first + blocks - 1) == first + blocks {
            blocks += 1;
        }
        if !layout.map_anew(first, blocks) {
            blocks = 1;
            if !layout.map_anew(first, 1) {
                return;
            }
        }
        for index in first..first + blocks {
            pop(&mut self.away, layout);
            self.put(layout, index, Backing::Clean);
        }
    }

    /// The lists, in address order, by what the descriptors say.
    fn rebuild(&mut self, layout: &Layout) {
        self.clear();
        for index in 0..self.frontier {
            if let Some(backing) = backing_of(layout, index) {
                self.put(layout, index, backing);
            }
        }
    }
}

impl Default for FreePool {
    fn default() -> Self {
        FreePool::new()
    }
}

/// Whether a block below the frontier is free and not mapped.
pub(super) fn is_away(layout: &Layout, index: BlockIndex) -> bool {
    backing_of(layout, index) == Some(Backing::Away)
}

/// What there is of a block below the frontier, if it is free.
fn backing_of(layout: &Layout, index: BlockIndex) -> Option<Backing> {
    // SAFETY: the block lies below the frontier and the lock is held.
    let block = unsafe { &*layout.table.block(index) };
    (block.state == State::Free).then(|| Backing::of(block))
}

/// How many blocks from `first` on are free, and how many of these are mapped.
fn free_run(layout: &Layout, first: BlockIndex, end: BlockIndex) -> (BlockIndex, BlockIndex) {
    let (mut blocks, mut mapped) = (0, 0);
    while first + blocks < end
        && let Some(backing) = backing_of(layout, first + blocks)
    {
        mapped += BlockIndex::from(backing != Backing::Away);
        blocks += 1;
    }
    (blocks, mapped)
}

fn mark_as_away(layout: &Layout, first: BlockIndex, blocks: BlockIndex) {
    for index in first..first + blocks {
        // SAFETY: a free block below the frontier, and the lock is held.
        unsafe { (*layout.table.block(index)).class = Backing::Away as u8 };
    }
}

/// The block behind a listed one in its list.
fn next_of(layout: &Layout, index: BlockIndex) -> BlockIndex {
    // SAFETY: listed blocks lie below the frontier and the lock is held.
    unsafe { (*layout.table.block(index)).next }
}

fn pop(list: &mut List, layout: &Layout) -> Option<BlockIndex> {
    let index = list.first;
    if index == NO_BLOCK {
        return None;
    }
    list.first = next_of(layout, index);
    if list.first == NO_BLOCK {
        list.last = NO_BLOCK;
    }
    list.blocks -= 1;
    Some(index)
}
