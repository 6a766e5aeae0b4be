//! Mark-region: what the marks of lines and the states of blocks say of an old space (Immix, PLDI 2008).
//!
//! The space is cut into blocks of 32 KB, and these into [`lines`] of 128 bytes. Marking an object marks its lines. A sweep
//! then looks at lines alone: a block of which no line is in use is vacant, and is given out as a whole or back to the
//! system ([`blocks`]); the others have holes, runs of free lines, which threads fill by bumping a pointer.
//! [`Tenured`] hands out blocks with holes; this is one of the [`Holes`] that it may have.
//!
//! While everything is marked, sparse blocks may be evacuated (section 2.2 there): what lives in a candidate is copied into
//! free blocks when it is reached, as long as there are some. So the blocks that were copied from are vacant afterwards.
//! What finds no block stays where it is.
//!
//! # Invariants
//! - While the space is [in use](MarkRegion::is_in_use) every line that something live lies in, and was not taken since the
//!   sweep, is marked or lies behind a marked one.
//! - Nothing was allocated in a candidate since it was swept. So no more lives there than the sweep has counted.
//!
//! The leader begins and ends markings in a stopped world; workers mark, sweep strips of blocks, and take blocks.

pub mod blocks;
pub mod in_place;
pub mod lines;

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::sync::{AtomicBool, AtomicUsize, Ordering};
use gleaner_mem::Address;

use self::blocks::{BlockTable, LEVELS, State};
use self::lines::{LINE_BYTES, Lines};
use crate::precise::bump::BumpRegion;
use crate::precise::tenured::{BLOCK_BYTES, CLASS_BYTES, Holes, Tenured};

/// Blocks that are one task of a sweep.
const STRIP_BLOCKS: usize = 64;
const STRIP_BYTES: usize = STRIP_BLOCKS * BLOCK_BYTES;
const _: () = assert!(LINE_BYTES.is_multiple_of(CLASS_BYTES));

/// Lines and blocks of one space.
pub struct MarkRegion {
    lines: Lines,
    blocks: BlockTable,
    /// See [`MarkRegion::is_in_use`]. Written in stopped worlds.
    in_use: AtomicBool,
    /// Bytes of blocks that are not vacant, at most. Written in a stopped world; raised also under the allocator's lock while
    /// workers take blocks.
    most: AtomicUsize,
    /// How many free blocks are left to those that evacuate. Written in stopped worlds.
    held: AtomicUsize,
    /// Blocks that may yet be taken for copies in this marking. Written by any worker, and by the leader before.
    copies: AtomicUsize,
    /// Bytes of the holes that this sweep has found. Written by any worker, and by the leader before.
    swept_free: AtomicUsize,
    /// Bytes of blocks in which nothing was old that it has swept, and how many of them are free. As above.
    new_swept: (AtomicUsize, AtomicUsize),
}

/// How full the blocks of a space are, as far as the last sweep knows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Occupancy {
    /// How many blocks with holes have so many of their [`LEVELS`] parts in use; blocks that were filled since are not
    /// among them.
    pub sparse: [usize; LEVELS + 1],
    /// How many blocks are not vacant.
    pub in_use: usize,
}

impl MarkRegion {
    /// Nothing is marked in a space; `None` when the system gives no memory. `is_in_use` says whether its holes are free lines
    /// from the start.
    pub fn new(start: Address, bytes: usize, is_in_use: bool) -> Option<MarkRegion> {
        Some(MarkRegion {
            lines: Lines::new(start, bytes)?,
            blocks: BlockTable::new(start, bytes)?,
            in_use: AtomicBool::new(is_in_use),
            most: AtomicUsize::new(bytes),
            held: AtomicUsize::new(0),
            copies: AtomicUsize::new(0),
            swept_free: AtomicUsize::new(0),
            new_swept: Default::default(),
        })
    }

