//! What waits to be swept when a cycle of marking in steps begins: allocators get exactly the cells that were dead before,
//! and nothing marks these.
#![cfg(not(loom))]

mod support;

use std::collections::BTreeSet;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::explicit_free::FreeError;
use gleaner_spaces::mark_sweep::kinds::{Kind, NORMAL, PTRFREE, UNCOLLECTABLE, descriptor};
use gleaner_spaces::mark_sweep::reclaim::Ageing;
use gleaner_spaces::mark_sweep::settle::Waiting;
use gleaner_spaces::mark_sweep::size_classes::CELL_BYTES;
use gleaner_spaces::mark_sweep::{FREE, MARKED, Stage, SweepMode, WHITE};
use support::Space;

const CLASS: usize = 3;
const CELL: usize = CELL_BYTES[CLASS] as usize;
const OBJECTS: usize = 2000;

/// The number of a kind whose objects say themselves what is scanned in them.
const TYPED: usize = 4;

/// A space in which a cycle has begun after a collection that left every third object, of which it keeps the marks or not.
struct Begun {
    space: Space,
    live: Vec<Address>,
    dead: BTreeSet<Address>,
}

impl Begun {
    fn new(mode: SweepMode, kind: usize, kept: bool) -> Begun {
        let mut space = Space::new(mode, false);
        let typed = Kind {
            descriptor: descriptor::PER_OBJECT,
            add_size: false,
            clear: true,
            uncollectable: false,
            disclaim: None,
            mark_unconditionally: false,
            unlocked: true,
        };
        assert_eq!(space.0.kinds.add(typed), Some(TYPED));
        let all: Vec<Address> = (0..OBJECTS)
            .map(|_| space.0.allocate_small(kind, CLASS).unwrap())
            .collect();
        let live: Vec<Address> = all.iter().copied().step_by(3).collect();
        space.collect(live.iter().copied());
        let kept_alive: BTreeSet<Address> = live.iter().copied().collect();
        let dead = all.into_iter().filter(|cell| !kept_alive.contains(cell));
        let mut begun = Begun {
            space,
            live,
            dead: dead.collect(),
        };
        begun.stop(Waiting::Settled, kept);
        begun.space.0.marked_in_steps = true;
        begun
    }

    fn stop(&mut self, waiting: Waiting, kept: bool) {
        match kept {
            true => self.space.0.keep_marks(waiting),
            false => self.space.0.clear_marks(waiting),
        }
        self.space.verify();
    }

    /// The dead objects that wait to be swept.
    fn waits(&self) -> BTreeSet<Address> {
        let waits = self.dead.iter().copied();
        waits
            .filter(|cell| self.space.mark_of(*cell) == FREE)
            .collect()
    }

    fn allocate(&mut self, kind: usize) -> Address {
        let object = self.space.0.allocate_small(kind, CLASS).unwrap();
        // SAFETY: an object of the test's own heap.
        let words = (0..CELL)
            .step_by(8)
            .map(|at| unsafe { object.add(at).load() });
        assert_eq!(words.sum::<usize>(), 0, "{object:?} is not cleared");
        // SAFETY: the same.
        unsafe { object.store(1) };
        object
    }
}

#[test]
fn what_was_dead_is_handed_out_while_marks_are_made() {
    for mode in [SweepMode::Lazy, SweepMode::Eager] {
        for kind in [NORMAL, PTRFREE, TYPED] {
            for kept in [false, true] {
                let mut begun = Begun::new(mode, kind, kept);
                let waits = begun.waits();
                assert!(waits.len() > OBJECTS / 2);
                // The rest of the last block waits, too.
                assert!(begun.space.0.unswept_bytes >= waits.len() * CELL);
                let expected = if kept { MARKED } else { WHITE };
                let mut marks = begun.live.iter().map(|object| begun.space.mark_of(*object));
                assert!(marks.all(|mark| mark == expected));
                let used = begun.space.0.used_bytes();
                let mut handed = BTreeSet::new();
                while begun.space.0.unswept_bytes > 0 {
                    assert!(handed.insert(begun.allocate(kind)));
                }
                while begun.space.0.used_bytes() == used {
                    handed.insert(begun.allocate(kind));
                }
                assert!(handed.is_superset(&waits), "{mode:?} {kind} {kept}");
                let live: BTreeSet<Address> = begun.live.iter().copied().collect();
                assert!(handed.is_disjoint(&live), "{mode:?} {kind} {kept}");
                // What was handed out can be marked.
                assert!(
                    handed
                        .iter()
                        .all(|cell| begun.space.mark_of(*cell) == WHITE)
                );
                begun.space.verify();
            }
        }
    }
}

