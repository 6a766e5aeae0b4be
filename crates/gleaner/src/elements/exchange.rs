//! Compare-and-swap of single elements.

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::arrays::Contents;
use gleaner_plans::scavenge::tally::Access;

use super::element::{Element, with_format};
use super::stock::address;
use crate::body::OutOfMemory;
use crate::mutator::Mutator;

impl Mutator {
    /// Stores `new` into element `index` of an array of `E` if the element is `expected`, through the barrier. If it is
    /// not, the inner error is what the element is. The exchange is an acquire and a release. Like an allocation, this
    /// may collect, and it fails when there is no memory.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks, of `expected` too.
    #[inline(always)]
    pub unsafe fn compare_exchange_element_in<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        expected: E::Item,
        new: E::Item,
    ) -> Result<Result<(), E::Item>, OutOfMemory> {
        self.count_elements_in::<E>(Access::Store, index, 1);
        // SAFETY: the array has this element, as the caller promises.
        let Some(at) = (unsafe { self.near::<E>(array, index, 1) }) else {
            // SAFETY: the array has this element, and the items are valid, as the caller promises.
            return unsafe { self.exchange_far::<E>(array, index, expected, new) };
        };
        // SAFETY: such an element lies there, and the items are valid, as the caller promises.
        let done = unsafe { E::exchange_at(at, self.record().base, expected, new) };
        if E::SLOTS && done.is_ok() {
            self.dirty(at);
        }
        Ok(done)
    }

    /// As [`Mutator::compare_exchange_element_in`], of an array of references.
    ///
    /// # Safety
    /// What [`Mutator::compare_exchange_element_in`] asks, of an array of references.
    #[inline(always)]
    pub unsafe fn compare_exchange_element_raw(
        &mut self,
        array: Address,
        index: usize,
        expected: Value,
        new: Value,
    ) -> Result<Result<(), Value>, OutOfMemory> {
        // SAFETY: the array has this element, and the heap's slots this format.
        with_format!(self, F => unsafe {
            self.compare_exchange_element_in::<F>(array, index, expected, new)
        })
    }

    /// # Safety
    /// As for [`Mutator::compare_exchange_element_in`].
    #[inline(never)]
    pub(super) unsafe fn exchange_far<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        expected: E::Item,
        new: E::Item,
    ) -> Result<Result<(), E::Item>, OutOfMemory> {
        let (mut array, mut expected, mut new) = (array, expected, new);
        // SAFETY: the array has this element, and the items are valid, as the caller promises. All of them are rooted
        // while something may collect.
        unsafe {
            let run = self.runs(array).starting_at(index * E::BYTES, E::BYTES);
            let mut at = run.at;
            if !run.writable {
                // What is tainted is not written by others either, but for the first one, who installs a copy.
                if run.zero && !E::is_zero(expected) {
                    return Ok(Err(E::read_at(run.at, self.record().base)));
                }
                if run.zero && E::is_zero(new) {
                    return Ok(Ok(()));
                }
                let values = [Value::reference(array), E::root(expected), E::root(new)];
                let offset = index * E::BYTES;
                let [a, b, c] =
                    self.fill_stock_for(values, Contents::of(E::SLOTS), |mutator, values| {
                        let runs = mutator.runs(address(values[0]));
                        runs.count_tainted(offset, E::BYTES)
                    })?;
                (array, expected, new) = (address(a), E::moved(expected, b), E::moved(new, c));
                at = self.untaint_element::<E>(array, index);
            }
            let done = E::exchange_at(at, self.record().base, expected, new);
            if E::SLOTS && done.is_ok() {
                self.dirty(at);
            }
            Ok(done)
        }
    }
}
