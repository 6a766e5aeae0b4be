//! Weak references and finalizers of the precise heap, and the order in which they and `ephemerons` are gone through.
//!
//! When everything that is strongly reachable was traced, the tables are gone through, in this order:
//!
//! 1. ephemerons whose key lives make their value live, until no more do;
//! 2. weak references to what does not live are cleared;
//! 3. objects with a finalizer that do not live are kept, with all they reach, also through ephemerons, and become
//!    ready to be finalized;
//! 4. ephemerons whose key does not live are cleared.
//!
//! So a weak reference to an object that is about to be finalized is null already, and a finalizer sees whole objects.
//! A scavenge does this with the objects that it condemned; all others live as far as it is concerned.
//!
//! # Invariants
//! - Mutators create and read entries inside the gate, and drop them at any time (see [`handles`]).
//! - An entry of the finalizers is waiting or ready, as its second slot says. Ready ones are roots, and form a list in
//!   the order in which they became ready.

mod ephemerons;
pub mod handles;
mod liveness;
pub mod waiting;

use gleaner_base::sync::{AtomicU32, Ordering, RawLock};
use gleaner_mem::Address;
use gleaner_mem::slot::{SlotFormat, Value, Wide};

use crate::scavenge::trace::{Engine, WithTasks, WorkerState};
use ephemerons::Ephemerons;
use gleaner_work::Crew;
use handles::Handles;
pub use liveness::Liveness;
use waiting::Waiting;

const WAITING: Value = Value::immediate(0);
const READY: Value = Value::immediate(1);
const NONE: u32 = u32::MAX;

/// The tables of one heap.
pub struct WeakTables {
    /// Weak references.
    pub references: Handles,
    /// Ephemerons.
    pub ephemerons: Ephemerons,
    /// Objects that are to be finalized, and the state of each.
    pub finalizers: Handles,
    /// The first and the last ready finalizer. Written with the lock, or in a stopped world.
    ready: [AtomicU32; 2],
    taking: RawLock,
}

fn load(slot: Address) -> Value {
    // SAFETY: the callers name slots of handle tables, which are wide and mapped.
    unsafe { Wide::load(slot, Address::NULL) }
}

fn store(slot: Address, value: Value) {
    // SAFETY: the callers name slots of handle tables, which are wide and mapped.
    unsafe { Wide::store(slot, Address::NULL, value) };
}

impl WeakTables {
    /// Empty tables, of `most` entries each at most; `None` when the system gives no memory.
    pub fn new(most: usize) -> Option<WeakTables> {
        Some(WeakTables {
            references: Handles::new(1, most)?,
            ephemerons: Ephemerons::new(most)?,
            finalizers: Handles::new(2, most)?,
            ready: [AtomicU32::new(NONE), AtomicU32::new(NONE)],
            taking: RawLock::new(),
        })
    }

    /// A mutator inside the gate: the object is to be finalized when nothing else refers to it. `None` when the table
    /// is full.
    pub fn add_finalizer(&self, object: Address) -> Option<()> {
        self.finalizers
            .create(&[Value::reference(object), WAITING])
            .map(|_| ())
    }

    /// A mutator inside the gate: takes the object that became ready first.
    pub fn take_ready(&self) -> Option<Address> {
        self.taking.lock();
        let first = self.ready[0].load(Ordering::Relaxed);
        let object = (first != NONE).then(|| {
            let next = self.finalizers.next(first);
            self.ready[0].store(next, Ordering::Relaxed);
            if next == NONE {
                self.ready[1].store(NONE, Ordering::Relaxed);
            }
            let object = self.finalizers.load(first);
            self.finalizers.discard(first);
            object
        });
        self.taking.unlock();
        object.and_then(Value::as_object)
    }

    /// Leader: puts an entry at the end of the ready list.
    fn make_ready(&self, number: u32) {
        store(self.finalizers.second(number), READY);
        self.finalizers.set_next(number, NONE);
        let last = self.ready[1].swap(number, Ordering::Relaxed);
        if last == NONE {
            self.ready[0].store(number, Ordering::Relaxed);
        } else {
            self.finalizers.set_next(last, number);
        }
    }

    /// Visits the slots that are roots: those of ready finalizers.
    pub fn visit_roots(&self, mut visit: impl FnMut(Address)) {
        let mut number = self.ready[0].load(Ordering::Relaxed);
        while number != NONE {
            visit(self.finalizers.slot(number));
            number = self.finalizers.next(number);
        }
    }

    /// Visits every slot that may hold a reference, in a stopped world.
    pub fn visit_all(&self, mut visit: impl FnMut(Address)) {
        let ephemerons = &self.ephemerons.handles;
        for table in [&self.references, ephemerons, &self.finalizers] {
            for number in 0..table.prepare() as u32 {
                visit(table.slot(number));
            }
        }
        for number in 0..ephemerons.prepare() as u32 {
            if ephemerons.load(number).as_object().is_some() {
                visit(ephemerons.second(number));
            }
        }
    }

    /// Leader, after all roots were traced: goes through the tables. How many objects became ready to be finalized. The
    /// trace looks up what waits for an object ([`Keys`](super::waiting::Keys)) in the same table, if there is one.
    pub fn process(
        &self,
        engine: &mut Engine,
        crew: &Crew,
        workers: usize,
        trace: &dyn Liveness,
        waiting: Option<&Waiting<'_>>,
    ) -> usize {
        let ephemerons = &self.ephemerons;
        ephemerons.trace(engine, crew, workers, trace, waiting);
        clear(&self.references, trace);
        let ready = self.resurrect(engine, crew, workers, trace);
        if ready > 0 && waiting.is_none() {
            ephemerons.trace_by_passes(engine, crew, workers, trace);
        }
        ephemerons.settle(engine, crew, workers, trace);
        ready
    }

    /// Makes dead objects with finalizers ready, and traces from them.
    fn resurrect(
        &self,
        engine: &mut Engine,
        crew: &Crew,
        workers: usize,
        trace: &dyn Liveness,
    ) -> usize {
        let mut ready = 0;
        for number in 0..self.finalizers.prepare() as u32 {
            if let Some(object) = self.finalizers.load(number).as_object() {
                match trace.place(object) {
                    Some(place) => self.finalizers.store(number, Value::reference(place)),
                    None if load(self.finalizers.second(number)) == WAITING => {
                        self.make_ready(number);
                        ready += 1;
                    }
                    None => {}
                }
            }
        }
        if ready > 0 {
            let task = |local: &mut WorkerState, _| {
                self.visit_roots(|slot| {
                    if let Some(object) = load(slot).as_object() {
                        store(slot, Value::reference(trace.keep(local, object)));
                    }
                });
            };
            let pass = WithTasks { task, trace };
            engine.run(crew, workers, 1, &pass);
        }
        ready
    }
}

/// Clears the slots of what does not live, and updates the others.
fn clear(table: &Handles, trace: &dyn Liveness) {
    for number in 0..table.prepare() as u32 {
        if let Some(object) = table.load(number).as_object() {
            table.store(
                number,
                trace.place(object).map_or(Value::NULL, Value::reference),
            );
        }
    }
}
