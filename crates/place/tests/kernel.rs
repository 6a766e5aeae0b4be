//! What the kernel says of threads that are placed, under each policy, while they come and go. On a machine with one
//! socket less is to be seen; tests/qemu boots others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use gleaner_place::{Follower, Machine, Naming, Processor, Processors, Role, Settings, release};
use rustix::thread::{CpuSet, sched_setaffinity};

/// A thread that sleeps until it is dropped.
struct Sleeper {
    wakes: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    fn start(name: &str) -> Sleeper {
        let (wakes, sleeps) = channel::<()>();
        let sleep = move || {
            let _ = sleeps.recv();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(sleep);
        Sleeper {
            wakes: Some(wakes),
            thread: Some(thread.unwrap()),
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.wakes.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The threads of this process, but not the first, which is that of the tests' harness, and not the calling one, which
/// follows: the name of each, and where the kernel lets it run. Its masks have processors that are offline, too.
fn threads() -> Vec<(String, Processors)> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online: Processors = online.trim().parse().unwrap();
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let first = std::process::id().to_string();
    let mine = fs::read_link("/proc/thread-self").unwrap();
    let mine = mine.file_name().unwrap().to_str().unwrap().to_string();
    let describe = |entry: fs::DirEntry| {
        let task = entry.file_name();
        if task == first.as_str() || task == mine.as_str() {
            return None;
        }
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let list: Processors = list.trim().parse().unwrap();
        let usable = list.iter().filter(|&number| online.contains(number));
        Some((name.trim().to_string(), usable.collect()))
    };
    tasks.filter_map(describe).collect()
}

/// By role.
fn by_role() -> BTreeMap<Role, Vec<Processors>> {
    let naming = Naming::default();
    let mut found = BTreeMap::<Role, Vec<Processors>>::new();
    for (name, processors) in threads() {
        found
            .entry(naming.role(&name, Some("kernel")))
            .or_default()
            .push(processors);
    }
    found
}

/// The sockets of some processors.
fn sockets(machine: &Machine, processors: &Processors) -> BTreeSet<usize> {
    let socket = |number| machine.processor(number).unwrap().socket;
    processors.iter().map(socket).collect()
}

/// Whether all of them are pinned, no processor to two more than another of `among`.
fn are_level(threads: &[&Processors], among: &Processors) -> bool {
    let on = |number: usize| threads.iter().filter(|it| it.contains(number)).count();
    let counts: Vec<_> = among.iter().map(on).collect();
    let is_level = counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1;
    is_level
        && threads
            .iter()
            .all(|it| it.count() == 1 && among.contains(it.iter().next().unwrap()))
}

/// Whether what the kernel says is what a policy is for.
fn holds(policy: &str, machine: &Machine) -> bool {
    let found = by_role();
    let of = |role| found.get(&role).into_iter().flatten().collect::<Vec<_>>();
    let (applications, collectors, compilers) = (
        of(Role::Application),
        of(Role::Collector),
        of(Role::Compiler),
    );
    let both = [applications.clone(), collectors.clone()].concat();
    let all = machine.numbers();
    let socket = |number: usize| -> Processors {
        let inside = machine.processors().iter().filter(|it| it.socket == number);
        inside.map(|it| it.number).collect()
    };
    let numbers = machine.sockets();
    let (first, last) = (socket(numbers[0]), socket(numbers[numbers.len() - 1]));
    match policy {
        // Sleepers give no reason to pin them.
        "none" | "auto" => [both, compilers].concat().iter().all(|it| **it == all),
        "paper" => are_level(&both, &first) && compilers.iter().all(|it| **it == first),
        "pinned" => are_level(&both, &all) && compilers.iter().all(|it| **it == all),
        "isolated" if numbers.len() > 1 => {
            let rest = all.difference(&last);
            are_level(&collectors, &last)
                && are_level(&applications, &rest)
                && compilers.iter().all(|it| **it == rest)
        }
        "paired" => {
            let on = |threads: &[&Processors], number| {
                threads
                    .iter()
                    .filter(|it| sockets(machine, it) == BTreeSet::from([number]))
                    .count()
            };
            let pairs: usize = numbers
                .iter()
                .map(|&number| on(&applications, number).min(on(&collectors, number)))
                .sum();
            both.iter().all(|it| it.count() == 1)
                && pairs == applications.len().min(collectors.len())
                && compilers.iter().all(|it| **it == all)
        }
        // Half of the cores, where there is one socket.
        _ => {
            let apart: BTreeSet<_> = collectors.iter().flat_map(|it| it.iter()).collect();
            let rest: BTreeSet<_> = applications.iter().flat_map(|it| it.iter()).collect();
            both.iter().all(|it| it.count() == 1)
                && (apart.is_disjoint(&rest) || machine.cores() == 1)
        }
    }
}

/// What the calling thread, which follows, may use is what the program may.
fn confine(processors: &[Processor]) {
    let mut set = CpuSet::new();
    processors.iter().for_each(|it| set.set(it.number));
    sched_setaffinity(None, &set).unwrap();
}

/// The second processor goes offline and comes back, on machines that are there to be tested (tests/qemu says so).
fn goes_offline(follower: &mut Follower, machine: &Machine) {
    let second = machine.processors().get(1).map(|it| it.number);
    let (Some(number), Ok(_)) = (second, std::env::var("GLEANER_MACHINE")) else {
        println!("no processor is taken offline: the machine is not ours");
        return;
    };
    let online = format!("/sys/devices/system/cpu/cpu{number}/online");
    fs::write(&online, "0").unwrap();
    follower.look();
    // A free thread may keep it, for the kernel leaves it out; no thread is pinned to it.
    let offline: Processors = [number].into_iter().collect();
    let found = by_role();
    for role in [Role::Application, Role::Collector] {
        for processors in &found[&role] {
            assert!(
                processors.count() == 1 && *processors != offline,
                "{role} on {processors}"
            );
        }
    }
    fs::write(&online, "1").unwrap();
}

#[test]
fn the_kernel_confirms_what_was_decided() {
    let machine = Machine::host();
    for policy in ["none", "paper", "pinned", "isolated", "paired", "auto"] {
        let mut settings = Settings::default();
        settings.set(&format!("placement={policy}")).unwrap();
        let mut follower = Follower::new(std::process::id(), settings, Naming::default());
        let until_it_holds = |follower: &mut Follower| {
            // Not by its budget: emulated machines are slow.
            follower.look();
            while !holds(policy, &machine) {
                follower.look();
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            assert!(follower.refusals().is_empty(), "{:?}", follower.refusals());
        };
        let start = |name: &str, numbers: std::ops::Range<usize>| {
            numbers
                .map(|number| Sleeper::start(&format!("{name}{number}")))
                .collect::<Vec<_>>()
        };
        let mut applications = start("Thread-", 0..4);
        let mut collectors = start("GC Thread#", 0..4);
        let compiler = start("C2 CompilerThread", 0..1);
        until_it_holds(&mut follower);
        applications.extend(start("Thread-", 4..9));
        until_it_holds(&mut follower);
        applications.truncate(2);
        collectors.remove(0);
        until_it_holds(&mut follower);
        if policy != "none" {
            // All processors but one are taken away, and come back.
            confine(&machine.processors()[..1]);
            follower.look();
            let first = machine.processors()[0].number;
            for (name, processors) in threads() {
                assert!(
                    processors.iter().eq([first]),
                    "{policy}: {name} on {processors}"
                );
            }
            confine(machine.processors());
            until_it_holds(&mut follower);
        }
        if policy == "paper" {
            goes_offline(&mut follower, &machine);
            until_it_holds(&mut follower);
        }
        collectors.extend(start("GC Thread#", 4..8));
        applications.clear();
        until_it_holds(&mut follower);
        drop((collectors, compiler));
        assert!(release(std::process::id(), &machine.numbers()) >= 2);
        assert!(
            threads()
                .iter()
                .all(|(_, processors)| *processors == machine.numbers())
        );
    }
}
