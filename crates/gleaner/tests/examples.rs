//! The example embedder under every setup: its output is what the program says, and what its twin in C says.

use std::path::PathBuf;
use std::process::Command;

/// Examples are built beside the tests.
fn lisp() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let lisp = tests
        .parent()
        .unwrap()
        .with_file_name("examples")
        .join("lisp");
    assert!(
        lisp.exists(),
        "cargo test -p gleaner builds the examples; --test by itself does not"
    );
    lisp
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
        let done = Command::new(lisp())
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
    let done = Command::new(lisp()).arg(&file).output().unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(!done.status.success());
    assert!(String::from_utf8_lossy(&done.stderr).contains("car of what is no pair"));
}
