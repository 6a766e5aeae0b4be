//! The safe interface, on both slot formats, with the verifier on.

use crate::setups::{FORMATS, checked};
use gleaner::{Elements, Heap, Local, OutOfMemory, References, Scope, Structure, Type};

fn heap(references: References, limit: usize) -> Heap {
    checked(limit).references(references).build().unwrap()
}

const NODE: Structure = Structure {
    references: 2,
    bytes: 8,
};

/// A complete tree; each node's number is its height.
fn tree<'s>(scope: &mut Scope<'s>, node: Type, height: u64) -> Result<Local<'s>, OutOfMemory> {
    let root = scope.null();
    scope.nested(|scope| {
        let top = scope.allocate(node)?;
        scope.write_u64(top, 0, height).unwrap();
        if height > 0 {
            for side in 0..2 {
                let child = tree(scope, node, height - 1)?;
                scope.set(top, side, child).unwrap();
            }
        }
        scope.assign(root, top);
        Ok(())
    })?;
    Ok(root)
}

fn count(scope: &mut Scope<'_>, root: Local<'_>) -> u64 {
    scope.nested(|scope| {
        let height = scope.read_u64(root, 0);
        let mut sum = 1;
        for side in 0..2 {
            let child = scope.get(root, side);
            assert_eq!(scope.is_null(child), height == 0);
            if height > 0 {
                assert_eq!(scope.read_u64(child, 0), height - 1);
                sum += count(scope, child);
            }
        }
        sum
    })
}

#[test]
fn trees_survive_many_collections() {
    for references in FORMATS {
        let heap = heap(references, 4 << 20);
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let kept = tree(scope, node, 12).unwrap();
            for _ in 0..120 {
                scope.nested(|scope| {
                    let dropped = tree(scope, node, 11).unwrap();
                    assert_eq!(count(scope, dropped), (1 << 12) - 1);
                });
            }
            assert_eq!(count(scope, kept), (1 << 13) - 1);
            scope.collect(true);
            assert_eq!(count(scope, kept), (1 << 13) - 1);
        });
        let totals = mutator.totals();
        assert!(totals.scavenges > 3, "{totals:?}");
        assert!(totals.promoted_bytes > 0 && totals.full_collections > 0);
    }
}

#[test]
fn fresh_objects_are_zero_wherever_they_lie() {
    for references in FORMATS {
        let heap = heap(references, 2 << 20);
        let node = heap
            .structure(Structure {
                references: 3,
                bytes: 40,
            })
            .unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let list = heap.reference_array().unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            for round in 0..3000u32 {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    for index in 0..5 {
                        assert_eq!(scope.read_u64(one, index), 0);
                        scope.write_u64(one, index, !0).unwrap();
                    }
                    for index in 0..3 {
                        let field = scope.get(one, index);
                        assert!(scope.is_null(field));
                        scope.set(one, index, one).unwrap();
                    }
                    // Small, and large ones that have pages of their own, of which many die.
                    let length = if round % 100 == 0 {
                        200_000
                    } else {
                        round % 777
                    };
                    let array = scope.allocate_array(bytes, length).unwrap();
                    let length = length as usize;
                    let places = [0, length / 2, length.saturating_sub(1)];
                    for &index in places.iter().filter(|&&index| index < length) {
                        assert_eq!(scope.read_u8(array, index), 0);
                    }
                    for &index in places.iter().filter(|&&index| index < length) {
                        scope.write_u8(array, index, 0xff).unwrap();
                    }
                    let references = scope.allocate_references(list, round % 50).unwrap();
                    for index in 0..scope.length(references) as usize {
                        let element = scope.get(references, index);
                        assert!(scope.is_null(element));
                        scope.set(references, index, one).unwrap();
                    }
                });
            }
        });
        assert!(mutator.totals().scavenges > 1);
    }
}

#[test]
fn large_arrays_are_scanned_by_chunks_and_keep_their_elements() {
    for references in FORMATS {
        let heap = heap(references, 16 << 20);
        let node = heap.structure(NODE).unwrap();
        let list = heap.reference_array().unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            for length in [511, 512, 513, 5000, 100_000] {
                scope.nested(|scope| {
                    let array = scope.allocate_references(list, length).unwrap();
                    for index in 0..length as usize {
                        scope.nested(|scope| {
                            let one = scope.allocate(node).unwrap();
                            scope.write_u64(one, 0, index as u64).unwrap();
                            scope.set(array, index, one).unwrap();
                        });
                    }
                    scope.collect(false);
                    scope.collect(false);
                    // One store into an old array.
                    let fresh = scope.allocate(node).unwrap();
                    scope.write_u64(fresh, 0, 7).unwrap();
                    scope.set(array, length as usize / 2, fresh).unwrap();
                    scope.collect(false);
                    scope.collect(true);
                    let element = scope.null();
                    for index in 0..length as usize {
                        scope.load(array, index, element);
                        let expected = if index == length as usize / 2 {
                            7
                        } else {
                            index as u64
                        };
                        assert_eq!(scope.read_u64(element, 0), expected);
                    }
                });
            }
        });
    }
}

