//! Cases of a test, each a line of text, that run in a child: one that ends the process is named as well as one that
//! panics, on whatever thread, and the cases behind it run nevertheless.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{self, Command, Stdio};

/// The cases that a child runs, one a line.
const CASES: &str = "GLEANER_CASES";
/// What it prints when all of them are done.
const DONE: &str = "all cases are done";
/// What is before a case that it begins.
const BEGINS: &str = "case: ";

/// Runs `body` for each case, in a child that runs the test of this name alone.
pub fn in_a_child(test: &str, cases: &[String], body: impl Fn(&str)) {
    if let Ok(lines) = env::var(CASES) {
        run(&lines, body);
        return;
    }
    let (mut failures, mut rest) = (Vec::new(), cases);
    while !rest.is_empty() {
        let lines = printed(test, &rest.join("\n"));
        if lines.iter().any(|line| line == DONE) {
            break;
        }
        let begun = lines.iter().filter(|line| line.starts_with(BEGINS)).count();
        assert!(begun > 0, "no case of {test} began: {lines:#?}");
        let last = lines.iter().rposition(|line| line.starts_with(BEGINS));
        failures.push(format!(
            "{}\nto repeat it: {CASES}='{}' cargo test --release -p gleaner {test} -- --nocapture\n",
            lines[last.unwrap_or(0)..].join("\n"),
            rest[begun - 1],
        ));
        rest = &rest[begun..];
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases of {test} fail\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

/// What the child does. A panic ends it on whatever thread it is: others might wait for that thread.
fn run(cases: &str, body: impl Fn(&str)) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        before(what);
        process::exit(101);
    }));
    for case in cases.lines() {
        println!("\n{BEGINS}{case}");
        body(case);
    }
    println!("{DONE}");
}

/// What a child prints that runs these cases; what it says of errors is last.
fn printed(test: &str, cases: &str) -> Vec<String> {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--include-ignored"]);
    command
        .env(CASES, cases)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut lines = Vec::new();
    std::thread::scope(|threads| {
        let errors = threads.spawn(move || {
            let mut errors = Vec::new();
            stderr.read_to_end(&mut errors).unwrap();
            String::from_utf8_lossy(&errors).into_owned()
        });
        for line in BufReader::new(stdout).lines() {
            // At once, so that a case that never ends is named.
            let line = line.unwrap();
            println!("{line}");
            lines.push(line);
        }
        lines.extend(errors.join().unwrap().lines().map(String::from));
    });
    lines.push(format!("it ended with {}", child.wait().unwrap()));
    lines
}
