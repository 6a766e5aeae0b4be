//! Where objects lie: such as never move, large ones, a swept old generation with holes; and walks over all of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use gleaner::{
    Array, Builder, Elements, Heap, Local, OldPolicy, ReferenceArray, References, Scope, Structure,
    Type,
};

const NODE: Structure = Structure {
    references: 1,
    bytes: 8,
};

fn policies() -> Vec<Builder> {
    let mut all = Vec::new();
    for references in [References::Wide, References::Compressed] {
        for old in [
            OldPolicy::MarkCompact,
            OldPolicy::MarkSweep,
            OldPolicy::MarkRegion,
        ] {
            let builder = Heap::builder()
                .references(references)
                .old(old)
                .limit(8 << 20);
            all.push(
                builder
                    .workers(2)
                    .crew(gleaner::Crew::All)
                    .verify(true)
                    .poison(true),
            );
        }
    }
    all
}

/// Garbage that makes the heap collect.
fn churn(scope: &mut Scope<'_>, node: Type, objects: usize) {
    for _ in 0..objects {
        scope
            .nested(|scope| scope.allocate(node).map(|_| ()))
            .unwrap();
    }
}

#[test]
fn what_is_pinned_stays_and_keeps_what_it_refers_to() {
    for builder in policies() {
        let heap = builder.build().unwrap();
        let node = heap.structure(NODE).unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let buffers: Vec<(Local<'_>, usize)> = [1u32, 100, 5000, 100_000]
                .into_iter()
                .map(|length| {
                    let buffer = scope.allocate_array(bytes.pinned(), length).unwrap();
                    let (start, size) = scope.pinned_elements(buffer).unwrap();
                    assert_eq!(size, length as usize);
                    scope.write_u8(buffer, 0, 7).unwrap();
                    (buffer, start.as_ptr() as usize)
                })
                .collect();
            let small = scope.allocate_array(bytes, 10).unwrap();
            assert_eq!(scope.pinned_elements(small), None, "it may move");
            // Old from birth, and its slot refers to a young object.
            let holder = scope.allocate(node.pinned()).unwrap();
            for round in 0..6 {
                scope.nested(|scope| {
                    let young = scope.allocate(node).unwrap();
                    scope.write_u64(young, 0, 40 + round).unwrap();
                    scope.set(holder, 0, young).unwrap();
                });
                churn(scope, node, 20_000);
                scope.collect(round % 2 == 1);
                scope.nested(|scope| {
                    let young = scope.get(holder, 0);
                    assert_eq!(scope.read_u64(young, 0), 40 + round);
                });
                for &(buffer, place) in &buffers {
                    let (start, _) = scope.pinned_elements(buffer).unwrap();
                    assert_eq!(start.as_ptr() as usize, place);
                    assert_eq!(scope.read_u8(buffer, 0), 7);
                }
            }
        });
    }
}

#[test]
fn pinned_objects_that_die_leave_room_for_others() {
    for builder in policies() {
        let heap = builder.limit(2 << 20).build().unwrap();
        let node = heap.structure(NODE).unwrap().pinned();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            // Several times what the heap holds; every hundredth lives.
            let kept = scope.null();
            for number in 0..200_000u64 {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    if number % 100 == 0 {
                        scope.write_u64(one, 0, number).unwrap();
                        scope.set(one, 0, kept).unwrap();
                        scope.assign(kept, one);
                    }
                });
            }
            for number in (0..200_000u64).rev().filter(|number| number % 100 == 0) {
                assert_eq!(scope.read_u64(kept, 0), number);
                scope.load(kept, 0, kept);
            }
        });
    }
}

#[test]
fn a_heap_full_of_pinned_objects_says_so() {
    for builder in policies() {
        for resize in [true, false] {
            let heap = builder
                .clone()
                .limit(2 << 20)
                .resize(resize)
                .build()
                .unwrap();
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let kept = scope.null();
                let mut count = 0;
                let append = |scope: &mut Scope<'_>| {
                    scope.nested(|scope| -> Result<(), gleaner::OutOfMemory> {
                        let one = scope.allocate(node.pinned())?;
                        scope.set(one, 0, kept).unwrap();
                        scope.assign(kept, one);
                        Ok(())
                    })
                };
                while append(scope).is_ok() {
                    count += 1;
                }
                assert!(count > 5000, "{count}");
                let nothing = scope.null();
                scope.assign(kept, nothing);
                assert!(scope.allocate(node.pinned()).is_ok());
            });
        }
    }
}