/// Another stop of the same cycle finds objects that are white and live.
#[test]
fn what_is_settled_stays_so_in_the_next_stop_of_a_cycle() {
    for mode in [SweepMode::Lazy, SweepMode::Eager] {
        let mut begun = Begun::new(mode, NORMAL, false);
        let waits = begun.waits();
        begun.stop(Waiting::Stays, true);
        assert_eq!(begun.waits(), waits);
        let unmarked = |begun: &Begun| {
            let marks = begun.live.iter().map(|object| begun.space.mark_of(*object));
            marks.filter(|mark| *mark == WHITE).count()
        };
        assert_eq!(unmarked(&begun), begun.live.len());
        // A cycle that was given up is followed by one of everything.
        let marked = begun.live[5];
        begun.space.set_mark(marked, MARKED);
        begun.stop(Waiting::Settled, false);
        assert_eq!(begun.waits(), waits);
        assert_eq!(unmarked(&begun), begun.live.len());
    }
}

#[test]
fn what_was_not_handed_out_is_found_again_when_the_cycle_ends() {
    for mode in [SweepMode::Lazy, SweepMode::Eager] {
        for waiting in [Waiting::Stays, Waiting::TakenBack] {
            let mut begun = Begun::new(mode, NORMAL, false);
            let young = begun.allocate(NORMAL);
            begun.stop(waiting, true);
            if waiting == Waiting::TakenBack {
                assert_eq!((begun.waits().len(), begun.space.0.unswept_bytes), (0, 0));
            }
            // Half of what lived is found, and what is new.
            let found: Vec<Address> = begun.live.iter().copied().step_by(2).collect();
            for object in found.iter().chain([&young]) {
                begun.space.set_mark(*object, MARKED);
            }
            begun.space.0.marked_in_steps = false;
            begun.space.0.reclaim(Ageing::ReleaseAfter(0));
            begun.space.0.sweep_all();
            begun.space.verify();
            assert_eq!(begun.waits().len(), 0);
            assert_eq!(begun.space.0.census.objects, found.len() + 1);
            let mut handed = BTreeSet::from_iter(found);
            handed.insert(young);
            for _ in 0..OBJECTS {
                let object = begun.allocate(NORMAL);
                assert!(handed.insert(object), "{object:?} lives");
            }
        }
    }
}

/// Links of a list that nobody took are cut where they could mislead the scanner: in dead cells, and in no others.
#[test]
fn objects_that_are_not_marked_yet_stay_whole_when_their_block_is_taken_back() {
    for kept in [false, true] {
        let mut begun = Begun::new(SweepMode::Eager, TYPED, false);
        let waits = begun.waits();
        for object in &begun.live {
            // SAFETY: an object of the test's own heap.
            unsafe { object.store(!object.word()) };
        }
        // SAFETY: cells of the test's own heap.
        let linked = |cell: &&Address| unsafe { cell.load() } != 0;
        assert!(waits.iter().filter(linked).count() > OBJECTS / 2);
        begun.stop(Waiting::TakenBack, kept);
        assert_eq!(waits.iter().filter(linked).count(), 0);
        // SAFETY: objects of the test's own heap.
        let is_whole = |object: &Address| unsafe { object.load() } == !object.word();
        assert!(begun.live.iter().all(is_whole));
    }
}

