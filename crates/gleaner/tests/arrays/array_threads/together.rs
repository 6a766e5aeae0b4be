//! All threads store into the same part of an array that must not be written as it is, at the same time: each into an
//! element of its own.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::shared::{Case, mixed};
use gleaner::{Elements, Handle, Mutator};

/// How often they meet.
const MEETINGS: usize = 600;
/// Elements from one meeting to the next, of 8 bytes: the largest arraylet.
const STRIDE: usize = 512;
const LENGTH: usize = 700 + MEETINGS * STRIDE;
/// Behind what any spine has in front here.
const FIRST: usize = 600;

/// Threads that arrived at meetings so far.
struct Meetings {
    arrived: AtomicUsize,
    threads: usize,
}

impl Meetings {
    /// Waits for all threads. It polls, since others may collect.
    fn meet(&self, mutator: &mut Mutator, number: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut turns = 0;
        while self.arrived.load(Ordering::Acquire) < (number + 1) * self.threads {
            mutator.poll();
            turns += 1;
            if turns > 1000 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

/// The number that a thread stores.
fn number(meeting: usize, thread: usize) -> u64 {
    1 + (mixed((meeting << 8 | thread) as u64) >> 16)
}

/// Lets all threads store into the arrays, `store` being given the array, the element and the number.
fn race(
    case: &Case,
    heap: &gleaner::Heap,
    main: &mut Mutator,
    arrays: &[Handle],
    store: impl Fn(&mut Mutator, &Handle, usize, u64) + Sync,
) {
    let meetings = Meetings {
        arrived: AtomicUsize::new(0),
        threads: case.threads,
    };
    case.race(heap, main, |mutator, thread| {
        for meeting in 0..MEETINGS {
            meetings.meet(mutator, meeting);
            for array in arrays {
                let at = FIRST + meeting * STRIDE + thread;
                store(mutator, array, at, number(meeting, thread));
            }
        }
    });
}

/// What element `at` is then; `None` if nobody wrote it.
fn stored(case: &Case, at: usize) -> Option<u64> {
    let behind = at.checked_sub(FIRST)?;
    let (meeting, thread) = (behind / STRIDE, behind % STRIDE);
    (meeting < MEETINGS && thread < case.threads).then(|| number(meeting, thread))
}

/// Parts that nobody has written, and then parts that two arrays share.
pub fn numbers(case: &Case) {
    let heap = case.heap();
    let of = heap.array(Elements::Doubles).unwrap();
    let mut main = heap.attach().unwrap();
    for is_old in [false, true] {
        for is_shared in [false, true] {
            let before = |at: usize| if is_shared { !(at as u64) } else { 0 };
            let arrays = main.scope(|scope| {
                let made = scope.allocate_array(of, LENGTH as u32).unwrap();
                let mut arrays = vec![scope.handle(made).unwrap()];
                if is_shared {
                    let all: Vec<u64> = (0..LENGTH).map(before).collect();
                    scope.write_elements(made, 0, &all).unwrap();
                    let copy = scope.allocate_array(of, LENGTH as u32).unwrap();
                    scope.copy_elements(made, 0..LENGTH, copy, 0).unwrap();
                    arrays.push(scope.handle(copy).unwrap());
                }
                scope.collect(is_old);
                arrays
            });
            race(
                case,
                &heap,
                &mut main,
                &arrays,
                |mutator, array, at, number| {
                    mutator.scope(|scope| {
                        let array = scope.open(array);
                        if number.is_multiple_of(3) {
                            let swap = scope.compare_exchange_number(array, at, before(at), number);
                            assert_eq!(swap.unwrap(), Ok(()), "element {at}");
                        } else {
                            scope.write_u64(array, at, number).unwrap();
                        }
                    });
                },
            );
            main.scope(|scope| {
                for array in &arrays {
                    let array = scope.open(array);
                    for (at, found) in scope.numbers::<u64>(array, 0, LENGTH).enumerate() {
                        let expected = stored(case, at).unwrap_or(before(at));
                        assert_eq!(found, expected, "element {at}, shared: {is_shared}");
                    }
                }
            });
        }
    }
}

/// As [`numbers`], with integers in arrays of references.
pub fn references(case: &Case) {
    let heap = case.heap();
    let of = heap.reference_array().unwrap();
    let mut main = heap.attach().unwrap();
    for is_shared in [false, true] {
        let before = |at: usize| is_shared.then_some(at as i64);
        let arrays = main.scope(|scope| {
            let made = scope.allocate_references(of, LENGTH as u32).unwrap();
            let mut arrays = vec![scope.handle(made).unwrap()];
            if is_shared {
                for at in 0..LENGTH {
                    scope.nested(|scope| {
                        let integer = scope.integer(at as i64).unwrap();
                        scope.set(made, at, integer).unwrap();
                    });
                }
                let copy = scope.allocate_references(of, LENGTH as u32).unwrap();
                scope.copy_elements(made, 0..LENGTH, copy, 0).unwrap();
                arrays.push(scope.handle(copy).unwrap());
            }
            scope.collect(true);
            arrays
        });
        race(
            case,
            &heap,
            &mut main,
            &arrays,
            |mutator, array, at, number| {
                mutator.scope(|scope| {
                    let array = scope.open(array);
                    let integer = scope.integer((number >> 32) as i64).unwrap();
                    if number.is_multiple_of(3) {
                        let old = scope.get(array, at);
                        assert!(scope.compare_exchange(array, at, old, integer).unwrap());
                    } else {
                        scope.set(array, at, integer).unwrap();
                    }
                });
            },
        );
        main.scope(|scope| {
            for array in &arrays {
                let array = scope.open(array);
                for at in 0..LENGTH {
                    scope.nested(|scope| {
                        let found = scope.get(array, at);
                        let stored = stored(case, at).map(|number| (number >> 32) as i64);
                        let expected = stored.or(before(at));
                        assert_eq!(scope.as_integer(found), expected, "element {at}");
                    });
                }
            }
        });
    }
}
