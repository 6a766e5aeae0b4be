//! Unused memory of a whole heap goes back in idle time, and the heap collects and shrinks as it would without.

#![cfg(not(loom))]

mod harness;

use gleaner_base::events::Phase;
use gleaner_base::events::reasons::NOTHING_ALLOCATED;
use gleaner_mem::Address;
use gleaner_os::headroom::Headroom;
use gleaner_os::{residency, threads};
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::decide::idle::{LEAST_WORTH, Next, Watch};
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_spaces::mark_sweep::Stage;
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE};
use harness::Bench;

const MB: usize = 1 << 20;
const AFTER_NS: u64 = 20_000_000;

fn bench(options: &str) -> Bench {
    Bench::new(&format!("reserve=128m,populate-ahead=0,{options}"))
}

/// Allocates this many bytes in small objects, of which the first lives, and two large ones.
fn burst(bench: &mut Bench, bytes: usize) {
    for nth in 0..bytes / 1024 {
        let object = bench.allocate(NORMAL, 1000).unwrap();
        if nth == 0 {
            bench.roots[0] = object.word();
        }
        // SAFETY: the test's own object.
        unsafe { object.add(512).store(nth) };
    }
    for _ in 0..2 {
        let object = bench.allocate(PTRFREE, 2 * MB).unwrap();
        (0..2 * MB).step_by(4096).for_each(|at| {
            // SAFETY: the test's own object.
            unsafe { object.add(at).store(at) }
        });
    }
}

/// Allocates this many bytes in small objects, all of which the first root keeps.
fn grow(bench: &mut Bench, bytes: usize) {
    let mut last = 0;
    for _ in 0..bytes / 1024 {
        let object = bench.allocate(NORMAL, 1000).unwrap();
        // SAFETY: the test's own object.
        unsafe { object.store(last) };
        last = object.word();
        bench.roots[0] = last;
    }
}

/// Watches a heap that nobody uses until the watcher rests; how many pieces went back. Collects where that pays, if `collects`.
fn watch_and(bench: &mut Bench, watch: &mut Watch, collects: bool) -> usize {
    let mut pieces = 0;
    loop {
        match bench.heap.look_for_idleness(watch) {
            // On a machine that is busy looks are late, and more of them are made.
            Next::LookAfter(nanoseconds) => threads::sleep_ns(nanoseconds),
            Next::GiveBack => pieces += 1,
            Next::Consider if collects && bench.heap.calls_for_collection(false) => {
                bench.collect_for(NOTHING_ALLOCATED);
                bench.heap.go_on_watching(watch);
            }
            Next::Consider => {}
            Next::Rest => return pieces,
        }
    }
}

fn watch(bench: &mut Bench, watch: &mut Watch) -> usize {
    watch_and(bench, watch, false)
}

#[test]
fn a_heap_that_nobody_uses_gives_its_unused_memory_back_and_keeps_its_capacity() {
    let mut bench = bench("initial-heap=64m");
    burst(&mut bench, 20 * MB);
    bench.collect();
    let (before, capacity) = (bench.heap.space.dirty_bytes(), bench.heap.space.capacity);
    assert!(before > 20 * MB, "{before}");
    let mut watcher = Watch::new(AFTER_NS);
    assert!(watch(&mut bench, &mut watcher) >= before / (4 * MB));
    assert_eq!(bench.heap.space.dirty_bytes(), 0);
    assert_eq!(bench.heap.space.capacity, capacity);
    // The marks of free blocks are not counted, and go at last.
    let table = bench.heap.space.layout.table;
    let marks = std::ptr::NonNull::new(table.marks_of(0).cast::<u8>()).unwrap();
    let bytes = bench.heap.space.small_frontier() as usize / 4 * 4096;
    let backed = residency::backed_bytes(marks, bytes, bytes);
    assert!(backed < bytes / 2, "{backed} of {bytes}");
    bench.verify_collected();
    let events = bench.events(Phase::GiveBack);
    assert_eq!(events.len(), 1, "{events:?}");
    let event = events[0];
    assert!(event.bytes as usize >= before && event.objects as usize >= before / (4 * MB));
    assert_eq!(
        (event.collection, event.reason),
        (1, "nothing was allocated for a while")
    );
    let totals = bench.heap.totals;
    assert_eq!((totals.given_back, totals.idle_times), (event.bytes, 1));
    assert_eq!(
        watch(&mut bench, &mut watcher),
        0,
        "never twice for nothing"
    );
    burst(&mut bench, 20 * MB);
    bench.verify();
    bench.collect();
    assert!(watch(&mut bench, &mut watcher) > 0, "after a burst, again");
    assert_eq!(bench.heap.totals.idle_times, 2);
}

