//! A helper marks beside the program, in turns between which the program does what it likes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use gleaner_base::events::Phase;
use gleaner_base::events::reasons::CUT_OFF;
use gleaner_base::sync::AtomicU32;
use gleaner_mem::Address;
use gleaner_os::clock;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::cycle::Next;
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_plans::mark_sweep::decide::helper::TURN_NS;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use gleaner_spaces::mark_sweep::mark::Until;
use gleaner_spaces::mark_sweep::scan::MarkMode;

use crate::auto::in_child;
use crate::{Begun, CALLS, OBJECTS, counted_kind, store};

/// Cycles of small heaps, and nobody asks which processors are idle.
const OPTIONS: &str = "stress=1000000,markers=1,cycle-helper=on";

pub fn a_helper_marks_beside_the_program() {
    turns_mark_what_steps_would();
    a_turn_ends_where_another_thread_waits();
    what_is_written_between_turns_is_found();
    mark_procedures_do_not_run_on_the_helper();
    more_wait_for_a_step_than_buffers_hold();
    steps_are_not_due_where_a_helper_marks();
    a_child_drops_what_a_turn_was_marking();
}

/// Has the helper mark until it rests; how many turns it made.
fn help(begun: &mut Begun) -> u64 {
    let (waiting, before) = (AtomicU32::new(0), begun.bench.heap.totals.helped_turns);
    loop {
        match begun.bench.heap.mark_beside_program(&waiting) {
            Next::GoOn => {}
            // SAFETY: this thread has begun the turn, and marks in it once.
            Next::Mark(turn) => unsafe { turn.mark() },
            Next::Rest if begun.bench.heap.helper_waits() => {
                begun.bench.heap.step_if_due();
            }
            // The machine took the processor.
            Next::ComeBack(nanoseconds) => std::thread::sleep(Duration::from_nanos(nanoseconds)),
            Next::Rest => return begun.bench.heap.totals.helped_turns - before,
        }
    }
}

fn turns_mark_what_steps_would() {
    let Some(mut begun) = Begun::new(OPTIONS) else {
        return;
    };
    assert!(!begun.bench.is_marked(begun.object(0)));
    let steps = begun.bench.heap.totals.steps;
    let turns = help(&mut begun);
    assert!(turns > 0 && begun.bench.heap.cycle.can_end());
    assert!(begun.bench.is_marked(begun.object(0)));
    assert_eq!(begun.bench.heap.totals.steps, steps);
    // Nothing is left to do.
    assert_eq!(help(&mut begun), 0);
    let Extent::Stepped(_) = begun.end() else {
        panic!("{:?}", begun.bench.heap.extent)
    };
    assert!(begun.all_live());
    let told = begun.bench.events(Phase::MarkBeside);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].objects, told[0].workers), (turns, 1));
    assert!(told[0].bytes >= ((OBJECTS - 1) * 100) as u64, "{told:?}");
    assert_eq!(begun.bench.heap.totals.helped_bytes, told[0].bytes);
    // There is no cycle.
    assert_eq!(help(&mut begun), 0);
    begun.end();
    assert_eq!(begun.bench.events(Phase::MarkBeside).len(), 1);
}

/// One with the lock when that is wanted, another when anything is that it has.
fn a_turn_ends_where_another_thread_waits() {
    let Some(mut begun) = Begun::new(OPTIONS) else {
        return;
    };
    let waiting = AtomicU32::new(1);
    for _ in 0..3 {
        let until = Until::time_or_waiting(u64::MAX, &waiting);
        assert_eq!(begun.bench.heap.mark_turn(until).scanned, 0);
    }
    let Next::Mark(turn) = begun.bench.heap.mark_beside_program(&waiting) else {
        panic!("there is much to mark");
    };
    std::thread::scope(|scope| {
        // SAFETY: it is marked in once.
        scope.spawn(move || unsafe { turn.mark() });
        begun.bench.heap.end_turn_beside();
        assert!(!begun.bench.heap.beside.has_begun());
    });
    assert_eq!(begun.bench.heap.totals.helped_turns, 1);
    begun.bench.heap.end_turn_beside();
    assert_eq!(begun.bench.heap.totals.helped_turns, 1, "nothing has begun");
    help(&mut begun);
    assert!(begun.bench.heap.cycle.can_end());
    begun.end();
    assert!(begun.all_live());
}

/// As between steps.
fn what_is_written_between_turns_is_found() {
    for turns in [0, 1, 100] {
        let Some(mut begun) = Begun::new(OPTIONS) else {
            return;
        };
        let waiting = AtomicU32::new(0);
        for _ in 0..turns {
            if let Next::Mark(turn) = begun.bench.heap.mark_beside_program(&waiting) {
                // SAFETY: this thread has begun the turn, and marks in it once.
                unsafe { turn.mark() };
            }
        }
        begun.bench.heap.end_turn_beside();
        let marked = begun.object(OBJECTS - 1);
        let young = begun.bench.allocate(NORMAL, 64).unwrap();
        store(marked, 5, young.word());
        // The list is cut, and its rest hangs on an object that may have been scanned already.
        store(begun.object(1000), 0, 0);
        store(marked, 6, begun.object(999).word());
        help(&mut begun);
        let Extent::Stepped(_) = begun.end() else {
            panic!("{:?}", begun.bench.heap.extent)
        };
        assert!(begun.all_live() && begun.bench.is_marked(young));
    }
}

