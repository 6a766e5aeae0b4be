//! Blocks and their descriptors: the table that answers "which object does this word point to".
//!
//! The heap is one reserved span. Its lower part is cut into blocks of 16 KiB, which hold small objects of one size and
//! kind each (ISMM 2000, section 3), its upper part into blocks of a page, of which runs hold one large object each. A
//! flat table has one 32-byte descriptor per block of either part, so that resolving a word costs one range check, one
//! load of the descriptor and a multiplication by the reciprocal of the cell size: no division. Marks stand beside the
//! heap, one byte per object, never in it (ISMM 2000, section 3).
//!
//! What looks for small objects numbers all blocks as if they had 16 KiB, and compares the number with the first of the
//! large part: words that lead there are numbered anew.
//!
//! # Invariants
//! - A descriptor in state `Small` has `objects * bytes <= BLOCK_BYTES`, and `inverse` is the reciprocal of `bytes`.
//! - In other states of a block of the small part `objects` is 0. No block of the large part is in state `Small`.
//! - A descriptor in state `LargeRest` leads to its head, `inverse` blocks further down; inside free runs it may be
//!   stale, then what it leads to is no head or does not reach so far.
//! - Descriptors of blocks that were never used read as zero, which is `Unused`. Those of the large part are there as far
//!   as `described` says: so a large reservation needs no large table.
//!
//! Descriptors change under the allocator lock only. Markers read them while the world is stopped, or the lock is theirs. A helper
//! that marks beside the program without it, and the program's calls, may read one that is just written: of a free block that
//! becomes one of small objects. So what says that it is one is published last, behind its cells.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use gleaner_mem::Address;

use super::marks::{FREE, WHITE};

/// log2 of [`BLOCK_BYTES`].
pub const BLOCK_SHIFT: usize = 14;
/// Bytes of one block of the small part.
pub const BLOCK_BYTES: usize = 1 << BLOCK_SHIFT;
/// Objects are aligned to and sized in granules of this many bytes.
pub const GRANULE: usize = 16;
/// log2 of [`LARGE_BYTES`].
pub const LARGE_SHIFT: usize = 12;
/// Bytes of one block of the large part: a page, so that no object has pages behind it that it does not need.
pub const LARGE_BYTES: usize = 1 << LARGE_SHIFT;
/// The most objects that a block of small objects can hold, and the stride of the mark table.
pub const MARKS_PER_BLOCK: usize = BLOCK_BYTES / GRANULE;

const INVERSE_SHIFT: u32 = 32;

/// Number of a block, counted from the start of the heap; blocks of the large part go on where those of the small one end.
pub type BlockIndex = u32;

/// The end of a queue of blocks.
pub const NO_BLOCK: BlockIndex = BlockIndex::MAX;

/// What a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Never used, or beyond the frontier.
    Unused = 0,
    /// In the free pool (small part) or inside a free run (large part).
    Free = 1,
    /// Cells of one size and kind.
    Small = 2,
    /// The first block of a large object.
    LargeHead = 3,
    /// Another block of a large object.
    LargeRest = 4,
}

/// The block belongs to a thread that allocates from it: it is neither swept nor free before the thread has used it up (I8).
pub const OWNED: u8 = 1;
/// Grey objects of this block were dropped when a mark stack was full: it must be scanned again.
pub const RESCAN: u8 = 2;
/// Pointers past the first page of this large object are ignored.
pub const IGNORE_OFF_PAGE: u8 = 4;
/// The block waits in a sweep queue.
pub const QUEUED: u8 = 8;
/// The block was swept in the pause; its free list is complete.
pub const SWEPT: u8 = 16;
/// The large object was freed explicitly while marks were made: it goes when blocks are reclaimed, marked or not.
pub const FREED: u8 = 32;
/// Of a block of small objects, the bit that [`FREED`] is of a large one: the block waits in a sweep queue while marks are
/// made, and exactly its cells that were dead before have the mark `FREE` ([`super::settle`]).
pub const SETTLED: u8 = 32;

/// The block was handed out since the last collection.
pub const FRESH: u8 = 64;
/// The kernel was asked which pages of this block, or of the large object that begins here, were written, and watches them.
pub const WATCHED: u8 = 128;

/// Bytes at the start of an `IGNORE_OFF_PAGE` object in which pointers count.
pub const FIRST_PAGE: usize = 4096;

