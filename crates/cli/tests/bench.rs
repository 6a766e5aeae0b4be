//! `gleaner bench`: hands over to the program beside this one.

#[allow(dead_code)]
mod support;

use std::process::Command;

use support::*;

/// The command alone in a directory.
fn command_in(directory: &Directory) -> Command {
    let program = std::fs::read(env!("CARGO_BIN_EXE_gleaner")).unwrap();
    clean(Command::new(directory.file("gleaner", program, 0o755)))
}

#[test]
fn the_words_are_handed_over_as_they_are() {
    let directory = Directory::new();
    let words = "#!/bin/sh\nfor word in \"$@\"; do echo \"[$word]\"; done\nexit 3\n";
    directory.file("gleaner-bench", words, 0o755);
    let output = command_in(&directory)
        .args([
            "bench",
            "--log",
            "--opt",
            "a=b",
            "--",
            "two words",
            "--help",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        stdout(&output),
        "[run]\n[--log]\n[--opt]\n[a=b]\n[--]\n[two words]\n[--help]\n"
    );
    for words in [
        &["--", "./app", "--log"][..],
        &["--", "--"],
        &["--", "--", "a"],
    ] {
        let output = command_in(&directory)
            .arg("bench")
            .args(words)
            .output()
            .unwrap();
        assert_eq!(
            stdout(&output),
            format!("[run]\n[{}]\n", words.join("]\n[")),
            "{words:?}"
        );
    }
}

#[test]
fn a_missing_program_is_named_with_the_remedy() {
    let directory = Directory::new();
    let output = command_in(&directory)
        .args(["bench", "gc_bench"])
        .output()
        .unwrap();
    assert_fails(
        &output,
        127,
        "gleaner-bench is not there: it is part of a build tree (make build)",
    );
}
