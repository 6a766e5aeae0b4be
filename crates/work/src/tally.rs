//! What the workers of a crew did with each other, counted over its life: what synchronisation costs, a model can tell
//! from that (ASPLOS 2013, sections 2.3 and 3.1).
//!
//! Each count is made where what is counted costs more than counting it, by a thread that has the cache line already. A
//! lock's count is made by its holder, a wake-up's beside the system call, the others once for each phase or worker.
//! Tasks are not counted as they are taken, since the queue's word says at the end of the phase how many were.
//!
//! # Invariants
//! - Phases and tasks are added to by the leader alone, when a phase is finished. Each worker sums its failed
//!   compare-and-swaps for itself and adds them before it leaves the phase.
//! - A counted lock is counted by its holder. A wake-up is counted by the thread that makes the system call; under
//!   the monitor, by the thread that slept, when it holds the lock.
//! - Between phases, a thread that is ordered after the leader of the last one reads exact counts; but a helper that is
//!   just waking up may still take the monitor's lock.
//! - A forked child goes on from the counts of its parent.

use gleaner_base::options;
use gleaner_base::sync::{Counter, RawLock};

/// What workers did with each other in all phases of a crew, together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synchronisation {
    /// Parallel phases; a collection has one or more.
    pub phases: u64,
    /// Tasks taken from the queue that a phase begins with.
    pub tasks: u64,
    /// Helpers that slept and were woken, each time that one was.
    pub wakeups: u64,
    /// Acquisitions of the task queue's lock and of the monitor's, by helpers, leaders and fills.
    pub lock_acquisitions: u64,
    /// Compare-and-swaps on the task queue that failed: another worker took the task.
    pub failed_cas: u64,
    /// How tasks were taken.
    pub task_queue: options::TaskQueue,
    /// How threads waited.
    pub parking: options::Parking,
}

/// What is counted at the ends of phases.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The leader adds alone.
    pub(crate) phases: Counter,
    /// The leader adds alone.
    pub(crate) tasks: Counter,
    /// Any worker adds when it leaves a phase, if it lost a race.
    pub(crate) lost_races: Counter,
}

impl Tally {
    /// Nothing was counted.
    pub(crate) const fn new() -> Self {
        Self {
            phases: Counter::new(),
            tasks: Counter::new(),
            lost_races: Counter::new(),
        }
    }

    /// Leader: a phase is finished in which `tasks` tasks were taken.
    pub(crate) fn finish_phase(&self, tasks: usize) {
        self.phases.add_alone(1);
        self.tasks.add_alone(tasks as u64);
    }

    /// A worker that is about to leave a phase has lost `lost` races in it.
    pub(crate) fn add_lost_races(&self, lost: u32) {
        if lost > 0 {
            self.lost_races.add(lost.into());
        }
    }
}

/// A lock that counts how often it is taken.
#[derive(Debug)]
pub(crate) struct CountedLock {
    lock: RawLock,
    /// The holder of `lock` adds.
    acquisitions: Counter,
}

impl CountedLock {
    gleaner_base::sync_const_fn! {
        /// A free lock that was never taken.
        pub(crate) fn new() -> Self {
            Self { lock: RawLock::new(), acquisitions: Counter::new() }
        }
    }

    /// As [`RawLock::lock`].
    #[inline]
    pub(crate) fn lock(&self) {
        self.lock.lock();
        self.acquisitions.add_alone(1);
    }

    /// As [`RawLock::unlock`].
    #[inline]
    pub(crate) fn unlock(&self) {
        self.lock.unlock();
    }

    /// As [`RawLock::is_locked`].
    pub(crate) fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    /// As [`RawLock::reset_after_fork`]; the count stays.
    pub(crate) fn reset_after_fork(&self) {
        self.lock.reset_after_fork();
    }

    /// How often it was taken.
    pub(crate) fn acquisitions(&self) -> u64 {
        self.acquisitions.get()
    }
}
