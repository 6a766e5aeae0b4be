//! Marking in steps: what a program does between them is seen, what they must not touch they leave alone, and a cycle
//! that cannot go on is given up. What a cycle finds is compared with a model in `differential`.
//!
//! Points of failure are one for the whole process, so this is one test after the other.

#![cfg(not(loom))]

mod ahead;
mod auto;
mod changed_marks;
mod descriptors;
#[path = "../harness/mod.rs"]
mod harness;
mod helped;
mod memory;
mod refills;
mod time_is_over;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use gleaner_base::events::Phase;
use gleaner_base::events::reasons::{DISABLED, MARKED, OVERTAKEN};
use gleaner_base::faults::{FaultPoint, arm};
use gleaner_base::options::MarkGenerations;
use gleaner_mem::Address;
use gleaner_os::threads::ThreadId;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_spaces::mark_sweep::kinds::{Kind, NORMAL, UNCOLLECTABLE, descriptor};
use gleaner_spaces::mark_sweep::scan::Entry;
use gleaner_spaces::mark_sweep::scan::MarkMode;
use harness::Bench;

const OBJECTS: usize = 20_000;

/// A heap with a list of objects, each of which leads to the next, that a cycle has begun to mark.
struct Begun {
    bench: Bench,
    objects: Vec<usize>,
}

impl Begun {
    /// Nothing where the kernel does not say what is written.
    fn new(options: &str) -> Option<Begun> {
        let mut begun = Begun::before(options)?;
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        assert!(begun.bench.heap.cycle.is_under_way());
        Some(begun)
    }

    /// The same before the cycle begins.
    fn before(options: &str) -> Option<Begun> {
        let mut bench = Bench::new(&format!("generations=incremental,verify=edges,{options}"));
        if let Some(unavailable) = bench.heap.unwatched {
            eprintln!("not tested: {unavailable}");
            return None;
        }
        bench.steps = false;
        let mut objects = Vec::new();
        let mut last = 0;
        for _ in 0..OBJECTS {
            let object = bench.allocate(NORMAL, 100).unwrap();
            store(object, 0, last);
            match last {
                0 => bench.keep(object),
                _ => bench.replace_kept(object),
            }
            last = object.word();
            objects.push(!last);
        }
        if bench.heap.cycle.is_under_way() {
            bench.collect();
        }
        bench.heap.totals.cycles_cut_short = 0;
        // Any shortage would end a cycle that has marked everything.
        bench.heap.space.capacity += 1 << 20;
        Some(Begun { bench, objects })
    }

    fn object(&self, number: usize) -> Address {
        Address::new(!self.objects[number])
    }

    /// Makes steps until nothing is left for another; how many.
    fn mark(&mut self) -> usize {
        let mut steps = 0;
        assert!(self.bench.heap.cycle.is_under_way());
        while !self.bench.heap.cycle.can_end() {
            self.bench.heap.step();
            steps += 1;
        }
        steps
    }

    /// Ends the cycle; what the collection was of.
    fn end(&mut self) -> Extent {
        assert_eq!(self.bench.collect_new("the end"), Outcome::Done);
        assert!(!self.bench.heap.cycle.is_under_way());
        self.bench.verify_collected();
        self.bench.heap.extent
    }

    /// Why cycles ended, as far as the last events tell, and after how many steps.
    fn ended(&self) -> Vec<(&'static str, u64)> {
        let ends = self.bench.events(Phase::CycleEnd);
        ends.iter().map(|end| (end.reason, end.objects)).collect()
    }

    /// Marks were changed behind the cycle's back: what it finds is not built on.
    fn disturb(&self) {
        let disturbed = &self.bench.heap.context.disturbed;
        disturbed.store(true, Ordering::Relaxed);
    }

    fn all_live(&self) -> bool {
        (0..OBJECTS).all(|number| self.bench.is_marked(self.object(number)))
    }
}

fn store(object: Address, word: usize, value: usize) {
    // SAFETY: an object of the test, and `word` is inside it.
    unsafe { object.add(word * 8).store(value) };
}

