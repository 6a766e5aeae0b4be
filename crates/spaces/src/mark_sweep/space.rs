//! The state of a space, and how its blocks and objects are found.

use gleaner_base::options::ZeroingKernel;
use gleaner_mem::Address;
use gleaner_mem::zero::{Choice, Processor, choose};

use super::account::Account;
use super::cache::Cache;
use super::give_back::GivingBack;
use super::pool::FreePool;
use super::slack::Slack;
use super::written_pages::WrittenPages;
use crate::mark_sweep::block::{BLOCK_BYTES, Block, BlockIndex, NO_BLOCK, Resolved, State};
use crate::mark_sweep::kinds::{Kinds, MAX_KINDS};
use crate::mark_sweep::large_runs::LargeSpace;
use crate::mark_sweep::layout::Layout;
use crate::mark_sweep::size_classes::CLASSES;

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
    pub(crate) const EMPTY: SweepQueue = SweepQueue {
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
    /// Bytes of the dead cells of blocks that wait in the queues.
    pub unswept_bytes: usize,
    /// Free cells that belong to no thread; also serves threads without a cache and the kinds that need the lock.
    pub shared: Cache,
    /// When blocks are swept.
    pub sweep_mode: SweepMode,
    /// How many bytes ahead of where it links free cells the sweep fetches memory; 0: it fetches none.
    pub sweep_ahead: usize,
    /// Whether freed memory is overwritten and checked.
    pub poison: bool,
    /// How far the collection in progress is. Written by the collecting thread, read by any.
    pub stage: Stage,
    /// Set while marks are made in steps beside the program: no block becomes free before the cycle ends.
    pub marked_in_steps: bool,
    /// What zeroes large objects and fresh blocks. Between the live cells of a block that is swept lie short runs,
    /// which are zeroed as they are listed.
    pub zeroing: Choice,
    /// Bytes that the heap may hold before it must collect or grow.
    pub capacity: usize,
    /// Capacity below which the heap does not shrink.
    pub initial_capacity: usize,
    /// What may be backed beyond the capacity.
    pub slack: Slack,
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
    /// How far unused memory went back to the system in idle time.
    pub(crate) giving_back: GivingBack,
    /// Whether sweeping is timed.
    pub timed: bool,
    /// Nanoseconds spent in sweeping since the last collection, if timed.
    pub sweep_ns: u64,
    /// Whether the verifier is going to run: set before writes are watched.
    pub verified: bool,
    /// What tells which pages were written, if collections may keep marks.
    pub written: Option<WrittenPages>,
}

/// How far the collection in progress is, and with it what new objects and unmarked ones are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// None is, or marks are made in steps beside the program: objects are born unmarked.
    Between,
    /// The world is stopped and marks were cleared, or kept. Only callbacks of the client allocate, and what they allocate is
    /// born marked.
    Marking,
    /// All that lives is marked, and objects are born marked. What becomes of the blocks is not decided yet.
    Marked,
    /// What becomes of the blocks is being decided, of one after the other. Objects are born unmarked.
    Reclaiming,
}

impl Stage {
    /// Whether objects are born marked.
    #[inline(always)]
    pub fn is_born_marked(self) -> bool {
        matches!(self, Stage::Marking | Stage::Marked)
    }

    /// Whether all that lives is marked, and it is not decided for all blocks yet what becomes of them.
    #[inline(always)]
    pub fn is_deciding(self) -> bool {
        matches!(self, Stage::Marked | Stage::Reclaiming)
    }
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
            unswept_bytes: 0,
            shared: Cache::new(),
            sweep_mode,
            sweep_ahead: 0,
            poison,
            stage: Stage::Between,
            marked_in_steps: false,
            zeroing: choose(ZeroingKernel::Auto, true, &Processor::detect()),
            capacity: 0,
            initial_capacity: 0,
            slack: Slack::NONE,
            used_small_blocks: 0,
            used_large_bytes: 0,
            account: Account::default(),
            uncollectable_bytes: 0,
            census: Census::default(),
            swept_blocks: 0,
            giving_back: GivingBack::new(),
            timed: false,
            sweep_ns: 0,
            verified: false,
            written: None,
        }
    }

    /// Has memory that is used for the first time asked of the system up to `bytes` bytes ahead; 0: as it is written.
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
