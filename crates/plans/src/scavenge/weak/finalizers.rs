//! Finalizers of the precise heap: each has an object, a value that it keeps, and an order.
//!
//! What the heap knows of a finalizer is an entry of a [table](super::finalizer_table) beside the heap. What the program
//! has, if it wants to take the finalizer back, is an object of one of the heap's own types, which says where the entry is;
//! so it costs a collection nothing when the program has dropped it. The value is a root, and the object for which a
//! finalizer waits is not. When weak references were cleared, a trace looks at the entries (`finalizer_sifting`):
//!
//! - the object lives: the finalizer waits on;
//! - it is dead, and the finalizer revives it: the object comes to life again with all that it reaches;
//! - it is dead, and the finalizer does not revive it: the slot becomes null, as a weak reference that is queued.
//!
//! In both latter cases the finalizer becomes ready. Ready ones are handed out by their orders, the lowest first, and among
//! those of one order and one collection in the order in which they were made. Until then both slots are roots.

/// How many orders there are.
pub const ORDERS: usize = 8;

const REVIVES: u64 = 1 << 3;
const DEAD: u64 = 1 << 4;
const TAKEN_BACK: u64 = 1 << 5;
const ID: u32 = 8;
/// What stands for no identity.
const NO_ID: u32 = u32::MAX;

/// What an entry says of its finalizer beside the slots: the order, whether it revives its object, what became of it, and
/// its identity, if it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Condition(pub(super) u64);

impl Condition {
    /// Of a finalizer of this order, from 0 to 7, without an identity.
    pub(super) fn new(order: usize, revives: bool) -> Condition {
        let revives = if revives { REVIVES } else { 0 };
        Condition((order % ORDERS) as u64 | revives | u64::from(NO_ID) << ID)
    }

    /// The same, of the finalizer that has this identity.
    pub(super) fn of(self, id: u32) -> Condition {
        Condition(self.0 & !(u64::from(NO_ID) << ID) | u64::from(id) << ID)
    }

    /// The identity, of a finalizer that can be taken back.
    pub(super) fn id(self) -> Option<u32> {
        Some((self.0 >> ID) as u32).filter(|&id| id != NO_ID)
    }

    pub(super) fn order(self) -> usize {
        self.0 as usize % ORDERS
    }

    pub(super) fn revives(self) -> bool {
        self.0 & REVIVES != 0
    }

    /// Whether this collection has found that its object is dead. No finalizer is when the world runs.
    pub(super) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    pub(super) fn dead(self) -> Condition {
        Condition(self.0 | DEAD)
    }

    /// As it is when the collection is over.
    pub(super) fn settled(self) -> Condition {
        Condition(self.0 & !DEAD)
    }

    pub(super) fn is_taken_back(self) -> bool {
        self.0 & TAKEN_BACK != 0
    }

    pub(super) fn taken_back(self) -> Condition {
        Condition(self.0 | TAKEN_BACK)
    }
}
