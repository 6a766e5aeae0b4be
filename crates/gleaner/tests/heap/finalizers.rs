//! Finalizers: they keep values, are handed out in order, are taken back, announce that they are ready, and
//! old ones cost a scavenge nothing. Several workers go through many.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::random::Rng;
use crate::setups::{SETUPS, Setup, checked_under};
use gleaner::{Finalizing, Heap, Local, Scope, Structure, Type};

const NODE: Structure = Structure {
    references: 1,
    bytes: 8,
};

fn heap(setup: Setup) -> Heap {
    checked_under(setup, 64 << 20)
        .young(4 << 20)
        .build()
        .unwrap()
}

fn node<'s>(scope: &mut Scope<'s>, of: Type, number: u64) -> Local<'s> {
    let object = scope.allocate(of).unwrap();
    scope.write_u64(object, 0, number).unwrap();
    object
}

/// Makes a finalizer of a fresh object with this number, whose value has the number and a thousand; and forgets all three.
fn forget(scope: &mut Scope<'_>, of: Type, number: u64, order: u8, revives: bool) {
    scope.nested(|scope| {
        let (object, value) = (node(scope, of, number), node(scope, of, 1000 + number));
        let finalizing = Finalizing { order, revives };
        match number % 2 {
            0 => scope.finalizer(object, value, finalizing).map(|_| ()),
            _ => scope.finalize(object, value, finalizing),
        }
        .unwrap();
    });
}

/// The numbers of the objects that are handed out, in order; of those that were not revived, that of the value.
fn handed_out(scope: &mut Scope<'_>) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(number) = scope.nested(|scope| {
        let ready = scope.next_finalizer()?;
        let value = scope.read_u64(ready.value, 0);
        Some(if scope.is_null(ready.object) {
            value
        } else {
            assert_eq!(scope.read_u64(ready.object, 0) + 1000, value);
            value - 1000
        })
    }) {
        numbers.push(number);
    }
    numbers
}

#[test]
fn they_are_handed_out_by_order_and_then_as_they_were_made() {
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = heap(setup);
            let of = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let mut random = Rng::new(5);
                let mut all: Vec<(u8, u64)> = (0..500)
                    .map(|number| (random.below(8) as u8, number))
                    .collect();
                for &(order, number) in &all {
                    forget(scope, of, number, order, number % 3 > 0);
                }
                assert_eq!(heap.ready_finalizers(), 0);
                scope.collect(everything);
                assert_eq!(heap.ready_finalizers(), 500);
                // What becomes ready later comes behind, in its order.
                forget(scope, of, 501, 3, true);
                scope.collect(everything);
                all.push((3, 501));
                all.sort_unstable();
                let expected = all.iter().map(|&(_, number)| match number % 3 {
                    0 if number < 500 => 1000 + number,
                    _ => number,
                });
                assert_eq!(handed_out(scope), expected.collect::<Vec<_>>(), "{setup:?}");
                assert_eq!(heap.ready_finalizers(), 0);
                scope.collect(true);
                assert_eq!(handed_out(scope), [], "each once");
            });
        }
    }
}

#[test]
fn they_are_handed_out_as_they_were_made_where_a_trace_finds_them_in_another_order() {
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = heap(setup);
            let of = heap.structure(NODE).unwrap();
            let array = heap.reference_array().unwrap();
            heap.attach().unwrap().scope(|scope| {
                const COUNT: u64 = 100;
                // A trace comes to these first: every third one, and each of them in another place.
                let found = scope.allocate_references(array, COUNT as u32).unwrap();
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let (object, value) =
                            (node(scope, of, number), node(scope, of, 1000 + number));
                        let finalizing = Finalizing::default();
                        let finalizer = scope.finalizer(object, value, finalizing).unwrap();
                        if number % 3 == 0 {
                            let place = (number * 37 % COUNT) as usize;
                            scope.set(found, place, finalizer).unwrap();
                        }
                    });
                }
                scope.collect(everything);
                let expected: Vec<u64> = (0..COUNT).collect();
                assert_eq!(handed_out(scope), expected, "{setup:?}");
            });
        }
    }
}

