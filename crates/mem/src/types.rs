//! Types of precise objects: what the embedder registers, and the record that the collector reads of it.
//!
//! # Invariants
//! - A record is written before its number is handed out, and does not change as long as the type has an instance. A type
//!   is unregistered when it has none, and when nobody will make one; then nobody reads its record, and its number may be
//!   handed out again.
//! - The table does not move, so a worker may read it while a mutator registers a type.

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;

use gleaner_base::sync::{AtomicU32, Ordering, RawLock, UnsafeCell};

use crate::Address;
use crate::growing::Growing;
use crate::object_layout::{ELEMENTS, FIELDS, GRANULE, LEAST_BYTES, LENGTH};
use crate::offsets;
use crate::traced::{Size, Trace};
use crate::type_data::TypeData;
use crate::type_names::TypeNames;
use crate::weak_slots::{Slots, WeakParts};

/// How many types a heap can have, if it is not small ([`most_types`]). The header has room for 2^24; the table is mapped in
/// one piece.
pub const MOST_TYPES: usize = 1 << 18;

/// How many types a heap with this limit can have: one for each of the smallest objects. A small heap has a small table.
pub fn most_types(limit: usize) -> usize {
    (limit / LEAST_BYTES).clamp(2, MOST_TYPES)
}

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
    /// A structure some of whose slots are weak or ephemerons, with as many elements behind it as its length says, if
    /// they have any bytes.
    Weak {
        /// Bytes before the first element, header and length included: at least 16.
        head: usize,
        /// The slots in the head.
        slots: Slots<'a>,
        /// Bytes of an element; 0 if there are none, and no length.
        element: usize,
        /// The slots in an element.
        element_slots: Slots<'a>,
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
    /// Elements of this many bytes behind a head.
    Tail(usize),
    /// The heap has as many types as it can have ([`most_types`]), or the system gives no more memory.
    Full,
    /// The heap has slots of this many bytes, and the program was compiled for others.
    Slots(usize),
    /// This option of the environment changed how objects lie in memory, which the program may not know of.
    Layout(&'static str),
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
                "a reference at offset {offset}: slots lie behind the header of 8 bytes (behind the length at 8, where there \
                 are elements) and inside the instance, are aligned to their size, and are given in ascending order"
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
                "no room for another type: a heap can have {MOST_TYPES}, and one for each {LEAST_BYTES} bytes of its limit \
                 if that is less"
            ),
            TypeError::Slots(bytes) => write!(
                out,
                "the program was compiled for other slots than those of {bytes} bytes, which option refs gave the heap: \
                 build the heap with the references that the program knows"
            ),
            TypeError::Layout(option) => write!(
                out,
                "option {option} in GLEANER_OPTIONS changes how objects lie in memory, and the program does not say \
                 whether its code follows (Builder::outside_layout): leave {option} out"
            ),
        }
    }
}

impl core::error::Error for TypeError {}

/// The largest structure.
pub const MOST_STRUCTURE_BYTES: usize = 1 << 20;

pub(crate) const STRUCTURE: u8 = 0;
pub(crate) const REFERENCES: u8 = 1;
pub(crate) const PRIMITIVES: u8 = 2;
pub(crate) const GAP: u8 = 3;
pub(crate) const TAILED: u8 = 4;
pub(crate) const TRACED: u8 = 5;
/// Of a type that was unregistered: a number that may be handed out again.
pub(crate) const UNREGISTERED: u8 = 6;
pub(crate) const WEAK: u8 = 7;

/// What the collector reads of a type: half a cache line.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Record {
    pub(crate) shape: u8,
    pub(crate) log2: u8,
    /// Slots of an element behind a head.
    pub(crate) element_count: u16,
    /// Bytes of a structure, or of a head. Of an array, not 0 where it always lies in one piece.
    pub(crate) bytes: u32,
    /// Slots of a structure, or of a head.
    pub(crate) count: u32,
    /// Of a structure, where the bytes begin that are behind all slots; its end if other bytes lie before a slot.
    /// Behind a head, the bytes of an element.
    pub(crate) rest: u32,
    /// The offsets of `count` slots, then of `element_count`.
    pub(crate) offsets: *const u32,
    /// What a traced type and one with weak slots have beside; else null.
    more: *const More,
}

