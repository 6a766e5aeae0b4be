//! Injected failures: an allocation that finds no memory, a promotion that finds no room, a helper that does not start.
//! Fault points are the process's, so the tests take turns.

mod programs;
#[path = "../../plans/tests/harness/rng.rs"]
#[allow(dead_code, reason = "shared with the tests of another crate")]
mod random;
#[path = "harness/setups.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod setups;
#[path = "harness/weak_graph.rs"]
mod weak_graph;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use gleaner::raw::{Fresh, NewObject, Shape, Value};
use gleaner::{Builder, Finalizing, Mutator, NurseryPolicy, OldPolicy, Phase, Structure};
use gleaner_base::faults::{self, FaultPoint};
use programs::{Program, Types};
use setups::{SETUPS, Setup, checked_under};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|broken| broken.into_inner())
}

fn builder(setup: Setup) -> Builder {
    checked_under(setup, 8 << 20).young(1 << 20)
}

/// Why a full collection follows on a promotion that failed: in a scavenge, in one of everything in place, and in one of
/// everything while objects keep their places.
const NO_ROOM: [&str; 3] = [
    "a promotion found no room",
    "the holes are too small for what was to be promoted",
    "young objects are left for which there was no room",
];

/// Runs a program in a heap of its own, which ends with a forced full collection under the verifier; how many
/// allocations failed, and how many collections a promotion that failed led to.
fn run(builder: Builder, seed: u64, steps: usize) -> (usize, usize) {
    let heap = builder.build().unwrap();
    let types = Types::register(&heap);
    let without_room = Arc::new(AtomicUsize::new(0));
    let count = without_room.clone();
    heap.add_listener(move |event| {
        let counts = event.phase == Phase::Mark && NO_ROOM.contains(&event.reason);
        count.fetch_add(usize::from(counts), Ordering::Relaxed);
    });
    let mut mutator = heap.attach().unwrap();
    let outcome = Program::new(seed, 24).run(&mut mutator, types, steps);
    (outcome.failed, without_room.load(Ordering::Relaxed))
}

#[test]
fn out_of_memory_at_every_allocation_is_one_error_and_nothing_else() {
    let _turn = turn();
    for setup in SETUPS {
        // Under stress every allocation takes the slow path, where the point is.
        let builder = builder(setup).stress(1000);
        let mut visit = 1;
        loop {
            faults::arm(FaultPoint::Allocation, visit);
            let (failed, _) = run(builder.clone(), 500, 180);
            if failed == 0 {
                break;
            }
            assert_eq!(failed, 1, "visit {visit}");
            visit += 1;
        }
        faults::arm(FaultPoint::Allocation, 0);
        assert!(visit > 50, "the program allocates {} times", visit - 1);
    }
}

#[test]
fn a_promotion_that_fails_ends_in_a_full_collection() {
    let _turn = turn();
    for setup in SETUPS {
        for workers in [1, 3] {
            let builder = builder(setup)
                .workers(workers)
                .crew(gleaner::Crew::All)
                .tenure(0);
            assert_eq!(run(builder.clone(), 501, 3000), (0, 0));
            for visit in [1, 2, 3, 10, 50, 200, 500, 1000] {
                faults::arm(FaultPoint::Promotion, visit);
                let done = run(builder.clone(), 501, 3000);
                // The program does not promote as much under each setup.
                let fired = faults::left(FaultPoint::Promotion) == 0;
                assert!(fired || visit > 100, "visit {visit}");
                assert_eq!(done, (0, usize::from(fired)), "visit {visit}");
            }
            faults::arm(FaultPoint::Promotion, 0);
        }
    }
}

