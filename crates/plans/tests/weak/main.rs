//! Weak processing against a model heap: the cases of the contract one by one, random programs compared with a naive
//! model, and the promise that a stopped world sees no allocation.

#![cfg(not(loom))]

mod cases;
mod count_allocations;
mod heap;
mod model;
mod random;

#[global_allocator]
static ALLOCATOR: count_allocations::Counting = count_allocations::Counting;
