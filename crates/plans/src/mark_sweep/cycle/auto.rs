//! Cycles under `generations=auto`, for which nobody has asked: a helper marks everything beside the program where that pays, and the
//! program stops for the begin and for the end ([`super::super::decide::beside`]).
//!
//! Where no marks are kept from one collection to the next, pages are watched for such cycles alone: what was written before one
//! does not matter, nor what is written after it.

use gleaner_base::options::{CycleHelper, MarkGenerations};
use gleaner_os::memory;

use crate::mark_sweep::decide::beside::Measurements;
use crate::mark_sweep::heap::Heap;
use crate::shared::record::Record;

/// A stop is to take at most this part of what marking everything in one would take, and that is at least this many nanoseconds.
const PART_OF_WHOLE: u64 = 10;
const LEAST_LIMIT_NS: u64 = 1_000_000;
/// Why pages are no longer watched.
const NOT_BESIDE: &str = "marking beside the program does not pay any more";
/// Bytes from which what a helper has marked says how fast it is.
const WORTH_MEASURING: u64 = 4 << 20;

impl Heap {
    /// Whether collections of everything are marked beside the program.
    pub(super) fn marks_beside(&self) -> bool {
        self.auto.choice.is_on()
    }

    /// Whether a helper is to mark beside the program, if there is one.
    pub fn wants_helper(&self) -> bool {
        self.makes_steps()
            && match self.options.cycle_helper {
                CycleHelper::Off => false,
                CycleHelper::On => true,
                CycleHelper::Auto => self.mode == MarkGenerations::Auto,
            }
    }

    /// Whether a cycle may begin: somebody would mark beside the program. Tests have steps where there is nobody.
    pub(super) fn is_cycle_expected(&self) -> bool {
        self.is_helper_expected() || self.options.stress != 0
    }

    /// How long a stop may take if marking can be put off, in nanoseconds; `None` for as long as it takes.
    pub(crate) fn limit_ns(&self) -> Option<u64> {
        let asked = self.settings.time_limit_ns;
        match self.mode {
            MarkGenerations::Auto => {
                let limit = (self.whole_stop_ns() / PART_OF_WHOLE).max(LEAST_LIMIT_NS);
                Some(limit.min(asked.unwrap_or(u64::MAX)))
            }
            _ => asked,
        }
    }

    /// Nanoseconds that marking everything in a stop takes.
    fn whole_stop_ns(&self) -> u64 {
        let rate = self.totals.last_marking_ns as f64 / self.totals.last_scanned.max(1) as f64;
        (self.space.census.composite_bytes as f64 * rate) as u64
    }

    /// What the helper has taken since this was asked last: nanoseconds of its turns, and how many there were.
    pub(crate) fn take_turned(&mut self) -> (u64, u64) {
        let all = (self.totals.helped_ns, self.totals.helped_turns);
        let before = core::mem::replace(&mut self.auto.turned, all);
        (all.0 - before.0, all.1 - before.1)
    }

    /// A collection has ended, before which the helper has taken turns for so long. Begins or ends the watch for cycles.
    pub(crate) fn weigh_cycles(&mut self, record: &mut Record, took: u64, turned: (u64, u64)) {
        if self.mode != MarkGenerations::Auto {
            return; // The kernel has just said that it does not tell what is written.
        }
        let measured = self.measure_beside(took, turned);
        self.auto.choice.note(&measured);
        match self.space.written.is_some() {
            false if self.marks_beside() => {
                self.begin_watch_for(record, false, "collections are marked beside the program")
            }
            true if !self.generations.keeps && !self.marks_beside() => {
                self.end_watch(record, NOT_BESIDE)
            }
            _ => {}
        }
    }

    fn measure_beside(&mut self, took: u64, (turned_ns, turns): (u64, u64)) -> Measurements {
        let workers = self.most_workers();
        if self.settings.markers == 0 {
            self.free_processors.look();
        }
        let (stepped, helped) = core::mem::take(&mut self.auto.marked);
        let stop_ns = self.whole_stop_ns();
        let beside_ns = match self.totals.helped_bytes {
            0..WORTH_MEASURING => stop_ns.saturating_mul(workers as u64),
            bytes => {
                let rate = self.totals.helped_ns as f64 / bytes as f64;
                (self.space.census.composite_bytes as f64 * rate) as u64
            }
        };
        let used_ns = self
            .program_cpu_ns()
            .saturating_sub(self.pacing.ended_cpu_ns);
        Measurements {
            is_possible: self.options.cycle_helper != CycleHelper::Off
                && (workers > 1 && self.free_processors.is_any_idle() || self.options.stress != 0)
                && memory::address_limit().is_none(),
            is_wanted: self.options.cycle_helper == CycleHelper::On,
            stop_ns,
            beside_ns,
            program_ns: used_ns.saturating_sub(took),
            stepped,
            helped,
            was_overtaken: core::mem::take(&mut self.auto.was_overtaken),
            turned_ns,
            turns,
        }
    }
}
