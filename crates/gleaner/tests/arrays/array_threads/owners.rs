//! Each thread owns elements of shared arrays and uses those alone, in all ways; in the end they hold what it stored.

use super::shared::{Bits, Block, Case, Item, address, blocks, box_type, mixed};
use crate::random::Rng;
use gleaner::{Handle, Heap, Mutator, ReferenceArray, Type};

/// Arrays of numbers after each other.
const ROUNDS: u64 = 10;
/// Arrays of references.
const REFERENCE_ROUNDS: u64 = 2;
/// How often a thread writes each of its blocks, or does not.
const TURNS: u64 = 3;

/// Lengths in bytes: a remainder alone, whole arraylets, both; a large spine.
const BYTES: [usize; 5] = [300, 64 + 4096, 4096 + 3 * 1024, 9999, 70_000];

/// What one thread stored: its blocks with their elements.
type Stored<T> = Vec<(usize, Vec<T>)>;

/// The elements that a block is to have: one in four is zero, as are all in one of four blocks.
fn content<T: Bits>(random: &mut Rng, count: usize) -> Vec<T> {
    let zeros = random.one_in(4);
    let mut one = || match zeros || random.one_in(4) {
        true => T::of(0),
        false => T::of(random.next()),
    };
    (0..count).map(|_| one()).collect()
}

/// Makes a block of a shared array hold `new`, where it holds `old`, in one of the ways there are.
fn store<T: Bits>(
    mutator: &mut Mutator,
    array: &Handle,
    of: gleaner::Array,
    (first, old, new): (usize, &[T], &[T]),
    way: usize,
) -> Option<()> {
    let count = new.len();
    // SAFETY: the range lies in the array, and this thread alone uses it; nothing is used again but what handles and
    // roots hold.
    unsafe {
        match way {
            0 => {
                for (index, &number) in new.iter().enumerate() {
                    let at = first + index;
                    mutator
                        .store_element_in::<T>(address(array), at, number)
                        .ok()?;
                }
            }
            1 => {
                for (index, (&old, &new)) in old.iter().zip(new).enumerate() {
                    let (array, at) = (address(array), first + index);
                    let swap = mutator.compare_exchange_element_in::<T>(array, at, old, new);
                    assert_eq!(swap.ok()?, Ok(()), "element {at}");
                }
            }
            2 => mutator.write_elements(address(array), first, new).ok()?,
            3 => {
                let mut cursor = mutator.cursor_mut::<T>(address(array), first, count).ok()?;
                for (index, &number) in new.iter().enumerate() {
                    assert_eq!(cursor.load(), Some(old[index]), "element {}", first + index);
                    assert!(cursor.store(number));
                }
                assert!(!cursor.store(T::of(1)));
            }
            4 => {
                let change = |_: &Mutator, view: &mut [T]| {
                    assert_eq!(view, old, "a window at {first}");
                    view.copy_from_slice(new);
                };
                mutator
                    .window_mut(address(array), first, count, change)
                    .ok()?;
            }
            5 => {
                // A fill, and then what differs.
                let array = || address(array);
                mutator
                    .fill_elements_in::<T>(array(), first, count, new[0])
                    .ok()?;
                for (index, &number) in new.iter().enumerate() {
                    if number != new[0] {
                        mutator
                            .store_element_in::<T>(array(), first + index, number)
                            .ok()?;
                    }
                }
            }
            6 => {
                let fill = |_: &Mutator, view: &mut [T]| view.copy_from_slice(new);
                let made = mutator
                    .allocate_array_by_window::<T>(of.id(), count as u32, fill)
                    .ok()?;
                let to = address(array);
                mutator
                    .copy_elements_raw(made, 0, to, first as u32, count as u32)
                    .ok()?;
            }
            _ => mutator.scope(|scope| {
                let array = scope.open(array);
                if way == 7 {
                    return scope.write_elements(array, first, new).ok();
                }
                // Where both arrays are aligned to each other.
                let made = scope.allocate_array(of, (first + count) as u32).ok()?;
                scope.write_elements(made, first, new).ok()?;
                scope
                    .copy_elements(made, first..first + count, array, first)
                    .ok()
            })?,
        }
    }
    Some(())
}

