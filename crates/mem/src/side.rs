//! Side metadata: one element for each unit of a span, in memory of its own.
//!
//! The memory is mapped for the whole span and touched where it is used. It reads as zero at first.
//! [`Side`] owns the mapping; what the elements mean is said by [`cards`](crate::cards),
//! [`object_bits`](crate::object_bits). In a model an element of zero bytes is none: there each is written first.

use core::marker::PhantomData;
use core::ptr::NonNull;

use gleaner_base::sync::{AtomicU8, AtomicU32, model_size};
use gleaner_os::memory;

use crate::Address;

/// What [`Side`] has.
///
/// # Safety
/// Outside of models, zero bytes are a valid element, equal to what `new` gives, and nothing is to be dropped.
pub unsafe trait Element {
    /// An element as it is at first.
    fn new() -> Self;
}

// SAFETY: an atomic integer is its bytes.
unsafe impl Element for AtomicU8 {
    fn new() -> Self {
        AtomicU8::new(0)
    }
}

// SAFETY: an atomic integer is its bytes.
unsafe impl Element for AtomicU32 {
    fn new() -> Self {
        AtomicU32::new(0)
    }
}

// SAFETY: any bytes are a number.
unsafe impl Element for usize {
    fn new() -> Self {
        0
    }
}

/// Whether this build is a model.
const IS_MODEL: bool = model_size(0, 1) == 1;

/// An array of `T` with one element for each 2^`shift` bytes of a span.
pub struct Side<T: Element> {
    elements: NonNull<T>,
    base: Address,
    count: usize,
    shift: u32,
    owned: PhantomData<T>,
}

// SAFETY: shared access goes through `&T`, so it needs what references need.
unsafe impl<T: Element + Sync> Sync for Side<T> {}
// SAFETY: the mapping belongs to no thread.
unsafe impl<T: Element + Send> Send for Side<T> {}

impl<T: Element> Side<T> {
    /// Elements for the `bytes` bytes from `base`; `None` when the system gives no memory.
    pub fn new(base: Address, bytes: usize, shift: u32) -> Option<Side<T>> {
        let count = bytes.div_ceil(1 << shift);
        let elements = memory::map((count * size_of::<T>()).max(1))?.cast();
        if IS_MODEL {
            // SAFETY: inside the mapping, of which nobody knows yet.
            (0..count).for_each(|index| unsafe { elements.add(index).write(T::new()) });
        }
        Some(Side {
            elements,
            base,
            count,
            shift,
            owned: PhantomData,
        })
    }

    /// The index of the element for `at`.
    #[inline(always)]
    pub fn index(&self, at: Address) -> usize {
        at.offset_from(self.base) >> self.shift
    }

    /// The first address that the element `index` is about.
    #[inline(always)]
    pub fn address(&self, index: usize) -> Address {
        self.base.add(index << self.shift)
    }

    /// The element `index`.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &T {
        debug_assert!(index < self.count);
        // SAFETY: indices come from addresses of the span, and elements are valid from the start.
        unsafe { self.elements.add(index).as_ref() }
    }

    /// The first element, for code that computes indices by itself.
    pub fn first(&self) -> NonNull<T> {
        self.elements
    }

    /// Makes the elements for `low..high` zero again; both at element boundaries.
    ///
    /// # Safety
    /// Nobody else uses these elements meanwhile.
    pub unsafe fn clear(&self, low: Address, high: Address) {
        let (first, end) = (self.index(low), self.index(high));
        debug_assert!(first <= end && end <= self.count);
        // SAFETY: `first..end` is inside the mapping, and nobody else uses these elements meanwhile, as asked.
        unsafe { self.elements.add(first).write_bytes(0, end - first) };
    }

    /// Bytes of the mapping.
    pub fn bytes(&self) -> usize {
        self.count * size_of::<T>()
    }
}

impl<T: Element> Drop for Side<T> {
    fn drop(&mut self) {
        if IS_MODEL {
            // SAFETY: `new` wrote `count` elements, and nobody uses them any more.
            (0..self.count).for_each(|index| unsafe { self.elements.add(index).drop_in_place() });
        }
        // SAFETY: `new` mapped `bytes()` bytes, rounded up to whole pages as here.
        unsafe {
            memory::unmap(
                self.elements.cast(),
                memory::whole_pages(self.bytes().max(1)).unwrap_or(self.bytes()),
            )
        };
    }
}
