//! Sweeping one block: turning what the marker did not reach into a free list (ISMM 2000, section 5).
//!
//! Marks are read eight at a time; runs of dead cells are cleared in one go and then linked in address order. The
//! free list is used right away by the allocator that asked, so each line comes through the cache once. Lines are fetched
//! some way ahead: the paper found no use in prefetching what is about to be written sequentially; a heap of short holes
//! gains by it here, and others lose nothing.
//!
//! Runs under the allocator lock, on the thread that allocates (lazy) or that collects (eager).

use core::sync::atomic::{AtomicU8, Ordering};

use gleaner_mem::address::CACHE_LINE;
use gleaner_mem::{Address, zero};
use gleaner_os::clock;

use super::allocate::cookie;
use super::cache::CellList;
use super::{FREE, MARKED, MarkSweep, POISON, WHITE};
use crate::mark_sweep::block::{BLOCK_BYTES, BlockIndex, QUEUED};
use crate::mark_sweep::kinds::Kind;

/// Builds a list of cells in address order.
struct ListBuilder {
    head: Address,
    tail: Address,
    cells: usize,
}

impl ListBuilder {
    const fn new() -> ListBuilder {
        ListBuilder {
            head: Address::NULL,
            tail: Address::NULL,
            cells: 0,
        }
    }

    /// Links a run of `cells` adjacent cells of `bytes` bytes each.
    ///
    /// # Safety
    /// The cells must be free and belong to the caller.
    #[inline]
    unsafe fn append(&mut self, first: Address, cells: usize, bytes: usize) {
        let mut cell = first;
        for _ in 1..cells {
            // SAFETY: the cells are free and the caller's own, as asked; each has at least two words.
            unsafe { cell.store(cell.add(bytes).word()) };
            cell = cell.add(bytes);
        }
        // SAFETY: the last cell is free and the caller's own, as asked.
        unsafe { cell.store(0) };
        if self.tail.is_null() {
            self.head = first;
        } else {
            // SAFETY: the tail is a free cell appended before.
            unsafe { self.tail.store(first.word()) };
        }
        self.tail = cell;
        self.cells += cells;
    }
}

/// Length of the run of equal "is zero" state from `from`, reading eight marks at a time.
#[inline]
fn dead_run(marks: *const AtomicU8, from: usize, objects: usize) -> usize {
    let mut at = from;
    while at < objects {
        if at.is_multiple_of(8) && at + 8 <= objects {
            // SAFETY: eight mark bytes of this block, 8-aligned; the lock is held, so no other thread changes them.
            let eight = unsafe { marks.add(at).cast::<u64>().read() };
            if eight == 0 {
                at += 8;
                continue;
            }
            at += eight.trailing_zeros() as usize / 8;
            break;
        }
        // SAFETY: `at` is below the number of cells.
        if unsafe { (*marks.add(at)).load(Ordering::Relaxed) } != WHITE {
            break;
        }
        at += 1;
    }
    at - from
}

/// Number of cells from `from` that are not white.
#[inline]
fn live_run(marks: *const AtomicU8, from: usize, objects: usize) -> usize {
    let mut at = from;
    // SAFETY: `at` is below the number of cells.
    while at < objects && unsafe { (*marks.add(at)).load(Ordering::Relaxed) } != WHITE {
        at += 1;
    }
    at - from
}

impl MarkSweep {
    /// Sweeps a block and returns its free cells. Cleared cells read as zero behind their link, or hold poison.
    pub fn sweep_block(&mut self, index: BlockIndex) -> CellList {
        if !self.timed {
            return self.sweep_untimed(index);
        }
        let start = clock::monotonic_ns();
        let list = self.sweep_untimed(index);
        self.sweep_ns += clock::monotonic_ns() - start;
        list
    }

    fn sweep_untimed(&mut self, index: BlockIndex) -> CellList {
        self.swept_blocks += 1;
        let (bytes, objects, kind) = {
            let block = self.block(index);
            block.clear_flag(QUEUED);
            (
                block.bytes,
                usize::from(block.objects),
                usize::from(block.kind),
            )
        };
        let kind = *self.kinds.get(kind).expect("blocks hold defined kinds");
        let marks = self.layout.table.marks_of(index);
        let start = self.start(index);
        if kind.disclaim.is_some() {
            self.disclaim_dead(index, &kind);
        }
        let ahead = self.sweep_ahead;
        for line in (0..ahead.min(BLOCK_BYTES)).step_by(CACHE_LINE) {
            start.add(line).prefetch_for_write();
        }
        let mut list = ListBuilder::new();
        let mut at = 0;
        while at < objects {
            let tracked = kind.marks_free_cells();
            let dead = if tracked {
                free_run(marks, at, objects)
            } else {
                dead_run(marks, at, objects)
            };
            if dead == 0 {
                at += if tracked {
                    1
                } else {
                    live_run(marks, at, objects)
                };
                continue;
            }
            let first = start.add(at * bytes);
            if ahead > 0 {
                first.add(dead * bytes + ahead).prefetch_for_write();
            }
            // SAFETY: these cells are dead and the lock is held, so nobody else uses them.
            unsafe {
                self.wipe(first, dead * bytes, kind.clear);
                if !kind.clear && !self.poison {
                    forget_cookies(first, dead, bytes);
                }
                list.append(first, dead, bytes);
            }
            at += dead;
        }
        CellList {
            head: list.head,
            cells: list.cells,
            bytes: list.cells * bytes,
            block: index,
        }
    }

