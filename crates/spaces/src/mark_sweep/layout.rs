//! The reserved address range of a heap and how it is committed.
//!
//! One reservation holds, in this order: the small part, the large part, the descriptor table, the mark table of the
//! small part. The first entry of the descriptor table is no descriptor, but says how far they go. Where no limit counts addresses, and the heap is a multiple of 4 GiB as it is by default, a part that nobody uses
//! lies ahead. Nothing is writable until it is committed, in steps that grow with what was committed before; what was
//! committed stays so, and memory goes back to the system by release, never by unmapping. So what counts as data
//! (`RLIMIT_DATA`, `vm.overcommit_memory=2`) is what was committed, and few mappings are needed: the committed part of
//! each range is one.
//!
//! Where addresses are limited (`RLIMIT_AS`, `ulimit -v`), nothing but those descriptors is reserved that any word may
//! lead to, since what is reserved counts; others are mapped with their blocks. The heap has a place far from all others instead, as large as the limit for the small part and twice that for
//! the large one, of which free runs may not be mapped (`large_runs`). It is mapped piece by piece: so each part may grow until the limit is reached, and what the heap does not use is the
//! program's. Nobody else maps there unless it asks for these addresses; then the part ends there.
//!
//! All methods run under the allocator lock or during start-up.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use gleaner_base::sync::model_size;
use gleaner_mem::{Address, zero};
use gleaner_os::memory::{Access, NotMapped};
use gleaner_os::refusal::{self, Limit};
use gleaner_os::{hugepages, memory, residency};

use crate::mark_sweep::block::{
    BLOCK_BYTES, BLOCK_SHIFT, Block, BlockIndex, BlockTable, LARGE_SHIFT, MARKS_PER_BLOCK,
};

/// The most bytes committed at a time, with 256 KiB of marks. The smallest heap follows from it.
const STEP_BYTES: usize = model_size(4 << 20, 1 << 20);
/// The fewest: a small program under a limit on data needs the rest for itself.
const LEAST_STEP: usize = 256 << 10;

/// How many places are tried for a heap that is mapped in pieces.
const PLACES: usize = 4;
/// The small part has the addresses of such a heap divided by this number.
const SMALL_PART: usize = 3;
/// This part of an address limit is left to the program by a heap that is mapped in pieces.
const PROGRAMS_PART: usize = 64;
/// A free run of at least this many bytes gives the memory of its descriptors back, too: 64 KiB or more.
const LONG_RUN_BYTES: usize = 8 << 20;
const SMALLEST_SPAN: usize = 2 * STEP_BYTES;
const LARGEST_SPAN: usize = 4 << 40;
/// What is reserved starts and ends at a multiple of this where it can: then words that lead into the heap have upper halves that
/// no others have, so that markers tell them quickly ([`super::lines`]).
const GRAIN: usize = memory::APART;
/// This many bytes ahead of such a heap are left unused. Without them the lower halves of addresses would be small
/// numbers, of which programs have plenty, and a pair of numbers might look like an address.
const AHEAD: usize = 361 * (4 << 20);

/// Why a heap could not be reserved.
#[derive(Clone, Copy, Debug)]
pub struct ReserveError {
    /// Bytes that were asked for last, and refused.
    pub asked: usize,
    /// What refused them.
    pub limit: Limit,
}

/// A reserved heap.
pub struct Layout {
    /// The three tables.
    pub table: BlockTable,
    small_committed: BlockIndex,
    large_committed: BlockIndex,
    /// Blocks of the small part whose marks are there: no fewer than are committed.
    marks_committed: BlockIndex,
    small_end: BlockIndex,
    end: BlockIndex,
    /// The end of the descriptor table, as far as it is reserved or mapped.
    table_end: Address,
    /// Bytes reserved, and how many of them lie ahead of the heap.
    reserved: usize,
    ahead: usize,
    /// Whether the range is smaller than was wished.
    limited: bool,
    /// Whether only the descriptor table is reserved, and all else is mapped when it is committed.
    in_pieces: bool,
    /// How many pieces were mapped while `in_pieces` was set. Protected by the allocator lock.
    pieces: AtomicU32,
    /// Free runs that may be torn at a time: each makes two mappings of one, and the program needs some, too.
    most_torn: usize,
    executable: bool,
    huge_pages: bool,
}

