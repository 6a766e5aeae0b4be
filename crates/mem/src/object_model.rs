//! Precise objects: what a type says of its instances, how large they are and where their references lie.
//!
//! Every object begins with its [`header`]; fields begin at offset 8. An array has its length, 4 bytes,
//! at offset 8 and its elements from offset 16. Sizes are multiples of 8 and at least [`LEAST_BYTES`].
//!
//! Two types are the collector's own and make every space walkable: [`TypeId::GAP`] is a single granule of 8 bytes
//! that is no object, [`TypeId::FILLER`] an array of bytes that nobody refers to.
//!
//! # Invariants
//! - A record is written once, before its number is handed out, and never changes. Types are never forgotten as long
//!   as the table lives.
//! - The table does not move, so a worker may read it while a mutator registers a type.

extern crate alloc;

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use gleaner_base::sync::{AtomicU32, Ordering, RawLock};
use gleaner_os::memory;

use crate::Address;
use crate::header::{self, Header};
use crate::slot::SlotFormat;

/// Bytes of a granule: the alignment of objects.
pub const GRANULE: usize = 8;
/// The least size of an object.
pub const LEAST_BYTES: usize = 16;
/// Where fields begin.
pub const FIELDS: usize = 8;
/// Where the length of an array lies, 4 bytes.
pub const LENGTH: usize = 8;
/// Where the elements of an array begin.
pub const ELEMENTS: usize = 16;
/// How many types a heap can have. The header has room for 2^24; the table is mapped in one piece.
pub const MOST_TYPES: usize = 1 << 18;

/// The number of a type: at most 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct TypeId(u32);

impl TypeId {
    /// A single granule between objects.
    pub const GAP: TypeId = TypeId(0);
    /// Bytes between objects, in the form of an array of bytes.
    pub const FILLER: TypeId = TypeId(1);

    /// The type of that number.
    pub const fn new(number: u32) -> TypeId {
        TypeId(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether its instances are the collector's own.
    pub const fn is_filler(self) -> bool {
        self.0 <= TypeId::FILLER.0
    }
}

/// What a type is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape<'a> {
    /// A fixed size with references at these offsets from the start of the object, in ascending order.
    Structure {
        /// Bytes of an instance, the header included; rounded up to whole granules.
        bytes: usize,
        /// Offsets of the slots.
        references: &'a [u32],
    },
    /// An array of slots.
    References,
    /// An array of elements without references, of 2^`log2` bytes each: 1, 2, 4 or 8.
    Primitives {
        /// The logarithm of the element's size.
        log2: u32,
    },
}

/// Why a type is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeError {
    /// An instance would be too small or too large.
    Size(usize),
    /// A slot at this offset lies outside of the fields, is not aligned, or does not follow the slot before it.
    Offset(u32),
    /// Elements of 2^this bytes.
    Element(u32),
    /// There are [`MOST_TYPES`] types, or the system gives no more memory.
    Full,
}

impl fmt::Display for TypeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeError::Size(bytes) => write!(
                out,
                "instances of {bytes} bytes: a structure has {LEAST_BYTES} to {MOST_STRUCTURE_BYTES} bytes, \
                 the header of 8 included"
            ),
            TypeError::Offset(offset) => write!(
                out,
                "a reference at offset {offset}: slots lie behind the header of 8 bytes and inside the instance, \
                 are aligned to their size, and are given in ascending order"
            ),
            TypeError::Element(log2) => {
                write!(
                    out,
                    "elements of 2^{log2} bytes: primitive elements have 1, 2, 4 or 8 bytes"
                )
            }
            TypeError::Full => write!(
                out,
                "no room for another type: a heap can have {MOST_TYPES}"
            ),
        }
    }
}

impl core::error::Error for TypeError {}

/// The largest structure.
pub const MOST_STRUCTURE_BYTES: usize = 1 << 20;

const STRUCTURE: u8 = 0;
const REFERENCES: u8 = 1;
const PRIMITIVES: u8 = 2;
const GAP: u8 = 3;

/// What the collector reads of a type.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    shape: u8,
    log2: u8,
    /// Bytes of a structure.
    bytes: u32,
    /// Slots of a structure.
    count: u32,
    offsets: *const u32,
}

/// The types of one heap.
pub struct TypeTable {
    records: NonNull<Record>,
    /// How many there are. Release in `register` partners Acquire in `count`.
    count: AtomicU32,
    /// Taken to register; protects the records past `count`.
    registering: RawLock,
}

