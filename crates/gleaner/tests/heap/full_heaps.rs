//! Heaps that are full or almost so: what fits is found room for, what does not is an error, nothing waits for ever, and
//! the spaces keep to their ranges whatever their sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::again::path;
use crate::random::{Rng, at_length};
use gleaner::{
    Builder, Elements, Generations, Heap, Local, OldPolicy, OutOfMemory, Phase, References, Scope,
    Structure, Type,
};

const OLD: [OldPolicy; 3] = [
    OldPolicy::MarkCompact,
    OldPolicy::MarkSweep,
    OldPolicy::MarkRegion,
];

/// Puts a number at the head of a list.
fn append(
    scope: &mut Scope<'_>,
    node: Type,
    head: Local<'_>,
    number: u64,
) -> Result<(), OutOfMemory> {
    scope.nested(|scope| {
        let one = scope.allocate(node)?;
        scope.write_u64(one, 0, number).unwrap();
        scope.set(one, 0, head).unwrap();
        scope.assign(head, one);
        Ok(())
    })
}

/// Makes a list until memory is out, and checks it. Bytes of its objects, as a share of the limit.
fn fill(builder: Builder, bytes: u32) -> f64 {
    let heap = builder.build().unwrap();
    let shape = Structure {
        references: 1,
        bytes,
    };
    let node = heap.structure(shape).unwrap();
    let mut mutator = heap.attach().unwrap();
    let count = mutator.scope(|scope| {
        let head = scope.null();
        let mut count = 0u64;
        let append = |scope: &mut Scope<'_>, number| append(scope, node, head, number);
        while append(scope, count).is_ok() {
            count += 1;
        }
        assert!(append(scope, count).is_err(), "it is full still");
        for number in (0..count).rev() {
            assert_eq!(scope.read_u64(head, 0), number);
            scope.load(head, 0, head);
        }
        assert!(scope.is_null(head));
        assert!(append(scope, 0).is_ok(), "the list is dead");
        count
    });
    (count * node.size() as u64) as f64 / heap.limit() as f64
}

#[test]
fn a_list_grows_until_the_heap_is_full() {
    for old in OLD {
        for resize in [true, false] {
            for (limit, bytes) in [
                (1, 8),
                (1, 1000),
                (3, 9000),
                (12, 9000),
                (33, 1000),
                (40, 9000),
            ] {
                let builder = Heap::builder()
                    .limit(limit << 20)
                    .old(old)
                    .resize(resize)
                    .workers(2)
                    .crew(gleaner::Crew::All)
                    .verify(true)
                    .poison(true);
                let share = fill(builder, bytes);
                let what = format!("{limit} MB, {bytes} bytes, {old:?}, resize {resize}: {share}");
                assert!(share > 0.75 && share < 1.0, "{what}");
            }
        }
    }
}

/// Scavenges that promoted nothing say nothing of the next one, which finds no room in an old space that is almost full. All that lives
/// stays then, and a worker asks once whether there is room for an object of that size.
#[test]
fn a_scavenge_that_finds_no_room_does_not_ask_for_it_again_and_again() {
    for (old, workers) in OLD.into_iter().flat_map(|old| [(old, 1), (old, 2)]) {
        let heap = Heap::builder()
            .limit(16 << 20)
            .old(old)
            .resize(false)
            .generations(Generations::Always)
            .workers(workers)
            .crew(gleaner::Crew::All)
            .ignore_environment()
            .build()
            .unwrap();
        let counts = Arc::new([const { AtomicU64::new(0) }; 2]);
        let heard = counts.clone();
        heap.add_listener(move |event| {
            let failed = event.phase == Phase::Mark && event.reason.contains("found no room");
            heard[0].fetch_add(u64::from(event.phase == Phase::Copy), Ordering::Relaxed);
            heard[1].fetch_add(u64::from(failed), Ordering::Relaxed);
        });
        let shape = Structure {
            references: 1,
            bytes: 24,
        };
        let node = heap.structure(shape).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let (head, dropped, none) = (scope.null(), scope.null(), scope.null());
            // Of the old space a sixteenth is free in the end.
            for number in 0..(heap.limit() / 16 * 9 / node.size()) as u64 {
                append(scope, node, head, number).unwrap();
            }
            for number in 0..2_000_000 {
                append(scope, node, dropped, number).unwrap();
                scope.assign(dropped, none);
            }
            let before = counts[0].load(Ordering::Relaxed);
            let mut number = 0;
            while append(scope, node, head, number).is_ok() {
                number += 1;
            }
            let [scavenges, failed] = [0, 1].map(|index| counts[index].load(Ordering::Relaxed));
            let vain = heap.totals().vain_promotions;
            let what = format!("{old:?}, {workers}: {vain} of {scavenges}, {failed} failed");
            assert!(failed > 0 && vain > 0, "{what}");
            assert!(vain <= (scavenges - before) * workers as u64, "{what}");
            // All that is dead now: the next scavenges find room again.
            scope.assign(head, none);
            scope.collect(true);
            for number in 0..(heap.limit() / 4 / node.size()) as u64 {
                append(scope, node, head, number).unwrap();
            }
            scope.collect(false);
            let now = [0, 1].map(|index| counts[index].load(Ordering::Relaxed));
            assert!(now[0] > scavenges && now[1] == failed, "{what}, {now:?}");
            assert_eq!(heap.totals().vain_promotions, vain, "{what}");
        });
    }
}