/// What a type has that is neither a structure nor an array of one kind of slots.
pub(crate) enum More {
    Traced(Traced),
    Weak(WeakParts),
}

/// A traced type's functions.
#[derive(Clone, Copy)]
pub(crate) struct Traced {
    pub(crate) size: Size,
    pub(crate) trace: Trace,
}

impl Record {
    const fn new(shape: u8, log2: u8) -> Record {
        Record {
            shape,
            log2,
            element_count: 0,
            bytes: 0,
            count: 0,
            rest: 0,
            offsets: NonNull::dangling().as_ptr(),
            more: core::ptr::null(),
        }
    }

    /// A head and the elements behind it, of so many bytes, with slots at these offsets: the list of them.
    fn set_tail(
        &mut self,
        (head, references): (usize, &[u32]),
        (element, element_references): (usize, &[u32]),
    ) -> Result<Box<[u32]>, TypeError> {
        (self.bytes, self.rest) = (head as u32, element as u32);
        self.count = references.len() as u32;
        self.element_count =
            u16::try_from(element_references.len()).map_err(|_| TypeError::Tail(element))?;
        Ok([references, element_references].concat().into())
    }

    fn offset_count(&self) -> usize {
        self.count as usize + self.element_count as usize
    }

    /// The offsets of the slots in the head (of a structure: all), and of those in an element.
    #[inline(always)]
    pub(crate) fn offsets(&self) -> (&[u32], &[u32]) {
        // SAFETY: the record has `offset_count()` offsets; where there are none, the pointer is dangling but aligned.
        let all = unsafe { core::slice::from_raw_parts(self.offsets, self.offset_count()) };
        all.split_at(self.count as usize)
    }

    /// Frees what the record leads to. Nobody reads the record afterwards.
    fn drop_lists(&self) {
        if self.offset_count() > 0 {
            let offsets = self.offsets.cast_mut();
            let list = core::ptr::slice_from_raw_parts_mut(offsets, self.offset_count());
            // SAFETY: `register` made this box for this record alone.
            drop(unsafe { Box::from_raw(list) });
        }
        if !self.more.is_null() {
            // SAFETY: `register` made this box for this record alone.
            drop(unsafe { Box::from_raw(self.more.cast_mut()) });
        }
    }

    #[inline(always)]
    fn more(&self) -> Option<&More> {
        // SAFETY: null, or the record's own box.
        unsafe { self.more.as_ref() }
    }

    /// The functions of a traced type.
    #[inline(always)]
    pub(crate) fn traced(&self) -> Option<&Traced> {
        match self.more() {
            Some(More::Traced(traced)) => Some(traced),
            _ => None,
        }
    }

    /// What is weak in objects of the type.
    #[inline(always)]
    pub(crate) fn weak(&self) -> Option<&WeakParts> {
        match self.more() {
            Some(More::Weak(parts)) => Some(parts),
            _ => None,
        }
    }
}

/// The types of one heap.
pub struct TypeTable {
    records: NonNull<Record>,
    /// How many there are. Release in `register` partners Acquire in `count`.
    count: AtomicU32,
    /// Taken to register and to name; protects the records past `count`, and the memory.
    registering: RawLock,
    /// Where the records are.
    memory: UnsafeCell<Growing>,
    /// The embedder's word of each type. Grown under `registering`.
    data: TypeData,
    /// Numbers of types that were unregistered. Protected by `registering`.
    unregistered: UnsafeCell<Vec<TypeId>>,
    /// What the embedder calls them. Written under `registering`.
    names: TypeNames,
}

