//! What a compiler needs to know of a heap to emit its fast paths: one plain record, in Rust and in C.
//!
//! A compiler reads it once for a heap and emits, with its numbers as constants:
//!
//! - allocation: `object = cursor; if bytes > large_bytes or limit - object < bytes, call; cursor = object + bytes;
//!   *object = header`; It pays to prefetch 512 bytes ahead of the object then;
//! - a load: the slot's word w; if its low bit is 1 it is an immediate, if w is 0 it is null, else the reference is
//!   `(w << slot_shift) + slot_base`;
//! - a store: the reverse, then `card_dirty` to the byte `card_base + (slot >> card_shift)`;
//! - a poll: `if poll != 0, call`.
//!
//! Each field of the enums is checked first: a value that the compiler does not know means that it calls the functions
//! of the raw layer instead. All numbers hold as long as the heap does.

use gleaner_mem::Address;
use gleaner_mem::cards::{CARD_SHIFT, DIRTY};
use gleaner_mem::header::{TYPE_SHIFT, VERSION};
use gleaner_mem::object_model::{ELEMENTS, GRANULE, LENGTH, TypeId};
use gleaner_plans::scavenge::LARGE_BYTES;
use gleaner_plans::scavenge::mutator::offsets;

use crate::heap::{Heap, Kind, with_heap};

/// What a store has to do beside storing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Barrier {
    /// It dirties the card of the slot.
    Cards = 1,
}

/// How arrays lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Arrays {
    /// Length and elements in one piece.
    Contiguous = 1,
}

/// The record. Later versions only add fields at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct FastPaths {
    /// [`VERSION`](crate::raw::VERSION).
    pub version: u32,
    /// Bytes of this record.
    pub bytes: u32,
    /// In a mutator's record: where the next object begins (8 bytes); written by the code that allocates.
    pub cursor_offset: u32,
    /// In a mutator's record: where its buffer ends (8 bytes).
    pub limit_offset: u32,
    /// In a mutator's record: not 0 when it is to call the function that polls (4 bytes).
    pub poll_offset: u32,
    /// In a mutator's record: the newest frame of the shadow stack (8 bytes).
    pub frames_offset: u32,
    /// In a mutator's record: frame pointer, program counter and stack pointer of the compiled frame that was left last
    /// (8 bytes each).
    pub anchor_offset: u32,
    /// In a mutator's record: a word for the embedder (8 bytes).
    pub embedder_offset: u32,
    /// The header of a fresh object is `header_bits | type << type_shift`, 8 bytes at its start.
    pub header_bits: u64,
    /// See `header_bits`.
    pub type_shift: u32,
    /// Sizes of objects are multiples of this.
    pub granule: u32,
    /// 1 when fresh memory of a buffer is always zero already; else allocation zeroes the object, unless the word at
    /// `zeroes_offset` is 0.
    pub fresh_is_zero: u32,
    /// How arrays lie in memory.
    pub arrays: Arrays,
    /// Where an array has its length (4 bytes).
    pub length_offset: u32,
    /// Where the elements of an array begin.
    pub elements_offset: u32,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// A slot holds `(reference - slot_base) >> slot_shift`.
    pub slot_shift: u32,
    /// See `slot_shift`; 0 in a heap with wide references.
    pub slot_base: u64,
    /// What a store has to do beside storing.
    pub barrier: Barrier,
    /// The card of a slot is the byte at `card_base + (slot >> card_shift)`, modulo 2^64.
    pub card_shift: u32,
    /// See `card_shift`.
    pub card_base: u64,
    /// What a store writes to the card.
    pub card_dirty: u32,
    /// Larger objects are not allocated in the buffer.
    pub large_bytes: u32,
    /// In a mutator's record: 0 while memory in its buffer is zero already (4 bytes). It changes when the buffer does.
    /// Code that zeroes each object need not look.
    pub zeroes_offset: u32,
}

impl FastPaths {
    /// The header of a fresh object of that type.
    pub const fn header(&self, of: TypeId) -> u64 {
        self.header_bits | (of.get() as u64) << self.type_shift
    }
}

impl Heap {
    /// What a compiler needs to know of this heap.
    pub fn fast_paths(&self) -> FastPaths {
        let (base, card_base) =
            with_heap!(&self.shared.kind, heap => (heap.model.base, heap.cards.biased()));
        let zeroes_ahead = with_heap!(&self.shared.kind, heap => heap.zeroing.is_ahead());
        let (slot_shift, slot_base): (u32, Address) = match &self.shared.kind {
            Kind::Wide(_) => (0, Address::NULL),
            Kind::Compressed(_) => (2, base),
        };
        FastPaths {
            version: VERSION,
            bytes: size_of::<FastPaths>() as u32,
            cursor_offset: offsets::CURSOR as u32,
            limit_offset: offsets::LIMIT as u32,
            poll_offset: offsets::POLL as u32,
            frames_offset: offsets::FRAMES as u32,
            anchor_offset: offsets::ANCHOR as u32,
            embedder_offset: offsets::EMBEDDER as u32,
            header_bits: 0,
            type_shift: TYPE_SHIFT,
            granule: GRANULE as u32,
            fresh_is_zero: u32::from(zeroes_ahead),
            arrays: Arrays::Contiguous,
            length_offset: LENGTH as u32,
            elements_offset: ELEMENTS as u32,
            slot_bytes: self.slot_bytes() as u32,
            slot_shift,
            slot_base: slot_base.word() as u64,
            barrier: Barrier::Cards,
            card_shift: CARD_SHIFT,
            card_base: card_base as u64,
            card_dirty: DIRTY.into(),
            large_bytes: LARGE_BYTES as u32,
            zeroes_offset: offsets::ZEROES as u32,
        }
    }
}
