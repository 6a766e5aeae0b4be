//! Some threads write any elements of a shared array, others read them. What an element may be follows from its index, so
//! whatever else is read was never written there.

use std::sync::atomic::{AtomicBool, Ordering};

use super::shared::{Bits, Case, Item, address, box_type, mixed};
use crate::random::Rng;
use gleaner::{Handle, Mutator, Scope, Type};

/// Arrays after each other: each begins as one that nobody has written.
const ROUNDS: u64 = 10;
/// What each thread does with one.
const STEPS: usize = 60;
/// Lengths, in bytes.
const BYTES: [usize; 4] = [64 + 7 * 256, 6000, 4096 + 5000, 40_000];

/// What is copied as a whole, beside what is read and written one by one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    None,
    /// Writers copy from arrays of their own.
    Into,
    /// Readers copy to arrays of their own.
    From,
}

/// What element `index` may be, beside zero.
fn value<T: Bits>(index: usize, version: u64) -> T {
    let tag = 1 + index as u64 % 250;
    let upper = mixed((index as u64) << 8 | version) & !0xffff;
    T::of(upper | version << 8 | tag)
}

#[track_caller]
fn assert_valid<T: Bits>(how: &str, index: usize, found: T) {
    let version = found.bits() >> 8 & 0xff;
    assert!(
        found.bits() == 0 || found == value(index, version),
        "{how}: element {index} of {} bytes is {:#x}, which nobody has written there; zero or {:#x} may be there",
        T::BYTES,
        found.bits(),
        value::<T>(index, version).bits()
    );
}

/// A part of the array: several arraylets at most.
fn part(random: &mut Rng, length: usize, bytes: usize) -> (usize, usize) {
    let first = random.below(length);
    let most = [1, 100, 1500, 10_000][random.below(4)] / bytes + 1;
    (first, (1 + random.below(most)).min(length - first))
}

fn write<T: Bits>(
    mutator: &mut Mutator,
    array: &Handle,
    of: gleaner::Array,
    (first, count): (usize, usize),
    random: &mut Rng,
    copies: Copies,
) {
    let version = random.below(256) as u64;
    let all: Vec<T> = (first..first + count)
        .map(|index| value(index, version))
        .collect();
    mutator.scope(|scope| {
        let array = scope.open(array);
        match random.below(if copies == Copies::Into { 6 } else { 4 }) {
            0 => scope.write_elements(array, first, &all).unwrap(),
            1 => scope.fill_numbers(array, first, count, T::of(0)).unwrap(),
            2 => {
                for (index, &new) in all.iter().enumerate().take(50) {
                    let at = first + index;
                    let old = scope.numbers::<T>(array, at, 1).next().unwrap();
                    // Another thread may be faster.
                    let _ = scope.compare_exchange_number(array, at, old, new).unwrap();
                }
            }
            3 => {
                for (index, new) in all.chunks(1).enumerate().take(50) {
                    scope.write_elements(array, first + index, new).unwrap();
                }
            }
            skipped => {
                // From an array that is aligned to it, or from another place.
                let skipped = if skipped == 4 { first } else { first % 13 };
                let made = scope.allocate_array(of, (skipped + count) as u32).unwrap();
                scope.write_elements(made, skipped, &all).unwrap();
                scope
                    .copy_elements(made, skipped..skipped + count, array, first)
                    .unwrap();
            }
        }
    });
}

