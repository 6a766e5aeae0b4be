//! `gleaner place`: threads that their program has put somewhere are left there, processes whose parents have ended are
//! followed, and all are found again as they were when the placer is killed.

#[allow(dead_code)]
mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::*;

/// A program with a thread that has moved itself to the processor that it is told before it says "ready", and another
/// that has not. Both sleep. When the file RETURN is there, the first lets itself run anywhere, and a third starts, so that all are
/// thought of again.
const OWN: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static cpu_set_t all;

static void until_it_returns(void) {
    while (access(getenv("RETURN"), F_OK) != 0) usleep(5000);
}

static void *moves(void *word) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(atoi(word), &one);
    if (sched_setaffinity(0, sizeof one, &one)) exit(9);
    pthread_setname_np(pthread_self(), "moves");
    puts("ready");
    fflush(stdout);
    until_it_returns();
    if (sched_setaffinity(0, sizeof all, &all)) exit(9);
    for (;;) pause();
}

static void *sleeps(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (;;) pause();
}

int main(int count, char **words) {
    pthread_t first, second, third;
    (void)count;
    sched_getaffinity(0, sizeof all, &all);
    pthread_create(&first, NULL, moves, words[1]);
    usleep(200000);
    pthread_create(&second, NULL, sleeps, "sleeps");
    until_it_returns();
    usleep(50000);
    pthread_create(&third, NULL, sleeps, "later");
    for (;;) pause();
}
"#;

/// A program whose second thread starts it anew as soon as that thread has one processor, by which it becomes the first.
const ANEW: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static void *starts_anew(void *path) {
    cpu_set_t set;
    pthread_setname_np(pthread_self(), "starts-anew");
    do {
        usleep(5000);
        sched_getaffinity(0, sizeof set, &set);
    } while (CPU_COUNT(&set) != 1);
    execl(path, path, "anew", NULL);
    return NULL;
}

int main(int count, char **words) {
    pthread_t thread;
    if (count > 1) {
        puts(words[1]);
        fflush(stdout);
    } else
        pthread_create(&thread, NULL, starts_anew, words[0]);
    for (;;) pause();
}
"#;

/// Threads that are main, as all are said to be beside it, are set apart.
const ISOLATED: &str = "placement=isolated,isolate=main,pin=none";

/// `gleaner place` and a first word of what its program says.
struct Placer {
    process: Child,
    word: String,
}

impl Placer {
    /// What is to be put back is written down in the directory.
    fn start(directory: &Directory, arguments: &[&str]) -> Placer {
        Placer::of(place().args(arguments), directory)
    }

