//! The safe layer: scopes, and the references in them.
//!
//! A [`Local`] is not a reference but the place of one, in a table of roots that the collector updates. It cannot leave
//! its scope (its lifetime is a brand that no other scope has), so a forgotten root cannot exist. What is not known of
//! an object when the program is compiled is checked at each access (`access.rs`); a wrong one panics.
//!
//! A scope is its mutator, under a name that lasts as long as the scope does: to enter one takes two instructions, and
//! what an access needs of the mutator is found by one reference that nothing else has.

use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;

use gleaner_mem::Address;
use gleaner_mem::object_model::{TypeId, array_bytes};
use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};
use gleaner_plans::scavenge::allocate::Fresh;
use gleaner_plans::scavenge::mutator::Mutator as Record;
use gleaner_plans::scavenge::walk::Found;

use crate::body::{OutOfMemory, Shared};
use crate::fields::{Fields, Slots};
use crate::filling::New;
use crate::handle::Handle;
use crate::known::at_allocation::ObjectType as _;
use crate::known::{FitsInto, Holds, ObjectType};
use crate::local::Local;
use crate::mutator::Mutator;
use crate::new_object::NewObject;
use crate::types::of_heap::Registered as _;
use crate::types::{Array, EphemeronTable, Id, ReferenceArray, Tail, WeakArray};

/// Where a mutator works. Its locals live as long as the scope.
#[repr(transparent)]
pub struct Scope<'s> {
    mutator: Mutator,
    brand: PhantomData<fn(&'s ()) -> &'s ()>,
}

impl Mutator {
    /// Runs `body` with a scope. The locals of the scope live as long as `body` runs.
    #[inline]
    pub fn scope<R>(&mut self, body: impl for<'s> FnOnce(&mut Scope<'s>) -> R) -> R {
        Scope::enter(self, body)
    }
}

/// Forgets the locals of a scope when it ends, also by a panic.
struct Locals {
    record: NonNull<Record>,
    /// The first that was not in use before.
    before: Address,
}

impl Locals {
    #[inline(always)]
    fn of(mutator: &Mutator) -> Locals {
        Locals {
            record: mutator.record_place(),
            before: mutator.record().free_local.get(),
        }
    }
}

impl Drop for Locals {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the record lasts as long as the mutator, which is borrowed.
        unsafe { self.record.as_ref() }.free_local.set(self.before);
    }
}

