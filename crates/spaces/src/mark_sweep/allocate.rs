//! Allocation: where cells and large objects come from when a free list is empty.
//!
//! The order is: explicitly freed cells, a block waiting to be swept (lazy sweeping), a free block. If there is none,
//! the caller is told of a [`Shortage`], and collects or grows the heap. A block is taken only if it fits under
//! `capacity`; free memory that the system still backs is used first, and released when a large object needs its place.
//!
//! All methods run under the allocator lock.

use core::mem::take;
use core::ops::Range;
use core::sync::atomic::Ordering;

use gleaner_mem::{Address, zero};

use super::cache::{Cache, CellList, LEADS_BACK, LISTED_KINDS, MOST_LISTED};
use super::pool::Taken;
use super::{FREE, MARKED, MarkSweep, POISON, WHITE};
use crate::mark_sweep::block::{
    BLOCK_BYTES, BLOCK_SHIFT, BlockIndex, FRESH, IGNORE_OFF_PAGE, LARGE_BYTES, LARGE_SHIFT,
    NO_BLOCK, OWNED, SWEPT, State, inverse_of,
};
use crate::mark_sweep::kinds::{Kind, ThreadLists};
use crate::mark_sweep::large_runs::{Run, blocks_for};
use crate::mark_sweep::size_classes::{CELL_BYTES, CLASSES, GRANULE, cells_within};

/// Why memory could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// `bytes` more would exceed the capacity: collect or grow.
    Capacity(usize),
    /// The system has no more.
    System,
    /// The reserved range has no more.
    Range,
}

/// The most cells that a thread takes off a shared list at once: as many as a magazine brings there.
const BATCH: [u32; CLASSES] = cells_within(32 << 10, 256);

/// What a large object of `bytes` bytes takes: whole pages.
pub(super) fn page_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(LARGE_BYTES)
}

impl MarkSweep {
    /// Free cells of one kind and class: a swept block's, or a fresh one's.
    pub fn take_cells(&mut self, kind: usize, class: usize) -> Result<CellList, Shortage> {
        // While marks are made in a stop, what callbacks allocate is born marked, and comes from blocks without other objects.
        while !self.stage.is_born_marked()
            && let Some(index) = self.dequeue(kind, class)
        {
            self.unwatch_ahead(index);
            let list = if self.block(index).has_flag(SWEPT) {
                self.swept_list(index)
            } else {
                self.sweep_block(index)
            };
            self.unswept_bytes = self.unswept_bytes.saturating_sub(list.bytes);
            if list.cells > 0 {
                self.account.hand_out(list.bytes);
                return Ok(list);
            }
        }
        let taken = self.take_block()?;
        self.describe_small(taken.index, kind, class);
        let list = self.format_cells(taken.index, taken.clean);
        self.account.hand_out(list.bytes);
        Ok(list)
    }

    /// Marks the cells of a list whose block nobody owns, if objects are born marked now: the client got all of them.
    pub fn mark_born(&self, list: &CellList) {
        let mut cell = list.head;
        while self.stage.is_born_marked() && !cell.is_null() {
            self.set_mark(cell, MARKED);
            // SAFETY: a listed cell links to the next in its first word.
            cell = unsafe { Address::new(cell.load()) };
        }
    }

    /// Refills the empty list of a cache. The block that it owned before is exhausted, and owned no longer.
    ///
    /// # Safety
    /// The cache must belong to the calling thread, or be the shared one.
    pub unsafe fn refill(
        &mut self,
        cache: *mut Cache,
        kind: usize,
        class: usize,
    ) -> Result<(), Shortage> {
        // SAFETY: `cache` is the calling thread's or the shared one, as asked. The shared one is a field of `self`,
        // which this method touches only through `cache` or through `take_shared`, never both at once.
        let owned = unsafe { (*cache).owned[kind][class] };
        if owned != NO_BLOCK {
            self.block(owned).clear_flag(OWNED);
            // SAFETY: `cache` is the calling thread's or the shared one, as asked.
            unsafe { (*cache).owned[kind][class] = NO_BLOCK };
        }
        if !core::ptr::eq(cache, &raw const self.shared)
            // SAFETY: it is not the shared one, so it is the calling thread's, as asked.
            && let Some(head) = unsafe { self.take_freed(cache, kind, class) }
        {
            // SAFETY: `cache` is the calling thread's or the shared one, as asked.
            unsafe {
                // The exact number does not matter: not zero means that the list must be walked in a pause.
                (*cache).foreign[kind][class] = 1;
                (*cache).heads[kind][class] = head;
            }
            return Ok(());
        }
        let list = self.take_cells(kind, class)?;
        self.block(list.block).set_flag(OWNED);
        if core::ptr::eq(cache, &raw const self.shared) {
            self.account.shared_bytes += list.bytes;
        }
        // SAFETY: `cache` is the calling thread's or the shared one, as asked.
        unsafe {
            (*cache).foreign[kind][class] = 0;
            (*cache).owned[kind][class] = list.block;
            (*cache).heads[kind][class] = list.head;
        }
        Ok(())
    }

