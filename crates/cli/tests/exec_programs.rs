//! `gleaner exec`: which programs it takes and which it refuses, before anything runs.

#[allow(dead_code)]
mod support;

use std::path::Path;
use std::process::{Command, Output};

use support::*;

const PLAIN: &str = "int main(void) { return 0; }";

/// `gleaner exec --dry-run` of `program` with a good library.
fn dry_run(directory: &Directory, program: impl AsRef<Path>) -> Output {
    dry_run_with(directory, program, |_| {})
}

fn dry_run_with(
    directory: &Directory,
    program: impl AsRef<Path>,
    change: impl FnOnce(&mut Command),
) -> Output {
    let library = directory.path("preload/libgc.so.1");
    if !library.exists() {
        directory.library("preload/libgc.so.1", 1);
    }
    let mut command = gleaner();
    command
        .env("GLEANER_LIBGC", library)
        .args(["exec", "--dry-run", "--"])
        .arg(program.as_ref());
    change(&mut command);
    command.output().unwrap()
}

#[test]
fn a_program_that_is_not_there() {
    let directory = Directory::new();
    let output = dry_run(&directory, "no-such-program");
    assert_fails(&output, 127, "no-such-program: not found on PATH");
    let output = dry_run(&directory, "/no/such/program");
    assert_fails(&output, 127, "/no/such/program: no such file");
    assert_fails(&dry_run(&directory, ""), 127, "the program's name is empty");
    let output = dry_run_with(&directory, "guile", |command| {
        command.env("PATH", directory.path("."));
    });
    assert_fails(&output, 127, "guile: not found on PATH");
    let output = gleaner()
        .args(["exec", "markers=2", "--", "guile"])
        .output();
    assert_fails(
        &output.unwrap(),
        127,
        "an option is given as --opt markers=2",
    );
    let output = gleaner().args(["exec", "--", "."]).output().unwrap();
    assert_fails(&output, 126, "gleaner: . is a directory");
}

#[test]
fn a_program_that_cannot_be_executed() {
    let directory = Directory::new();
    let file = directory.file("plain", "", 0o644);
    assert_fails(
        &dry_run(&directory, file),
        126,
        "plain has no execute permission",
    );
    assert_fails(&dry_run(&directory, "/usr"), 126, "/usr is a directory");
    let text = directory.file("text", "echo no first line\n", 0o755);
    assert_fails(
        &dry_run(&directory, text),
        126,
        "neither an ELF program nor a script",
    );
    let empty = directory.file("empty", "", 0o755);
    assert_fails(
        &dry_run(&directory, empty),
        126,
        "neither an ELF program nor a script",
    );
}

#[test]
fn an_executable_further_down_the_path_wins() {
    let directory = replaceable();
    directory.file("first/which", "", 0o644);
    let path = format!(
        "{}:{}",
        directory.path("first").display(),
        directory.path("").display()
    );
    let output = dry_run_with(&directory, "which", |command| {
        command.env("PATH", path);
    });
    assert!(assert_succeeds(&output).contains("/which"));
    let output = dry_run_with(&directory, "which", |command| {
        command.env("PATH", directory.path("first"));
    });
    assert_fails(&output, 126, "first/which has no execute permission");
}

#[test]
fn setuid_and_setgid_programs_are_refused() {
    let directory = replaceable();
    let program = directory.path("which");
    set_mode(&program, 0o4755);
    assert_fails(&dry_run(&directory, &program), 125, "which is setuid");
    set_mode(&program, 0o2755);
    assert_fails(&dry_run(&directory, &program), 125, "which is setgid");
    let script = directory.file("script", format!("#!{}\n", program.display()), 0o755);
    assert_fails(&dry_run(&directory, script), 125, "which is setgid");
    set_mode(&program, 0o755);
    assert_succeeds(&dry_run(&directory, &program));
}

#[test]
fn programs_with_file_capabilities_are_refused() {
    let directory = replaceable();
    let program = directory.path("which");
    // Version 2 of the attribute: effective, and the right to bind low ports permitted.
    let value: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
    let path = std::ffi::CString::new(program.as_os_str().as_encoded_bytes()).unwrap();
    let name = c"security.capability";
    // SAFETY: two strings, and a value of 20 bytes.
    let set = unsafe {
        let value = value.as_ptr().cast();
        libc::setxattr(path.as_ptr(), name.as_ptr(), value, 20, 0)
    };
    if set != 0 {
        let error = std::io::Error::last_os_error();
        eprintln!("left out: only a privileged user grants capabilities ({error})");
        return;
    }
    assert_fails(
        &dry_run(&directory, &program),
        125,
        "which has file capabilities",
    );
}

#[test]
fn static_programs_are_refused() {
    let directory = Directory::new();
    for flag in ["-static", "-static-pie"] {
        let program = directory.compile(&format!("program{flag}"), PLAIN, &[flag]);
        assert_fails(&dry_run(&directory, program), 125, "is statically linked");
    }
}

#[test]
fn damaged_and_foreign_programs_are_refused() {
    let directory = Directory::new();
    let whole = std::fs::read(directory.compile("whole", PLAIN, &[])).unwrap();
    let cut = directory.file("cut", &whole[..whole.len() / 4], 0o755);
    assert_fails(&dry_run(&directory, cut), 125, "is a damaged ELF file");
    let mut changed = whole.clone();
    changed[4] = 1;
    let narrow = directory.file("narrow", &changed, 0o755);
    assert_fails(&dry_run(&directory, narrow), 125, "is a 32-bit file");
    let mut changed = whole;
    changed[18] = 183;
    let foreign = directory.file("foreign", &changed, 0o755);
    assert_fails(
        &dry_run(&directory, foreign),
        125,
        "is for another processor",
    );
}

