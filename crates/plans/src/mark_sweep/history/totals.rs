//! What is counted of all collections.

use gleaner_base::goals::Goals;

use crate::mark_sweep::decide::balance::Rates;

/// Sums over the life of a heap. Times in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    /// When the heap started, by the monotonic clock.
    pub started_ns: u64,
    /// Bytes that lived after each collection, in sum; and the same times what was allocated before it.
    pub live_bytes: u64,
    /// See `live_bytes`.
    pub live_by_allocated: f64,
    /// Time in which the world was stopped, but for snapshots.
    pub stopped_ns: u64,
    /// Time in which it was stopped for snapshots.
    pub snapshots_ns: u64,
    /// How many stops there were.
    pub stops: u64,
    /// Collections that the program asked for by name.
    pub asked: u64,
    /// The longest single stop.
    pub longest_stop_ns: u64,
    /// Of all stops, until all threads had stopped, in nanoseconds.
    pub stopping_ns: u64,
    /// The longest such wait.
    pub longest_stopping_ns: u64,
    /// Stops that were to be no longer than the time limit.
    pub goals: Goals,
    /// Time from the start to the end of collections.
    pub collecting_ns: u64,
    /// Time in marking.
    pub marking_ns: u64,
    /// Time in sweeping, in the pause and outside.
    pub sweeping_ns: u64,
    /// Bytes reclaimed by collections.
    pub reclaimed_bytes: u64,
    /// Bytes reclaimed by the last collection.
    pub last_reclaimed_bytes: u64,
    /// Entries dropped because a mark stack was full.
    pub dropped_entries: u64,
    /// The largest capacity.
    pub peak_capacity: usize,
    /// Finalizers that became ready.
    pub finalized: u64,
    /// Collections that kept the marks of the one before.
    pub kept_marks: u64,
    /// Cycles of marking in steps that began, and those of them that had to be ended in the stop.
    pub cycles: u64,
    /// See `cycles`.
    pub cycles_cut_short: u64,
    /// Steps, the time that they took, and the longest.
    pub steps: u64,
    /// See `steps`.
    pub stepping_ns: u64,
    /// See `steps`.
    pub longest_step_ns: u64,
    /// Steps that took too long because their thread lost the processor, and for how long all steps were without it.
    pub steps_lost: u64,
    /// See `steps_lost`.
    pub lost_ns: u64,
    /// How long it takes to ask the kernel which pages were written, in a stop and ahead of it; and of that what was asked ahead of
    /// the next stop.
    pub last_question_ns: u64,
    /// See `last_question_ns`.
    pub(crate) ahead_ns: u64,
    /// Turns of a helper that marked beside the program, bytes that it scanned, and the time that it took. How often it lost the
    /// processor.
    pub helped_turns: u64,
    /// See `helped_turns`.
    pub helped_bytes: u64,
    /// See `helped_turns`.
    pub helped_ns: u64,
    /// See `helped_turns`.
    pub helped_lost: u64,
    /// Bytes that were scanned for finalizers that became ready, in the last collection or, a little forgotten, before it.
    pub revived: usize,
    /// Bytes that the last marking in a stop scanned, and how long that takes (`decide::cycle::remember`).
    pub last_scanned: usize,
    /// See `last_scanned`.
    pub last_marking_ns: u64,
    /// Bytes that went back to the system in idle times, and how many times these were.
    pub given_back: u64,
    /// See `given_back`.
    pub idle_times: u64,
    /// Collections in idle time.
    pub idle_collections: u64,
    /// Where this process began.
    pub begun: Begun,
}

/// What had been counted when this process began: all of it by the process that forked it, in sums that go on in the child since
/// the interface tells of them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Begun {
    /// Collections.
    pub collections: u64,
    /// Bytes allocated.
    pub allocated: u64,
    /// Bytes reclaimed by collections.
    pub reclaimed: u64,
}

impl Totals {
    /// A step of a cycle took `took_ns`.
    pub(crate) fn note_step(&mut self, took_ns: u64) {
        self.steps += 1;
        self.stepping_ns += took_ns;
        self.longest_step_ns = self.longest_step_ns.max(took_ns);
    }

    /// The totals of a forked child, which begins `now`: what only its own report tells begins anew.
    pub(super) fn in_child(&self, begun: Begun, now: u64) -> Totals {
        Totals {
            started_ns: now,
            begun,
            collecting_ns: self.collecting_ns,
            reclaimed_bytes: self.reclaimed_bytes,
            last_reclaimed_bytes: self.last_reclaimed_bytes,
            peak_capacity: self.peak_capacity,
            dropped_entries: self.dropped_entries,
            revived: self.revived,
            last_scanned: self.last_scanned,
            last_marking_ns: self.last_marking_ns,
            ..Totals::default()
        }
    }
}

/// How fast the program allocates and its heap is marked, and what memory is left.
#[derive(Clone, Copy, Default, Debug)]
pub struct Pace {
    pub(super) rates: Rates,
    /// Bytes that the machine had left at the last collection.
    pub(super) left: usize,
    /// When that is asked again, by the monotonic clock.
    pub(super) ask_after_ns: u64,
    /// When the last collection ended, by the monotonic clock; 0 before there was one.
    pub(super) ended_ns: u64,
}

/// To ask what memory is left may take one part in [`RARELY`] of the time. It is done [`LEAST_WAIT_NS`] nanoseconds
/// after the last time at the soonest.
pub(super) const RARELY: u64 = 1000;
pub(super) const LEAST_WAIT_NS: u64 = 50_000_000;
