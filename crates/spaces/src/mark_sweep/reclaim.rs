//! Before and after marking: clearing marks, then deciding block by block what becomes of it, and freeing large
//! objects that are dead (ISMM 2000, section 5).
//!
//! After marking, a block without a mark returns to the pool and is not touched. A block with some marks joins the
//! sweep queue of its kind and class. A nearly full one (seven eighths marked) is left alone, since sweeping it would
//! cost more than it yields. Only marks and descriptors are read here, so pointer-free and empty blocks stay out of the
//! cache and may stay out of memory.
//!
//! Runs on the collecting thread under the allocator lock: clearing in the stopped world, the rest when it runs again.

use core::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_mem::address::CACHE_LINE;

use super::cache::{Cache, CellList, LEADS_BACK, MOST_LISTED};
use super::mark_counts::count_marks;
use super::marks::{FREE, MARKED, WHITE};
use super::pool::Backing;
use super::settle::Waiting;
use super::space::{Census, MarkSweep, SweepMode};
use super::sticky::Unwatched;
use crate::mark_sweep::block::{
    BLOCK_SHIFT, BlockIndex, FREED, FRESH, MARKS_PER_BLOCK, NO_BLOCK, OWNED, QUEUED, RESCAN,
    SETTLED, SWEPT, State,
};
use crate::mark_sweep::kinds::{ATOMIC_UNCOLLECTABLE, Kind, PTRFREE, ThreadLists};
use crate::mark_sweep::size_classes::{CLASSES, GRANULE};

/// What a collection gave back.
#[derive(Clone, Copy, Default, Debug)]
pub struct Reclaimed {
    /// Blocks that were returned to the pool untouched.
    pub empty_blocks: usize,
    /// Blocks queued for sweeping.
    pub queued_blocks: usize,
    /// Blocks left alone because they are nearly full.
    pub full_blocks: usize,
    /// Bytes of large objects that were freed.
    pub large_bytes: usize,
    /// Bytes given back to the system.
    pub released_bytes: usize,
}

/// What a collection makes of the age of free memory, in collections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ageing {
    /// It becomes older by one, and goes back to the system when it is so old; 0 means never.
    ReleaseAfter(u8),
    /// It stays as old as it was, and where it was.
    Stays,
}

impl Ageing {
    fn older(self, age: u8) -> u8 {
        age.saturating_add(u8::from(self != Ageing::Stays))
    }

    fn is_due(self, age: u8) -> bool {
        matches!(self, Ageing::ReleaseAfter(after) if after != 0 && age >= after)
    }
}

impl MarkSweep {
    /// Takes back the shared cache's lists and clears the marks of everything collectable; what waits to be swept is taken
    /// back or stays.
    pub fn clear_marks(&mut self, waiting: Waiting) {
        self.set_kept(false);
        self.forget_written();
        self.drop_shared_lists();
        self.empty_queues();
        for index in 0..self.pool.frontier() {
            let (state, kind, objects) = {
                let block = self.block(index);
                (
                    block.state,
                    usize::from(block.kind),
                    usize::from(block.objects),
                )
            };
            if state != State::Small {
                continue;
            }
            self.fetch_marks_after(index, objects);
            if self.leave_queued(index, waiting, false) {
                self.block(index).clear_flag(RESCAN | FRESH);
                continue;
            }
            self.cut_swept_list(index);
            self.block(index)
                .clear_flag(QUEUED | SWEPT | SETTLED | RESCAN | FRESH);
            let Some(kind) = self.kinds.get(kind) else {
                continue;
            };
            if kind.marks_free_cells() && !kind.uncollectable {
                self.clear_all_but_free(index, objects);
            } else if !kind.uncollectable {
                self.fill_marks(index, objects, WHITE);
            }
        }
        self.large.for_each_run(&self.layout, |index| {
            let block = self.block(index);
            let kept = self
                .kinds
                .get(usize::from(block.kind))
                .is_some_and(|kind| kind.uncollectable);
            if block.state == State::LargeHead {
                block.clear_flag(RESCAN | FRESH);
                if !kept {
                    block.large_mark.store(WHITE, Ordering::Relaxed);
                }
            }
        });
    }