    fn of(command: &mut Command, directory: &Directory) -> Placer {
        let mut process = command
            .env("XDG_RUNTIME_DIR", directory.path(""))
            .env("RETURN", directory.path("return"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut word = String::new();
        let mut output = BufReader::new(process.stdout.as_mut().unwrap());
        output.read_line(&mut word).unwrap();
        let word = word.trim().to_string();
        Placer { process, word }
    }

    fn children(&self) -> Vec<(u32, String)> {
        children(self.process.id())
    }

    fn child(&self, name: &str) -> u32 {
        let children = self.children();
        let found = children
            .iter()
            .find(|(_, line)| line.contains(&format!("({name})")));
        found.unwrap_or_else(|| panic!("{name} in {children:?}")).0
    }

    /// Waits until a process is among those that are to be put back.
    fn has_found(directory: &Directory, process: u32) {
        let line = format!("process {process} ");
        until(|| {
            let files = fs::read_dir(directory.path("")).unwrap().flatten();
            files
                .filter(|it| it.path().extension().is_some_and(|it| it == "placed"))
                .any(|it| fs::read_to_string(it.path()).is_ok_and(|text| text.contains(&line)))
        });
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Placer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The children of a process, each with what the kernel says of it.
fn children(parent: u32) -> Vec<(u32, String)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let child = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let is_child = rest.split(' ').nth(2) == Some(&parent.to_string());
        is_child.then(|| (process, stat.clone()))
    };
    numbers.filter_map(child).collect()
}

fn kill(process: u32) {
    let killed = Command::new("kill")
        .args(["-9", &process.to_string()])
        .status();
    assert!(killed.unwrap().success());
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the thread of that name may run; nowhere if there is none.
fn of_thread(process: u32, name: &str) -> Vec<usize> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"))
        .unwrap()
        .flatten();
    let named = |path: &Path| {
        let found = fs::read_to_string(path.join("comm")).unwrap_or_default();
        found.trim() == name
    };
    let mut paths = tasks.map(|entry| entry.path()).filter(|path| named(path));
    let path = paths.next();
    path.map_or(Vec::new(), |path| {
        numbers(&affinity(path.to_str().unwrap()))
    })
}

fn of_process(process: u32) -> Vec<usize> {
    numbers(&affinity(&format!("/proc/{process}")))
}

/// Starts [`OWN`], with the thread that moves itself on processor `own`, where the log says that it is left; gives its process, too.
fn start_own(directory: &Directory, own: usize) -> (Placer, u32) {
    let program = directory.compile("own", OWN, &["-pthread"]);
    let log = directory.path("place.jsonl");
    let words = [
        "--role",
        "sleeps=application",
        "--log",
        log.to_str().unwrap(),
        "--",
        program.to_str().unwrap(),
    ];
    let placer = Placer::start(directory, &[&words[..], &[&own.to_string()]].concat());
    assert_eq!(placer.word, "ready");
    let program = placer.child("own");
    let says = || fs::read_to_string(&log).unwrap_or_default();
    until(|| says().contains("left where its program has put it"));
    assert_eq!(of_thread(program, "moves"), [own], "{}", says());
    (placer, program)
}

#[test]
fn threads_that_their_program_has_moved_are_left_there() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    // The policy would put it on the first one.
    let last = all[all.len() - 1];
    let (mut placer, program) = start_own(&directory, last);
    until(|| of_thread(program, "sleeps").len() == 1);
    // It stays there when the others go back.
    placer.kill();
    until(|| of_thread(program, "sleeps") == all && of_process(program) == all);
    assert_eq!(of_thread(program, "moves"), [last]);
    kill(program);
}

/// What is the first thread now has the processors of the one that it was, which nobody but the placer chose.
#[test]
fn a_thread_that_becomes_the_first_by_starting_a_program_is_placed_as_that() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    let program = directory.compile("anew", ANEW, &["-pthread"]);
    let log = directory.path("place.jsonl");
    let words = [
        "--opt",
        "placement=pinned,pin=application",
        "--role",
        "starts-anew=application",
        "--log",
        log.to_str().unwrap(),
        "--",
        program.to_str().unwrap(),
    ];
    let mut placer = Placer::start(&directory, &words);
    let program = placer.child("anew");
    let says = || fs::read_to_string(&log).unwrap_or_default();
    until(|| of_process(program) == all || says().contains("left where its program has put it"));
    let found = of_process(program);
    placer.kill();
    kill(program);
    assert_eq!(placer.word, "anew");
    assert_eq!(found, all, "{}", says());
}

#[test]
fn a_thread_that_comes_back_is_placed_and_put_back() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    let (mut placer, program) = start_own(&directory, all[all.len() - 1]);
    fs::write(directory.path("return"), "").unwrap();
    // First it may run anywhere, then where it is placed.
    until(|| of_thread(program, "later").len() == 1 && of_thread(program, "moves").len() == 1);
    placer.kill();
    until(|| of_process(program) == all && of_thread(program, "moves") == all);
    kill(program);
}

