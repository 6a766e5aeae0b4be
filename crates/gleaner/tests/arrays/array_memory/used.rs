//! What arrays take of the heap, in bytes that it says are used.

use super::heap;
use gleaner::{Elements, Handle, Heap, Mutator};

/// What is used after a full collection.
pub fn used(heap: &Heap, mutator: &mut Mutator) -> usize {
    mutator.collect(true);
    heap.used()
}

/// Bytes of an arraylet in a heap with these options.
fn arraylet(options: &str) -> usize {
    let given = options
        .split(',')
        .find_map(|option| option.strip_prefix("arraylet="));
    given.map_or(1024, |bytes| bytes.parse().unwrap())
}

pub fn array(mutator: &mut Mutator, heap: &Heap, bytes: usize) -> Handle {
    let of = heap.array(Elements::Doubles).unwrap();
    mutator.scope(|scope| {
        let made = scope.allocate_array(of, (bytes / 8) as u32).unwrap();
        scope.handle(made).unwrap()
    })
}

/// Writes elements at a distance of `stride` bytes.
pub fn write(mutator: &mut Mutator, array: &Handle, stride: usize, number: u64) {
    mutator.scope(|scope| {
        let array = scope.open(array);
        for at in (0..scope.length(array) as usize).step_by(stride / 8) {
            scope.write_u64(array, at, number).unwrap();
        }
    });
}

#[track_caller]
pub fn assert_holds(mutator: &mut Mutator, array: &Handle, stride: usize, number: u64) {
    mutator.scope(|scope| {
        let array = scope.open(array);
        let length = scope.length(array) as usize;
        for (at, found) in scope.numbers::<u64>(array, 0, length).enumerate() {
            let expected = if at % (stride / 8) == 0 { number } else { 0 };
            assert_eq!(found, expected, "element {at}");
        }
    });
}

/// Of a large array one arraylet in a hundred is written.
pub fn sparse(options: &str, bytes: usize) {
    let heap = heap(&format!("heap-limit={},{options}", 2 * bytes));
    let mut mutator = heap.attach().unwrap();
    let before = used(&heap, &mut mutator);
    let array = array(&mut mutator, &heap, bytes);
    let spine = used(&heap, &mut mutator) - before;
    assert!(spine < bytes / 100, "the spine has {spine} bytes");
    let stride = 100 * arraylet(options);
    write(&mut mutator, &array, stride, 1);
    for round in 0..3 {
        let used = used(&heap, &mut mutator) - before;
        assert!(
            used < bytes / 100 * 3,
            "{used} of {bytes} bytes, round {round}"
        );
        // Its spine, and what was written.
        let written = bytes.div_ceil(stride) * arraylet(options);
        assert!(
            used < spine + written + (128 << 10),
            "{used} bytes for a spine of {spine} and arraylets of {written}"
        );
        // What is read and what is zero costs nothing.
        mutator.scope(|scope| {
            let array = scope.open(&array);
            let length = scope.length(array) as usize;
            let sum: u64 = scope.numbers::<u64>(array, 0, length).sum();
            assert_eq!(sum as usize, bytes.div_ceil(stride));
            scope
                .fill_numbers(array, length / 2 + 64, 12, 0_u64)
                .unwrap();
            scope.write_u64(array, length / 3 + 1, 0).unwrap();
        });
    }
    drop(array);
    let after = used(&heap, &mut mutator);
    assert!(
        after < before + (128 << 10),
        "{before} bytes before, {after} after"
    );
}

/// Copies of a dense array, also of copies.
pub fn copied(options: &str) {
    const BYTES: usize = 4 << 20;
    const COPIES: usize = 8;
    let heap = heap(&format!("heap-limit=24m,{options}"));
    let of = heap.array(Elements::Doubles).unwrap();
    let mut mutator = heap.attach().unwrap();
    let first = array(&mut mutator, &heap, BYTES);
    write(&mut mutator, &first, 64, 5);
    let before = used(&heap, &mut mutator);
    let mut all = vec![first];
    for number in 1..=COPIES {
        mutator.scope(|scope| {
            let from = scope.open(&all[number / 2]);
            let copy = scope.allocate_array(of, (BYTES / 8) as u32).unwrap();
            scope.copy_elements(from, 0..BYTES / 8, copy, 0).unwrap();
            all.push(scope.handle(copy).unwrap());
        });
        let taken = used(&heap, &mut mutator) - before;
        let spines = number * (BYTES / arraylet(options) * 8 + 2 * 4096);
        assert!(
            taken < spines + (128 << 10),
            "{taken} bytes for {number} copies"
        );
    }
    for array in &all {
        assert_holds(&mut mutator, array, 64, 5);
    }
    // One in sixteen arraylets of a copy, and of the first, is written.
    let shared = used(&heap, &mut mutator);
    let stride = 16 * arraylet(options);
    let written = BYTES / stride * arraylet(options);
    for (number, index) in [COPIES, 0].into_iter().enumerate() {
        write(&mut mutator, &all[index], stride, 6);
        let taken = used(&heap, &mut mutator) - shared;
        let expected = (number + 1) * written;
        assert!(
            taken > expected / 2 && taken < expected + (128 << 10),
            "{taken} bytes, not {expected}, when {} were written",
            number + 1
        );
    }
    for (index, array) in all.iter().enumerate() {
        if index == 0 || index == COPIES {
            mutator.scope(|scope| {
                let array = scope.open(array);
                for (at, found) in scope.numbers::<u64>(array, 0, BYTES / 8).enumerate() {
                    let expected = match at {
                        _ if at % (stride / 8) == 0 => 6,
                        _ if at % 8 == 0 => 5,
                        _ => 0,
                    };
                    assert_eq!(found, expected, "element {at} of copy {index}");
                }
            });
        } else {
            assert_holds(&mut mutator, array, 64, 5);
        }
    }
    // Without the others, what is left has all it had.
    all.truncate(2);
    all.remove(0);
    mutator.collect(true);
    assert_holds(&mut mutator, &all[0], 64, 5);
    let left = used(&heap, &mut mutator);
    assert!(
        left < before + (256 << 10),
        "{left} bytes are left of {before}"
    );
}

