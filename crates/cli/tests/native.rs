//! Snapshots of heaps, by option and by call, read as `gleaner heap` reads them; and statistics. Each case runs in a
//! process of its own, since options, signals and exits belong to processes.
#![cfg(not(loom))]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gleaner::{
    Builder, Elements, Finalizing, Handle, Heap, OldPolicy, References, SnapshotError, Structure,
};
use gleaner_heapgraph::{Census, Ending, Snapshot};

const PAIR: Structure = Structure {
    references: 2,
    bytes: 8,
};

unsafe extern "C" {
    fn raise(signal: i32) -> i32;
    fn exit(code: i32) -> !;
}

/// A directory that is gone when this is dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("gleaner-snapshots-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> Snapshot {
    let snapshot = gleaner_heapgraph::read(fs::read(path).unwrap().as_slice()).unwrap();
    assert_eq!(snapshot.ending, Ending::Whole);
    assert_eq!(
        (snapshot.lost_words, snapshot.lost_edges, snapshot.repeated),
        (0, 0, 0)
    );
    assert!(snapshot.is_precise);
    snapshot
}

/// Objects of each type, by name.
fn types(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let census = Census::new(snapshot, snapshot.objects());
    let mut types: Vec<_> = census
        .classes
        .into_iter()
        .map(|(class, tally)| {
            assert_eq!(class.bytes, None);
            (class.kind, tally.objects)
        })
        .collect();
    types.sort();
    types
}

fn builder() -> Builder {
    Heap::builder().limit(16 << 20).young(2 << 20).verify(true)
}

/// A list of `count` pairs in a handle.
fn list(heap: &Heap, mutator: &mut gleaner::Mutator, count: usize) -> Handle {
    let pair = heap.structure(PAIR).unwrap();
    heap.name_type(pair.id(), "pair of\nthings");
    mutator.scope(|scope| {
        let newest = scope.null();
        for _ in 0..count {
            scope.nested(|scope| {
                let one = scope.allocate(pair).unwrap();
                scope.set(one, 0, newest).unwrap();
                scope.assign(newest, one);
            });
        }
        scope.handle(newest).unwrap()
    })
}

#[test]
fn a_snapshot_has_what_lives_and_what_keeps_it() {
    let place = Place::new("call");
    for old in [
        OldPolicy::MarkCompact,
        OldPolicy::MarkSweep,
        OldPolicy::MarkRegion,
    ] {
        for refs in [References::Wide, References::Compressed] {
            for arrays in ["contiguous", "zray,first-n=64,arraylet=256"] {
                let setup = builder().old(old).references(refs).ignore_environment();
                let heap = setup
                    .options(&format!("arrays={arrays}"))
                    .unwrap()
                    .build()
                    .unwrap();
                let slots = heap.reference_array().unwrap();
                let bytes = heap.array(Elements::Bytes).unwrap();
                let mut mutator = heap.attach().unwrap();
                let kept = list(&heap, &mut mutator, 100);
                let pair = heap.structure(PAIR).unwrap();
                mutator.scope(|scope| {
                    // A thousand elements of which some refer to an array of bytes that one handle keeps, too.
                    let array = scope.allocate_references(slots, 1000).unwrap();
                    let text = scope.allocate_array(bytes, 5000).unwrap();
                    for index in [0, 500, 999] {
                        scope.set(array, index, text).unwrap();
                    }
                    let key = scope.handle(text).unwrap();
                    let value = scope.allocate(pair).unwrap();
                    let ephemeron = scope.ephemeron(text, value).unwrap();
                    let weak = scope.weak(text).unwrap();
                    let null = scope.null();
                    // One finalizer waits with its value, and one is ready with the object that it brings back. The program
                    // could take back the latter.
                    let held = scope.null();
                    scope.nested(|scope| {
                        let (back, note) =
                            (scope.allocate(pair).unwrap(), scope.allocate(pair).unwrap());
                        for (object, value) in [(text, note), (back, null)] {
                            let usual = Finalizing::default();
                            let finalizer = scope.finalizer(object, value, usual).unwrap();
                            scope.assign(held, finalizer);
                        }
                    });
                    scope.assign(text, null);
                    scope.assign(value, null);
                    // Dead: not in it.
                    scope
                        .nested(|scope| scope.allocate_array(bytes, 100).map(drop))
                        .unwrap();
                    let path = place.file("one.heap");
                    let found = scope.snapshot(&path).unwrap();
                    let snapshot = read(&path);
                    assert_eq!(
                        u64::from(snapshot.count()),
                        found.objects,
                        "{old:?} {refs:?} {arrays}"
                    );
                    assert_eq!(found.objects, 100 + 8);
                    let counted = types(&snapshot);
                    let count = |name: &str| {
                        let of = counted.iter().find(|(kind, _)| kind.starts_with(name));
                        of.map_or(0, |(_, objects)| *objects)
                    };
                    assert_eq!((count("pair of"), counted.len()), (100, 7), "{counted:?}");
                    let own = ["weak reference", "ephemeron", "finalizer"].map(count);
                    assert_eq!(own, [1, 1, 1], "{counted:?}");
                    // Of the list, of the array, and from the ephemeron to the value.
                    let edges = snapshot.edge_count();
                    assert_eq!(edges, 99 + 3 + 1, "{arrays}");
                    let roots: Vec<_> = snapshot.roots.iter().map(ToString::to_string).collect();
                    for of in [
                        "handles",
                        "finalizers that wait",
                        "finalizers that are ready",
                    ] {
                        assert!(roots.iter().any(|root| root == of), "{of}: {roots:?}");
                    }
                    assert!(
                        roots
                            .iter()
                            .any(|root| root.starts_with("roots of mutator")),
                        "{roots:?}"
                    );
                    // The list, the text, the ephemeron and the weak reference by handles, the array and a finalizer by
                    // locals, what one finalizer keeps, and what another brings back.
                    assert_eq!(snapshot.words.len(), 4 + 2 + 1 + 1, "{roots:?}");
                    assert!(when(&snapshot).contains("a snapshot was asked for"));
                    drop((key, ephemeron, weak));
                });
                drop(kept);
            }
        }
    }
}

