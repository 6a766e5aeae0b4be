//! Access to the fields of objects, and to single elements of arrays, in the safe layer. What is known of an object when
//! the program is compiled is not looked up ([`Fields`](crate::Fields)). Else the object's type is asked at each access;
//! a wrong index panics with what the object has.
//!
//! All of this is inlined into the program; what ends in a panic is not.

use std::fmt;
use std::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::{Shape, TypeId};
use gleaner_mem::places::Place;
use gleaner_mem::slot::{Compressed, Value, Wide};

use crate::body::{OutOfMemory, with_heap};
use crate::elements::Number;
use crate::fields::Slots;
use crate::index::Index;
use crate::known::{Holds, ObjectType};
use crate::local::Local;
use crate::scope::Scope;
use crate::types::Registered;

impl<'s> Scope<'s> {
    /// A new local that holds reference `index` of an object.
    #[inline]
    pub fn get(&mut self, object: Local<'_, impl Holds>, index: impl Index) -> Local<'s> {
        let value = self.read_slot(object, index);
        self.local(value)
    }

    /// A new local that holds reference `index` of an object, if that is an object of type `of`.
    #[inline]
    pub fn get_as<T: ObjectType>(
        &mut self,
        object: Local<'_, impl Holds>,
        index: impl Index,
        of: T,
    ) -> Option<Local<'s, T::Known>> {
        let value = self.read_slot(object, index);
        self.is_of(value, of).then(|| {
            // SAFETY: an object of this type, of which is known what the type says.
            unsafe { self.local_of_known(value) }
        })
    }

