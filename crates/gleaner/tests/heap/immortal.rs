//! Immortal arrays (PLDI 2010, section 5.2): they live as long as their heap, have all their arraylets from the start, and
//! keep them; so a store into them needs no memory.

use gleaner::raw::Address;
use gleaner::{Array, Elements, Handle, Heap, Mutator, ReferenceArray, Structure};

const LIMIT: usize = 16 << 20;
const LENGTH: u32 = 100_000;
/// How arrays may lie.
const WAYS: [&str; 6] = [
    "arrays=contiguous",
    "arrays=naive",
    "arrays=zray",
    "arrays=zray,first-n=64,arraylet=256",
    "arrays=zray,array-guard=on",
    "arrays=perf-zray,copy-on-write=on,old=mark-sweep",
];

fn heap(options: &str) -> Heap {
    let builder = Heap::builder().limit(LIMIT).workers(2).ignore_environment();
    builder.options(options).unwrap().build().unwrap()
}

/// Allocates objects that are kept until there is no memory left, not even for an arraylet.
fn fill(mutator: &mut Mutator, heap: &Heap) -> Vec<Handle> {
    let words = heap.array(Elements::Bytes).unwrap();
    let mut kept = Vec::new();
    for bytes in [32 << 10, 1024, 16] {
        let more = || {
            mutator.scope(|scope| {
                let array = scope.allocate_array(words, bytes).ok()?;
                let ones = vec![1_u8; bytes as usize];
                scope.write_elements(array, 0, &ones).ok()?;
                scope.handle(array)
            })
        };
        kept.extend(std::iter::from_fn(more));
    }
    kept
}

fn address(handle: &Handle) -> Address {
    Address::new(handle.get_raw().bits() as usize)
}

struct Types {
    bytes: Array,
    references: ReferenceArray,
}

fn types(heap: &Heap) -> Types {
    Types {
        bytes: heap.array(Elements::Bytes).unwrap(),
        references: heap.reference_array().unwrap(),
    }
}

#[test]
fn they_live_without_anybody_who_refers_to_them() {
    for options in WAYS {
        let heap = heap(options);
        let types = types(&heap);
        let node = heap
            .structure(Structure {
                references: 1,
                bytes: 8,
            })
            .unwrap();
        let mut mutator = heap.attach().unwrap();
        let weak: Vec<_> = mutator.scope(|scope| {
            let bytes = scope.allocate_immortal_array(types.bytes, LENGTH).unwrap();
            scope
                .write_elements(bytes, LENGTH as usize - 3, &[1_u8, 2, 3])
                .unwrap();
            let references = scope
                .allocate_immortal_references(types.references, 9000)
                .unwrap();
            let short = scope.allocate_immortal_array(types.bytes, 5).unwrap();
            let pinned = scope
                .allocate_immortal_array(types.bytes.pinned(), 7)
                .unwrap();
            let mortal = scope.allocate_array(types.bytes, LENGTH).unwrap();
            let object = scope.allocate(node).unwrap();
            scope.set(references, 8999, object).unwrap();
            let all = [bytes, references, short, object, mortal, pinned];
            all.map(|it| scope.weak(it).unwrap()).into_iter().collect()
        });
        for everything in [false, true, true, false] {
            mutator.scope(|scope| scope.collect(everything));
        }
        mutator.scope(|scope| {
            let [bytes, references, short, object, mortal, pinned] =
                std::array::from_fn(|index| scope.upgrade(&weak[index]));
            assert!(scope.is_null(mortal), "{options}");
            let last: Vec<u8> = scope.numbers::<u8>(bytes, LENGTH as usize - 4, 4).collect();
            assert_eq!(last, [0, 1, 2, 3], "{options}");
            assert_eq!(scope.length(short), 5, "{options}");
            assert!(!scope.is_null(pinned), "{options}");
            assert_eq!(scope.length(pinned), 7, "{options}");
            let found = scope.get(references, 8999);
            assert!(
                !scope.is_null(object) && scope.same(found, object),
                "{options}"
            );
        });
    }
}