fn when(snapshot: &Snapshot) -> &str {
    &snapshot.when
}

#[test]
fn a_snapshot_that_cannot_be_written_is_an_error_and_leaves_what_was_there() {
    let place = Place::new("unwritable");
    let heap = builder().ignore_environment().build().unwrap();
    let mut mutator = heap.attach().unwrap();
    let missing = mutator.snapshot(place.file("no/such/directory.heap"));
    assert_eq!(missing.unwrap_err(), SnapshotError::NotWritten);
    let full = mutator.snapshot("/dev/full");
    // An empty heap fits nowhere either.
    assert_eq!(full.unwrap_err(), SnapshotError::NotWritten);
    for path in ["", "a\0b", &"x".repeat(600)] {
        let error = mutator.snapshot(path).unwrap_err();
        let expected = if path.is_empty() {
            "cannot be written"
        } else {
            "the path of a snapshot"
        };
        assert!(error.to_string().contains(expected), "{path:?}: {error}");
    }
    let path = place.file("twice.heap");
    mutator.snapshot(&path).unwrap();
    let _kept = list(&heap, &mut mutator, 10);
    mutator.snapshot(&path).unwrap();
    assert_eq!(read(&path).count(), 10);
    assert_eq!(place.files(), ["twice.heap"]);
    assert!(mutator.totals().full_collections >= 2);
}

