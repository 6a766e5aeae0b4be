//! Stores into single elements. `elements.rs` says what they do, in order.

use gleaner_mem::Address;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::arrays::Contents;
use gleaner_plans::scavenge::tally::Access;

use super::element::{Element, with_format};
use super::layout::Layout;
use super::place::apart;
use super::runs::Runs;
use crate::body::OutOfMemory;
use crate::mutator::Mutator;

impl Mutator {
    /// Stores into element `index` of an array of `E`, through the barrier. Like an allocation, this may collect. It
    /// fails when there is no memory, and then stores nothing.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, which has more than `index`; `item` is valid and, as an
    /// immediate, fits the slot format. Other references that this thread holds outside of root slots are not used again.
    #[inline(always)]
    pub unsafe fn store_element_in<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        self.debug_assert_inside("a store");
        self.count_elements_in::<E>(Access::Store, index, 1);
        // SAFETY: the array has this element, as the caller promises.
        let whole = unsafe { self.near::<E>(array, index, 1) };
        let base = self.record().base;
        let at = if let Some(at) = whole {
            // SAFETY: such an element lies there, and the item is valid, as the caller promises.
            unsafe { E::write_at(at, base, item) };
            at
        } else {
            // SAFETY: the array has this element, as the caller promises.
            let Some(at) = (unsafe { self.far_untainted::<E>(array, index) }) else {
                // SAFETY: the array has this element, and the item is valid, as the caller promises.
                return unsafe { self.store_where_tainted::<E>(array, index, item) };
            };
            // SAFETY: such an element lies there, and the item is valid, as the caller promises.
            unsafe { E::write_at(at, base, item) };
            apart();
            at
        };
        if E::SLOTS {
            self.dirty(at);
        }
        Ok(())
    }

    /// As [`Mutator::store_element_in`], into an array of references.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks, of an array of references.
    #[inline(always)]
    pub unsafe fn store_element_raw(
        &mut self,
        array: Address,
        index: usize,
        value: Value,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the array has this element, and the heap's slots this format.
        with_format!(self, F => unsafe { self.store_element_in::<F>(array, index, value) })
    }

    /// Stores into element `index` of an array of `E` what `change` makes of its item, through the barrier. The place
    /// of the element is found only once. Other threads may store between the load and the store. Like an allocation,
    /// this may collect. It fails when there is no memory, and then stores nothing.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks, of what `change` returns.
    #[inline(always)]
    pub unsafe fn update_element_in<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        change: impl FnOnce(E::Item) -> E::Item,
    ) -> Result<(), OutOfMemory> {
        self.debug_assert_inside("a store");
        for access in [Access::Load, Access::Store] {
            self.count_elements_in::<E>(access, index, 1);
        }
        let base = self.record().base;
        // SAFETY: the array has this element, as the caller promises.
        let whole = unsafe { self.near::<E>(array, index, 1) };
        // Compiled for each path by itself, or all would wait for where the element lies.
        let at = if let Some(at) = whole {
            // SAFETY: such an element lies there, and the item is valid, as the caller promises.
            unsafe { E::write_at(at, base, change(E::read_at(at, base))) };
            at
        } else {
            // SAFETY: the array has this element, as the caller promises.
            let Some(at) = (unsafe { self.far_untainted::<E>(array, index) }) else {
                // SAFETY: the array has this element, and `change` returns a valid item, as the caller promises.
                return unsafe {
                    let item = change(E::read_at(self.far::<E>(array, index), base));
                    self.store_where_tainted::<E>(array, index, item)
                };
            };
            // SAFETY: such an element lies there, and the item is valid, as the caller promises.
            unsafe { E::write_at(at, base, change(E::read_at(at, base))) };
            apart();
            at
        };
        if E::SLOTS {
            self.dirty(at);
        }
        Ok(())
    }

    /// Writes an element of a new array without a barrier. The array was allocated
    /// [`Fresh::Unwritten`](crate::raw::Fresh::Unwritten), so it is young and needs no barrier. This neither collects
    /// nor fails.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks of array, index and item; this mutator has allocated the array so, and
    /// since then has done nothing that may collect.
    #[inline(always)]
    pub unsafe fn initialize_element_in<E: Element>(
        &self,
        array: Address,
        index: usize,
        item: E::Item,
    ) {
        self.debug_assert_inside("a store");
        self.count_elements_in::<E>(Access::Store, index, 1);
        // SAFETY: the array has this element, and the item is valid, as the caller promises. What such an allocation
        // gives has arraylets of its own, which may be written.
        unsafe {
            let at = match self.near::<E>(array, index, 1) {
                Some(at) => at,
                None => self.far::<E>(array, index),
            };
            E::write_at(at, self.record().base, item);
        }
    }

    /// As [`Mutator::initialize_element_in`], of an array of references.
    ///
    /// # Safety
    /// What [`Mutator::initialize_element_in`] asks, of an array of references.
    pub(crate) unsafe fn initialize_element_raw(&self, array: Address, index: usize, value: Value) {
        // SAFETY: the array has this element, and the heap's slots this format.
        with_format!(self, F => unsafe { self.initialize_element_in::<F>(array, index, value) });
    }

    /// Step 3 of a store: the part was tainted when it was looked at. Zero bits are not stored where all is zero.
    ///
    /// The function is cold, so that what a loop has in registers is saved where this is called, and not at each of its
    /// stores.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn store_where_tainted<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        let pieces = E::Layout::pieces(self.record());
        // SAFETY: the array has this element, as the caller promises.
        let run = unsafe { Runs::new(array, pieces).in_one_part(index * E::BYTES, E::BYTES) };
        let at = if run.writable {
            run.at
        } else if run.zero && E::is_zero(item) {
            return Ok(());
        } else {
            // SAFETY: the array has this element, and the item is valid, as the caller promises.
            return unsafe { self.store_after_untainting::<E>(array, index, item) };
        };
        // SAFETY: such an element lies there, and the item is valid, as the caller promises.
        unsafe { E::write_at(at, self.record().base, item) };
        if E::SLOTS {
            self.dirty(at);
        }
        Ok(())
    }

    /// Steps 4 to 6 of a store: the part is tainted, and takes an arraylet from the stock, which is filled first if it
    /// is empty.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`].
    #[cold]
    #[inline(never)]
    unsafe fn store_after_untainting<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the array has this element, and the item is valid, as the caller promises. Both are rooted while
        // something may collect.
        unsafe {
            let is_stocked = self.has_stock(Contents::of(E::SLOTS), 1);
            let (array, item) = match is_stocked {
                true => (array, item),
                false => self.fill_stock_for_one::<E>(array, index, item)?,
            };
            let at = self.untaint_element::<E>(array, index);
            E::write_at(at, self.record().base, item);
            if E::SLOTS {
                self.dirty(at);
            }
        }
        Ok(())
    }

    /// The write barrier for all slots of a range.
    pub(super) fn dirty_range(&self, low: Address, high: Address) {
        let mut at = low;
        while at < high {
            self.dirty(at);
            at = Address::new((at.word() / CARD_BYTES + 1) * CARD_BYTES);
        }
    }
}
