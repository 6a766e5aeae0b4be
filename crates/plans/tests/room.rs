//! A heap in a control group with a limit: whatever decides how large it becomes, it never holds more than the limit leaves.
//!
//! The group's files lie in a directory of the test's, which says after each allocation what the heap and the rest of the
//! process hold. A heap that is not told of the limit exceeds it.

#![cfg(not(loom))]

mod harness;

use std::path::PathBuf;

use gleaner_base::events::Phase;
use gleaner_os::headroom::Headroom;
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE};
use harness::Bench;

const MB: usize = 1 << 20;
const LIMIT: usize = 25 * MB;
/// What others in the group hold.
const BESIDE: usize = 3 * MB;
const LIVE: usize = 12 * MB;
const SCARCE: &str = "a control group has little memory left";

/// A group with a limit.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Group {
        let name = format!("gleaner-room-{}-{name}", std::process::id());
        let group = Group(std::env::temp_dir().join(name));
        group.write("proc/self/cgroup", "0::/one\n");
        let mounts = "30 23 0:26 / /groups rw - cgroup2 cgroup2 rw\n";
        group.write("proc/self/mountinfo", mounts);
        group.write("groups/one/memory.max", &format!("{LIMIT}\n"));
        group.holds(BESIDE);
        group
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn holds(&self, bytes: usize) {
        self.write("groups/one/memory.current", &format!("{bytes}\n"));
    }

    fn limits(&self) -> Headroom {
        Headroom::below(self.0.to_str().unwrap().as_bytes(), 1 << 40)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The most bytes that the heap held while a tenth of what lives came and went, many times over; and the collections.
fn most_held(bench: &mut Bench, group: Option<&Group>) -> (usize, u64) {
    let (mut most, mut said) = (0, 0);
    let mut allocate = |bench: &mut Bench, kind, bytes| {
        let object = bench.allocate(kind, bytes).unwrap();
        let held = bench.heap.space.used_bytes() + bench.heap.space.dirty_bytes();
        most = most.max(held);
        if held != said
            && let Some(group) = group
        {
            group.holds(BESIDE + held);
        }
        said = held;
        object
    };
    let mut last = 0;
    for _ in 0..LIVE / 2048 {
        let object = allocate(bench, NORMAL, 2048);
        // SAFETY: the test's own object.
        unsafe { object.add(8).store(last) };
        last = object.word();
        bench.roots[0] = last;
    }
    for round in 0..24 {
        for _ in 0..LIVE / 10 / 2048 {
            allocate(bench, NORMAL, 2048);
        }
        // A large object now and then, too.
        if round % 4 == 0 {
            allocate(bench, PTRFREE, 4 * MB);
        }
    }
    (most, bench.heap.collections)
}

/// Small objects and large ones come and go in turn. The most bytes that the heap held; the most that it might hold beyond its capacity,
/// and with the capacity.
fn in_turn(bench: &mut Bench, group: Option<&Group>) -> (usize, usize, usize) {
    let (mut held, mut slack, mut both, mut said) = (0, 0, 0, 0);
    let mut note = |bench: &Bench| {
        let space = &bench.heap.space;
        let now = space.used_bytes() + space.dirty_bytes();
        held = held.max(now);
        let beyond = space.slack.room(space.capacity, space.capacity);
        assert!(beyond <= space.capacity / 8);
        slack = slack.max(beyond);
        both = both.max(space.capacity + beyond);
        if now != said
            && let Some(group) = group
        {
            group.holds(BESIDE + now);
        }
        said = now;
    };
    let mut last = 0;
    for _ in 0..LIVE / 2048 {
        let object = bench.allocate(NORMAL, 2048).unwrap();
        // SAFETY: the test's own object.
        unsafe { object.add(8).store(last) };
        last = object.word();
        bench.roots[0] = last;
        note(bench);
    }
    for round in 0..60 {
        let (kind, bytes) = [(NORMAL, 2048), (PTRFREE, 200 << 10)][round % 2];
        for _ in 0..(4 * MB / bytes) {
            bench.allocate(kind, bytes).unwrap();
            note(bench);
        }
    }
    (held, slack, both)
}

fn bench(options: &str) -> Bench {
    let mut bench = Bench::new(&format!("reserve=256m,{options}"));
    // Any marking is too long for a stop, where steps can be made.
    bench.heap.settings.time_limit_ns = Some(500_000);
    bench
}

const MODES: [&str; 6] = [
    "",
    "generations=sticky",
    "generations=incremental",
    "heap-sizing=balanced",
    "initial-heap=100m",
    "free-space-divisor=1",
];

#[test]
fn no_heap_exceeds_what_the_limit_leaves() {
    for options in MODES {
        let group = Group::new(&options.replace('=', "-"));
        let mut limited = bench(options);
        limited.heap.heed(group.limits());
        let (held, _) = most_held(&mut limited, Some(&group));
        assert!(held > LIVE && held <= LIMIT - BESIDE, "{options}: {held}");
        limited.heap.heed(Headroom::NONE);
    }
}

#[test]
fn what_is_needed_in_turn_is_held_beyond_the_capacity_as_far_as_limits_leave_it() {
    let (_, slack, both) = in_turn(&mut bench(""), None);
    assert!(slack > 0);
    for limit in [both, both - slack / 2, both * 3 / 4] {
        let mut bound = bench("");
        bound.heap.settings.limit = limit;
        let (_, slack, both) = in_turn(&mut bound, None);
        assert!(both <= limit, "{limit}: {both} {slack}");
    }
    let group = Group::new("in-turn");
    let mut limited = bench("");
    limited.heap.heed(group.limits());
    let (held, less, _) = in_turn(&mut limited, Some(&group));
    assert!(held <= LIMIT - BESIDE, "{held}");
    assert!(less <= slack / 3 * 2, "{slack} {less}");
    limited.heap.heed(Headroom::NONE);
}

#[test]
fn a_heap_without_a_limit_does() {
    for options in ["", "free-space-divisor=1", "initial-heap=100m"] {
        let (held, _) = most_held(&mut bench(options), None);
        assert!(held > LIMIT - BESIDE, "{options}: {held}");
    }
}

#[test]
fn a_limit_that_is_far_away_changes_nothing() {
    let group = Group::new("far");
    group.write("groups/one/memory.max", &format!("{}\n", 64 * LIMIT));
    let mut limited = bench("");
    limited.heap.heed(group.limits());
    let with = most_held(&mut limited, Some(&group));
    assert_eq!(with, most_held(&mut bench(""), None));
}

#[test]
fn it_says_why_it_collects() {
    let group = Group::new("why");
    let mut limited = bench("");
    limited.heap.heed(group.limits());
    most_held(&mut limited, Some(&group));
    let events = &limited.heap.events;
    assert!(
        events
            .iter()
            .any(|it| it.phase == Phase::End && it.reason == SCARCE)
    );
}

#[test]
fn capacity_is_taken_back_where_others_took_the_memory() {
    let group = Group::new("taken");
    let mut limited = bench("initial-heap=100m");
    limited.heap.heed(group.limits());
    limited.allocate(NORMAL, 2048).unwrap();
    let before = limited.heap.space.capacity;
    assert!(before > 8 * MB, "{before}");
    group.holds(LIMIT - MB);
    limited.collect();
    let after = limited.heap.space.capacity;
    assert!(after < before && after <= 4 * MB, "{before} {after}");
}

#[test]
fn files_that_are_gone_leave_the_last_answer() {
    let group = Group::new("gone");
    let mut limited = bench("");
    limited.heap.heed(group.limits());
    group.write("groups/one/memory.max", "nonsense\n");
    group.write("groups/one/memory.current", "nonsense\n");
    let (held, _) = most_held(&mut limited, None);
    assert!(held <= LIMIT - BESIDE, "{held}");
}
