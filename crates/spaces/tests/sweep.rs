//! Sweeping: from any pattern of marks, exactly the dead cells come back, in address order, cleared.
#![cfg(not(loom))]

mod support;

use std::collections::BTreeSet;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::block::BLOCK_BYTES;
use gleaner_spaces::mark_sweep::cache::Cache;
use gleaner_spaces::mark_sweep::kinds::{
    ATOMIC_UNCOLLECTABLE, Kind, NORMAL, PTRFREE, UNCOLLECTABLE, descriptor,
};
use gleaner_spaces::mark_sweep::reclaim::Ageing;
use gleaner_spaces::mark_sweep::settle::Waiting;
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, CLASSES};
use gleaner_spaces::mark_sweep::{FREE, MARKED, POISON, Stage, SweepMode, WHITE};
use proptest::prelude::*;
use support::Space;

const DIRT: usize = 0x5555_5555;

fn fill(object: Address, bytes: usize) {
    // SAFETY: the test's own object.
    (0..bytes)
        .step_by(8)
        .for_each(|offset| unsafe { object.add(offset).store(DIRT) });
}

fn words(object: Address, bytes: usize) -> Vec<usize> {
    // SAFETY: the test's own cell.
    (0..bytes)
        .step_by(8)
        .map(|offset| unsafe { object.add(offset).load() })
        .collect()
}

/// A list as a vector.
fn cells(mut cell: Address) -> Vec<Address> {
    let mut all = Vec::new();
    while !cell.is_null() {
        all.push(cell);
        // SAFETY: a listed cell links to the next in its first word.
        cell = unsafe { Address::new(cell.load()) };
    }
    all
}

/// Which of the cells are alive: all patterns from none to all, also in runs.
fn pattern() -> impl Strategy<Value = Vec<bool>> {
    let runs = prop::collection::vec((any::<bool>(), 1..40usize), 1..60);
    runs.prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(alive, length)| vec![alive; length])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_dead_cells_come_back_in_order_and_cleared(
        class in 0..CLASSES,
        kind in prop_oneof![Just(NORMAL), Just(PTRFREE), Just(UNCOLLECTABLE), Just(ATOMIC_UNCOLLECTABLE)],
        eager in any::<bool>(),
        poison in any::<bool>(),
        pattern in pattern(),
    ) {
        let mode = if eager { SweepMode::Eager } else { SweepMode::Lazy };
        let mut space = Space::new(mode, poison);
        let bytes = usize::from(CELL_BYTES[class]);
        let count = BLOCK_BYTES / bytes;
        let all: Vec<Address> = (0..count).map(|_| space.0.allocate_small(kind, class).unwrap()).collect();
        all.iter().for_each(|object| fill(*object, bytes));
        let alive = |number: usize| pattern.get(number).copied().unwrap_or(false);
        let (live, dead): (Vec<usize>, Vec<usize>) = (0..count).partition(|number| alive(*number));
        let uncollectable = kind == UNCOLLECTABLE || kind == ATOMIC_UNCOLLECTABLE;
        if uncollectable {
            dead.iter().for_each(|number| assert_eq!(space.0.free(all[*number]), Ok(bytes)));
        }
        space.collect(live.iter().map(|number| all[*number]));

        let census = space.0.census;
        prop_assert_eq!(census.objects, live.len());
        prop_assert_eq!(census.composite_bytes + census.atomic_bytes, live.len() * bytes);
        prop_assert_eq!(census.dead_bytes, dead.len() * bytes);
        for number in &live {
            prop_assert_eq!(space.mark_of(all[*number]), MARKED);
            prop_assert!(words(all[*number], bytes).iter().all(|word| *word == DIRT), "a live cell was touched");
        }
        let worth = dead.len() > count / 8 || uncollectable;
        if live.is_empty() || dead.is_empty() || !worth {
            let in_use = usize::from(!live.is_empty()) * BLOCK_BYTES;
            prop_assert_eq!(space.0.used_bytes(), in_use, "an empty block is free, a full one left alone");
            return Ok(());
        }
        let list = space.0.take_cells(kind, class).unwrap();
        let found = cells(list.head);
        prop_assert_eq!(&found, &dead.iter().map(|number| all[*number]).collect::<Vec<_>>());
        prop_assert_eq!((list.cells, list.bytes), (dead.len(), dead.len() * bytes));
        let clears = kind == NORMAL || kind == UNCOLLECTABLE;
        for cell in found {
            let expected = if uncollectable { FREE } else { WHITE };
            prop_assert_eq!(space.mark_of(cell), expected);
            let rest = &words(cell, bytes)[1..];
            if poison {
                prop_assert!(rest.iter().all(|word| *word == POISON));
            } else if clears {
                prop_assert!(rest.iter().all(|word| *word == 0));
            }
        }
        // The queue is empty now: the next cells come from a fresh block.
        let next = space.0.take_cells(kind, class).unwrap();
        prop_assert!(next.block != list.block && next.cells == count);
    }

    /// Several cycles of allocating and collecting never hand out a cell that is alive, whatever was swept when.
    #[test]
    fn no_live_cell_is_handed_out(
        class in 0..CLASSES,
        kind in prop_oneof![Just(NORMAL), Just(PTRFREE), Just(UNCOLLECTABLE)],
        eager in any::<bool>(),
        rounds in prop::collection::vec((1..400usize, 1..9usize), 1..8),
    ) {
        let mut space = Space::new(if eager { SweepMode::Eager } else { SweepMode::Lazy }, false);
        let mut live: BTreeSet<Address> = BTreeSet::new();
        for (allocations, keep) in rounds {
            for number in 0..allocations {
                let object = space.0.allocate_small(kind, class).unwrap();
                prop_assert!(live.insert(object), "{:?} is alive", object);
                if number % 7 == 3 {
                    let given_up = *live.first().unwrap();
                    live.remove(&given_up);
                    prop_assert!(space.0.free(given_up).is_ok());
                }
            }
            let mut at = 0;
            if kind != UNCOLLECTABLE {
                live.retain(|_| {
                    at += 1;
                    at % keep == 0
                });
            }
            space.collect(live.iter().copied());
        }
    }
}

