//! Objects that keep their places for a while, and words of native code that keep what they lead to. Under both slot formats
//! and all policies of the old generation, with the verifier and poison. Tests that know where objects lie or when they move, and
//! those that fill heaps, do not heed the environment.

mod full;
mod words;

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use gleaner::raw::{Address, Fresh, NewObject, Shape, TypeId, Value, WordRange, WordRangeError};
use gleaner::{
    Builder, Elements, Generations, Handle, Heap, Local, Mutator, NurseryPolicy, OldPolicy,
    PinError, Scope, Structure, Type,
};

use crate::random::Rng;
use crate::setups::{FORMATS, SETUPS, checked_under};

const MB: usize = 1 << 20;
/// No collection comes because of `stress` before as many calls for memory; but deciders do all that they may.
const NEVER: u32 = 1 << 30;
const NODE: Structure = Structure {
    references: 1,
    bytes: 16,
};

/// Puts new nodes with the numbers of their places into a table, here and there.
fn replace(scope: &mut Scope<'_>, table: &Handle, node: Type, places: impl Iterator<Item = usize>) {
    let table = scope.open(table);
    for place in places {
        scope.nested(|scope| {
            let one = scope.allocate(node).unwrap();
            scope.write_u64(one, 0, place as u64).unwrap();
            scope.set(table, place, one).unwrap();
        });
    }
}

/// The objects of a table that are pinned, and where they were when they were.
struct Kept {
    table: Handle,
    places: Vec<Option<NonNull<u8>>>,
}

impl Kept {
    fn new(scope: &mut Scope<'_>, heap: &Heap, node: Type, count: usize) -> Kept {
        let slots = heap.reference_array().unwrap();
        let table = scope.allocate_references(slots, count as u32).unwrap();
        let table = scope.handle(table).unwrap();
        replace(scope, &table, node, 0..count);
        Kept {
            table,
            places: vec![None; count],
        }
    }

    fn pin(&mut self, scope: &mut Scope<'_>, index: usize) {
        let table = scope.open(&self.table);
        let one = scope.get(table, index);
        self.places[index] = Some(scope.pin(one).unwrap());
    }

    fn unpin(&mut self, scope: &mut Scope<'_>, index: usize) {
        let table = scope.open(&self.table);
        let one = scope.get(table, index);
        scope.unpin(one).unwrap();
        self.places[index] = None;
    }

    fn check(&self, scope: &mut Scope<'_>) {
        let table = scope.open(&self.table);
        for (index, &place) in self.places.iter().enumerate() {
            scope.nested(|scope| {
                let one = scope.get(table, index);
                assert_eq!(scope.read_u64(one, 0), index as u64);
                if let Some(place) = place {
                    assert_eq!(scope.pin(one), Ok(place), "{index}");
                    scope.unpin(one).unwrap();
                }
            });
        }
    }
}

fn in_each_setup(limit: usize, more: impl Fn(Builder) -> Builder, body: impl Fn(&Heap)) {
    for setup in SETUPS {
        let heap = more(checked_under(setup, limit)).build().unwrap();
        body(&heap);
    }
}

/// The same, and where new objects lie in the old space and most do not move.
fn in_either_place(limit: usize, more: impl Fn(Builder) -> Builder, body: impl Fn(&Heap)) {
    in_each_setup(limit, &more, &body);
    for references in FORMATS {
        let setup = (references, OldPolicy::MarkRegion);
        let heap = checked_under(setup, limit).nursery(NurseryPolicy::InPlace);
        body(&more(heap).ignore_environment().build().unwrap());
    }
}

/// The same, and where that changes with each collection that leaves nothing young.
fn in_place_too(limit: usize, more: impl Fn(Builder) -> Builder, body: impl Fn(&Heap)) {
    in_either_place(limit, &more, &body);
    for references in FORMATS {
        let setup = (references, OldPolicy::MarkRegion);
        let heap = checked_under(setup, limit).nursery(NurseryPolicy::Auto);
        body(
            &more(heap.stress(NEVER))
                .ignore_environment()
                .build()
                .unwrap(),
        );
    }
}

