//! Bulk copies, and allocation with all fields given: under both slot formats, with the verifier and poison, and with a
//! collection at every allocation.

use crate::setups::{FORMATS, checked};
use gleaner::raw::{Address, FIELDS, Fresh, NewObject, Shape, Value, array_bytes};
use gleaner::{Elements, Heap, Local, Mutator, OutOfMemory, References, Scope, Structure};

fn heap(references: References, stress: u32) -> Heap {
    checked(4 << 20)
        .references(references)
        .stress(stress)
        .build()
        .unwrap()
}

/// Arrays of integers and objects: element n is the integer n when n is even, else an array of the one element n.
fn fill(scope: &mut Scope<'_>, array: Local<'_>, of: gleaner::ReferenceArray, length: i64) {
    for number in 0..length {
        scope.nested(|scope| {
            let integer = scope.integer(number).unwrap();
            if number % 2 == 0 {
                scope.set(array, number as usize, integer).unwrap();
            } else {
                let boxed = scope.allocate_references_with(of, &[integer]).unwrap();
                scope.set(array, number as usize, boxed).unwrap();
            }
        });
    }
}

fn numbers(scope: &mut Scope<'_>, array: Local<'_>) -> Vec<i64> {
    (0..scope.length(array) as usize)
        .map(|index| {
            scope.nested(|scope| {
                let element = scope.get(array, index);
                scope.as_integer(element).unwrap_or_else(|| {
                    let inner = scope.get(element, 0);
                    scope.as_integer(inner).unwrap()
                })
            })
        })
        .collect()
}

#[test]
fn references_are_copied_as_if_all_were_read_first() {
    for references in FORMATS {
        for stress in [0, 1] {
            let heap = heap(references, stress);
            let list = heap.reference_array().unwrap();
            heap.attach().unwrap().scope(|scope| {
                for (from, to, count) in [
                    (0, 0, 9),
                    (0, 3, 60),
                    (3, 0, 60),
                    (10, 11, 53),
                    (64, 64, 0),
                    (5, 40, 20),
                ] {
                    let array = scope.allocate_references(list, 64).unwrap();
                    fill(scope, array, list, 64);
                    let mut expected: Vec<i64> = (0..64).collect();
                    expected.copy_within(from..from + count, to);
                    scope
                        .copy_elements(array, from..from + count, array, to)
                        .unwrap();
                    scope.collect(false);
                    assert_eq!(numbers(scope, array), expected);
                    let other = scope.allocate_references(list, 100).unwrap();
                    scope.copy_elements(array, 0..64, other, 36).unwrap();
                    scope.copy_elements(array, 0..36, other, 0).unwrap();
                    scope.collect(true);
                    let expected = [&expected[..36], &expected].concat();
                    assert_eq!(numbers(scope, other), expected);
                }
            });
        }
    }
}

/// An array that spans many cards and is old: the copy must dirty each of them, or the verifier finds the clean one.
#[test]
fn a_copy_into_an_old_array_dirties_every_card() {
    for references in FORMATS {
        let heap = heap(references, 0);
        let list = heap.reference_array().unwrap();
        heap.attach().unwrap().scope(|scope| {
            let old = scope.allocate_references(list, 3000).unwrap();
            scope.collect(true);
            let young = scope.allocate_references(list, 2000).unwrap();
            fill(scope, young, list, 2000);
            scope.copy_elements(young, 1..1 + 1999, old, 777).unwrap();
            // What the copy refers to is reached through `old` alone.
            let nothing = scope.null();
            scope.assign(young, nothing);
            scope.collect(false);
            scope.collect(false);
            for index in 0..1999 {
                scope.nested(|scope| {
                    let element = scope.get(old, 777 + index);
                    let number = index as i64 + 1;
                    let found = scope.as_integer(element).unwrap_or_else(|| {
                        let inner = scope.get(element, 0);
                        scope.as_integer(inner).unwrap()
                    });
                    assert_eq!(found, number);
                });
            }
        });
    }
}

