//! What mutators and collections do with [finalizers](super::finalizers): they are made, taken back and handed out, and a
//! trace decides which become ready.

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::slot::{SlotFormat, Value};

use super::finalizers::{List, NewlyReady, Status};
use super::heap_trace::HeapTrace;
use super::own_types::OwnType;
use crate::scavenge::Scavenge;
use crate::scavenge::trace::WorkerState;

/// The slots of a finalizer.
const OBJECT: usize = 0;
const VALUE: usize = 1;
const STATUS: usize = 2;

/// What a ready finalizer that was taken back has in place of its object.
const TAKEN: Value = Value::immediate(0);

/// How many finalizers ahead of the one that is decided about are fetched into the cache, and half as far their objects.
const AHEAD: usize = 16;

impl<F: SlotFormat> Scavenge<F> {
    fn is_finalizer(&self, object: Address) -> bool {
        // SAFETY: the callers name an object of this heap; its header is normal, or says that it stays.
        let header = unsafe { header::load(object, Ordering::Relaxed) };
        self.weak.own_types.get(OwnType::Finalizer) == Some(header.type_id())
    }

    fn status(&self, finalizer: Address) -> Status {
        Status::of(self.own_slot(finalizer, STATUS))
    }

    /// A finalizer keeps nothing from now on, and is in no list.
    fn free(&self, finalizer: Address) {
        let nothing = [Value::NULL, Value::NULL, Status::Free.value()];
        for (index, value) in nothing.into_iter().enumerate() {
            self.set_own_slot(finalizer, index, value);
        }
    }

    fn link_last(&self, list: &List, finalizer: Address) {
        self.set_own_slot(finalizer, STATUS, Status::Ready(None).value());
        match list.last.get() {
            Some(last) => self.store_own_slot(last, STATUS, finalizer),
            None => list.first.set(Some(finalizer)),
        }
        list.last.set(Some(finalizer));
    }

    /// With the lock: takes the first finalizer of a list that was not taken back. What it held of its object, and its value.
    fn take_first(&self, list: &List) -> Option<(Value, Value)> {
        loop {
            let finalizer = list.first.get()?;
            let Status::Ready(next) = self.status(finalizer) else {
                unreachable!("a finalizer in a list of ready ones is ready");
            };
            list.first.set(next);
            if next.is_none() {
                list.last.set(None);
            }
            let [object, value] = [OBJECT, VALUE].map(|index| self.own_slot(finalizer, index));
            self.free(finalizer);
            if object != TAKEN {
                return Some((object, value));
            }
        }
    }

    /// A mutator inside the gate: a fresh object of the type of finalizers waits from now on for the object to die. False if
    /// the system gives no memory for that.
    #[must_use]
    pub fn begin_finalizer(
        &self,
        finalizer: Address,
        (object, value): (Value, Value),
        order: usize,
        revives: bool,
    ) -> bool {
        let status = Status::Waiting { order, revives };
        self.begin_own(finalizer, [object, value, status.value()]);
        self.weak.finalizers.table.add(finalizer)
    }

    /// A mutator inside the gate: the finalizer is not handed out, and keeps nothing any more. Whether it had not been
    /// handed out or taken back before; `None` if the object is no finalizer of this heap.
    pub fn take_back(&self, finalizer: Address) -> Option<bool> {
        if !self.is_finalizer(finalizer) {
            return None;
        }
        let finalizers = &self.weak.finalizers;
        finalizers.lock.lock();
        let is_taken = match self.status(finalizer) {
            Status::Free => false,
            Status::Waiting { .. } => {
                self.free(finalizer);
                true
            }
            Status::Ready(_) if self.own_slot(finalizer, OBJECT) == TAKEN => false,
            Status::Ready(_) => {
                self.set_own_slot(finalizer, OBJECT, TAKEN);
                self.set_own_slot(finalizer, VALUE, Value::NULL);
                finalizers.ready_count.fetch_sub(1, Ordering::Relaxed);
                true
            }
        };
        finalizers.lock.unlock();
        Some(is_taken)
    }

