//! An old generation by lines: sparse blocks are evacuated while everything is marked, every reference follows, and blocks
//! in which nothing lives go back to the system. Events say what was evacuated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::setups::FORMATS;
use gleaner::{
    Array, Builder, Elements, Generations, Heap, Local, NurseryPolicy, OldPolicy, Phase,
    References, Scope, Structure, Type,
};

const MB: usize = 1 << 20;
const NODE: Structure = Structure {
    references: 2,
    bytes: 40,
};
/// As many as this of every eight times as many nodes stay: a few lines of each block.
const RUN: usize = 32;

/// What the events of the last collection of everything said of its evacuation: how many blocks were to go, why, and how
/// many bytes went.
#[derive(Clone, Copy, Default, Debug)]
struct Evacuated {
    blocks: u64,
    reason: &'static str,
    bytes: u64,
}

fn listen(heap: &Heap) -> Arc<Mutex<Evacuated>> {
    let last = Arc::<Mutex<Evacuated>>::default();
    let heard = last.clone();
    heap.add_listener(move |event| {
        let mut last = heard.lock().unwrap();
        match event.phase {
            Phase::Evacuation => (last.blocks, last.reason) = (event.objects, event.reason),
            Phase::Mark => last.bytes = event.bytes,
            _ => {}
        }
    });
    last
}

fn builder(references: References, workers: usize) -> Builder {
    Heap::builder()
        .limit(24 * MB)
        .young(2 * MB)
        .resize(false)
        .generations(Generations::Always)
        .old(OldPolicy::MarkRegion)
        .references(references)
        .workers(workers)
        .crew(gleaner::Crew::All)
        .ignore_environment()
}

/// A table of `count` nodes with numbers, each of which refers to the one before.
fn nodes<'s>(scope: &mut Scope<'s>, heap: &Heap, node: Type, count: usize) -> Local<'s> {
    let slots = heap.reference_array().unwrap();
    let table = scope.allocate_references(slots, count as u32).unwrap();
    scope.nested(|scope| {
        let before = scope.null();
        for number in 0..count {
            scope.nested(|scope| {
                let one = scope.allocate(node).unwrap();
                scope.write_u64(one, 0, number as u64).unwrap();
                scope.set(one, 0, before).unwrap();
                scope.set(table, number, one).unwrap();
                scope.assign(before, one);
            });
        }
    });
    table
}

const fn stays(number: usize) -> bool {
    (number / RUN).is_multiple_of(8)
}

/// All but a few nodes die: those that stay refer to each other within a run, and the first of each run to nothing.
fn thin_out(scope: &mut Scope<'_>, table: Local<'_>, count: usize) {
    let nothing = scope.null();
    for number in 0..count {
        if !stays(number) {
            scope.set(table, number, nothing).unwrap();
        } else if number % RUN == 0 {
            scope.nested(|scope| {
                let first = scope.get(table, number);
                scope.set(first, 0, nothing).unwrap();
            });
        }
    }
}

fn check(scope: &mut Scope<'_>, table: Local<'_>, count: usize) {
    for number in 0..count {
        scope.nested(|scope| {
            let one = scope.get(table, number);
            assert_eq!(scope.is_null(one), !stays(number));
            if !stays(number) {
                return;
            }
            assert_eq!(scope.read_u64(one, 0), number as u64);
            let before = scope.get(one, 0);
            assert_eq!(scope.is_null(before), number % RUN == 0);
            if number % RUN != 0 {
                let same = scope.get(table, number - 1);
                assert!(scope.same(before, same), "{number}");
            }
        });
    }
}

