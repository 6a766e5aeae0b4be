//! Copies between an array and a buffer of the caller's.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::{Shape, element};
use gleaner_plans::scavenge::arrays::Contents;

use super::copied::Copied;
use super::element::Number;
use crate::body::{OutOfMemory, with_heap};
use crate::mutator::Mutator;

impl Mutator {
    /// Copies numbers from `index` on to the caller's buffer, and fills it.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, which has as many from `index` on as the buffer. No
    /// other thread writes them meanwhile.
    #[inline(always)]
    pub unsafe fn read_elements<T: Number>(&self, array: Address, index: usize, into: &mut [T]) {
        // SAFETY: the range lies in the array, as the caller promises; the heap and the buffer do not overlap.
        unsafe {
            match self.near::<T>(array, index, into.len()) {
                Some(from) => from
                    .ptr::<T>()
                    .copy_to_nonoverlapping(into.as_mut_ptr(), into.len()),
                None => self.read_runs(array, index, into, Copied::numbers::<T>()),
            }
        }
    }

    /// As [`Mutator::read_elements`], where other threads may use the numbers meanwhile: of each either value is read.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, which has as many from `index` on as the buffer.
    #[inline]
    pub(super) unsafe fn read_shared<T: Number>(
        &self,
        array: Address,
        index: usize,
        into: &mut [T],
    ) {
        let copied = Copied::shared_numbers::<T>();
        // SAFETY: the range lies in the array, as the caller promises.
        unsafe {
            match self.near::<T>(array, index, into.len()) {
                Some(from) => {
                    let to = Address::of(into.as_mut_ptr());
                    self.transfer(from, to, size_of_val(into), copied);
                }
                None => self.read_runs(array, index, into, copied),
            }
        }
    }

    /// # Safety
    /// As for [`Mutator::read_elements`], and the numbers are used meanwhile as `copied` says.
    #[inline(never)]
    pub(super) unsafe fn read_runs<T: Number>(
        &self,
        array: Address,
        index: usize,
        into: &mut [T],
        copied: Copied,
    ) {
        let mut to = Address::of(into.as_mut_ptr());
        // SAFETY: the range lies in the array, as the caller promises; all runs together fill the buffer.
        unsafe {
            self.for_each_run(array, index * T::BYTES, size_of_val(into), |run| {
                self.transfer(run.at, to, run.bytes, copied);
                to = to.add(run.bytes);
            });
        }
    }

    /// Copies the caller's numbers to the elements from `index` on. Like an allocation, this may collect. It fails when
    /// there is no memory, and then stores nothing.
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
        // SAFETY: the range lies in the array, as the caller promises; the heap and the buffer do not overlap.
        unsafe {
            match self.near::<T>(array, index, from.len()) {
                Some(to) => to
                    .ptr::<T>()
                    .copy_from_nonoverlapping(from.as_ptr(), from.len()),
                None => {
                    let array = self.fill_stock_for_elements::<T>(array, index, from.len())?;
                    self.write_runs(array, index, from, Copied::numbers::<T>());
                }
            }
        }
        Ok(())
    }

    /// As [`Mutator::write_elements`], where other threads may use the numbers meanwhile.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, which has as many from `index` on as `from`. Other
    /// references that this thread holds outside of root slots are not used again.
    #[inline]
    pub(super) unsafe fn write_shared<T: Number>(
        &mut self,
        array: Address,
        index: usize,
        from: &[T],
    ) -> Result<(), OutOfMemory> {
        let copied = Copied::shared_numbers::<T>();
        // SAFETY: the range lies in the array, as the caller promises.
        unsafe {
            match self.near::<T>(array, index, from.len()) {
                Some(to) => {
                    let from_bytes = Address::of(from.as_ptr().cast_mut());
                    self.transfer(from_bytes, to, size_of_val(from), copied);
                }
                None => {
                    let array = self.fill_stock_for_elements::<T>(array, index, from.len())?;
                    self.write_runs(array, index, from, copied);
                }
            }
        }
        Ok(())
    }

    /// Copies numbers to an array, for which the stock is filled.
    ///
    /// # Safety
    /// As for [`Mutator::write_elements`], and the numbers are used meanwhile as `copied` says.
    #[inline(never)]
    pub(super) unsafe fn write_runs<T: Number>(
        &self,
        array: Address,
        index: usize,
        from: &[T],
        copied: Copied,
    ) {
        let mut rest = from;
        // SAFETY: the range lies in the array, as the caller promises; the stock is filled for it.
        unsafe {
            self.for_each_run(array, index * T::BYTES, size_of_val(from), |run| {
                let (these, others) = rest.split_at(run.bytes / T::BYTES);
                rest = others;
                if run.zero && these.iter().all(|&number| T::is_zero(number)) {
                    return;
                }
                let filling = self.filling(run, copied);
                let at = self.untaint_run(array, run, Contents::Primitives, filling);
                let these = Address::of(these.as_ptr().cast_mut());
                self.transfer(these, at, run.bytes, copied);
            });
        }
    }

    /// Writes the bytes of the elements of a new array that [`Mutator::is_cut`], from the first element on.
    ///
    /// # Safety
    /// This mutator has allocated the array [`Fresh::Unwritten`](crate::raw::Fresh::Unwritten), and since then has done
    /// nothing that may collect. The array has no references, and its elements take `bytes.len()` bytes.
    pub(crate) unsafe fn write_fresh(&self, array: Address, bytes: &[u8]) {
        let mut from = bytes.as_ptr();
        // SAFETY: the elements take these bytes, as the caller promises. The array was allocated with arraylets of its
        // own, which may be written.
        unsafe {
            self.for_each_run(array, 0, bytes.len(), |run| {
                run.at.ptr::<u8>().copy_from_nonoverlapping(from, run.bytes);
                from = from.add(run.bytes);
            });
        }
    }

    /// The address of the first element of an array without references, and the bytes of all its elements. `None` if
    /// the array may move, or lies in pieces. It is for calls that fill or read a buffer. The pointer is valid as long
    /// as the array lives.
    ///
    /// # Safety
    /// `array` is a valid reference.
    pub unsafe fn pinned_elements_raw(&self, array: Address) -> Option<(NonNull<u8>, usize)> {
        // SAFETY: a valid reference, as the caller promises.
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
