//! A heap of 1 MB with many more workers than processors, collected over and over: no wake-up is lost and nothing hangs,
//! whatever places pages, parks workers and hands out tasks. `GLEANER_COLLECTIONS` says how often; `make
//! test-soak-workers` says 100,000 times.

use gleaner::{Heap, Pages, Parking, Structure, TaskQueue};

const NODE: Structure = Structure {
    references: 1,
    bytes: 8,
};
/// More than any machine's processors that this runs on.
const WORKERS: usize = 48;

/// A list stays whole while a heap is collected so often, young and old in turns.
fn collect(pages: Pages, parking: Parking, queue: TaskQueue, times: usize) {
    let builder = Heap::builder()
        .limit(1 << 20)
        .workers(WORKERS)
        .crew(gleaner::Crew::All);
    let builder = builder.pages(pages).parking(parking).task_queue(queue);
    let builder = builder.option("topology", "node:8 core:6").unwrap();
    let heap = builder.build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let list = scope.null();
        for round in 0..times {
            scope.nested(|scope| {
                let head = scope.allocate(node).unwrap();
                scope.write_u64(head, 0, round as u64).unwrap();
                // A hundred at a time, so that there is something to copy and something to free.
                if round % 100 != 0 {
                    scope.set(head, 0, list).unwrap();
                }
                scope.assign(list, head);
                scope.collect(round % 16 == 15);
                let length = round % 100;
                let (at, end) = (scope.null(), round - length);
                scope.assign(at, list);
                for number in (end..=round).rev() {
                    assert_eq!(scope.read_u64(at, 0), number as u64);
                    let next = scope.get(at, 0);
                    scope.assign(at, next);
                }
                assert!(scope.is_null(at));
            });
        }
    });
    let totals = mutator.totals();
    assert_eq!(totals.scavenges + totals.full_collections, times as u64);
}

#[test]
fn a_small_heap_is_collected_without_end() {
    let times = std::env::var("GLEANER_COLLECTIONS").map_or(300, |times| times.parse().unwrap());
    for pages in [Pages::FirstTouch, Pages::Fragmented, Pages::Segregated] {
        collect(pages, Parking::Futex, TaskQueue::LockFree, times);
    }
    collect(
        Pages::Interleaved,
        Parking::Monitor,
        TaskQueue::Locked,
        times,
    );
}
