//! What weak processing is told, what it answers, and what it finds broken.

use core::fmt;

use gleaner_mem::address::Address;

/// A registration failed because memory for its entry cannot be had. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl From<alloc::collections::TryReserveError> for NoMemory {
    fn from(_: alloc::collections::TryReserveError) -> NoMemory {
        NoMemory
    }
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory for a finalizer, link or toggle reference")
    }
}

/// What the client may change about weak processing between two collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Finalize in the manner of Java: an object that unordered finalizable objects still reach may wait for them
    /// ([`Order::Unreachable`](super::Order::Unreachable)). Without it, `Unreachable` means `Ordered`.
    pub java_finalization: bool,
}

/// What [`Weak::decide`](super::Weak::decide) and [`Weak::settle`](super::Weak::settle) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Finalizers that became ready; [`Finalizers::newly_ready`](super::Finalizers::newly_ready) names their objects.
    pub newly_ready: usize,
    /// Link words set to null, short and long, because their objects died.
    pub links_cleared: usize,
    /// Links forgotten, their words untouched, because the objects that contained them died.
    pub links_dropped: usize,
    /// Toggle references forgotten because their objects died.
    pub toggle_refs_dropped: usize,
    /// Finalizable objects seen to reach themselves: they are neither finalized nor reclaimed. At least one is counted
    /// for every cycle that no other finalizable object leads to; the rest depends on the order of visits.
    pub cycles: usize,
    /// One of those objects, for the warning.
    pub cycle_example: Option<Address>,
}

/// A broken promise found by [`Weak::verify`](super::Weak::verify).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What should have been true.
    pub rule: &'static str,
    /// The object or link of which it is not.
    pub address: Address,
}
