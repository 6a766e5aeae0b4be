//! What the pacer is told of a heap, and what it hears of it.

use gleaner_base::events::Phase;
use gleaner_os::clock;

use super::state::{Cycle, Ended};
use crate::mark_sweep::decide::cycle::Marking;
use crate::mark_sweep::decide::heap_size;
use crate::mark_sweep::decide::pacer::{
    Decision, LEAST_PART, LEAST_WAIT, Measurements, Plan, Supply,
};
use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::request::Wish;
use crate::shared::record::Record;

impl Heap {
    /// Whether it is time to ask whether a cycle begins ([`Heap::begins_cycle`]).
    #[inline]
    pub fn is_cycle_considered(&self) -> bool {
        self.space.account.handed >= self.pacing.look_at
    }

    /// Whether a cycle is to begin now so that it ends in time, and why. Only where what is to be marked takes longer than a
    /// stop may. Where leaks are looked for, nobody asks.
    pub fn begins_cycle(&mut self) -> Option<&'static str> {
        if !self.is_cycle_considered() || self.cycle.is_under_way() {
            return None;
        }
        if !self.makes_steps() {
            self.pacing.look_at = usize::MAX; // Until a collection has ended.
            return None;
        }
        if !self.settings.may_collect {
            self.pacing.look_at = self.space.account.handed.saturating_add(LEAST_WAIT);
            return None;
        }
        let (none, wish) = (Cycle::new(), Wish::default());
        let extent = self.expect_extent(wish, &none);
        let pages = self.generations.written;
        let memory = self.measure(0, 0);
        let room = self.room_for_allocation(&memory);
        let is_long = self.decide_marking(wish, extent, &none, pages) == Marking::For(0);
        let decision = match is_long {
            true => {
                let expected = self.expected(extent, &none, pages, false);
                let measured = self.measure_pace(expected, &memory);
                self.pacing.pacer.decide(&measured, room)
            }
            // What is allocated until then may change that.
            false => Decision::Wait((room / 4).max(LEAST_WAIT)),
        };
        let (wait, begins) = match decision {
            Decision::Wait(bytes) => (bytes, None),
            // The next allocation that takes the lock asks on.
            Decision::Begin(_) if !self.is_asked_ahead() => (0, None),
            // Where the collection is given up, it is not tried again at once.
            Decision::Begin(reason) => (room.max(LEAST_WAIT), Some(reason)),
        };
        self.pacing.look_at = self.space.account.handed.saturating_add(wait);
        begins
    }

    /// What can be allocated until a collection in a stop would begin, as measured. Bytes.
    pub(super) fn room_for_allocation(&self, memory: &heap_size::Measurements) -> usize {
        let limit = match memory.limit {
            0 => usize::MAX,
            limit => limit.saturating_sub(memory.used),
        };
        self.pacing.pacer.room(&Supply {
            until_due: heap_size::until_due(memory),
            unused: memory.capacity.saturating_sub(memory.used),
            unswept: self.space.unswept_bytes,
            limit,
            left: memory.left,
            gained: memory.allocated.saturating_add(memory.lost),
        })
    }

    /// What is allocated between two collections in stops, as measured. Bytes.
    pub(super) fn interval(&self, memory: &heap_size::Measurements) -> usize {
        let until_then = self
            .space
            .account
            .handed
            .saturating_add(self.room_for_allocation(memory));
        // Old objects that may be dead can call for a collection at once. Its cycle gets some room even then.
        let least = self.interval_within_limits(memory) / LEAST_PART;
        heap_size::least_between_collections(memory).min(until_then.max(least))
    }

    /// The same, what counts as allocated among it: less than the rule of the divisor says only where limits leave less.
    pub(crate) fn interval_within_limits(&self, memory: &heap_size::Measurements) -> usize {
        let room = self.room_for_allocation(memory);
        let counted = memory.saved.saturating_add(memory.lost);
        let until_then = self.space.account.handed.saturating_add(counted);
        heap_size::least_between_collections(memory).min(until_then.saturating_add(room))
    }

    /// What the pacer goes by if `expected` bytes are to be scanned.
    fn measure_pace(&self, expected: usize, memory: &heap_size::Measurements) -> Measurements {
        let before = self.pacing.ended_cpu_ns;
        Measurements {
            expected,
            scanned: self.totals.last_scanned,
            took_ns: self.totals.last_marking_ns,
            allocated: self.space.account.handed,
            cpu_ns: self.program_cpu_ns().saturating_sub(before),
            interval: self.interval(memory),
            step_ns: self.step_ns(),
            helped: self.is_helper_expected(),
        }
    }

    /// Nanoseconds of the processor's time that the process has used, but for a helper that marks beside it.
    pub(crate) fn program_cpu_ns(&self) -> u64 {
        clock::process_cpu_ns().saturating_sub(self.helped.cpu_ns)
    }

    /// How a cycle would go that began now and in which `expected` bytes are to be scanned.
    pub(super) fn plan(&self, expected: usize, memory: &heap_size::Measurements) -> Plan {
        let measured = self.measure_pace(expected, memory);
        self.pacing.pacer.plan(&measured)
    }

    /// What the last stop of a `cycle` tells, in which everything was marked.
    pub(crate) fn note_last_stop(&mut self, record: &Record, cycle: &Cycle) {
        if let Some(limit) = self.limit_ns()
            && cycle.can_end()
        {
            let times = cycle.stops.saturating_sub(1);
            let took = record.duration(Phase::Mark);
            self.pacing.putting_off.note(times, took, limit);
        }
    }

    /// What a collection that has ended a cycle tells of it, before a new count of what is allocated begins.
    pub(crate) fn note_cycle(&mut self) {
        let ended = self.ended_cycle;
        self.auto.marked = (ended.stepped.0, ended.helped);
        self.auto.was_overtaken = ended.ended() == Ended::Early;
        if !ended.is_under_way() || !self.extent.keeps_marks() {
            return;
        }
        let taken = ended.taken(self.space.account.handed);
        self.pacing.pacer.note_cycle(&taken);
        let beside = ended.scanned_beside();
        self.generations
            .note_cycle(self.extent, taken.allocated, beside);
    }
}
