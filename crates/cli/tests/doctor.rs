//! `gleaner doctor`: what it says of programs, of the installation, and of limits.

#[allow(dead_code)]
mod support;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use support::*;

const PLAIN: &str = "int main(void) { return 0; }";
const USES: &str = "int GC_which(void); int main(void) { return GC_which(); }";

/// `gleaner doctor` with a good library, about a program if there is one.
fn doctor_with(
    directory: &Directory,
    program: Option<&Path>,
    change: impl FnOnce(&mut Command),
) -> Output {
    let library = directory.path("preload/libgc.so.1");
    if !library.exists() {
        directory.library("preload/libgc.so.1", 1);
    }
    let mut command = gleaner();
    command.env("GLEANER_LIBGC", library).arg("doctor");
    if let Some(program) = program {
        command.arg("--").arg(program).arg("a b");
    }
    change(&mut command);
    command.output().unwrap()
}

fn doctor(directory: &Directory, program: &Path) -> Output {
    doctor_with(directory, Some(program), |_| {})
}

/// Has the command's process make system calls, of which the last gives 0, before it runs the program.
fn before_exec(command: &mut Command, mut calls: impl FnMut() -> i32 + Send + Sync + 'static) {
    let answer = move || match calls() {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: between fork and exec there are only system calls.
    unsafe { command.pre_exec(answer) };
}

/// The lines that begin with this mark and this subject.
fn lines(output: &Output, mark: &str, subject: &str) -> String {
    let text = stdout(output);
    // What is wrapped belongs to the line before.
    let text = text.replace("\n                ", " ");
    let head = format!("{mark:<5} {subject:<9} ");
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with(&head))
        .collect();
    lines.join("\n")
}

/// Checks that there is such a line, and what it says.
#[track_caller]
fn assert_says(output: &Output, mark: &str, subject: &str, text: &str) {
    let lines = lines(output, mark, subject);
    assert!(lines.contains(text), "no '{text}' in:\n{}", stdout(output));
}

#[test]
fn a_program_that_is_linked_against_libgc() {
    let directory = Directory::new();
    directory.library("libgc.so.1", 0);
    let flags = [
        "-shared",
        "-fPIC",
        "-Wl,-soname,libmiddle.so",
        "-Wl,-rpath,$ORIGIN",
        "libgc.so.1",
    ];
    directory.compile(
        "libmiddle.so",
        "int GC_which(void); int middle(void) { return GC_which(); }",
        &flags,
    );
    let program = directory.compile(
        "program",
        "int middle(void); int main(void) { return middle(); }",
        &["libmiddle.so", "-Wl,-rpath,$ORIGIN"],
    );
    let output = doctor(&directory, &program);
    let text = assert_succeeds(&output);
    assert_says(&output, "ok", "program", "program can be preloaded into");
    assert_says(
        &output,
        "ok",
        "libgc",
        "program needs libmiddle.so, which needs libgc.so.1 (",
    );
    assert_says(
        &output,
        "ok",
        "libgc",
        &directory.path("libgc.so.1").display().to_string(),
    );
    assert_says(
        &output,
        "ok",
        "gleaner",
        "preload/libgc.so.1 takes its place",
    );
    let typed = format!("exec -- {} 'a b'\n", program.display());
    assert!(text.contains(&typed), "{text}");
}

#[test]
fn the_version_is_that_of_the_file() {
    let directory = Directory::new();
    let source =
        "const unsigned GC_version = 8 << 16 | 2 << 8 | 4; int GC_which(void) { return 0; }";
    directory.compile(
        "libgc.so.1",
        source,
        &["-shared", "-fPIC", "-Wl,-soname,libgc.so.1"],
    );
    let program = directory.compile("program", USES, &["libgc.so.1", "-Wl,-rpath,$ORIGIN"]);
    assert_says(
        &doctor(&directory, &program),
        "ok",
        "libgc",
        "libgc.so.1, version 8.2.4)",
    );
}

