//! What weak processing asks of a trace about its heap: objects and finalizers are gone through by code that is written
//! once for scavenging and marking.

use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;

use super::liveness::Liveness;
use crate::scavenge::Scavenge;

/// A trace of a heap.
pub trait Objects<F: SlotFormat>: Liveness {
    /// The heap.
    fn heap(&self) -> &Scavenge<F>;
    /// Whether an object that was reached is old when this trace is over, and cards have to say so.
    fn needs_cards(&self, object: Address) -> bool;
}
