//! Collectors put together from spaces: stopping, roots, weak processing, decisions, the course of a collection.
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod collect;
pub mod decide;
pub mod heap;
pub mod mutator;
pub mod record;
pub mod roots;
pub mod scavenge;
pub mod stacks;
pub mod stop;
pub mod view;
pub mod weak;

pub use heap::Heap;
