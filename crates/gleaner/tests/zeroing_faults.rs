//! Zeroing threads that are held up, end, or are never started cost time and nothing else.

use gleaner::{Elements, Heap, Zeroing};
use gleaner_base::faults::{self, FaultPoint};

/// Allocates and checks; the mutators zeroed something by themselves.
fn run(zeroing: Zeroing) -> u64 {
    let heap = Heap::builder()
        .zeroing(zeroing)
        .limit(4 << 20)
        .workers(1)
        .poison(true)
        .build()
        .unwrap();
    let numbers = heap.array(Elements::Doubles).unwrap();
    let mut mutator = heap.attach().unwrap();
    for step in 0..20_000 {
        mutator.scope(|scope| {
            let array = scope.allocate_array(numbers, 100).unwrap();
            for index in 0..100 {
                assert_eq!(scope.read_u64(array, index), 0, "step {step}");
                scope.write_u64(array, index, u64::MAX);
            }
        });
    }
    mutator.totals().zeroed.bytes
}

#[test]
fn mutators_zero_what_zeroing_threads_do_not() {
    for zeroing in [
        Zeroing::Concurrent,
        Zeroing::ConcurrentStatic,
        Zeroing::ConcurrentRacing,
    ] {
        for visit in [1, 2, 10] {
            faults::arm(FaultPoint::ZeroingLate, visit);
            run(zeroing);
        }
        // All threads end after their first rounds, or are never started.
        for point in [FaultPoint::ZeroingThread, FaultPoint::StartWorker] {
            faults::arm(point, 1);
            let by_mutators = run(zeroing);
            if zeroing == Zeroing::Concurrent {
                assert!(by_mutators > 1 << 20, "{by_mutators} bytes, {point:?}");
            }
            faults::arm(point, 0);
        }
    }
}
