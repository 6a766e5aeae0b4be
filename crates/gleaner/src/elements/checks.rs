//! What does an array have? Mistakes are refused by a panic whose message says it.

use std::ops::Range;

use gleaner_mem::Address;

use crate::mutator::Mutator;

/// Panics unless `count` elements lie at `index` of an array of `length`.
#[inline]
pub(super) fn check_range(what: &str, length: u32, index: usize, count: usize) {
    let length = length as usize;
    assert!(
        index <= length && count <= length - index,
        "{what} {} at {index} of an array of {length}",
        elements(count)
    );
}

/// How many elements a range has.
#[inline]
pub(super) fn count_of(range: &Range<usize>) -> usize {
    let (start, end) = (range.start, range.end);
    assert!(
        start <= end,
        "a range of elements from {start} that ends at {end}"
    );
    end - start
}

/// `count` elements, in words for a message.
pub fn elements(count: usize) -> String {
    format!("{count} element{}", if count == 1 { "" } else { "s" })
}

/// What an array holds, for a message: numbers, of which `log2` is the logarithm of their bytes, or references.
pub(super) fn kind(log2: Option<u32>) -> String {
    match log2 {
        Some(0) => "numbers of 1 byte".into(),
        Some(log2) => format!("numbers of {} bytes", 1 << log2),
        None => "references".into(),
    }
}

impl Mutator {
    /// The logarithm of the size of the elements that both arrays have, `None` for references. Panics if they have not
    /// the same.
    ///
    /// # Safety
    /// Both are valid references.
    #[inline]
    pub(super) unsafe fn same_elements(
        &self,
        what: &str,
        and: &str,
        one: Address,
        other: Address,
    ) -> Option<u32> {
        // SAFETY: valid references, as the caller promises.
        unsafe {
            let shape = self.element_raw(one);
            if self.type_raw(one) != self.type_raw(other) {
                let theirs = self.element_raw(other);
                assert!(
                    shape == theirs,
                    "{what} an array of {} {and} one of {}",
                    kind(shape),
                    kind(theirs)
                );
            }
            shape
        }
    }

    /// The logarithm of the element's size of an array without references; `None` for an array of references.
    ///
    /// # Safety
    /// `array` is a valid reference.
    #[inline]
    pub(super) unsafe fn element_raw(&self, array: Address) -> Option<u32> {
        // SAFETY: a valid reference, as the caller promises.
        unsafe {
            self.types().elements(array).unwrap_or_else(|| {
                let id = self.type_raw(array).get();
                panic!("an access to elements of an object of type {id}, which is no array")
            })
        }
    }
}
