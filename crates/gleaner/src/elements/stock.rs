//! How does a mutator come by arraylets before it writes? It takes as many as a store may need into its stock, which may
//! collect, and then makes parts of the array its own by them.
//!
//! # Invariants
//! - Nothing polls between what fills the stock and what uses it.
//! - A part that is tainted is never written. A store of zero bits to a part that is all zero stores nothing.

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::arrays::{Contents, Filling};
use gleaner_plans::scavenge::collect::Extent;

use super::copied::Copied;
use super::element::Element;
use super::runs::Run;
use crate::body::{OutOfMemory, with_heap};
use crate::mutator::Mutator;

/// The reference that a value holds that is no immediate.
pub(super) fn address(value: Value) -> Address {
    Address::new(value.bits() as usize)
}

/// How many values wait while a stock is filled, at most: a place, what is expected there, and what is to be stored.
const MOST_STOCKED: usize = 3;

impl Mutator {
    /// Fills the stock with what `needed` says, whose arrays are among the values: these are rooted meanwhile. Returns
    /// what became of them.
    ///
    /// # Safety
    /// The values are valid; references that this thread holds elsewhere outside of root slots are not used again.
    #[inline]
    pub(super) unsafe fn fill_stock_for<const N: usize>(
        &mut self,
        values: [Value; N],
        contents: Contents,
        needed: impl Fn(&Mutator, &[Value; N]) -> usize,
    ) -> Result<[Value; N], OutOfMemory> {
        const { assert!(N <= MOST_STOCKED) };
        let mut all = [Value::NULL; MOST_STOCKED];
        all[..N].copy_from_slice(&values);
        let first = |all: &[Value; MOST_STOCKED]| std::array::from_fn(|index| all[index]);
        // SAFETY: the values are valid, as the caller promises; null is.
        let all = unsafe {
            self.fill_stock_or_collect(all, contents, &|mutator, all| needed(mutator, &first(all)))
        }?;
        Ok(first(&all))
    }

    /// As [`Mutator::fill_stock_for`]: compiled once.
    ///
    /// # Safety
    /// As for [`Mutator::fill_stock_for`].
    #[cold]
    #[inline(never)]
    unsafe fn fill_stock_or_collect(
        &mut self,
        values: [Value; MOST_STOCKED],
        contents: Contents,
        needed: &dyn Fn(&Mutator, &[Value; MOST_STOCKED]) -> usize,
    ) -> Result<[Value; MOST_STOCKED], OutOfMemory> {
        self.assert_inside("a store into an array");
        let count = needed(self, &values);
        // SAFETY: inside the gate.
        if count == 0 || unsafe { self.has_stock(contents, count) } {
            return Ok(values);
        }
        self.assert_may_collect("a store into an array");
        let body = |mutator: &mut Mutator, roots: &[std::cell::Cell<Value>; MOST_STOCKED]| {
            let mut next = Some(Extent::Young);
            // SAFETY: inside the gate; what is used again is in the roots.
            unsafe { mutator.before_stock(contents, count) };
            loop {
                let values = roots.each_ref().map(std::cell::Cell::get);
                let count = needed(mutator, &values);
                // SAFETY: inside the gate.
                if unsafe { mutator.try_fill_stock(contents, count) } {
                    return Ok(values);
                }
                // SAFETY: inside the gate; what is used again is in the roots.
                if !unsafe { mutator.make_room_for_stock(contents, count, &mut next) } {
                    let bytes = count << mutator.record().pieces.arraylet_shift;
                    return Err(OutOfMemory { bytes });
                }
            }
        };
        // SAFETY: the values are valid, as the caller promises.
        unsafe { self.with_roots(values, body) }
    }

    /// Fills the stock for stores into all elements of a range; where the array is then.
    ///
    /// # Safety
    /// As for [`Mutator::cursor_mut`].
    pub(super) unsafe fn fill_stock_for_elements<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Result<Address, OutOfMemory> {
        let (offset, bytes) = (index * E::BYTES, count * E::BYTES);
        // SAFETY: the range lies in the array, as the caller promises.
        unsafe { self.fill_stock_for_range(array, offset, bytes, Contents::of(E::SLOTS)) }
    }