/// Runs one of the programs below in a process of its own, with options from outside.
fn run(program: &str, place: &Place, options: &str) -> Output {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            program,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .current_dir(&place.0)
        .env("GLEANER_OPTIONS", options)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program}: {:?} {said}",
        output.status
    );
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the command says.
fn gleaner(place: &Place, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gleaner"))
        .args(words)
        .current_dir(&place.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The address of an object that a page asks about.
fn grown_path(page: &str) -> String {
    let (_, rest) = page.split_once("--path ").unwrap();
    rest.split_whitespace().next().unwrap().to_string()
}

/// A program: a list grows between collections, and stays in a mutator's scope until the process exits.
#[test]
#[ignore = "run by others in a process of its own"]
fn grows_and_exits() {
    let heap = builder().build().unwrap();
    let mut mutator = heap.attach().unwrap();
    let mut kept = Vec::new();
    for count in [100, 1000, 10] {
        kept.push(list(&heap, &mut mutator, count));
        mutator.collect(true);
    }
    if std::env::var_os("GLEANER_TEST_SIGNAL").is_some() {
        // SAFETY: the heap handles it, or nobody; no pointers.
        unsafe { raise(12) };
        kept.push(list(&heap, &mut mutator, 100_000));
    }
    // SAFETY: the exit of a process whose other threads wait.
    unsafe { exit(0) };
}

#[test]
fn options_say_when_snapshots_are_written() {
    let place = Place::new("options");
    let output = run(
        "grows_and_exits",
        &place,
        "snapshot=all.%n,snapshot-at=collection",
    );
    assert_eq!(
        place.files(),
        ["all.1", "all.2", "all.3"],
        "{}",
        said(&output)
    );
    let counts = ["all.1", "all.2", "all.3"].map(|name| read(&place.file(name)).count());
    assert_eq!(counts, [100, 1100, 1110]);
    assert!(
        said(&output).contains("a snapshot of 1110 objects"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("the last of 3"), "{}", said(&output));

    let shown = gleaner(&place, &["heap", "all.3"]);
    for part in [
        "What lives\n",
        "objects  type\n",
        "1110  pair of",
        "handles",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let grown = gleaner(&place, &["heap", "all.2", "--since", "all.1"]);
    let line = grown
        .lines()
        .find(|line| line.ends_with("pair of"))
        .unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert!(words.contains(&"100") && words.contains(&"1100"), "{grown}");
    assert!(!grown.contains("where no object began"), "{grown}");
    let first = grown_path(&shown);
    let path = gleaner(&place, &["heap", "all.3", "--path", &first]);
    assert!(path.contains("handles"), "{path}");

    let place = Place::new("peak");
    let output = run("grows_and_exits", &place, "snapshot=peak.%n");
    assert_eq!(place.files(), ["peak.1", "peak.2"], "{}", said(&output));
    assert_eq!(read(&place.file("peak.2")).count(), 1100);

    let place = Place::new("exit");
    let output = run(
        "grows_and_exits",
        &place,
        "snapshot=exit.heap,snapshot-at=exit",
    );
    let snapshot = read(&place.file("exit.heap"));
    assert_eq!(snapshot.count(), 1110, "{}", said(&output));
    assert!(
        when(&snapshot).ends_with("the process exits"),
        "{}",
        when(&snapshot)
    );

    let place = Place::new("nowhere");
    let output = run(
        "grows_and_exits",
        &place,
        "snapshot=no/such/place,snapshot-at=collection",
    );
    assert!(
        said(&output).contains("no/such/place cannot be written"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_signal_calls_for_a_snapshot() {
    let place = Place::new("signal");
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "grows_and_exits",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .current_dir(&place.0)
        .env("GLEANER_OPTIONS", "snapshot=signal.heap,snapshot-at=signal")
        .env("GLEANER_TEST_SIGNAL", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let snapshot = read(&place.file("signal.heap"));
    // The signal came before most of the last list.
    assert!(
        (1110..1110 + 10_000).contains(&snapshot.count()),
        "{}",
        snapshot.count()
    );
    assert!(
        said(&output).contains("signal.heap: gleaner heap"),
        "{}",
        said(&output)
    );
}

/// A program with two heaps, the second of which is closed before it exits.
#[test]
#[ignore = "run by others in a process of its own"]
fn has_two_heaps() {
    let (first, second) = (builder().build().unwrap(), builder().build().unwrap());
    let mut mutator = second.attach().unwrap();
    let kept = list(&second, &mut mutator, 7);
    mutator.collect(true);
    drop((kept, mutator));
    second.close().unwrap();
    let mut mutator = first.attach().unwrap();
    let _kept = list(&first, &mut mutator, 3);
    mutator.collect(true);
    mutator.collect(true);
    // SAFETY: the exit of a process whose other threads wait.
    unsafe { exit(0) };
}

#[test]
fn several_heaps_of_a_process_are_apart() {
    let place = Place::new("two");
    let options = "snapshot=both.heap,snapshot-at=collection,stats=on,log=log.jsonl";
    let output = run("has_two_heaps", &place, options);
    assert_eq!(place.files(), ["both.heap", "both.heap.heap1", "log.jsonl"]);
    let counts = ["both.heap", "both.heap.heap1"].map(|name| read(&place.file(name)).count());
    assert_eq!(counts, [3, 7]);
    let said = said(&output);
    for (heap, collections) in [(1, 2), (2, 1)] {
        let head = format!("gleaner: statistics of heap {heap} of process ");
        let (_, block) = said.split_once(&head).unwrap_or_else(|| panic!("{said}"));
        let line = block.lines().nth(1).unwrap();
        assert!(
            line.ends_with(&format!(
                "0 of the young generation, {collections} of everything"
            )),
            "{line}"
        );
    }
    let report = gleaner(&place, &["report", "log.jsonl"]);
    let process = |heap: &str| {
        report
            .lines()
            .find(|line| line.contains(heap))
            .unwrap()
            .to_string()
    };
    assert!(process("heap 1:").contains("2 collections"), "{report}");
    assert!(report.contains("heap 2"), "{report}");
    let log = fs::read_to_string(place.file("log.jsonl")).unwrap();
    for heap in [1, 2] {
        let of = |event: &str| {
            let (name, number) = (
                format!("\"event\":\"{event}\""),
                format!("\"heap\":{heap},"),
            );
            log.lines()
                .filter(|line| line.contains(&name) && line.contains(&number))
                .count()
        };
        assert_eq!(
            (of("options"), of("end"), of("exit")),
            (1, 3 - heap, 1),
            "{log}"
        );
    }
}
