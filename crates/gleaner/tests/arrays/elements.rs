//! The accessors of array elements, in the raw layer and in the safe one: under both slot formats, with the verifier and
//! poison; old arrays whose elements refer to young objects alone, so that a store without its barrier is found; ranges;
//! and mutators that race for one element.

use crate::setups::checked;
use gleaner::raw::{
    Address, Compressed, Element, Fresh, NewObject, Object, Shape, SlotFormat, Value, Wide,
    array_bytes,
};
use gleaner::{ArrayCounts, Elements, Handle, Heap, Mutator, Number, References};

fn heap(references: References) -> Heap {
    checked(8 << 20).references(references).build().unwrap()
}

/// Elements of the arrays: they span several cards.
const LENGTH: usize = 1000;

/// What a store puts into a root's array: a young box that holds `number`.
unsafe fn boxed(mutator: &mut Mutator, of: gleaner::raw::TypeId, number: u64) -> Address {
    // SAFETY: a structure of 16 bytes.
    let made =
        unsafe { mutator.allocate_raw(NewObject::structure(of, 16), Fresh::Zeroed) }.unwrap();
    // SAFETY: its field.
    unsafe { made.add(8).ptr::<u64>().write(number) };
    made
}

/// Runs `write` on an old array, with a young box as its value, and then checks that the elements of `written` refer to
/// the box after two scavenges, and no others do.
fn stored<F: SlotFormat + Element<Item = Value>>(
    references: References,
    written: std::ops::Range<usize>,
    write: impl Fn(&mut Mutator, Address, Value),
) {
    let heap = heap(references);
    let leaf = heap
        .register_raw(Shape::Structure {
            bytes: 16,
            references: &[],
        })
        .unwrap();
    let list = heap.register_raw(Shape::References).unwrap();
    let bytes = array_bytes(LENGTH as u32, <F as SlotFormat>::BYTES.trailing_zeros());
    let mut mutator = heap.attach().unwrap();
    // SAFETY: types of this heap and their sizes; what is needed later is in the roots; ranges are inside of the array.
    unsafe {
        mutator.with_roots([Value::NULL], |mutator, [root]| {
            let array = mutator
                .allocate_raw(NewObject::array(list, LENGTH as u32, bytes), Fresh::Zeroed)
                .unwrap();
            root.set(Value::reference(array));
            mutator.collect(true);
            let young = boxed(mutator, leaf, 4711);
            write(
                mutator,
                root.get().as_object().unwrap(),
                Value::reference(young),
            );
            for _ in 0..2 {
                mutator.collect(false);
            }
            mutator.poll();
            let array = root.get().as_object().unwrap();
            for index in 0..LENGTH {
                let element = mutator.load_element_raw(array, index);
                assert_eq!(element, mutator.load_element_in::<F>(array, index));
                let object = mutator.load_element_in::<Object<F>>(array, index);
                if written.contains(&index) {
                    assert_eq!(object.add(8).ptr::<u64>().read(), 4711, "element {index}");
                } else {
                    assert!(
                        element.is_null() && object == Address::NULL,
                        "element {index}"
                    );
                }
            }
            let mut cursor = mutator.cursor::<F>(array, 0, LENGTH);
            assert_eq!(cursor.len(), LENGTH);
            let found = cursor.position(|element| !element.is_null());
            assert_eq!(
                (found, cursor.index()),
                (Some(written.start), written.start + 1)
            );
        });
    }
}

