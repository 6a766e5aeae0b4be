//! What is known of the value of a local when the program is compiled, and what it spares: nothing, or the layout of the
//! object.

use crate::fields::{Fields, Slots};
use crate::local::Any;
use crate::types::{Registered, Type};

/// What is known of a local's value when the program is compiled: [`Any`] or [`Fields`].
pub trait Holds: at_access::Holds {}

impl Holds for Any {}
impl<const REFERENCES: usize, const BYTES: usize, F: Slots> Holds for Fields<REFERENCES, BYTES, F> {}

/// What [`Scope::assign`](crate::Scope::assign) may put into a local of `T`.
pub trait FitsInto<T>: Holds {}

impl<T: Holds> FitsInto<Any> for T {}
impl<const REFERENCES: usize, const BYTES: usize, F: Slots> FitsInto<Self>
    for Fields<REFERENCES, BYTES, F>
{
}

/// A registered type of objects without a length.
pub trait ObjectType: Registered + at_allocation::ObjectType {
    /// What is known of such an object when the program is compiled.
    type Known: Holds;
}

impl ObjectType for Type {
    type Known = Any;
}

impl<const REFERENCES: usize, const BYTES: usize, F: Slots> ObjectType
    for Fields<REFERENCES, BYTES, F>
{
    type Known = Self;
}

/// What an access to an object asks.
pub(crate) mod at_access {
    use gleaner_mem::Address;
    use gleaner_mem::places::Place;
    use gleaner_mem::slot::Value;

    use crate::fields::{AnySlots, Fields, Slots};
    use crate::index::Index;
    use crate::local::Any;
    use crate::mutator::Mutator;

    /// How the fields of an object are found of which so much is known.
    pub trait Holds: Copy + 'static {
        /// What is known of the slots of the heap.
        type Slots: Slots;

        /// The object that a local with this value refers to. Panics if it is none.
        fn object(value: Value) -> Address;

        /// Where a reference of the object lies, if it has one of that index.
        ///
        /// # Safety
        /// The object is a valid one of the mutator's heap, and what is known of it holds.
        unsafe fn reference(mutator: &Mutator, object: Address, index: impl Index)
        -> Option<Place>;

        /// Where an item of `bytes` bytes, at most 8, lies, if the object has one of that index.
        ///
        /// # Safety
        /// As for [`Holds::reference`].
        unsafe fn item(
            mutator: &Mutator,
            object: Address,
            index: impl Index,
            bytes: usize,
        ) -> Option<Place>;
    }

    impl Holds for Any {
        type Slots = AnySlots;

        #[inline(always)]
        fn object(value: Value) -> Address {
            value.as_object().unwrap_or_else(|| no_object(value))
        }

        #[inline(always)]
        unsafe fn reference(
            mutator: &Mutator,
            object: Address,
            index: impl Index,
        ) -> Option<Place> {
            // SAFETY: a valid object of this heap, as the caller promises.
            unsafe { index.reference_place(mutator.types(), object) }
        }

        #[inline(always)]
        unsafe fn item(
            mutator: &Mutator,
            object: Address,
            index: impl Index,
            bytes: usize,
        ) -> Option<Place> {
            // SAFETY: a valid object of this heap, as the caller promises.
            unsafe { index.item_place(mutator.types(), object, bytes) }
        }
    }

    impl<const REFERENCES: usize, const BYTES: usize, F: Slots> Holds for Fields<REFERENCES, BYTES, F> {
        type Slots = F;

        #[inline(always)]
        fn object(value: Value) -> Address {
            Address::new(value.bits() as usize)
        }

        #[inline(always)]
        unsafe fn reference(mutator: &Mutator, _: Address, index: impl Index) -> Option<Place> {
            let offset = Self::reference_offset(mutator.slot_bytes(), index.in_structure()?)?;
            Some(Place::Field(offset))
        }

        #[inline(always)]
        unsafe fn item(
            mutator: &Mutator,
            _: Address,
            index: impl Index,
            bytes: usize,
        ) -> Option<Place> {
            let offset = Self::item_offset(mutator.slot_bytes(), index.in_structure()?, bytes)?;
            Some(Place::Field(offset))
        }
    }

    #[cold]
    #[inline(never)]
    fn no_object(value: Value) -> ! {
        panic!("an access through {value:?}, which refers to no object")
    }
}

/// What an allocation of an object asks.
pub(crate) mod at_allocation {
    use crate::fields::{Fields, Slots};
    use crate::types::Type;

    /// A type whose objects have a fixed size.
    pub trait ObjectType: Copy {
        /// The size in bytes of an instance, including its header, in the type's heap.
        fn size(self, slot_bytes: usize) -> usize;

        /// Whether instances never move.
        fn is_pinned(self) -> bool;
    }

    impl ObjectType for Type {
        #[inline(always)]
        fn size(self, _: usize) -> usize {
            self.layout.total
        }

        #[inline(always)]
        fn is_pinned(self) -> bool {
            self.id.pinned
        }
    }

    impl<const REFERENCES: usize, const BYTES: usize, F: Slots> ObjectType
        for Fields<REFERENCES, BYTES, F>
    {
        #[inline(always)]
        fn size(self, slot_bytes: usize) -> usize {
            Self::layout(slot_bytes).total
        }

        #[inline(always)]
        fn is_pinned(self) -> bool {
            false
        }
    }
}