/// They wait for a step where that calls them, since no other thread runs.
fn mark_procedures_do_not_run_on_the_helper() {
    let Some(mut begun) = Begun::before(OPTIONS) else {
        return;
    };
    let kind = counted_kind(&mut begun.bench);
    let owners = (0..OBJECTS).step_by(10);
    for number in owners.clone() {
        let object = begun.bench.allocate(kind, 64).unwrap();
        store(begun.object(number), 2, object.word());
    }
    // There is room enough that no shortage ends the cycle.
    let capacity = begun.bench.heap.space.capacity + (4 << 20);
    begun.bench.heap.grow_to(capacity, "the test");
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    let calls = || CALLS.load(Ordering::Relaxed);
    let (before, waiting) = (calls(), AtomicU32::new(0));
    while !begun.bench.heap.helper_waits() {
        if let Next::Mark(turn) = begun.bench.heap.mark_beside_program(&waiting) {
            // SAFETY: this thread has begun the turn, and marks in it once.
            unsafe { turn.mark() };
        }
        assert_eq!(calls(), before);
        assert!(!begun.bench.heap.cycle.can_end());
    }
    help(&mut begun);
    assert!(begun.bench.heap.cycle.can_end());
    assert!(calls() - before >= owners.len());
    begun.end();
    assert!(begun.all_live());
}

/// The helper calls for a step, and does not go on looking for room.
fn more_wait_for_a_step_than_buffers_hold() {
    let Some(mut begun) = Begun::before(OPTIONS) else {
        return;
    };
    // There is room enough that no shortage begins a cycle, or ends one.
    let capacity = begun.bench.heap.space.capacity + (8 << 20);
    begun.bench.heap.grow_to(capacity, "the test");
    let kind = counted_kind(&mut begun.bench);
    let owners: Vec<usize> = (0..OBJECTS)
        .map(|number| {
            let object = begun.bench.allocate(kind, 64).unwrap();
            store(begun.object(number), 2, object.word());
            !object.word()
        })
        .collect();
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    let calls = || CALLS.load(Ordering::Relaxed);
    let (before, waiting, mut turns) = (calls(), AtomicU32::new(0), 0);
    while !begun.bench.heap.helper_waits() {
        match begun.bench.heap.mark_beside_program(&waiting) {
            // SAFETY: this thread has begun the turn, and marks in it once.
            Next::Mark(turn) => unsafe { turn.mark() },
            // The machine took the processor: a turn with the lock does the same.
            Next::ComeBack(_) => {
                let deadline = clock::monotonic_ns() + TURN_NS;
                begun.bench.heap.mark_turn(Until::time(deadline));
            }
            Next::GoOn | Next::Rest => {}
        }
        assert_eq!(calls(), before);
        turns += 1;
        assert!(turns < 2000, "no step is called for");
    }
    help(&mut begun);
    assert!(begun.bench.heap.cycle.can_end());
    assert!(calls() - before >= owners.len());
    begun.end();
    let is_marked = |object: &usize| begun.bench.is_marked(Address::new(!object));
    assert!(begun.all_live() && owners.iter().all(is_marked));
}

/// As long as the helper is expected to keep pace.
fn steps_are_not_due_where_a_helper_marks() {
    for (is_there, forks) in [(false, false), (true, false), (true, true)] {
        let Some(mut begun) = Begun::before(OPTIONS) else {
            return;
        };
        if is_there {
            assert_eq!(help(&mut begun), 0);
        }
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        if forks {
            begun.bench.heap.begin_in_child();
        }
        begun.bench.heap.options.stress = 0;
        let steps = begun.bench.heap.totals.steps;
        begun.bench.heap.step_if_due();
        let made = begun.bench.heap.totals.steps - steps;
        assert_eq!(made, u64::from(!is_there || forks));
        begun.bench.heap.options.stress = 1_000_000;
        if !begun.bench.heap.cycle.can_end() {
            begun.mark();
        }
        begun.end();
        assert!(begun.all_live());
    }
}

/// Nobody has ended the turn, as happens where the program forks by a system call of its own, and nobody can in the child.
fn a_child_drops_what_a_turn_was_marking() {
    for round in 0..12 {
        let Some(mut begun) = Begun::new(OPTIONS) else {
            return;
        };
        let waiting = AtomicU32::new(0);
        let Next::Mark(turn) = begun.bench.heap.mark_beside_program(&waiting) else {
            panic!("there is much to mark");
        };
        std::thread::scope(|scope| {
            // In every second round the turn has not begun to mark, in others it is somewhere.
            let marker = (round % 2 == 1).then(|| {
                // SAFETY: it is marked in once.
                scope.spawn(move || unsafe { turn.mark() })
            });
            std::thread::sleep(Duration::from_micros(round * 30));
            let ends_here = |begun: &mut Begun| {
                assert!(begun.all_live());
                assert_eq!(begun.bench.begin(), Outcome::Begun);
                help(begun);
                assert!(begun.bench.heap.cycle.can_end());
                begun.end();
                assert!(begun.all_live());
            };
            in_child(|| {
                let was_cut_off = begun.bench.heap.beside.is_under_way();
                begun.bench.heap.crew.forget_helpers_after_fork();
                begun.bench.heap.begin_in_child();
                let is_under_way = begun.bench.heap.cycle.is_under_way();
                assert!(!begun.bench.heap.beside.has_begun() && is_under_way != was_cut_off);
                assert_eq!(begun.ended().last() == Some(&(CUT_OFF, 0)), was_cut_off);
                assert!(begun.bench.heap.context.mode == MarkMode::Whole);
                if was_cut_off {
                    // No mark is built on.
                    begun.bench.collect();
                    begun.bench.verify_collected();
                } else {
                    help(&mut begun);
                    begun.end();
                }
                ends_here(&mut begun);
            });
            if marker.is_none() {
                // SAFETY: it is marked in once.
                unsafe { turn.mark() };
            }
        });
        help(&mut begun);
        begun.end();
        assert!(begun.all_live());
    }
}
