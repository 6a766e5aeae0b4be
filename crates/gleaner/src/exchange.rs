//! Compare-and-swap of the slots of structures; that of elements is in `elements`.

use gleaner_mem::Address;
use gleaner_mem::places::Place;
use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};

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
    /// As [`Scope::compare_exchange`], of a structure; `None` of an array, and of a reference that the object has not.
    pub(crate) fn exchange_field(
        &mut self,
        object: Local<'_>,
        index: usize,
        expected: Value,
        new: Value,
    ) -> Option<bool> {
        let object = self.object(object);
        // SAFETY: a local refers to a valid object.
        let place = unsafe { self.shared().types().reference_place(object, index) };
        let Some(Place::Field(offset)) = place else {
            return None;
        };
        // SAFETY: the offset is that of a slot of this object; locals hold what fits.
        let done = unsafe {
            self.shared()
                .compare_exchange_raw(object, offset, expected, new)
        };
        Some(done.is_ok())
    }
}
