//! Locals: the places of references that a program holds, which the collector updates. What is known of such a reference
//! when the program is compiled is part of the local's type, and need not be looked for at each access.
//!
//! # Invariants
//! - The slot of a [`Local`] lies in the table of its mutator as long as its scope lasts, which is its lifetime.
//! - A local of [`Fields`] refers to an object with that layout. Such a local is made for a fresh object, or after a
//!   look at the object's type; and nothing else is put there, since no other local has its slot.

use std::fmt;
use std::marker::PhantomData;

use gleaner_mem::Address;
use gleaner_mem::places::Place;
use gleaner_mem::slot::Value;
use gleaner_mem::types::TypeTable;

use crate::fields::{Fields, Slots};
use crate::scope::Scope;

/// A reference, null or a small integer in a scope. A copy of a local denotes the same place. A local cannot leave its
/// scope:
///
/// ```compile_fail
/// let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// let mut leaked = None;
/// heap.attach().unwrap().scope(|scope| leaked = Some(scope.null()));
/// ```
///
/// nor may it go from an inner scope to an outer one:
///
/// ```compile_fail
/// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// heap.attach().unwrap().scope(|scope| {
///     let mut outer = scope.null();
///     scope.nested(|scope| outer = scope.null());
/// });
/// ```
///
/// `T` is what is known of the value: nothing ([`Any`]), or that it is an object with the layout [`Fields`]. Nothing
/// else can be put into such a local:
///
/// ```compile_fail
/// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// # let pair: gleaner::Fields<2, 0> = heap.fields().unwrap();
/// heap.attach().unwrap().scope(|scope| {
///     let known = scope.allocate(pair).unwrap();
///     let any = scope.null();
///     scope.assign(known, any);
/// });
/// ```
///
/// and an access beyond the layout panics, as with other locals:
///
/// ```should_panic
/// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
/// # let pair: gleaner::Fields<2, 0> = heap.fields().unwrap();
/// heap.attach().unwrap().scope(|scope| {
///     let known = scope.allocate(pair).unwrap();
///     scope.get(known, 2);
/// });
/// ```
#[derive(Clone, Copy)]
pub struct Local<'s, T = Any> {
    pub(crate) slot: Address,
    /// Locals of outer scopes may stand where those of inner ones are wanted, and never the other way round: an inner
    /// scope's lifetime is known to nobody outside.
    brand: PhantomData<(&'s (), T)>,
}

impl<T> Local<'_, T> {
    /// # Safety
    /// The slot is that of a local of the mutator, whose scope has the lifetime, and it holds what `T` says.
    #[inline(always)]
    pub(crate) unsafe fn at(slot: Address) -> Self {
        Local {
            slot,
            brand: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Local<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Local({:?})", self.slot)
    }
}

/// What is known of a local's value when the program is compiled: [`Any`] or [`Fields`].
pub trait Holds: known::Known {}

/// Nothing is known of the value: it is an object of any type, a small integer, or null.
#[derive(Clone, Copy, Debug)]
pub enum Any {}

impl Holds for Any {}
impl<const REFERENCES: usize, const BYTES: usize, F: Slots> Holds for Fields<REFERENCES, BYTES, F> {}

/// What [`Scope::assign`] may put into a local of `T`.
pub trait FitsInto<T>: Holds {}

impl<T: Holds> FitsInto<Any> for T {}
impl<const REFERENCES: usize, const BYTES: usize, F: Slots> FitsInto<Self>
    for Fields<REFERENCES, BYTES, F>
{
}

/// What names a reference or a number of an object: a `usize`, or a place [`InTail`].
pub trait Index: known::Index {}

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

/// What the traits promise inside of this crate.
pub(crate) mod known {
    use super::*;

    /// How the fields of an object are found of which so much is known.
    pub trait Known: Copy + 'static {
        /// What is known of the slots of the heap.
        type Slots: Slots;

        /// The object that a local with this value refers to. Panics if it is none.
        fn object(value: Value) -> Address;

        /// Where a reference of the object lies. Panics if it has none of that index.
        ///
        /// # Safety
        /// The object is valid, and what is known of it holds.
        unsafe fn reference(scope: &Scope<'_>, object: Address, index: impl super::Index) -> Place;

        /// Where an item of `bytes` bytes, at most 8, lies. Panics if the object has none of that index.
        ///
        /// # Safety
        /// As for [`Known::reference`].
        unsafe fn item(
            scope: &Scope<'_>,
            object: Address,
            index: impl super::Index,
            bytes: usize,
        ) -> Place;
    }

    impl Known for Any {
        type Slots = crate::fields::AnySlots;

        #[inline(always)]
        fn object(value: Value) -> Address {
            value.as_object().unwrap_or_else(|| no_object(value))
        }

        #[inline(always)]
        unsafe fn reference(scope: &Scope<'_>, object: Address, index: impl super::Index) -> Place {
            // SAFETY: a valid object of this heap, as the caller promises.
            let found = unsafe { index.reference_place(scope.types(), object) };
            found.unwrap_or_else(|| scope.no_reference(object, &index))
        }

        #[inline(always)]
        unsafe fn item(
            scope: &Scope<'_>,
            object: Address,
            index: impl super::Index,
            bytes: usize,
        ) -> Place {
            // SAFETY: a valid object of this heap, as the caller promises.
            let found = unsafe { index.item_place(scope.types(), object, bytes) };
            found.unwrap_or_else(|| scope.no_item(object, &index, bytes))
        }
    }

    impl<const REFERENCES: usize, const BYTES: usize, F: Slots> Known for Fields<REFERENCES, BYTES, F> {
        type Slots = F;

        #[inline(always)]
        fn object(value: Value) -> Address {
            Address::new(value.bits() as usize)
        }

        #[inline(always)]
        unsafe fn reference(scope: &Scope<'_>, object: Address, index: impl super::Index) -> Place {
            let offset = index
                .in_structure()
                .and_then(|index| Self::reference(scope.slot_bytes(), index));
            offset.map_or_else(|| scope.no_reference(object, &index), Place::Field)
        }

        #[inline(always)]
        unsafe fn item(
            scope: &Scope<'_>,
            object: Address,
            index: impl super::Index,
            bytes: usize,
        ) -> Place {
            let offset = index
                .in_structure()
                .and_then(|index| Self::item(scope.slot_bytes(), index, bytes));
            offset.map_or_else(|| scope.no_item(object, &index, bytes), Place::Field)
        }
    }

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

#[cold]
#[inline(never)]
fn no_object(value: Value) -> ! {
    panic!("an access through {value:?}, which refers to no object")
}