// SAFETY: records of types are not written while somebody reads them (see the invariants), all others under the lock.
unsafe impl Sync for TypeTable {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for TypeTable {}

impl TypeTable {
    /// A table with the collector's own types, for `most` types in all; `None` when the system gives no memory.
    pub fn new(most: usize) -> Option<TypeTable> {
        let mut memory = Growing::new(most * size_of::<Record>())?;
        if !memory.grow_to(2 * size_of::<Record>()) {
            return None;
        }
        let table = TypeTable {
            records: memory.start().cast(),
            count: AtomicU32::new(2),
            registering: RawLock::new(),
            memory: UnsafeCell::new(memory),
            data: TypeData::new(most)?,
            unregistered: UnsafeCell::new(Vec::new()),
            names: TypeNames::new(most)?,
        };
        let own = [(TypeId::GAP, GAP), (TypeId::FILLER, PRIMITIVES)];
        for (id, shape) in own {
            let record = Record::new(shape, 0);
            // SAFETY: both lie inside the mapping, and nobody else knows the table yet.
            unsafe { table.records.add(id.0 as usize).write(record) };
            // SAFETY: nobody else knows the table yet, and the numbers ascend.
            if !unsafe { table.data.add(id.0 as usize) } {
                return None;
            }
        }
        Some(table)
    }

    /// How many types there are, the collector's own included.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a type for slots of `slot_bytes`. Allocates; the world must run.
    pub fn register(&self, shape: Shape<'_>, slot_bytes: usize) -> Result<TypeId, TypeError> {
        self.add(describe(shape, slot_bytes)?)
    }

    /// As [`TypeTable::register`], for structures of `bytes` bytes without references in which no index leads to anything
    /// ([`places`](crate::places)): what they hold is the heap's own.
    pub fn register_sealed(&self, bytes: usize) -> Result<TypeId, TypeError> {
        let references = &[];
        let mut described = describe(Shape::Structure { bytes, references }, size_of::<usize>())?;
        described.record.rest = described.record.bytes;
        self.add(described)
    }

    fn add(&self, described: Description) -> Result<TypeId, TypeError> {
        let Description {
            mut record,
            list,
            more,
        } = described;
        self.registering.lock();
        let room = self.room();
        if let Some(number) = room {
            if !list.is_empty() {
                record.offsets = Box::into_raw(list).cast();
            }
            if let Some(more) = more {
                record.more = Box::into_raw(Box::new(more));
            }
            // SAFETY: inside the mapping, not handed out yet, and the lock is held.
            unsafe { self.records.add(number as usize).write(record) };
            // SAFETY: `registering` is held.
            unsafe { self.names.forget(number) };
            if number == self.count.load(Ordering::Relaxed) {
                self.count.store(number + 1, Ordering::Release);
            }
        }
        self.registering.unlock();
        room.map(TypeId).ok_or(TypeError::Full)
    }

    /// With the lock held: the number of the next type, for whose record and word there is room.
    fn room(&self) -> Option<u32> {
        // SAFETY: `registering` is held, and the list is used under it only.
        let free = self
            .unregistered
            .with_mut(|free| unsafe { &mut *free }.pop());
        if let Some(TypeId(number)) = free {
            return Some(number);
        }
        let number = self.count.load(Ordering::Relaxed);
        let bytes = (number as usize + 1) * size_of::<Record>();
        // SAFETY: `registering` is held, and `memory` is used under it only.
        let fits = self
            .memory
            .with_mut(|memory| unsafe { &mut *memory }.grow_to(bytes))
            // SAFETY: `registering` is held, and nobody was told the next number yet.
            && unsafe { self.data.add(number as usize) };
        fits.then_some(number)
    }

    /// Forgets a type, whose number may be that of another type from then on; false if it is not registered here.
    ///
    /// # Safety
    /// No instance of the type is left, not even a dead one, and nobody makes one.
    pub unsafe fn unregister(&self, id: TypeId) -> bool {
        self.registering.lock();
        let is_known = self.has(id);
        if is_known {
            // SAFETY: a record below `count`; the type has no instance, as asked, so nobody else uses the record.
            let record = unsafe { &mut *self.records.add(id.0 as usize).as_ptr() };
            record.drop_lists();
            *record = Record::new(UNREGISTERED, 0);
            // SAFETY: the word of a registered type was added.
            unsafe { self.data.set(id.0 as usize, Address::NULL) };
            // SAFETY: `registering` is held, and the list is used under it only.
            self.unregistered
                .with_mut(|free| unsafe { &mut *free }.push(id));
        }
        self.registering.unlock();
        is_known
    }