#[test]
fn sparse_blocks_are_evacuated_and_every_reference_follows() {
    const COUNT: usize = 100_000;
    for references in FORMATS {
        for workers in [1, 3] {
            let heap = builder(references, workers)
                .verify(true)
                .poison(true)
                .build()
                .unwrap();
            let last = listen(&heap);
            let node = heap.structure(NODE).unwrap();
            let weak = heap.weak_array().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let table = nodes(scope, &heap, node, COUNT);
                scope.collect(true);
                assert_eq!(last.lock().unwrap().bytes, 0);
                let watched = scope.allocate_weak_array(weak, COUNT as u32).unwrap();
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let one = scope.get(table, number);
                        scope.set(watched, number, one).unwrap();
                    });
                }
                let (held, hash) = scope.nested(|scope| {
                    let one = scope.get(table, 1);
                    (scope.handle(one).unwrap(), scope.identity_hash(one))
                });
                thin_out(scope, table, COUNT);
                // The sweep of this one finds out which blocks are sparse.
                scope.collect(true);
                check(scope, table, COUNT);
                // Old objects refer to young ones when they are copied.
                for number in (0..COUNT).filter(|&number| stays(number)).step_by(7) {
                    scope.nested(|scope| {
                        let (old, young) =
                            (scope.get(table, number), scope.allocate(node).unwrap());
                        scope.write_u64(young, 0, !(number as u64)).unwrap();
                        scope.set(old, 1, young).unwrap();
                    });
                }
                scope.collect(true);
                let evacuated = *last.lock().unwrap();
                // The nodes alone are 700 KB, in blocks of which an eighth is in use.
                assert!(evacuated.blocks > 100, "{evacuated:?}");
                assert!(evacuated.reason.contains("sparsest"), "{evacuated:?}");
                assert!(evacuated.bytes > 600_000, "{evacuated:?}");
                check(scope, table, COUNT);
                for number in (0..COUNT).filter(|&number| stays(number)).step_by(7) {
                    scope.nested(|scope| {
                        let old = scope.get(table, number);
                        let young = scope.get(old, 1);
                        assert_eq!(scope.read_u64(young, 0), !(number as u64));
                    });
                }
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let (one, same) = (scope.get(watched, number), scope.get(table, number));
                        assert_eq!(scope.is_null(one), !stays(number));
                        assert!(scope.same(one, same));
                    });
                }
                let one = scope.open(&held);
                assert_eq!(scope.read_u64(one, 0), 1);
                assert_eq!(scope.identity_hash(one), hash);
                // What was copied lies close together now: few blocks are sparse.
                scope.collect(true);
                let evacuated = *last.lock().unwrap();
                assert!(evacuated.bytes < 200_000, "{evacuated:?}");
                check(scope, table, COUNT);
            });
        }
    }
}

/// What lives is copied up, and the blocks that are left lie below: their memory goes back when it is not used for some
/// collections, and is there again when it is.
#[test]
fn blocks_that_were_evacuated_go_back_to_the_system() {
    const COUNT: usize = 200_000;
    let heap = builder(References::Wide, 2)
        .options("release-after=2")
        .unwrap()
        .verify(true)
        .build()
        .unwrap();
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let table = nodes(scope, &heap, node, COUNT);
        scope.collect(true);
        let full = heap.resident();
        thin_out(scope, table, COUNT);
        for _ in 0..6 {
            scope.collect(true);
        }
        let left = heap.resident();
        assert!(left + 8 * MB < full, "{left} of {full}");
        check(scope, table, COUNT);
        scope.nested(|scope| {
            nodes(scope, &heap, node, COUNT / 2);
            scope.collect(true);
        });
        check(scope, table, COUNT);
    });
}

/// Scavenges fill free lines: there is no full collection for what fits into them.
#[test]
fn free_lines_are_filled_before_everything_is_collected() {
    const COUNT: usize = 200_000;
    let heap = builder(References::Compressed, 1).build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let table = nodes(scope, &heap, node, COUNT);
        thin_out(scope, table, COUNT);
        scope.collect(true);
        let before = heap.used();
        let totals = heap.totals();
        scope.nested(|scope| {
            nodes(scope, &heap, node, COUNT / 2);
        });
        let more = heap.totals().full_collections - totals.full_collections;
        assert_eq!(more, 0);
        assert!(heap.used() <= before + 3 * MB);
        check(scope, table, COUNT);
    });
}

