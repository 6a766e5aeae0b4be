//! The kernel is asked ahead of a stop which pages were written, in pieces between which the program does what it likes.

use std::collections::BTreeSet;

use gleaner_base::events::Phase;
use gleaner_base::events::reasons::ASKED_AHEAD;
use gleaner_base::faults::{FaultPoint, arm};
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_spaces::mark_sweep::kinds::NORMAL;

use crate::harness::Bench;
use crate::{Begun, OBJECTS, store};

/// All questions are asked ahead; a step ends when nothing is left to do.
const OPTIONS: &str = "stress=1000000";
/// Bytes of a large object: it reaches over several pieces.
const LARGE: usize = 40 << 20;
const PAGE: usize = 4096;

pub fn the_kernel_is_asked_ahead_of_stops() {
    what_was_asked_ahead_is_scanned_before_the_last_stop();
    what_is_written_after_it_is_found();
    what_the_kernel_does_not_answer_is_not_built_on();
    large_objects_are_asked_about_in_pieces();
    a_cycle_begins_once_everything_was_asked_about();
}

/// Pages that the last stop was told of.
fn told(bench: &Bench) -> u64 {
    bench
        .events(Phase::Written)
        .last()
        .expect("a stop asks")
        .objects
}

fn what_was_asked_ahead_is_scanned_before_the_last_stop() {
    for asks in [true, false] {
        let Some(mut begun) = Begun::new(OPTIONS) else {
            return;
        };
        // The list is marked from its last object on.
        while !begun.bench.is_marked(begun.object(OBJECTS / 2)) {
            begun.bench.heap.step();
        }
        assert!(!begun.bench.heap.cycle.can_end());
        if !asks {
            begun.bench.heap.options.stress = 0;
            begun.bench.heap.totals.last_question_ns = 0;
        }
        let (mut young, mut pages) = (Vec::new(), BTreeSet::new());
        for number in (OBJECTS / 2 + 1000..OBJECTS).step_by(50) {
            let object = begun.bench.allocate(NORMAL, 64).unwrap();
            store(begun.object(number), 3, object.word());
            pages.insert(begun.object(number).word() / PAGE);
            young.push(object);
        }
        assert!(pages.len() > 100);
        begun.mark();
        let marked = young
            .iter()
            .filter(|&&object| begun.bench.is_marked(object))
            .count();
        assert_eq!(marked, if asks { young.len() } else { 0 });
        begun.bench.heap.options.stress = 1_000_000;
        let Extent::Stepped(_) = begun.end() else {
            panic!("{:?}", begun.bench.heap.extent)
        };
        let few = told(&begun.bench) < pages.len() as u64 / 4;
        assert_eq!(few, asks, "{} of {} pages", told(&begun.bench), pages.len());
        // The next question is expected to take as long as all of this one.
        let in_stop = begun
            .bench
            .events(Phase::Written)
            .last()
            .unwrap()
            .duration_ns;
        assert_eq!(begun.bench.heap.totals.last_question_ns > in_stop, asks);
        assert!(begun.all_live() && young.iter().all(|&object| begun.bench.is_marked(object)));
    }
}

fn what_is_written_after_it_is_found() {
    let Some(mut begun) = Begun::new(OPTIONS) else {
        return;
    };
    begun.mark();
    let young = begun.bench.allocate(NORMAL, 64).unwrap();
    store(begun.object(7), 3, young.word());
    begun.end();
    let Extent::Stepped(_) = begun.bench.heap.extent else {
        panic!("{:?}", begun.bench.heap.extent)
    };
    assert!(told(&begun.bench) > 0);
    assert!(begun.all_live() && begun.bench.is_marked(young));
}

fn what_the_kernel_does_not_answer_is_not_built_on() {
    let Some(mut begun) = Begun::new(OPTIONS) else {
        return;
    };
    let young = begun.bench.allocate(NORMAL, 64).unwrap();
    store(begun.object(7), 3, young.word());
    arm(FaultPoint::WatchWrites, 1);
    begun.mark();
    let Extent::Everything(_) = begun.end() else {
        panic!("{:?}", begun.bench.heap.extent)
    };
    assert!(begun.all_live() && begun.bench.is_marked(young));
}