    /// As [`TypeTable::register`], and if it is a type of arrays, they always lie in one piece.
    pub fn register_whole(&self, shape: Shape<'_>, slot_bytes: usize) -> Result<TypeId, TypeError> {
        let mut described = describe(shape, slot_bytes)?;
        if matches!(described.record.shape, REFERENCES | PRIMITIVES) {
            described.record.bytes = 1;
        }
        self.add(described)
    }

    /// Whether the type was registered here: it is none of the collector's own.
    pub fn has(&self, id: TypeId) -> bool {
        // SAFETY: a number below the count has a record.
        !id.is_filler() && id.0 < self.count() && unsafe { self.record(id) }.shape != UNREGISTERED
    }

    /// The embedder's word of a type, null before it was set; `None` of a type that is not registered here.
    pub fn data(&self, id: TypeId) -> Option<Address> {
        // SAFETY: the word of a registered type was added.
        self.has(id)
            .then(|| unsafe { self.data.get(id.0 as usize) })
    }

    /// Sets the embedder's word of a type; `None` if the type is not registered here.
    pub fn set_data(&self, id: TypeId, data: Address) -> Option<()> {
        // SAFETY: the word of a registered type was added.
        self.has(id)
            .then(|| unsafe { self.data.set(id.0 as usize, data) })
    }

    /// Where the words of the embedder lie: that of a type is the word at its number.
    pub fn data_start(&self) -> Address {
        self.data.start()
    }

    /// The logarithm of an element's bytes, and whether elements are slots, of a type whose arrays may be cut into pieces.
    ///
    /// # Safety
    /// `id` came from this table.
    pub unsafe fn element_of(&self, id: TypeId) -> Option<(u32, bool)> {
        // SAFETY: `id` came from this table, as asked.
        let record = unsafe { self.record(id) };
        let may_be_cut = matches!(record.shape, REFERENCES | PRIMITIVES) && record.bytes == 0;
        may_be_cut.then_some((u32::from(record.log2), record.shape == REFERENCES))
    }

    /// Calls a type by a name from now on. Allocates; the world must run. False when the system gives no memory.
    ///
    /// It panics if there is no type of that number, or if it is the collector's own.
    pub fn set_name(&self, id: TypeId, name: &str) -> bool {
        assert!(
            self.has(id),
            "there is no type {} that could be called {name:?}",
            id.0
        );
        self.registering.lock();
        // SAFETY: `registering` is held.
        let is_known = unsafe { self.names.set(id.0, name) };
        self.registering.unlock();
        is_known
    }

    /// What the embedder calls a type. It allocates nothing and takes no lock.
    pub fn name(&self, id: TypeId) -> Option<&str> {
        self.names.get(id.0)
    }

    /// Before a fork: no thread registers or names a type until [`TypeTable::unlock_after_fork`]. The lock may be waited for:
    /// its holder waits for no other thread.
    pub fn lock_for_fork(&self) {
        self.registering.lock();
    }

    /// After a fork, in the parent and in the child.
    pub fn unlock_after_fork(&self) {
        self.registering.unlock();
    }

