//! Types of objects: what the collector has to know of them, and where the embedder finds its fields.

use gleaner_mem::object_model::{FIELDS, TypeId};

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
    pub(crate) fn layout(self, slot_bytes: usize) -> Layout {
        let data = (FIELDS + self.references as usize * slot_bytes).next_multiple_of(8);
        let total = (data + self.bytes as usize).next_multiple_of(8);
        Layout {
            references: self.references,
            slot_bytes: slot_bytes as u32,
            data: data as u32,
            bytes: self.bytes,
            // An object has at least one granule beside its header.
            total: total.max(16),
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

/// The number of a type, and of the heap that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Id {
    pub(crate) heap: u32,
    pub(crate) number: TypeId,
    /// Instances never move.
    pub(crate) pinned: bool,
}

/// Declares what all registered types can do.
macro_rules! registered {
    ($($name:ident, $field:tt;)+) => { $(
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
    ReferenceArray, 0;
    Array, 0;
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

/// A registered type of arrays of references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReferenceArray(pub(crate) Id);

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
