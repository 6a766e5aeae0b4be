//! Listeners and the log: each collection is told once, with its phases, while the world runs.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gleaner::{Builder, Event, Heap, NurseryPolicy, OldPolicy, Phase, Structure};

fn builder() -> Builder {
    Heap::builder()
        .limit(2 << 20)
        .workers(2)
        .crew(gleaner::Crew::All)
        .verify(true)
}

fn allocate(heap: &Heap, objects: usize) {
    let node = heap
        .structure(Structure {
            references: 2,
            bytes: 8,
        })
        .unwrap();
    heap.attach().unwrap().scope(|scope| {
        for _ in 0..objects {
            scope
                .nested(|scope| scope.allocate(node).map(|_| ()))
                .unwrap();
        }
    });
}

#[test]
fn each_collection_is_told_once_with_its_phases() {
    told_once(builder(), Phase::Slide, Phase::Copy);
}

/// Where nothing is copied each collection marks, and says what.
#[test]
fn each_collection_in_place_is_told_once_with_its_phases() {
    let builder = builder()
        .old(OldPolicy::MarkRegion)
        .nursery(NurseryPolicy::InPlace);
    told_once(builder, Phase::Evacuation, Phase::Mark);
}

/// `everything` and `young` are phases of one kind of collection and of the other.
fn told_once(builder: Builder, everything: Phase, young: Phase) {
    let heap = builder.build().unwrap();
    // Number of the collection: its phases, from one listener; reason, extent and stop from another.
    type Told<T> = Arc<Mutex<BTreeMap<u64, T>>>;
    let phases: Told<Vec<Event>> = Told::default();
    let summaries: Told<(&str, bool, u64, u64)> = Told::default();
    let told = phases.clone();
    heap.add_listener(move |event| {
        told.lock()
            .unwrap()
            .entry(event.collection)
            .or_default()
            .push(*event);
    });
    let told = summaries.clone();
    heap.add_collection_listener(move |collection| {
        let inside = collection.phases().map(|(_, ns)| ns).sum();
        let summary = (
            collection.reason,
            collection.everything,
            collection.stopped_ns,
            inside,
        );
        let before = told.lock().unwrap().insert(collection.number, summary);
        assert!(
            before.is_none(),
            "collection {} is told twice",
            collection.number
        );
    });
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| allocate(&heap, 60_000));
        }
    });
    heap.attach().unwrap().collect(true);
    let totals = heap.totals();
    let summaries = summaries.lock().unwrap();
    assert!(totals.scavenges > 3, "{totals:?}");
    let numbers: Vec<u64> = summaries.keys().copied().collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let full = summaries.values().filter(|summary| summary.1).count() as u64;
    assert_eq!(full, totals.full_collections);
    let stopped: u64 = summaries.values().map(|summary| summary.2).sum();
    assert_eq!(stopped, totals.stopped_ns);
    let last = summaries.last_key_value().unwrap().1;
    assert_eq!((last.0, last.1), ("asked for", true));
    assert!(
        summaries
            .values()
            .any(|summary| summary.0 == "no room to allocate" && !summary.1)
    );
    for (number, events) in &*phases.lock().unwrap() {
        let named: Vec<Phase> = events.iter().map(|event| event.phase).collect();
        let middle = if summaries[number].1 {
            everything
        } else {
            young
        };
        assert_eq!((named[0], named[1]), (Phase::Start, Phase::StopWorld));
        assert!(named.contains(&middle) && named.ends_with(&[Phase::ResumeWorld, Phase::End]));
        let inside = events[1..events.len() - 1].iter();
        assert_eq!(
            summaries[number].3,
            inside.map(|event| event.duration_ns).sum::<u64>()
        );
    }
}

/// It would wait for ever if the world were stopped, or a lock of the heap held.
#[test]
fn a_listener_may_ask_the_heap_and_wait_for_another_thread_that_collects() {
    let heap = builder().build().unwrap();
    let inner = Arc::new(AtomicU64::new(0));
    let (seen, asked, once) = (inner.clone(), heap.clone(), AtomicBool::new(false));
    heap.add_listener(move |event| {
        if event.phase != Phase::End {
            return;
        }
        assert!(asked.used() <= asked.limit());
        if !once.swap(true, Ordering::Relaxed) {
            let heap = &asked;
            std::thread::scope(|threads| {
                threads.spawn(move || heap.attach().unwrap().collect(false));
            });
            seen.store(heap.totals().scavenges, Ordering::Relaxed);
        }
    });
    heap.attach().unwrap().collect(false);
    assert_eq!(inner.load(Ordering::Relaxed), 2);
}

/// A second mutator of the thread's that is left would not stop when the first one, which is told, goes on.
#[test]
fn a_listener_may_attach_and_a_mutator_that_it_leaves_is_named() {
    let (heap, other) = (builder().build().unwrap(), builder().build().unwrap());
    let (own, leaves) = (heap.clone(), Arc::new(AtomicBool::new(false)));
    let is_to_leave = leaves.clone();
    heap.add_collection_listener(move |_| {
        other.attach().unwrap().collect(true);
        let second = own.attach().unwrap();
        if is_to_leave.load(Ordering::Relaxed) {
            std::mem::forget(second);
        }
    });
    let mut mutator = heap.attach().unwrap();
    mutator.collect(false);
    leaves.store(true, Ordering::Relaxed);
    let panic = catch_unwind(AssertUnwindSafe(|| mutator.collect(false))).unwrap_err();
    let message = panic.downcast::<String>().unwrap();
    assert!(
        message.starts_with("the end of a listener inside which this thread attached"),
        "{message}"
    );
    assert_eq!(heap.totals().scavenges, 2);
}

#[test]
fn a_listener_that_panics_breaks_nothing() {
    let heap = builder().build().unwrap();
    let broken = Arc::new(AtomicBool::new(true));
    let state = broken.clone();
    heap.add_listener(move |_| assert!(!state.load(Ordering::Relaxed), "not now"));
    let mut mutator = heap.attach().unwrap();
    catch_unwind(AssertUnwindSafe(|| mutator.collect(false))).unwrap_err();
    broken.store(false, Ordering::Relaxed);
    mutator.collect(true);
    drop(mutator);
    allocate(&heap, 100_000);
    assert!(heap.totals().scavenges > 2);
}

#[test]
fn the_log_has_a_line_for_each_phase() {
    let path = std::env::temp_dir().join(format!("gleaner-log-{}", std::process::id()));
    let option = format!("log={}", path.display());
    let heap = builder().options(&option).unwrap().build().unwrap();
    let told = Arc::new(AtomicU64::new(0));
    let count = told.clone();
    heap.add_listener(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    heap.attach().unwrap().collect(false);
    heap.attach().unwrap().collect(true);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let (first, events) = text.split_once('\n').unwrap();
    assert!(
        first.starts_with("{\"event\":\"options\",\"pid\":"),
        "{first}"
    );
    assert_eq!(events.lines().count() as u64, told.load(Ordering::Relaxed));
    for phase in ["copy", "mark", "slide", "end"] {
        assert!(
            text.contains(&format!("{{\"event\":\"{phase}\",\"pid\":")),
            "{text}"
        );
    }
    assert!(events.lines().all(|line| line.ends_with("\"}")));
}
