//! `gleaner-bench` as a process: what a test of a microbenchmark starts and reads.

#![allow(dead_code, reason = "each test uses some of it")]

use std::path::Path;
use std::process::{Command, Output};

/// What became of it, without options in the environment.
pub fn started(arguments: &[&str]) -> Output {
    started_of(Path::new(env!("CARGO_BIN_EXE_gleaner-bench")), arguments)
}

fn started_of(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env_remove("GLEANER_OPTIONS")
        .output()
        .unwrap()
}

/// What it prints; it succeeds.
pub fn printed(arguments: &[&str]) -> String {
    successful(arguments, started(arguments))
}

fn successful(arguments: &[&str], done: Output) -> String {
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {err}");
    String::from_utf8(done.stdout).unwrap()
}

/// The lines of JSON that it prints; it succeeds.
pub fn lines(arguments: &[&str]) -> Vec<serde_json::Value> {
    parsed(&printed(arguments))
}

fn parsed(printed: &str) -> Vec<serde_json::Value> {
    let read = |line| serde_json::from_str(line).unwrap();
    printed.lines().map(read).collect()
}

/// The same of the program as it is shipped: what is said about its instructions does not hold of one with the
/// assertions of a build for tests.
pub fn lines_of_the_release(arguments: &[&str]) -> Vec<serde_json::Value> {
    let tested = Path::new(env!("CARGO_BIN_EXE_gleaner-bench"));
    let target = tested.ancestors().nth(2).unwrap();
    let shipped = target.join("release/gleaner-bench");
    assert!(
        shipped.exists(),
        "{} is missing: `make build` builds it",
        shipped.display()
    );
    parsed(&successful(arguments, started_of(&shipped, arguments)))
}

/// What it says of wrong arguments, which it refuses.
pub fn refused(arguments: &[&str]) -> String {
    let done = started(arguments);
    assert_eq!(done.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(done.stderr).unwrap()
}
