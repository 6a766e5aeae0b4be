//! Bulk copies of array elements.
//!
//! A copy may poll and may find no memory, like an allocation (invariant I10): with arrays that are not contiguous it
//! will. Today it does neither, on which no embedder should rely.
//!
//! Slots are copied one by one, each as a mutator would: whoever reads one meanwhile finds the old value or the new one.
//! The barrier dirties the cards of the whole range (I5).

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use gleaner_mem::Address;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::object_model::{ELEMENTS, Shape};

use crate::heap::{OutOfMemory, with_heap};
use crate::mutator::Mutator;
use crate::scope::{Local, Scope};

/// Copies `count` items, which may overlap, as if they were all read before the first is written.
///
/// # Safety
/// So many items of type `A` lie at `from` and at `to`.
unsafe fn copy_each<A>(from: Address, to: Address, count: usize, copy: impl Fn(&A, &A)) {
    let one = |index: usize| {
        let offset = index * size_of::<A>();
        // SAFETY: the caller's promise.
        unsafe { copy(&*from.add(offset).ptr::<A>(), &*to.add(offset).ptr::<A>()) };
    };
    if to < from {
        (0..count).for_each(one);
    } else {
        (0..count).rev().for_each(one);
    }
}

/// Panics unless so many elements lie at `index` of an array of `length`.
#[inline]
fn check_range(length: u32, index: usize, count: usize) {
    let length = length as usize;
    assert!(
        index <= length && count <= length - index,
        "a copy of {count} elements at {index} of an array of {length}"
    );
}

impl Mutator {
    /// Copies `count` elements from index `from_index` of one array to index `to_index` of another, or of the same one,
    /// through the barrier. The ranges may overlap. This may poll.
    ///
    /// # Safety
    /// Both are valid references to arrays of references, or to arrays without references whose elements have the same
    /// size; what is no such array, or reaches beyond its end, is refused by a panic. No other thread uses the elements meanwhile, unless they are references.
    pub unsafe fn array_copy_raw(
        &mut self,
        from: Address,
        from_index: u32,
        to: Address,
        to_index: u32,
        count: u32,
    ) -> Result<(), OutOfMemory> {
        self.assert_inside("a copy of elements");
        // SAFETY: the caller's promise.
        let [shape, other] = [to, from].map(|array| unsafe { self.element_raw(array) });
        assert!(
            shape == other,
            "a copy of elements of {} bytes to elements of {} (0 stands for references)",
            other.map_or(0, |log2| 1 << log2),
            shape.map_or(0, |log2| 1 << log2)
        );
        for (array, index) in [(from, from_index), (to, to_index)] {
            // SAFETY: an array.
            let length = unsafe { self.length_raw(array) };
            check_range(length, index as usize, count as usize);
        }
        let (from_index, to_index, count) =
            (from_index as usize, to_index as usize, count as usize);
        match shape {
            Some(log2) => {
                let place =
                    |array: Address, index| array.add(ELEMENTS + (index << log2)).ptr::<u8>();
                // SAFETY: the caller's promise.
                unsafe { place(from, from_index).copy_to(place(to, to_index), count << log2) };
            }
            // SAFETY: as above.
            None => unsafe { self.copy_slots(from, from_index, to, to_index, count) },
        }
        Ok(())
    }

    /// The logarithm of the element's size of an array without references; `None` for an array of references.
    ///
    /// # Safety
    /// `array` is a valid reference.
    unsafe fn element_raw(&self, array: Address) -> Option<u32> {
        // SAFETY: the caller's promise.
        let id = unsafe { self.type_raw(array) };
        with_heap!(&self.shared.kind, heap => match heap.model.shape(id) {
            Some(Shape::Primitives { log2 }) => Some(log2),
            Some(Shape::References) => None,
            _ => panic!("a copy of elements of an object of type {}, which is no array", id.get()),
        })
    }

    /// # Safety
    /// As for [`Mutator::array_copy_raw`], for arrays of references.
    unsafe fn copy_slots(
        &self,
        from: Address,
        from_index: usize,
        to: Address,
        to_index: usize,
        count: usize,
    ) {
        let bytes = self.record().slot_bytes as usize;
        let from = from.add(ELEMENTS + from_index * bytes);
        let to = to.add(ELEMENTS + to_index * bytes);
        // A slot acquires and releases, so that the objects behind the values are seen as they are.
        if self.compressed {
            // SAFETY: the caller's promise; slots have this width.
            unsafe {
                copy_each(from, to, count, |from: &AtomicU32, to: &AtomicU32| {
                    to.store(from.load(Ordering::Acquire), Ordering::Release);
                });
            }
        } else {
            // SAFETY: as above.
            unsafe {
                copy_each(from, to, count, |from: &AtomicU64, to: &AtomicU64| {
                    to.store(from.load(Ordering::Acquire), Ordering::Release);
                });
            }
        }
        self.dirty_range(to, to.add(count * bytes));
    }

    /// The write barrier for all slots of a range.
    fn dirty_range(&self, low: Address, high: Address) {
        let mut at = low;
        while at < high {
            self.dirty(at);
            at = Address::new((at.word() / CARD_BYTES + 1) * CARD_BYTES);
        }
    }
}

impl Scope<'_> {
    /// Copies `count` elements from index `from_index` of one array to index `to_index` of another, or of the same one;
    /// the ranges may overlap. Both arrays are of references, or both have elements of the same size. This may poll, and
    /// may find no memory.
    pub fn array_copy(
        &mut self,
        from: Local<'_>,
        from_index: usize,
        to: Local<'_>,
        to_index: usize,
        count: usize,
    ) -> Result<(), OutOfMemory> {
        let (log2, to_log2) = (self.element(from), self.element(to));
        assert!(
            log2 == to_log2,
            "a copy from an object that has {} to one that has {}",
            self.describe(self.object(from)),
            self.describe(self.object(to))
        );
        for (array, index) in [(from, from_index), (to, to_index)] {
            check_range(self.length(array), index, count);
        }
        let (from, to) = (self.object(from), self.object(to));
        let Some(log2) = log2 else {
            // SAFETY: both are arrays of references with so many elements; the mutator is this thread's.
            unsafe {
                self.shared()
                    .copy_slots(from, from_index, to, to_index, count)
            };
            return Ok(());
        };
        let from = from.add(ELEMENTS + (from_index << log2));
        let to = to.add(ELEMENTS + (to_index << log2));
        /// Other threads may use the elements, and find the old or the new value.
        macro_rules! copy_as {
            ($atomic:ty) => {
                // SAFETY: both arrays have so many elements of this size.
                unsafe {
                    copy_each(from, to, count, |from: &$atomic, to: &$atomic| {
                        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                    })
                }
            };
        }
        match log2 {
            0 => copy_as!(AtomicU8),
            1 => copy_as!(AtomicU16),
            2 => copy_as!(AtomicU32),
            _ => copy_as!(AtomicU64),
        }
        Ok(())
    }

    /// The logarithm of the element's size of an array without references; `None` for an array of references.
    fn element(&self, array: Local<'_>) -> Option<u32> {
        let object = self.object(array);
        self.shape(object, |shape| match shape {
            Some(Shape::References) => None,
            Some(Shape::Primitives { log2 }) => Some(log2),
            _ => panic!(
                "a copy of elements of an object that has {}",
                self.describe(object)
            ),
        })
    }
}
