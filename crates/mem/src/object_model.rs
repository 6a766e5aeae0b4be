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

use crate::Address;
use crate::header::{self, Header};
pub use crate::object_layout::{
    ELEMENTS, FIELDS, GRANULE, LEAST_BYTES, LENGTH, array_bytes, array_bytes_of, element,
    tailed_bytes, whole_granules,
};
use crate::slot::SlotFormat;
use crate::spine::Pieces;
pub use crate::traced::{Size, SizeFunction, Trace, TraceFunction, Visitor};
use crate::types::{GAP, PRIMITIVES, REFERENCES, Record, STRUCTURE, TAILED, TRACED, Traced};
pub use crate::types::{MOST_STRUCTURE_BYTES, MOST_TYPES, Shape, TypeError, TypeId, TypeTable};

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
                return self.pieces.spine_bytes((length as usize) << record.log2);
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
        // SAFETY: a spine is an array.
        let bytes = unsafe { pieces.bytes_of(object, u32::from(record.log2)) };
        let remainder = (
            pieces.remainder(object, bytes),
            pieces.remainder_bytes(bytes) / F::BYTES,
        );
        let first = (element(object, 0, F::BYTES), pieces.first_n / F::BYTES);
        [first, remainder]
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

    /// Visits each slot of an object that lies in the object itself: those of arraylets belong to their space.
    ///
    /// # Safety
    /// As for [`ObjectModel::size`].
    #[inline(always)]
    pub unsafe fn scan(&self, header: Header, object: Address, mut visit: impl FnMut(Address)) {
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
                return;
            }
            // SAFETY: the record says that the object is an array.
            let length = unsafe { self.length(object) } as usize;
            for index in 0..length {
                visit(element(object, index, F::BYTES));
            }
        } else if record.shape > GAP {
            // SAFETY: an object of the heap or a filler lies there, as asked, and its header names the record.
            unsafe { self.scan_rare(record, object, visit) };
        }
    }

    /// Visits each slot of an object that is neither a structure nor an array. Not inlined, as
    /// [`ObjectModel::rare_size`].
    ///
    /// # Safety
    /// As for [`ObjectModel::size`], and the object is of the record's type.
    #[cold]
    #[inline(never)]
    unsafe fn scan_rare(&self, record: &Record, object: Address, visit: impl FnMut(Address)) {
        match record.traced() {
            // SAFETY: an object of the record's type lies there, as asked, and this type is traced.
            Some(traced) => unsafe { traced.trace.run(object, visit) },
            // SAFETY: an object of the record's type lies there, as asked; what is not traced has a tail.
            None => unsafe { self.scan_tailed(record, object, 0..usize::MAX, visit) },
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
        // SAFETY: the object has a tail, as asked.
        let length = unsafe { self.length(object) } as usize;
        for number in elements.start..elements.end.min(length) {
            let element = object.add(record.bytes as usize + number * record.rest as usize);
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
                if record.shape == TAILED {
                    let (first, bytes) =
                        (object.word() + record.bytes as usize, record.rest as usize);
                    let elements = low.word().saturating_sub(first) / bytes
                        ..high.word().saturating_sub(first).div_ceil(bytes);
                    // SAFETY: an object of the heap lies there, as asked, and its header names the record, which is
                    // tailed.
                    unsafe { self.scan_tailed(record, object, elements, visit) };
                } else {
                    // SAFETY: an object of the heap or a filler lies there, and `header` is not that of an object that
                    // moved, as asked.
                    unsafe { self.scan(header, object, visit) };
                }
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
    use gleaner_base::sync::Ordering;
    use std::vec::Vec;

    fn model<F: SlotFormat>() -> ObjectModel<F> {
        ObjectModel::new(
            TypeTable::new().unwrap(),
            Address::new(0x1000),
            Pieces::WHOLE,
        )
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
        // SAFETY: `LENGTH + 4` is within the 64 bytes of the place.
        unsafe { object.add(LENGTH).ptr::<u32>().write(5) };
        assert_eq!(size(shorts), 32);
        assert_eq!((size(TypeId::GAP), size(TypeId::FILLER)), (8, 24));
        assert_eq!(array_bytes(0, 3), 16);
        assert_eq!(tailed_bytes(24, 3, 5), 40);
        let most = usize::MAX - 7;
        assert_eq!(tailed_bytes(24, u32::MAX, usize::MAX / 2), most);
        assert_eq!(tailed_bytes(usize::MAX - 3, 1, 1), most);
        assert_eq!([0, 1, 8, usize::MAX].map(whole_granules), [0, 8, 8, most]);
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
            // SAFETY: an array of six slots lies there, in the test's own place.
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
            // SAFETY: the place holds the length that `size` reads, and the header is that of a registered type.
            assert_eq!(unsafe { model.size(header, object) }, 32 + 20 * 24);
            let mut all = Vec::new();
            // SAFETY: an object of the registered type lies there, with the length 20 that was written above.
            unsafe { model.scan(header, object, |at| all.push(at.offset_from(object))) };
            let expected: Vec<usize> = core::iter::once(16)
                .chain((0..20).flat_map(|number| [40 + number * 24, 48 + number * 24]))
                .collect();
            assert_eq!(all, expected);
            // Every range has just the slots that lie in it.
            for low in (0..520).step_by(8) {
                for high in (low..520).step_by(8) {
                    let mut part = Vec::new();
                    // SAFETY: an object of the registered type lies there, with the length 20 that was written above.
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
}