#[test]
fn marks_are_made_in_steps_beside_the_program() {
    a_cycle_takes_steps_and_ends_in_a_short_stop();
    what_is_written_between_steps_is_found();
    what_became_unreachable_stays_until_the_next();
    large_objects_that_are_freed_go_when_the_cycle_ends();
    large_objects_that_are_freed_go_where_a_cycle_is_given_up();
    what_only_dead_large_objects_lead_to_goes_with_them();
    what_was_freed_is_shown_to_no_mark_procedure();
    mark_procedures_wait_for_a_stop_where_other_threads_run();
    descriptors::steps_read_what_objects_bring_along();
    one_that_lost_what_was_written_is_given_up();
    changed_marks::one_whose_marks_changed_is_given_up();
    changed_marks::objects_whose_marks_were_taken_away_live_on();
    everything_asked_for_is_not_put_off();
    a_tight_limit_leaves_no_room_for_a_cycle();
    one_that_cannot_keep_pace_ends_in_the_stop();
    nothing_is_dropped_where_stacks_are_small();
    what_takes_no_longer_than_the_limit_is_marked_at_once();
    new_objects_are_marked_in_steps_as_well();
    a_cycle_that_is_put_off_comes_to_an_end();
    steps_come_to_an_end_in_a_heap_of_many_blocks();
    memory::a_heap_that_has_grown_for_a_cycle_shrinks_again();
    memory::what_was_dead_before_a_cycle_is_used_during_it();
    memory::cycles_begin_before_memory_is_used_up();
    memory::a_cycle_is_not_ended_by_the_request_that_has_begun_it();
    what_a_procedure_pushes_is_scanned_in_the_stop();
    helped::a_helper_marks_beside_the_program();
    refills::turns_go_on_while_lists_are_refilled();
    ahead::the_kernel_is_asked_ahead_of_stops();
    time_is_over::no_block_is_lost();
    time_is_over::what_finalizers_need_is_marked_in_steps();
    time_is_over::steps_keep_pace_with_what_a_second_stop_has_left();
    time_is_over::a_step_knows_that_it_lost_the_processor();
    time_is_over::what_finalizers_need_is_put_off_in_time();
    a_client_that_gives_up_hears_of_the_end();
    without_a_limit_there_are_no_steps();
    auto_watches_where_much_lives();
    auto::everything_is_marked_beside_the_program();
}

fn a_cycle_takes_steps_and_ends_in_a_short_stop() {
    let Some(mut begun) = Begun::new("stress=1000000") else {
        return;
    };
    // In the stop only what roots refer to was marked.
    assert!(begun.bench.is_marked(begun.object(OBJECTS - 1)));
    assert!(!begun.bench.is_marked(begun.object(0)));
    let steps = begun.mark();
    assert!(steps > 2);
    assert!(begun.bench.is_marked(begun.object(0)));
    let Extent::Stepped(_) = begun.end() else {
        panic!("{:?}", begun.bench.heap.extent)
    };
    assert!(begun.all_live());
    // The log tells of it, of the threads that waited for steps, and how long stops may be.
    assert_eq!(begun.ended().last(), Some(&(MARKED, steps as u64)));
    let own = gleaner_os::threads::current_tid().0 as u32;
    let stepped = begun.bench.events(Phase::MarkStep);
    assert!(!stepped.is_empty() && stepped.iter().all(|it| it.thread == own));
    let limit = begun.bench.heap.settings.time_limit_ns.unwrap();
    let stopped = begun.bench.events(Phase::StopWorld);
    assert!(!stopped.is_empty() && stopped.iter().all(|stop| stop.goal_ns == limit));
    let marks = begun.bench.events(Phase::Mark);
    let last = marks.last().unwrap().bytes;
    assert!(
        last < (OBJECTS * 112 / 4) as u64,
        "{last} bytes in the stop"
    );
    assert_eq!(begun.bench.heap.totals.cycles_cut_short, 0);
    // The marks can be kept.
    begun.end();
    assert!(begun.bench.kept_marks() && !begun.bench.was_stepped());
}

/// The old objects are marked when they are made to refer to new ones, to objects that steps have not reached, and to ones
/// that nothing else leads to any more.
fn what_is_written_between_steps_is_found() {
    for rounds in 0..3 {
        let Some(mut begun) = Begun::new("stress=1000000") else {
            return;
        };
        if rounds > 0 {
            begun.bench.heap.step();
        }
        if rounds > 1 {
            begun.mark();
        }
        let marked = begun.object(OBJECTS - 1);
        assert!(begun.bench.is_marked(marked));
        let young = begun.bench.allocate(NORMAL, 64).unwrap();
        let younger = begun.bench.allocate(NORMAL, 20_000).unwrap();
        store(young, 1, younger.word());
        store(marked, 5, young.word());
        // The list is cut, and its rest hangs on an object that may have been scanned already.
        store(begun.object(1000), 0, 0);
        store(marked, 6, begun.object(999).word());
        begun.mark();
        let Extent::Stepped(_) = begun.end() else {
            panic!("{:?}", begun.bench.heap.extent)
        };
        assert!(begun.all_live());
        assert!(begun.bench.is_marked(young) && begun.bench.is_marked(younger));
    }
}

