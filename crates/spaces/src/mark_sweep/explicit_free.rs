//! Explicit freeing (`GC_free`): cells go to a free list at once, large objects to the free runs.
//!
//! A freed cell carries a cookie in its second word until it is allocated again or its block is swept, so that freeing it
//! twice is noticed until then. A list that leads back into itself since the second time came later ends the process when it
//! is walked. An object that a collection found dead is free already: while its block waits for the sweep, freeing it does
//! nothing, once or twice. Runs under the allocator lock unless said otherwise.

use core::sync::atomic::Ordering;

use gleaner_mem::{Address, zero};

use super::allocate::{cookie, page_bytes};
use super::cache::Cache;
use super::sticky::Unwatched;
use super::{FREE, MarkSweep, POISON, WHITE};
use crate::mark_sweep::block::{BlockIndex, FREED, LARGE_SHIFT, Resolved, State};
use crate::mark_sweep::kinds::Kind;
use crate::mark_sweep::size_classes::CELL_BYTES;

/// Why an object cannot be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// The address is not in the heap, or no object is there.
    NotAnObject,
    /// The address points into an object, `displacement` bytes from its base.
    Interior {
        /// Bytes from the base.
        displacement: usize,
    },
    /// The object was freed before.
    Twice,
}

/// Puts a cell on a list of a cache; the list then holds cells of more than one block.
///
/// # Safety
/// The cell must be an allocated cell of this kind and class that nobody uses any more, and `cache` must belong to
/// the calling thread (no lock is needed then) or be the shared one (under the lock).
#[inline(always)]
pub unsafe fn push_cell(
    cache: *mut Cache,
    kind: usize,
    class: usize,
    cell: Address,
    clear: bool,
    poison: bool,
) {
    // SAFETY: nobody else uses the cell, which has at least two words, or the cache, as asked.
    unsafe {
        give_up(cache, class, cell, clear, poison);
        // The order matters: a pause between the two must find the list marked as foreign (I8).
        let foreign = &raw mut (*cache).foreign[kind][class];
        foreign.write_volatile(foreign.read_volatile() + 1);
        let head = &raw mut (*cache).heads[kind][class];
        cell.store((*head).word());
        core::sync::atomic::compiler_fence(Ordering::Release);
        head.write_volatile(cell);
    }
}

/// Puts a cell into a magazine; the number of cells in it now.
///
/// # Safety
/// The cell must be an allocated cell of this kind and class that nobody uses any more, the kind one of the first
/// [`LISTED_KINDS`](super::cache::LISTED_KINDS), and `cache` must belong to the calling thread.
#[inline]
pub unsafe fn push_magazine(
    cache: *mut Cache,
    kind: usize,
    class: usize,
    cell: Address,
    clear: bool,
) -> u32 {
    // SAFETY: nobody else uses the cell, which has at least two words, or the cache, as asked.
    unsafe {
        give_up(cache, class, cell, clear, false);
        let magazine = &raw mut (*cache).magazines[kind][class];
        let head = &raw mut (*magazine).head;
        cell.store((*head).word());
        if (*head).is_null() {
            (*magazine).last = cell;
        }
        (*magazine).cells += 1;
        // A pause from now on finds the cell linked; before, it is found on this thread's stack.
        core::sync::atomic::compiler_fence(Ordering::Release);
        head.write_volatile(cell);
        (*magazine).cells
    }
}

/// Makes an object's memory that of a free cell, and counts it as freed.
///
/// # Safety
/// As in [`push_cell`].
#[inline(always)]
unsafe fn give_up(cache: *mut Cache, class: usize, cell: Address, clear: bool, poison: bool) {
    let bytes = usize::from(CELL_BYTES[class]);
    // SAFETY: nobody else uses the cell, which has at least two words, or the cache, as asked.
    unsafe {
        if poison {
            zero::fill(cell, bytes, POISON);
        } else if clear && bytes > 16 {
            zero::zero_fresh(cell.add(16), bytes - 16);
        }
        cell.add(8).store(cookie(cell));
        let freed = &raw mut (*cache).freed_bytes;
        freed.write_volatile(freed.read_volatile().wrapping_add(bytes));
    }
}

impl MarkSweep {
    /// Frees the object at `base`; returns how many bytes are free by it: none where a collection found it dead before.
    pub fn free(&mut self, base: Address) -> Result<usize, FreeError> {
        let found = self.object_at(base.word()).ok_or(FreeError::NotAnObject)?;
        if found.displacement != 0 {
            return Err(FreeError::Interior {
                displacement: found.displacement,
            });
        }
        if found.is_found_dead(|| self.stage.is_deciding()) {
            return Ok(0);
        }
        // SAFETY: a resolved object's block, under the lock.
        let (state, kind, class, bytes, freed) = unsafe {
            let block = &*found.block;
            (
                block.state,
                usize::from(block.kind),
                usize::from(block.class),
                block.bytes,
                block.state == State::LargeHead && block.has_flag(FREED),
            )
        };
        if freed {
            return Err(FreeError::Twice);
        }
        let described = *self.kinds.get(kind).expect("blocks hold defined kinds");
        if self.stage.is_born_marked() {
            return self.free_in_collection(&found, &described, bytes);
        }
        if state == State::LargeHead {
            if self.marked_in_steps {
                self.free_after_cycle(&found, &described, bytes);
            } else {
                self.free_large(base, bytes, described.uncollectable);
                if bytes >= self.capacity / DROP {
                    self.give_back_unwritten();
                }
            }
            self.account.take_back(bytes);
            return Ok(bytes);
        }
        // SAFETY: a cell has at least two words.
        if self.is_free_cell(base, unsafe { (*found.mark).load(Ordering::Relaxed) }) {
            return Err(FreeError::Twice);
        }
        if described.marks_free_cells() {
            // SAFETY: the mark of a resolved object.
            unsafe { (*found.mark).store(FREE, Ordering::Relaxed) };
        }
        if described.uncollectable {
            self.uncollectable_bytes = self.uncollectable_bytes.wrapping_sub(bytes);
        }
        let shared = &raw mut self.shared;
        // SAFETY: the object is the caller's to give up; the shared cache is guarded by the lock.
        unsafe { push_cell(shared, kind, class, base, described.clear, self.poison) };
        self.account.shared_bytes += bytes;
        Ok(bytes)
    }

