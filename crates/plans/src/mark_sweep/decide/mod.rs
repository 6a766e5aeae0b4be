//! What the collector of the libgc heap decides by itself, as pure functions from measurements to a decision and its
//! reason.

#![forbid(unsafe_code)]

pub mod advice;
pub mod balance;
pub mod beside;
pub mod cycle;
pub mod dying_links;
pub mod extent;
pub mod heap_size;
pub mod helper;
pub mod idle;
pub mod idle_collection;
pub mod pacer;
pub mod prefetching;
pub mod watching;
