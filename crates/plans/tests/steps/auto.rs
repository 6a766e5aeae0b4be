//! Under `generations=auto` everything is marked beside the program, between two stops for which nobody has asked. Pages are watched for
//! such cycles alone: from the first stop of one to its last.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gleaner_base::events::Phase;
use gleaner_base::faults::{FaultPoint, arm, left};
use gleaner_base::options::{CycleHelper, MarkGenerations};
use gleaner_base::sync::AtomicU32;
use gleaner_mem::Address;
use gleaner_os::written::{KernelModel, Mechanism, Reason, Watch};
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::cycle::Next;
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, FRESH, State};
use gleaner_spaces::mark_sweep::kinds::NORMAL;

use crate::harness::Bench;
use crate::{Begun, OBJECTS, store};

/// Whether that pays is a matter of time, which the decider's own tests make up.
const OPTIONS: &str = "generations=auto,cycle-helper=on,stress=1000000,markers=1";
/// What is watched outside of cycles costs a fault for each page, and is of no use.
const NOTHING: [Call; 0] = [];

pub fn everything_is_marked_beside_the_program() {
    a_helper_comes_where_the_option_says();
    what_is_written_around_either_stop_is_found();
    what_is_written_in_a_new_block_is_found_in_another_round();
    the_kernel_watches_in_cycles_alone();
    what_the_kernel_does_not_say_is_not_built_on();
    a_program_that_asks_for_steps_in_a_cycle_loses_nothing();
    a_child_goes_on_with_the_cycle();
    a_child_counts_the_turns_of_its_own_helper();
    a_program_that_confines_itself_has_no_cycles();
    a_watch_for_cycles_is_no_trial_of_marks_that_are_kept();
    where_addresses_are_limited_no_cycle_begins();
    cycles_come_and_go_where_marks_are_kept();
    without_anybody_who_marks_no_cycle_begins();
}

/// A list of objects in a heap whose next collection is marked beside the program. Nothing where the kernel does not say what is
/// written.
fn before(more: &str) -> Option<Begun> {
    let mut begun = Begun::before(&format!("{OPTIONS},{more}"))?;
    begun.bench.collect();
    if begun.bench.heap.mode != MarkGenerations::Auto {
        eprintln!("not tested: the kernel does not say what is written");
        return None;
    }
    assert!(begun.bench.heap.makes_steps() && begun.bench.heap.wants_helper());
    // Any shortage would end a cycle.
    let capacity = begun.bench.heap.space.capacity + (4 << 20);
    begun.bench.heap.grow_to(capacity, "the test");
    Some(begun)
}

/// Gives an object of the list another one, to which nothing else leads.
fn hang(begun: &mut Begun, number: usize, word: usize) -> usize {
    let young = begun.bench.allocate(NORMAL, 64).unwrap();
    store(begun.object(number), word, young.word());
    !young.word()
}

fn are_marked(begun: &Begun, hidden: &[usize]) -> bool {
    let is_marked = |object: &usize| begun.bench.is_marked(Address::new(!object));
    begun.all_live() && hidden.iter().all(is_marked)
}

/// Begins a cycle for which the program has not asked.
fn begin(begun: &mut Begun) {
    let cycles = begun.bench.heap.totals.cycles;
    assert_eq!(begun.bench.collect_new("memory is used up"), Outcome::Begun);
    assert_eq!(begun.bench.heap.totals.cycles, cycles + 1);
}

fn end_stepped(begun: &mut Begun) {
    let extent = begun.end();
    assert!(matches!(extent, Extent::Stepped(_)), "{extent:?}");
}

/// The same where the last stop may be put off again.
fn end_at_last(begun: &mut Begun) {
    while begun.bench.heap.cycle.is_under_way() {
        if !begun.bench.heap.cycle.can_end() {
            begun.mark();
        }
        let outcome = begun.bench.collect_new("the end");
        assert!(matches!(outcome, Outcome::Done | Outcome::Begun));
    }
    begun.bench.verify_collected();
    assert!(begun.bench.was_stepped());
}

