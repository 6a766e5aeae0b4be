//! `gleaner compare` on small programs of the installed libgc, and on programs that do what programs should not.

#[allow(dead_code)]
mod support;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{Directory, assert_fails, gleaner, library, stderr, stdout};

/// A program that makes garbage, and then what its first argument says.
const PROGRAM: &str = r#"
#include <gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    GC_INIT();
    const char *does = count > 1 ? words[1] : "";
    for (int i = 0; i < 20000; i++) *(char **)GC_MALLOC(1000) = 0;
    if (!strcmp(does, "fails-here") && getenv("LD_PRELOAD")) { fputs("no luck\n", stderr); return 7; }
    if (!strcmp(does, "fails")) abort();
    if (!strcmp(does, "hangs")) { if (fork() == 0) sleep(1000); sleep(1000); }
    if (!strcmp(does, "hangs-here") && getenv("LD_PRELOAD")) { fclose(fopen("here", "w")); sleep(1000); }
    if (!strcmp(does, "differs")) puts(getenv("LD_PRELOAD") ? "one" : "other");
    if (!strcmp(does, "varies")) printf("%d\n", getpid());
    if (!strcmp(does, "echoes")) for (int c; (c = getchar()) != EOF;) putchar(c);
    if (!strcmp(does, "leaves")) { if (fork() == 0) { sleep(1000); } }
    if (!strcmp(does, "sleeps") && !getenv("LD_PRELOAD")) usleep(200000);
    if (!strcmp(does, "floods")) {
        static char page[1 << 20];
        for (int i = 0; i < 100; i++) fwrite(page, 1, sizeof page, stdout);
    }
    if (!strcmp(does, "complains")) fputs("a warning\n", stderr);
    return 0;
}"#;

/// A directory with that program.
fn directory() -> Directory {
    let directory = Directory::new();
    directory.compile("program", PROGRAM, &["-lgc"]);
    directory
}

/// `gleaner compare` in `directory`, with these words.
fn command(directory: &Directory, words: &[&str]) -> Command {
    let mut command = gleaner();
    command
        .arg("compare")
        .args(words)
        .current_dir(directory.path("."))
        .env("GLEANER_LIBGC", library());
    command
}

fn compare(directory: &Directory, words: &[&str]) -> Output {
    command(directory, words).output().unwrap()
}

/// The output of a comparison that came to an end: whether it decided depends on the machine.
#[track_caller]
fn text(output: &Output) -> String {
    let status = output.status.code();
    assert!(matches!(status, Some(0 | 3)), "{output:?}");
    let text = stdout(output);
    assert_eq!(status == Some(3), text.starts_with("Undecided"), "{text}");
    // As one line: where a line ends is chance.
    text.replace('\n', " ")
}

