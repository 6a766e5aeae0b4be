//! Where objects live: blocks, size classes, the mark-sweep space, large objects.
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod block;
pub mod kinds;
pub mod large;
pub mod layout;
pub mod mark_sweep;
pub mod size_classes;

pub use block::BlockTable;
pub use layout::Layout;
pub use mark_sweep::MarkSweep;