#[test]
fn what_lives_waits_and_what_is_taken_back_is_not_handed_out() {
    for setup in SETUPS {
        let heap = heap(setup);
        let of = heap.structure(NODE).unwrap();
        let array = heap.reference_array().unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            const COUNT: usize = 3000;
            let objects = scope.allocate_references(array, COUNT as u32).unwrap();
            let finalizers = scope.allocate_references(array, COUNT as u32).unwrap();
            let mut random = Rng::new(9);
            // 0: lives; 1: waits, and its object is dropped later; 2: was handed out or taken back.
            let mut states = vec![0; COUNT];
            for number in 0..COUNT {
                scope.nested(|scope| {
                    let object = node(scope, of, number as u64);
                    let value = node(scope, of, 1000 + number as u64);
                    let finalizing = Finalizing::default();
                    let finalizer = scope.finalizer(object, value, finalizing).unwrap();
                    scope.set(objects, number, object).unwrap();
                    scope.set(finalizers, number, finalizer).unwrap();
                });
            }
            for round in 0..40 {
                for _ in 0..60 {
                    let number = random.below(COUNT);
                    scope.nested(|scope| {
                        let nothing = scope.null();
                        let finalizer = scope.get(finalizers, number);
                        if states[number] == 0 && random.one_in(2) {
                            scope.set(objects, number, nothing).unwrap();
                            states[number] = 1;
                        } else {
                            let taken = scope.take_back(finalizer);
                            assert_eq!(taken, states[number] < 2, "{number}");
                            states[number] = 2;
                        }
                    });
                }
                scope.collect(round % 4 == 3);
                // What died and is ready may be taken back still.
                let number = random.below(COUNT);
                scope.nested(|scope| {
                    let finalizer = scope.get(finalizers, number);
                    assert_eq!(scope.take_back(finalizer), states[number] < 2);
                    states[number] = 2;
                });
                for number in handed_out(scope) {
                    assert_eq!(states[number as usize], 1, "{number}, {setup:?}");
                    states[number as usize] = 2;
                }
                if round % 4 == 3 {
                    assert_eq!(states.iter().position(|&state| state == 1), None);
                }
            }
            for (number, &state) in states.iter().enumerate() {
                scope.nested(|scope| {
                    let finalizer = scope.get(finalizers, number);
                    assert_eq!(scope.take_back(finalizer), state < 2);
                });
            }
            let nothing = scope.null();
            scope.assign(objects, nothing);
            scope.collect(true);
            assert_eq!(handed_out(scope), []);
        });
    }
}

#[test]
fn what_is_taken_back_is_announced_no_more_and_keeps_nothing() {
    for setup in SETUPS {
        for is_ready in [false, true] {
            let heap = heap(setup);
            let of = heap.structure(NODE).unwrap();
            heap.attach().unwrap().scope(|scope| {
                let (finalizer, kept) = (scope.null(), scope.null());
                let weak = scope.nested(|scope| {
                    let (object, value) = (node(scope, of, 1), node(scope, of, 2));
                    let finalizing = Finalizing::default();
                    let made = scope.finalizer(object, value, finalizing).unwrap();
                    scope.assign(finalizer, made);
                    if !is_ready {
                        scope.assign(kept, object);
                    }
                    scope.weak(value).unwrap()
                });
                scope.collect(true);
                assert_eq!(heap.ready_finalizers(), usize::from(is_ready));
                assert!(scope.take_back(finalizer));
                assert_eq!(heap.ready_finalizers(), 0);
                assert_eq!(handed_out(scope), []);
                scope.collect(true);
                let value = scope.upgrade(&weak);
                assert!(scope.is_null(value) && !scope.take_back(finalizer));
            });
        }
    }
}