/// What a full collection finds no room for in the old space stays young, also where only a large object refers to it.
#[test]
fn a_large_array_refers_to_what_stays_young_in_a_full_heap() {
    for workers in [1, 2] {
        let heap = Heap::builder()
            .limit(3 << 20)
            .old(OldPolicy::MarkCompact)
            .workers(workers)
            .crew(gleaner::Crew::All)
            .verify(true)
            .poison(true)
            .build()
            .unwrap();
        let references = heap.reference_array().unwrap();
        let node = heap
            .structure(Structure {
                references: 0,
                bytes: 1000,
            })
            .unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let array = scope.allocate_references(references, 4000).unwrap();
            let mut append = |number: usize| {
                scope.nested(|scope| {
                    let one = scope.allocate(node)?;
                    scope.write_u64(one, 0, number as u64).unwrap();
                    scope.set(array, number, one)
                })
            };
            let count = (0..).find(|&number| append(number).is_err()).unwrap();
            for everything in [false, true, false] {
                scope.collect(everything);
                let one = scope.null();
                for number in 0..count {
                    scope.load(array, number, one);
                    assert_eq!(scope.read_u64(one, 0), number as u64);
                }
            }
        });
    }
}

/// Without scavenges all that lives may be in the young generation when the heap is almost full: each collection makes as
/// much room as there is.
#[test]
fn a_heap_without_scavenges_is_full_after_few_collections() {
    for young in [1 << 20, 20 << 20] {
        let heap = Heap::builder()
            .limit(32 << 20)
            .young(young)
            .generations(Generations::Never)
            .workers(2)
            .build()
            .unwrap();
        let shape = Structure {
            references: 1,
            bytes: 1000,
        };
        let node = heap.structure(shape).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let head = scope.null();
            while append(scope, node, head, 0).is_ok() {}
        });
        let totals = mutator.totals();
        assert!(totals.full_collections < 20, "{totals:?}");
        let share = heap.used() as f64 / heap.limit() as f64;
        assert!(share > 0.95, "{share}");
    }
}

#[test]
fn compressed_references_that_hardly_reach_leave_less_to_resize() {
    for old in OLD {
        let heap = Heap::builder()
            .limit(7 << 30)
            .references(References::Compressed)
            .old(old)
            .workers(2)
            .crew(gleaner::Crew::All)
            .verify(true)
            .build()
            .unwrap();
        let shape = Structure {
            references: 1,
            bytes: 8000,
        };
        let node = heap.structure(shape).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let head = scope.null();
            for number in 0..60_000u64 {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    if number % 5000 != 0 {
                        scope.set(one, 0, head).unwrap();
                    }
                    scope.assign(head, one);
                });
            }
        });
        assert!(mutator.totals().scavenges > 1);
    }
}

#[test]
fn the_young_generation_gives_way_to_a_large_object() {
    for old in OLD {
        let heap = Heap::builder()
            .limit(64 << 20)
            .young(32 << 20)
            .old(old)
            .build()
            .unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            scope.allocate_array(bytes, 40 << 20).unwrap();
            assert!(scope.allocate_array(bytes, 70 << 20).is_err());
        });
    }
}

#[test]
fn an_array_that_no_range_has_room_for_is_refused() {
    let heap = Heap::builder()
        .limit(9 << 30)
        .references(References::Compressed)
        .resize(false)
        .young(64 << 20)
        .build()
        .unwrap();
    let doubles = heap.array(Elements::Doubles).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| assert!(scope.allocate_array(doubles, 1_000_000_000).is_err()));
}

/// The limit of a shell on addresses, in KB: less than a heap would like to reserve.
const ADDRESSES: &str = "1200000";
const CASE: &str = "GLEANER_TEST_CASE";

/// Only a child does something here.
#[test]
fn in_few_addresses() {
    if std::env::var_os(CASE).is_none() {
        return;
    }
    let heap = Heap::builder().limit(256 << 20).workers(1).build().unwrap();
    let doubles = heap.array(Elements::Doubles).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        for _ in 0..20 {
            scope
                .nested(|scope| scope.allocate_array(doubles, 8 << 20).map(|_| ()))
                .unwrap();
        }
    });
}