fn what_became_unreachable_stays_until_the_next() {
    let Some(mut begun) = Begun::new("stress=1000000") else {
        return;
    };
    begun.mark();
    begun.bench.replace_kept(begun.object(7));
    begun.end();
    assert!(begun.all_live());
    let before = begun.bench.heap.space.census.objects;
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    begun.mark();
    begun.end();
    let after = begun.bench.heap.space.census.objects;
    assert!(before >= OBJECTS && after < 100, "{before} {after}");
}

fn large_objects_that_are_freed_go_when_the_cycle_ends() {
    for marked_before in [false, true] {
        let Some(mut begun) = Begun::before("stress=1000000,poison=on") else {
            return;
        };
        let used = begun.bench.heap.space.used_bytes();
        let large = begun.bench.allocate(NORMAL, 100_000).unwrap();
        let root = begun.bench.allocate(UNCOLLECTABLE, 100_000).unwrap();
        store(begun.object(OBJECTS - 1), 3, large.word());
        store(large, 1, begun.object(4).word());
        // There is room enough that no shortage ends the cycle.
        let capacity = begun.bench.heap.space.capacity + (4 << 20);
        begun.bench.heap.grow_to(capacity, "the test");
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        if marked_before {
            begun.mark();
        }
        for object in [large, root] {
            begun.bench.free(object);
            assert!(begun.bench.heap.space.free(object).is_err(), "freed twice");
        }
        // The memory is not handed out again as long as it may be grey.
        let other = begun.bench.allocate(NORMAL, 100_000).unwrap();
        assert!(other != large && other != root);
        begun.mark();
        let Extent::Stepped(_) = begun.end() else {
            panic!("{:?}", begun.bench.heap.extent)
        };
        let now = begun.bench.heap.space.used_bytes();
        assert!(
            now <= used + (64 << 10),
            "{now} bytes in use, {used} before"
        );
        assert_eq!(begun.bench.heap.space.uncollectable_bytes, 0);
    }
}

fn large_objects_that_are_freed_go_where_a_cycle_is_given_up() {
    let Some(mut begun) = Begun::before("stress=1000000") else {
        return;
    };
    let used = begun.bench.heap.space.used_bytes();
    // There is room enough that no shortage brings a collection about.
    let capacity = begun.bench.heap.space.capacity + (8 << 20);
    begun.bench.heap.grow_to(capacity, "the test");
    let objects: Vec<Address> = (0..20)
        .map(|_| begun.bench.allocate(NORMAL, 100_000).unwrap())
        .collect();
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    for object in objects {
        begun.bench.free(object);
    }
    assert!(begun.bench.heap.space.used_bytes() > used + 20 * 100_000);
    begun.bench.heap.give_up_cycle();
    assert_eq!(begun.ended().last(), Some(&(DISABLED, 0)));
    let now = begun.bench.heap.space.used_bytes();
    assert!(
        now <= used + (64 << 10),
        "{now} bytes in use, {used} before"
    );
    begun.bench.collect();
    begun.bench.verify_collected();
    assert!(begun.all_live());
}

fn what_only_dead_large_objects_lead_to_goes_with_them() {
    for (kind, freed) in [(NORMAL, true), (UNCOLLECTABLE, true), (NORMAL, false)] {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        let large = begun.bench.allocate(kind, 100_000).unwrap();
        if freed {
            begun.bench.roots[0] = large.word();
        }
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        begun.mark();
        // On pages that are no neighbours.
        let young = [2000, 5000, 9000].map(|word| {
            let object = begun.bench.allocate(NORMAL, 64).unwrap();
            store(large, word, object.word());
            object.word()
        });
        if freed {
            begun.bench.roots[0] = 0;
            begun.bench.free(large);
        }
        let Extent::Stepped(_) = begun.end() else {
            panic!("{:?}", begun.bench.heap.extent)
        };
        let marked = begun.bench.marked();
        assert_eq!(young.map(|object| marked.contains(&object)), [false; 3]);
    }
}

