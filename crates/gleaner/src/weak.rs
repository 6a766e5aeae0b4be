//! Weak references and ephemerons that a program has by themselves, beside those in its objects.
//!
//! Each is a handle to an object of the heap's own: one with a weak slot, or one with a key and a value. The collector
//! treats that object as any other with weak slots.

use std::fmt;
use std::sync::Arc;

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::weak::own_types::OwnType;

use crate::body::{OutOfMemory, with_heap};
use crate::handle::Handle;
use crate::known::Holds;
use crate::local::Local;
use crate::mutator::Mutator;
use crate::scope::Scope;

/// A reference that does not keep its object alive. The collection that finds the object unreachable, except
/// through weak references or finalizers, makes it null.
///
/// It outlives scopes, and may go to other threads. It takes 16 bytes of the heap and one of the heap's handles; where
/// there are many, arrays of weak references ([`Heap::weak_array`](crate::Heap::weak_array)) take less.
pub struct Weak(Handle);

/// A key with a value. The value lives as long as the key and this do, even if the value refers to the key. The
/// collection that finds the key dead makes both null.
///
/// It outlives scopes, and may go to other threads. It takes 24 bytes of the heap, 16 with compressed references, and one
/// of the heap's handles; where there are many, tables ([`Heap::ephemeron_table`](crate::Heap::ephemeron_table)) take less.
/// A value that refers to the holder of its ephemeron keeps the holder as long as the key lives; a table it does not keep.
pub struct Ephemeron(Handle);

impl Weak {
    /// As [`Handle::get_raw`]; null if the object is dead.
    pub fn get_raw(&self) -> Value {
        slot(&self.0, 0)
    }
}

impl Ephemeron {
    /// As [`Handle::get_raw`]; null if the key is dead.
    pub fn key_raw(&self) -> Value {
        slot(&self.0, 0)
    }

    /// As [`Handle::get_raw`]; null if the key is dead.
    pub fn value_raw(&self) -> Value {
        slot(&self.0, 1)
    }
}

/// A slot of the object of the heap's own to which a handle leads, for a mutator inside its heap.
fn slot(handle: &Handle, index: usize) -> Value {
    let object = handle.held().as_object();
    let object = object.expect("a weak reference leads to an object of its own");
    with_heap!(&handle.shared.kind, heap => heap.own_slot(object, index))
}

impl Mutator {
    /// Makes a weak reference to an object. This is an allocation. An error if the heap has no room for it, or has as many
    /// handles as it can.
    ///
    /// # Safety
    /// `object` is a valid reference. Other references that this thread holds outside of root slots are not used again.
    pub unsafe fn weak_raw(&mut self, object: Address) -> Result<Weak, OutOfMemory> {
        self.assert_own(object, "a weak reference is made");
        // SAFETY: valid, as the caller promises, who keeps no others.
        let handle = unsafe { self.handle_to_own(OwnType::Weak, [Value::reference(object)]) };
        handle.map(Weak)
    }

    /// Makes an ephemeron. This is an allocation. An error if the heap has no room for it, or has as many handles as it can.
    ///
    /// # Safety
    /// Both are valid references; only the value may be null. Other references that this thread holds outside of root slots
    /// are not used again.
    pub unsafe fn ephemeron_raw(
        &mut self,
        key: Address,
        value: Address,
    ) -> Result<Ephemeron, OutOfMemory> {
        self.assert_own(key, "an ephemeron is made");
        self.assert_own_value(Value::reference(value), "an ephemeron is made");
        let pair = [key, value].map(Value::reference);
        // SAFETY: valid, as the caller promises, who keeps no others.
        let handle = unsafe { self.handle_to_own(OwnType::Ephemeron, pair) };
        handle.map(Ephemeron)
    }

    /// A handle to a fresh object of the heap's own, whose slots hold these values.
    ///
    /// # Safety
    /// As for [`Mutator::allocate_own`].
    unsafe fn handle_to_own<const N: usize>(
        &mut self,
        of: OwnType,
        values: [Value; N],
    ) -> Result<Handle, OutOfMemory> {
        // SAFETY: the values are valid, as the caller promises, who keeps no other references.
        unsafe {
            self.allocate_own(of, values, |mutator, object, values| {
                with_heap!(&mutator.shared.kind, heap => heap.begin_own(object, values));
                Handle::create(Arc::clone(&mutator.counted), Value::reference(object))
            })
        }
    }
}

impl<'s> Scope<'s> {
    /// Makes a weak reference to an object. This is an allocation. An error if the heap has no room for it, or has as many
    /// handles as it can, some four million.
    pub fn weak(&mut self, object: Local<'_, impl Holds>) -> Result<Weak, OutOfMemory> {
        let object = self.object(object);
        // SAFETY: a local holds a valid reference, and a scope has no others.
        unsafe { self.mutator().weak_raw(object) }
    }

    /// A new local that holds what a weak reference of this heap refers to; null if the object is dead.
    pub fn upgrade(&mut self, weak: &Weak) -> Local<'s> {
        self.own_handle(&weak.0.shared);
        self.local(weak.get_raw())
    }

    /// Makes an ephemeron of two objects. This is an allocation. An error if the heap has no room for it, or has as many
    /// handles as it can, some four million.
    pub fn ephemeron(
        &mut self,
        key: Local<'_, impl Holds>,
        value: Local<'_, impl Holds>,
    ) -> Result<Ephemeron, OutOfMemory> {
        let (key, value) = (self.object(key), self.object(value));
        // SAFETY: locals hold valid references, and a scope has no others.
        unsafe { self.mutator().ephemeron_raw(key, value) }
    }

    /// A new local that holds the key of an ephemeron of this heap; null if the key is dead.
    pub fn key(&mut self, ephemeron: &Ephemeron) -> Local<'s> {
        self.own_handle(&ephemeron.0.shared);
        self.local(ephemeron.key_raw())
    }

    /// A new local that holds the value of an ephemeron of this heap; null if the key is dead.
    pub fn value_of(&mut self, ephemeron: &Ephemeron) -> Local<'s> {
        self.own_handle(&ephemeron.0.shared);
        self.local(ephemeron.value_raw())
    }

    /// As [`Scope::key`], into a local that exists: for a loop over many ephemerons.
    pub fn load_key(&mut self, ephemeron: &Ephemeron, into: Local<'_>) {
        self.own_handle(&ephemeron.0.shared);
        self.put_value(into, ephemeron.key_raw());
    }

    /// As [`Scope::value_of`], into a local that exists.
    pub fn load_value(&mut self, ephemeron: &Ephemeron, into: Local<'_>) {
        self.own_handle(&ephemeron.0.shared);
        self.put_value(into, ephemeron.value_raw());
    }
}

impl fmt::Debug for Weak {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Weak({})", self.0.number)
    }
}

impl fmt::Debug for Ephemeron {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Ephemeron({})", self.0.number)
    }
}