/// Each way to store references, in one format.
fn stored_in_all_ways<F: SlotFormat + Element<Item = Value>>(references: References) {
    // SAFETY: `stored` gives an array of `LENGTH` references, and a valid value.
    unsafe {
        stored::<F>(references, 700..701, |mutator, array, value| {
            mutator.store_element_raw(array, 700, value).unwrap();
        });
        stored::<F>(references, 999..1000, |mutator, array, value| {
            let object = value.as_object().unwrap();
            mutator
                .store_element_in::<Object<F>>(array, 999, object)
                .unwrap();
        });
        stored::<F>(references, 0..1, |mutator, array, value| {
            // No other store dirties the card of the swap that succeeds: one that fails is on another card.
            let wrong = Value::immediate(-5);
            let swap = mutator.compare_exchange_element_raw(array, 500, wrong, value);
            assert_eq!(swap.unwrap(), Err(Value::NULL));
            let swap = mutator.compare_exchange_element_in::<F>(array, 0, Value::NULL, value);
            assert_eq!(swap.unwrap(), Ok(()));
        });
        stored::<F>(references, 0..1, |mutator, array, value| {
            let object = value.as_object().unwrap();
            let swap = mutator.compare_exchange_element_in::<Object<F>>(array, 500, object, object);
            assert_eq!(swap.unwrap(), Err(Address::NULL));
            let swap =
                mutator.compare_exchange_element_in::<Object<F>>(array, 0, Address::NULL, object);
            assert_eq!(swap.unwrap(), Ok(()));
        });
        stored::<F>(references, 0..1, |mutator, array, value| {
            mutator.store_element_raw(array, 0, value).unwrap();
            // What is found comes back, in either way to say what an element is.
            let swap = mutator.compare_exchange_element_in::<F>(array, 0, Value::NULL, value);
            assert_eq!(swap.unwrap(), Err(value));
            let object = value.as_object().unwrap();
            let swap =
                mutator.compare_exchange_element_in::<Object<F>>(array, 0, Address::NULL, object);
            assert_eq!(swap.unwrap(), Err(object));
        });
        stored::<F>(references, 3..990, |mutator, array, value| {
            mutator.fill_elements_raw(array, 3, 987, value).unwrap();
            mutator.fill_elements_in::<F>(array, 995, 0, value).unwrap();
        });
        stored::<F>(references, 10..900, |mutator, array, value| {
            let mut cursor = mutator.cursor_mut::<F>(array, 10, 890).unwrap();
            while cursor.load() == Some(Value::NULL) {
                assert!(cursor.store(value));
            }
            assert_eq!((cursor.load(), cursor.index()), (None, 900));
            assert!(!cursor.store(value), "behind the end");
        });
        stored::<F>(references, 500..600, |mutator, array, value| {
            mutator.store_element_raw(array, 500, value).unwrap();
            mutator
                .copy_elements_raw(array, 500, array, 501, 1)
                .unwrap();
            mutator
                .copy_elements_raw(array, 500, array, 502, 2)
                .unwrap();
            for index in (504..600).step_by(4) {
                mutator
                    .copy_elements_raw(array, 500, array, index, 4)
                    .unwrap();
            }
        });
    }
}

#[test]
fn references_are_stored_through_the_barrier_in_all_ways() {
    stored_in_all_ways::<Wide>(References::Wide);
    stored_in_all_ways::<Compressed>(References::Compressed);
}

/// Each way to use numbers of one size. `of` makes one.
fn numbers_in_all_ways<T: Number + PartialEq + std::fmt::Debug>(
    references: References,
    of: impl Fn(u8) -> T,
) {
    let heap = heap(references);
    let log2 = T::BYTES.trailing_zeros();
    let id = heap.register_raw(Shape::Primitives { log2 }).unwrap();
    let mut mutator = heap.attach().unwrap();
    let [zero, one, two, three] = [0, 1, 2, 3].map(&of);
    // SAFETY: an array of twenty such numbers, which is in a root where something may collect.
    unsafe {
        let array = mutator
            .allocate_array_by_window::<T>(id, 20, |_, all| {
                assert_eq!(all, [zero; 20]);
                all[19] = three;
            })
            .unwrap();
        mutator.with_roots([Value::reference(array)], |mutator, [root]| {
            let array = || root.get().as_object().unwrap();
            mutator.fill_elements_in::<T>(array(), 2, 16, one).unwrap();
            mutator.store_element_in::<T>(array(), 3, two).unwrap();
            let swap = mutator.compare_exchange_element_in::<T>(array(), 4, two, three);
            assert_eq!(swap.unwrap(), Err(one));
            let swap = mutator.compare_exchange_element_in::<T>(array(), 4, one, three);
            assert_eq!(swap.unwrap(), Ok(()));
            mutator.poll();
            mutator.collect(true);
            let mut some = [zero; 4];
            mutator.read_elements(array(), 1, &mut some);
            assert_eq!(some, [zero, one, two, three]);
            mutator.write_elements(array(), 10, &some).unwrap();
            let sum = mutator.window_mut(array(), 17, 3, |mutator, view| {
                assert_eq!(view, [one, zero, three]);
                view[1] = two;
                mutator.window(array(), 10, 2, |other: &[T]| other.to_vec())
            });
            assert_eq!(sum.unwrap(), [zero, one]);
            let mut cursor = mutator.cursor_mut::<T>(array(), 0, 1).unwrap();
            assert!(cursor.store(three) && !cursor.store(two));
            let expected: Vec<T> = [3, 0, 1, 2, 3, 1, 1, 1, 1, 1, 0, 1, 2, 3, 1, 1, 1, 1, 2, 3]
                .into_iter()
                .map(&of)
                .collect();
            assert_eq!(
                mutator.cursor::<T>(array(), 0, 20).collect::<Vec<T>>(),
                expected
            );
            // Resumed where it was left, with a poll in between.
            let mut found: Vec<T> = mutator.cursor::<T>(array(), 0, 20).take(7).collect();
            mutator.poll();
            found.extend(mutator.cursor::<T>(array(), found.len(), 20 - found.len()));
            assert_eq!(found, expected);
            assert_eq!(mutator.load_element_in::<T>(array(), 19), three);
            assert!(mutator.pinned_elements_raw(array()).is_none());
        });
        let pinned = mutator
            .allocate_pinned_raw(NewObject::array(id, 20, array_bytes(20, log2)))
            .unwrap();
        let (first, bytes) = mutator.pinned_elements_raw(pinned).unwrap();
        assert_eq!(bytes, 20 * T::BYTES);
        first.cast::<T>().add(19).write(two);
        assert_eq!(mutator.load_element_in::<T>(pinned, 19), two);
    }
}

