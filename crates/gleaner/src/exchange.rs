//! Compare-and-swap of the slots of objects; what it takes in arrays is in `elements`.

use gleaner_mem::Address;
use gleaner_mem::places::Place;
use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};

use crate::body::OutOfMemory;
use crate::index::Index;
use crate::known::Holds;
use crate::local::Local;
use crate::mutator::Mutator;
use crate::scope::Scope;

impl Mutator {
    /// Stores `new` into the slot at `offset` of an object if the slot holds `expected`, through the barrier. If it does
    /// not, the error is what it holds. The exchange is an acquire and a release, and it does not collect.
    ///
    /// # Safety
    /// As for [`Mutator::store_raw`], of `expected` too.
    #[inline(always)]
    pub unsafe fn compare_exchange_raw(
        &self,
        object: Address,
        offset: usize,
        expected: Value,
        new: Value,
    ) -> Result<(), Value> {
        // SAFETY: a slot of the object lies there, which has the format of this heap's slots; both values are valid and
        // fit, as the caller promises.
        unsafe {
            if self.compressed {
                self.compare_exchange_in::<Compressed>(object, offset, expected, new)
            } else {
                self.compare_exchange_in::<Wide>(object, offset, expected, new)
            }
        }
    }

    /// As [`Mutator::compare_exchange_raw`], in a heap whose slots are known to have format `F`.
    ///
    /// # Safety
    /// As for [`Mutator::compare_exchange_raw`], and the heap has such slots.
    #[inline(always)]
    pub unsafe fn compare_exchange_in<F: SlotFormat>(
        &self,
        object: Address,
        offset: usize,
        expected: Value,
        new: Value,
    ) -> Result<(), Value> {
        let at = object.add(offset);
        // SAFETY: a slot of format `F` lies there, and the values are valid and fit, as the caller promises.
        let done = unsafe { F::compare_exchange(at, self.record().base, expected, new) };
        if done.is_ok() {
            self.dirty(at);
        }
        done
    }
}

impl Scope<'_> {
    /// Sets reference `index` of an object to `new` if it is `expected`. The result is whether it was. Mutators may race
    /// for the reference. In an array this is like an allocation: it may collect, and it fails when there is no memory.
    pub fn compare_exchange<T: Holds>(
        &mut self,
        object: Local<'_, T>,
        index: impl Index,
        expected: Local<'_, impl Holds>,
        new: Local<'_, impl Holds>,
    ) -> Result<bool, OutOfMemory> {
        let (expected, new) = (self.value(expected), self.value(new));
        let object = self.object(object);
        let done = match self.reference::<T>(object, index) {
            // SAFETY: the offset is that of a slot of this object; locals hold what fits.
            Place::Field(offset) => unsafe {
                self.shared()
                    .compare_exchange_raw(object, offset, expected, new)
            },
            // SAFETY: an array of references that has this element; locals hold what fits, and a scope has only locals.
            Place::Element(index) => unsafe {
                self.mutator()
                    .compare_exchange_element_raw(object, index, expected, new)
            }?,
        };
        Ok(done.is_ok())
    }
}