/// Objects are pinned and unpinned at random, in eden, in survivor spaces and when they are old, while others are replaced.
fn keep_at_random(heap: &Heap, count: usize, steps: usize, seed: u64) {
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    let mut random = Rng::new(seed);
    let mut kept = mutator.scope(|scope| Kept::new(scope, heap, node, count));
    for step in 0..steps {
        mutator.scope(|scope| {
            for _ in 0..count / 8 {
                let index = random.below(count);
                match kept.places[index] {
                    Some(_) if random.below(2) == 0 => kept.unpin(scope, index),
                    Some(_) => {}
                    None if random.below(4) == 0 => kept.pin(scope, index),
                    None => replace(scope, &kept.table, node, [index].into_iter()),
                }
            }
            match step % 7 {
                3 => scope.collect(true),
                5 => {}
                _ => scope.collect(false),
            }
            kept.check(scope);
        });
    }
    mutator.scope(|scope| {
        for index in 0..count {
            if kept.places[index].is_some() {
                kept.unpin(scope, index);
            }
        }
        scope.collect(true);
        scope.collect(true);
        kept.check(scope);
    });
}

#[test]
fn pinned_objects_keep_their_places_wherever_they_lie() {
    in_place_too(
        8 * MB,
        |heap| heap,
        |heap| keep_at_random(heap, 2000, 40, 3),
    );
}

#[test]
fn pinned_objects_keep_their_places_under_stress() {
    in_place_too(
        4 * MB,
        |heap| heap.stress(3).workers(3),
        |heap| keep_at_random(heap, 60, 25, 5),
    );
}

#[test]
fn pinned_objects_keep_their_places_where_everything_is_collected_each_time() {
    in_place_too(
        4 * MB,
        |heap| heap.generations(Generations::Never),
        |heap| keep_at_random(heap, 1000, 20, 7),
    );
}

/// Eden is filled around what is pinned there, many times, also with objects that are larger than most gaps.
#[test]
fn others_are_allocated_around_a_pinned_object() {
    in_each_setup(
        4 * MB,
        |heap| {
            heap.young(MB)
                .resize(false)
                .generations(Generations::Always)
                .ignore_environment()
        },
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let bytes = heap.array(Elements::Bytes).unwrap();
            let mut mutator = heap.attach().unwrap();
            // Most of eden lies below what is pinned.
            for _ in 0..600 {
                mutator.scope(|scope| _ = scope.allocate_array(bytes, 1000).unwrap());
            }
            let mut kept = mutator.scope(|scope| Kept::new(scope, heap, node, 3000));
            mutator.scope(|scope| {
                (0..3000)
                    .step_by(50)
                    .for_each(|index| kept.pin(scope, index))
            });
            let before = mutator.totals();
            for round in 0..4000 {
                mutator.scope(|scope| {
                    let long = if round % 3 == 0 { 9000 } else { 1500 };
                    let array = scope.allocate_array(bytes, long).unwrap();
                    let mut read = vec![1u8; long as usize];
                    scope.read_elements(array, 0, &mut read);
                    assert!(read.iter().all(|&byte| byte == 0), "fresh is zero (I2)");
                    scope.fill_numbers(array, 0, long as usize, 7u8).unwrap();
                    if round % 500 == 0 {
                        kept.check(scope);
                    }
                });
            }
            let scavenges = mutator.totals().scavenges - before.scavenges;
            assert!((10..50).contains(&scavenges), "{scavenges} scavenges");
        },
    );
}

/// A pin keeps the place and not the life; what lies there next is another object, and not pinned.
#[test]
fn a_pinned_object_dies_as_others_do() {
    in_place_too(
        4 * MB,
        |heap| heap,
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            for everything in [false, true] {
                let weak = mutator.scope(|scope| {
                    let one = scope.allocate(node).unwrap();
                    if everything {
                        scope.collect(true);
                    }
                    scope.pin(one).unwrap();
                    scope.pin(one).unwrap();
                    scope.weak(one).unwrap()
                });
                mutator.collect(everything);
                mutator.scope(|scope| {
                    let gone = scope.upgrade(&weak);
                    assert!(scope.is_null(gone));
                    let next = scope.allocate(node).unwrap();
                    assert_eq!(scope.unpin(next), Err(PinError::NotPinned));
                });
            }
        },
    );
}

