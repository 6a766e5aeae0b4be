//! Side metadata: one element for each unit of a span, in memory of its own.
//!
//! The memory is mapped for the whole span and touched where it is used. It reads as zero at first.
//! [`Side`] owns the mapping; what the elements mean is said by [`cards`](crate::cards),
//! [`object_bits`](crate::object_bits).

use core::marker::PhantomData;
use core::ptr::NonNull;

use gleaner_os::memory;

use crate::Address;

/// An array of `T` with one element for each 2^`shift` bytes of a span. `T` must be valid when zero.
pub struct Side<T> {
    elements: NonNull<T>,
    base: Address,
    count: usize,
    shift: u32,
    owned: PhantomData<T>,
}

// SAFETY: shared access goes through `&T`, so it needs what references need.
unsafe impl<T: Sync> Sync for Side<T> {}
// SAFETY: the mapping belongs to no thread.
unsafe impl<T: Send> Send for Side<T> {}

impl<T> Side<T> {
    /// Elements for the `bytes` bytes from `base`; `None` when the system gives no memory.
    ///
    /// # Safety
    /// A `T` of zero bytes must be valid.
    pub unsafe fn new(base: Address, bytes: usize, shift: u32) -> Option<Side<T>> {
        let count = bytes.div_ceil(1 << shift);
        let elements = memory::map((count * size_of::<T>()).max(1))?.cast();
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
        // SAFETY: inside the mapping; the caller's promise for the rest.
        unsafe { self.elements.add(first).write_bytes(0, end - first) };
    }

    /// Bytes of the mapping.
    pub fn bytes(&self) -> usize {
        self.count * size_of::<T>()
    }
}

impl<T> Drop for Side<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped so many bytes, rounded up to pages by both.
        unsafe {
            memory::unmap(
                self.elements.cast(),
                memory::whole_pages(self.bytes().max(1)).unwrap_or(self.bytes()),
            )
        };
    }
}
