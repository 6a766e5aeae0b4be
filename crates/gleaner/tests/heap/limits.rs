//! The heap never holds more than its limit (I7): what lives is counted by walking a list that fills the heap, and what
//! the spaces use by the heap itself.

use gleaner::{Elements, Generations, Heap, OldPolicy, References, Structure};

const MB: usize = 1 << 20;
const OLD: [OldPolicy; 3] = [
    OldPolicy::MarkCompact,
    OldPolicy::MarkSweep,
    OldPolicy::MarkRegion,
];

/// How a heap is filled.
#[derive(Clone, Copy, Debug)]
struct Case {
    limit: usize,
    bytes: usize,
    workers: usize,
    references: References,
    old: OldPolicy,
    generations: Generations,
    /// Large arrays come and go between.
    large: bool,
}

/// Fills a heap with a list several times; the most that lived, and the most that was in use.
fn fill(case: Case) -> (usize, usize) {
    let heap = Heap::builder()
        .limit(case.limit)
        .workers(case.workers)
        .crew(gleaner::Crew::All)
        .references(case.references)
        .old(case.old)
        .generations(case.generations)
        .build()
        .unwrap();
    let shape = Structure {
        references: 1,
        bytes: (case.bytes - 16) as u32,
    };
    let node = heap.structure(shape).unwrap();
    let size = if case.references == References::Compressed {
        (8 + 4 + case.bytes - 16).next_multiple_of(8)
    } else {
        case.bytes
    };
    let slots = heap.reference_array().unwrap();
    let numbers = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    let (mut lived, mut used) = (0, 0);
    for _ in 0..6 {
        let (most, count) = mutator.scope(|scope| {
            let newest = scope.null();
            let (mut failures, mut count, mut most) = (0, 0, 0);
            if case.large {
                let _ = scope
                    .nested(|scope| scope.allocate_array(numbers, case.limit as u32 / 4).is_ok());
            }
            while failures < 2 {
                let found = scope.nested(|scope| match scope.allocate(node) {
                    Ok(one) => {
                        scope.set(one, 0, newest).unwrap();
                        scope.assign(newest, one);
                        true
                    }
                    Err(_) => false,
                });
                if found {
                    count += 1;
                } else {
                    failures += 1;
                    most = most.max(heap.used());
                }
            }
            if case.large {
                let length = (case.limit / 10) as u32;
                scope.nested(|scope| {
                    let _ = scope.allocate_references(slots, length);
                });
            }
            (most.max(heap.used()), count)
        });
        lived = lived.max(count * size);
        used = used.max(most);
    }
    (lived, used)
}

#[test]
fn what_lives_and_what_is_used_never_exceed_the_limit() {
    let runs = std::env::var("GLEANER_LIMIT_RUNS").map_or(1, |runs| runs.parse().unwrap());
    let mut worst = (0.0, None);
    for _ in 0..runs {
        for index in 0..16 {
            let case = Case {
                limit: [MB, 3 * MB / 2][index / 2 % 2],
                bytes: [24, 40][index / 4 % 2],
                workers: 1 + index / 8 % 2,
                references: [References::Wide, References::Compressed][index % 2],
                old: OLD[index / 2 % 3],
                generations: [Generations::Auto, Generations::Always][index / 2 % 2],
                large: index % 3 != 1,
            };
            let (lived, used) = fill(case);
            let share = lived.max(used) as f64 / case.limit as f64;
            if share > worst.0 {
                worst = (share, Some((case, lived, used)));
            }
        }
    }
    assert!(worst.0 <= 1.0, "{worst:?}");
}

/// Room for promotions is reserved as they come: no scavenge fails because it promotes more than those before.
#[test]
fn a_scavenge_may_promote_more_than_was_expected() {
    let heap = Heap::builder()
        .limit(32 * MB)
        .young(8 * MB)
        .resize(false)
        .generations(Generations::Always)
        .tenure(0)
        .workers(2)
        .crew(gleaner::Crew::All)
        .verify(true)
        .build()
        .unwrap();
    let shape = Structure {
        references: 1,
        bytes: 16,
    };
    let node = heap.structure(shape).unwrap();
    let mut mutator = heap.attach().unwrap();
    let mut kept = 0;
    mutator.scope(|scope| {
        let newest = scope.null();
        for count in [10, 1000, 100_000, 100, 150_000] {
            for _ in 0..count {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    scope.set(one, 0, newest).unwrap();
                    scope.assign(newest, one);
                });
            }
            kept += count * 32;
            scope.collect(false);
        }
    });
    let totals = mutator.totals();
    assert_eq!((totals.full_collections, totals.scavenges), (0, 5));
    assert_eq!(totals.promoted_bytes, kept);
}