    /// Cells that were freed explicitly: those of the thread's own magazine, or else some of the shared list.
    ///
    /// # Safety
    /// The cache must belong to the calling thread.
    unsafe fn take_freed(
        &mut self,
        cache: *mut Cache,
        kind: usize,
        class: usize,
    ) -> Option<Address> {
        if kind < LISTED_KINDS {
            // SAFETY: the cache is the calling thread's, as asked.
            let magazine = unsafe { take(&mut (*cache).magazines[kind][class]) };
            if !magazine.head.is_null() {
                return Some(magazine.head);
            }
        }
        let some = !self.shared.heads[kind][class].is_null();
        some.then(|| self.take_shared(kind, class))
    }

    /// Cells that were freed explicitly, as a list for a client that hands them out by itself: they read as cells of the kind do
    /// when they are taken from a block, but for their links. Those on the shared list alone where there is no cache.
    ///
    /// # Safety
    /// The cache must belong to the calling thread.
    pub unsafe fn take_freed_cells(
        &mut self,
        cache: Option<*mut Cache>,
        kind: usize,
        class: usize,
    ) -> Option<Address> {
        let head = match cache {
            // SAFETY: the cache is the calling thread's, as asked.
            Some(cache) => unsafe { self.take_freed(cache, kind, class) }?,
            None if self.shared.heads[kind][class].is_null() => return None,
            None => self.take_shared(kind, class),
        };
        let mut cell = head;
        while !cell.is_null() {
            self.set_mark_if(self.stage.is_born_marked(), cell, MARKED);
            // SAFETY: a listed cell has at least two words: its link, and the cookie of an explicit free.
            unsafe {
                cell.add(8).store(0);
                cell = Address::new(cell.load());
            }
        }
        Some(head)
    }

    /// Takes the first cells of the shared list of one kind and class, which is not empty. They may be of any block.
    /// The shared list may be long, and what a thread holds is walked in pauses.
    fn take_shared(&mut self, kind: usize, class: usize) -> Address {
        let head = self.shared.heads[kind][class];
        let (mut last, mut cells) = (head, 1);
        let marks = self.marks_free_cells(kind);
        self.set_mark_if(marks, last, MARKED);
        // SAFETY: a listed cell links to the next in its first word.
        let mut next = unsafe { last.load() };
        while next != 0 && cells < BATCH[class] as usize {
            last = Address::new(next);
            cells += 1;
            self.set_mark_if(marks, last, MARKED);
            // SAFETY: a listed cell links to the next in its first word.
            next = unsafe { last.load() };
        }
        // SAFETY: the cell is free.
        unsafe { last.store(0) };
        self.shared.heads[kind][class] = Address::new(next);
        self.account.shared_bytes -= cells * usize::from(CELL_BYTES[class]);
        if next == 0 {
            let owned = self.shared.owned[kind][class];
            self.shared.owned[kind][class] = NO_BLOCK;
            self.shared.foreign[kind][class] = 0;
            if owned != NO_BLOCK {
                self.block(owned).clear_flag(OWNED);
            }
        }
        head
    }

    /// Takes over the cells of a thread that has ended, whose cache is as a new one then.
    ///
    /// # Safety
    /// The cache's thread must have ended, or be the calling one and never use the cache again.
    pub unsafe fn adopt_cells(&mut self, cache: *mut Cache) {
        // SAFETY: the cache's thread uses it no more, as asked.
        let freed = unsafe { take(&mut (*cache).freed_bytes) };
        self.shared.freed_bytes = self.shared.freed_bytes.wrapping_add(freed);
        // SAFETY: the cache's thread uses it no more, as asked.
        let uncounted = unsafe { take(&mut (*cache).uncounted_bytes) };
        self.uncollectable_bytes = self.uncollectable_bytes.wrapping_add(uncounted);
        for kind in 0..self.kinds.count() {
            for class in 0..CLASSES {
                // SAFETY: the cache's thread uses it no more, as asked.
                unsafe { self.take_over(cache, kind, class) };
            }
        }
    }

