//! `gleaner place` in what it was started from: blocked signals, a terminal that closes, files that may not be written.

#[allow(dead_code)]
mod support;

use std::fs;
use std::process::Command;

use support::*;

#[test]
fn blocked_signals_reach_the_program_too() {
    // The program has them blocked as well, so they must be pending there.
    let script = "kill -TERM $PPID; kill -USR2 $PPID; \
         for n in $(seq 1000); do grep -q '^ShdPnd:.*48..$' /proc/$$/status && exit 7; sleep 0.05; done";
    let mut placed = Command::new("env");
    placed.args(["--block-signal=TERM", "--block-signal=USR2"]);
    placed.args([env!("CARGO_BIN_EXE_gleaner"), "place", "--", "bash", "-c"]);
    let output = placed.arg(script).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

/// When a terminal closes, the kernel sends SIGHUP to the leader of the session. The processes in the foreground get it when
/// that leader ends, and here the leader is the placer, which waits for the program.
#[test]
fn a_terminal_that_closes_ends_the_program_of_a_session_leader() {
    let directory = Directory::new();
    let file = directory.path("process");
    let script = format!(
        "exec {} place -- sh -c 'echo $$ > {}; exec sleep 1000'",
        env!("CARGO_BIN_EXE_gleaner"),
        file.display()
    );
    // Also under nohup.
    let mut terminal = Command::new("env")
        .args([
            "--default-signal=HUP",
            "script",
            "-qc",
            &script,
            "/dev/null",
        ])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let said = || fs::read_to_string(&file).unwrap_or_default();
    while !said().ends_with('\n') {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let process = said().trim().to_string();
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    let is_there = || {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.contains("(sleep)") && !stat.contains(") Z")
    };
    // Nothing else would end it, or this.
    for _ in 0..3000 {
        if !is_there() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let _ = Command::new("kill").args(["-9", &process]).status();
    panic!("the program goes on without its terminal");
}

#[test]
fn a_log_that_ends_is_said() {
    let words = ["place", "--log", "/dev/full", "--", "true"];
    let output = run(&words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = stderr(&output);
    let told = said
        .matches("the log cannot be written: it ends here")
        .count();
    assert_eq!(told, 1, "{said}");
}

#[test]
fn where_no_file_may_be_written_the_program_runs_and_a_message_says_what_is_lacking() {
    let directory = Directory::new();
    let script = "ulimit -f 0; exec \"$0\" place --log \"$1\" -- bash -c 'sleep 0.2; exit 7'";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_gleaner")])
        .arg(directory.path("log"))
        .env("XDG_RUNTIME_DIR", directory.path(""))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("cannot be written down"), "{said}");
    assert!(said.contains("File too large"), "{said}");
}

#[test]
fn other_commands_say_whose_log_it_is() {
    let directory = Directory::new();
    let log = directory.path("place.jsonl");
    let log = log.to_str().unwrap();
    assert_succeeds(&run(&["place", "--log", log, "--", "true"]));
    for command in ["heap", "report"] {
        let output = run(&[command, log]);
        assert_fails(&output, 2, "the log of 'gleaner place'");
        assert!(!stderr(&output).contains("'gleaner report "), "{output:?}");
    }
}
