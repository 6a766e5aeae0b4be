//! One item in many elements.

use std::cell::RefCell;

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::arrays::Contents;
use gleaner_plans::scavenge::tally::Access;

use super::copied::Copied;
use super::element::{Element, with_format};
use super::runs::Run;
use super::stock::address;
use crate::body::OutOfMemory;
use crate::mutator::Mutator;

impl Mutator {
    /// Stores `item` into `count` elements from `index` on, through the barrier. Like an allocation, this may collect.
    /// It fails when there is no memory, and then stores nothing.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks; the range lies in the array. If the elements are numbers, no other thread
    /// uses them meanwhile.
    pub unsafe fn fill_elements_in<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        self.count_elements_in::<E>(Access::Store, index, count);
        // SAFETY: the range lies in the array, as the caller promises.
        let Some(first) = (unsafe { self.near::<E>(array, index, count) }) else {
            // SAFETY: the range lies in the array, and the item is valid, as the caller promises.
            return unsafe { self.fill_runs::<E>(array, index, count, item) };
        };
        // SAFETY: such elements lie there, and the item is valid, as the caller promises.
        unsafe { E::fill_at(first, self.record().base, count, item) };
        if E::SLOTS {
            self.dirty_range(first, first.add(count * E::BYTES));
        }
        Ok(())
    }

    /// As [`Mutator::fill_elements_in`], of an array of references.
    ///
    /// # Safety
    /// What [`Mutator::fill_elements_in`] asks, of an array of references.
    pub unsafe fn fill_elements_raw(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        value: Value,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the array has these elements, and the heap's slots this format.
        with_format!(self, F => unsafe { self.fill_elements_in::<F>(array, index, count, value) })
    }

    /// # Safety
    /// As for [`Mutator::fill_elements_in`].
    #[inline(never)]
    unsafe fn fill_runs<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        let (offset, bytes) = (index * E::BYTES, count * E::BYTES);
        let (contents, zero) = (Contents::of(E::SLOTS), E::is_zero(item));
        let values = [Value::reference(array), E::root(item)];
        // Of zeros: the parts that are shared, in order.
        let shared = RefCell::new(Vec::new());
        // SAFETY: valid values, as the caller promises; the array has the range wherever it lies.
        unsafe {
            let [array, root] = self.fill_stock_for(values, contents, |mutator, values| {
                let array = address(values[0]);
                if !zero {
                    return mutator.runs(array).count_tainted(offset, bytes);
                }
                let mut shared = shared.borrow_mut();
                shared.clear();
                mutator.for_each_run(array, offset, bytes, |run| {
                    shared.extend(run.part.filter(|_| !run.writable && !run.zero));
                });
                shared.len()
            })?;
            let (array, item) = (address(array), E::moved(item, root));
            let (base, shared) = (self.record().base, shared.into_inner());
            let copied = match E::SLOTS {
                true => Copied::Slots,
                false => Copied::Numbers(E::BYTES.trailing_zeros()),
            };
            let was_shared = |run: &Run| {
                run.part
                    .is_some_and(|part| shared.binary_search(&part).is_ok())
            };
            self.for_each_run(array, offset, bytes, |run| {
                // What was all zero when the stock was filled has been, even if another thread copied to it meanwhile.
                if zero && (run.zero || !run.writable && !was_shared(run)) {
                    return;
                }
                let at = self.untaint_run(array, run, contents, self.filling(run, copied));
                E::fill_at(at, base, run.bytes / E::BYTES, item);
                if E::SLOTS {
                    self.dirty_range(at, at.add(run.bytes));
                }
            });
        }
        Ok(())
    }
}
