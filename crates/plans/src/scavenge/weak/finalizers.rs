//! Finalizers as objects of the precise heap: each has an object, a value that it keeps, and an order.
//!
//! A finalizer waits in a list that is a root, the newest first, so a scavenge follows the young ones and stops at the
//! first old one. Its slot for the object is a weak one of its type, so that all that updates references knows it; but
//! a trace that reaches a waiting finalizer puts it into a list of its own, and decides about it after weak references
//! were cleared (`finalizing`):
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
//! - A finalizer's state says in which list it is: of those that wait, of the ready ones of its order, or none. Lists are
//!   doubly linked through slots of the finalizers.
//! - Mutators inside the gate change lists and states with the lock, and the leader in a stopped world, when no mutator
//!   has it.
//! - Only of a waiting finalizer the slot for the object is weak.

use gleaner_base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, RawLock};
use gleaner_mem::Address;
use gleaner_mem::header::Header;
use gleaner_mem::slot::Value;

use super::discovered::Discovered;

/// How many orders there are.
pub const ORDERS: usize = 8;

/// What a finalizer is, as one word: its order in the highest byte, its status in the next, and below its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State(pub(super) u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// In no list.
    Free = 0,
    Waiting = 1,
    Ready = 2,
}

const NUMBER_BITS: u32 = 47;
const REVIVES: u64 = 1 << NUMBER_BITS;

impl State {
    pub(super) fn waiting(order: usize, revives: bool, number: u64) -> State {
        let revives = if revives { REVIVES } else { 0 };
        State((order as u64) << 56 | revives | number & (REVIVES - 1)).with(Status::Waiting)
    }

    pub(super) fn with(self, status: Status) -> State {
        State(self.0 & !(0xff << 48) | (status as u64) << 48)
    }

    pub(super) fn status(self) -> Status {
        match self.0 >> 48 & 0xff {
            1 => Status::Waiting,
            2 => Status::Ready,
            _ => Status::Free,
        }
    }

    pub(super) fn order(self) -> usize {
        (self.0 >> 56) as usize % ORDERS
    }

    pub(super) fn revives(self) -> bool {
        self.0 & REVIVES != 0
    }

    /// How many were made before.
    pub(super) fn number(self) -> u64 {
        self.0 & (REVIVES - 1)
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

/// The ends of a doubly linked list.
#[derive(Default)]
pub(super) struct List {
    pub(super) first: End,
    pub(super) last: End,
}

/// The finalizers of one heap.
#[derive(Default)]
pub struct Finalizers {
    /// The type of finalizers, or 0 if there is none yet. Release partners Acquire.
    pub(super) id: AtomicU32,
    /// Waiting ones that the trace has reached.
    pub discovered: Discovered,
    /// Nobody asks for the last of these, and it is no root: a trace that began there, too, would find the others in no
    /// order.
    pub(super) waiting: List,
    pub(super) ready: [List; ORDERS],
    /// How many are ready, of these and of those beside the heap.
    pub ready_count: AtomicUsize,
    /// How many were made.
    pub(super) made: AtomicU64,
    pub(super) lock: RawLock,
}

impl Finalizers {
    /// Visits the slots that are roots, all wide.
    pub fn visit_roots(&self, mut visit: impl FnMut(Address)) {
        visit(Address::of(&raw const self.waiting.first.0));
        for list in &self.ready {
            visit(Address::of(&raw const list.first.0));
            visit(Address::of(&raw const list.last.0));
        }
    }

    /// Whether an object with this header is a finalizer.
    pub(super) fn is_finalizer(&self, header: Header) -> bool {
        header.type_id().get() == self.id.load(Ordering::Acquire) && !header.type_id().is_filler()
    }

    pub(super) fn list(&self, state: State) -> Option<&List> {
        match state.status() {
            Status::Free => None,
            Status::Waiting => Some(&self.waiting),
            Status::Ready => Some(&self.ready[state.order()]),
        }
    }
}