/// Of several that are ready, those that were taken back are passed over, wherever they stand.
#[test]
fn what_was_taken_back_when_it_was_ready_is_passed_over() {
    for setup in SETUPS {
        let heap = heap(setup);
        let of = heap.structure(NODE).unwrap();
        heap.attach().unwrap().scope(|scope| {
            let finalizers = [(); 5].map(|()| scope.null());
            for (number, &finalizer) in finalizers.iter().enumerate() {
                scope.nested(|scope| {
                    let object = node(scope, of, number as u64);
                    let value = node(scope, of, 1000 + number as u64);
                    let finalizing = Finalizing::default();
                    let made = scope.finalizer(object, value, finalizing).unwrap();
                    scope.assign(finalizer, made);
                });
            }
            scope.collect(true);
            for number in [0, 2, 4] {
                assert!(scope.take_back(finalizers[number]));
            }
            assert_eq!(heap.ready_finalizers(), 2);
            assert_eq!(handed_out(scope), [1, 3]);
            assert_eq!(heap.ready_finalizers(), 0);
        });
    }
}

/// The heap has types of its own: a census names them, and a program cannot unregister them.
#[test]
fn the_types_of_the_heap_stay() {
    let heap = heap(SETUPS[0]);
    let of = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    let single = mutator.scope(|scope| {
        let object = node(scope, of, 2);
        let finalizer = scope.finalizer(object, object, Finalizing::default());
        let finalizer = scope.handle(finalizer.unwrap()).unwrap();
        let ephemeron = scope.ephemeron(object, object).unwrap();
        (scope.weak(object).unwrap(), ephemeron, finalizer)
    });
    let census = mutator.census();
    drop(single);
    for name in ["finalizer", "weak reference", "ephemeron"] {
        let counted = census.iter().find(|count| count.name == name);
        let counted = counted.unwrap_or_else(|| panic!("there is a {name}"));
        assert_eq!(counted.live.objects, 1, "{name}");
        let mut types = vec![counted.id];
        // SAFETY: nobody allocates objects of the type meanwhile.
        let unregister = AssertUnwindSafe(|| unsafe { mutator.unregister_types(&mut types) });
        let refused = catch_unwind(unregister).unwrap_err();
        let said = refused.downcast_ref::<String>().unwrap();
        let expected = "a type is unregistered that this heap has not";
        assert!(said.starts_with(expected), "{name}: {said}");
    }
}

#[test]
fn a_listener_hears_that_some_are_ready() {
    let heap = heap(SETUPS[0]);
    let of = heap.structure(NODE).unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let (told, asked) = (heard.clone(), heap.clone());
    heap.add_collection_listener(move |_| {
        told.store(asked.ready_finalizers(), Ordering::Relaxed);
    });
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        forget(scope, of, 1, 0, true);
        forget(scope, of, 2, 0, false);
        let object = node(scope, of, 3);
        scope.nested(|scope| {
            let value = node(scope, of, 1003);
            let finalizing = Finalizing::default();
            scope.finalizer(object, value, finalizing).unwrap();
        });
        scope.collect(false);
        assert_eq!(heard.load(Ordering::Relaxed), 2);
        let nothing = scope.null();
        scope.assign(object, nothing);
        scope.collect(true);
        assert_eq!(heard.load(Ordering::Relaxed), 3);
        assert_eq!(handed_out(scope), [1, 1002, 3]);
        assert_eq!(heap.ready_finalizers(), 0);
    });
}

