//! Heaps that are full again and again while objects keep their places: scavenges are given up, and nothing slides.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gleaner::{Array, Elements, Generations, Heap, Local, OldPolicy, Phase, References, Scope};

use super::{Kept, MB, NODE, fill, in_each_setup, in_place_too, replace};
use crate::random::Rng;
use crate::setups::{FORMATS, checked_under};

/// Fills a place of the table with an array of any size, or empties half of the table if the heap is full. Whether it was.
fn fill_or_empty(scope: &mut Scope<'_>, table: Local<'_>, bytes: Array, random: &mut Rng) -> bool {
    let length = random.below(2000) as u32;
    let full = scope.nested(|scope| {
        let Ok(one) = scope.allocate_array(bytes, length) else {
            return true;
        };
        if length > 0 {
            scope.write_u8(one, length as usize - 1, 1).unwrap();
        }
        scope.set(table, random.below(4000), one).unwrap();
        false
    });
    if full {
        let nothing = scope.null();
        for place in (random.below(2)..4000).step_by(2) {
            scope.set(table, place, nothing).unwrap();
        }
    }
    full
}

fn keep_while_it_is_full(heap: &Heap, seed: u64) {
    const KEPT: usize = 100;
    let (node, bytes) = (
        heap.structure(NODE).unwrap(),
        heap.array(Elements::Bytes).unwrap(),
    );
    let slots = heap.reference_array().unwrap();
    let mut random = Rng::new(seed);
    heap.attach().unwrap().scope(|scope| {
        let mut kept = Kept::new(scope, heap, node, KEPT);
        let table = scope.allocate_references(slots, 4000).unwrap();
        let mut full = 0;
        while full < 12 {
            full += usize::from(fill_or_empty(scope, table, bytes, &mut random));
            let index = random.below(KEPT);
            match kept.places[index] {
                Some(_) if random.below(4) == 0 => kept.unpin(scope, index),
                None if random.below(8) == 0 => kept.pin(scope, index),
                _ => {}
            }
            if random.below(200) == 0 {
                kept.check(scope);
            }
        }
        kept.check(scope);
    });
}

/// What a scavenge that was given up has left is looked at again, whether it keeps its place or not.
#[test]
fn a_heap_that_is_full_again_and_again_keeps_what_is_pinned() {
    in_place_too(
        2 * MB,
        |heap| heap.ignore_environment(),
        |heap| keep_while_it_is_full(heap, 17),
    );
}

/// What found no room while nothing could slide stays young, and a scavenge could not promote it either.
#[test]
fn everything_is_collected_behind_a_collection_that_left_something_young() {
    in_each_setup(
        2 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let reasons = Arc::<Mutex<Vec<&'static str>>>::default();
            let heard = reasons.clone();
            heap.add_listener(move |event| {
                if event.phase == Phase::Mark {
                    heard.lock().unwrap().push(event.reason);
                }
            });
            let node = heap.structure(NODE).unwrap();
            heap.attach().unwrap().scope(|scope| {
                let first = scope.allocate(node).unwrap();
                scope.pin(first).unwrap();
                let chain: Local<'_> = scope.null();
                let mut length = 0;
                while fill(scope, chain, node, length) {
                    length += 1;
                }
                reasons.lock().unwrap().clear();
                let nothing = scope.null();
                scope.assign(chain, nothing);
                while reasons.lock().unwrap().is_empty() {
                    scope.nested(|scope| _ = scope.allocate(node).unwrap());
                }
                let why = reasons.lock().unwrap()[0];
                assert_eq!(why, "young objects are left for which there was no room");
            });
        },
    );
}

/// Where everything is collected each time eden takes all that nothing lives in. An object that is pinned at its end does not let it
/// shrink: so the survivor spaces are cut, and the old generation has room beside what lives in it.
#[test]
fn survivor_spaces_leave_the_old_generation_room_beside_an_eden_that_cannot_shrink() {
    const LIVE: usize = 100_000;
    for references in FORMATS {
        let heap = checked_under((references, OldPolicy::MarkCompact), 16 * MB)
            .generations(Generations::Never)
            .ignore_environment()
            .build()
            .unwrap();
        let nursery = Arc::new(AtomicUsize::new(0));
        let heard = nursery.clone();
        heap.add_listener(move |event| {
            if event.phase == Phase::Resize {
                heard.store(event.bytes as usize, Ordering::Relaxed);
            }
        });
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        let mut kept = mutator.scope(|scope| Kept::new(scope, &heap, node, LIVE));
        for _ in 0..3 {
            mutator.collect(true);
        }
        let full = mutator.totals().full_collections;
        // When eden is full, one of the last hundred objects is pinned.
        mutator.scope(|scope| kept.pin(scope, 0));
        while mutator.totals().full_collections == full {
            mutator.scope(|scope| {
                kept.unpin(scope, 0);
                replace(scope, &kept.table, node, [0].into_iter());
                kept.pin(scope, 0);
                replace(scope, &kept.table, node, (1..100).cycle().take(100));
            });
        }
        let reference = match references {
            References::Wide => 8,
            References::Compressed => 4,
        };
        // The table, and what is in it. The old generation is to have a quarter more.
        let lives = LIVE * (node.size() + reference);
        let nursery = nursery.load(Ordering::Relaxed);
        assert!(nursery > heap.limit() / 2, "eden is large: {nursery}");
        assert!(nursery + lives / 8 * 9 <= heap.limit(), "{nursery}");
        mutator.scope(|scope| kept.check(scope));
    }
}
