//! Quarantine: correct programs run as without it, where the young generation was is used again late, and mistakes end
//! the process by name. tests/capi/quarantine.c has them all, as an embedder in C makes them. And what poison
//! leaves where there is no quarantine.

use crate::again::path;
use std::process::Command;

use crate::programs::{Program, Types};
use crate::setups::{SETUPS, Setup, checked_under};
use gleaner::raw::{Address, Fresh, NewObject, Shape, TypeId, Value};
use gleaner::{Builder, Heap, Mutator};

fn builder(setup: Setup, quarantine: u32) -> Builder {
    checked_under(setup, 8 << 20)
        .young(1 << 20)
        .quarantine(quarantine)
}

#[test]
fn programs_run_as_without_it() {
    for (seed, setup) in SETUPS.into_iter().enumerate() {
        for options in [
            "zeroing=hot-path",
            "zeroing=window,generations=never",
            "zeroing=concurrent,tenure=4",
            "zeroing=bulk,resize=off",
        ] {
            for (quarantine, stress) in [(1, 3), (5, 50), (64, 0)] {
                let heap = builder(setup, quarantine).stress(stress);
                let heap = heap.options(options).unwrap().build().unwrap();
                let types = Types::register(&heap);
                let mut mutator = heap.attach().unwrap();
                let program = Program::new(700 + seed as u64, 24);
                assert_eq!(program.run(&mut mutator, types, 400).failed, 0);
                mutator.collect(true);
            }
        }
    }
}

#[test]
fn several_mutators_are_checked() {
    for setup in SETUPS {
        let heap = builder(setup, 4).stress(20).build().unwrap();
        let types = Types::register(&heap);
        std::thread::scope(|threads| {
            for seed in 0..4 {
                let heap = &heap;
                threads.spawn(move || {
                    let mut mutator = heap.attach().unwrap();
                    let program = Program::new(800 + seed, 24);
                    assert_eq!(program.run(&mut mutator, types, 500).failed, 0);
                });
            }
        });
    }
}

fn pair(heap: &Heap) -> TypeId {
    let shape = Shape::Structure {
        bytes: 24,
        references: &[8],
    };
    heap.register_raw(shape).unwrap()
}

fn fresh(mutator: &mut Mutator, of: TypeId) -> Address {
    // SAFETY: instances have so many bytes.
    unsafe { mutator.allocate_raw(NewObject::structure(of, 24), Fresh::Zeroed) }.unwrap()
}

#[test]
fn addresses_are_used_again_after_as_many_collections() {
    for setup in SETUPS {
        for quarantine in [0, 1, 7] {
            let heap = builder(setup, quarantine).build().unwrap();
            let pair = pair(&heap);
            let mut mutator = heap.attach().unwrap();
            let places: Vec<Address> = (0..40)
                .map(|number| {
                    let place = fresh(&mut mutator, pair);
                    mutator.collect(number % 3 == 2);
                    place
                })
                .collect();
            let turns = quarantine as usize + 1;
            for window in places.windows(turns + 1) {
                let (before, last) = window.split_at(turns);
                assert_eq!(before[0], last[0], "quarantine={quarantine}");
                assert!(!before[1..].contains(&last[0]), "quarantine={quarantine}");
            }
        }
    }
}

#[test]
fn poison_lies_where_an_object_was() {
    for setup in SETUPS {
        for everything in [false, true] {
            // Nobody zeroes what a collection has left before it is allocated.
            let heap = builder(setup, 0).resize(false).options("zeroing=hot-path");
            let heap = heap.unwrap().build().unwrap();
            let pair = pair(&heap);
            let mut mutator = heap.attach().unwrap();
            let dead = fresh(&mut mutator, pair);
            // SAFETY: nothing was allocated since.
            unsafe { mutator.store_raw(dead, 16, Value::immediate(5)) };
            mutator.collect(everything);
            for offset in [0, 8, 16] {
                // SAFETY: the young generation stays where it is, and is mapped.
                let found = unsafe { dead.add(offset).load() };
                assert_eq!(found, 0xdead_dead_dead_dead, "{setup:?}, offset {offset}");
            }
        }
    }
}

/// Runs a mistake in a process of its own, which is this test again; what it said before it died.
fn said(name: &str, mistake: impl FnOnce()) -> Option<String> {
    if std::env::var("GLEANER_MISTAKE").is_ok_and(|one| one == name) {
        mistake();
        return None;
    }
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &path(module_path!(), name), "--nocapture"])
        .env("GLEANER_MISTAKE", name)
        .output()
        .unwrap();
    assert!(!done.status.success(), "{name} was not noticed");
    Some(String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_stale_reference_faults_and_the_message_says_who_evacuated_it() {
    for setup in SETUPS {
        let text = said(
            "a_stale_reference_faults_and_the_message_says_who_evacuated_it",
            || {
                let heap = builder(setup, 4).stress(1).build().unwrap();
                let pair = pair(&heap);
                let mut mutator = heap.attach().unwrap();
                let stale = fresh(&mut mutator, pair);
                let _collects = fresh(&mut mutator, pair);
                // SAFETY: none: this is the mistake.
                unsafe { mutator.store_raw(stale, 8, Value::NULL) };
            },
        );
        let Some(text) = text else { return };
        for part in [
            "gleaner: a stale reference was used: address 0x",
            "eden was evacuated from there by collection 2 of 2",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