#[test]
fn one_paragraph_and_the_numbers() {
    let directory = directory();
    let json = directory.path("runs.json");
    let words = [
        "--rounds",
        "4",
        "--json",
        json.to_str().unwrap(),
        "--",
        "./program",
    ];
    let output = compare(&directory, &words);
    let text = text(&output);
    for part in [
        "of the time",
        "; 4 rounds",
        "libgc against itself, from one round to the next, spans ",
        " time ",
        " processor time ",
        " peak memory ",
        " longest pause ",
        " pauses ",
    ] {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
    assert!(!text.contains("not known"), "{text}");
    let runs: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(runs["rounds"].as_array().unwrap().len(), 4);
    assert_eq!(runs["output"], "same");
    assert!(runs["pauses"][0]["count"].as_u64().unwrap() > 0);
    assert!(runs["pauses"][1]["count"].as_u64().unwrap() > 0);
    assert!(runs["rounds"][3][1]["wall_s"].as_f64().unwrap() > 0.0);
}

/// The baseline sleeps for a fifth of a second, which no machine hides for long.
#[test]
fn what_is_clear_is_decided() {
    let directory = directory();
    let output = compare(&directory, &["--", "./program", "sleeps"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("Gleaner is faster than libgc"), "{text}");
    assert!(
        text.contains(&format!(
            "To use it:  {} exec -- ./program sleeps",
            env!("CARGO_BIN_EXE_gleaner")
        )),
        "{text}"
    );
}

#[test]
fn other_options_are_compared() {
    let directory = directory();
    let words = [
        "--rounds",
        "3",
        "--against",
        "markers=1",
        "--opt",
        "sweep=eager",
        "--",
        "./program",
    ];
    let text = text(&compare(&directory, &words));
    assert!(text.contains("Gleaner with sweep=eager"), "{text}");
    assert!(
        text.contains("Gleaner with markers=1 against itself"),
        "{text}"
    );
    let refused = |words: &[&str], message: &str| {
        assert_fails(&compare(&directory, words), 2, message);
    };
    refused(
        &["--against", "stck", "--", "./program"],
        "--against is 'stock' or a list of options",
    );
    refused(
        &["--against", "stok", "--", "./program"],
        "NAME=VALUE,...: 'stok' is neither; the nearest is 'stock'",
    );
    for same in [
        &["--against", ""][..],
        &["--against", "markers=1", "--opt", "markers=1"],
    ] {
        refused(
            &[same, &["--", "./program"]].concat(),
            "both sides are Gleaner with the same options",
        );
    }
    refused(
        &["--opt", "log=x", "--", "./program"],
        "would be written in each of many runs",
    );
    refused(
        &["--budget", "soon", "--", "./program"],
        "such as 90s, 2m or 1h",
    );
    refused(
        &["--budget", "5", "--", "./program"],
        "a time has a unit: write 5s, 5m or 5h",
    );
    for (time, message) in [
        (
            "0s",
            "'0s' for '--budget <TIME>': nothing runs in no time; a time is a number",
        ),
        (
            "-3m",
            "'-3m' for '--budget <TIME>': no time is negative; a time is a number",
        ),
        (
            "9999999h",
            "'9999999h' for '--budget <TIME>': it is longer than 68 years; a time is a number",
        ),
        (
            "nans",
            "'nans' for '--budget <TIME>': a time is a number with s, m or h, such as 90s",
        ),
    ] {
        let budget = format!("--budget={time}");
        refused(&[budget.as_str(), "--", "./program"], message);
    }
    for (rounds, message) in [
        (
            "2",
            "'2' for '--rounds <N>': so few rounds decide nothing: write a whole number from 3 to 100000",
        ),
        (
            "100001",
            "no comparison needs so many rounds: write a whole number",
        ),
        ("x", "that is no number of rounds: write a whole number"),
    ] {
        refused(&["--rounds", rounds, "--", "./program"], message);
    }
    refused(
        &["--rounds", "5", "--budget", "1m", "--", "./program"],
        "cannot be used with",
    );
    refused(
        &["--input", "nothing", "--", "./program"],
        "the input nothing cannot be read",
    );
    refused(
        &["--input", ".", "--", "./program"],
        "the input . cannot be read: is a directory",
    );
    refused(
        &["--json", "no/such/file", "--", "./program"],
        "the file no/such/file cannot be written",
    );
}

#[test]
fn a_program_that_fails_is_named_with_what_it_says() {
    let directory = directory();
    let here = compare(&directory, &["--", "./program", "fails-here"]);
    assert_fails(&here, 1, "on Gleaner the program failed: exit status 7");
    assert!(stderr(&here).contains("no luck"), "{}", stderr(&here));
    let everywhere = compare(&directory, &["--", "./program", "fails"]);
    assert_fails(
        &everywhere,
        1,
        "on libgc the program failed: killed by signal 6",
    );
    assert!(stderr(&everywhere).contains("before Gleaner came into it"));
    assert_fails(
        &compare(&directory, &["--", "./nothing"]),
        127,
        "no such file",
    );
    assert_fails(
        &compare(&directory, &["--", "ls"]),
        125,
        "does not use libgc",
    );
    assert_fails(
        &compare(&directory, &["--any", "--", "ls"]),
        125,
        "there is nothing to compare",
    );
    // The name of the library stands in it, and it opens none.
    let named = "#include <stdio.h>\nint main(void) { return puts(\"no libgc.so.1\") < 0; }";
    directory.compile("named", named, &[]);
    assert_fails(
        &compare(&directory, &["--", "./named"]),
        125,
        "on Gleaner the program did not use libgc: the log of its run is empty",
    );
    let prepared = ["--prepare", "exit 9", "--", "./program"];
    assert_fails(
        &compare(&directory, &prepared),
        1,
        "the command of --prepare failed: exit status 9",
    );
}

#[test]
fn a_program_that_hangs_is_ended_with_what_it_started() {
    let directory = directory();
    let output = compare(&directory, &["--limit", "2s", "--", "./program", "hangs"]);
    assert_fails(&output, 1, "did not end within 2.00 s (--limit)");
    wait_until(&directory, false);
}

/// Waits until the program of this directory runs, or none does: one that was killed ends a little later.
fn wait_until(directory: &Directory, is_running: bool) {
    let name = directory.path("program");
    let runs = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut files =
            processes.filter_map(|process| std::fs::read_link(process.path().join("exe")).ok());
        files.any(|file| file == name)
    };
    let began = Instant::now();
    while runs() != is_running {
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(600), "{is_running} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_program_leaves_behind_is_ended() {
    let directory = directory();
    text(&compare(
        &directory,
        &["--rounds", "3", "--", "./program", "leaves"],
    ));
    wait_until(&directory, false);
}

#[test]
fn outputs_are_compared_and_hidden() {
    let directory = directory();
    let says = |word: &str| {
        text(&compare(
            &directory,
            &["--rounds", "3", "--", "./program", word],
        ))
    };
    assert!(says("differs").contains("Beware: the program writes something else"));
    assert!(says("varies").contains("differs from run to run"));
    assert!(!says("").contains("writes"));
    let shown = [
        "--rounds",
        "3",
        "--show-output",
        "--",
        "./program",
        "differs",
    ];
    let shown = stdout(&compare(&directory, &shown));
    // Whole lines: the paragraph's lines end where chance has it, with such words too.
    for line in ["one", "other"] {
        let lines = shown.lines().filter(|&shown| shown == line);
        assert_eq!(lines.count(), 4, "{line} in {shown}");
    }
}

#[test]
fn standard_error_is_shown_once() {
    let directory = directory();
    let output = compare(
        &directory,
        &["--rounds", "3", "--", "./program", "complains"],
    );
    text(&output);
    assert_eq!(
        stderr(&output),
        "gleaner: the program wrote to standard error, on either side:\na warning\n"
    );
}

#[test]
fn standard_input_is_empty_or_a_file() {
    let directory = directory();
    directory.file("words.txt", "hello\n", 0o644);
    let words = [
        "--rounds",
        "3",
        "--show-output",
        "--",
        "./program",
        "echoes",
    ];
    assert!(!stdout(&compare(&directory, &words)).contains("hello"));
    let words = [&["--input", "words.txt"], &words[..]].concat();
    assert_eq!(
        stdout(&compare(&directory, &words))
            .matches("hello\n")
            .count(),
        8
    );
}

/// A hundred megabytes a run go through the command, and none of it stays there.
#[test]
fn an_output_may_be_long() {
    let directory = directory();
    let words = [
        "--rounds",
        "3",
        "--warm-up",
        "0",
        "--",
        "./program",
        "floods",
    ];
    let text = text(&compare(&directory, &words));
    assert!(!text.contains("writes"), "{text}");
    assert!(
        text.contains("The pauses of Gleaner and of libgc are not known"),
        "{text}"
    );
}

#[test]
fn a_full_disk_is_named_after_the_numbers() {
    let directory = directory();
    let words = ["--rounds", "3", "--json", "/dev/full", "--", "./program"];
    let output = compare(&directory, &words);
    assert_fails(
        &output,
        2,
        "the file /dev/full cannot be written: No space left on device",
    );
    assert!(stdout(&output).contains("of the time"));
}

#[test]
fn gleaner_under_the_name_of_stock_is_found_out() {
    let directory = directory();
    let other = directory.path("libgc.so.1");
    std::fs::copy(library(), &other).unwrap();
    let run = |preload: &std::path::Path| {
        command(&directory, &["--rounds", "3", "--", "./program"])
            .env("LD_PRELOAD", preload)
            .output()
            .unwrap()
    };
    assert_fails(&run(&other), 125, "is Gleaner already");
    // The command knows its own library, and takes it away from the other side.
    text(&run(&library()));
}

#[test]
fn an_interrupt_tells_what_is_known() {
    let directory = directory();
    for hangs in ["hangs", "hangs-here"] {
        let mut child = command(&directory, &["--", "./program", hangs])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        match hangs {
            "hangs" => wait_until(&directory, true),
            _ => while !directory.path("here").exists() {},
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3), "{said}");
        assert!(said.starts_with("Undecided"), "{said}");
        assert!(said.contains("It was interrupted"), "{said}");
        assert!(!said.contains("Beware"), "one side has not run: {said}");
        wait_until(&directory, false);
    }
}
