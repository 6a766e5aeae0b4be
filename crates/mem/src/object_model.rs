//! Precise objects: what a type says of its instances, how large they are and where their references lie.
//!
//! Every object begins with its [`header`]; fields begin at offset 8. An array has its length, 4 bytes,
//! at offset 8 and its elements from offset 16. Sizes are multiples of 8 and at least [`LEAST_BYTES`].
//!
//! What the table of offsets cannot say, a type says by functions of the embedder's ([`Shape::Traced`]).
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
pub use crate::traced::{Size, SizeFunction, Trace, TraceFunction, Visitor};

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
#[derive(Clone, Copy, Debug)]
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
    /// A structure with as many elements behind it as its length says, which lies where that of an array does.
    Tailed {
        /// Bytes before the first element, header and length included: at least 16.
        head: usize,
        /// Offsets of the slots in the head, in ascending order.
        references: &'a [u32],
        /// Bytes of an element.
        element: usize,
        /// Offsets of the slots in an element, from its start, in ascending order.
        element_references: &'a [u32],
    },
    /// What the embedder's functions say.
    Traced {
        /// Bytes of an instance.
        size: Size,
        /// Where its slots are.
        trace: Trace,
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
    /// Elements of so many bytes behind a head.
    Tail(usize),
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
            TypeError::Tail(bytes) => write!(
                out,
                "elements of {bytes} bytes behind a head: they have 1 to {MOST_STRUCTURE_BYTES} bytes; where they have \
                 slots, the head and they are multiples of a slot's size"
            ),
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
const TAILED: u8 = 4;
const TRACED: u8 = 5;

/// What the collector reads of a type: half a cache line.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    shape: u8,
    log2: u8,
    /// Slots of an element behind a head.
    element_count: u16,
    /// Bytes of a structure, or of a head.
    bytes: u32,
    /// Slots of a structure, or of a head.
    count: u32,
    /// Bytes of an element behind a head.
    element_bytes: u32,
    /// The offsets of `count` slots, then of `element_count`.
    offsets: *const u32,
    /// Null but for a traced type.
    traced: *const Traced,
}

/// A traced type's functions.
#[derive(Clone, Copy)]
struct Traced {
    size: Size,
    trace: Trace,
}

impl Record {
    const fn new(shape: u8, log2: u8) -> Record {
        Record {
            shape,
            log2,
            element_count: 0,
            bytes: 0,
            count: 0,
            element_bytes: 0,
            offsets: NonNull::dangling().as_ptr(),
            traced: core::ptr::null(),
        }
    }

    fn offset_count(&self) -> usize {
        self.count as usize + self.element_count as usize
    }

    /// The offsets of the slots in the head (of a structure: all), and of those in an element.
    #[inline(always)]
    fn offsets(&self) -> (&[u32], &[u32]) {
        // SAFETY: the record has so many offsets; none has a dangling but aligned pointer.
        let all = unsafe { core::slice::from_raw_parts(self.offsets, self.offset_count()) };
        all.split_at(self.count as usize)
    }

    /// The functions of a traced type.
    #[inline(always)]
    fn traced(&self) -> Option<&Traced> {
        // SAFETY: null, or the record's own box.
        unsafe { self.traced.as_ref() }
    }
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
            let record = Record::new(shape, 0);
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
        let (mut record, list) = describe(shape, slot_bytes)?;
        self.registering.lock();
        let number = self.count.load(Ordering::Relaxed);
        let fits = (number as usize) < MOST_TYPES;
        if fits {
            if !list.is_empty() {
                record.offsets = Box::into_raw(list).cast();
            }
            if let Shape::Traced { size, trace } = shape {
                record.traced = Box::into_raw(Box::new(Traced { size, trace }));
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
            if record.offset_count() > 0 {
                let list = core::ptr::slice_from_raw_parts_mut(
                    record.offsets.cast_mut(),
                    record.offset_count(),
                );
                // SAFETY: `register` made this box for this record alone.
                drop(unsafe { Box::from_raw(list) });
            }
            if !record.traced.is_null() {
                // SAFETY: as above.
                drop(unsafe { Box::from_raw(record.traced.cast_mut()) });
            }
        }
        // SAFETY: the table mapped exactly these bytes, and nobody uses it any more.
        unsafe { memory::unmap(self.records.cast(), TABLE_BYTES) };
    }
}

