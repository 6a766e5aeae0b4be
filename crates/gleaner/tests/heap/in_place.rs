//! A young generation in place: new objects lie in free lines of the old space, and stay there, but where few of them live.
//! Collections of new objects look at roots and dirty cards, and at no old object beside them.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::setups::FORMATS;
use gleaner::{
    Builder, Elements, Finalizing, Generations, Heap, Local, NurseryPolicy, OldPolicy, Phase,
    References, Scope, Structure, Type,
};

const MB: usize = 1 << 20;
const NODE: Structure = Structure {
    references: 2,
    bytes: 40,
};

fn builder(references: References, workers: usize) -> Builder {
    Heap::builder()
        .limit(24 * MB)
        .young(2 * MB)
        .resize(false)
        .generations(Generations::Always)
        .old(OldPolicy::MarkRegion)
        .nursery(NurseryPolicy::InPlace)
        .references(references)
        .workers(workers)
        .crew(gleaner::Crew::All)
        .ignore_environment()
}

/// A table of `count` nodes with numbers from `first` on.
fn nodes<'s>(
    scope: &mut Scope<'s>,
    heap: &Heap,
    node: Type,
    (first, count): (usize, usize),
) -> Local<'s> {
    let slots = heap.reference_array().unwrap();
    let table = scope.allocate_references(slots, count as u32).unwrap();
    for number in 0..count {
        scope.nested(|scope| {
            let one = scope.allocate(node).unwrap();
            scope.write_u64(one, 0, (first + number) as u64).unwrap();
            scope.set(table, number, one).unwrap();
        });
    }
    table
}

fn check(scope: &mut Scope<'_>, table: Local<'_>, (first, count): (usize, usize)) {
    for number in 0..count {
        scope.nested(|scope| {
            let one = scope.get(table, number);
            assert_eq!(scope.read_u64(one, 0), (first + number) as u64);
        });
    }
}

#[test]
fn old_objects_on_clean_cards_are_not_looked_at() {
    const OLD: usize = 50_000;
    const STORED: usize = 100;
    for references in FORMATS {
        for workers in [1, 3] {
            let heap = builder(references, workers)
                .verify(true)
                .poison(true)
                .build()
                .unwrap();
            let marked = Arc::<AtomicU64>::default();
            let heard = marked.clone();
            heap.add_listener(move |event| {
                if event.phase == Phase::Mark {
                    heard.store(event.objects, Ordering::Relaxed);
                }
            });
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let table = nodes(scope, &heap, node, (0, OLD));
                // All of it is old, and no card is dirty.
                scope.collect(true);
                let before = heap.totals();
                // Their table is large, so no new object shares a card that is stored to with an old one.
                let fresh = nodes(scope, &heap, node, (7, 10_000));
                scope.collect(false);
                let after = heap.totals();
                assert_eq!(after.scavenges, before.scavenges + 1);
                assert_eq!(after.full_collections, before.full_collections);
                assert_eq!(after.remembered_looks, before.remembered_looks);
                assert_eq!(marked.load(Ordering::Relaxed), 10_001);
                check(scope, fresh, (7, 10_000));
                // As many old objects as were stored into refer to new ones, and to nothing else that is new.
                for number in 0..STORED {
                    scope.nested(|scope| {
                        let old = scope.get(table, number * (OLD / STORED));
                        let new = scope.allocate(node).unwrap();
                        scope.write_u64(new, 0, !(number as u64)).unwrap();
                        scope.set(old, 0, new).unwrap();
                    });
                }
                scope.collect(false);
                let last = heap.totals();
                assert_eq!(marked.load(Ordering::Relaxed), STORED as u64);
                // At most ten objects of 56 bytes and more begin on a card, and one reaches into it.
                let looks = (last.remembered_looks - after.remembered_looks) as usize;
                assert!((STORED..=11 * STORED).contains(&looks), "{looks}");
                for number in 0..STORED {
                    scope.nested(|scope| {
                        let old = scope.get(table, number * (OLD / STORED));
                        let new = scope.get(old, 0);
                        assert_eq!(scope.read_u64(new, 0), !(number as u64));
                    });
                }
                check(scope, table, (0, OLD));
                scope.collect(false);
                assert_eq!(marked.load(Ordering::Relaxed), 0);
                assert_eq!(heap.totals().remembered_looks, last.remembered_looks);
            });
        }
    }
}

