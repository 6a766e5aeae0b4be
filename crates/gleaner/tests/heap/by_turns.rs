//! New objects lie in a space of their own or in free lines of the old one by turns (`nursery=auto`): under `stress`, which
//! never collects here, that changes whenever nothing is young.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::setups::FORMATS;
use gleaner::{
    Builder, Elements, Generations, Heap, Local, NurseryPolicy, OldPolicy, Phase, References,
    Scope, Structure, Type,
};

const MB: usize = 1 << 20;
/// As many calls for memory pass before a collection.
const NEVER: u32 = 1 << 30;
const NODE: Structure = Structure {
    references: 2,
    bytes: 40,
};

fn builder(references: References) -> Builder {
    Heap::builder()
        .limit(24 * MB)
        .generations(Generations::Always)
        .old(OldPolicy::MarkRegion)
        .nursery(NurseryPolicy::Auto)
        .references(references)
        .workers(2)
        .crew(gleaner::Crew::All)
        .verify(true)
        .poison(true)
        .ignore_environment()
}

/// What each collection did with the young generation, and why sizes were as they were.
fn listen(heap: &Heap) -> Arc<Mutex<Vec<(Phase, &'static str)>>> {
    let all = Arc::<Mutex<Vec<(Phase, &'static str)>>>::default();
    let heard = all.clone();
    heap.add_listener(move |event| {
        if matches!(event.phase, Phase::Copy | Phase::Mark | Phase::Resize) {
            heard.lock().unwrap().push((event.phase, event.reason));
        }
    });
    all
}

/// Half of a table is replaced between any two collections; objects are young, old, new in free lines, and large when places
/// change, and refer to each other.
#[test]
fn what_lives_is_the_same_wherever_it_was_allocated() {
    const COUNT: usize = 3000;
    for references in FORMATS {
        for resize in [true, false] {
            let heap = builder(references).resize(resize).stress(NEVER);
            let heap = heap.build().unwrap();
            let heard = listen(&heap);
            let node = heap.structure(NODE).unwrap();
            let slots = heap.reference_array().unwrap();
            let bytes = heap.array(Elements::Bytes).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let table = scope.allocate_references(slots, COUNT as u32).unwrap();
                for round in 0..40 {
                    for number in (0..COUNT).filter(|number| number % 2 == round % 2) {
                        scope.nested(|scope| {
                            let one = scope.allocate(node).unwrap();
                            scope.write_u64(one, 0, number as u64).unwrap();
                            let neighbour = scope.get(table, (number + 7) % COUNT);
                            scope.set(one, 0, neighbour).unwrap();
                            scope.set(table, number, one).unwrap();
                        });
                    }
                    scope.nested(|scope| scope.allocate_array(bytes, 40_000).map(|_| ()).unwrap());
                    scope.collect(round % 5 == 4);
                    for number in (0..COUNT).filter(|&number| round > 0 || number % 2 == 0) {
                        scope.nested(|scope| {
                            let one = scope.get(table, number);
                            assert_eq!(scope.read_u64(one, 0), number as u64);
                            // What the neighbour was then, and is not among them any more.
                            let neighbour = scope.get(one, 0);
                            if !scope.is_null(neighbour) {
                                let found = scope.read_u64(neighbour, 0) as usize;
                                assert_eq!(found, (number + 7) % COUNT);
                                let nothing = scope.null();
                                scope.set(neighbour, 0, nothing).unwrap();
                            }
                        });
                    }
                }
            });
            let heard = heard.lock().unwrap();
            let count = |phase, reason: &str| {
                let same = |&&(of, why): &&(Phase, &str)| of == phase && why.contains(reason);
                heard.iter().filter(same).count()
            };
            let (copied, in_place) = (count(Phase::Copy, ""), count(Phase::Mark, "new objects"));
            let changes = count(
                Phase::Resize,
                "under stress the place of new objects changes",
            );
            assert!(copied >= 8 && in_place >= 8, "{copied} {in_place}");
            assert!(changes >= 2 * in_place - 1, "{changes} {in_place}");
        }
    }
}

/// Whatever is decided, a heap holds as much as with copies.
#[test]
fn a_heap_that_is_nearly_full_holds_no_less_than_with_copies() {
    for references in FORMATS {
        let held = |nursery, resize| {
            let heap = builder(references).limit(6 * MB).nursery(nursery);
            let heap = heap.verify(false).poison(false).resize(resize);
            let heap = heap.build().unwrap();
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let first = scope.allocate(node).unwrap();
                let more = |scope: &mut Scope<'_>| {
                    let Ok(one) = scope.allocate(node) else {
                        return false;
                    };
                    let next = scope.get(first, 0);
                    scope.set(one, 0, next).unwrap();
                    scope.set(first, 0, one).unwrap();
                    true
                };
                (0..).take_while(|_| scope.nested(more)).count()
            })
        };
        for resize in [true, false] {
            let [copied, either] =
                [NurseryPolicy::Copying, NurseryPolicy::Auto].map(|of| held(of, resize));
            assert!(copied > 50_000 && either >= copied, "{copied} {either}");
        }
    }
}