/// The record of a type for slots of `slot_bytes`, without its offsets, and these.
fn describe(shape: Shape<'_>, slot_bytes: usize) -> Result<(Record, Box<[u32]>), TypeError> {
    let mut record = Record::new(REFERENCES, slot_bytes.trailing_zeros() as u8);
    let mut list: Box<[u32]> = Box::default();
    match shape {
        Shape::References => {}
        Shape::Primitives { log2 } if log2 > 3 => return Err(TypeError::Element(log2)),
        Shape::Primitives { log2 } => (record.shape, record.log2) = (PRIMITIVES, log2 as u8),
        Shape::Structure { bytes, references } => {
            check_bytes(bytes, LEAST_BYTES)?;
            check_offsets(references, FIELDS..bytes, slot_bytes)?;
            list = references.into();
            record.shape = STRUCTURE;
            record.bytes = bytes.next_multiple_of(GRANULE) as u32;
            record.count = list.len() as u32;
        }
        Shape::Tailed {
            head,
            references,
            element,
            element_references,
        } => {
            let aligned = element_references.is_empty()
                || head.is_multiple_of(slot_bytes) && element.is_multiple_of(slot_bytes);
            check_tail(head, element, aligned)?;
            check_offsets(references, LENGTH + 4..head, slot_bytes)?;
            check_offsets(element_references, 0..element, slot_bytes)?;
            list = [references, element_references].concat().into();
            record.shape = TAILED;
            (record.bytes, record.element_bytes) = (head as u32, element as u32);
            record.count = references.len() as u32;
            record.element_count =
                u16::try_from(element_references.len()).map_err(|_| TypeError::Tail(element))?;
        }
        Shape::Traced { size, .. } => {
            match size {
                Size::Fixed(bytes) => check_bytes(bytes, LEAST_BYTES)?,
                Size::Tailed { head, element } => check_tail(head, element, true)?,
                Size::Function(_) => {}
            }
            record.shape = TRACED;
        }
    }
    Ok((record, list))
}

fn check_bytes(bytes: usize, least: usize) -> Result<(), TypeError> {
    let fits = (least..=MOST_STRUCTURE_BYTES).contains(&bytes);
    fits.then_some(()).ok_or(TypeError::Size(bytes))
}

fn check_tail(head: usize, element: usize, aligned: bool) -> Result<(), TypeError> {
    check_bytes(head, ELEMENTS)?;
    let fits = aligned && (1..=MOST_STRUCTURE_BYTES).contains(&element);
    fits.then_some(()).ok_or(TypeError::Tail(element))
}

fn check_offsets(
    references: &[u32],
    within: core::ops::Range<usize>,
    slot_bytes: usize,
) -> Result<(), TypeError> {
    let mut free = within.start;
    for &offset in references {
        let start = offset as usize;
        if start < free || !start.is_multiple_of(slot_bytes) || start + slot_bytes > within.end {
            return Err(TypeError::Offset(offset));
        }
        free = start + slot_bytes;
    }
    Ok(())
}

