//! The mark-sweep space of conservatively scanned, non-moving objects (ISMM 2000).
//!
//! Small objects live in blocks of one size and kind, large ones in runs of pages. What is dead is found by side
//! marks; its memory is reused by sweeping blocks when an allocator needs cells (lazy) or right after marking (eager).
//!
//! # Invariants
//! - A block is in at most one of: the free pool, one sweep queue, one cache's ownership.
//! - Nothing is allocated from a block that waits in a sweep queue (I5), but for cells that were freed explicitly: they are marked,
//!   or, in kinds that mark free cells, on the shared list, which is used up before a block of their kind is swept.
//! - `used_bytes` counts whole small blocks in use and the pages of large objects; together with the dirty free
//!   memory it never exceeds `capacity` unless the program itself forces growth (I7).
//! - Cells on a thread's list are marked from the first stop on, or their block is owned by that thread (I8).
//! - In kinds that mark free cells (uncollectable ones, and those with a disclaim procedure that was registered before any
//!   block had their objects), no allocated cell has the mark `FREE`, and every free cell has it except those that a
//!   thread has listed from other blocks than the one that it owns, which are `MARKED`: a sweep lists what is `FREE`.
//! - Where the procedure came later, free cells look dead, so that it sees cleared cells, as libgc allows.
//! - In such kinds an object is born `MARKED`: its block may still wait to be swept if the cell was freed explicitly.
//! - Between the clearing of marks and reclaiming (`born_marked`) every object is born `MARKED`, from a fresh block or
//!   run, and what is freed explicitly goes on no list: it dies with this collection, or with the next.
//! - While marks are made in steps (`marked_in_steps`), nothing is swept and no block or run becomes free or changes its
//!   descriptor, so that what is grey stays readable: large objects that are freed explicitly go when the cycle ends. Where
//!   they are not grey they are not scanned again.
//! - Under sticky marks: a marked object of a collectable kind whose pages were not written since the last collection
//!   refers to no unmarked object, except by words that are no references (`sticky`).
//!
//! All methods that take `&mut self` run under the allocator lock.

pub mod account;
pub mod allocate;
mod batches;
pub mod block;
pub mod cache;
pub mod edges;
pub mod explicit_free;
pub mod kinds;
pub mod large_runs;
pub mod layout;
mod lines;
pub mod mark;
mod mark_phase;
pub mod pool;
pub mod prefetch;
pub mod reclaim;
pub mod roots;
pub mod scan;
pub mod size_classes;
pub mod sticky;
pub mod sweep;
pub mod targets;
pub mod verify;

use gleaner_base::options::ZeroingKernel;
use gleaner_mem::Address;
use gleaner_mem::zero::{Choice, Processor, choose};

use crate::mark_sweep::block::{BLOCK_BYTES, Block, BlockIndex, NO_BLOCK, Resolved, State};
use crate::mark_sweep::kinds::{Kinds, MAX_KINDS};
use crate::mark_sweep::large_runs::LargeSpace;
use crate::mark_sweep::layout::Layout;
use crate::mark_sweep::size_classes::CLASSES;
use account::Account;
use cache::Cache;
use pool::FreePool;
use sticky::WrittenPages;

/// Mark of an object that was not reached, or of a cell whose state is not known.
pub const WHITE: u8 = 0;
/// Mark of an object that was reached (grey or black), or that is uncollectable and allocated.
pub const MARKED: u8 = 1;
/// Mark of a cell that is known to be free, in kinds that need to know.
pub const FREE: u8 = 2;

/// What freed memory is overwritten with under `poison=on`; an odd low byte makes it no plausible address.
pub const POISON: usize = 0xfbfb_fbfb_fbfb_fbfb;

/// When blocks are swept (option `sweep`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SweepMode {
    /// All blocks in the pause, right after they are queued (the paper's comparison).
    Eager,
    /// By the allocator when its free list is empty (ISMM 2000, section 5).
    Lazy,
}

/// What the space counted at its last collection, and since then.
#[derive(Clone, Copy, Default, Debug)]
pub struct Census {
    /// Bytes of live objects that are scanned.
    pub composite_bytes: usize,
    /// Bytes of live objects without pointers.
    pub atomic_bytes: usize,
    /// Live objects.
    pub objects: usize,
    /// Bytes of cells found dead.
    pub dead_bytes: usize,
}

impl Census {
    /// Of a heap with nothing in it.
    pub const NONE: Census = Census {
        composite_bytes: 0,
        atomic_bytes: 0,
        objects: 0,
        dead_bytes: 0,
    };

    /// Bytes of live objects.
    pub fn live_bytes(&self) -> usize {
        self.composite_bytes + self.atomic_bytes
    }
}

/// A queue of blocks waiting to be swept.
#[derive(Clone, Copy)]
pub(crate) struct SweepQueue {
    pub first: BlockIndex,
    pub last: BlockIndex,
}

impl SweepQueue {
    const EMPTY: SweepQueue = SweepQueue {
        first: NO_BLOCK,
        last: NO_BLOCK,
    };
}