/// Others come to lie where pinned objects died, and are not pinned. Everything is collected so often before they are.
fn use_places_again(heap: &Heap, collections: usize, everything: bool) {
    const COUNT: usize = 1000;
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    let places: BTreeSet<_> = mutator.scope(|scope| {
        let mut kept = Kept::new(scope, heap, node, COUNT);
        (0..collections).for_each(|_| scope.collect(true));
        (0..COUNT).for_each(|index| kept.pin(scope, index));
        kept.places.into_iter().flatten().collect()
    });
    mutator.collect(everything);
    mutator.scope(|scope| {
        let next = Kept::new(scope, heap, node, COUNT);
        (0..collections).for_each(|_| scope.collect(true));
        let table = scope.open(&next.table);
        let mut again = 0;
        for index in 0..COUNT {
            scope.nested(|scope| {
                let one = scope.get(table, index);
                again += usize::from(places.contains(&scope.pin(one).unwrap()));
                scope.unpin(one).unwrap();
                assert_eq!(scope.unpin(one), Err(PinError::NotPinned));
            });
        }
        assert!(again > 0, "{collections}: other places are used");
    });
}

#[test]
fn a_place_is_used_again_without_its_pins() {
    let more = |heap: Builder| heap.ignore_environment();
    // Of two workers either may promote the first, and each takes blocks of its own.
    let alone = |heap: Builder| more(heap).workers(1);
    in_each_setup(4 * MB, alone, |heap| use_places_again(heap, 2, true));
    for everything in [false, true] {
        in_either_place(4 * MB, more, |heap| use_places_again(heap, 0, everything));
    }
}

/// The collection that finds pinned objects dead promotes others to their places, and these are not pinned.
#[test]
fn what_is_promoted_to_the_place_of_the_dead_is_not_pinned() {
    const COUNT: usize = 4000;
    in_each_setup(
        4 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let mut kept = Kept::new(scope, heap, node, COUNT);
                (0..2).for_each(|_| scope.collect(true));
                (0..COUNT).for_each(|index| scope.nested(|scope| kept.pin(scope, index)));
                let remains = |index: &usize| index.is_multiple_of(64);
                let dies = || (0..COUNT).filter(|index| !remains(index));
                let places: BTreeSet<_> = dies()
                    .filter_map(|index| kept.places[index].take())
                    .collect();
                replace(scope, &kept.table, node, dies());
                // While a young object keeps its place the others are promoted behind the sweep, into what it has freed.
                kept.pin(scope, 1);
                scope.collect(true);
                kept.check(scope);
                let table = scope.open(&kept.table);
                let mut again = 0;
                for index in dies().skip(1) {
                    scope.nested(|scope| {
                        let one = scope.get(table, index);
                        assert_eq!(scope.unpin(one), Err(PinError::NotPinned), "{index}");
                        again += usize::from(places.contains(&scope.pin(one).unwrap()));
                        scope.unpin(one).unwrap();
                    });
                }
                assert!(again > 0, "other places are used");
                (0..COUNT)
                    .filter(remains)
                    .for_each(|index| kept.unpin(scope, index));
                kept.unpin(scope, 1);
            });
        },
    );
}

/// A survivor space in which something was pinned is emptied when nothing is any more.
#[test]
fn what_is_pinned_no_more_moves_again() {
    in_each_setup(
        4 * MB,
        |heap| {
            heap.tenure(15)
                .generations(Generations::Always)
                .ignore_environment()
        },
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let one = scope.allocate(node).unwrap();
                for scavenges in [1, 2, 0] {
                    (0..scavenges).for_each(|_| scope.collect(false));
                    let place = scope.pin(one).unwrap();
                    scope.collect(false);
                    assert_eq!(scope.pin(one), Ok(place));
                    scope.unpin(one).unwrap();
                    scope.unpin(one).unwrap();
                    scope.collect(false);
                    assert_ne!(scope.pin(one), Ok(place));
                    scope.unpin(one).unwrap();
                    let fresh = scope.allocate(node).unwrap();
                    scope.assign(one, fresh);
                }
            });
        },
    );
}

/// What keeps its place grows older by that: it is promoted as soon as it may move, if it survived often enough.
#[test]
fn what_stays_grows_older_as_what_is_copied_does() {
    in_each_setup(
        4 * MB,
        |heap| {
            heap.tenure(4)
                .generations(Generations::Always)
                .ignore_environment()
        },
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let one = scope.allocate(node).unwrap();
                let young = scope.pin(one).unwrap();
                (0..4).for_each(|_| scope.collect(false));
                scope.unpin(one).unwrap();
                scope.collect(false);
                let old = scope.pin(one).unwrap();
                scope.unpin(one).unwrap();
                assert_ne!(old, young);
                // A survivor would be copied once more.
                scope.collect(false);
                assert_eq!(scope.pin(one), Ok(old));
                scope.unpin(one).unwrap();
            });
        },
    );
}