fn read<T: Bits>(
    mutator: &mut Mutator,
    array: &Handle,
    of: gleaner::Array,
    (first, count): (usize, usize),
    random: &mut Rng,
    copies: Copies,
) {
    match random.below(if copies == Copies::From { 5 } else { 3 }) {
        0 => {
            for index in first..first + count {
                // SAFETY: the array has this element.
                let found = unsafe { mutator.load_element_in::<T>(address(array), index) };
                assert_valid("a load", index, found);
            }
        }
        1 => mutator.scope(|scope| {
            let array = scope.open(array);
            for (index, found) in scope.numbers::<T>(array, first, count).enumerate() {
                assert_valid("a cursor", first + index, found);
            }
        }),
        2 => {
            let mut found = vec![T::of(0); count];
            mutator.scope(|scope| {
                let array = scope.open(array);
                scope.read_elements(array, first, &mut found);
            });
            for (index, found) in found.into_iter().enumerate() {
                assert_valid("a copy to a buffer", first + index, found);
            }
        }
        skipped => mutator.scope(|scope| {
            let array = scope.open(array);
            let skipped = if skipped == 3 { first } else { first % 11 };
            let made = scope.allocate_array(of, (skipped + count) as u32).unwrap();
            scope
                .copy_elements(array, first..first + count, made, skipped)
                .unwrap();
            for (index, found) in scope.numbers::<T>(made, skipped, count).enumerate() {
                assert_valid("a copy to an array", first + index, found);
            }
        }),
    }
}

pub fn numbers<T: Bits>(case: &Case, copies: Copies) {
    let heap = case.heap();
    let of = heap.array(T::KIND).unwrap();
    let mut main = heap.attach().unwrap();
    for round in 0..ROUNDS {
        let mut random = case.random(round);
        let length = BYTES[random.below(BYTES.len())] / T::BYTES + random.below(3);
        let array = main.scope(|scope| {
            let made = scope.allocate_array(of, length as u32).unwrap();
            scope.handle(made).unwrap()
        });
        if random.one_in(2) {
            main.collect(true);
        }
        case.race(&heap, &mut main, |mutator, thread| {
            let mut random = case.random_of(round, thread);
            for _ in 0..STEPS {
                let part = part(&mut random, length, T::BYTES);
                if thread % 2 == 0 {
                    write::<T>(mutator, &array, of, part, &mut random, copies);
                } else {
                    read::<T>(mutator, &array, of, part, &mut random, copies);
                }
                mutator.poll();
            }
        });
        for _ in 0..2 {
            main.scope(|scope| {
                let array = scope.open(&array);
                for (index, found) in scope.numbers::<T>(array, 0, length).enumerate() {
                    assert_valid("in the end", index, found);
                }
            });
            main.collect(random.one_in(2));
        }
    }
}

#[track_caller]
fn assert_valid_item(how: &str, index: usize, found: Item) {
    let is_valid = match found {
        Item::Null => true,
        Item::Immediate(number) => number == index as i64,
        Item::Boxed(number) => number == index as u64,
    };
    assert!(
        is_valid,
        "{how}: element {index} is {found:?}, which nobody has written there"
    );
}

fn write_references(
    scope: &mut Scope<'_>,
    array: &Handle,
    (of, boxed): (gleaner::ReferenceArray, Type),
    (first, count): (usize, usize),
    random: &mut Rng,
    copies: Copies,
) {
    let array = scope.open(array);
    let items: Vec<Item> = (first..first + count)
        .map(|index| match random.below(3) {
            0 => Item::Null,
            1 => Item::Immediate(index as i64),
            _ => Item::Boxed(index as u64),
        })
        .collect();
    match random.below(if copies == Copies::Into { 5 } else { 3 }) {
        0 => {
            let null = scope.null();
            scope.fill(array, first, count, null).unwrap();
        }
        way @ (1 | 2) => {
            for (index, item) in items.into_iter().enumerate().take(50) {
                let at = first + index;
                scope.nested(|scope| {
                    let value = item.make(scope, boxed);
                    if way == 1 {
                        scope.set(array, at, value).unwrap();
                    } else {
                        let before = scope.get(array, at);
                        let _ = scope.compare_exchange(array, at, before, value).unwrap();
                    }
                });
            }
        }
        way => {
            let skipped = if way == 3 { first } else { first % 13 };
            let made = scope
                .allocate_references(of, (skipped + count) as u32)
                .unwrap();
            for (index, item) in items.into_iter().enumerate() {
                scope.nested(|scope| {
                    let value = item.make(scope, boxed);
                    scope.set(made, skipped + index, value).unwrap();
                });
            }
            scope
                .copy_elements(made, skipped..skipped + count, array, first)
                .unwrap();
        }
    }
}

