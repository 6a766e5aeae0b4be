//! Elements for code that has the fast path of each access itself, as the C header has. Such code calls these functions
//! where an access may lie beyond the first N bytes of an array in pieces (PLDI 2010, section 5.1).

use gleaner_mem::Address;
use gleaner_mem::object_model::Shape;
use gleaner_plans::scavenge::arrays::{Contents, Filling};

use super::copied::Copied;
use super::element::Number;
use crate::body::{OutOfMemory, with_heap};
use crate::mutator::Mutator;

/// Elements of an array that lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Piece {
    /// The first one.
    pub at: Address,
    /// Behind the last one.
    pub end: Address,
}

impl Mutator {
    /// Where elements of `bytes` bytes each lie, from `index` on: at most `count` of them, and no more than lie side by
    /// side. They may be read there. In a new array they may also be written, while [`Mutator::initialize_element_in`]
    /// may be used.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, in which the range lies.
    #[inline]
    pub unsafe fn piece_raw(
        &self,
        array: Address,
        index: usize,
        count: usize,
        bytes: usize,
    ) -> Piece {
        // SAFETY: the array has these bytes, as the caller promises.
        let run = unsafe { self.runs(array).starting_at(index * bytes, count * bytes) };
        Piece {
            at: run.at,
            end: run.at.add(run.bytes),
        }
    }

    /// Takes the memory that stores into all elements of a range may need. The result is the array, which may have
    /// moved. Like an allocation, this may collect, and it fails when there is no memory.
    ///
    /// # Safety
    /// As for [`Mutator::piece_raw`]. Other references that this thread holds outside of root slots are not used again.
    pub unsafe fn fill_stock_raw(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        bytes: usize,
    ) -> Result<Address, OutOfMemory> {
        // SAFETY: the range lies in the array, as the caller promises.
        unsafe {
            let contents = self.contents(array);
            self.fill_stock_for_range(array, index * bytes, count * bytes, contents)
        }
    }

    /// As [`Mutator::piece_raw`], for stores. From now on, no other array shares the elements.
    ///
    /// If `zero` says that the first element is to become zero, and it is zero already, the piece is empty. This
    /// neither collects nor fails.
    ///
    /// # Safety
    /// As for [`Mutator::piece_raw`]; the range is one for which [`Mutator::fill_stock_raw`] was called, or a part of
    /// it, and nothing was stored by another function since then, allocated or polled.
    pub unsafe fn piece_to_write_raw(
        &self,
        array: Address,
        index: usize,
        count: usize,
        bytes: usize,
        zero: bool,
    ) -> Piece {
        // SAFETY: the array has these bytes, as the caller promises, and the stock is filled for them.
        unsafe {
            let run = self.runs(array).starting_at(index * bytes, count * bytes);
            if zero && run.zero {
                return Piece {
                    at: run.at,
                    end: run.at,
                };
            }
            let at = self.untaint_run(array, &run, self.contents(array), Filling::Same);
            Piece {
                at,
                end: at.add(run.bytes),
            }
        }
    }

    /// As [`Mutator::write_elements`], into a range for which [`Mutator::fill_stock_raw`] was called. This neither
    /// collects nor fails.
    ///
    /// # Safety
    /// As for [`Mutator::write_elements`], and as [`Mutator::piece_to_write_raw`] asks of what was done since then.
    pub unsafe fn write_stocked<T: Number>(&self, array: Address, index: usize, from: &[T]) {
        // SAFETY: the range lies in the array, and the stock is filled for it, as the caller promises.
        unsafe { self.write_runs(array, index, from, Copied::numbers::<T>()) };
    }

    /// # Safety
    /// `array` is a valid reference to an array.
    unsafe fn contents(&self, array: Address) -> Contents {
        // SAFETY: a valid reference, as the caller promises.
        let id = unsafe { self.type_raw(array) };
        let shape = with_heap!(&self.shared.kind, heap => heap.model.shape(id));
        Contents::of(matches!(shape, Some(Shape::References)))
    }
}