/// The size in bytes of an object with so many elements behind a head.
pub const fn tailed_bytes(head: usize, length: u32, element: usize) -> usize {
    (head + length as usize * element).next_multiple_of(GRANULE)
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
            TAILED => {
                // SAFETY: this shape has a length.
                let length = unsafe { self.length(object) };
                tailed_bytes(record.bytes as usize, length, record.element_bytes as usize)
            }
            // SAFETY: the caller's promise.
            TRACED => record.traced().map_or(GRANULE, |traced| unsafe {
                traced.size.of(traced.trace.data, object)
            }),
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
                for &offset in record.offsets().0 {
                    visit(object.add(offset as usize));
                }
            }
            // SAFETY: this shape has a length.
            TAILED => unsafe { self.scan_tailed(record, object, 0..usize::MAX, visit) },
            TRACED => {
                if let Some(traced) = record.traced() {
                    // SAFETY: the caller's promise.
                    unsafe { traced.trace.run(object, visit) };
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

    /// Visits the slots of the head, and of the elements in a range of numbers.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is of the record's type, which is tailed.
    #[inline]
    unsafe fn scan_tailed(
        &self,
        record: &Record,
        object: Address,
        elements: core::ops::Range<usize>,
        mut visit: impl FnMut(Address),
    ) {
        let (head, tail) = record.offsets();
        for &offset in head {
            visit(object.add(offset as usize));
        }
        if tail.is_empty() {
            return;
        }
        // SAFETY: this shape has a length.
        let length = unsafe { self.length(object) } as usize;
        for number in elements.start..elements.end.min(length) {
            let element =
                object.add(record.bytes as usize + number * record.element_bytes as usize);
            for &offset in tail {
                visit(element.add(offset as usize));
            }
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
            None => {
                let visit = |slot| {
                    if low <= slot && slot < high {
                        visit(slot);
                    }
                };
                // SAFETY: a header of this heap names one of its types.
                let record = unsafe { self.types.record(header.type_id()) };
                if record.shape == TAILED {
                    let (first, bytes) = (
                        object.word() + record.bytes as usize,
                        record.element_bytes as usize,
                    );
                    let elements = low.word().saturating_sub(first) / bytes
                        ..high.word().saturating_sub(first).div_ceil(bytes);
                    // SAFETY: the caller's promise.
                    unsafe { self.scan_tailed(record, object, elements, visit) };
                } else {
                    // SAFETY: the caller's promise.
                    unsafe { self.scan(header, object, visit) };
                }
            }
        }
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
                references: record.offsets().0,
            },
            REFERENCES => Shape::References,
            TAILED => Shape::Tailed {
                head: record.bytes as usize,
                references: record.offsets().0,
                element: record.element_bytes as usize,
                element_references: record.offsets().1,
            },
            TRACED => {
                let Traced { size, trace } = *record.traced()?;
                Shape::Traced { size, trace }
            }
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
    fn a_tail_is_scanned_element_by_element() {
        fn slots<F: SlotFormat>() {
            let model = model::<F>();
            let slot = F::BYTES as u32;
            let shape = Shape::Tailed {
                head: 32,
                references: &[16],
                element: 24,
                element_references: &[8, 16],
            };
            let id = model.types.register(shape, F::BYTES).unwrap();
            let mut place = [0u64; 64];
            let object = Address::of(&raw mut place);
            // SAFETY: the place has room for twenty elements.
            unsafe { object.add(LENGTH).ptr::<u32>().write(20) };
            let header = Header::fresh(id);
            // SAFETY: as above.
            assert_eq!(unsafe { model.size(header, object) }, 32 + 20 * 24);
            let mut all = Vec::new();
            // SAFETY: as above.
            unsafe { model.scan(header, object, |at| all.push(at.offset_from(object))) };
            let expected: Vec<usize> = core::iter::once(16)
                .chain((0..20).flat_map(|number| [40 + number * 24, 48 + number * 24]))
                .collect();
            assert_eq!(all, expected);
            // Every range has just the slots that lie in it.
            for low in (0..520).step_by(8) {
                for high in (low..520).step_by(8) {
                    let mut part = Vec::new();
                    // SAFETY: as above.
                    unsafe {
                        model.scan_between(
                            header,
                            object,
                            object.add(low),
                            object.add(high),
                            |at| {
                                part.push(at.offset_from(object));
                            },
                        );
                    }
                    let inside = expected.iter().filter(|at| (low..high).contains(at));
                    assert!(part.iter().eq(inside), "{low}..{high}: {part:?}");
                }
            }
            assert!(matches!(
                model.shape(id),
                Some(Shape::Tailed {
                    head: 32,
                    element: 24,
                    element_references: &[8, 16],
                    ..
                })
            ));
            let unaligned = Shape::Tailed {
                head: 16 + slot as usize / 2,
                references: &[],
                element: 24,
                element_references: &[0],
            };
            assert_eq!(
                model.types.register(unaligned, F::BYTES),
                Err(TypeError::Tail(24))
            );
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
        let tailed = |head, references, element| {
            let shape = Shape::Tailed {
                head,
                references,
                element,
                element_references: &[],
            };
            table.register(shape, 8)
        };
        assert_eq!(tailed(8, &[], 8), Err(TypeError::Size(8)));
        assert_eq!(tailed(32, &[8], 8), Err(TypeError::Offset(8)));
        assert_eq!(tailed(32, &[32], 8), Err(TypeError::Offset(32)));
        assert_eq!(tailed(32, &[16], 0), Err(TypeError::Tail(0)));
        assert_eq!(table.count(), 2);
        assert_eq!(structure(24, &[8, 16]).unwrap().get(), 2);
        assert!(TypeError::Offset(12).to_string().contains("offset 12"));
    }
    use std::string::ToString;
}