    /// Takes over the lists on which a thread has cells that were freed explicitly. Where marks are cleared and the shared lists
    /// dropped next, these cells keep no block any more, each of them perhaps another one.
    ///
    /// # Safety
    /// The cache must belong to the calling thread.
    pub unsafe fn take_over_freed(&mut self, cache: *mut Cache) {
        for kind in 0..self.kinds.count() {
            let lists = self.kinds.get(kind).map(Kind::thread_lists);
            // Of such a kind threads take nothing from their lists any more.
            let is_left = lists == Some(ThreadLists::None);
            for class in 0..CLASSES {
                // SAFETY: the cache is the calling thread's, as asked.
                unsafe {
                    let magazine = (*cache).magazines.get(kind).map(|of| of[class].head);
                    let has_magazine = magazine.is_some_and(|head| !head.is_null());
                    if is_left || has_magazine || (*cache).foreign[kind][class] > 0 {
                        self.take_over(cache, kind, class);
                    }
                }
            }
        }
    }

    /// Moves a thread's cells of one kind and class to the shared list.
    ///
    /// # Safety
    /// The cache must belong to the calling thread, or its thread must use it no more.
    unsafe fn take_over(&mut self, cache: *mut Cache, kind: usize, class: usize) {
        // SAFETY: nobody else uses the cache, as asked.
        let cache = unsafe { &mut *cache };
        cache.foreign[kind][class] = 0;
        let owned = core::mem::replace(&mut cache.owned[kind][class], NO_BLOCK);
        if owned != NO_BLOCK {
            self.block(owned).clear_flag(OWNED);
        }
        let list = core::mem::replace(&mut cache.heads[kind][class], Address::NULL);
        let magazine = cache.magazines.get_mut(kind).map(|of| take(&mut of[class]));
        for head in [list, magazine.map_or(Address::NULL, |it| it.head)] {
            if head.is_null() {
                continue;
            }
            // Counted anew: a process may have been forked while the thread was freeing a cell.
            let (mut last, mut cells) = (head, 1);
            // SAFETY: a listed cell links to the next in its first word, and nobody else has this list.
            unsafe {
                while last.load() != 0 {
                    last = Address::new(last.load());
                    cells += 1;
                    assert!(cells <= MOST_LISTED, "{LEADS_BACK}");
                }
                self.prepend_shared(kind, class, (head, last), cells);
            }
        }
    }

    /// Moves the cells of a thread's magazine to the shared list.
    ///
    /// # Safety
    /// The cache must belong to the calling thread.
    pub unsafe fn share_magazine(&mut self, cache: *mut Cache, kind: usize, class: usize) {
        // SAFETY: the cache is the calling thread's, as asked. The lock is held, so that no pause falls between the stores.
        unsafe {
            let magazine = take(&mut (*cache).magazines[kind][class]);
            if !magazine.head.is_null() {
                let ends = (magazine.head, magazine.last);
                self.prepend_shared(kind, class, ends, magazine.cells as usize);
            }
        }
    }

    /// Puts the cells from `first` to `last` before the others on the shared list.
    ///
    /// # Safety
    /// They must be `cells` free cells, each linked to the next, that no other list holds.
    unsafe fn prepend_shared(
        &mut self,
        kind: usize,
        class: usize,
        (first, last): (Address, Address),
        cells: usize,
    ) {
        if self.marks_free_cells(kind) {
            let mut cell = first;
            while cell != last {
                self.set_mark(cell, FREE);
                // SAFETY: each of the cells links to the next in its first word, as asked.
                cell = unsafe { Address::new(cell.load()) };
            }
            self.set_mark(last, FREE);
        }
        self.account.shared_bytes += cells * usize::from(CELL_BYTES[class]);
        // SAFETY: the last cell is free and the caller's, as asked.
        unsafe { last.store(self.shared.heads[kind][class].word()) };
        self.shared.heads[kind][class] = first;
        self.shared.foreign[kind][class] = 1;
    }

    fn marks_free_cells(&self, kind: usize) -> bool {
        self.kinds.get(kind).is_some_and(Kind::marks_free_cells)
    }

