//! `gleaner place`: plans, programs that are placed, and what is put back.

#[allow(dead_code)]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use support::*;

/// A program with threads that are named as HotSpot does: `applications` and `collectors` of them, each of which sleeps.
/// It prints "ready", starts another application thread for each line that it reads, and ends at the end of its input
/// with status 7.
const NAMED: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *sleeps(void *unused) { (void)unused; for (;;) pause(); }

static void start(const char *name, int number) {
    char whole[32];
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    int error = pthread_create(&thread, &attributes, sleeps, NULL);
    if (error) { fprintf(stderr, "thread %d: error %d\n", number, error); exit(9); }
    snprintf(whole, sizeof whole, "%s%d", name, number);
    whole[15] = 0;
    pthread_setname_np(thread, whole);
}

int main(int count, char **words) {
    int applications = atoi(words[1]), collectors = atoi(words[2]);
    (void)count;
    for (int i = 0; i < applications; i++) start("Thread-", i);
    for (int i = 0; i < collectors; i++) start("GC Thread#", i);
    start("C2 CompilerThread", 0);
    puts("ready");
    fflush(stdout);
    for (int letter; (letter = getchar()) != EOF;)
        if (letter == '\n') start("Thread-", applications++);
    return 7;
}
"#;

/// The program above, under `gleaner place`, when it is ready.
struct Placed {
    placer: Child,
    /// The program that was placed.
    program: u32,
    /// Where this process may run.
    allowed: Vec<usize>,
}

impl Placed {
    fn start(directory: &Directory, options: &[&str], threads: [&str; 2]) -> Placed {
        let mut placer = place();
        placer.args(options);
        Placed::by(placer, directory, threads)
    }

    fn by(mut placer: Command, directory: &Directory, threads: [&str; 2]) -> Placed {
        let named = directory.compile("named", NAMED, &["-pthread"]);
        placer.arg("--").arg(named).args(threads);
        let placer = start_until_ready(placer);
        Placed {
            program: child_of(placer.id(), "named"),
            placer,
            allowed: numbers(&affinity("/proc/thread-self")),
        }
    }

    /// The threads of the program: the name of each, and where the kernel lets it run.
    fn threads(&self) -> Vec<(String, Vec<usize>)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.program)).unwrap();
        let task = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            Some((name.trim().to_string(), numbers(&affinity(path.to_str()?))))
        };
        tasks.filter_map(task).collect()
    }

    /// Waits until the kernel says what is wanted of each thread.
    fn until(&self, wanted: impl Fn(&[(String, Vec<usize>)]) -> bool) {
        while !wanted(&self.threads()) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Ends the program; gives its status and what was said.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.placer.stdin.take());
        let output = self.placer.wait_with_output().unwrap();
        (output.status.code(), stderr(&output))
    }
}

fn of<'t>(
    threads: &'t [(String, Vec<usize>)],
    start: &'t str,
) -> impl Iterator<Item = &'t Vec<usize>> {
    let is_named = move |it: &&(String, Vec<usize>)| it.0.starts_with(start);
    threads
        .iter()
        .filter(is_named)
        .map(|(_, processors)| processors)
}

#[test]
fn a_plan_is_shown_for_a_machine_that_one_does_not_have() {
    let output = run(&[
        "place",
        "--opt",
        "placement=paired",
        "--plan",
        "application:2+collector:2+main",
        "--machine",
        "2x4",
    ]);
    let text = assert_succeeds(&output);
    assert!(
        text.starts_with("placement=paired on 8 processors, 8 cores, 2 sockets\n"),
        "{text}"
    );
    let lines: Vec<_> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    let seen: Vec<_> = lines.iter().map(|words| words[..3].join(" ")).collect();
    let expected = [
        "application 1 0",
        "application 2 4",
        "collector 1 1",
        "collector 2 5",
        "main 1 0-7",
    ];
    assert_eq!(seen, expected);
    // This machine has a plan, too.
    assert_succeeds(&run(&["place", "--plan", "application:3"]));
}