/// What is pinned stays where it is, in the scavenge that is given up and in the collection of everything behind it.
#[test]
fn a_promotion_that_fails_leaves_pinned_objects_in_their_places() {
    const COUNT: usize = 2000;
    let _turn = turn();
    for setup in SETUPS {
        for (workers, visit) in [1, 3]
            .into_iter()
            .flat_map(|of| [1, 2, 40, 900].map(|at| (of, at)))
        {
            let builder = builder(setup).workers(workers).tenure(0);
            let heap = builder.build().unwrap();
            let node = heap.structure(Structure {
                references: 1,
                bytes: 8,
            });
            let (node, slots) = (node.unwrap(), heap.reference_array().unwrap());
            heap.attach().unwrap().scope(|scope| {
                let table = scope.allocate_references(slots, COUNT as u32).unwrap();
                let mut places = Vec::new();
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let one = scope.allocate(node).unwrap();
                        scope.write_u64(one, 0, number as u64).unwrap();
                        scope.set(table, number, one).unwrap();
                        let is_pinned = number.is_multiple_of(7);
                        places.push(is_pinned.then(|| scope.pin(one).unwrap()));
                    });
                }
                faults::arm(FaultPoint::Promotion, visit);
                scope.collect(false);
                assert_eq!(faults::left(FaultPoint::Promotion), 0, "visit {visit}");
                for everything in [false, true] {
                    for (number, &place) in places.iter().enumerate() {
                        scope.nested(|scope| {
                            let one = scope.get(table, number);
                            assert_eq!(scope.read_u64(one, 0), number as u64);
                            if let Some(place) = place {
                                assert_eq!(scope.pin(one), Ok(place), "{number}");
                                scope.unpin(one).unwrap();
                            }
                        });
                    }
                    scope.collect(everything);
                }
            });
        }
    }
}

/// What such a scavenge had copied is overwritten like all that is freed.
#[test]
fn copies_of_a_scavenge_that_is_given_up_are_poisoned() {
    const POISON: u64 = 0xdead_dead_dead_dead;
    let _turn = turn();
    let heap = builder(SETUPS[0])
        .workers(1)
        .resize(false)
        .tenure(2)
        .build()
        .unwrap();
    let leaf = Shape::Structure {
        bytes: 16,
        references: &[],
    };
    let leaf = NewObject::structure(heap.register_raw(leaf).unwrap(), 16);
    let mut mutator = heap.attach().unwrap();
    let body = |mutator: &mut Mutator, [young, old]: &[Cell<Value>; 2]| {
        let allocate = |mutator: &mut Mutator| {
            // SAFETY: a structure of this heap; what is needed later is in the roots.
            let made = unsafe { mutator.allocate_raw(leaf, Fresh::Zeroed) };
            Value::reference(made.unwrap())
        };
        old.set(allocate(mutator));
        mutator.collect(false);
        // Where the first object lies of those that survive a scavenge, and of the next but one.
        let first = old.get().as_object().unwrap();
        // SAFETY: a survivor space is memory of the heap, and has this object's size in use or had it.
        let words = || unsafe { [first.ptr::<u64>().read(), first.add(8).ptr::<u64>().read()] };
        assert_ne!(words()[0], POISON);
        mutator.collect(false);
        assert_eq!(words(), [POISON; 2]);
        young.set(allocate(mutator));
        faults::arm(FaultPoint::Promotion, 1);
        mutator.collect(false);
        assert_eq!(faults::left(FaultPoint::Promotion), 0);
        assert_eq!(mutator.totals().full_collections, 1);
        assert_eq!(words(), [POISON; 2]);
    };
    // SAFETY: null is valid.
    unsafe { mutator.with_roots([Value::NULL; 2], body) };
}