/// A dense array becomes one of zeros, all of it or most.
pub fn zeros(options: &str) {
    const BYTES: usize = 4 << 20;
    let heap = heap(&format!("heap-limit=24m,{options}"));
    let mut mutator = heap.attach().unwrap();
    let before = used(&heap, &mut mutator);
    let array = array(&mut mutator, &heap, BYTES);
    let spine = used(&heap, &mut mutator) - before;
    for round in 0..3 {
        write(&mut mutator, &array, 64, 3);
        let dense = used(&heap, &mut mutator) - before;
        assert!(
            dense > BYTES,
            "{dense} bytes are used of a dense array, round {round}"
        );
        write(&mut mutator, &array, 64, 0);
        let empty = used(&heap, &mut mutator) - before;
        assert!(
            empty < spine + (64 << 10),
            "{empty} bytes are used by zeros, {spine} by a new array, round {round}"
        );
        assert_holds(&mut mutator, &array, 64, 0);
        // One arraylet in 64 stays.
        write(&mut mutator, &array, 64, 3);
        write(&mut mutator, &array, 64, 0);
        let stride = 64 * arraylet(options);
        write(&mut mutator, &array, stride, 4);
        // Those that live may lie in chunks of which they are the only ones.
        let some = used(&heap, &mut mutator) - before;
        let chunks = BYTES / stride * (16 << 10);
        assert!(
            some < spine + chunks + (64 << 10),
            "{some} bytes for {chunks} at most"
        );
        assert_holds(&mut mutator, &array, stride, 4);
        write(&mut mutator, &array, stride, 0);
    }
}

/// Arrays, and copies of them, that are dropped leave nothing.
pub fn dropped(options: &str) {
    const BYTES: usize = 1 << 20;
    let heap = heap(&format!("heap-limit=16m,{options}"));
    let of = heap.array(Elements::Doubles).unwrap();
    let list = heap.reference_array().unwrap();
    let mut mutator = heap.attach().unwrap();
    let before = used(&heap, &mut mutator);
    let limit = heap.limit();
    // The verifier looks at every arraylet.
    let rounds = if options.contains("verify") { 8 } else { 40 };
    for round in 0..rounds {
        mutator.scope(|scope| {
            let made = scope.allocate_array(of, (BYTES / 8) as u32).unwrap();
            scope
                .fill_numbers::<u64>(made, 0, BYTES / 8, round)
                .unwrap();
            if round % 5 == 0 {
                scope.collect(false);
            }
            let copy = scope.allocate_array(of, (BYTES / 8) as u32).unwrap();
            scope.copy_elements(made, 0..BYTES / 8, copy, 0).unwrap();
            scope
                .fill_numbers(copy, BYTES / 16, BYTES / 16, round + 1)
                .unwrap();
            let slots = scope.allocate_references(list, (BYTES / 8) as u32).unwrap();
            scope.fill(slots, 5, BYTES / 8 - 5, made).unwrap();
            if round % 7 == 0 {
                scope.collect(true);
            }
            let sum: u64 = scope.numbers::<u64>(copy, 0, BYTES / 8).sum();
            assert_eq!(sum, BYTES as u64 / 16 * (2 * round + 1));
            let last = scope.get(slots, BYTES / 8 - 1);
            assert!(scope.same(last, made));
        });
        assert!(heap.used() <= limit, "round {round}");
    }
    let after = used(&heap, &mut mutator);
    assert!(
        after < before + (128 << 10),
        "{before} bytes before, {after} after"
    );
}