fn read<T: Bits>(mutator: &mut Mutator, array: &Handle, first: usize, count: usize) -> Vec<T> {
    let mut found = vec![T::of(0); count];
    // SAFETY: the range lies in the array, and this thread alone uses it.
    unsafe { mutator.read_elements(address(array), first, &mut found) };
    found
}

#[track_caller]
fn assert_same<T: Bits>(what: &str, first: usize, found: &[T], expected: &[T]) {
    if let Some(at) = (0..expected.len()).find(|&at| found[at] != expected[at]) {
        panic!(
            "{what}: element {} of {} bytes is {:#x}, not {:#x}; block of {} at {first}",
            first + at,
            T::BYTES,
            found[at].bits(),
            expected[at].bits(),
            expected.len()
        );
    }
}

/// What one thread does with its blocks, which hold what is said; what they hold then.
fn own<T: Bits>(
    mutator: &mut Mutator,
    array: &Handle,
    of: gleaner::Array,
    mut stored: Stored<T>,
    mut random: Rng,
) -> Stored<T> {
    for _ in 0..TURNS {
        for (first, old) in &mut stored {
            if random.one_in(3) {
                continue;
            }
            let (new, way) = (content(&mut random, old.len()), random.below(9));
            store(mutator, array, of, (*first, old, &new), way)
                .unwrap_or_else(|| panic!("no memory, way {way}"));
            *old = new;
            let found: Vec<T> = read(mutator, array, *first, old.len());
            assert_same(&format!("after way {way}"), *first, &found, old);
        }
        for (first, expected) in &stored {
            let found: Vec<T> = read(mutator, array, *first, expected.len());
            assert_same("after a turn", *first, &found, expected);
        }
    }
    stored
}

/// The blocks of a thread, and what they hold.
fn of_owner<T: Bits>(all: &[Block], owner: usize, held: &[T]) -> Stored<T> {
    let own = all.iter().filter(|block| block.owner == owner);
    own.map(|block| (block.first, held[block.first..][..block.count].to_vec()))
        .collect()
}

/// An array, and what it is to hold.
fn check<T: Bits>(main: &mut Mutator, array: &Handle, expected: &[T], random: &mut Rng) {
    for _ in 0..2 {
        let found: Vec<T> = read(main, array, 0, expected.len());
        assert_same("in the end", 0, &found, expected);
        main.collect(random.one_in(2));
    }
}

pub fn numbers<T: Bits>(case: &Case) {
    let heap = case.heap();
    let of = heap.array(T::KIND).unwrap();
    let mut main = heap.attach().unwrap();
    for round in 0..ROUNDS {
        let mut random = case.random(round);
        let length = BYTES[random.below(BYTES.len())] / T::BYTES;
        let all = blocks(&mut random, length, T::BYTES, case.threads);
        let array = main.scope(|scope| {
            let array = scope.allocate_array(of, length as u32).unwrap();
            scope.handle(array).unwrap()
        });
        if random.one_in(2) {
            main.collect(true);
        }
        let mut held = vec![T::of(0); length];
        let stored = case.race(&heap, &mut main, |mutator, thread| {
            let own_blocks = of_owner(&all, thread, &held);
            own(
                mutator,
                &array,
                of,
                own_blocks,
                case.random_of(round, thread),
            )
        });
        merge(&mut held, stored);
        check(&mut main, &array, &held, &mut random);
    }
}

fn merge<T: Bits>(held: &mut [T], stored: Vec<Stored<T>>) {
    for (first, elements) in stored.into_iter().flatten() {
        held[first..][..elements.len()].copy_from_slice(&elements);
    }
}