    /// Whether threads fill free lines: the last collection of everything has marked lines, or none was yet.
    #[inline]
    pub fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Bytes of blocks in which nothing lives.
    pub fn vacant_bytes(&self) -> usize {
        self.blocks.vacant() * BLOCK_BYTES
    }

    /// Of these, bytes that went back to the system.
    pub fn released_bytes(&self) -> usize {
        self.blocks.released() * BLOCK_BYTES
    }

    /// Bytes of vacant blocks that hold memory: these are taken first.
    pub fn held_vacant_bytes(&self) -> usize {
        // In this order: a worker that takes a block meanwhile makes the result too small.
        let released = self.released_bytes();
        self.vacant_bytes().saturating_sub(released)
    }

    /// Bytes of the region that are in use: up to its top, without vacant blocks.
    pub fn used(&self, region: &BumpRegion) -> usize {
        // In this order: a worker that takes a vacant block meanwhile makes the result too small.
        let vacant = self.vacant_bytes();
        region.used() - vacant
    }

    /// Bytes of blocks that are not vacant, at most.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Blocks that are not vacant may have so many bytes from now on. While workers take blocks, no fewer than before.
    pub fn set_most(&self, _: &mut AllocatorLocked<'_>, bytes: usize) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    /// Bytes in free blocks that may be taken yet.
    pub fn room(&self, region: &BumpRegion) -> usize {
        self.most().saturating_sub(self.used(region))
    }

    /// How many free blocks others leave to those that evacuate.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// So many free blocks are left to those that evacuate from now on.
    pub fn hold(&self, _: &mut WorldStopped<'_>, blocks: usize) {
        self.held.store(blocks, Ordering::Relaxed);
    }

    /// Bytes of the tables.
    pub fn metadata_bytes(&self) -> usize {
        self.lines.bytes() + self.blocks.bytes()
    }

    /// Before everything is marked: no line of the region is marked, and what is swept next is not counted yet.
    pub fn begin_marking(&self, world: &mut WorldStopped<'_>, region: &BumpRegion) {
        let blocks = region.used().div_ceil(BLOCK_BYTES);
        self.keep_new(blocks);
        self.lines
            .clear(world, region.start(), self.blocks.start(blocks));
        self.swept_free.store(0, Ordering::Relaxed);
        self.copies.store(0, Ordering::Relaxed);
    }

    /// Marks the lines of an object.
    #[inline(always)]
    pub fn mark(&self, object: Address, bytes: usize) {
        self.lines.mark(object, bytes);
    }

    /// How full the blocks of the region are.
    pub fn occupancy(&self, region: &BumpRegion) -> Occupancy {
        let mut found = Occupancy::default();
        for number in 0..region.used().div_ceil(BLOCK_BYTES) {
            match self.blocks.get(number) {
                State::Sparse(level) => {
                    found.sparse[level] += 1;
                    found.in_use += 1;
                }
                State::Vacant | State::Released => {}
                _ => found.in_use += 1,
            }
        }
        found
    }

    /// Blocks of the region with holes, of which at most `level` parts are in use, are evacuated in this marking, into up to
    /// `copies` blocks.
    pub fn evacuate(
        &self,
        _: &mut WorldStopped<'_>,
        region: &BumpRegion,
        level: usize,
        copies: usize,
    ) {
        for number in 0..region.used() / BLOCK_BYTES {
            if matches!(self.blocks.get(number), State::Sparse(found) if found <= level) {
                self.blocks.set(number, State::Candidate);
            }
        }
        self.copies.store(copies, Ordering::Relaxed);
    }

    /// The block of an object that keeps its place is not evacuated in this marking.
    pub fn spare(&self, _: &mut WorldStopped<'_>, object: Address) {
        if self.is_candidate(object) {
            self.blocks.set(self.blocks.number(object), State::Other);
        }
    }

    /// Whether what lives in the block of an object of the space is evacuated.
    #[inline(always)]
    pub fn is_candidate(&self, object: Address) -> bool {
        self.blocks.is_candidate(object)
    }

    /// A free block for what is evacuated, with its bytes, if any may be taken; or the rest of one at the top of the region.
    pub fn take_for_copies(&self, region: &BumpRegion) -> Option<(Address, usize)> {
        let (ok, relaxed) = (Ordering::Relaxed, Ordering::Relaxed);
        let one_less = |left: usize| left.checked_sub(1);
        self.copies.fetch_update(ok, relaxed, one_less).ok()?;
        self.blocks.take_free(region, self.most())
    }

    /// How many strips of blocks the region has.
    pub fn strips(&self, region: &BumpRegion) -> usize {
        region.used().div_ceil(STRIP_BYTES)
    }

    /// Calls `each` with the bounds of every block of the region that is a candidate in this marking.
    pub fn for_each_candidate(&self, region: &BumpRegion, each: impl FnMut(Address, Address)) {
        self.for_each_block(region, |state| state == State::Candidate, each);
    }

    /// Calls `each` with the bounds of every vacant block of the region.
    pub fn for_each_vacant(&self, region: &BumpRegion, each: impl FnMut(Address, Address)) {
        let is_vacant = |state| matches!(state, State::Vacant | State::Released);
        self.for_each_block(region, is_vacant, each);
    }

    fn for_each_block(
        &self,
        region: &BumpRegion,
        is_meant: impl Fn(State) -> bool,
        mut each: impl FnMut(Address, Address),
    ) {
        for number in 0..region.used() / BLOCK_BYTES {
            if is_meant(self.blocks.get(number)) {
                each(self.blocks.start(number), self.blocks.start(number + 1));
            }
        }
    }

    /// Sweeps a strip of blocks after everything was marked. Each strip is swept once, by any worker.
    pub fn sweep(&self, region: &BumpRegion, strip: usize) {
        let all = region.used().div_ceil(BLOCK_BYTES);
        let (mut total, mut new, mut new_free) = (0, 0, 0);
        for number in strip * STRIP_BLOCKS..all.min((strip + 1) * STRIP_BLOCKS) {
            let is_new = self.blocks.get(number) == State::New;
            let free = self.sweep_block(region, number);
            total += free;
            if is_new {
                new += BLOCK_BYTES;
                new_free += match self.blocks.get(number) {
                    State::Vacant => BLOCK_BYTES,
                    _ => free,
                };
            }
        }
        self.swept_free.fetch_add(total, Ordering::Relaxed);
        self.new_swept.0.fetch_add(new, Ordering::Relaxed);
        self.new_swept.1.fetch_add(new_free, Ordering::Relaxed);
    }

    /// Sets the state of a block whose lines say what is in use there. Bytes of its holes, if it is not free as a
    /// whole.
    fn sweep_block(&self, region: &BumpRegion, number: usize) -> usize {
        let (low, high) = (self.blocks.start(number), self.blocks.start(number + 1));
        let free = self.lines.free_in(low, high).bytes;
        let state = match State::of_free(free) {
            State::Vacant if self.blocks.get(number) == State::Released => State::Released,
            // The rest of a last block that is not whole is no hole: it lies above the top.
            State::Sparse(_) if high > region.top() => State::Other,
            state => state,
        };
        self.blocks.set(number, state);
        match state {
            State::Sparse(_) => free,
            _ => 0,
        }
    }

    /// All strips were swept: vacant blocks at the top are cut off, and holes are free lines from now on.
    pub fn finish_sweeping(&self, world: &mut WorldStopped<'_>, space: &Tenured) {
        let region = &space.region;
        let (whole, all) = (
            region.used() / BLOCK_BYTES,
            region.used().div_ceil(BLOCK_BYTES),
        );
        let is_vacant = |number| matches!(self.blocks.get(number), State::Vacant | State::Released);
        let mut count = all;
        while count > 0 && is_vacant(count - 1) {
            count -= 1;
        }
        if count <= whole {
            region.set_top(world, region.start().add(count * BLOCK_BYTES));
        }
        self.blocks.settle(world, count, all);
        let free = self.swept_free.swap(0, Ordering::Relaxed);
        space.adopt_swept(world, count.min(whole), free);
        self.in_use.store(true, Ordering::Relaxed);
    }

    /// Everything in the region was slid together, and its top is about to be lowered: nothing is known of its blocks.
    pub fn forget(&self, world: &mut WorldStopped<'_>, region: &BumpRegion) {
        let blocks = region.used().div_ceil(BLOCK_BYTES);
        self.lines
            .clear(world, region.start(), self.blocks.start(blocks));
        self.blocks.settle(world, 0, blocks);
    }

    /// Gives the memory of vacant blocks of the region back through `release`, which says whether it went back, until at
    /// least `bytes` bytes did or no more can. How many did. Nobody takes blocks meanwhile.
    pub fn release_vacant(
        &self,
        locked: &mut AllocatorLocked<'_>,
        region: &BumpRegion,
        bytes: usize,
        release: impl FnMut(Address, Address) -> bool,
    ) -> usize {
        let (count, most) = (region.used() / BLOCK_BYTES, bytes.div_ceil(BLOCK_BYTES));
        self.blocks.release(locked, (count, most), release) * BLOCK_BYTES
    }

    /// Bytes of blocks below `end` that hold no memory.
    pub fn released_below(&self, region: &BumpRegion, end: Address) -> usize {
        let reached = end.min(region.top()).offset_from(region.start());
        self.blocks.released_among(reached.div_ceil(BLOCK_BYTES)) * BLOCK_BYTES
    }

    /// Calls `each` with every run of free lines in a block of the region that holds memory, and with its bytes.
    pub fn for_each_free(&self, region: &BumpRegion, mut each: impl FnMut(Address, usize)) {
        for number in 0..region.used().div_ceil(BLOCK_BYTES) {
            if self.blocks.get(number) == State::Released {
                continue;
            }
            let (mut at, end) = (self.blocks.start(number), self.blocks.start(number + 1));
            while let Some((hole, bytes)) =
                self.lines.next_hole(at, end.min(region.top()), LINE_BYTES)
            {
                each(hole, bytes);
                at = hole.add(bytes);
            }
        }
    }
}

/// Runs of free lines, in blocks that the sweep found to have some; and vacant blocks.
impl Holes for MarkRegion {
    fn next_hole(&self, from: Address, end: Address, least: usize) -> Option<(Address, usize)> {
        self.lines.next_hole(from, end, least)
    }

