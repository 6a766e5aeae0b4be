//! What the crew asks of a policy, and what a test may ask of its helpers: to be late.

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::{AtomicU32, AtomicU64, futex_wait_timeout};

use crate::termination::{PhaseNumber, Termination};

/// What the crew asks of a policy. Workers are named by their index, 0 being the leader.
pub trait Park: Sync {
    /// Leader, alone inside `phase`, which is open: takes its place, and calls the helpers below `workers`.
    fn call(&self, phase: PhaseNumber, workers: usize);

    /// The life of helper `index`: waits, joins the phases that it is called to and comes in time for, does `work` in
    /// each and leaves it. `work` says whether the worker still counts as active. Returns after `dismiss`.
    fn serve(
        &self,
        index: usize,
        termination: &Termination,
        work: &mut dyn FnMut(PhaseNumber) -> bool,
    );

    /// Worker `index`, inside `phase`, has nothing to do from now on and can be called back.
    fn rest(&self, index: usize, phase: PhaseNumber);

    /// Worker `index`, inside `phase`, is busy again.
    fn rise(&self, index: usize, phase: PhaseNumber);

    /// Whether worker `index`, which rests and does not sleep, was called back. A hint.
    fn is_called(&self, index: usize) -> bool;

    /// Leader, inside `phase`, with nothing to do: sleeps until it is called back or `done` is true. May return early.
    /// The worker that makes `done` true tells the leader afterwards.
    fn wait(&self, phase: PhaseNumber, done: &dyn Fn() -> bool);

    /// A helper: `done` may be true for the leader of `phase`. Does nothing if that phase is over.
    fn tell_leader(&self, phase: PhaseNumber);

    /// A worker inside `phase` published work for the workers in the mask `wanted`, and looked afterwards into `idle`,
    /// the mask of those that wait for work. This calls back at least one worker that is in both masks, unless there is
    /// none, and takes those that it called out of `idle`.
    fn call_back(&self, wanted: u64, idle: &AtomicU64, phase: PhaseNumber);

    /// How often helpers that slept were woken.
    fn wakeups(&self) -> u64;

    /// Sends the helpers `1..=helpers` home. No phase is running.
    fn dismiss(&self, helpers: usize);

    /// Back to the new state. Only in a forked child, before it has helpers.
    fn reset(&self);
}

/// How long the fault `worker-late` holds a helper up.
const HELD_UP_NS: u64 = 5_000_000;

/// Whether the calling helper is to be late. It then calls [`hold_up`], with no lock.
pub(super) fn is_late() -> bool {
    faults::armed(FaultPoint::WorkerLate)
}

#[cold]
pub(super) fn hold_up() {
    futex_wait_timeout(&AtomicU32::new(0), 0, HELD_UP_NS);
}
