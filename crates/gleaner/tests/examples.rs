//! The example embedders under every setup: their output is what the program says, and what their twins in C say.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Examples are built beside the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let example = tests
        .parent()
        .unwrap()
        .with_file_name("examples")
        .join(name);
    assert!(
        example.exists(),
        "cargo test -p gleaner builds the examples; --test by itself does not"
    );
    example
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
}

#[test]
fn the_lisp_prints_the_same_under_every_setup() {
    let expected = std::fs::read_to_string(root().join("demo.expected")).unwrap();
    for setup in [
        &[][..],
        &["--compressed"],
        &["--stress"],
        &["--stress", "--compressed"],
    ] {
        let done = Command::new(example("lisp"))
            .args(setup)
            .arg(root().join("demo.lisp"))
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{setup:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        assert_eq!(String::from_utf8_lossy(&done.stdout), expected, "{setup:?}");
    }
}

#[test]
fn the_lisp_names_an_error() {
    let file = std::env::temp_dir().join(format!("gleaner-lisp-{}", std::process::id()));
    std::fs::write(&file, "(car 1)").unwrap();
    let done = Command::new(example("lisp")).arg(&file).output().unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(!done.status.success());
    assert!(String::from_utf8_lossy(&done.stderr).contains("car of what is no pair"));
}

/// Runs a program of the Scheme, after the prelude and what says how much it does, with these options.
fn run_scheme(size: &str, program: &str, options: &str) -> Output {
    let programs = root().join("scheme/programs");
    Command::new(example("scheme"))
        .env("GLEANER_OPTIONS", options)
        .args(["prelude", size, program].map(|name| programs.join(name).with_extension("scm")))
        .output()
        .unwrap()
}

/// All programs of the Scheme print what they should with these options, and a collection at every so many allocations.
fn check_scheme(size: &str, options: &str, stress: u32) {
    for program in scheme_programs() {
        // A heap that is always full makes each collection long.
        let stress = if program == "deep" {
            stress * 40
        } else {
            stress
        };
        let done = run_scheme(size, &program, &format!("{options},stress={stress}"));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program}, {options}: {said}");
        let expected = root().join(format!("scheme/programs/{program}.expected"));
        assert_eq!(
            String::from_utf8_lossy(&done.stdout),
            std::fs::read_to_string(expected).unwrap(),
            "{program}, {options}"
        );
    }
}

/// Those that say what they print.
fn scheme_programs() -> Vec<String> {
    let files = std::fs::read_dir(root().join("scheme/programs")).unwrap();
    let programs: Vec<String> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension() == Some("expected".as_ref()))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().into())
        .collect();
    assert!(programs.len() > 7, "{programs:?}");
    programs
}

#[test]
fn the_scheme_runs_a_million_tail_calls_and_two_threads() {
    check_scheme("large", "heap-limit=8m", 0);
}

#[test]
fn the_scheme_prints_the_same_with_compressed_references_and_many_collections() {
    check_scheme(
        "small",
        "heap-limit=2m,refs=compressed,verify=edges,poison=on",
        500,
    );
}

#[test]
fn the_scheme_prints_the_same_with_arrays_in_pieces_and_many_collections() {
    check_scheme(
        "small",
        "heap-limit=2m,arrays=zray,first-n=64,arraylet=256,verify=edges,poison=on",
        500,
    );
}

#[test]
fn the_scheme_ends_with_an_error_that_nobody_handles() {
    let done = run_scheme("small", "uncaught", "");
    assert!(!done.status.success());
    assert_eq!(String::from_utf8_lossy(&done.stdout), "before\n");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(said, "scheme: car of what is no pair\n");
}
