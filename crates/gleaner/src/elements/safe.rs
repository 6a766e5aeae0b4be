//! Element access in the safe layer. Every access checks the type of the array and the index or range; a wrong one panics
//! with both. Single elements are read and written by [`Scope::get`], [`Scope::set`] and their like in `scope.rs`.
//!
//! There are no windows here: another mutator may write any array at any time, which no slice allows.

use std::ops::Range;
use std::ptr::NonNull;

use gleaner_mem::Address;
use gleaner_mem::object_model::element;
use gleaner_mem::shared_bytes;

use super::checks::{check_range, count_of, kind};
use super::copied::Copied;
use super::cursor::Cursor;
use super::element::Number;
use crate::body::OutOfMemory;
use crate::known::Holds;
use crate::local::Local;
use crate::scope::Scope;

impl Scope<'_> {
    /// Writes `new` to element `index` of an array of these numbers if the element is `expected`. If it is not, the
    /// inner error is what the element is. Mutators may race for the element. Like an allocation, this may collect, and
    /// it fails when there is no memory.
    pub fn compare_exchange_number<T: Number>(
        &mut self,
        array: Local<'_>,
        index: usize,
        expected: T,
        new: T,
    ) -> Result<Result<(), T>, OutOfMemory> {
        let object = self.numbers_of::<T>(array, "a compare-and-swap of", index, 1);
        // SAFETY: an array of such numbers that has this element; a scope has only locals.
        unsafe {
            self.mutator()
                .compare_exchange_element_in::<T>(object, index, expected, new)
        }
    }

    /// Sets `count` elements of an array of references, from `index` on, to what `value` holds. Like an allocation,
    /// this may collect, and it fails when there is no memory.
    pub fn fill(
        &mut self,
        array: Local<'_>,
        index: usize,
        count: usize,
        value: Local<'_, impl Holds>,
    ) -> Result<(), OutOfMemory> {
        let value = self.value(value);
        let object = self.references_of(array, "a fill of", index, count);
        // SAFETY: an array of references with this range; locals hold what fits, and a scope has only locals.
        unsafe {
            self.mutator()
                .fill_elements_raw(object, index, count, value)
        }
    }

    /// Writes `number` to `count` elements of an array of such numbers, from `index` on. Like an allocation, this may
    /// collect, and it fails when there is no memory.
    pub fn fill_numbers<T: Number>(
        &mut self,
        array: Local<'_>,
        index: usize,
        count: usize,
        number: T,
    ) -> Result<(), OutOfMemory> {
        if let Some(at) = self.near_bytes::<T>(array, index, count) {
            // SAFETY: a number of one byte, and so many lie there, which others use byte by byte.
            unsafe { shared_bytes::fill(at, (&raw const number).cast::<u8>().read(), count) };
            return Ok(());
        }
        self.fill_one_by_one(array, index, count, number)
    }

    #[inline(never)]
    fn fill_one_by_one<T: Number>(
        &mut self,
        array: Local<'_>,
        index: usize,
        count: usize,
        number: T,
    ) -> Result<(), OutOfMemory> {
        let object = self.numbers_of::<T>(array, "a fill of", index, count);
        // SAFETY: an array of such numbers with this range; a scope has only locals.
        let mut cursor = unsafe { self.mutator().cursor_mut::<T>(object, index, count) }?;
        // SAFETY: any number is valid. One by one, since others may use them meanwhile.
        while unsafe { cursor.store(number) } {}
        Ok(())
    }

    /// `count` numbers of an array, from `index` on, one after the other.
    ///
    /// ```
    /// # use gleaner::{Elements, Heap};
    /// # let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// let words = heap.array(Elements::Words).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let array = scope.allocate_array(words, 10)?;
    ///     scope.write_elements(array, 4, &[1_u32, 2, 3])?;
    ///     assert_eq!(scope.numbers::<u32>(array, 0, 10).sum::<u32>(), 6);
    ///     Ok::<(), gleaner::OutOfMemory>(())
    /// }).unwrap();
    /// ```
    pub fn numbers<T: Number>(
        &self,
        array: Local<'_>,
        index: usize,
        count: usize,
    ) -> Cursor<'_, T> {
        let object = self.numbers_of::<T>(array, "a cursor over", index, count);
        // SAFETY: an array of such numbers with this range.
        unsafe { self.shared().cursor(object, index, count) }
    }

    /// Copies numbers of an array, from `index` on, to a buffer. If another mutator writes a number meanwhile, either
    /// value is copied.
    pub fn read_elements<T: Number>(&self, array: Local<'_>, index: usize, into: &mut [T]) {
        if let Some(from) = self.near_bytes::<T>(array, index, into.len()) {
            let to = Address::of(into.as_mut_ptr());
            // SAFETY: so many bytes lie there, which others use byte by byte, and in the buffer.
            return unsafe { shared_bytes::copy(from, to, into.len()) };
        }
        self.read_far_or_larger(array, index, into);
    }

    /// What [`Scope::read_elements`] does not do at once.
    #[inline(never)]
    fn read_far_or_larger<T: Number>(&self, array: Local<'_>, index: usize, into: &mut [T]) {
        let object = self.numbers_of::<T>(array, "a copy of", index, into.len());
        // SAFETY: an array of such numbers with this range.
        unsafe { self.shared().read_shared(object, index, into) };
    }

    /// Copies numbers to the elements of an array from `index` on. Like an allocation, this may collect, and it fails
    /// when there is no memory.
    pub fn write_elements<T: Number>(
        &mut self,
        array: Local<'_>,
        index: usize,
        from: &[T],
    ) -> Result<(), OutOfMemory> {
        if let Some(to) = self.near_bytes::<T>(array, index, from.len()) {
            // SAFETY: so many bytes lie there, which others use byte by byte, and in the buffer.
            unsafe { shared_bytes::copy(Address::of(from.as_ptr()), to, from.len()) };
            return Ok(());
        }
        self.write_far_or_larger(array, index, from)
    }

    /// What [`Scope::write_elements`] does not do at once.
    #[inline(never)]
    fn write_far_or_larger<T: Number>(
        &mut self,
        array: Local<'_>,
        index: usize,
        from: &[T],
    ) -> Result<(), OutOfMemory> {
        let object = self.numbers_of::<T>(array, "a copy of", index, from.len());
        // SAFETY: an array of such numbers with this range; a scope has only locals.
        unsafe { self.mutator().write_shared(object, index, from) }
    }

    /// Copies a range of elements of one array to those from index `to_index` on of the same or another array, whose
    /// elements may overlap with the range. Both arrays are of references, or both have elements of the same size. Like
    /// an allocation, this may collect, and it fails when there is no memory.
    pub fn copy_elements(
        &mut self,
        from: Local<'_>,
        range: Range<usize>,
        to: Local<'_>,
        to_index: usize,
    ) -> Result<(), OutOfMemory> {
        let count = range.end.wrapping_sub(range.start);
        if range.start <= range.end
            && !self.shared().counts_copies()
            && let Some(at) = self.near_bytes::<u8>(from, range.start, count)
            && let Some(to_at) = self.near_bytes::<u8>(to, to_index, count)
        {
            // SAFETY: so many bytes lie at both places, which others use byte by byte.
            unsafe { shared_bytes::copy(at, to_at, count) };
            return Ok(());
        }
        self.copy_far_or_larger(from, range, to, to_index)
    }

    /// What [`Scope::copy_elements`] does not do at once.
    #[inline(never)]
    fn copy_far_or_larger(
        &mut self,
        from: Local<'_>,
        range: Range<usize>,
        to: Local<'_>,
        to_index: usize,
    ) -> Result<(), OutOfMemory> {
        let (from_index, count) = (range.start, count_of(&range));
        let ((from, log2), (to, to_log2)) = (self.array(from), self.array(to));
        assert!(
            log2 == to_log2,
            "a copy from an object that has {} to one that has {}",
            self.describe(from),
            self.describe(to)
        );
        for (array, index) in [(from, from_index), (to, to_index)] {
            // SAFETY: an array.
            let length = unsafe { self.shared().length_raw(array) };
            check_range("a copy of", length, index, count);
        }
        // Other threads may use the elements.
        let copied = log2.map_or(Copied::Slots, Copied::SharedNumbers);
        let indices = [from_index, to_index, count];
        // SAFETY: both arrays have such elements, and these ranges of them; a scope has only locals.
        unsafe { self.mutator().copy_between(from, to, indices, copied) }
    }

    /// The address of the first element of an array without references, and the bytes of all its elements. `None` if
    /// the array may move, or lies in pieces: allocate it by a pinned type. It is for calls that fill or read a buffer.
    /// The pointer is valid as long as the array lives. The caller decides what others may do with the elements
    /// meanwhile.
    pub fn pinned_elements(&self, array: Local<'_>) -> Option<(NonNull<u8>, usize)> {
        // SAFETY: a local refers to a valid object.
        unsafe { self.shared().pinned_elements_raw(self.object(array)) }
    }

    /// An array of references that has a range. Panics if it is another object, or shorter.
    fn references_of(&self, array: Local<'_>, what: &str, index: usize, count: usize) -> Address {
        let (array, log2) = self.array(array);
        assert!(
            log2.is_none(),
            "{what} references of an object that has {}",
            self.describe(array)
        );
        // SAFETY: an array.
        let length = unsafe { self.shared().length_raw(array) };
        check_range(what, length, index, count);
        array
    }

    /// Where so many numbers of one byte each lie, from `index` on, if `array` is an array of such numbers that has them, and
    /// they lie in one piece behind its length. What it is otherwise, the caller finds out. Short ranges cost little more than
    /// these comparisons, so nothing else is done here.
    #[inline(always)]
    pub(super) fn near_bytes<T: Number>(
        &self,
        array: Local<'_>,
        index: usize,
        count: usize,
    ) -> Option<Address> {
        if T::BYTES > 1 {
            return None;
        }
        let (object, mutator) = (self.object(array), self.shared());
        // SAFETY: a local refers to a valid object; an array has a length.
        let length = unsafe {
            if !mutator.types().has_numbers(object, 0) {
                return None;
            }
            mutator.length_raw(object) as usize
        };
        let end = index.checked_add(count)?;
        (end <= length && end <= mutator.record().pieces.first_n).then(|| element(object, index, 1))
    }

    /// An array of numbers of this size that has a range. Panics if it is another object, or shorter.
    #[inline]
    fn numbers_of<T: Number>(
        &self,
        array: Local<'_>,
        what: &str,
        index: usize,
        count: usize,
    ) -> Address {
        let (array, log2) = self.array(array);
        assert!(
            log2 == Some(T::BYTES.trailing_zeros()),
            "{what} {} of an object that has {}",
            kind(Some(T::BYTES.trailing_zeros())),
            self.describe(array)
        );
        // SAFETY: an array.
        let length = unsafe { self.shared().length_raw(array) };
        check_range(what, length, index, count);
        array
    }

    /// An array, and the logarithm of the size of its elements; `None` for an array of references. Panics if it is another
    /// object.
    #[inline]
    pub(super) fn array(&self, array: Local<'_>) -> (Address, Option<u32>) {
        let object = self.object(array);
        // SAFETY: a local refers to a valid object.
        let elements = unsafe { self.shared().types().elements(object) };
        let log2 = elements.unwrap_or_else(|| {
            panic!(
                "a use as an array of an object that has {}",
                self.describe(object)
            )
        });
        (object, log2)
    }
}
