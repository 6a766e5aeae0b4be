//! `gleaner exec`: where it finds Gleaner's library, and libraries that cannot be loaded.

#[allow(dead_code)]
mod support;

use std::path::Path;
use std::process::Output;

use support::*;

fn with_library(directory: &Directory, library: &Path) -> Output {
    gleaner()
        .env("GLEANER_LIBGC", library)
        .args(["exec", "--"])
        .arg(directory.path("which"))
        .output()
        .unwrap()
}

#[test]
fn a_library_that_cannot_be_loaded_is_refused() {
    let directory = replaceable();
    let refused = |library: &Path, problem: &str| {
        let output = with_library(&directory, library);
        assert_fails(&output, 125, "(named by GLEANER_LIBGC) cannot be loaded: ");
        assert_fails(&output, 125, problem);
    };
    refused(&directory.path("none.so"), "No such file");
    refused(&directory.path("ours"), "Is a directory");
    let text = directory.file("text.so", "not a library", 0o644);
    refused(&text, "it is not an ELF file");
    refused(&directory.path("which"), "it is a program, not a library");
    let whole = std::fs::read(directory.path("ours/libgc.so.1")).unwrap();
    let cut = directory.file("cut.so", &whole[..whole.len() / 2], 0o644);
    refused(&cut, "it is a damaged ELF file");
    let other = directory.compile("other.so", "", &["-shared", "-Wl,-soname,libother.so"]);
    refused(&other, "its name (soname) is libother.so, not libgc.so.1");
    let nameless = directory.compile("nameless.so", "", &["-shared"]);
    refused(&nameless, "it has no name (soname)");
    let source = "int GC_which(void) { return 3; }";
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libgc.so.1"];
    let others = directory.compile("others.so", source, &flags);
    refused(&others, "it is another libgc than Gleaner's");
    let stock = Path::new("/usr/lib/x86_64-linux-gnu/libgc.so.1");
    refused(stock, "it is another libgc than Gleaner's");
    let blank = directory.file("with blank/libgc.so.1", &whole, 0o644);
    refused(&blank, "LD_PRELOAD cannot name a path with a blank");
}

/// A program may bring its own C library, as Nix's and Guix's do: the loader would end it with a line for each symbol.
#[test]
fn a_program_whose_c_library_is_too_old_is_refused() {
    let directory = replaceable();
    let flags = ["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libc.so.6"];
    directory.compile("old/libc.so.6", "int old;", &flags);
    let path = "-Wl,-rpath,$ORIGIN/stock:$ORIGIN/old";
    let program = directory.compile("late", WHICH, &["stock/libgc.so.1", path]);
    let source = "extern int puts(const char *);\n\
                  int GC_which(void) { return puts(\"GLEANER_OPTIONS\"); }";
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libgc.so.1"];
    let library = directory.compile("ours/versioned.so", source, &flags);
    for command in ["exec", "doctor"] {
        let output = gleaner()
            .env("GLEANER_LIBGC", &library)
            .args([command, "--"])
            .arg(&program)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        let said = stdout(&output) + &stderr(&output);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["old/libc.so.6, which is too old", "needs GLIBC_2."] {
            assert!(said.contains(part), "no '{part}' in {said}");
        }
    }
}

#[test]
fn a_library_that_needs_a_missing_one_is_refused() {
    let directory = replaceable();
    directory.compile(
        "libgone.so",
        "int gone;",
        &["-shared", "-Wl,-soname,libgone.so"],
    );
    let flags = [
        "-shared",
        "-fPIC",
        "-Wl,-soname,libgc.so.1,--no-as-needed",
        "libgone.so",
    ];
    let library = directory.compile("needy.so", "", &flags);
    assert_fails(
        &with_library(&directory, &library),
        125,
        "it needs libgone.so, not found",
    );
}

#[test]
fn the_library_is_found_beside_the_command_and_where_it_is_installed() {
    for place in ["bin/libgc.so.1", "bin/libgc.so", "lib/gleaner/libgc.so.1"] {
        let directory = replaceable();
        let contents = std::fs::read(directory.path("ours/libgc.so.1")).unwrap();
        directory.file(place, contents, 0o644);
        let command = std::fs::read(env!("CARGO_BIN_EXE_gleaner")).unwrap();
        let command = directory.file("bin/gleaner", command, 0o755);
        let output = clean(std::process::Command::new(command))
            .args(["exec", "--"])
            .arg(directory.path("which"))
            .output()
            .unwrap();
        assert_eq!(assert_succeeds(&output), "1\n", "{place}");
    }
}

#[test]
fn a_library_that_is_not_installed_is_said_to_be_missing() {
    let directory = replaceable();
    let command = std::fs::read(env!("CARGO_BIN_EXE_gleaner")).unwrap();
    let command = directory.file("bin/gleaner", command, 0o755);
    let output = clean(std::process::Command::new(command))
        .args(["exec", "--"])
        .arg(directory.path("which"))
        .output()
        .unwrap();
    assert_fails(&output, 125, "libgc.so.1 is not installed");
    assert!(stderr(&output).contains("GLEANER_LIBGC=PATH"));
}
