//! What lies side by side: arraylets that were handed out one after the other are one piece for cursors and copies, until
//! they are shared or others lie between them; and what an array in pieces refers to is copied in the array's order.

use gleaner::raw::Address;
use gleaner::{Elements, Handle, Heap, Mutator, ReferenceArray, Structure};

const ARRAYLET: usize = 1024;
const FIRST_N: usize = 4096;

fn heap(options: &str) -> Heap {
    let builder = Heap::builder()
        .limit(32 << 20)
        .workers(1)
        .ignore_environment();
    builder.options(options).unwrap().build().unwrap()
}

fn address(handle: &Handle) -> Address {
    Address::new(handle.get_raw().bits() as usize)
}

/// Arrays of bytes, all zero, of which `parts` arraylets lie beyond the first N bytes.
fn arrays<const N: usize>(heap: &Heap, mutator: &mut Mutator, parts: usize) -> [Handle; N] {
    let bytes = heap.array(Elements::Bytes).unwrap();
    [(); N].map(|()| {
        mutator.scope(|scope| {
            let length = (FIRST_N + parts * ARRAYLET) as u32;
            let array = scope.allocate_array(bytes, length).unwrap();
            scope.handle(array).unwrap()
        })
    })
}

/// Writes `value` to all bytes of a part.
fn write_part(mutator: &mut Mutator, array: &Handle, part: usize, value: u8) {
    let content = [value; ARRAYLET];
    // SAFETY: the array is one of bytes with this part, and its address is read anew each time.
    unsafe { mutator.write_elements(address(array), FIRST_N + part * ARRAYLET, &content) }.unwrap();
}

/// How many bytes from a part on lie side by side.
fn piece(mutator: &Mutator, array: &Handle, part: usize, parts: usize) -> usize {
    let (first, count) = (FIRST_N + part * ARRAYLET, (parts - part) * ARRAYLET);
    // SAFETY: the array is one of bytes with these parts.
    let piece = unsafe { mutator.piece_raw(address(array), first, count, 1) };
    piece.end.offset_from(piece.at)
}

fn content(mutator: &Mutator, array: &Handle, parts: usize) -> Vec<u8> {
    // SAFETY: the array is one of bytes with these parts.
    let cursor = unsafe { mutator.cursor::<u8>(address(array), FIRST_N, parts * ARRAYLET) };
    cursor.collect()
}

/// What parts with these values contain.
fn of_parts(values: &[u8]) -> Vec<u8> {
    values.iter().flat_map(|&value| [value; ARRAYLET]).collect()
}

#[test]
fn arraylets_that_follow_each_other_are_one_piece() {
    for options in [
        "arrays=zray",
        "arrays=zray,refs=compressed,verify=edges,poison=on",
    ] {
        let heap = heap(options);
        let mut mutator = heap.attach().unwrap();
        let [array] = arrays(&heap, &mut mutator, 8);
        (0..8).for_each(|part| write_part(&mut mutator, &array, part, 1 + part as u8));
        assert_eq!(piece(&mutator, &array, 0, 8), 8 * ARRAYLET);
        assert_eq!(piece(&mutator, &array, 3, 6), 3 * ARRAYLET);
        assert_eq!(
            content(&mutator, &array, 8),
            of_parts(&[1, 2, 3, 4, 5, 6, 7, 8])
        );
    }
}

#[test]
fn a_piece_ends_where_another_arraylet_or_the_zero_arraylet_lies() {
    let heap = heap("arrays=zray,verify=edges");
    let mut mutator = heap.attach().unwrap();
    let [one, other] = arrays(&heap, &mut mutator, 4);
    // One arraylet each in turns, and the last of each is left out.
    for part in 0..3 {
        write_part(&mut mutator, &one, part, 1);
        write_part(&mut mutator, &other, part, 2);
    }
    for part in 0..4 {
        assert_eq!(piece(&mutator, &one, part, 4), ARRAYLET, "part {part}");
    }
    assert_eq!(content(&mutator, &one, 4), of_parts(&[1, 1, 1, 0]));
    assert_eq!(content(&mutator, &other, 4), of_parts(&[2, 2, 2, 0]));
    // An array whose parts were made from the last one to the first.
    let [turned] = arrays(&heap, &mut mutator, 4);
    (0..4)
        .rev()
        .for_each(|part| write_part(&mut mutator, &turned, part, 5 + part as u8));
    assert_eq!(piece(&mutator, &turned, 0, 4), ARRAYLET);
    assert_eq!(content(&mutator, &turned, 4), of_parts(&[5, 6, 7, 8]));
}