/// Where a program has asked for steps it has to ask for that, too.
fn a_helper_comes_where_the_option_says() {
    for (option, is_wanted) in [("on", true), ("auto", false), ("off", false)] {
        let Some(begun) = Begun::before(&format!("cycle-helper={option}")) else {
            return;
        };
        assert!(begun.bench.heap.makes_steps());
        assert_eq!(begun.bench.heap.wants_helper(), is_wanted);
    }
    let Some(mut begun) = before("") else {
        return;
    };
    for (option, is_wanted) in [
        (CycleHelper::On, true),
        (CycleHelper::Auto, true),
        (CycleHelper::Off, false),
    ] {
        begun.bench.heap.options.cycle_helper = option;
        assert_eq!(begun.bench.heap.wants_helper(), is_wanted);
    }
}

/// Of one word of each of several objects: what was written before the first stop, after it, while the kernel is asked ahead, and
/// before the last one. Cycles follow each other, and between some there is an ordinary collection.
fn what_is_written_around_either_stop_is_found() {
    for options in ["", "verify=off", "poison=on", "sweep=eager"] {
        let Some(mut begun) = before(options) else {
            return;
        };
        for round in 0..4 {
            let mut young = vec![hang(&mut begun, 17 + round, 2)];
            begin(&mut begun);
            young.push(hang(&mut begun, 5000 + round, 3));
            young.push(hang(&mut begun, OBJECTS - 2, 4 + round));
            while !begun.bench.heap.is_asking() && !begun.bench.heap.cycle.can_end() {
                begun.bench.heap.step();
            }
            young.push(hang(&mut begun, 9000 + round, 5));
            begun.mark();
            young.push(hang(&mut begun, 19_000 + round, 6));
            // The list is cut, and its rest hangs on what was scanned long ago.
            store(begun.object(OBJECTS - 1), 7, begun.object(499).word());
            store(begun.object(500), 0, 0);
            end_stepped(&mut begun);
            assert!(are_marked(&begun, &young), "{options}: round {round}");
            store(begun.object(500), 0, begun.object(499).word());
            store(begun.object(OBJECTS - 1), 7, 0);
            if round % 2 == 0 {
                begun.bench.collect();
                begun.bench.verify_collected();
                assert!(are_marked(&begun, &young));
            }
        }
        assert_eq!(begun.bench.heap.totals.cycles_cut_short, 0);
        assert_eq!(begun.bench.heap.totals.kept_marks, 0, "no marks are kept");
        // Nobody has said how long they may be.
        let stops = begun.bench.events(Phase::StopWorld);
        assert!(!stops.is_empty() && stops.iter().all(|stop| stop.goal_ns == 0));
    }
}

/// A block that is handed out in a cycle lies between old ones, about which the kernel is asked ahead in one call. The last stop is put
/// off, and that asks about all blocks. The new block is written before the question, behind it, behind that stop, or at the end.
fn what_is_written_in_a_new_block_is_found_in_another_round() {
    for options in ["", "verify=off"] {
        for when in 0..4 {
            let Some(mut begun) = before(options) else {
                return;
            };
            let (fresh, made) = begin_with_a_new_block(&mut begun);
            let mut young = Vec::new();
            let mut write = |begun: &mut Begun, now: usize| {
                for hidden in made.iter().filter(|_| now == when) {
                    let object = begun.bench.allocate(NORMAL, 48).unwrap();
                    store(Address::new(!hidden), 1, object.word());
                    young.push(!object.word());
                }
            };
            write(&mut begun, 0);
            begun.mark();
            assert!(begun.bench.block(fresh).has_flag(FRESH));
            write(&mut begun, 1);
            for number in 0..500 {
                hang(&mut begun, number, 2);
            }
            begun.bench.heap.settings.time_limit_ns = Some(0);
            assert_eq!(begun.bench.collect_new("put off"), Outcome::Begun);
            assert!(!begun.bench.block(fresh).has_flag(FRESH));
            write(&mut begun, 2);
            begun.mark();
            write(&mut begun, 3);
            begun.bench.heap.settings.time_limit_ns = None;
            end_at_last(&mut begun);
            assert!(are_marked(&begun, &made) && are_marked(&begun, &young));
        }
    }
}

