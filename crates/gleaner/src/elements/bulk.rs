//! Many elements at once: fills, copies from and to buffers, windows, arrays that are filled as they are made. Of an array
//! in pieces, piece by piece (PLDI 2010, section 4.6).

use std::ptr::NonNull;
use std::slice;

use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::{Shape, TypeId, array_bytes, element};
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::allocate::Fresh;
use gleaner_plans::scavenge::arrays::Contents;
use gleaner_plans::scavenge::arrays::Filling;
use gleaner_plans::scavenge::tally::Access;
use std::sync::atomic::Ordering;

use super::pieces::{Run, address};
use super::{CursorMut, Element, Number, with_format};
use crate::body::{OutOfMemory, with_heap};

use crate::mutator::Mutator;
use crate::new_object::NewObject;

impl Mutator {
    /// Stores `item` into `count` elements from `index` on, through the barrier. Like an allocation, this may collect, and
    /// may find no memory; then nothing is stored.
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
        // SAFETY: the range lies in the array, as this function asks.
        let Some(first) = (unsafe { self.whole::<E>(array, index, count) }) else {
            // SAFETY: as this function asks.
            return unsafe { self.fill_pieces::<E>(array, index, count, item) };
        };
        // SAFETY: such elements lie there, and the item is valid, as this function asks.
        unsafe { E::fill_at(first, self.record().base, count, item) };
        if E::SLOTS {
            self.dirty_range(first, first.add(count * E::BYTES));
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Mutator::fill_elements_in`].
    #[inline(never)]
    unsafe fn fill_pieces<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        let (offset, bytes) = (index * E::BYTES, count * E::BYTES);
        let (contents, zero) = (Contents::of(E::SLOTS), E::is_zero(item));
        let values = [Value::reference(array), E::root(item)];
        // SAFETY: valid values, as this function asks; the array has the range wherever it lies.
        unsafe {
            let [array, root] = self.stock(values, contents, |mutator, values| {
                mutator
                    .view(address(values[0]))
                    .tainted(offset, bytes, !zero)
            })?;
            let (array, item) = (address(array), E::moved(item, root));
            let base = self.record().base;
            self.for_runs(array, offset, bytes, |run| {
                if zero && run.zero {
                    return;
                }
                let at = self.writable(array, run, contents, self.filling(run));
                E::fill_at(at, base, run.bytes / E::BYTES, item);
                if E::SLOTS {
                    self.dirty_range(at, at.add(run.bytes));
                }
            });
        }
        Ok(())
    }

    /// What an arraylet of which a run is to be written must hold before.
    pub(super) fn filling(&self, run: &Run) -> Filling {
        if run.bytes == self.record().pieces.arraylet_bytes() {
            Filling::Unwritten
        } else {
            Filling::Same
        }
    }

    /// Writes the bytes of the elements of a fresh array that [`Mutator::is_cut`], from the first on.
    ///
    /// # Safety
    /// This mutator has allocated the array, to be written by it, and since then has done nothing that may collect; it has
    /// no references, and so many bytes.
    pub(crate) unsafe fn write_fresh(&self, array: Address, bytes: &[u8]) {
        let mut from = bytes.as_ptr();
        // SAFETY: the array has so many bytes, and arraylets of its own, which may be written.
        unsafe {
            self.for_runs(array, 0, bytes.len(), |run| {
                run.at.ptr::<u8>().copy_from_nonoverlapping(from, run.bytes);
                from = from.add(run.bytes);
            });
        }
    }

    /// Visits the runs of a range of bytes, in order.
    ///
    /// # Safety
    /// `array` is a valid reference to an array that has this range, and stays where it is.
    pub(super) unsafe fn for_runs(
        &self,
        array: Address,
        offset: usize,
        bytes: usize,
        mut visit: impl FnMut(&Run),
    ) {
        // SAFETY: an array, as asked.
        let view = unsafe { self.view(array) };
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            // SAFETY: the array has this range, as asked.
            let run = unsafe { view.run(at, end - at) };
            visit(&run);
            at += run.bytes;
        }
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

    /// Copies numbers from `index` on to a buffer of the caller's.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, which has as many from `index` on as the buffer. No other
    /// thread writes them meanwhile.
    #[inline(always)]
    pub unsafe fn read_elements<T: Number>(&self, array: Address, index: usize, into: &mut [T]) {
        // SAFETY: the range lies in the array, as this function asks; the heap and the buffer do not overlap.
        unsafe {
            match self.whole::<T>(array, index, into.len()) {
                Some(from) => from
                    .ptr::<T>()
                    .copy_to_nonoverlapping(into.as_mut_ptr(), into.len()),
                None => self.read_pieces(array, index, into),
            }
        }
    }

    /// # Safety
    /// As for [`Mutator::read_elements`].
    #[inline(never)]
    unsafe fn read_pieces<T: Number>(&self, array: Address, index: usize, into: &mut [T]) {
        let mut to = into.as_mut_ptr();
        // SAFETY: the range lies in the array, as this function asks; all runs together fill the buffer.
        unsafe {
            self.for_runs(array, index * T::BYTES, size_of_val(into), |run| {
                let count = run.bytes / T::BYTES;
                run.at.ptr::<T>().copy_to_nonoverlapping(to, count);
                to = to.add(count);
            });
        }
    }

    /// Copies numbers of the caller's to the elements from `index` on. Like an allocation, this may collect, and may find
    /// no memory; then nothing is stored.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, which has as many from `index` on as `from`. No other
    /// thread uses them meanwhile. Other references that this thread holds outside of root slots are not used again.
    #[inline(always)]
    pub unsafe fn write_elements<T: Number>(
        &mut self,
        array: Address,
        index: usize,
        from: &[T],
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the range lies in the array, as this function asks; the heap and the buffer do not overlap.
        unsafe {
            match self.whole::<T>(array, index, from.len()) {
                Some(to) => to
                    .ptr::<T>()
                    .copy_from_nonoverlapping(from.as_ptr(), from.len()),
                None => {
                    let array = self.stock_for::<T>(array, index, from.len())?;
                    self.write_pieces(array, index, from);
                }
            }
        }
        Ok(())
    }

    /// Copies numbers to an array, for which the stock is filled.
    ///
    /// # Safety
    /// As for [`Mutator::write_elements`].
    #[inline(never)]
    pub(super) unsafe fn write_pieces<T: Number>(&self, array: Address, index: usize, from: &[T]) {
        let mut rest = from;
        // SAFETY: the range lies in the array, as this function asks; the stock is filled for it.
        unsafe {
            self.for_runs(array, index * T::BYTES, size_of_val(from), |run| {
                let (these, others) = rest.split_at(run.bytes / T::BYTES);
                rest = others;
                if run.zero && these.iter().all(|&number| T::is_zero(number)) {
                    return;
                }
                let at = self.writable(array, run, Contents::Primitives, self.filling(run));
                at.ptr::<T>()
                    .copy_from_nonoverlapping(these.as_ptr(), these.len());
            });
        }
    }

    /// Runs `look` with a view of `count` numbers from `index` on. The view may be a copy, so it costs as much as copying
    /// them. This neither collects nor fails, and `look` can do nothing that would collect.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, in which the range lies. No other thread writes them
    /// meanwhile.
    #[inline(always)]
    pub unsafe fn window<T: Number, R>(
        &self,
        array: Address,
        index: usize,
        count: usize,
        look: impl FnOnce(&[T]) -> R,
    ) -> R {
        // SAFETY: the range lies in the array, as this function asks.
        match unsafe { self.one_run::<T>(array, index, count) } {
            // SAFETY: so many numbers lie there. They stay in place until the mutator is used exclusively, which `look`
            // cannot do while it is borrowed.
            Some(run) => look(unsafe { slice::from_raw_parts(run.at.ptr(), count) }),
            // SAFETY: as this function asks.
            None => look(&unsafe { self.copied(array, index, count) }),
        }
    }

    /// Where a range lies, if all of it lies side by side.
    ///
    /// # Safety
    /// As for [`Mutator::window`].
    #[inline(always)]
    unsafe fn one_run<T: Number>(&self, array: Address, index: usize, count: usize) -> Option<Run> {
        // SAFETY: the range lies in the array, as this function asks.
        if let Some(at) = unsafe { self.whole::<T>(array, index, count) } {
            return Some(Run {
                at,
                bytes: count * T::BYTES,
                part: None,
                writable: true,
                zero: false,
            });
        }
        let bytes = count * T::BYTES;
        // SAFETY: the range lies in the array, as this function asks.
        let run = unsafe { self.view(array).run(index * T::BYTES, bytes) };
        (run.bytes == bytes).then_some(run)
    }

    /// # Safety
    /// As for [`Mutator::window`].
    #[inline(never)]
    unsafe fn copied<T: Number>(&self, array: Address, index: usize, count: usize) -> Vec<T> {
        let mut copied: Vec<T> = Vec::with_capacity(count);
        // SAFETY: the range lies in the array, as this function asks; all of the vector is written.
        unsafe {
            copied.as_mut_ptr().write_bytes(0, count);
            copied.set_len(count);
            self.read_pieces(array, index, &mut copied);
        }
        copied
    }

    /// Runs `change` with a view of `count` numbers from `index` on, and with the mutator, for loads and other views. The
    /// view may be a copy that is written back. Like an allocation, this may collect, and may find no memory, before
    /// `change` runs; `change` itself can do nothing that would collect.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, in which the range lies. Nobody else uses them meanwhile,
    /// `change` not by another view either. Other references that this thread holds outside of root slots are not used
    /// again.
    #[inline(always)]
    pub unsafe fn window_mut<T: Number, R>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        change: impl FnOnce(&Mutator, &mut [T]) -> R,
    ) -> Result<R, OutOfMemory> {
        // SAFETY: as this function asks.
        unsafe { self.changed(array, index, count, change) }.map(|(_, result)| result)
    }

    /// As [`Mutator::window_mut`]; also where the array is then.
    ///
    /// # Safety
    /// As for [`Mutator::window_mut`].
    #[inline(always)]
    unsafe fn changed<T: Number, R>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        change: impl FnOnce(&Mutator, &mut [T]) -> R,
    ) -> Result<(Address, R), OutOfMemory> {
        // SAFETY: the range lies in the array, as this function asks.
        let run = unsafe { self.one_run::<T>(array, index, count) };
        if let Some(run) = run.filter(|run| run.writable) {
            // SAFETY: so many numbers lie there. They stay in place until the mutator is used exclusively, which `change`
            // cannot do while it is borrowed.
            let view = unsafe { slice::from_raw_parts_mut(run.at.ptr(), count) };
            return Ok((array, change(self, view)));
        }
        // SAFETY: as this function asks.
        unsafe {
            let array = self.stock_for::<T>(array, index, count)?;
            let mut view = self.copied(array, index, count);
            let result = change(self, &mut view);
            self.write_pieces(array, index, &view);
            Ok((array, result))
        }
    }

    /// A new array of `length` numbers, which are zero, and then what `fill` makes of them before anybody else sees the
    /// array. The view that `fill` is given is that of [`Mutator::window_mut`].
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks of an array; `id` has elements of `T`.
    #[inline(always)]
    pub unsafe fn allocate_array_by_window<T: Number>(
        &mut self,
        id: TypeId,
        length: u32,
        fill: impl FnOnce(&Mutator, &mut [T]),
    ) -> Result<Address, OutOfMemory> {
        let bytes = array_bytes(length, T::BYTES.trailing_zeros());
        // SAFETY: the type and the bytes that follow from it; other references are not used again, as this function asks.
        let array =
            unsafe { self.allocate_raw(NewObject::array(id, length, bytes), Fresh::Zeroed) }?;
        // SAFETY: all elements of the fresh array, which nobody else knows.
        unsafe { self.changed(array, 0, length as usize, fill) }.map(|(array, ())| array)
    }

    /// A new array of `length` elements, which are null or zero, and then what `fill` makes of them before anybody else
    /// sees the array. What `fill` may do is what a [`CursorMut`] lets it: nothing that would collect.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks of an array; `id` has elements of `E`.
    #[inline(always)]
    pub unsafe fn allocate_array_by_cursor<E: Element>(
        &mut self,
        id: TypeId,
        length: u32,
        fill: impl FnOnce(&mut CursorMut<'_, E>),
    ) -> Result<Address, OutOfMemory> {
        let bytes = array_bytes(length, E::BYTES.trailing_zeros());
        // SAFETY: the type and the bytes that follow from it; other references are not used again, as this function asks.
        let array =
            unsafe { self.allocate_raw(NewObject::array(id, length, bytes), Fresh::Zeroed) }?;
        // SAFETY: all elements of the fresh array.
        let mut cursor = unsafe { self.cursor_mut(array, 0, length as usize) }?;
        fill(&mut cursor);
        Ok(cursor.array())
    }

    /// Where the elements of an array without references lie, and how many bytes they have, if the array never moves and
    /// lies in one piece: for calls that fill or read a buffer. The pointer is good as long as the array lives.
    ///
    /// # Safety
    /// `array` is a valid reference.
    pub unsafe fn pinned_elements_raw(&self, array: Address) -> Option<(NonNull<u8>, usize)> {
        // SAFETY: a valid reference, as this function asks.
        let header = unsafe { header::load(array, Ordering::Relaxed) };
        let id = header.type_id();
        let shape = with_heap!(&self.shared.kind, heap => heap.model.shape(id).map(|shape| match shape {
            Shape::Primitives { log2 } => Some(log2),
            _ => None,
        }));
        let log2 = shape.flatten().filter(|_| !header.is_spine())?;
        // SAFETY: a valid reference, and this shape is an array.
        let (pinned, length) = unsafe { (self.is_pinned_raw(array), self.length_raw(array)) };
        let first = NonNull::new(element(array, 0, 1).ptr::<u8>())?;
        pinned.then_some((first, (length as usize) << log2))
    }
}