    /// Of kinds that mark free cells, those on the shared list are `FREE`, and those that a thread has listed are not unless
    /// they lie in the block that it owns: what is `FREE` elsewhere is listed by a sweep.
    fn set_mark_if(&self, marks: bool, cell: Address, mark: u8) {
        if marks {
            self.set_mark(cell, mark);
        }
    }

    /// Allocates one small object from the shared cache.
    pub fn allocate_small(&mut self, kind: usize, class: usize) -> Result<Address, Shortage> {
        if self.shared.heads[kind][class].is_null() {
            let shared = &raw mut self.shared;
            // SAFETY: the shared cache is guarded by the lock that the caller holds.
            unsafe { self.refill(shared, kind, class)? };
        }
        let cell = self.shared.heads[kind][class];
        // SAFETY: a cell on the shared list is free and its first word links to the next.
        self.shared.heads[kind][class] = unsafe { Address::new(cell.load()) };
        let bytes = usize::from(CELL_BYTES[class]);
        self.account.shared_bytes -= bytes;
        self.check_poison(cell, bytes);
        let described = *self.kinds.get(kind).expect("callers pass defined kinds");
        if self.poison && described.clear {
            // SAFETY: the cell is ours now.
            unsafe { zero::zero(cell, bytes) };
        } else {
            // SAFETY: cells have at least two words. The second may hold the cookie of an explicit free.
            unsafe {
                cell.store(0);
                cell.add(8).store(0);
            }
        }
        if described.marks_free_cells() || self.stage.is_born_marked() {
            self.set_mark(cell, MARKED);
        }
        if described.uncollectable {
            self.uncollectable_bytes = self.uncollectable_bytes.wrapping_add(bytes);
        }
        Ok(cell)
    }

    /// Allocates a large object of `bytes` bytes (more than the largest size class holds); `alignment` is a power of
    /// two. New memory reads as zero if the kind wants that.
    pub fn allocate_large(
        &mut self,
        kind: usize,
        bytes: usize,
        alignment: usize,
        ignore_off_page: bool,
    ) -> Result<Address, Shortage> {
        let described = *self.kinds.get(kind).expect("callers pass defined kinds");
        // Descriptors that are built from the size need their two tag bits for themselves.
        let bytes = bytes
            .checked_next_multiple_of(GRANULE)
            .ok_or(Shortage::Range)?;
        let extra = (alignment / LARGE_BYTES).saturating_sub(1);
        let blocks = blocks_for(bytes).ok_or(Shortage::Range)?;
        let searched = blocks
            .checked_add(extra as BlockIndex)
            .ok_or(Shortage::Range)?;
        let run = self.take_run(searched, page_bytes(bytes))?;
        let mut run = self.align_run(run, blocks, alignment);
        if !self.large.mend(&self.layout, &mut run) {
            return Err(Shortage::System);
        }
        self.describe_large(run.first, blocks, kind, bytes, ignore_off_page);
        let base = self.start(run.first);
        if described.clear && !run.clean {
            // SAFETY: the run was just taken from the free runs.
            unsafe { self.zeroing.kernel.zero(base, bytes) };
        } else if !described.clear {
            // As in cells: the first two words never show what was there before.
            // SAFETY: the run was just taken from the free runs.
            unsafe {
                base.store(0);
                base.add(8).store(0);
            }
        }
        if described.uncollectable || self.stage.is_born_marked() {
            self.set_mark(base, MARKED);
        }
        if described.uncollectable {
            self.uncollectable_bytes = self.uncollectable_bytes.wrapping_add(bytes);
        }
        self.used_large_bytes += page_bytes(bytes);
        self.account.hand_out(bytes);
        Ok(base)
    }

    /// Lengthens the large object at `base` to `bytes` bytes and the rest of their last page where it is, into the
    /// pages that it has and what is free behind them. False if its neighbour or the capacity does not allow that.
    pub fn grow_large(&mut self, base: Address, bytes: usize) -> bool {
        let first = self.layout.table.index_of(base);
        let (blocks, old, kind) = {
            let head = self.block(first);
            (head.next, head.bytes, usize::from(head.kind))
        };
        let described = *self.kinds.get(kind).expect("blocks hold defined kinds");
        let (Some(needed), bytes) = (blocks_for(bytes), page_bytes(bytes)) else {
            return false;
        };
        let more = bytes - page_bytes(old);
        if self.used_bytes().saturating_add(more) > self.capacity {
            return false;
        }
        let mut clean_from = bytes;
        if needed > blocks {
            self.make_room(0);
            let taken = self
                .large
                .take_at(&mut self.layout, first + blocks, needed - blocks);
            let Some(run) = taken else { return false };
            self.describe_rest(first, blocks..needed);
            self.block(first).next = needed;
            if run.clean {
                clean_from = page_bytes(old);
                self.make_room(more);
            }
        }
        if described.clear {
            // SAFETY: the object's own blocks behind its old end.
            unsafe { zero::zero(base.add(old), clean_from - old) };
        }
        let head = self.block(first);
        head.descriptor = described.descriptor_for(bytes);
        head.bytes = bytes;
        if described.uncollectable {
            self.uncollectable_bytes = self.uncollectable_bytes.wrapping_add(bytes - old);
        }
        self.used_large_bytes += more;
        self.account.hand_out(bytes - old);
        true
    }