#[test]
fn numbers_of_every_size_are_used_in_all_ways() {
    for references in [References::Wide, References::Compressed] {
        numbers_in_all_ways::<u8>(references, |number| number << 6);
        numbers_in_all_ways::<i8>(references, |number| -(number as i8));
        numbers_in_all_ways::<u16>(references, |number| u16::from(number) << 14);
        numbers_in_all_ways::<i16>(references, |number| -i16::from(number));
        numbers_in_all_ways::<u32>(references, |number| u32::from(number) << 30);
        numbers_in_all_ways::<i32>(references, |number| -i32::from(number));
        numbers_in_all_ways::<u64>(references, |number| u64::from(number) << 62);
        numbers_in_all_ways::<i64>(references, |number| -i64::from(number));
        numbers_in_all_ways::<f32>(references, |number| f32::from(number) / 3.0);
        numbers_in_all_ways::<f64>(references, |number| f64::from(number) / 3.0);
    }
}

/// An array of references that is filled before anybody sees it.
#[test]
fn arrays_of_references_are_made_by_a_cursor() {
    let heap = heap(References::Compressed);
    let list = heap.register_raw(Shape::References).unwrap();
    let mut mutator = heap.attach().unwrap();
    // SAFETY: an array type, and integers, which are valid anywhere.
    unsafe {
        let array = mutator
            .allocate_array_by_cursor::<Compressed>(list, 5, |cursor| {
                for number in 0..3 {
                    assert!(cursor.store(Value::immediate(number)));
                }
            })
            .unwrap();
        let found = mutator
            .cursor::<Compressed>(array, 0, 5)
            .map(Value::as_immediate);
        assert_eq!(
            found.collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2), None, None]
        );
    }
}

/// A loop that reads one array and writes another has a cursor over each.
#[test]
fn cursors_for_loads_go_beside_one_for_stores() {
    let heap = heap(References::Wide);
    let words = heap.register_raw(Shape::Primitives { log2: 2 }).unwrap();
    let mut mutator = heap.attach().unwrap();
    // SAFETY: arrays of such numbers, in roots, and ranges inside of them.
    unsafe {
        mutator.with_roots([Value::NULL; 2], |mutator, [from, to]| {
            for root in [from, to] {
                let made = mutator.allocate_array_by_window::<u32>(words, 9, |_, elements| {
                    elements.copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
                });
                root.set(Value::reference(made.unwrap()));
            }
            let [from, to] = [from, to].map(|root| Address::new(root.get().bits() as usize));
            let mut sums = mutator.cursor_mut::<u32>(to, 1, 8).unwrap();
            let reader = sums.mutator();
            let left = reader.cursor::<u32>(from, 0, 8);
            for (left, right) in left.zip(reader.cursor::<u32>(from, 1, 8)) {
                assert!(sums.store(left + right));
            }
            assert!(!sums.store(0));
            let found = mutator.cursor::<u32>(to, 0, 9).collect::<Vec<_>>();
            assert_eq!(found, [1, 3, 5, 7, 9, 11, 13, 15, 17]);
        });
    }
}