#[test]
fn primitive_elements_of_every_size_are_copied() {
    let heap = heap(References::Wide, 1);
    for elements in [
        Elements::Bytes,
        Elements::Halves,
        Elements::Words,
        Elements::Doubles,
    ] {
        let kind = heap.array(elements).unwrap();
        let size = 1 << elements as u32;
        let bytes: Vec<u8> = (0..64 * size).map(|byte| byte as u8 ^ 0x5a).collect();
        heap.attach().unwrap().scope(|scope| {
            for (from, to, count) in [(0, 5, 40), (5, 0, 40), (7, 7, 57), (0, 63, 1)] {
                let array = scope.allocate_array_with(kind, &bytes).unwrap();
                scope
                    .copy_elements(array, from..from + count, array, to)
                    .unwrap();
                let mut expected = bytes.clone();
                expected.copy_within(from * size..(from + count) * size, to * size);
                let found: Vec<u8> = (0..64)
                    .flat_map(|index| match elements {
                        Elements::Bytes => vec![scope.read_u8(array, index)],
                        Elements::Halves => scope.read_u16(array, index).to_ne_bytes().to_vec(),
                        Elements::Words => scope.read_u32(array, index).to_ne_bytes().to_vec(),
                        Elements::Doubles => scope.read_u64(array, index).to_ne_bytes().to_vec(),
                    })
                    .collect();
                assert_eq!(found, expected);
            }
        });
    }
}

#[test]
fn the_raw_copy_is_the_same() {
    for references in FORMATS {
        let heap = heap(references, 1);
        let bytes = heap.register_raw(Shape::Primitives { log2: 0 }).unwrap();
        let list = heap.register_raw(Shape::References).unwrap();
        let log2 = if references == References::Wide { 3 } else { 2 };
        let mut mutator = heap.attach().unwrap();
        // SAFETY: what is needed over an allocation is in a root, and the indexes are inside.
        unsafe {
            let text = mutator
                .allocate_raw(
                    NewObject::array(bytes, 10, array_bytes(10, 0)),
                    Fresh::Zeroed,
                )
                .unwrap();
            let digits: [u8; 10] = std::array::from_fn(|index| index as u8);
            mutator.write_elements(text, 0, &digits).unwrap();
            mutator.copy_elements_raw(text, 0, text, 2, 8).unwrap();
            let found: Vec<u8> = mutator.cursor::<u8>(text, 0, 10).collect();
            assert_eq!(found, [0, 1, 0, 1, 2, 3, 4, 5, 6, 7]);
            mutator.with_roots([Value::reference(text), Value::NULL], |mutator, roots| {
                let array = mutator
                    .allocate_raw(
                        NewObject::array(list, 4, array_bytes(4, log2)),
                        Fresh::Zeroed,
                    )
                    .unwrap();
                roots[1].set(Value::reference(array));
                mutator.store_element_raw(array, 0, roots[0].get()).unwrap();
                mutator.copy_elements_raw(array, 0, array, 1, 3).unwrap();
                mutator.collect(true);
                let array = roots[1].get().as_object().unwrap();
                for (index, expected) in [roots[0].get(), roots[0].get(), Value::NULL]
                    .into_iter()
                    .enumerate()
                {
                    assert_eq!(mutator.load_element_raw(array, index), expected);
                }
            });
        }
    }
}