#[test]
fn what_is_shared_is_written_in_none_of_the_arrays() {
    for options in [
        "arrays=zray",
        "arrays=zray,refs=compressed,verify=edges,poison=on",
    ] {
        let heap = heap(options);
        let mut mutator = heap.attach().unwrap();
        let [array, copy] = arrays(&heap, &mut mutator, 6);
        (0..6).for_each(|part| write_part(&mut mutator, &array, part, 1 + part as u8));
        let (first, count) = (FIRST_N + 2 * ARRAYLET, 2 * ARRAYLET);
        // Parts 2 and 3 are shared: the pieces of the original end before and behind each.
        // SAFETY: both are arrays of bytes with this range, and no address is used afterwards.
        unsafe {
            mutator
                .copy_elements_raw(
                    address(&array),
                    first as u32,
                    address(&copy),
                    first as u32,
                    count as u32,
                )
                .unwrap();
        }
        assert_eq!(piece(&mutator, &array, 0, 6), 2 * ARRAYLET);
        assert_eq!(piece(&mutator, &array, 2, 6), ARRAYLET);
        assert_eq!(piece(&mutator, &array, 4, 6), 2 * ARRAYLET);
        // All of the original is written through one cursor, and all of the copy is as it was.
        // SAFETY: the array is one of bytes with this range; its address is not used again.
        unsafe {
            let mut cursor = mutator
                .cursor_mut::<u8>(address(&array), FIRST_N, 6 * ARRAYLET)
                .unwrap();
            (0..6 * ARRAYLET).for_each(|_| assert!(cursor.store(9)));
            assert!(!cursor.store(9));
        }
        assert_eq!(content(&mutator, &array, 6), of_parts(&[9; 6]));
        assert_eq!(content(&mutator, &copy, 6), of_parts(&[0, 0, 3, 4, 0, 0]));
    }
}

#[test]
fn a_stock_that_is_zeroed_together_reads_as_zero() {
    let heap = heap("arrays=zray,heap-limit=8m,poison=on,verify=edges");
    let mut mutator = heap.attach().unwrap();
    // Arraylets that held something else before are given to arrays of which one byte is written in each part: many in
    // a row have to be zero.
    const PARTS: usize = 60;
    for round in 0..60_u8 {
        let [full, sparse] = arrays(&heap, &mut mutator, PARTS);
        (0..PARTS).for_each(|part| write_part(&mut mutator, &full, part, 0xee));
        for part in 0..PARTS {
            let at = FIRST_N + part * ARRAYLET + usize::from(round) * 7;
            // SAFETY: the array is one of bytes with this element.
            unsafe { mutator.store_element_in::<u8>(address(&sparse), at, 1 + round) }.unwrap();
        }
        let written = usize::from(round) * 7;
        let byte = |at: usize| {
            if at % ARRAYLET == written {
                1 + round
            } else {
                0
            }
        };
        let expected: Vec<u8> = (0..PARTS * ARRAYLET).map(byte).collect();
        assert!(
            content(&mutator, &sparse, PARTS) == expected,
            "round {round}"
        );
    }
}

/// A collection between the count of what a range takes and its filling can make that more: arraylets of zeros are taken
/// back. It comes at each of the places where it may, by allocations before.
#[test]
fn what_a_range_takes_is_counted_again_after_a_collection() {
    const STRESS: usize = 5;
    let heap = heap("arrays=zray,stress=5,verify=edges");
    let node = heap
        .structure(Structure {
            references: 0,
            bytes: 8,
        })
        .unwrap();
    let mut mutator = heap.attach().unwrap();
    for before in 0..2 * STRESS {
        let [array] = arrays(&heap, &mut mutator, 12);
        for part in (0..12).step_by(2) {
            let at = FIRST_N + part * ARRAYLET + 100;
            // Instantiated, and zero again.
            for value in [1, 0] {
                // SAFETY: the array is one of bytes with this element.
                unsafe { mutator.store_element_in::<u8>(address(&array), at, value) }.unwrap();
            }
        }
        mutator.scope(|scope| {
            for _ in 0..before {
                scope.allocate(node).unwrap();
            }
        });
        // SAFETY: the array is one of bytes with this range.
        unsafe {
            mutator
                .fill_elements_in::<u8>(address(&array), FIRST_N, 12 * ARRAYLET, 7)
                .unwrap();
        }
        assert_eq!(
            content(&mutator, &array, 12),
            of_parts(&[7; 12]),
            "{before} before"
        );
    }
}

#[test]
fn a_swap_that_fails_takes_no_memory() {
    let heap = heap("arrays=zray,copy-on-write=off");
    let mut mutator = heap.attach().unwrap();
    let [array] = arrays(&heap, &mut mutator, 100);
    let instantiated = mutator.array_counts().instantiated;
    for part in 0..100 {
        let at = FIRST_N + part * ARRAYLET;
        // SAFETY: the array is one of bytes with this element.
        let swapped =
            unsafe { mutator.compare_exchange_element_in::<u8>(address(&array), at, 5, 6) };
        assert_eq!(swapped, Ok(Err(0)));
    }
    assert_eq!(mutator.array_counts().instantiated, instantiated);
    // SAFETY: the array is one of bytes with this element.
    let swapped =
        unsafe { mutator.compare_exchange_element_in::<u8>(address(&array), FIRST_N, 0, 6) };
    assert_eq!(swapped, Ok(Ok(())));
    assert_eq!(mutator.array_counts().instantiated, instantiated + 1);
}

