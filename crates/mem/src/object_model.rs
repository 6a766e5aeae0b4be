//! Precise objects: how large they are and where their references lie, as their [types](crate::types) say.
//!
//! Every object begins with its [`header`]; fields begin at offset 8. An array has its length, 4 bytes,
//! at offset 8 and its elements from offset 16. Sizes are multiples of 8 and at least [`LEAST_BYTES`].
//!
//! What the table of offsets cannot say, a type says by functions of the embedder's ([`Shape::Traced`]).
//!
//! Two types are the collector's own and make every space walkable: [`TypeId::GAP`] is a single granule of 8 bytes
//! that is no object, [`TypeId::FILLER`] an array of bytes that nobody refers to.
//!
//! Workers and mutators read; nothing here changes.

use core::marker::PhantomData;
use core::ops::Range;

use crate::Address;
use crate::header::{self, Header};
pub use crate::object_layout::{
    ELEMENTS, FIELDS, GRANULE, LEAST_BYTES, LENGTH, array_bytes, array_bytes_of, element,
    tailed_bytes, whole_granules,
};
use crate::slot::SlotFormat;
use crate::spine::{Beyond, Pieces};
pub use crate::traced::{Size, SizeFunction, Trace, TraceFunction, Visitor};
use crate::types::{GAP, PRIMITIVES, REFERENCES, Record, STRUCTURE, TAILED, TRACED, Traced, WEAK};
pub use crate::types::{
    MOST_STRUCTURE_BYTES, MOST_TYPES, Shape, TypeError, TypeId, TypeTable, most_types,
};
pub use crate::weak_slots::{Slots, WeakSlot};

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
            // SAFETY: one granule of the range, which no object uses and no other thread touches, as asked.
            unsafe { header::store(start, Header::fresh(TypeId::GAP)) };
        } else {
            // SAFETY: `piece` bytes of the range, which no object uses and no other thread touches, as asked; a piece
            // of two granules has room for header and length.
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
    /// What compressed references count from: the start of the span, or 0.
    pub base: Address,
    /// How arrays are cut.
    pub pieces: Pieces,
    format: PhantomData<F>,
}

impl<F: SlotFormat> ObjectModel<F> {
    /// The model of a heap whose compressed references count from `base`.
    pub fn new(types: TypeTable, base: Address, pieces: Pieces) -> ObjectModel<F> {
        ObjectModel {
            types,
            base,
            pieces,
            format: PhantomData,
        }
    }

    /// The number of elements of an array, or of a tail.
    ///
    /// # Safety
    /// An array, or an object with a tail, must lie at `object`.
    #[inline(always)]
    pub unsafe fn length(&self, object: Address) -> u32 {
        // SAFETY: an array, or an object with a tail, lies at `object`, as asked: its length is at `LENGTH`.
        unsafe { object.add(LENGTH).ptr::<u32>().read() }
    }

    /// Whether objects with this header have a length: arrays do, and what has elements behind a head.
    pub fn has_length(&self, header: Header) -> bool {
        matches!(
            self.shape(header.type_id()),
            Some(
                Shape::References
                    | Shape::Primitives { .. }
                    | Shape::Tailed { .. }
                    | Shape::Weak { element: 1.., .. }
                    | Shape::Traced {
                        size: Size::Tailed { .. },
                        ..
                    }
            )
        )
    }

    /// Changes the number of elements, in whose number the size of the object lies.
    ///
    /// # Safety
    /// As for [`ObjectModel::length`]; what lies behind the last element is made walkable.
    pub unsafe fn set_length(&self, object: Address, length: u32) {
        // SAFETY: an array, or an object with a tail, lies at `object`, as asked: its length is at `LENGTH`.
        unsafe { object.add(LENGTH).ptr::<u32>().write_volatile(length) };
    }

    /// The bytes of the object at `object` whose header is `header`.
    ///
    /// # Safety
    /// An object of this heap, or a filler, must lie there, and `header` must not be that of an object that moved.
    #[inline(always)]
    pub unsafe fn size(&self, header: Header, object: Address) -> usize {
        // SAFETY: `header` is that of an object of this heap, as asked, so it names one of its types.
        let record = unsafe { self.types.record(header.type_id()) };
        // Not a match: the compiler would make it a jump through a table.
        if record.shape == STRUCTURE {
            record.bytes as usize
        } else if record.shape <= PRIMITIVES {
            // SAFETY: the record says that the object is an array.
            let length = unsafe { self.length(object) };
            if header.is_spine() {
                // SAFETY: a spine of this heap, as its header says, which has as many bytes of elements.
                return unsafe { self.pieces.size(object, (length as usize) << record.log2) };
            }
            array_bytes(length, u32::from(record.log2))
        } else {
            // SAFETY: an object of the heap or a filler lies there, as asked, and its header names the record.
            unsafe { self.rare_size(record, object) }
        }
    }