/// The descriptor of one block.
#[repr(C, align(32))]
pub struct Block {
    /// Mark descriptor of each object in libgc's format; 0 means that objects hold no pointers.
    pub descriptor: usize,
    /// Bytes of each object.
    pub bytes: usize,
    /// Small: reciprocal of the cell size. LargeHead: 0. LargeRest, and the last of a free run: distance to the head in blocks.
    pub inverse: u32,
    /// Next block in the queue this block is in; for runs of the large part their length in blocks.
    pub next: BlockIndex,
    /// Number of cells; 1 for the head of a large object; 0 in all other blocks.
    pub objects: u16,
    /// What the block holds.
    pub state: State,
    /// Kind of its objects.
    pub kind: u8,
    /// `OWNED` and its like.
    pub flags: AtomicU8,
    /// Mark byte of a large object.
    pub large_mark: AtomicU8,
    /// Size class of a small block.
    pub class: u8,
    /// Collections since a free block was last used, saturating.
    pub age: u8,
}

const _: () = assert!(size_of::<Block>() == 32);

impl Block {
    /// Sets flags; several markers may do so at once.
    #[inline]
    pub fn set_flag(&self, flag: u8) {
        // Relaxed: read again only after the phase has ended, and its end orders everything.
        self.flags.fetch_or(flag, Ordering::Relaxed);
    }

    /// Clears flags.
    #[inline]
    pub fn clear_flag(&self, flag: u8) {
        self.flags.fetch_and(!flag, Ordering::Relaxed);
    }

    /// True if any of `flag` is set.
    #[inline]
    pub fn has_flag(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }
}

impl Block {
    /// Makes a block one of `objects` small objects. The rest of the descriptor, the marks and the cells are as they are to be.
    #[inline]
    pub(crate) fn publish_small(&mut self, objects: u16) {
        // SAFETY: both are fields of the block, of the size of the atomics. Readers beside the writer use the same atomics.
        let (count, state) = unsafe {
            (
                AtomicU16::from_ptr(&raw mut self.objects),
                AtomicU8::from_ptr((&raw mut self.state).cast()),
            )
        };
        // Release: partner of the Acquire in `objects_of` and `is_small`.
        count.store(objects, Ordering::Release);
        state.store(State::Small as u8, Ordering::Release);
    }

    /// How many objects a block has, and thereby what the fields say that were written before that.
    ///
    /// # Safety
    /// The descriptor must be readable.
    #[inline(always)]
    unsafe fn objects_of(block: *mut Block) -> usize {
        // SAFETY: a field of a readable descriptor, of the size of the atomic. Acquire: partner of `publish_small`.
        let objects = unsafe { AtomicU16::from_ptr(&raw mut (*block).objects) };
        usize::from(objects.load(Ordering::Acquire))
    }

    /// Whether a block has small objects, and thereby how many, and the rest as [`Block::objects_of`] says.
    ///
    /// # Safety
    /// The descriptor must be readable.
    #[inline(always)]
    unsafe fn is_small(block: *mut Block) -> bool {
        // SAFETY: a field of a readable descriptor, of the size of the atomic. Acquire: partner of `publish_small`.
        let state = unsafe { AtomicU8::from_ptr((&raw mut (*block).state).cast()) };
        state.load(Ordering::Acquire) == State::Small as u8
    }
}

/// The reciprocal with which `(inside * inverse) >> INVERSE_SHIFT` divides by `bytes`, which are at least a granule.
pub const fn inverse_of(bytes: usize) -> u32 {
    (1u64 << INVERSE_SHIFT).div_ceil(bytes as u64) as u32
}

/// Where a word points: an object, and how far into it. Both pointers lead into the heap's tables, which stay mapped.
#[derive(Clone, Copy)]
pub struct Resolved {
    /// First byte of the object.
    pub base: Address,
    /// Bytes from the base to the word that was resolved.
    pub displacement: usize,
    /// Its block (the head of a large object).
    pub block: *mut Block,
    /// The object's mark byte.
    pub mark: *const AtomicU8,
}

impl Resolved {
    /// Whether a collection found the object dead and its block waits to be swept, or to be taken if it was swept in the pause; or,
    /// while `is_deciding` says so, what becomes of its block is not decided yet. What the object takes is free then, whatever
    /// the program still says about it.
    #[inline]
    pub fn is_found_dead(&self, is_deciding: impl FnOnce() -> bool) -> bool {
        // SAFETY: a resolved object's block.
        let block = unsafe { &*self.block };
        if block.state != State::Small {
            return false;
        }
        // Read once, and before the mark: a block leaves its queue and is settled no more at the same time.
        let flags = block.flags.load(Ordering::Relaxed);
        // SAFETY: a resolved object's mark.
        let mark = unsafe { (*self.mark).load(Ordering::Relaxed) };
        if flags & SETTLED != 0 && mark == FREE {
            return true;
        }
        // What is allocated since is white as well, in blocks that are owned; only who has the lock changes that. In a
        // settled block, objects that are not marked yet are.
        mark == WHITE
            && (flags & (QUEUED | SETTLED) == QUEUED || flags & OWNED == 0 && is_deciding())
    }
}

