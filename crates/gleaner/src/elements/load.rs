//! Loads of single elements. A load neither collects nor fails.

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::tally::Access;

use super::element::{Element, with_format};
use super::place::apart;
use crate::mutator::Mutator;

impl Mutator {
    /// Loads element `index` of an array of `E`.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, which has more than `index`.
    #[inline(always)]
    pub unsafe fn load_element_in<E: Element>(&self, array: Address, index: usize) -> E::Item {
        self.count_elements_in::<E>(Access::Load, index, 1);
        // SAFETY: the array has this element, as the caller promises.
        unsafe {
            match self.near::<E>(array, index, 1) {
                Some(at) => E::read_at(at, self.record().base),
                None => {
                    let item = E::read_at(self.far::<E>(array, index), self.record().base);
                    apart();
                    item
                }
            }
        }
    }

    /// As [`Mutator::load_element_in`], of an array of references.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of references, which has more than `index`.
    #[inline(always)]
    pub unsafe fn load_element_raw(&self, array: Address, index: usize) -> Value {
        // SAFETY: the array has this element, and the heap's slots this format.
        with_format!(self, F => unsafe { self.load_element_in::<F>(array, index) })
    }
}