/// Keeps arrays of `bytes` bytes, with a number in the last element each, in a table from the place `next` on, as long as
/// `more` says so.
fn keep_arrays(
    scope: &mut Scope<'_>,
    of: Array,
    (table, next): (Local<'_>, &mut usize),
    bytes: usize,
    more: impl Fn(usize) -> bool,
) {
    let length = bytes / 8;
    let first = *next;
    while more(*next - first) {
        scope.nested(|scope| {
            let one = scope.allocate_array(of, length as u32).unwrap();
            scope.write_u64(one, length - 1, *next as u64).unwrap();
            scope.set(table, *next, one).unwrap();
        });
        *next += 1;
    }
}

/// Memory of many blocks went back, others are half full, and large objects have all the rest. What is promoted then fits
/// nowhere, so everything is slid into the blocks that hold no memory. As that would be more than the limit allows, what
/// objects leave goes back as they leave it.
#[test]
fn what_slides_into_vacant_blocks_gives_back_what_it_leaves() {
    const COUNT: usize = 150_000;
    const DEAD: usize = COUNT / 3;
    let lives = |number: usize| number >= DEAD && number % 64 < 40;
    for references in FORMATS {
        for workers in [1, 3] {
            let heap = builder(references, workers)
                .options("release-after=1")
                .unwrap()
                .tenure(0)
                .verify(true)
                .build()
                .unwrap();
            let given_back = Arc::<AtomicU64>::default();
            let heard = given_back.clone();
            heap.add_listener(move |event| {
                if event.phase == Phase::Slide {
                    heard.fetch_add(event.objects, Ordering::Relaxed);
                }
            });
            let node = heap.structure(NODE).unwrap();
            let doubles = heap.array(Elements::Doubles).unwrap();
            let slots = heap.reference_array().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let table = nodes(scope, &heap, node, COUNT);
                let arrays = scope.allocate_references(slots, 1000).unwrap();
                scope.collect(true);
                let nothing = scope.null();
                for number in 0..COUNT {
                    if !lives(number) {
                        scope.set(table, number, nothing).unwrap();
                    } else {
                        scope.nested(|scope| {
                            let one = scope.get(table, number);
                            scope.set(one, 0, nothing).unwrap();
                        });
                    }
                }
                let full = heap.resident();
                (0..3).for_each(|_| scope.collect(true));
                let left = heap.resident();
                assert!(left + 2 * MB < full, "{left} of {full}");
                let mut kept = 0;
                let is_room = |_: usize| heap.used() < 24 * MB - 5 * MB / 2;
                keep_arrays(scope, doubles, (arrays, &mut kept), 100_000, is_room);
                assert_eq!(given_back.load(Ordering::Relaxed), 0);
                keep_arrays(scope, doubles, (arrays, &mut kept), 9000, |count| {
                    assert!(heap.resident() <= heap.limit(), "{count}");
                    count < 250
                });
                scope.collect(true);
                // Of the old space alone it is 106 segments at most; the nursery has 20.
                let segments = given_back.load(Ordering::Relaxed);
                assert!(segments > 108, "{segments}");
                assert!(heap.used() <= heap.limit() && heap.resident() <= heap.limit());
                for number in 0..COUNT {
                    scope.nested(|scope| {
                        let one = scope.get(table, number);
                        assert_eq!(scope.is_null(one), !lives(number));
                        assert!(!lives(number) || scope.read_u64(one, 0) == number as u64);
                    });
                }
                for number in 0..kept {
                    scope.nested(|scope| {
                        let one = scope.get(arrays, number);
                        let last = scope.length(one) as usize - 1;
                        assert_eq!(scope.read_u64(one, last), number as u64);
                    });
                }
            });
        }
    }
}