#[test]
fn what_is_larger_than_the_heap_takes_nothing() {
    for options in ["arrays=naive", "arrays=zray"] {
        let heap = heap(options);
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        let before = heap.used();
        mutator.scope(|scope| {
            let Ok(array) = scope.allocate_array(bytes, 64 << 20) else {
                assert_eq!(options, "arrays=naive");
                return;
            };
            assert!(scope.fill_numbers(array, 0, 64 << 20, 1_u8).is_err());
        });
        assert!(
            heap.used() < before + (1 << 20),
            "{options}: {} bytes",
            heap.used()
        );
    }
}

/// An array of references to `count` nodes, and arrays of up to 50 of them in an order that is scattered.
fn table(heap: &Heap, mutator: &mut Mutator, table_first: bool, count: usize) -> [Handle; 2] {
    let node = heap
        .structure(Structure {
            references: 0,
            bytes: 8,
        })
        .unwrap();
    let holder = heap
        .structure(Structure {
            references: 2,
            bytes: 0,
        })
        .unwrap();
    let list: ReferenceArray = heap.reference_array().unwrap();
    mutator.scope(|scope| {
        let all = scope.allocate_references(list, count as u32).unwrap();
        for index in 0..count {
            scope.nested(|scope| {
                let one = scope.allocate(node).unwrap();
                scope.set(all, index, one).unwrap();
            });
        }
        let others = scope.allocate_references(list, 400).unwrap();
        for index in 0..400 {
            scope.nested(|scope| {
                let some = scope.allocate_references(list, 50).unwrap();
                for place in 0..50 {
                    let chosen = (index * 50 + place) * 7919 % count;
                    scope.nested(|scope| {
                        let one = scope.get(all, chosen);
                        scope.set(some, place, one).unwrap();
                    });
                }
                scope.set(others, index, some).unwrap();
            });
        }
        let both = scope.allocate(holder).unwrap();
        let (first, second) = if table_first {
            (all, others)
        } else {
            (others, all)
        };
        scope.set(both, 0, first).unwrap();
        scope.set(both, 1, second).unwrap();
        [scope.handle(both).unwrap(), scope.handle(all).unwrap()]
    })
}

#[test]
fn what_an_array_refers_to_is_copied_in_its_order() {
    const COUNT: usize = 5000;
    for table_first in [false, true] {
        let heap = heap("arrays=zray,young=4m,verify=edges");
        let mut mutator = heap.attach().unwrap();
        let [both, all] = table(&heap, &mut mutator, table_first, COUNT);
        // Only the holder leads there, so that it decides what is reached first.
        let index = usize::from(!table_first);
        drop(all);
        mutator.scope(|scope| {
            scope.collect(false);
            let both = scope.open(&both);
            let all = scope.get(both, index);
            let places: Vec<usize> = (0..COUNT)
                .map(|index| {
                    scope.nested(|scope| {
                        let one = scope.get(all, index);
                        address(&scope.handle(one).unwrap()).word()
                    })
                })
                .collect();
            let in_order = places.windows(2).filter(|pair| pair[1] == pair[0] + 16);
            let in_order = in_order.count();
            assert!(
                in_order > COUNT * 9 / 10,
                "{in_order} of {COUNT}, table first: {table_first}"
            );
        });
    }
}

/// A table that is filled while much else is allocated: what its arraylets take beside the nursery.
#[test]
fn arraylets_fill_their_chunks_however_much_is_allocated_between() {
    const PARTS: usize = 256;
    let heap = heap("arrays=zray,young=16m,resize=off,generations=always");
    let small = heap
        .structure(Structure {
            references: 0,
            bytes: 48,
        })
        .unwrap();
    let mut mutator = heap.attach().unwrap();
    let [table] = arrays::<1>(&heap, &mut mutator, PARTS);
    let mut allocated = 0;
    for part in 0..PARTS {
        write_part(&mut mutator, &table, part, 1);
        // More than a buffer, as a rule.
        while allocated < (part + 1) << 15 {
            mutator.scope(|scope| _ = scope.allocate(small).unwrap());
            allocated += small.size();
        }
        if part % 4 == 0 {
            mutator.walk(&mut |_| ());
        }
    }
    let totals = heap.totals();
    assert_eq!(totals.scavenges + totals.full_collections, 0);
    // They were handed out one after the other, so they lie in as few chunks as they can.
    let piece = piece(&mutator, &table, 0, PARTS);
    assert_eq!(piece, 64 * ARRAYLET);
    assert_eq!(content(&mutator, &table, PARTS), of_parts(&[1; PARTS]));
}