/// A nearly full block is left alone; its dead cells come back when more of it has died.
#[test]
fn a_nearly_full_block_waits() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let count = BLOCK_BYTES / 16;
    let all: Vec<Address> = (0..count)
        .map(|_| space.0.allocate_small(NORMAL, 0).unwrap())
        .collect();
    space.collect(all[..count - count / 8].iter().copied());
    assert_ne!(space.0.take_cells(NORMAL, 0).unwrap().block, 0);
    space.collect(all[..count - count / 8 - 1].iter().copied());
    let list = space.0.take_cells(NORMAL, 0).unwrap();
    assert_eq!((list.block, list.cells), (0, count / 8 + 1));
}

/// Where layouts are exact the next collection finds no links in the cells of a list that nobody took: by the link of a
/// dead cell that a stale word marks, whatever it led to would live.
#[test]
fn links_of_an_untouched_list_are_cut_where_layouts_are_exact() {
    let mut space = Space::new(SweepMode::Eager, false);
    let kind = Kind {
        descriptor: descriptor::PER_OBJECT,
        add_size: false,
        clear: true,
        uncollectable: false,
        disclaim: None,
        mark_unconditionally: false,
        unlocked: false,
    };
    let kind = space.0.kinds.add(kind).unwrap();
    let bytes = usize::from(CELL_BYTES[3]);
    let all: Vec<Address> = (0..BLOCK_BYTES / bytes)
        .map(|_| space.0.allocate_small(kind, 3).unwrap())
        .collect();
    all.iter().for_each(|object| fill(*object, bytes));
    space.collect(all.iter().copied().step_by(3));
    let firsts = || -> Vec<usize> { all.iter().map(|cell| words(*cell, 8)[0]).collect() };
    let linked = firsts();
    for (number, pair) in all
        .windows(2)
        .enumerate()
        .filter(|(number, _)| number % 3 == 1)
    {
        assert_eq!(linked[number], pair[1].word(), "the list is there");
    }
    space.0.clear_marks(Waiting::TakenBack);
    for (number, first) in firsts().into_iter().enumerate() {
        assert_eq!(
            first,
            if number % 3 == 0 { DIRT } else { 0 },
            "cell {number}"
        );
    }
}

/// A block that a list's owner still uses is not swept, and its unlisted dead cells wait.
#[test]
fn an_owned_block_is_left_alone() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let mut cache = Box::new(Cache::new());
    // SAFETY: this thread's own cache.
    unsafe { space.0.refill(&mut *cache, NORMAL, 3) }.unwrap();
    let listed = cells(cache.heads[NORMAL][3]);
    space.collect([]);
    assert_eq!(cells(cache.heads[NORMAL][3]), listed);
    assert_ne!(
        space.0.take_cells(NORMAL, 3).unwrap().block,
        cache.owned[NORMAL][3]
    );
    // SAFETY: this thread's own cache, which is not used again.
    unsafe { space.0.adopt_cells(&mut *cache) };
    for expected in &listed {
        assert_eq!(
            space.0.allocate_small(NORMAL, 3),
            Ok(*expected),
            "adopted cells are used first"
        );
    }
}

