//! The verifier: checks the invariants of the space at the edges of phases (`verify=edges`).
//!
//! Runs on the collecting thread under the allocator lock, in the stopped world.

use core::ops::Range;
use core::sync::atomic::Ordering;

use gleaner_mem::Address;

use super::allocate::page_bytes;
use super::cache::Cache;
use super::scan::MarkContext;
use super::{MARKED, MarkSweep, WHITE};
use crate::mark_sweep::block::{
    BLOCK_BYTES, Block, BlockIndex, NO_BLOCK, OWNED, QUEUED, SETTLED, State, inverse_of,
};
use crate::mark_sweep::kinds::descriptor;
use crate::mark_sweep::size_classes::{CELL_BYTES, CLASSES};

/// A broken invariant.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The rule that does not hold.
    pub rule: &'static str,
    /// Where.
    pub address: Address,
    /// A word that belongs to it.
    pub word: usize,
}

fn fault(rule: &'static str, address: Address, word: usize) -> Result<(), Fault> {
    Err(Fault {
        rule,
        address,
        word,
    })
}

impl MarkSweep {
    /// Checks descriptors, queues, free lists and counters.
    pub fn verify_structure(&self) -> Result<(), Fault> {
        let (mut small, mut free) = (0, 0);
        for index in 0..self.pool.frontier() {
            let block = self.block(index);
            match block.state {
                State::Small => {
                    small += 1;
                    self.verify_small(index, block)?;
                }
                State::Free if block.objects != 0 => {
                    return fault("a free block has no objects", self.start(index), 0);
                }
                State::Free => free += 1,
                _ => {
                    return fault(
                        "a block of the small part is small or free",
                        self.start(index),
                        0,
                    );
                }
            }
        }
        if small != self.used_small_blocks {
            return fault("used blocks are counted", self.start(0), small);
        }
        if free != self.pool.dirty() + self.pool.clean() + self.pool.away() {
            return fault("free blocks are in the pool", self.start(0), free);
        }
        self.verify_queues()?;
        self.verify_shared()?;
        self.verify_large()
    }

    fn verify_small(&self, index: BlockIndex, block: &Block) -> Result<(), Fault> {
        let start = self.start(index);
        if usize::from(block.objects) * block.bytes > BLOCK_BYTES
            || block.inverse != inverse_of(block.bytes)
        {
            return fault("cells fit their block", start, block.bytes);
        }
        if self.kinds.get(usize::from(block.kind)).is_none() {
            return fault("a block has a defined kind", start, usize::from(block.kind));
        }
        if block.has_flag(OWNED) && block.has_flag(QUEUED) {
            return fault("an owned block is not queued", start, 0);
        }
        if block.has_flag(SETTLED) && !block.has_flag(QUEUED) {
            return fault("a settled block is queued", start, 0);
        }
        Ok(())
    }

    fn verify_queues(&self) -> Result<(), Fault> {
        for kind in 0..self.kinds.count() {
            for class in 0..CLASSES {
                let mut index = self.queues[kind][class].first;
                while index != NO_BLOCK {
                    let block = self.block(index);
                    let fits = usize::from(block.kind) == kind && usize::from(block.class) == class;
                    if block.state != State::Small || !block.has_flag(QUEUED) || !fits {
                        return fault(
                            "a queued block is small and of its queue's kind",
                            self.start(index),
                            kind,
                        );
                    }
                    index = block.next;
                }
            }
        }
        Ok(())
    }

    fn verify_shared(&self) -> Result<(), Fault> {
        let mut bytes = 0;
        for kind in 0..self.kinds.count() {
            for (class, &cell_bytes) in CELL_BYTES.iter().enumerate() {
                let mut cell = self.shared.heads[kind][class];
                // A list that leads back into itself has more than are counted.
                while !cell.is_null() && bytes <= self.account.shared_bytes {
                    bytes += usize::from(cell_bytes);
                    // SAFETY: a listed cell links to the next in its first word.
                    cell = unsafe { Address::new(cell.load()) };
                }
            }
        }
        if bytes != self.account.shared_bytes {
            return fault("shared bytes are counted", self.start(0), bytes);
        }
        Ok(())
    }

    /// Whether no block of a run could be taken for one of small objects, nor any but the first for a large object, which takes
    /// all of it.
    fn has_one_head(&self, run: BlockIndex) -> bool {
        let head = self.block(run);
        let used = head.state == State::LargeHead;
        let rest = run + BlockIndex::from(used)..run + head.next;
        let pages = page_bytes(head.bytes);
        let is_whole = pages == self.layout.table.bytes_of(run, head.next);
        (!used || head.objects == 1 && head.inverse == 0 && is_whole)
            && rest.into_iter().all(|index| self.block(index).objects == 0)
    }

