//! Where does what an index names lie in an object? The safe layer asks at each access to an object of which it knows
//! no more than that it is one.
//!
//! References are numbered, and so are items of 1, 2, 4 or 8 bytes, which lie behind all slots of a structure, of a head
//! or of an element behind a head. An item is aligned to its size.
//!
//! Mutators read; nothing here changes.

use gleaner_base::sync::Ordering;

use crate::Address;
use crate::header;
use crate::object_layout::{ELEMENTS, GRANULE, LENGTH};
use crate::types::{PRIMITIVES, REFERENCES, Record, STRUCTURE, TAILED, TypeTable, WEAK};

/// Where something of an object lies that is named by an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At this offset from the start of the object.
    Field(usize),
    /// It is the element of the array with that index.
    Element(usize),
}

/// Item `index` of those that lie in `within`, each of `bytes` bytes: its offset, if there is one.
#[inline(always)]
fn item_in(within: core::ops::Range<usize>, index: usize, bytes: usize) -> Option<usize> {
    // Divided, not multiplied: any index may come.
    let items = within.end.saturating_sub(within.start) / bytes;
    (index < items).then(|| within.start + index * bytes)
}

/// Where the bytes begin that are behind slots at these offsets, and behind `least`.
fn behind(slots: &[u32], slot_bytes: usize, least: usize) -> usize {
    let end = slots.last().map_or(0, |&last| last as usize + slot_bytes);
    end.max(least).next_multiple_of(GRANULE)
}

impl TypeTable {
    /// Where reference `index` of a structure, an array or a head is; `None` past the last, and for other shapes.
    ///
    /// # Safety
    /// An object of a type of this table lies at `object`, and has not moved.
    #[inline(always)]
    pub unsafe fn reference_place(&self, object: Address, index: usize) -> Option<Place> {
        // SAFETY: the object's header names a type of this table, as asked, whose record has `count` offsets; only
        // `REFERENCES`, an array, has its length read.
        unsafe {
            let record = self.record_of(object);
            if record.shape == STRUCTURE {
                (index < record.count as usize)
                    .then(|| Place::Field(*record.offsets.add(index) as usize))
            } else if record.shape == REFERENCES {
                (index < length(object)).then_some(Place::Element(index))
            } else if record.weak().is_none() {
                reference_in_head(record, index)
            } else {
                reference_among_weak(record, object, index)
            }
        }
    }

    /// Where item `index` is, of `bytes` bytes, at most 8: one of those that a structure or a head has behind its
    /// references, or an element of an array with elements of that size. `None` past the last, and for other shapes.
    ///
    /// # Safety
    /// As for [`TypeTable::reference_place`].
    #[inline(always)]
    pub unsafe fn item_place(&self, object: Address, index: usize, bytes: usize) -> Option<Place> {
        // SAFETY: the object's header names a type of this table, as asked; only `PRIMITIVES`, an array, has its length
        // read.
        unsafe {
            let record = self.record_of(object);
            if record.shape == STRUCTURE {
                let within = record.rest as usize..record.bytes as usize;
                item_in(within, index, bytes).map(Place::Field)
            } else if record.shape == PRIMITIVES && 1 << record.log2 == bytes {
                (index < length(object)).then_some(Place::Element(index))
            } else {
                item_in_head(record, index, bytes)
            }
        }
    }

    /// Where reference `index` of element `element` behind a head is. `None` past the last of either, and for other
    /// shapes.
    ///
    /// # Safety
    /// As for [`TypeTable::reference_place`].
    #[inline]
    pub unsafe fn tail_reference_place(
        &self,
        object: Address,
        element: usize,
        index: usize,
    ) -> Option<Place> {
        // SAFETY: an object of a type of this table lies there, as asked.
        let (record, start) = unsafe { self.element_behind_head(object, element) }?;
        let offset = *record.offsets().1.get(index)?;
        Some(Place::Field(start + offset as usize))
    }

    /// Where item `index` of element `element` behind a head is, of `bytes` bytes, at most 8. `None` past the last of
    /// either, for other shapes, and where the item would not be aligned.
    ///
    /// # Safety
    /// As for [`TypeTable::reference_place`].
    #[inline]
    pub unsafe fn tail_item_place(
        &self,
        object: Address,
        element: usize,
        index: usize,
        bytes: usize,
    ) -> Option<Place> {
        // SAFETY: an object of a type of this table lies there, as asked.
        let (record, start) = unsafe { self.element_behind_head(object, element) }?;
        let first = behind(record.offsets().1, 1 << record.log2, 0);
        let offset = start + item_in(first..record.rest as usize, index, bytes)?;
        offset.is_multiple_of(bytes).then_some(Place::Field(offset))
    }