    fn least_for(&self, bytes: usize) -> usize {
        bytes.next_multiple_of(LINE_BYTES)
    }

    fn hole_within(&self, low: Address, high: Address) -> usize {
        match self.blocks.get(self.blocks.number(low)) {
            State::Sparse(_) | State::Given => self.lines.free_in(low, high).largest,
            _ => 0,
        }
    }

    fn live_bytes(&self, low: Address, high: Address) -> usize {
        let free = match self.blocks.get(self.blocks.number(low)) {
            State::Sparse(_) | State::Given => self.lines.free_in(low, high).bytes,
            _ => 0,
        };
        high.offset_from(low) - free
    }

    fn mark_used(&self, start: Address, bytes: usize) {
        self.lines.mark_all(start, bytes);
    }

    fn take_fresh(&self, region: &BumpRegion) -> Option<(Address, usize)> {
        self.blocks.take_free(region, self.most())
    }

    fn is_swept(&self, block: Address) -> bool {
        let state = self.blocks.get(self.blocks.number(block));
        matches!(state, State::Sparse(_))
    }

    fn note_taken(&self, block: Address) {
        self.blocks.set(self.blocks.number(block), State::Other);
    }

    fn note_given(&self, block: Address) {
        self.blocks.set(self.blocks.number(block), State::Given);
    }
}