#[test]
fn garbage_is_collected_once_and_goes_back_in_the_same_idle_time() {
    let mut bench = bench("");
    grow(&mut bench, 20 * MB);
    bench.roots[0] = 0;
    let mut watcher = Watch::new(AFTER_NS);
    let (used, collections) = (bench.heap.space.used_bytes(), bench.heap.collections);
    assert!(watch_and(&mut bench, &mut watcher, true) > 0);
    assert_eq!(bench.heap.collections, collections + 1);
    assert_eq!(bench.heap.totals.idle_collections, 1);
    let space = &bench.heap.space;
    assert!(space.used_bytes() < used / 10, "{}", space.used_bytes());
    assert!(space.dirty_bytes() < LEAST_WORTH);
    bench.verify_collected();
    // A single object is activity, and no reason to collect again.
    bench.allocate(NORMAL, 1000).unwrap();
    assert_eq!(watch_and(&mut bench, &mut watcher, true), 0);
    assert_eq!(bench.heap.collections, collections + 1);
    // What comes by itself pays for another, and is none in idle time itself.
    grow(&mut bench, 20 * MB);
    bench.collect();
    assert_eq!(bench.heap.totals.idle_collections, 1);
    assert!(bench.heap.calls_for_collection(false));
    bench.collect();
    assert_eq!(bench.heap.totals.idle_collections, 1);
    bench.roots[0] = 0;
    assert!(watch_and(&mut bench, &mut watcher, true) > 0);
    assert_eq!(bench.heap.totals.idle_collections, 2);
}

/// With one thread, which collects itself, nobody was stopped, and nobody would be.
/// A cycle of steps goes on when unused memory went back, and is given up for a collection.
#[test]
fn a_cycle_that_is_in_progress_loses_nothing() {
    for collects in [false, true] {
        let mut bench = bench("generations=incremental,verify=edges");
        if let Some(unavailable) = bench.heap.unwatched {
            eprintln!("not tested: {unavailable}");
            return;
        }
        bench.steps = false;
        grow(&mut bench, 8 * MB);
        let last = Address::new(bench.roots[0]);
        bench.keep(last);
        burst(&mut bench, 4 * MB);
        bench.collect();
        assert!(bench.heap.space.dirty_bytes() > 4 * MB);
        assert_eq!(bench.begin(), Outcome::Begun);
        let collections = bench.heap.collections;
        assert!(watch_and(&mut bench, &mut Watch::new(AFTER_NS), collects) > 0);
        bench.verify();
        assert!(bench.heap.space.dirty_bytes() < LEAST_WORTH);
        assert_eq!(bench.heap.cycle.is_under_way(), !collects);
        if collects {
            assert_eq!(bench.heap.collections, collections + 1);
        } else {
            while !bench.heap.cycle.can_end() {
                bench.heap.step();
            }
            assert_eq!(bench.collect_new("the end"), Outcome::Done);
        }
        assert_eq!(bench.was_stepped(), !collects);
        bench.verify_collected();
        let (mut object, mut objects) = (last.word(), 0);
        while object != 0 {
            assert!(bench.is_marked(Address::new(object)));
            // SAFETY: an object of the test's, which leads to the one before.
            object = unsafe { Address::new(object).load() };
            objects += 1;
        }
        assert_eq!(objects, 8 * MB / 1024);
    }
}

#[test]
fn a_program_whose_threads_nobody_stops_may_be_collected() {
    let mut bench = bench("idle=20ms");
    bench.collect();
    assert!(bench.heap.may_be_stopped_in_idle_time(false));
    // SAFETY: the record is of the bench's heap; its thread is the calling one, which allocates no more.
    unsafe { (*bench.record).tid = threads::ThreadId(1) };
    assert!(!bench.heap.may_be_stopped_in_idle_time(false));
    assert!(bench.heap.may_be_stopped_in_idle_time(true));
    // SAFETY: as before; it is in a blocking region.
    unsafe { (*bench.record).blocked_at = Address::new(16) };
    assert!(bench.heap.may_be_stopped_in_idle_time(false));
}