    /// The record of a type of this table.
    ///
    /// # Safety
    /// `id` came from this table.
    #[inline(always)]
    pub(crate) unsafe fn record(&self, id: TypeId) -> &Record {
        // SAFETY: `id` came from this table, as asked, so the record is below `count` and is not written again.
        unsafe { self.records.add(id.0 as usize).as_ref() }
    }
}

impl Drop for TypeTable {
    fn drop(&mut self) {
        for number in 0..self.count() {
            // SAFETY: a record below `count`, which nobody reads any more.
            unsafe { self.record(TypeId(number)) }.drop_lists();
        }
    }
}

/// A type that was not registered yet: its record, and what that will point at.
struct Description {
    record: Record,
    /// Offsets of its strong slots.
    list: Box<[u32]>,
    more: Option<More>,
}

/// A type for slots of `slot_bytes`.
fn describe(shape: Shape<'_>, slot_bytes: usize) -> Result<Description, TypeError> {
    let mut record = Record::new(REFERENCES, slot_bytes.trailing_zeros() as u8);
    let mut list: Box<[u32]> = Box::default();
    let mut more = None;
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
            let slots_end = FIELDS + references.len() * slot_bytes;
            let last_end = references
                .last()
                .map_or(FIELDS, |&last| last as usize + slot_bytes);
            record.rest = if last_end == slots_end {
                slots_end.next_multiple_of(GRANULE) as u32
            } else {
                record.bytes
            };
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
            record.shape = TAILED;
            list = record.set_tail((head, references), (element, element_references))?;
        }
        Shape::Weak {
            head,
            slots,
            element,
            element_slots,
        } => {
            let within = if element == 0 {
                check_bytes(head, LEAST_BYTES)?;
                FIELDS..head
            } else {
                let aligned = head.is_multiple_of(slot_bytes) && element.is_multiple_of(slot_bytes);
                check_tail(head, element, aligned)?;
                LENGTH + 4..head
            };
            let parts = WeakParts::new((slots, within), (element_slots, element), slot_bytes);
            let parts = parts.map_err(TypeError::Offset)?;
            more = Some(More::Weak(parts));
            record.shape = WEAK;
            list = record.set_tail(
                (head, slots.references),
                (element, element_slots.references),
            )?;
        }
        Shape::Traced { size, trace } => {
            match size {
                Size::Fixed(bytes) => check_bytes(bytes, LEAST_BYTES)?,
                Size::Tailed { head, element } => check_tail(head, element, true)?,
                Size::Function(_) => {}
            }
            record.shape = TRACED;
            more = Some(More::Traced(Traced { size, trace }));
        }
    }
    Ok(Description { record, list, more })
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
    offsets: &[u32],
    within: core::ops::Range<usize>,
    slot_bytes: usize,
) -> Result<(), TypeError> {
    offsets::check(offsets, within, slot_bytes).map_err(TypeError::Offset)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn wrong_types_are_refused_with_the_reason() {
        let table = TypeTable::new(MOST_TYPES).unwrap();
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

    #[test]
    fn numbers_of_types_that_are_gone_are_used_again() {
        let table = TypeTable::new(MOST_TYPES).unwrap();
        let structure = |references| {
            let shape = Shape::Structure {
                bytes: 32,
                references,
            };
            table.register(shape, 8).unwrap()
        };
        let types = [structure(&[8]), structure(&[16]), structure(&[8, 24])];
        table.set_data(types[1], Address::new(16)).unwrap();
        // SAFETY: the table has no heap, so no type has an instance.
        let unregister = |id| unsafe { table.unregister(id) };
        assert!(unregister(types[1]));
        assert!(!unregister(types[1]) && !unregister(TypeId::FILLER));
        assert!(!unregister(TypeId::new(5)));
        assert!(!table.has(types[1]) && table.data(types[1]).is_none());
        assert!(table.has(types[0]) && table.has(types[2]));
        let again = structure(&[24]);
        assert_eq!(again, types[1]);
        assert_eq!(table.data(again), Some(Address::NULL));
        // SAFETY: a type of the table.
        assert_eq!(unsafe { table.record(again) }.offsets().0, [24]);
        assert_eq!(structure(&[]), TypeId::new(5));
        assert_eq!(table.count(), 6);
    }

    #[test]
    fn each_type_has_a_word_of_the_embedders() {
        let table = TypeTable::new(MOST_TYPES).unwrap();
        let types: std::vec::Vec<TypeId> = (0..20_000)
            .map(|_| table.register(Shape::References, 8).unwrap())
            .collect();
        let word = |id: TypeId| Address::new(id.get() as usize * 16);
        for &id in &types {
            assert_eq!(table.data(id), Some(Address::NULL));
            assert_eq!(table.set_data(id, word(id)), Some(()));
        }
        for &id in &types {
            assert_eq!(table.data(id), Some(word(id)));
            let place = table.data_start().add(id.get() as usize * 8);
            // SAFETY: the place of the word of a registered type.
            assert_eq!(unsafe { place.ptr::<Address>().read() }, word(id));
        }
        let unknown = TypeId::new(types.len() as u32 + 2);
        for id in [TypeId::GAP, TypeId::FILLER, unknown] {
            assert_eq!((table.data(id), table.set_data(id, word(id))), (None, None));
        }
    }
}
