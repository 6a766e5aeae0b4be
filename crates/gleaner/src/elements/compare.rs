//! Comparisons of many elements at once, of arrays in pieces run by run: arraylets that both arrays share are equal
//! without a look at them.

use std::ops::Range;
use std::slice;

use gleaner_mem::Address;
use gleaner_mem::object_model::element;
use gleaner_mem::shared_bytes;

use super::checks::{check_range, count_of, kind};
use super::copied::Copied;
use super::element::{Element, Number};
use crate::local::Local;
use crate::mutator::Mutator;
use crate::scope::Scope;

impl Mutator {
    /// The first of `count` elements, compared bit by bit, in which a range of one array differs from a range of
    /// another. It is counted from the start of the ranges. `None` if the ranges are equal. This neither collects nor
    /// fails.
    ///
    /// It panics if the arrays have different elements, or if a range reaches beyond the end of its array.
    ///
    /// # Safety
    /// Both are valid references. No other thread writes the elements meanwhile.
    pub unsafe fn compare_elements_raw(
        &self,
        (one, index): (Address, usize),
        (other, other_index): (Address, usize),
        count: usize,
    ) -> Option<usize> {
        // SAFETY: valid references, as the caller promises.
        let log2 = unsafe { self.comparable(one, other) };
        for (array, index) in [(one, index), (other, other_index)] {
            // SAFETY: an array.
            let length = unsafe { self.length_raw(array) };
            check_range("a comparison of", length, index, count);
        }
        let offsets = [index << log2, other_index << log2];
        let differ = |one: Address, other: Address, bytes: usize| {
            // SAFETY: `bytes` bytes lie at both places, which no other thread writes, as the caller promises.
            let [one, other] =
                [one, other].map(|at| unsafe { slice::from_raw_parts(at.ptr::<u8>(), bytes) });
            (one != other).then(|| {
                let equal = one
                    .iter()
                    .zip(other)
                    .take_while(|(one, other)| one == other);
                equal.count()
            })
        };
        // SAFETY: the arrays have these ranges, which was checked.
        let found = unsafe { self.differing_byte([one, other], offsets, count << log2, differ) };
        found.map(|byte| byte >> log2)
    }

    /// The first of so many bytes from these offsets on in which two arrays differ, as `differ` says of two places.
    ///
    /// # Safety
    /// Valid references to arrays that have these bytes.
    unsafe fn differing_byte(
        &self,
        [one, other]: [Address; 2],
        [from, other_from]: [usize; 2],
        all: usize,
        differ: impl Fn(Address, Address, usize) -> Option<usize>,
    ) -> Option<usize> {
        let first_n = self.record().pieces.first_n;
        if from + all <= first_n && other_from + all <= first_n {
            let (mine, theirs) = (element(one, from, 1), element(other, other_from, 1));
            return (mine != theirs)
                .then(|| differ(mine, theirs, all))
                .flatten();
        }
        // SAFETY: valid references, as the caller promises.
        let (one, other) = unsafe { (self.runs(one), self.runs(other)) };
        let mut done = 0;
        while done < all {
            // SAFETY: the arrays have these ranges, as the caller promises.
            let (mine, theirs, bytes) = unsafe {
                let mine = one.in_one_part(from + done, all - done);
                let theirs = other.in_one_part(other_from + done, mine.bytes);
                (mine.at, theirs.at, theirs.bytes)
            };
            if mine != theirs
                && let Some(equal) = differ(mine, theirs, bytes)
            {
                return Some(done + equal);
            }
            done += bytes;
        }
        None
    }

    /// The logarithm of the size of the elements of both arrays.
    ///
    /// # Safety
    /// As for [`Mutator::compare_elements_raw`].
    unsafe fn comparable(&self, one: Address, other: Address) -> u32 {
        // SAFETY: valid references, as the caller promises.
        let shape = unsafe { self.same_elements("a comparison of", "with", one, other) };
        shape.unwrap_or_else(|| self.log2(Copied::Slots))
    }
}

impl Scope<'_> {
    /// The first element of a range of one array, compared bit by bit, that differs from that of another array, whose
    /// elements from `other_index` on are compared. It is counted from the start of the range. `None` if all are equal.
    /// If another mutator writes an element meanwhile, either value is compared.
    ///
    /// ```
    /// # use gleaner::{Elements, Heap};
    /// # let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// let words = heap.array(Elements::Words).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let [one, other] = [scope.allocate_array(words, 10)?, scope.allocate_array(words, 10)?];
    ///     assert_eq!(scope.compare_elements(one, 0..10, other, 0), None);
    ///     scope.write_elements(one, 7, &[1_u32])?;
    ///     assert_eq!(scope.compare_elements(one, 5..10, other, 1), Some(2));
    ///     Ok::<(), gleaner::OutOfMemory>(())
    /// }).unwrap();
    /// ```
    pub fn compare_elements(
        &self,
        one: Local<'_>,
        range: Range<usize>,
        other: Local<'_>,
        other_index: usize,
    ) -> Option<usize> {
        let count = range.end.wrapping_sub(range.start);
        if range.start <= range.end
            && let Some(at) = self.near_bytes::<u8>(one, range.start, count)
            && let Some(other_at) = self.near_bytes::<u8>(other, other_index, count)
        {
            // SAFETY: so many bytes lie at both places, which others use byte by byte.
            let found = || unsafe { shared_bytes::first_difference(at, other_at, count) };
            return (at != other_at).then(found).flatten();
        }
        self.compare_far_or_larger(one, range, other, other_index)
    }

    /// What [`Scope::compare_elements`] does not do at once.
    #[inline(never)]
    fn compare_far_or_larger(
        &self,
        one: Local<'_>,
        range: Range<usize>,
        other: Local<'_>,
        other_index: usize,
    ) -> Option<usize> {
        let (index, count) = (range.start, count_of(&range));
        let ((one, log2), (other, other_log2)) = (self.array(one), self.array(other));
        assert!(
            log2 == other_log2,
            "a comparison of an array of {} with one of {}",
            kind(log2),
            kind(other_log2)
        );
        let ranges = [(one, index), (other, other_index)];
        for (array, index) in ranges {
            // SAFETY: an array.
            let length = unsafe { self.shared().length_raw(array) };
            check_range("a comparison of", length, index, count);
        }
        let log2 = log2.unwrap_or_else(|| self.shared().log2(Copied::Slots));
        // SAFETY: arrays of elements of this size, which have these ranges.
        unsafe {
            match log2 {
                0 => {
                    let [one, other] = ranges;
                    let differ =
                        |one, other, bytes| shared_bytes::first_difference(one, other, bytes);
                    self.shared()
                        .differing_byte([one.0, other.0], [one.1, other.1], count, differ)
                }
                1 => self.first_difference::<u16>(ranges, count),
                2 => self.first_difference::<u32>(ranges, count),
                _ => self.first_difference::<u64>(ranges, count),
            }
        }
    }

    /// # Safety
    /// Both are arrays of elements with as many bytes as `T`, and have these ranges.
    unsafe fn first_difference<T: Number + Element<Item: PartialEq>>(
        &self,
        ranges: [(Address, usize); 2],
        count: usize,
    ) -> Option<usize> {
        let [one, other] = ranges.map(|(array, index)| {
            // SAFETY: such an array with this range, as the caller promises.
            unsafe { self.shared().cursor::<T>(array, index, count) }
        });
        one.zip(other).position(|(one, other)| one != other)
    }
}