/// What stayed in one collection and dies before the next leaves nothing behind. The verifier would remove start bits.
#[test]
fn what_stayed_and_died_leaves_nothing() {
    in_place_too(
        4 * MB,
        |heap| {
            heap.verify(false)
                .generations(Generations::Always)
                .ignore_environment()
        },
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    scope.pin(one).unwrap();
                    scope.collect(false);
                    assert!(heap.used() > 0);
                });
                // Where it lies in the old space it is old now, and dies with everything.
                scope.collect(heap.totals().promoted_bytes > 0);
                assert_eq!(heap.used(), 0);
            });
        },
    );
}

#[test]
fn what_cannot_be_pinned_is_refused() {
    let (heap, other) = (heap_of(MB), heap_of(MB));
    let types = [&heap, &other].map(|heap| heap.structure(NODE).unwrap());
    let mut mutator = heap.attach().unwrap();
    let foreign = other.attach().unwrap().scope(|scope| {
        let one = scope.allocate(types[1]).unwrap();
        scope.pin(one).unwrap()
    });
    let on_stack = 0u64;
    for (value, why) in [
        (Value::NULL, PinError::NoObject),
        (Value::immediate(41), PinError::NoObject),
        (
            Value::reference(Address::of(foreign.as_ptr())),
            PinError::Foreign,
        ),
        (
            Value::reference(Address::of(&raw const on_stack)),
            PinError::Foreign,
        ),
    ] {
        // SAFETY: no object of this heap is meant.
        unsafe {
            assert_eq!(mutator.pin_raw(value), Err(why));
            assert_eq!(mutator.unpin_raw(value), Err(why));
        }
    }
    mutator.scope(|scope| {
        let nothing = scope.null();
        assert_eq!(scope.pin(nothing), Err(PinError::NoObject));
        let one = scope.allocate(types[0]).unwrap();
        assert_eq!(scope.unpin(one), Err(PinError::NotPinned));
    });
    let guarded = Heap::builder().limit(4 * MB).quarantine(2).build().unwrap();
    let node = guarded.structure(NODE).unwrap();
    let mut mutator = guarded.attach().unwrap();
    mutator.scope(|scope| {
        let one = scope.allocate(node).unwrap();
        assert_eq!(scope.pin(one), Err(PinError::Quarantine));
    });
    let words = [0u64; 2];
    // SAFETY: the range is refused.
    let refused = unsafe { mutator.add_words(range_of(&words)) };
    assert_eq!(refused, Err(WordRangeError::Quarantine));
}

fn heap_of(limit: usize) -> Heap {
    Heap::builder()
        .limit(limit)
        .ignore_environment()
        .build()
        .unwrap()
}

fn range_of(words: &[u64]) -> WordRange {
    WordRange {
        start: Address::of(words.as_ptr()),
        words: words.len(),
        lowest: Address::NULL,
    }
}

/// Threads pin and unpin what they share while others collect.
#[test]
fn pins_come_from_many_threads() {
    in_place_too(
        8 * MB,
        |heap| heap.workers(2),
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            let kept = mutator.scope(|scope| Kept::new(scope, heap, node, 64));
            let ends = AtomicBool::new(false);
            std::thread::scope(|threads| {
                let pinning = [0, 1, 2].map(|seed| {
                    let (table, ends) = (&kept.table, &ends);
                    threads.spawn(move || {
                        let mut random = Rng::new(seed);
                        let mut mutator = heap.attach().unwrap();
                        while !ends.load(Ordering::Relaxed) {
                            mutator.scope(|scope| {
                                let table = scope.open(table);
                                let one = scope.get(table, random.below(64));
                                let place = scope.pin(one).unwrap();
                                for _ in 0..20 {
                                    let garbage = scope.allocate(node).unwrap();
                                    scope.write_u64(garbage, 0, 1).unwrap();
                                }
                                scope.poll();
                                assert!(scope.read_u64(one, 0) < 64);
                                assert_eq!(scope.pin(one), Ok(place));
                                scope.unpin(one).unwrap();
                                scope.unpin(one).unwrap();
                            });
                        }
                    })
                });
                for round in 0..30 {
                    mutator.collect(round % 3 == 0);
                }
                ends.store(true, Ordering::Relaxed);
                mutator.blocking(|| {
                    for thread in pinning {
                        thread.join().unwrap();
                    }
                });
            });
        },
    );
}

