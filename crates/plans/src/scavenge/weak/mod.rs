//! Weak references and finalizers of the precise heap, and the order in which they and `ephemerons` are gone through.
//!
//! Weak references and ephemerons are slots of objects (`objects`), which a trace [discovers](discovered) when it
//! reaches the object, or entries of tables beside the heap. When everything that is strongly reachable was traced, all
//! are gone through, in this order:
//!
//! 1. ephemerons whose key lives make their value live, until no more do;
//! 2. weak references to what does not live are cleared;
//! 3. objects with a finalizer that do not live are kept, with all they reach, also through ephemerons, and become
//!    ready to be finalized; weak slots that only they lead to are cleared where even now nothing keeps the referent;
//! 4. ephemerons whose key does not live are cleared.
//!
//! So a weak reference to an object that is about to be finalized is null already, and a finalizer sees whole objects.
//! A scavenge does this with the objects that it condemned; all others live as far as it is concerned.
//!
//! # Invariants
//! - Mutators create and read entries inside the gate, and drop them at any time (see [`handles`]).
//! - An entry of the finalizers is waiting or ready, as its second slot says. Ready ones are roots, and form a list in
//!   the order in which they became ready.

mod decisions;
pub mod discovered;
mod ephemerons;
pub mod finalizers;
pub mod finalizing;
pub mod handles;
pub mod heap_trace;
mod liveness;
pub mod objects;
mod process;
pub mod waiting;
pub mod worker;

use gleaner_base::sync::{AtomicU32, Ordering, RawLock};
use gleaner_mem::Address;
use gleaner_mem::slot::{SlotFormat, Value, Wide};

use crate::scavenge::trace::Engine;
use discovered::{Discovered, Filling};
use ephemerons::Ephemerons;
use finalizers::Finalizers;
use handles::Handles;
pub use liveness::{Liveness, WeakTrace};
use liveness::{goes_by, tasks_of};
pub use process::Process;

const WAITING: Value = Value::immediate(0);
const READY: Value = Value::immediate(1);
const NONE: u32 = u32::MAX;