/// Four mutators add to one number, and take turns in one reference, by compare-and-swap alone; each allocates, so the
/// array moves meanwhile.
#[test]
fn no_swap_of_several_mutators_is_lost() {
    const ROUNDS: u64 = 2000;
    const MUTATORS: u64 = 4;
    for references in [References::Wide, References::Compressed] {
        let heap = heap(references);
        let list = heap.reference_array().unwrap();
        let words = heap.array(Elements::Words).unwrap();
        let mut mutator = heap.attach().unwrap();
        let [turns, sums] = mutator.scope(|scope| {
            let (turns, sums) = (
                scope.allocate_references(list, 3).unwrap(),
                scope.allocate_array(words, 3).unwrap(),
            );
            let zero = scope.integer(0).unwrap();
            scope.set(turns, 1, zero).unwrap();
            [turns, sums].map(|local| scope.handle(local).unwrap())
        });
        mutator.blocking(|| {
            std::thread::scope(|threads| {
                for _ in 0..MUTATORS {
                    threads.spawn(|| {
                        let mut mutator = heap.attach().unwrap();
                        for _ in 0..ROUNDS {
                            mutator.scope(|scope| {
                                let (turns, sums) = (scope.open(&turns), scope.open(&sums));
                                let mut found = scope.read_u32(sums, 1);
                                while let Err(other) = scope
                                    .compare_exchange_number::<u32>(sums, 1, found, found + 1)
                                    .unwrap()
                                {
                                    found = other;
                                }
                                loop {
                                    let done = scope.nested(|scope| {
                                        let before = scope.get(turns, 1);
                                        let number = scope.as_integer(before).unwrap();
                                        let after = scope.integer(number + 1).unwrap();
                                        scope.compare_exchange(turns, 1, before, after).unwrap()
                                    });
                                    if done {
                                        break;
                                    }
                                }
                                scope.allocate_array(words, 100).unwrap();
                            });
                        }
                    });
                }
            });
        });
        mutator.scope(|scope| {
            let (turns, sums) = (scope.open(&turns), scope.open(&sums));
            let turn = scope.get(turns, 1);
            assert_eq!(scope.as_integer(turn), Some((MUTATORS * ROUNDS) as i64));
            let all: Vec<u32> = scope.numbers::<u32>(sums, 0, 3).collect();
            assert_eq!(all, [0, (MUTATORS * ROUNDS) as u32, 0]);
        });
    }
}

fn panics(body: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let error = std::panic::catch_unwind(body).unwrap_err();
    error.downcast_ref::<String>().cloned().unwrap_or_default()
}

/// What the safe layer says of a wrong use of an array of ten bytes and one of ten references.
#[test]
fn the_safe_layer_checks_types_and_ranges() {
    let said = |wrong: usize| {
        panics(move || {
            let heap = heap(References::Wide);
            let list = heap.reference_array().unwrap();
            let bytes = heap.array(Elements::Bytes).unwrap();
            heap.attach().unwrap().scope(|scope| {
                let list = scope.allocate_references(list, 10).unwrap();
                let bytes = scope.allocate_array(bytes, 10).unwrap();
                let null = scope.null();
                let _ = match wrong {
                    0 => scope.fill(list, 5, 6, null),
                    1 => scope.fill_numbers(bytes, 10, 1, 1_u8),
                    2 => scope.fill_numbers(bytes, 0, 1, 1_u16),
                    3 => scope.fill(bytes, 0, 1, null),
                    4 => scope.write_elements(bytes, usize::MAX, &[1_u8, 2]),
                    5 => scope.compare_exchange(list, 10, null, null).map(|_| ()),
                    6 => {
                        scope.read_elements(list, 0, &mut [1_u64]);
                        Ok(())
                    }
                    7 => scope.set(list, 10, null),
                    8 => scope.write_u8(bytes, 10, 1),
                    _ => {
                        let _ = scope.compare_exchange_number(bytes, 11, 1_u8, 2).unwrap();
                        Ok(())
                    }
                };
            });
        })
    };
    let expected = [
        "a fill of 6 elements at 5 of an array of 10",
        "a fill of 1 element at 10 of an array of 10",
        "a fill of numbers of 2 bytes of an object that has 10 elements of 1 bytes",
        "a fill of references of an object that has 10 elements of 1 bytes",
        "a copy of 2 elements at 18446744073709551615 of an array of 10",
        "reference 10 of an object that has 10 elements, references",
        "a copy of numbers of 8 bytes of an object that has 10 elements, references",
        "reference 10 of an object that has 10 elements, references",
        "item 10 of 1 bytes of an object that has 10 elements of 1 bytes",
        "a compare-and-swap of 1 element at 11 of an array of 10",
    ];
    for (wrong, expected) in expected.into_iter().enumerate() {
        assert_eq!(said(wrong), expected);
    }
}

