//! Whether the young generation is collected by itself (`generations`): what lives is the same whatever is decided, and
//! `auto` decides by what the program does.

#[path = "../../plans/tests/harness/rng.rs"]
#[allow(dead_code, reason = "shared with the tests of another crate")]
mod random;

use gleaner::{Elements, Generations, Heap, OldPolicy, References, Scope, Structure, Totals};
use random::Rng;

const LIVE: usize = 20_000;

/// Replaces objects at random so that each lives long, then makes such as die at once. Totals after each part.
fn run(generations: Generations, references: References, old: OldPolicy) -> [Totals; 2] {
    let heap = Heap::builder()
        .limit(3 << 20)
        .references(references)
        .old(old)
        .generations(generations)
        .workers(2)
        .verify(true)
        .poison(true)
        .build()
        .unwrap();
    let shape = Structure {
        references: 1,
        bytes: 8,
    };
    let node = heap.structure(shape).unwrap();
    let slots = heap.reference_array().unwrap();
    let mut mutator = heap.attach().unwrap();
    let mut expected = vec![0u64; LIVE];
    let mut random = Rng::new(7);
    let array = mutator.scope(|scope| {
        let array = scope.allocate_references(slots, LIVE as u32).unwrap();
        scope.handle(array).unwrap()
    });
    let mut put = |scope: &mut Scope<'_>, index: usize, number: u64| {
        let array = scope.open(&array);
        let one = scope.allocate(node).unwrap();
        scope.write_u64(one, 0, number);
        scope.set(array, index, one);
        expected[index] = number;
    };
    for number in 0..LIVE * 80 {
        let index = match number {
            0..LIVE => number,
            _ => random.below(LIVE),
        };
        mutator.scope(|scope| put(scope, index, number as u64));
    }
    let long_lived = mutator.totals();
    for number in 0..LIVE * 80 {
        mutator.scope(|scope| put(scope, number % 10, number as u64));
    }
    mutator.scope(|scope| {
        let array = scope.open(&array);
        let one = scope.null();
        for (index, &number) in expected.iter().enumerate() {
            scope.load(array, index, one);
            assert_eq!(scope.read_u64(one, 0), number);
        }
    });
    [long_lived, mutator.totals()]
}

#[test]
fn what_lives_is_the_same_whatever_is_collected() {
    for references in [References::Wide, References::Compressed] {
        for old in [OldPolicy::MarkCompact, OldPolicy::MarkSweep] {
            let [_, never] = run(Generations::Never, references, old);
            assert_eq!(never.scavenges, 0, "{old:?} {references:?}");
            let [_, always] = run(Generations::Always, references, old);
            assert!(always.scavenges > 3 * always.full_collections, "{always:?}");
        }
    }
}

/// Where nothing is collected by itself, what lives may grow from little to most of the heap within one eden.
#[test]
fn what_lives_may_grow_at_once_to_most_of_the_heap() {
    for generations in [Generations::Never, Generations::Auto] {
        for share in [50, 70, 78] {
            let heap = Heap::builder()
                .limit(16 << 20)
                .generations(generations)
                .verify(true)
                .build()
                .unwrap();
            let shape = Structure {
                references: 1,
                bytes: 1000,
            };
            let node = heap.structure(shape).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                for _ in 0..3 {
                    for _ in 0..20_000 {
                        scope.nested(|scope| {
                            scope.allocate(node).unwrap();
                        });
                    }
                    let list = scope.null();
                    for number in 0..(16 << 20) / 100 * share / node.size() {
                        scope.nested(|scope| {
                            let one = scope.allocate(node).expect("there is room");
                            scope.write_u64(one, 0, number as u64);
                            scope.set(one, 0, list);
                            scope.assign(list, one);
                        });
                    }
                    let nothing = scope.null();
                    scope.assign(list, nothing);
                }
            });
        }
    }
}

/// Large and pinned objects find the room that eden does not need.
#[test]
fn a_heap_with_little_alive_has_room_for_a_large_object() {
    for old in [OldPolicy::MarkCompact, OldPolicy::MarkSweep] {
        for (limit, large) in [
            (4 << 20, 500_000),
            (16 << 20, 4 << 20),
            (64 << 20, 30 << 20),
        ] {
            let heap = Heap::builder()
                .limit(limit)
                .generations(Generations::Never)
                .old(old)
                .verify(true)
                .build()
                .unwrap();
            let bytes = heap.array(Elements::Bytes).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                for round in 0..5 {
                    scope.collect(true);
                    let what = format!("{large} bytes of {limit}, {old:?}, round {round}");
                    scope.nested(|scope| {
                        scope.allocate_array(bytes, 100_000).expect(&what);
                        scope.allocate_array(bytes, large).expect(&what);
                        scope.allocate_array(bytes.pinned(), 400).expect(&what);
                    });
                }
            });
        }
    }
}

#[test]
fn scavenges_are_left_out_while_most_survives_and_come_back() {
    for references in [References::Wide, References::Compressed] {
        let old = OldPolicy::MarkCompact;
        let [always, _] = run(Generations::Always, references, old);
        let [before, after] = run(Generations::Auto, references, old);
        let shows = format!("{always:?} {before:?} {after:?}");
        // How often depends on what the machine is busy with: times are compared.
        assert!(before.full_collections > always.full_collections, "{shows}");
        assert!(before.scavenges < always.scavenges, "{shows}");
        let (full, scavenges) = (
            after.full_collections - before.full_collections,
            after.scavenges - before.scavenges,
        );
        assert!(scavenges > 2 * full, "{shows}");
    }
}
