//! What a collection of the mark-sweep heap says of itself.

#![cfg(not(loom))]

mod harness;

use gleaner_base::events::Phase;
use gleaner_os::topology::Topology;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use harness::{Bench, crew, grow};

#[test]
fn every_event_has_its_time() {
    let mut bench = Bench::new("");
    bench.collect();
    assert_eq!(bench.events(Phase::ZeroingKernel).len(), 1);
    for event in bench.heap.events.iter() {
        assert!(event.start_ns > 0, "{:?} has no time", event.phase);
    }
}

#[test]
fn each_processor_of_the_machine_has_a_worker() {
    let crew = crew();
    assert_eq!(grow(crew, 5), 5);
    let mut bench = Bench::on(Topology::synthetic(3, 2), "markers=0", crew);
    let kept = bench.allocate(NORMAL, 2 << 20).unwrap();
    bench.keep(kept);
    let workers = |bench: &mut Bench| {
        bench.collect();
        bench.events(Phase::Mark).last().unwrap().workers
    };
    assert_eq!(workers(&mut bench), 6);
    // Another machine, as when the limits of the process change.
    bench.heap.topology = Topology::synthetic(1, 2);
    assert_eq!(workers(&mut bench), 2);
    crew.dismiss();
}