#[test]
fn a_walk_finds_every_object_once() {
    for builder in policies() {
        let heap = builder.build().unwrap();
        let node = heap.structure(NODE).unwrap();
        let list = heap.reference_array().unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let table = scope.allocate_references(list, 30_000).unwrap();
            for index in 0..30_000 {
                scope.nested(|scope| {
                    let kind = if index % 10 == 0 { node.pinned() } else { node };
                    let one = scope.allocate(kind).unwrap();
                    scope.set(table, index, one).unwrap();
                });
                if index == 20_000 {
                    scope.collect(false);
                    scope.collect(false);
                }
            }
            scope.collect(true);
            churn(scope, node, 100);
            let mut spaces: BTreeMap<&str, usize> = BTreeMap::new();
            let mut places: HashMap<usize, usize> = HashMap::new();
            scope.walk(&mut |found| {
                *spaces.entry(found.space).or_default() += 1;
                assert_eq!(places.insert(found.object.word(), found.bytes), None);
                if found.header.type_id() == node.id() {
                    assert_eq!(found.bytes, node.size());
                }
            });
            assert_eq!(places.len(), 30_000 + 1 + 100);
            assert_eq!(spaces["large"], 1);
            assert_eq!(spaces["pinned"], 3000);
            assert_eq!(spaces.values().sum::<usize>(), places.len());
        });
    }
}

#[test]
fn a_walk_that_panics_leaves_the_heap_usable() {
    let heap = policies().remove(0).build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let one = scope.allocate(node).unwrap();
        scope.write_u64(one, 0, 5).unwrap();
        let walk = std::panic::AssertUnwindSafe(|| scope.walk(&mut |_| panic!("on purpose")));
        assert!(std::panic::catch_unwind(walk).is_err());
        scope.collect(true);
        assert_eq!(scope.read_u64(one, 0), 5);
    });
}

/// An old generation of small holes: what is larger finds none, and everything is slid together once.
#[test]
fn holes_that_are_too_small_are_slid_away() {
    for references in [References::Wide, References::Compressed] {
        let heap = Heap::builder()
            .references(references)
            .old(OldPolicy::MarkSweep)
            .limit(12 << 20)
            .young(2 << 20)
            .resize(false)
            .workers(2)
            .crew(gleaner::Crew::All)
            .verify(true)
            .poison(true)
            .build()
            .unwrap();
        let reasons: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let heard = reasons.clone();
        heap.add_listener(move |event| heard.lock().unwrap().push(event.reason));
        let (list, words) = (
            heap.reference_array().unwrap(),
            heap.array(Elements::Doubles).unwrap(),
        );
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            // Nine megabytes of objects of 2 KB, of which every second one dies.
            let table = numbered(scope, list, words);
            scope.collect(true);
            let nothing = scope.null();
            (0..4000)
                .step_by(2)
                .for_each(|index| scope.set(table, index, nothing).unwrap());
            scope.collect(true);
            assert!(!reasons.lock().unwrap().contains(&SMALL));
            // Five megabytes of 6 KB each fit only when the holes are put together.
            for index in (0..1600).step_by(2) {
                scope.nested(|scope| {
                    let one = scope.allocate_array(words, 766).unwrap();
                    scope.write_u64(one, 0, index as u64).unwrap();
                    scope.set(table, index, one).unwrap();
                });
            }
            for index in (0..1600).chain((1601..4000).step_by(2)) {
                scope.nested(|scope| {
                    let one = scope.get(table, index);
                    assert_eq!(scope.read_u64(one, 0), index as u64);
                });
            }
        });
        drop(mutator);
        assert!(reasons.lock().unwrap().contains(&SMALL));
    }
}

/// A table of 4,000 arrays of 2 KB, each of which begins with its index.
fn numbered<'s>(scope: &mut Scope<'s>, list: ReferenceArray, words: Array) -> Local<'s> {
    let table = scope.allocate_references(list, 4000).unwrap();
    for index in 0..4000 {
        scope.nested(|scope| {
            let one = scope.allocate_array(words, 254).unwrap();
            scope.write_u64(one, 0, index as u64).unwrap();
            scope.set(table, index, one).unwrap();
        });
    }
    table
}

/// A large object finds room beside an old generation of holes once that is slid together, though all that is promoted
/// fits into the holes.
#[test]
fn holes_are_slid_away_for_a_large_object() {
    let heap = Heap::builder()
        .old(OldPolicy::MarkSweep)
        .limit(12 << 20)
        .young(2 << 20)
        .resize(false)
        .workers(1)
        .verify(true)
        .build()
        .unwrap();
    let (list, words) = (
        heap.reference_array().unwrap(),
        heap.array(Elements::Doubles).unwrap(),
    );
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        // Eight megabytes of the ten that are not young, of which every second object dies.
        let table = numbered(scope, list, words);
        scope.collect(true);
        let nothing = scope.null();
        (0..4000)
            .step_by(2)
            .for_each(|index| scope.set(table, index, nothing).unwrap());
        let large = scope.allocate_array(words, 500_000).unwrap();
        scope.write_u64(large, 499_999, 1).unwrap();
        for index in (1..4000).step_by(2) {
            scope.nested(|scope| {
                let one = scope.get(table, index);
                assert_eq!(scope.read_u64(one, 0), index as u64);
            });
        }
    });
}

const SMALL: &str = "the holes are too small for what was to be promoted";
