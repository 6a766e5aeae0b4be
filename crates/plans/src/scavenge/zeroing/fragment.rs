//! What is known of the memory of one fragment of eden: which of it was never written to, and the round of blocks of it
//! that are zeroed ahead.
//!
//! Written in stopped worlds; read by the mutators that allocate there and by the fragment's zeroing threads.

use core::ptr::NonNull;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicU8, AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_os::memory;

use super::ahead::{Ahead, Design};
use super::zeroed::BLOCK;

/// One fragment of eden.
pub(super) struct ZeroingFragment {
    start: Address,
    /// An address: memory at and above it was never written to. The highest where that is not to be relied on.
    virgin: AtomicUsize,
    /// Bytes above it that mutators took in the last nursery.
    fresh: AtomicUsize,
    /// The first address that is zeroed ahead in this round, and where that ends.
    range: [AtomicUsize; 2],
    /// What is zeroed ahead, round by round.
    pub rounds: Ahead,
    /// A state for each block; none where no thread zeroes.
    states: Option<(NonNull<AtomicU8>, usize)>,
}

// SAFETY: the states are atomics in memory of this value's own.
unsafe impl Sync for ZeroingFragment {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for ZeroingFragment {}

impl ZeroingFragment {
    /// Of `bytes` bytes of addresses from `start` on, none of which was touched, unless `poison`; `None` when the
    /// system gives no memory.
    pub fn new(start: Address, bytes: usize, poison: bool, design: Design) -> Option<Self> {
        let states = if design.threads > 0 {
            let count = bytes.div_ceil(BLOCK);
            Some((memory::map(count)?.cast(), count))
        } else {
            None
        };
        let virgin = if poison { usize::MAX } else { start.word() };
        Some(ZeroingFragment {
            start,
            virgin: AtomicUsize::new(virgin),
            fresh: AtomicUsize::new(0),
            range: [start, start.add(bytes)].map(|at| AtomicUsize::new(at.word())),
            rounds: Ahead::new(design),
            states,
        })
    }

    /// The states of the blocks.
    pub fn states(&self) -> &[AtomicU8] {
        match self.states {
            // SAFETY: `new` mapped `count` bytes, zero at first, and they last as long as this.
            Some((first, count)) => unsafe { core::slice::from_raw_parts(first.as_ptr(), count) },
            None => &[],
        }
    }

    /// The number of the block that an address lies in.
    pub fn block_of(&self, at: Address) -> usize {
        at.offset_from(self.start) / BLOCK
    }

    /// The part of a block that is zeroed in this round, as (start, bytes).
    pub fn part(&self, block: usize) -> (Address, usize) {
        let start = self.start.add(block * BLOCK);
        let from = start.max(Address::new(self.range[0].load(Ordering::Relaxed)));
        let end = Address::new(self.range[1].load(Ordering::Relaxed)).min(start.add(BLOCK));
        (from, end.offset_from(from))
    }

    /// Where what is zeroed ahead in this round ends.
    pub fn round_end(&self) -> Address {
        Address::new(self.range[1].load(Ordering::Relaxed))
    }

    /// Whether a block is more than `lead` bytes ahead of where mutators have come, who have taken all below `taken`.
    pub fn is_far(&self, block: usize, taken: Address, lead: usize) -> bool {
        block * BLOCK > taken.offset_from(self.start) + lead
    }

    /// Memory at and above was never written to since the system gave it: it reads as zero.
    pub fn virgin(&self) -> Address {
        Address::new(self.virgin.load(Ordering::Relaxed))
    }

    /// Bytes that mutators took in the last nursery and that were never written to before.
    pub fn fresh(&self) -> usize {
        self.fresh.load(Ordering::Relaxed)
    }

    /// Mutators have taken the fragment up to there.
    pub fn note_taken_up_to(&self, world: &mut WorldStopped<'_>, top: Address) {
        let fresh = top.word().saturating_sub(self.virgin().word());
        self.fresh.store(fresh, Ordering::Relaxed);
        self.note_top(world, top);
    }

    /// Memory below was written to.
    pub fn note_top(&self, _: &mut WorldStopped<'_>, top: Address) {
        self.virgin.fetch_max(top.word(), Ordering::Relaxed);
    }

    /// Memory from `end` on was given back.
    pub fn note_released(&self, _: &mut WorldStopped<'_>, end: Address) {
        if self.virgin() != Address::new(usize::MAX) {
            self.virgin.fetch_min(end.word(), Ordering::Relaxed);
        }
    }

    /// What lies free between `top` and `end` is zeroed ahead from now on, or nothing is.
    pub fn begin_round(
        &self,
        world: &mut WorldStopped<'_>,
        is_ahead: bool,
        top: Address,
        end: Address,
    ) {
        let ahead = is_ahead.then(|| {
            let end = end.min(self.virgin()).max(top);
            self.range[0].store(top.word(), Ordering::Relaxed);
            self.range[1].store(end.word(), Ordering::Relaxed);
            let blocks = end.offset_from(self.start).div_ceil(BLOCK);
            (self.block_of(top), blocks)
        });
        self.rounds.begin(world, self.states(), ahead);
    }
}

impl Drop for ZeroingFragment {
    fn drop(&mut self) {
        if let Some((states, count)) = self.states {
            // SAFETY: `new` mapped `count` bytes, rounded up to whole pages.
            unsafe { memory::unmap(states.cast(), memory::whole_pages(count).unwrap_or(count)) };
        }
    }
}