#[test]
fn a_library_without_a_version_is_named_by_its_file() {
    let directory = Directory::new();
    directory.library("libgc.so.1.5.1", 0);
    std::os::unix::fs::symlink("libgc.so.1.5.1", directory.path("libgc.so.1")).unwrap();
    let program = directory.compile("program", USES, &["libgc.so.1", "-Wl,-rpath,$ORIGIN"]);
    let output = doctor(&directory, &program);
    assert_says(
        &output,
        "ok",
        "libgc",
        "libgc.so.1, version unknown: the file is ",
    );
    assert_says(&output, "ok", "libgc", "/libgc.so.1.5.1)");
}

/// What the kernel passes to `env` as one argument, `env` does not take apart.
#[test]
fn a_script_whose_first_line_does_not_work() {
    let directory = Directory::new();
    let script = directory.file("script", "#!/usr/bin/env FOO=1 guile\n", 0o755);
    let output = doctor(&directory, &script);
    assert_eq!(output.status.code(), Some(126));
    assert_says(
        &output,
        "no",
        "program",
        "the kernel gives env 'FOO=1 guile' as one argument",
    );
}

#[test]
fn a_library_that_opens_libgc_when_it_runs() {
    let directory = Directory::new();
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libvm.so"];
    let opens = "const char name[] = \"libgc.so.1\"; int vm(void) { return name[0]; }";
    directory.compile("libvm.so", opens, &flags);
    let source = "int vm(void); int main(void) { return vm() == 'l' ? 0 : 1; }";
    let program = directory.compile("program", source, &["libvm.so", "-Wl,-rpath,$ORIGIN"]);
    let output = doctor(&directory, &program);
    assert_succeeds(&output);
    assert_says(
        &output,
        "note",
        "libgc",
        "libvm.so, which may open it when it runs, as libgc.so.1",
    );
    let output = gleaner()
        .env("GLEANER_LIBGC", directory.path("preload/libgc.so.1"))
        .args(["exec", "--dry-run", "--"])
        .arg(&program)
        .output();
    assert_succeeds(&output.unwrap());
}

#[test]
fn a_library_that_is_missing_is_said() {
    let directory = Directory::new();
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libgone.so"];
    directory.compile("libgone.so", "int gone(void) { return 0; }", &flags);
    let source = "int gone(void); int main(void) { return gone(); }";
    let program = directory.compile("program", source, &["libgone.so"]);
    std::fs::remove_file(directory.path("libgone.so")).unwrap();
    let output = doctor(&directory, &program);
    assert_eq!(output.status.code(), Some(125));
    assert_says(&output, "no", "libgc", "; it needs libgone.so");
}

#[test]
fn a_script_is_named_with_its_interpreter() {
    let directory = Directory::new();
    directory.library("libgc.so.1", 0);
    let program = directory.compile("program", USES, &["libgc.so.1", "-Wl,-rpath,$ORIGIN"]);
    let script = directory.file("script", format!("#!{}\n", program.display()), 0o755);
    let output = doctor(&directory, &script);
    let text = format!(
        "script is a script for {}, which can be preloaded into",
        program.display()
    );
    assert_says(&output, "ok", "program", &text);
}

#[test]
fn a_program_that_opens_libgc_when_it_runs() {
    let directory = Directory::new();
    let by = |name: &str| {
        let source = format!("const char name[] = \"{name}\"; int main(void) {{ return 0; }}");
        doctor(&directory, &directory.compile("program", &source, &[]))
    };
    let output = by("libgc.so.1");
    assert_succeeds(&output);
    assert_says(
        &output,
        "note",
        "libgc",
        "program may open it when it runs, as libgc.so.1",
    );
    assert!(!stdout(&output).contains("by its path"));
    assert_says(
        &by("/opt/libgc.so.1"),
        "note",
        "libgc",
        "does not reach a file that is opened by its path",
    );
    // One of the names is reached.
    let output = by("libgc.so.1\\0/opt/libgc.so.1");
    assert_says(&output, "note", "libgc", "as libgc.so.1 or /opt/libgc.so.1");
    assert!(!stdout(&output).contains("by its path"));
}

