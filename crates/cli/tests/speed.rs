//! `gleaner place` with slow roles: by bandwidth on this machine, by frequency in a likeness of the kernel's files; what
//! is put back at the end, by the guard, and by the next start.

#[allow(dead_code)]
mod support;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command};
use std::time::Duration;

use support::*;

/// A program whose two collector threads run all the time, until the end of its input.
const SPINS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *spins(void *unused) { (void)unused; for (volatile long i = 0;; i++); }
static void *sleeps(void *unused) { (void)unused; for (;;) pause(); }

static void start(void *(*run)(void *), const char *name) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_setname_np(thread, name);
}

int main(void) {
    start(spins, "GC Thread#0");
    start(spins, "GC Thread#1");
    start(sleeps, "Thread-0");
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF);
    return 7;
}
"#;

/// The program under `gleaner place`.
struct Slowed {
    placer: Child,
    input: Option<ChildStdin>,
    program: u32,
}

impl Slowed {
    fn start(directory: &Directory, arguments: &[&str]) -> Slowed {
        let spins = directory.compile("spins", SPINS, &["-pthread"]);
        let mut placer = place(directory);
        placer
            .args(arguments)
            .arg("--stats")
            .args([Path::new("--"), &spins]);
        let mut placer = start_until_ready(placer);
        Slowed {
            program: child_of(placer.id(), "spins"),
            input: placer.stdin.take(),
            placer,
        }
    }

    /// The threads of the program of that name.
    fn threads(&self, name: &str) -> Vec<u32> {
        let tasks = numbers_in(format!("/proc/{}/task", self.program));
        let is_named = |task: &u32| {
            let path = format!("/proc/{}/task/{task}/comm", self.program);
            fs::read_to_string(path).is_ok_and(|text| text.starts_with(name))
        };
        tasks.into_iter().filter(is_named).collect()
    }

    /// Ends the program; gives what was said.
    fn end(mut self) -> String {
        drop(self.input.take());
        let mut said = String::new();
        let mut errors = self.placer.stderr.take().unwrap();
        errors.read_to_string(&mut said).unwrap();
        let status = self.placer.wait().unwrap();
        assert_eq!(status.code(), Some(7), "{said}");
        said
    }

    /// Kills the placer, and the guard before it if that is wanted; the program runs on.
    fn crash(&mut self, with_guard: bool) {
        if with_guard {
            kill(child_of(self.placer.id(), "gleaner"));
        }
        self.placer.kill().unwrap();
        self.placer.wait().unwrap();
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        // A test that fails leaves no threads that spin: the program ends with its input.
        drop(self.input.take());
    }
}

/// `gleaner place`, which writes down what is to be put back in that directory.
fn place(directory: &Directory) -> Command {
    let mut command = gleaner();
    command
        .env("XDG_RUNTIME_DIR", directory.path(""))
        .arg("place");
    command
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

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The files in a directory that say what is to be put back.
fn states(directory: &Directory) -> usize {
    let names = fs::read_dir(directory.path("")).unwrap().flatten();
    names
        .filter(|entry| entry.file_name().to_str().unwrap().ends_with(".state"))
        .count()
}

/// The group that this process is in, and the file with the threads of a group; none, with the reason printed, where
/// groups cannot be made.
fn home() -> Option<(PathBuf, &'static str)> {
    let groups = text("/proc/self/cgroup");
    let line = |is_it: &dyn Fn(&str) -> bool| {
        let mut parts = groups
            .lines()
            .map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        parts
            .find(|parts| is_it(parts[1]))
            .map(|parts| parts[2].to_string())
    };
    let first = line(&|list| list.split(',').any(|it| it == "cpu"));
    let (root, inside, threads) = match first {
        Some(inside) => ("/sys/fs/cgroup/cpu", inside, "tasks"),
        None => ("/sys/fs/cgroup", line(&str::is_empty)?, "cgroup.threads"),
    };
    let path = Path::new(root).join(inside.trim_start_matches('/'));
    let trial = path.join(format!("gleaner-trial-{}-{threads}", std::process::id()));
    let is_v2_without =
        threads != "tasks" && !text(path.join("cgroup.controllers")).contains("cpu");
    match fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial)) {
        Ok(()) if !is_v2_without => Some((path, threads)),
        done => {
            println!(
                "skipped: no groups can be made in {}: {done:?}",
                path.display()
            );
            None
        }
    }
}

/// The group that a placer makes.
fn group_of(home: &Path, placer: u32) -> Option<PathBuf> {
    let start = format!("gleaner-place-{placer}-");
    let names = fs::read_dir(home).unwrap().flatten();
    let mut paths = names.map(|entry| entry.path());
    paths.find(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(&start)
    })
}

