//! Indices: what names a reference or a number of an object in the safe layer.

use std::fmt;

/// What names a reference or a number of an object: a `usize`, or a place [`InTail`].
pub trait Index: in_types::Index {}

impl Index for usize {}

/// Item `index` of the element with number `element` behind a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InTail {
    /// The number of the element.
    pub element: usize,
    /// The index in the element.
    pub index: usize,
}

impl Index for InTail {}

impl fmt::Display for InTail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} in element {}", self.index, self.element)
    }
}

/// What the trait promises inside of this crate.
mod in_types {
    use std::fmt;

    use gleaner_mem::Address;
    use gleaner_mem::places::Place;
    use gleaner_mem::types::TypeTable;

    use super::InTail;

    /// How the types of a heap say where an index leads.
    pub trait Index: Copy + fmt::Display {
        /// See [`TypeTable::reference_place`].
        ///
        /// # Safety
        /// As for [`TypeTable::reference_place`].
        unsafe fn reference_place(self, types: &TypeTable, object: Address) -> Option<Place>;

        /// See [`TypeTable::item_place`].
        ///
        /// # Safety
        /// As for [`TypeTable::item_place`].
        unsafe fn item_place(
            self,
            types: &TypeTable,
            object: Address,
            bytes: usize,
        ) -> Option<Place>;

        /// The number of what is named, if a structure can have it.
        fn in_structure(self) -> Option<usize>;
    }

    impl Index for usize {
        #[inline(always)]
        unsafe fn reference_place(self, types: &TypeTable, object: Address) -> Option<Place> {
            // SAFETY: a valid object of a type of the table, as the caller promises.
            unsafe { types.reference_place(object, self) }
        }

        #[inline(always)]
        unsafe fn item_place(
            self,
            types: &TypeTable,
            object: Address,
            bytes: usize,
        ) -> Option<Place> {
            // SAFETY: a valid object of a type of the table, as the caller promises.
            unsafe { types.item_place(object, self, bytes) }
        }

        #[inline(always)]
        fn in_structure(self) -> Option<usize> {
            Some(self)
        }
    }

    impl Index for InTail {
        #[inline(always)]
        unsafe fn reference_place(self, types: &TypeTable, object: Address) -> Option<Place> {
            // SAFETY: a valid object of a type of the table, as the caller promises.
            unsafe { types.tail_reference_place(object, self.element, self.index) }
        }

        #[inline(always)]
        unsafe fn item_place(
            self,
            types: &TypeTable,
            object: Address,
            bytes: usize,
        ) -> Option<Place> {
            // SAFETY: a valid object of a type of the table, as the caller promises.
            unsafe { types.tail_item_place(object, self.element, self.index, bytes) }
        }

        #[inline(always)]
        fn in_structure(self) -> Option<usize> {
            None
        }
    }
}