/// A collection by its only thread interrupts nobody, so a second thread is left alone.
#[test]
fn a_thread_that_came_after_the_last_collection_is_left_alone() {
    let mut bench = bench("idle=20ms");
    bench.collect();
    let record = Box::into_raw(Box::<Mutator>::new_uninit()).cast::<Mutator>();
    // SAFETY: fresh memory that lives as long as the heap. It stands for a thread that nobody stops, since nothing is collected.
    unsafe {
        (*bench.record).tid = threads::ThreadId(1);
        bench.heap.mutators.add(record);
        let (list, world) = (&mut bench.heap.mutators, bench.heap.world);
        list.occupy(record, world, Address::NULL, false);
    }
    assert_eq!(bench.heap.mutators.count(), 2);
    assert!(!bench.heap.may_be_stopped_in_idle_time(false));
    assert!(bench.heap.may_be_stopped_in_idle_time(true));
}

/// Where a group's limit leaves nothing, an eighth of the time is enough, and looks come as soon.
#[test]
fn looks_come_sooner_where_limits_leave_little() {
    let root = std::env::temp_dir().join(format!("gleaner-idle-{}", std::process::id()));
    for (path, text) in [
        ("proc/self/cgroup", "0::/one\n"),
        (
            "proc/self/mountinfo",
            "30 23 0:26 / /groups rw - cgroup2 cgroup2 rw\n",
        ),
        ("groups/one/memory.max", "100000000\n"),
        ("groups/one/memory.current", "0\n"),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let limits = Headroom::below(root.to_str().unwrap().as_bytes(), 1 << 40);
    let mut bench = bench("");
    grow(&mut bench, MB);
    bench.heap.heed(limits);
    let mut first = || bench.heap.look_for_idleness(&mut Watch::new(16_000));
    assert_eq!(first(), Next::LookAfter(8000));
    std::fs::write(root.join("groups/one/memory.current"), "100000000\n").unwrap();
    assert_eq!(first(), Next::LookAfter(1000));
    bench.heap.heed(Headroom::NONE);
    std::fs::remove_dir_all(root).unwrap();
}

/// Taking one object off a thread's list, and giving it back, is activity: no lock is taken for that.
#[test]
fn what_threads_take_off_their_lists_is_seen() {
    let mut bench = bench("");
    let object = bench.allocate(NORMAL, 1000).unwrap();
    let mut seen = vec![bench.heap.view().activity()];
    let mut changes = |bench: &Bench| {
        let now = bench.heap.view().activity();
        let is_new = !seen.contains(&now);
        seen.push(now);
        is_new
    };
    assert!(!changes(&bench), "nothing was done");
    bench.allocate(NORMAL, 1000).unwrap();
    assert!(changes(&bench));
    bench.free(object);
    assert!(changes(&bench));
    let large = bench.allocate(PTRFREE, MB).unwrap();
    assert!(changes(&bench));
    bench.free(large);
    assert!(changes(&bench));
    bench.collect();
    assert!(changes(&bench));
    assert!(!changes(&bench));
}

/// Bytes in use, and what the heap might hold, after each of some collections with little in between.
fn after_collections(is_watched: bool) -> Vec<(usize, usize)> {
    let mut bench = bench("initial-heap=1m,release-after=3");
    let mut watcher = Watch::new(AFTER_NS);
    grow(&mut bench, 24 * MB);
    bench.roots[0] = 0;
    (0..8)
        .map(|_| {
            bench.collect();
            if is_watched {
                watch(&mut bench, &mut watcher);
            }
            (0..64).for_each(|_| _ = bench.allocate(NORMAL, 1000).unwrap());
            (bench.heap.space.used_bytes(), bench.heap.space.capacity)
        })
        .collect()
}

#[test]
fn the_capacity_follows_as_it_would_without_idle_time() {
    let without = after_collections(false);
    assert!(
        without[0].1 > 20 * MB && without[7].1 < without[0].1 / 2,
        "{without:?}"
    );
    let with = after_collections(true);
    // What little is used in between stays in the capacity, or not.
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with.0, without.0);
        assert!(with.1.abs_diff(without.1) < MB / 2, "{with:?} {without:?}");
    }
}

