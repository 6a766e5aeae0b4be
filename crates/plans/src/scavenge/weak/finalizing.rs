//! What mutators and collections do with [finalizers](super::finalizers): they are made, taken back and handed out, and a
//! trace decides which become ready.

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::FIELDS;
use gleaner_mem::slot::{SlotFormat, Value};

use super::finalizers::Condition;
use super::heap_trace::HeapTrace;
use super::own_types::OwnType;
use crate::scavenge::Scavenge;
use crate::scavenge::trace::WorkerState;

impl<F: SlotFormat> Scavenge<F> {
    /// A mutator inside the gate: a finalizer waits from now on for the object to die. False if the table of finalizers is
    /// full, or the system gives no memory for it.
    #[must_use]
    pub fn finalize(&self, (object, value): (Value, Value), order: usize, revives: bool) -> bool {
        let condition = Condition::new(order, revives);
        self.weak.finalizers.add(object, value, condition)
    }

    /// As [`Scavenge::finalize`], of a finalizer for which a fresh object of the type of finalizers stands.
    #[must_use]
    pub fn begin_finalizer(
        &self,
        finalizer: Address,
        (object, value): (Value, Value),
        order: usize,
        revives: bool,
    ) -> bool {
        let condition = Condition::new(order, revives);
        let table = &self.weak.finalizers;
        let Some(ticket) = table.add_with_ticket(object, value, condition) else {
            return false;
        };
        // SAFETY: the caller's fresh object, which has a word there.
        unsafe { finalizer.add(FIELDS).store(ticket as usize) };
        true
    }

    /// A mutator inside the gate: the finalizer is not handed out, and keeps nothing any more. Whether it had not been
    /// handed out or taken back before; `None` if the object is no finalizer of this heap.
    pub fn take_back(&self, finalizer: Address) -> Option<bool> {
        // SAFETY: the caller names an object of this heap; its header is normal, or says that it stays.
        let header = unsafe { header::load(finalizer, Ordering::Relaxed) };
        if self.weak.own_types.get(OwnType::Finalizer) != Some(header.type_id()) {
            return None;
        }
        // SAFETY: an object of this type has a word there, which does not change.
        let ticket = unsafe { finalizer.add(FIELDS).load() };
        Some(self.weak.finalizers.take_back(ticket as u64))
    }

    /// A mutator inside the gate: takes the finalizer that is to be handed out first: what it holds of its object, and its
    /// value.
    pub fn next_finalizer(&self) -> Option<(Value, Value)> {
        self.weak.finalizers.take_ready()
    }
}

/// A worker: decides about the waiting finalizers of the segment at a place of the table's list.
pub fn decide(trace: &impl HeapTrace, local: &mut WorkerState, position: usize) {
    let heap = trace.heap();
    let place = |object| trace.place(object);
    let is_young = |object| heap.is_young(object);
    let table = &heap.weak.finalizers;
    local.weak.weak_looks += table.decide((position, trace.is_full()), place, is_young);
}

/// A worker: moves the finalizers of a segment to where they go, and revives those that come to life again.
pub fn hand_over(trace: &impl HeapTrace, local: &mut WorkerState, number: usize) {
    let heap = trace.heap();
    let keep = |object| trace.keep(local, object);
    let is_young = |object| heap.is_young(object);
    heap.weak.finalizers.hand_over(number, keep, is_young);
}