// SAFETY: records below `count` are never written again, the others only under the lock.
unsafe impl Sync for TypeTable {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for TypeTable {}

const TABLE_BYTES: usize = MOST_TYPES * size_of::<Record>();

impl TypeTable {
    /// A table with the collector's own types; `None` when the system gives no memory.
    pub fn new() -> Option<TypeTable> {
        let table = TypeTable {
            records: memory::map(TABLE_BYTES)?.cast(),
            count: AtomicU32::new(2),
            registering: RawLock::new(),
        };
        let own = [(TypeId::GAP, GAP), (TypeId::FILLER, PRIMITIVES)];
        for (id, shape) in own {
            let record = Record {
                shape,
                log2: 0,
                bytes: 0,
                count: 0,
                offsets: NonNull::dangling().as_ptr(),
            };
            // SAFETY: both lie inside the mapping, and nobody else knows the table yet.
            unsafe { table.records.add(id.0 as usize).write(record) };
        }
        Some(table)
    }

    /// How many types there are, the collector's own included.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a type for slots of `slot_bytes`. Allocates; the world must run.
    pub fn register(&self, shape: Shape<'_>, slot_bytes: usize) -> Result<TypeId, TypeError> {
        let mut record = Record {
            shape: REFERENCES,
            log2: slot_bytes.trailing_zeros() as u8,
            bytes: 0,
            count: 0,
            offsets: NonNull::dangling().as_ptr(),
        };
        let mut list: Box<[u32]> = Box::default();
        match shape {
            Shape::References => {}
            Shape::Primitives { log2 } if log2 > 3 => return Err(TypeError::Element(log2)),
            Shape::Primitives { log2 } => (record.shape, record.log2) = (PRIMITIVES, log2 as u8),
            Shape::Structure { bytes, references } => {
                check_structure(bytes, references, slot_bytes)?;
                list = references.into();
                record.shape = STRUCTURE;
                record.bytes = bytes.next_multiple_of(GRANULE) as u32;
                record.count = list.len() as u32;
            }
        }
        self.registering.lock();
        let number = self.count.load(Ordering::Relaxed);
        let fits = (number as usize) < MOST_TYPES;
        if fits {
            if !list.is_empty() {
                record.offsets = Box::into_raw(list).cast();
            }
            // SAFETY: inside the mapping, not handed out yet, and the lock is held.
            unsafe { self.records.add(number as usize).write(record) };
            self.count.store(number + 1, Ordering::Release);
        }
        self.registering.unlock();
        fits.then_some(TypeId(number)).ok_or(TypeError::Full)
    }

    /// The record of a type of this table.
    ///
    /// # Safety
    /// `id` came from this table.
    #[inline(always)]
    unsafe fn record(&self, id: TypeId) -> &Record {
        // SAFETY: the caller's promise; the record is never written again.
        unsafe { self.records.add(id.0 as usize).as_ref() }
    }
}

impl Drop for TypeTable {
    fn drop(&mut self) {
        for number in 0..self.count() {
            // SAFETY: a record below `count`.
            let record = unsafe { self.record(TypeId(number)) };
            if record.count > 0 {
                let list = core::ptr::slice_from_raw_parts_mut(
                    record.offsets.cast_mut(),
                    record.count as usize,
                );
                // SAFETY: `register` made this box for this record alone.
                drop(unsafe { Box::from_raw(list) });
            }
        }
        // SAFETY: the table mapped exactly these bytes, and nobody uses it any more.
        unsafe { memory::unmap(self.records.cast(), TABLE_BYTES) };
    }
}

fn check_structure(bytes: usize, references: &[u32], slot_bytes: usize) -> Result<(), TypeError> {
    if !(LEAST_BYTES..=MOST_STRUCTURE_BYTES).contains(&bytes) {
        return Err(TypeError::Size(bytes));
    }
    let mut free = FIELDS;
    for &offset in references {
        let start = offset as usize;
        if start < free || !start.is_multiple_of(slot_bytes) || start + slot_bytes > bytes {
            return Err(TypeError::Offset(offset));
        }
        free = start + slot_bytes;
    }
    Ok(())
}

/// The size of an array in bytes, of elements of 2^`log2` bytes.
pub const fn array_bytes(length: u32, log2: u32) -> usize {
    (ELEMENTS + ((length as usize) << log2)).next_multiple_of(GRANULE)
}

/// Makes the `bytes` bytes from `start`, a multiple of 8 and not 0, into fillers.
///
/// # Safety
/// The range must be memory of the heap that no object uses and no other thread touches.
pub unsafe fn fill(start: Address, bytes: usize) {
    let mut start = start;
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(array_bytes(u32::MAX - 7, 0));
        if piece == GRANULE {
            // SAFETY: the caller vouches for the range.
            unsafe { header::store(start, Header::fresh(TypeId::GAP)) };
        } else {
            // SAFETY: as above; a piece of two granules has room for header and length.
            unsafe {
                header::store(start, Header::fresh(TypeId::FILLER));
                start
                    .add(LENGTH)
                    .ptr::<u32>()
                    .write((piece - ELEMENTS) as u32);
            }
        }
        start = start.add(piece);
        left -= piece;
    }
}

