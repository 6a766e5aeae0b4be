//! Ephemerons of the precise heap: each makes its value live as far as its key does.
//!
//! When everything that is strongly reachable was traced, each ephemeron that was reached is looked at, and those whose keys
//! were not found to live are registered; these are found by their keys when they are reached
//! ([`waiting`](crate::scavenge::waiting) says how, and why none is missed). So each is looked at a few times, however
//! long the chains are in which the value of one leads to the key of another, or to another ephemeron.
//!
//! Where there is no memory for the table of those that wait, passes go over all of them until one finds nothing.
//!
//! # Invariants
//! - A task has the entries of its segment of what was discovered.
//! - After [`trace`], what does not wait has a value that lives, or is no object, or is no ephemeron any more; and what
//!   waits is found when its key is reached later in the same trace.

use super::discovered::Discovered;
use super::liveness;
use super::process::Process;
use crate::scavenge::waiting::Waiting;

/// Entries of the table of those that wait, of one task.
const TASK_WAITING: usize = 4096;

/// Leader, once in a trace: makes the values of ephemerons with live keys live, until nothing changes. The trace looks keys
/// up in the table of those that wait, if there is one.
pub(super) fn trace(run: &mut Process<'_>, discovered: &Discovered) {
    match run.waiting {
        None => trace_by_passes(run, discovered),
        Some(waiting) => {
            look_at_all(run, discovered, Some(waiting));
            finish(run, discovered);
        }
    }
}

/// Leader, after more was traced: as `trace`, and those that were looked at before wait.
pub(super) fn finish(run: &mut Process<'_>, discovered: &Discovered) {
    let Some(waiting) = run.waiting else {
        return trace_by_passes(run, discovered);
    };
    loop {
        look_again(run, waiting);
        if !waiting.is_full() {
            return;
        }
        let wanted = 2 * run.discovered_ephemerons();
        run.looked = 0;
        // SAFETY: no worker is in a phase, and none keeps entries that it has taken.
        if !unsafe { waiting.grow(wanted) } {
            run.waiting = None;
            return trace_by_passes(run, discovered);
        }
        look_at_all(run, discovered, Some(waiting));
    }
}

/// Leader, where no table says which wait.
fn trace_by_passes(run: &mut Process<'_>, discovered: &Discovered) {
    while look_at_all(run, discovered, None) {}
}

/// Leader: looks at every ephemeron that was reached so far; whether some value was made live.
fn look_at_all(run: &mut Process<'_>, discovered: &Discovered, waiting: Option<&Waiting>) -> bool {
    let segments = discovered.prepare();
    run.tasks(segments, &|trace, local, task| {
        let mut look = |entry: &_| trace.look(local, entry, waiting);
        discovered.all(task, &mut look);
    });
    run.forget_taken()
}

/// Leader: looks once more at those that were registered, until no more are.
fn look_again(run: &mut Process<'_>, waiting: &Waiting) {
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
pub(super) fn settle(run: &mut Process<'_>, discovered: &Discovered) {
    let segments = discovered.prepare();
    run.tasks(segments, &|trace, local, task| {
        let mut settle = |entry: &_| trace.settle_ephemerons(local, entry);
        discovered.all(task, &mut settle);
    });
}