    /// Asks the cache for the marks of a block some way behind this one, which is likely to have as many objects: blocks of
    /// few objects leave gaps between their marks, before which the processor stops to fetch by itself.
    #[inline]
    fn fetch_marks_after(&self, index: BlockIndex, objects: usize) {
        const AHEAD: usize = 4 * MARKS_PER_BLOCK;
        let marks = Address::of(self.layout.table.marks_of(index)).add(AHEAD);
        for line in (0..objects).step_by(CACHE_LINE) {
            marks.add(line).prefetch_for_write();
        }
    }

    fn clear_all_but_free(&self, index: BlockIndex, objects: usize) {
        let marks = self.layout.table.marks_of(index);
        for object in 0..objects {
            // SAFETY: `object` is below the number of cells.
            let mark = unsafe { &*marks.add(object) };
            if mark.load(Ordering::Relaxed) != FREE {
                mark.store(WHITE, Ordering::Relaxed);
            }
        }
    }

    /// No thread owns the shared lists, so the collector may take their cells back.
    fn drop_shared_lists(&mut self) {
        for kind in 0..self.kinds.count() {
            for class in 0..CLASSES {
                self.drop_shared_list(kind, class);
            }
        }
        self.account.drop_shared(self.account.shared_bytes);
    }

    /// Takes back the cells of one shared list. Their links are cut: the next cell may soon be an object, and a cell that
    /// is marked by accident must not lead to it.
    pub(super) fn drop_shared_list(&mut self, kind: usize, class: usize) {
        let is_scanned = self.kinds.get(kind).is_some_and(Kind::is_scanned);
        let owned = self.shared.owned[kind][class];
        if owned != NO_BLOCK {
            self.block(owned).clear_flag(OWNED);
        }
        let mut cell = self.shared.heads[kind][class];
        while is_scanned && !cell.is_null() {
            // SAFETY: a cell on the shared list is free; its first word links to the next.
            unsafe {
                let next = Address::new(cell.load());
                cell.store(0);
                cell = next;
            }
        }
        self.shared.heads[kind][class] = Address::NULL;
        self.shared.owned[kind][class] = NO_BLOCK;
        self.shared.foreign[kind][class] = 0;
    }

    /// Cuts the links of a block that was swept eagerly and not used since, where they could mislead the scanner.
    pub(super) fn cut_swept_list(&self, index: BlockIndex) {
        let block = self.block(index);
        let exact = self
            .kinds
            .get(usize::from(block.kind))
            .is_some_and(Kind::has_exact_layout);
        if !exact || !block.has_flag(SWEPT) {
            return;
        }
        let settled = block.has_flag(SETTLED);
        let marks = self.layout.table.marks_of(index);
        for object in 0..usize::from(block.objects) {
            // SAFETY: `object` is below the number of cells, and a cell that is dead is free in a swept block.
            unsafe {
                if is_dead(settled, (*marks.add(object)).load(Ordering::Relaxed)) {
                    self.start(index).add(object * block.bytes).store(0);
                }
            }
        }
    }

    /// Marks the cells of a stopped thread's magazines, and those on its lists that are of blocks it does not own (I8). The
    /// others are safe, and would count as objects that live.
    ///
    /// # Safety
    /// The cache's thread must be stopped, or be the calling one.
    pub unsafe fn keep_listed_cells(&self, cache: *const Cache) {
        let most = match core::ptr::eq(cache, &raw const self.shared) {
            true => self.account.shared_bytes / GRANULE,
            false => MOST_LISTED,
        };
        for kind in 0..self.kinds.count() {
            for class in 0..CLASSES {
                // SAFETY: the cache's thread is stopped or the calling one, as asked, so its lists do not change.
                let (lists, foreign, owned) = unsafe {
                    (
                        Cache::lists(cache, kind, class),
                        (*cache).foreign[kind][class],
                        (*cache).owned[kind][class],
                    )
                };
                for list in lists.skip(usize::from(foreign == 0)) {
                    // SAFETY: a list's head in the cache, whose thread is stopped or the calling one, as asked.
                    let (mut cell, mut cells) = (unsafe { list.read() }, 0);
                    while !cell.is_null() {
                        cells += 1;
                        assert!(cells <= most, "{LEADS_BACK}");
                        if self.layout.table.index_of(cell) != owned {
                            self.set_mark(cell, MARKED);
                        }
                        // SAFETY: a listed cell links to the next in its first word.
                        cell = unsafe { Address::new(cell.load()) };
                    }
                }
            }
        }
    }