fn large_objects_are_asked_about_in_pieces() {
    let Some(mut begun) = Begun::before("reserve=2g,stress=1000000") else {
        return;
    };
    let large = begun.bench.allocate(NORMAL, LARGE).unwrap();
    store(begun.object(OBJECTS - 1), 3, large.word());
    // There is room for what is allocated during the cycle.
    let capacity = begun.bench.heap.space.capacity + 2 * LARGE;
    begun.bench.heap.grow_to(capacity, "the test");
    if begun.bench.heap.cycle.is_under_way() {
        begun.mark();
        begun.end();
    }
    // No marks are kept.
    begun.disturb();
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    while !begun.bench.is_marked(begun.object(OBJECTS / 2)) {
        begun.bench.heap.step();
    }
    let mut young = Vec::new();
    for word in (1..LARGE / 8).step_by(PAGE / 8) {
        let object = begun.bench.allocate(NORMAL, 64).unwrap();
        store(large, word, object.word());
        young.push(object);
    }
    // From now on steps are due only because the kernel is asked: the program allocates nothing.
    begun.bench.heap.options.stress = 0;
    let limit = begun.bench.heap.settings.time_limit_ns.replace(1);
    begun.bench.heap.totals.last_question_ns = u64::MAX;
    let asks = |heap: &mut Heap| {
        heap.step();
        heap.is_asking()
    };
    assert!((0..100_000).any(|_| asks(&mut begun.bench.heap)));
    let before = begun.bench.heap.totals.steps;
    assert!((0..10_000).any(|_| begun.bench.heap.step_if_due()));
    assert!(begun.bench.heap.cycle.can_end() && begun.bench.heap.totals.steps > before);
    begun.bench.heap.options.stress = 1_000_000;
    begun.bench.heap.settings.time_limit_ns = limit;
    begun.end();
    let pages = (LARGE / PAGE) as u64;
    assert!(
        told(&begun.bench) < pages / 8,
        "{} of {pages} pages",
        told(&begun.bench)
    );
    assert!(begun.all_live() && young.iter().all(|&object| begun.bench.is_marked(object)));
}

/// Each of two.
fn a_cycle_begins_once_everything_was_asked_about() {
    let Some(mut begun) = Begun::before("") else {
        return;
    };
    begun.bench.thread_lists = true;
    begun.bench.steps = true;
    begun.bench.heap.settings.time_limit_ns = Some(1);
    let asked = |bench: &Bench| {
        let steps = bench.events(Phase::MarkStep);
        steps
            .iter()
            .filter(|step| step.reason == ASKED_AHEAD)
            .count()
    };
    let mut hidden = Vec::new();
    for round in 0..4 {
        // What old objects lead to since the last collection is told by that question alone, where old marks are kept.
        for number in (round..OBJECTS).step_by(500) {
            let young = begun.bench.allocate(NORMAL, 64).unwrap();
            store(begun.object(number), 4, young.word());
            hidden.push(!young.word());
        }
        let before = asked(&begun.bench);
        let from = begun.bench.heap.totals.cycles;
        // One that begins since memory is used up does not wait for the question, as on a machine that is busy.
        while asked(&begun.bench) == before {
            let cycles = begun.bench.heap.totals.cycles;
            assert!(cycles < from + 50, "no cycle waited for the question");
            while begun.bench.heap.totals.cycles == cycles {
                begun.bench.heap.totals.last_question_ns = u64::MAX;
                begun.bench.allocate(NORMAL, 100).unwrap();
            }
            while begun.bench.heap.cycle.is_under_way() {
                begun.bench.allocate(NORMAL, 100).unwrap();
            }
        }
        let is_there = |young: &usize| begun.bench.is_marked(Address::new(!young));
        assert!(hidden.iter().all(is_there), "{:?}", begun.bench.heap.extent);
    }
    begun.bench.verify();
    begun.bench.collect();
    assert!(begun.all_live());
}
