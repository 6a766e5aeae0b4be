//! The phases in which what is weak is decided: the leader's part of them.

use core::mem;

use gleaner_work::Crew;

use super::liveness::WeakTrace;
use super::waiting::Waiting;
use crate::scavenge::trace::{Engine, WithTasks, WorkerState};

/// So many tasks the leader does by itself.
const ALONE: usize = 2;

/// A trace whose strong references were all followed, and what runs its phases.
pub struct Process<'a> {
    /// The workers.
    pub engine: &'a mut Engine,
    /// Their threads.
    pub crew: &'a Crew,
    /// How many take part.
    pub workers: usize,
    /// What was traced.
    pub trace: &'a dyn WeakTrace,
    /// Where ephemerons wait for their keys, if there is memory for that. The trace looks keys up there.
    pub waiting: Option<&'a Waiting>,
    /// Entries of that below this number were looked at once more.
    pub looked: usize,
}

impl Process<'_> {
    /// Runs a phase with these tasks, if there are any, until nothing is grey.
    pub(super) fn tasks(
        &mut self,
        count: usize,
        task: &(dyn Fn(&dyn WeakTrace, &mut WorkerState, usize) + Sync),
    ) {
        if count > 0 {
            let trace = self.trace;
            let task = |local: &mut WorkerState, number| task(trace, local, number);
            let phase = WithTasks { task, trace };
            self.engine.run(self.crew, self.workers, count, &phase);
        }
    }

    /// Does tasks that make nothing grey; in a phase, unless there are so few that the leader alone is as fast.
    pub(super) fn few_tasks(
        &mut self,
        count: usize,
        task: &(dyn Fn(&dyn WeakTrace, &mut WorkerState, usize) + Sync),
    ) {
        if count > ALONE {
            return self.tasks(count, task);
        }
        if let Some(local) = self.engine.worker_states().next() {
            (0..count).for_each(|number| task(self.trace, local, number));
        }
    }

    /// Between phases: workers forget the entries that they have taken of the table of those that wait. Whether they made some
    /// value live.
    pub(super) fn forget_taken(&mut self) -> bool {
        let mut kept = false;
        for local in self.engine.worker_states() {
            local.weak.numbers = 0..0;
            kept |= mem::take(&mut local.weak.kept);
        }
        kept
    }

    /// Between phases: how many ephemerons in objects the workers have reached.
    pub(super) fn discovered_ephemerons(&mut self) -> usize {
        self.engine
            .worker_states()
            .map(|local| local.weak.ephemerons)
            .sum()
    }
}