// SAFETY: the raw pointers lead to memory that belongs to the heap, not to a thread.
unsafe impl Send for Layout {}

impl Layout {
    /// Reserves a heap. `span` is its size in bytes; 0 chooses four times the physical memory, and less where the
    /// system demands it: what is refused is halved. Under an address limit (`RLIMIT_AS`) that is no larger, it is mapped in
    /// pieces; 0 chooses the limit for each part then.
    pub fn reserve(span: usize, executable: bool) -> Result<Layout, ReserveError> {
        residency::watch_pages();
        let wished = if span == 0 {
            automatic_span()
        } else {
            span.clamp(SMALLEST_SPAN, LARGEST_SPAN)
        };
        let mut span = wished;
        if let Some(limit) = memory::address_limit()
            && (limit as usize) < wished.saturating_mul(2)
        {
            let most = (limit as usize)
                .saturating_mul(SMALL_PART)
                .max(SMALLEST_SPAN);
            let place = wished.min(most) & !(2 * STEP_BYTES - 1);
            if let Some(layout) = Layout::in_pieces(place, executable) {
                return Ok(layout);
            }
            span = span.min((limit as usize / 2).max(SMALLEST_SPAN));
        }
        loop {
            span &= !(2 * STEP_BYTES - 1);
            if let Some(mut layout) = Layout::try_reserve(span, executable) {
                layout.limited = span < wished & !(2 * STEP_BYTES - 1);
                return Ok(layout);
            }
            if span <= SMALLEST_SPAN {
                let asked = reserved_for(span, span / 2) + STEP_BYTES; // To align it.
                return Err(ReserveError {
                    asked,
                    limit: refusal::reason(asked, 0),
                });
            }
            // What a limit refused must not take nearly all of it instead.
            let most = memory::address_limit().map_or(span, |limit| limit as usize);
            span = span.min(most).max(2 * SMALLEST_SPAN) / 2;
        }
    }

    fn try_reserve(span: usize, executable: bool) -> Option<Layout> {
        let small = span / 2;
        let reserved = reserved_for(span, small);
        // It takes more addresses, which are not taken from a program that has few of them.
        let apart = (span.is_multiple_of(GRAIN) && memory::address_limit().is_none())
            .then(|| memory::reserve((AHEAD + reserved).next_multiple_of(GRAIN), GRAIN))
            .flatten();
        let (base, ahead, reserved) = match apart {
            Some(base) => (base, AHEAD, (AHEAD + reserved).next_multiple_of(GRAIN)),
            None => (memory::reserve(reserved, STEP_BYTES)?, 0, reserved),
        };
        let heap = Address::of(base.as_ptr()).add(ahead);
        // Any word may look like an address in the span, so all descriptors of the small part must be readable from the
        // start. The table becomes writable with the blocks that it describes: memory that cannot be written is no data, which
        // the system may limit, and takes no memory.
        if !make_readable(heap.add(span), readable_bytes(small)) {
            // SAFETY: just reserved, and nobody knows it. Kept, it would count against the address limit.
            unsafe { memory::unmap(base, reserved) };
            return None;
        }
        Some(Layout {
            reserved,
            ahead,
            ..Layout::at(heap, span, small, executable)
        })
    }

