//! The same seeded programs under every policy: what they reach at the end is what an oracle says.

use crate::programs::{Program, Types};
use crate::random::at_length;
use gleaner::{
    Builder, Crew, Generations, Heap, NurseryPolicy, OldPolicy, Parking, References, TaskQueue,
    TraceOrder,
};

fn run(builder: Builder, seed: u64, steps: usize) -> gleaner::Totals {
    let heap = builder.verify(true).poison(true).build().unwrap();
    let types = Types::register(&heap);
    let mut mutator = heap.attach().unwrap();
    let outcome = Program::new(seed, 24).run(&mut mutator, types, steps);
    assert_eq!(outcome.failed, 0, "seed {seed}: there should be room");
    mutator.totals()
}

/// Both slot formats with each old generation, and each trace order with one of them, `hierarchical` with each
/// somewhere; both ways of parking with both task queues.
/// Sizes are fixed or not. At last, heaps that never collect the young generation by itself.
fn policies() -> [Builder; 13] {
    let [a, b, c, d, e, f] = copying();
    let ([g, h], [i, j]) = (in_place(), by_turns());
    let [never, never_by_lines, never_in_place] = [&a, &e, &g].map(|of| {
        let of = of.clone().generations(Generations::Never);
        of.resize(true)
    });
    [
        a,
        b,
        c,
        d,
        e,
        f,
        never,
        never_by_lines,
        g,
        h,
        never_in_place,
        i,
        j,
    ]
}

/// Heaps that collect the young generation by itself.
fn generational() -> [Builder; 10] {
    let ([a, b, c, d, e, f], [g, h]) = (copying(), in_place());
    let [i, j] = by_turns();
    [a, b, c, d, e, f, g, h, i, j]
}

/// Whether new objects lie in the old space changes with each collection that leaves nothing young.
fn by_turns() -> [Builder; 2] {
    let [.., e, f] = copying();
    [e, f].map(|of| of.nursery(NurseryPolicy::Auto).stress(400))
}

/// New objects lie in the old space.
fn in_place() -> [Builder; 2] {
    let [.., e, f] = copying();
    [e, f].map(|of| of.nursery(NurseryPolicy::InPlace))
}

/// New objects have a space of their own.
fn copying() -> [Builder; 6] {
    use {OldPolicy::*, References::*, TraceOrder::*};
    [
        (Wide, MarkCompact, Hierarchical),
        (Wide, MarkSweep, Breadth),
        (Compressed, MarkCompact, Depth),
        (Compressed, MarkSweep, Hierarchical),
        (Wide, MarkRegion, Depth),
        (Compressed, MarkRegion, Hierarchical),
    ]
    .map(|(references, old, order)| {
        Heap::builder()
            .references(references)
            .old(old)
            .trace_order(order)
            .parking(if old == MarkSweep {
                Parking::Monitor
            } else {
                Parking::Futex
            })
            .task_queue(if references == Wide {
                TaskQueue::Locked
            } else {
                TaskQueue::LockFree
            })
            .resize(old == MarkSweep || (old, references) == (MarkRegion, Compressed))
            .prefetch(references == Wide)
            .limit(12 << 20)
    })
}

#[test]
fn under_any_number_of_workers() {
    let mut number = 0;
    for builder in policies() {
        for workers in [1, 2, 5, 8] {
            number += 1;
            for seed in at_length(number % 3..number % 3 + 1, 0..3) {
                run(
                    builder
                        .clone()
                        .workers(workers)
                        .crew(Crew::All)
                        .young(1 << 20),
                    seed,
                    4000,
                );
            }
        }
    }
}

/// As many of the workers as pay take part, another number in each collection.
#[test]
fn with_as_many_workers_as_pay() {
    for builder in policies() {
        for seed in 3..6 {
            let builder = builder.clone().workers(4).crew(Crew::Auto).young(1 << 20);
            run(builder.clone().verify(true), seed, 4000);
            run(builder.stress(7), seed, 1000);
        }
    }
}

