//! What becomes of the arraylets of an array in pieces that shrinks.
//!
//! - A part that is gone and was the array's alone gives its arraylet back at once: it is free for the mutator to which its
//!   chunk belongs, and for all after the next collection.
//! - An arraylet that a part shared lives as long as another array points at it, which a collection finds out. The zero
//!   arraylet is nobody's.
//! - Where the last part is not whole any more, its elements stay in its arraylet. The rest of an arraylet that is the array's
//!   alone is cleared, so it keeps no objects, and may be found to be all zero. A shared one stays as it is; when the array
//!   gets a copy of it, the rest of the copy is cleared (`fill_arraylet`).
//!
//! # Invariants
//! - Behind the last element of an array, an arraylet that is the array's alone reads as zero.
//!
//! Runs on a mutator inside the gate, which does not poll meanwhile. Other mutators may use the elements that remain: these
//! stay where they are.

use gleaner_mem::Address;
use gleaner_mem::header::Header;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::spine::Beyond;

use crate::scavenge::Scavenge;

impl<F: SlotFormat> Scavenge<F> {
    /// Gives back the arraylets of a spine whose length was lowered. It had `before` of them when it was longer.
    ///
    /// # Safety
    /// A spine of this heap with this header lies there, and its pointers are as they were. The calling mutator is inside the
    /// gate, and no other thread uses elements of the array that are no more.
    pub(in crate::scavenge) unsafe fn give_back_parts(
        &self,
        header: Header,
        spine: Address,
        before: Beyond,
    ) {
        let (pieces, arraylets) = (&self.model.pieces, self.arraylets());
        // SAFETY: a spine with this header, as asked.
        let left = unsafe { self.model.beyond(header, spine) };
        for number in left.arraylets..before.arraylets {
            // SAFETY: the spine had this part, and its pointers are as they were, as asked.
            let pointer = unsafe { pieces.load(spine, number) };
            if !pointer.is_tainted() {
                let arraylet = pieces.target(pointer);
                self.poison_arraylet(arraylet);
                arraylets.give_back(arraylet);
            }
        }
        if let Some(last) = left.arraylets.checked_sub(1) {
            // SAFETY: the spine has this part.
            let pointer = unsafe { pieces.load(spine, last) };
            if !pointer.is_tainted() {
                // SAFETY: the arraylet is the array's alone, and nobody uses what is behind the last element, as asked.
                unsafe { self.clear_behind_end(header, (spine, last), pieces.target(pointer)) };
            }
        }
    }

    /// Clears what of an arraylet lies behind the last element of its array, of whose parts it is the one of this number.
    ///
    /// # Safety
    /// A spine of this heap with this header lies there, and has this part. The arraylet is the caller's, or the array's alone
    /// and nobody uses what is behind the last element.
    pub(super) unsafe fn clear_behind_end(
        &self,
        header: Header,
        (spine, number): (Address, usize),
        arraylet: Address,
    ) {
        let pieces = &self.model.pieces;
        // SAFETY: a spine with this header, as asked.
        let (bytes, _) = unsafe { self.model.spine_elements(header, spine) };
        let here = bytes.saturating_sub(pieces.offset_of(number));
        let behind = pieces.arraylet_bytes().saturating_sub(here);
        // SAFETY: the last bytes of the arraylet, which nobody uses, as asked.
        unsafe {
            arraylet
                .add(here.min(pieces.arraylet_bytes()))
                .ptr::<u8>()
                .write_bytes(0, behind)
        };
    }
}