/// What finds no block for its copy stays, and the collection goes on.
#[test]
fn an_evacuation_that_finds_no_block_leaves_what_it_has_not_copied() {
    const COUNT: usize = 20_000;
    let _turn = turn();
    let by_lines = SETUPS
        .iter()
        .filter(|setup| setup.1 == OldPolicy::MarkRegion);
    let visits = [1, 2, 5, 0].into_iter();
    let cases = visits.flat_map(|visit| {
        [
            NurseryPolicy::Copying,
            NurseryPolicy::InPlace,
            NurseryPolicy::Auto,
        ]
        .map(|nursery| (visit, nursery))
    });
    for (&setup, (visit, nursery)) in
        by_lines.flat_map(|setup| cases.clone().map(move |case| (setup, case)))
    {
        let heap = builder(setup).nursery(nursery).build().unwrap();
        let evacuated = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let heard = evacuated.clone();
        heap.add_listener(move |event| match event.phase {
            Phase::Evacuation => heard[0].store(event.objects as usize, Ordering::Relaxed),
            Phase::Mark => heard[1].store(event.bytes as usize, Ordering::Relaxed),
            _ => {}
        });
        let node = heap.structure(Structure {
            references: 1,
            bytes: 48,
        });
        let (node, slots) = (node.unwrap(), heap.reference_array().unwrap());
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let table = scope.allocate_references(slots, COUNT as u32).unwrap();
            for number in 0..COUNT {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    scope.write_u64(one, 0, number as u64).unwrap();
                    scope.set(one, 0, one).unwrap();
                    scope.set(table, number, one).unwrap();
                });
            }
            scope.collect(true);
            let (nothing, stays) = (scope.null(), |number: usize| {
                (number / 32).is_multiple_of(8)
            });
            for number in (0..COUNT).filter(|&number| !stays(number)) {
                scope.set(table, number, nothing).unwrap();
            }
            scope.collect(true);
            faults::arm(FaultPoint::Evacuation, visit);
            scope.collect(true);
            assert_eq!(faults::left(FaultPoint::Evacuation), 0, "visit {visit}");
            let [blocks, bytes] = [0, 1].map(|index| evacuated[index].load(Ordering::Relaxed));
            assert!(blocks > 10 && bytes > 0, "{blocks} blocks, {bytes} bytes");
            for number in (0..COUNT).filter(|&number| stays(number)) {
                scope.nested(|scope| {
                    let one = scope.get(table, number);
                    assert_eq!(scope.read_u64(one, 0), number as u64);
                    let same = scope.get(one, 0);
                    assert!(scope.same(one, same));
                });
            }
            scope.collect(true);
        });
        assert_eq!(mutator.totals().full_collections, 4);
    }
}

/// A young object that finds no block is promoted behind the sweep, and strong and weak slots of objects that were
/// evacuated follow.
#[test]
fn young_objects_that_an_evacuation_leaves_are_promoted_behind_the_sweep() {
    const COUNT: usize = 20_000;
    let stays = |number: &usize| (number / 32).is_multiple_of(8);
    let _turn = turn();
    let by_lines = SETUPS
        .iter()
        .filter(|setup| setup.1 == OldPolicy::MarkRegion);
    for (&setup, visit) in by_lines.flat_map(|setup| [1, 2, 3, 4, 6, 8].map(|visit| (setup, visit)))
    {
        let heap = builder(setup).build().unwrap();
        let node = heap.structure(Structure {
            references: 2,
            bytes: 40,
        });
        let (node, slots) = (node.unwrap(), heap.reference_array().unwrap());
        let weak = heap.weak_array().unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let table = scope.allocate_references(slots, COUNT as u32).unwrap();
            for number in 0..COUNT {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    let watched = scope.allocate_weak_array(weak, 1).unwrap();
                    scope.set(one, 1, watched).unwrap();
                    scope.set(table, number, one).unwrap();
                });
            }
            scope.collect(true);
            let nothing = scope.null();
            for number in (0..COUNT).filter(|number| !stays(number)) {
                scope.set(table, number, nothing).unwrap();
            }
            scope.collect(true);
            for number in (0..COUNT).filter(stays) {
                scope.nested(|scope| {
                    let (old, young) = (scope.get(table, number), scope.allocate(node).unwrap());
                    scope.write_u64(young, 0, number as u64).unwrap();
                    scope.set(old, 0, young).unwrap();
                    let watched = scope.get(old, 1);
                    scope.set(watched, 0, young).unwrap();
                });
            }
            faults::arm(FaultPoint::Evacuation, visit);
            for _ in 0..2 {
                scope.collect(true);
                assert_eq!(faults::left(FaultPoint::Evacuation), 0, "visit {visit}");
                for number in (0..COUNT).filter(stays) {
                    scope.nested(|scope| {
                        let old = scope.get(table, number);
                        let (young, watched) = (scope.get(old, 0), scope.get(old, 1));
                        assert_eq!(scope.read_u64(young, 0), number as u64);
                        let same = scope.get(watched, 0);
                        assert!(scope.same(young, same), "visit {visit}");
                    });
                }
            }
        });
        assert_eq!(mutator.totals().full_collections, 4);
    }
}

