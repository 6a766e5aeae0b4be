//! Constants: objects that never move and never die, and that no collection looks at. They lie below all other objects,
//! so what refers to one costs a comparison: in a scavenge that by which old objects are told, and in marking one more.
//!
//! # Invariants
//! - A slot of a constant holds null, an immediate, or a reference to an object that never moves and never dies: to
//!   another constant, most of all.
//! - The space is filled upward under the lock for allocation beside the TLABs, by mutators inside the gate. No object
//!   of it is ever free, so its memory is fresh, and zero.

use gleaner_base::contexts::AllocatorLocked;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;

use super::Scavenge;
use super::mutator::Mutator;

impl<F: SlotFormat> Scavenge<F> {
    /// A mutator inside the gate: zeroed memory for a constant; `None` if the space, or the heap, has no room. This
    /// collects nothing.
    pub fn allocate_constant(&self, mutator: &Mutator, bytes: usize) -> Option<Address> {
        let take = |locked: &mut AllocatorLocked<'_>| {
            if bytes > self.old_left() || bytes > self.constants.free() {
                return None;
            }
            self.make_resident_room(locked, bytes);
            self.constants.take(bytes, bytes)
        };
        // SAFETY: the calling mutator is inside the gate, and gives the proof to parts of this heap.
        let (object, _) = unsafe { self.beside.with(take) }?;
        mutator.note_allocated(bytes);
        Some(object)
    }

    /// Whether an object is a constant.
    #[inline(always)]
    pub fn is_constant(&self, object: Address) -> bool {
        object < self.constants.end()
    }
}
