//! Fresh memory is zero (I2) under every design of zeroing, in reused memory of every size, whichever thread zeroes it;
//! and programs come to the same under all of them.

use crate::programs::{Program, Types};
use crate::random::{Rng, at_length};
use gleaner::{
    Builder, Elements, Generations, Heap, OutOfMemory, References, Scope, Structure, Zeroing,
};

const DESIGNS: [Zeroing; 9] = [
    Zeroing::HotPath,
    Zeroing::Bulk,
    Zeroing::NonTemporal,
    Zeroing::Window,
    Zeroing::Concurrent,
    Zeroing::ConcurrentStatic,
    Zeroing::ConcurrentRacing,
    Zeroing::Adaptive,
    Zeroing::Auto,
];

/// Allocates arrays and objects of all sizes, looks for anything but zeros, writes all over them and lets most of them
/// die.
fn look_for_dirt(scope: &mut Scope<'_>, heap: &Heap, seed: u64, steps: usize) {
    let numbers = heap.array(Elements::Doubles).unwrap();
    let pair = heap
        .structure(Structure {
            references: 2,
            bytes: 24,
        })
        .unwrap();
    let mut random = Rng::new(seed);
    let kept = scope.null();
    for step in 0..steps {
        let look = |scope: &mut Scope<'_>| -> Result<(), OutOfMemory> {
            let one = scope.allocate(pair)?;
            assert_eq!(scope.read_u64(one, 0), 0, "step {step}");
            assert_eq!(scope.read_u64(one, 2), 0, "step {step}");
            for slot in 0..2 {
                let value = scope.get(one, slot);
                assert!(scope.is_null(value), "step {step}");
            }
            (0..3).for_each(|index| scope.write_u64(one, index, u64::MAX).unwrap());
            // Now and then one that takes several blocks, or has pages of its own.
            let most = [4, 40, 400, 2000, 5000][random.below(5)];
            let length = random.below(most);
            let array = scope.allocate_array(numbers, length as u32)?;
            for index in 0..length {
                assert_eq!(
                    scope.read_u64(array, index),
                    0,
                    "step {step}: {index} of {length}"
                );
                scope.write_u64(array, index, u64::MAX).unwrap();
            }
            if step % 7 == 0 {
                scope.set(one, 0, array).unwrap();
                scope.assign(kept, one);
            }
            Ok(())
        };
        scope.nested(look).expect("there is room");
    }
}

fn builder(zeroing: Zeroing) -> Builder {
    Heap::builder()
        .zeroing(zeroing)
        .limit(6 << 20)
        .workers(2)
        .crew(gleaner::Crew::All)
        .poison(true)
}

fn run_mutators(heap: &Heap, mutators: u64, steps: usize) {
    std::thread::scope(|threads| {
        for seed in 0..mutators {
            threads.spawn(move || {
                let mut mutator = heap.attach().unwrap();
                mutator.scope(|scope| look_for_dirt(scope, heap, seed, steps));
            });
        }
    });
}

#[test]
fn fresh_memory_is_zero_under_every_design() {
    for zeroing in DESIGNS {
        for references in [References::Wide, References::Compressed] {
            for tlab in [64, 4 << 10, 32 << 10, 100_000] {
                let heap = builder(zeroing)
                    .references(references)
                    .tlab(tlab)
                    .build()
                    .unwrap();
                run_mutators(&heap, 1, 3000);
                let totals = heap.totals();
                assert!(totals.scavenges + totals.full_collections > 3, "{totals:?}");
                // Where each object is zeroed by itself, only large ones are counted.
                let each = [Zeroing::HotPath, Zeroing::Auto].contains(&zeroing);
                let zeroed = totals.zeroed.bytes + totals.zeroed.ahead_bytes;
                assert!(each || zeroed > 3 << 20, "{zeroing:?}: {totals:?}");
                assert!(
                    zeroed == 0 || totals.zeroed.time > 0,
                    "{zeroing:?}: {totals:?}"
                );
            }
        }
    }
}