/// An object that keeps its place in eden keeps new ones from leaving it.
#[test]
fn what_is_pinned_in_eden_puts_a_change_off() {
    for references in FORMATS {
        let heap = builder(references).stress(NEVER).build().unwrap();
        let heard = listen(&heap);
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        let changes = || {
            let heard = heard.lock().unwrap();
            let same = |&&(_, why): &&(Phase, &str)| why.contains("under stress the place");
            heard.iter().filter(same).count()
        };
        mutator.scope(|scope| {
            let one = scope.allocate(node).unwrap();
            scope.write_u64(one, 0, 42).unwrap();
            let place = scope.pin(one).unwrap();
            for round in 0..6 {
                scope.collect(round == 3);
                assert_eq!(scope.pin(one), Ok(place));
                scope.unpin(one).unwrap();
            }
            assert_eq!(changes(), 0);
            scope.unpin(one).unwrap();
            (0..6).for_each(|_| scope.collect(false));
            assert!(changes() >= 3, "{}", changes());
            assert_eq!(scope.read_u64(one, 0), 42);
        });
    }
}

/// Nodes are put before the first one of a list until so many bytes are in use.
fn lengthen<'s>(scope: &mut Scope<'s>, heap: &Heap, (node, first): (Type, Local<'s>), used: usize) {
    while heap.used() < used {
        scope.nested(|scope| {
            let one = scope.allocate(node).unwrap();
            let next = scope.get(first, 0);
            let number = match scope.is_null(next) {
                true => 1,
                false => scope.read_u64(next, 0) + 1,
            };
            scope.write_u64(one, 0, number).unwrap();
            scope.set(one, 0, next).unwrap();
            scope.set(first, 0, one).unwrap();
        });
    }
}

/// The numbers of a list go down to one. How many there are.
fn count<'s>(scope: &mut Scope<'s>, first: Local<'s>) -> u64 {
    let start = scope.get(first, 0);
    let all = scope.read_u64(start, 0);
    scope.set(first, 1, start).unwrap();
    for number in (1..=all).rev() {
        scope.nested(|scope| {
            let one = scope.get(first, 1);
            assert_eq!(scope.read_u64(one, 0), number);
            let next = scope.get(one, 0);
            assert_eq!(scope.is_null(next), number == 1);
            scope.set(first, 1, next).unwrap();
        });
    }
    all
}

/// New objects are to leave eden, where more lives than the old space has room for beside it. A sliding takes all of it there, and
/// the place changes at once. As both would be more than the limit allows meanwhile, eden gives back what objects leave.
#[test]
fn a_sliding_takes_all_out_of_eden_that_new_objects_are_to_leave() {
    for references in FORMATS {
        let given_back = Arc::<AtomicU64>::default();
        let heap = builder(references).young(12 * MB).resize(false);
        let heap = heap.tenure(10).stress(NEVER).build().unwrap();
        let heard = listen(&heap);
        let segments = given_back.clone();
        heap.add_listener(move |event| {
            if event.phase == Phase::Slide {
                segments.fetch_add(event.objects, Ordering::Relaxed);
            }
        });
        let changes = || {
            let heard = heard.lock().unwrap();
            let same = |&&(_, why): &&(Phase, &str)| why.contains("under stress the place");
            heard.iter().filter(same).count()
        };
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let first = scope.allocate(node).unwrap();
            lengthen(scope, &heap, (node, first), 8 * MB);
            // Old, and in the other place; then back in eden.
            scope.collect(true);
            scope.collect(false);
            assert_eq!(changes(), 2);
            // One survives and is young, which puts the next change off.
            let young = scope.allocate(node).unwrap();
            scope.collect(false);
            assert_eq!(changes(), 2);
            let (done, used) = (heap.totals().scavenges, heap.used());
            lengthen(scope, &heap, (node, first), used + 17 * MB / 2);
            assert_eq!(heap.totals().scavenges, done);
            assert_eq!(given_back.load(Ordering::Relaxed), 0);
            scope.trim();
            assert_eq!(changes(), 3);
            let segments = given_back.load(Ordering::Relaxed);
            assert!(segments > 100, "{segments}");
            assert!(heap.used() > 16 * MB && heap.resident() <= heap.limit());
            let all = count(scope, first);
            assert!(all > 200_000, "{all}");
            assert_eq!(scope.read_u64(young, 0), 0);
            // New objects have all that is left, in free lines.
            lengthen(scope, &heap, (node, first), 23 * MB);
            scope.collect(false);
            assert!(heap.used() <= heap.limit() && heap.resident() <= heap.limit());
            assert!(count(scope, first) > all);
        });
    }
}