    /// Prepares a block that holds nothing as cells of one kind and class.
    pub(crate) fn format_cells(&mut self, index: BlockIndex, clean: bool) -> CellList {
        let (bytes, objects, kind) = {
            let block = self.block(index);
            (
                block.bytes,
                usize::from(block.objects),
                usize::from(block.kind),
            )
        };
        let kind = *self.kinds.get(kind).expect("blocks hold defined kinds");
        let start = self.start(index);
        if kind.marks_free_cells() {
            self.fill_marks(index, objects, FREE);
        }
        let mut list = ListBuilder::new();
        // SAFETY: the block was just taken from the pool.
        unsafe {
            if self.poison {
                self.wipe(start, objects * bytes, kind.clear);
            } else if !clean && kind.clear {
                self.zeroing.kernel.zero(start, objects * bytes);
            }
            if !clean && !kind.clear && !self.poison {
                forget_cookies(start, objects, bytes);
            }
            list.append(start, objects, bytes);
        }
        CellList {
            head: list.head,
            cells: objects,
            bytes: objects * bytes,
            block: index,
        }
    }

    /// Makes free memory what allocators expect: zero where the kind wants it, or poison.
    ///
    /// # Safety
    /// The range must be free memory of this space.
    #[inline]
    unsafe fn wipe(&self, start: Address, bytes: usize, clear: bool) {
        if self.poison {
            // SAFETY: the range is free memory of this space, as asked.
            unsafe { zero::fill(start, bytes, POISON) };
        } else if clear {
            // SAFETY: the range is free memory of this space, as asked.
            unsafe { zero::zero(start, bytes) };
        }
    }

    /// Asks the kind's disclaim procedure about each dead object; what it keeps is marked, the rest becomes `FREE`
    /// where the kind marks free cells. Cells that bear the sign of a free cell are not asked about.
    pub(super) fn disclaim_dead(&mut self, index: BlockIndex, kind: &Kind) {
        let Some(disclaim) = kind.disclaim else {
            return;
        };
        let (bytes, objects) = {
            let block = self.block(index);
            (block.bytes, usize::from(block.objects))
        };
        let marks = self.layout.table.marks_of(index);
        for object in 0..objects {
            // SAFETY: `object` is below the number of cells.
            let mark = unsafe { &*marks.add(object) };
            if mark.load(Ordering::Relaxed) == WHITE {
                let base = self.start(index).add(object * bytes);
                // SAFETY: a cell has at least two words.
                let second = unsafe { base.add(8).load() };
                let is_free = second == cookie(base) || (self.poison && second == POISON);
                // SAFETY: the client registered this procedure for objects of this kind; this frame holds no guard.
                let keep = !is_free && unsafe { disclaim(base.ptr()) } != 0;
                let dead = if kind.marks_free_cells() { FREE } else { WHITE };
                mark.store(if keep { MARKED } else { dead }, Ordering::Relaxed);
            }
        }
    }

    /// Sets the first `objects` marks of a block.
    pub(crate) fn fill_marks(&self, index: BlockIndex, objects: usize, mark: u8) {
        // SAFETY: a block of the small part has marks for all its cells, and the lock is held.
        unsafe {
            core::ptr::write_bytes(
                self.layout.table.marks_of(index).cast::<u8>(),
                mark,
                objects,
            )
        };
    }
}

/// Removes the cookies that explicit frees may have left in cells that are not cleared: a client that takes a whole
/// list gets the cells as they are, and must be able to free them. The line is about to be written anyway.
///
/// # Safety
/// The cells must be free and belong to the caller.
unsafe fn forget_cookies(first: Address, cells: usize, bytes: usize) {
    for cell in 0..cells {
        // SAFETY: the cells are free and the caller's own, as asked; each has at least two words.
        unsafe { first.add(cell * bytes + 8).store(0) };
    }
}

/// Number of cells from `from` whose mark is `FREE`.
fn free_run(marks: *const AtomicU8, from: usize, objects: usize) -> usize {
    let mut at = from;
    // SAFETY: `at` is below the number of cells.
    while at < objects && unsafe { (*marks.add(at)).load(Ordering::Relaxed) } == FREE {
        at += 1;
    }
    at - from
}
