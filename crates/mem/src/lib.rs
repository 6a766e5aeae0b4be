//! Words and memory of the collector: addresses, the arena for its own data, zeroing.
#![cfg_attr(not(any(test, loom)), no_std)]

#[cfg(test)]
extern crate std;

pub mod address;
pub mod arena;
pub mod zero;

pub use address::Address;