    /// Cuts a run that is longer than `blocks` so that it starts aligned.
    fn align_run(&mut self, run: Run, blocks: BlockIndex, alignment: usize) -> Run {
        if run.blocks == blocks {
            return run;
        }
        let start = self.start(run.first);
        let before = (start.align_up(alignment).offset_from(start) >> LARGE_SHIFT) as BlockIndex;
        // Both remainders become runs of their own before they are given back, so that the part in between is used.
        let aligned = run.behind(before).cut(blocks);
        self.describe_large(aligned.first, blocks, 0, 1, false);
        for rest in [run.cut(before), run.behind(before + blocks)] {
            if rest.blocks > 0 {
                self.large.give(&self.layout, rest);
            }
        }
        aligned
    }

    fn take_run(&mut self, blocks: BlockIndex, bytes: usize) -> Result<Run, Shortage> {
        if blocks > self.layout.large_blocks() {
            return Err(Shortage::Range); // More capacity would not help.
        }
        if self.used_bytes().saturating_add(bytes) > self.capacity {
            return Err(Shortage::Capacity(bytes));
        }
        // A clean run that joined a dirty one counts as dirty, and is going to be backed.
        self.make_room(0);
        if let Some(run) = self.large.take_free(&self.layout, blocks) {
            if run.clean {
                self.make_room(bytes); // Like fresh memory, it is going to be backed.
            }
            return Ok(run);
        }
        if blocks > self.layout.end() - self.large.frontier() {
            return Err(Shortage::Range);
        }
        self.make_room(bytes);
        self.large
            .take_fresh(&mut self.layout, blocks)
            .ok_or(Shortage::System)
    }

    fn take_block(&mut self) -> Result<Taken, Shortage> {
        if self.used_bytes() + BLOCK_BYTES > self.capacity {
            return Err(Shortage::Capacity(BLOCK_BYTES));
        }
        let taken = match self.pool.take_dirty(&self.layout) {
            Some(taken) => taken,
            None => {
                let is_backed = self.pool.is_next_populated();
                self.make_room(if is_backed { 0 } else { BLOCK_BYTES });
                let used_up = self.pool.frontier() == self.layout.small_end();
                let backed = self.used_bytes() + self.dirty_bytes();
                let room = self.slack.room(backed, self.capacity) >> BLOCK_SHIFT;
                self.pool
                    .take_clean(&mut self.layout, room)
                    .ok_or(if used_up {
                        Shortage::Range
                    } else {
                        Shortage::System
                    })?
            }
        };
        self.used_small_blocks += 1;
        Ok(taken)
    }

    /// Releases dirty free memory so that `bytes` fresh bytes do not push what the system backs over the capacity and its slack.
    fn make_room(&mut self, bytes: usize) {
        let backed = self.used_bytes() + self.dirty_bytes() + bytes;
        let excess = self.slack.note_wanted(backed, self.capacity);
        if excess > 0 {
            let released = self.release_dirty(excess);
            self.slack.note_moved(released);
        }
    }

    /// Gives at least `bytes` bytes back to the system, if so much is free and backed: first what is backed beyond the
    /// frontier, then dirty free runs of the large part, each as a whole, then dirty blocks. Returns how many bytes.
    pub fn release_dirty(&mut self, bytes: usize) -> usize {
        let MarkSweep {
            pool,
            large,
            layout,
            ..
        } = self;
        let mut released = pool.release_ahead(layout);
        released += large.release(layout, bytes.saturating_sub(released), |_, _| true);
        let blocks = bytes.saturating_sub(released).div_ceil(BLOCK_BYTES);
        released + (pool.release(layout, blocks) << BLOCK_SHIFT)
    }

