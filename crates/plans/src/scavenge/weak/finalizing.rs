//! What mutators and collections do with [finalizers](super::finalizers): they are made, taken back and handed out, and a
//! trace decides which become ready.

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::{Shape, Slots, TypeError, TypeId};
use gleaner_mem::slot::{SlotFormat, Value};

use super::discovered::Entry;
use super::finalizers::{List, State, Status};
use super::heap_trace::HeapTrace;
use crate::scavenge::Scavenge;
use crate::scavenge::trace::WorkerState;

/// Where a finalizer has its state: order, status, whether it revives its object, and its number.
const STATE: usize = 8;
/// Where its slots begin: the object, then the others.
const SLOTS: usize = 16;
const OBJECT: usize = 0;
const VALUE: usize = 1;
const NEXT: usize = 2;
const PREVIOUS: usize = 3;

/// The bytes of a finalizer in a heap with slots of `slot` bytes.
const fn bytes(slot: usize) -> usize {
    SLOTS + 4 * slot
}

fn state(finalizer: Address) -> State {
    // SAFETY: the callers name finalizers; the word belongs to the lock, or to the leader.
    State(unsafe { finalizer.add(STATE).load() } as u64)
}

fn set_state(finalizer: Address, state: State) {
    // SAFETY: the callers name finalizers; the word belongs to the lock, or to the leader.
    unsafe { finalizer.add(STATE).store(state.0 as usize) };
}

fn slot<F: SlotFormat>(finalizer: Address, index: usize) -> Address {
    finalizer.add(SLOTS + index * F::BYTES)
}

/// Slots of finalizers, and lists of them.
impl<F: SlotFormat> Scavenge<F> {
    fn load_of(&self, finalizer: Address, index: usize) -> Value {
        // SAFETY: a slot of a finalizer.
        unsafe { F::load(slot::<F>(finalizer, index), self.model.base) }
    }

    /// Stores through the barrier.
    fn store_of(&self, finalizer: Address, index: usize, to: Option<Address>) {
        let (at, value) = (
            slot::<F>(finalizer, index),
            to.map_or(Value::NULL, Value::reference),
        );
        // SAFETY: a slot of a finalizer; the callers hold the lock, or have stopped the world.
        unsafe { F::store(at, self.model.base, value) };
        self.cards.dirty(at);
    }

    fn link_last(&self, list: &List, finalizer: Address) {
        let last = list.last.get();
        self.store_of(finalizer, PREVIOUS, last);
        self.store_of(finalizer, NEXT, None);
        match last {
            Some(last) => self.store_of(last, NEXT, Some(finalizer)),
            None => list.first.set(Some(finalizer)),
        }
        list.last.set(Some(finalizer));
    }

    fn link_first(&self, list: &List, finalizer: Address) {
        let first = list.first.get();
        self.store_of(finalizer, NEXT, first);
        self.store_of(finalizer, PREVIOUS, None);
        match first {
            Some(first) => self.store_of(first, PREVIOUS, Some(finalizer)),
            None => list.last.set(Some(finalizer)),
        }
        list.first.set(Some(finalizer));
    }

    fn unlink(&self, list: &List, finalizer: Address) {
        let [next, previous] =
            [NEXT, PREVIOUS].map(|index| self.load_of(finalizer, index).as_object());
        match previous {
            Some(previous) => self.store_of(previous, NEXT, next),
            None => list.first.set(next),
        }
        match next {
            Some(next) => self.store_of(next, PREVIOUS, previous),
            None => list.last.set(previous),
        }
        self.store_of(finalizer, NEXT, None);
        self.store_of(finalizer, PREVIOUS, None);
    }

    /// The type of finalizers, which is registered when the first is made; and the bytes of one.
    pub fn finalizer_type(&self) -> Result<(TypeId, usize), TypeError> {
        let finalizers = &self.weak.finalizer_objects;
        let bytes = bytes(F::BYTES);
        let known = finalizers.id.load(Ordering::Acquire);
        if known != 0 {
            return Ok((TypeId::new(known), bytes));
        }
        let offset = |index: usize| (SLOTS + index * F::BYTES) as u32;
        let shape = Shape::Weak {
            head: bytes,
            slots: Slots {
                references: &[offset(VALUE), offset(NEXT), offset(PREVIOUS)],
                weak: &[offset(OBJECT)],
                ephemerons: &[],
            },
            element: 0,
            element_slots: Slots::default(),
        };
        let id = self.model.types.register(shape, F::BYTES)?;
        // Without memory for it the type stays without a name.
        self.model.types.set_name(id, "finalizer");
        // Another thread may have registered one meanwhile.
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let stored = finalizers
            .id
            .compare_exchange(0, id.get(), success, failure);
        Ok((TypeId::new(stored.err().unwrap_or(id.get())), bytes))
    }

