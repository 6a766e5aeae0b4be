//! Numbers of an array as a slice: the elements themselves where they lie side by side, else a copy.

use std::slice;

use gleaner_mem::Address;
use gleaner_mem::object_model::{TypeId, array_bytes};
use gleaner_plans::scavenge::allocate::Fresh;

use super::copied::Copied;
use super::element::Number;
use super::runs::Run;
use crate::body::OutOfMemory;
use crate::mutator::Mutator;
use crate::new_object::NewObject;

impl Mutator {
    /// Runs `look` with a slice of `count` numbers from `index` on. The slice may be a copy, and then costs as much as
    /// copying the numbers. This neither collects nor fails, and `look` can do nothing that would collect.
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
        // SAFETY: the range lies in the array, as the caller promises.
        match unsafe { self.single_run::<T>(array, index, count) } {
            // SAFETY: `count` numbers lie there. They stay in place until the mutator is used exclusively, which `look`
            // cannot do while it is borrowed.
            Some(run) => look(unsafe { slice::from_raw_parts(run.at.ptr(), count) }),
            // SAFETY: the range lies in the array, and no other thread writes it, as the caller promises.
            None => look(&unsafe { self.copied_out(array, index, count) }),
        }
    }

    /// Runs `change` with a slice of `count` numbers from `index` on, and with the mutator, for loads and other slices.
    /// The slice may be a copy, which is written back.
    ///
    /// Before `change` runs, this may collect, like an allocation, and it fails when there is no memory. `change`
    /// itself can do nothing that would collect.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, in which the range lies. Nobody else uses them
    /// meanwhile, `change` not by another slice either. Other references that this thread holds outside of root slots
    /// are not used again.
    #[inline(always)]
    pub unsafe fn window_mut<T: Number, R>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        change: impl FnOnce(&Mutator, &mut [T]) -> R,
    ) -> Result<R, OutOfMemory> {
        // SAFETY: the range lies in the array, and nobody else uses it, as the caller promises.
        unsafe { self.window_or_copy_mut(array, index, count, change) }.map(|(_, result)| result)
    }

    /// Allocates an array of `length` numbers, which `fill` writes before anybody else sees the array. `fill` gets the
    /// array as a slice of zeros, under the terms of [`Mutator::window_mut`].
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
        // SAFETY: the type and the bytes that follow from it; other references are not used again, as the caller
        // promises.
        let array =
            unsafe { self.allocate_raw(NewObject::array(id, length, bytes), Fresh::Zeroed) }?;
        // SAFETY: all elements of the fresh array, which nobody else knows.
        unsafe { self.window_or_copy_mut(array, 0, length as usize, fill) }.map(|(array, ())| array)
    }

    /// As [`Mutator::window_mut`]; also where the array is then.
    ///
    /// # Safety
    /// As for [`Mutator::window_mut`].
    #[inline(always)]
    unsafe fn window_or_copy_mut<T: Number, R>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        change: impl FnOnce(&Mutator, &mut [T]) -> R,
    ) -> Result<(Address, R), OutOfMemory> {
        // SAFETY: the range lies in the array, as the caller promises.
        let run = unsafe { self.single_run::<T>(array, index, count) };
        if let Some(run) = run.filter(|run| run.writable) {
            // SAFETY: `count` numbers lie there. They stay in place until the mutator is used exclusively, which `change`
            // cannot do while it is borrowed.
            let view = unsafe { slice::from_raw_parts_mut(run.at.ptr(), count) };
            return Ok((array, change(self, view)));
        }
        // SAFETY: the range lies in the array, and nobody else uses it, as the caller promises; the stock is filled for
        // it before it is written.
        unsafe {
            let array = self.fill_stock_for_elements::<T>(array, index, count)?;
            let mut view = self.copied_out(array, index, count);
            let result = change(self, &mut view);
            self.write_runs(array, index, &view, Copied::numbers::<T>());
            Ok((array, result))
        }
    }

    /// Where a range lies, if all of it lies side by side.
    ///
    /// # Safety
    /// As for [`Mutator::window`].
    #[inline(always)]
    unsafe fn single_run<T: Number>(
        &self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Option<Run> {
        // SAFETY: the range lies in the array, as the caller promises.
        if let Some(at) = unsafe { self.near::<T>(array, index, count) } {
            return Some(Run {
                at,
                bytes: count * T::BYTES,
                part: None,
                writable: true,
                zero: false,
            });
        }
        let bytes = count * T::BYTES;
        // SAFETY: the range lies in the array, as the caller promises.
        let run = unsafe { self.runs(array).starting_at(index * T::BYTES, bytes) };
        (run.bytes == bytes).then_some(run)
    }

    /// # Safety
    /// As for [`Mutator::window`].
    #[inline(never)]
    unsafe fn copied_out<T: Number>(&self, array: Address, index: usize, count: usize) -> Vec<T> {
        let mut copied: Vec<T> = Vec::with_capacity(count);
        // SAFETY: the range lies in the array, as the caller promises; all of the vector is written.
        unsafe {
            copied.as_mut_ptr().write_bytes(0, count);
            copied.set_len(count);
            self.read_runs(array, index, &mut copied, Copied::numbers::<T>());
        }
        copied
    }
}