/// What one heap has that is weak.
pub struct WeakTables {
    /// Objects with weak slots that the trace has reached.
    pub discovered: Discovered,
    /// Weak references.
    pub references: Handles,
    /// Ephemerons.
    pub ephemerons: Ephemerons,
    /// Objects that are to be finalized, and the state of each.
    pub finalizers: Handles,
    /// Finalizers that are objects.
    pub finalizer_objects: Finalizers,
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
            discovered: Discovered::default(),
            references: Handles::new(1, most)?,
            ephemerons: Ephemerons::new(most)?,
            finalizers: Handles::new(2, most)?,
            finalizer_objects: Finalizers::default(),
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
            let count = &self.finalizer_objects.ready_count;
            count.fetch_sub(1, Ordering::Relaxed);
            object
        });
        self.taking.unlock();
        object.and_then(Value::as_object)
    }

    /// Leader: puts an entry at the end of the ready list.
    fn make_ready(&self, number: u32) {
        let count = &self.finalizer_objects.ready_count;
        count.fetch_add(1, Ordering::Relaxed);
        store(self.finalizers.second(number), READY);
        self.finalizers.set_next(number, NONE);
        let last = self.ready[1].swap(number, Ordering::Relaxed);
        if last == NONE {
            self.ready[0].store(number, Ordering::Relaxed);
        } else {
            self.finalizers.set_next(last, number);
        }
    }

    /// How many finalizers are ready, beside the heap and in it.
    pub fn ready_count(&self) -> usize {
        let count = &self.finalizer_objects.ready_count;
        count.load(Ordering::Relaxed)
    }

    /// Visits the slots that are roots: those of ready finalizers, and the ends of the lists of finalizers.
    pub fn visit_roots(&self, mut visit: impl FnMut(Address)) {
        self.finalizer_objects.visit_roots(&mut visit);
        let mut number = self.ready[0].load(Ordering::Relaxed);
        while number != NONE {
            visit(self.finalizers.slot(number));
            number = self.finalizers.next(number);
        }
    }

    /// The tables beside the heap.
    pub fn tables(&self) -> [&Handles; 3] {
        [&self.references, &self.ephemerons.handles, &self.finalizers]
    }

    /// Visits every slot that may hold a reference, in a stopped world.
    pub fn visit_all(&self, mut visit: impl FnMut(Address)) {
        self.finalizer_objects.visit_roots(&mut visit);
        let ephemerons = &self.ephemerons.handles;
        for table in self.tables() {
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

    /// Leader, after all roots were traced: decides about everything weak. How many objects became ready to be finalized.
    pub fn process(&self, run: &mut Process<'_>) -> usize {
        self.ephemerons.trace(run, &self.discovered);
        self.clear_references(run);
        self.clear_slots(run);
        let ready = self.resurrect(run);
        if ready > 0 {
            self.ephemerons.finish(run, &self.discovered);
            self.clear_slots(run);
        }
        self.ephemerons.settle(run, &self.discovered);
        self.forget_discovered(run.engine);
        ready
    }

    /// For how many entries the table of those that wait has room at first; after all roots were traced.
    pub fn most_waiting(&self, engine: &mut Engine) -> usize {
        let room = engine
            .worker_states()
            .map(|local| local.weak.ephemerons + waiting::TAKEN);
        self.ephemerons.count() + room.sum::<usize>()
    }

    /// Clears weak references to what does not live, and updates the others.
    fn clear_references(&self, run: &mut Process<'_>) {
        let table = &self.references;
        let count = table.prepare();
        let tasks = tasks_of(run.trace, table, count);
        run.tasks(tasks, &|trace, local, task| {
            let looks = go_through(table, trace, (task, count), |number, object| {
                let place = trace.place(object);
                table.store(number, place.map_or(Value::NULL, Value::reference));
                place.is_some_and(|place| trace.is_young(place))
            });
            local.weak.weak_looks += looks;
        });
    }

    /// Clears the weak slots of objects that were discovered since the last time.
    fn clear_slots(&self, run: &mut Process<'_>) {
        let segments = self.discovered.prepare();
        run.tasks(segments, &|trace, local, task| {
            let mut clear = |entry: &_| trace.clear(local, entry);
            self.discovered.rest(task, &mut clear);
        });
    }

    fn forget_discovered(&self, engine: &mut Engine) {
        for local in engine.worker_states() {
            (local.weak.discovered, local.weak.ephemerons) = (Filling::NONE, 0);
            local.weak.finalizers = Filling::NONE;
        }
        self.discovered.forget();
        self.finalizer_objects.discovered.forget();
    }

    /// Makes dead objects with finalizers ready, and traces from them.
    fn resurrect(&self, run: &mut Process<'_>) -> usize {
        let (table, trace) = (&self.finalizers, run.trace);
        let mut ready = 0;
        let count = table.prepare();
        for chunk in 0..tasks_of(trace, table, count) {
            go_through(table, trace, (chunk, count), |number, object| {
                if let Some(place) = trace.place(object) {
                    table.store(number, Value::reference(place));
                    return trace.is_young(place);
                }
                if load(table.second(number)) == WAITING {
                    self.make_ready(number);
                    ready += 1;
                }
                true
            });
        }
        let (batch, count) = trace.sort_out();
        ready += count;
        if ready > 0 {
            run.tasks(1, &|trace, local, _| {
                self.visit_roots(|slot| {
                    if let Some(object) = load(slot).as_object() {
                        store(slot, Value::reference(trace.keep(local, object)));
                    }
                });
                trace.revive(local, batch);
            });
            trace.announce(batch);
        }
        ready
    }
}

/// Calls `each` with the handles of a chunk, of `count` in the table, and their objects, unless the trace goes by them. It
/// answers whether the object is young from now on, if it lives. How many handles were looked at.
fn go_through(
    table: &Handles,
    trace: &dyn Liveness,
    (chunk, count): (usize, usize),
    mut each: impl FnMut(u32, Address) -> bool,
) -> u64 {
    if goes_by(trace, table, chunk) {
        return 0;
    }
    let (mut young, mut looks) = (false, 0);
    for number in handles::chunk(chunk, count) {
        looks += 1;
        if let Some(object) = table.load(number).as_object() {
            young |= each(number, object);
        }
    }
    table.set_young(chunk, young);
    looks
}
