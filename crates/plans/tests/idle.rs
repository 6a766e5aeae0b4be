//! Unused memory of a whole heap goes back in idle time, and the heap collects and shrinks as it would without.

#![cfg(not(loom))]

mod harness;

use gleaner_base::events::Phase;
use gleaner_mem::Address;
use gleaner_os::threads;
use gleaner_plans::mark_sweep::decide::idle::{LEAST_WORTH, Next, Watch};
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

/// Watches a heap that nobody uses until the watcher rests; how many pieces went back.
fn watch(bench: &mut Bench, watch: &mut Watch) -> usize {
    let mut pieces = 0;
    loop {
        match bench.heap.look_for_idleness(watch) {
            // On a machine that is busy looks are late, and more of them are made.
            Next::LookAfter(nanoseconds) => threads::sleep_ns(nanoseconds),
            Next::GiveBack => pieces += 1,
            Next::Rest => return pieces,
        }
    }
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
    bench.verify_collected();
    let events = bench.events(Phase::GiveBack);
    assert_eq!(events.len(), 1, "{events:?}");
    let event = events[0];
    assert!(event.bytes as usize >= before && event.objects as usize >= before / (4 * MB));
    assert_eq!((event.collection, event.reason), (1, "nothing was allocated for a while"));
    let totals = bench.heap.totals;
    assert_eq!((totals.given_back, totals.idle_times), (event.bytes, 1));
    assert_eq!(watch(&mut bench, &mut watcher), 0, "never twice for nothing");
    burst(&mut bench, 20 * MB);
    bench.verify();
    bench.collect();
    assert!(watch(&mut bench, &mut watcher) > 0, "after a burst, again");
    assert_eq!(bench.heap.totals.idle_times, 2);
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
    // Lives, so that the heap grows.
    let mut last = 0;
    for _ in 0..24 * MB / 1024 {
        let object = bench.allocate(NORMAL, 1000).unwrap();
        // SAFETY: the test's own object.
        unsafe { object.store(last) };
        last = object.word();
        bench.roots[0] = last;
    }
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
    assert!(without[0].1 > 20 * MB && without[7].1 < without[0].1 / 2, "{without:?}");
    let with = after_collections(true);
    // What little is used in between stays in the capacity, or not.
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with.0, without.0);
        assert!(with.1.abs_diff(without.1) < MB / 2, "{with:?} {without:?}");
    }
}

/// Calls that become rare, on a machine on which nobody else takes the time: each call may come at any time, so only the end counts.
#[test]
fn where_nobody_watches_calls_give_memory_back() {
    let mut bench = bench("initial-heap=64m,idle=20ms");
    burst(&mut bench, 20 * MB);
    bench.collect();
    let mut objects: Vec<Address> = Vec::new();
    bench.heap.note_call();
    while bench.heap.space.dirty_bytes() > LEAST_WORTH {
        objects.push(bench.allocate(NORMAL, 100).unwrap());
        bench.heap.note_call();
        threads::sleep_ns(1_000_000);
    }
    while bench.heap.totals.idle_times == 0 {
        bench.heap.note_call();
        threads::sleep_ns(1_000_000);
    }
    let events = bench.events(Phase::GiveBack);
    let reason = "little is allocated any more";
    assert!(events.iter().all(|event| event.reason == reason));
    let bytes: u64 = events.iter().map(|event| event.bytes).sum();
    assert!(bytes as usize > 19 * MB, "{bytes}");
    bench.verify();
}

#[test]
fn where_nobody_asks_calls_give_nothing_back() {
    let mut bench = bench("initial-heap=64m");
    burst(&mut bench, 20 * MB);
    bench.collect();
    let before = bench.heap.space.dirty_bytes();
    for _ in 0..100 {
        bench.heap.note_call();
        threads::sleep_ns(100_000);
    }
    assert_eq!(bench.heap.space.dirty_bytes(), before);
}
