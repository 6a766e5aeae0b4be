//! How far a collection is when it calls the client, and how it marks; and that nothing of it is left, however it ends.
//!
//! Points of failure are one for the whole process, so this is one test after the other.

#![cfg(not(loom))]

mod harness;

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use gleaner_base::events::Phase;
use gleaner_base::faults::{FaultPoint, arm};
use gleaner_plans::mark_sweep::collect::Moment::*;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_spaces::mark_sweep::Stage::{self, *};
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use gleaner_spaces::mark_sweep::scan::MarkMode::{self, MayPause, Whole};
use harness::Call::{self, Moment, OtherRoots, WantsToStop};
use harness::{Bench, Seen};

/// The callbacks up to the one that says whether the collection is to be given up, in an attempt or the only one.
const BEFORE: [(Call, Stage); 4] = [
    (Moment(Start), Between),
    (Moment(PreStopWorld), Between),
    (Moment(PostStopWorld), Between),
    (WantsToStop, Between),
];
/// Those where a stop comes to nothing.
const GIVEN_UP: [(Call, Stage); 3] = [
    (Moment(PreStartWorld), Between),
    (Moment(PostStartWorld), Between),
    (Moment(End), Between),
];

fn bench(options: &str) -> Bench {
    let mut bench = Bench::new(options);
    bench.client.seen = Some(Mutex::default());
    bench
}

/// What the client saw since this was last asked. Nothing is left of the collection, and what is allocated now is born
/// unmarked.
fn seen(bench: &mut Bench) -> Vec<Seen> {
    assert_eq!(bench.heap.space.stage, Between);
    assert_eq!(bench.heap.context.mode, Whole);
    let object = bench.allocate(NORMAL, 4000).unwrap();
    assert!(!bench.is_marked(object));
    let seen = bench.client.seen.as_ref().unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

/// Whether the client saw these stages, and marking of this mode while roots were pushed.
#[track_caller]
fn assert_seen(seen: &[Seen], parts: &[&[(Call, Stage)]], roots: MarkMode) {
    let stages: Vec<_> = seen.iter().map(|&(call, stage, _)| (call, stage)).collect();
    assert_eq!(stages, parts.concat());
    for &(call, _, mode) in seen {
        let expected = if call == OtherRoots { roots } else { Whole };
        assert_eq!(mode, expected, "{call:?}");
    }
}

#[test]
fn a_collection_says_how_far_it_is_and_leaves_nothing_behind() {
    one_that_is_done();
    one_that_is_given_up_before_it_marks();
    one_that_is_given_up_when_all_is_marked();
    one_that_reads_the_libraries_again();
    one_that_goes_on_in_steps();
}

fn one_that_is_done() {
    let mut bench = bench("");
    bench.collect();
    let after = [
        (Moment(MarkStart), Between),
        (OtherRoots, Marking),
        (WantsToStop, Marking),
        (Moment(MarkEnd), Marking),
        (Moment(PreStartWorld), Marked),
        (Moment(PostStartWorld), Marked),
        // What the client allocates now is still born marked.
        (Moment(ReclaimStart), Marked),
        (Moment(ReclaimEnd), Reclaiming),
        (Moment(End), Between),
    ];
    assert_seen(&seen(&mut bench), &[&BEFORE, &after], Whole);
}

fn one_that_is_given_up_before_it_marks() {
    let mut bench = bench("");
    bench.client.abandon_when_asked.store(1, Ordering::Relaxed);
    assert_eq!(bench.collect_for("given up"), Outcome::Abandoned);
    assert_seen(&seen(&mut bench), &[&BEFORE, &GIVEN_UP], Whole);
    assert_eq!(ends(&bench), [(1, "given up: nothing was freed")]);
    // The next one has its number.
    bench.collect();
    assert_eq!(ends(&bench)[1..], [(1, "test")]);
}

/// Which collections ended, and why.
fn ends(bench: &Bench) -> Vec<(u64, &'static str)> {
    let events = bench.events(Phase::End);
    events.iter().map(|it| (it.collection, it.reason)).collect()
}

fn one_that_is_given_up_when_all_is_marked() {
    let mut bench = bench("");
    bench.client.abandon_when_asked.store(2, Ordering::Relaxed);
    assert_eq!(bench.collect_for("given up"), Outcome::Abandoned);
    let marking = [
        (Moment(MarkStart), Between),
        (OtherRoots, Marking),
        (WantsToStop, Marking),
    ];
    assert_seen(&seen(&mut bench), &[&BEFORE, &marking, &GIVEN_UP], Whole);
    assert_eq!(ends(&bench), [(1, "given up: nothing was freed")]);
}

/// The client hears of one start and one end, whatever is tried in between.
fn one_that_reads_the_libraries_again() {
    let mut bench = bench("");
    arm(FaultPoint::LibraryListChanged, 1);
    bench.client.abandon_when_asked.store(1, Ordering::Relaxed);
    assert_eq!(bench.collect_for("given up"), Outcome::Abandoned);
    let ([stop @ .., _], [go_on @ .., _]) = (&BEFORE, &GIVEN_UP);
    let parts: [&[_]; 4] = [stop, go_on, &BEFORE[1..], &GIVEN_UP];
    assert_seen(&seen(&mut bench), &parts, Whole);
}

/// Roots are scanned as they are pushed, since the world goes on before what they lead to is marked.
fn one_that_goes_on_in_steps() {
    let mut bench = bench("generations=incremental,stress=1000000");
    if let Some(unavailable) = bench.heap.unwatched {
        eprintln!("not tested: {unavailable}");
        return;
    }
    bench.steps = false;
    let mut last = 0;
    for _ in 0..20_000 {
        let object = bench.allocate(NORMAL, 100).unwrap();
        // SAFETY: the object's first word.
        unsafe { object.store(last) };
        match last {
            0 => bench.keep(object),
            _ => bench.replace_kept(object),
        }
        last = object.word();
    }
    if bench.heap.cycle.is_under_way() {
        bench.collect();
    }
    seen(&mut bench);
    assert_eq!(bench.begin(), Outcome::Begun);
    let begun = [
        (Moment(MarkStart), Between),
        (OtherRoots, Marking),
        (Moment(PreStartWorld), Between),
        (Moment(PostStartWorld), Between),
    ];
    assert_seen(&seen(&mut bench), &[&BEFORE, &begun], MayPause);
    bench.heap.step();
    assert_seen(&seen(&mut bench), &[], Whole);
}
