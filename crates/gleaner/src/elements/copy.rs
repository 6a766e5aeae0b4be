//! Bulk copies of array elements.
//!
//! Slots are copied one by one, each as a mutator would: a thread that reads one meanwhile finds the old value or the new.
//! The barrier dirties the cards of the whole range (I5).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gleaner_mem::Address;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::object_model::{Shape, element};

use crate::heap::{OutOfMemory, with_heap};
use crate::mutator::Mutator;

/// Copies `count` items, which may overlap, as if they were all read before the first is written.
///
/// # Safety
/// So many items of type `A` lie at `from` and at `to`.
pub(super) unsafe fn copy_each<A>(from: Address, to: Address, count: usize, copy: impl Fn(&A, &A)) {
    let one = |index: usize| {
        let offset = index * size_of::<A>();
        // SAFETY: one of the items that lie there, as this function asks.
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
pub(super) fn check_range(what: &str, length: u32, index: usize, count: usize) {
    let length = length as usize;
    assert!(
        index <= length && count <= length - index,
        "{what} {} at {index} of an array of {length}",
        elements(count)
    );
}

/// So many elements, for a message.
pub fn elements(count: usize) -> String {
    format!("{count} element{}", if count == 1 { "" } else { "s" })
}

/// What an array holds, for a message: numbers of so many bytes, given as the logarithm, or references.
fn kind(log2: Option<u32>) -> String {
    match log2 {
        Some(0) => "numbers of 1 byte".into(),
        Some(log2) => format!("numbers of {} bytes", 1 << log2),
        None => "references".into(),
    }
}

impl Mutator {
    /// Copies `count` elements from index `from_index` of one array to index `to_index` of another, or of the same one,
    /// through the barrier. The ranges may overlap. Like an allocation, this may collect, and may find no memory.
    ///
    /// # Safety
    /// Both are valid references to arrays of references, or to arrays without references whose elements have the same
    /// size; what is no such array, or reaches beyond its end, is refused by a panic. No other thread uses the elements
    /// meanwhile, unless they are references. Other references that this thread holds outside of root slots are not used
    /// again.
    pub unsafe fn copy_elements_raw(
        &mut self,
        from: Address,
        from_index: u32,
        to: Address,
        to_index: u32,
        count: u32,
    ) -> Result<(), OutOfMemory> {
        self.assert_may_collect("a copy of elements");
        // SAFETY: valid references, as this function asks.
        let [shape, other] = [to, from].map(|array| unsafe { self.element_raw(array) });
        assert!(
            shape == other,
            "a copy from an array of {} to one of {}",
            kind(other),
            kind(shape)
        );
        for (array, index) in [(from, from_index), (to, to_index)] {
            // SAFETY: an array.
            let length = unsafe { self.length_raw(array) };
            check_range("a copy of", length, index as usize, count as usize);
        }
        let (from_index, to_index, count) =
            (from_index as usize, to_index as usize, count as usize);
        match shape {
            Some(log2) => {
                let place = |array, index| element(array, index, 1 << log2).ptr::<u8>();
                // SAFETY: both arrays have these elements, which was checked, and no other thread uses them.
                unsafe { place(from, from_index).copy_to(place(to, to_index), count << log2) };
            }
            // SAFETY: both are arrays of references and have these elements, which was checked.
            None => unsafe { self.copy_slots(from, from_index, to, to_index, count) },
        }
        Ok(())
    }

    /// The logarithm of the element's size of an array without references; `None` for an array of references.
    ///
    /// # Safety
    /// `array` is a valid reference.
    unsafe fn element_raw(&self, array: Address) -> Option<u32> {
        // SAFETY: a valid reference, as this function asks.
        let id = unsafe { self.type_raw(array) };
        with_heap!(&self.shared.kind, heap => match heap.model.shape(id) {
            Some(Shape::Primitives { log2 }) => Some(log2),
            Some(Shape::References) => None,
            _ => panic!("a copy of elements of an object of type {}, which is no array", id.get()),
        })
    }

    /// # Safety
    /// As for [`Mutator::copy_elements_raw`], for arrays of references.
    pub(super) unsafe fn copy_slots(
        &self,
        from: Address,
        from_index: usize,
        to: Address,
        to_index: usize,
        count: usize,
    ) {
        let bytes = self.record().slot_bytes as usize;
        let (from, to) = (
            element(from, from_index, bytes),
            element(to, to_index, bytes),
        );
        macro_rules! copy_as {
            ($atomic:ty) => {
                // SAFETY: the arrays have these elements, as this function asks; slots have this width.
                unsafe {
                    copy_each(from, to, count, |from: &$atomic, to: &$atomic| {
                        to.store(from.load(Ordering::Acquire), Ordering::Release);
                    })
                }
            };
        }
        // A slot acquires and releases, so that the objects behind the values are seen as they are.
        if self.compressed {
            copy_as!(AtomicU32);
        } else {
            copy_as!(AtomicU64);
        }
        self.dirty_range(to, to.add(count * bytes));
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