    /// Gives the addresses back that no object needs, where they are short and pages are not watched; whether there were any.
    pub fn give_back_between(&mut self) -> bool {
        self.written.is_none()
            && self.large.tear(&self.layout) | self.pool.give_addresses_back(&self.layout)
    }

    /// In a forked child: other threads that read cells without the lock exist in the parent only.
    pub fn forget_readers(&self) {
        self.pool.readers.open();
    }

    /// Gives what large objects left at the end of their part back for good, where addresses are short and pages are not watched;
    /// whether there was anything.
    pub fn give_back_end(&mut self) -> bool {
        self.written.is_none() && self.large.retreat(&mut self.layout)
    }

    /// Describes a free block, which is one of small objects when its cells have been formatted.
    fn describe_small(&mut self, index: BlockIndex, kind: usize, class: usize) {
        let bytes = usize::from(CELL_BYTES[class]);
        let descriptor = self
            .kinds
            .get(kind)
            .map_or(0, |kind| kind.descriptor_for(bytes));
        let block = self.block(index);
        block.descriptor = descriptor;
        block.bytes = bytes;
        block.inverse = inverse_of(bytes);
        block.next = NO_BLOCK;
        block.kind = kind as u8;
        block.class = class as u8;
        block.age = 0;
        block.flags.store(FRESH, Ordering::Relaxed);
    }

    fn describe_large(
        &mut self,
        first: BlockIndex,
        blocks: BlockIndex,
        kind: usize,
        bytes: usize,
        off_page: bool,
    ) {
        let descriptor = self
            .kinds
            .get(kind)
            .map_or(0, |kind| kind.descriptor_for(bytes));
        self.describe_rest(first, 1..blocks);
        let head = self.block(first);
        head.descriptor = descriptor;
        head.bytes = bytes;
        head.inverse = 0;
        head.next = blocks;
        head.objects = 1;
        head.kind = kind as u8;
        head.class = 0;
        head.age = 0;
        head.flags.store(
            if off_page {
                FRESH | IGNORE_OFF_PAGE
            } else {
                FRESH
            },
            Ordering::Relaxed,
        );
        head.large_mark.store(WHITE, Ordering::Relaxed);
        head.state = State::LargeHead;
    }

    fn describe_rest(&mut self, first: BlockIndex, distances: Range<BlockIndex>) {
        for distance in distances {
            let rest = self.block(first + distance);
            rest.state = State::LargeRest;
            rest.inverse = distance;
        }
    }

    /// Sets the mark of the object at `base`.
    pub(crate) fn set_mark(&self, base: Address, mark: u8) {
        if let Some(found) = self.object_base(base.word()) {
            // SAFETY: the mark of a resolved object.
            unsafe { (*found.mark).store(mark, Ordering::Relaxed) };
        }
    }

    /// Under `poison=on`: panics if a free cell was written to.
    pub(crate) fn check_poison(&self, cell: Address, bytes: usize) {
        if !self.poison {
            return;
        }
        for offset in (8..bytes).step_by(8) {
            // SAFETY: the cell is free memory of this space.
            let found = unsafe { cell.add(offset).load() };
            assert!(
                found == POISON || (offset == 8 && found == cookie(cell)),
                "free memory was written: cell {cell:?} of {bytes} bytes, word at offset {offset} is {found:#x}"
            );
        }
    }

    fn dequeue(&mut self, kind: usize, class: usize) -> Option<BlockIndex> {
        let index = self.queues[kind][class].first;
        if index == NO_BLOCK {
            return None;
        }
        let next = self.block(index).next;
        let queue = &mut self.queues[kind][class];
        queue.first = next;
        if next == NO_BLOCK {
            queue.last = NO_BLOCK;
        }
        Some(index)
    }
}

/// What an explicit free leaves in the second word of a cell, so that freeing it again is noticed.
#[inline(always)]
pub fn cookie(cell: Address) -> usize {
    cell.word() ^ 0x6c65_616e_6672_6565
}

/// Whether an object was freed explicitly: its memory is on a list then, or waits for the end of a cycle.
///
/// # Safety
/// The address must be the base of a cell or large object of a heap, in use or not.
#[inline(always)]
pub unsafe fn is_freed(base: Address) -> bool {
    // SAFETY: a cell has at least two words, which stay committed while its block is in use, as asked.
    unsafe { base.add(8).load() == cookie(base) }
}

/// The mark of a cell that is known to be free.
pub const KNOWN_FREE: u8 = FREE;