    /// The record of an object with a tail, and where an element begins; `None` for other objects, and past the last.
    ///
    /// # Safety
    /// As for [`TypeTable::reference_place`].
    #[inline(always)]
    unsafe fn element_behind_head(
        &self,
        object: Address,
        element: usize,
    ) -> Option<(&Record, usize)> {
        // SAFETY: the object's header names a type of this table, as asked; only an object with a tail has its length
        // read.
        unsafe {
            let record = self.record_of(object);
            (record.shape == TAILED && element < length(object)).then(|| {
                let start = record.bytes as usize + element * record.rest as usize;
                (record, start)
            })
        }
    }

    /// What the elements of an array are: the logarithm of the bytes of a number, or `None` within for references. `None` for
    /// objects of other shapes.
    ///
    /// # Safety
    /// As for [`TypeTable::reference_place`].
    #[inline(always)]
    pub unsafe fn elements(&self, object: Address) -> Option<Option<u32>> {
        // SAFETY: an object of a type of this table lies there, as asked.
        let record = unsafe { self.record_of(object) };
        match record.shape {
            PRIMITIVES => Some(Some(u32::from(record.log2))),
            REFERENCES => Some(None),
            _ => None,
        }
    }

    /// Whether an object is an array of numbers of 2^`log2` bytes.
    ///
    /// # Safety
    /// As for [`TypeTable::reference_place`].
    #[inline(always)]
    pub unsafe fn has_numbers(&self, object: Address, log2: u8) -> bool {
        // SAFETY: an object of a type of this table lies there, as asked.
        let record = unsafe { self.record_of(object) };
        // Both bytes at once.
        [record.shape, record.log2] == [PRIMITIVES, log2]
    }

    /// Whether an object has a length: arrays do, and what has elements behind a head.
    ///
    /// # Safety
    /// As for [`TypeTable::reference_place`].
    #[inline(always)]
    pub unsafe fn has_length(&self, object: Address) -> bool {
        // SAFETY: an object of a type of this table lies there, as asked.
        let record = unsafe { self.record_of(object) };
        match record.shape {
            REFERENCES | PRIMITIVES | TAILED => true,
            WEAK => record.rest > 0,
            _ => false,
        }
    }

    /// # Safety
    /// As for [`TypeTable::reference_place`].
    #[inline(always)]
    unsafe fn record_of(&self, object: Address) -> &Record {
        // SAFETY: an object lies there, as asked, so a header does, and it names a type of this table.
        unsafe { self.record(header::load(object, Ordering::Relaxed).type_id()) }
    }
}

/// The number of elements of an array, or of a tail.
///
/// # Safety
/// An array, or an object with a tail, lies at `object`.
#[inline(always)]
unsafe fn length(object: Address) -> usize {
    // SAFETY: an object with a length lies there, as asked.
    unsafe { object.add(LENGTH).ptr::<u32>().read() as usize }
}

/// Where a reference of a head is. Not inlined: structures and arrays should not carry it along.
#[inline(never)]
fn reference_in_head(record: &Record, index: usize) -> Option<Place> {
    let is_head = record.shape == TAILED;
    let offset = record.offsets().0.get(index).filter(|_| is_head)?;
    Some(Place::Field(*offset as usize))
}

/// Where slot `index` of an object with weak slots is, in the order in which they lie.
///
/// # Safety
/// An object of the record's type lies at `object`.
#[inline(never)]
unsafe fn reference_among_weak(record: &Record, object: Address, index: usize) -> Option<Place> {
    let parts = record.weak()?;
    let (head, element) = (&parts.head.all, &parts.element.all);
    if let Some(&offset) = head.get(index) {
        return Some(Place::Field(offset as usize));
    }
    let index = index - head.len();
    let number = index.checked_div(element.len())?;
    // SAFETY: the type's elements have slots, so its objects have a length.
    if number >= unsafe { length(object) } {
        return None;
    }
    let start = record.bytes as usize + number * record.rest as usize;
    Some(Place::Field(
        start + element[index % element.len()] as usize,
    ))
}