/// Where nothing can slide since something is pinned, what finds no room stays young, and the heap goes on.
#[test]
fn a_full_heap_with_pins_goes_on() {
    in_place_too(
        2 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            let slots = heap.reference_array().unwrap();
            mutator.scope(|scope| {
                let table = scope.allocate_references(slots, 1000).unwrap();
                let first = scope.allocate(node).unwrap();
                let place = scope.pin(first).unwrap();
                let chain: Local<'_> = scope.null();
                let mut length = 0;
                while fill(scope, chain, node, length) {
                    length += 1;
                }
                assert!(length > 20_000, "{length}");
                assert_eq!(scope.pin(first), Ok(place));
                let nothing = scope.null();
                scope.assign(chain, nothing);
                for index in 0..1000 {
                    scope.nested(|scope| {
                        let one = scope.allocate(node).unwrap();
                        scope.set(table, index, one).unwrap();
                    });
                }
                assert_eq!(scope.pin(first), Ok(place));
                scope.collect(true);
            });
        },
    );
}

/// What is pinned in a small eden takes room of the old generation, and so may be more than eden was to have.
#[test]
fn more_is_pinned_than_the_young_generation_was_to_have() {
    in_each_setup(
        8 * MB,
        |heap| heap.young(256 << 10).ignore_environment(),
        |heap| {
            let (chunk, bytes) = (512, heap.array(Elements::Bytes).unwrap());
            let slots = heap.reference_array().unwrap();
            heap.attach().unwrap().scope(|scope| {
                let count = 4 * MB / chunk;
                let table = scope.allocate_references(slots, count as u32).unwrap();
                let places: Vec<_> = (0..count)
                    .map(|index| {
                        scope.nested(|scope| {
                            let one = scope.allocate_array(bytes, chunk as u32 - 16).unwrap();
                            scope.set(table, index, one).unwrap();
                            scope.pin(one).unwrap()
                        })
                    })
                    .collect();
                scope.collect(true);
                for (index, place) in places.into_iter().enumerate() {
                    scope.nested(|scope| {
                        let one = scope.get(table, index);
                        assert_eq!(scope.pin(one), Ok(place));
                        (0..2).for_each(|_| scope.unpin(one).unwrap());
                    });
                }
            });
        },
    );
}

/// Where no gap between pinned objects has room for a larger one, eden gets room behind them.
#[test]
fn a_larger_object_finds_room_behind_gaps_that_are_too_small() {
    in_each_setup(
        8 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let (slots, bytes) = (heap.reference_array(), heap.array(Elements::Bytes).unwrap());
            heap.attach().unwrap().scope(|scope| {
                const COUNT: usize = 5000;
                let table = scope
                    .allocate_references(slots.unwrap(), COUNT as u32)
                    .unwrap();
                for index in 0..COUNT {
                    scope.nested(|scope| {
                        let one = scope.allocate(node).unwrap();
                        scope.set(table, index, one).unwrap();
                        scope.pin(one).unwrap();
                        for _ in 0..50 {
                            scope.nested(|scope| assert!(scope.allocate(node).is_ok()));
                        }
                    });
                }
                for _ in 0..2000 {
                    scope.nested(|scope| assert!(scope.allocate_array(bytes, 10_000).is_ok()));
                }
            });
        },
    );
}

/// Where all that lives is pinned and fills the heap, an allocation fails, and nothing else; and it succeeds when half of it
/// has died.
#[test]
fn a_heap_full_of_pinned_objects_is_out_of_memory() {
    in_place_too(
        2 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let chain: Local<'_> = scope.null();
                let mut places = Vec::new();
                while fill(scope, chain, node, places.len() as u64) {
                    places.push(scope.pin(chain).unwrap());
                }
                let most = places.len();
                assert!(most > 10_000, "{most}");
                let one = scope.null();
                scope.assign(one, chain);
                for (number, &place) in places.iter().enumerate().rev() {
                    assert_eq!(scope.read_u64(one, 0), number as u64);
                    assert_eq!(scope.pin(one), Ok(place));
                    scope.load(one, 0, one);
                }
                assert!(scope.is_null(one));
                (0..most / 2).for_each(|_| scope.load(chain, 0, chain));
                let after: u64 = (0..most as u64 / 4)
                    .map(|number| u64::from(fill(scope, one, node, number)))
                    .sum();
                assert_eq!(after, most as u64 / 4);
            });
        },
    );
}

