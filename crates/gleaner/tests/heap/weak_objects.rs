//! Weak references and ephemerons in objects, and those that a program has by handles: what collections look at is
//! counted.

use crate::link_order::Order;
use crate::setups::{SETUPS, Setup};
use gleaner::{
    Builder, EphemeronTable, Heap, Local, OldPolicy, OutOfMemory, References, Scope, Structure,
    Totals,
};

fn builder((references, old): Setup, workers: usize) -> Builder {
    Heap::builder()
        .references(references)
        .old(old)
        .limit(512 << 20)
        .young(64 << 20)
        .workers(workers)
        .crew(gleaner::Crew::All)
}

const NODE: Structure = Structure {
    references: 1,
    bytes: 8,
};

const MILLION: usize = 1_000_000;

/// What one collection adds to the totals. The heap has no other mutator.
fn collect(scope: &mut Scope<'_>, heap: &Heap, everything: bool) -> Totals {
    let before = heap.totals();
    scope.collect(everything);
    let mut after = heap.totals();
    after.weak_looks -= before.weak_looks;
    after.ephemeron_looks -= before.ephemeron_looks;
    after
}

#[test]
fn a_weak_array_follows_its_objects_and_forgets_the_dead() {
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = builder(setup, 2).verify(true).poison(true).build().unwrap();
            let (of, weak) = (heap.structure(NODE).unwrap(), heap.weak_array().unwrap());
            let kept = heap.reference_array().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let array = scope.allocate_weak_array(weak, 5000).unwrap();
                let kept = scope.allocate_references(kept, 2500).unwrap();
                assert_eq!(scope.length(array), 5000);
                for number in 0..5000 {
                    scope.nested(|scope| {
                        let node = scope.allocate(of).unwrap();
                        scope.write_u64(node, 0, number as u64).unwrap();
                        scope.set(array, number, node).unwrap();
                        if number % 2 == 0 {
                            scope.set(kept, number / 2, node).unwrap();
                        }
                    });
                }
                scope.collect(everything);
                for number in 0..5000 {
                    scope.nested(|scope| {
                        let node = scope.get(array, number);
                        assert_eq!(scope.is_null(node), number % 2 == 1);
                        if number % 2 == 0 {
                            assert_eq!(scope.read_u64(node, 0), number as u64);
                            let same = scope.get(kept, number / 2);
                            assert!(scope.same(node, same));
                        }
                    });
                }
            });
        }
    }
}

/// Has the heap clear its eden, so that what lives is old.
fn promote(scope: &mut Scope<'_>) {
    (0..20).for_each(|_| scope.collect(false));
    scope.collect(true);
    (0..20).for_each(|_| scope.collect(false));
}

#[test]
fn an_empty_scavenge_beside_a_million_old_weak_references_looks_at_none() {
    for setup in [SETUPS[0], SETUPS[3]] {
        let heap = builder(setup, 2).build().unwrap();
        let (of, weak) = (heap.structure(NODE).unwrap(), heap.weak_array().unwrap());
        let (table, all) = (
            heap.ephemeron_table().unwrap(),
            heap.reference_array().unwrap(),
        );
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            // A thousand arrays of a thousand, as tables of a program are, and an object each.
            let arrays = scope.allocate_references(all, 2000).unwrap();
            let node = scope.allocate(of).unwrap();
            for number in 0..1000 {
                scope.nested(|scope| {
                    let array = scope.allocate_weak_array(weak, 1000).unwrap();
                    let pairs = scope.allocate_ephemeron_table(table, 1000).unwrap();
                    for index in 0..1000 {
                        scope.set(array, index, node).unwrap();
                        scope.set(pairs, 2 * index, node).unwrap();
                        scope.set(pairs, 2 * index + 1, node).unwrap();
                    }
                    scope.set(arrays, 2 * number, array).unwrap();
                    scope.set(arrays, 2 * number + 1, pairs).unwrap();
                });
            }
            promote(scope);
            let done = collect(scope, &heap, false);
            assert_eq!((done.weak_looks, done.ephemeron_looks), (0, 0), "{setup:?}");
            // One that refers to a young object again costs its card.
            let array = scope.get(arrays, 900);
            let young = scope.allocate(of).unwrap();
            scope.set(array, 500, young).unwrap();
            let done = collect(scope, &heap, false);
            assert!(
                (1..200).contains(&done.weak_looks),
                "{} looks",
                done.weak_looks
            );
            let found = scope.get(array, 500);
            assert!(scope.same(found, young));
            let done = collect(scope, &heap, true);
            assert!(
                done.weak_looks >= MILLION as u64,
                "those of everything are looked at"
            );
        });
    }
}

