//! Sweeping one block: turning what the marker did not reach into a free list (ISMM 2000, section 5).
//!
//! Marks are read in groups; dead cells are cleared and linked in address order. The free list is used right away by
//! the allocator that asked, so each line comes through the cache once. Lines are fetched some way ahead: the paper found
//! no use in prefetching what is about to be written sequentially; a heap of short holes gains by it here, and others
//! lose nothing.
//!
//! Runs under the allocator lock, on the thread that allocates (lazy) or that collects (eager).

use core::sync::atomic::{AtomicU8, Ordering};

use gleaner_mem::address::CACHE_LINE;
use gleaner_mem::{Address, instructions, zero};
use gleaner_os::clock;

use super::allocate::cookie;
use super::cache::CellList;
use super::{FREE, MARKED, MarkSweep, POISON, WHITE};
use crate::mark_sweep::block::{BLOCK_BYTES, BlockIndex, MARKS_PER_BLOCK, QUEUED, SETTLED};
use crate::mark_sweep::kinds::Kind;
use crate::mark_sweep::size_classes::GRANULE;

/// Builds a list of cells in address order.
struct ListBuilder {
    head: Address,
    tail: Address,
    cells: usize,
    second: usize,
}

impl ListBuilder {
    /// A list of no cells yet, whose cells will hold `second` behind their link. So the cookies go that explicit frees
    /// may have left there: a client that takes a whole list gets the cells as they are, and must be able to free them.
    const fn new(second: usize) -> ListBuilder {
        ListBuilder {
            head: Address::NULL,
            tail: Address::NULL,
            cells: 0,
            second,
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
            unsafe { self.write(cell, cell.add(bytes)) };
            cell = cell.add(bytes);
        }
        // SAFETY: the last cell is free and the caller's own, as asked.
        unsafe { self.write(cell, Address::NULL) };
        if self.tail.is_null() {
            self.head = first;
        } else {
            // SAFETY: the tail is a free cell appended before.
            unsafe { self.tail.store(first.word()) };
        }
        self.tail = cell;
        self.cells += cells;
    }

    /// What a listed cell begins with.
    ///
    /// # Safety
    /// The cell must be free and belong to the caller.
    #[inline(always)]
    unsafe fn write(&self, cell: Address, next: Address) {
        // SAFETY: the cell is free and the caller's own, as asked; it has at least two words.
        unsafe { cell.ptr::<[usize; 2]>().write([next.word(), self.second]) };
    }
}

/// Marks that are looked at together: as many as a word has bits. No group belongs to two blocks.
pub(crate) const GROUP: usize = 64;
const _: () = assert!(MARKS_PER_BLOCK.is_multiple_of(GROUP));

