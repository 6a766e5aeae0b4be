//! Mark-sweep of the old generation (ASPLOS 2013, section 2.4): objects stay where they are, what is dead between them is
//! free, and young objects are promoted into the holes.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::large_objects::Generation;

use super::generation::{NO_HOLES, OldGeneration};
use crate::scavenge::walk::Edge;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

/// Live objects stay where they are, and young objects are promoted into the holes.
pub struct MarkSweep;

impl<F: SlotFormat> OldGeneration<F> for MarkSweep {
    fn collect(
        &self,
        heap: &Scavenge<F>,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        why: &'static str,
    ) -> Option<&'static str> {
        heap.mark(state, world, record, why);
        record.step(Phase::Reclaim, |event| {
            heap.reclaim_in_place(world);
            event.bytes = heap.old.free() as u64;
        });
        let (complete, _) = heap.promote_all(state, world, record);
        (!complete).then_some(NO_HOLES)
    }

    fn slides(&self) -> bool {
        false
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// After marking, where nothing moves: what was not marked in the old space is free, and so are old large objects.
    fn reclaim_in_place(&self, world: &mut WorldStopped<'_>) {
        self.poison_holes(&self.old);
        // SAFETY: all that lives is marked, with its granules.
        unsafe { self.old.finish_marking(world, self.bits()) };
        self.reclaim_beside_old(world);
    }

    /// Old large objects that were not marked are free. Young ones and the nursery are as before, without marks.
    pub(super) fn reclaim_beside_old(&self, world: &mut WorldStopped<'_>) {
        for region in self.nursery.regions().iter() {
            let top = region.space.top().align_up(WORD_BYTES);
            self.bits().clear(world, region.space.start(), top);
        }
        self.large
            .for_each(&mut world.allocator(), Generation::Young, |object| {
                self.unmark_large(object)
            });
        self.sweep_large(world, Generation::Old);
    }

    /// The last phase: promotes all that is young into what is free of the old space. Whether it all found room, and how many
    /// bytes were promoted.
    pub(super) fn promote_all(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
    ) -> (bool, usize) {
        let (complete, promoted) = record.step(Phase::Copy, |event| {
            let complete = self.promote_young(state, world);
            for local in state.engine.worker_states() {
                event.bytes += core::mem::take(&mut local.promoted) as u64;
                event.objects += core::mem::take(&mut local.objects) as u64;
            }
            event.workers = state.crew_sizes.workers as u32;
            event.reason = state.crew_sizes.reason;
            (complete, event.bytes as usize)
        });
        self.sweep_arraylets(world, false);
        if complete {
            self.finish_promoting(state, world, record);
        }
        (complete, promoted)
    }

    /// All that was young was promoted: nothing is left in the nursery.
    pub(super) fn finish_promoting(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
    ) {
        let tops = self.settle_stayed(world, None);
        if tops.is_none() {
            self.verify(state, world, record, Edge::Promoted);
        }
        self.nursery.reset(world);
        self.adopt_stayed(world, tops);
        state.wants_full = None;
    }
}