/// New objects that find no block for their copies stay where they are, beside others that were copied.
#[test]
fn new_objects_for_which_no_block_is_free_stay() {
    const COUNT: usize = 2000;
    const STEP: usize = 15;
    let _turn = turn();
    let by_lines = SETUPS
        .iter()
        .filter(|setup| setup.1 == OldPolicy::MarkRegion);
    for (&setup, visit) in by_lines.flat_map(|setup| [1, 2, 3, 0].map(|visit| (setup, visit))) {
        let heap = builder(setup)
            .young(4 << 20)
            .resize(false)
            .nursery(NurseryPolicy::InPlace)
            .build()
            .unwrap();
        let node = heap.structure(Structure {
            references: 1,
            bytes: 48,
        });
        let (node, slots) = (node.unwrap(), heap.reference_array().unwrap());
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            // The first time nothing moves, and it is known then how few live.
            for round in 0..2 {
                scope.nested(|scope| {
                    let table = scope.allocate_references(slots, COUNT as u32).unwrap();
                    for number in 0..COUNT * STEP {
                        scope.nested(|scope| {
                            let one = scope.allocate(node).unwrap();
                            if number % STEP == 0 {
                                scope.write_u64(one, 0, number as u64).unwrap();
                                scope.set(one, 0, one).unwrap();
                                scope.set(table, number / STEP, one).unwrap();
                            }
                        });
                    }
                    if round == 1 {
                        faults::arm(FaultPoint::Evacuation, visit);
                    }
                    scope.collect(false);
                    assert_eq!(faults::left(FaultPoint::Evacuation), 0, "visit {visit}");
                    for everything in [false, true, false] {
                        for number in 0..COUNT {
                            scope.nested(|scope| {
                                let one = scope.get(table, number);
                                assert_eq!(scope.read_u64(one, 0), (number * STEP) as u64);
                                let same = scope.get(one, 0);
                                assert!(scope.same(one, same));
                            });
                        }
                        scope.collect(everything);
                    }
                });
            }
        });
        assert_eq!(mutator.totals().full_collections, 2);
    }
}

#[test]
fn a_helper_that_does_not_start_is_done_without() {
    let _turn = turn();
    for visit in 1..4 {
        faults::arm(FaultPoint::StartWorker, visit);
        let (failed, _) = run(
            builder(SETUPS[0]).workers(4).crew(gleaner::Crew::All),
            502,
            2000,
        );
        assert_eq!(failed, 0);
    }
}

#[test]
fn memory_that_the_system_refuses_once_is_asked_for_again_with_smaller_ranges() {
    let _turn = turn();
    for point in [FaultPoint::ReserveMemory, FaultPoint::CommitMemory] {
        for visit in 1..20 {
            faults::arm(point, visit);
            let heap = builder(SETUPS[0]).build();
            faults::arm(point, 0);
            let heap = heap.unwrap();
            let types = Types::register(&heap);
            let mut mutator = heap.attach().unwrap();
            let outcome = Program::new(504, 24).run(&mut mutator, types, 200);
            assert_eq!(outcome.failed, 0);
        }
    }
}

#[test]
fn keys_whose_promotion_fails_are_found_by_what_waits_for_them() {
    let _turn = turn();
    for setup in SETUPS {
        for visit in [1, 2, 30, 99] {
            let heap = builder(setup).workers(1).tenure(0).build().unwrap();
            let of = heap.structure(Structure {
                references: 1,
                bytes: 8,
            });
            let of = of.unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let first = scope.null();
                let mut links = Vec::new();
                for number in (0..100).rev() {
                    scope.nested(|scope| {
                        let key = scope.allocate(of).unwrap();
                        scope.write_u64(key, 0, number).unwrap();
                        if number < 99 {
                            links.push(scope.ephemeron(key, first).unwrap());
                        }
                        scope.assign(first, key);
                    });
                }
                faults::arm(FaultPoint::Promotion, visit);
                scope.collect(false);
                assert_eq!(faults::left(FaultPoint::Promotion), 0, "visit {visit}");
                for (step, link) in links.iter().enumerate() {
                    let key = scope.key(link);
                    assert!(!scope.is_null(key), "link {step} lives, visit {visit}");
                    assert_eq!(scope.read_u64(key, 0), 98 - step as u64);
                }
            });
        }
    }
}

#[test]
fn weak_slots_survive_promotions_that_fail() {
    let _turn = turn();
    for setup in SETUPS {
        for visit in [1, 2, 5, 40, 150] {
            let builder = builder(setup).tenure(1);
            faults::arm(FaultPoint::Promotion, visit);
            weak_graph::run(builder, 600 + u64::from(visit), 4000);
            assert_eq!(faults::left(FaultPoint::Promotion), 0, "visit {visit}");
        }
    }
}