/// Which of the [`GROUP`] marks from `from` are `sought`, one bit for each.
///
/// # Safety
/// That many marks must be readable from `from`, which must be 16-aligned. Nobody may change those that are `sought`, or make others
/// so, meanwhile.
#[inline(always)]
pub(crate) unsafe fn cells_marked(marks: *const AtomicU8, from: usize, sought: u8) -> u64 {
    // SAFETY: the marks are readable and unchanged, and `from` is 16-aligned, as asked.
    unsafe { instructions::equal_of_64(marks.add(from).cast(), sought) }
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
        let (bytes, objects, kind, settled) = {
            let block = self.block(index);
            let settled = block.has_flag(SETTLED);
            block.clear_flag(QUEUED | SETTLED);
            (
                block.bytes,
                usize::from(block.objects),
                usize::from(block.kind),
                settled,
            )
        };
        let kind = *self.kinds.get(kind).expect("blocks hold defined kinds");
        let marks = self.layout.table.marks_of(index);
        let start = self.start(index);
        // What is white in a settled block may live. There was no procedure when it was settled.
        if kind.disclaim.is_some() && !settled {
            self.disclaim_dead(index, &kind);
        }
        let ahead = self.sweep_ahead;
        for line in (0..ahead.min(BLOCK_BYTES)).step_by(CACHE_LINE) {
            start.add(line).prefetch_for_write();
        }
        let sought = match settled || kind.marks_free_cells() {
            true => FREE,
            false => WHITE,
        };
        let mut list = ListBuilder::new(self.second_word());
        // SAFETY: a block has marks for as many cells as the smallest class has, whole groups of them; the lock is held,
        // so no other thread changes them. But for a helper that marks beside the program in a cycle, in which blocks that wait are
        // settled: it changes none that is free, and makes none so.
        let dead_from = |group| unsafe { cells_marked(marks, group, sought) };
        let mut append = |at: usize, cells: usize| {
            let first = start.add(at * bytes);
            if ahead > 0 {
                first.add(cells * bytes + ahead).prefetch_for_write();
            }
            // SAFETY: these cells are dead and the lock is held, so nobody else uses them.
            unsafe {
                self.wipe(first, cells * bytes, kind.clear && bytes > GRANULE);
                list.append(first, cells, bytes);
            }
        };
        let mut group = 0;
        while group < objects {
            let mut dead = dead_from(group);
            // Groups without survivors go in one piece.
            let mut end = group;
            while dead == u64::MAX && end + GROUP <= objects {
                end += GROUP;
                dead = if end < objects { dead_from(end) } else { 0 };
            }
            if end > group {
                append(group, end - group);
                group = end;
                continue;
            }
            if objects - group < GROUP {
                dead &= (1 << (objects - group)) - 1;
            }
            // In any other, holes are short and of all lengths: to go cell by cell guesses less than to look for their
            // ends.
            while dead != 0 {
                append(group + dead.trailing_zeros() as usize, 1);
                dead &= dead - 1;
            }
            group += GROUP;
        }
        if settled {
            self.unsettle(index);
        }
        CellList {
            head: list.head,
            cells: list.cells,
            bytes: list.cells * bytes,
            block: index,
        }
    }

    /// Prepares a block that holds nothing, and is described, as cells of one kind and class.
    pub(crate) fn format_cells(&mut self, index: BlockIndex, clean: bool) -> CellList {
        let (bytes, kind) = {
            let block = self.block(index);
            (block.bytes, usize::from(block.kind))
        };
        let objects = BLOCK_BYTES / bytes;
        let kind = *self.kinds.get(kind).expect("blocks hold defined kinds");
        let start = self.start(index);
        let mark = match kind.marks_free_cells() {
            true => FREE,
            false => WHITE,
        };
        self.fill_marks(index, objects, mark);
        let mut list = ListBuilder::new(self.second_word());
        // SAFETY: the block was just taken from the pool.
        unsafe {
            if self.poison {
                self.wipe(start, objects * bytes, kind.clear);
            } else if !clean && kind.clear && bytes > GRANULE {
                self.zeroing.kernel.zero(start, objects * bytes);
            }
            list.append(start, objects, bytes);
        }
        self.block(index).publish_small(objects as u16);
        CellList {
            head: list.head,
            cells: objects,
            bytes: objects * bytes,
            block: index,
        }
    }

    /// What a listed cell holds behind its link. Nothing else is left to clear in a cell of one granule.
    fn second_word(&self) -> usize {
        if self.poison { POISON } else { 0 }
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
            unsafe { zero::zero_fresh(start, bytes) };
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[repr(align(16))]
    struct Row([u8; 2 * GROUP]);

    proptest! {
        #[test]
        fn each_mark_of_a_group_has_its_bit(
            marks in proptest::collection::vec(WHITE..=FREE, 2 * GROUP),
            sought in WHITE..=FREE,
        ) {
            let mut row = Row([0; 2 * GROUP]);
            row.0.copy_from_slice(&marks);
            // SAFETY: the row has two groups of marks; it is aligned and this test's own.
            let cells = unsafe { cells_marked(row.0.as_ptr().cast(), GROUP, sought) };
            for at in 0..GROUP {
                prop_assert_eq!(cells >> at & 1 == 1, marks[GROUP + at] == sought);
            }
        }
    }
}
