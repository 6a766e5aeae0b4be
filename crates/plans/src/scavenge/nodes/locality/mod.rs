//! Which node's memory each worker reads and writes, counted on a synthetic machine of several memory nodes (ASPLOS
//! 2013, section 4.2 and Table 4): what page policies do by themselves, apart from the host's caches and scheduler.
//!
//! On a synthetic machine the policy of its space alone says to which node a page belongs: that of its fragment, or one
//! after the other. Under `first-touch` that is the node of the thread that took the page first, for a TLAB, a copy or
//! a large object, until the page is given back. A worker belongs to a node, and counts objects and slots by the node
//! that they lie on.
//!
//! The leader makes and reads the sums in stopped worlds; workers count in their own states; a page's owner is a byte
//! that any thread writes once.

mod counts;
mod sums;

pub(in crate::scavenge) use counts::no_sums;
pub use counts::{ByNode, Counts, Locality, Sums};