#[test]
fn integers_stand_in_references() {
    for references in FORMATS {
        let heap = heap(references, 1 << 20);
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let one = scope.allocate(node).unwrap();
            let number = scope.integer(-(1 << 30)).unwrap();
            scope.set(one, 0, number).unwrap();
            scope.collect(true);
            let back = scope.get(one, 0);
            assert_eq!(scope.as_integer(back), Some(-(1 << 30)));
            assert!(scope.same(back, number));
            let fits = |number: i64| match references {
                References::Wide => number >> 62 == 0 || number >> 62 == -1,
                References::Compressed => number >> 30 == 0 || number >> 30 == -1,
            };
            for bit in [29, 30, 31, 61, 62] {
                for number in [(1_i64 << bit) - 1, 1 << bit, -(1 << bit), -(1 << bit) - 1] {
                    let local = scope.integer(number);
                    assert_eq!(local.is_some(), fits(number), "{number}");
                    let back = local.map(|local| scope.as_integer(local));
                    assert!(back.is_none_or(|back| back == Some(number)), "{number}");
                }
            }
        });
    }
}

#[test]
fn identity_hashes_stay_when_objects_move() {
    let heap = heap(References::Compressed, 2 << 20);
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let objects: Vec<Local<'_>> = (0..500).map(|_| scope.allocate(node).unwrap()).collect();
        let hashes: Vec<u32> = objects
            .iter()
            .map(|&one| scope.identity_hash(one))
            .collect();
        let mut apart = hashes.clone();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!(apart.len(), 500);
        for everything in [false, false, true] {
            scope.collect(everything);
            assert!(
                objects
                    .iter()
                    .zip(&hashes)
                    .all(|(&one, &hash)| scope.identity_hash(one) == hash)
            );
        }
    });
}

#[test]
fn handles_keep_objects_alive_until_they_are_dropped() {
    let heap = heap(References::Wide, 2 << 20);
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    let handle = mutator.scope(|scope| {
        let array = scope.allocate_array(bytes, 900_000).unwrap();
        scope.write_u8(array, 899_999, 42).unwrap();
        scope.handle(array).unwrap()
    });
    mutator.collect(true);
    mutator.scope(|scope| {
        let array = scope.open(&handle);
        assert_eq!(scope.read_u8(array, 899_999), 42);
    });
    assert!(heap.used() > 900_000);
    std::thread::spawn(move || drop(handle)).join().unwrap();
    mutator.collect(true);
    assert!(heap.used() < 100_000, "{}", heap.used());
}

#[test]
fn a_full_heap_says_so_and_can_be_used_again() {
    for references in FORMATS {
        let heap = heap(references, 1 << 20);
        let node = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let list = scope.null();
            let mut length = 0u64;
            let full = loop {
                let pushed = scope.nested(|scope| -> Result<(), OutOfMemory> {
                    let head = scope.allocate(node)?;
                    scope.set(head, 0, list).unwrap();
                    scope.write_u64(head, 0, length).unwrap();
                    scope.assign(list, head);
                    Ok(())
                });
                match pushed {
                    Ok(()) => length += 1,
                    Err(full) => break full,
                }
            };
            assert!(full.to_string().contains("out of memory"));
            // Nine tenths of the heap hold the list: the rest are survivor spaces and tails.
            assert!(length * node.size() as u64 > (1 << 20) * 7 / 10, "{length}");
            let walk = scope.null();
            scope.assign(walk, list);
            for expected in (0..length).rev() {
                assert_eq!(scope.read_u64(walk, 0), expected);
                scope.load(walk, 0, walk);
            }
            assert!(scope.is_null(walk));
            let nothing = scope.null();
            scope.assign(list, nothing);
            for _ in 0..10_000 {
                scope
                    .nested(|scope| scope.allocate(node).map(|_| ()))
                    .unwrap();
            }
        });
    }
}