#[test]
fn an_empty_scavenge_beside_a_million_handles_to_old_weak_references_looks_at_none() {
    for setup in [SETUPS[0], SETUPS[3]] {
        let heap = builder(setup, 2).build().unwrap();
        let of = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let node = scope.allocate(of).unwrap();
            let all: Vec<_> = (0..MILLION)
                .map(|_| (scope.weak(node).unwrap(), scope.handle(node).unwrap()))
                .collect();
            let pairs: Vec<_> = (0..50_000)
                .map(|_| scope.ephemeron(node, node).unwrap())
                .collect();
            promote(scope);
            let done = collect(scope, &heap, false);
            assert_eq!((done.weak_looks, done.ephemeron_looks), (0, 0), "{setup:?}");
            // Only new ones are looked at, and follow their objects.
            let young = scope.allocate(of).unwrap();
            scope.write_u64(young, 0, 5).unwrap();
            let (weak, handle) = (scope.weak(young).unwrap(), scope.handle(young).unwrap());
            let pair = scope.ephemeron(young, young).unwrap();
            let done = collect(scope, &heap, false);
            assert_eq!(done.weak_looks, 1, "{setup:?}");
            assert!((1..10).contains(&done.ephemeron_looks), "{setup:?}");
            for found in [
                scope.upgrade(&weak),
                scope.open(&handle),
                scope.key(&pair),
                scope.value_of(&pair),
            ] {
                assert!(scope.same(found, young) && scope.read_u64(found, 0) == 5);
            }
            drop((all, pairs));
        });
    }
}

#[test]
fn a_table_that_refers_to_itself_dies_at_the_next_collection_of_everything() {
    for setup in SETUPS {
        let heap = builder(setup, 2).verify(true).build().unwrap();
        let (weak, table) = (heap.weak_array().unwrap(), heap.ephemeron_table().unwrap());
        let of = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let witness = scope.allocate_weak_array(weak, 3).unwrap();
            scope.nested(|scope| {
                let pairs = scope.allocate_ephemeron_table(table, 2).unwrap();
                let inside = scope.allocate(of).unwrap();
                // The table is a key and a value of its own, and a key refers to it.
                scope.set(inside, 0, pairs).unwrap();
                for (index, held) in [pairs, inside, inside, pairs].into_iter().enumerate() {
                    scope.set(pairs, index, held).unwrap();
                }
                scope.set(witness, 0, pairs).unwrap();
                scope.set(witness, 1, inside).unwrap();
                scope.set(witness, 2, witness).unwrap();
                promote(scope);
                let found = scope.get(witness, 0);
                assert!(scope.same(found, pairs), "a root keeps it");
            });
            scope.collect(true);
            for (index, lives) in [false, false, true].into_iter().enumerate() {
                let held = scope.get(witness, index);
                assert_eq!(scope.is_null(held), !lives, "{setup:?}, {index}");
            }
        });
    }
}