fn panics(body: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let error = std::panic::catch_unwind(body).unwrap_err();
    error.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn wrong_copies_are_refused_with_the_numbers() {
    let attempt = |from: usize, to: usize, count: usize| {
        panics(move || {
            let heap = heap(References::Wide, 0);
            let list = heap.reference_array().unwrap();
            heap.attach().unwrap().scope(|scope| {
                let array = scope.allocate_references(list, 8).unwrap();
                let _ = scope.copy_elements(array, from..from + count, array, to);
            });
        })
    };
    assert_eq!(
        attempt(0, 1, 8),
        "a copy of 8 elements at 1 of an array of 8"
    );
    assert_eq!(
        attempt(9, 0, 0),
        "a copy of 0 elements at 9 of an array of 8"
    );
    assert!(attempt(usize::MAX - 2, 0, 2).contains("of an array of 8"));
    assert!(attempt(0, usize::MAX, 2).contains("of an array of 8"));
    let mixed = panics(|| {
        let heap = heap(References::Wide, 0);
        let list = heap.reference_array().unwrap();
        let words = heap.array(Elements::Doubles).unwrap();
        heap.attach().unwrap().scope(|scope| {
            let from = scope.allocate_references(list, 8).unwrap();
            let to = scope.allocate_array(words, 8).unwrap();
            let _ = scope.copy_elements(from, 0..1, to, 0);
        });
    });
    assert_eq!(
        mixed,
        "a copy from an object that has 8 elements, references to one that has 8 elements of 8 bytes"
    );
}

#[test]
fn objects_are_made_of_given_values() {
    for references in FORMATS {
        for stress in [0, 1] {
            let heap = heap(references, stress);
            // An odd number of slots and of bytes: there is padding behind both.
            let node = heap
                .structure(Structure {
                    references: 3,
                    bytes: 5,
                })
                .unwrap();
            let list = heap.reference_array().unwrap();
            let bytes = heap.array(Elements::Bytes).unwrap();
            let done: Result<(), OutOfMemory> = heap.attach().unwrap().scope(|scope| {
                let chain = scope.null();
                for number in 0..300_u32 {
                    scope.nested(|scope| {
                        let (nothing, integer) =
                            (scope.null(), scope.integer(i64::from(number)).unwrap());
                        let tag = [number as u8, 1, 2, 3, 4];
                        let top = scope.allocate_with(node, &[chain, nothing, integer], &tag)?;
                        scope.assign(chain, top);
                        Ok(())
                    })?;
                }
                let text = scope.allocate_array_with(bytes, b"seven b")?;
                let all = scope.allocate_references_with(list, &[text, chain, text])?;
                scope.collect(true);
                assert_eq!(scope.length(all), 3);
                scope.load(all, 1, chain);
                for number in (0..300_u32).rev() {
                    assert_eq!(scope.read_u8(chain, 0), number as u8);
                    assert_eq!(scope.read_u8(chain, 4), 4);
                    // The padding.
                    assert_eq!(scope.read_u8(chain, 7), 0);
                    scope.nested(|scope| {
                        let integer = scope.get(chain, 2);
                        assert_eq!(scope.as_integer(integer), Some(i64::from(number)));
                        let second = scope.get(chain, 1);
                        assert!(scope.is_null(second));
                    });
                    scope.load(chain, 0, chain);
                }
                assert!(scope.is_null(chain));
                let text = scope.get(all, 2);
                assert_eq!((scope.length(text), scope.read_u8(text, 6)), (7, b'b'));
                let empty = scope.allocate_array_with(bytes, b"")?;
                assert_eq!(scope.length(empty), 0);
                Ok(())
            });
            done.unwrap();
        }
    }
}

/// The contract is real: what the caller does not write is what lay there before.
#[test]
fn large_arrays_of_given_elements_are_not_zeroed_first() {
    let heap = heap(References::Wide, 0);
    let words = heap.register_raw(Shape::Primitives { log2: 3 }).unwrap();
    let mut mutator = heap.attach().unwrap();
    const LENGTH: u32 = 1 << 16;
    let bytes = array_bytes(LENGTH, 3);
    let first = |mutator: &Mutator, object: Address| {
        // SAFETY: the first element of the array.
        unsafe { mutator.load_element_in::<u64>(object, 0) }
    };
    // SAFETY: an array of numbers, which nobody uses after an allocation.
    unsafe {
        let used = mutator
            .allocate_raw(NewObject::array(words, LENGTH, bytes), Fresh::Unwritten)
            .unwrap();
        assert_eq!(mutator.length_raw(used), LENGTH);
        mutator
            .fill_elements_in::<u64>(used, 0, LENGTH as usize, u64::MAX)
            .unwrap();
        // Its memory is free again, and is taken by the next.
        mutator.collect(false);
        let unwritten = mutator
            .allocate_raw(NewObject::array(words, LENGTH, bytes), Fresh::Unwritten)
            .unwrap();
        assert_eq!(unwritten, used);
        assert_ne!(first(&mutator, unwritten), 0, "zeroed for nothing");
        mutator.collect(false);
        let zeroed = mutator
            .allocate_raw(NewObject::array(words, LENGTH, bytes), Fresh::Zeroed)
            .unwrap();
        assert_eq!((zeroed, first(&mutator, zeroed)), (used, 0));
    }
}

/// Nobody writes the bytes behind the last element, and they are zero: whatever lay there before.
#[test]
fn the_bytes_behind_the_elements_of_an_array_are_zero() {
    let heap = heap(References::Wide, 0);
    let bytes = heap.register_raw(Shape::Primitives { log2: 0 }).unwrap();
    let mut mutator = heap.attach().unwrap();
    let mut dirty = 0;
    for length in 1..40 {
        let size = array_bytes(length, 0);
        // The heap overwrites what is freed.
        mutator.collect(false);
        // SAFETY: arrays of bytes, all of which are written; the bytes up to their ends are read.
        unsafe {
            let array = mutator
                .allocate_raw(NewObject::array(bytes, length, size), Fresh::Unwritten)
                .unwrap();
            dirty += usize::from(mutator.load_element_in::<u8>(array, 0) != 0);
            mutator
                .fill_elements_in::<u8>(array, 0, length as usize, 7)
                .unwrap();
            for offset in 16 + length as usize..size {
                assert_eq!(
                    array.add(offset).ptr::<u8>().read(),
                    0,
                    "{length}: {offset}"
                );
            }
        }
    }
    assert!(dirty > 0, "the memory was zero before");
}

/// What comes from a buffer is zero also for a caller who would write it.
#[test]
fn initialized_allocation_leaves_the_buffer_zero() {
    let heap = heap(References::Compressed, 0);
    let pair = Shape::Structure {
        bytes: 24,
        references: &[8, 12],
    };
    let pair = heap.register_raw(pair).unwrap();
    let mut mutator = heap.attach().unwrap();
    for _ in 0..50_000 {
        // SAFETY: every field is written, or the next allocation is of the other kind and finds zeros.
        unsafe {
            let object = mutator
                .allocate_raw(NewObject::structure(pair, 24), Fresh::Unwritten)
                .unwrap();
            mutator.store_raw(object, FIELDS, Value::immediate(1));
            mutator.store_raw(object, 12, Value::NULL);
            object.add(16).ptr::<u64>().write(u64::MAX);
            let zeroed = mutator
                .allocate_raw(NewObject::structure(pair, 24), Fresh::Zeroed)
                .unwrap();
            assert_eq!(zeroed.add(8).ptr::<[u64; 2]>().read(), [0, 0]);
        }
    }
}

/// What a copy of elements in the raw layer says when it is refused.
fn refused(from: (usize, u32), to: (usize, u32), count: u32) -> String {
    let heap = Heap::builder().limit(1 << 20).build().unwrap();
    let types = [
        heap.reference_array().unwrap().id(),
        heap.array(Elements::Bytes).unwrap().id(),
        heap.array(Elements::Doubles).unwrap().id(),
        heap.register_raw(Shape::Structure {
            bytes: 32,
            references: &[8],
        })
        .unwrap(),
    ];
    let mut mutator = heap.attach().unwrap();
    // SAFETY: types of this heap with their sizes: ten elements, and a structure. Nothing is collected: there is room.
    let objects = unsafe {
        [
            mutator.allocate_raw(
                NewObject::array(types[0], 10, array_bytes(10, 3)),
                Fresh::Zeroed,
            ),
            mutator.allocate_raw(
                NewObject::array(types[1], 10, array_bytes(10, 0)),
                Fresh::Zeroed,
            ),
            mutator.allocate_raw(
                NewObject::array(types[2], 10, array_bytes(10, 3)),
                Fresh::Zeroed,
            ),
            mutator.allocate_raw(NewObject::structure(types[3], 32), Fresh::Zeroed),
        ]
    }
    .map(Result::unwrap);
    let copy = std::panic::AssertUnwindSafe(|| {
        // SAFETY: references to objects; what is wrong about them is refused.
        unsafe { mutator.copy_elements_raw(objects[from.0], from.1, objects[to.0], to.1, count) }
    });
    let panicked = std::panic::catch_unwind(copy).expect_err("not refused");
    *panicked.downcast::<String>().unwrap()
}

#[test]
fn a_raw_copy_beyond_the_end_or_of_other_objects_is_refused() {
    assert_eq!(
        refused((0, 0), (0, 5), 6),
        "a copy of 6 elements at 5 of an array of 10"
    );
    assert_eq!(
        refused((1, 11), (1, 0), 0),
        "a copy of 0 elements at 11 of an array of 10"
    );
    assert_eq!(
        refused((2, u32::MAX), (2, 0), 2),
        "a copy of 2 elements at 4294967295 of an array of 10"
    );
    assert_eq!(
        refused((2, 0), (2, 1), u32::MAX),
        "a copy of 4294967295 elements at 0 of an array of 10"
    );
    assert_eq!(
        refused((1, 0), (2, 0), 1),
        "a copy from an array of numbers of 1 byte to one of numbers of 8 bytes"
    );
    assert_eq!(
        refused((2, 0), (0, 0), 1),
        "a copy from an array of numbers of 8 bytes to one of references"
    );
    for (from, to) in [(3, 0), (0, 3)] {
        let said = refused((from, 0), (to, 0), 1);
        assert!(said.ends_with("which is no array"), "{said}");
    }
}
