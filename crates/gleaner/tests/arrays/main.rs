//! Arrays in every layout: accesses, copies, memory, threads, reports and mistakes.

#[path = "../harness/again.rs"]
mod again;
mod array_guard;
mod array_memory;
mod array_programs;
mod array_report;
mod array_threads;
mod arrays;
#[path = "../harness/bits.rs"]
mod bits;
#[path = "../harness/cases.rs"]
mod cases;
mod compiled_layouts;
mod cursors_go_on;
mod elements;
#[path = "../../../plans/tests/harness/rng.rs"]
#[allow(dead_code, reason = "shared with the tests of another crate")]
mod random;
#[path = "../harness/setups.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod setups;
mod shared_bytes;