/// Scavenges leave some blocks free, though what they promote finds no other room: these are for the next evacuation. So do
/// mutators whose new objects lie in place.
#[test]
fn an_evacuation_has_the_blocks_that_others_left() {
    an_evacuation_has_blocks(NurseryPolicy::Copying);
    an_evacuation_has_blocks(NurseryPolicy::InPlace);
}

fn an_evacuation_has_blocks(nursery: NurseryPolicy) {
    const DENSE: usize = 160_000;
    const THIN: usize = 30_000;
    // One node in 8 KB stays: there is no hole for an array of 9 KB.
    let lives = |number: usize| number < DENSE || number.is_multiple_of(128);
    let heap = builder(References::Wide, 1)
        .nursery(nursery)
        .tenure(0)
        .verify(true)
        .build()
        .unwrap();
    let evacuations = Arc::<Mutex<Vec<Evacuated>>>::default();
    let heard = evacuations.clone();
    heap.add_listener(move |event| {
        if event.phase == Phase::Evacuation {
            heard.lock().unwrap().push(Evacuated {
                blocks: event.objects,
                reason: event.reason,
                bytes: event.bytes,
            });
        }
    });
    let node = heap.structure(NODE).unwrap();
    let doubles = heap.array(Elements::Doubles).unwrap();
    let slots = heap.reference_array().unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let table = nodes(scope, &heap, node, DENSE + THIN);
        let arrays = scope.allocate_references(slots, 2000).unwrap();
        let nothing = scope.null();
        for number in 0..DENSE + THIN {
            scope.nested(|scope| {
                let one = scope.get(table, number);
                scope.set(one, 0, nothing).unwrap();
            });
        }
        scope.collect(true);
        for number in (0..DENSE + THIN).filter(|&number| !lives(number)) {
            scope.set(table, number, nothing).unwrap();
        }
        // Which blocks are sparse is known behind this one.
        scope.collect(true);
        evacuations.lock().unwrap().clear();
        let (mut kept, full) = (0, heap.totals().full_collections);
        let is_room = |_: usize| heap.totals().full_collections == full;
        keep_arrays(scope, doubles, (arrays, &mut kept), 9000, is_room);
        let first = evacuations.lock().unwrap()[0];
        assert!(first.blocks > 40, "{first:?} {kept}");
        assert!(first.reason.contains("sparsest"), "{first:?} {kept}");
        for number in (0..DENSE + THIN).filter(|&number| lives(number)) {
            scope.nested(|scope| {
                let one = scope.get(table, number);
                assert_eq!(scope.read_u64(one, 0), number as u64);
            });
        }
    });
}

/// Large objects that died hold memory still when blocks are taken for copies: it goes back before, as far as both together
/// would exceed the limit.
#[test]
fn copies_of_an_evacuation_find_room_within_the_limit() {
    const COUNT: usize = 150_000;
    let heap = builder(References::Wide, 2).verify(true).build().unwrap();
    let last = listen(&heap);
    let node = heap.structure(NODE).unwrap();
    let doubles = heap.array(Elements::Doubles).unwrap();
    let slots = heap.reference_array().unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let table = nodes(scope, &heap, node, COUNT);
        scope.collect(true);
        thin_out(scope, table, COUNT);
        scope.nested(|scope| {
            let arrays = scope.allocate_references(slots, 1000).unwrap();
            let mut kept = 0;
            let is_room = |_: usize| heap.used() < 21 * MB + MB / 4;
            keep_arrays(scope, doubles, (arrays, &mut kept), 100_000, is_room);
        });
        // They die, and which blocks are sparse is known behind this one.
        scope.collect(true);
        let before = heap.resident();
        scope.collect(true);
        let evacuated = *last.lock().unwrap();
        assert!(evacuated.blocks > 100, "{evacuated:?}");
        let copied = evacuated.bytes as usize;
        assert!(before + copied > heap.limit(), "{before} and {copied}");
        assert!(heap.resident() <= heap.limit(), "{}", heap.resident());
        check(scope, table, COUNT);
    });
}
