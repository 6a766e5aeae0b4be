//! A space as it may be seen without the allocator lock.

use gleaner_mem::Address;

use super::cache::{Cache, MOST_LISTED};
use super::space::MarkSweep;
use crate::mark_sweep::block::{BLOCK_SHIFT, BlockIndex, BlockTable, State};
use crate::mark_sweep::kinds::{MAX_KINDS, ThreadLists};
use crate::mark_sweep::size_classes::{CELL_BYTES, GRANULE};
use crate::mark_sweep::space::Stage;

/// How often a list that its thread changes meanwhile is read anew. After that it counts as used up.
const ATTEMPTS: usize = 8;

/// A space as it may be seen without the allocator lock: single words, each of which is right or was right a moment
/// ago. No reference to the space is made, since the holder of the lock has one that excludes all others.
#[derive(Clone, Copy)]
pub struct SpaceView(*const MarkSweep);

impl SpaceView {
    /// The view of a space.
    ///
    /// # Safety
    /// The space must stay where it is as long as the view is used.
    pub unsafe fn new(space: *const MarkSweep) -> SpaceView {
        SpaceView(space)
    }

    fn read<T: Copy>(self, place: impl FnOnce(*const MarkSweep) -> *const T) -> T {
        // SAFETY: `place` answers with a field of a space that stays mapped; the holder of the lock may write it
        // meanwhile, hence volatile.
        unsafe { place(self.0).read_volatile() }
    }

    /// Bytes that the heap may hold before it must collect or grow.
    pub fn capacity(self) -> usize {
        // SAFETY: `read` passes the space.
        self.read(|space| unsafe { &raw const (*space).capacity })
    }

    /// See [`MarkSweep::stage`].
    pub fn stage(self) -> Stage {
        // SAFETY: `read` passes the space.
        self.read(|space| unsafe { &raw const (*space).stage })
    }

    /// See [`MarkSweep::used_bytes`].
    pub fn used_bytes(self) -> usize {
        // SAFETY: `read` passes the space.
        let blocks = self.read(|space| unsafe { &raw const (*space).used_small_blocks });
        // SAFETY: `read` passes the space.
        let large = self.read(|space| unsafe { &raw const (*space).used_large_bytes });
        (blocks << BLOCK_SHIFT) + large
    }

    /// Nanoseconds spent in sweeping since the last collection, if timed.
    pub fn sweep_ns(self) -> u64 {
        // SAFETY: `read` passes the space.
        self.read(|space| unsafe { &raw const (*space).sweep_ns })
    }

    /// How threads allocate objects of a kind.
    #[inline]
    pub fn thread_lists(self, kind: usize) -> ThreadLists {
        // SAFETY: `read` passes the space.
        let kinds = self.read(|space| unsafe { &raw const (*space).kinds.count });
        if kind >= kinds.min(MAX_KINDS) {
            return ThreadLists::None;
        }
        // SAFETY: `read` passes the space; `kind` is below the length of the table.
        let kind = self.read(|space| unsafe { &raw const (*space).kinds.table[kind] });
        kind.thread_lists()
    }

    /// Bytes that were ever allocated, as far as threads' own caches do not tell.
    pub fn allocated_bytes(self) -> usize {
        // SAFETY: `read` passes the space.
        let entered = self.read(|space| unsafe { &raw const (*space).account.entered });
        // SAFETY: `read` passes the space.
        let listed = self.read(|space| unsafe { &raw const (*space).account.shared_bytes });
        // SAFETY: `read` passes the space.
        let freed = self.read(|space| unsafe { &raw const (*space).shared.freed_bytes });
        entered.wrapping_add(freed).wrapping_sub(listed)
    }

    /// Bytes that were ever freed explicitly, as far as threads' own caches do not tell.
    pub fn freed_bytes(self) -> usize {
        // SAFETY: `read` passes the space.
        let large = self.read(|space| unsafe { &raw const (*space).account.freed });
        // SAFETY: `read` passes the space.
        let shared = self.read(|space| unsafe { &raw const (*space).shared.freed_bytes });
        large.wrapping_add(shared)
    }

    /// A number that changes when memory comes to lists or becomes a large object, or is freed explicitly by no thread's cache.
    pub fn turnover(self) -> usize {
        // SAFETY: `read` passes the space.
        let entered = self.read(|space| unsafe { &raw const (*space).account.entered });
        // SAFETY: `read` passes the space.
        let listed = self.read(|space| unsafe { &raw const (*space).account.shared_bytes });
        let freed = self.freed_bytes();
        // Not their sum: a block of as many bytes as were freed would go unnoticed.
        entered
            .rotate_left(21)
            .wrapping_add(freed.rotate_left(42))
            .wrapping_add(listed)
    }