#[test]
fn what_makes_no_sense_is_named_with_the_remedy() {
    for (arguments, message) in [
        (&["--opt", "placement=best", "--", "true"][..], "paired"),
        (&["--opt", "sweep=eager", "--", "true"], "first-core"),
        (&["--opt", "pin=gc", "--", "true"], "collector"),
        (&["--opt", "processors=", "--", "true"], "0-3+8"),
        (&["--role", "worker", "--", "true"], "NAME=ROLE"),
        (&["--role", "worker=worker", "--", "true"], "organizer"),
        (&["--plan", "collectors:2"], "ROLE:N"),
        (&["--plan", "collector:two"], "ROLE:N"),
        (&["--plan", "collector:99999999"], "10000"),
        (&["--plan", "collector:1", "--machine", "4"], "2x4"),
        (
            &[
                "--plan",
                "collector:1",
                "--machine",
                "1x2",
                "--opt",
                "processors=5",
            ],
            "0-1",
        ),
        (&["--machine", "2x4", "--", "true"], "--plan"),
        (&["--plan", "main", "--", "true"], "--plan"),
        (
            &["--log", "/nowhere/at/all", "--", "true"],
            "/nowhere/at/all",
        ),
        (&[], "PROGRAM"),
    ] {
        assert_fails(&run(&[&["place"], arguments].concat()), 2, message);
    }
    assert_fails(
        &run(&["place", "--", "no-such-program"]),
        127,
        "no-such-program",
    );
    assert_fails(&run(&["place", "--", "/etc/passwd"]), 126, "/etc/passwd");
}

#[test]
fn the_status_is_that_of_the_program() {
    for (script, status) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let words = ["place", "--opt", "placement=none", "--", "sh", "-c", script];
        let output = run(&words);
        assert_eq!(output.status.code(), Some(status), "{script}: {output:?}");
        assert_eq!(stderr(&output), "");
    }
    // Placing does not disturb what the program reads and writes.
    let script = "cat; echo said; echo meant >&2";
    let output = run(&["place", "--opt", "placement=none", "--", "sh", "-c", script]);
    assert_eq!(
        (stdout(&output), stderr(&output)),
        ("said\n".into(), "meant\n".into())
    );
}