    fn verify_large(&self) -> Result<(), Fault> {
        let (mut used, mut end, mut broken) = (0, self.layout.table.large_start, None);
        let mut free_before = false;
        self.large.for_each_run(&self.layout, |index| {
            let block = self.block(index);
            let free = block.state == State::Free;
            if index != end
                || block.next == 0
                || !(free || block.state == State::LargeHead)
                || (free && free_before)
                || !self.has_one_head(index)
            {
                broken.get_or_insert(index);
            }
            if !free {
                used += page_bytes(block.bytes);
            }
            free_before = free;
            end = index + block.next.max(1);
        });
        match broken {
            Some(index) => fault("runs tile the large part", self.start(index), 0),
            None if used != self.used_large_bytes => {
                fault("large bytes are counted", self.start(end), used)
            }
            None if !self.large.is_counted(&self.layout) => {
                fault("torn and dirty runs are counted", self.start(end), 0)
            }
            None => Ok(()),
        }
    }

    /// Checks that no marked object refers to an unmarked one (I3), also of those that were marked by a collection before
    /// and not scanned again. The frames below `stack_pointer` have changed since
    /// marking: they are the collector's own, which count for nothing where the stack lies in an object.
    pub fn verify_marks(&self, context: &MarkContext, stack_pointer: Address) -> Result<(), Fault> {
        let own = self.object_at(stack_pointer.word());
        let frames = own.map_or(Address::NULL, |own| own.base)..stack_pointer;
        let mut result = Ok(());
        let mut check = |start: Address, descriptor: usize| {
            if result.is_ok() {
                result = self.verify_object(context, start, descriptor, &frames);
            }
        };
        self.for_each_marked(|object| {
            if object.descriptor != 0 {
                check(object.base, object.descriptor);
            }
        });
        result
    }

    fn verify_object(
        &self,
        context: &MarkContext,
        start: Address,
        described: usize,
        frames: &Range<Address>,
    ) -> Result<(), Fault> {
        if described & descriptor::TAGS != descriptor::LENGTH {
            return Ok(()); // Only the client knows what its procedures and descriptors visit.
        }
        for offset in (0..described & !7).step_by(8) {
            if frames.start == start && frames.contains(&start.add(offset)) {
                continue;
            }
            // SAFETY: the word lies inside a marked object, whose memory is committed.
            let word = unsafe { start.add(offset).load() };
            let Some(found) = self.object_at(word) else {
                continue;
            };
            let registered = context
                .displacements
                .get(found.displacement)
                .copied()
                .unwrap_or(false);
            if found.displacement != 0 && !context.all_interior && !registered {
                continue;
            }
            // SAFETY: the mark of a resolved object.
            let mark = unsafe { (*found.mark).load(Ordering::Relaxed) };
            if mark == WHITE && !self.cannot_refer(start.add(offset), found.base) {
                return fault(
                    "a marked object refers to marked objects",
                    start.add(offset),
                    word,
                );
            }
        }
        Ok(())
    }

    /// Checks the lists of a stopped thread: every cell is of the list's kind and class, and either its block is
    /// owned or it is marked.
    ///
    /// # Safety
    /// The cache's thread must be stopped, or be the calling one.
    pub unsafe fn verify_cache(&self, cache: *const Cache) -> Result<(), Fault> {
        for kind in 0..self.kinds.count() {
            for class in 0..CLASSES {
                // SAFETY: the cache's thread is stopped or the calling one, as asked, so its lists do not change.
                for list in unsafe { Cache::lists(cache, kind, class) } {
                    // SAFETY: a list's head in the cache, whose thread is stopped or the calling one, as asked.
                    let mut cell = unsafe { list.read() };
                    while !cell.is_null() {
                        // SAFETY: the cache's thread is stopped or the calling one, as asked.
                        let owned = unsafe { (*cache).owned[kind][class] };
                        self.verify_listed(cell, kind, class, owned)?;
                        // SAFETY: a listed cell links to the next in its first word.
                        cell = unsafe { Address::new(cell.load()) };
                    }
                }
            }
        }
        Ok(())
    }

    fn verify_listed(
        &self,
        cell: Address,
        kind: usize,
        class: usize,
        owned: BlockIndex,
    ) -> Result<(), Fault> {
        let Some(found) = self.object_base(cell.word()) else {
            return fault("a listed cell is a cell", cell, class);
        };
        // SAFETY: a resolved object's block and mark.
        let (block, mark) = unsafe { (&*found.block, (*found.mark).load(Ordering::Relaxed)) };
        if usize::from(block.kind) != kind || usize::from(block.class) != class {
            return fault("a listed cell is of its list's kind and class", cell, class);
        }
        let is_owned = block.has_flag(OWNED) && self.layout.table.index_of(cell) == owned;
        if !is_owned && mark != MARKED {
            return fault(
                "a listed cell of a block that the list's thread does not own is marked",
                cell,
                usize::from(mark),
            );
        }
        Ok(())
    }
}
