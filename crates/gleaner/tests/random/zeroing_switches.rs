//! `zeroing=auto` and `zeroing=adaptive` change the design from one nursery to the next: several are really used, fresh
//! memory reads as zero (I2) and what lives stays as it was through all of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier, Mutex};

use crate::random::Rng;
use gleaner::{
    Array, Builder, Elements, Event, Heap, Local, Mutator, Phase, ReferenceArray, References,
    Scope, Structure, Type, Zeroing,
};
use gleaner_os::topology::Topology;

fn builder(zeroing: Zeroing, references: References) -> Builder {
    Heap::builder()
        .zeroing(zeroing)
        .references(references)
        .resize(false)
        .young(1 << 20)
        .limit(8 << 20)
        .workers(2)
        .crew(gleaner::Crew::All)
        .verify(true)
        .poison(true)
}

/// What the heap says about zeroing after each collection from now on.
fn listen(heap: &Heap) -> Arc<Mutex<Vec<Event>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = events.clone();
    heap.add_listener(move |event| {
        if event.phase == Phase::Zeroing {
            told.lock().unwrap().push(*event);
        }
    });
    events
}

#[derive(Clone, Copy)]
struct Types {
    list: ReferenceArray,
    node: Type,
    numbers: Array,
}

impl Types {
    fn register(heap: &Heap) -> Types {
        let shape = Structure {
            references: 2,
            bytes: 8,
        };
        Types {
            list: heap.reference_array().unwrap(),
            node: heap.structure(shape).unwrap(),
            numbers: heap.array(Elements::Doubles).unwrap(),
        }
    }
}

/// A table of nodes with an array each; each step makes a new one, which refers to another. The oracle knows of each
/// place its number and which it refers to.
struct Table<'s> {
    list: Local<'s>,
    known: Vec<Option<(u64, Option<u64>)>>,
    random: Rng,
    types: Types,
}

const PLACES: usize = 300;

impl<'s> Table<'s> {
    fn new(scope: &mut Scope<'s>, types: Types, seed: u64) -> Table<'s> {
        Table {
            list: scope
                .allocate_references(types.list, PLACES as u32)
                .unwrap(),
            known: vec![None; PLACES],
            random: Rng::new(seed),
            types,
        }
    }

    /// An array whose elements were 0, and are all `number` now.
    fn array<'t>(&mut self, scope: &mut Scope<'t>, number: u64) -> Local<'t> {
        let length = self.random.below(200);
        let array = scope
            .allocate_array(self.types.numbers, length as u32)
            .unwrap();
        for index in 0..length {
            assert_eq!(scope.read_u64(array, index), 0, "{index} of {length}");
            scope.write_u64(array, index, number).unwrap();
        }
        array
    }

    fn step(&mut self, scope: &mut Scope<'_>) {
        let number = self.random.next();
        let (place, other) = (self.random.below(PLACES), self.random.below(PLACES));
        scope.nested(|scope| {
            // Most die at once.
            for _ in 0..self.random.below(8) {
                self.array(scope, u64::MAX);
            }
            let node = scope.allocate(self.types.node).unwrap();
            assert_eq!(scope.read_u64(node, 0), 0);
            for slot in 0..2 {
                let value = scope.get(node, slot);
                assert!(scope.is_null(value));
            }
            scope.write_u64(node, 0, number).unwrap();
            let array = self.array(scope, number);
            scope.set(node, 0, array).unwrap();
            // Only what was there before: no chain grows.
            let to = scope.get(self.list, other);
            if !scope.is_null(to) {
                let array = scope.get(to, 0);
                scope.set(node, 1, array).unwrap();
            }
            scope.set(self.list, place, node).unwrap();
        });
        let other = self.known[other].map(|(number, _)| number);
        self.known[place] = Some((number, other));
    }

    fn check(&self, scope: &mut Scope<'_>) {
        for (place, known) in self.known.iter().enumerate() {
            scope.nested(|scope| {
                let node = scope.get(self.list, place);
                let Some((number, other)) = *known else {
                    return assert!(scope.is_null(node));
                };
                assert_eq!(scope.read_u64(node, 0), number);
                for (slot, expected) in [(0, Some(number)), (1, other)] {
                    let array = scope.get(node, slot);
                    let Some(expected) = expected else {
                        assert!(scope.is_null(array));
                        continue;
                    };
                    for index in 0..scope.length(array) as usize {
                        assert_eq!(scope.read_u64(array, index), expected);
                    }
                }
            });
        }
    }
}

