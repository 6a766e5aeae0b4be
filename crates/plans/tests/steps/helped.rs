//! A helper marks beside the program, in turns between which the program does what it likes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use gleaner_base::events::Phase;
use gleaner_base::sync::AtomicU32;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::cycle::Next;
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_spaces::mark_sweep::kinds::NORMAL;

use crate::{Begun, CALLS, OBJECTS, counted_kind, store};

/// Cycles of small heaps, and nobody asks which processors are idle.
const OPTIONS: &str = "stress=1000000,markers=1";

pub fn a_helper_marks_beside_the_program() {
    turns_mark_what_steps_would();
    a_turn_ends_where_another_thread_waits();
    what_is_written_between_turns_is_found();
    mark_procedures_do_not_run_on_the_helper();
    steps_are_not_due_where_a_helper_marks();
}

/// Has the helper mark until it rests; how many turns it made.
fn help(begun: &mut Begun) -> u64 {
    let (waiting, before) = (AtomicU32::new(0), begun.bench.heap.totals.helped_turns);
    loop {
        match begun.bench.heap.mark_beside_program(&waiting) {
            Next::GoOn => {}
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

fn a_turn_ends_where_another_thread_waits() {
    let Some(mut begun) = Begun::new(OPTIONS) else {
        return;
    };
    let waiting = AtomicU32::new(1);
    for _ in 0..3 {
        let next = begun.bench.heap.mark_beside_program(&waiting);
        assert_ne!(next, Next::Rest);
    }
    assert_eq!(begun.bench.heap.totals.helped_bytes, 0);
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
            begun.bench.heap.mark_beside_program(&waiting);
        }
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

/// Not even where no other thread runs, so that a step would call them.
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
    let before = CALLS.load(Ordering::Relaxed);
    assert!(help(&mut begun) > 0);
    assert_eq!(CALLS.load(Ordering::Relaxed), before);
    begun.mark();
    begun.end();
    assert!(CALLS.load(Ordering::Relaxed) - before >= owners.len());
    assert!(begun.all_live());
    // That was too much for the last stop: the helper stays away from the next cycle.
    begun.bench.heap.space.capacity = capacity;
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    assert_eq!(help(&mut begun), 0);
    assert!(!begun.bench.heap.cycle.can_end());
    begun.mark();
    begun.end();
    assert!(begun.all_live());
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
