//! Compare-and-swap alone changes elements that all threads share.

use super::shared::{Bits, Case, address, box_type};
use crate::random::Rng;
use gleaner::{Handle, Mutator, Scope};

/// Counters, in bytes: in front, and of some arraylets.
const BYTES: usize = 6000;
/// What each thread adds to counters, one at a time.
const ADDED: usize = 800;

/// Adds `by` to one counter.
fn add<T: Bits>(mutator: &mut Mutator, counters: &Handle, index: usize, by: u64, safe: bool) {
    if safe {
        mutator.scope(|scope| {
            let counters = scope.open(counters);
            let mut found = scope.numbers::<T>(counters, index, 1).next().unwrap();
            loop {
                let new = T::of(found.bits().wrapping_add(by));
                match scope
                    .compare_exchange_number(counters, index, found, new)
                    .unwrap()
                {
                    Ok(()) => break,
                    Err(other) => found = other,
                }
            }
        });
        return;
    }
    // SAFETY: the array has this element; where it is is asked anew for each access.
    unsafe {
        let mut found = mutator.load_element_in::<T>(address(counters), index);
        loop {
            let new = T::of(found.bits().wrapping_add(by));
            let at = address(counters);
            let swap = mutator.compare_exchange_element_in::<T>(at, index, found, new);
            match swap.unwrap() {
                Ok(()) => break,
                Err(other) => found = other,
            }
        }
    }
}

/// Threads add to counters, and then take away what they added, so that all are zero again while others still count.
pub fn numbers<T: Bits>(case: &Case) {
    let heap = case.heap();
    let of = heap.array(T::KIND).unwrap();
    let mut main = heap.attach().unwrap();
    let length = BYTES / T::BYTES + 1;
    let counters = main.scope(|scope| {
        let made = scope.allocate_array(of, length as u32).unwrap();
        scope.handle(made).unwrap()
    });
    for round in 0..2 {
        main.collect(round == 1);
        let by = |thread: usize| 1 + thread as u64 % 3;
        let indexes = |thread: usize| {
            let mut random = case.random_of(round, thread);
            // Some are contended.
            let all = [length, 8][round as usize];
            (0..ADDED).map(move |_| length - 1 - random.below(all))
        };
        case.race(&heap, &mut main, |mutator, thread| {
            for (number, index) in indexes(thread).enumerate() {
                add::<T>(mutator, &counters, index, by(thread), number % 2 == 0);
            }
        });
        let mut expected = vec![0; length];
        for thread in 0..case.threads {
            indexes(thread).for_each(|index| expected[index] += by(thread));
        }
        let expected: Vec<T> = expected.into_iter().map(T::of).collect();
        assert_counters(&mut main, &counters, &expected, "when all was added");
        case.race(&heap, &mut main, |mutator, thread| {
            for (number, index) in indexes(thread).enumerate() {
                let by = by(thread).wrapping_neg();
                add::<T>(mutator, &counters, index, by, number % 2 == 1);
            }
        });
        let zeros = vec![T::of(0); length];
        assert_counters(&mut main, &counters, &zeros, "when all was taken away");
    }
}

#[track_caller]
fn assert_counters<T: Bits>(main: &mut Mutator, counters: &Handle, expected: &[T], what: &str) {
    main.scope(|scope| {
        let counters = scope.open(counters);
        for (index, found) in scope.numbers::<T>(counters, 0, expected.len()).enumerate() {
            assert_eq!(found, expected[index], "{what}: counter {index}");
        }
    });
}

