//! Threads that copy whole arrays from each other, while the arrays that they copy from and to are written: what was
//! copied stays what it was, and copies share arraylets although several mutators are attached.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::shared::{Case, address, mixed};
use gleaner::{Array, Elements, Handle, Local, Mutator, ReferenceArray, Scope};

/// Elements, of 8 bytes or slots: a remainder, and arraylets of any size beyond any first N.
const LENGTH: usize = 3000;
/// Copies that a thread makes of an array that others write.
const COPIES: usize = 24;
/// Phases of a program whose result does not depend on who is faster.
const PHASES: u64 = 5;

/// The versions of one array that are written while others copy it: element by element, through cursors that stay open
/// for a while, and in bulk.
fn write_on(mutator: &mut Mutator, array: &Handle, seed: u64, done: &AtomicBool) {
    let mut step = seed;
    while !done.load(Ordering::Relaxed) {
        step = mixed(step);
        let first = (step >> 8) as usize % LENGTH;
        let count = 1 + (step >> 32) as usize % (LENGTH - first);
        match step % 3 {
            // SAFETY: the element lies in the array; nothing is used again but what the handle holds.
            0 => unsafe {
                mutator
                    .store_element_in::<u64>(address(array), first, step)
                    .unwrap();
            },
            // SAFETY: the range lies in the array; nothing is used again but what the handle holds.
            1 => unsafe {
                let cursor = mutator.cursor_mut::<u64>(address(array), first, count);
                let mut cursor = cursor.unwrap();
                for index in 0..count.min(600) {
                    if index % 64 == 0 {
                        std::thread::yield_now();
                    }
                    assert!(cursor.store(step));
                }
            },
            _ => mutator.scope(|scope| {
                let array = scope.open(array);
                let new = vec![step; count.min(300)];
                scope.write_elements(array, first, &new).unwrap();
            }),
        }
        mutator.poll();
    }
}

fn read(scope: &mut Scope<'_>, array: Local<'_>) -> Vec<u64> {
    scope.numbers::<u64>(array, 0, LENGTH).collect()
}

/// A copy of an array, as a new local.
fn copied<'s>(scope: &mut Scope<'s>, from: &Handle, of: Array) -> Local<'s> {
    let from = scope.open(from);
    let copy = scope.allocate_array(of, LENGTH as u32).unwrap();
    scope.copy_elements(from, 0..LENGTH, copy, 0).unwrap();
    copy
}

/// One thread writes an array, the others copy it, and look at their copies again later; each other copy is written, and
/// copied once more, so that what is shared already is shared again.
pub fn of_what_is_written(case: &Case) {
    let heap = case.heap();
    let of = heap.array(Elements::Doubles).unwrap();
    let mut main = heap.attach().unwrap();
    let array = main.scope(|scope| {
        let made = scope.allocate_array(of, LENGTH as u32).unwrap();
        let numbers: Vec<u64> = (1..=LENGTH as u64).collect();
        scope.write_elements(made, 0, &numbers).unwrap();
        scope.handle(made).unwrap()
    });
    let (done, copiers) = (AtomicBool::new(false), AtomicUsize::new(case.threads - 1));
    case.race(&heap, &mut main, |mutator, thread| {
        if thread == 0 {
            return write_on(mutator, &array, case.seed, &done);
        }
        for number in 0..COPIES {
            mutator.scope(|scope| {
                let copy = copied(scope, &array, of);
                let first = read(scope, copy);
                let handle = scope.handle(copy).unwrap();
                let again = copied(scope, &handle, of);
                if number % 2 == 0 {
                    scope.write_u64(copy, number * 100, 4711).unwrap();
                    scope.write_u64(again, LENGTH - 1 - number, 4712).unwrap();
                }
                scope.blocking(std::thread::yield_now);
                for (array, changed) in [(copy, number * 100), (again, LENGTH - 1 - number)] {
                    let mut now = read(scope, array);
                    if number % 2 == 0 {
                        now[changed] = first[changed];
                    }
                    let differs = (0..LENGTH).find(|&index| now[index] != first[index]);
                    assert_eq!(differs, None, "an element of copy {number} has changed");
                }
            });
        }
        if copiers.fetch_sub(1, Ordering::AcqRel) == 1 {
            done.store(true, Ordering::Relaxed);
        }
    });
    assert_shared(case, &mut main);
}