/// Processes that a shell has left to the command, which it became, are none of the program's, nor is what they start.
#[test]
fn what_a_shell_has_started_before_stays_where_it_is() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    let gleaner = gleaner();
    let script = format!(
        "sh -c 'sleep 1000 & sleep 1000' & echo $!
         (sleep 0.3; sh -c 'sleep 1000 & echo $! > $RETURN.left') > /dev/null &
         exec {} place --opt {ISOLATED} --role \"*=main\" -- sh -c '
             while [ ! -e $RETURN ]; do sleep 0.05; done; tail -f /dev/null & wait'",
        gleaner.get_program().to_str().unwrap()
    );
    let mut placer = Placer::of(Command::new("sh").args(["-c", &script]), &directory);
    let stranger: u32 = placer.word.parse().unwrap();
    until(|| children(stranger).len() == 2);
    let sleepers: Vec<u32> = children(stranger).iter().map(|it| it.0).collect();
    let named = |name: &str| {
        let found = placer.children().into_iter().filter(|it| it.0 != stranger);
        found.filter(|it| it.1.contains(name)).map(|it| it.0).next()
    };
    until(|| named("(sh)").is_some_and(|program| of_process(program).len() < all.len()));
    let program = named("(sh)").unwrap();
    Placer::has_found(&directory, program);
    // Their parent ends, so that the placer is it.
    kill(stranger);
    until(|| placer.children().iter().any(|it| it.0 == sleepers[0]));
    fs::write(directory.path("return"), "").unwrap();
    let tail = || {
        children(program)
            .into_iter()
            .find(|it| it.1.contains("(tail)"))
    };
    until(|| tail().is_some());
    let tail = tail().unwrap().0;
    // A census has been made since.
    Placer::has_found(&directory, tail);
    until(|| of_process(tail).len() < all.len());
    // One whose parent has ended before anybody saw it.
    let left = || fs::read_to_string(directory.path("return.left")).unwrap_or_default();
    until(|| left().ends_with('\n'));
    let left: u32 = left().trim().parse().unwrap();
    for sleeper in [sleepers[0], sleepers[1], left] {
        assert_eq!(of_process(sleeper), all);
    }
    kill(left);
    placer.kill();
    until(|| of_process(tail) == all && of_process(program) == all);
    for process in [sleepers[0], sleepers[1], program, tail] {
        kill(process);
    }
}

/// Who ends a session or a service ends the program, too; until then the guard stays.
#[test]
fn the_guard_stays_when_it_is_asked_to_go() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    let options = ["--opt", ISOLATED, "--role", "*=main", "--", "sh", "-c"];
    let script = "echo ready; sleep 1000 & wait";
    let mut placer = Placer::start(&directory, &[&options[..], &[script]].concat());
    let program = placer.child("sh");
    Placer::has_found(&directory, program);
    let guard = placer.child("gleaner");
    let ignored = || {
        let status = fs::read_to_string(format!("/proc/{guard}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> 14 & 1 == 1)
    };
    until(ignored);
    let asked = Command::new("kill").arg(guard.to_string()).status();
    assert!(asked.unwrap().success());
    until(|| of_process(program).len() < all.len());
    placer.kill();
    until(|| of_process(program) == all);
    let sleeper = children(program)[0].0;
    kill(program);
    kill(sleeper);
}

#[test]
fn a_program_that_is_put_somewhere_by_another_is_left_there() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    // Not where the policy puts it, which is the last one, and only once it is there: the same choice would show nothing.
    let own = all[0].to_string();
    let log = directory.path("place.jsonl");
    let script = "echo ready; until grep -q \"\\\"process\\\":$$,\\\"processors\\\"\" \"$0\" 2>/dev/null; do sleep 0.05; done; \
                  exec taskset -c \"$1\" sleep 1000";
    let log_name = log.to_str().unwrap();
    let mut placer = Placer::start(
        &directory,
        &[
            "--opt", ISOLATED, "--role", "*=main", "--log", log_name, "--", "sh", "-c", script,
            log_name, &own,
        ],
    );
    let sleep = || {
        let children = placer.children();
        let found = children.iter().find(|(_, line)| line.contains("(sleep)"));
        found.map(|it| it.0)
    };
    until(|| sleep().is_some());
    let program = sleep().unwrap();
    let says = || fs::read_to_string(&log).unwrap_or_default();
    until(|| says().contains("left where its program has put it"));
    assert_eq!(affinity(&format!("/proc/{program}")), own);
    placer.kill();
    until(|| {
        fs::read_dir(directory.path(""))
            .unwrap()
            .flatten()
            .all(|it| it.path().extension().is_none_or(|it| it != "placed"))
    });
    assert_eq!(affinity(&format!("/proc/{program}")), own);
    kill(program);
}