/// Each page policy with each number of nodes, with more workers than nodes and with fewer; with each kind of heap
/// somewhere.
#[test]
fn on_any_machine_under_any_page_policy() {
    use gleaner::{OldPages, Pages, Zeroing};
    let young = [
        Pages::FirstTouch,
        Pages::Interleaved,
        Pages::Fragmented,
        Pages::FragmentedFixed,
        Pages::Segregated,
    ];
    let zeroing = [Zeroing::HotPath, Zeroing::Concurrent, Zeroing::Bulk];
    // Where new objects lie in the old space there is no other that could be cut.
    let (kinds, mut number) = (copying(), 0);
    for pages in young {
        for machine in [
            "node:1 core:2",
            "node:2 core:2",
            "node:4 core:2",
            "node:8 core:6",
        ] {
            for workers in [1, 3, 9] {
                number += 1;
                let builder = kinds[number % kinds.len()].clone();
                let builder = builder.option("topology", machine).unwrap();
                let builder = builder
                    .pages(pages)
                    .old_pages([OldPages::FirstTouch, OldPages::Interleaved][number % 2])
                    .zeroing(zeroing[number % zeroing.len()])
                    .workers(workers)
                    .crew(Crew::All)
                    .young(1 << 20);
                run(builder, number as u64 + 500, 4000);
            }
        }
    }
}

#[test]
fn under_any_tenure_and_buffer() {
    let tlabs = [64, 4 << 10, 1 << 20];
    let (mut promoted, mut number) = (0, 0);
    for builder in policies() {
        // A third has each policy with each tenure and each buffer, and each tenure with each buffer.
        for tenure in [0, 1, 3, 15] {
            number += 1;
            for &tlab in at_length(&tlabs[number % 3..=number % 3], &tlabs) {
                let builder = builder.clone().workers(2).crew(Crew::All).young(2 << 20);
                let totals = run(
                    builder.tenure(tenure).tlab(tlab),
                    u64::from(tenure) + 100,
                    4000,
                );
                promoted += totals.promoted_bytes;
            }
        }
    }
    assert!(promoted > 0);
}

#[test]
fn with_a_collection_at_every_allocation() {
    for builder in generational() {
        for seed in 200..203 {
            let totals = run(
                builder
                    .clone()
                    .workers(3)
                    .crew(Crew::All)
                    .young(1 << 20)
                    .stress(1),
                seed,
                1000,
            );
            assert!(
                totals.scavenges > 150 && totals.full_collections > 150,
                "{totals:?}"
            );
        }
    }
}

#[test]
fn in_a_heap_that_is_almost_too_small() {
    for builder in policies() {
        let mut failed = 0;
        for seed in 300..at_length(303, 306) {
            let heap = builder
                .clone()
                .limit(1 << 20)
                .workers(2)
                .crew(Crew::All)
                .verify(true)
                .poison(true)
                .build()
                .unwrap();
            let types = Types::register(&heap);
            let mut mutator = heap.attach().unwrap();
            failed += Program::new(seed, 400)
                .run(&mut mutator, types, 4000)
                .failed;
        }
        assert!(failed > 0, "the heap should have been full at times");
    }
}

#[test]
fn many_mutators_at_once() {
    for builder in policies() {
        let heap = builder
            .workers(2)
            .crew(Crew::All)
            .young(1 << 20)
            .verify(true)
            .poison(true)
            .build()
            .unwrap();
        let types = Types::register(&heap);
        std::thread::scope(|threads| {
            for seed in 400..at_length(416, 432) {
                let heap = &heap;
                threads.spawn(move || {
                    // Threads come and go while others collect.
                    for part in 0..3 {
                        let mut mutator = heap.attach().unwrap();
                        let program = Program::new(seed * 10 + part, 24);
                        assert_eq!(program.run(&mut mutator, types, 300).failed, 0);
                        mutator.blocking(std::thread::yield_now);
                    }
                });
            }
        });
        let totals = heap.totals();
        assert!(
            totals.scavenges + totals.full_collections > 10,
            "{totals:?}"
        );
    }
}

#[test]
fn many_mutators_in_a_heap_of_few_buffers_are_never_out_of_memory() {
    for builder in policies() {
        let heap = builder
            .limit(1 << 20)
            .workers(2)
            .crew(Crew::All)
            .build()
            .unwrap();
        let types = Types::register(&heap);
        std::thread::scope(|threads| {
            for _ in 0..16 {
                let heap = &heap;
                threads.spawn(move || {
                    let mut mutator = heap.attach().unwrap();
                    mutator.scope(|scope| {
                        for _ in 0..30_000 {
                            scope.nested(|scope| types.allocate(scope)).unwrap();
                        }
                    });
                });
            }
        });
    }
}