/// As [`numbers`], with integers in an array of references; zero is null.
pub fn immediates(case: &Case) {
    const LENGTH: usize = 900;
    let heap = case.heap();
    let of = heap.reference_array().unwrap();
    let mut main = heap.attach().unwrap();
    let counters = main.scope(|scope| {
        let made = scope.allocate_references(of, LENGTH as u32).unwrap();
        scope.handle(made).unwrap()
    });
    let add = |scope: &mut Scope<'_>, index: usize, by: i64| {
        let counters = scope.open(&counters);
        let swapped = |scope: &mut Scope<'_>| {
            let before = scope.get(counters, index);
            let number = scope.as_integer(before).unwrap_or(0) + by;
            let after = match number {
                0 => scope.null(),
                _ => scope.integer(number).unwrap(),
            };
            scope
                .compare_exchange(counters, index, before, after)
                .unwrap()
        };
        while !scope.nested(swapped) {}
    };
    for round in 0..2 {
        let index = |random: &mut Rng| LENGTH - 1 - random.below([LENGTH, 5][round as usize]);
        for by in [1, -1] {
            case.race(&heap, &mut main, |mutator, thread| {
                let mut random = case.random_of(round, thread);
                for _ in 0..ADDED {
                    mutator.scope(|scope| add(scope, index(&mut random), by));
                }
            });
            let sum = main.scope(|scope| {
                let counters = scope.open(&counters);
                let number = |index| {
                    scope.nested(|scope| {
                        let found = scope.get(counters, index);
                        assert!(
                            by > 0 || scope.is_null(found),
                            "counter {index} is null again"
                        );
                        scope.as_integer(found).unwrap_or(0)
                    })
                };
                (0..LENGTH).map(number).sum::<i64>()
            });
            let expected = if by > 0 { case.threads * ADDED } else { 0 };
            assert_eq!(sum, expected as i64);
            main.collect(by > 0);
        }
    }
}

/// Threads push nodes on lists whose heads are elements, and take some: each node is on a list or was taken, once.
pub fn lists(case: &Case) {
    const HEADS: usize = 700;
    const PUSHED: usize = 500;
    let heap = case.heap();
    let (of, node) = (heap.reference_array().unwrap(), box_type(&heap));
    let mut main = heap.attach().unwrap();
    for round in 0..2 {
        let heads = main.scope(|scope| {
            let made = scope.allocate_references(of, HEADS as u32).unwrap();
            scope.handle(made).unwrap()
        });
        main.collect(round == 1);
        let taken = case.race(&heap, &mut main, |mutator, thread| {
            let mut random = case.random_of(round, thread);
            let mut taken = Vec::new();
            for number in 0..PUSHED {
                let index = HEADS - 1 - random.below([HEADS, 40][round as usize]);
                mutator.scope(|scope| {
                    let heads = scope.open(&heads);
                    let made = scope.allocate(node).unwrap();
                    scope
                        .write_u64(made, 0, (thread * PUSHED + number) as u64)
                        .unwrap();
                    let push = |scope: &mut Scope<'_>| {
                        let first = scope.get(heads, index);
                        scope.set(made, 0, first).unwrap();
                        scope.compare_exchange(heads, index, first, made).unwrap()
                    };
                    while !scope.nested(push) {}
                });
                if random.one_in(3) {
                    let index = HEADS - 1 - random.below([HEADS, 40][round as usize]);
                    taken.extend(mutator.scope(|scope| take(scope, &heads, index)));
                }
            }
            taken
        });
        let mut found: Vec<u64> = taken.into_iter().flatten().collect();
        main.collect(round == 0);
        for index in 0..HEADS {
            while let Some(number) = main.scope(|scope| take(scope, &heads, index)) {
                found.push(number);
            }
        }
        found.sort_unstable();
        let all: Vec<u64> = (0..(case.threads * PUSHED) as u64).collect();
        if let Some(at) = (0..all.len()).find(|&at| found.get(at) != Some(&all[at])) {
            panic!(
                "{} of {} nodes were found; the first that is wrong is {at}: {:?}",
                found.len(),
                all.len(),
                found.get(at)
            );
        }
    }
}

/// The number of the first node of a list, which is taken; `None` if the list is empty.
fn take(scope: &mut Scope<'_>, heads: &Handle, index: usize) -> Option<u64> {
    let heads = scope.open(heads);
    loop {
        let taken = scope.nested(|scope| {
            let first = scope.get(heads, index);
            if scope.is_null(first) {
                return Some(None);
            }
            let next = scope.get(first, 0);
            let is_taken = scope.compare_exchange(heads, index, first, next).unwrap();
            is_taken.then(|| Some(scope.read_u64(first, 0)))
        });
        if let Some(taken) = taken {
            return taken;
        }
    }
}
