//! What is known of objects when the program is compiled, on both slot formats: fields, tails, and the limit of locals.

use gleaner::raw::{Compressed, Wide};
use gleaner::{
    Elements, Fields, Heap, InTail, Local, OutOfMemory, References, Scope, Slots, Structure,
    Tailed, TypeError,
};

fn heap(references: References) -> Heap {
    Heap::builder()
        .limit(4 << 20)
        .references(references)
        .workers(1)
        .verify(true)
        .poison(true)
        .stress(7)
        .build()
        .unwrap()
}

type Node<F> = Fields<2, 12, F>;

/// A tree from the leaves up, whose nodes have their heights.
fn tree<'s, F: Slots>(
    scope: &mut Scope<'s>,
    node: Node<F>,
    height: u32,
) -> Result<Local<'s, Node<F>>, OutOfMemory> {
    scope.returning(|scope| {
        if height == 0 {
            return scope.allocate(node);
        }
        let left = tree(scope, node, height - 1)?;
        let right = tree(scope, node, height - 1)?;
        scope.allocate_filled(node, |new| {
            new.set(0, left);
            new.set(1, right);
            new.write(2, height);
        })
    })
}

fn count<F: Slots>(scope: &mut Scope<'_>, node: Node<F>, root: Local<'_, Node<F>>) -> usize {
    scope.nested(|scope| {
        let height = scope.read_u32(root, 2);
        let mut sum = 1;
        for side in 0..2 {
            let child = scope.get_as(root, side, node);
            assert_eq!(child.is_some(), height > 0);
            if let Some(child) = child {
                assert_eq!(scope.read_u32(child, 2), height - 1);
                sum += count(scope, node, child);
            }
        }
        sum
    })
}

fn trees<F: Slots>(references: References) {
    let heap = heap(references);
    let node: Node<F> = heap.fields().unwrap();
    heap.attach().unwrap().scope(|scope| {
        let root = tree(scope, node, 6).unwrap();
        scope.collect(true);
        assert_eq!(count(scope, node, root), 127);
        // Others see the same object.
        let any = scope.null();
        scope.assign(any, root);
        assert!(scope.same(any, root) && scope.is_a(any, node));
        assert_eq!(scope.read_u32(any, 2), 6);
        let again = scope.cast(any, node).unwrap();
        scope.set(again, 1, root).unwrap();
        scope.set_null(again, 0).unwrap();
        assert!(scope.get_as(root, 0, node).is_none());
        let itself = scope.get(any, 1);
        assert!(scope.same(itself, root));
    });
}

#[test]
fn trees_of_known_fields_survive_collections() {
    trees::<gleaner::AnySlots>(References::Wide);
    trees::<gleaner::AnySlots>(References::Compressed);
    trees::<Wide>(References::Wide);
    trees::<Compressed>(References::Compressed);
}

#[test]
fn a_heap_refuses_fields_for_other_slots() {
    let wide = heap(References::Wide);
    let other: Result<Fields<1, 0, Compressed>, _> = wide.fields();
    assert_eq!(other.unwrap_err(), TypeError::Slots(8));
    let compressed = heap(References::Compressed);
    let other: Result<Fields<1, 0, Wide>, _> = compressed.fields();
    assert_eq!(other.unwrap_err(), TypeError::Slots(4));
    assert!(TypeError::Slots(4).to_string().contains("option refs"));
}

#[test]
#[should_panic(expected = "reference 2 of an object that has 2 references in 40 bytes")]
fn a_wrong_index_of_known_fields_is_named() {
    let heap = heap(References::Wide);
    let node: Node<Wide> = heap.fields().unwrap();
    heap.attach().unwrap().scope(|scope| {
        let one = scope.allocate(node).unwrap();
        scope.get(one, 2);
    });
}

#[test]
#[should_panic(expected = "item 1 of 8 bytes of an object")]
fn an_item_that_does_not_fit_into_known_fields_is_refused() {
    let heap = heap(References::Wide);
    let node: Node<Wide> = heap.fields().unwrap();
    heap.attach().unwrap().scope(|scope| {
        let one = scope.allocate(node).unwrap();
        scope.read_u64(one, 1);
    });
}

