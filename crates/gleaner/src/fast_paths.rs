//! What a compiler needs to know of a heap to emit its fast paths: one plain record, in Rust and in C.
//!
//! A compiler reads it once for a heap and emits, with its numbers as constants:
//!
//! - allocation: `object = cursor; if bytes > large_bytes or limit - object < bytes, call; cursor = object + bytes;
//!   *object = header`. It pays to prefetch 512 bytes ahead of the object then. Of an array `whole_bytes` takes the
//!   place of `large_bytes`, and the length is written, too;
//! - a load: the slot's word w; if its low bit is 1 it is an immediate, if w is 0 it is null, else the reference is
//!   `(w << slot_shift) + slot_base`;
//! - a store: the reverse, then `card_dirty` to the byte `card_base + (slot >> card_shift)`;
//! - a load acquires and a store releases, so that a thread that finds a reference finds the object. On x86-64 ordinary
//!   moves do so; on Arm these are `ldar` and `stlr`;
//! - a poll: `if poll != 0, call`;
//! - an access to an element: `end = (index + 1) * element_bytes; if end > first_n, call; at = array + elements_offset +
//!   index * element_bytes`, and then a load or store at `at`. With [`Arrays::Contiguous`] nothing is compared.
//!
//! A load of an element beyond `first_n` need not call either. If `spine_bit` of the array's header is 0, the array
//! lies in one piece, and the element is where it would be otherwise. Else, with `beyond = index * element_bytes -
//! first_n` for an offset of at least `first_n`:
//!
//! ```text
//! number  = beyond >> arraylet_shift
//! pointer = load_acquire(array + elements_offset + first_n + (number << pointer_shift))     2^pointer_shift bytes
//! at      = pointer_base + ((pointer & !taint_bit) << slot_shift) + (beyond & ((1 << arraylet_shift) - 1))
//! ```
//!
//! If the pointer is `zero_pointer`, the element is zero or null, and nothing need be loaded.
//!
//! A store may go to `at` if `taint_bit` of the pointer is 0, followed by the barrier for `at`. This holds until the next
//! poll or call: only until then can no other mutator come to share what the pointer leads to. If the bit is set, the
//! store calls.
//!
//! An arraylet stays where it is, so code that goes over many elements finds `at` once for each arraylet. But a call may
//! store into the array, and thereby set the pointer to another arraylet.
//!
//! A compiler checks each field whose type is an enum first. If it does not know the value, it calls the functions of the
//! raw layer instead. All numbers hold as long as the heap does.

use gleaner_base::options::References;
use gleaner_mem::Address;
use gleaner_mem::cards::{CARD_SHIFT, DIRTY};
use gleaner_mem::header::{SPINE, TYPE_SHIFT, VERSION};
use gleaner_mem::object_model::{ELEMENTS, GRANULE, LENGTH, TypeId};
use gleaner_mem::spine::TAINT;
use gleaner_plans::scavenge::LARGE_BYTES;
use gleaner_plans::scavenge::mutator::offsets;

use crate::body::with_heap;
use crate::heap::Heap;

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
    /// The first N bytes of the elements behind the length; what is beyond them elsewhere, if a bit of the array's header
    /// says so (PLDI 2010).
    ZRay = 2,
    /// In guard mode (`array-guard`): each access to an element calls. The numbers about pointers below are of no use.
    Guarded = 3,
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
    /// See `slot_shift`; 0 in a heap with wide references, and in one with compressed references that lies below 16 GB.
    pub slot_base: u64,
    /// What a store has to do beside storing.
    pub barrier: Barrier,
    /// The card of a slot is the byte at `card_base + (slot >> card_shift)`, modulo 2^64.
    pub card_shift: u32,
    /// See `card_shift`.
    pub card_base: u64,
    /// What a store writes to the card.
    pub card_dirty: u32,
    /// Larger objects are not allocated in the buffer. Of arrays, `whole_bytes` says it.
    pub large_bytes: u32,
    /// In a mutator's record: 0 while memory in its buffer is zero already (4 bytes). It changes when the buffer does.
    /// Code that zeroes each object need not look.
    pub zeroes_offset: u32,
    /// Larger arrays, with header and length, are not allocated in the buffer.
    pub whole_bytes: u32,
    /// This many bytes of the elements of any array lie in one piece behind its length; 2^64 - 1 where all of them do.
    pub first_n: u64,
    /// The logarithm of an arraylet's bytes.
    pub arraylet_shift: u32,
    /// The logarithm of the bytes of a pointer to an arraylet.
    pub pointer_shift: u32,
    /// What pointers count from, in units of `1 << slot_shift` bytes.
    pub pointer_base: u64,
    /// The pointer to the arraylet that is all zero.
    pub zero_pointer: u64,
    /// Set in the header of an array that does not lie in one piece.
    pub spine_bit: u64,
    /// In a mutator's record: `first_n` (8 bytes), for code that is compiled for any heap. So are the following ones.
    pub first_n_offset: u32,
    /// In a mutator's record: `whole_bytes` (8 bytes).
    pub whole_bytes_offset: u32,
    /// In a mutator's record: `arraylet_shift` (4 bytes).
    pub arraylet_shift_offset: u32,
    /// In a mutator's record: `pointer_shift` (4 bytes).
    pub pointer_shift_offset: u32,
    /// In a mutator's record: `pointer_base` (8 bytes).
    pub pointer_base_offset: u32,
    /// Set in a pointer to what may not be written.
    pub taint_bit: u32,
    /// The embedder's word of type t (8 bytes) is at `type_data + 8 * t`: see
    /// [`Heap::type_data`](crate::Heap::type_data).
    pub type_data: u64,
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
        let pieces = with_heap!(&self.shared.kind, heap => *heap.pieces());
        let arrays = if pieces.is_fenced() {
            Arrays::Guarded
        } else if pieces.cut() {
            Arrays::ZRay
        } else {
            Arrays::Contiguous
        };
        let (slot_shift, slot_base): (u32, Address) = match self.references() {
            References::Wide => (0, Address::NULL),
            References::Compressed => (2, base),
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
            arrays,
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
            whole_bytes: with_heap!(&self.shared.kind, heap => heap.whole_bytes()) as u32,
            first_n: pieces.first_n as u64,
            arraylet_shift: pieces.arraylet_shift,
            pointer_shift: pieces.pointer_shift.into(),
            pointer_base: pieces.base.word() as u64,
            zero_pointer: pieces.zero.word(),
            spine_bit: SPINE,
            first_n_offset: offsets::FIRST_N as u32,
            whole_bytes_offset: offsets::WHOLE_BYTES as u32,
            arraylet_shift_offset: offsets::ARRAYLET_SHIFT as u32,
            pointer_shift_offset: offsets::POINTER_SHIFT as u32,
            pointer_base_offset: offsets::POINTER_BASE as u32,
            taint_bit: TAINT as u32,
            type_data: with_heap!(&self.shared.kind, heap => heap.model.types.data_start().word())
                as u64,
        }
    }
}