/// A cycle in which objects of a new block between old ones were found, and scanned; and the kernel was not asked since its begin.
fn begin_with_a_new_block(begun: &mut Begun) -> (Address, Vec<usize>) {
    let [low, high, dead]: [Vec<usize>; 3] = blocks_between(begun);
    begin(begun);
    let made: Vec<usize> = (0..4 * BLOCK_BYTES / 2000)
        .map(|_| !begun.bench.allocate(NORMAL, 2000).unwrap().word())
        .filter(|hidden| dead.contains(&(!hidden / BLOCK_BYTES)))
        .collect();
    assert!(!made.is_empty(), "no block between the others is used");
    let fresh = Address::new(!made[0]);
    assert!(begun.bench.block(fresh).has_flag(FRESH));
    assert!(low.iter().all(|&block| block < fresh.word() / BLOCK_BYTES));
    assert!(high.iter().all(|&block| block > fresh.word() / BLOCK_BYTES));
    // The list is marked from its last object on.
    for (number, hidden) in made.iter().enumerate() {
        store(begun.object(OBJECTS / 2 + number), 3, !hidden);
    }
    while !begun.bench.is_marked(begun.object(OBJECTS / 8)) {
        begun.bench.heap.step();
    }
    assert!(
        made.iter()
            .all(|hidden| begun.bench.is_marked(Address::new(!hidden)))
    );
    assert!(!begun.bench.heap.is_asking());
    (fresh, made)
}

/// The numbers of old blocks below and above some that are free again, and of these.
fn blocks_between(begun: &mut Begun) -> [Vec<usize>; 3] {
    let mut fill = |bytes, keeps: Option<usize>| {
        let mut blocks = BTreeSet::new();
        let mut last = 0;
        for _ in 0..8 * BLOCK_BYTES / bytes {
            let object = begun.bench.allocate(NORMAL, bytes).unwrap();
            blocks.insert(object.word() / BLOCK_BYTES);
            store(object, 0, last);
            if let Some(word) = keeps {
                last = object.word();
                store(begun.object(1), word, last);
            }
        }
        blocks.into_iter().collect::<Vec<usize>>()
    };
    let found = [fill(1000, Some(8)), fill(3000, None), fill(1500, Some(9))];
    begun.bench.collect();
    let [low, dead, high] = found;
    // Those that a list took from blocks that were there before lie elsewhere.
    let middle: Vec<usize> = dead
        .into_iter()
        .filter(|block| {
            let table = begun.bench.heap.space.layout.table;
            let index = table.index_of(Address::new(block * BLOCK_BYTES));
            // SAFETY: a block of the heap, which is at rest.
            unsafe { (*table.block(index)).state == State::Free }
        })
        .collect();
    let (first, last) = (middle[0], *middle.last().unwrap());
    let beside = |blocks: Vec<usize>, range: Range<usize>| -> Vec<usize> {
        blocks.into_iter().filter(|it| range.contains(it)).collect()
    };
    let (low, high) = (beside(low, 0..first), beside(high, last + 1..usize::MAX));
    assert!(first - low.last().unwrap() < 8 && high[0] - last < 8);
    [low, high, middle]
}

/// Bytes of each part that were written before the last stop: where little was, that is not put off.
const READ: usize = 64 << 10;

/// What the kernel is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Take,
    Begin,
    Read,
    Finish,
}

/// Of what it is asked about, it says that all was written, or for the last time the begin of each part. It remembers what that was.
#[derive(Default)]
struct Kernel(Mutex<Vec<Call>>);

impl Kernel {
    fn note(&self, call: Call) -> Result<(), Reason> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.last() != Some(&call) {
            calls.push(call);
        }
        Ok(())
    }

    /// The calls since this was asked last, neighbours that are equal as one.
    fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KernelModel for Kernel {
    fn take(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        visit(low, high);
        self.note(Call::Take)
    }

    fn begin(&self, _: usize, _: usize) -> Result<(), Reason> {
        self.note(Call::Begin)
    }

    fn read(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        visit(low, high.min(low + READ));
        self.note(Call::Read)
    }

    fn finish(&self) -> Result<(), Reason> {
        self.note(Call::Finish)
    }

    fn release(&self, _: usize, _: usize) {}
}