/// The main thread copies an array while it is alone, so that all share their arraylets; then threads write all of them.
pub fn copies_of_numbers(case: &Case) {
    const COPIES: usize = 4;
    let heap = case.heap();
    let of = heap.array(u32::KIND).unwrap();
    let mut main = heap.attach().unwrap();
    for round in 0..ROUNDS / 3 {
        let mut random = case.random(round);
        let length = BYTES[2 + random.below(3)] / 4;
        let first: Vec<u32> = (0..length as u64).map(|at| mixed(at) as u32).collect();
        let arrays: Vec<Handle> = main.scope(|scope| {
            let made = scope.allocate_array(of, length as u32).unwrap();
            scope.write_elements(made, 0, &first).unwrap();
            let mut arrays = vec![scope.handle(made).unwrap()];
            for _ in 1..COPIES {
                scope.collect(random.one_in(3));
                // A copy of any of those before.
                let from = scope.open(&arrays[random.below(arrays.len())]);
                let copy = scope.allocate_array(of, length as u32).unwrap();
                scope.copy_elements(from, 0..length, copy, 0).unwrap();
                arrays.push(scope.handle(copy).unwrap());
            }
            arrays
        });
        let all = blocks(&mut random, length, 4, case.threads);
        let stored = case.race(&heap, &mut main, |mutator, thread| {
            let order = random_order(&mut case.random_of(round, thread), COPIES);
            let one = |number: &usize| {
                let own_blocks = of_owner(&all, thread, &first);
                let random = case.random_of(round, thread + number * 16);
                let stored = own(mutator, &arrays[*number], of, own_blocks, random);
                (*number, stored)
            };
            order.iter().map(one).collect::<Vec<_>>()
        });
        let mut held = vec![first.clone(); COPIES];
        for (number, stored) in stored.into_iter().flatten() {
            merge(&mut held[number], vec![stored]);
        }
        for (array, held) in arrays.iter().zip(&held) {
            check(&mut main, array, held, &mut random);
        }
    }
}

fn random_order(random: &mut Rng, count: usize) -> Vec<usize> {
    let first = random.below(count);
    (0..count).map(|index| (first + index) % count).collect()
}

/// Some item.
fn item(random: &mut Rng) -> Item {
    match random.below(4) {
        0 => Item::Null,
        1 => Item::Immediate(random.below(1 << 20) as i64 - (1 << 19)),
        _ => Item::Boxed(random.next()),
    }
}

/// What one thread stored: its blocks with their items.
type Held = Vec<(usize, Vec<Item>)>;

/// What one thread does with its blocks of an array of references.
fn own_references(
    mutator: &mut Mutator,
    array: &Handle,
    (of, boxed): (ReferenceArray, Type),
    mut held: Held,
    mut random: Rng,
) -> Held {
    for _ in 0..TURNS {
        for (first, items) in &mut held {
            let (count, way, first) = (items.len(), random.below(6), *first);
            mutator.scope(|scope| {
                let array = scope.open(array);
                match way {
                    0 => {}
                    1 => {
                        let item = item(&mut random);
                        let value = item.make(scope, boxed);
                        scope.fill(array, first, count, value).unwrap();
                        items.fill(item);
                    }
                    2 | 3 => {
                        // From an array that is aligned to it, or not.
                        let skipped = if way == 2 { first } else { 0 };
                        let made = scope
                            .allocate_references(of, (skipped + count) as u32)
                            .unwrap();
                        for (index, new) in items.iter_mut().enumerate() {
                            *new = item(&mut random);
                            scope.nested(|scope| {
                                let value = new.make(scope, boxed);
                                scope.set(made, skipped + index, value).unwrap();
                            });
                        }
                        scope
                            .copy_elements(made, skipped..skipped + count, array, first)
                            .unwrap();
                    }
                    _ => {
                        for (index, held) in items.iter_mut().enumerate() {
                            let new = item(&mut random);
                            scope.nested(|scope| {
                                let value = new.make(scope, boxed);
                                if way == 4 {
                                    scope.set(array, first + index, value).unwrap();
                                } else {
                                    let before = scope.get(array, first + index);
                                    let swap =
                                        scope.compare_exchange(array, first + index, before, value);
                                    assert!(swap.unwrap(), "element {}", first + index);
                                }
                            });
                            *held = new;
                        }
                    }
                }
            });
            assert_holds(
                mutator,
                array,
                first,
                items,
                boxed,
                &format!("after way {way}"),
            );
        }
        for (first, items) in &held {
            assert_holds(mutator, array, *first, items, boxed, "after a turn");
        }
    }
    held
}

#[track_caller]
fn assert_holds(
    mutator: &mut Mutator,
    array: &Handle,
    first: usize,
    items: &[Item],
    boxed: Type,
    what: &str,
) {
    mutator.scope(|scope| {
        let array = scope.open(array);
        for (index, item) in items.iter().enumerate() {
            let at = first + index;
            let found = Item::read(scope, array, at, boxed);
            let count = items.len();
            assert_eq!(
                found, *item,
                "{what}: element {at}; block of {count} at {first}"
            );
        }
    });
}

