//! What a collection of the mark-sweep heap says of itself.

#![cfg(not(loom))]

mod harness;

use gleaner_base::events::Phase;
use gleaner_os::topology::Topology;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use gleaner_spaces::mark_sweep::prefetch::Prefetch;
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

/// Statistics and log tell the same of stops: what comes before a stop, and after it, the program does not wait for.
#[test]
fn stops_are_as_long_as_the_log_says() {
    let mut bench = Bench::new("");
    let mut all = 0;
    for _ in 0..20 {
        bench.collect();
        let last = |phase| *bench.events(phase).last().unwrap();
        let (stop, resume) = (last(Phase::StopWorld), last(Phase::ResumeWorld));
        all += resume.start_ns + resume.duration_ns - stop.start_ns;
    }
    assert!(all > 0);
    assert_eq!(bench.heap.totals.stopped_ns, all);
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

/// The third collection tries what was not the fastest lately, the fourth does not; where the user says how, nothing is tried.
#[test]
fn another_prefetching_is_told_when_it_is_tried() {
    let mut bench = Bench::new("markers=1,prefetch=auto");
    let mut used = Vec::new();
    for _ in 0..4 {
        bench.collect();
        used.push(bench.heap.engine.prefetch());
    }
    assert_eq!(used[..2], [Prefetch::Edges; 2]);
    assert_eq!(used[2..], [Prefetch::Fifo, Prefetch::Edges]);
    let told = bench.events(Phase::Prefetch);
    let told: Vec<_> = told.iter().map(|it| (it.collection, it.reason)).collect();
    let expected = [(3, "fifo, a trial"), (4, "edges, the fastest lately")];
    assert_eq!(told, expected);
    for list in ["markers=1,prefetch=edges", "markers=1,prefetch=fifo"] {
        let mut bench = Bench::new(list);
        (0..20).for_each(|_| bench.collect());
        assert!(bench.events(Phase::Prefetch).is_empty(), "{list}");
    }
}

/// A collection that keeps marks finds little, for which it takes long: that tells nothing of how to prefetch.
#[test]
fn nothing_is_tried_in_collections_that_keep_marks() {
    let mut bench = Bench::new("markers=1,prefetch=auto,generations=sticky,stress=1000000");
    if bench.heap.space.written.is_none() {
        println!("skipped: no pages are watched here");
        return;
    }
    let kept = bench.allocate(NORMAL, 2 << 20).unwrap();
    bench.keep(kept);
    let mut keeping = 0;
    for _ in 0..40 {
        bench.collect_new("allocation");
        keeping += usize::from(bench.heap.extent.keeps_marks());
        let is_tried = bench.heap.engine.prefetch() == Prefetch::Fifo;
        assert!(!(is_tried && bench.heap.extent.keeps_marks()));
    }
    assert!(keeping > 0);
}