    /// A heap far from all others, mapped in pieces; `None` where even the descriptor table is refused. `span` is a multiple of
    /// 8 MiB.
    pub fn in_pieces(span: usize, executable: bool) -> Option<Layout> {
        let small = (span / SMALL_PART).next_multiple_of(STEP_BYTES);
        for _ in 0..PLACES {
            let place = memory::place_apart(AHEAD + reserved_for(span, small))?;
            let heap = Address::of(place.as_ptr()).add(AHEAD);
            let table = core::ptr::NonNull::new(heap.add(span).ptr::<u8>())?;
            match memory::map_at(table, readable_bytes(small), Access::Read) {
                Ok(()) => {
                    let mut layout = Layout::at(heap, span, small, executable);
                    layout.table_end = heap.add(span + readable_bytes(small));
                    layout.go_on_in_pieces(memory::most_mappings());
                    return Some(layout);
                }
                Err(NotMapped::Refused) => return None,
                Err(NotMapped::Taken) => {}
            }
        }
        None
    }

    /// A heap at an address, of which nothing is committed. The small part takes the first `small` bytes.
    fn at(heap: Address, span: usize, small: usize, executable: bool) -> Layout {
        let large_start = (small >> BLOCK_SHIFT) as BlockIndex;
        let table = heap.add(span);
        let table_end = table.add(table_bytes(span, small));
        Layout {
            table: BlockTable {
                heap,
                span,
                blocks: table.add(size_of::<Block>()).ptr(),
                marks: table_end.ptr::<AtomicU8>(),
                large_start,
                described: table.ptr(),
            },
            table_end,
            small_committed: 0,
            marks_committed: 0,
            large_committed: large_start,
            small_end: large_start,
            end: blocks_in(span, small) as BlockIndex,
            reserved: reserved_for(span, small),
            ahead: 0,
            limited: false,
            in_pieces: false,
            pieces: AtomicU32::new(0),
            most_torn: 0,
            executable,
            huge_pages: false,
        }
    }

    /// Whether addresses are limited, so that the heap has no more of them than it uses.
    pub fn is_in_pieces(&self) -> bool {
        self.in_pieces
    }

    /// How many pieces were mapped since addresses are limited: no more blocks are mapped while this stays as it is.
    pub fn pieces(&self) -> u32 {
        self.pieces.load(Ordering::Relaxed) // Under the allocator lock.
    }

    /// The end of the usable blocks of the large part.
    pub fn large_committed(&self) -> BlockIndex {
        self.large_committed
    }

    /// How many free runs of the large part may be torn at a time; none where addresses are not limited.
    pub fn most_torn(&self) -> usize {
        self.most_torn
    }

    /// How many runs of free blocks of the small part may have given their addresses back at a time.
    pub fn most_small_holes(&self) -> usize {
        self.most_torn / 4
    }

    /// The first block behind the large part.
    pub fn end(&self) -> BlockIndex {
        self.end
    }

    /// The first block behind the small part.
    pub fn small_end(&self) -> BlockIndex {
        self.small_end
    }

    /// Blocks of the large part.
    pub fn large_blocks(&self) -> BlockIndex {
        self.end - self.table.large_start
    }

    /// The end of the usable blocks of the small part.
    pub fn small_committed(&self) -> BlockIndex {
        self.small_committed
    }

    /// Bytes of the committed blocks of each part.
    fn committed_bytes(&self) -> (usize, usize) {
        let large = self.large_committed - self.table.large_start;
        (
            (self.small_committed as usize) << BLOCK_SHIFT,
            (large as usize) << LARGE_SHIFT,
        )
    }

    /// Makes blocks of the small part below `end` usable; false if the system refuses.
    pub fn commit_small(&mut self, end: BlockIndex) -> bool {
        while self.small_committed < end {
            let (first, step) = (self.small_committed, step_after(self.committed_bytes().0));
            match self.commit_part(first, self.small_end, step) {
                0 => return false,
                blocks => self.small_committed += blocks,
            }
        }
        true
    }

    /// Makes blocks of the large part below `end` usable; false if the system refuses.
    pub fn commit_large(&mut self, end: BlockIndex) -> bool {
        while self.large_committed < end {
            let (first, step) = (self.large_committed, step_after(self.committed_bytes().1));
            let (entry, page) = (Address::of(self.table.described), memory::page_size());
            if first == self.table.large_start && !commit(entry, page, false) {
                return false;
            }
            match self.commit_part(first, self.end, step) {
                0 => return false,
                blocks => self.large_committed += blocks,
            }
            // SAFETY: the first entry of the table, which is writable by now. Who reads this reads descriptors that are mapped.
            unsafe { &*self.table.described }.fetch_max(self.large_committed, Ordering::Release);
        }
        true
    }

