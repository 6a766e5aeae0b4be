//! Arrays that shrink in place: what was behind their new end becomes a filler, so that every space stays walkable.
//!
//! The tail of a large object has pages of its own. Nothing walks them: their memory goes back to the system, and their
//! addresses remain the object's until it dies. Of an array in pieces it is the spine that loses its tail; what becomes of
//! the arraylets, `arrays/ends.rs` says.
//!
//! Runs on a mutator inside the gate, which allocates and polls nothing meanwhile; so no collection sees a part of it.

use core::ptr::NonNull;

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_model::{ELEMENTS, fill};
use gleaner_mem::slot::SlotFormat;
use gleaner_os::memory;

use super::Scavenge;
use super::mutator::Mutator;

impl<F: SlotFormat> Scavenge<F> {
    /// Makes an array, or another object with a length, have only its first `length` elements. It panics if the object
    /// has no length, or a smaller one.
    ///
    /// # Safety
    /// An object of this heap lies there. The calling mutator is inside the gate, and no other thread uses elements of
    /// the object that are no more.
    pub unsafe fn shrink(&self, mutator: &Mutator, object: Address, length: u32) {
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
        // SAFETY: an object of this heap with a length lies there, and nobody uses the elements that go, as asked.
        let (bytes, left) = unsafe {
            let bytes = self.model.size(header, object);
            if header.is_spine() {
                let before = self.model.beyond(header, object);
                self.model.set_length(object, length);
                self.give_back_parts(header, object, before);
            } else {
                self.model.set_length(object, length);
            }
            (bytes, self.model.size(header, object))
        };
        if left == bytes {
            return;
        }
        let (mut start, mut end) = (object.add(left), object.add(bytes));
        if self.large.contains(object) {
            // SAFETY: the object lost the bytes from `left` to `bytes`.
            if let Some((start, end)) = unsafe { self.lost_pages(header, object, (bytes, left)) } {
                release_tail(start, end);
            }
            return;
        }
        if self.checks() {
            // SAFETY: the bytes from `left` to `bytes` are the object's tail, which nobody uses any more, as asked.
            let guard = unsafe { self.move_guard(mutator, object, bytes, left) };
            (start, end) = (start.add(guard), end.add(guard));
        }
        // SAFETY: what is left of the tail, which nobody uses any more, as asked.
        unsafe { fill(start, end.offset_from(start)) };
    }

    /// Where the memory lies that a large object lost. A fenced spine lost its lower end, unless its remainder lies there.
    ///
    /// # Safety
    /// An object with this header lies there, which had the first number of bytes and has the second.
    unsafe fn lost_pages(
        &self,
        header: Header,
        object: Address,
        (bytes, left): (usize, usize),
    ) -> Option<(Address, Address)> {
        if !header.is_spine() || !self.model.pieces.is_fenced() {
            return Some((object.add(left), object.add(bytes)));
        }
        // SAFETY: a spine with this header, as asked.
        let has_remainder = unsafe { self.model.beyond(header, object) }.remainder > 0;
        let end = object.add(ELEMENTS);
        (!has_remainder).then(|| (end.sub(bytes), end.sub(left)))
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