    /// A new local that holds what `local` does, if that is an object of type `of`.
    #[inline]
    pub fn cast<T: ObjectType>(
        &mut self,
        local: Local<'_, impl Holds>,
        of: T,
    ) -> Option<Local<'s, T::Known>> {
        let value = self.value(local);
        self.is_of(value, of).then(|| {
            // SAFETY: an object of this type, of which is known what the type says.
            unsafe { self.local_of_known(value) }
        })
    }

    /// Sets `into` to reference `index` of an object.
    #[inline]
    pub fn load(&mut self, object: Local<'_, impl Holds>, index: impl Index, into: Local<'_>) {
        let value = self.read_slot(object, index);
        self.put_value(into, value);
    }

    /// Sets reference `index` of an object to what `value` holds. A store into an array is like an allocation: it may
    /// collect, and it fails when there is no memory.
    #[inline(always)]
    pub fn set<T: Holds>(
        &mut self,
        object: Local<'_, T>,
        index: impl Index,
        value: Local<'_, impl Holds>,
    ) -> Result<(), OutOfMemory> {
        let value = self.value(value);
        self.set_value(object, index, value)
    }

    /// Sets reference `index` of an object to null, as [`Scope::set`] does.
    #[inline]
    pub fn set_null(
        &mut self,
        object: Local<'_, impl Holds>,
        index: impl Index,
    ) -> Result<(), OutOfMemory> {
        self.set_value(object, index, Value::NULL)
    }

    #[inline(always)]
    fn set_value<T: Holds>(
        &mut self,
        object: Local<'_, T>,
        index: impl Index,
        value: Value,
    ) -> Result<(), OutOfMemory> {
        let object = self.object(object);
        match self.reference::<T>(object, index) {
            Place::Field(offset) => {
                // SAFETY: the offset is that of a slot of this object; locals hold what fits.
                unsafe { self.store_in::<T::Slots>(object, offset, value) };
                Ok(())
            }
            // SAFETY: an array of references that has this element; locals hold what fits, and a scope has only locals.
            Place::Element(index) => unsafe {
                self.mutator().store_element_raw(object, index, value)
            },
        }
    }

    /// Where a reference of an object lies of which is known what `T` says.
    #[inline(always)]
    pub(crate) fn reference<T: Holds>(&self, object: Address, index: impl Index) -> Place {
        // SAFETY: a local refers to a valid object, of which is known what its type says.
        let place = unsafe { T::reference(self.shared(), object, index) };
        place.unwrap_or_else(|| self.no_reference(object, &index))
    }

    /// Where an item of an object lies of which is known what `T` says.
    #[inline(always)]
    fn item<T: Holds>(&self, object: Address, index: impl Index, bytes: usize) -> Place {
        // SAFETY: a local refers to a valid object, of which is known what its type says.
        let place = unsafe { T::item(self.shared(), object, index, bytes) };
        place.unwrap_or_else(|| self.no_item(object, &index, bytes))
    }

    #[inline(always)]
    fn read_slot<T: Holds>(&self, object: Local<'_, T>, index: impl Index) -> Value {
        let object = self.object(object);
        match self.reference::<T>(object, index) {
            // SAFETY: the offset is that of a slot of this object.
            Place::Field(offset) => unsafe { self.load_in::<T::Slots>(object, offset) },
            // SAFETY: an array of references that has this element.
            Place::Element(index) => unsafe { self.shared().load_element_raw(object, index) },
        }
    }

    /// # Safety
    /// As for [`Mutator::load_raw`](crate::Mutator::load_raw), and the heap has the slots that `F` says.
    #[inline(always)]
    unsafe fn load_in<F: Slots>(&self, object: Address, offset: usize) -> Value {
        // SAFETY: a slot of the heap's format lies there, as the caller promises.
        unsafe {
            match F::BYTES {
                Some(8) => self.shared().load_in::<Wide>(object, offset),
                Some(_) => self.shared().load_in::<Compressed>(object, offset),
                None => self.shared().load_raw(object, offset),
            }
        }
    }

    /// # Safety
    /// As for [`Mutator::store_raw`](crate::Mutator::store_raw), and the heap has the slots that `F` says.
    #[inline(always)]
    unsafe fn store_in<F: Slots>(&self, object: Address, offset: usize, value: Value) {
        // SAFETY: a slot of the heap's format lies there, and the value fits, as the caller promises.
        unsafe {
            match F::BYTES {
                Some(8) => self.shared().store_in::<Wide>(object, offset, value),
                Some(_) => self.shared().store_in::<Compressed>(object, offset, value),
                None => self.shared().store_raw(object, offset, value),
            }
        }
    }

    #[inline(always)]
    fn read<N: Number, T: Holds>(&self, object: Local<'_, T>, index: impl Index) -> N {
        let object = self.object(object);
        match self.item::<T>(object, index, N::BYTES) {
            // SAFETY: such an item lies there. It is aligned; a number needs no base.
            Place::Field(offset) => unsafe { N::read_at(object.add(offset), Address::NULL) },
            // SAFETY: an array of such numbers that has this element.
            Place::Element(index) => unsafe { self.shared().load_element_in::<N>(object, index) },
        }
    }

    #[inline(always)]
    fn write<N: Number, T: Holds>(
        &mut self,
        object: Local<'_, T>,
        index: impl Index,
        number: N,
    ) -> Result<(), OutOfMemory> {
        let object = self.object(object);
        match self.item::<T>(object, index, N::BYTES) {
            Place::Field(offset) => {
                // SAFETY: such an item lies there. It is aligned; a number needs no base.
                unsafe { N::write_at(object.add(offset), Address::NULL, number) };
                Ok(())
            }
            // SAFETY: an array of such numbers that has this element; a scope has only locals.
            Place::Element(index) => unsafe {
                self.mutator().store_element_in::<N>(object, index, number)
            },
        }
    }

    /// The number of elements of an array, or behind a head.
    #[inline]
    pub fn length(&self, array: Local<'_, impl Holds>) -> u32 {
        let object = self.object(array);
        // SAFETY: a local refers to a valid object.
        if !unsafe { self.shared().types().has_length(object) } {
            self.no_length(object);
        }
        // SAFETY: an object with a length.
        unsafe { self.shared().length_raw(object) }
    }

    /// Whether a local refers to an object of that type.
    #[inline]
    pub fn is_a(&self, local: Local<'_, impl Holds>, of: impl Registered) -> bool {
        self.is_of(self.value(local), of)
    }

    /// The number of the type of the object that a local refers to, for a dispatch on types; the type has it as its
    /// [`id`](crate::Type::id). `None` if the local is null or an integer.
    ///
    /// ```
    /// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// # let structure = |references| heap.structure(gleaner::Structure { references, bytes: 0 }).unwrap();
    /// let (pair, cell) = (structure(2), structure(1));
    /// heap.attach().unwrap().scope(|scope| {
    ///     let value = scope.allocate(cell).unwrap();
    ///     let name = match scope.type_of(value) {
    ///         Some(id) if id == pair.id() => "a pair",
    ///         Some(id) if id == cell.id() => "a cell",
    ///         Some(_) => "another object",
    ///         None => "null or an integer",
    ///     };
    ///     assert_eq!(name, "a cell");
    ///     scope.assign_null(value);
    ///     assert_eq!(scope.type_of(value), None);
    /// });
    /// ```
    #[inline]
    pub fn type_of(&self, local: Local<'_, impl Holds>) -> Option<TypeId> {
        let object = self.value(local).as_object()?;
        // SAFETY: a local refers to a valid object.
        Some(unsafe { self.shared().type_raw(object) })
    }

    /// Whether a value is an object of that type.
    #[inline(always)]
    fn is_of(&self, value: Value, of: impl Registered) -> bool {
        let id = self.own(of.id());
        value.as_object().is_some_and(|object| {
            // SAFETY: a local refers to a valid object, and so does a slot of an object.
            unsafe { self.shared().type_raw(object) == id }
        })
    }

    /// What an object is.
    pub(crate) fn shape<R>(&self, object: Address, body: impl FnOnce(Option<Shape<'_>>) -> R) -> R {
        // SAFETY: a local refers to a valid object.
        let id = unsafe { header::load(object, Ordering::Relaxed) }.type_id();
        with_heap!(&self.shared().shared.kind, heap => body(heap.model.shape(id)))
    }

    /// What an object has, for a message.
    pub(crate) fn describe(&self, object: Address) -> String {
        self.shape(object, |shape| match shape {
            Some(Shape::Structure { bytes, references }) => {
                format!("{} references in {bytes} bytes", references.len())
            }
            Some(Shape::References) => {
                // SAFETY: this shape is an array.
                format!("{} elements, references", unsafe {
                    self.shared().length_raw(object)
                })
            }
            Some(Shape::Primitives { log2 }) => {
                // SAFETY: this shape is an array.
                let length = unsafe { self.shared().length_raw(object) };
                format!("{length} elements of {} bytes", 1 << log2)
            }
            Some(Shape::Tailed { head, element, .. }) => {
                // SAFETY: this shape has a length.
                let length = unsafe { self.shared().length_raw(object) };
                format!("{length} elements of {element} bytes behind a head of {head}")
            }
            Some(Shape::Weak {
                head, element: 0, ..
            }) => format!("weak slots in {head} bytes"),
            Some(Shape::Weak { head, element, .. }) => {
                // SAFETY: this shape has a length.
                let length = unsafe { self.shared().length_raw(object) };
                format!(
                    "{length} elements of {element} bytes with weak slots behind a head of {head}"
                )
            }
            Some(Shape::Traced { .. }) => "a trace function".into(),
            None => "no type of this heap".into(),
        })
    }

    #[cold]
    #[inline(never)]
    fn no_reference(&self, object: Address, index: &dyn fmt::Display) -> ! {
        panic!(
            "reference {index} of an object that has {}",
            self.describe(object)
        )
    }

    #[cold]
    #[inline(never)]
    fn no_item(&self, object: Address, index: &dyn fmt::Display, bytes: usize) -> ! {
        panic!(
            "item {index} of {bytes} bytes of an object that has {}",
            self.describe(object)
        )
    }

    #[cold]
    #[inline(never)]
    fn no_length(&self, object: Address) -> ! {
        panic!("the length of an object that has {}", self.describe(object))
    }
}

/// Declares a reader and a writer for one size of data. Mutators may race for it: then either value is read.
macro_rules! data_access {
    ($($read:ident, $write:ident: $type:ty;)+) => {
        impl Scope<'_> {
            $(
                /// Reads item `index` of this size from the bytes of an object, or from an array of such elements.
                #[inline]
                pub fn $read(&self, object: Local<'_, impl Holds>, index: impl Index) -> $type {
                    self.read(object, index)
                }

                /// Writes item `index` of this size to the bytes of an object, or to an array of such elements. A
                /// store into an array is like an allocation: it may collect, and it fails when there is no memory.
                #[inline]
                pub fn $write(
                    &mut self,
                    object: Local<'_, impl Holds>,
                    index: impl Index,
                    value: $type,
                ) -> Result<(), OutOfMemory> {
                    self.write(object, index, value)
                }
            )+
        }
    };
}

data_access! {
    read_u8, write_u8: u8;
    read_u16, write_u16: u16;
    read_u32, write_u32: u32;
    read_u64, write_u64: u64;
    read_f64, write_f64: f64;
}
