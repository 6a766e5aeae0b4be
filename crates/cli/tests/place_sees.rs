//! `gleaner place` changes nothing of what a program sees of the machine, as long as nobody limits the processors. This
//! holds of programs whose threads are not recognised, and of a JVM, whose threads are placed. What it did not do is
//! said.

#[allow(dead_code)]
mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

use support::*;

/// Whether there is such a program; if not, that is printed.
fn is_there(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: there is no {program}");
    }
    is_there
}

/// The option by which a JVM is told of `count` processors.
fn counts(count: usize) -> String {
    format!("-XX:ActiveProcessorCount={count}")
}

/// A program whose second thread, which has no name of its own, says "ready", and how many processors it may use when it has read a
/// line.
const WORKS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static void *works(void *unused) {
    cpu_set_t set;
    puts("ready");
    fflush(stdout);
    getchar();
    sched_getaffinity(0, sizeof set, &set);
    printf("%d\n", CPU_COUNT(&set));
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, works, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"#;

/// The same in Go, which asks anew how many threads may run Go code, as its runtime does now and then while a program runs.
const GO: &str = r#"
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
)

func main() {
	for i := 0; i < 3; i++ {
		go func() {
			runtime.LockOSThread()
			for line := range make(chan bool) {
				fmt.Println(line)
			}
		}()
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	runtime.SetDefaultGOMAXPROCS()
	fmt.Println(runtime.GOMAXPROCS(0))
}
"#;

/// In JavaScript, and in Python.
const NODE: &str = "console.log('ready'); \
    process.stdin.once('data', () => { console.log(require('os').availableParallelism()); process.exit(); })";
const PYTHON: &str =
    "import os; print('ready', flush=True); input(); print(len(os.sched_getaffinity(0)))";

/// A JVM that says its collectors and how many processors it is told of: its main thread at once, another thread when that may
/// use one processor alone, if there is a word, and then main again.
const JAVA: &str = r#"
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

class Sees {
    static void say(String who) {
        System.out.println(who + " " + Runtime.getRuntime().availableProcessors());
    }

    static boolean isPinned() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/thread-self/status")))
                if (line.startsWith("Cpus_allowed_list:")) return line.matches("\\S+\\s+\\d+");
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
        return false;
    }

    public static void main(String[] words) throws Exception {
        for (var one : ManagementFactory.getGarbageCollectorMXBeans()) System.out.println(one.getName());
        say("main");
        Thread other = new Thread(() -> {
            while (words.length > 0 && !isPinned()) Thread.onSpinWait();
            say("other");
        });
        other.start();
        other.join();
        say("main");
        System.in.read();
    }
}
"#;

/// How often a process has waited.
fn waits(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// What a program says of the processors that it sees when `gleaner place` has looked at it twenty times.
fn seen_later(policy: &str, program: &[&str]) -> String {
    let mut placer = place()
        .args(["--stats", "--opt", policy, "--"])
        .args(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(placer.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "{program:?}");
    let first = waits(placer.id());
    while waits(placer.id()) < first + 20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    placer.stdin.take().unwrap().write_all(b"\n").unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    let output = placer.wait_with_output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("  main   "), "{said}");
    let lacks = said.matches("nothing was placed: no thread was recognised");
    assert_eq!(lacks.count(), 1, "{said}");
    line.trim().to_string()
}

#[test]
fn what_is_not_recognised_sees_all_processors() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    let works = directory.compile("works", WORKS, &["-pthread"]);
    let works = works.to_str().unwrap();
    let mut programs = vec![vec![works]];
    if is_there("node") {
        programs.push(vec!["node", "-e", NODE]);
    }
    if is_there("python3") {
        programs.push(vec!["python3", "-c", PYTHON]);
    }
    let go = is_there("go").then(|| in_go(&directory)).flatten();
    programs.extend(go.as_deref().map(|program| vec![program]));
    for program in &programs {
        for policy in ["placement=paper", "placement=pinned", "placement=isolated"] {
            let said = seen_later(policy, program);
            assert_eq!(said, all.len().to_string(), "{program:?} under {policy}");
        }
    }
}

