//! Arrays that shrink in place: what was behind their new end becomes a filler, so that every space stays walkable.
//!
//! The tail of a large object has pages of its own. Nothing walks them: their memory goes back to the system, and their
//! addresses remain the object's until it dies. An array in pieces keeps its length.
//!
//! Runs on a mutator inside the gate, which allocates and polls nothing meanwhile; so no collection sees a part of it.

use core::ptr::NonNull;

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::fill;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::memory;

use super::Scavenge;
use super::mutator::Mutator;

impl<F: SlotFormat> Scavenge<F> {
    /// Makes an array, or another object with a length, have only its first `length` elements; false if it lies in
    /// pieces, and has its length still. It panics if the object has no length, or a smaller one.
    ///
    /// # Safety
    /// An object of this heap lies there. The calling mutator is inside the gate, and no other thread uses elements of
    /// the object that are no more.
    pub unsafe fn shrink(&self, mutator: &Mutator, object: Address, length: u32) -> bool {
        // SAFETY: an object of this heap lies there, as asked, and it does not move while a mutator is inside the gate.
        let (header, before) = unsafe {
            let header = header::load(object, Ordering::Relaxed);
            assert!(
                self.model.has_length(header),
                "an object shrinks that has no length: type {}",
                header.type_id().get()
            );
            (header, self.model.length(object))
        };
        assert!(
            length <= before,
            "an array of {before} elements cannot shrink to {length}"
        );
        if header.is_spine() {
            return false;
        }
        // SAFETY: an object of this heap with a length lies there, as asked.
        let (bytes, left) = unsafe {
            let bytes = self.model.size(header, object);
            self.model.set_length(object, length);
            (bytes, self.model.size(header, object))
        };
        if left == bytes {
            return true;
        }
        let (mut start, mut end) = (object.add(left), object.add(bytes));
        if self.large.contains(object) {
            release_tail(start, end);
            return true;
        }
        if self.checks() {
            // SAFETY: the bytes from `left` to `bytes` are the object's tail, which nobody uses any more, as asked.
            let guard = unsafe { self.move_guard(mutator, object, bytes, left) };
            (start, end) = (start.add(guard), end.add(guard));
        }
        // SAFETY: what is left of the tail, which nobody uses any more, as asked.
        unsafe { fill(start, end.offset_from(start)) };
        true
    }
}

/// Gives back the memory of whole pages that no object uses any more, but whose addresses it keeps.
fn release_tail(start: Address, end: Address) {
    let page = memory::page_size();
    let (start, end) = (start.align_up(page), end.align_down(page));
    if start < end
        && let Some(first) = NonNull::new(start.ptr::<u8>())
    {
        // SAFETY: whole pages of a large object, behind its new end. If the system refuses, they keep their memory.
        unsafe { memory::release(first, end.offset_from(start)) };
    }
}
