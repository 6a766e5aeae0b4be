//! Where objects live.
//!
//! - [`mark_sweep`]: the libgc heap's space of conservatively scanned objects that never move
//! - [`precise`]: the spaces of the precise heap, whose objects move
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod mark_sweep;
pub mod precise;