/// Copies share arraylets where they are to, and nowhere else.
fn assert_shared(case: &Case, mutator: &mut Mutator) {
    let counts = mutator.array_counts();
    assert_eq!(counts.shared > 0, case.shares_numbers(), "{counts:?}");
}

/// Arrays that all threads copy from and to, by turns: a program whose result does not depend on who is faster.
struct Program {
    numbers: Array,
    references: ReferenceArray,
    /// Of each thread, one of numbers and one of references.
    arrays: Vec<[Handle; 2]>,
}

impl Program {
    /// A thread writes some elements of its own arrays, of which others share arraylets.
    fn write(&self, scope: &mut Scope<'_>, thread: usize, phase: u64) {
        let [numbers, references] = self.arrays[thread]
            .each_ref()
            .map(|array| scope.open(array));
        for count in 0..40 {
            let chosen = mixed(phase << 32 | (thread as u64) << 16 | count);
            let index = (chosen >> 20) as usize % LENGTH;
            scope.write_u64(numbers, index, chosen).unwrap();
            scope.nested(|scope| {
                let integer = scope.integer((chosen >> 40) as i64).unwrap();
                scope.set(references, index, integer).unwrap();
            });
        }
    }

    /// A thread replaces its arrays by copies of another's, all at the same offset or some elements away.
    fn copy(&self, scope: &mut Scope<'_>, thread: usize, phase: u64) -> [Handle; 2] {
        let from = (thread + phase as usize) % self.arrays.len();
        let away = if phase % 3 == 2 { thread % 5 } else { 0 };
        let [numbers, references] = self.arrays[from].each_ref().map(|array| scope.open(array));
        let made = [
            scope.allocate_array(self.numbers, LENGTH as u32).unwrap(),
            scope
                .allocate_references(self.references, LENGTH as u32)
                .unwrap(),
        ];
        for (from, to) in [numbers, references].into_iter().zip(made) {
            scope
                .copy_elements(from, away..away + LENGTH - away, to, 0)
                .unwrap();
        }
        made.map(|array| scope.handle(array).unwrap())
    }

    /// A number of all that the arrays hold.
    fn sum(&self, mutator: &mut Mutator) -> u64 {
        let mut sum = 0;
        for [numbers, references] in &self.arrays {
            mutator.scope(|scope| {
                let [numbers, references] = [numbers, references].map(|array| scope.open(array));
                for (index, number) in read(scope, numbers).into_iter().enumerate() {
                    let integer = scope.nested(|scope| {
                        let found = scope.get(references, index);
                        scope.as_integer(found).unwrap_or(-1)
                    });
                    sum = mixed(sum ^ number) ^ integer as u64;
                }
            });
        }
        sum
    }
}

/// Runs it: in each phase all threads write their own arrays, and then all copy from each other.
fn run(case: &Case) -> (u64, u64) {
    let heap = case.heap();
    let (numbers, references) = (
        heap.array(Elements::Doubles).unwrap(),
        heap.reference_array().unwrap(),
    );
    let mut main = heap.attach().unwrap();
    let arrays = (0..case.threads).map(|_| {
        main.scope(|scope| {
            let made = [
                scope.allocate_array(numbers, LENGTH as u32).unwrap(),
                scope
                    .allocate_references(references, LENGTH as u32)
                    .unwrap(),
            ];
            made.map(|array| scope.handle(array).unwrap())
        })
    });
    let mut program = Program {
        numbers,
        references,
        arrays: arrays.collect(),
    };
    for phase in 1..=PHASES {
        let barrier = Barrier::new(case.threads);
        let copies = case.race(&heap, &mut main, |mutator, thread| {
            mutator.scope(|scope| program.write(scope, thread, phase));
            mutator.blocking(|| barrier.wait());
            mutator.scope(|scope| program.copy(scope, thread, phase))
        });
        program.arrays = copies;
        main.collect(phase % 2 == 0);
    }
    (program.sum(&mut main), main.array_counts().shared)
}

/// The same program, with arrays in one piece and in pieces, with and without copy-on-write.
pub fn leave_the_same(case: &Case) {
    let (expected, shared) = run(&case.with("contiguous"));
    assert_eq!(shared, 0);
    for arrays in ["perf-zray", "zray"] {
        let (sum, shared) = run(&case.with(arrays));
        assert_eq!(sum, expected, "arrays={arrays}");
        assert_eq!(shared > 0, arrays == "zray", "shared: {shared}");
    }
}