pub fn references(case: &Case, copies: Copies) {
    let heap = case.heap();
    let (of, boxed) = (heap.reference_array().unwrap(), box_type(&heap));
    let mut main = heap.attach().unwrap();
    for round in 0..ROUNDS / 3 {
        let mut random = case.random(round);
        let length = BYTES[random.below(BYTES.len())] / 8 + random.below(3);
        let array = main.scope(|scope| {
            let made = scope.allocate_references(of, length as u32).unwrap();
            scope.handle(made).unwrap()
        });
        if random.one_in(2) {
            main.collect(true);
        }
        case.race(&heap, &mut main, |mutator, thread| {
            let mut random = case.random_of(round, thread);
            for _ in 0..STEPS {
                let (first, count) = part(&mut random, length, 8);
                mutator.scope(|scope| {
                    if thread % 2 == 0 {
                        let part = (first, count);
                        write_references(scope, &array, (of, boxed), part, &mut random, copies);
                        return;
                    }
                    let array = scope.open(&array);
                    let (read, at) = if copies == Copies::From && random.one_in(2) {
                        let made = scope
                            .allocate_references(of, (first + count) as u32)
                            .unwrap();
                        scope
                            .copy_elements(array, first..first + count, made, first)
                            .unwrap();
                        (made, "a copy to an array")
                    } else {
                        (array, "a load")
                    };
                    for index in first..first + count {
                        assert_valid_item(at, index, Item::read(scope, read, index, boxed));
                    }
                });
                mutator.poll();
            }
        });
        for _ in 0..2 {
            main.scope(|scope| {
                let array = scope.open(&array);
                for index in 0..length {
                    let found = Item::read(scope, array, index, boxed);
                    assert_valid_item("in the end", index, found);
                }
            });
            main.collect(random.one_in(2));
        }
    }
}

/// One thread copies a whole array over one that was never written, again and again; the others read what it copies to.
pub fn fresh(case: &Case) {
    const COPIES: usize = 150;
    const LENGTH: usize = 3000;
    let heap = case.heap();
    let (of, list) = (
        heap.array(u64::KIND).unwrap(),
        heap.reference_array().unwrap(),
    );
    let mut main = heap.attach().unwrap();
    let all: Vec<u64> = (0..LENGTH).map(|index| value(index, 7)).collect();
    let [latest, full] = main.scope(|scope| {
        let full = scope.allocate_array(of, LENGTH as u32).unwrap();
        scope.write_elements(full, 0, &all).unwrap();
        let latest = scope.allocate_references(list, 1).unwrap();
        scope.set(latest, 0, full).unwrap();
        [latest, full].map(|local| scope.handle(local).unwrap())
    });
    let done = AtomicBool::new(false);
    case.race(&heap, &mut main, |mutator, thread| {
        if thread == 0 {
            for _ in 0..COPIES {
                mutator.scope(|scope| {
                    let (latest, full) = (scope.open(&latest), scope.open(&full));
                    let made = scope.allocate_array(of, LENGTH as u32).unwrap();
                    scope.set(latest, 0, made).unwrap();
                    scope.poll();
                    scope.copy_elements(full, 0..LENGTH, made, 0).unwrap();
                });
            }
            done.store(true, Ordering::Relaxed);
        }
        while !done.load(Ordering::Relaxed) {
            mutator.scope(|scope| {
                let latest = scope.open(&latest);
                let found = scope.get(latest, 0);
                for (index, number) in scope.numbers::<u64>(found, 0, LENGTH).enumerate() {
                    assert_valid("a cursor", index, number);
                }
                scope.poll();
            });
        }
    });
}