/// What each of some collections with little in between leaves of the capacity, where one of 16 objects lives in each block.
fn after_collections_with_survivors(is_watched: bool) -> (Bench, Vec<usize>) {
    let mut bench = bench("initial-heap=1m,release-after=3");
    // So much that nothing is collected before.
    bench.heap.grow_to(40 * MB, "the test");
    let mut watcher = Watch::new(AFTER_NS);
    let mut last = 0;
    for nth in 0..24 * MB / 1024 {
        let object = bench.allocate(NORMAL, 1000).unwrap();
        if nth % 15 == 0 {
            // SAFETY: the test's own object.
            unsafe { object.store(last) };
            last = object.word();
            bench.roots[0] = last;
        }
    }
    let capacities = (0..6)
        .map(|_| {
            bench.collect();
            if is_watched {
                watch(&mut bench, &mut watcher);
            }
            (0..64).for_each(|_| _ = bench.allocate(NORMAL, 1000).unwrap());
            bench.heap.space.capacity
        })
        .collect();
    (bench, capacities)
}

/// Pages between survivors lie in blocks that are in use: the capacity does not follow them.
#[test]
fn what_goes_back_between_survivors_stays_in_the_capacity() {
    let (_, without) = after_collections_with_survivors(false);
    let (bench, with) = after_collections_with_survivors(true);
    let given = bench.events(Phase::GiveBack);
    let most = given.iter().map(|event| event.bytes as usize).max();
    assert!(most.is_some_and(|bytes| bytes > 4 * MB), "{given:?}");
    for (with, without) in with.iter().zip(&without) {
        assert!(with.abs_diff(*without) < MB / 2, "{with:?} {without:?}");
    }
}

/// Calls that become rare, on a machine on which nobody else takes the time: each call may come at any time, so only the end counts.
#[test]
fn where_nobody_watches_calls_give_memory_back() {
    let mut bench = bench("initial-heap=64m,idle=20ms");
    burst(&mut bench, 20 * MB);
    bench.collect();
    let mut objects: Vec<Address> = Vec::new();
    bench.heap.note_call(false);
    while bench.heap.space.dirty_bytes() > LEAST_WORTH {
        objects.push(bench.allocate(NORMAL, 100).unwrap());
        bench.heap.note_call(false);
        threads::sleep_ns(1_000_000);
    }
    while bench.heap.totals.idle_times == 0 {
        bench.heap.note_call(false);
        threads::sleep_ns(1_000_000);
    }
    let events = bench.events(Phase::GiveBack);
    let reason = "little is allocated any more";
    assert!(events.iter().all(|event| event.reason == reason));
    let bytes: u64 = events.iter().map(|event| event.bytes).sum();
    assert!(bytes as usize > 19 * MB, "{bytes}");
    bench.verify();
}

/// A callback of a collection allocates: nothing goes back before the collection is over.
#[test]
fn calls_in_a_collection_give_nothing_back() {
    let mut bench = bench("initial-heap=64m,idle=20ms");
    burst(&mut bench, 20 * MB);
    bench.collect();
    let all = bench.heap.space.dirty_bytes();
    bench.heap.note_call(false);
    while bench.heap.space.dirty_bytes() == all {
        threads::sleep_ns(1_000_000);
        bench.heap.note_call(false);
    }
    let rest = bench.heap.space.dirty_bytes();
    for stage in [Stage::Marking, Stage::Marked, Stage::Reclaiming] {
        bench.heap.space.stage = stage;
        assert!(!bench.heap.note_call(false));
        assert_eq!(bench.heap.space.dirty_bytes(), rest);
    }
    bench.heap.space.stage = Stage::Between;
    bench.heap.note_call(false);
    assert!(bench.heap.space.dirty_bytes() < rest);
}

#[test]
fn where_nobody_asks_calls_give_nothing_back() {
    let mut bench = bench("initial-heap=64m");
    burst(&mut bench, 20 * MB);
    bench.collect();
    let before = bench.heap.space.dirty_bytes();
    for _ in 0..100 {
        assert!(!bench.heap.note_call(false));
        threads::sleep_ns(100_000);
    }
    assert_eq!(bench.heap.space.dirty_bytes(), before);
}