    /// Where the heap is mapped in pieces: gives the addresses of the large part from `end` on back, for the small part or the
    /// program. Nothing below `end` changes; no run is there any more.
    pub fn uncommit_large(&mut self, end: BlockIndex) {
        let blocks = self.large_committed.saturating_sub(end);
        let start = core::ptr::NonNull::new(self.table.start(end).ptr::<u8>());
        let (true, Some(start)) = (self.in_pieces && blocks > 0, start) else {
            return;
        };
        // SAFETY: mapped by `commit_part`, and no object is there, nor anything that leads there.
        if unsafe { memory::unmap(start, self.table.bytes_of(end, blocks)) } {
            // SAFETY: descriptors of committed blocks, under the lock: none describes a run any more.
            unsafe {
                let first = Address::of(self.table.block(end));
                zero::zero(first, blocks as usize * size_of::<Block>());
            }
            self.large_committed = end;
        }
    }

    /// Where the heap is mapped in pieces: gives the addresses of free blocks back, which nobody reads; false if the system
    /// refuses.
    pub fn unmap_free(&self, first: BlockIndex, blocks: BlockIndex) -> bool {
        let (start, bytes) = self.extent(first, blocks);
        match core::ptr::NonNull::new(start.ptr::<u8>()) {
            // SAFETY: mapped by `commit_part` or `map_anew`, and no object lies there.
            Some(start) if self.in_pieces => unsafe { memory::unmap(start, bytes) },
            _ => false,
        }
    }

    /// Maps blocks whose addresses went back; their pages read as zero. False if the system refuses.
    pub fn map_anew(&self, first: BlockIndex, blocks: BlockIndex) -> bool {
        let (start, bytes) = self.extent(first, blocks);
        self.leaves_the_program_its_part(bytes) && self.commit(start, bytes, self.executable)
    }

    /// Whether `bytes` more bytes, mapped in pieces, leave the program its part of an address limit.
    fn leaves_the_program_its_part(&self, bytes: usize) -> bool {
        memory::address_limit().is_none_or(|limit| {
            memory::has_addresses(bytes.saturating_add(limit as usize / PROGRAMS_PART))
        })
    }

    /// Commits up to `step` bytes of the blocks from `first` to `end`, with their marks if they have some: fewer where that is
    /// all that a limit leaves. Returns how many blocks.
    fn commit_part(&mut self, first: BlockIndex, end: BlockIndex, step: usize) -> BlockIndex {
        let has_marks = first < self.table.large_start;
        let mut step = step.min(self.table.bytes_of(first, end - first));
        while step > 0 {
            let blocks = (step >> self.table.shift_of(first)) as BlockIndex;
            if self.is_within_address_limit(step)
                && (!has_marks || self.commit_marks(first + blocks))
                && self.commit_blocks(first, blocks)
            {
                return blocks;
            }
            let smaller = (step / 2).next_multiple_of(BLOCK_BYTES).max(LEAST_STEP);
            step = if smaller < step { smaller } else { 0 };
        }
        0
    }

    /// Marks whose blocks were refused are there for the next attempt.
    fn commit_marks(&mut self, end: BlockIndex) -> bool {
        if end > self.marks_committed {
            let first = self.marks_committed;
            let start = Address::of(self.table.marks_of(first));
            let bytes = (end - first) as usize * MARKS_PER_BLOCK;
            if !self.commit(start, bytes, false) {
                return false;
            }
            self.marks_committed = end;
        }
        true
    }

