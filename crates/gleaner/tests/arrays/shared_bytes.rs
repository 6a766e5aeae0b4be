//! Bytes of arrays in bulk: written, copied, compared and filled by several threads at once, and by one at every offset.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gleaner::{Elements, Heap, Local, Scope};

/// One piece, and pieces of which a copy crosses many.
const LAYOUTS: [&str; 2] = ["arrays=contiguous", "arrays=zray,first-n=64,arraylet=256"];

fn heap(layout: &str) -> Heap {
    let builder = Heap::builder().limit(16 << 20).workers(1);
    builder.options(layout).unwrap().build().unwrap()
}

/// As long as a block of vectors and a rest.
const LENGTH: usize = 1000;
const ROUNDS: usize = 400;

/// Every byte of a slice is one that a writer wrote: it wrote the same value everywhere.
fn check(bytes: &[u8]) {
    let wrong = bytes
        .iter()
        .position(|&byte| ![0, 0x11, 0x5a].contains(&byte));
    assert_eq!(wrong, None, "of {} bytes", bytes.len());
}

/// Writes, fills, copies upward and downward, reads and compares bytes of the same array, over and over.
fn work(scope: &mut Scope<'_>, array: Local<'_>, of: gleaner::Array, value: u8) {
    let own = scope.allocate_array_with(of, &[value; LENGTH]).unwrap();
    let mut bytes = vec![0; LENGTH];
    for round in 0..ROUNDS {
        let (start, end) = (round % 7, LENGTH - round % 5);
        scope
            .write_elements(array, start, &vec![value; end - start])
            .unwrap();
        scope.copy_elements(array, 0..LENGTH - 9, array, 9).unwrap();
        scope.read_elements(array, 0, &mut bytes);
        check(&bytes);
        scope.copy_elements(array, 5..LENGTH, array, 0).unwrap();
        scope.copy_elements(own, start..end, array, start).unwrap();
        if let Some(at) = scope.compare_elements(own, 0..LENGTH, array, 0) {
            assert!(at < LENGTH);
        }
        scope.fill_numbers(array, end / 2, end / 3, value).unwrap();
        scope.read_elements(array, start, &mut bytes[start..]);
        check(&bytes);
        // Nobody else has this one.
        scope.read_elements(own, 0, &mut bytes);
        assert!(bytes == [value; LENGTH]);
        scope.poll();
    }
}

#[test]
fn threads_that_use_the_same_bytes_find_what_was_written() {
    for layout in LAYOUTS {
        let heap = heap(layout);
        let of = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        let handle = mutator.scope(|scope| {
            let array = scope.allocate_array(of, LENGTH as u32).unwrap();
            scope.handle(array).unwrap()
        });
        let (ready, stop) = (Barrier::new(2), AtomicBool::new(false));
        mutator.blocking(|| {
            thread::scope(|threads| {
                for value in [0x11, 0x5a] {
                    let (heap, handle, ready, stop) = (&heap, &handle, &ready, &stop);
                    threads.spawn(move || {
                        let mut mutator = heap.attach().unwrap();
                        mutator.blocking(|| ready.wait());
                        mutator.scope(|scope| {
                            let array = scope.open(handle);
                            work(scope, array, of, value);
                        });
                        stop.store(true, Ordering::Relaxed);
                    });
                }
            });
        });
        assert!(stop.into_inner());
    }
}

#[test]
fn bulk_operations_are_what_they_are_on_slices() {
    for layout in LAYOUTS {
        let heap = heap(layout);
        let of = heap.array(Elements::Bytes).unwrap();
        heap.attach().unwrap().scope(|scope| {
            let mut expected: Vec<u8> = (0..LENGTH)
                .map(|index| (index * 7 + index / 256) as u8)
                .collect();
            let array = scope.allocate_array_with(of, &expected).unwrap();
            let mut found = vec![0; LENGTH];
            for (from, to, count) in [
                (0, 1, 999),
                (1, 0, 999),
                (3, 300, 650),
                (300, 3, 650),
                (0, 128, 128),
                (17, 60, 13),
                (40, 64, 200),
            ] {
                scope
                    .copy_elements(array, from..from + count, array, to)
                    .unwrap();
                expected.copy_within(from..from + count, to);
                scope.read_elements(array, 0, &mut found);
                assert!(
                    found == expected,
                    "{count} bytes from {from} to {to}, {layout}"
                );
            }
            let other = scope.allocate_array_with(of, &expected).unwrap();
            assert_eq!(scope.compare_elements(array, 0..LENGTH, other, 0), None);
            for index in (0..LENGTH).step_by(37) {
                let before = scope.read_u8(other, index);
                scope.write_u8(other, index, !before).unwrap();
                let differs = scope.compare_elements(array, 0..LENGTH, other, 0);
                assert_eq!(differs, Some(index), "{layout}");
                scope.write_u8(other, index, before).unwrap();
            }
            scope.fill_numbers(array, 30, 500, 0xa5_u8).unwrap();
            expected[30..530].fill(0xa5);
            scope.write_elements(array, 600, &expected[..300]).unwrap();
            expected.copy_within(..300, 600);
            scope.read_elements(array, 0, &mut found);
            assert!(found == expected, "{layout}");
        });
    }
}

#[test]
#[should_panic(expected = "a range of elements from 3 that ends at 2")]
#[expect(clippy::reversed_empty_ranges, reason = "a mistake")]
fn a_range_that_ends_before_it_starts_is_refused() {
    let heap = heap(LAYOUTS[0]);
    let of = heap.array(Elements::Bytes).unwrap();
    heap.attach().unwrap().scope(|scope| {
        let array = scope.allocate_array(of, 10).unwrap();
        let _ = scope.copy_elements(array, 3..2, array, 0);
    });
}