/// What dies young leaves its lines to others, collection by collection, beside what stays.
#[test]
fn lines_of_the_dead_are_filled_again_without_a_collection_of_everything() {
    const COUNT: usize = 100_000;
    for references in FORMATS {
        let heap = builder(references, 2).verify(true).build().unwrap();
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let table = nodes(scope, &heap, node, (0, COUNT));
            scope.collect(true);
            let (before, used) = (heap.totals(), heap.used());
            for round in 0..800 {
                scope.nested(|scope| {
                    let fresh = nodes(scope, &heap, node, (round, 1000));
                    check(scope, fresh, (round, 1000));
                });
            }
            let after = heap.totals();
            // 800 times 1000 nodes of 56 bytes and more are 42 MB, and a collection comes behind each 2 MB.
            assert!(after.scavenges >= before.scavenges + 20, "{after:?}");
            assert_eq!(after.full_collections, before.full_collections);
            assert!(heap.used() < used + 5 * MB, "{} of {used}", heap.used());
            check(scope, table, (0, COUNT));
        });
    }
}

/// What is old and dies is found by a collection of everything alone, which comes by itself when the heap has grown.
#[test]
fn everything_is_collected_when_the_heap_has_grown() {
    let heap = builder(References::Wide, 2).verify(true).build().unwrap();
    let reasons = Arc::<Mutex<Vec<&'static str>>>::default();
    let heard = reasons.clone();
    heap.add_listener(move |event| {
        if event.phase == Phase::Evacuation {
            heard.lock().unwrap().push("everything");
        } else if event.phase == Phase::Resize {
            heard.lock().unwrap().push(event.reason);
        }
    });
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let kept = scope.null();
        // Each table is old when the next one takes its place, and there are 64 MB of them in a heap of 24.
        for round in 0..100 {
            scope.nested(|scope| {
                let table = nodes(scope, &heap, node, (round, 10_000));
                scope.assign(kept, table);
            });
            check(scope, kept, (round, 10_000));
        }
    });
    let totals = heap.totals();
    assert!(totals.full_collections >= 1, "{totals:?}");
    assert!(totals.scavenges > 4 * totals.full_collections, "{totals:?}");
    let reasons = reasons.lock().unwrap();
    let first = reasons.iter().position(|reason| *reason == "everything");
    let why = reasons[first.expect("an evacuation") - 1];
    let known = [
        "new objects have little room",
        "what is not free has grown since everything was collected",
        "collections of new objects free little",
    ];
    assert!(known.contains(&why), "{reasons:?}");
}

/// Threads that allocate at the same time share blocks with holes, free blocks, and what is beside them.
#[test]
fn several_threads_and_workers_fill_the_same_space() {
    for references in FORMATS {
        let heap = builder(references, 3)
            .verify(true)
            .poison(true)
            .build()
            .unwrap();
        let node = heap.structure(NODE).unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        thread::scope(|threads| {
            for number in 0..4 {
                let heap = heap.clone();
                threads.spawn(move || {
                    let mut mutator = heap.attach().unwrap();
                    mutator.scope(|scope| {
                        let kept = scope.null();
                        for round in 0..30 {
                            scope.nested(|scope| {
                                let first = number * 1000 + round;
                                let table = nodes(scope, &heap, node, (first, 3000));
                                let sizes = [100, 500, 3000, 12_000, 40_000];
                                let array = scope.allocate_array(bytes, sizes[round % 5]).unwrap();
                                assert_eq!(scope.read_u8(array, sizes[round % 5] as usize - 1), 0);
                                scope.assign(kept, table);
                            });
                            check(scope, kept, (number * 1000 + round, 3000));
                        }
                    });
                });
            }
        });
        let totals = heap.totals();
        assert!(totals.scavenges > 5, "{totals:?}");
    }
}