#[test]
fn a_program_that_does_not_use_libgc() {
    let directory = Directory::new();
    let program = directory.compile("program", PLAIN, &[]);
    let output = doctor(&directory, &program);
    assert_eq!(output.status.code(), Some(125));
    assert_says(&output, "no", "libgc", "program does not use libgc");
    assert_says(&output, "no", "libgc", "use 'gleaner exec --any'");
    assert!(!stdout(&output).contains("Type"), "{}", stdout(&output));
}

#[test]
fn a_program_with_a_libgc_inside() {
    const VARIABLES: &str = "const char *names[] = {\"GC_INITIAL_HEAP_SIZE\", \"GC_MAXIMUM_HEAP_SIZE\", \"GC_FREE_SPACE_DIVISOR\"};";
    let directory = Directory::new();
    let program = directory.compile("program", &format!("{VARIABLES} {PLAIN}"), &[]);
    let output = doctor(&directory, &program);
    assert_eq!(output.status.code(), Some(125));
    assert_says(
        &output,
        "no",
        "libgc",
        "program has a libgc of its own inside",
    );
    let output = gleaner()
        .env("GLEANER_LIBGC", directory.path("preload/libgc.so.1"))
        .args(["exec", "--dry-run", "--"])
        .arg(&program)
        .output();
    assert_fails(&output.unwrap(), 125, "has a libgc of its own inside");
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libvm.so"];
    directory.compile(
        "libvm.so",
        &format!("{VARIABLES} int vm(void) {{ return 0; }}"),
        &flags,
    );
    let source = "int vm(void); int main(void) { return vm(); }";
    let program = directory.compile("other", source, &["libvm.so", "-Wl,-rpath,$ORIGIN"]);
    let output = doctor(&directory, &program);
    assert_eq!(output.status.code(), Some(125));
    assert_says(
        &output,
        "no",
        "libgc",
        "libvm.so, which has a libgc of its own inside",
    );
}

#[test]
fn what_exec_refuses_is_said_with_its_status() {
    let directory = Directory::new();
    let output = doctor(&directory, Path::new("/no/such/program"));
    assert_eq!(output.status.code(), Some(127));
    assert_says(&output, "no", "program", "/no/such/program: no such file");
    let program = directory.compile("still", PLAIN, &["-static"]);
    let output = doctor(&directory, &program);
    assert_eq!(output.status.code(), Some(125));
    assert_says(&output, "no", "program", "is statically linked");
    assert_says(&output, "ok", "gleaner", "takes its place");
}

#[test]
fn without_a_program_the_rest_is_looked_at() {
    let directory = Directory::new();
    let output = doctor_with(&directory, None, |_| {});
    let text = assert_succeeds(&output);
    for subject in ["gleaner", "memory", "processor", "writes"] {
        let has = ["ok", "note"].map(|mark| !lines(&output, mark, subject).is_empty());
        assert!(has[0] ^ has[1], "{subject} in:\n{text}");
    }
    assert!(!text.contains("libgc.so.1 is not among"), "{text}");
    let output = doctor_with(&directory, None, |command| {
        command.env("GLEANER_LIBGC", "/no/such/library");
    });
    assert_eq!(output.status.code(), Some(125));
    assert_says(&output, "no", "gleaner", "/no/such/library");
}