#[test]
fn a_program_without_libgc_is_refused_unless_told() {
    let directory = Directory::new();
    let program = directory.compile("program", PLAIN, &[]);
    let output = dry_run(&directory, &program);
    assert_fails(
        &output,
        125,
        "program does not use libgc (libgc.so.1 is not among the",
    );
    assert!(stderr(&output).contains("add --any"));
    let output = gleaner()
        .env("GLEANER_LIBGC", directory.path("preload/libgc.so.1"))
        .args(["exec", "--any", "--dry-run", "--"])
        .arg(program)
        .output()
        .unwrap();
    assert_succeeds(&output);
}

#[test]
fn a_library_that_is_not_found_is_named() {
    let directory = Directory::new();
    let flags = ["-shared", "-Wl,-soname,libgone.so"];
    directory.compile("libgone.so", "int gone;", &flags);
    let program = directory.compile(
        "program",
        "extern int gone; int main(void) { return gone; }",
        &["libgone.so"],
    );
    assert_fails(
        &dry_run(&directory, program),
        125,
        "it needs libgone.so, not found",
    );
}

/// Builds `outer` -> `inner/libmiddle.so` -> libgc.so.1, where the middle library has no search path of its own.
fn indirect(flags: &[&str]) -> Directory {
    let directory = Directory::new();
    directory.library("gc/libgc.so.1", 2);
    let middle = "int GC_which(void); int middle(void) { return GC_which(); }";
    let middle_flags = [
        "-shared",
        "-fPIC",
        "-Wl,-soname,libmiddle.so",
        "gc/libgc.so.1",
    ];
    std::fs::create_dir(directory.path("inner")).unwrap();
    directory.compile("inner/libmiddle.so", middle, &middle_flags);
    let outer = "int middle(void); int main(void) { return middle(); }";
    let link = ["inner/libmiddle.so", "-Wl,-rpath-link,gc"];
    directory.compile("outer", outer, &[&link[..], flags].concat());
    directory
}

#[test]
fn libgc_behind_another_library_is_found_by_runpath_rpath_and_library_path() {
    let by_runpath = indirect(&["-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"]);
    assert_succeeds(&dry_run(&by_runpath, by_runpath.path("outer")));
    let by_rpath = indirect(&["-Wl,--disable-new-dtags,-rpath,${ORIGIN}/inner"]);
    assert_succeeds(&dry_run(&by_rpath, by_rpath.path("outer")));
    let by_path = indirect(&[]);
    let program = by_path.path("outer");
    assert_fails(
        &dry_run(&by_path, &program),
        125,
        "it needs libmiddle.so, not found",
    );
    let output = dry_run_with(&by_path, &program, |command| {
        command.env("LD_LIBRARY_PATH", by_path.path("inner"));
    });
    assert_succeeds(&output);
}

#[test]
fn a_program_that_opens_libgc_is_taken() {
    let directory = Directory::new();
    let source = "#include <dlfcn.h>\nint main(void) { return !dlopen(\"libgc.so.1\", RTLD_NOW); }";
    let program = directory.compile("opener", source, &[]);
    assert_succeeds(&dry_run(&directory, program));
}

#[test]
fn scripts_are_followed_to_their_interpreter() {
    let directory = replaceable();
    let which = directory.path("which");
    let direct = directory.file("direct", format!("#! {} -x\n", which.display()), 0o755);
    assert_succeeds(&dry_run(&directory, &direct));
    let nested = directory.file("nested", format!("#!{}\n", direct.display()), 0o755);
    assert_succeeds(&dry_run(&directory, nested));
    for line in ["#!/usr/bin/env which", "#!/usr/bin/env -S A=b which -s"] {
        let script = directory.file("by-env", line, 0o755);
        let output = dry_run_with(&directory, script, |command| {
            command.env("PATH", directory.path(""));
        });
        assert_succeeds(&output);
    }
}

#[test]
fn scripts_without_libgc_or_interpreter_are_refused() {
    let directory = Directory::new();
    let shell = directory.file("shell", "#!/bin/sh\nexec guile\n", 0o755);
    let output = dry_run(&directory, shell);
    assert_fails(
        &output,
        125,
        "shell does not use libgc: it is a script for /bin/sh",
    );
    let missing = directory.file("missing", "#!/no/interpreter\n", 0o755);
    let output = dry_run(&directory, missing);
    assert_fails(&output, 127, "the interpreter of");
    let none = directory.file("none", "#!\n", 0o755);
    assert_fails(&dry_run(&directory, none), 126, "names no interpreter");
    let own = directory.path("circle");
    directory.file("circle", format!("#!{}\n", own.display()), 0o755);
    assert_fails(&dry_run(&directory, own), 126, "name each other");
}

#[test]
fn real_programs_are_known_to_use_libgc() {
    let directory = Directory::new();
    for program in [
        "guile",
        "w3m",
        "ecl",
        "nix-instantiate",
        "lilypond",
        "crystal",
    ] {
        let text = assert_succeeds(&dry_run(&directory, program));
        assert!(text.contains("LD_PRELOAD="), "{program}: {text}");
    }
    for program in ["cat", "sh", "gcc"] {
        assert_fails(&dry_run(&directory, program), 125, "does not use libgc");
    }
}

#[test]
fn a_misspelt_option_is_not_taken_for_a_program() {
    let output = run(&["exec", "--opts", "sweep=eager", "--", "guile"]);
    assert_fails(&output, 2, "a similar argument exists: '--opt'");
    let directory = Directory::new();
    let after = dry_run(&directory, "--opts");
    assert_fails(&after, 127, "--opts: not found on PATH");
}
