//! Which pages of a space were written, as the kernel said, and when ([`super::sticky`]).

use core::ops::Range;

use gleaner_base::sync::{AtomicU8, AtomicU32, Ordering};
use gleaner_mem::Address;
use gleaner_mem::side::Side;
use gleaner_os::written::{PAGE_BYTES, Watch};

use super::block::{BLOCK_BYTES, Block, BlockIndex, BlockTable, FRESH, GRANULE, LARGE_BYTES};
use super::layout::Layout;

pub(super) const PAGE_SHIFT: usize = PAGE_BYTES.trailing_zeros() as usize;
/// All pages of a block of small objects.
pub(super) const ALL_PAGES: u8 = (1 << (BLOCK_BYTES / PAGE_BYTES)) - 1;
// A bit is about a block of the large part.
const _: () = assert!(LARGE_BYTES == PAGE_BYTES);

/// Which pages of a space were written.
pub struct WrittenPages {
    /// What tells it.
    pub watch: Watch,
    /// Where addresses are limited: [`Layout::pieces`] when the mapped blocks were watched last. What was mapped since is
    /// watched before the kernel is asked about it. Protected by the allocator lock.
    pub(super) pieces: AtomicU32,
    pub(super) table: BlockTable,
    /// For each 16 KiB of either part.
    pub(super) pages: Side<AtomicU8>,
    /// For the verifier.
    pub(super) ages: Option<Ages>,
    /// Whether the collection that is in progress, or was the last, keeps marks.
    pub(super) kept: bool,
}

impl WrittenPages {
    /// The byte that is about a block, and which of its bits are.
    pub(super) fn bits_of(&self, block: BlockIndex) -> (&AtomicU8, u8) {
        let start = self.table.start(block);
        let bits = match block < self.table.large_start {
            true => ALL_PAGES,
            false => page_bit(start),
        };
        (self.pages.get(self.pages.index(start)), bits)
    }

    /// The pages of a block that count as written.
    pub(super) fn of(&self, block: BlockIndex) -> u8 {
        let (byte, bits) = self.bits_of(block);
        // Relaxed: a worker that takes them has taken the block.
        byte.load(Ordering::Relaxed) & bits
    }

    /// The same; they do not count as written any more.
    pub(super) fn take(&self, block: BlockIndex) -> u8 {
        let (byte, bits) = self.bits_of(block);
        // Relaxed: the cursor of the phase gave the block to one worker, and what was stored was stored before.
        byte.fetch_and(!bits, Ordering::Relaxed) & bits
    }

    /// Says of all pages of a block whether they count as written.
    pub(super) fn set(&self, block: BlockIndex, is_written: bool) {
        let (byte, bits) = self.bits_of(block);
        let wanted = if is_written { bits } else { 0 };
        let before = byte.load(Ordering::Relaxed);
        if before & bits != wanted {
            // Relaxed: the world is stopped, and this thread alone writes here.
            byte.store(before & !bits | wanted, Ordering::Relaxed);
        }
    }

    /// Notes for the verifier what the question that was just answered said of a block, whose flags are those of `block`.
    pub(super) fn note_age(&self, index: BlockIndex, block: &Block) {
        let start = self.table.start(index);
        let Some(ages) = &self.ages else { return };
        let Some(part) = ages.part(start) else { return };
        let question = ages.question.load(Ordering::Relaxed);
        if block.has_flag(FRESH) {
            set_age(&part.handed_out, start, question);
        }
        let written = self.of(index);
        for page in (0..self.table.bytes_of(index, 1)).step_by(PAGE_BYTES) {
            let at = start.add(page);
            if written & page_bit(at) != 0 {
                set_age(&part.written, at, question);
            }
        }
    }

    /// Notes for the verifier that a cell was dead when the cycle in progress began, and may be handed out from now on. Where cells
    /// have no ages that is said of the whole block.
    pub(super) fn note_cell(&self, cell: Address) {
        let Some(ages) = &self.ages else { return };
        let question = ages.question.load(Ordering::Relaxed) + 1;
        if ages.has_cell(cell) {
            set_age(&ages.cells, cell, question);
        } else if let Some(part) = ages.part(cell) {
            set_age(&part.handed_out, cell, question);
        }
    }