#[test]
#[should_panic(expected = "a local of another mutator")]
fn a_local_of_known_fields_of_another_heap_is_refused() {
    let heaps = [heap(References::Wide), heap(References::Wide)];
    let nodes = heaps.each_ref().map(|heap| heap.fields().unwrap());
    let node: Node<Wide> = nodes[0];
    let mut mutators = heaps.each_ref().map(|heap| heap.attach().unwrap());
    let [first, second] = &mut mutators;
    first.scope(|scope| {
        let one = scope.allocate(node).unwrap();
        second.scope(|other| {
            let _ = other.allocate_filled(nodes[1], |new| new.set(0, one));
        });
    });
}

#[test]
fn types_of_arrays_and_tails_are_told_apart() {
    for references in [References::Wide, References::Compressed] {
        let heap = heap(references);
        let (slots, bytes) = (
            heap.reference_array().unwrap(),
            heap.array(Elements::Bytes).unwrap(),
        );
        let words = heap.array(Elements::Words).unwrap();
        let structure = |references, bytes| Structure { references, bytes };
        let tail = heap
            .tailed(Tailed {
                head: structure(0, 4),
                element: structure(0, 2),
            })
            .unwrap();
        heap.attach().unwrap().scope(|scope| {
            let one = scope.allocate_references(slots, 3).unwrap();
            let other = scope.allocate_array(bytes, 3).unwrap();
            let tailed = scope.allocate_tailed(tail, 5).unwrap();
            assert_eq!(
                [one, other, tailed].map(|local| scope.is_a(local, slots)),
                [true, false, false]
            );
            assert_eq!(
                [one, other, tailed].map(|local| scope.is_a(local, bytes)),
                [false, true, false]
            );
            assert_eq!(
                [one, other, tailed].map(|local| scope.is_a(local, words)),
                [false; 3]
            );
            assert_eq!(
                [one, other, tailed].map(|local| scope.is_a(local, tail)),
                [false, false, true]
            );
            let null = scope.null();
            assert!(!scope.is_a(null, slots));
        });
    }
}

#[test]
fn tails_keep_their_references_and_numbers() {
    for references in [References::Wide, References::Compressed] {
        let heap = heap(references);
        let part = |references, bytes| Structure { references, bytes };
        let shape = Tailed {
            head: part(1, 8),
            element: part(3, 12),
        };
        let tail = heap.tailed(shape).unwrap();
        let number: Fields<0, 8> = heap.fields().unwrap();
        heap.attach().unwrap().scope(|scope| {
            let all = scope.allocate_tailed(tail, 20).unwrap();
            assert_eq!(scope.length(all), 20);
            scope.set(all, 0, all).unwrap();
            scope.write_u64(all, 0, 99).unwrap();
            for element in 0..20 {
                for index in 0..3 {
                    scope.nested(|scope| {
                        let value = (100 * element + index) as u64;
                        let place = InTail { element, index };
                        let boxed = scope
                            .allocate_filled(number, |new| new.write(0, value))
                            .unwrap();
                        scope.set(all, place, boxed).unwrap();
                        scope.write_u32(all, place, value as u32).unwrap();
                    });
                }
            }
            scope.collect(true);
            for element in 0..20 {
                for index in 0..3 {
                    scope.nested(|scope| {
                        let place = InTail { element, index };
                        let value = (100 * element + index) as u64;
                        let found = scope.get_as(all, place, number).unwrap();
                        assert_eq!(scope.read_u64(found, 0), value);
                        assert_eq!(u64::from(scope.read_u32(all, place)), value);
                    });
                }
            }
            let itself = scope.get(all, 0);
            assert!(scope.same(itself, all) && scope.read_u64(all, 0) == 99);
        });
    }
}

/// What is known of a local is no hindrance: neither to a swap, in an object or behind a head, nor to a handle.
#[test]
fn references_of_known_fields_and_of_tails_are_swapped() {
    for references in [References::Wide, References::Compressed] {
        let heap = heap(references);
        let node: Fields<2, 12> = heap.fields().unwrap();
        let one = Structure {
            references: 1,
            bytes: 0,
        };
        let tail = heap
            .tailed(Tailed {
                head: one,
                element: one,
            })
            .unwrap();
        let swapped: Result<(), OutOfMemory> = heap.attach().unwrap().scope(|scope| {
            let (root, none) = (scope.allocate(node)?, scope.null());
            let frame = scope.allocate_tailed(tail, 9)?;
            let last = InTail {
                element: 8,
                index: 0,
            };
            assert!(scope.compare_exchange(root, 1, none, root)?);
            assert!(!scope.compare_exchange(root, 1, none, frame)?);
            assert!(scope.compare_exchange(frame, last, none, root)?);
            assert!(scope.compare_exchange(frame, 0, none, root)?);
            let handle = scope.handle(frame).unwrap();
            scope.set_handle(&handle, root);
            scope.collect(true);
            let opened = scope.open(&handle);
            for held in [
                scope.get(root, 1),
                scope.get(frame, last),
                scope.get(frame, 0),
                opened,
            ] {
                assert!(scope.same(held, root));
            }
            Ok(())
        });
        swapped.unwrap();
    }
}