fn references_of_owner(all: &[Block], owner: usize, held: &[Item]) -> Held {
    let own = all.iter().filter(|block| block.owner == owner);
    own.map(|block| (block.first, held[block.first..][..block.count].to_vec()))
        .collect()
}

fn slot_bytes(heap: &Heap) -> usize {
    match heap.references() {
        gleaner::References::Wide => 8,
        gleaner::References::Compressed => 4,
    }
}

pub fn references(case: &Case) {
    let heap = case.heap();
    let (of, boxed) = (heap.reference_array().unwrap(), box_type(&heap));
    let mut main = heap.attach().unwrap();
    for round in 0..REFERENCE_ROUNDS {
        let mut random = case.random(round);
        let length = BYTES[random.below(4)] / slot_bytes(&heap);
        let all = blocks(&mut random, length, slot_bytes(&heap), case.threads);
        let array = main.scope(|scope| {
            let array = scope.allocate_references(of, length as u32).unwrap();
            scope.handle(array).unwrap()
        });
        if random.one_in(2) {
            main.collect(true);
        }
        let mut held = vec![Item::Null; length];
        let stored = case.race(&heap, &mut main, |mutator, thread| {
            let own_blocks = references_of_owner(&all, thread, &held);
            let random = case.random_of(round, thread);
            own_references(mutator, &array, (of, boxed), own_blocks, random)
        });
        for (first, items) in stored.into_iter().flatten() {
            held[first..][..items.len()].copy_from_slice(&items);
        }
        for everything in [false, true] {
            assert_holds(&mut main, &array, 0, &held, boxed, "in the end");
            main.collect(everything);
        }
        assert_holds(&mut main, &array, 0, &held, boxed, "in the end, collected");
    }
}

/// As [`copies_of_numbers`].
pub fn copies_of_references(case: &Case) {
    const COPIES: usize = 3;
    let heap = case.heap();
    let (of, boxed) = (heap.reference_array().unwrap(), box_type(&heap));
    let mut main = heap.attach().unwrap();
    for round in 0..REFERENCE_ROUNDS {
        let mut random = case.random(round);
        let length = BYTES[2 + random.below(2)] / slot_bytes(&heap);
        let first: Vec<Item> = (0..length).map(|_| item(&mut random)).collect();
        let arrays: Vec<Handle> = main.scope(|scope| {
            let made = scope.allocate_references(of, length as u32).unwrap();
            for (index, item) in first.iter().enumerate() {
                scope.nested(|scope| {
                    let value = item.make(scope, boxed);
                    scope.set(made, index, value).unwrap();
                });
            }
            let mut arrays = vec![scope.handle(made).unwrap()];
            for _ in 1..COPIES {
                scope.collect(random.one_in(3));
                let from = scope.open(&arrays[random.below(arrays.len())]);
                let copy = scope.allocate_references(of, length as u32).unwrap();
                scope.copy_elements(from, 0..length, copy, 0).unwrap();
                arrays.push(scope.handle(copy).unwrap());
            }
            arrays
        });
        let all = blocks(&mut random, length, slot_bytes(&heap), case.threads);
        let stored = case.race(&heap, &mut main, |mutator, thread| {
            let order = random_order(&mut case.random_of(round, thread), COPIES);
            let one = |number: &usize| {
                let own_blocks = references_of_owner(&all, thread, &first);
                let random = case.random_of(round, thread + number * 16);
                let array = &arrays[*number];
                let held = own_references(mutator, array, (of, boxed), own_blocks, random);
                (*number, held)
            };
            order.iter().map(one).collect::<Vec<_>>()
        });
        let mut held = vec![first.clone(); COPIES];
        for (number, stored) in stored.into_iter().flatten() {
            for (first, items) in stored {
                held[number][first..][..items.len()].copy_from_slice(&items);
            }
        }
        for (array, held) in arrays.iter().zip(&held) {
            assert_holds(&mut main, array, 0, held, boxed, "a copy in the end");
        }
        main.collect(true);
        for (array, held) in arrays.iter().zip(&held) {
            assert_holds(
                &mut main,
                array,
                0,
                held,
                boxed,
                "a copy in the end, collected",
            );
        }
    }
}
