//! Marking in steps under loom: a cycle from the stop in which it begins to the one in which it ends, beside mutators that
//! store references without a barrier. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_steps`.
//!
//! The claim: when the last stop has marked, every object that can be reached from a mutator's stack is marked. This
//! includes one that was born in the cycle, and one whose only reference was moved from an object that was not scanned
//! yet to one that was. Each stop that ends a cycle or a collection compares ([`Stage::compare`]).
//!
//! What runs is the shipped heap: `Heap::collect` and `Heap::step` with the states of the cycle and the deciders, the
//! marking engine and the scanner, blocks, marks and bytes of written pages (`sticky`), the allocator and its lock, and the
//! words by which threads stop (`stop::protocol`). The words of objects are atomics of loom, which the scanner finds by
//! their addresses (`load_shared`): relaxed, so a step may read what was overwritten long ago unless something orders it.
//!
//! What is modelled:
//! - The suspend signal: a thread answers a stop when it begins, after each store, while it waits for the lock, and when it
//!   rests. Its stack is a cell: loom fails the model if that is scanned while the thread runs.
//! - The kernel and the TLBs of the processors ([`Kernel`]). Its answers are atomic because Linux makes them so.
//!   `PAGEMAP_SCAN` with `PM_SCAN_WP_MATCHING` reads the entries of a page table, protects the written ones and flushes the
//!   TLBs before it gives the lock of that table back (`pagemap_scan_pmd_entry`, `fs/proc/task_mmu.c`). A processor
//!   acknowledges the flush between two instructions, when its stores so far are visible. So a store that takes no fault
//!   comes before the answer: all reads after the answer see it. Any other store takes a fault. Under the same lock the
//!   fault removes the protection, which makes the page count as written, and makes the entry writable (`do_wp_page`,
//!   `mm/memory.c`); then the store is tried again. So the note precedes the store, and where an answer takes the note
//!   away in between, the store takes another fault.
//! - Soft-dirty bits: one call reads them, another clears them, each under the lock; a fault sets them.
//!
//! Some things are left out. Helpers of steps are, since what workers do with each other has models of its own. Deadlines are,
//! since loom has no clock: a step, or a turn of the helper that marks beside the program, goes on until nothing is grey, but
//! other threads run at each of its accesses. So are large objects, mark procedures, weak references, the writes of the
//! allocator to free cells, and several pages in one block.
#![cfg(loom)]

mod kernel;
mod stage;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::{env, slice};

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use loom::thread;

use kernel::Answers;
use stage::{BORN, FRESH, HELD, SIZES, Stage, Stops, Wanted, X, Y};

/// Words of the collecting thread's stack.
const STACK_WORDS: usize = 1 << 17;

/// What was seen in one order of events or another.
type Seen = Arc<Mutex<BTreeSet<bool>>>;

/// What a mutator does.
type Program = fn(&Stage, usize);

/// What the collecting thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// A step, and the last stop.
    Steps,
    /// The last stop, in which everything is marked.
    EndsEarly,
    /// Another stop and another step in between.
    TwoRounds,
    /// After the cycle a collection that keeps its marks.
    KeepsMarks,
    /// The same in steps.
    KeepsMarksInSteps,
    /// A step that asks the kernel what was written once it has marked everything, and scans that; and the last stop.
    Asks,
    /// A turn of a helper, which tries for the lock at any time, and the last stop.
    Helped,
}

/// One of the models.
#[derive(Clone, Copy)]
struct Model {
    answers: Answers,
    stops: Stops,
    wanted: Wanted,
    course: Course,
    /// What the first mutator does in the cycle before there are other threads.
    before: Program,
    programs: &'static [Program],
}

const USUAL: Model = Model {
    answers: Answers::AtOnce,
    stops: Stops::Whole,
    wanted: Wanted::Asked,
    course: Course::Steps,
    before: ALONE,
    programs: &[],
};

/// The collecting thread.
fn collects(model: Model, early: Seen) {
    let stage = Arc::new(Stage::new(model.answers, model.stops, model.wanted));
    stage.begin();
    (model.before)(&stage, 0);
    let start = |own: usize| {
        // Relaxed: the thread that stops the world is this one.
        stage.mutators[own].rests.store(false, Ordering::Relaxed);
        let stage = stage.clone();
        thread::spawn(move || {
            stage.poll(own);
            model.programs[own](&stage, own);
            // Release: partner of the Acquire of the thread that stops the world.
            stage.mutators[own].rests.store(true, Ordering::Release);
        })
    };
    let mut threads: Vec<_> = (0..model.programs.len()).map(start).collect();
    match model.course {
        Course::EndsEarly => {}
        Course::Asks => stage.step_and_ask(),
        Course::Helped => {
            let stage = stage.clone();
            threads.push(thread::spawn(move || stage.help()));
        }
        _ => stage.step(),
    }
    let goes_on = model.course != Course::TwoRounds || stage.put_off();
    early.lock().unwrap().insert(stage.has_found_t());
    if goes_on {
        stage.end();
    }
    match model.course {
        Course::KeepsMarks => stage.collect_new(),
        Course::KeepsMarksInSteps if stage.put_off() => stage.end(),
        _ => {}
    }
    threads.into_iter().for_each(|one| one.join().unwrap());
}