    /// Gives the whole range back, at the end of a heap that a model made.
    ///
    /// # Safety
    /// Nobody uses the heap or its tables any more, and no addresses were given back before.
    pub unsafe fn unmap(&mut self) {
        let start = self.table.heap.sub(self.ahead);
        if let Some(start) = core::ptr::NonNull::new(start.ptr::<u8>()) {
            // SAFETY: our own reservation, all of it, of which nothing is used any more, as asked.
            unsafe { memory::unmap(start, self.reserved) };
        }
    }

    /// Says that the range is used up, and what helps.
    pub fn used_up(&self) -> &'static str {
        if self.limited {
            "the addresses that the heap could reserve are used up: raise the limit with ulimit -v"
        } else {
            "the addresses reserved for the heap are used up: reserve more with GLEANER_OPTIONS=reserve=BYTES"
        }
    }

    /// Why the system refused to commit more just now.
    pub fn refusal(&self) -> Limit {
        // Hardly anything else is refused to a heap in pieces, and to find out more takes files, which a filter of system
        // calls may forbid by now.
        if self.in_pieces && memory::address_limit().is_some() && !refusal::is_data_limited() {
            return Limit::Addresses;
        }
        let (small, large) = self.committed_bytes();
        let bytes = with_marks(step_after(small.max(large)));
        refusal::reason(if self.in_pieces { bytes } else { 0 }, bytes)
    }

    /// Whether an address limit allows `bytes` more bytes. The kernel itself checks the limit only where something is
    /// mapped. So what was reserved before the program set a limit goes back first.
    fn is_within_address_limit(&mut self, bytes: usize) -> bool {
        if let Some(limit) = memory::address_limit()
            && (limit as usize) < self.reserved.saturating_mul(2)
        {
            self.give_back_addresses();
        }
        !self.in_pieces || self.leaves_the_program_its_part(with_marks(bytes))
    }

    /// Gives the addresses that were never committed back to the system, and goes on in pieces: for a program that lowered
    /// its address limit. A heap that is in pieces has none. The descriptors of the small part stay.
    pub fn give_back_addresses(&mut self) {
        if self.in_pieces {
            return;
        }
        let small = (self.table.large_start as usize) << BLOCK_SHIFT;
        let needed = reserved_for(self.table.span, small);
        let heap = self.table.heap;
        let start = heap.sub(core::mem::take(&mut self.ahead));
        let end = start.add(core::mem::replace(&mut self.reserved, needed));
        // All descriptors of the small part, and those of the large one that are committed.
        let described = Address::of(self.table.block(self.large_committed));
        let table_end = described.align_up(memory::page_size());
        for (low, high) in [
            (start, heap),
            (heap.add(needed), end),
            (
                self.table.start(self.small_committed),
                self.table.start(self.small_end),
            ),
            (
                self.table.start(self.large_committed),
                self.table.start(self.end),
            ),
            (table_end, self.table_end),
            (
                Address::of(self.table.marks_of(self.marks_committed)),
                Address::of(self.table.marks_of(self.small_end)),
            ),
        ] {
            if let (true, Some(start)) = (low < high, core::ptr::NonNull::new(low.ptr::<u8>())) {
                // SAFETY: never committed, so nothing is there; no words lead to these descriptors, which `described` leaves out.
                unsafe { memory::unmap(start, high.offset_from(low)) };
            }
        }
        self.table_end = table_end.min(self.table_end);
        self.go_on_in_pieces(memory::USUAL_MAPPINGS);
    }

    /// `most` mappings are what a process may have.
    fn go_on_in_pieces(&mut self, most: usize) {
        (self.limited, self.in_pieces) = (true, true);
        self.most_torn = most / 3 * 2;
    }

    fn commit_blocks(&mut self, first: BlockIndex, blocks: BlockIndex) -> bool {
        let (start, bytes) = self.extent(first, blocks);
        let committed =
            self.commit_descriptors(first, blocks) && self.commit(start, bytes, self.executable);
        if committed && self.huge_pages {
            advise(start, bytes, true);
        }
        committed
    }

    fn commit_descriptors(&mut self, first: BlockIndex, blocks: BlockIndex) -> bool {
        // The first page of descriptors may have been committed with the blocks before.
        let page = memory::page_size();
        let low = Address::of(self.table.block(first)).align_down(page);
        let high = Address::of(self.table.block(first + blocks)).align_up(page);
        let mapped = high.min(self.table_end);
        if low < mapped && !commit(low, mapped.offset_from(low), false) {
            return false;
        }
        if mapped < high {
            // Only where the heap is mapped in pieces.
            if !self.commit(mapped, high.offset_from(mapped), false) {
                return false;
            }
            self.table_end = high;
        }
        true
    }

    /// Makes a range of the heap or of its marks usable.
    fn commit(&self, start: Address, bytes: usize, executable: bool) -> bool {
        if !self.in_pieces {
            return commit(start, bytes, executable);
        }
        let access = if executable {
            Access::Execute
        } else {
            Access::Write
        };
        self.pieces.fetch_add(1, Ordering::Relaxed); // Under the allocator lock.
        core::ptr::NonNull::new(start.ptr::<u8>())
            .is_some_and(|start| memory::map_at(start, bytes, access).is_ok())
    }

    /// Asks for huge pages (or stops asking) for what is committed and for what will be.
    pub fn set_huge_pages(&mut self, on: bool) {
        if self.huge_pages == on {
            return;
        }
        self.huge_pages = on;
        let large_start = self.table.large_start;
        for (first, end) in [
            (0, self.small_committed),
            (large_start, self.large_committed),
        ] {
            if end > first {
                let (start, bytes) = self.extent(first, end - first);
                advise(start, bytes, on);
            }
        }
    }

    /// Returns whether huge pages are asked for.
    pub fn huge_pages(&self) -> bool {
        self.huge_pages
    }

    /// Where neighbouring blocks of one part are, and how many bytes they have.
    fn extent(&self, first: BlockIndex, blocks: BlockIndex) -> (Address, usize) {
        (self.table.start(first), self.table.bytes_of(first, blocks))
    }

    /// Has committed blocks, of which none is in use, backed with memory. With huge pages the first write does as much.
    pub fn populate(&self, first: BlockIndex, blocks: BlockIndex) {
        let (start, bytes) = self.extent(first, blocks);
        if !self.huge_pages
            && let Some(start) = core::ptr::NonNull::new(start.ptr::<u8>())
        {
            // SAFETY: committed memory of our own.
            unsafe { memory::populate(start, bytes) };
        }
    }

    /// Whether less than a quarter of `blocks` free blocks is in memory.
    pub fn is_hardly_backed(&self, first: BlockIndex, blocks: BlockIndex) -> bool {
        let (start, bytes) = self.extent(first, blocks);
        core::ptr::NonNull::new(start.ptr::<u8>())
            .is_some_and(|start| residency::backed_bytes(start, bytes, bytes / 4) < bytes / 4)
    }

    /// Gives the memory of the descriptors inside a long free run back, of which only the first and the last say something. They
    /// read as `Unused` then.
    pub fn release_descriptors(&self, first: BlockIndex, blocks: BlockIndex) {
        if (blocks as usize) < LONG_RUN_BYTES >> LARGE_SHIFT {
            return;
        }
        let page = memory::page_size();
        let low = Address::of(self.table.block(first + 1)).align_up(page);
        let high = Address::of(self.table.block(first + blocks - 1)).align_down(page);
        if let Some(start) = core::ptr::NonNull::new(low.ptr::<u8>()) {
            // SAFETY: descriptors of committed blocks, under the lock, that lead nowhere. What is locked stays as it is.
            unsafe { memory::release(start, high.offset_from(low)) };
        }
    }

    /// Gives the marks of neighbouring free blocks back, but for those that share a page with the marks of others. They are written
    /// when a block is taken.
    pub fn release_marks(&self, first: BlockIndex, blocks: BlockIndex) {
        let page = memory::page_size();
        let low = Address::of(self.table.marks_of(first)).align_up(page);
        let high = Address::of(self.table.marks_of(first + blocks)).align_down(page);
        if low < high {
            self.release_dead(low, high.offset_from(low));
        }
    }

    /// Gives whole pages back of which nobody needs what they hold: they read as zero afterwards, or as before.
    pub fn release_dead(&self, start: Address, bytes: usize) {
        if let Some(start) = core::ptr::NonNull::new(start.ptr::<u8>()) {
            // SAFETY: committed memory of our own, under the lock; its contents are given up, as asked. What is locked stays as it is.
            unsafe { memory::release(start, bytes) };
        }
    }

    /// Gives the memory of `blocks` blocks back to the system; they read as zero afterwards.
    pub fn release(&self, first: BlockIndex, blocks: BlockIndex) {
        let (start, bytes) = self.extent(first, blocks);
        let Some(pointer) = core::ptr::NonNull::new(start.ptr::<u8>()) else {
            return;
        };
        // SAFETY: the blocks are free, so nobody relies on their contents. The system refuses for locked memory,
        // which then must be made to read as zero by hand (I2).
        unsafe {
            if !memory::release(pointer, bytes) {
                zero::zero(start, bytes);
            }
        }
    }
}

