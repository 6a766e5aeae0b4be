//! `gleaner-bench` as a process: what a test of a microbenchmark starts and reads.

#![allow(dead_code, reason = "each test uses some of it")]

use std::process::{Command, Output};

/// What became of it, without options in the environment.
pub fn started(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
        .args(arguments)
        .env_remove("GLEANER_OPTIONS")
        .output()
        .unwrap()
}

/// What it prints; it succeeds.
pub fn printed(arguments: &[&str]) -> String {
    let done = started(arguments);
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {err}");
    String::from_utf8(done.stdout).unwrap()
}

/// The lines of JSON that it prints; it succeeds.
pub fn lines(arguments: &[&str]) -> Vec<serde_json::Value> {
    let read = |line| serde_json::from_str(line).unwrap();
    printed(arguments).lines().map(read).collect()
}

/// What it says of wrong arguments, which it refuses.
pub fn refused(arguments: &[&str]) -> String {
    let done = started(arguments);
    assert_eq!(done.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(done.stderr).unwrap()
}
