//! Whether the young generation is collected by itself (`generations`): what lives is the same whatever is decided, and
//! `auto` decides by what the program does.

use crate::finalized::{finalize, next_finalized};
use crate::random::Rng;
use crate::setups::checked_under;
use gleaner::{Generations, Heap, NurseryPolicy, OldPolicy, References, Scope, Structure, Totals};

const LIVE: usize = 20_000;

/// How the old space is collected, and where new objects lie.
type Spaces = (OldPolicy, NurseryPolicy);

/// Replaces objects at random so that each lives long, then makes such as die at once. Totals after each part.
fn run(generations: Generations, references: References, (old, nursery): Spaces) -> [Totals; 2] {
    let heap = checked_under((references, old), 3 << 20)
        .nursery(nursery)
        .generations(generations)
        .build()
        .unwrap();
    let shape = Structure {
        references: 1,
        bytes: 8,
    };
    let node = heap.structure(shape).unwrap();
    let slots = heap.reference_array().unwrap();
    let mut mutator = heap.attach().unwrap();
    let mut expected = vec![0u64; LIVE];
    let mut random = Rng::new(7);
    let array = mutator.scope(|scope| {
        let array = scope.allocate_references(slots, LIVE as u32).unwrap();
        scope.handle(array).unwrap()
    });
    let mut put = |scope: &mut Scope<'_>, index: usize, number: u64| {
        let array = scope.open(&array);
        let one = scope.allocate(node).unwrap();
        scope.write_u64(one, 0, number).unwrap();
        scope.set(array, index, one).unwrap();
        expected[index] = number;
    };
    for number in 0..LIVE * 80 {
        let index = match number {
            0..LIVE => number,
            _ => random.below(LIVE),
        };
        mutator.scope(|scope| put(scope, index, number as u64));
    }
    let long_lived = mutator.totals();
    for number in 0..LIVE * 80 {
        mutator.scope(|scope| put(scope, number % 10, number as u64));
    }
    mutator.scope(|scope| {
        let array = scope.open(&array);
        let one = scope.null();
        for (index, &number) in expected.iter().enumerate() {
            scope.load(array, index, one);
            assert_eq!(scope.read_u64(one, 0), number);
        }
    });
    [long_lived, mutator.totals()]
}

#[test]
fn what_lives_is_the_same_whatever_is_collected() {
    for references in [References::Wide, References::Compressed] {
        for old in [
            OldPolicy::MarkCompact,
            OldPolicy::MarkSweep,
            OldPolicy::MarkRegion,
        ] {
            let old = (old, NurseryPolicy::Copying);
            let [_, never] = run(Generations::Never, references, old);
            assert_eq!(never.scavenges, 0, "{old:?} {references:?}");
            let [_, always] = run(Generations::Always, references, old);
            assert!(always.scavenges > 3 * always.full_collections, "{always:?}");
        }
    }
}

#[test]
fn scavenges_are_left_out_while_most_survives_and_come_back() {
    let spaces = [
        (OldPolicy::MarkCompact, NurseryPolicy::Copying),
        (OldPolicy::MarkRegion, NurseryPolicy::Copying),
        (OldPolicy::MarkRegion, NurseryPolicy::InPlace),
    ];
    for references in [References::Wide, References::Compressed] {
        for spaces in spaces {
            let [always, _] = run(Generations::Always, references, spaces);
            let [before, after] = run(Generations::Auto, references, spaces);
            let shows = format!("{spaces:?} {always:?} {before:?} {after:?}");
            // How often, and for how long, depends on what the machine is busy with: times are compared.
            assert!(before.scavenges < always.scavenges, "{shows}");
            let (full, scavenges) = (
                after.full_collections - before.full_collections,
                after.scavenges - before.scavenges,
            );
            // In place both cost little here, and which costs less changes with what the machine is busy with.
            match spaces.1 {
                NurseryPolicy::InPlace => assert!(scavenges > 0, "{shows}"),
                _ => assert!(scavenges > 2 * full, "{shows}"),
            }
        }
    }
}

/// Where everything is collected each time, eden would take all that nothing lives in; and then all of it may wait for
/// its finalizers.
#[test]
fn objects_that_wait_for_finalizers_leave_room_to_allocate() {
    const MOST: usize = 10_000;
    for references in [References::Wide, References::Compressed] {
        for generations in [Generations::Never, Generations::Auto] {
            let heap = Heap::builder()
                .limit(2 << 20)
                .references(references)
                .generations(generations)
                .verify(true)
                .build()
                .unwrap();
            let node = heap
                .structure(Structure {
                    references: 1,
                    bytes: 8,
                })
                .unwrap();
            let slots = heap.reference_array().unwrap();
            let mut mutator = heap.attach().unwrap();
            let table = mutator.scope(|scope| {
                let table = scope.allocate_references(slots, MOST as u32).unwrap();
                scope.handle(table).unwrap()
            });
            let (mut taken, steps) = (0, 40 * MOST);
            for number in 0..steps {
                mutator.scope(|scope| {
                    let table = scope.open(&table);
                    let one = scope.allocate(node).unwrap();
                    finalize(scope, one);
                    scope.set(table, number % MOST, one).unwrap();
                });
                if number % 1000 == 0 {
                    mutator.scope(|scope| {
                        while next_finalized(scope).is_some() {
                            taken += 1;
                        }
                    });
                }
            }
            let full = mutator.totals().full_collections;
            assert!(taken > steps / 2 && full > 3, "{taken} taken, {full} full");
        }
    }
}
