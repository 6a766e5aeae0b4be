//! Ephemerons of the precise heap, those of tables beside it and those in its objects: each makes its value live as far
//! as its key does.
//!
//! When everything that is strongly reachable was traced, each ephemeron that was reached is looked at, and those whose keys
//! were not found to live are registered; these are found by their keys when they are reached
//! ([`waiting`](crate::scavenge::waiting) says how, and why none is missed). So each is looked at a few times, however
//! long the chains are in which the value of one leads to the key of another, or to another ephemeron.
//!
//! Where there is no memory for the table of those that wait, passes go over all of them until one finds nothing.
//!
//! # Invariants
//! - A task has the entries of its part of the table, or of its segment of what was discovered.
//! - After [`Ephemerons::trace`], what does not wait has a value that lives, or is no object, or is no ephemeron any
//!   more; and what waits is found when its key is reached later in the same trace.

use gleaner_mem::Address;
use gleaner_mem::slot::{SlotFormat, Value, Wide};

use super::discovered::Discovered;
use super::liveness::{self, WeakTrace, goes_by, tasks_of};
use super::process::Process;
use crate::scavenge::handles::{Handles, chunk};
use crate::scavenge::waiting::Waiting;

/// Entries of the table of those that wait, of one task.
const TASK_WAITING: usize = 4096;

/// The table of one heap.
pub struct Ephemerons {
    /// Keys and values.
    pub handles: Handles,
}

/// What the second slot of an entry holds.
fn value(handles: &Handles, number: u32) -> Value {
    // SAFETY: the number of a handle is below `most`, so its second slot is in the mapping.
    unsafe { Wide::load(handles.second(number), Address::NULL) }
}

impl Ephemerons {
    /// None yet, and `most` at most; `None` when the system gives no memory.
    pub fn new(most: usize) -> Option<Ephemerons> {
        Some(Ephemerons {
            handles: Handles::new(2, most)?,
        })
    }

    /// Leader: how many entries the table has, in use or not.
    pub fn count(&self) -> usize {
        self.handles.prepare()
    }

    /// Leader, once in a trace: makes the values of ephemerons with live keys live, until nothing changes. The trace
    /// looks keys up in the table of those that wait, if there is one.
    pub(super) fn trace(&self, run: &mut Process<'_>, discovered: &Discovered) {
        match run.waiting {
            None => self.trace_by_passes(run, discovered),
            Some(waiting) => {
                self.look_at_all(run, discovered, Some(waiting));
                self.finish(run, discovered);
            }
        }
    }

    /// Leader, after more was traced: as `trace`, and those that were looked at before wait.
    pub(super) fn finish(&self, run: &mut Process<'_>, discovered: &Discovered) {
        let Some(waiting) = run.waiting else {
            return self.trace_by_passes(run, discovered);
        };
        loop {
            self.look_again(run, waiting);
            if !waiting.is_full() {
                return;
            }
            let wanted = 2 * (self.count() + run.discovered_ephemerons());
            run.looked = 0;
            // SAFETY: no worker is in a phase, and none keeps entries that it has taken.
            if !unsafe { waiting.grow(wanted) } {
                run.waiting = None;
                return self.trace_by_passes(run, discovered);
            }
            self.look_at_all(run, discovered, Some(waiting));
        }
    }

    /// Leader, where no table says which wait.
    fn trace_by_passes(&self, run: &mut Process<'_>, discovered: &Discovered) {
        while self.look_at_all(run, discovered, None) {}
    }

    /// Leader: looks at every ephemeron that was reached so far; whether some value was made live.
    fn look_at_all(
        &self,
        run: &mut Process<'_>,
        discovered: &Discovered,
        waiting: Option<&Waiting>,
    ) -> bool {
        let (count, segments) = (self.count(), discovered.prepare());
        let own = tasks_of(run.trace, &self.handles, count);
        run.tasks(own + segments, &|trace, local, task| {
            if task >= own {
                discovered.all(task - own, &mut |entry| trace.look(local, entry, waiting));
                return;
            }
            if goes_by(trace, &self.handles, task) {
                return;
            }
            for number in chunk(task, count) {
                if let Some(key) = self.handles.load(number).as_object() {
                    let value = || value(&self.handles, number).as_object();
                    liveness::look_at(trace, local, key, value, waiting);
                }
            }
        });
        run.forget_taken()
    }

    /// Leader: looks once more at those that were registered, until no more are.
    fn look_again(&self, run: &mut Process<'_>, waiting: &Waiting) {
        loop {
            let (from, to) = (run.looked, waiting.registered());
            run.looked = to;
            if from >= to {
                return;
            }
            run.tasks((to - from).div_ceil(TASK_WAITING), &|trace, local, task| {
                let first = from + task * TASK_WAITING;
                local.weak.looks += waiting.look_again(
                    first..(first + TASK_WAITING).min(to),
                    |key| trace.place(key).is_some(),
                    |value| liveness::keep(trace, local, value),
                );
            });
            run.forget_taken();
        }
    }

    /// Leader, at the end: clears ephemerons whose key does not live, and updates the others.
    pub(super) fn settle(&self, run: &mut Process<'_>, discovered: &Discovered) {
        let (count, segments) = (self.count(), discovered.prepare());
        let own = tasks_of(run.trace, &self.handles, count);
        run.tasks(own + segments, &|trace, local, task| {
            if task >= own {
                let mut settle = |entry: &_| trace.settle_ephemerons(local, entry);
                return discovered.all(task - own, &mut settle);
            }
            if goes_by(trace, &self.handles, task) {
                return;
            }
            let mut young = false;
            for number in chunk(task, count) {
                local.weak.looks += 1;
                young |= self.settle_entry(number, trace);
            }
            self.handles.set_young(task, young);
        });
    }

    /// Whether key or value is young from now on.
    fn settle_entry(&self, number: u32, trace: &dyn WeakTrace) -> bool {
        let Some(key) = self.handles.load(number).as_object() else {
            return false;
        };
        let key = trace.place(key).map(Value::reference);
        let value = match (key, value(&self.handles, number).as_object()) {
            (None, _) => Some(Value::NULL),
            (_, Some(value)) => trace.place(value).map(Value::reference),
            _ => None,
        };
        self.handles.store(number, key.unwrap_or(Value::NULL));
        if let Some(value) = value {
            // SAFETY: the number of a handle is below `most`, so its second slot is in the mapping.
            unsafe { Wide::store(self.handles.second(number), Address::NULL, value) };
        }
        let held = [key, value].into_iter().flatten();
        held.filter_map(Value::as_object)
            .any(|object| trace.is_young(object))
    }
}