/// The space.
pub struct MarkSweep {
    /// The reserved range.
    pub layout: Layout,
    /// The object kinds.
    pub kinds: Kinds,
    pub(crate) pool: FreePool,
    pub(crate) large: LargeSpace,
    pub(crate) queues: [[SweepQueue; CLASSES]; MAX_KINDS],
    /// Free cells that belong to no thread; also serves threads without a cache and the kinds that need the lock.
    pub shared: Cache,
    /// When blocks are swept.
    pub sweep_mode: SweepMode,
    /// How many bytes ahead of where it links free cells the sweep fetches memory; 0: it fetches none.
    pub sweep_ahead: usize,
    /// Whether freed memory is overwritten and checked.
    pub poison: bool,
    /// Set between the clearing of marks and reclaiming, when only callbacks of the client allocate.
    pub born_marked: bool,
    /// Whether all that lives is marked, and it is not decided for all blocks yet what becomes of them. Written by the collecting thread,
    /// read by any.
    pub is_deciding: bool,
    /// Set while marks are made in steps beside the program: no block becomes free before the cycle ends.
    pub marked_in_steps: bool,
    /// What zeroes large objects and fresh blocks. Between the live cells of a block that is swept lie short runs,
    /// which are zeroed as they are listed.
    pub zeroing: Choice,
    /// Bytes that the heap may hold before it must collect or grow.
    pub capacity: usize,
    /// Capacity below which the heap does not shrink.
    pub initial_capacity: usize,
    pub(crate) used_small_blocks: usize,
    pub(crate) used_large_bytes: usize,
    /// What was allocated and freed.
    pub account: Account,
    /// Bytes of uncollectable objects that were allocated under the lock, less what was freed under it; modulo its width,
    /// since threads allocate and free others by themselves.
    pub uncollectable_bytes: usize,
    /// What the last collection found.
    pub census: Census,
    /// Blocks swept since the last collection.
    pub swept_blocks: usize,
    /// Whether sweeping is timed.
    pub timed: bool,
    /// Nanoseconds spent in sweeping since the last collection, if timed.
    pub sweep_ns: u64,
    /// Whether the verifier is going to run: set before writes are watched.
    pub verified: bool,
    /// What tells which pages were written, if collections may keep marks.
    pub written: Option<WrittenPages>,
}

impl MarkSweep {
    /// An empty space over a reserved range.
    pub fn new(layout: Layout, sweep_mode: SweepMode, poison: bool) -> MarkSweep {
        MarkSweep {
            pool: FreePool::new(),
            large: LargeSpace::new(&layout),
            layout,
            kinds: Kinds::new(),
            queues: [[SweepQueue::EMPTY; CLASSES]; MAX_KINDS],
            shared: Cache::new(),
            sweep_mode,
            sweep_ahead: 0,
            poison,
            born_marked: false,
            is_deciding: false,
            marked_in_steps: false,
            zeroing: choose(ZeroingKernel::Auto, true, &Processor::detect()),
            capacity: 0,
            initial_capacity: 0,
            used_small_blocks: 0,
            used_large_bytes: 0,
            account: Account::default(),
            uncollectable_bytes: 0,
            census: Census::default(),
            swept_blocks: 0,
            timed: false,
            sweep_ns: 0,
            verified: false,
            written: None,
        }
    }

    /// Has memory that is used for the first time asked of the system up to so many bytes ahead; 0: as it is written.
    pub fn set_populate_ahead(&mut self, bytes: usize) {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        self.pool.populate_ahead = BlockIndex::try_from(blocks).unwrap_or(BlockIndex::MAX);
    }

    /// Bytes in use: whole small blocks and the pages of large objects.
    pub fn used_bytes(&self) -> usize {
        (self.used_small_blocks << crate::mark_sweep::block::BLOCK_SHIFT) + self.used_large_bytes
    }

    /// Bytes of free memory that the system still backs.
    pub fn dirty_bytes(&self) -> usize {
        self.pool.dirty_bytes() + self.large.dirty_bytes()
    }

    /// The object that `word` points into, if any; no displacement rule is applied.
    pub fn object_at(&self, word: usize) -> Option<Resolved> {
        self.layout.table.resolve_checked(word)
    }

    /// The object that starts exactly at `word`.
    pub fn object_base(&self, word: usize) -> Option<Resolved> {
        self.object_at(word).filter(|found| found.displacement == 0)
    }

    /// The descriptor of a block of this space.
    #[allow(
        clippy::mut_from_ref,
        reason = "descriptors are guarded by the allocator lock"
    )]
    pub(crate) fn block(&self, index: BlockIndex) -> &mut Block {
        // SAFETY: callers pass blocks inside the committed range, hold the lock, and use one reference at a time.
        unsafe { &mut *self.layout.table.block(index) }
    }

    /// Calls `visit` with each small block in use, in address order.
    pub fn for_each_small_block(&self, mut visit: impl FnMut(BlockIndex, &Block)) {
        for index in 0..self.pool.frontier() {
            let block = self.block(index);
            if block.state == State::Small {
                visit(index, block);
            }
        }
    }

    /// Whether a small block has objects of a kind.
    pub fn has_blocks_of(&self, kind: usize) -> bool {
        let mut has = false;
        self.for_each_small_block(|_, block| has |= usize::from(block.kind) == kind);
        has
    }

    /// Calls `visit` with each large object's head block, in address order.
    pub fn for_each_large(&self, mut visit: impl FnMut(BlockIndex, &Block)) {
        self.large.for_each_run(&self.layout, |index| {
            let block = self.block(index);
            if block.state == State::LargeHead {
                visit(index, block);
            }
        });
    }

    /// The first address of a block.
    pub fn start(&self, index: BlockIndex) -> Address {
        self.layout.table.start(index)
    }
}