#[test]
fn two_heaps_at_once_and_heaps_that_end() {
    for _ in 0..20 {
        let heaps = [
            heap(References::Wide, 1 << 20),
            heap(References::Compressed, 1 << 20),
        ];
        let nodes = heaps.each_ref().map(|heap| heap.structure(NODE).unwrap());
        let mut mutators = heaps.each_ref().map(|heap| heap.attach().unwrap());
        for (mutator, node) in mutators.iter_mut().zip(nodes) {
            mutator.scope(|scope| {
                let root = tree(scope, node, 8).unwrap();
                scope.collect(true);
                assert_eq!(count(scope, root), 511);
            });
        }
    }
}

#[test]
#[should_panic(expected = "reference 2 of an object that has 2 references in 32 bytes")]
fn a_wrong_index_is_named() {
    let heap = heap(References::Wide, 1 << 20);
    let node = heap.structure(NODE).unwrap();
    heap.attach().unwrap().scope(|scope| {
        let one = scope.allocate(node).unwrap();
        scope.get(one, 2);
    });
}

#[test]
#[should_panic(expected = "a local of another mutator")]
fn a_local_of_another_heap_is_refused() {
    let heaps = [
        heap(References::Wide, 1 << 20),
        heap(References::Wide, 1 << 20),
    ];
    let node = heaps[0].structure(NODE).unwrap();
    let mut mutators = heaps.each_ref().map(|heap| heap.attach().unwrap());
    let [first, second] = &mut mutators;
    first.scope(|scope| {
        let one = scope.allocate(node).unwrap();
        second.scope(|other| {
            other.is_null(one);
        });
    });
}

#[test]
fn no_index_reaches_outside_of_an_object() {
    let heap = heap(References::Wide, 1 << 20);
    let node = heap.structure(NODE).unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let far = [
        1,
        2,
        1 << 31,
        1 << 61,
        (1 << 61) - 1,
        usize::MAX / 8,
        usize::MAX - 1,
        usize::MAX,
    ];
    for index in far {
        let refused = |body: fn(&mut Scope<'_>, Type, gleaner::Array, usize)| {
            let mut mutator = heap.attach().unwrap();
            let body = std::panic::AssertUnwindSafe(|| {
                mutator.scope(|scope| body(scope, node, bytes, index));
            });
            assert!(std::panic::catch_unwind(body).is_err(), "index {index}");
        };
        refused(|scope, node, _, index| {
            let one = scope.allocate(node).unwrap();
            scope.write_u64(one, index, !0).unwrap();
        });
        refused(|scope, node, _, index| {
            let one = scope.allocate(node).unwrap();
            scope.write_u8(one, index.max(8), 1).unwrap();
        });
        refused(|scope, _, bytes, index| {
            let array = scope.allocate_array(bytes, 1).unwrap();
            scope.write_u8(array, index, 1).unwrap();
        });
        refused(|scope, node, _, index| {
            let one = scope.allocate(node).unwrap();
            scope.get(one, index.max(2));
        });
    }
}

#[test]
fn structures_that_are_too_large_are_refused_before_anything_is_made() {
    let heap = heap(References::Wide, 1 << 20);
    for shape in [
        Structure {
            references: u32::MAX,
            bytes: 0,
        },
        Structure {
            references: 0,
            bytes: u32::MAX,
        },
        Structure {
            references: u32::MAX,
            bytes: u32::MAX,
        },
    ] {
        assert!(heap.structure(shape).is_err());
    }
}

#[test]
#[should_panic(expected = "a type of another heap")]
fn a_type_of_another_heap_is_refused() {
    let heaps = [
        heap(References::Wide, 1 << 20),
        heap(References::Wide, 1 << 20),
    ];
    let node = heaps[0].structure(NODE).unwrap();
    heaps[1]
        .attach()
        .unwrap()
        .scope(|scope| scope.allocate(node).map(|_| ()))
        .unwrap();
}

#[test]
fn impossible_heaps_are_refused_with_the_numbers() {
    let refused = |builder: gleaner::Builder| builder.build().unwrap_err().to_string();
    assert!(
        refused(Heap::builder().limit(1000))
            .contains("option heap-limit: 1000 bytes is out of range")
    );
    let compressed = Heap::builder()
        .references(References::Compressed)
        .limit(20 << 30);
    assert!(refused(compressed).contains("its references reach 17179869184"));
    assert!(refused(Heap::builder().limit(4 << 20).young(4 << 20)).contains("nine tenths"));
    assert!(refused(Heap::builder().limit(1 << 43)).contains("its references reach 8796093022208"));
}