/// I2 in lines that were used before, for each way to zero them, with small and with larger objects.
#[test]
fn memory_of_lines_that_were_used_reads_as_zero() {
    for zeroing in ["hot-path", "bulk", "non-temporal", "window"] {
        let heap = builder(References::Compressed, 1)
            .options(&format!("zeroing={zeroing}"))
            .unwrap()
            .poison(true)
            .verify(true)
            .build()
            .unwrap();
        let node = heap.structure(NODE).unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            // A few old nodes in many blocks leave holes of all sizes.
            let table = nodes(scope, &heap, node, (0, 60_000));
            let nothing = scope.null();
            for number in (0..60_000).filter(|number| number % 97 > number % 13) {
                scope.set(table, number, nothing).unwrap();
            }
            scope.collect(true);
            for round in 0..60_000 {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    for word in 0..5 {
                        assert_eq!(scope.read_u64(one, word), 0, "{zeroing}");
                        scope.write_u64(one, word, !0).unwrap();
                    }
                    if round % 50 == 0 {
                        let length = [130, 400, 2000, 9000][round / 50 % 4];
                        let array = scope.allocate_array(bytes, length).unwrap();
                        for at in 0..length as usize {
                            assert_eq!(scope.read_u8(array, at), 0, "{zeroing}");
                            scope.write_u8(array, at, 0xff).unwrap();
                        }
                    }
                });
            }
        });
        assert!(heap.totals().scavenges > 0);
    }
}

/// A walk finds what is new among what is old, also behind a collection.
#[test]
fn walks_find_new_objects_and_old_ones() {
    let heap = builder(References::Wide, 1).verify(true).build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let count = |scope: &mut Scope<'_>| {
            let mut found = 0;
            scope.walk(&mut |object| {
                found += usize::from(object.bytes == 64);
            });
            found
        };
        let old = nodes(scope, &heap, node, (0, 1000));
        assert_eq!(count(scope), 1000);
        scope.collect(false);
        let new = nodes(scope, &heap, node, (5, 500));
        assert_eq!(count(scope), 1500);
        let nothing = scope.null();
        scope.assign(new, nothing);
        scope.collect(false);
        assert_eq!(count(scope), 1000);
        scope.assign(old, nothing);
        scope.collect(false);
        // What is old and dead is there until everything is collected.
        assert_eq!(count(scope), 1000);
        scope.collect(true);
        assert_eq!(count(scope), 0);
    });
}

