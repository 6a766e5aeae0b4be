//! Snapshots of the heap: what lives, and what keeps it alive, as a text that `gleaner heap` reads (`snapshot=FILE`).
//!
//! A snapshot is written at the end of a collection's stop, when everything that can be reached is marked. It has first
//! the roots with the objects that they lead to, then each marked object with those that it refers to, by the same
//! rules by which objects are marked.
//!
//! Runs on the collecting thread under the allocator lock. Nothing here allocates but [`Snapshots::from_options`], which the
//! heap calls as it starts (I1).

mod places;
mod write;

pub use crate::shared::snapshot::{News, Snapshots};
