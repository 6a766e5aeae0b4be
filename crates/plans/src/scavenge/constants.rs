//! Constants: objects that never move and never die, and that no collection looks at. They lie below all other objects,
//! so what refers to one costs a comparison: in a scavenge that by which old objects are told, and in marking one more.
//!
//! # Invariants
//! - A slot of a constant holds null, an immediate, or a reference to an object that never moves and never dies: to
//!   another constant, most of all.
//! - The space is filled upward under the lock for allocation beside the TLABs, by mutators inside the gate. No object
//!   of it is ever free, so its memory is fresh, and zero.
//! - A constant lies there or is none: what has no room is refused, and not put where collections look at it.

use core::ptr::NonNull;

use gleaner_base::contexts::AllocatorLocked;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;

use super::Scavenge;
use super::allocate::{Place, Request};
use super::collect::Extent;
use super::mutator::Mutator;

impl<F: SlotFormat> Scavenge<F> {
    /// Zeroed memory for a constant. `None` if the space has no room, or the heap has none when everything was collected: it
    /// collects only for the heap's sake.
    ///
    /// # Safety
    /// As for [`Scavenge::allocate_slowly`].
    pub unsafe fn allocate_constant(
        &self,
        record: NonNull<Mutator>,
        bytes: usize,
    ) -> Option<Address> {
        // SAFETY: the record is the calling mutator's, as asked.
        let mutator = unsafe { record.as_ref() };
        let mut next = Some(Extent::Young);
        loop {
            // What a collection frees is no room for constants.
            if faults::armed(FaultPoint::Allocation) || bytes > self.constants_left() {
                return None;
            }
            let seen = self.epoch();
            if let Some(object) = self.take_constant(mutator, bytes) {
                return Some(object);
            }
            let request = Request {
                bytes,
                place: Place::Constant,
            };
            let reason = "no room for a constant";
            let room = self.collect_unless_past(mutator, next?, reason, seen, request);
            if let Some(false) = room {
                next = next.and_then(Extent::harder);
            }
        }
    }

    /// Bytes of constants that the space has room for yet, as far as the limit does.
    pub fn constants_left(&self) -> usize {
        self.constants.free()
    }

    fn take_constant(&self, mutator: &Mutator, bytes: usize) -> Option<Address> {
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