fn is_inside(group: &Path, file: &str, threads: &[u32]) -> bool {
    let mut inside: Vec<u32> = text(group.join(file))
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    inside.sort_unstable();
    inside == threads
}

const SLOW: [&str; 2] = ["--opt", "slow=collector,speed=20,slow-by=bandwidth"];

#[test]
fn slow_threads_are_throttled_and_go_back() {
    let Some((home, file)) = home_of_test() else {
        return;
    };
    let directory = Directory::new();
    let log = directory.path("log");
    let slowed = Slowed::start(
        &directory,
        &[&SLOW[..], &["--log", log.to_str().unwrap()]].concat(),
    );
    until(|| group_of(&home, slowed.placer.id()).is_some());
    let group = group_of(&home, slowed.placer.id()).unwrap();
    // These and no others, and it shows.
    until(|| is_inside(&group, file, &slowed.threads("GC Thread#")));
    let throttled = || {
        let stat = text(group.join("cpu.stat"));
        let mut lines = stat.lines();
        lines.any(|line| line.starts_with("nr_throttled ") && !line.ends_with(" 0"))
    };
    until(throttled);
    assert_eq!(states(&directory), 1);
    let said = slowed.end();
    assert!(!group.exists());
    assert_eq!(states(&directory), 0);
    assert!(said.contains("CPU bandwidth control stands in"), "{said}");
    let line = said
        .lines()
        .find(|line| line.trim().starts_with("slow "))
        .unwrap();
    assert!(
        line.contains("collector: 20 % by bandwidth") && !line.contains(" 0 times"),
        "{line}"
    );
    let log = text(log);
    let mut events = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["event"] == "speed");
    assert_eq!(events.next().unwrap()["by"], "bandwidth");
    assert_eq!(events.next_back().unwrap()["value"], "full speed");
}

#[test]
fn groups_of_killed_placers_are_removed() {
    let Some((home, file)) = home_of_test() else {
        return;
    };
    for with_guard in [false, true] {
        let directory = Directory::new();
        let mut slowed = Slowed::start(&directory, &SLOW);
        until(|| group_of(&home, slowed.placer.id()).is_some());
        let group = group_of(&home, slowed.placer.id()).unwrap();
        until(|| is_inside(&group, file, &slowed.threads("GC Thread#")));
        let threads = slowed.threads("GC Thread#");
        slowed.crash(with_guard);
        if with_guard {
            assert_eq!(states(&directory), 1);
            let output = place(&directory).args(["--", "true"]).output().unwrap();
            assert_succeeds(&output);
            assert!(
                stderr(&output).contains("an earlier start left"),
                "{output:?}"
            );
        }
        until(|| !group.exists() && states(&directory) == 0);
        let back = text(home.join(file));
        let is_back = |thread: &u32| back.lines().any(|line| line == thread.to_string());
        assert!(threads.len() == 2 && threads.iter().all(is_back));
    }
}

fn home_of_test() -> Option<(PathBuf, &'static str)> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _lock = ONE_AT_A_TIME.lock();
    home()
}

/// A likeness in which each processor of this machine has a frequency of its own; none, with the reason printed, if
/// there is but one, or this process may use but one.
fn likeness(directory: &Directory) -> Option<Vec<PathBuf>> {
    let online = text("/sys/devices/system/cpu/online");
    let cpus = "root/sys/devices/system/cpu";
    directory.file(&format!("{cpus}/online"), &online, 0o644);
    fs::create_dir_all(directory.path("root/run")).unwrap();
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    };
    let numbers: Vec<_> = online.trim().split(',').flat_map(part).collect();
    let maximum = |number: &usize| {
        let of = |name: &str| format!("{cpus}/cpu{number}/cpufreq/{name}");
        directory.file(&of("related_cpus"), number.to_string(), 0o644);
        directory.file(&of("cpuinfo_min_freq"), "500000", 0o644);
        directory.file(&of("cpuinfo_max_freq"), "2000000", 0o644);
        directory.file(&of("scaling_max_freq"), "2000000", 0o644)
    };
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    if numbers.len() < 2 || allowed < 2 {
        println!("skipped: one processor has no other to be set apart from");
        return None;
    }
    Some(numbers.iter().map(maximum).collect())
}