/// Runs a model in every order of events. Returns whether T was marked before the last stop: in some orders, in all, or in
/// none.
fn check(preemptions: usize, model: Model) -> Vec<bool> {
    let all = Seen::default();
    let early = all.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let early = early.clone();
        // A heap is larger than the stack of a model's first thread.
        let collector = thread::Builder::new().stack_size(STACK_WORDS);
        let collector = collector.spawn(move || collects(model, early)).unwrap();
        collector.join().unwrap();
    });
    all.lock().unwrap().iter().copied().collect()
}

/// Nothing.
const ALONE: Program = |_, _| ();
/// What a mutator does with objects that are born.
static HIDING: [Program; 3] = [hides_in_a_fresh_block, hides_beside_x, hides_late];
/// What gives it time for several stops; all of it with `GLEANER_LONG`.
fn long() -> &'static [Program] {
    static LONG: [Program; 4] = [
        hides_late,
        moves_there_and_back,
        hides_in_a_fresh_block,
        hides_beside_x,
    ];
    if env::var_os("GLEANER_LONG").is_some() {
        &LONG
    } else {
        &LONG[..2]
    }
}

/// Moves the reference to T from X to Y.
fn moves(stage: &Stage, own: usize) {
    let [x, y, _] = stage.objects;
    stage.load(own, x, 0, HELD);
    stage.store(own, y, 0, stage.local(own, HELD));
    stage.store(own, x, 0, Address::NULL);
    stage.forget(own, HELD);
}

/// Moves what Y refers to to X.
fn moves_back(stage: &Stage, own: usize) {
    let [x, y, _] = stage.objects;
    stage.load(own, y, 0, HELD);
    stage.store(own, x, 1, stage.local(own, HELD));
    stage.store(own, y, 0, Address::NULL);
    stage.forget(own, HELD);
}

/// Takes what Y refers to to the stack.
fn takes_from_y(stage: &Stage, own: usize) {
    let [_, y, _] = stage.objects;
    stage.load(own, y, 0, HELD);
    stage.store(own, y, 0, Address::NULL);
}

fn moves_there_and_back(stage: &Stage, own: usize) {
    moves(stage, own);
    moves_back(stage, own);
}

/// Takes the reference to T from X to the stack, on which it was not when the cycle began.
fn takes(stage: &Stage, own: usize) {
    let [x, ..] = stage.objects;
    stage.load(own, x, 0, HELD);
    stage.store(own, x, 0, Address::NULL);
}

/// Writes to Y: the processor knows that it may.
fn writes(stage: &Stage, own: usize) {
    stage.store(own, stage.objects[Y], 1, Address::NULL);
}

/// The same, and makes an object, so that another stop has something to put off.
fn writes_and_allocates(stage: &Stage, own: usize) {
    writes(stage, own);
    stage.allocate(own, FRESH, BORN);
    stage.forget(own, BORN);
}

/// Takes the reference to T after a write to Y.
fn writes_and_takes(stage: &Stage, own: usize) {
    writes(stage, own);
    takes(stage, own);
}

/// Moves the reference on the stack to Y.
fn gives(stage: &Stage, own: usize) {
    stage.store(own, stage.objects[Y], 0, stage.local(own, HELD));
    stage.forget(own, HELD);
}

/// Moves the reference to T from X to a new object, to which Y alone refers in the end.
fn hides(stage: &Stage, own: usize, bytes: usize) {
    let [x, y, _] = stage.objects;
    stage.load(own, x, 0, HELD);
    stage.allocate(own, bytes, BORN);
    let born = stage.local(own, BORN);
    stage.store(own, born, 0, stage.local(own, HELD));
    stage.store(own, x, 0, Address::NULL);
    stage.forget(own, HELD);
    stage.store(own, y, 0, born);
    stage.forget(own, BORN);
}

/// Gives Y the reference to a new object, and then that object the reference to T.
fn hides_late(stage: &Stage, own: usize) {
    let [x, y, _] = stage.objects;
    stage.allocate(own, FRESH, BORN);
    let born = stage.local(own, BORN);
    stage.store(own, y, 0, born);
    stage.load(own, x, 0, HELD);
    stage.store(own, x, 0, Address::NULL);
    stage.store(own, born, 0, stage.local(own, HELD));
    stage.forget(own, HELD);
    stage.forget(own, BORN);
}

