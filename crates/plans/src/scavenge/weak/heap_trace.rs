//! What weak processing asks of a trace about its heap.

use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;

use super::liveness::Liveness;
use crate::scavenge::Scavenge;

/// A trace of a heap.
pub trait HeapTrace: Liveness {
    /// What the slots of the heap's objects are like.
    type Format: SlotFormat;
    /// The heap.
    fn heap(&self) -> &Scavenge<Self::Format>;
    /// Whether an object that was reached is old when this trace is over, and cards have to say so.
    fn needs_cards(&self, object: Address) -> bool;
}
