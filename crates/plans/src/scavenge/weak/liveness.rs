//! What a trace knows of objects.

use gleaner_mem::Address;

use crate::scavenge::trace::{Trace, WorkerState};

/// What a trace knows of objects.
pub trait Liveness: Trace {
    /// Where an object is if it lives, as far as was traced.
    fn place(&self, object: Address) -> Option<Address>;
    /// Makes an object live, and says where it is.
    fn keep(&self, local: &mut WorkerState, object: Address) -> Address;
}
