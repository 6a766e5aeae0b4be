//! Gleaner: mem.
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod address;

pub use address::Address;