#[test]
fn weak_slots_are_as_the_oracle_says_without_a_table_of_those_that_wait() {
    let _turn = turn();
    for setup in SETUPS {
        for visit in 1..8 {
            faults::arm(FaultPoint::EphemeronTable, visit);
            weak_graph::run(builder(setup), 700 + u64::from(visit), 1000);
            assert_eq!(faults::left(FaultPoint::EphemeronTable), 0, "visit {visit}");
        }
    }
}

#[test]
fn without_memory_for_what_is_discovered_weak_slots_keep_what_they_refer_to() {
    let _turn = turn();
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = builder(setup).workers(1).build().unwrap();
            let (weak, table) = (heap.weak_array().unwrap(), heap.ephemeron_table().unwrap());
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let array = scope.allocate_weak_array(weak, 700).unwrap();
                let pairs = scope.allocate_ephemeron_table(table, 300).unwrap();
                scope.nested(|scope| {
                    let other = scope.allocate_weak_array(weak, 1).unwrap();
                    scope.set(array, 10, other).unwrap();
                    scope.set(pairs, 20, other).unwrap();
                    scope.set(pairs, 21, array).unwrap();
                });
                // What is discovered first finds no memory for its first elements.
                faults::arm(FaultPoint::ReserveMemory, 1);
                scope.collect(everything);
                assert_eq!(faults::left(FaultPoint::ReserveMemory), 0);
                let (held, key) = (scope.get(array, 10), scope.get(pairs, 20));
                // In place, everything is traced a second time, to be promoted.
                let once = !everything || setup.1 != OldPolicy::MarkSweep;
                assert_eq!(
                    !scope.is_null(held) && !scope.is_null(key),
                    once,
                    "{setup:?}"
                );
                let nothing = scope.null();
                scope.assign(held, nothing);
                scope.assign(key, nothing);
                scope.collect(true);
                for slot in [
                    scope.get(array, 10),
                    scope.get(pairs, 20),
                    scope.get(pairs, 21),
                ] {
                    assert!(scope.is_null(slot), "{setup:?}");
                }
            });
        }
    }
}

#[test]
fn without_memory_for_the_table_of_those_that_wait_ephemerons_are_found_by_passes() {
    let _turn = turn();
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = builder(setup).build().unwrap();
            let of = heap
                .structure(Structure {
                    references: 1,
                    bytes: 8,
                })
                .unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                // A chain from a root and one from a finalizer, each made backward: the value of each is the next key.
                let firsts = [scope.null(), scope.null()];
                let chains = firsts.map(|first| {
                    let mut chain = Vec::new();
                    for number in (0..50).rev() {
                        scope.nested(|scope| {
                            let key = scope.allocate(of).unwrap();
                            scope.write_u64(key, 0, number).unwrap();
                            if number < 49 {
                                chain.push(scope.ephemeron(key, first).unwrap());
                            }
                            scope.assign(first, key);
                        });
                    }
                    chain
                });
                let nothing = scope.null();
                let finalizing = Finalizing::default();
                scope.finalizer(firsts[1], nothing, finalizing).unwrap();
                scope.assign(firsts[1], nothing);
                let before = heap.totals().ephemeron_looks;
                faults::arm(FaultPoint::EphemeronTable, 1);
                scope.collect(everything);
                let looks = heap.totals().ephemeron_looks - before;
                assert_eq!(faults::left(FaultPoint::EphemeronTable), 0);
                assert!(looks > 49 * 98, "{looks} looks: a pass for each link");
                for chain in &chains {
                    for (step, link) in chain.iter().enumerate() {
                        let (key, value) = (scope.key(link), scope.value_of(link));
                        assert_eq!(scope.read_u64(key, 0), 48 - step as u64);
                        assert_eq!(scope.read_u64(value, 0), 49 - step as u64);
                    }
                }
            });
        }
    }
}

#[test]
fn the_option_fault_arms_its_points() {
    let _turn = turn();
    let name = FaultPoint::Allocation.as_str();
    let armed = builder(SETUPS[0])
        .stress(1000)
        .option("fault", &format!("{name}@20"))
        .unwrap();
    assert_eq!(run(armed, 500, 120).0, 1);
    // A heap without the option arms nothing.
    assert_eq!(run(builder(SETUPS[0]).stress(1000), 500, 120).0, 0);
}