/// The three parallel tables of the heap: blocks, descriptors, marks.
#[derive(Clone, Copy)]
pub struct BlockTable {
    /// First byte of the heap.
    pub heap: Address,
    /// Bytes of the heap's span.
    pub span: usize,
    /// Descriptor of the block at `heap`.
    pub blocks: *mut Block,
    /// Mark bytes: `MARKS_PER_BLOCK` for each block of the small part.
    pub marks: *mut AtomicU8,
    /// First block of the large part.
    pub large_start: BlockIndex,
    /// Where it says which block of the large part is the first without a descriptor; 0 if all are. It only grows.
    pub described: *const AtomicU32,
}

impl BlockTable {
    /// True if `word` lies in the span of the heap.
    #[inline(always)]
    pub fn contains(&self, word: usize) -> bool {
        word.wrapping_sub(self.heap.word()) < self.span
    }

    /// The descriptor of a block inside the span.
    #[inline(always)]
    pub fn block(&self, index: BlockIndex) -> *mut Block {
        // SAFETY: callers pass indices inside the span, and the table covers the span.
        unsafe { self.blocks.add(index as usize) }
    }

    /// The first byte of a block.
    #[inline(always)]
    pub fn start(&self, index: BlockIndex) -> Address {
        let small = index.min(self.large_start);
        let large = index - small;
        self.heap
            .add(((small as usize) << BLOCK_SHIFT) + ((large as usize) << LARGE_SHIFT))
    }

    /// The block that holds an address inside the span.
    #[inline(always)]
    pub fn index_of(&self, address: Address) -> BlockIndex {
        let offset = address.offset_from(self.heap);
        let small = offset.min((self.large_start as usize) << BLOCK_SHIFT);
        ((small >> BLOCK_SHIFT) + ((offset - small) >> LARGE_SHIFT)) as BlockIndex
    }

    /// The block in which a word inside the span lies, if the block has a descriptor. A block without one was never
    /// used.
    #[inline]
    pub fn described_at(&self, word: usize) -> Option<BlockIndex> {
        let index = self.index_of(Address::new(word));
        let is_described = index < self.large_start
            // SAFETY: a word before the descriptor table, which stays mapped. What the word names was mapped first.
            || index < unsafe { (*self.described).load(Ordering::Acquire) };
        is_described.then_some(index)
    }

    /// log2 of the bytes of a block.
    #[inline]
    pub fn shift_of(&self, index: BlockIndex) -> usize {
        if index < self.large_start {
            BLOCK_SHIFT
        } else {
            LARGE_SHIFT
        }
    }

    /// Bytes of neighbouring blocks of one part.
    #[inline]
    pub fn bytes_of(&self, first: BlockIndex, blocks: BlockIndex) -> usize {
        (blocks as usize) << self.shift_of(first)
    }

    /// The first mark byte of a block of small objects.
    #[inline(always)]
    pub fn marks_of(&self, index: BlockIndex) -> *mut AtomicU8 {
        // SAFETY: only blocks of the small part have marks here, and the mark table covers that part.
        unsafe { self.marks.add(index as usize * MARKS_PER_BLOCK) }
    }

    /// The object that `word`, which lies in the span, points into. No displacement rule is applied here.
    #[inline(always)]
    pub fn resolve(&self, word: usize) -> Option<Resolved> {
        let offset = word.wrapping_sub(self.heap.word());
        let index = (offset >> BLOCK_SHIFT) as BlockIndex;
        if index >= self.large_start {
            return self.resolve_large(word);
        }
        let block = self.block(index);
        // SAFETY: the descriptor table covers the small part; unused entries read as zero.
        if !unsafe { Block::is_small(block) } {
            return None;
        }
        // SAFETY: what a block of small objects says of them was written before it was one, and stays.
        let (inverse, objects, bytes) =
            unsafe { ((*block).inverse, (*block).objects, (*block).bytes) };
        let inside = offset & (BLOCK_BYTES - 1);
        let object = (inside * inverse as usize) >> INVERSE_SHIFT;
        if object >= usize::from(objects) {
            return None;
        }
        let start = object * bytes;
        Some(Resolved {
            base: Address::new(word - inside + start),
            displacement: inside - start,
            block,
            // SAFETY: `object` is below the number of cells, at most MARKS_PER_BLOCK.
            mark: unsafe { self.marks_of(index).add(object) },
        })
    }