/// Where an item of a head is, which begins behind the length.
#[inline(never)]
fn item_in_head(record: &Record, index: usize, bytes: usize) -> Option<Place> {
    if record.shape != TAILED {
        return None;
    }
    let first = behind(record.offsets().0, 1 << record.log2, ELEMENTS);
    item_in(first..record.bytes as usize, index, bytes).map(Place::Field)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Place::{Element, Field};
    use super::*;
    use crate::header::Header;
    use crate::object_model::{Shape, element};
    use crate::slot::{Compressed, SlotFormat, Wide};
    use crate::types::MOST_TYPES;

    #[test]
    fn offsets_of_fields_end_with_the_object() {
        fn offsets<F: SlotFormat>() {
            let types = TypeTable::new(MOST_TYPES).unwrap();
            let (slot, mut place) = (F::BYTES as u32, [0u64; 8]);
            let object = Address::of(&raw mut place);
            let is = |shape, length: u32| {
                let id = types.register(shape, F::BYTES).unwrap();
                // SAFETY: the place is this test's, and large enough.
                unsafe {
                    header::store(object, Header::fresh(id));
                    object.add(LENGTH).ptr::<u32>().write(length);
                }
            };
            let structure = |references| Shape::Structure {
                bytes: 40,
                references,
            };
            // SAFETY: an object of the table lies there.
            let reference = |index| unsafe { types.reference_place(object, index) };
            // SAFETY: `is` wrote the header and the length of an object of the table there.
            let item = |index, bytes| unsafe { types.item_place(object, index, bytes) };

            // Two slots, the rest is bytes.
            let two = [8, 8 + slot];
            is(structure(&two), 0);
            assert_eq!(
                [0, 1, 2, usize::MAX].map(reference),
                [Some(Field(8)), Some(Field(8 + F::BYTES)), None, None]
            );
            let data = 8 + 2 * F::BYTES;
            let words = (40 - data) / 8;
            assert_eq!(item(0, 8), Some(Field(data)));
            assert_eq!(item(words - 1, 8), Some(Field(32)));
            assert_eq!([words, usize::MAX].map(|index| item(index, 8)), [None; 2]);
            assert_eq!(item(8 * words - 1, 1), Some(Field(39)));
            assert_eq!(item(8 * words, 1), None);
            // Bytes before a slot: nothing is known to be data.
            is(structure(&[16]), 0);
            assert_eq!((reference(0), item(0, 8)), (Some(Field(16)), None));
            is(structure(&[]), 0);
            assert_eq!(
                (reference(0), item(3, 8), item(4, 8)),
                (None, Some(Field(32)), None)
            );

            is(Shape::References, 3);
            assert_eq!([2, 3].map(reference), [Some(Element(2)), None]);
            assert_eq!(item(0, F::BYTES), None);
            is(Shape::Primitives { log2: 1 }, 3);
            assert_eq!(reference(0), None);
            assert_eq!([2, 3].map(|index| item(index, 2)), [Some(Element(2)), None]);
            assert_eq!([1, 4, 8].map(|bytes| item(0, bytes)), [None; 3]);
            assert_eq!(element(object, 3, 2), object.add(16 + 6));

            // A slot and 8 bytes in the head, a slot and 8 bytes in each of two elements.
            let tailed = Shape::Tailed {
                head: 32,
                references: &[16],
                element: 16,
                element_references: &[0],
            };
            is(tailed, 2);
            assert_eq!([0, 1].map(reference), [Some(Field(16)), None]);
            assert_eq!((item(0, 8), item(1, 8)), (Some(Field(24)), None));
            // SAFETY: `is` wrote the header and the length of an object of the table there.
            let in_tail = |element, index| unsafe {
                (
                    types.tail_reference_place(object, element, index),
                    types.tail_item_place(object, element, index, 8),
                )
            };
            assert_eq!(in_tail(0, 0), (Some(Field(32)), Some(Field(40))));
            assert_eq!(in_tail(1, 0), (Some(Field(48)), Some(Field(56))));
            assert_eq!(
                [in_tail(1, 1), in_tail(2, 0), in_tail(usize::MAX, 0)],
                [(None, None); 3]
            );
            // Elements of 3 bytes: only some pairs of bytes are aligned.
            let packed = Shape::Tailed {
                head: 16,
                references: &[],
                element: 3,
                element_references: &[],
            };
            is(packed, 4);
            // SAFETY: as before.
            let pair = |element| unsafe { types.tail_item_place(object, element, 0, 2) };
            assert_eq!(
                [0, 1, 2].map(pair),
                [Some(Field(16)), None, Some(Field(22))]
            );
            is(Shape::References, 3);
            assert_eq!(in_tail(0, 0), (None, None));
        }
        offsets::<Wide>();
        offsets::<Compressed>();
    }
}
