//! Where does an element lie? Near, within the first N bytes of its array, or far: beyond them.

use gleaner_mem::Address;
use gleaner_mem::object_model::element;
use gleaner_mem::spine::{Pieces, Pointer};

use super::checks::check_range;
use super::element::Element;
use super::layout::Layout;
use super::runs::is_spine;
use crate::mutator::Mutator;

/// The offset of the elements of an array in one piece that was just allocated: its allocator writes them all, before it
/// is anybody's.
#[inline]
pub(crate) const fn fresh_offset() -> usize {
    element(Address::NULL, 0, 1).word()
}

/// Ends the far path of an access, and is no instruction. Compilers merge the ends of paths that are the same: an access
/// within the first N bytes would compute an address in a register and jump to the far path's.
#[inline(always)]
pub(super) fn apart() {
    // SAFETY: nothing happens.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

impl Mutator {
    /// Where `count` elements from `index` on lie, if it is known that they lie in one piece behind the length.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, in which the range lies.
    #[inline(always)]
    pub(super) unsafe fn near<E: Element>(
        &self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Option<Address> {
        if cfg!(debug_assertions) {
            // SAFETY: an array, as the caller promises, which has a length.
            let length = unsafe { self.length_raw(array) };
            check_range("an access to", length, index, count);
        }
        // SAFETY: an array has fewer than 2^32 elements.
        let end = unsafe { index.unchecked_add(count) };
        let is_whole = E::Layout::is_whole(self.record(), end, E::BYTES);
        is_whole.then(|| element(array, 0, E::BYTES).item(index, E::BYTES))
    }

    /// Where an element lies, for a load, that does not lie in the first N bytes.
    ///
    /// # Safety
    /// As for [`Mutator::load_element_in`].
    #[inline(always)]
    pub(super) unsafe fn far<E: Element>(&self, array: Address, index: usize) -> Address {
        // SAFETY: a valid reference, as the caller promises.
        if !E::Layout::ALL_CUT && !unsafe { is_spine(array) } {
            return element(array, index, E::BYTES);
        }
        // SAFETY: a spine that has the element, as the caller promises.
        let far = unsafe { self.far_part::<E>(array, index) };
        far.place::<E>(far.pieces.target(far.pointer))
    }

    /// Where an element lies, for a store, that does not lie in the first N bytes; `None` if the part may not be written.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`].
    #[inline(always)]
    pub(super) unsafe fn far_untainted<E: Element>(
        &self,
        array: Address,
        index: usize,
    ) -> Option<Address> {
        // SAFETY: a valid reference, as the caller promises.
        if !E::Layout::ALL_CUT && !unsafe { is_spine(array) } {
            return Some(element(array, index, E::BYTES));
        }
        // SAFETY: a spine that has the element, as the caller promises.
        let far = unsafe { self.far_part::<E>(array, index) };
        let is_tainted = far.pointer.is_tainted();
        (!is_tainted).then(|| far.place::<E>(far.pieces.untainted(far.pointer)))
    }

    /// The part of an element of a spine that is beyond the first N bytes.
    ///
    /// # Safety
    /// `array` is a valid reference to a spine of such elements, which has more than `index`.
    #[inline(always)]
    unsafe fn far_part<E: Element>(&self, array: Address, index: usize) -> Far {
        // SAFETY: a valid reference, as the caller promises.
        debug_assert!(unsafe { is_spine(array) }, "code for arrays in pieces");
        let pieces = E::Layout::pieces(self.record());
        // An array has fewer than 2^32 elements.
        let part = if E::Layout::ALL_CUT {
            pieces.part_of_element(index as u32, E::BYTES)
        } else {
            pieces.part(index as u32 as usize * E::BYTES)
        };
        Far {
            pieces,
            // SAFETY: the spine has this part, since the array has the element, as the caller promises.
            pointer: unsafe { pieces.load(array, part.number) },
            within: part.within,
        }
    }
}

/// An element beyond the first N bytes.
struct Far {
    /// How arrays are cut.
    pieces: Pieces,
    /// The pointer to its part.
    pointer: Pointer,
    /// Where in the part it lies: in elements where the layout is known when the code is compiled, else in bytes.
    within: usize,
}

impl Far {
    /// Where it lies in a part that begins at `part`.
    #[inline(always)]
    fn place<E: Element>(&self, part: Address) -> Address {
        if E::Layout::ALL_CUT {
            part.item(self.within, E::BYTES)
        } else {
            part.add(self.within)
        }
    }
}
