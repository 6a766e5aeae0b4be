//! The sizes of the generations, after each collection: what was measured goes to the decider, and what it decided is
//! done.
//!
//! The young generation and the old one share the limit: what the one gains the other loses. Ranges of addresses are
//! reserved for the largest sizes. The leader does this in a stopped world.

use core::ptr::NonNull;

use gleaner_base::events::{Event, Phase};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::memory;
use gleaner_spaces::tenured::BLOCK_BYTES;

use super::{LARGE_BYTES, Lately, Scavenge, State};
use crate::decide::collection::{self, moving_average};
use crate::decide::generation_sizes::{self, Decision, Measurements};
use crate::record::Record;

impl<F: SlotFormat> Scavenge<F> {
    /// After a collection that took from `stopped_ns` until `now_ns`: measures, decides, and does it. Somebody waits for
    /// `needed` bytes.
    pub(super) fn resize(
        &self,
        state: &mut State,
        record: &mut Record,
        was_full: bool,
        needed: usize,
        (stopped_ns, now_ns): (u64, u64),
    ) {
        state.lately.note_pause(was_full, stopped_ns, now_ns);
        if !self.config.resize {
            state.lately.old_target = self.old_limit.load(Ordering::Relaxed);
        } else {
            record.step(Phase::Resize, |event| {
                let decision =
                    generation_sizes::next_sizes(&self.measure(&state.lately, was_full, needed));
                self.apply(&mut state.lately, &decision, event);
            });
        }
        state.lately.resumed_ns = now_ns;
    }

    fn measure(&self, lately: &Lately, was_full: bool, needed: usize) -> Measurements {
        Measurements {
            limit: self.config.limit,
            young: self.nursery.capacity(),
            survivor: self.nursery.to().bytes(),
            least_young: self.least_young,
            old_used: self.old_used(),
            old_holes: self.old.holes(),
            old_target: lately.old_target,
            promoted_lately: lately.promoted,
            survived_lately: lately.survived,
            scavenge_share: lately.scavenge_share,
            full_share: lately.full_share,
            was_full,
            needed: if needed > LARGE_BYTES { needed } else { 0 },
        }
    }

    fn apply(&self, lately: &mut Lately, decision: &Decision, event: &mut Event) {
        let nursery = &self.nursery;
        let ends = nursery.regions().map(|region| region.end());
        let whole = |bytes: usize| bytes / BLOCK_BYTES * BLOCK_BYTES;
        nursery.resize(
            whole(decision.eden).max(BLOCK_BYTES),
            whole(decision.survivor).max(BLOCK_BYTES),
        );
        for (region, end) in nursery.regions().into_iter().zip(ends) {
            release(region.end(), end);
        }
        let old_limit = self.config.limit.saturating_sub(nursery.capacity());
        // What is in use stays so: the next sizes are smaller.
        self.old_limit
            .store(old_limit.max(self.old_used()), Ordering::Relaxed);
        // SAFETY: the world is stopped.
        unsafe { self.make_resident_room(0) };
        lately.old_target = decision.old_target.min(old_limit);
        event.bytes = nursery.capacity() as u64;
        event.reason = decision.reason;
    }

    /// The old space may grow as far as the limit allows.
    pub(super) fn set_old_end(&self) {
        let region = &self.old.region;
        let others = self.immobile.region.used() + self.large.used();
        let limit = self.old_limit.load(Ordering::Relaxed);
        let bytes = limit.saturating_sub(others) / BLOCK_BYTES * BLOCK_BYTES;
        // Sizes are rounded: the limit may be a little more than the range.
        let range = self.nursery.start().offset_from(region.start());
        region.set_end(region.start().add(bytes.min(range)));
    }

    /// Remembers how high the old space has been: memory above its top may be resident.
    pub(super) fn note_old_top(&self) {
        let top = self.old.region.top().word();
        self.old_high.fetch_max(top, Ordering::Relaxed);
    }

    /// Gives memory back that no object of the spaces with a common limit uses, if `bytes` more would exceed it.
    ///
    /// # Safety
    /// The caller holds `beside`, or has stopped the world.
    pub(super) unsafe fn make_resident_room(&self, bytes: usize) {
        let region = &self.old.region;
        let high = Address::new(self.old_high.load(Ordering::Relaxed));
        let old = high.max(region.top()).offset_from(region.start());
        let resident = old + self.immobile.region.used() + self.large.resident();
        if resident + bytes > self.old_limit.load(Ordering::Relaxed) {
            release(region.top(), high);
            self.old_high.store(region.top().word(), Ordering::Relaxed);
            // SAFETY: the caller's promise.
            unsafe { self.large.release_free() };
        }
    }
}

/// Gives back the whole pages of memory that no object uses.
pub(super) fn release(low: Address, high: Address) {
    let page = memory::page_size();
    let (low, high) = (low.align_up(page), high.align_down(page));
    if low < high
        && let Some(start) = NonNull::new(low.ptr::<u8>())
    {
        // SAFETY: whole pages where no object is.
        unsafe { memory::release(start, high.offset_from(low)) };
    }
}

impl Lately {
    fn note_pause(&mut self, was_full: bool, stopped_ns: u64, now_ns: u64) {
        let paused = now_ns - stopped_ns;
        let share = collection::share(paused, now_ns - self.resumed_ns);
        let (own, other) = if was_full {
            (&mut self.full_share, &mut self.scavenge_share)
        } else {
            (&mut self.scavenge_share, &mut self.full_share)
        };
        *own = moving_average(*own, share);
        if was_full {
            // Or no scavenge would ever say that less is promoted by now.
            self.promoted -= self.promoted / 4;
        } else {
            // A full collection that is long past does not count for ever; scavenges come often.
            *other -= *other / 16;
        }
    }

    /// What a scavenge copied.
    pub(super) fn note_copied(&mut self, survived: usize, promoted: usize) {
        self.survived = moving_average(self.survived, survived);
        self.promoted = moving_average(self.promoted, promoted);
    }
}
