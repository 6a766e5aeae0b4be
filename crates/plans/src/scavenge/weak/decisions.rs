//! What each trace of a heap does with weak slots and finalizers: the same, be it a scavenge or marking.

use gleaner_mem::Address;

use super::discovered::Entry;
use super::finalizers::NewlyReady;
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

    fn sort_out(&self) -> NewlyReady {
        finalizing::sort_out(self)
    }

    fn revive(&self, local: &mut WorkerState, first: Option<Address>) {
        finalizing::revive(self, local, first);
    }

    fn settle_ephemerons(&self, local: &mut WorkerState, entry: &Entry) {
        objects::settle(self, local, entry);
    }
}
