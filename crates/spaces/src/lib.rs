//! Where objects live. Of the libgc heap: blocks, size classes, the mark-sweep space, large objects. Of the precise
//! heap: the nursery, the old space with mark-sweep and mark-compact, and large objects.
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod block;
pub mod bump;
pub mod kinds;
pub mod large;
pub mod large_objects;
pub mod layout;
pub mod mark_compact;
pub mod mark_sweep;
pub mod nursery;
pub mod size_classes;
pub mod tenured;

pub use block::BlockTable;
pub use layout::Layout;
pub use mark_sweep::MarkSweep;