    /// Whether the embedder registered a type of this number.
    pub fn has_type(&self, id: TypeId) -> bool {
        let own = self.weak.finalizer_objects.id.load(Ordering::Acquire);
        self.model.types.has(id) && id.get() != own
    }

    /// A mutator inside the gate: a fresh object of the type of finalizers waits from now on for the object to die.
    pub fn begin_finalizer(
        &self,
        finalizer: Address,
        (object, value): (Value, Value),
        order: usize,
        revives: bool,
    ) {
        let finalizers = &self.weak.finalizer_objects;
        // SAFETY: the slots of a fresh object, which is the calling mutator's.
        unsafe {
            F::store(slot::<F>(finalizer, OBJECT), self.model.base, object);
            F::store(slot::<F>(finalizer, VALUE), self.model.base, value);
        }
        let number = finalizers.made.fetch_add(1, Ordering::Relaxed);
        finalizers.lock.lock();
        set_state(finalizer, State::waiting(order, revives, number));
        self.link_first(&finalizers.waiting, finalizer);
        finalizers.lock.unlock();
    }

    /// A mutator inside the gate: the finalizer is not handed out, and keeps nothing any more. Whether it had not been
    /// handed out or taken back before; `None` if the object is no finalizer of this heap.
    pub fn take_back(&self, finalizer: Address) -> Option<bool> {
        let finalizers = &self.weak.finalizer_objects;
        // SAFETY: an object of this heap.
        let header = unsafe { header::load(finalizer, Ordering::Relaxed) };
        if !finalizers.is_finalizer(header) {
            return None;
        }
        finalizers.lock.lock();
        let state = state(finalizer);
        let list = finalizers.list(state);
        if let Some(list) = list {
            self.unlink(list, finalizer);
            self.store_of(finalizer, OBJECT, None);
            self.store_of(finalizer, VALUE, None);
            set_state(finalizer, state.with(Status::Free));
            if state.status() == Status::Ready {
                finalizers.ready_count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        finalizers.lock.unlock();
        Some(list.is_some())
    }

    /// A mutator inside the gate: takes the finalizer that is to be handed out first: what it holds of its object, and its
    /// value.
    pub fn next_finalizer(&self) -> Option<(Value, Value)> {
        let finalizers = &self.weak.finalizer_objects;
        finalizers.lock.lock();
        let next = finalizers
            .ready
            .iter()
            .find_map(|list| Some((list, list.first.get()?)));
        let held = next.map(|(list, finalizer)| {
            self.unlink(list, finalizer);
            set_state(finalizer, state(finalizer).with(Status::Free));
            finalizers.ready_count.fetch_sub(1, Ordering::Relaxed);
            let held = [OBJECT, VALUE].map(|index| self.load_of(finalizer, index));
            self.store_of(finalizer, OBJECT, None);
            self.store_of(finalizer, VALUE, None);
            (held[0], held[1])
        });
        finalizers.lock.unlock();
        held
    }

    /// The finalizer behind one that is linked by `NEXT`.
    fn next_of(&self, finalizer: Address) -> Option<Address> {
        self.load_of(finalizer, NEXT).as_object()
    }

    /// The first finalizer that was made before the one in front of it.
    fn after_run(&self, mut finalizer: Address) -> Option<Address> {
        loop {
            let next = self.next_of(finalizer)?;
            if state(next).number() < state(finalizer).number() {
                return Some(next);
            }
            finalizer = next;
        }
    }

    /// Sorts finalizers that are linked by `NEXT` as they were made: a natural merge sort. A trace finds most of them in
    /// one order or the other.
    fn sort(&self, mut first: Option<Address>) -> Option<Address> {
        loop {
            let (mut start, mut sorted, mut merges) = (first, (None, None), 0);
            while let Some(left) = start {
                let right = self.after_run(left);
                start = right.and_then(|right| self.after_run(right));
                self.merge((Some(left), right), (right, start), &mut sorted);
                merges += 1;
            }
            if let Some(last) = sorted.1 {
                self.store_of(last, NEXT, None);
            }
            first = sorted.0;
            if merges <= 1 {
                return first;
            }
        }
    }

    /// Appends what two runs have, each from its first to the finalizer where the next run begins, to a list: its first and
    /// its last.
    fn merge(
        &self,
        (mut left, left_end): (Option<Address>, Option<Address>),
        (mut right, right_end): (Option<Address>, Option<Address>),
        sorted: &mut (Option<Address>, Option<Address>),
    ) {
        loop {
            let one = left.filter(|_| left != left_end);
            let other = right.filter(|_| right != right_end);
            let takes_left = match (one, other) {
                (Some(one), Some(other)) => state(one).number() < state(other).number(),
                (one, _) => one.is_some(),
            };
            let Some(taken) = (if takes_left { one } else { other }) else {
                return;
            };
            let next = self.next_of(taken);
            *(if takes_left { &mut left } else { &mut right }) = next;
            match sorted.1 {
                Some(last) if self.next_of(last) == Some(taken) => {}
                Some(last) => self.store_of(last, NEXT, Some(taken)),
                None => sorted.0 = Some(taken),
            }
            sorted.1 = Some(taken);
        }
    }
}

/// A worker has reached an object with weak slots: whether it is a finalizer. One that waits is decided about later; the
/// object of another is strong, and so is that of one for which there is no memory to note it.
pub fn discover<F: SlotFormat>(
    heap: &Scavenge<F>,
    local: &mut WorkerState,
    finalizer: Address,
) -> Discovery {
    let finalizers = &heap.weak.finalizer_objects;
    // SAFETY: an object that was reached, and scanned just now.
    let header = unsafe { header::load(finalizer, Ordering::Relaxed) };
    if !finalizers.is_finalizer(header) {
        return Discovery::Other;
    }
    let entry = Entry {
        object: finalizer,
        elements: 0..0,
    };
    let waits = state(finalizer).status() == Status::Waiting;
    let added = waits
        .then(|| finalizers.discovered.add(&mut local.weak.finalizers, entry))
        .flatten();
    match added {
        Some(()) => Discovery::Waiting,
        None => Discovery::Strong(slot::<F>(finalizer, OBJECT)),
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

/// Leader, between phases: goes through the waiting finalizers that were reached. Those whose objects are dead, sorted, as a
/// list by `NEXT`: the first, and how many.
pub fn sort_out(trace: &impl HeapTrace) -> (Option<Address>, usize) {
    let heap = trace.heap();
    let finalizers = &heap.weak.finalizer_objects;
    let (mut batch, mut count) = (None, 0);
    for task in 0..finalizers.discovered.prepare() {
        finalizers.discovered.all(task, &mut |entry| {
            let (finalizer, before) = (entry.object, state(entry.object));
            if before.status() != Status::Waiting {
                return;
            }
            let Some(object) = heap.load_of(finalizer, OBJECT).as_object() else {
                return;
            };
            if let Some(place) = trace.place(object) {
                if place != object || heap.is_young(place) {
                    heap.store_of(finalizer, OBJECT, Some(place));
                }
                return;
            }
            heap.unlink(&finalizers.waiting, finalizer);
            set_state(finalizer, before.with(Status::Ready));
            if !before.revives() {
                heap.store_of(finalizer, OBJECT, None);
            }
            heap.store_of(finalizer, NEXT, batch);
            batch = Some(finalizer);
            count += 1;
        });
    }
    (heap.sort(batch), count)
}

/// A worker: makes the objects of finalizers live that became ready, from the first of their list on.
pub fn revive(trace: &impl HeapTrace, local: &mut WorkerState, first: Option<Address>) {
    let heap = trace.heap();
    let mut next = first;
    while let Some(finalizer) = next {
        if let Some(object) = heap.load_of(finalizer, OBJECT).as_object() {
            let place = trace.keep(local, object);
            heap.store_of(finalizer, OBJECT, Some(place));
        }
        next = heap.load_of(finalizer, NEXT).as_object();
    }
}

/// Leader, between phases: what became ready is handed out from now on, behind what was ready before.
pub fn announce<F: SlotFormat>(heap: &Scavenge<F>, first: Option<Address>) {
    let finalizers = &heap.weak.finalizer_objects;
    let mut next = first;
    while let Some(finalizer) = next {
        next = heap.load_of(finalizer, NEXT).as_object();
        heap.link_last(&finalizers.ready[state(finalizer).order()], finalizer);
        finalizers.ready_count.fetch_add(1, Ordering::Relaxed);
    }
}