    /// Decides what becomes of every block, by its marks.
    pub fn reclaim(&mut self, ageing: Ageing) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        let mut census = Census::default();
        self.giving_back.note_collection();
        self.take_back_queues();
        self.pool.clear();
        let (mut due, mut unwatched) = (DueRun::default(), Unwatched::default());
        for index in 0..self.pool.frontier() {
            match self.block(index).state {
                State::Small => {
                    let is_empty = self.reclaim_small(index, &mut census, &mut reclaimed);
                    if is_empty {
                        unwatched.extend(self, index, 1);
                    }
                }
                State::Free => self.reclaim_free(index, ageing, &mut due, &mut reclaimed),
                _ => {}
            }
        }
        due.flush(self, &mut reclaimed);
        self.reclaim_large(&mut census, &mut reclaimed, &mut unwatched);
        unwatched.finish(self);
        self.release_old_runs(ageing, &mut reclaimed);
        self.give_back_unwritten();
        self.census = census;
        self.account.start_anew();
        self.swept_blocks = 0;
        self.sweep_ns = 0;
        reclaimed
    }

    /// Decides what becomes of a small block; whether it is free now.
    fn reclaim_small(
        &mut self,
        index: BlockIndex,
        census: &mut Census,
        reclaimed: &mut Reclaimed,
    ) -> bool {
        let (objects, bytes, kind, class, owned, composite) = {
            let block = self.block(index);
            let owned = block.has_flag(OWNED);
            (
                usize::from(block.objects),
                block.bytes,
                block.kind,
                block.class,
                owned,
                block.descriptor != 0,
            )
        };
        self.fetch_marks_after(index, objects);
        let marks = count_marks(self.layout.table.marks_of(index), objects);
        let live = marks.marked * bytes;
        *(if composite {
            &mut census.composite_bytes
        } else {
            &mut census.atomic_bytes
        }) += live;
        census.objects += marks.marked;
        if owned {
            return false;
        }
        let (disclaimed, uncollectable) = self
            .kinds
            .get(usize::from(kind))
            .map_or((false, false), |kind| {
                (kind.disclaim.is_some(), kind.uncollectable)
            });
        if marks.marked == 0 && !(disclaimed && marks.white > 0) {
            self.used_small_blocks -= 1;
            self.pool.put(&self.layout, index, Backing::Dirty);
            reclaimed.empty_blocks += 1;
            census.dead_bytes += objects * bytes;
            return true;
        }
        let free = objects - marks.marked;
        census.dead_bytes += free * bytes;
        let worth_sweeping =
            free > objects / 8 || disclaimed && marks.white > 0 || uncollectable && free > 0;
        if free > 0 && worth_sweeping {
            let (kind, class) = (usize::from(kind), usize::from(class));
            self.enqueue(index, kind, class, free * bytes);
            reclaimed.queued_blocks += 1;
        } else {
            reclaimed.full_blocks += 1;
        }
        false
    }

    /// Has a block wait to be swept, in which `dead` bytes are.
    pub(super) fn enqueue(&mut self, index: BlockIndex, kind: usize, class: usize, dead: usize) {
        self.unswept_bytes += dead;
        let block = self.block(index);
        block.next = NO_BLOCK;
        block.set_flag(QUEUED);
        let last = self.queues[kind][class].last;
        if last == NO_BLOCK {
            self.queues[kind][class].first = index;
        } else {
            self.block(last).next = index;
        }
        self.queues[kind][class].last = index;
    }

    fn reclaim_free(
        &mut self,
        index: BlockIndex,
        ageing: Ageing,
        due: &mut DueRun,
        reclaimed: &mut Reclaimed,
    ) {
        let block = self.block(index);
        let backing = Backing::of(block);
        block.age = ageing.older(block.age);
        if backing == Backing::Dirty && ageing.is_due(block.age) {
            due.extend(self, index, reclaimed);
        } else {
            self.pool.put(&self.layout, index, backing);
        }
    }

    fn reclaim_large(
        &mut self,
        census: &mut Census,
        reclaimed: &mut Reclaimed,
        unwatched: &mut Unwatched,
    ) {
        let mut run = self.layout.table.large_start;
        while run < self.large.frontier() {
            let (state, length, bytes, stays, composite) = {
                let block = self.block(run);
                let marked = block.large_mark.load(Ordering::Relaxed) == MARKED;
                // Of what was not freed explicitly, a disclaim procedure decides.
                let stays = marked || self.has_disclaim(usize::from(block.kind));
                (
                    block.state,
                    block.next,
                    block.bytes,
                    stays && !block.has_flag(FREED),
                    block.descriptor != 0,
                )
            };
            if state == State::LargeHead {
                if stays {
                    *(if composite {
                        &mut census.composite_bytes
                    } else {
                        &mut census.atomic_bytes
                    }) += bytes;
                    census.objects += 1;
                } else {
                    self.free_large_among(self.start(run), bytes, false, unwatched);
                    reclaimed.large_bytes += bytes;
                    census.dead_bytes += bytes;
                }
            }
            run += length;
        }
    }

    fn has_disclaim(&self, kind: usize) -> bool {
        self.kinds
            .get(kind)
            .is_some_and(|kind| kind.disclaim.is_some())
    }

    /// Runs the disclaim procedures for everything that this collection found dead. The world runs again, so a
    /// procedure may take a lock that a stopped thread held; the allocator lock is still held, as libgc promises.
    /// All of it happens now and nothing lazily: what `mark_unconditionally` kept alive may go in the next cycle.
    pub fn disclaim_all(&mut self) {
        if !(0..self.kinds.count()).any(|kind| self.has_disclaim(kind)) {
            return;
        }
        for kind in 0..self.kinds.count() {
            for class in 0..CLASSES {
                let mut index = self.queues[kind][class].first;
                while index != NO_BLOCK && self.has_disclaim(kind) {
                    self.sweep_block(index);
                    self.block(index).set_flag(QUEUED | SWEPT);
                    index = self.block(index).next;
                }
            }
        }
        self.disclaim_in_owned_blocks();
        let mut run = self.layout.table.large_start;
        while run < self.large.frontier() {
            let (state, length, kind, bytes) = {
                let block = self.block(run);
                (
                    block.state,
                    block.next,
                    usize::from(block.kind),
                    block.bytes,
                )
            };
            // Freeing merges runs of lower or higher addresses into one, which starts no higher than this one does.
            if state == State::LargeHead
                && self.block(run).large_mark.load(Ordering::Relaxed) != MARKED
                && !self.disclaim_keeps(run, kind)
            {
                self.free_large(self.start(run), bytes, false);
                self.census.dead_bytes += bytes;
            }
            run += length;
        }
    }

    /// Runs the disclaim procedures in blocks from which threads take cells. What is dead there is `FREE` then, on no list, and
    /// found when the block is swept. A cell that its thread is just taking is `FREE` or `MARKED`, and left alone.
    fn disclaim_in_owned_blocks(&mut self) {
        for index in 0..self.pool.frontier() {
            let block = self.block(index);
            if block.state != State::Small || !block.has_flag(OWNED) {
                continue;
            }
            let kind = self.kinds.get(usize::from(block.kind)).copied();
            if let Some(kind) = kind.filter(|kind| kind.thread_lists() == ThreadLists::Marked) {
                self.disclaim_dead(index, &kind);
            }
        }
    }

    /// Whether a dead large object must stay: asks the procedure of its kind if there is one.
    fn disclaim_keeps(&mut self, run: BlockIndex, kind: usize) -> bool {
        let Some(disclaim) = self.kinds.get(kind).and_then(|kind| kind.disclaim) else {
            return true;
        };
        // SAFETY: the client registered this procedure for objects of this kind; this frame holds no guard.
        unsafe { disclaim(self.start(run).ptr()) != 0 }
    }

    fn release_old_runs(&mut self, ageing: Ageing, reclaimed: &mut Reclaimed) {
        let MarkSweep { large, layout, .. } = self;
        // What this reclaim freed has age 0. Runs age after they were asked, since an age ends where the option does; clean ones
        // need none.
        reclaimed.released_bytes += large.release(layout, usize::MAX, |_, block| {
            let is_due = ageing.is_due(block.age);
            block.age = ageing.older(block.age);
            is_due
        });
    }

    /// Sweeps every queued block now (`sweep=eager`); the blocks stay queued, with their lists built.
    pub fn sweep_all(&mut self) -> usize {
        if self.sweep_mode == SweepMode::Lazy {
            return 0;
        }
        let mut swept = 0;
        for index in 0..self.pool.frontier() {
            let block = self.block(index);
            let (state, kind, queued) =
                (block.state, usize::from(block.kind), block.has_flag(QUEUED));
            if state == State::Small && queued && !self.has_disclaim(kind) {
                self.sweep_block(index);
                self.block(index).set_flag(QUEUED | SWEPT);
                swept += 1;
            }
        }
        swept
    }

    /// The list of a block that was swept eagerly: its dead cells are already linked in address order.
    pub(crate) fn swept_list(&self, index: BlockIndex) -> CellList {
        let block = self.block(index);
        let settled = block.has_flag(SETTLED);
        block.clear_flag(QUEUED | SWEPT | SETTLED);
        let (bytes, objects) = (block.bytes, usize::from(block.objects));
        let marks = self.layout.table.marks_of(index);
        // SAFETY: `object` is below the number of cells.
        let mark = |object: usize| unsafe { (*marks.add(object)).load(Ordering::Relaxed) };
        let dead = |object: &usize| is_dead(settled, mark(*object));
        let cells = (0..objects).filter(dead).count();
        let head = (0..objects)
            .find(dead)
            .map_or(Address::NULL, |first| self.start(index).add(first * bytes));
        if settled {
            self.unsettle(index);
        }
        CellList {
            head,
            cells,
            bytes: cells * bytes,
            block: index,
        }
    }

    /// True for kinds whose objects hold no pointers by themselves.
    pub fn is_pointer_free(kind: usize) -> bool {
        kind == PTRFREE || kind == ATOMIC_UNCOLLECTABLE
    }

    /// Capacity that is not in use, in bytes. What sweeping may yield is not counted.
    pub fn free_bytes(&self) -> usize {
        self.capacity.saturating_sub(self.used_bytes())
    }
}

