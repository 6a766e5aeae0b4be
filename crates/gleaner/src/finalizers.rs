//! Finalizers: made, taken back, and handed out in order. What a program has of one is an object.

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::weak::finalizers::ORDERS;
use gleaner_plans::scavenge::weak::own_types::OwnType;

use crate::body::{OutOfMemory, with_heap};
use crate::heap::Heap;
use crate::known::Holds;
use crate::local::Local;
use crate::mutator::Mutator;
use crate::scope::Scope;

/// What becomes of an object that a [finalizer](Scope::finalizer) waits for, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finalizing {
    /// Of the finalizers that are ready, those of the lowest order are handed out first: from 0 to 7.
    pub order: u8,
    /// Whether the object comes to life again, with all that it refers to, and is handed out with the value. Otherwise
    /// the finalizer is like a weak reference that is put into a queue when it is cleared: the value is handed out alone.
    pub revives: bool,
}

impl Default for Finalizing {
    /// Of the lowest order, and the object comes to life again.
    fn default() -> Finalizing {
        Finalizing {
            order: 0,
            revives: true,
        }
    }
}

/// A finalizer that was handed out.
#[derive(Clone, Copy, Debug)]
pub struct Ready<'s> {
    /// The object, alive again; null if the finalizer does not revive it.
    pub object: Local<'s>,
    /// What the finalizer kept.
    pub value: Local<'s>,
}

impl Heap {
    /// The number of finalizers that are ready, and were not handed out yet. Any thread may ask at any time. A listener of
    /// collections ([`Heap::add_collection_listener`]) that asks hears of each that becomes ready.
    pub fn ready_finalizers(&self) -> usize {
        with_heap!(&self.shared.kind, heap => heap.weak.finalizers.ready_count())
    }
}

impl<'s> Scope<'s> {
    /// Makes a finalizer: when nothing refers to `object` any more, [`Scope::next_finalizer`] hands out the object and
    /// `value` once. The heap keeps the value until then. A value that refers to the object keeps it for ever. An object may
    /// have several finalizers.
    ///
    /// The answer is an object by which the finalizer can be taken back. The heap does not keep it. Of finalizers that were not
    /// handed out or taken back yet, a heap has one at most for each 32 bytes of its limit.
    pub fn finalizer(
        &mut self,
        object: Local<'_, impl Holds>,
        value: Local<'_, impl Holds>,
        finalizing: Finalizing,
    ) -> Result<Local<'s>, OutOfMemory> {
        let (object, value) = (self.object(object), self.value(value));
        // SAFETY: locals hold valid references, and a scope has no others.
        let finalizer = unsafe { self.mutator().finalizer_raw(object, value, finalizing) }?;
        Ok(self.local(Value::reference(finalizer)))
    }

    /// As [`Scope::finalizer`], of a finalizer that is never taken back. This is no allocation.
    pub fn finalize(
        &mut self,
        object: Local<'_, impl Holds>,
        value: Local<'_, impl Holds>,
        finalizing: Finalizing,
    ) -> Result<(), OutOfMemory> {
        let (object, value) = (self.object(object), self.value(value));
        // SAFETY: locals hold valid references.
        unsafe { self.mutator().finalize_raw(object, value, finalizing) }
    }

    /// Takes a finalizer back: it is not handed out, and keeps nothing any more. False if it was handed out or taken back
    /// before. Panics if the object is no finalizer.
    pub fn take_back(&mut self, finalizer: Local<'_, impl Holds>) -> bool {
        let finalizer = self.object(finalizer);
        // SAFETY: a local holds a valid reference.
        let taken = unsafe { self.mutator().take_back_raw(finalizer) };
        taken.unwrap_or_else(|| {
            panic!(
                "taking back a finalizer: it is an object that has {}",
                self.describe(finalizer)
            )
        })
    }

    /// The next finalizer that is ready: the lowest order first; in an order, what became ready in an earlier collection;
    /// then in the order in which they were made.
    pub fn next_finalizer(&mut self) -> Option<Ready<'s>> {
        // Room for it first, or it would be lost.
        let ready = Ready {
            object: self.null(),
            value: self.null(),
        };
        let (object, value) = self.mutator().next_finalizer_raw()?;
        self.put_value(ready.object, object);
        self.put_value(ready.value, value);
        Some(ready)
    }
}

impl Mutator {
    /// See [`Scope::finalizer`]. This is an allocation.
    ///
    /// # Safety
    /// `object` is a valid reference, and `value` a valid value. Other references that this thread holds outside of root
    /// slots are not used again.
    pub unsafe fn finalizer_raw(
        &mut self,
        object: Address,
        value: Value,
        finalizing: Finalizing,
    ) -> Result<Address, OutOfMemory> {
        let order = self.check_finalizer(object, value, finalizing);
        let held = [Value::reference(object), value];
        // SAFETY: both are valid, as the caller promises, who keeps no other references.
        unsafe {
            self.allocate_own(OwnType::Finalizer, held, |mutator, finalizer, held| {
                let begun = with_heap!(&mutator.shared.kind, heap => {
                    heap.begin_finalizer(finalizer, held.into(), order, finalizing.revives)
                });
                begun.then_some(finalizer)
            })
        }
    }

    /// See [`Scope::finalize`]. It does not collect. An error if there are as many finalizers as the heap can have.
    ///
    /// # Safety
    /// `object` is a valid reference, and `value` a valid value.
    pub unsafe fn finalize_raw(
        &mut self,
        object: Address,
        value: Value,
        finalizing: Finalizing,
    ) -> Result<(), OutOfMemory> {
        let order = self.check_finalizer(object, value, finalizing);
        let held = (Value::reference(object), value);
        with_heap!(&self.shared.kind, heap => {
            let begun = heap.finalize(held, order, finalizing.revives);
            let bytes = heap.own_bytes(OwnType::Finalizer);
            begun.then_some(()).ok_or(OutOfMemory { bytes })
        })
    }

    /// Panics if a finalizer cannot be made so. Its order.
    fn check_finalizer(&self, object: Address, value: Value, finalizing: Finalizing) -> usize {
        let order = usize::from(finalizing.order);
        assert!(
            order < ORDERS,
            "a finalizer of order {order}: orders are 0 to {}",
            ORDERS - 1
        );
        self.assert_own(object, "a finalizer is made");
        self.assert_own_value(value, "a finalizer is made");
        order
    }

    /// See [`Scope::take_back`]; `None` if the object is no finalizer.
    ///
    /// # Safety
    /// `finalizer` is a valid reference.
    pub unsafe fn take_back_raw(&mut self, finalizer: Address) -> Option<bool> {
        self.assert_own(finalizer, "a finalizer is taken back");
        with_heap!(&self.shared.kind, heap => heap.take_back(finalizer))
    }

    /// See [`Scope::next_finalizer`]: the object, or null, and the value.
    pub fn next_finalizer_raw(&mut self) -> Option<(Value, Value)> {
        self.assert_inside("a finalizer is taken");
        with_heap!(&self.shared.kind, heap => heap.next_finalizer())
    }
}