    /// A mutator inside the gate: takes the finalizer that is to be handed out first: what it holds of its object, and its
    /// value.
    pub fn next_finalizer(&self) -> Option<(Value, Value)> {
        let finalizers = &self.weak.finalizers;
        // More become ready in a stopped world alone.
        if finalizers.ready_count() == 0 {
            return None;
        }
        finalizers.lock.lock();
        let mut lists = finalizers.ready.iter();
        let next = lists.find_map(|list| self.take_first(list));
        if next.is_some() {
            finalizers.ready_count.fetch_sub(1, Ordering::Relaxed);
        }
        finalizers.lock.unlock();
        next
    }

    /// The object for which a finalizer waits; `None` if it does not wait any more.
    pub(in crate::scavenge) fn waits_for(&self, finalizer: Address) -> Option<Address> {
        match self.status(finalizer) {
            Status::Waiting { .. } => self.own_slot(finalizer, OBJECT).as_object(),
            Status::Ready(_) | Status::Free => None,
        }
    }

    /// The slot for the object, of a finalizer that does not wait: a strong one. `None` for all other objects.
    pub(in crate::scavenge) fn finalized(&self, object: Address) -> Option<Address> {
        match discover(self, object) {
            Discovery::Strong(slot) => Some(slot),
            Discovery::Other | Discovery::Waiting => None,
        }
    }
}

/// What an object with weak slots is.
pub enum Discovery {
    /// No finalizer.
    Other,
    /// A finalizer that waits.
    Waiting,
    /// A finalizer whose object is strong, in this slot.
    Strong(Address),
}

/// What an object with weak slots is that a worker has reached. A finalizer that waits is decided about later.
pub fn discover<F: SlotFormat>(heap: &Scavenge<F>, object: Address) -> Discovery {
    if !heap.is_finalizer(object) {
        return Discovery::Other;
    }
    match heap.status(object) {
        Status::Waiting { .. } => Discovery::Waiting,
        Status::Ready(_) | Status::Free => Discovery::Strong(heap.own_place(object, OBJECT)),
    }
}

/// Leader, between phases: goes through the waiting finalizers, in a scavenge through those that may be young. Those that
/// were taken back leave the table, and those whose objects are dead become ready.
pub fn sort_out(trace: &impl HeapTrace) -> NewlyReady {
    let heap = trace.heap();
    let finalizers = &heap.weak.finalizers;
    let (table, mut ready) = (&finalizers.table, NewlyReady::default());
    let from = if trace.is_full() {
        0
    } else {
        table.young_from()
    };
    let count = table.count();
    let mut sifting = table.sift(from);
    for number in from..count {
        if number + AHEAD < count {
            table.get(number + AHEAD).prefetch();
            let nearer = table.get(number + AHEAD / 2);
            if let Some(object) = heap.own_slot(nearer, OBJECT).as_object() {
                object.prefetch();
            }
        }
        let finalizer = table.get(number);
        let Status::Waiting { order, revives } = heap.status(finalizer) else {
            continue;
        };
        let object = heap.own_slot(finalizer, OBJECT).as_object();
        let place = object.and_then(|object| trace.place(object));
        if let Some(place) = place {
            let is_old = !heap.is_young(place);
            if object != Some(place) || !is_old {
                heap.store_own_slot(finalizer, OBJECT, place);
            }
            sifting.keep(finalizer, is_old && !heap.is_young(finalizer));
            continue;
        }
        if !revives {
            heap.set_own_slot(finalizer, OBJECT, Value::NULL);
        }
        heap.link_last(&finalizers.ready[order], finalizer);
        ready.firsts[order].get_or_insert(finalizer);
        ready.count += 1;
    }
    sifting.end();
    let total = &finalizers.ready_count;
    total.fetch_add(ready.count, Ordering::Relaxed);
    ready
}

/// A worker: makes the objects of finalizers live that became ready, from the first of their order on.
pub fn revive(trace: &impl HeapTrace, local: &mut WorkerState, first: Option<Address>) {
    let heap = trace.heap();
    let mut next = first;
    while let Some(finalizer) = next {
        if let Some(object) = heap.own_slot(finalizer, OBJECT).as_object() {
            let place = trace.keep(local, object);
            heap.store_own_slot(finalizer, OBJECT, place);
        }
        next = match heap.status(finalizer) {
            Status::Ready(next) => next,
            Status::Waiting { .. } | Status::Free => None,
        };
    }
}
