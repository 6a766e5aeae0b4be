//! Threads that erase an array of references, or copy nulls to it, while others copy arrays to it that are shared: what all
//! arrays have as null takes no memory, and may be something else a moment later.

use std::sync::atomic::{AtomicBool, Ordering};

use super::shared::Case;
use gleaner::{Handle, Mutator};

/// Elements: arraylets of any size beyond any first N.
const LENGTH: usize = 6000;
/// How often a thread erases the array.
const TIMES: usize = 150;

fn copy(mutator: &mut Mutator, from: &Handle, to: &Handle) {
    mutator.scope(|scope| {
        let [from, to] = [from, to].map(|array| scope.open(array));
        scope.copy_elements(from, 0..LENGTH, to, 0).unwrap();
    });
}

/// Of the threads, one erases the array in this way, the others copy to it.
fn race(case: &Case, erase: impl Fn(&mut Mutator, [&Handle; 3]) + Sync) {
    let heap = case.heap();
    let of = heap.reference_array().unwrap();
    let mut main = heap.attach().unwrap();
    let [full, other, empty, array] = [(); 4].map(|()| {
        main.scope(|scope| {
            let made = scope.allocate_references(of, LENGTH as u32).unwrap();
            scope.handle(made).unwrap()
        })
    });
    main.scope(|scope| {
        let made = scope.open(&full);
        for index in 0..LENGTH {
            scope.nested(|scope| {
                let integer = scope.integer(index as i64 + 1).unwrap();
                scope.set(made, index, integer).unwrap();
            });
        }
    });
    copy(&mut main, &full, &other);
    let done = AtomicBool::new(false);
    case.race(&heap, &mut main, |mutator, thread| {
        if thread > 0 {
            while !done.load(Ordering::Relaxed) {
                copy(mutator, &full, &array);
                copy(mutator, &empty, &array);
                mutator.poll();
            }
            return;
        }
        for time in 0..TIMES {
            erase(mutator, [&empty, &other, &array]);
            if time % 8 == 0 {
                mutator.collect(time % 16 == 0);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    main.scope(|scope| {
        let array = scope.open(&array);
        for index in 0..LENGTH {
            scope.nested(|scope| {
                let found = scope.get(array, index);
                let integer = scope.as_integer(found);
                assert!(scope.is_null(found) || integer == Some(index as i64 + 1));
            });
        }
    });
}

/// By filling it.
pub fn fill(case: &Case) {
    race(case, |mutator, [_, _, array]| {
        mutator.scope(|scope| {
            let (array, null) = (scope.open(array), scope.null());
            scope.fill(array, 0, LENGTH, null).unwrap();
        });
    });
}

/// By copying nulls to it.
pub fn copy_nulls(case: &Case) {
    race(case, |mutator, [empty, _, array]| {
        copy(mutator, empty, array)
    });
}