#[test]
fn a_weak_reference_that_is_cleared_is_queued_with_its_value() {
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = heap(setup);
            let of = heap.structure(NODE).unwrap();
            let weak = heap.weak_array().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                // The value is the weak reference itself, and tells the program which one was cleared.
                let reference = scope.allocate_weak_array(weak, 1).unwrap();
                scope.nested(|scope| {
                    let object = node(scope, of, 1);
                    scope.set(reference, 0, object).unwrap();
                    let finalizing = Finalizing {
                        order: 0,
                        revives: false,
                    };
                    scope.finalizer(object, reference, finalizing).unwrap();
                });
                scope.collect(everything);
                let held = scope.get(reference, 0);
                let ready = scope.next_finalizer().unwrap();
                assert!(scope.is_null(held) && scope.is_null(ready.object));
                assert!(scope.same(ready.value, reference));
                assert!(scope.next_finalizer().is_none());
            });
        }
    }
}

/// The usual way to cancel: an object knows its finalizer, which no other root leads to.
#[test]
fn an_object_that_comes_back_may_take_back_another_finalizer_of_its_own() {
    for setup in SETUPS {
        for everything in [false, true] {
            let heap = heap(setup);
            let of = heap.structure(NODE).unwrap();
            heap.attach().unwrap().scope(|scope| {
                scope.nested(|scope| {
                    let (object, nothing) = (node(scope, of, 1), scope.null());
                    for order in [5, 2] {
                        let finalizing = Finalizing {
                            order,
                            revives: true,
                        };
                        let finalizer = scope.finalizer(object, nothing, finalizing).unwrap();
                        if order == 5 {
                            scope.set(object, 0, finalizer).unwrap();
                        }
                    }
                });
                scope.collect(everything);
                assert_eq!(heap.ready_finalizers(), 2);
                scope.collect(!everything);
                let object = scope.next_finalizer().unwrap().object;
                let other = scope.get(object, 0);
                assert!(scope.take_back(other), "{setup:?}");
                assert!(!scope.take_back(other));
                assert_eq!(heap.ready_finalizers(), 0);
                assert!(scope.next_finalizer().is_none());
            });
        }
    }
}

/// Many segments of the table, in which some wait, some become ready and some are taken back; four workers go through them
/// and move them, in scavenges and in collections of everything, while the program hands out a part.
#[test]
fn several_workers_keep_the_order_of_many_segments() {
    for setup in SETUPS {
        let heap = checked_under(setup, 64 << 20)
            .young(4 << 20)
            .workers(4)
            .build()
            .unwrap();
        let of = heap.structure(NODE).unwrap();
        let array = heap.reference_array().unwrap();
        heap.attach().unwrap().scope(|scope| {
            const COUNT: usize = 12_000;
            let objects = scope.allocate_references(array, COUNT as u32).unwrap();
            let finalizers = scope.allocate_references(array, COUNT as u32).unwrap();
            let mut random = Rng::new(17);
            // By number: the order, whether the finalizer revives, and whether it waits.
            let mut made: Vec<(u8, bool, bool)> = Vec::new();
            let mut ready: [VecDeque<u64>; 8] = Default::default();
            for round in 0..8 {
                while made.len() < COUNT * (round + 1) / 8 {
                    let number = made.len();
                    let (order, revives) = (random.below(8) as u8, random.below(4) > 0);
                    made.push((order, revives, true));
                    scope.nested(|scope| {
                        let object = node(scope, of, number as u64);
                        let value = node(scope, of, 1000 + number as u64);
                        let finalizing = Finalizing { order, revives };
                        let finalizer = scope.finalizer(object, value, finalizing).unwrap();
                        scope.set(objects, number, object).unwrap();
                        scope.set(finalizers, number, finalizer).unwrap();
                    });
                }
                // Some of the new ones die, some of all are taken back; old ones that die are found at once.
                let nothing = scope.null();
                let everything = round % 2 == 1;
                let first = match everything {
                    true => 0,
                    false => COUNT * round / 8,
                };
                let mut died = Vec::new();
                for (number, made) in made.iter_mut().enumerate().skip(first) {
                    let (order, _, waits) = *made;
                    if waits && random.one_in(3) {
                        made.2 = false;
                        scope.set(objects, number, nothing).unwrap();
                        died.push((order, number as u64));
                    } else if waits && random.one_in(9) {
                        made.2 = false;
                        scope.nested(|scope| {
                            let finalizer = scope.get(finalizers, number);
                            assert!(scope.take_back(finalizer));
                        });
                    }
                }
                scope.collect(everything);
                for (order, number) in died {
                    ready[usize::from(order)].push_back(number);
                }
                let count: usize = ready.iter().map(VecDeque::len).sum();
                assert_eq!(heap.ready_finalizers(), count, "{setup:?}");
                for _ in 0..count / 2 {
                    let next = ready.iter_mut().find_map(VecDeque::pop_front);
                    scope.nested(|scope| {
                        let number = next.unwrap();
                        let held = scope.next_finalizer().unwrap();
                        assert_eq!(scope.read_u64(held.value, 0), 1000 + number);
                        let revives = made[number as usize].1;
                        assert_eq!(scope.is_null(held.object), !revives);
                        assert!(!revives || scope.read_u64(held.object, 0) == number);
                        let finalizer = scope.get(finalizers, number as usize);
                        assert!(!scope.take_back(finalizer));
                    });
                }
            }
        });
    }
}