/// Weak references, ephemerons and finalizers of new objects, and of old ones that die with everything.
#[test]
fn what_is_weak_follows_what_lives_in_place() {
    const COUNT: usize = 600;
    for references in FORMATS {
        for workers in [1, 3] {
            let heap = builder(references, workers)
                .verify(true)
                .poison(true)
                .build()
                .unwrap();
            let node = heap.structure(NODE).unwrap();
            let weak = heap.weak_array().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let kept = nodes(scope, &heap, node, (0, COUNT));
                let watched = scope.allocate_weak_array(weak, 2 * COUNT as u32).unwrap();
                let mut pairs = Vec::new();
                let finalizing = Finalizing {
                    order: 0,
                    revives: false,
                };
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let one = scope.get(kept, number);
                        let dead = scope.allocate(node).unwrap();
                        scope.set(watched, number, one).unwrap();
                        scope.set(watched, COUNT + number, dead).unwrap();
                        let value = scope.allocate(node).unwrap();
                        scope.write_u64(value, 1, number as u64).unwrap();
                        let key = if number % 2 == 0 { one } else { dead };
                        pairs.push(scope.ephemeron(key, value).unwrap());
                        scope.finalizer(key, value, finalizing).unwrap();
                    });
                }
                let look = |scope: &mut Scope<'_>, lives: &dyn Fn(usize) -> bool| {
                    for number in 0..2 * COUNT {
                        scope.nested(|scope| {
                            let one = scope.get(watched, number);
                            assert_eq!(scope.is_null(one), !lives(number), "{number}");
                        });
                    }
                    for (number, pair) in pairs.iter().enumerate() {
                        scope.nested(|scope| {
                            let (key, value) = (scope.key(pair), scope.value_of(pair));
                            let is_dead = number % 2 != 0 || !lives(number);
                            assert_eq!(scope.is_null(key), is_dead, "{number}");
                            assert_eq!(scope.is_null(value), is_dead, "{number}");
                            if !is_dead {
                                assert_eq!(scope.read_u64(value, 1), number as u64);
                            }
                        });
                    }
                };
                scope.collect(false);
                look(scope, &|number| number < COUNT);
                assert_eq!(heap.ready_finalizers(), COUNT / 2);
                // Old objects live on until everything is collected.
                let nothing = scope.null();
                (0..COUNT).for_each(|number| scope.set(kept, number, nothing).unwrap());
                scope.collect(false);
                look(scope, &|number| number < COUNT);
                scope.collect(true);
                look(scope, &|_| false);
                assert_eq!(heap.ready_finalizers(), COUNT);
            });
        }
    }
}

/// Spines are new objects as others are; their arraylets lie beside, and become old with them.
#[test]
fn arrays_in_pieces_become_old_in_place() {
    const LENGTH: usize = 4000;
    for arrays in ["zray", "naive-b"] {
        for references in FORMATS {
            let heap = builder(references, 2)
                .options(&format!("arrays={arrays}"))
                .unwrap()
                .verify(true)
                .poison(true)
                .build()
                .unwrap();
            let node = heap.structure(NODE).unwrap();
            let slots = heap.reference_array().unwrap();
            let numbers = heap.array(Elements::Doubles).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let old = scope.allocate_references(slots, LENGTH as u32).unwrap();
                for round in 0..12 {
                    let array = scope.allocate_array(numbers, LENGTH as u32).unwrap();
                    for number in (round..LENGTH).step_by(12) {
                        scope.nested(|scope| {
                            let new = scope.allocate(node).unwrap();
                            scope.write_u64(new, 0, number as u64).unwrap();
                            scope.set(old, number, new).unwrap();
                            scope.write_u64(array, number, number as u64).unwrap();
                        });
                    }
                    scope.collect(round == 7);
                    for number in 0..LENGTH {
                        scope.nested(|scope| {
                            let one = scope.get(old, number);
                            let is_set = number % 12 <= round;
                            assert_eq!(scope.is_null(one), !is_set);
                            assert!(!is_set || scope.read_u64(one, 0) == number as u64);
                            let expected = if number % 12 == round { number } else { 0 };
                            assert_eq!(scope.read_u64(array, number), expected as u64);
                        });
                    }
                }
            });
        }
    }
}

/// A heap in which every second line keeps an object is slid together, once: then there is room for long.
#[test]
fn what_is_free_in_pieces_is_slid_together() {
    const COUNT: usize = 240_000;
    let heap = builder(References::Wide, 2)
        .limit(18 * MB)
        .verify(true)
        .build()
        .unwrap();
    let slid = Arc::<AtomicU64>::default();
    let heard = slid.clone();
    heap.add_listener(move |event| {
        heard.fetch_add(u64::from(event.phase == Phase::Slide), Ordering::Relaxed);
    });
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let table = nodes(scope, &heap, node, (0, COUNT));
        // One of four stays. It marks a line, and the next one counts as in use: so all are.
        let nothing = scope.null();
        for number in (0..COUNT).filter(|number| number % 4 != 0) {
            scope.set(table, number, nothing).unwrap();
        }
        // As the heap was being filled, sliding made little room, which is doubted more with each of these.
        slid.store(0, Ordering::Relaxed);
        let before = heap.used();
        (0..5).for_each(|_| scope.collect(true));
        assert_eq!(slid.load(Ordering::Relaxed), 1, "{:?}", heap.totals());
        assert!(
            heap.used() + 10 * MB < before,
            "{} of {before}",
            heap.used()
        );
        for round in 0..50 {
            scope.nested(|scope| {
                nodes(scope, &heap, node, (round, 2000));
            });
        }
        for number in (0..COUNT).step_by(4) {
            scope.nested(|scope| {
                let one = scope.get(table, number);
                assert_eq!(scope.read_u64(one, 0), number as u64);
            });
        }
    });
}

