//! Types of objects: what the collector has to know of them, and where the embedder finds its fields.

use gleaner_mem::object_model::{FIELDS, LENGTH, TypeId, tailed_bytes};

pub(crate) use of_heap::Id;

pub use gleaner_mem::object_model::{MOST_STRUCTURE_BYTES, MOST_TYPES, TypeError};

/// A type whose objects have a fixed size: references first, then bytes that the collector does not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structure {
    /// How many references.
    pub references: u32,
    /// How many bytes beside them.
    pub bytes: u32,
}

impl Structure {
    #[inline(always)]
    pub(crate) const fn layout(self, slot_bytes: usize) -> Layout {
        let data = (FIELDS + self.references as usize * slot_bytes).next_multiple_of(8);
        let total = (data + self.bytes as usize).next_multiple_of(8);
        Layout {
            references: self.references,
            slot_bytes: slot_bytes as u32,
            data: data as u32,
            bytes: self.bytes,
            // An object has at least one granule beside its header.
            total: if total < 16 { 16 } else { total },
        }
    }
}

/// Where the fields of a structure lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) references: u32,
    slot_bytes: u32,
    /// Offset of the bytes.
    pub(crate) data: u32,
    pub(crate) bytes: u32,
    pub(crate) total: usize,
}

impl Layout {
    pub(crate) fn offsets(self) -> impl Iterator<Item = u32> {
        (0..self.references).map(move |index| FIELDS as u32 + index * self.slot_bytes)
    }
}

/// A registered type, of any kind.
pub trait Registered: of_heap::Registered {}

/// What the trait promises inside of this crate.
pub(crate) mod of_heap {
    use super::TypeId;

    /// The number of a type, and of the heap that it belongs to.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Id {
        pub(crate) heap: u32,
        pub(crate) number: TypeId,
        /// Instances never move.
        pub(crate) pinned: bool,
    }

    /// A type with a number in its heap.
    pub trait Registered: Copy {
        /// The number, and the heap.
        fn id(self) -> Id;
    }
}

/// Declares what all registered types can do.
macro_rules! registered {
    ($($name:ident, $field:tt;)+) => { $(
        impl Registered for $name {}

        impl of_heap::Registered for $name {
            #[inline(always)]
            fn id(self) -> Id {
                self.$field
            }
        }

        impl $name {
            /// The same type, but its objects never move. Allocating them costs more. An object of more than 16 KB
            /// never moves in any case. Of an array in pieces, the spine is the object, and it is smaller than the
            /// array.
            #[must_use]
            pub fn pinned(mut self) -> $name {
                self.$field.pinned = true;
                self
            }

            /// The number of the type in its heap.
            pub fn id(&self) -> TypeId {
                self.$field.number
            }
        }
    )+ };
}

registered! {
    Type, id;
    Tail, id;
    ReferenceArray, 0;
    Array, 0;
    WeakArray, 0;
    EphemeronTable, 0;
}

/// A registered structure of one heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Type {
    pub(crate) id: Id,
    pub(crate) layout: Layout,
}

impl Type {
    /// The size in bytes of an instance, including its header.
    pub fn size(&self) -> usize {
        self.layout.total
    }
}

/// A structure with elements behind it, each of which is like a structure: closures, frames, arrays of structures.
///
/// The references of an element lie before its bytes. Elements without references lie side by side without gaps; the
/// others begin at multiples of 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tailed {
    /// What lies before the elements.
    pub head: Structure,
    /// What an element has.
    pub element: Structure,
}

impl Tailed {
    /// Where the references of the head begin: behind the length of 4 bytes.
    const HEAD: usize = (LENGTH + 4).next_multiple_of(8);

    /// The bytes of the head, and of an element.
    pub(crate) fn layout(self, slot_bytes: usize) -> (usize, usize) {
        let slots = |of: Structure| of.references as usize * slot_bytes;
        let bytes = |of: Structure| of.bytes as usize;
        let head = (Self::HEAD + slots(self.head)).next_multiple_of(8) + bytes(self.head);
        let element = match slots(self.element) {
            0 => bytes(self.element),
            slots => (slots.next_multiple_of(8) + bytes(self.element)).next_multiple_of(8),
        };
        (head.next_multiple_of(8), element)
    }

    /// The offsets of the references of the head, and of an element.
    pub(crate) fn offsets(self, slot_bytes: usize) -> [Vec<u32>; 2] {
        [(self.head, Self::HEAD), (self.element, 0)].map(|(of, start)| {
            let offset = |index| start as u32 + index * slot_bytes as u32;
            (0..of.references).map(offset).collect()
        })
    }
}

/// A registered type of objects with elements behind a head. An instance may move, and lies in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    pub(crate) id: Id,
    /// Bytes of the head, and of an element.
    pub(crate) layout: (usize, usize),
}

impl Tail {
    /// The size in bytes of an instance with `length` elements, including its header.
    pub fn size(&self, length: u32) -> usize {
        tailed_bytes(self.layout.0, length, self.layout.1)
    }
}

/// A registered type of arrays of references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReferenceArray(pub(crate) Id);

/// A registered type of arrays of weak references. Reference `i` is element `i`. It becomes null when a collection finds
/// that nothing else keeps the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WeakArray(pub(crate) Id);

/// A registered type of tables of ephemerons. Reference `2 * i` is the key of ephemeron `i`, and the reference behind it is
/// the value. The table keeps the value as long as the key lives, even if the value refers to the key or to the
/// table. The collection that finds the key dead makes both null. An integer as a key lives for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EphemeronTable(pub(crate) Id);

/// What the elements of an array without references are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Elements {
    /// One byte each.
    Bytes = 0,
    /// Two bytes each.
    Halves = 1,
    /// Four bytes each.
    Words = 2,
    /// Eight bytes each.
    Doubles = 3,
}

/// A registered type of arrays without references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Array(pub(crate) Id, pub(crate) Elements);