#[test]
fn an_integer_as_a_key_keeps_its_value_and_a_null_key_does_not() {
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = builder(setup, 1).verify(true).build().unwrap();
            let table = heap.ephemeron_table().unwrap();
            let of = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let pairs = scope.allocate_ephemeron_table(table, 2).unwrap();
                scope.nested(|scope| {
                    let value = scope.allocate(of).unwrap();
                    scope.write_u64(value, 0, 77).unwrap();
                    let key = scope.integer(5).unwrap();
                    scope.set(pairs, 0, key).unwrap();
                    scope.set(pairs, 1, value).unwrap();
                    scope.set(pairs, 3, value).unwrap();
                });
                scope.collect(everything);
                let (key, value) = (scope.get(pairs, 0), scope.get(pairs, 1));
                assert_eq!(scope.as_integer(key), Some(5));
                assert_eq!(scope.read_u64(value, 0), 77);
                let gone = scope.get(pairs, 3);
                assert!(scope.is_null(gone));
            });
        }
    }
}

#[test]
fn an_integer_as_a_value_lasts_as_long_as_its_key() {
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = builder(setup, 1).verify(true).build().unwrap();
            let table = heap.ephemeron_table().unwrap();
            let of = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let pairs = scope.allocate_ephemeron_table(table, 2).unwrap();
                let kept = scope.allocate(of).unwrap();
                scope.nested(|scope| {
                    let (dies, number) = (scope.allocate(of).unwrap(), scope.integer(-7).unwrap());
                    for (place, key) in [kept, dies].into_iter().enumerate() {
                        scope.set(pairs, 2 * place, key).unwrap();
                        scope.set(pairs, 2 * place + 1, number).unwrap();
                    }
                });
                scope.collect(everything);
                let [key, value, other, gone] = [0, 1, 2, 3].map(|slot| scope.get(pairs, slot));
                assert!(scope.same(key, kept) && scope.is_null(other) && scope.is_null(gone));
                assert_eq!(scope.as_integer(value), Some(-7));
            });
        }
    }
}

/// A chain of ephemerons, the value of each being the next key; in one table, or each in a table of its own, which only
/// its key leads to. The first key, and the one table.
fn chain<'s>(
    scope: &mut Scope<'s>,
    heap: &Heap,
    (order, apart, count): (Order, bool, usize),
    table: EphemeronTable,
) -> Result<[Local<'s>; 2], OutOfMemory> {
    let of = heap.structure(NODE).unwrap();
    let array = heap.reference_array().unwrap();
    let made = [scope.null(), scope.null()];
    scope.nested(|scope| {
        let keys = scope.allocate_references(array, count as u32 + 1)?;
        for number in 0..=count {
            scope.nested(|scope| {
                let key = scope.allocate(of)?;
                scope.write_u64(key, 0, number as u64)?;
                scope.set(keys, number, key)
            })?;
        }
        let length = if apart { 0 } else { count as u32 };
        let all = scope.allocate_ephemeron_table(table, length)?;
        for (place, number) in order.links(count).into_iter().enumerate() {
            scope.nested(|scope| {
                let (key, next) = (scope.get(keys, number), scope.get(keys, number + 1));
                let (pairs, place) = if apart {
                    let own = scope.allocate_ephemeron_table(table, 1)?;
                    scope.set(key, 0, own)?;
                    (own, 0)
                } else {
                    (all, place)
                };
                scope.set(pairs, 2 * place, key)?;
                scope.set(pairs, 2 * place + 1, next)
            })?;
        }
        let key = scope.get(keys, 0);
        scope.assign(made[0], key);
        scope.assign(made[1], all);
        Ok(())
    })?;
    Ok(made)
}

/// So many looks at a key for each ephemeron, at most, in one trace: when it is reached, again when it was registered,
/// those at its neighbours in the table, and when it is settled; and those of a table that grew.
const MOST_LOOKS: u64 = 12;