/// The program in Go; none, with the reason printed, where Go is older than the function that it calls.
fn in_go(directory: &Directory) -> Option<String> {
    let source = directory.file("sees.go", GO, 0o644);
    let program = directory.path("sees");
    let output = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .env("GOCACHE", directory.path("cache"))
        .env("GO111MODULE", "off")
        .output()
        .unwrap();
    let said = stderr(&output);
    if said.contains("undefined: runtime.SetDefaultGOMAXPROCS") {
        println!("skipped: this Go is older than 1.25");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(program.to_str().unwrap().into())
}

/// What the JVM says under `gleaner place` with these options, and what the placer says.
fn jvm(directory: &Directory, options: &[&str], words: &[&str]) -> (String, String) {
    let source = directory.file("Sees.java", JAVA, 0o644);
    let output = looked_at(
        place()
            .env_remove("JAVA_TOOL_OPTIONS")
            .arg("--stats")
            .args(options)
            .args(["--", "java", "-Xmx64m"])
            .arg(&source)
            .args(words),
    );
    (assert_succeeds(&output), stderr(&output))
}

/// What comes of `gleaner place` with a program that ends when its input does: that is when the placer has looked often.
fn looked_at(command: &mut Command) -> Output {
    let mut placer = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(placer.stdout.take().unwrap());
    let mut found = String::new();
    while found.matches("main ").count() < 2 && said.read_line(&mut found).unwrap() > 0 {}
    let first = waits(placer.id());
    while placer.try_wait().unwrap().is_none() && waits(placer.id()) < first + 40 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut output = placer.wait_with_output().unwrap();
    said.read_to_string(&mut found).unwrap();
    output.stdout = found.into_bytes();
    output
}

#[test]
fn a_jvm_sees_what_it_would_see_without_it() {
    let Some(all) = processors() else { return };
    if !is_there("javac") {
        return;
    }
    let directory = Directory::new();
    let (usual, said) = jvm(&directory, &["--opt", "placement=none"], &[]);
    let count = all.len();
    assert!(
        usual.ends_with(&format!("main {count}\nother {count}\nmain {count}\n")),
        "{usual}"
    );
    assert!(!said.contains("JAVA_TOOL_OPTIONS"), "{said}");
    for policy in ["placement=paper", "placement=pinned", "placement=isolated"] {
        let (found, said) = jvm(&directory, &["--opt", policy], &["pinned"]);
        assert_eq!(found, usual, "{policy}: {said}");
        assert!(
            said.contains(&format!("Picked up JAVA_TOOL_OPTIONS: {}", counts(count))),
            "{said}"
        );
        assert!(
            said.contains(&format!(", told of {count} processors\n")),
            "{said}"
        );
    }
}

#[test]
fn that_a_jvm_was_told_of_fewer_processors_is_said() {
    let Some(all) = processors() else { return };
    if !is_there("javac") {
        return;
    }
    let directory = Directory::new();
    let count = all.len();
    // All that it may use is told to it from its start.
    let limited = format!("placement=none,processors={}", all[0]);
    let (found, said) = jvm(&directory, &["--opt", &limited], &[]);
    assert!(found.ends_with("main 1\nother 1\nmain 1\n"), "{found}");
    let told =
        format!("Serial, told of 1 processor of {count}, as processors and sockets limit it");
    assert!(said.contains(&told), "{said}");
    // Its own option wins.
    let source = directory.file("Sees.java", JAVA, 0o644);
    for (variable, own) in [("", Some(counts(1))), ("JAVA_TOOL_OPTIONS", None)] {
        let mut command = place();
        command.env_remove("JAVA_TOOL_OPTIONS");
        if own.is_none() {
            command.env(variable, counts(1));
        }
        command.args(["--stats", "--", "java"]).args(own);
        let output = looked_at(command.arg(&source));
        let found = assert_succeeds(&output);
        assert!(found.ends_with("main 1\nother 1\nmain 1\n"), "{found}");
        let told = format!(
            "Serial, told of 1 processor of {count}, as its option ActiveProcessorCount says"
        );
        assert!(stderr(&output).contains(&told), "{output:?}");
    }
}

#[test]
fn a_jvm_is_told_by_the_environment_where_threads_are_placed() {
    let print = ["--", "sh", "-c", "echo \"$JAVA_TOOL_OPTIONS\""];
    let said = |options: &[&str]| {
        let mut command = gleaner();
        command.env("JAVA_TOOL_OPTIONS", "-Xint").arg("place");
        let output = command.args(options).args(print).output().unwrap();
        assert_succeeds(&output)
    };
    let Some(all) = processors() else { return };
    let told = counts(all.len());
    assert_eq!(said(&[]), format!("{told} -Xint\n"));
    let both = format!("{told} -Xint -XX:ParallelGCThreads=3\n");
    assert_eq!(said(&["--opt", "collectors=3"]), both);
    // Where there is one processor, or the system decides among them, threads are told of all that there are.
    let one = format!("processors={}", all[0]);
    assert_eq!(said(&["--opt", &one]), "-Xint\n");
    assert_eq!(said(&["--opt", "placement=none"]), "-Xint\n");
}

#[test]
fn what_did_nothing_is_said_once() {
    let said = |options: &[&str], program: &[&str]| {
        let words = [&["place"], options, &["--"], program].concat();
        let output = run(&words);
        assert_succeeds(&output);
        stderr(&output)
    };
    let lack = "gleaner: nothing was placed: no thread was recognised by its name; --stats shows what there was, and \
        --role NAME=ROLE says what threads are";
    assert_eq!(said(&[], &["true"]), format!("{lack}\n"));
    assert!(said(&["--stats"], &["true"]).contains(lack));
    assert_eq!(said(&["--opt", "placement=none"], &["true"]), "");
    assert_eq!(
        said(
            &["--opt", "pin=main", "--role", "sleep=main"],
            &["sleep", "0.3"]
        ),
        ""
    );
    let Some(all) = processors() else { return };
    let one = format!("processors={}", all[0]);
    let limited = format!("{lack}; all of it ran on the processors {}\n", all[0]);
    assert_eq!(said(&["--opt", &one], &["true"]), limited);
    // It is recognised, and has no thread of the role.
    let words = ["--opt", "placement=isolated", "--role", "*=main"];
    let isolated =
        "gleaner: placement=isolated isolated nothing: no thread was of the roles collector\n";
    assert_eq!(said(&words, &["sleep", "0.3"]), isolated);
}

/// A thread that is an application's starts a process when it is pinned.
const STARTS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static void *starts(void *program) {
    cpu_set_t set;
    do {
        usleep(5000);
        sched_getaffinity(0, sizeof set, &set);
    } while (CPU_COUNT(&set) != 1);
    exit(system(program) != 0);
}

int main(int count, char **words) {
    pthread_t thread;
    if (count != 2 || pthread_create(&thread, NULL, starts, words[1])) return 9;
    pthread_setname_np(thread, "starts");
    for (;;) pause();
}
"#;

#[test]
fn processes_that_begin_where_a_thread_was_placed_are_counted() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    let starts = directory.compile("starts", STARTS, &["-pthread"]);
    // It ends when it may use what the program could before.
    let waits = format!(
        "exec sh -c 'until grep -q \"^Cpus_allowed_list:.*{}-{}$\" /proc/$$/status; do sleep 0.05; done'",
        all[0],
        all[all.len() - 1]
    );
    let output = place()
        .args(["--stats", "--role", "starts=application", "--"])
        .arg(&starts)
        .arg(&waits)
        .output()
        .unwrap();
    assert_succeeds(&output);
    let said = stderr(&output);
    let line = said.lines().find(|line| line.starts_with("  confined"));
    // What the process starts in turn may be found there, too.
    let count = line.and_then(|line| line.split_whitespace().nth(1));
    assert!(count.is_some_and(|count| count != "0"), "{said}");
}
