//! Random programs over the whole interface: under every policy they reach what an oracle says.

#[path = "../harness/again.rs"]
mod again;
mod differential;
#[path = "../programs/mod.rs"]
mod programs;
mod quarantine;
#[path = "../../../plans/tests/harness/rng.rs"]
#[allow(dead_code, reason = "shared with the tests of another crate")]
mod random;
#[path = "../replay/mod.rs"]
mod replay;
mod seeds;
#[path = "../harness/setups.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod setups;
#[path = "../harness/weak_graph.rs"]
mod weak_graph;
mod weak_slots;
mod zeroing;
mod zeroing_switches;