/// What lives fills the old generation and much of eden, at an odd end, then dies; eden shrinks and grows, and memory
/// that nobody wrote to since the system gave it is told from such that was used. Nothing is poisoned here: all of eden
/// would count as used.
#[test]
fn memory_that_was_given_back_is_told_from_memory_that_was_not() {
    let each = [Generations::Never, Generations::Auto, Generations::Always];
    for (number, zeroing) in DESIGNS.into_iter().enumerate() {
        for &generations in at_length(&each[number % 3..=number % 3], &each) {
            let heap = builder(zeroing)
                .generations(generations)
                .poison(false)
                .limit(16 << 20)
                .tlab(4 << 10)
                .build()
                .unwrap();
            let numbers = heap.array(Elements::Doubles).unwrap();
            let cell = heap
                .structure(Structure {
                    references: 2,
                    bytes: 0,
                })
                .unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let mut random = Rng::new(31);
                for round in 0..12 {
                    let list = scope.null();
                    let bytes = [9_123_456, 300_000, 11_500_000, 5_000_000][round % 4];
                    let mut taken = 0;
                    while taken < bytes {
                        let length = random.below(200);
                        taken += 40 + length * 8;
                        scope.nested(|scope| {
                            let array = scope.allocate_array(numbers, length as u32).unwrap();
                            for index in 0..length {
                                assert_eq!(scope.read_u64(array, index), 0, "{zeroing:?}");
                                scope.write_u64(array, index, u64::MAX).unwrap();
                            }
                            let one = scope.allocate(cell).unwrap();
                            scope.set(one, 0, array).unwrap();
                            scope.set(one, 1, list).unwrap();
                            scope.assign(list, one);
                        });
                    }
                    let nothing = scope.null();
                    scope.assign(list, nothing);
                    look_for_dirt(scope, &heap, round as u64, 2000);
                }
            });
        }
    }
}

#[test]
fn also_with_more_mutators_than_processors() {
    for zeroing in DESIGNS {
        for option in [
            "",
            "zeroing-lead=256k",
            "zeroing-window=64,zeroing-threads=5",
        ] {
            let heap = builder(zeroing).options(option).unwrap().build().unwrap();
            run_mutators(&heap, 8, 400);
            assert!(heap.totals().scavenges > 3, "{:?}", heap.totals());
        }
    }
}

#[test]
fn with_every_kernel_that_blocks_are_zeroed_with() {
    for kernel in [
        "memset",
        "immediate",
        "string",
        "vector",
        "movnti",
        "movntdq",
        "wide-non-temporal",
        "line-zero",
    ] {
        for zeroing in [Zeroing::Bulk, Zeroing::Window, Zeroing::Concurrent] {
            let options = format!("zeroing-kernel={kernel}");
            let heap = builder(zeroing).options(&options).unwrap().build().unwrap();
            run_mutators(&heap, 2, 600);
        }
    }
}

#[test]
fn programs_come_to_the_same_under_every_design() {
    for zeroing in DESIGNS {
        for (references, tlab) in [
            (References::Wide, 64),
            (References::Compressed, 4 << 10),
            (References::Wide, 32 << 10),
        ] {
            for seed in 0..at_length(1, 3) {
                let heap = builder(zeroing)
                    .references(references)
                    .tlab(tlab)
                    .limit(12 << 20)
                    .young(1 << 20)
                    .verify(true)
                    .build()
                    .unwrap();
                let types = Types::register(&heap);
                let mut mutator = heap.attach().unwrap();
                let outcome = Program::new(seed, 24).run(&mut mutator, types, 4000);
                assert_eq!(outcome.failed, 0, "{zeroing:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn programs_come_to_the_same_with_a_collection_at_every_allocation() {
    for zeroing in DESIGNS {
        let heap = builder(zeroing).stress(1).verify(true).build().unwrap();
        let types = Types::register(&heap);
        let mut mutator = heap.attach().unwrap();
        let outcome = Program::new(77, 24).run(&mut mutator, types, 400);
        assert_eq!(outcome.failed, 0, "{zeroing:?}");
    }
}

#[test]
fn a_zeroing_thread_keeps_ahead_and_is_told_of_each_collection() {
    let heap = builder(Zeroing::Concurrent).build().unwrap();
    let mut mutator = heap.attach().unwrap();
    // It may be slow to start; each collection is another chance.
    for round in 0..10_000 {
        mutator.scope(|scope| look_for_dirt(scope, &heap, round, 200));
        if mutator.totals().zeroed.ahead_bytes > 8 << 20 {
            return;
        }
        mutator.blocking(std::thread::yield_now);
    }
    panic!("{:?}", mutator.totals());
}