/// The first stop names nothing, the last protects nothing, and an ordinary collection asks nothing.
fn the_kernel_watches_in_cycles_alone() {
    for (mechanism, ahead) in [
        (Mechanism::PageScan, &[Call::Take, Call::Finish][..]),
        (Mechanism::SoftDirty, &[]),
    ] {
        let Some(mut begun) = before("verify=off") else {
            return;
        };
        let kernel: &'static Kernel = Box::leak(Box::default());
        let model = |_: &[Range<usize>]| Ok(Watch::modelled(mechanism, kernel));
        begun.bench.heap.space.watch_by(model).unwrap();
        for _ in 0..2 {
            begin(&mut begun);
            assert_eq!(kernel.calls(), [Call::Begin, Call::Finish]);
            let young = hang(&mut begun, 7, 2);
            begun.mark();
            // Ahead of the last stop, in pieces.
            let asked = kernel.calls();
            let (pieces, rest) = asked.as_chunks::<2>();
            assert!(rest.is_empty() && pieces.iter().all(|piece| piece == ahead));
            assert_eq!(pieces.is_empty(), ahead.is_empty());
            end_stepped(&mut begun);
            assert_eq!(kernel.calls(), [Call::Read]);
            assert!(are_marked(&begun, &[young]));
            begun.bench.collect();
            assert_eq!(kernel.calls(), NOTHING);
            assert!(are_marked(&begun, &[young]));
        }
        // One that is put off asks for the sake of the next stop.
        begin(&mut begun);
        begun.mark();
        kernel.calls();
        begun.bench.heap.settings.time_limit_ns = Some(0);
        for number in 0..500 {
            hang(&mut begun, number, 2);
        }
        assert_eq!(begun.bench.collect_new("put off"), Outcome::Begun);
        assert_eq!(kernel.calls(), [Call::Take, Call::Finish]);
        begun.bench.heap.settings.time_limit_ns = None;
        end_at_last(&mut begun);
        assert_eq!(kernel.calls().last(), Some(&Call::Read));
        // The verifier wants to know what was written when.
        begun.bench.heap.space.verified = true;
        begun.bench.heap.space.watch_by(model).unwrap();
        begin(&mut begun);
        assert_eq!(kernel.calls(), [Call::Take, Call::Finish]);
        begun.mark();
        end_at_last(&mut begun);
    }
}

/// In the first stop, ahead of the last one, and in that.
fn what_the_kernel_does_not_say_is_not_built_on() {
    for refused in 0..3 {
        let Some(mut begun) = before("") else {
            return;
        };
        let ask = |fails: bool| arm(FaultPoint::WatchWrites, u32::from(fails));
        let mut young = vec![hang(&mut begun, 7, 2)];
        ask(refused == 0);
        begin(&mut begun);
        young.push(hang(&mut begun, 8, 2));
        ask(refused == 1);
        begun.mark();
        young.push(hang(&mut begun, 9, 2));
        ask(refused == 2);
        let extent = begun.end();
        assert_eq!(left(FaultPoint::WatchWrites), 0);
        assert_eq!(matches!(extent, Extent::Stepped(_)), refused == 0);
        assert!(are_marked(&begun, &young), "{refused}: {extent:?}");
        // Cycles go on.
        begin(&mut begun);
        young.push(hang(&mut begun, 10, 2));
        begun.mark();
        end_stepped(&mut begun);
        assert!(are_marked(&begun, &young));
    }
}

/// `GC_enable_incremental`, before anything is marked beside the program and when all is. Marks are kept from then on.
fn a_program_that_asks_for_steps_in_a_cycle_loses_nothing() {
    for is_marked in [false, true] {
        let Some(mut begun) = before("") else {
            return;
        };
        begin(&mut begun);
        let mut young = vec![hang(&mut begun, 7, 2)];
        if is_marked {
            begun.mark();
        }
        young.push(hang(&mut begun, 8, 2));
        assert_eq!(begun.bench.heap.enable_incremental(), Ok(true));
        assert_eq!(begun.bench.heap.mode, MarkGenerations::Incremental);
        // What was written since it began is lost with its watch.
        assert!(!begun.bench.heap.cycle.is_under_way());
        young.push(hang(&mut begun, 9, 2));
        begin(&mut begun);
        young.push(hang(&mut begun, 10, 2));
        begun.mark();
        end_stepped(&mut begun);
        assert!(are_marked(&begun, &young));
        young.push(hang(&mut begun, 11, 2));
        begun.end();
        assert!(begun.bench.kept_marks() && !begun.bench.was_stepped());
        assert!(are_marked(&begun, &young));
    }
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
    fn prctl(option: i32, ...) -> i32;
    fn setrlimit(resource: i32, limits: *const [u64; 2]) -> i32;
}

