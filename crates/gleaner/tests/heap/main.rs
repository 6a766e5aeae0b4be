//! Heaps as embedders use them: objects, roots, weak references, generations, sizes and mistakes. What asks about its process, or changes it, has a process of its own beside this one.

#[path = "../harness/again.rs"]
mod again;
mod ages;
mod basics;
mod by_turns;
mod comes_and_goes;
mod constants;
mod crew;
mod ephemerons;
mod fields;
#[path = "../harness/finalized.rs"]
mod finalized;
mod finalizers;
mod full_heaps;
mod generations;
mod handles;
mod heap_roots;
mod holes;
mod immortal;
mod in_place;
mod large_garbage;
mod limits;
mod link_order;
mod listeners;
mod locked;
mod mark_region;
mod memory;
mod pieces;
mod pins;
mod places;
#[path = "../../../plans/tests/harness/rng.rs"]
#[allow(dead_code, reason = "shared with the tests of another crate")]
mod random;
mod regions;
#[path = "../harness/setups.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod setups;
mod side_by_side;
mod stops;
mod threads;
mod tight;
mod traced;
mod weak;
mod weak_objects;
