//! The command as a user meets it: what it refuses, and what becomes of it when its output is not wanted.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gleaner-bench"));
    command.args(arguments).env_remove("GLEANER_OPTIONS");
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Commands that print, and take no time.
const THAT_PRINT: [&[&str]; 5] = [
    &["names"],
    &["native", "gcbench", "--tiny"],
    &["random", "--seeds", "0..9", "--explain"],
    &[
        "zeroing",
        "--buffers",
        "4k",
        "--work",
        "4k",
        "--rounds",
        "1",
    ],
    &["phases", "--threads", "2", "--phases", "3"],
];

#[test]
fn a_closed_pipe_ends_it_without_a_word() {
    for arguments in THAT_PRINT {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(arguments).stdout(writer).output().unwrap();
        let signal = output.status.signal();
        assert_eq!(signal, Some(libc::SIGPIPE), "{arguments:?}");
        assert_eq!(errors(&output), "", "{arguments:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for arguments in THAT_PRINT {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(arguments).stdout(full).output().unwrap();
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("standard output: No space left"), "{said}");
    }
}

#[test]
fn an_error_that_cannot_be_written_is_still_its_status() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let status = command(&["names", "--clients", "/no"])
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn what_is_misspelt_is_refused_before_anything_runs() {
    let library = std::env::current_exe().unwrap();
    let library = library.to_str().unwrap();
    for (arguments, wanted) in [
        (
            &["gc_benc"][..],
            "no client is named \"gc_benc\"; the nearest is 'gc_bench'",
        ),
        (
            &["--opt", "swep=lazy", "--", "touch"],
            "unknown option 'swep'; the nearest is 'sweep'",
        ),
        (
            &["--opt", "sweep=eager,swep=lazy", "gc_bench"],
            "unknown option 'swep'",
        ),
        (
            &["--opt", "zeroing=bulk", "gc_bench"],
            "zeroing does not serve the libgc heap",
        ),
        (
            &["--env", "=x", "--", "touch"],
            "not of the form NAME=VALUE",
        ),
        (&["--limit", "0", "--", "touch"], "0 is not in 1.."),
    ] {
        let output = command(&["run", "--lib", library])
            .args(arguments)
            .output()
            .unwrap();
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_check_runs_nothing() {
    let file = std::env::temp_dir().join(format!("gleaner-bench-check-{}", std::process::id()));
    let check = ["run", "--check", "--library", "none", "--", "touch"];
    let output = command(&check).arg(&file).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(!file.exists());
}

#[test]
fn a_log_that_cannot_be_written_is_named_once_and_ends_nothing() {
    let log = ["--heap", "2", "--opt", "log=/dev/full", "--opt", "stress=9"];
    let output = command(&["native", "gcbench", "--tiny"])
        .args(log)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = errors(&output);
    assert_eq!(
        said,
        "gleaner: the event log /dev/full cannot be written (the disk is full): it ends here\n"
    );
}

#[test]
fn workers_are_as_many_as_the_heap_may_have() {
    for (workers, status) in [("0", 0), ("64", 0), ("65", 2), ("18446744073709551616", 2)] {
        let output = command(&["native", "gcbench", "--tiny", "--workers", workers])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status), "{workers}");
        assert_eq!(errors(&output).contains("--workers"), status == 2);
    }
}

#[test]
fn a_heap_of_more_bytes_than_there_are_numbers_is_refused() {
    for size in ["--heap", "--young"] {
        let output = command(&["native", "gcbench", "--tiny", size, "17592186044416"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{size}");
    }
}

/// Runs a soak of a catalogue with one client, which is a shell command.
fn soak(name: &str, shell: &str, minutes: &str) -> Output {
    let place = std::env::temp_dir().join(format!("gleaner-soak-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let catalogue = format!(
        "[[client]]\nname = \"{name}\"\npackage = \"dash\"\ncommand = [\"sh\", \"-c\", '{shell}']\n\
         sizes = {{ tiny = [], ci = [], full = [] }}\n"
    );
    std::fs::write(place.join("clients.toml"), catalogue).unwrap();
    // What is preloaded does not matter to a shell; any library of the system will do.
    let library = "/lib/x86_64-linux-gnu/libgcc_s.so.1";
    let output = command(&["soak", "--minutes", minutes, "--lib", library, "--clients"])
        .arg(&place)
        .arg("--out")
        .arg(place.join("out"))
        .output()
        .unwrap();
    std::fs::remove_dir_all(&place).unwrap();
    output
}

#[test]
fn a_soak_tells_who_prints_something_else_and_under_which_options() {
    let output = soak("same", "echo here", "0");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", errors(&output));
    assert!(
        said.contains("same: 1 run, 0 collections: as on stock"),
        "{said}"
    );
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    // The fourth set of options is the first with this one.
    let marked = "case $GLEANER_OPTIONS in *sticky*) echo there;; *) echo here;; esac";
    // Four runs take no second; a soak that passes over what differs goes on for all of the minute.
    let output = soak("other", marked, "1");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}{}", errors(&output));
    assert!(said.contains("other: 4 runs"), "{said}");
    assert!(
        said.contains("FAILED: with verify=edges,poison=on,generations=sticky: "),
        "{said}"
    );
    assert!(said.ends_with("0 passed, 1 failed\n"), "{said}");
}

#[test]
fn a_soak_wants_a_number_of_minutes() {
    for minutes in ["abc", "-1", "nan", "inf"] {
        let output = command(&["soak", &format!("--minutes={minutes}")])
            .output()
            .unwrap();
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("not a number of minutes"), "{said}");
    }
}
