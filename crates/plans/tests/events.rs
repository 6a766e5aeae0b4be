//! What a collection of the mark-sweep heap says of itself.

#![cfg(not(loom))]

mod harness;

use gleaner_base::events::Phase;
use harness::Bench;

#[test]
fn every_event_has_its_time() {
    let mut bench = Bench::new("");
    bench.collect();
    assert_eq!(bench.events(Phase::ZeroingKernel).len(), 1);
    for event in bench.heap.events.iter() {
        assert!(event.start_ns > 0, "{:?} has no time", event.phase);
    }
}