/// Blocks of both parts, of which the small one has the first `small` bytes of the span.
fn blocks_in(span: usize, small: usize) -> usize {
    (small >> BLOCK_SHIFT) + ((span - small) >> LARGE_SHIFT)
}

/// Bytes of `blocks` descriptors and of the entry before them: whole pages.
fn entry_bytes(blocks: usize) -> usize {
    ((1 + blocks) * size_of::<Block>()).next_multiple_of(memory::page_size())
}

/// Bytes of the descriptor table.
fn table_bytes(span: usize, small: usize) -> usize {
    entry_bytes(blocks_in(span, small))
}

/// Bytes of the part of the descriptor table that is readable from the start: the descriptors of the small part, which
/// has `small` bytes.
fn readable_bytes(small: usize) -> usize {
    entry_bytes(small >> BLOCK_SHIFT)
}

/// Bytes of the heap and its tables.
fn reserved_for(span: usize, small: usize) -> usize {
    span + table_bytes(span, small) + (small >> BLOCK_SHIFT) * MARKS_PER_BLOCK
}

/// The bytes that `bytes` bytes of the small part take with their marks.
fn with_marks(bytes: usize) -> usize {
    bytes + bytes / BLOCK_BYTES * MARKS_PER_BLOCK
}

/// Bytes of a part to commit after `committed` bytes.
fn step_after(committed: usize) -> usize {
    (committed / 2 / LEAST_STEP * LEAST_STEP).clamp(LEAST_STEP, STEP_BYTES)
}