    /// The bytes of all elements of a spine, and whether they are slots.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is a spine.
    pub unsafe fn spine_elements(&self, header: Header, object: Address) -> (usize, bool) {
        // SAFETY: `header` is that of an object of this heap, as asked, so it names one of its types.
        let record = unsafe { self.types.record(header.type_id()) };
        // SAFETY: a spine is an array.
        let bytes = unsafe { self.pieces.bytes_of(object, u32::from(record.log2)) };
        (bytes, record.shape == REFERENCES)
    }

    /// The slots that lie in a spine itself, as (first slot, number): of the first N bytes, and of the remainder.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is a spine of references.
    unsafe fn spine_slots(&self, record: &Record, object: Address) -> [(Address, usize); 2] {
        let pieces = &self.pieces;
        // SAFETY: a spine is an array, and this one's pointer leads to its remainder since it lies here.
        let (bytes, (remainder, rest)) = unsafe {
            let bytes = pieces.bytes_of(object, u32::from(record.log2));
            (bytes, pieces.remainder_of(object, bytes))
        };
        let near = bytes.min(pieces.first_n);
        let first = (element(object, 0, F::BYTES), near / F::BYTES);
        [first, (remainder, rest / F::BYTES)]
    }

    /// What lies beyond the first N bytes of a spine.
    ///
    /// # Safety
    /// As for [`ObjectModel::spine_elements`].
    pub unsafe fn beyond(&self, header: Header, object: Address) -> Beyond {
        // SAFETY: a spine with this header lies there, as asked.
        unsafe {
            let (bytes, _) = self.spine_elements(header, object);
            self.pieces.beyond(object, bytes)
        }
    }

    /// What an object that was moved bit by bit needs besides.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`]; nobody else uses the object meanwhile.
    #[inline(always)]
    pub unsafe fn moved(&self, header: Header, to: Address) {
        if header.is_spine() {
            // SAFETY: a spine lies there, which nobody else uses, as asked.
            unsafe {
                let (bytes, _) = self.spine_elements(header, to);
                self.pieces.moved(to, bytes);
            }
        }
    }

    /// The bytes of an object that is neither a structure nor an array. Not inlined: [`ObjectModel::size`] should not
    /// carry it along.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is of the record's type.
    #[cold]
    #[inline(never)]
    unsafe fn rare_size(&self, record: &Record, object: Address) -> usize {
        if let Some(traced) = record.traced() {
            // SAFETY: an object of the record's type lies there, as asked, and this type is traced.
            return unsafe { traced.size.of(traced.trace.data, object) };
        }
        if record.shape == GAP {
            return GRANULE;
        }
        if record.rest == 0 {
            return whole_granules(record.bytes as usize);
        }
        // SAFETY: the object is of the record's type, as asked, which has a tail.
        let length = unsafe { self.length(object) };
        tailed_bytes(record.bytes as usize, length, record.rest as usize)
    }

    /// The slots of an array of references in one piece, as (first slot, number); `None` for other objects.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline(always)]
    pub unsafe fn array_slots(&self, header: Header, object: Address) -> Option<(Address, usize)> {
        // SAFETY: `header` is that of an object of this heap, as asked, so it names one of its types.
        let record = unsafe { self.types.record(header.type_id()) };
        if record.shape != REFERENCES || header.is_spine() {
            return None;
        }
        // SAFETY: the record says that the object is an array.
        let length = unsafe { self.length(object) };
        Some((element(object, 0, F::BYTES), length as usize))
    }

