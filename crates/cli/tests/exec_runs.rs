//! `gleaner exec` when it runs the program: what the program sees, and what comes back. Real programs begin and end here,
//! which proves the command and little about a heap.

#[allow(dead_code)]
mod support;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use support::*;

/// The libgc of the system.
const STOCK: &str = "/usr/lib/x86_64-linux-gnu/libgc.so.1";

/// `gleaner exec` with the test library of `directory`.
fn exec(directory: &Directory, options: &[&str]) -> Command {
    let mut command = gleaner();
    command
        .env("GLEANER_LIBGC", directory.path("ours/libgc.so.1"))
        .current_dir(directory.path(""))
        .arg("exec")
        .args(options)
        .arg("--");
    command
}

/// Runs a shell with these words, on the test library.
fn shell(directory: &Directory, options: &[&str], script: &str) -> Output {
    let options = [&["--any"], options].concat();
    exec(directory, &options)
        .args(["sh", "-c", script])
        .output()
        .unwrap()
}

#[test]
fn the_library_takes_the_place_of_the_one_that_rpath_finds() {
    let directory = replaceable();
    let plain = clean(Command::new(directory.path("which")))
        .output()
        .unwrap();
    assert_eq!(assert_succeeds(&plain), "2\n");
    let output = exec(&directory, &[]).arg("./which").output().unwrap();
    assert_eq!(assert_succeeds(&output), "1\n");
}

#[test]
fn the_library_takes_the_place_of_the_one_that_is_opened() {
    let directory = replaceable();
    let source = "
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *library = dlopen(\"libgc.so.1\", RTLD_NOW);
    int (*which)(void) = (int (*)(void))dlsym(library, \"GC_which\");
    printf(\"%d\\n\", which());
    return 0;
}";
    directory.compile("opener", source, &["-Wl,-rpath,$ORIGIN/stock"]);
    let output = exec(&directory, &[]).arg("./opener").output().unwrap();
    assert_eq!(assert_succeeds(&output), "1\n");
}

#[test]
fn a_library_that_is_opened_by_its_path_is_named_with_the_remedy() {
    let directory = Directory::new();
    let source = "
#include <dlfcn.h>
int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW);
    void (*start)(void) = (void (*)(void))dlsym(library, \"GC_init\");
    start();
    return 0;
}";
    directory.compile("opener", source, &[]);
    let library = library();
    let run = |name: &str| {
        let mut command = gleaner();
        command
            .env("GLEANER_LIBGC", &library)
            .args(["exec", "--any", "--"])
            .arg(directory.path("opener"))
            .arg(name);
        command.output().unwrap()
    };
    assert_succeeds(&run("libgc.so.1"));
    let output = run(STOCK);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    let said = stderr(&output);
    assert!(said.contains("opens libgc by a path"), "{said}");
    assert!(said.contains("libgc.so.1 without a directory"), "{said}");
}

#[test]
fn exit_status_and_signals_pass_through() {
    let directory = replaceable();
    let output = shell(&directory, &[], "exit 37");
    assert_eq!(output.status.code(), Some(37));
    let output = shell(&directory, &[], "kill -USR1 $$");
    assert_eq!(output.status.signal(), Some(10));
    let output = shell(&directory, &[], "kill -KILL $$");
    assert_eq!(output.status.signal(), Some(9));
}

#[test]
fn the_signal_mask_and_an_ignored_pipe_signal_are_inherited() {
    let directory = replaceable();
    let source = "
#include <signal.h>
#include <stdio.h>
int main(void) {
    struct sigaction action;
    sigset_t mask;
    sigaction(SIGPIPE, 0, &action);
    sigprocmask(SIG_BLOCK, 0, &mask);
    printf(\"%d %d %d\\n\", action.sa_handler == SIG_IGN, sigismember(&mask, SIGUSR2), sigismember(&mask, SIGUSR1));
    return 0;
}";
    directory.compile("shows", source, &[]);
    let outer = "
#include <signal.h>
#include <unistd.h>
int main(int count, char **words) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_BLOCK, &mask, 0);
    signal(SIGPIPE, SIG_IGN);
    return execv(words[1], words + 1);
}";
    directory.compile("careful", outer, &[]);
    let plain = exec(&directory, &["--any"])
        .arg("./shows")
        .output()
        .unwrap();
    assert_eq!(assert_succeeds(&plain), "0 0 0\n");
    let inner = exec(&directory, &["--any"]);
    let output = exec(&directory, &["--any"])
        .arg("./careful")
        .arg(inner.get_program())
        .args(inner.get_args())
        .arg("./shows")
        .output()
        .unwrap();
    assert_eq!(assert_succeeds(&output), "1 1 0\n");
}

