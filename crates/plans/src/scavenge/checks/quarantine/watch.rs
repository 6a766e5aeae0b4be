//! How the nursery turns, and what a fault says.

use core::fmt::Write;
use core::ptr::NonNull;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::access::{self, Access};
use gleaner_os::memory;

use super::state::Evacuated;
use crate::scavenge::Scavenge;

impl<F: SlotFormat> Scavenge<F> {
    /// Faults in the nursery have a message from now on. The heap stays where it is until it is dropped.
    pub(in crate::scavenge) fn begin_quarantine(&mut self) {
        if self.config.options.quarantine > 0 {
            let owner = core::ptr::from_ref(self).cast();
            let (start, bytes) = (self.nursery.start().word(), self.nursery.bytes());
            // SAFETY: the watch ends before the heap does, and threads that use the heap have ended with it by then.
            self.quarantine.watch = unsafe { access::watch(start, bytes, owner, describe::<F>) };
        }
    }

    /// What lay at an address of the nursery where no space is at the moment.
    pub(in crate::scavenge) fn evacuated(&self, at: Address) -> Option<Evacuated> {
        let (kind, node, turn, is_there) = self.nursery.turn_of(at)?;
        let collection = self
            .quarantine
            .place(kind, node, turn)?
            .load(Ordering::Relaxed);
        (!is_there && collection > 0).then(|| Evacuated {
            kind,
            collection,
            so_far: self.epoch(),
        })
    }

    /// Whether an address was evacuated by this collection.
    pub(in crate::scavenge) fn was_just_evacuated(&self, at: Address) -> bool {
        self.evacuated(at)
            .is_some_and(|place| place.collection == self.epoch() + 1)
    }

    /// Leader, at the end of a collection: the fragments that were in use when it began, up to `tops`, and are empty
    /// now leave where they are. Where the system refuses, they stay.
    pub(in crate::scavenge) fn leave_evacuated(
        &self,
        world: &mut WorldStopped<'_>,
        tops: &[Address],
    ) {
        for (region, &top) in self.nursery.regions().iter().zip(tops) {
            if top == region.space.start() || region.space.used() > 0 {
                continue;
            }
            let (kind, node) = (region.kind, region.node);
            let (here, bytes) = self.nursery.here(kind, node);
            let (next, _) = self.nursery.next(kind, node);
            let [Some(old), Some(new)] = [here, next].map(|at| NonNull::new(at.ptr::<u8>())) else {
                continue;
            };
            // SAFETY: both are whole granules of the heap's reservation, in which no object is.
            let moved = unsafe { memory::commit(new, bytes) && memory::forbid(old, bytes) };
            if moved
                && let Some((_, _, turn, _)) = self.nursery.turn_of(here)
                && let Some(place) = self.quarantine.place(kind, node, turn)
            {
                place.store(self.epoch() + 1, Ordering::Relaxed);
                self.nursery.move_on(world, kind, node);
            }
        }
    }
}

/// For the handler of a fault.
///
/// # Safety
/// `owner` is a heap with such slots.
unsafe fn describe<F: SlotFormat>(owner: *const (), access: Access, out: &mut dyn Write) -> bool {
    let address = access.address;
    // SAFETY: `owner` is a heap with such slots, as asked; only atomics and fields that never change are read.
    let heap = unsafe { &*owner.cast::<Scavenge<F>>() };
    let Some(place) = heap.evacuated(Address::new(address)) else {
        return false;
    };
    let base = heap.reservation.0.as_ptr().addr();
    writeln!(
        out,
        "gleaner: a stale reference was used: address {address:#x} of the heap at {base:#x}: {place}"
    )
    .is_ok()
}
