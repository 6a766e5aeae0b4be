//! What a trace knows of objects, and what it does with weak slots and finalizers.

use gleaner_mem::Address;

use super::discovered::Entry;
use super::waiting::Waiting;
use crate::scavenge::trace::{Trace, WorkerState};

/// What a trace knows of objects.
pub trait Liveness: Trace {
    /// Where an object is if it lives, as far as was traced.
    fn place(&self, object: Address) -> Option<Address>;
    /// Whether the trace found out what is dead among old objects, too.
    fn is_full(&self) -> bool;
    /// Makes an object live, and says where it is.
    fn keep(&self, local: &mut WorkerState, object: Address) -> Address;
}

/// What a trace does with what is weak, whatever slots its heap has.
pub trait WeakTrace: Liveness {
    /// Makes the values of an entry's ephemerons live as far as their keys do; the others wait, if there is a table for
    /// that.
    fn look(&self, local: &mut WorkerState, entry: &Entry, waiting: Option<&Waiting>);
    /// Clears the weak slots of an entry whose referents do not live, and updates the others.
    fn clear(&self, local: &mut WorkerState, entry: &Entry);
    /// Decides which finalizers of a segment wait on, by its place in the list of their table.
    fn decide(&self, local: &mut WorkerState, position: usize);
    /// Moves the finalizers of a segment as planned, and makes the objects live that come to life again.
    fn hand_over(&self, local: &mut WorkerState, number: usize);
    /// Clears the ephemerons of an entry whose keys do not live, and updates the others.
    fn settle_ephemerons(&self, local: &mut WorkerState, entry: &Entry);
}

/// Makes the value of an ephemeron live if its key does; otherwise the value waits. `value` says what it is. The key is
/// an object.
#[inline]
pub fn look_at<L: Liveness + ?Sized>(
    trace: &L,
    local: &mut WorkerState,
    key: Address,
    value: impl FnOnce() -> Option<Address>,
    waiting: Option<&Waiting>,
) {
    local.weak.looks += 1;
    if trace.place(key).is_some() {
        if let Some(value) = value() {
            keep(trace, local, value);
        }
    } else if let Some(waiting) = waiting {
        let value = value().unwrap_or(Address::NULL);
        waiting.register(&mut local.weak.numbers, key, value);
    }
}

/// Makes a value live, and notes whether it did not.
#[inline]
pub fn keep<L: Liveness + ?Sized>(trace: &L, local: &mut WorkerState, value: Address) {
    if trace.place(value).is_none() {
        trace.keep(local, value);
        local.weak.kept = true;
    }
}
