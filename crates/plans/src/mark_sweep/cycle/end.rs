//! How a cycle ends: its marks hold, or it is given up. The log says which.

use gleaner_base::events::reasons::{DISABLED, MARKED, OVERTAKEN};
use gleaner_base::events::{Event, Phase};
use gleaner_os::clock;

use super::state::{Cycle, Ended};
use crate::mark_sweep::decide::extent::Extent;
use crate::mark_sweep::heap::Heap;
use crate::shared::record::Record;

impl Heap {
    /// Records that `cycle` is over, if it was under way.
    pub(crate) fn record_end(&self, record: &mut Record, cycle: &Cycle, reason: &'static str) {
        if cycle.is_under_way() {
            record.add(self.end_of(cycle, record.collection(), reason));
        }
    }

    /// Records that a collection of `extent` has ended `cycle`, if its marks were built on. What was given up before is
    /// recorded already.
    pub(crate) fn record_marked(&self, record: &mut Record, cycle: &Cycle, extent: Extent) {
        if extent.keeps_marks() {
            let reason = match cycle.ended() {
                Ended::Early => OVERTAKEN,
                Ended::None | Ended::Marked => MARKED,
            };
            self.record_end(record, cycle, reason);
        }
    }

    fn end_of(&self, cycle: &Cycle, collection: u64, reason: &'static str) -> Event {
        let now = clock::monotonic_ns();
        Event {
            start_ns: now,
            duration_ns: now.saturating_sub(cycle.began_ns),
            bytes: cycle.taken(self.space.account.handed).allocated as u64,
            objects: cycle.steps,
            reason,
            ..Event::new(Phase::CycleEnd, collection)
        }
    }

    /// Gives up the cycle that is under way, where collections were forbidden meanwhile: objects that are freed would wait
    /// for its end. Those that do go now.
    pub fn give_up_cycle(&mut self) {
        self.give_up_cycle_because(DISABLED);
    }

    /// As [`Heap::give_up_cycle`], for another reason.
    pub(super) fn give_up_cycle_because(&mut self, reason: &'static str) {
        let cycle = self.cycle;
        if cycle.is_under_way() {
            let end = self.end_of(&cycle, self.collections + 1, reason);
            self.drop_cycle();
            self.publish_event(&end);
        }
    }

    /// As [`Heap::give_up_cycle`], in a stop.
    pub(crate) fn give_up_cycle_in_stop(&mut self, record: &mut Record, reason: &'static str) {
        self.record_end(record, &self.cycle, reason);
        self.drop_cycle();
    }

    /// Forgets the cycle that is under way, if one is.
    fn drop_cycle(&mut self) {
        if core::mem::take(&mut self.cycle).is_under_way() {
            self.engine.forget_grey(&self.context);
            self.space.marked_in_steps = false;
            self.generations.marks_hold = false;
            self.space.free_waiting();
            self.pacing.look_at = 0;
        }
    }
}