/// Adopted cells come before the shared ones, and replace none of them.
#[test]
fn adopted_cells_are_put_before_the_shared_ones() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let mut cache = Box::new(Cache::new());
    // SAFETY: this thread's own cache.
    unsafe { space.0.refill(&mut *cache, NORMAL, 3) }.unwrap();
    space.0.allocate_small(NORMAL, 3).unwrap();
    let [adopted, shared] = [&*cache, &space.0.shared].map(|cache| cells(cache.heads[NORMAL][3]));
    assert!(!shared.is_empty());
    // SAFETY: this thread's own cache, which is not used again.
    unsafe { space.0.adopt_cells(&mut *cache) };
    let all = cells(space.0.shared.heads[NORMAL][3]);
    assert_eq!(all, [adopted, shared].concat());
    space.verify();
}

/// What callbacks allocate while the heap is marked lives, also in blocks that nobody owns any more when they are done.
#[test]
fn what_is_born_while_the_heap_is_marked_lives() {
    for mode in [SweepMode::Lazy, SweepMode::Eager] {
        for kind in [PTRFREE, NORMAL] {
            let mut space = Space::new(mode, false);
            space.0.clear_marks(Waiting::TakenBack);
            space.0.stage = Stage::Marking;
            let count = 3 * BLOCK_BYTES / usize::from(CELL_BYTES[3]);
            let mut born: BTreeSet<Address> = (0..count)
                .map(|_| space.0.allocate_small(kind, 3).unwrap())
                .collect();
            born.insert(space.large(kind, 3 * BLOCK_BYTES));
            space.0.stage = Stage::Between;
            space.0.reclaim(Ageing::ReleaseAfter(0));
            space.0.sweep_all();
            space.verify();
            assert_eq!(space.0.census.objects, born.len());
            assert!(born.iter().all(|object| space.mark_of(*object) == MARKED));
            for _ in 0..count {
                let object = space.0.allocate_small(kind, 3).unwrap();
                assert!(born.insert(object), "{object:?} is alive");
            }
        }
    }
}

/// Objects that are never collected live without being found.
#[test]
fn uncollectable_objects_live_until_they_are_freed() {
    for kind in [UNCOLLECTABLE, ATOMIC_UNCOLLECTABLE] {
        let mut space = Space::new(SweepMode::Lazy, false);
        let objects = [
            space.0.allocate_small(kind, 3).unwrap(),
            space.large(kind, 3 * BLOCK_BYTES),
        ];
        for _ in 0..2 {
            space.collect([]);
            assert_eq!(objects.map(|object| space.mark_of(object)), [MARKED; 2]);
            assert_eq!(space.0.census.objects, 2);
        }
        for object in objects {
            space.0.free(object).unwrap();
        }
        space.collect([]);
        assert_eq!(space.0.used_bytes(), 0);
    }
}

const WANTED: usize = 0x3333;

/// Keeps what its client still wants.
extern "C-unwind" fn keep_wanted(object: *mut core::ffi::c_void) -> core::ffi::c_int {
    // SAFETY: an object of the kind has two words at least.
    i32::from(unsafe { object.cast::<usize>().add(1).read() } == WANTED)
}

/// What a disclaim procedure keeps is not handed out, whether free cells of its kind bear a mark or not.
#[test]
fn what_a_disclaim_procedure_keeps_lives() {
    for mode in [SweepMode::Lazy, SweepMode::Eager] {
        for unlocked in [false, true] {
            let mut space = Space::new(mode, false);
            let kind = Kind {
                descriptor: descriptor::LENGTH,
                add_size: true,
                clear: true,
                uncollectable: false,
                disclaim: Some(keep_wanted),
                mark_unconditionally: false,
                unlocked,
            };
            let kind = space.0.kinds.add(kind).unwrap();
            let count = BLOCK_BYTES / usize::from(CELL_BYTES[3]);
            let mut wanted = BTreeSet::new();
            for number in 0..count {
                let object = space.0.allocate_small(kind, 3).unwrap();
                if number % 3 == 0 {
                    // SAFETY: the test's own object.
                    unsafe { object.add(8).store(WANTED) };
                    wanted.insert(object);
                }
            }
            // Twice: what was kept once is asked about again.
            for _ in 0..2 {
                space.collect([]);
                space.0.disclaim_all();
                space.verify();
                assert!(wanted.iter().all(|object| space.mark_of(*object) == MARKED));
            }
            let mut known = wanted;
            for _ in 0..count {
                let object = space.0.allocate_small(kind, 3).unwrap();
                assert!(known.insert(object), "{mode:?}: {object:?} was kept");
            }
        }
    }
}
