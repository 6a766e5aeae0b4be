//! Where the fields of structures and the elements of arrays lie in objects of the heap.
//!
//! Each field goes to the first place that is free and aligned, in the order in which a type declares its fields. So the
//! fields that a subtype inherits lie where they lie in the supertype, and small fields fill the gaps between large ones.

use gleaner::raw::{FIELDS, Shape};

use crate::types::{Field, HeapType, RefType, Storage, ValType};

/// How a value lies in an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell {
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    V128,
    /// The address of a function's record, which is no object.
    Function,
    /// A slot of the heap's format.
    Slot {
        /// Whether it may hold an integer.
        immediate: bool,
    },
}

impl Cell {
    fn of(storage: Storage, form: Form<'_>) -> Cell {
        match storage {
            Storage::I8 => Cell::I8,
            Storage::I16 => Cell::I16,
            Storage::V128 => Cell::V128,
            Storage::Val(ValType::I32) => Cell::I32,
            Storage::Val(ValType::I64) => Cell::I64,
            Storage::Val(ValType::F32) => Cell::F32,
            Storage::Val(ValType::F64) => Cell::F64,
            Storage::Val(ValType::Ref(RefType { heap, .. })) if (form.is_function)(heap) => {
                Cell::Function
            }
            Storage::Val(ValType::Ref(RefType { heap, .. })) => Cell::Slot {
                immediate: may_be_immediate(heap),
            },
        }
    }

    /// The bytes that it takes, and its alignment.
    pub(crate) fn bytes(self, slot_bytes: u32) -> u32 {
        match self {
            Cell::I8 => 1,
            Cell::I16 => 2,
            Cell::I32 | Cell::F32 => 4,
            Cell::I64 | Cell::F64 | Cell::Function => 8,
            Cell::V128 => 16,
            Cell::Slot { .. } => slot_bytes,
        }
    }
}

/// Whether a reference of the type may be an integer of 31 bits.
pub(crate) fn may_be_immediate(heap: HeapType) -> bool {
    matches!(
        heap,
        HeapType::Any | HeapType::Eq | HeapType::I31 | HeapType::Extern
    )
}

/// What a layout depends on beside the fields.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    pub(crate) slot_bytes: u32,
    /// Whether references of the type are functions.
    pub(crate) is_function: &'a dyn Fn(HeapType) -> bool,
}

/// A field in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// From the start of the object.
    pub(crate) offset: u32,
    pub(crate) cell: Cell,
}

/// How the instances of a type lie in the heap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    Struct {
        places: Vec<Place>,
        /// Bytes of an instance, header included.
        bytes: u32,
        /// Offsets of the slots, ascending.
        slots: Vec<u32>,
        /// Offsets of the words of 8 bytes that no field fills.
        gaps: Vec<u32>,
    },
    Array {
        cell: Cell,
        /// The logarithm of an element's bytes.
        log2: u32,
    },
}

impl Layout {
    pub(crate) fn structure(fields: &[Field], form: Form<'_>) -> Layout {
        // One entry for each byte behind the header: whether it is taken.
        let mut taken: Vec<bool> = Vec::new();
        let mut places = Vec::with_capacity(fields.len());
        // All bytes before it are taken: types have thousands of fields.
        let mut first_free = 0;
        for field in fields {
            let cell = Cell::of(field.storage, form);
            let bytes = cell.bytes(form.slot_bytes) as usize;
            let mut at = usize::next_multiple_of(first_free, bytes);
            while taken
                .get(at..taken.len().min(at + bytes))
                .is_some_and(|range| range.contains(&true))
            {
                at += bytes;
            }
            taken.resize(taken.len().max((at + bytes).next_multiple_of(8)), false);
            taken[at..at + bytes].fill(true);
            while taken.get(first_free) == Some(&true) {
                first_free += 1;
            }
            places.push(Place {
                offset: (FIELDS + at) as u32,
                cell,
            });
        }
        // An object has at least one word beside its header.
        taken.resize(taken.len().max(8), false);
        let mut slots: Vec<u32> = places
            .iter()
            .filter(|place| matches!(place.cell, Cell::Slot { .. }))
            .map(|place| place.offset)
            .collect();
        slots.sort_unstable();
        let words = taken.chunks_exact(8).enumerate();
        let gaps = words
            .filter(|(_, word)| word.contains(&false))
            .map(|(index, _)| (FIELDS + 8 * index) as u32);
        let gaps = gaps.collect();
        Layout::Struct {
            places,
            bytes: (FIELDS + taken.len()) as u32,
            slots,
            gaps,
        }
    }

    pub(crate) fn array(element: &Field, form: Form<'_>) -> Layout {
        let cell = Cell::of(element.storage, form);
        Layout::Array {
            cell,
            log2: cell.bytes(form.slot_bytes).trailing_zeros(),
        }
    }

    /// What the heap is told of it.
    pub(crate) fn shape(&self) -> Shape<'_> {
        match self {
            Layout::Struct { bytes, slots, .. } => Shape::Structure {
                bytes: *bytes as usize,
                references: slots,
            },
            Layout::Array {
                cell: Cell::Slot { .. },
                ..
            } => Shape::References,
            Layout::Array { log2, .. } => Shape::Primitives { log2: *log2 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(storage: Storage) -> Field {
        Field {
            storage,
            mutable: true,
        }
    }

    fn offsets(fields: &[Storage], slot_bytes: u32) -> (Vec<u32>, u32) {
        let fields: Vec<Field> = fields.iter().copied().map(field).collect();
        let form = Form {
            slot_bytes,
            is_function: &|_| false,
        };
        match Layout::structure(&fields, form) {
            Layout::Struct { places, bytes, .. } => {
                (places.iter().map(|place| place.offset).collect(), bytes)
            }
            other => panic!("{other:?}"),
        }
    }

    const ANY: Storage = Storage::Val(ValType::Ref(RefType {
        nullable: true,
        heap: HeapType::Any,
    }));
    const LONG: Storage = Storage::Val(ValType::I64);

    #[test]
    fn small_fields_fill_gaps() {
        assert_eq!(
            offsets(&[Storage::I8, LONG, Storage::I16, ANY], 4),
            (vec![8, 16, 10, 12], 24)
        );
        assert_eq!(
            offsets(&[Storage::I8, LONG, Storage::I16, ANY], 8),
            (vec![8, 16, 10, 24], 32)
        );
    }

    #[test]
    fn a_vector_takes_sixteen_bytes_behind_what_lies_before_it() {
        assert_eq!(
            offsets(&[Storage::I8, Storage::V128, LONG, Storage::V128], 4),
            (vec![8, 24, 16, 40], 56)
        );
    }

    #[test]
    fn an_empty_structure_has_the_least_size() {
        assert_eq!(offsets(&[], 8), (vec![], 16));
    }

    #[test]
    fn inherited_fields_keep_their_places() {
        let fields = [
            Storage::I8,
            ANY,
            LONG,
            Storage::I16,
            Storage::I8,
            ANY,
            LONG,
            Storage::I8,
        ];
        for slot_bytes in [4, 8] {
            let (all, _) = offsets(&fields, slot_bytes);
            for count in 0..fields.len() {
                assert_eq!(offsets(&fields[..count], slot_bytes).0, all[..count]);
            }
        }
    }
}