/// A starter that ignores SIGCHLD passes that on to the program, and still learns its status.
#[test]
fn the_status_is_known_where_children_are_ignored() {
    let directory = Directory::new();
    let source = "#include <signal.h>\n#include <unistd.h>\nint main(int count, char **words) {\n\
                  signal(SIGCHLD, SIG_IGN); execv(words[1], words + 1); return 9 + 0 * count; }\n";
    let ignores = directory.compile("ignores", source, &[]);
    let run = |program: &[&str]| {
        let gleaner = gleaner();
        let words = [gleaner.get_program().to_str().unwrap(), "place", "--"];
        let command = words.iter().chain(program);
        Command::new(&ignores).args(command).output().unwrap()
    };
    assert_eq!(run(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    let said = String::from_utf8(run(&["grep", "SigIgn", "/proc/self/status"]).stdout).unwrap();
    let mask = said.trim().strip_prefix("SigIgn:").unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    assert_eq!(mask >> 16 & 1, 1, "{said}");
}

#[test]
fn threads_that_come_later_are_placed() {
    let directory = Directory::new();
    let log = directory.path("place.jsonl");
    let mut placed = Placed::start(
        &directory,
        &[
            "--opt",
            "placement=pinned",
            "--log",
            log.to_str().unwrap(),
            "--stats",
        ],
        ["2", "2"],
    );
    let cores = placed.allowed.len();
    let is_pinned = |threads: &[(String, Vec<usize>)], start: &str, count: usize| {
        of(threads, start)
            .filter(|processors| processors.len() == 1)
            .count()
            == count
    };
    let all = placed.allowed.clone();
    placed.until(|threads| {
        is_pinned(threads, "Thread-", 2)
            && is_pinned(threads, "GC Thread#", 2)
            && of(threads, "C2 Comp").all(|processors| *processors == all)
    });
    placed
        .placer
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\n\n")
        .unwrap();
    // A thread begins where the one is that made it, which may be pinned.
    // It may be placed under the name of the one that made it, and again under its own: what counts is its last role.
    let logged = || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let entries = log
            .lines()
            .map_while(|line| serde_json::from_str(line).ok());
        let roles: BTreeMap<u64, String> = entries
            .map(|entry: serde_json::Value| {
                let role = entry["role"].as_str().unwrap().to_owned();
                (entry["thread"].as_u64().unwrap(), role)
            })
            .collect();
        roles.values().filter(|role| *role == "application").count()
    };
    placed.until(|threads| is_pinned(threads, "Thread-", 4) && logged() == 4);
    // No processor has two more of them than another.
    let threads = placed.threads();
    let mut counts = vec![0; 1 + all.iter().max().unwrap()];
    let pinned = of(&threads, "Thread-").chain(of(&threads, "GC Thread#"));
    pinned.for_each(|processors| counts[processors[0]] += 1);
    let counts: Vec<_> = all.iter().map(|&processor| counts[processor]).collect();
    assert_eq!(counts.iter().sum::<usize>(), 6);
    if cores <= 2 {
        assert!(
            counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1,
            "{counts:?}"
        );
    }
    let (status, said) = placed.end();
    assert_eq!(status, Some(7), "{said}");
    for words in [
        ["application", "4"],
        ["collector", "2"],
        ["compiler", "1"],
        ["main", "1"],
    ] {
        let is_line = |line: &str| line.split_whitespace().take(2).eq(words);
        assert!(said.lines().any(is_line), "{words:?} in {said}");
    }
    assert!(said.contains("% of wall time x processors"), "{said}");
    let log = fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = lines
        .iter()
        .rfind(|line| line["role"] == "application")
        .unwrap();
    assert_eq!(last["pinned"], true);
    assert!(
        last["reason"]
            .as_str()
            .unwrap()
            .contains("pinned, on the whole machine"),
        "{last}"
    );
}

/// A program whose collector thread takes a second of processor time. Its argument says how many seconds after the
/// start.
const BUSY: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

static void *works(void *waits_for_place) {
    struct timespec used;
    cpu_set_t set;
    sleep(1);
    while (*(int *)waits_for_place && !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 1) usleep(10000);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used); while (used.tv_sec < 1);
    return NULL;
}

int main(int count, char **words) {
    int waits_for_place = count > 1;
    pthread_t thread;
    (void)words;
    if (pthread_create(&thread, NULL, works, &waits_for_place)) return 1;
    pthread_setname_np(thread, "GC Thread#0");
    pthread_join(thread, NULL);
    return 0;
}
"#;

#[test]
fn what_threads_use_is_seen_while_they_run() {
    let directory = Directory::new();
    let busy = directory.compile("busy", BUSY, &["-pthread"]);
    for placement in ["placement=none", "placement=paper"] {
        let mut placer = place();
        placer.args(["--stats", "--opt", placement, "--"]);
        let output = placer.arg(&busy).output().unwrap();
        assert_succeeds(&output);
        let said = stderr(&output);
        let seconds: f64 = line_of(&said, "collector")[2].parse().unwrap();
        assert!((0.5..1.2).contains(&seconds), "{said}");
        // The rest is not lost.
        let unseen: f64 = line_of(&said, "not")[2].parse().unwrap();
        assert!((0.98..1.2).contains(&(seconds + unseen)), "{said}");
    }
}

/// The words of the line of a role.
fn line_of(said: &str, role: &str) -> Vec<String> {
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    let mut lines = said.lines().map(words);
    lines
        .find(|words| words.first().is_some_and(|it| it == role))
        .unwrap_or_default()
}

/// A program with threads as HotSpot's launcher makes them, and some that have ended by the time that it does.
const LAUNCHED: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

