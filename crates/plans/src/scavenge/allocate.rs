//! Allocation off the fast path: a fresh TLAB, a large object, or a collection first (ASPLOS 2013, section 2.2).
//!
//! # Invariants
//! - What is handed out reads as zero (I2), unless the caller promised to write all of it, and nothing polls between that and the header's being written.
//! - When eden has no room: a scavenge, then everything, and only then is it out of memory (I7).

use core::ptr::NonNull;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::zero;

use super::Scavenge;
use super::collect::Extent;
use super::mutator::Mutator;

/// What fresh memory must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fresh {
    /// Zeros (I2).
    Zeroed,
    /// Anything: whoever asked for it writes all of it before the next poll.
    Unwritten,
}

impl<F: SlotFormat> Scavenge<F> {
    /// Objects from this size on are large: they are born in the old space.
    pub fn large_bytes(&self) -> usize {
        self.nursery.eden.bytes() / 4
    }

    /// Memory for an object of `bytes` bytes, a multiple of 8, when the TLAB has no room for it. `None` when memory is
    /// exhausted. May collect.
    #[cold]
    #[inline(never)]
    ///
    /// # Safety
    /// The record is the calling mutator's, attached to this heap and inside its gate; the caller holds no reference to
    /// it, since a collection changes it.
    pub unsafe fn allocate_slowly(
        &self,
        record: NonNull<Mutator>,
        bytes: usize,
        fresh: Fresh,
    ) -> Option<Address> {
        // The slow path is taken now and then by everybody who allocates: nobody waits long for this thread to stop.
        // SAFETY: the caller's promise; the reference ends here.
        if unsafe { record.as_ref() }.poll.load(Ordering::Relaxed) != 0 {
            self.poll();
        }
        // SAFETY: as above.
        if let Some(extent) = self.stress(unsafe { &mut *record.as_ptr() }) {
            self.collect(extent, "stress");
        }
        if faults::armed(FaultPoint::Allocation) || bytes > self.config.limit {
            return None;
        }
        let mut extent = Extent::Young;
        loop {
            let seen = self.epoch();
            // SAFETY: the caller's promise; the reference ends before anybody collects.
            if let Some(object) = self.take(unsafe { &mut *record.as_ptr() }, bytes, fresh) {
                return Some(object);
            }
            let reason = "no room to allocate";
            match self.collect_unless_past(extent, reason, seen, bytes) {
                // Only what a full collection leaves without room is out of memory: others may be faster.
                Some(false) if extent == Extent::Full => return None,
                Some(false) => extent = Extent::Full,
                Some(true) | None => {}
            }
        }
    }

    /// Whether there is room for an object of `bytes` bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        if bytes >= self.large_bytes() {
            bytes.next_multiple_of(CARD_BYTES) <= self.old.region.free()
        } else {
            bytes <= self.nursery.eden.free()
        }
    }

    fn take(&self, mutator: &mut Mutator, bytes: usize, fresh: Fresh) -> Option<Address> {
        if bytes >= self.large_bytes() {
            return self.take_large(mutator, bytes, fresh);
        }
        // Under stress each object has a buffer of its own, so that every allocation comes here.
        let wanted = if self.config.stress > 0 {
            bytes
        } else {
            self.config.tlab.max(bytes)
        };
        let piece = self.nursery.eden.take(bytes, wanted)?;
        mutator.allocated_bytes -= mutator.tlab.left() as u64;
        // SAFETY: the buffer is the calling mutator's.
        unsafe { mutator.tlab.retire() };
        if fresh == Fresh::Zeroed || piece.1 > bytes {
            // SAFETY: the piece is the calling mutator's alone.
            unsafe { zero::zero(piece.0, piece.1) };
        }
        mutator.allocated_bytes += piece.1 as u64;
        mutator.tlab.refill(piece);
        mutator.tlab.allocate(bytes)
    }

    fn take_large(&self, mutator: &mut Mutator, bytes: usize, fresh: Fresh) -> Option<Address> {
        let object = self.old.allocate_alone(bytes)?;
        if fresh == Fresh::Zeroed {
            // SAFETY: the piece is the calling mutator's alone.
            unsafe { zero::zero(object, bytes) };
        }
        mutator.allocated_bytes += bytes as u64;
        Some(object)
    }

    /// What is to be collected because of `stress`. Every other time it is everything, so that both kinds are tried.
    fn stress(&self, mutator: &mut Mutator) -> Option<Extent> {
        if self.config.stress == 0 {
            return None;
        }
        mutator.stress_left = mutator.stress_left.saturating_sub(1);
        if mutator.stress_left > 0 {
            return None;
        }
        mutator.stress_left = self.config.stress;
        Some(if self.epoch().is_multiple_of(2) {
            Extent::Young
        } else {
            Extent::Full
        })
    }
}
