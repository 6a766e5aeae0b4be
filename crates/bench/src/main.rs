//! Workloads and microbenchmarks.
fn main() {}