#[test]
fn an_empty_scavenge_beside_a_million_old_finalizers_looks_at_none() {
    const MILLION: u64 = 1_000_000;
    for setup in [SETUPS[0], SETUPS[3]] {
        let heap = Heap::builder()
            .limit(128 << 20)
            .references(setup.0)
            .old(setup.1)
            .workers(2)
            .build()
            .unwrap();
        let of = heap.structure(NODE).unwrap();
        let looks = || heap.totals().weak_looks;
        heap.attach().unwrap().scope(|scope| {
            let object = node(scope, of, 1);
            // Half of them are ready.
            for number in 0..MILLION {
                scope.nested(|scope| {
                    let other = match number % 2 {
                        0 => scope.allocate(of).unwrap(),
                        _ => object,
                    };
                    let finalizing = Finalizing::default();
                    match number % 3 {
                        0 => scope.finalizer(other, object, finalizing).map(|_| ()),
                        _ => scope.finalize(other, object, finalizing),
                    }
                    .unwrap();
                });
            }
            (0..20).for_each(|_| scope.collect(false));
            scope.collect(true);
            (0..20).for_each(|_| scope.collect(false));
            assert_eq!(heap.ready_finalizers(), MILLION as usize / 2);
            let before = looks();
            scope.collect(false);
            assert_eq!(looks() - before, 0, "{setup:?}");
            // One of a young object is looked at, with those that stand in front of it in its segment.
            let young = node(scope, of, 2);
            scope
                .finalizer(young, object, Finalizing::default())
                .unwrap();
            let before = looks();
            scope.collect(false);
            assert!((1..=512).contains(&(looks() - before)), "{setup:?}");
            let before = looks();
            scope.collect(true);
            assert!(
                looks() - before > MILLION,
                "those of everything are looked at"
            );
        });
    }
}

/// Which finalizer an object stands for is in a word of it, which a program does not reach.
#[test]
#[should_panic(expected = "item 0 of 8 bytes of an object that has 0 references in 16 bytes")]
fn what_finalizers_hold_is_the_heaps_own() {
    let heap = heap(SETUPS[0]);
    let of = heap.structure(NODE).unwrap();
    heap.attach().unwrap().scope(|scope| {
        let object = node(scope, of, 1);
        let finalizer = scope.finalizer(object, object, Finalizing::default());
        scope.write_u64(finalizer.unwrap(), 0, 5).unwrap();
    });
}

#[test]
#[should_panic(expected = "taking back a finalizer")]
fn what_is_no_finalizer_is_not_taken_back() {
    let heap = heap(SETUPS[0]);
    let of = heap.structure(NODE).unwrap();
    heap.attach().unwrap().scope(|scope| {
        let object = node(scope, of, 1);
        scope.take_back(object);
    });
}
