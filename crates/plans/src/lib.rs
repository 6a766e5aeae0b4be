//! Collectors put together from spaces: stopping, roots, weak processing, decisions, the course of a collection.
//!
//! - [`mark_sweep`]: the collector of the libgc heap
//! - [`scavenge`]: the collector of the precise heap
//! - [`shared`]: what both use
//!
//! Neither collector names the other (`make check-layers`).
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod mark_sweep;
pub mod scavenge;
pub mod shared;