fn looks_are_linear(
    setup: (References, OldPolicy),
    workers: usize,
    everything: bool,
    count: usize,
) {
    let traces = 1 + u64::from(everything && setup.1 != OldPolicy::MarkCompact);
    for order in Order::ALL {
        for apart in [false, true] {
            let heap = builder(setup, workers).young(192 << 20).build().unwrap();
            let table = heap.ephemeron_table().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let made = chain(scope, &heap, (order, apart, count), table);
                let [first, all] = made.unwrap();
                let done = collect(scope, &heap, everything);
                let context = format!("{setup:?}, {workers} workers, {order:?}, apart {apart}");
                assert!(
                    done.ephemeron_looks <= traces * MOST_LOOKS * count as u64,
                    "{} looks, {context}",
                    done.ephemeron_looks
                );
                // Every link is there.
                let (key, next) = (scope.null(), scope.null());
                scope.assign(key, first);
                for (number, place) in places(order, count).into_iter().enumerate() {
                    if apart {
                        scope.load(key, 0, next);
                        scope.load(next, 1, next);
                    } else {
                        scope.load(all, 2 * place + 1, next);
                    }
                    assert_eq!(scope.read_u64(next, 0), number as u64 + 1, "{context}");
                    scope.assign(key, next);
                }
                let nothing = scope.null();
                scope.assign(first, nothing);
                scope.assign(key, nothing);
                scope.assign(next, nothing);
                let done = collect(scope, &heap, true);
                assert!(
                    done.ephemeron_looks <= 2 * MOST_LOOKS * count as u64,
                    "{context}"
                );
                if !apart {
                    let left = (0..count).find(|place| {
                        scope.nested(|scope| {
                            let held = scope.get(all, 2 * place);
                            !scope.is_null(held)
                        })
                    });
                    assert_eq!(left, None, "{context}");
                }
            });
        }
    }
}

/// Where each link lies in its table.
fn places(order: Order, count: usize) -> Vec<usize> {
    let mut places = vec![0; count];
    for (place, number) in order.links(count).into_iter().enumerate() {
        places[number] = place;
    }
    places
}

#[test]
fn looks_at_chains_are_linear_in_every_order() {
    for setup in [SETUPS[0], SETUPS[3]] {
        for workers in [1, 4] {
            for everything in [false, true] {
                looks_are_linear(setup, workers, everything, 13_000);
            }
        }
    }
}

/// A trace finds so many ephemerons, whose keys it reaches afterwards, behind the first one: the table of those that wait
/// was made for few.
#[test]
fn ephemerons_that_a_trace_finds_while_it_follows_others_keep_their_values() {
    const COUNT: usize = 20_000;
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = builder(setup, 2).build().unwrap();
            let of = heap.structure(NODE).unwrap();
            let array = heap.reference_array().unwrap();
            let table = heap.ephemeron_table().unwrap();
            heap.attach().unwrap().scope(|scope| {
                let (first, second) = (scope.allocate(of).unwrap(), scope.allocate(of).unwrap());
                let roots = scope.allocate_ephemeron_table(table, 2).unwrap();
                scope.nested(|scope| {
                    // The value of the first key leads to all others, that of the second to their keys.
                    let all = scope.allocate_references(array, COUNT as u32).unwrap();
                    let keys = scope.allocate_references(array, COUNT as u32).unwrap();
                    let parts = [first, all, second, keys];
                    for (slot, part) in parts.into_iter().enumerate() {
                        scope.set(roots, slot, part).unwrap();
                    }
                    for number in 0..COUNT {
                        scope.nested(|scope| {
                            let own = scope.allocate_ephemeron_table(table, 1).unwrap();
                            let [key, value] = [(); 2].map(|()| scope.allocate(of).unwrap());
                            scope.write_u64(value, 0, number as u64).unwrap();
                            scope.set(own, 0, key).unwrap();
                            scope.set(own, 1, value).unwrap();
                            scope.set(all, number, own).unwrap();
                            scope.set(keys, number, key).unwrap();
                        });
                    }
                });
                scope.collect(everything);
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let all = scope.get(roots, 1);
                        let own = scope.get(all, number);
                        let value = scope.get(own, 1);
                        assert_eq!(scope.read_u64(value, 0), number as u64, "{setup:?}");
                    });
                }
            });
        }
    }
}

#[test]
fn looks_at_a_million_ephemerons_are_linear_in_every_order() {
    looks_are_linear(SETUPS[0], 2, true, MILLION);
    looks_are_linear(SETUPS[1], 2, false, MILLION);
}
