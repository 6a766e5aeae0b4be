//! Derived pointers: words that lead into an object whose base is a root. When the base changes, each keeps its offset.
//!
//! The worker that visits the base does both, so no other worker finds one changed and the other not.

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::slot::{SlotFormat, Wide};

use crate::scavenge::Scavenge;

/// The object to which a base refers.
fn referent(base: Address) -> Option<Address> {
    // SAFETY: root slots of bases are wide, and their owner does not run.
    unsafe { Wide::load(base, Address::NULL) }.as_object()
}

/// Visits the root slot of a base; the words at `derived` keep their offsets from what it refers to.
pub(in crate::scavenge) fn visit_base(
    base: Address,
    derived: &[Address],
    visit: impl FnOnce(Address),
) {
    let before = referent(base);
    visit(base);
    if let (Some(before), Some(after)) = (before, referent(base))
        && before != after
    {
        let way = after.word().wrapping_sub(before.word());
        for place in derived {
            let word = place.ptr::<usize>();
            // SAFETY: the function that visits roots named the place of a word, whose owner does not run.
            unsafe { word.write(word.read().wrapping_add(way)) };
        }
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Ends the process if a derived pointer leads neither into the object of its base nor to its end. The object is
    /// where the base refers to, and not forwarded to another place.
    pub(in crate::scavenge) fn check_derived(&self, base: Address, derived: &[Address]) {
        let Some(object) = referent(base) else {
            return;
        };
        // SAFETY: a base refers to an object, which has not moved since.
        let bytes = unsafe {
            let header = header::load(object, Ordering::Relaxed).normal();
            self.model.size(header, object)
        };
        for place in derived {
            // SAFETY: the function that visits roots named the place of a word, whose owner does not run.
            let word = unsafe { place.ptr::<usize>().read() };
            assert!(
                word.wrapping_sub(object.word()) <= bytes,
                "the derived pointer {word:#x} at {place:?} is not in the object of its base, which has {bytes} bytes at \
                 {object:?}: a stack map names another base, or the pointer left its object"
            );
        }
    }
}