    /// Marks the pages of `low..high` as written.
    pub(super) fn note(&self, low: usize, high: usize) {
        for page in (low..high).step_by(PAGE_BYTES) {
            let at = Address::new(page);
            // Relaxed: under the allocator lock, and no marker is at work.
            self.pages
                .get(self.pages.index(at))
                .fetch_or(page_bit(at), Ordering::Relaxed);
        }
    }

    /// The same where the kernel was asked ahead of a stop, in which the next question comes.
    pub(super) fn note_ahead(&self, low: usize, high: usize) {
        self.note(low, high);
        let Some(ages) = &self.ages else { return };
        let question = ages.question.load(Ordering::Relaxed) + 1;
        for page in (low..high).step_by(PAGE_BYTES) {
            let at = Address::new(page);
            if let Some(part) = ages.part(at) {
                set_age(&part.written, at, question);
            }
        }
    }
}

/// Since when blocks are there, and when pages were last known to be written, in numbers of questions. A word cannot be a
/// reference into a block that was handed out after the word was written: it is a number that looks like one. Nor can it be one
/// to a cell that was dead then.
pub(super) struct Ages {
    pub(super) question: AtomicU32,
    /// For each granule of the first blocks: since when a cell that begins there is no longer settled.
    pub(super) cells: Side<AtomicU32>,
    /// Of the small and of the large part.
    pub(super) parts: [PartAges; 2],
}

pub(super) struct PartAges {
    pub(super) range: Range<Address>,
    /// For each block.
    pub(super) handed_out: Side<AtomicU32>,
    /// For each page.
    pub(super) written: Side<AtomicU32>,
}

/// How many bytes of each part of the heap have ages: tables for all addresses that a heap reserves would be large.
const AGED_BYTES: usize = 1 << 30;
/// And of how many the cells have.
const CELLS_BYTES: usize = 16 << 20;

impl Ages {
    pub(super) fn new(layout: &Layout) -> Option<Ages> {
        let large = layout.table.large_start;
        let small = PartAges::new(layout, 0..layout.small_end())?;
        let bytes = small.range.end.offset_from(small.range.start);
        let (bytes, shift) = (bytes.min(CELLS_BYTES), GRANULE.trailing_zeros());
        Some(Ages {
            question: AtomicU32::new(0),
            cells: Side::new(small.range.start, bytes, shift)?,
            parts: [small, PartAges::new(layout, large..layout.end())?],
        })
    }

    /// Whether there is an age of a cell.
    pub(super) fn has_cell(&self, cell: Address) -> bool {
        let small = &self.parts[0].range;
        small.contains(&cell) && cell.offset_from(small.start) < CELLS_BYTES
    }

    pub(super) fn part(&self, at: Address) -> Option<&PartAges> {
        self.parts.iter().find(|part| part.range.contains(&at))
    }
}

impl PartAges {
    pub(super) fn new(layout: &Layout, blocks: Range<BlockIndex>) -> Option<PartAges> {
        let table = layout.table;
        let (low, shift) = (table.start(blocks.start), table.shift_of(blocks.start));
        let bytes = AGED_BYTES.min(blocks.len() << shift);
        Some(PartAges {
            range: low..low.add(bytes),
            handed_out: Side::new(low, bytes, shift as u32)?,
            written: Side::new(low, bytes, PAGE_SHIFT as u32)?,
        })
    }
}

pub(super) fn set_age(of: &Side<AtomicU32>, at: Address, question: u32) {
    of.get(of.index(at)).store(question, Ordering::Relaxed);
}

pub(super) fn age(of: &Side<AtomicU32>, at: Address) -> u32 {
    of.get(of.index(at)).load(Ordering::Relaxed)
}

/// The bit of the page of an address.
pub(super) fn page_bit(at: Address) -> u8 {
    1 << ((at.word() >> PAGE_SHIFT) % (BLOCK_BYTES / PAGE_BYTES))
}