/// While an object is pinned nothing is slid, though what is free lies in pieces; and it is when the pin is taken back.
#[test]
fn nothing_is_slid_around_a_pinned_object() {
    const COUNT: usize = 240_000;
    for (references, limit) in FORMATS.into_iter().zip([18 * MB, 15 * MB]) {
        let heap = builder(references, 2)
            .limit(limit)
            .verify(true)
            .build()
            .unwrap();
        let (slid, left) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let heard = (slid.clone(), left.clone());
        heap.add_listener(move |event| {
            let is_left = event.reason.starts_with("young objects are left");
            heard
                .0
                .fetch_add(u64::from(event.phase == Phase::Slide), Ordering::Relaxed);
            heard.1.fetch_add(u64::from(is_left), Ordering::Relaxed);
        });
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let table = nodes(scope, &heap, node, (0, COUNT));
            // The last of all, which sliding would move.
            let last = scope.get(table, COUNT - 1);
            let place = scope.pin(last).unwrap();
            let nothing = scope.null();
            for number in (0..COUNT).filter(|number| number % 4 != 3) {
                scope.set(table, number, nothing).unwrap();
            }
            slid.store(0, Ordering::Relaxed);
            for _ in 0..5 {
                scope.collect(true);
                scope.collect(false);
            }
            assert_eq!(slid.load(Ordering::Relaxed), 0, "{:?}", heap.totals());
            assert_eq!(left.load(Ordering::Relaxed), 0, "nothing is young");
            assert_eq!(scope.pin(last), Ok(place));
            (0..2).for_each(|_| scope.unpin(last).unwrap());
            (0..5).for_each(|_| scope.collect(true));
            assert_eq!(slid.load(Ordering::Relaxed), 1, "{:?}", heap.totals());
            assert_ne!(scope.pin(last), Ok(place));
            for number in (3..COUNT).step_by(4) {
                scope.nested(|scope| {
                    let one = scope.get(table, number);
                    assert_eq!(scope.read_u64(one, 0), number as u64);
                });
            }
        });
    }
}

#[test]
fn what_does_not_go_with_it_is_refused_with_a_remedy() {
    let error = |nursery: &str, options: &str| {
        let list = format!("nursery={nursery},{options}");
        let builder = Heap::builder().ignore_environment();
        builder
            .options(&list)
            .unwrap()
            .build()
            .unwrap_err()
            .to_string()
    };
    let cases = [
        ("old=mark-compact", "old", "old=mark-region"),
        ("old=mark-sweep", "old", "old=mark-region"),
        ("old=mark-region,plan=naps", "pages", "pages=first-touch"),
        (
            "old=mark-region,pages=segregated",
            "pages",
            "pages=first-touch",
        ),
        ("old=mark-region,quarantine=2", "quarantine", "quarantine=0"),
        (
            "old=mark-region,zeroing=concurrent",
            "zeroing",
            "zeroing=bulk",
        ),
        (
            "old=mark-region,zeroing=adaptive",
            "zeroing",
            "zeroing=bulk",
        ),
        ("old=mark-region,zeroing=auto", "zeroing", "zeroing=bulk"),
    ];
    for nursery in ["in-place", "auto"] {
        for (options, option, instead) in cases {
            let text = error(nursery, options);
            let begin = format!(
                "option nursery: {nursery} does not go with this value of option {option}: "
            );
            let end = format!("choose {instead}, or nursery=copy");
            assert!(text.starts_with(&begin) && text.ends_with(&end), "{text}");
        }
        let list = format!("nursery={nursery},old=mark-region,plan=naps,pages=first-touch");
        let builder = Heap::builder().ignore_environment();
        assert!(builder.options(&list).unwrap().build().is_ok());
    }
}

