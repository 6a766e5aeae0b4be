//! Arrays that shrink in place. Only the raw layer has them: where a scope of another thread uses the array, a check of an
//! index and the access are two steps, between which the array must not shrink.

use gleaner_mem::Address;

use crate::body::with_heap;
use crate::mutator::Mutator;

impl Mutator {
    /// Makes an array, or another object with a length, have only its first `length` elements. The object stays where it
    /// is, and so does each element that remains. Its other elements are gone, and collections make use of their memory;
    /// the pages of a large object are given back to the system. This does not collect.
    ///
    /// An array in pieces stays one ([`Mutator::is_cut`]), however short it is. An arraylet whose elements are gone is free,
    /// unless the array shares it: then it lives as long as another array does. What becomes of an arraylet of which some
    /// elements remain, `docs/arrays.md` says.
    ///
    /// # Panics
    /// If the object has no length, or fewer elements; and inside of a window.
    ///
    /// # Safety
    /// `object` is a valid reference. No cursor or window shows the elements that go, and no other thread uses them.
    pub unsafe fn shrink_raw(&mut self, object: Address, length: u32) {
        self.assert_may_collect("an array shrinks");
        self.assert_own(object, "an array shrinks");
        let record = self.record();
        // SAFETY: a valid reference, and nobody uses what goes, as the caller promises; the mutator is inside the gate.
        with_heap!(&self.shared.kind, heap => unsafe { heap.shrink(record, object, length) });
    }
}