#[test]
#[should_panic(expected = "reference 0 in element 2 of an object that has 2 elements of 8 bytes")]
fn an_element_past_the_last_is_named() {
    let heap = heap(References::Wide);
    let part = |references, bytes| Structure { references, bytes };
    let shape = Tailed {
        head: part(0, 0),
        element: part(1, 0),
    };
    let tail = heap.tailed(shape).unwrap();
    heap.attach().unwrap().scope(|scope| {
        let all = scope.allocate_tailed(tail, 2).unwrap();
        let place = InTail {
            element: 2,
            index: 0,
        };
        scope.get(all, place);
    });
}

#[test]
fn integers_and_null_are_put_into_locals() {
    for (references, most) in [
        (References::Wide, i64::MAX >> 1),
        (References::Compressed, (1 << 30) - 1),
    ] {
        heap(references).attach().unwrap().scope(|scope| {
            let local = scope.null();
            assert_eq!(scope.assign_integer(local, most), Some(()));
            assert_eq!(scope.assign_integer(local, most + 1), None);
            assert_eq!(scope.as_integer(local), Some(most));
            scope.assign_null(local);
            assert!(scope.is_null(local));
        });
    }
}

/// How deep a recursion goes that has four locals in each call, and what ends it.
fn depth(scope: &mut Scope<'_>, deep: &mut u32) -> OutOfMemory {
    *deep += 1;
    scope.nested(|scope| match scope.room_for_locals(4) {
        Ok(()) => {
            let locals: [Local<'_>; 4] = std::array::from_fn(|_| scope.null());
            let end = depth(scope, deep);
            assert!(locals.iter().all(|&local| scope.is_null(local)));
            end
        }
        Err(full) => full,
    })
}

#[test]
fn a_deep_recursion_ends_with_an_error_where_the_option_says() {
    for (most, deepest) in [(64, 17), (67, 17), (4000, 1001)] {
        let heap = Heap::builder().limit(1 << 20).locals(most).build().unwrap();
        let node: Fields<1, 0> = heap.fields().unwrap();
        heap.attach().unwrap().scope(|scope| {
            let mut deep = 0;
            let end = depth(scope, &mut deep);
            assert!(end.is_of_locals() && deep == deepest, "{deep}");
            assert!(end.to_string().contains("option locals"));
            // An allocation finds no room for its local, and says the same.
            while scope.room_for_locals(1).is_ok() {
                scope.null();
            }
            let refused = scope.allocate(node);
            assert!(refused.is_err_and(|full| full.is_of_locals()));
            // What is full is empty again when the scope ends.
        });
        heap.attach().unwrap().scope(|scope| {
            scope.allocate(node).unwrap();
        });
    }
}

#[test]
#[should_panic(expected = "a mutator has at most 64 locals at a time")]
fn a_local_too_many_is_a_panic_where_there_is_no_error() {
    let heap = Heap::builder().limit(1 << 20).options("locals=64").unwrap();
    heap.build().unwrap().attach().unwrap().scope(|scope| {
        for _ in 0..65 {
            scope.null();
        }
    });
}

#[test]
fn two_hundred_thousand_calls_deep_is_a_matter_of_the_option() {
    let heap = Heap::builder()
        .limit(1 << 20)
        .locals(2_000_000)
        .build()
        .unwrap();
    heap.attach().unwrap().scope(|scope| {
        // Six locals in each of so many scopes, which lie in each other.
        assert!(scope.room_for_locals(6 * 200_000).is_ok());
        for number in 0..6 * 200_000 {
            scope.integer(number).unwrap();
        }
        scope.collect(true);
    });
}