/// Where an array in pieces ends there is no piece: what is empty there is looked at and changed, and nothing is read.
#[test]
fn empty_windows_behind_the_last_element_are_empty() {
    for references in [References::Wide, References::Compressed] {
        let heap = Heap::builder()
            .limit(8 << 20)
            .references(references)
            .options("arrays=zray,first-n=64,arraylet=256")
            .unwrap()
            .build()
            .unwrap();
        let words = heap.register_raw(Shape::Primitives { log2: 3 }).unwrap();
        let mut mutator = heap.attach().unwrap();
        // Whole arraylets, and a remainder.
        for length in [8 + 3 * 32, 8 + 3 * 32 + 5] {
            let bytes = array_bytes(length, 3);
            // SAFETY: a type of this heap and its size; the range ends where the array does.
            unsafe {
                let array = mutator
                    .allocate_raw(NewObject::array(words, length, bytes), Fresh::Zeroed)
                    .unwrap();
                let end = length as usize;
                let looked = mutator.window::<u64, _>(array, end, 0, |view| view.len());
                let changed = mutator.window_mut::<u64, _>(array, end, 0, |_, view| view.len());
                assert_eq!((looked, changed.unwrap()), (0, 0));
                assert_eq!(mutator.cursor::<u64>(array, end, 0).count(), 0);
                mutator.fill_elements_in::<u64>(array, end, 0, 1).unwrap();
                mutator
                    .copy_elements_raw(array, length, array, length, 0)
                    .unwrap();
            }
        }
    }
}

/// A young array and one that is promoted share an arraylet that refers to a young object, whichever is scanned first: the
/// arraylet is old then, and its card dirty.
#[test]
fn what_young_and_promoted_arrays_share_stays_remembered() {
    const LENGTH: u32 = 8 + 64;
    for younger_first in [true, false] {
        let heap = Heap::builder()
            .limit(8 << 20)
            .options(
                "arrays=zray,first-n=64,arraylet=256,workers=1,verify=edges,generations=always,tenure=2",
            )
            .unwrap()
            .build()
            .unwrap();
        let list = heap.register_raw(Shape::References).unwrap();
        let leaf = Shape::Structure {
            bytes: 16,
            references: &[],
        };
        let leaf = heap.register_raw(leaf).unwrap();
        let mut mutator = heap.attach().unwrap();
        // SAFETY: types of this heap and their sizes; what is needed later is in the roots; indexes are inside of arrays.
        unsafe {
            mutator.with_roots([Value::NULL; 2], |mutator, roots| {
                let [young, old] = if younger_first {
                    [&roots[0], &roots[1]]
                } else {
                    [&roots[1], &roots[0]]
                };
                let at = |root: &std::cell::Cell<Value>| root.get().as_object().unwrap();
                let bytes = array_bytes(LENGTH, 3);
                let made =
                    mutator.allocate_raw(NewObject::array(list, LENGTH, bytes), Fresh::Zeroed);
                old.set(Value::reference(made.unwrap()));
                mutator.collect(false);
                let number = boxed(mutator, leaf, 4711);
                let stored = mutator.store_element_raw(at(old), 20, Value::reference(number));
                stored.unwrap();
                // The card that the store dirtied is clean afterwards: the arraylet is young, still.
                mutator.collect(false);
                let made =
                    mutator.allocate_raw(NewObject::array(list, LENGTH, bytes), Fresh::Zeroed);
                young.set(Value::reference(made.unwrap()));
                let copied = mutator.copy_elements_raw(at(old), 0, at(young), 0, LENGTH);
                copied.unwrap();
                assert!(mutator.array_counts().shared > 0);
                for _ in 0..3 {
                    mutator.collect(false);
                    for root in [young, old] {
                        let number = mutator.load_element_raw(at(root), 20).as_object().unwrap();
                        assert_eq!(number.add(8).ptr::<u64>().read(), 4711);
                    }
                }
            });
        }
    }
}