/// A lower limit, and memory that is given back, respect what is pinned.
#[test]
fn a_limit_under_which_a_pinned_object_does_not_fit_is_refused() {
    in_place_too(
        16 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let mut kept = Kept::new(scope, heap, node, 100_000);
                scope.collect(true);
                let table = scope.open(&kept.table);
                kept.pin(scope, 99_999);
                let nothing = scope.null();
                for index in 0..99_999 {
                    scope.set(table, index, nothing).unwrap();
                }
                scope.trim();
                let place = kept.places[99_999].unwrap();
                let last = scope.get(table, 99_999);
                assert_eq!(scope.pin(last), Ok(place));
                let low = scope.set_limit(2 * MB);
                assert_eq!(scope.pin(last), Ok(place), "{low:?}");
                (0..3).for_each(|_| scope.unpin(last).unwrap());
                assert_eq!(scope.set_limit(2 * MB), Ok(()));
                assert_eq!(scope.read_u64(last, 0), 99_999);
            });
        },
    );
}

/// Calls `allocate`, which takes as much each time, until scavenges are left out and eden, which has all that nothing lives in
/// then, is full but for an eighth. Times decide when that is: it is given up behind `most` calls.
fn fill_a_large_eden(mutator: &mut Mutator, most: usize, mut allocate: impl FnMut(&mut Scope<'_>)) {
    let mut known = mutator.totals();
    // How many calls there were between the last two collections, and since the last one, if all of these were full.
    let (mut before, mut since) = (None, None);
    for _ in 0..most {
        mutator.scope(&mut allocate);
        let now = mutator.totals();
        (before, since) = if now.scavenges != known.scavenges {
            (None, None)
        } else if now.full_collections != known.full_collections {
            (since, Some(0))
        } else {
            (before, since.map(|calls: usize| calls + 1))
        };
        known = now;
        if before
            .zip(since)
            .is_some_and(|(all, calls)| calls >= all / 8 * 7)
        {
            return;
        }
    }
}

/// Where scavenges were left out since full collections, which slid everything together, cost less, they come back while
/// something is pinned: also at the end of eden, which takes all that nothing lives in then, and cannot be made smaller.
#[test]
fn scavenges_come_back_while_nothing_slides() {
    const LIVE: usize = 20_000;
    for references in FORMATS {
        let heap = checked_under((references, OldPolicy::MarkCompact), 3 * MB);
        let heap = heap.generations(Generations::Auto).ignore_environment();
        let heap = heap.build().unwrap();
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        let mut random = Rng::new(11);
        let mut kept = mutator.scope(|scope| Kept::new(scope, &heap, node, LIVE));
        for _ in 0..LIVE * 60 {
            let index = random.below(LIVE);
            mutator.scope(|scope| replace(scope, &kept.table, node, [index].into_iter()));
        }
        fill_a_large_eden(&mut mutator, LIVE * 300, |scope| {
            let index = random.below(LIVE);
            replace(scope, &kept.table, node, [index].into_iter());
        });
        mutator.scope(|scope| {
            replace(scope, &kept.table, node, [7].into_iter());
            kept.pin(scope, 7);
        });
        mutator.collect(true);
        let before = mutator.totals();
        for number in 0..LIVE * 60 {
            let index = 10 + number % 10;
            mutator.scope(|scope| replace(scope, &kept.table, node, [index].into_iter()));
        }
        let after = mutator.totals();
        let (full, scavenges) = (
            after.full_collections - before.full_collections,
            after.scavenges - before.scavenges,
        );
        assert!(scavenges > 2 * full, "{full} full, {scavenges} scavenges");
        mutator.scope(|scope| kept.check(scope));
    }
}

/// Makes a chain longer by a node with a number; whether there was room.
fn fill(scope: &mut Scope<'_>, chain: Local<'_>, node: Type, number: u64) -> bool {
    scope.nested(|scope| {
        let Ok(one) = scope.allocate(node) else {
            return false;
        };
        scope.write_u64(one, 0, number).unwrap();
        scope.set(one, 0, chain).unwrap();
        scope.assign(chain, one);
        true
    })
}