#[test]
fn auto_tries_designs_and_memory_is_zero_under_each() {
    for references in [References::Wide, References::Compressed] {
        let heap = builder(Zeroing::Auto, references).build().unwrap();
        let types = Types::register(&heap);
        let events = listen(&heap);
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let mut table = Table::new(scope, types, 5);
            for step in 0.. {
                table.step(scope);
                if step % 1000 == 0 {
                    table.check(scope);
                    // Each design is tried within the first ten nurseries, and again after 128 at the latest.
                    if events.lock().unwrap().len() >= 300 {
                        break;
                    }
                }
            }
            table.check(scope);
        });
        let events = events.lock().unwrap();
        // Each object is zeroed by its allocation, at first, and that is not counted.
        let first = events
            .iter()
            .position(|event| event.reason.ends_with(": a trial"))
            .unwrap();
        assert!(first < 20, "{first}");
        assert!(events[..=first].iter().all(|event| event.bytes == 0));
        // What an event counts is what mutators zeroed in the nursery before it.
        let tried: BTreeSet<&str> = events
            .windows(2)
            .filter(|pair| pair[1].bytes > 256 << 10)
            .filter_map(|pair| pair[0].reason.strip_suffix(": a trial"))
            .collect();
        assert!(
            ["window", "bulk"].iter().all(|one| tried.contains(one)),
            "{tried:?}"
        );
    }
}

/// Allocates until the zeroing thread has zeroed something, too.
fn alone(mutator: &mut Mutator, types: Types, seed: u64) {
    let before = mutator.totals().zeroed.ahead_bytes;
    mutator.scope(|scope| {
        let mut table = Table::new(scope, types, seed);
        for _ in 0..5000 {
            table.step(scope);
        }
        table.check(scope);
    });
    while Topology::host().processors > 1 && mutator.totals().zeroed.ahead_bytes == before {
        mutator.scope(|scope| {
            let mut table = Table::new(scope, types, seed);
            for _ in 0..1000 {
                table.step(scope);
            }
            table.check(scope);
        });
        mutator.blocking(std::thread::yield_now);
    }
}

/// All of them allocate in each nursery: they wait for each other far more often than eden is full.
fn together(heap: &Heap, types: Types, mutators: usize) {
    let barrier = Barrier::new(mutators);
    std::thread::scope(|threads| {
        for seed in 0..mutators as u64 {
            let barrier = &barrier;
            threads.spawn(move || {
                let mut mutator = heap.attach().unwrap();
                for round in 0..100 {
                    mutator.scope(|scope| {
                        let mut table = Table::new(scope, types, seed * 100 + round);
                        for _ in 0..10 {
                            table.step(scope);
                        }
                        table.check(scope);
                    });
                    mutator.blocking(|| barrier.wait());
                }
            });
        }
    });
}

#[test]
fn adaptive_follows_the_number_of_mutators_up_and_down() {
    const FEWER: &str = "concurrent: fewer mutators than processors";
    const AS_MANY: &str = "non-temporal: as many mutators as processors";
    let processors = Topology::host().processors;
    for references in [References::Wide, References::Compressed] {
        let heap = builder(Zeroing::Adaptive, references).build().unwrap();
        let types = Types::register(&heap);
        let events = listen(&heap);
        for round in 0..3 {
            let reasons = || {
                let taken = std::mem::take(&mut *events.lock().unwrap());
                taken.into_iter().map(|event| event.reason)
            };
            let mut mutator = heap.attach().unwrap();
            alone(&mut mutator, types, round);
            drop(mutator);
            let expected = if processors > 1 { FEWER } else { AS_MANY };
            let found: Vec<&str> = reasons().collect();
            assert!(found.len() > 5, "{} collections", found.len());
            // The first may still count those that allocated together.
            assert!(
                found[1..].iter().all(|&reason| reason == expected),
                "{found:?}"
            );
            together(&heap, types, processors + 3);
            let found: Vec<&str> = reasons().collect();
            assert!(found.len() > 5, "{} collections", found.len());
            // The first nursery was begun by one alone.
            assert!(
                found[1..].iter().all(|&reason| reason == AS_MANY),
                "{found:?}"
            );
        }
    }
}