    /// Calls `visit` with the first word of each list of a cache, and with what was freed through it.
    ///
    /// # Safety
    /// The cache must stay mapped.
    pub unsafe fn for_each_head(self, cache: *const Cache, mut visit: impl FnMut(usize)) {
        // SAFETY: `read` passes the space.
        let kinds = self.read(|space| unsafe { &raw const (*space).kinds.count });
        for kind in 0..kinds.min(MAX_KINDS) {
            for class in 0..CELL_BYTES.len() {
                // SAFETY: the cache stays mapped, as asked, and both indices lie in its table. Its thread may write there
                // meanwhile, hence volatile.
                let head = unsafe { (&raw const (*cache).heads[kind][class]).read_volatile() };
                visit(head.word());
            }
        }
        // SAFETY: the cache stays mapped, as asked; volatile as before.
        visit(unsafe { (&raw const (*cache).freed_bytes).read_volatile() });
    }

    /// Bytes of the cells on a cache's lists. Exact if the cache's thread is the calling one, is stopped, or does not
    /// allocate or free meanwhile; 0 while addresses of free blocks go back.
    ///
    /// # Safety
    /// The cache must stay mapped.
    pub unsafe fn listed_bytes(self, cache: *const Cache) -> usize {
        // SAFETY: the cache stays mapped, as asked; this thread is inside.
        let bytes = self.while_reading(|| unsafe { self.listed_bytes_inside(cache) });
        bytes.unwrap_or(0)
    }

    /// Calls `body`, which reads cells of used blocks; not while addresses of free blocks go back, and none do meanwhile.
    pub fn while_reading<R>(self, body: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: the pool is a field of the space, which stays where it is, and a gate is shared.
        let readers = unsafe { &(*self.0).pool.readers };
        readers.try_enter().then(|| {
            let result = body();
            readers.leave();
            result
        })
    }

    /// As `listed_bytes`.
    ///
    /// # Safety
    /// The cache must stay mapped, and the calling thread be inside of the pool's readers.
    unsafe fn listed_bytes_inside(self, cache: *const Cache) -> usize {
        // SAFETY: `read` passes the space.
        let kinds = self.read(|space| unsafe { &raw const (*space).kinds.count });
        // SAFETY: `read` passes the space.
        let frontier = self.read(|space| unsafe { &raw const (*space).pool.frontier });
        // SAFETY: `read` passes the space.
        let table = self.read(|space| unsafe { &raw const (*space).layout.table });
        let mut bytes = 0;
        for kind in 0..kinds {
            for (class, &cell_bytes) in CELL_BYTES.iter().enumerate() {
                // SAFETY: the cache stays mapped, as asked, and both indices lie in its table.
                for head in unsafe { Cache::lists(cache, kind, class) } {
                    // SAFETY: a list's head of a mapped cache.
                    if unsafe { head.read_volatile() }.is_null() {
                        continue;
                    }
                    // SAFETY: the head stays mapped with its cache; no addresses go back meanwhile.
                    let cells = unsafe { listed_cells(head, &table, frontier) };
                    bytes += cells * usize::from(cell_bytes);
                }
            }
        }
        bytes
    }
}

/// Cells on the list at `head`.
///
/// # Safety
/// `head` must stay mapped, and used blocks below `frontier` must stay mapped.
unsafe fn listed_cells(head: *const Address, table: &BlockTable, frontier: BlockIndex) -> usize {
    for _ in 0..ATTEMPTS {
        // SAFETY: `head` stays mapped, as asked; its thread may write to it meanwhile, hence volatile.
        let first = unsafe { head.read_volatile() };
        // SAFETY: used blocks stay mapped, as asked.
        let cells = unsafe { cells_from(first, table, frontier) };
        // A thread that took a cell while the list was followed changed the head first.
        // SAFETY: `head` stays mapped, as asked.
        if cells <= MOST_LISTED && unsafe { head.read_volatile() } == first {
            return cells;
        }
    }
    0
}

/// Length of a list, or more than any list has if the links lead out of the heap or go on and on.
///
/// # Safety
/// Used blocks below `frontier` must stay mapped.
unsafe fn cells_from(first: Address, table: &BlockTable, frontier: BlockIndex) -> usize {
    let (heap, bytes) = (table.heap.word(), (frontier as usize) << BLOCK_SHIFT);
    let (mut cell, mut cells) = (first, 0);
    while !cell.is_null() && cells <= MOST_LISTED {
        let offset = cell.word().wrapping_sub(heap);
        if offset >= bytes || !offset.is_multiple_of(GRANULE) {
            return MOST_LISTED + 1;
        }
        let block = table.block((offset >> BLOCK_SHIFT) as BlockIndex);
        // SAFETY: a descriptor of a block below the frontier, which stays mapped; the lock holder may write it meanwhile.
        if unsafe { (&raw const (*block).state).cast::<u8>().read_volatile() } != State::Small as u8
        {
            return MOST_LISTED + 1;
        }
        // SAFETY: a word in a block that was in use just now and stays mapped, as asked. If the cell was just allocated, the word is the
        // program's and may change now, hence volatile; what was read then is dismissed by the caller.
        cell = Address::new(unsafe { cell.ptr::<usize>().read_volatile() });
        cells += 1;
    }
    cells
}