/// How the objects of a heap with slots of format `F` are laid out.
pub struct ObjectModel<F> {
    /// The types.
    pub types: TypeTable,
    /// The start of the span: what compressed references count from.
    pub base: Address,
    format: PhantomData<F>,
}

impl<F: SlotFormat> ObjectModel<F> {
    /// The model of a heap whose span begins at `base`.
    pub fn new(types: TypeTable, base: Address) -> ObjectModel<F> {
        ObjectModel {
            types,
            base,
            format: PhantomData,
        }
    }

    /// The number of elements of an array.
    ///
    /// # Safety
    /// An array must lie at `object`.
    #[inline(always)]
    pub unsafe fn length(&self, object: Address) -> u32 {
        // SAFETY: the caller vouches for the array.
        unsafe { object.add(LENGTH).ptr::<u32>().read() }
    }

    /// The bytes of the object at `object` whose header is `header`.
    ///
    /// # Safety
    /// An object of this heap, or a filler, must lie there, and `header` must not be that of an object that moved.
    #[inline(always)]
    pub unsafe fn size(&self, header: Header, object: Address) -> usize {
        // SAFETY: a header of this heap names one of its types.
        let record = unsafe { self.types.record(header.type_id()) };
        match record.shape {
            STRUCTURE => record.bytes as usize,
            GAP => GRANULE,
            // SAFETY: the other shapes are arrays.
            _ => array_bytes(unsafe { self.length(object) }, u32::from(record.log2)),
        }
    }

    /// The slots of an array of references, as (first slot, number); `None` for other objects.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline(always)]
    pub unsafe fn array_slots(&self, header: Header, object: Address) -> Option<(Address, usize)> {
        // SAFETY: a header of this heap names one of its types.
        let record = unsafe { self.types.record(header.type_id()) };
        if record.shape != REFERENCES {
            return None;
        }
        // SAFETY: this shape is an array.
        let length = unsafe { self.length(object) };
        Some((object.add(ELEMENTS), length as usize))
    }

    /// Visits each slot of an object.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline(always)]
    pub unsafe fn scan(&self, header: Header, object: Address, mut visit: impl FnMut(Address)) {
        // SAFETY: a header of this heap names one of its types.
        let record = unsafe { self.types.record(header.type_id()) };
        match record.shape {
            STRUCTURE => {
                for index in 0..record.count as usize {
                    // SAFETY: the record has `count` offsets.
                    visit(object.add(unsafe { *record.offsets.add(index) } as usize));
                }
            }
            REFERENCES => {
                // SAFETY: this shape is an array.
                let length = unsafe { self.length(object) } as usize;
                for index in 0..length {
                    visit(object.add(ELEMENTS + index * F::BYTES));
                }
            }
            _ => {}
        }
    }

    /// Visits the slots of an object that lie in `low..high`.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline]
    pub unsafe fn scan_between(
        &self,
        header: Header,
        object: Address,
        low: Address,
        high: Address,
        mut visit: impl FnMut(Address),
    ) {
        // SAFETY: the caller's promise.
        match unsafe { self.array_slots(header, object) } {
            Some((first, length)) => {
                let end = first.add(length * F::BYTES);
                let mut slot = if first < low { low } else { first };
                let end = if end < high { end } else { high };
                while slot < end {
                    visit(slot);
                    slot = slot.add(F::BYTES);
                }
            }
            // SAFETY: the caller's promise.
            None => unsafe {
                self.scan(header, object, |slot| {
                    if low <= slot && slot < high {
                        visit(slot);
                    }
                });
            },
        }
    }

    /// The offsets of the slots of a structure.
    fn offsets(&self, id: TypeId) -> Option<&[u32]> {
        if id.0 >= self.types.count() {
            return None;
        }
        // SAFETY: a number below the count is that of a type.
        let record = unsafe { self.types.record(id) };
        // SAFETY: the record has `count` offsets; none has a dangling but aligned pointer.
        (record.shape == STRUCTURE)
            .then(|| unsafe { core::slice::from_raw_parts(record.offsets, record.count as usize) })
    }

