//! The pool of free blocks of the small part.
//!
//! Free blocks hang in two lists, dirty (backed by memory, contents unknown) and clean (read as zero); both are
//! rebuilt in address order at each collection, so that the heap stays dense at its low end. Beyond the frontier all
//! is clean and was never used.
//!
//! All methods run under the allocator lock.

use crate::mark_sweep::block::{BlockIndex, NO_BLOCK, State};
use crate::mark_sweep::layout::Layout;

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

/// Beyond the frontier, at most one block for so many below it is backed with memory before it is taken: little enough
/// to be no part of what a heap is said to need.
const POPULATED_PART: BlockIndex = 64;

/// Free blocks and the frontier of the small part.
pub struct FreePool {
    dirty: List,
    clean: List,
    pub(super) frontier: BlockIndex,
    /// Beyond the frontier, the blocks below this one count as backed, also where the system did not back them when it
    /// was asked; they read as zero.
    populated: BlockIndex,
    /// The most blocks that are backed with memory at once; 0: pages come when they are written.
    pub populate_ahead: BlockIndex,
}

impl FreePool {
    /// A pool with nothing in it.
    pub const fn new() -> FreePool {
        FreePool {
            dirty: List::EMPTY,
            clean: List::EMPTY,
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

    /// Number of blocks beyond the frontier that are backed with memory.
    pub fn populated_ahead(&self) -> usize {
        self.populated.saturating_sub(self.frontier) as usize
    }

    /// Whether the next clean block is one that is backed already.
    pub fn is_next_populated(&self) -> bool {
        self.clean.blocks == 0 && self.populated_ahead() > 0
    }

    /// Gives what is backed beyond the frontier back to the system, and returns how many blocks that were.
    pub fn release_ahead(&mut self, layout: &Layout) -> usize {
        let blocks = self.populated_ahead();
        if blocks > 0 {
            layout.release(self.frontier, blocks as BlockIndex);
            self.populated = self.frontier;
        }
        blocks
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

    /// Forgets both lists; [`FreePool::put`] then rebuilds them in address order.
    pub fn clear(&mut self) {
        self.dirty = List::EMPTY;
        self.clean = List::EMPTY;
    }

    /// Appends a free block.
    pub fn put(&mut self, layout: &Layout, index: BlockIndex, clean: bool) {
        // SAFETY: the block lies below the frontier and the lock is held.
        let block = unsafe { &mut *layout.table.block(index) };
        block.state = State::Free;
        block.objects = 0;
        block.next = NO_BLOCK;
        block.class = u8::from(clean);
        let list = if clean {
            &mut self.clean
        } else {
            &mut self.dirty
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

    /// Releases up to `enough` dirty blocks, oldest addresses last, and returns how many.
    pub fn release(&mut self, layout: &Layout, enough: usize) -> usize {
        let mut released = 0;
        while released < enough
            && let Some(taken) = self.take_dirty(layout)
        {
            layout.release(taken.index, 1);
            self.put(layout, taken.index, true);
            released += 1;
        }
        released
    }
}

impl Default for FreePool {
    fn default() -> Self {
        FreePool::new()
    }
}

fn pop(list: &mut List, layout: &Layout) -> Option<BlockIndex> {
    let index = list.first;
    if index == NO_BLOCK {
        return None;
    }
    // SAFETY: listed blocks lie below the frontier and the lock is held.
    list.first = unsafe { (*layout.table.block(index)).next };
    if list.first == NO_BLOCK {
        list.last = NO_BLOCK;
    }
    list.blocks -= 1;
    Some(index)
}