    /// Notes that a large object is free. Parts of it may be grey, so its memory goes when the cycle ends. Until then it
    /// bears the cookie of a free cell, so that no mark procedure is called for it.
    fn free_after_cycle(&mut self, found: &Resolved, described: &Kind, bytes: usize) {
        // SAFETY: a resolved object's block, under the lock, which keeps steps out. The object is the caller's to give up.
        unsafe {
            (*found.block).set_flag(FREED);
            found.base.store(0);
            found.base.add(8).store(cookie(found.base));
        }
        if described.uncollectable {
            self.uncollectable_bytes = self.uncollectable_bytes.wrapping_sub(bytes);
        }
    }

    /// Frees the large objects that wait for the end of a cycle or collection which was given up.
    pub fn free_waiting(&mut self) {
        let mut run = self.layout.table.large_start;
        while run < self.large.frontier() {
            let block = self.block(run);
            let (length, bytes) = (block.next, block.bytes);
            if block.state == State::LargeHead && block.has_flag(FREED) {
                self.free_large(self.start(run), bytes, false);
            }
            run += length;
        }
    }

    /// Frees an object in the stopped world, while marks are made: it goes on no list, since its block is about to be looked through. Large
    /// objects, and cells of kinds that know their free cells, go with this collection, even if a stray word refers to
    /// them; another cell dies when it is not found.
    fn free_in_collection(
        &mut self,
        found: &Resolved,
        described: &Kind,
        bytes: usize,
    ) -> Result<usize, FreeError> {
        // SAFETY: the mark of a resolved object, under the lock; the leader is in a callback, and no helper marks.
        let mark = unsafe { &*found.mark };
        // SAFETY: a resolved object's block, under the lock.
        let block = unsafe { &*found.block };
        if block.state == State::LargeHead {
            block.set_flag(FREED);
            mark.store(WHITE, Ordering::Relaxed);
        } else if described.marks_free_cells() {
            if mark.swap(FREE, Ordering::Relaxed) == FREE {
                return Err(FreeError::Twice);
            }
        } else {
            return Ok(bytes);
        }
        if described.uncollectable {
            self.uncollectable_bytes = self.uncollectable_bytes.wrapping_sub(bytes);
        }
        self.account.take_back(bytes);
        Ok(bytes)
    }

    fn is_free_cell(&self, cell: Address, mark: u8) -> bool {
        // SAFETY: a cell has at least two words.
        mark == FREE || unsafe { cell.add(8).load() } == cookie(cell)
    }

    pub(super) fn free_large(&mut self, base: Address, bytes: usize, uncollectable: bool) {
        let mut unwatched = Unwatched::default();
        self.free_large_among(base, bytes, uncollectable, &mut unwatched);
        unwatched.finish(self);
    }

    /// Frees one of many large objects, of which the watch is ended together.
    pub(super) fn free_large_among(
        &mut self,
        base: Address,
        bytes: usize,
        uncollectable: bool,
        unwatched: &mut Unwatched,
    ) {
        let first = self.layout.table.index_of(base);
        let blocks = self.block(first).next;
        unwatched.extend(self, first, blocks);
        if self.poison {
            // SAFETY: the object is given up by its owner.
            unsafe { zero::fill(base, bytes & !7, POISON) };
        }
        self.large.give_used(&self.layout, first);
        self.used_large_bytes -= page_bytes(bytes);
        if uncollectable {
            self.uncollectable_bytes = self.uncollectable_bytes.wrapping_sub(bytes);
        }
    }

    /// Where the heap uses a small part of its capacity any more: what is free of large objects that were hardly written
    /// goes back to the system, and the capacity is lowered by as much. Otherwise small objects would fill with memory what
    /// took none, before the heap is collected. The system is asked, so not where a heap is about to use it all again.
    pub(crate) fn give_back_unwritten(&mut self) {
        if self.used_bytes() >= self.capacity / DROP {
            return;
        }
        let MarkSweep { large, layout, .. } = self;
        let released = large.release(layout, usize::MAX, |run, block| {
            block.next >= LEAST_LOOKED_AT && layout.is_hardly_backed(run, block.next)
        });
        let least = self.used_bytes().max(self.initial_capacity);
        let lowered = self.capacity.saturating_sub(released);
        self.capacity = lowered.max(least).min(self.capacity);
    }
}

/// A heap that uses less than this part of its capacity has dropped.
const DROP: usize = 4;

/// Blocks of a free run that is looked at.
const LEAST_LOOKED_AT: BlockIndex = ((256 << 10) >> LARGE_SHIFT) as BlockIndex;
