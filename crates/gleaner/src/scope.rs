//! The safe layer: scopes, and the references in them.
//!
//! A [`Local`] is not a reference but the place of one, in a table of roots that the collector updates. It cannot leave
//! its scope (its lifetime is a brand that no other scope has), so a forgotten root cannot exist. Every access checks
//! the object's type and the index; a wrong one panics with both.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::{Place, Shape, TypeId, array_bytes};
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_plans::scavenge::allocate::Fresh;
use gleaner_plans::scavenge::mutator::MOST_LOCALS;
use gleaner_plans::scavenge::walk::Found;

use crate::body::{OutOfMemory, Shared, with_heap};
use crate::elements::Number;
use crate::handle::{Ephemeron, Handle, Weak};
use crate::mutator::Mutator;
use crate::new_object::NewObject;
use crate::types::{Array, Id, ReferenceArray, Type};

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
#[derive(Clone, Copy)]
pub struct Local<'s> {
    slot: Address,
    /// Locals of outer scopes may stand where those of inner ones are wanted, and never the other way round: an inner
    /// scope's lifetime is known to nobody outside.
    brand: PhantomData<&'s ()>,
}

impl fmt::Debug for Local<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Local({:?})", self.slot)
    }
}

/// Where a mutator works. Its locals live as long as the scope.
pub struct Scope<'s> {
    mutator: *mut Mutator,
    /// How many locals there were before.
    before: usize,
    brand: PhantomData<fn(&'s ()) -> &'s ()>,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let before = self.before;
        self.shared().record().local_count.set(before);
    }
}

impl Mutator {
    /// Runs `body` with a scope. The locals of the scope live as long as `body` runs.
    pub fn scope<R>(&mut self, body: impl for<'s> FnOnce(&mut Scope<'s>) -> R) -> R {
        Scope::enter(self, body)
    }
}

