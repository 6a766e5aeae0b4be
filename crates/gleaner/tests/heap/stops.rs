//! A stop that takes long names the thread that holds it up, and how long collections wait for mutators is told.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use gleaner::{Builder, Elements, Heap, Role, set_thread_role};

use crate::again::path;

/// Set in a child, to the log of its heap.
const LOG: &str = "GLEANER_TEST_STOPS_LOG";

fn heap() -> Builder {
    Heap::builder().limit(8 << 20).workers(1)
}

/// Runs this test binary again with the same test alone, whose heap has a log. What the child says on standard error, and
/// the log.
fn said_by_child(test: &str) -> (String, String) {
    let log = std::env::temp_dir().join(format!("gleaner-stops-{}-{test}", std::process::id()));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &path(module_path!(), test), "--nocapture"])
        .env(LOG, &log)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{said}");
    (said, text)
}

/// Returns when the log has the event.
fn wait_for_event(log: &PathBuf) {
    while !std::fs::read_to_string(log).is_ok_and(|text| text.contains("\"event\":\"slow-stop\"")) {
        std::thread::yield_now();
    }
}

/// In a child: a thread attaches and allocates, and holds up the collection of another as `holds` does.
fn hold_up(log: PathBuf, holds: impl FnOnce(&PathBuf) + Send) {
    let option = format!("stop-warning=1,log={}", log.display());
    let heap = heap().options(&option).unwrap().build().unwrap();
    let (attached, is_attached) = mpsc::channel();
    std::thread::scope(|threads| {
        let (heap, log) = (&heap, &log);
        threads.spawn(move || {
            set_thread_role(Role::Compiler);
            let mut mutator = heap.attach().unwrap();
            let bytes = heap.array(Elements::Bytes).unwrap();
            mutator.scope(|scope| assert!(scope.allocate_array(bytes, 8).is_ok()));
            attached.send(()).unwrap();
            holds(log);
            mutator.poll();
        });
        is_attached.recv().unwrap();
        heap.attach().unwrap().collect(true);
    });
}

#[test]
fn a_loop_that_does_not_poll_is_named() {
    if let Some(log) = std::env::var_os(LOG) {
        return hold_up(log.into(), wait_for_event);
    }
    let (said, log) = said_by_child("a_loop_that_does_not_poll_is_named");
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("gleaner: "))
        .collect();
    // The thread reads the log in its loop, and may be found in the call that reads.
    let [line] = lines[..] else { panic!("{said}") };
    assert!(line.starts_with("gleaner: a stop has waited 0."), "{line}");
    assert!(
        line.contains(
            "(gleaner-compile, role compiler) has not stopped, last seen in an allocation; "
        ),
        "{line}"
    );
    assert!(line.ends_with(" (option stop-warning)"), "{line}");
    let event = log
        .lines()
        .find(|line| line.contains("\"slow-stop\""))
        .unwrap();
    assert!(event.contains("\"objects\":1,"), "{event}");
    assert!(
        event.ends_with("\"reason\":\"last seen in an allocation\"}"),
        "{event}"
    );
}

#[test]
fn a_thread_that_sleeps_outside_of_a_region_is_named() {
    if let Some(log) = std::env::var_os(LOG) {
        return hold_up(log.into(), |log| {
            let (end, ended) = mpsc::channel::<()>();
            let log = log.clone();
            std::thread::spawn(move || {
                wait_for_event(&log);
                drop(end);
            });
            let _ = ended.recv();
        });
    }
    let (said, _) = said_by_child("a_thread_that_sleeps_outside_of_a_region_is_named");
    assert!(
        said.contains("; it sleeps in a system call, which belongs into a blocking region"),
        "{said}"
    );
}

#[test]
fn totals_and_listeners_tell_how_long_collections_waited_for_mutators() {
    let heap = heap().build().unwrap();
    let (tell, told) = mpsc::channel();
    heap.add_collection_listener(move |collection| {
        tell.send((collection.stopping_ns, collection.stopped_ns))
            .unwrap();
    });
    let mut mutator = heap.attach().unwrap();
    (0..5).for_each(|number| mutator.collect(number % 2 == 0));
    let stops: Vec<(u64, u64)> = told.try_iter().collect();
    assert_eq!(stops.len(), 5);
    assert!(
        stops
            .iter()
            .all(|&(stopping, stopped)| stopping > 0 && stopping <= stopped)
    );
    let totals = mutator.totals();
    let waits = stops.iter().map(|&(stopping, _)| stopping);
    assert_eq!(totals.stopping_ns, waits.clone().sum::<u64>());
    assert_eq!(Some(totals.longest_stopping_ns), waits.max());
}