fn hides_in_a_fresh_block(stage: &Stage, own: usize) {
    hides(stage, own, FRESH);
}

fn hides_beside_x(stage: &Stage, own: usize) {
    hides(stage, own, SIZES[X]);
}

#[test]
fn a_reference_that_is_moved_is_not_lost() {
    let moved = Model {
        programs: &[moves],
        ..USUAL
    };
    // A step finds T in X, or leaves it to the last stop, which looks at what was written to Y.
    assert_eq!(check(3, moved), [false, true]);
    let ended_early = Model {
        course: Course::EndsEarly,
        ..moved
    };
    assert_eq!(check(3, ended_early), [false]);
}

#[test]
fn a_reference_that_was_on_a_stack_is_not_lost() {
    let programs: [(Program, &[Program]); 3] = [
        (ALONE, &[takes]),
        (takes, &[gives]),
        (writes_and_takes, &[gives]),
    ];
    for (before, programs) in programs {
        let model = Model {
            before,
            programs,
            ..USUAL
        };
        assert_eq!(check(3, model), [false, true]);
    }
}

#[test]
fn what_a_new_object_refers_to_is_not_lost() {
    for program in &HIDING {
        let programs = slice::from_ref(program);
        let model = Model { programs, ..USUAL };
        assert_eq!(check(2, model), [false, true]);
    }
}

#[test]
fn a_reference_that_two_threads_move_is_not_lost() {
    let programs: [(Program, &[Program], usize, &[bool]); 3] = [
        (takes, &[gives, takes_from_y], 2, &[false, true]),
        (ALONE, &[moves, takes_from_y], 1, &[false, true]),
        (ALONE, &[moves, moves_back], 1, &[false, true]),
    ];
    for (before, programs, preemptions, early) in programs {
        let model = Model {
            before,
            programs,
            ..USUAL
        };
        assert_eq!(check(preemptions, model), early);
    }
}

#[test]
fn a_helper_that_marks_beside_the_program_loses_nothing() {
    let programs: [(usize, &[Program]); 3] = [
        (3, &[moves]),
        (2, &[hides_late]),
        (2, &[hides_in_a_fresh_block]),
    ];
    for (preemptions, programs) in programs {
        let model = Model {
            course: Course::Helped,
            programs,
            ..USUAL
        };
        // It comes before the last stop, or behind it.
        assert_eq!(check(preemptions, model), [false, true]);
    }
}

#[test]
fn a_question_beside_the_program_loses_nothing() {
    let programs: [(usize, Program, &[Program]); 5] = [
        (3, ALONE, &[moves]),
        (3, takes, &[gives]),
        (2, writes, &[moves]),
        (2, ALONE, &[hides_late]),
        (2, ALONE, &[hides_in_a_fresh_block]),
    ];
    for (preemptions, before, programs) in programs {
        let model = Model {
            course: Course::Asks,
            before,
            programs,
            ..USUAL
        };
        check(preemptions, model);
    }
}

#[test]
fn a_cycle_that_goes_on_after_a_stop_loses_nothing() {
    for program in long() {
        let programs = slice::from_ref(program);
        let model = Model {
            course: Course::TwoRounds,
            programs,
            ..USUAL
        };
        // Also where a step does not find T, the second stop does.
        assert_eq!(check(2, model), [true]);
    }
}

#[test]
fn a_collection_that_keeps_the_marks_of_a_cycle_loses_nothing() {
    for program in long() {
        let programs = slice::from_ref(program);
        let model = Model {
            course: Course::KeepsMarks,
            programs,
            ..USUAL
        };
        check(2, model);
    }
}

#[test]
fn steps_that_add_to_the_marks_of_a_cycle_lose_nothing() {
    for program in long() {
        let programs = slice::from_ref(program);
        let model = Model {
            course: Course::KeepsMarksInSteps,
            programs,
            ..USUAL
        };
        check(2, model);
    }
}

/// Reading and clearing are two calls, between which nothing can be written in a stop.
#[test]
fn soft_dirty_bits_are_asked_for_in_stops() {
    let programs: [(Program, &[Program]); 2] = [(takes, &[gives]), (ALONE, &[moves])];
    for (before, programs) in programs {
        let model = Model {
            answers: Answers::InTwoCalls,
            before,
            programs,
            ..USUAL
        };
        assert_eq!(check(2, model), [false, true]);
        // Nor is the kernel asked ahead of them.
        let asks = Model {
            course: Course::Asks,
            ..model
        };
        assert_eq!(check(2, asks), [false, true]);
    }
}

