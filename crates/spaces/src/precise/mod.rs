//! The spaces of the precise heap: the nursery, the old space with mark-sweep, mark-compact and mark-region, and large
//! objects.
//!
//! - [`fragmented`]: a space of the nursery, cut for memory nodes
//! - [`nursery`]: eden and the survivor spaces; [`bump`]: how threads share a region that is filled upward
//! - [`gaps`]: what is free between objects that a collection has left in the nursery
//! - [`tenured`]: what was promoted or may not move, hole by hole; [`mark_compact`]: where what lives slides to;
//!   [`mark_region`]: holes that are free lines, and blocks that are evacuated
//! - [`large_objects`]: pages of their own
//! - [`regions`]: the order of all of them, by kind and memory node

pub mod arraylets;
pub mod bump;
pub mod fragmented;
pub mod gaps;
pub mod large_objects;
pub mod mark_compact;
pub mod mark_region;
pub mod nursery;
pub mod regions;
pub mod tenured;

#[cfg(all(test, not(loom)))]
mod single_thread {
    //! What tests with one thread have.

    use gleaner_base::contexts::{AllocatorLocked, WorldStopped};

    pub fn stopped() -> WorldStopped<'static> {
        // SAFETY: a test that calls this has one thread.
        unsafe { WorldStopped::begin() }
    }

    pub fn locked() -> AllocatorLocked<'static> {
        // SAFETY: a test that calls this has one thread.
        unsafe { AllocatorLocked::begin() }
    }
}