    /// The block and the mark byte of the small object that starts at `word`, which lies in the span; nothing if what is there is
    /// something else. This is what [`BlockTable::resolve`] finds for most words, in fewer steps.
    #[inline(always)]
    pub fn resolve_base(&self, word: usize) -> Option<(*mut Block, *const AtomicU8)> {
        let offset = word.wrapping_sub(self.heap.word());
        let index = offset >> BLOCK_SHIFT;
        if index >= self.large_start as usize {
            return None;
        }
        // SAFETY: the table covers the small part, in which the word is.
        let block = unsafe { self.blocks.add(index) };
        // SAFETY: unused entries read as zero. What there is besides objects was written before there were any, and counts only then.
        let (objects, inverse) = unsafe { (Block::objects_of(block), (*block).inverse) };
        let product = (offset & (BLOCK_BYTES - 1)) * inverse as usize;
        let object = product >> INVERSE_SHIFT;
        // What is left of the product is less than the reciprocal only at the first byte of a cell.
        if object < objects && (product as u32) < inverse {
            // SAFETY: `object` is below the number of cells, at most MARKS_PER_BLOCK.
            let mark = unsafe { self.marks.add(index * MARKS_PER_BLOCK + object) };
            Some((block, mark))
        } else {
            None
        }
    }

    /// The object that any word points into, if it points into one.
    pub fn resolve_checked(&self, word: usize) -> Option<Resolved> {
        if self.contains(word) {
            self.resolve(word)
        } else {
            None
        }
    }

    #[cold]
    #[inline(never)]
    fn resolve_large(&self, word: usize) -> Option<Resolved> {
        let index = self.described_at(word)?;
        // SAFETY: the block has a descriptor; the lock holder alone changes descriptors, and nobody in a stopped world.
        let found = unsafe { &*self.block(index) };
        let distance = match found.state {
            State::LargeHead => 0,
            State::LargeRest => found.inverse,
            _ => return None,
        };
        let block = self.block(index - distance);
        // SAFETY: the head of a large object is inside the span.
        let object = unsafe { &*block };
        if object.state != State::LargeHead {
            return None;
        }
        // The heap and its large part begin at whole pages.
        let inside = word & (LARGE_BYTES - 1);
        let displacement = ((distance as usize) << LARGE_SHIFT) + inside;
        let base = Address::new(word - displacement);
        let reach = if object.has_flag(IGNORE_OFF_PAGE) {
            FIRST_PAGE.min(object.bytes)
        } else {
            object.bytes
        };
        (displacement < reach).then_some(Resolved {
            base,
            displacement,
            block,
            mark: &object.large_mark,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mark_sweep::size_classes::CELL_BYTES;

    #[test]
    fn blocks_of_both_parts_begin_where_the_ones_before_end() {
        let heap = Address::new(1 << 40);
        let table = BlockTable {
            heap,
            span: 8 * BLOCK_BYTES,
            blocks: core::ptr::null_mut(),
            marks: core::ptr::null_mut(),
            large_start: 3,
            described: &AtomicU32::new(6),
        };
        let blocks = 3 + 5 * (BLOCK_BYTES / LARGE_BYTES) as BlockIndex;
        let mut at = heap;
        for index in 0..blocks {
            let bytes = if index < 3 { BLOCK_BYTES } else { LARGE_BYTES };
            assert_eq!((table.start(index), table.bytes_of(index, 1)), (at, bytes));
            for inside in [0, 1, bytes / 2, bytes - 1] {
                assert_eq!(table.index_of(at.add(inside)), index);
                let described = (index < 6).then_some(index);
                assert_eq!(table.described_at(at.add(inside).word()), described);
                let as_small = (at.add(inside).offset_from(heap) >> BLOCK_SHIFT) as BlockIndex;
                assert_eq!(as_small >= 3, index >= 3, "the same part");
                assert!(as_small < blocks);
            }
            at = at.add(bytes);
        }
        assert_eq!(at, heap.add(table.span));
    }

    #[test]
    fn the_reciprocal_divides_exactly_for_every_class_and_offset() {
        for bytes in CELL_BYTES.map(usize::from) {
            let inverse = inverse_of(bytes);
            for inside in 0..BLOCK_BYTES {
                let product = inside * inverse as usize;
                let quotient = product >> INVERSE_SHIFT;
                assert_eq!(quotient, inside / bytes, "{inside} / {bytes}");
                let is_base = (product as u32) < inverse;
                assert_eq!(is_base, inside.is_multiple_of(bytes), "{inside} / {bytes}");
            }
        }
    }
}