static CALLS: AtomicUsize = AtomicUsize::new(0);
/// How long each call waits without the processor.
static WAITS_MS: AtomicU64 = AtomicU64::new(0);

/// Marks nothing: that it is called is all that counts.
unsafe extern "C-unwind" fn counted(
    _object: *mut usize,
    top: *mut Entry,
    _limit: *mut Entry,
    _environment: usize,
) -> *mut Entry {
    CALLS.fetch_add(1, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(WAITS_MS.load(Ordering::Relaxed)));
    top
}

/// A descriptor that names [`counted`].
const COUNTED: usize = 1 << 2 | descriptor::PROC;

/// A kind whose mark procedure is [`counted`].
fn counted_kind(bench: &mut Bench) -> usize {
    bench.heap.context.procs[1] = Some(counted);
    let kind = Kind {
        descriptor: COUNTED,
        add_size: false,
        clear: true,
        uncollectable: false,
        disclaim: None,
        mark_unconditionally: false,
        unlocked: true,
    };
    bench.heap.space.kinds.add(kind).unwrap()
}

/// What a freed object referred to outside of the heap may be gone.
fn what_was_freed_is_shown_to_no_mark_procedure() {
    // Grey when it is freed or not, and found by a stray word in the last stop or not.
    let cases = [(false, false), (false, true), (true, false), (true, true)];
    for (marked_before, stray) in cases {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        let kind = counted_kind(&mut begun.bench);
        let large = begun.bench.allocate(kind, 100_000).unwrap();
        begun.bench.roots[0] = large.word();
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        if marked_before {
            begun.mark();
        }
        let before = CALLS.load(Ordering::Relaxed);
        begun.bench.free(large);
        if !stray {
            begun.bench.roots[0] = 0;
        }
        begun.end();
        assert!(begun.bench.was_stepped() && begun.all_live());
        let calls = CALLS.load(Ordering::Relaxed) - before;
        assert_eq!(calls, 0, "{marked_before} {stray}");
    }
}

/// Has another thread, which is in a blocking region while the world is stopped, and may be outside of one in between.
fn add_thread(bench: &mut Bench) -> *mut Mutator {
    let record = Box::into_raw(Box::<Mutator>::new_uninit()).cast::<Mutator>();
    // SAFETY: fresh memory that lives as long as the process. No thread has this number.
    unsafe {
        bench.heap.mutators.add(record);
        (*record).tid = ThreadId(i32::MAX);
        (*record).in_use = true;
        (*record).blocked_at = ELSEWHERE;
        (*record).stack_base = ELSEWHERE;
    }
    record
}

const ELSEWHERE: Address = Address::new(0x2000);

/// Where a thread may be writing, a client's procedure is asked in stops alone; else a step is as good.
fn mark_procedures_wait_for_a_stop_where_other_threads_run() {
    for runs in [true, false] {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        let other = add_thread(&mut begun.bench);
        let kind = counted_kind(&mut begun.bench);
        for number in 0..100 {
            let object = begun.bench.allocate(kind, 64).unwrap();
            store(begun.object(number), 2, object.word());
        }
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        let before = CALLS.load(Ordering::Relaxed);
        // SAFETY: the record is the test's.
        unsafe {
            (*other).blocked_at = if runs { Address::NULL } else { ELSEWHERE };
            begun.mark();
            (*other).blocked_at = ELSEWHERE;
        }
        let in_steps = CALLS.load(Ordering::Relaxed) - before;
        assert_eq!(in_steps, if runs { 0 } else { 100 });
        // What a procedure reads may have been written unseen.
        begun.end();
        assert_eq!(CALLS.load(Ordering::Relaxed), before + in_steps + 100);
        assert!(begun.bench.was_stepped() && begun.all_live());
    }
}

fn one_that_lost_what_was_written_is_given_up() {
    for marked in [true, false] {
        let Some(mut begun) = Begun::new("stress=1000000") else {
            return;
        };
        if marked {
            begun.mark();
        }
        arm(FaultPoint::WatchWrites, 1);
        assert!(matches!(begun.end(), Extent::Everything(_)));
        assert!(begun.all_live());
        begun.end();
        assert!(begun.bench.kept_marks());
    }
}