/// What a mutator has counted after each of three copies of two arraylets of 4 KB each, all of the same array. Another one
/// is attached, but does not run.
fn counted_after_each_copy() -> [ArrayCounts; 3] {
    const LENGTH: usize = 64 + 2 * 4096;
    let options = "arrays=zray,first-n=64,arraylet=4096";
    let heap = Heap::builder().limit(8 << 20).options(options).unwrap();
    let heap = heap.build().unwrap();
    let of = heap.array(Elements::Bytes).unwrap();
    let (attached, over) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            heap.attach().unwrap().blocking(|| {
                attached.wait();
                over.wait();
            });
        });
        attached.wait();
        let mut mutator = heap.attach().unwrap();
        let array = mutator.scope(|scope| {
            let made = scope.allocate_array(of, LENGTH as u32).unwrap();
            scope.fill_numbers(made, 0, LENGTH, 7_u8).unwrap();
            scope.handle(made).unwrap()
        });
        let counts = [(); 3].map(|()| {
            mutator.scope(|scope| {
                let from = scope.open(&array);
                let to = scope.allocate_array(of, LENGTH as u32).unwrap();
                scope.copy_elements(from, 0..LENGTH, to, 0).unwrap();
            });
            mutator.array_counts()
        });
        over.wait();
        counts
    })
}

/// A copy that goes element by element writes what it shares once, too: another mutator that finds an element of it there may
/// write that, while the copy goes on.
#[test]
fn a_copy_by_elements_does_not_write_again_what_it_has_shared() {
    const PARTS: usize = 48;
    const LENGTH: usize = 64 + PARTS * 4096;
    let options = "arrays=zray,first-n=64,arraylet=4096,fast-copy=off";
    for round in 0..6 {
        let heap = Heap::builder().limit(8 << 20).options(options).unwrap();
        let heap = heap.build().unwrap();
        let of = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        let [from, other, to] = [(); 3].map(|()| {
            mutator.scope(|scope| {
                let made = scope.allocate_array(of, LENGTH as u32).unwrap();
                scope.handle(made).unwrap()
            })
        });
        let copy = |mutator: &mut Mutator, to: &Handle| {
            mutator.scope(|scope| {
                let [from, to] = [&from, to].map(|array| scope.open(array));
                scope.copy_elements(from, 0..LENGTH, to, 0).unwrap();
            });
        };
        mutator.scope(|scope| {
            let from = scope.open(&from);
            scope.fill_numbers(from, 0, LENGTH, 7_u8).unwrap();
        });
        // No other mutator is attached: all parts are shared from now on.
        copy(&mut mutator, &other);
        let last = LENGTH - 1 - round;
        let begin = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                let mut mutator = heap.attach().unwrap();
                mutator.blocking(|| begin.wait());
                mutator.scope(|scope| {
                    let to = scope.open(&to);
                    while scope.read_u8(to, last) != 7 {
                        scope.poll();
                    }
                    scope.write_u8(to, last, 9).unwrap();
                });
            });
            mutator.blocking(|| begin.wait());
            copy(&mut mutator, &to);
            mutator.blocking(|| writer.join().unwrap());
        });
        assert_eq!(mutator.array_counts().shared, 2 * PARTS as u64);
        mutator.scope(|scope| {
            let to = scope.open(&to);
            for (index, found) in scope.numbers::<u8>(to, 0, LENGTH).enumerate() {
                let expected = if index == last { 9 } else { 7 };
                assert_eq!(found, expected, "byte {index}");
            }
        });
    }
}

/// A stop costs what 10 KB do that are copied. So two copies of 8 KB are one copy and one stop.
#[test]
fn what_is_copied_instead_of_a_stop_is_counted_once() {
    let stops = counted_after_each_copy().map(|counts| counts.sharing_stops);
    assert_eq!(stops, [0, 1, 1]);
}

/// What the stop has shared is shared again, without one. Nothing of it is copied besides: other mutators may write there
/// already.
#[test]
fn what_is_shared_already_is_not_copied_as_well() {
    let [first, stopped, last] = counted_after_each_copy();
    assert_eq!(
        [first, stopped, last].map(|counts| counts.shared),
        [0, 2, 4]
    );
    assert_eq!(last.copied_bytes, stopped.copied_bytes);
}