/// Starts a process, says which, and ends; the other one goes on.
const LEAVES: &str = "sh -c 'sleep 1000 & echo $!'; sleep 1000";

#[test]
fn processes_whose_parents_have_ended_are_followed_and_put_back() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    let options = [
        "--opt", ISOLATED, "--role", "*=main", "--", "sh", "-c", LEAVES,
    ];
    let mut placer = Placer::start(&directory, &options);
    let left: u32 = placer.word.parse().unwrap();
    let program = placer.child("sh");
    // It may run where the one that started it was put before it is found.
    Placer::has_found(&directory, left);
    until(|| of_process(left).len() < all.len());
    placer.kill();
    until(|| of_process(left) == all && of_process(program) == all);
    kill(left);
    kill(program);
}

#[test]
fn the_next_start_puts_back_what_a_guard_could_not() {
    let Some(all) = processors() else { return };
    let directory = Directory::new();
    let options = [
        "--opt", ISOLATED, "--role", "*=main", "--", "sh", "-c", LEAVES,
    ];
    let mut placer = Placer::start(&directory, &options);
    let left: u32 = placer.word.parse().unwrap();
    let program = placer.child("sh");
    // It may run where the one that started it was put before it is found.
    Placer::has_found(&directory, left);
    until(|| of_process(left).len() < all.len());
    kill(placer.child("gleaner"));
    placer.kill();
    assert!(of_process(left).len() < all.len());
    let next = gleaner()
        .args(["place", "--", "true"])
        .env("XDG_RUNTIME_DIR", directory.path(""))
        .output()
        .unwrap();
    assert!(
        stderr(&next).contains("an earlier start had placed"),
        "{next:?}"
    );
    assert_eq!((of_process(left), of_process(program)), (all.clone(), all));
    kill(left);
    kill(program);
}

#[test]
fn processes_whose_parents_have_ended_do_not_stay_when_they_end() {
    let directory = Directory::new();
    let script = "sh -c 'sleep 0.3 & sleep 0.3 & echo $!'; sleep 1000";
    let mut placer = Placer::start(&directory, &["--", "sh", "-c", script]);
    let left: u32 = placer.word.parse().unwrap();
    until(|| !fs::exists(format!("/proc/{left}")).unwrap());
    until(|| {
        placer
            .children()
            .iter()
            .all(|(_, line)| !line.contains(") Z"))
    });
    let program = placer.child("sh");
    placer.kill();
    kill(program);
}

/// A program that belongs to another user: the kernel lets nobody but that one place it.
#[test]
fn what_the_kernel_refuses_is_said_and_the_program_runs() {
    let Some(_) = processors() else { return };
    let is_root = fs::read_to_string("/proc/self/status")
        .unwrap()
        .contains("Uid:\t0\t0");
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !is_root || !has_setpriv {
        println!("skipped: only root can start a program as somebody else, by setpriv");
        return;
    }
    let directory = Directory::new();
    set_mode(&directory.path(""), 0o755);
    let source =
        "#include <unistd.h>\nint main(void) { sleep(1); write(2, \"ends\", 4); return 5; }\n";
    let program = directory.compile("other", source, &[]);
    set_mode(&program, 0o4755);
    // The command may lie where nobody else may go.
    let command = directory.path("gleaner");
    fs::copy(env!("CARGO_BIN_EXE_gleaner"), &command).unwrap();
    set_mode(&command, 0o755);
    let log = directory.path("log");
    fs::write(&log, "").unwrap();
    set_mode(&log, 0o666);
    let output = clean(Command::new("setpriv"))
        .args(["--reuid=65534", "--clear-groups"])
        .arg(&command)
        .args(["place", "--opt", ISOLATED, "--role", "*=main", "--log"])
        .args([log.as_path(), Path::new("--"), &program])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = stderr(&output);
    let (during, after) = said.split_once("ends").expect(&said);
    assert!(during.contains("a thread runs unplaced: "), "{said}");
    assert!(after.contains("1 threads in all ran unplaced: "), "{said}");
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains(r#""event":"refused""#), "{log}");
}