    /// As [`Mutator::fill_stock_for_elements`], of a range of bytes.
    ///
    /// # Safety
    /// As for [`Mutator::cursor_mut`], and the elements of the array are slots if `contents` says so.
    pub(super) unsafe fn fill_stock_for_range(
        &mut self,
        array: Address,
        offset: usize,
        bytes: usize,
        contents: Contents,
    ) -> Result<Address, OutOfMemory> {
        // SAFETY: a valid reference, as the caller promises; the array has the range wherever it lies.
        let [array] = unsafe {
            self.fill_stock_for([Value::reference(array)], contents, |mutator, [array]| {
                mutator.runs(address(*array)).count_tainted(offset, bytes)
            })
        }?;
        Ok(address(array))
    }

    /// Fills the stock for a store into one element; where the array and the item are then.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`].
    pub(super) unsafe fn fill_stock_for_one<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        item: E::Item,
    ) -> Result<(Address, E::Item), OutOfMemory> {
        let values = [Value::reference(array), E::root(item)];
        let offset = index * E::BYTES;
        // SAFETY: valid values, as the caller promises; the array has the element wherever it lies.
        unsafe {
            let [array, root] =
                self.fill_stock_for(values, Contents::of(E::SLOTS), |mutator, values| {
                    let runs = mutator.runs(address(values[0]));
                    runs.count_tainted(offset, E::BYTES)
                })?;
            Ok((address(array), E::moved(item, root)))
        }
    }

    /// Whether nothing needs to be taken. This and the next three are no generic functions, so that what they need of the
    /// collector is compiled once, and not again in each crate that stores.
    ///
    /// # Safety
    /// This thread is inside the gate.
    pub(super) unsafe fn has_stock(&self, contents: Contents, count: usize) -> bool {
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe { heap.has_stock(record, contents, count) })
    }

    /// # Safety
    /// This thread is inside the gate; its references outside of root slots are not used again.
    unsafe fn before_stock(&self, contents: Contents, count: usize) {
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe { heap.before_stock(record, contents, count) });
    }

    /// # Safety
    /// This thread is inside the gate.
    unsafe fn try_fill_stock(&self, contents: Contents, count: usize) -> bool {
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe { heap.stock(record, contents, count) })
    }

    /// # Safety
    /// As for [`Mutator::before_stock`].
    unsafe fn make_room_for_stock(
        &self,
        contents: Contents,
        count: usize,
        next: &mut Option<Extent>,
    ) -> bool {
        // SAFETY: this thread's mutator is inside the gate, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe {
            heap.make_room_for_stock(self.record(), contents, count, 0, next)
        })
    }

    /// Where a run lies that is to be written: in an arraylet from the stock, if it must not be written where it is.
    ///
    /// # Safety
    /// The run is one of the array, whose elements are slots if `contents` says so; the stock has an arraylet for it if
    /// it is not writable.
    pub(super) unsafe fn untaint_run(
        &self,
        array: Address,
        run: &Run,
        contents: Contents,
        filling: Filling,
    ) -> Address {
        let Some(number) = run.part.filter(|_| !run.writable) else {
            return run.at;
        };
        let within = run.at.word() & (self.record().pieces.arraylet_bytes() - 1);
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, with a stock; the array is a spine that has this part.
        let arraylet = with_heap!(&self.shared.kind, heap => unsafe {
            heap.instantiate(record, (array, number), contents, filling)
        });
        arraylet.add(within)
    }

    /// Where an element lies whose part is this array's alone from now on.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`]; the stock is filled for it.
    pub(super) unsafe fn untaint_element<E: Element>(
        &self,
        array: Address,
        index: usize,
    ) -> Address {
        // SAFETY: the array has this element, as the caller promises.
        unsafe {
            let run = self.runs(array).starting_at(index * E::BYTES, E::BYTES);
            self.untaint_run(array, &run, Contents::of(E::SLOTS), Filling::Same)
        }
    }

    /// What an arraylet must hold before a run of it is written so. Others who use it find the old value or the new.
    pub(super) fn filling(&self, run: &Run, copied: Copied) -> Filling {
        let is_whole = run.bytes == self.record().pieces.arraylet_bytes();
        match copied {
            Copied::SharedNumbers(_) => Filling::Same,
            _ if is_whole => Filling::Unwritten,
            _ => Filling::Same,
        }
    }
}