static void *waits(void *unused) { sleep(2); return unused; }

static pthread_t start(const char *name) {
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    if (name) pthread_setname_np(thread, name);
    return thread;
}

int main(void) {
    start(NULL);
    start("VM Thread");
    start("GC Thread#0");
    pthread_join(start("GC Thread#1"), NULL);
    sleep(1);
    pthread_join(start("C2 CompilerThre"), NULL);
    return 0;
}
"#;

#[test]
fn launchers_are_recognised_and_ended_threads_counted() {
    let directory = Directory::new();
    let program = directory.compile("launched", LAUNCHED, &["-pthread"]);
    let mut placer = place();
    let output = placer
        .args(["--stats", "--"])
        .arg(program)
        .output()
        .unwrap();
    assert_succeeds(&output);
    let said = stderr(&output);
    for (role, threads) in [
        ("vm", "2"),
        ("main", "1"),
        ("collector", "2"),
        ("compiler", "1"),
    ] {
        assert_eq!(line_of(&said, role)[1], threads, "{role} in {said}");
    }
    assert!(line_of(&said, "application").is_empty(), "{said}");
}

#[test]
fn processes_that_start_later_are_placed() {
    let directory = Directory::new();
    let busy = directory.compile("busy", BUSY, &["-pthread"]);
    let log = directory.path("place.jsonl");
    let script = format!("sleep 2; {0} wait & {0} wait & wait", busy.display());
    for round in 1..=2 {
        let mut placer = place();
        placer
            .arg("--log")
            .arg(&log)
            .args(["--", "sh", "-c", &script]);
        let output = placer.output().unwrap();
        assert_succeeds(&output);
        // What an earlier one said stays.
        let text = fs::read_to_string(&log).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let named: Vec<_> = lines
            .filter(|line| line["name"] == "GC Thread#0" && line["pinned"] == true)
            .collect();
        let processes: std::collections::BTreeSet<_> = named
            .iter()
            .map(|line| line["process"].to_string())
            .collect();
        assert_eq!(processes.len(), 2 * round, "{text}");
    }
}

#[test]
fn nobody_that_reads_is_no_reason_to_end() {
    let directory = Directory::new();
    // The guard is gone.
    let mut placed = Placed::start(&directory, &["--stats"], ["1", "1"]);
    // It is there when threads are placed.
    placed.until(|threads| of(threads, "Thread-").any(|it| it.len() == 1));
    let guard = child_of(placed.placer.id(), "gleaner");
    assert!(
        Command::new("kill")
            .args(["-9", &guard.to_string()])
            .status()
            .unwrap()
            .success()
    );
    drop(placed.placer.stdin.take());
    let output = placed.placer.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(stderr(&output).contains("placement=paper"));
    // Nobody reads the log any more, nor what is said.
    let pipe = directory.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let reader = Command::new("head")
        .args(["-n", "1"])
        .arg(&pipe)
        .stdout(Stdio::null())
        .spawn();
    let mut placed = Placed::start(
        &directory,
        &["--stats", "--log", pipe.to_str().unwrap()],
        ["3", "1"],
    );
    reader.unwrap().wait().unwrap();
    drop(placed.placer.stderr.take());
    placed
        .placer
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\n\n")
        .unwrap();
    placed.until(|threads| of(threads, "Thread-").filter(|it| it.len() == 1).count() == 5);
    assert_eq!(placed.end().0, Some(7));
    // The program has the usual disposition, or the one that this process was given.
    let output = run(&["place", "--", "sh", "-c", "grep SigIgn /proc/self/status"]);
    let direct = clean(Command::new("sh"))
        .args(["-c", "grep SigIgn /proc/self/status"])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), stdout(&direct));
    let nohup = "trap '' HUP; exec \"$0\" place -- grep SigIgn /proc/self/status";
    let output = Command::new("sh")
        .args(["-c", nohup, env!("CARGO_BIN_EXE_gleaner")])
        .output()
        .unwrap();
    // The first bit is that of SIGHUP; others are as this process was given them.
    let ignored = assert_succeeds(&output).trim().chars().next_back();
    let ignored = ignored.and_then(|digit| digit.to_digit(16));
    assert!(ignored.is_some_and(|bits| bits & 1 == 1), "{output:?}");
}