#[test]
fn settings_of_the_environment_are_named() {
    let directory = Directory::new();
    let output = doctor_with(&directory, None, |command| {
        command
            .env("GC_NPROCS", "2")
            .env("GC_MARKERS", "3")
            .env("GC_INITIAL_HEAP_SIZE", "1m")
            .env("NOT_GC_FIND_LEAK", "1")
            .env("GLEANER_OPTIONS", "markers=2")
            .env("LD_PRELOAD", "/no/other.so");
    });
    assert_succeeds(&output);
    assert_says(&output, "note", "options", "GLEANER_OPTIONS has markers=2");
    assert_says(
        &output,
        "note",
        "options",
        "libgc's own variables count, too: GC_INITIAL_HEAP_SIZE=1m GC_MARKERS=3 GC_NPROCS=2",
    );
    assert!(!stdout(&output).contains("NOT_GC_FIND_LEAK"));
    // `env` appends them in this order.
    let unsorted = Command::new("env")
        .args(["GC_NPROCS=2", "GC_MARKERS=3"])
        .arg(gleaner().get_program())
        .arg("doctor")
        .output()
        .unwrap();
    assert_says(&unsorted, "note", "options", "GC_MARKERS=3 GC_NPROCS=2");
    assert_says(
        &output,
        "note",
        "preload",
        "/no/other.so is preloaded behind",
    );
    let output = doctor_with(&directory, None, |command| {
        command.env("LD_PRELOAD", directory.path("preload/libgc.so.1"));
    });
    assert_eq!(lines(&output, "note", "preload"), "");
    let output = doctor_with(&directory, None, |command| {
        command.env("GLEANER_OPTIONS", "markers=none");
    });
    assert_eq!(output.status.code(), Some(2));
    assert_says(&output, "no", "options", "in GLEANER_OPTIONS: ");
}

#[test]
fn limits_of_the_process_are_named() {
    let directory = Directory::new();
    let limit = |resource, bytes: u64| {
        doctor_with(&directory, None, |command| {
            // The one that holds, not the one up to which it may be raised.
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: 2 * bytes,
            };
            // SAFETY: a system call that touches no memory but its argument.
            before_exec(command, move || unsafe {
                libc::setrlimit(resource, &limit)
            });
        })
    };
    assert_says(
        &limit(libc::RLIMIT_AS, 2 << 30),
        "note",
        "limit",
        "2.00 GiB of addresses may be used (ulimit -v)",
    );
    assert_says(
        &limit(libc::RLIMIT_DATA, 1 << 30),
        "note",
        "limit",
        "1.00 GiB of data may be used (ulimit -d)",
    );
    let output = doctor_with(&directory, None, |_| {});
    assert_eq!(lines(&output, "note", "limit").matches("ulimit").count(), 0);
}

#[test]
fn a_filter_of_system_calls_is_worth_a_note() {
    let directory = Directory::new();
    let free = doctor_with(&directory, None, |_| {});
    let works = lines(&free, "ok", "writes");
    let output = doctor_with(&directory, None, |command| {
        let mut all = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        };
        // SAFETY: system calls that read no memory but their arguments.
        before_exec(command, move || unsafe {
            let program = libc::sock_fprog {
                len: 1,
                filter: &raw mut all,
            };
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
                return -1;
            }
            let mode = libc::SECCOMP_MODE_FILTER;
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program)
        });
    });
    // Where the kernel tells nothing anyway, that is the note.
    let text = match works.contains("option generations works") {
        true => "a filter of system calls (seccomp) is in force",
        false => "the kernel does not tell",
    };
    assert_says(&output, "note", "writes", text);
}

#[test]
fn one_processor_is_worth_a_note() {
    let directory = Directory::new();
    let output = doctor_with(&directory, None, |command| {
        // SAFETY: system calls that touch no memory but their argument, a set of bits that may be all zero.
        before_exec(command, || unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let size = std::mem::size_of_val(&set);
            if libc::sched_getaffinity(0, size, &mut set) != 0 {
                return -1;
            }
            let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set));
            libc::CPU_ZERO(&mut set);
            libc::CPU_SET(first.unwrap_or(0), &mut set);
            libc::sched_setaffinity(0, size, &set)
        });
    });
    assert_says(&output, "note", "processor", "one may be used");
}
