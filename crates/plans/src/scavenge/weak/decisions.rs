//! What each trace of a heap does with weak slots and finalizers: the same, be it a scavenge or marking.

use super::discovered::Entry;
use super::heap_trace::HeapTrace;
use super::liveness::WeakTrace;
use super::waiting::Waiting;
use super::{finalizing, objects};
use crate::scavenge::trace::WorkerState;

impl<T: HeapTrace> WeakTrace for T {
    fn look(&self, local: &mut WorkerState, entry: &Entry, waiting: Option<&Waiting>) {
        objects::look(self, local, entry, waiting);
    }

    fn clear(&self, local: &mut WorkerState, entry: &Entry) {
        objects::clear(self, local, entry);
    }

    fn decide(&self, local: &mut WorkerState, position: usize) {
        finalizing::decide(self, local, position);
    }

    fn hand_over(&self, local: &mut WorkerState, number: usize) {
        finalizing::hand_over(self, local, number);
    }

    fn settle_ephemerons(&self, local: &mut WorkerState, entry: &Entry) {
        objects::settle(self, local, entry);
    }
}