#[test]
fn where_the_system_limits_addresses_ranges_are_smaller() {
    let this = std::env::current_exe().unwrap();
    let done = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -v $0 && exec \"$1\" --exact \"$2\"",
            ADDRESSES,
        ])
        .arg(this)
        .arg(path(module_path!(), "in_few_addresses"))
        .env(CASE, "1")
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
}

/// Arrays of growing size, of which every other one dies: whatever is refused, it ends.
#[test]
fn holes_between_large_arrays_end_in_an_error_at_worst() {
    for old in OLD {
        let heap = Heap::builder()
            .limit(16 << 20)
            .old(old)
            .workers(2)
            .crew(gleaner::Crew::All)
            .verify(true)
            .build()
            .unwrap();
        let (bytes, list) = (
            heap.array(Elements::Bytes).unwrap(),
            heap.reference_array().unwrap(),
        );
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let kept = scope.allocate_references(list, 1000).unwrap();
            let (mut used, mut refused) = (0, 0);
            for pages in [5u32, 10, 20, 40, 80, 160] {
                for number in 0..200 {
                    scope.nested(
                        |scope| match scope.allocate_array(bytes, pages * 4096 - 64) {
                            Ok(array) if number % 2 == 0 => {
                                scope.set(kept, used, array).unwrap();
                                used += 1;
                            }
                            Ok(_) => {}
                            Err(_) => refused += 1,
                        },
                    );
                }
                let nothing = scope.null();
                (0..used)
                    .step_by(2)
                    .for_each(|index| scope.set(kept, index, nothing).unwrap());
            }
            assert!(refused > 0);
        });
    }
}

#[test]
fn a_burst_of_promotion_does_not_make_every_collection_a_full_one() {
    for old in OLD {
        for resize in [false, true] {
            let heap = Heap::builder()
                .limit(16 << 20)
                .young(6 << 20)
                .old(old)
                .workers(1)
                .resize(resize)
                .build()
                .unwrap();
            let shape = Structure {
                references: 1,
                bytes: 1000,
            };
            let node = heap.structure(shape).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let head = scope.null();
                for number in 0..200_000 {
                    scope.nested(|scope| {
                        let one = scope.allocate(node).unwrap();
                        if number < 8500 {
                            scope.set(one, 0, head).unwrap();
                            scope.assign(head, one);
                        }
                    });
                }
            });
            let totals = mutator.totals();
            assert!(totals.scavenges > totals.full_collections, "{totals:?}");
        }
    }
}

#[test]
fn random_sizes_keep_to_the_limit() {
    for seed in 1..at_length(6, 14) {
        let mut random = Rng::new(seed);
        let limit = (1 << 20) + random.below(6 << 20);
        let young = [0, 192 << 10, limit / 10 * 9, limit / 2, limit / 10 * 8][random.below(5)];
        let heap = Heap::builder()
            .limit(limit)
            .young(young)
            .old(OLD[random.below(3)])
            .tenure([0, 1, 3, 15][random.below(4)])
            .references([References::Wide, References::Compressed][random.below(2)])
            .resize(random.below(3) > 0)
            .workers(3)
            .crew(gleaner::Crew::All)
            .verify(true)
            .poison(true)
            .build();
        // Nine tenths of a limit, rounded, may leave too little for the old generation.
        let Ok(heap) = heap else {
            assert!(young > limit / 2, "seed {seed}");
            continue;
        };
        let list = heap.reference_array().unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let length = 1 + random.below(3000);
            let Ok(table) = scope.allocate_references(list, length as u32) else {
                return;
            };
            let nothing = scope.null();
            for _ in 0..6000 {
                let (kind, at, from) = (
                    random.below(1000),
                    random.below(length),
                    random.below(length),
                );
                let size = match kind {
                    0..3 => {
                        (0..length)
                            .filter(|index| index % 3 != 0)
                            .for_each(|index| {
                                scope.set(table, index, nothing).unwrap();
                            });
                        continue;
                    }
                    3..10 => 1 + random.below(limit / 40),
                    10..200 => 1 + random.below(600),
                    _ => 2,
                };
                scope.nested(|scope| {
                    if let Ok(fresh) = scope.allocate_references(list, size as u32) {
                        let other = scope.get(table, from);
                        scope.set(fresh, 0, other).unwrap();
                        scope.set(table, at, fresh).unwrap();
                    }
                });
            }
        });
        assert!(heap.used() <= heap.limit(), "seed {seed}");
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
                        append(scope, node, list, number as u64).expect("there is room");
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
    for old in [
        OldPolicy::MarkCompact,
        OldPolicy::MarkSweep,
        OldPolicy::MarkRegion,
    ] {
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