fn everything_asked_for_is_not_put_off() {
    let Some(mut begun) = Begun::new("stress=1000000") else {
        return;
    };
    begun.mark();
    begun.bench.replace_kept(begun.object(7));
    begun.bench.collect();
    let left = begun.bench.heap.space.census.objects;
    assert!(left < 100, "{left} objects are left");
    assert_eq!(begun.ended().last().unwrap().0, "everything: asked for");
    begun.bench.verify_collected();
}

fn a_tight_limit_leaves_no_room_for_a_cycle() {
    let Some(mut begun) = Begun::before("stress=1000000") else {
        return;
    };
    begun.bench.heap.settings.limit = begun.bench.heap.space.used_bytes();
    assert_eq!(begun.bench.begin(), Outcome::Done);
    begun.bench.verify_collected();
    assert!(begun.all_live());
}

/// No steps are made: the heap grows for a while, then the cycle ends.
fn one_that_cannot_keep_pace_ends_in_the_stop() {
    let Some(mut begun) = Begun::new("") else {
        return;
    };
    begun.bench.thread_lists = true;
    let collections = begun.bench.heap.collections;
    let before = begun.bench.heap.space.used_bytes();
    while begun.bench.heap.collections == collections {
        // As a door that has no time for steps.
        let space = &mut begun.bench.heap.space;
        if let Err(shortage) = space.allocate_large(NORMAL, 30_000, 16, false) {
            use gleaner_plans::mark_sweep::heap::Remedy;
            match begun.bench.heap.remedy(shortage, 0, false) {
                Remedy::TryAgain => {}
                Remedy::Collect(_) => {
                    begun.end();
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let peak = begun.bench.heap.totals.peak_capacity;
    assert!(peak > before && peak < 8 * before, "{peak} from {before}");
    assert_eq!(begun.bench.heap.totals.cycles_cut_short, 1);
    assert_eq!(begun.ended().last(), Some(&(OVERTAKEN, 0)));
    assert!(begun.bench.heap.totals.goals.overtaken > 0);
    assert!(begun.bench.was_stepped() && begun.all_live());
}

fn nothing_is_dropped_where_stacks_are_small() {
    let Some(mut begun) = Begun::before("stress=1000000,mark-arena=64k") else {
        return;
    };
    begun.bench.shrink_mark_stacks();
    // An object that leads to all others at once fills the stack.
    let all = begun.bench.allocate(NORMAL, OBJECTS * 8).unwrap();
    for number in 0..OBJECTS {
        store(all, number, begun.object(number).word());
    }
    for number in 0..OBJECTS {
        store(begun.object(number), 0, 0);
    }
    begun.bench.replace_kept(all);
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    begun.mark();
    assert!(begun.bench.heap.totals.dropped_entries > 0);
    begun.end();
    assert!(begun.bench.was_stepped() && begun.all_live());
}

fn what_takes_no_longer_than_the_limit_is_marked_at_once() {
    let Some(mut begun) = Begun::before("") else {
        return;
    };
    begun.bench.heap.settings.time_limit_ns = Some(u64::MAX / 4);
    begun.disturb();
    assert!(matches!(begun.end(), Extent::Everything(_)));
    assert!(begun.all_live());
    // Nothing can be marked in no time at all.
    begun.bench.heap.settings.time_limit_ns = Some(0);
    begun.disturb();
    assert_eq!(begun.bench.collect_new("no time"), Outcome::Begun);
    begun.mark();
    begun.end();
    assert!(begun.bench.was_stepped() && begun.all_live());
}

/// Old objects keep their marks; new ones, and what is written meanwhile, are found in steps and in the stops.
fn new_objects_are_marked_in_steps_as_well() {
    for rounds in 0..3 {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        begun.bench.collect();
        let dead = begun.bench.allocate(NORMAL, 48).unwrap();
        let mut young = Vec::new();
        for _ in 0..OBJECTS / 4 {
            let object = begun.bench.allocate(NORMAL, 100).unwrap();
            store(object, 0, young.last().map_or(0, |last: &usize| !last));
            store(begun.object(5), 1, object.word());
            young.push(!object.word());
        }
        begun.bench.heap.settings.time_limit_ns = Some(0);
        assert_eq!(begun.bench.collect_new("new objects"), Outcome::Begun);
        let at = |young: &[usize], number: usize| Address::new(!young[number]);
        assert!(begun.all_live());
        assert!(!begun.bench.is_marked(at(&young, 0)));
        if rounds > 0 {
            begun.bench.heap.step();
        }
        if rounds > 1 {
            begun.mark();
            assert!(begun.bench.is_marked(at(&young, 0)));
        }
        // The list is cut, and its rest hangs on its head, whose block was new when the cycle began.
        let head = at(&young, young.len() - 1);
        let younger = begun.bench.allocate(NORMAL, 64).unwrap();
        store(head, 3, younger.word());
        store(younger, 2, at(&young, 1000).word());
        store(at(&young, 1001), 0, 0);
        let collections = begun.bench.heap.collections;
        while begun.bench.heap.collections == collections {
            begun.mark();
            begun.bench.collect_new("the end");
        }
        let Extent::SteppedNew(_) = begun.bench.heap.extent else {
            panic!("{:?}", begun.bench.heap.extent)
        };
        begun.bench.verify_collected();
        assert!(begun.all_live() && begun.bench.is_marked(younger));
        assert!((0..young.len()).all(|number| begun.bench.is_marked(at(&young, number))));
        let found = begun.bench.heap.space.object_base(dead.word());
        assert!(found.is_none() || !begun.bench.is_marked(dead));
    }
}

/// A program that always leaves something to be marked is not put off for ever.
fn a_cycle_that_is_put_off_comes_to_an_end() {
    let Some(mut begun) = Begun::new("stress=1000000") else {
        return;
    };
    begun.bench.heap.settings.time_limit_ns = Some(0);
    let mut stops = 1;
    loop {
        begun.mark();
        let young = begun.bench.allocate(NORMAL, 64).unwrap();
        store(begun.object(0), 1, young.word());
        match begun.bench.collect_new("another stop") {
            Outcome::Begun => stops += 1,
            outcome => break assert_eq!(outcome, Outcome::Done),
        }
    }
    assert!((2..=4).contains(&stops), "{stops} stops");
    assert!(begun.bench.was_stepped() && begun.all_live());
    assert_eq!(begun.bench.heap.totals.cycles_cut_short, 0);
}

/// To look through all blocks takes many steps here.
fn steps_come_to_an_end_in_a_heap_of_many_blocks() {
    let Some(mut begun) = Begun::before("stress=1000000,reserve=256m") else {
        return;
    };
    let mut last = 0;
    for _ in 0..5_000 {
        let object = begun.bench.allocate(NORMAL, 8000).unwrap();
        store(object, 0, last);
        store(begun.object(3), 1, object.word());
        last = object.word();
    }
    begun.bench.collect();
    let young = begun.bench.allocate(NORMAL, 64).unwrap();
    store(begun.object(4), 1, young.word());
    begun.bench.heap.settings.time_limit_ns = Some(0);
    assert_eq!(begun.bench.collect_new("new objects"), Outcome::Begun);
    let mut steps = 0;
    while !begun.bench.heap.cycle.can_end() {
        begun.bench.heap.step();
        steps += 1;
        assert!(steps < 20_000, "steps do not come to an end");
    }
    assert!(begun.bench.is_marked(young) && begun.all_live());
}

static OUTSIDE: AtomicUsize = AtomicUsize::new(0);

/// Pushes four words outside of the heap.
unsafe extern "C-unwind" fn pushes_outside(
    _object: *mut usize,
    top: *mut Entry,
    _limit: *mut Entry,
    _environment: usize,
) -> *mut Entry {
    let next = top.wrapping_add(1);
    // SAFETY: a mark procedure finds room for some entries.
    unsafe {
        next.write(Entry {
            start: OUTSIDE.load(Ordering::Relaxed),
            descriptor: 32,
        });
    }
    next
}

fn what_a_procedure_pushes_is_scanned_in_the_stop() {
    for mode in [MarkMode::MayPause, MarkMode::Whole] {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        let heap = &mut begun.bench.heap;
        heap.context.procs[1] = Some(pushes_outside);
        let descriptor = 1 << 2 | descriptor::PROC;
        let owner = begun.bench.allocate(NORMAL, 64).unwrap();
        let hidden = begun.bench.allocate(NORMAL, 64).unwrap();
        let outside = [0, hidden.word(), 0, 0];
        OUTSIDE.store(outside.as_ptr().addr(), Ordering::Relaxed);
        assert!(!begun.bench.is_marked(hidden));
        let heap = &mut begun.bench.heap;
        heap.context.mode = mode;
        // SAFETY: nobody else runs; the procedure reads nothing of the object.
        unsafe { heap.engine.scan_now(owner, descriptor) };
        heap.context.mode = MarkMode::Whole;
        // Else it is grey, and scanned when marking goes on.
        assert_eq!(begun.bench.is_marked(hidden), mode.may_pause());
        let heap = &mut begun.bench.heap;
        heap.engine.forget_grey(&heap.context);
        heap.context.disturbed.store(true, Ordering::Relaxed);
        heap.context.procs[1] = None;
        begun.bench.collect();
        assert!(begun.all_live());
    }
}

/// The client gives up the first stop of a cycle or the last, when it is first asked or when everything is marked.
fn a_client_that_gives_up_hears_of_the_end() {
    for (asked, ends) in [(1, false), (2, true)] {
        let Some(mut begun) = Begun::new("stress=1000000") else {
            return;
        };
        let capacity = begun.bench.heap.space.capacity + (4 << 20);
        begun.bench.heap.grow_to(capacity, "the test");
        let large = begun.bench.allocate(NORMAL, 300_000).unwrap();
        begun.mark();
        begun.bench.free(large);
        let used = begun.bench.heap.space.used_bytes();
        let client = &begun.bench.client;
        client.abandon_when_asked.store(asked, Ordering::Relaxed);
        let outcome = begun.bench.collect_new("given up");
        assert_eq!(outcome, Outcome::Abandoned);
        // What was freed meanwhile goes with the cycle.
        let is_gone = begun.bench.heap.space.used_bytes() + 300_000 <= used;
        assert_eq!(is_gone, ends);
        // At first nothing has happened yet, and the cycle can still be ended.
        let client = &begun.bench.client;
        assert_eq!(!client.is_collecting.load(Ordering::Relaxed), ends);
        assert_eq!(!begun.bench.heap.cycle.is_under_way(), ends);
        begun.bench.collect();
        assert!(begun.all_live());
    }
    let Some(mut begun) = Begun::before("stress=1000000") else {
        return;
    };
    begun
        .bench
        .client
        .abandon_when_asked
        .store(1, Ordering::Relaxed);
    assert_eq!(begun.bench.begin(), Outcome::Abandoned);
    begun.bench.collect();
}

fn without_a_limit_there_are_no_steps() {
    let Some(mut begun) = Begun::before("stress=1000000") else {
        return;
    };
    begun.bench.heap.settings.time_limit_ns = None;
    assert_eq!(begun.bench.begin(), Outcome::Done);
    begun.end();
    assert!(begun.bench.kept_marks() && begun.all_live());
    let goal = |begun: &Begun| begun.bench.events(Phase::StopWorld).last().unwrap().goal_ns;
    assert_eq!(goal(&begun), 0);
    // Nor is there a goal where nothing is put off.
    begun.bench.heap.settings.time_limit_ns = Some(7);
    begun.bench.heap.mode = MarkGenerations::Sticky;
    begun.end();
    assert_eq!(goal(&begun), 0);
}

/// A program that does nothing but collect spends its time in that, so that a trial begins; whether that pays is a matter of
/// time, which the deciders' own tests make up.
fn auto_watches_where_much_lives() {
    let Some(mut begun) = Begun::before("") else {
        return;
    };
    begun.bench.heap.space.written = None;
    begun.bench.heap.mode = MarkGenerations::Auto;
    begun.bench.heap.settings.time_limit_ns = None;
    let all = begun.bench.allocate(NORMAL, 8 << 20).unwrap();
    store(all, 0, begun.bench.kept_object().word());
    begun.bench.replace_kept(all);
    let mut watched = 0;
    for round in 0..40 {
        if round == 20 {
            begun.bench.heap.begin_in_child(); // Its sums begin anew.
        }
        let young = begun.bench.allocate(NORMAL, 64).unwrap();
        store(all, 1 + round, young.word());
        assert_eq!(begun.bench.collect_new("auto"), Outcome::Done);
        watched += usize::from(begun.bench.heap.space.written.is_some());
        assert!(begun.bench.is_marked(young));
    }
    begun.bench.verify_collected();
    assert!(begun.all_live());
    assert!(watched > 0, "no trial began");
}
