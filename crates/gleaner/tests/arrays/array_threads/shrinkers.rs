//! A thread shrinks an array step by step. Others use the elements that are left in the end, and take the memory of those
//! that are gone.

use super::shared::{Case, address};
use gleaner::Elements;

/// Elements of 8 bytes, and how many are left in the end: whole arraylets of no size.
const LENGTH: usize = 40_000;
const LEFT: usize = 5_003;
/// In so many steps.
const STEPS: usize = 60;
/// How often each other thread writes what it owns of them.
const ROUNDS: u64 = 4;
/// Elements of the arrays that other threads make.
const OTHERS: usize = 3_000;

fn number(index: usize, round: u64) -> u64 {
    (index as u64 + 1) << 8 | round
}

pub fn numbers(case: &Case) {
    let heap = case.heap();
    let of = heap.array(Elements::Doubles).unwrap();
    let mut main = heap.attach().unwrap();
    let array = main.scope(|scope| {
        let made = scope.allocate_array(of, LENGTH as u32).unwrap();
        for index in 0..LENGTH {
            scope.write_u64(made, index, number(index, 0)).unwrap();
        }
        scope.handle(made).unwrap()
    });
    case.race(&heap, &mut main, |mutator, thread| {
        let Some(own) = thread.checked_sub(1) else {
            for step in 1..=STEPS {
                let length = LENGTH - (LENGTH - LEFT) * step / STEPS;
                // SAFETY: other threads use the first `LEFT` elements alone.
                unsafe { mutator.shrink_raw(address(&array), length as u32) };
                if step % 10 == 0 {
                    mutator.collect(step % 20 == 0);
                }
                mutator.poll();
            }
            return;
        };
        for round in 1..=ROUNDS {
            for index in (own..LEFT).step_by(case.threads - 1) {
                // SAFETY: the array has the element still, and this thread alone uses it.
                unsafe {
                    let found = mutator.load_element_in::<u64>(address(&array), index);
                    assert_eq!(found, number(index, round - 1), "element {index}");
                    mutator
                        .store_element_in::<u64>(address(&array), index, number(index, round))
                        .unwrap();
                }
            }
            mutator.scope(|scope| {
                let other = scope.allocate_array(of, OTHERS as u32).unwrap();
                scope.fill_numbers(other, 0, OTHERS, round).unwrap();
                scope.collect(false);
                let sum: u64 = scope.numbers::<u64>(other, 0, OTHERS).sum();
                assert_eq!(sum, OTHERS as u64 * round);
            });
        }
    });
    main.collect(true);
    main.scope(|scope| {
        let array = scope.open(&array);
        assert_eq!(scope.length(array) as usize, LEFT);
        for (index, found) in scope.numbers::<u64>(array, 0, LEFT).enumerate() {
            assert_eq!(found, number(index, ROUNDS), "element {index}");
        }
    });
}