impl<'s> Scope<'s> {
    #[inline(always)]
    pub(crate) fn enter<R>(
        mutator: &mut Mutator,
        body: impl for<'t> FnOnce(&mut Scope<'t>) -> R,
    ) -> R {
        let _locals = Locals::of(mutator);
        body(Scope::inner(mutator))
    }

    /// The scope that a mutator is, of any lifetime: the caller hands it to what takes scopes of all lifetimes.
    #[inline(always)]
    fn inner<'t>(mutator: &mut Mutator) -> &mut Scope<'t> {
        let scope: *mut Mutator = mutator;
        // SAFETY: a scope is its mutator, which stays borrowed. Nobody can move either out of the reference: no other
        // scope has the same lifetime, and a scope by value does not exist.
        unsafe { &mut *scope.cast() }
    }

    #[inline(always)]
    pub(crate) fn mutator(&mut self) -> &mut Mutator {
        &mut self.mutator
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Mutator {
        &self.mutator
    }

    /// Runs `body` with a scope of its own, whose locals are gone afterwards.
    #[inline(always)]
    pub fn nested<R>(&mut self, body: impl for<'t> FnOnce(&mut Scope<'t>) -> R) -> R {
        Scope::enter(&mut self.mutator, body)
    }

    /// Runs `body` with a scope of its own. What the local that it returns holds goes into a new local of this scope.
    ///
    /// ```
    /// use gleaner::{Fields, Heap, Local, OutOfMemory, Scope};
    ///
    /// type Pair = Fields<2, 0>;
    ///
    /// /// A pair of new pairs.
    /// fn tree<'s>(scope: &mut Scope<'s>, pair: Pair) -> Result<Local<'s, Pair>, OutOfMemory> {
    ///     scope.returning(|scope| {
    ///         let [left, right] = [scope.allocate(pair)?, scope.allocate(pair)?];
    ///         let top = scope.allocate(pair)?;
    ///         scope.set(top, 0, left)?;
    ///         scope.set(top, 1, right)?;
    ///         Ok(top)
    ///     })
    /// }
    ///
    /// let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// let pair = heap.fields().unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let top = tree(scope, pair).unwrap();
    ///     assert!(scope.get_as(top, 1, pair).is_some());
    /// });
    /// ```
    ///
    /// A local of another scope cannot be returned:
    ///
    /// ```compile_fail
    /// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let outer = scope.null();
    ///     let _ = scope.returning(|_| Ok::<_, ()>(outer));
    /// });
    /// ```
    #[inline(always)]
    pub fn returning<T: Holds, E>(
        &mut self,
        body: impl for<'t> FnOnce(&mut Scope<'t>) -> Result<Local<'t, T>, E>,
    ) -> Result<Local<'s, T>, E> {
        let locals = Locals::of(&self.mutator);
        let inner = body(Scope::inner(&mut self.mutator))?;
        // No other scope has locals of that lifetime: it lies in this one, behind what was in use before.
        let slot = locals.before;
        mem::forget(locals);
        // SAFETY: two slots of this mutator's table. What goes from one to the other is what `T` says.
        unsafe {
            slot.ptr::<Value>().write(inner.slot.ptr::<Value>().read());
            let record = self.mutator.record();
            record.free_local.set(slot.add(size_of::<Value>()));
            Ok(Local::at(slot))
        }
    }

    /// Whether this scope may have `count` more locals: an error if they are more than option `locals` lets a mutator
    /// have. A function that calls itself asks this once, and makes so many without a panic:
    ///
    /// ```
    /// use gleaner::{Heap, OutOfMemory, Scope};
    ///
    /// fn depth(scope: &mut Scope<'_>) -> Result<(), OutOfMemory> {
    ///     scope.nested(|scope| {
    ///         scope.room_for_locals(2)?;
    ///         let [_one, _other] = [scope.null(), scope.null()];
    ///         depth(scope)
    ///     })
    /// }
    ///
    /// let heap = Heap::builder().limit(1 << 20).locals(100).build().unwrap();
    /// let result = heap.attach().unwrap().scope(|scope| depth(scope));
    /// assert!(result.unwrap_err().is_of_locals());
    /// ```
    #[inline(always)]
    pub fn room_for_locals(&self, count: usize) -> Result<(), OutOfMemory> {
        let record = self.mutator.record();
        let left = record.locals_end.offset_from(record.free_local.get());
        if count > left / size_of::<Value>() {
            return Err(OutOfMemory::OF_LOCALS);
        }
        Ok(())
    }

    /// A new local that holds `value`; an error if the scope can have none.
    ///
    /// # Safety
    /// The value is what `T` says.
    #[inline(always)]
    pub(crate) unsafe fn try_local<T>(
        &mut self,
        value: Value,
    ) -> Result<Local<'s, T>, OutOfMemory> {
        let record = self.mutator.record();
        let slot = record.free_local.get();
        if slot == record.locals_end {
            return Err(OutOfMemory::OF_LOCALS);
        }
        // SAFETY: a slot of the mutator's table, which nobody else uses while the mutator runs.
        unsafe { slot.ptr::<Value>().write(value) };
        record.free_local.set(slot.add(size_of::<Value>()));
        // SAFETY: a local from now on, which holds what the caller promises.
        Ok(unsafe { Local::at(slot) })
    }

    /// As [`Scope::try_local`], with a panic if the scope can have none.
    ///
    /// # Safety
    /// The value is what `T` says.
    #[inline(always)]
    pub(crate) unsafe fn local_of_known<T>(&mut self, value: Value) -> Local<'s, T> {
        // SAFETY: the value is what `T` says, as the caller promises.
        match unsafe { self.try_local(value) } {
            Ok(local) => local,
            Err(_) => self.no_more_locals(),
        }
    }

    #[inline(always)]
    pub(crate) fn local(&mut self, value: Value) -> Local<'s> {
        // SAFETY: nothing is said of the value.
        unsafe { self.local_of_known(value) }
    }

    #[cold]
    #[inline(never)]
    fn no_more_locals(&self) -> ! {
        let most = self.mutator.locals_bytes / size_of::<Value>();
        panic!(
            "a mutator has at most {most} locals at a time: use nested scopes inside loops, or raise option locals; \
             Scope::room_for_locals returns an error instead"
        )
    }

    #[inline(always)]
    pub(crate) fn value<T>(&self, local: Local<'_, T>) -> Value {
        self.mutator.value_of(local)
    }

    #[inline(always)]
    pub(crate) fn put_value(&mut self, local: Local<'_>, value: Value) {
        // SAFETY: as in `value_of`; anything may be put into a local of which nothing is known.
        unsafe { self.mutator.slot_of(local).write(value) };
    }

    #[inline(always)]
    pub(crate) fn object<T: Holds>(&self, local: Local<'_, T>) -> Address {
        T::object(self.value(local))
    }

    #[inline(always)]
    pub(crate) fn slot_bytes(&self) -> usize {
        self.mutator.slot_bytes()
    }

    /// A new local that is null.
    #[inline(always)]
    pub fn null(&mut self) -> Local<'s> {
        self.local(Value::NULL)
    }

    /// A new local that is a small integer; `None` if the slots of this heap cannot hold it: a wide slot holds 63 bits, a
    /// compressed one 31. Who runs the program may choose that (option `refs`).
    #[inline]
    pub fn integer(&mut self, number: i64) -> Option<Local<'s>> {
        let value = self.immediate(number)?;
        Some(self.local(value))
    }

    /// Sets a local to a small integer. `None`, and the local is what it was, if the slots of this heap cannot hold it.
    #[inline]
    #[must_use]
    pub fn assign_integer(&mut self, into: Local<'_>, number: i64) -> Option<()> {
        let value = self.immediate(number)?;
        self.put_value(into, value);
        Some(())
    }

    /// Sets a local to null.
    #[inline(always)]
    pub fn assign_null(&mut self, into: Local<'_>) {
        self.put_value(into, Value::NULL);
    }

    #[inline(always)]
    fn immediate(&self, number: i64) -> Option<Value> {
        let fits = if self.shared().compressed {
            Compressed::fits(number)
        } else {
            Wide::fits(number)
        };
        fits.then(|| Value::immediate(number))
    }

    /// The integer in a local; `None` if the local holds no integer.
    #[inline]
    pub fn as_integer(&self, local: Local<'_, impl Holds>) -> Option<i64> {
        self.value(local).as_immediate()
    }

    /// Whether a local is null.
    #[inline(always)]
    pub fn is_null(&self, local: Local<'_, impl Holds>) -> bool {
        self.value(local).is_null()
    }

    /// Whether two locals are the same object, the same integer, or both null.
    #[inline]
    pub fn same(&self, one: Local<'_, impl Holds>, other: Local<'_, impl Holds>) -> bool {
        self.value(one) == self.value(other)
    }

    /// Sets `into` to what `from` holds.
    #[inline(always)]
    pub fn assign<T: Holds>(&mut self, into: Local<'_, T>, from: Local<'_, impl FitsInto<T>>) {
        let value = self.value(from);
        // SAFETY: a slot of this mutator's table, as in `value_of`; what `from` holds may be in a local of `T`.
        unsafe { self.mutator.slot_of(into).write(value) };
    }

    /// The number of a type, which must be of this heap.
    #[inline(always)]
    pub(crate) fn own(&self, id: Id) -> TypeId {
        if id.heap != self.mutator.heap_number {
            foreign_type();
        }
        id.number
    }

    /// Allocates an object. Its references are null, and its bytes are 0. The type belongs to this heap.
    #[inline(always)]
    pub fn allocate<T: ObjectType>(&mut self, of: T) -> Result<Local<'s, T::Known>, OutOfMemory> {
        let id = of.id();
        let new = NewObject::structure(self.own(id), of.size(self.slot_bytes()));
        // SAFETY: the type is this heap's (`own`), and the size is the type's.
        let object = unsafe { self.new_object(of.is_pinned(), new, Fresh::Zeroed) }?;
        // SAFETY: an object of the type, of which is known what the type says.
        unsafe { self.try_local(Value::reference(object)) }
    }

    /// Allocates an object, and has `fill` write its fields before anybody has it: that costs less than to write them
    /// afterwards. What `fill` does not write is null and 0.
    ///
    /// ```
    /// # use gleaner::{Fields, Heap, OutOfMemory};
    /// # let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// let pair: Fields<2, 8> = heap.fields().unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let leaf = scope.allocate(pair)?;
    ///     let top = scope.allocate_filled(pair, |new| {
    ///         new.set(0, leaf);
    ///         new.write(0, 7_u64);
    ///     })?;
    ///     assert!(scope.get_as(top, 0, pair).is_some() && scope.read_u64(top, 0) == 7);
    ///     Ok::<(), OutOfMemory>(())
    /// }).unwrap();
    /// ```
    #[inline(always)]
    pub fn allocate_filled<const REFERENCES: usize, const BYTES: usize, F: Slots>(
        &mut self,
        of: Fields<REFERENCES, BYTES, F>,
        fill: impl FnOnce(&mut New<'_, REFERENCES, BYTES, F>),
    ) -> Result<Local<'s, Fields<REFERENCES, BYTES, F>>, OutOfMemory> {
        let new = NewObject::structure(self.own(of.id()), of.size(self.slot_bytes()));
        // SAFETY: the type is this heap's (`own`), and the size is the type's. A scope holds references in locals alone.
        let object = unsafe { self.mutator.allocate_raw(new, Fresh::Zeroed) }?;
        // SAFETY: a fresh object of the type, and nothing collects while the mutator is borrowed.
        fill(&mut unsafe { New::of(&self.mutator, object) });
        // SAFETY: an object of the type.
        unsafe { self.try_local(Value::reference(object)) }
    }

    /// Allocates an object with `length` elements behind its head. Its references are null, and its bytes are 0.
    #[inline]
    pub fn allocate_tailed(&mut self, of: Tail, length: u32) -> Result<Local<'s>, OutOfMemory> {
        let new = NewObject::array(self.own(of.id), length, of.size(length));
        // SAFETY: the type is this heap's (`own`) and one with a length, from which the size follows.
        let object = unsafe { self.new_object(of.id.pinned, new, Fresh::Zeroed) }?;
        // SAFETY: nothing is said of the object.
        unsafe { self.try_local(Value::reference(object)) }
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
    #[inline]
    pub fn allocate_references(
        &mut self,
        of: ReferenceArray,
        length: u32,
    ) -> Result<Local<'s>, OutOfMemory> {
        let log2 = self.slot_bytes().trailing_zeros();
        self.fresh_array(of.0, length, log2)
    }

    /// Allocates an array of numbers, which are 0.
    #[inline]
    pub fn allocate_array(&mut self, of: Array, length: u32) -> Result<Local<'s>, OutOfMemory> {
        self.fresh_array(of.0, length, of.1 as u32)
    }

    /// Allocates an array of weak references, which are null.
    pub fn allocate_weak_array(
        &mut self,
        of: WeakArray,
        length: u32,
    ) -> Result<Local<'s>, OutOfMemory> {
        let log2 = self.slot_bytes().trailing_zeros();
        self.fresh_array(of.0, length, log2)
    }

    /// Allocates a table of `length` ephemerons, whose keys and values are null.
    pub fn allocate_ephemeron_table(
        &mut self,
        of: EphemeronTable,
        length: u32,
    ) -> Result<Local<'s>, OutOfMemory> {
        let log2 = self.slot_bytes().trailing_zeros();
        self.fresh_array(of.0, length, log2 + 1)
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
        // SAFETY: nothing is said of the object.
        unsafe { self.try_local(Value::reference(object)) }
    }

    #[inline]
    fn fresh_array(&mut self, of: Id, length: u32, log2: u32) -> Result<Local<'s>, OutOfMemory> {
        let new = NewObject::array(self.own(of), length, array_bytes(length, log2));
        // SAFETY: the type is this heap's (`own`) and one of arrays, and `new.bytes` follows from the length.
        let object = unsafe { self.new_object(of.pinned, new, Fresh::Zeroed) }?;
        // SAFETY: nothing is said of the object.
        unsafe { self.try_local(Value::reference(object)) }
    }

    /// See [`Mutator::walk`].
    pub fn walk(&mut self, visit: &mut dyn FnMut(&Found)) {
        self.mutator().walk(visit);
    }

    /// The identity hash of an object. The first call gives the object its hash, which stays the same when the object
    /// moves.
    pub fn identity_hash(&mut self, object: Local<'_, impl Holds>) -> u32 {
        let object = self.object(object);
        // SAFETY: a local refers to a valid object.
        unsafe { self.mutator().identity_hash_raw(object) }
    }

    /// Makes a handle to what a local holds. `None` when the heap has as many handles as it can, some four million.
    pub fn handle(&mut self, local: Local<'_, impl Holds>) -> Option<Handle> {
        let (value, shared) = (self.value(local), Arc::clone(&self.shared().counted));
        Handle::create(shared, value)
    }

    /// A new local that holds what a handle of this heap refers to.
    pub fn open(&mut self, handle: &Handle) -> Local<'s> {
        self.own_handle(&handle.shared);
        self.local(handle.held())
    }

    /// A handle with this heap must be of this one.
    pub(crate) fn own_handle(&self, shared: &Arc<Shared>) {
        assert!(
            Arc::ptr_eq(&self.shared().counted, shared),
            "a handle of another heap"
        );
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

    /// As [`Mutator::stop_and_call`].
    pub fn stop_and_call<R>(&mut self, body: impl FnOnce() -> R) -> R {
        self.mutator().stop_and_call(body)
    }

    /// Stops here while another thread collects.
    #[inline]
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
fn foreign_type() -> ! {
    panic!("a type of another heap")
}