/// Whether cycles for which nobody has asked can begin: the heap has the kernel of this machine try that ([`Stage::prefer_cycles`]).
fn has_unasked_cycles() -> bool {
    let answer = gleaner_os::written::available();
    if let Err(unavailable) = &answer {
        eprintln!("not tested: {unavailable}");
    }
    answer.is_ok()
}

/// The first stop only has pages watched, and the last one only reads which were written.
#[test]
fn a_cycle_for_which_nobody_has_asked_loses_nothing() {
    if !has_unasked_cycles() {
        return;
    }
    let cases: [(usize, Course, Program, &[Program]); 8] = [
        (3, Course::Steps, ALONE, &[moves]),
        (3, Course::Steps, takes, &[gives]),
        (2, Course::Steps, ALONE, &[hides_in_a_fresh_block]),
        (3, Course::EndsEarly, ALONE, &[moves]),
        (2, Course::Asks, writes, &[moves]),
        (2, Course::Asks, ALONE, &[hides_in_a_fresh_block]),
        (2, Course::Helped, ALONE, &[hides_late]),
        (2, Course::TwoRounds, ALONE, &[hides_late]),
    ];
    for (preemptions, course, before, programs) in cases {
        let model = Model {
            wanted: Wanted::Auto,
            course,
            before,
            programs,
            ..USUAL
        };
        check(preemptions, model);
    }
}

// As it must not be.

/// A mutator gives Y, which has been scanned, the last reference to T.
fn loses(answers: Answers, before: Program) {
    let model = Model {
        answers,
        before,
        programs: &[gives],
        ..USUAL
    };
    check(2, model);
}

#[test]
#[should_panic(expected = "a reachable object is not marked")]
fn pages_that_are_protected_after_they_were_scanned_lose_a_write() {
    loses(Answers::ProtectsLate, takes);
}

#[test]
#[should_panic(expected = "a reachable object is not marked")]
fn a_processor_that_may_still_write_after_the_answer_loses_a_write() {
    // It knows since before the second question that it may write to Y.
    let model = Model {
        answers: Answers::LeavesTlbs,
        course: Course::TwoRounds,
        before: writes_and_allocates,
        programs: &[hides_in_a_fresh_block],
        ..USUAL
    };
    check(2, model);
}

#[test]
#[should_panic(expected = "a reachable object is not marked")]
fn a_processor_that_may_still_write_after_an_answer_beside_the_program_loses_a_write() {
    let model = Model {
        answers: Answers::LeavesTlbs,
        course: Course::Asks,
        before: writes_and_takes,
        programs: &[gives],
        ..USUAL
    };
    check(2, model);
}

#[test]
#[should_panic(expected = "a reachable object is not marked")]
fn a_page_that_the_last_stop_leaves_out_loses_a_write() {
    loses(Answers::Omits(Y), takes);
}

#[test]
#[should_panic(expected = "Concurrent")]
fn a_last_stop_that_waits_for_no_thread_reads_a_running_stack() {
    let model = Model {
        stops: Stops::WaitForNone,
        programs: &[takes],
        ..USUAL
    };
    check(2, model);
}

#[test]
#[should_panic(expected = "a reachable object is not marked")]
fn a_last_stop_without_roots_loses_what_is_on_a_stack() {
    let model = Model {
        stops: Stops::SkipRoots,
        programs: &[takes],
        ..USUAL
    };
    check(2, model);
}

#[test]
#[should_panic(expected = "a reachable object is not marked")]
fn a_page_that_a_stop_in_between_leaves_out_loses_a_write() {
    let model = Model {
        answers: Answers::Omits(Y),
        course: Course::TwoRounds,
        before: takes,
        programs: &[gives],
        ..USUAL
    };
    check(2, model);
}

#[test]
#[should_panic(expected = "a reachable object is not marked")]
fn a_page_that_is_not_read_in_the_last_stop_loses_a_write() {
    assert!(
        has_unasked_cycles(),
        "not tested whether a reachable object is not marked"
    );
    let model = Model {
        answers: Answers::Omits(Y),
        wanted: Wanted::Auto,
        before: takes,
        programs: &[gives],
        ..USUAL
    };
    check(2, model);
}

/// The first stop protects as each question does.
#[test]
#[should_panic(expected = "a reachable object is not marked")]
fn a_processor_that_may_still_write_after_a_cycle_has_begun_loses_a_write() {
    assert!(
        has_unasked_cycles(),
        "not tested whether a reachable object is not marked"
    );
    let model = Model {
        answers: Answers::LeavesTlbs,
        wanted: Wanted::Auto,
        course: Course::TwoRounds,
        before: writes_and_allocates,
        programs: &[hides_in_a_fresh_block],
        ..USUAL
    };
    check(2, model);
}