/// Whether a cell of a block that waits to be swept is dead, by its mark. In a settled block others may be unmarked yet.
fn is_dead(settled: bool, mark: u8) -> bool {
    match settled {
        true => mark == FREE,
        false => mark != MARKED,
    }
}

/// A run of neighbouring free blocks that are due for release, so that one call releases them all.
#[derive(Default)]
struct DueRun {
    first: BlockIndex,
    blocks: BlockIndex,
}

impl DueRun {
    fn extend(&mut self, space: &mut MarkSweep, index: BlockIndex, reclaimed: &mut Reclaimed) {
        if self.blocks > 0 && self.first + self.blocks != index {
            self.flush(space, reclaimed);
        }
        if self.blocks == 0 {
            self.first = index;
        }
        self.blocks += 1;
    }

    fn flush(&mut self, space: &mut MarkSweep, reclaimed: &mut Reclaimed) {
        if self.blocks > 0 {
            space.layout.release(self.first, self.blocks);
            for index in self.first..self.first + self.blocks {
                space.pool.put(&space.layout, index, Backing::Clean);
            }
            reclaimed.released_bytes += (self.blocks as usize) << BLOCK_SHIFT;
            self.blocks = 0;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A block's marks, aligned as they are in the table.
    #[repr(align(16))]
    struct Row([u8; MARKS_PER_BLOCK]);

    proptest! {
        #[test]
        fn all_marks_of_a_block_are_counted(
            marks in proptest::collection::vec(WHITE..=FREE, MARKS_PER_BLOCK),
            objects in 1..=MARKS_PER_BLOCK,
            same in proptest::option::of(WHITE..=FREE),
        ) {
            let mut row = Row([0; MARKS_PER_BLOCK]);
            row.0.copy_from_slice(&marks);
            row.0[..objects].iter_mut().for_each(|mark| *mark = same.unwrap_or(*mark));
            let counted = count_marks(row.0.as_ptr().cast(), objects);
            let of = |sought| row.0[..objects].iter().filter(|mark| **mark == sought).count();
            prop_assert_eq!((counted.marked, counted.white), (of(MARKED), of(WHITE)));
        }
    }
}