fn automatic_span() -> usize {
    let physical = memory::physical_memory() as usize;
    let wished = physical.saturating_mul(4).clamp(16 << 30, LARGEST_SPAN);
    wished.next_multiple_of(2 * GRAIN) // Both parts start `AHEAD` behind a multiple.
}

fn commit(start: Address, bytes: usize, executable: bool) -> bool {
    let Some(start) = core::ptr::NonNull::new(start.ptr::<u8>()) else {
        return false;
    };
    // SAFETY: the range lies in our own reservation.
    unsafe {
        if executable {
            memory::commit_executable(start, bytes)
        } else {
            memory::commit(start, bytes)
        }
    }
}

fn make_readable(start: Address, bytes: usize) -> bool {
    // SAFETY: the range lies in our own reservation, and nobody knows it yet.
    core::ptr::NonNull::new(start.ptr::<u8>())
        .is_some_and(|start| unsafe { memory::make_read_only(start, bytes) })
}

fn advise(start: Address, bytes: usize, on: bool) {
    let Some(start) = core::ptr::NonNull::new(start.ptr::<u8>()) else {
        return;
    };
    if on {
        // SAFETY: the range is committed memory of our own.
        unsafe { hugepages::advise(start, bytes) };
    } else {
        // SAFETY: the range is committed memory of our own.
        unsafe { hugepages::unadvise(start, bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