/// Small objects, larger ones and those with pages of their own fill a heap together until nothing more fits. None of them
/// takes what another one has, and the verifier finds no more than the limit in use.
#[test]
fn a_heap_is_full_within_its_limit_and_empty_again() {
    for references in FORMATS {
        let heap = builder(references, 2)
            .limit(8 * MB)
            .verify(true)
            .poison(true)
            .build()
            .unwrap();
        let node = heap.structure(NODE).unwrap();
        let slots = heap.reference_array().unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            for round in 0..3 {
                let kept = scope.allocate_references(slots, 200_000).unwrap();
                let (mut next, mut full) = (0, 0);
                // Each kind in turn until none of the three fits: the small ones last.
                while full < 3 {
                    let kind = next % 3;
                    let is_full = scope.nested(|scope| {
                        let one = match kind {
                            0 => scope.allocate(node),
                            1 => scope.allocate_array(bytes, 5000),
                            _ => scope.allocate_array(bytes, 60_000),
                        };
                        match one {
                            Ok(one) => scope.set(kept, next, one).unwrap(),
                            Err(_) => return true,
                        }
                        false
                    });
                    full = if is_full { full + 1 } else { 0 };
                    next += 1;
                    assert!(heap.used() <= heap.limit(), "{round}");
                }
                assert!(heap.used() > 7 * MB, "{}", heap.used());
                let nothing = scope.null();
                scope.assign(kept, nothing);
            }
            scope.collect(true);
            assert!(heap.used() < MB, "{}", heap.used());
        });
    }
}

/// What two objects leave behind that die in a full heap is room for another one, though it is less than a block.
#[test]
fn a_full_heap_has_room_for_as_much_as_dies() {
    for references in FORMATS {
        for length in [40, 400, 3000, 12_000] {
            let heap = builder(references, 2)
                .limit(4 * MB)
                .verify(true)
                .build()
                .unwrap();
            let slots = heap.reference_array().unwrap();
            let bytes = heap.array(Elements::Bytes).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let kept = scope.allocate_references(slots, 100_000).unwrap();
                let allocate = |scope: &mut Scope<'_>, number: usize| {
                    scope.nested(|scope| {
                        let one = scope.allocate_array(bytes, length)?;
                        scope.write_u8(one, length as usize - 1, number as u8)?;
                        scope.set(kept, number, one)
                    })
                };
                let count = (0..).find(|&number| allocate(scope, number).is_err());
                let count = count.unwrap();
                // It was full to a line, where one begins behind what was slid together.
                let (left, object) = (heap.limit() - heap.used(), length as usize + 24);
                assert!(left < object + 2 * 128, "{left} of {length}");
                let nothing = scope.null();
                for round in 1..4 {
                    for number in [round, count - round] {
                        scope.set(kept, number, nothing).unwrap();
                    }
                    allocate(scope, round).unwrap();
                }
                assert!(heap.used() <= heap.limit());
                for number in 0..count - 3 {
                    scope.nested(|scope| {
                        let one = scope.get(kept, number);
                        let last = scope.read_u8(one, length as usize - 1);
                        assert_eq!(last, number as u8, "{length}");
                    });
                }
            });
        }
    }
}

/// Puts new nodes into a table, each `step`-th of those that are allocated; and where each of them lies.
fn thin<'s>(
    scope: &mut Scope<'s>,
    heap: &Heap,
    node: Type,
    (count, step): (usize, usize),
) -> (Local<'s>, Vec<NonNull<u8>>) {
    let slots = heap.reference_array().unwrap();
    let table = scope.allocate_references(slots, count as u32).unwrap();
    let mut places = Vec::new();
    for number in 0..count * step {
        scope.nested(|scope| {
            let one = scope.allocate(node).unwrap();
            if number % step == 0 {
                scope.write_u64(one, 0, (number / step) as u64).unwrap();
                scope.set(one, 0, one).unwrap();
                scope.set(table, number / step, one).unwrap();
                places.push(place(scope, one));
            }
        });
    }
    (table, places)
}