    /// What the type is; `None` for the collector's own and unknown ones.
    pub fn shape(&self, id: TypeId) -> Option<Shape<'_>> {
        if id.is_filler() || id.0 >= self.types.count() {
            return None;
        }
        // SAFETY: a number below the count is that of a type.
        let record = unsafe { self.types.record(id) };
        Some(match record.shape {
            STRUCTURE => Shape::Structure {
                bytes: record.bytes as usize,
                references: self.offsets(id)?,
            },
            REFERENCES => Shape::References,
            _ => Shape::Primitives {
                log2: u32::from(record.log2),
            },
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slot::{Compressed, Wide};
    use std::vec::Vec;

    fn model<F: SlotFormat>() -> ObjectModel<F> {
        ObjectModel::new(TypeTable::new().unwrap(), Address::new(0x1000))
    }

    #[test]
    fn sizes_follow_from_shape_and_length() {
        let model = model::<Wide>();
        let pair = model
            .types
            .register(
                Shape::Structure {
                    bytes: 23,
                    references: &[8],
                },
                8,
            )
            .unwrap();
        let shorts = model
            .types
            .register(Shape::Primitives { log2: 1 }, 8)
            .unwrap();
        let mut place = [0u64; 8];
        let object = Address::of(&raw mut place);
        let size = |id| {
            // SAFETY: the place is large enough for header and length.
            unsafe { model.size(Header::fresh(id), object) }
        };
        assert_eq!(size(pair), 24);
        // SAFETY: as above.
        unsafe { object.add(LENGTH).ptr::<u32>().write(5) };
        assert_eq!(size(shorts), 32);
        assert_eq!((size(TypeId::GAP), size(TypeId::FILLER)), (8, 24));
        assert_eq!(array_bytes(0, 3), 16);
    }

    #[test]
    fn fillers_cover_every_range() {
        let model = model::<Wide>();
        let mut place = [!0u64; 8];
        let start = Address::of(&raw mut place);
        for granules in 1..=8 {
            // SAFETY: the place is this test's.
            unsafe {
                fill(start, granules * 8);
                assert_eq!(
                    model.size(header::load(start, Ordering::Relaxed), start),
                    granules * 8
                );
            }
        }
    }

    #[test]
    fn scanning_visits_the_slots_and_no_others() {
        fn slots<F: SlotFormat>() {
            let model = model::<F>();
            let id = model.types.register(Shape::References, F::BYTES).unwrap();
            let mut place = [0u64; 16];
            let object = Address::of(&raw mut place);
            // SAFETY: the place is large enough.
            unsafe { object.add(LENGTH).ptr::<u32>().write(6) };
            let mut found = Vec::new();
            // SAFETY: an array of six slots lies there.
            unsafe {
                model.scan(Header::fresh(id), object, |slot| {
                    found.push(slot.offset_from(object))
                });
            }
            let all: Vec<usize> = (0..6).map(|index| 16 + index * F::BYTES).collect();
            assert_eq!(found, all);
            let (low, high) = (object.add(all[2]), object.add(all[4]));
            let mut part = Vec::new();
            // SAFETY: as above.
            unsafe {
                model.scan_between(Header::fresh(id), object, low, high, |slot| {
                    part.push(slot.offset_from(object));
                });
            }
            assert_eq!(part, &all[2..4]);
        }
        slots::<Wide>();
        slots::<Compressed>();
    }

    #[test]
    fn wrong_types_are_refused_with_the_reason() {
        let table = TypeTable::new().unwrap();
        let structure =
            |bytes, references| table.register(Shape::Structure { bytes, references }, 8);
        assert_eq!(structure(8, &[]), Err(TypeError::Size(8)));
        assert_eq!(structure(24, &[0]), Err(TypeError::Offset(0)));
        assert_eq!(structure(24, &[12]), Err(TypeError::Offset(12)));
        assert_eq!(structure(24, &[16, 8]), Err(TypeError::Offset(8)));
        assert_eq!(structure(20, &[16]), Err(TypeError::Offset(16)));
        assert_eq!(
            table.register(Shape::Primitives { log2: 4 }, 8),
            Err(TypeError::Element(4))
        );
        assert_eq!(table.count(), 2);
        assert_eq!(structure(24, &[8, 16]).unwrap().get(), 2);
        assert!(TypeError::Offset(12).to_string().contains("offset 12"));
    }
    use std::string::ToString;
}