#[test]
fn the_process_is_the_program_itself() {
    let directory = replaceable();
    let child = exec(&directory, &["--any"])
        .args(["sh", "-c", "echo $$"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(assert_succeeds(&output), format!("{pid}\n"));
}

#[test]
fn a_signal_sent_from_outside_reaches_the_program() {
    let directory = replaceable();
    let mut child = exec(&directory, &["--any"])
        .args([
            "sh",
            "-c",
            "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -TERM {}", child.id())])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn arguments_and_input_pass_through() {
    use std::os::unix::ffi::OsStrExt;
    let directory = replaceable();
    let strange = std::ffi::OsStr::from_bytes(b"\xff --opt");
    let output = exec(&directory, &["--any"])
        .args(["printf", "%s|", "--stats", "", "--"])
        .arg(strange)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"--stats||--|\xff --opt|");
    let mut child = exec(&directory, &["--any"])
        .arg("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"in and out")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(assert_succeeds(&output), "in and out");
}

#[test]
fn the_program_keeps_the_name_it_was_called_by() {
    let directory = replaceable();
    let source = "#include <stdio.h>\nint main(int n, char **v) { puts(v[0]); return 0; }";
    directory.compile("named", source, &[]);
    let output = exec(&directory, &["--any"])
        .arg("named")
        .env("PATH", directory.path(""))
        .output()
        .unwrap();
    assert_eq!(assert_succeeds(&output), "named\n");
}

#[test]
fn options_are_merged_for_the_library() {
    let directory = replaceable();
    let output = exec(
        &directory,
        &[
            "--any",
            "--opt",
            "sweep=eager",
            "--opt",
            "markers=2",
            "--stats",
        ],
    )
    .env("GLEANER_OPTIONS", "markers=7")
    .args(["sh", "-c", "echo $GLEANER_OPTIONS"])
    .output()
    .unwrap();
    let text = assert_succeeds(&output);
    assert_eq!(text, "markers=7,sweep=eager,markers=2,stats=on\n");
    let output = shell(&directory, &[], "echo ${GLEANER_OPTIONS-unset}");
    assert_eq!(assert_succeeds(&output), "unset\n");
}

#[test]
fn preloads_of_others_are_kept() {
    let directory = replaceable();
    let other = directory.compile("libother.so", "", &["-shared", "-fPIC"]);
    let output = exec(&directory, &["--any"])
        .env("LD_PRELOAD", &other)
        .args(["sh", "-c", "echo $LD_PRELOAD"])
        .output()
        .unwrap();
    let ours = directory.path("ours/libgc.so.1");
    let expected = format!("{}:{}\n", ours.display(), other.display());
    assert_eq!(assert_succeeds(&output), expected);
}

#[test]
fn children_run_undisturbed_and_use_the_library_if_they_use_libgc() {
    let directory = replaceable();
    let output = shell(
        &directory,
        &[],
        "echo a | cat | tr a b; ./which; (exit 3); echo $?",
    );
    assert_eq!(assert_succeeds(&output), "b\n1\n3\n");
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_log_is_absolute_and_checked() {
    let directory = replaceable();
    let output = shell(
        &directory,
        &["--log", "events.jsonl"],
        "cd /; echo $GLEANER_OPTIONS",
    );
    let log = directory.path("events.jsonl");
    assert_eq!(assert_succeeds(&output), format!("log={}\n", log.display()));
    assert!(log.is_file());
    let output = shell(&directory, &["--log", "no/such/directory"], "echo ran");
    assert_fails(
        &output,
        2,
        "no/such/directory cannot be written: No such file",
    );
    let output = shell(&directory, &["--log", "."], "echo ran");
    assert_fails(&output, 2, "cannot be written: Is a directory");
    let output = shell(&directory, &["--log", "a,b"], "echo ran");
    assert_fails(&output, 2, "the path has a comma");
    let long = "d/".repeat(200);
    let output = shell(&directory, &["--log", &long], "echo ran");
    assert_fails(&output, 2, "accepted: none|PATH of at most 255 bytes");
}

#[test]
fn files_that_options_name_are_absolute_wherever_the_options_come_from() {
    let directory = replaceable();
    let run = |options: &[&str], environment: &str| {
        let options = [&["--any"], options].concat();
        let output = exec(&directory, &options)
            .env("GLEANER_OPTIONS", environment)
            .args(["sh", "-c", "cd /; echo $GLEANER_OPTIONS"])
            .output();
        assert_succeeds(&output.unwrap())
    };
    directory.file("sub/file", "", 0o644);
    let here = directory.path("");
    let here = here.to_str().unwrap();
    assert_eq!(run(&["--opt", "log=x"], ""), format!("log=x,log={here}x\n"));
    assert_eq!(
        run(&["--opt", "markers=2"], "log=sub/../y,snapshot=%p.heap"),
        format!(
            "log=sub/../y,snapshot=%p.heap,markers=2,log={here}sub/../y,snapshot={here}%p.heap\n"
        )
    );
    assert_eq!(run(&["--opt", "log=/dev/null"], ""), "log=/dev/null\n");
}

#[test]
fn no_empty_log_is_left_where_nothing_ran() {
    let directory = replaceable();
    let log = directory.path("events.jsonl");
    let run = |more: &[&str], program: &str| {
        let options = [&["--log", "events.jsonl"], more].concat();
        exec(&directory, &options).arg(program).output().unwrap()
    };
    directory.file("text", "no program\n", 0o755);
    assert_fails(&run(&[], "./nosuch"), 127, "no such file");
    assert!(!log.exists());
    assert_eq!(run(&["--any"], "./text").status.code(), Some(126));
    assert!(!log.exists());
    assert_succeeds(&run(&["--dry-run"], "./which"));
    assert!(!log.exists());
    // One that was there stays, as does that of a program that ran: it says that there was nothing to log.
    assert_succeeds(&run(&[], "./which"));
    assert!(log.exists());
    assert_fails(&run(&[], "./nosuch"), 127, "no such file");
    assert!(log.exists());
}

#[test]
fn a_pipe_that_somebody_reads_is_not_opened_before_the_program_runs() {
    let directory = replaceable();
    let pipe = directory.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // Reads until the first writer has gone.
    let reader = Command::new("cat")
        .arg(&pipe)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = shell(
        &directory,
        &["--log", "pipe"],
        "timeout 20 sh -c 'echo written >pipe' || echo nobody reads it any more",
    );
    assert_eq!(assert_succeeds(&output), "");
    let output = reader.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "written\n");
}

#[test]
fn a_snapshot_is_absolute_and_checked_and_has_an_owner() {
    let directory = replaceable();
    let output = shell(
        &directory,
        &["--snapshot", "app.heap"],
        "cd /; echo $$ $GLEANER_OPTIONS",
    );
    let said = assert_succeeds(&output);
    let (process, options) = said.trim_end().split_once(' ').unwrap();
    let snapshot = directory.path("app.heap");
    assert_eq!(
        options,
        format!("snapshot-process={process},snapshot={}", snapshot.display())
    );
    let refused = |name: &str, why: &str| {
        let output = shell(&directory, &["--snapshot", name], "echo ran");
        assert_fails(&output, 2, why);
        assert_eq!(stdout(&output), "");
    };
    refused("no/such/directory", "No such file");
    refused(".", "it is a directory");
    refused("a,b", "the path has a comma");
    assert_succeeds(&shell(&directory, &["--snapshot", "no/%p/a"], "true"));
}

#[test]
fn a_log_and_a_snapshot_are_two_files() {
    let directory = replaceable();
    let run = |log: &str, snapshot: &str| {
        shell(&directory, &["--log", log, "--snapshot", snapshot], "true")
    };
    const SAME: &str = "the log and the snapshot are the same file";
    assert_fails(&run("both", "both"), 2, SAME);
    assert!(!directory.path("both").exists());
    directory.file("log", "", 0o644);
    std::os::unix::fs::symlink(directory.path("log"), directory.path("link")).unwrap();
    assert_fails(&run("log", "link"), 2, SAME);
    assert_succeeds(&run("log", "another"));
    assert_succeeds(&run("/dev/null", "/dev/null"));
}

#[test]
fn a_moment_for_a_snapshot_needs_a_snapshot() {
    let directory = replaceable();
    let run = |options: &[&str]| shell(&directory, options, "true");
    let at = "markers=2, snapshot-at=exit";
    assert_fails(
        &run(&["--opt", at]),
        2,
        "snapshot-at=exit has no effect without a snapshot: add --snapshot FILE",
    );
    assert_succeeds(&run(&["--opt", at, "--snapshot", "app.heap"]));
    assert_succeeds(&run(&["--opt", at, "--opt", "snapshot=app.heap"]));
}

#[test]
fn a_log_is_appended_to() {
    let directory = replaceable();
    let log = directory.file("events.jsonl", "before\n", 0o644);
    assert_succeeds(&shell(&directory, &["--log", "events.jsonl"], "true"));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "before\n");
}

#[test]
fn a_dry_run_prints_a_command_that_runs() {
    let directory = replaceable();
    let output = exec(&directory, &["--dry-run", "--opt", "markers=2"])
        .args(["./which", "it's"])
        .output()
        .unwrap();
    let line = assert_succeeds(&output);
    assert!(line.contains("GLEANER_OPTIONS=markers=2"), "{line}");
    assert!(line.ends_with(" ./which 'it'\\''s'\n"), "{line}");
    let mut command = clean(Command::new("sh"));
    let output = command
        .args(["-c", &line])
        .current_dir(directory.path(""))
        .output();
    assert_eq!(assert_succeeds(&output.unwrap()), "1\n");
}

#[test]
fn real_programs_run() {
    let library = library();
    for (program, arguments, expected) in [
        ("guile", &["-c", "(display (* 6 7)) (exit 3)"][..], "42"),
        ("w3m", &["-version"], "w3m version"),
        (
            "ecl",
            &["--norc", "--eval", "(progn (princ (* 6 7)) (ext:quit 3))"],
            "42",
        ),
        ("nix-instantiate", &["--version"], "nix-instantiate (Nix)"),
        ("lilypond", &["--version"], "GNU LilyPond "),
        ("crystal", &["--version"], "Crystal "),
    ] {
        let output = gleaner()
            .env("GLEANER_LIBGC", &library)
            .args(["exec", "--", program])
            .args(arguments)
            .output()
            .unwrap();
        assert!(stdout(&output).contains(expected), "{program}: {output:?}");
        let status = if expected == "42" { 3 } else { 0 };
        assert_eq!(output.status.code(), Some(status), "{program}: {output:?}");
    }
}

#[test]
fn a_real_script_runs() {
    let directory = replaceable();
    let library = library();
    let script = "#!/usr/bin/env -S guile -s\n!#\n(display (getenv \"LD_PRELOAD\"))\n";
    let script = directory.file("script", script, 0o755);
    let output = gleaner()
        .env("GLEANER_LIBGC", &library)
        .args(["exec", "--"])
        .arg(script)
        .env("GUILE_AUTO_COMPILE", "0")
        .output()
        .unwrap();
    assert!(assert_succeeds(&output).contains("libgc.so"));
}

#[test]
fn large_libraries_are_looked_at_under_a_low_limit_on_data() {
    let directory = replaceable();
    let run = |limit: &str| {
        let command = exec(&directory, &[]);
        let program = command.get_program().to_owned();
        let words: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
        let script = format!("ulimit {limit}; exec \"$0\" \"$@\"");
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &script])
            .arg(program)
            .args(words)
            .arg("./which");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        limited.current_dir(directory.path("")).output().unwrap()
    };
    // Less than the C library has.
    assert_eq!(assert_succeeds(&run("-d 1500")), "1\n");
    // Below some limit on addresses the loader does not even start this command.
    let starved = (3..12)
        .map(|megabytes| run(&format!("-v {}", megabytes * 1000)))
        .filter(|output| output.status.code() == Some(125));
    for output in starved {
        assert_fails(&output, 125, "ulimit -v");
    }
}