#[test]
fn roles_can_be_said_and_set_apart() {
    let directory = Directory::new();
    let options = [
        "--opt",
        "placement=isolated,isolate=vm,pin=none",
        "--role",
        "Thread-*=vm",
    ];
    let placed = Placed::start(&directory, &options, ["3", "1"]);
    let all = placed.allowed.clone();
    placed.until(|threads| {
        let (apart, rest) = (
            of(threads, "Thread-").next(),
            of(threads, "GC Thread#").next(),
        );
        let (Some(apart), Some(rest)) = (apart, rest) else {
            return false;
        };
        let same = of(threads, "Thread-").all(|processors| processors == apart);
        let together: Vec<_> = all
            .iter()
            .copied()
            .filter(|it| apart.contains(it) || rest.contains(it))
            .collect();
        let are_apart = apart.iter().all(|it| !rest.contains(it)) || all.len() == 1;
        same && are_apart && together == all
    });
    assert_eq!(placed.end().0, Some(7));
}

#[test]
fn what_a_killed_placer_leaves_is_put_back() {
    let directory = Directory::new();
    let mut placed = Placed::start(
        &directory,
        &["--opt", "pin=application+collector+main"],
        ["2", "2"],
    );
    placed.until(|threads| threads.iter().filter(|(_, it)| it.len() == 1).count() >= 5);
    placed.placer.kill().unwrap();
    placed.placer.wait().unwrap();
    let all = placed.allowed.clone();
    placed.until(|threads| threads.iter().all(|(_, processors)| *processors == all));
    // The program has not noticed.
    drop(placed.placer.stdin.take());
    while fs::exists(format!("/proc/{}/comm", placed.program)).unwrap()
        && !fs::read_to_string(format!("/proc/{}/stat", placed.program))
            .unwrap_or_default()
            .contains(") Z")
    {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn signals_reach_the_program() {
    let directory = Directory::new();
    let mut placed = Placed::start(&directory, &[], ["1", "1"]);
    // Its end would end the program.
    let input = placed.placer.stdin.take();
    let kill = Command::new("kill")
        .args(["-TERM", &placed.placer.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let output = placed.placer.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15), "{output:?}");
    drop(input);
}

#[test]
fn without_processors_the_program_runs_unplaced() {
    let output = run(&[
        "place",
        "--opt",
        "processors=1023",
        "--stats",
        "--",
        "sh",
        "-c",
        "exit 4",
    ]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("the program runs unplaced until one of the processors 1023"));
    let output = run(&["place", "--opt", "processors=0-1023", "--", "true"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("offline or not allowed, and are left out"));
}

#[test]
fn where_the_system_decides_it_can_be_among_some_processors() {
    let numbers = gleaner_place::Machine::host().numbers();
    let first = numbers.iter().next().unwrap();
    // From its start.
    let show = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";
    for (option, wanted) in [
        (format!("processors={first}"), first.to_string()),
        ("sockets=0".to_string(), numbers.to_string()),
    ] {
        let output = gleaner()
            .args(["place", "--opt", "placement=none", "--opt", &option])
            .args(["--", "sh", "-c", show])
            .output()
            .unwrap();
        assert_eq!(stdout(&output).trim(), wanted);
    }
}

#[test]
fn many_threads_are_placed() {
    let directory = Directory::new();
    // The one whose name tells without that is the last of them.
    let role = ["--role", "Thread-*=application"];
    let options = [&["--opt", "placement=pinned"][..], &role].concat();
    let placed = Placed::start(&directory, &options, ["300", "1"]);
    placed.until(|threads| of(threads, "Thread-").filter(|it| it.len() == 1).count() == 300);
    assert_eq!(placed.end(), (Some(7), String::new()));
}

/// What starting and ending takes at most, in seconds of processor time.
const FIXED: f64 = 0.06;

#[test]
#[ignore = "make test-alone: it measures processor time, which others on the machine change"]
fn measured_alone_following_keeps_to_its_budget() {
    let directory = Directory::new();
    for placement in ["placement=pinned", "placement=auto"] {
        let role = "Thread-*=application";
        let mut placer = gleaner();
        placer.args(["place", "--stats", "--opt", placement, "--role", role]);
        let placed = Placed::by(placer, &directory, ["5000", "1"]);
        placed.until(|threads| {
            of(threads, "Thread-").any(|it| it.len() == 1) || placement.ends_with("auto")
        });
        std::thread::sleep(std::time::Duration::from_secs(6));
        let (status, said) = placed.end();
        assert_eq!(status, Some(7), "{said}");
        let head = said
            .lines()
            .find_map(|line| Some(line.split_once(" s on ")?.0));
        let wall = head.and_then(|it| it.rsplit(' ').next()?.parse::<f64>().ok());
        let taken: f64 = line_of(&said, "placing")[1].parse().unwrap();
        // The budget is four thousandths; a busy machine makes the ends of pieces longer that were begun within it.
        assert!(taken < FIXED + 0.01 * wall.expect(&said), "{said}");
    }
}

#[test]
fn runtimes_are_asked_for_collectors() {
    let print = [
        "--",
        "sh",
        "-c",
        "echo \"$JAVA_TOOL_OPTIONS|$NODE_OPTIONS|$GC_MARKERS|$GLEANER_OPTIONS\"",
    ];
    let said = |options: &[&str]| {
        let output = gleaner()
            .env("JAVA_TOOL_OPTIONS", "-Xint")
            .env_remove("NODE_OPTIONS")
            .arg("place")
            .args(options)
            .args(print)
            .output()
            .unwrap();
        assert_succeeds(&output)
    };
    assert_eq!(said(&["--opt", "placement=none"]), "-Xint|||\n");
    let asked = "placement=none,collectors=3";
    assert_eq!(
        said(&["--opt", asked]),
        "-Xint -XX:ParallelGCThreads=3|--v8-pool-size=3|3|workers=3,markers=3\n"
    );
    // Gleaner's options have a bound.
    assert!(said(&["--opt", "collectors=100"]).ends_with("=100|100|workers=64,markers=64\n"));
}

/// A program of libgc with two markers, by the names that either library gives them, and a thread of its own.
const MARKS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

int GC_which(void);
static void *sleeps(void *unused) { for (;;) pause(); return unused; }

static void start(const char *name) {
    pthread_t thread;
    pthread_create(&thread, NULL, sleeps, NULL);
    if (name) pthread_setname_np(thread, name);
}

int main(void) {
    start("gleaner-mark-1");
    start("GC-marker-0");
    start(NULL);
    sleep(1);
    printf("%d\n", GC_which());
    return 0;
}
"#;

#[test]
fn markers_are_recognised_behind_exec() {
    let directory = replaceable();
    let flags = ["-pthread", "stock/libgc.so.1", "-Wl,-rpath,$ORIGIN/stock"];
    // Named as a collector's threads are, which tells nothing of its threads.
    let marks = directory.compile("gleaner-mark-7", MARKS, &flags);
    let command = env!("CARGO_BIN_EXE_gleaner");
    let output = gleaner()
        .env("GLEANER_LIBGC", directory.path("ours/libgc.so.1"))
        .args(["place", "--stats", "--", command, "exec", "--"])
        .arg(marks)
        .output()
        .unwrap();
    assert_eq!(assert_succeeds(&output), "1\n");
    let said = stderr(&output);
    for (role, threads) in [("main", "1"), ("collector", "2"), ("application", "1")] {
        assert_eq!(line_of(&said, role)[1], threads, "{role} in {said}");
    }
}