    /// Visits each strong slot of an object that lies in the object itself: those of arraylets belong to their space. Of a
    /// type with weak slots it answers the object's elements, for [`ObjectModel::scan_weak`].
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline(always)]
    #[must_use]
    pub unsafe fn scan(
        &self,
        header: Header,
        object: Address,
        mut visit: impl FnMut(Address),
    ) -> Option<Range<u32>> {
        // SAFETY: `header` is that of an object of this heap, as asked, so it names one of its types.
        let record = unsafe { self.types.record(header.type_id()) };
        // Not a match, as in `size`.
        if record.shape == STRUCTURE {
            for index in 0..record.count as usize {
                // SAFETY: the record has `count` offsets.
                visit(object.add(unsafe { *record.offsets.add(index) } as usize));
            }
        } else if record.shape == REFERENCES {
            if header.is_spine() {
                // SAFETY: the header says so.
                for (first, slots) in unsafe { self.spine_slots(record, object) } {
                    (0..slots).for_each(|index| visit(first.add(index * F::BYTES)));
                }
                return None;
            }
            // SAFETY: the record says that the object is an array.
            let length = unsafe { self.length(object) } as usize;
            for index in 0..length {
                visit(element(object, index, F::BYTES));
            }
        } else if record.shape > GAP {
            // SAFETY: an object of the heap or a filler lies there, as asked, and its header names the record.
            return unsafe { self.scan_rare(record, object, visit) };
        }
        None
    }

    /// As [`ObjectModel::scan`], and visits the weak slots, too.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline(always)]
    pub unsafe fn scan_all(&self, header: Header, object: Address, mut visit: impl FnMut(Address)) {
        // SAFETY: an object of the heap or a filler lies there, as asked; the elements are its own.
        unsafe {
            if let Some(elements) = self.scan(header, object, &mut visit) {
                self.scan_weak(header, object, elements, |weak| weak.visit(&mut visit));
            }
        }
    }

    /// Visits each slot of an object that is neither a structure nor an array. Not inlined, as
    /// [`ObjectModel::rare_size`].
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is of the record's type.
    #[cold]
    #[inline(never)]
    unsafe fn scan_rare(
        &self,
        record: &Record,
        object: Address,
        visit: impl FnMut(Address),
    ) -> Option<Range<u32>> {
        if let Some(traced) = record.traced() {
            // SAFETY: an object of the record's type lies there, as asked, and this type is traced.
            unsafe { traced.trace.run(object, visit) };
            return None;
        }
        // SAFETY: an object of the record's type lies there, as asked; what is not traced may have a tail.
        unsafe {
            let elements = self.elements(record, object, 0..u32::MAX);
            self.scan_tailed(record, object, elements.clone(), visit);
            (record.shape == WEAK).then_some(elements)
        }
    }

    /// The elements of an object that are `among` these numbers.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is of the record's type, of which only the elements may be missing.
    #[inline]
    unsafe fn elements(&self, record: &Record, object: Address, among: Range<u32>) -> Range<u32> {
        if record.rest == 0 {
            return 0..0;
        }
        // SAFETY: the object has a tail.
        let length = unsafe { self.length(object) };
        among.start.min(length)..among.end.min(length)
    }

    /// Visits the strong slots of the head, and of these elements.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is of the record's type, and has the elements.
    #[inline]
    unsafe fn scan_tailed(
        &self,
        record: &Record,
        object: Address,
        elements: Range<u32>,
        mut visit: impl FnMut(Address),
    ) {
        let (head, tail) = record.offsets();
        for &offset in head {
            visit(object.add(offset as usize));
        }
        if tail.is_empty() {
            return;
        }
        for number in elements {
            let at = record.bytes as usize + number as usize * record.rest as usize;
            for &offset in tail {
                visit(object.add(at + offset as usize));
            }
        }
    }

    /// Visits what is weak in these elements of an object, and in its head if the range begins with the first.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is of a type with weak slots, and has the elements.
    #[inline]
    pub unsafe fn scan_weak(
        &self,
        header: Header,
        object: Address,
        elements: Range<u32>,
        visit: impl FnMut(WeakSlot),
    ) {
        // SAFETY: `header` is that of an object of this heap, as asked, so it names one of its types.
        let record = unsafe { self.types.record(header.type_id()) };
        if let Some(parts) = record.weak() {
            let layout = (record.bytes as usize, record.rest as usize);
            parts.visit(object, layout, elements, F::BYTES, visit);
        }
    }

    /// How many ephemerons there are in such elements, and in the head if the range begins with the first.
    ///
    /// # Safety
    /// `header` is that of an object of this heap that has not moved.
    pub unsafe fn ephemerons(&self, header: Header, elements: &Range<u32>) -> usize {
        // SAFETY: the header names a type of this heap, as asked.
        let record = unsafe { self.types.record(header.type_id()) };
        record.weak().map_or(0, |parts| parts.ephemerons(elements))
    }

    /// Visits the strong slots of an object that lie in `low..high`. Of a type with weak slots it answers the elements
    /// that reach into the range, for [`ObjectModel::scan_weak`].
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline]
    #[must_use]
    pub unsafe fn scan_between(
        &self,
        header: Header,
        object: Address,
        low: Address,
        high: Address,
        mut visit: impl FnMut(Address),
    ) -> Option<Range<u32>> {
        let mut visit_run = |first: Address, slots: usize| {
            let end = first.add(slots * F::BYTES);
            let mut slot = if first < low { low } else { first };
            let end = if end < high { end } else { high };
            while slot < end {
                visit(slot);
                slot = slot.add(F::BYTES);
            }
        };
        // SAFETY: an object of the heap or a filler lies there, and `header` is not that of an object that moved, as
        // asked.
        match unsafe { self.array_slots(header, object) } {
            Some((first, slots)) => visit_run(first, slots),
            None if header.is_spine() => {
                // SAFETY: `header` is that of an object of this heap, as asked, so it names one of its types, and says
                // that the object is a spine.
                unsafe {
                    let record = self.types.record(header.type_id());
                    if record.shape == REFERENCES {
                        for (first, slots) in self.spine_slots(record, object) {
                            visit_run(first, slots);
                        }
                    }
                }
            }
            None => {
                let visit = |slot| {
                    if low <= slot && slot < high {
                        visit(slot);
                    }
                };
                // SAFETY: `header` is that of an object of this heap, as asked, so it names one of its types.
                let record = unsafe { self.types.record(header.type_id()) };
                if matches!(record.shape, TAILED | WEAK) {
                    let among = between(record, object, low, high);
                    // SAFETY: an object of the heap lies there, as asked, and its header names the record, which is
                    // tailed.
                    unsafe {
                        let elements = self.elements(record, object, among);
                        self.scan_tailed(record, object, elements.clone(), visit);
                        return (record.shape == WEAK).then_some(elements);
                    }
                }
                // SAFETY: an object of the heap or a filler lies there, and `header` is not that of an object that
                // moved, as asked.
                return unsafe { self.scan(header, object, visit) };
            }
        }
        None
    }

    /// As [`ObjectModel::scan_between`], and visits the weak slots in the range, too.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline]
    pub unsafe fn scan_all_between(
        &self,
        header: Header,
        object: Address,
        low: Address,
        high: Address,
        mut visit: impl FnMut(Address),
    ) {
        // SAFETY: an object of the heap or a filler lies there, as asked; the elements are its own.
        unsafe {
            let elements = self.scan_between(header, object, low, high, &mut visit);
            let mut inside = |slot| {
                if low <= slot && slot < high {
                    visit(slot);
                }
            };
            if let Some(elements) = elements {
                self.scan_weak(header, object, elements, |weak| weak.visit(&mut inside));
            }
        }
    }

    /// What the type is; `None` for the collector's own and unknown ones.
    pub fn shape(&self, id: TypeId) -> Option<Shape<'_>> {
        if !self.types.has(id) {
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
                element: record.rest as usize,
                element_references: record.offsets().1,
            },
            TRACED => {
                let Traced { size, trace } = *record.traced()?;
                Shape::Traced { size, trace }
            }
            WEAK => {
                let (references, element_references) = record.offsets();
                let parts = record.weak()?;
                Shape::Weak {
                    head: record.bytes as usize,
                    slots: parts.head.slots(references),
                    element: record.rest as usize,
                    element_slots: parts.element.slots(element_references),
                }
            }
            _ => Shape::Primitives {
                log2: u32::from(record.log2),
            },
        })
    }
}

/// The numbers of the elements that an object with a tail has between two addresses, if it has as many.
fn between(record: &Record, object: Address, low: Address, high: Address) -> Range<u32> {
    let Some(bytes) = core::num::NonZero::new(record.rest as usize) else {
        return 0..0;
    };
    let first = object.word() + record.bytes as usize;
    let number = |elements: usize| u32::try_from(elements).unwrap_or(u32::MAX);
    let start = low.word().saturating_sub(first) / bytes;
    number(start)..number(high.word().saturating_sub(first).div_ceil(bytes.get()))
}

#[cfg(all(test, not(loom)))]
mod tests;
