//! A list in memory of its own, mapped for the most it can hold and touched as it grows.
//!
//! Growing it calls no allocator, so the collector may do it while the world is stopped (I1). One thread uses it at a
//! time.

use core::ptr::NonNull;

use gleaner_os::memory;

/// A list of at most `capacity` elements.
pub struct MappedList<T> {
    elements: NonNull<T>,
    length: usize,
    capacity: usize,
}

// SAFETY: it owns its elements.
unsafe impl<T: Send> Send for MappedList<T> {}
// SAFETY: shared access is by `&T` alone.
unsafe impl<T: Sync> Sync for MappedList<T> {}

impl<T: Copy> MappedList<T> {
    /// An empty list for `capacity` elements; `None` when the system gives no memory.
    pub fn new(capacity: usize) -> Option<MappedList<T>> {
        Some(MappedList {
            elements: memory::map((capacity * size_of::<T>()).max(1))?.cast(),
            length: 0,
            capacity,
        })
    }

    /// Adds an element at the end; `None`, and nothing happens, when the list is full.
    #[must_use]
    pub fn push(&mut self, element: T) -> Option<()> {
        if self.length == self.capacity {
            return None;
        }
        // SAFETY: below the capacity.
        unsafe { self.elements.add(self.length).write(element) };
        self.length += 1;
        Some(())
    }

    /// Keeps the first `length` elements.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Keeps those for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        let mut kept = 0;
        for index in 0..self.length {
            let mut element = self.as_slice()[index];
            if keep(&mut element) {
                self.as_mut_slice()[kept] = element;
                kept += 1;
            }
        }
        self.length = kept;
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: those below the length were written.
        unsafe { core::slice::from_raw_parts(self.elements.as_ptr(), self.length) }
    }

    /// The elements, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: the elements below the length were written, and `&mut self` makes this the only reference to them.
        unsafe { core::slice::from_raw_parts_mut(self.elements.as_ptr(), self.length) }
    }
}

impl<T> Drop for MappedList<T> {
    fn drop(&mut self) {
        let bytes = (self.capacity * size_of::<T>()).max(1);
        // SAFETY: `new` mapped room for `capacity` elements, and nobody uses them any more.
        unsafe {
            memory::unmap(
                self.elements.cast(),
                memory::whole_pages(bytes).unwrap_or(bytes),
            )
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_list_grows_to_its_capacity_and_no_further() {
        let mut list = MappedList::new(3).unwrap();
        for element in [7u32, 8, 9] {
            list.push(element).unwrap();
        }
        assert_eq!(list.push(10), None);
        list.retain(|element| {
            *element += 1;
            *element != 9
        });
        assert_eq!(list.as_slice(), [8, 10]);
        list.truncate(1);
        list.push(1).unwrap();
        assert_eq!(list.as_mut_slice(), [8, 1]);
    }
}