/// Where an object lies.
fn place(scope: &mut Scope<'_>, object: Local<'_>) -> NonNull<u8> {
    let place = scope.pin(object).unwrap();
    scope.unpin(object).unwrap();
    place
}

/// Where few new objects of a free block live, these are copied together, and every reference follows; but not what is pinned,
/// nor what lies beside it.
#[test]
fn new_objects_are_copied_out_of_blocks_where_few_live() {
    const COUNT: usize = 1000;
    const STEP: usize = 20;
    const PINNED: usize = 500;
    for references in FORMATS {
        for workers in [1, 3] {
            let heap = builder(references, workers)
                .verify(true)
                .poison(true)
                .build()
                .unwrap();
            let node = heap.structure(NODE).unwrap();
            let weak = heap.weak_array().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                // It is known then how few live.
                scope.nested(|scope| {
                    let _kept = thin(scope, &heap, node, (COUNT, STEP));
                    scope.collect(false);
                });
                scope.collect(true);
                let used = heap.used();
                let (table, before) = thin(scope, &heap, node, (COUNT, STEP));
                let watched = scope.allocate_weak_array(weak, COUNT as u32).unwrap();
                let held = scope.get(table, 7);
                let held = scope.handle(held).unwrap();
                let mut hashes = Vec::new();
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let one = scope.get(table, number);
                        scope.set(watched, number, one).unwrap();
                        hashes.push(scope.identity_hash(one));
                    });
                }
                let pinned = scope.get(table, PINNED);
                scope.pin(pinned).unwrap();
                scope.collect(false);
                // The nodes are a twentieth of 1.3 MB, and each would take two lines from others.
                let more = heap.used() - used;
                assert!(more < 300 << 10, "{more}");
                let mut stayed = 0;
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let (one, same) = (scope.get(table, number), scope.get(watched, number));
                        assert!(scope.same(one, same));
                        let same = scope.get(one, 0);
                        assert!(scope.same(one, same));
                        assert_eq!(scope.read_u64(one, 0), number as u64);
                        assert_eq!(scope.identity_hash(one), hashes[number]);
                        stayed += usize::from(place(scope, one) == before[number]);
                    });
                }
                // A block of 32 KB has some 28 of them, and mutators were in a few that were not free.
                assert!((1..200).contains(&stayed), "{stayed}");
                assert_eq!(place(scope, pinned), before[PINNED]);
                let one = scope.open(&held);
                assert_eq!(scope.read_u64(one, 0), 7);
                // They are old now, and stay.
                let places = (0..COUNT).map(|number| {
                    let one = scope.get(table, number);
                    place(scope, one)
                });
                let places: Vec<_> = places.collect();
                scope.collect(false);
                for (number, &expected) in places.iter().enumerate() {
                    scope.nested(|scope| {
                        let one = scope.get(table, number);
                        assert_eq!(place(scope, one), expected);
                    });
                }
            });
        }
    }
}

/// Where most live they stay, and so they do in a full heap.
#[test]
fn new_objects_stay_where_many_live_and_where_no_block_is_free() {
    let heap = builder(References::Wide, 2).verify(true).build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        for step in [1, 2] {
            scope.nested(|scope| _ = thin(scope, &heap, node, (5000, step)));
            let (table, before) = thin(scope, &heap, node, (5000, step));
            scope.collect(false);
            scope.collect(false);
            for (number, &expected) in before.iter().enumerate() {
                scope.nested(|scope| {
                    let one = scope.get(table, number);
                    assert_eq!(place(scope, one), expected, "{step}");
                });
            }
        }
    });
}
