//! Which node's memory each worker reads and writes, counted on a synthetic machine of several memory nodes (ASPLOS
//! 2013, section 4.2 and Table 4): what page policies do, on any machine, without its caches and its scheduler.
//!
//! On a synthetic machine a page belongs to a node by its space's policy alone: to that of its fragment, or to the
//! nodes in turn. Under `first-touch` it belongs to the node of the thread that took the page first, of a TLAB, a copy
//! or a large object, until the page is given back. A worker belongs to a node, and counts objects and slots by the
//! node that they lie on.
//!
//! The leader makes and reads the sums in stopped worlds; workers count in their own states; a page's owner is a byte
//! that any thread writes once.

mod counts;
mod sums;

pub(in crate::scavenge) use counts::no_sums;
pub use counts::{ByNode, Counts, Locality, Sums};