#[test]
fn frequencies_are_put_back() {
    // At the end, by the guard, and by the next start.
    for (crashes, with_guard) in [(false, false), (true, false), (true, true)] {
        let directory = Directory::new();
        let Some(maxima) = likeness(&directory) else {
            return;
        };
        let root = directory.path("root");
        let options = [
            "--root",
            root.to_str().unwrap(),
            "--opt",
            "placement=isolated,slow=collector,pin=none",
        ];
        let mut slowed = Slowed::start(&directory, &options);
        let values = || maxima.iter().map(text).collect::<Vec<_>>();
        let count = |khz: &str| values().iter().filter(|value| *value == khz).count();
        until(|| count("1000000") > 0);
        assert!(count("2000000") > 0 && count("1000000") + count("2000000") == maxima.len());
        if !crashes {
            let said = slowed.end();
            assert!(said.contains("collector: 50 % by frequency"), "{said}");
        } else {
            slowed.crash(with_guard);
            if with_guard {
                assert!(count("1000000") > 0);
                let next = place(&directory)
                    .args(&options[..2])
                    .args(["--", "true"])
                    .output();
                assert_succeeds(&next.unwrap());
            }
            until(|| count("2000000") == maxima.len());
        }
        assert_eq!(count("2000000"), maxima.len());
        until(|| fs::read_dir(root.join("run")).unwrap().count() == 0);
    }
}

/// Each of two sets the same cores; what there was before the first is there after the second.
#[test]
fn two_that_slow_the_same_cores_leave_them_as_they_were() {
    let directory = Directory::new();
    let Some(maxima) = likeness(&directory) else {
        return;
    };
    let root = directory.path("root");
    let options = |speed: &str| {
        let items = format!("placement=isolated,slow=collector,pin=none,speed={speed}");
        [
            "--root".into(),
            root.to_str().unwrap().to_string(),
            "--opt".into(),
            items,
        ]
    };
    let start = |speed: &str| {
        let options = options(speed);
        Slowed::start(&directory, &options.each_ref().map(String::as_str))
    };
    let values = || maxima.iter().map(text).collect::<Vec<_>>();
    let count = |khz: &str| values().iter().filter(|value| *value == khz).count();
    let first = start("75");
    until(|| count("1500000") > 0);
    let second = start("50");
    until(|| count("1000000") > 0);
    first.end();
    // What the first has put back the second sets anew.
    until(|| count("1000000") > 0);
    second.end();
    assert_eq!(count("2000000"), maxima.len(), "{:?}", values());
    until(|| fs::read_dir(root.join("run")).unwrap().count() == 0);
}

#[test]
fn what_is_missing_is_said_and_the_program_runs() {
    let directory = Directory::new();
    let root = directory.path("nothing");
    for (items, remedy) in [
        ("slow=collector", "cannot be read"),
        ("slow=collector,slow-by=frequency", "slow-by=bandwidth"),
        ("slow=collector,slow-when=idle", "no frequency control"),
    ] {
        let output = place(&directory)
            .args(["--root", root.to_str().unwrap(), "--opt", items])
            .args(["--", "sh", "-c", "exit 3"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3));
        let said = stderr(&output);
        assert!(
            said.contains("all threads run at full speed") && said.contains(remedy),
            "{said}"
        );
    }
    for (items, remedy) in [
        ("slow=gc", "collector"),
        ("slow=collector,speed=0", "from 1 to 100"),
        ("speed=20", "slow=ROLE"),
        (
            "slow=jvm,slow-by=bandwidth,slow-when=idle",
            "slow-by=frequency",
        ),
    ] {
        assert_fails(&run(&["place", "--opt", items, "--", "true"]), 2, remedy);
    }
}

#[test]
fn energy_is_counted_where_there_are_counters() {
    let directory = Directory::new();
    let zone = directory
        .path("root")
        .join("sys/class/powercap/intel-rapl:0");
    fs::create_dir_all(&zone).unwrap();
    for (name, text) in [
        ("name", "package-0\n"),
        ("energy_uj", "7000000\n"),
        ("max_energy_range_uj", "8000000\n"),
    ] {
        fs::write(zone.join(name), text).unwrap();
    }
    for (has_counters, root) in [
        (true, directory.path("root")),
        (false, directory.path("no")),
    ] {
        let output = place(&directory)
            .args([
                "--stats",
                "--root",
                root.to_str().unwrap(),
                "--",
                "sh",
                "-c",
            ])
            .arg(format!("echo 500000 > {}/energy_uj", zone.display()))
            .output()
            .unwrap();
        let said = stderr(&output);
        let line = said.lines().find(|line| line.contains("energy"));
        let wanted = "1.50  J, of 1 processor packages, with all that ran on them";
        match has_counters {
            true => assert!(line.is_some_and(|line| line.ends_with(wanted)), "{said}"),
            false => assert_eq!(line, None, "{said}"),
        }
    }
}
