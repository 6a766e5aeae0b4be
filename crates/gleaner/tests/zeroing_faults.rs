//! Zeroing threads that are held up, end, or are never started cost time and nothing else.
//!
//! A claim is never lost. A zeroing thread holds one only while it zeroes one block: it sleeps, ends and leaves the
//! round between blocks. If it panics with a claim, unwinding gives the claim up (`who_panics_with_a_piece_gives_it_up`
//! in `gleaner_work::claims`), and the point `zeroing-late` gives one up by the same path. Anything else that ends the
//! thread there ends the process.
//!
//! The points belong to the process, so the tests take turns. How many visits of `zeroing-thread` are left tells how
//! often threads came to the end of a round: where a test waits for that, a lost wake-up shows as a hang.

use std::sync::{Barrier, Mutex, MutexGuard};

use gleaner::{Array, Elements, Heap, Mutator, Totals, Zeroing};
use gleaner_base::faults::{self, FaultPoint};
use gleaner_os::topology::Topology;

const CONCURRENT: [Zeroing; 3] = [
    Zeroing::Concurrent,
    Zeroing::ConcurrentStatic,
    Zeroing::ConcurrentRacing,
];

static TURN: Mutex<()> = Mutex::new(());

/// A point that is disarmed in the end, and the test's turn.
struct Points(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Points {
    fn new() -> Points {
        Points(TURN.lock().unwrap_or_else(|broken| broken.into_inner()))
    }
}

impl Drop for Points {
    fn drop(&mut self) {
        for point in FaultPoint::ALL {
            faults::arm(point, 0);
        }
    }
}

fn heap(zeroing: Zeroing, threads: u32) -> Heap {
    Heap::builder()
        .zeroing(zeroing)
        .options(&format!("zeroing-threads={threads}"))
        .unwrap()
        .resize(false)
        .young(2 << 20)
        .limit(8 << 20)
        .workers(1)
        .poison(true)
        .build()
        .unwrap()
}

fn threads_of(zeroing: Zeroing) -> u32 {
    match zeroing {
        Zeroing::Concurrent => 1,
        _ => 3,
    }
}

/// Allocates so many arrays of 816 bytes, and looks for anything but zeros in them.
fn allocate(mutator: &mut Mutator, numbers: Array, count: usize) {
    for step in 0..count {
        mutator.scope(|scope| {
            let array = scope.allocate_array(numbers, 100).unwrap();
            for index in 0..100 {
                assert_eq!(scope.read_u64(array, index), 0, "step {step}");
                scope.write_u64(array, index, u64::MAX).unwrap();
            }
        });
    }
}

/// What there was up to now, all of it.
fn totals(mutator: &mut Mutator) -> Totals {
    mutator.collect(false);
    mutator.totals()
}

/// Waits until zeroing threads have come to the end of their rounds so often that so many visits are left.
fn wait_for_visits(mutator: &mut Mutator, left: u32) {
    while faults::left(FaultPoint::ZeroingThread) != left {
        mutator.blocking(std::thread::yield_now);
    }
}

/// A collection, and the round after it: each of the zeroing threads has come to its end, as it had to that of each
/// round before. `zeroing-thread` is armed with a visit that is never reached.
fn totals_after_round(mutator: &mut Mutator, threads: u32) -> Totals {
    let left = faults::left(FaultPoint::ZeroingThread) - threads;
    mutator.collect(false);
    wait_for_visits(mutator, left);
    mutator.totals()
}

#[test]
fn mutators_zero_everything_when_all_threads_have_ended() {
    let _points = Points::new();
    for zeroing in CONCURRENT {
        let heap = heap(zeroing, threads_of(zeroing));
        let numbers = heap.array(Elements::Doubles).unwrap();
        let mut mutator = heap.attach().unwrap();
        allocate(&mut mutator, numbers, 10_000);
        // One that has ended does not come to the point again: so many visits, so many threads.
        for _ in 0..threads_of(zeroing) {
            faults::arm(FaultPoint::ZeroingThread, 1);
            while faults::left(FaultPoint::ZeroingThread) > 0 {
                allocate(&mut mutator, numbers, 1000);
                mutator.blocking(std::thread::yield_now);
            }
        }
        // It is armed for ever, and nobody is left to come to it.
        faults::arm(FaultPoint::ZeroingThread, 1);
        let before = totals(&mut mutator);
        allocate(&mut mutator, numbers, 20_000);
        let after = totals(&mut mutator);
        assert_eq!(faults::left(FaultPoint::ZeroingThread), 1, "{zeroing:?}");
        assert!(before.zeroed.ahead_bytes > 0, "{zeroing:?}: {before:?}");
        assert_eq!(
            before.zeroed.ahead_bytes, after.zeroed.ahead_bytes,
            "{zeroing:?}"
        );
        let own = after.zeroed.bytes - before.zeroed.bytes;
        assert!(own >= 20_000 * 816, "{zeroing:?}: {own} bytes");
        faults::arm(FaultPoint::ZeroingThread, 0);
    }
}

#[test]
fn those_that_are_left_go_on_when_one_ends_or_is_not_started() {
    let _points = Points::new();
    for zeroing in CONCURRENT {
        for not_started in 1..=threads_of(zeroing) {
            faults::arm(FaultPoint::StartWorker, not_started);
            let heap = heap(zeroing, threads_of(zeroing));
            assert_eq!(faults::left(FaultPoint::StartWorker), 0, "{zeroing:?}");
            let numbers = heap.array(Elements::Doubles).unwrap();
            let mut mutator = heap.attach().unwrap();
            // None is started after the one that is not.
            let mut started = not_started - 1;
            while started > 0 {
                let before = totals(&mut mutator).zeroed.ahead_bytes;
                while totals(&mut mutator).zeroed.ahead_bytes == before {
                    allocate(&mut mutator, numbers, 1000);
                    mutator.blocking(std::thread::yield_now);
                }
                faults::arm(FaultPoint::ZeroingThread, 1);
                while faults::left(FaultPoint::ZeroingThread) > 0 {
                    allocate(&mut mutator, numbers, 1000);
                    mutator.blocking(std::thread::yield_now);
                }
                started -= 1;
            }
            let before = totals(&mut mutator).zeroed;
            allocate(&mut mutator, numbers, 10_000);
            let after = totals(&mut mutator).zeroed;
            assert_eq!(before.ahead_bytes, after.ahead_bytes, "{zeroing:?}");
            assert!(after.bytes - before.bytes >= 10_000 * 816, "{zeroing:?}");
        }
    }
}

/// One zeroing thread does a whole round before the mutator allocates: the mutator finds all of it zeroed, but for the
/// one block that the thread gave up.
#[test]
fn a_block_that_is_given_up_is_zeroed_by_the_mutator_that_needs_it() {
    let _points = Points::new();
    const BLOCK: u64 = 32 << 10;
    for zeroing in CONCURRENT {
        faults::arm(FaultPoint::ZeroingThread, u32::MAX);
        let heap = heap(zeroing, 1);
        let numbers = heap.array(Elements::Doubles).unwrap();
        let mut mutator = heap.attach().unwrap();
        for late in [0, 1, 2, 7, 0, 20] {
            faults::arm(FaultPoint::ZeroingLate, late);
            let before = totals_after_round(&mut mutator, 1);
            assert_eq!(faults::left(FaultPoint::ZeroingLate), 0, "{zeroing:?}");
            // Most of eden, and no collection.
            allocate(&mut mutator, numbers, 1500);
            let after = totals_after_round(&mut mutator, 1);
            assert_eq!(after.scavenges, before.scavenges + 1, "{zeroing:?}");
            let (stalls, own) = (
                after.zeroed.stalls - before.zeroed.stalls,
                after.zeroed.bytes - before.zeroed.bytes,
            );
            let expected = if late > 0 { (1, BLOCK) } else { (0, 0) };
            assert_eq!((stalls, own), expected, "{zeroing:?}, visit {late}");
        }
    }
}

/// The mutator comes to the block while the thread sleeps on its claim, or has just given it up.
#[test]
fn mutators_wait_for_a_thread_that_is_late_with_a_block() {
    let _points = Points::new();
    for zeroing in CONCURRENT {
        let threads = threads_of(zeroing);
        faults::arm(FaultPoint::ZeroingThread, u32::MAX);
        let heap = heap(zeroing, threads);
        let numbers = heap.array(Elements::Doubles).unwrap();
        let mut mutator = heap.attach().unwrap();
        for visit in [1, 2, 10] {
            let before = totals_after_round(&mut mutator, threads).zeroed;
            let left = faults::left(FaultPoint::ZeroingThread) - threads;
            faults::arm(FaultPoint::ZeroingLate, visit);
            mutator.collect(false);
            while faults::left(FaultPoint::ZeroingLate) > 0 {
                mutator.blocking(std::thread::yield_now);
            }
            // Most of eden, and no collection.
            allocate(&mut mutator, numbers, 1500);
            wait_for_visits(&mut mutator, left);
            let after = totals_after_round(&mut mutator, threads).zeroed;
            assert!(
                after.stalls > before.stalls && after.stalled_time > before.stalled_time,
                "{zeroing:?}, visit {visit}: {after:?}"
            );
            assert!(after.bytes > before.bytes, "{zeroing:?}: {after:?}");
        }
    }
}

/// A zeroing thread is held up on a block in the middle of eden, inside the gate; a collection waits for it, and in the
/// next nursery mutators zero for themselves. What they write then stays, since the thread goes no further in a round that
/// is over.
#[test]
fn a_round_that_is_over_is_not_gone_on_with() {
    const EDEN: usize = 12 << 20;
    const LENGTH: u32 = 1000;
    let processors = Topology::host().processors;
    if processors == 1 {
        println!("skipped: with one processor no thread zeroes under zeroing=adaptive");
        return;
    }
    let _points = Points::new();
    let heap = Heap::builder()
        .zeroing(Zeroing::Adaptive)
        .resize(false)
        .young(EDEN)
        .limit(64 << 20)
        .workers(1)
        .poison(true)
        .build()
        .unwrap();
    let numbers = heap.array(Elements::Doubles).unwrap();
    let list = heap.reference_array().unwrap();
    let barrier = Barrier::new(processors);
    let arrays = EDEN / 2 / processors / (LENGTH as usize * 8);
    let turn = |mutator: &mut Mutator, index: usize| {
        let wait = |mutator: &mut Mutator| {
            mutator.blocking(|| barrier.wait());
        };
        // One mutator allocates in a nursery, so a thread zeroes the next one. It comes as far as the 50th block.
        if index == 0 {
            mutator.collect(false);
            allocate(mutator, numbers, 1);
            faults::arm(FaultPoint::ZeroingLate, 50);
            mutator.collect(false);
            while faults::left(FaultPoint::ZeroingLate) > 0 {
                mutator.blocking(std::thread::yield_now);
            }
        }
        wait(mutator);
        // All allocate, so they zero the next one.
        allocate(mutator, numbers, 1);
        wait(mutator);
        if index == 0 {
            mutator.collect(false);
            // No thread has come to a block since then, nor does one as long as this nursery lasts.
            faults::arm(FaultPoint::ZeroingLate, 1);
        }
        wait(mutator);
        mutator.scope(|scope| {
            let list = scope.allocate_references(list, arrays as u32).unwrap();
            for number in 0..arrays {
                scope.nested(|scope| {
                    let array = scope.allocate_array(numbers, LENGTH).unwrap();
                    for index in 0..LENGTH as usize {
                        assert_eq!(scope.read_u64(array, index), 0);
                        scope.write_u64(array, index, number as u64 + 1).unwrap();
                    }
                    scope.set(list, number, array).unwrap();
                });
            }
            for number in 0..arrays {
                scope.nested(|scope| {
                    let array = scope.get(list, number);
                    for index in 0..LENGTH as usize {
                        let found = scope.read_u64(array, index);
                        assert_eq!(found, number as u64 + 1, "{index} of array {number}");
                    }
                });
            }
        });
        wait(mutator);
        if index == 0 {
            assert_eq!(faults::left(FaultPoint::ZeroingLate), 1);
        }
        wait(mutator);
    };
    std::thread::scope(|scope| {
        for index in 0..processors {
            let (heap, turn) = (&heap, &turn);
            scope.spawn(move || {
                let mut mutator = heap.attach().unwrap();
                for _ in 0..10 {
                    turn(&mut mutator, index);
                }
            });
        }
    });
}