/// Runs `what` in a child, where it must not fail.
pub fn in_child(what: impl FnOnce()) {
    // SAFETY: the child runs nothing of its parent's but the heap, which this thread alone uses, and leaves.
    let child = unsafe { fork() };
    if child == 0 {
        let held = catch_unwind(AssertUnwindSafe(what));
        // SAFETY: ends the child.
        unsafe { _exit(i32::from(held.is_err())) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child has failed");
}

/// What the kernel knew of its parent's pages says nothing of its own.
fn a_child_goes_on_with_the_cycle() {
    for is_marked in [false, true] {
        let Some(mut begun) = before("") else {
            return;
        };
        begin(&mut begun);
        let young = vec![hang(&mut begun, 7, 2)];
        if is_marked {
            begun.mark();
        }
        let ends = |begun: &mut Begun, mut young: Vec<usize>| {
            young.push(hang(begun, 8, 2));
            if !begun.bench.heap.cycle.can_end() {
                begun.mark();
            }
            young.push(hang(begun, 9, 2));
            begun.end();
            assert!(are_marked(begun, &young));
            begin(begun);
            young.push(hang(begun, 10, 2));
            begun.mark();
            end_stepped(begun);
            assert!(are_marked(begun, &young));
        };
        in_child(|| {
            begun.bench.heap.begin_in_child();
            ends(&mut begun, young.clone());
        });
        ends(&mut begun, young);
    }
}

/// Has a filter of system calls in force from now on, which forbids none.
fn confine_this_process() {
    const SET_NO_NEW_PRIVILEGES: i32 = 38;
    const SET_FILTER: (i32, usize) = (22, 2);
    // One statement, which lets through.
    let statement: [u32; 2] = [0x06, 0x7fff_0000];
    let program: (usize, *const u32) = (1, statement.as_ptr());
    // SAFETY: numbers, and a program of one statement that the kernel copies; a little-endian length fills the first word.
    unsafe {
        assert_eq!(
            prctl(SET_NO_NEW_PRIVILEGES, 1usize, 0usize, 0usize, 0usize),
            0
        );
        assert_eq!(prctl(SET_FILTER.0, SET_FILTER.1, &raw const program), 0);
    }
}

/// Nobody asks the kernel any more, of which the program knows nothing: before a cycle, in it, and before its last stop.
fn a_program_that_confines_itself_has_no_cycles() {
    for at in 0..3 {
        let Some(mut begun) = before("") else {
            return;
        };
        in_child(|| {
            let mut young = vec![hang(&mut begun, 7, 2)];
            if at > 0 {
                begin(&mut begun);
                young.push(hang(&mut begun, 8, 2));
            }
            if at > 1 {
                begun.mark();
                young.push(hang(&mut begun, 9, 2));
            }
            confine_this_process();
            if begun.bench.heap.cycle.is_under_way() && !begun.bench.heap.cycle.can_end() {
                begun.mark();
            }
            for round in 0..3 {
                young.push(hang(&mut begun, 10 + round, 2));
                assert_eq!(begun.bench.collect_new("confined"), Outcome::Done);
                let extent = begun.bench.heap.extent;
                assert!(matches!(extent, Extent::Everything(_)), "{extent:?}");
                assert!(!begun.bench.heap.cycle.is_under_way());
                assert!(are_marked(&begun, &young));
            }
            assert!(!begun.bench.heap.makes_steps());
            assert_eq!(begun.bench.heap.mode, MarkGenerations::Asked);
            assert!(begun.bench.heap.space.written.is_none());
        });
    }
}

/// Has a helper mark until it rests.
fn help(bench: &mut Bench) {
    let waiting = AtomicU32::new(0);
    loop {
        match bench.heap.mark_beside_program(&waiting) {
            // SAFETY: this thread has begun the turn, and marks in it once.
            Next::Mark(turn) => unsafe { turn.mark() },
            Next::ComeBack(nanoseconds) => std::thread::sleep(Duration::from_nanos(nanoseconds)),
            Next::GoOn => {}
            Next::Rest => return,
        }
    }
}

/// Those of its parent's are no part of it.
fn a_child_counts_the_turns_of_its_own_helper() {
    let Some(mut begun) = before("") else {
        return;
    };
    begin(&mut begun);
    help(&mut begun.bench);
    assert!(begun.bench.heap.totals.helped_turns > 0);
    end_at_last(&mut begun);
    begun.bench.heap.begin_in_child();
    assert_eq!(begun.bench.heap.totals.helped_turns, 0);
    begun.bench.collect();
    begin(&mut begun);
    help(&mut begun.bench);
    end_at_last(&mut begun);
    assert!(begun.all_live());
}

/// A program that does nothing but collect spends its time in that, so that trials of marks that are kept begin. A helper comes
/// and goes.
fn cycles_come_and_go_where_marks_are_kept() {
    let Some(mut begun) = before("reserve=128m") else {
        return;
    };
    let all = begun.bench.allocate(NORMAL, 8 << 20).unwrap();
    store(all, 0, begun.bench.kept_object().word());
    begun.bench.replace_kept(all);
    begun.bench.collect();
    let (mut stepped, mut of_new) = (0, 0);
    for round in 0..120 {
        begun.bench.heap.options.cycle_helper = match round / 30 % 2 {
            0 => CycleHelper::On,
            _ => CycleHelper::Off,
        };
        let mut young = Vec::new();
        let mut give = |begun: &mut Begun, word: usize| {
            let object = begun.bench.allocate(NORMAL, 64).unwrap();
            // A page of its own.
            store(all, 512 * round + word, object.word());
            young.push(!object.word());
        };
        give(&mut begun, 1);
        while begun.bench.collect_new("auto") == Outcome::Begun {
            // Those of new objects are short.
            assert!(!begun.bench.heap.cycle.is_of_new());
            give(&mut begun, 2);
            begun.mark();
            give(&mut begun, 3);
        }
        begun.bench.verify_collected();
        assert!(are_marked(&begun, &young), "round {round}");
        match begun.bench.heap.extent {
            Extent::Stepped(_) => stepped += 1,
            Extent::New(_) => of_new += 1,
            _ => {}
        }
    }
    assert!(stepped > 0, "no cycles");
    assert!(of_new > 0, "no marks were kept");
}

/// Tests alone have steps where there is no helper. Nor are pages watched then.
fn without_anybody_who_marks_no_cycle_begins() {
    let Some(mut begun) = before("") else {
        return;
    };
    begun.bench.heap.options.stress = 0;
    begin_nothing(&mut begun);
    assert!(begun.bench.heap.space.written.is_none());
    assert!(!begun.bench.heap.wants_helper());
    let told = begun.bench.events(Phase::WriteWatch);
    let reason = "marking beside the program does not pay any more";
    assert_eq!(told.last().unwrap().reason, reason);
    assert_eq!(begun.bench.heap.unwatched_since, reason);
    begin_nothing(&mut begun);
    // Nor where the options forbid it.
    begun.bench.heap.options.stress = 1_000_000;
    begun.bench.heap.options.cycle_helper = CycleHelper::Off;
    begin_nothing(&mut begun);
    begin_nothing(&mut begun);
    begun.bench.heap.options.cycle_helper = CycleHelper::On;
    begin_nothing(&mut begun);
    begin(&mut begun);
    begun.mark();
    end_stepped(&mut begun);
}

fn begin_nothing(begun: &mut Begun) {
    assert_eq!(begun.bench.collect_new("new"), Outcome::Done);
    assert!(!begun.bench.kept_marks() && begun.all_live());
}

/// That is given up after a few collections of everything, of which there are no others here.
fn a_watch_for_cycles_is_no_trial_of_marks_that_are_kept() {
    let Some(mut begun) = before("") else {
        return;
    };
    let told = |begun: &Begun| begun.bench.events(Phase::WriteWatch).pop();
    let before = told(&begun).unwrap().start_ns;
    for round in 0..20 {
        if round % 4 == 3 {
            begin(&mut begun);
            begun.mark();
            end_stepped(&mut begun);
        } else {
            begun.bench.collect();
        }
        let since = told(&begun).filter(|event| event.start_ns > before);
        assert_eq!(since.map(|event| event.reason), None, "{round}");
        assert!(begun.bench.heap.space.written.is_some());
    }
}

/// Also where that is so from some moment on: the program could miss what a watch takes.
fn where_addresses_are_limited_no_cycle_begins() {
    const ADDRESSES: i32 = 9;
    let Some(mut begun) = before("") else {
        return;
    };
    in_child(|| {
        begin(&mut begun);
        begun.mark();
        // SAFETY: two numbers.
        assert_eq!(unsafe { setrlimit(ADDRESSES, &[1 << 46, 1 << 46]) }, 0);
        begun.end();
        for _ in 0..4 {
            begin_nothing(&mut begun);
            assert!(!begun.bench.heap.makes_steps());
            assert!(begun.bench.heap.space.written.is_none());
        }
    });
    begin(&mut begun);
    begun.mark();
    end_stepped(&mut begun);
}