#[test]
fn what_is_dead_is_free_already_and_what_lives_can_be_freed() {
    let mut begun = Begun::new(SweepMode::Lazy, NORMAL, false);
    let dead = *begun.waits().first().unwrap();
    assert_eq!(begun.space.0.free(dead), Ok(0));
    assert_eq!(begun.space.0.free(dead), Ok(0));
    let live = begun.live[7];
    assert_eq!(begun.space.0.free(live), Ok(CELL));
    assert_eq!(begun.space.0.free(live), Err(FreeError::Twice));
    // It is handed out once.
    let mut handed = BTreeSet::new();
    for _ in 0..OBJECTS {
        let object = begun.space.0.allocate_small(NORMAL, CLASS).unwrap();
        assert!(handed.insert(object), "{object:?} is handed out twice");
    }
    assert!(handed.contains(&live) && handed.contains(&dead));
}

/// When all is marked, what is not marked is dead, before it is decided what becomes of its block.
#[test]
fn what_was_not_marked_is_dead_once_all_is_marked() {
    let mut begun = Begun::new(SweepMode::Lazy, NORMAL, false);
    begun.space.set_mark(begun.live[3], MARKED);
    begun.space.0.stage = Stage::Marked;
    let found_dead = |begun: &Begun, object: Address| {
        let found = begun.space.0.object_base(object.word()).unwrap();
        found.is_found_dead(|| begun.space.0.stage.is_deciding())
    };
    assert!(!found_dead(&begun, begun.live[3]) && found_dead(&begun, begun.live[4]));
    assert!(found_dead(&begun, *begun.waits().first().unwrap()));
    begun.space.0.stage = Stage::Between;
    assert!(!found_dead(&begun, begun.live[4]));
    assert!(found_dead(&begun, *begun.waits().first().unwrap()));
}

/// In the stop itself objects are born marked: none of them comes from a block in which others are about to be marked.
#[test]
fn callbacks_in_the_stop_get_other_blocks() {
    let mut begun = Begun::new(SweepMode::Lazy, NORMAL, false);
    // The shared list is used up first.
    while !begun.space.0.shared.heads[NORMAL][CLASS].is_null() {
        begun.space.0.allocate_small(NORMAL, CLASS).unwrap();
    }
    let waits = begun.waits();
    begun.space.0.stage = Stage::Marking;
    let born = begun.space.0.allocate_small(NORMAL, CLASS).unwrap();
    assert!(!waits.contains(&born) && begun.space.mark_of(born) == MARKED);
    assert_eq!(begun.waits(), waits);
}

/// Kinds whose free cells have a mark in any case, and those with a procedure, which has seen what is dead.
#[test]
fn blocks_of_other_kinds_are_taken_back() {
    unsafe extern "C-unwind" fn lets_go(_: *mut core::ffi::c_void) -> core::ffi::c_int {
        0
    }
    let mut space = Space::new(SweepMode::Lazy, false);
    let disclaimed = Kind {
        descriptor: descriptor::LENGTH,
        add_size: true,
        clear: true,
        uncollectable: false,
        disclaim: Some(lets_go),
        mark_unconditionally: false,
        unlocked: true,
    };
    let disclaimed = space.0.kinds.add(disclaimed).unwrap();
    for kind in [disclaimed, UNCOLLECTABLE] {
        let all: Vec<Address> = (0..OBJECTS)
            .map(|_| space.0.allocate_small(kind, CLASS).unwrap())
            .collect();
        if kind == UNCOLLECTABLE {
            for object in all.iter().skip(1).step_by(2) {
                space.0.free(*object).unwrap();
            }
        }
        space.collect(all.iter().copied().step_by(2));
        space.0.disclaim_all();
        assert!(space.0.unswept_bytes > 0);
        space.0.clear_marks(Waiting::Settled);
        assert_eq!(space.0.unswept_bytes, 0);
        space.verify();
    }
}