#[test]
fn stores_into_them_succeed_in_a_heap_that_is_full() {
    for options in WAYS {
        let heap = heap(options);
        let types = types(&heap);
        let mut mutator = heap.attach().unwrap();
        let [immortal, mortal, references] = mutator.scope(|scope| {
            let immortal = scope.allocate_immortal_array(types.bytes, LENGTH).unwrap();
            let references = scope
                .allocate_immortal_references(types.references, 9000)
                .unwrap();
            let mortal = scope.allocate_array(types.bytes, LENGTH).unwrap();
            [immortal, mortal, references].map(|it| scope.handle(it).unwrap())
        });
        // A hash lies in the header, beside what says that they are immortal.
        mutator.scope(|scope| {
            let array = scope.open(&immortal);
            scope.identity_hash(array)
        });
        // Both are all zero while everything is collected twice: nothing is taken back.
        (0..2).for_each(|_| mutator.scope(|scope| scope.collect(true)));
        let kept = fill(&mut mutator, &heap);
        mutator.scope(|scope| {
            let (array, other) = (scope.open(&immortal), scope.open(&references));
            for index in 0..LENGTH as usize {
                let stored = scope.fill_numbers(array, index, 1, index as u8);
                stored.unwrap_or_else(|_| panic!("{options}: element {index}"));
            }
            for index in 0..9000 {
                scope
                    .set(other, index, array)
                    .unwrap_or_else(|_| panic!("{options}: {index}"));
            }
            let expected = (0..LENGTH).map(|index| index as u8);
            assert!(
                scope.numbers::<u8>(array, 0, LENGTH as usize).eq(expected),
                "{options}"
            );
            // So the heap was full: an array that is not immortal has to have its arraylets yet.
            let array = scope.open(&mortal);
            let stored = scope.fill_numbers(array, 0, LENGTH as usize, 1_u8);
            let lazy = options.contains("zray");
            assert_eq!(stored.is_err(), lazy, "{options}");
        });
        assert!(kept.len() > 100, "{options}");
    }
}

#[test]
fn their_arraylets_are_theirs_alone() {
    let heap = heap("arrays=zray");
    let types = types(&heap);
    let mut mutator = heap.attach().unwrap();
    let length = LENGTH as usize;
    let [one, other, immortal] = mutator.scope(|scope| {
        let one = scope.allocate_array(types.bytes, LENGTH).unwrap();
        let other = scope.allocate_array(types.bytes, LENGTH).unwrap();
        let immortal = scope.allocate_immortal_array(types.bytes, LENGTH).unwrap();
        scope.fill_numbers(one, 0, length, 7_u8).unwrap();
        [one, other, immortal].map(|it| scope.handle(it).unwrap())
    });
    let before = mutator.array_counts();
    let mut shared = |from: &Handle, to: &Handle| {
        mutator.scope(|scope| {
            let (from, to) = (scope.open(from), scope.open(to));
            scope.copy_elements(from, 0..length, to, 0).unwrap();
            assert!(scope.numbers::<u8>(to, 0, length).all(|it| it == 7));
        });
        mutator.array_counts().shared - before.shared
    };
    assert_eq!(shared(&one, &immortal), 0);
    assert_eq!(shared(&immortal, &other), 0);
    assert!(shared(&one, &other) > 0, "mortal ones are shared");
    assert_eq!(before.instantiated, before.parts / 3 * 2, "{before:?}");
    let cut = mutator.is_cut(address(&immortal));
    assert!(cut);
}

#[test]
fn what_has_no_room_is_refused_and_leaves_nothing() {
    for options in WAYS {
        let heap = heap(options);
        let types = types(&heap);
        let mut mutator = heap.attach().unwrap();
        for _ in 0..3 {
            let refused = mutator.scope(|scope| {
                let size = LIMIT as u32 / 4 * 5;
                scope.allocate_immortal_array(types.bytes, size).is_err()
            });
            assert!(refused, "{options}");
        }
        mutator.scope(|scope| {
            scope.collect(true);
            let size = LIMIT as u32 / 2;
            scope.allocate_immortal_array(types.bytes, size).unwrap();
        });
    }
}

#[test]
fn they_are_zero_in_memory_that_was_used() {
    for options in WAYS {
        let heap = heap(options);
        let types = types(&heap);
        let mut mutator = heap.attach().unwrap();
        for _ in 0..2 {
            drop(fill(&mut mutator, &heap));
            mutator.scope(|scope| scope.collect(true));
        }
        mutator.scope(|scope| {
            for _ in 0..10 {
                let array = scope.allocate_immortal_array(types.bytes, LENGTH).unwrap();
                let mut bytes = scope.numbers::<u8>(array, 0, LENGTH as usize);
                assert!(bytes.all(|byte| byte == 0), "{options}");
            }
        });
    }
}

#[test]
fn a_full_table_of_handles_refuses_them() {
    let builder = Heap::builder().limit(1 << 20).ignore_environment();
    let heap = builder.options("arrays=zray").unwrap().build().unwrap();
    let types = types(&heap);
    heap.attach().unwrap().scope(|scope| {
        let array = scope.allocate_array(types.bytes, 5).unwrap();
        let mut handles: Vec<Handle> = std::iter::from_fn(|| scope.handle(array)).collect();
        for length in [5, 10_000] {
            assert!(scope.allocate_immortal_array(types.bytes, length).is_err());
        }
        handles.truncate(handles.len() - 2);
        for length in [5, 10_000] {
            scope.allocate_immortal_array(types.bytes, length).unwrap();
        }
        assert!(scope.allocate_immortal_array(types.bytes, 5).is_err());
    });
}