impl<'s> Scope<'s> {
    pub(crate) fn enter<R>(
        mutator: &mut Mutator,
        body: impl for<'t> FnOnce(&mut Scope<'t>) -> R,
    ) -> R {
        let before = mutator.record().local_count.get();
        let mut scope = Scope {
            mutator,
            before,
            brand: PhantomData,
        };
        body(&mut scope)
    }

    pub(crate) fn mutator(&mut self) -> &mut Mutator {
        // SAFETY: the mutator is borrowed by the function that entered the outermost scope, and inner scopes borrow
        // outer ones.
        unsafe { &mut *self.mutator }
    }

    pub(crate) fn shared(&self) -> &Mutator {
        // SAFETY: the mutator outlives the scope, which borrows it by way of the outermost one.
        unsafe { &*self.mutator }
    }

    /// Runs `body` with a scope of its own, whose locals are gone afterwards.
    pub fn nested<R>(&mut self, body: impl for<'t> FnOnce(&mut Scope<'t>) -> R) -> R {
        Scope::enter(self.mutator(), body)
    }

    #[inline]
    pub(crate) fn local(&mut self, value: Value) -> Local<'s> {
        let record = self.shared().record();
        let count = record.local_count.get();
        assert!(
            count < MOST_LOCALS,
            "a mutator has at most {MOST_LOCALS} locals at a time: use nested scopes inside loops"
        );
        let slot = record.local(count);
        // SAFETY: a slot of the mutator's table.
        unsafe { Wide::store(slot, Address::NULL, value) };
        record.local_count.set(count + 1);
        Local {
            slot,
            brand: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn value(&self, local: Local<'_>) -> Value {
        let offset = local.slot.offset_from(self.shared().record().local(0));
        assert!(
            offset < MOST_LOCALS * size_of::<Value>(),
            "a local of another mutator: locals are used by the mutator whose scope made them"
        );
        // SAFETY: a slot of this mutator's table; its scope exists, by its brand.
        unsafe { Wide::load(local.slot, Address::NULL) }
    }

    #[inline]
    fn put_value(&mut self, local: Local<'_>, value: Value) {
        self.value(local);
        // SAFETY: `value` has checked the slot.
        unsafe { Wide::store(local.slot, Address::NULL, value) };
    }

    #[inline]
    pub(crate) fn object(&self, local: Local<'_>) -> Address {
        let value = self.value(local);
        value.as_object().unwrap_or_else(|| no_object(value))
    }

    pub(crate) fn shape<R>(&self, object: Address, body: impl FnOnce(Option<Shape<'_>>) -> R) -> R {
        // SAFETY: a local refers to a valid object.
        let id = unsafe { header::load(object, Ordering::Relaxed) }.type_id();
        with_heap!(&self.shared().shared.kind, heap => body(heap.model.shape(id)))
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        if self.shared().compressed { 4 } else { 8 }
    }

    /// A new local that is null.
    #[inline]
    pub fn null(&mut self) -> Local<'s> {
        self.local(Value::NULL)
    }

    /// A new local that is a small integer; `None` if the slots of this heap cannot hold it: a wide slot holds 63 bits, a
    /// compressed one 31. Who runs the program may choose that (option `refs`).
    pub fn integer(&mut self, number: i64) -> Option<Local<'s>> {
        let fits = self.shared().fits(number);
        fits.then(|| self.local(Value::immediate(number)))
    }

    /// The integer in a local; `None` if the local holds no integer.
    pub fn as_integer(&self, local: Local<'_>) -> Option<i64> {
        self.value(local).as_immediate()
    }

    /// Whether a local is null.
    #[inline]
    pub fn is_null(&self, local: Local<'_>) -> bool {
        self.value(local).is_null()
    }

    /// Whether two locals are the same object, the same integer, or both null.
    #[inline]
    pub fn same(&self, one: Local<'_>, other: Local<'_>) -> bool {
        self.value(one) == self.value(other)
    }

    /// Whether a local refers to an object of that structure.
    pub fn is_a(&self, local: Local<'_>, of: Type) -> bool {
        let id = self.own(of.id);
        self.value(local).as_object().is_some_and(|object| {
            // SAFETY: a local refers to a valid object.
            unsafe { self.shared().type_raw(object) == id }
        })
    }

    /// Sets `into` to what `from` holds.
    #[inline]
    pub fn assign(&mut self, into: Local<'_>, from: Local<'_>) {
        let value = self.value(from);
        self.put_value(into, value);
    }

    /// The number of a type, which must be of this heap.
    #[inline]
    pub(crate) fn own(&self, id: Id) -> TypeId {
        assert!(
            id.heap == self.shared().shared.number,
            "a type of another heap"
        );
        id.number
    }

    /// Allocates an object. Its references are null, and its bytes are 0. The type belongs to this heap.
    #[inline]
    pub fn allocate(&mut self, of: Type) -> Result<Local<'s>, OutOfMemory> {
        let new = NewObject::structure(self.own(of.id), of.layout.total);
        // SAFETY: the type is this heap's (`own`), and the size is the type's.
        let object = unsafe { self.new_object(of.id.pinned, new, Fresh::Zeroed) }?;
        Ok(self.local(Value::reference(object)))
    }

    /// Allocates an object, of a type that may be pinned: then its memory is zeroed anyway.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks. A scope holds references in locals alone, so none is outside of a root slot.
    #[inline(always)]
    pub(crate) unsafe fn new_object(
        &mut self,
        pinned: bool,
        new: NewObject,
        fresh: Fresh,
    ) -> Result<Address, OutOfMemory> {
        let mutator = self.mutator();
        // SAFETY: type, length and size belong together, and what is unwritten is written, as the caller promises.
        unsafe {
            if pinned {
                mutator.allocate_pinned_raw(new)
            } else {
                mutator.allocate_raw(new, fresh)
            }
        }
    }

    /// Allocates an array of references, which are null.
    pub fn allocate_references(
        &mut self,
        of: ReferenceArray,
        length: u32,
    ) -> Result<Local<'s>, OutOfMemory> {
        let log2 = self.slot_bytes().trailing_zeros();
        self.fresh_array(of.0, length, log2)
    }

    /// Allocates an array of numbers, which are 0.
    pub fn allocate_array(&mut self, of: Array, length: u32) -> Result<Local<'s>, OutOfMemory> {
        self.fresh_array(of.0, length, of.1 as u32)
    }

    /// Allocates an array of references that lives as long as the heap. Its references are null.
    ///
    /// In pieces, the array has all its arraylets from the start, and keeps them (PLDI 2010, section 5.2). No store
    /// into it takes memory, so no store into it can fail.
    pub fn allocate_immortal_references(
        &mut self,
        of: ReferenceArray,
        length: u32,
    ) -> Result<Local<'s>, OutOfMemory> {
        let log2 = self.slot_bytes().trailing_zeros();
        self.immortal_array(of.0, length, log2)
    }

    /// Allocates an array of numbers that lives as long as the heap, as [`Scope::allocate_immortal_references`] does.
    /// Its numbers are 0.
    pub fn allocate_immortal_array(
        &mut self,
        of: Array,
        length: u32,
    ) -> Result<Local<'s>, OutOfMemory> {
        self.immortal_array(of.0, length, of.1 as u32)
    }

    fn immortal_array(&mut self, of: Id, length: u32, log2: u32) -> Result<Local<'s>, OutOfMemory> {
        let new = NewObject::array(self.own(of), length, array_bytes(length, log2));
        let mutator = self.mutator();
        // SAFETY: the type is this heap's (`own`) and one of arrays, and `new.bytes` follows from the length.
        let object = unsafe {
            if of.pinned {
                let object = mutator.allocate_pinned_raw(new)?;
                mutator.keep(object, new.bytes)
            } else {
                mutator.allocate_immortal_raw(new)
            }
        }?;
        Ok(self.local(Value::reference(object)))
    }

    #[inline]
    fn fresh_array(&mut self, of: Id, length: u32, log2: u32) -> Result<Local<'s>, OutOfMemory> {
        let new = NewObject::array(self.own(of), length, array_bytes(length, log2));
        // SAFETY: the type is this heap's (`own`) and one of arrays, and `new.bytes` follows from the length.
        let object = unsafe { self.new_object(of.pinned, new, Fresh::Zeroed) }?;
        Ok(self.local(Value::reference(object)))
    }

    /// See [`Mutator::walk`].
    pub fn walk(&mut self, visit: &mut dyn FnMut(&Found)) {
        self.mutator().walk(visit);
    }

    /// Where the reference `index` of a structure or an array of references is.
    #[inline(always)]
    fn slot(&self, object: Address, index: usize) -> Place {
        // SAFETY: a local refers to a valid object.
        let found = with_heap!(&self.shared().shared.kind, heap => unsafe {
            heap.model.reference_place(object, index)
        });
        found.unwrap_or_else(|| self.no_reference(object, index))
    }

    #[cold]
    #[inline(never)]
    fn no_reference(&self, object: Address, index: usize) -> ! {
        panic!(
            "reference {index} of an object that has {}",
            self.describe(object)
        )
    }

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
            Some(Shape::Traced { .. }) => "a trace function".into(),
            None => "no type of this heap".into(),
        })
    }

    /// A new local that holds reference `index` of a structure or an array.
    #[inline]
    pub fn get(&mut self, object: Local<'_>, index: usize) -> Local<'s> {
        let value = self.read_slot(object, index);
        self.local(value)
    }

    /// Sets `into` to reference `index` of a structure or an array.
    #[inline]
    pub fn load(&mut self, object: Local<'_>, index: usize, into: Local<'_>) {
        let value = self.read_slot(object, index);
        self.put_value(into, value);
    }

    #[inline]
    fn read_slot(&self, object: Local<'_>, index: usize) -> Value {
        let object = self.object(object);
        match self.slot(object, index) {
            // SAFETY: the offset is that of a slot of this object.
            Place::Field(offset) => unsafe { self.shared().load_raw(object, offset) },
            // SAFETY: an array of references that has this element.
            Place::Element => unsafe { self.shared().load_element_raw(object, index) },
        }
    }

    /// Sets reference `index` of a structure or an array to what `value` holds. A store into an array is like an
    /// allocation: it may collect, and it fails when there is no memory.
    #[inline]
    pub fn set(
        &mut self,
        object: Local<'_>,
        index: usize,
        value: Local<'_>,
    ) -> Result<(), OutOfMemory> {
        let value = self.value(value);
        let object = self.object(object);
        match self.slot(object, index) {
            Place::Field(offset) => {
                // SAFETY: the offset is that of a slot of this object; locals hold what fits.
                unsafe { self.shared().store_raw(object, offset, value) };
                Ok(())
            }
            // SAFETY: an array of references that has this element; locals hold what fits, and a scope has only locals.
            Place::Element => unsafe { self.mutator().store_element_raw(object, index, value) },
        }
    }

    /// The number of elements of an array.
    pub fn length(&self, array: Local<'_>) -> u32 {
        let object = self.object(array);
        let is_array = self.shape(object, |shape| {
            matches!(shape, Some(Shape::References | Shape::Primitives { .. }))
        });
        assert!(
            is_array,
            "the length of an object that has {}",
            self.describe(object)
        );
        // SAFETY: an array.
        unsafe { self.shared().length_raw(object) }
    }

    /// Where item `index` of `bytes` bytes is: in a structure's own bytes, or in an array whose elements have `bytes`
    /// bytes.
    #[inline(always)]
    fn item(&self, object: Address, index: usize, bytes: usize) -> Place {
        // SAFETY: a local refers to a valid object.
        let found = with_heap!(&self.shared().shared.kind, heap => unsafe {
            heap.model.item_place(object, index, bytes)
        });
        found.unwrap_or_else(|| self.no_item(object, index, bytes))
    }

    #[inline(always)]
    fn read<T: Number>(&self, object: Local<'_>, index: usize) -> T {
        let object = self.object(object);
        match self.item(object, index, T::BYTES) {
            // SAFETY: such an item lies there. It is aligned; a number needs no base.
            Place::Field(offset) => unsafe { T::read_at(object.add(offset), Address::NULL) },
            // SAFETY: an array of such numbers that has this element.
            Place::Element => unsafe { self.shared().load_element_in::<T>(object, index) },
        }
    }

    #[inline(always)]
    fn write<T: Number>(
        &mut self,
        object: Local<'_>,
        index: usize,
        number: T,
    ) -> Result<(), OutOfMemory> {
        let object = self.object(object);
        match self.item(object, index, T::BYTES) {
            Place::Field(offset) => {
                // SAFETY: such an item lies there. It is aligned; a number needs no base.
                unsafe { T::write_at(object.add(offset), Address::NULL, number) };
                Ok(())
            }
            // SAFETY: an array of such numbers that has this element; a scope has only locals.
            Place::Element => unsafe {
                self.mutator().store_element_in::<T>(object, index, number)
            },
        }
    }

    #[cold]
    #[inline(never)]
    fn no_item(&self, object: Address, index: usize, bytes: usize) -> ! {
        panic!(
            "item {index} of {bytes} bytes of an object that has {}",
            self.describe(object)
        )
    }

    /// The identity hash of an object. The first call gives the object its hash, which stays the same when the object
    /// moves.
    pub fn identity_hash(&mut self, object: Local<'_>) -> u32 {
        let object = self.object(object);
        // SAFETY: a local refers to a valid object.
        unsafe { self.mutator().identity_hash_raw(object) }
    }

    /// Makes a handle to what a local holds. `None` when the heap has as many handles as it can, some four million.
    pub fn handle(&mut self, local: Local<'_>) -> Option<Handle> {
        let (value, shared) = (self.value(local), Arc::clone(&self.shared().counted));
        Handle::create(shared, &[value])
    }

    /// A new local that holds what a handle of this heap refers to.
    pub fn open(&mut self, handle: &Handle) -> Local<'s> {
        self.own_handle(&handle.shared);
        self.local_of(handle.slot)
    }

    /// Makes a weak reference to an object. `None` when the heap has as many as it can, some four million.
    pub fn weak(&mut self, object: Local<'_>) -> Option<Weak> {
        let (object, shared) = (self.object(object), Arc::clone(&self.shared().counted));
        Weak::create(shared, &[Value::reference(object)])
    }

    /// A new local that holds what a weak reference of this heap refers to; null if the object is dead.
    pub fn upgrade(&mut self, weak: &Weak) -> Local<'s> {
        self.own_handle(&weak.shared);
        self.local_of(weak.slot)
    }

    /// Makes an ephemeron of two objects. `None` when the heap has as many as it can, some four million.
    pub fn ephemeron(&mut self, key: Local<'_>, value: Local<'_>) -> Option<Ephemeron> {
        let (key, value) = (self.object(key), self.object(value));
        let pair = [key, value].map(Value::reference);
        let shared = Arc::clone(&self.shared().counted);
        Ephemeron::create(shared, &pair)
    }

    /// A new local that holds the key of an ephemeron of this heap; null if the key is dead.
    pub fn key(&mut self, ephemeron: &Ephemeron) -> Local<'s> {
        self.own_handle(&ephemeron.shared);
        self.local_of(ephemeron.slot)
    }

    /// A new local that holds the value of an ephemeron of this heap; null if the key is dead.
    pub fn value_of(&mut self, ephemeron: &Ephemeron) -> Local<'s> {
        self.own_handle(&ephemeron.shared);
        self.local_of(ephemeron.second())
    }

    /// Has [`Scope::next_finalizable`] hand out the object once, after nothing refers to it any more. `None` when the
    /// heap has as many finalizers as it can, some four million.
    pub fn add_finalizer(&mut self, object: Local<'_>) -> Option<()> {
        let object = self.object(object);
        with_heap!(&self.shared().shared.kind, heap => heap.weak.add_finalizer(object))
    }

    /// The object that became finalizable first. It is alive again, with everything that it refers to. The embedder
    /// finalizes it when it likes, on the thread that it likes.
    pub fn next_finalizable(&mut self) -> Option<Local<'s>> {
        // Room for it first, or it would be lost.
        let local = self.null();
        let object = with_heap!(&self.shared().shared.kind, heap => heap.weak.take_ready())?;
        self.put_value(local, Value::reference(object));
        Some(local)
    }

    /// A handle with this heap must be of this one.
    fn own_handle(&self, shared: &Arc<Shared>) {
        assert!(
            Arc::ptr_eq(&self.shared().counted, shared),
            "a handle of another heap"
        );
    }

    fn local_of(&mut self, slot: Address) -> Local<'s> {
        // SAFETY: the slot of a handle that exists.
        let value = unsafe { Wide::load(slot, Address::NULL) };
        self.local(value)
    }

    /// Runs `body`, which may block and cannot use the heap. Collections go on meanwhile, and do not wait for this
    /// thread. The locals of this scope, and of those around it, remain valid.
    ///
    /// ```
    /// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// # let shape = gleaner::Structure { references: 0, bytes: 8 };
    /// # let number = heap.structure(shape).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let seven = scope.allocate(number).unwrap();
    ///     scope.write_u64(seven, 0, 7).unwrap();
    ///     // The other thread collects, and does not wait for this one, which waits for it.
    ///     scope.blocking(|| {
    ///         std::thread::scope(|threads| {
    ///             threads.spawn(|| heap.attach().unwrap().collect(true));
    ///         });
    ///     });
    ///     assert_eq!(scope.read_u64(seven, 0), 7);
    /// });
    /// ```
    pub fn blocking<R>(&mut self, body: impl FnOnce() -> R) -> R {
        self.mutator().blocking(body)
    }

    /// Stops here while another thread collects.
    pub fn poll(&mut self) {
        self.mutator().poll();
    }

    /// Collects everything, or the young generation alone.
    pub fn collect(&mut self, everything: bool) {
        self.mutator().collect(everything);
    }
}

#[cold]
#[inline(never)]
fn no_object(value: Value) -> ! {
    panic!("an access through {value:?}, which refers to no object")
}

/// Declares a reader and a writer for one size of data. Mutators may race for it: then either value is read.
macro_rules! data_access {
    ($($read:ident, $write:ident: $type:ty;)+) => {
        impl Scope<'_> {
            $(
                /// Reads item `index` of this size from the bytes of a structure, or from an array of such elements.
                #[inline]
                pub fn $read(&self, object: Local<'_>, index: usize) -> $type {
                    self.read(object, index)
                }

                /// Writes item `index` of this size to the bytes of a structure, or to an array of such elements. A
                /// store into an array is like an allocation: it may collect, and it fails when there is no memory.
                #[inline]
                pub fn $write(
                    &mut self,
                    object: Local<'_>,
                    index: usize,
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
