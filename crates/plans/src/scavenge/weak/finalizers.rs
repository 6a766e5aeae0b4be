//! Finalizers as objects of the precise heap: each has an object, a value that it keeps, and an order.
//!
//! A finalizer that waits is in a [table](super::finalizer_table) whose entries are roots. Its slot for the object is a
//! weak one of its type, so that all that updates references knows it; but a trace that reaches a waiting finalizer goes
//! by that slot. When weak references were cleared, the leader goes through the table (`finalizing`):
//!
//! - the object lives: the finalizer waits on;
//! - it is dead, and the finalizer revives it: the object comes to life again with all that it reaches;
//! - it is dead, and the finalizer does not revive it: the slot becomes null, as a weak reference that is queued.
//!
//! In both latter cases the finalizer becomes ready. Ready ones are handed out by their orders, the lowest first, and among
//! those of one order and one collection in the order in which they were made. A finalizer that was handed out or taken
//! back is an ordinary object.
//!
//! # Invariants
//! - The last slot of a finalizer says what it is (`Status`). One that is ready is in the list of its order, linked by
//!   that slot.
//! - A waiting finalizer that was taken back leaves the table when it is next gone through. A ready one has an immediate in
//!   place of its object from then on, and is skipped when its turn comes.
//! - Mutators inside the gate change slots and lists with the lock, and the leader in a stopped world, when no mutator has
//!   it.
//! - Only of a waiting finalizer the slot for the object is weak.

use gleaner_base::sync::{AtomicU64, AtomicUsize, Ordering, RawLock};
use gleaner_mem::Address;
use gleaner_mem::slot::Value;

use super::finalizer_table::FinalizerTable;

/// How many orders there are.
pub const ORDERS: usize = 8;

/// What a finalizer is, as its last slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// Its object was not found dead yet.
    Waiting {
        /// From 0 to 7.
        order: usize,
        /// Whether its object comes to life again.
        revives: bool,
    },
    /// It is to be handed out, and then this one of the same order.
    Ready(Option<Address>),
    /// It was handed out or taken back.
    Free,
}

const FREE: i64 = 2 * ORDERS as i64;

impl Status {
    pub(super) fn value(self) -> Value {
        match self {
            Status::Waiting { order, revives } => {
                Value::immediate(2 * order as i64 + i64::from(revives))
            }
            Status::Ready(next) => next.map_or(Value::NULL, Value::reference),
            Status::Free => Value::immediate(FREE),
        }
    }

    pub(super) fn of(value: Value) -> Status {
        match value.as_immediate() {
            None => Status::Ready(value.as_object()),
            Some(FREE) => Status::Free,
            Some(waiting) => Status::Waiting {
                order: waiting as usize / 2 % ORDERS,
                revives: waiting % 2 == 1,
            },
        }
    }
}

/// A wide root slot: null, or the first or the last finalizer of a list.
#[derive(Default)]
pub(super) struct End(AtomicU64);

impl End {
    pub(super) fn get(&self) -> Option<Address> {
        Value::from_bits(self.0.load(Ordering::Relaxed)).as_object()
    }

    pub(super) fn set(&self, finalizer: Option<Address>) {
        let value = finalizer.map_or(Value::NULL, Value::reference);
        self.0.store(value.bits(), Ordering::Relaxed);
    }
}

/// The ends of a list.
#[derive(Default)]
pub(super) struct List {
    pub(super) first: End,
    pub(super) last: End,
}

/// The finalizers of one heap.
pub struct Finalizers {
    /// Those that wait.
    pub table: FinalizerTable,
    pub(super) ready: [List; ORDERS],
    /// How many are ready and were not taken back.
    pub(super) ready_count: AtomicUsize,
    pub(super) lock: RawLock,
}

impl Finalizers {
    /// None yet, and `most` at most at a time; `None` when the system gives no memory.
    pub fn new(most: usize) -> Option<Finalizers> {
        Some(Finalizers {
            table: FinalizerTable::new(most)?,
            ready: Default::default(),
            ready_count: AtomicUsize::new(0),
            lock: RawLock::new(),
        })
    }

    /// How many are ready.
    pub fn ready_count(&self) -> usize {
        self.ready_count.load(Ordering::Relaxed)
    }

    /// Visits the slots that are roots beside those of the table, all wide.
    pub fn visit_ready(&self, mut visit: impl FnMut(Address)) {
        for list in &self.ready {
            visit(Address::of(&raw const list.first.0));
            visit(Address::of(&raw const list.last.0));
        }
    }
}

/// What has become ready in a collection: the first finalizer of each order, from which the lists lead on.
#[derive(Clone, Copy, Default, Debug)]
pub struct NewlyReady {
    /// By order.
    pub(super) firsts: [Option<Address>; ORDERS],
    /// How many, of all orders.
    pub(super) count: usize,
}
