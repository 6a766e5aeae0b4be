//! Following a program that knows nothing of placement: its threads and those of the processes that it starts come and
//! go; each is recognised by its name and put where the policy says.
//!
//! The kernel tells nobody without privileges of new threads, so they are looked for. How many a process has stands in
//! the number of links of its task directory: that is asked for often. When it has changed, and while a thread is young
//! enough to be given its name yet, the new and the young ones are read. A whole look reads all threads and what they
//! have used; a wide one finds out which processes there are, too, and how often threads were switched. New threads and
//! whole looks have a budget of processor time each, so that what is new is not placed late because of figures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};

use crate::habits::Watch;
use crate::machine::Host;
use crate::usage::{Stat, deeds};
use crate::{
    Decision, Naming, Placement, Plan, Processors, Role, Seen, Settings, Thread, ThreadId, Usage,
    Usages, decide,
};

/// How long to wait between two calls of [`Follower::follow`]: at first and after news, and at most.
const SHORT_WAIT: Duration = Duration::from_millis(10);
const LONG_WAIT: Duration = Duration::from_millis(80);
/// The least time between two whole looks, and between two wide ones.
const WHOLE: Duration = Duration::from_millis(100);
const WIDE: Duration = Duration::from_millis(500);
/// For so long a thread may still be given its name, and a program is young.
const YOUTH: Duration = Duration::from_millis(300);
/// A budget: so much processor time at the start, and one part in so many of the time that passes.
const AT_START: Duration = Duration::from_millis(4);
const SHARE: u32 = 300;

/// Threads that the kernel refused to place, by what it said.
pub type Refusals = BTreeMap<String, u64>;

/// A thread that was placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which it is.
    pub thread: ThreadId,
    /// Its process, by the kernel's number.
    pub process: u32,
    /// What it is called, as far as the kernel keeps it.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Where it runs, and why.
    pub decision: Decision,
}

/// Follows a program and places its threads.
#[derive(Debug)]
pub struct Follower {
    root: u32,
    began: Instant,
    settings: Settings,
    naming: Naming,
    host: Host,
    known: BTreeMap<ThreadId, Known>,
    /// The processes, each with the links of its task directory.
    processes: BTreeMap<u32, u64>,
    plan: Plan,
    refusals: Refusals,
    placed: Vec<ThreadId>,
    /// How often threads or what is known of them may have changed.
    version: u64,
    ended: Usages,
    /// For what is new, and for whole looks.
    new_budget: Budget,
    whole_budget: Budget,
    /// The processor time of this thread that was charged last: what lies between two calls is for what is new, too.
    charged: Duration,
    wait: Duration,
    /// When the next of these looks is due at the earliest.
    next_whole: Instant,
    next_wide: Instant,
    /// Until then there are young threads.
    young_until: Instant,
}

#[derive(Debug)]
struct Known {
    process: u32,
    name: String,
    /// By its name alone.
    named: Role,
    role: Role,
    first_seen: Instant,
    usage: Usage,
    /// Whether it ran at the last look, or since the one before.
    runs: bool,
    watch: Watch,
    /// Whether the last look of the watch is to be decided on.
    is_watched: bool,
}

/// What looking may cost, and has cost.
#[derive(Debug)]
struct Budget {
    started: Instant,
    spent: Duration,
}

impl Budget {
    fn new(started: Instant) -> Budget {
        Budget {
            started,
            spent: Duration::ZERO,
        }
    }

    /// Whether there is something left.
    fn is_left(&self, now: Instant) -> bool {
        self.spent <= AT_START + now.duration_since(self.started) / SHARE
    }

    fn charge(&mut self, time: Duration) {
        self.spent += time;
    }
}

/// The processor time of the calling thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Follower {
    /// Follows process `root` and all that it starts. That may be the calling process; the thread that calls
    /// [`Follower::follow`] is not placed, for its processors say which ones there are.
    pub fn new(root: u32, settings: Settings, naming: Naming) -> Follower {
        let now = Instant::now();
        Follower {
            root,
            began: now,
            settings,
            naming,
            host: Host::read(),
            known: BTreeMap::new(),
            processes: BTreeMap::new(),
            plan: Plan::new(),
            refusals: Refusals::new(),
            placed: Vec::new(),
            version: 0,
            ended: Usages::new(),
            new_budget: Budget::new(now),
            whole_budget: Budget::new(now),
            charged: processor_time(),
            wait: SHORT_WAIT,
            next_whole: now,
            next_wide: now,
            young_until: now,
        }
    }

    /// Looks at the program, as far as that is due and the budget allows, and places what is new. Gives how long to wait
    /// before the next call.
    pub fn follow(&mut self) -> Duration {
        let (now, since) = (Instant::now(), processor_time());
        self.new_budget.charge(since.saturating_sub(self.charged));
        let is_whole = now >= self.next_whole && self.whole_budget.is_left(now);
        if is_whole {
            let is_wide = now >= self.next_wide || now < self.whole_budget.started + YOUTH;
            self.look_at_all(now, is_wide);
            self.next_whole = now + WHOLE;
            if is_wide {
                self.next_wide = now + WIDE;
            }
        } else if self.new_budget.is_left(now) && (now < self.young_until || self.counts_changed())
        {
            self.look_at_new(now);
        }
        self.charged = processor_time();
        let budget = match is_whole {
            true => &mut self.whole_budget,
            false => &mut self.new_budget,
        };
        budget.charge(self.charged.saturating_sub(since));
        self.wait = match now < self.young_until {
            true => SHORT_WAIT,
            false => (self.wait * 5 / 4).min(LONG_WAIT),
        };
        self.wait
    }

    /// Looks at everything now, whatever is due and whatever it costs, and places what is new.
    pub fn look(&mut self) {
        self.look_at_all(Instant::now(), true);
    }

    fn counts_changed(&self) -> bool {
        let changed = |(&process, &count): (&u32, &u64)| links(process) != Some(count);
        self.processes.iter().any(changed)
    }

    /// Finds the threads that are new, and those that have another name.
    fn look_at_new(&mut self, now: Instant) {
        let old: BTreeSet<_> = self
            .known
            .iter()
            .filter(|(_, known)| known.first_seen + YOUTH <= now)
            .map(|(id, _)| id.number)
            .collect();
        let mut news = false;
        for process in self.processes.keys().copied().collect::<Vec<_>>() {
            self.processes
                .extend(links(process).map(|count| (process, count)));
            for task in tasks(process) {
                if !old.contains(&task) {
                    news |= self
                        .meet(process, task, now, false)
                        .is_some_and(|(_, is_new)| is_new);
                }
            }
        }
        if news {
            self.place();
        }
    }

    /// Finds all threads, those that have ended, and what threads have used; if it is wide, processes, too.
    fn look_at_all(&mut self, now: Instant, is_wide: bool) {
        let mut alive = BTreeSet::new();
        let mut news = self.host.refresh();
        let processes = match is_wide {
            true => tree(self.root),
            false => self.processes.keys().copied().collect(),
        };
        self.processes.clear();
        for process in processes {
            self.processes
                .extend(links(process).map(|count| (process, count)));
            for task in tasks(process) {
                if let Some((id, is_new)) = self.meet(process, task, now, is_wide) {
                    alive.insert(id);
                    news |= is_new;
                }
            }
        }
        let gone: Vec<_> = self
            .known
            .keys()
            .filter(|id| !alive.contains(id))
            .copied()
            .collect();
        for id in &gone {
            if let Some(known) = self.known.remove(id) {
                self.ended.entry(known.role).or_default().add(&known.usage);
            }
        }
        self.version += 1;
        let has_changed = self.decide_on_habits();
        if news || has_changed || !gone.is_empty() {
            self.place();
        }
    }

    /// Decides on the threads that were watched. Gives whether the habit of one has changed.
    fn decide_on_habits(&mut self) -> bool {
        let busy = self.known.values().filter(|it| it.watch.is_busy()).count();
        let has_room = busy <= self.host.machine().cores();
        let mut has_changed = false;
        for known in self.known.values_mut() {
            if std::mem::take(&mut known.is_watched) {
                let before = known.watch.habit();
                known.watch.decide(has_room);
                has_changed |= known.watch.habit() != before;
            }
        }
        has_changed
    }

    /// Reads a thread. Gives which it is, and whether it is new or has a new role; none when it has ended.
    fn meet(
        &mut self,
        process: u32,
        task: u32,
        now: Instant,
        is_wide: bool,
    ) -> Option<(ThreadId, bool)> {
        if task == rustix::thread::gettid().as_raw_nonzero().get() as u32 {
            return None;
        }
        let directory = format!("/proc/{process}/task/{task}");
        let stat = Stat::read(&directory)?;
        let id = ThreadId {
            number: task,
            started: stat.started,
        };
        let first = (task != process).then(|| self.first_name(process));
        let named = self.naming.role(&stat.name, first.as_deref());
        let mut is_new = false;
        let known = self.known.entry(id).or_insert_with(|| {
            is_new = true;
            self.young_until = now + YOUTH;
            Known {
                process,
                name: String::new(),
                named,
                role: named,
                first_seen: now,
                usage: Usage::default(),
                runs: false,
                watch: Watch::default(),
                is_watched: false,
            }
        });
        if known.named != named {
            is_new = true;
            (known.named, known.role) = (named, named);
        }
        let before = known.usage.seconds();
        known.usage.sample(&stat);
        known.runs = stat.is_running() || known.usage.seconds() > before;
        if is_wide {
            known.usage.sample_switches(&directory);
            if let (Placement::Auto, Some(deeds)) =
                (self.settings.placement, deeds(&directory, &known.usage))
            {
                known.is_watched = known.watch.look(self.began.elapsed(), deeds);
            }
        }
        known.name = stat.name;
        Some((id, is_new))
    }

    /// The name of the thread that a process began with, once that was seen; empty before.
    fn first_name(&self, process: u32) -> String {
        let mut inside = self.known.range(ThreadId::range(process));
        inside
            .next_back()
            .map_or(String::new(), |(_, known)| known.name.clone())
    }

    /// HotSpot's `main` does not run in the thread that its process began with, which waits, but in the oldest other one
    /// of the same name.
    fn recognise_launchers(&mut self) {
        for process in self.processes.keys() {
            let inside = |(_, known): &(&ThreadId, &mut Known)| known.process == *process;
            let mut threads: Vec<_> = self.known.iter_mut().filter(inside).collect();
            threads.sort_by_key(|(id, _)| (id.started, id.number));
            let is_hotspot = threads.iter().any(|(_, known)| known.name == "VM Thread");
            let first = threads.iter_mut().find(|(id, _)| id.number == *process);
            let (true, Some((_, first))) = (is_hotspot, first) else {
                continue;
            };
            if first.named != Role::Main {
                continue; // The user says what it is.
            }
            first.role = Role::Vm;
            let (name, first) = (first.name.clone(), *process);
            let runs_main = |(id, known): &&mut (&ThreadId, &mut Known)| {
                id.number != first && known.name == name && known.named == Role::Application
            };
            if let Some((_, known)) = threads.iter_mut().find(runs_main) {
                known.role = Role::Main;
            }
        }
    }

    /// Decides, and applies what is not as it was.
    fn place(&mut self) {
        self.recognise_launchers();
        let mut threads: Vec<_> = self
            .known
            .iter()
            .map(|(&id, known)| Thread {
                id,
                role: known.role,
                habit: known.watch.habit(),
            })
            .collect();
        threads.sort_by_key(|thread| (thread.id.started, thread.id.number));
        let plan = decide(self.host.machine(), &threads, &self.settings, &self.plan);
        for (&id, decision) in &plan {
            if !self.settings.places() {
                continue;
            }
            let before = self.plan.get(&id);
            if before.is_some_and(|before| before.processors == decision.processors) {
                // It may be there for another reason now.
                if before.is_some_and(|before| before.reason != decision.reason) {
                    self.placed.push(id);
                }
                continue;
            }
            match set_affinity(id.number, &decision.processors) {
                // It has ended: the next look will find that.
                Ok(()) | Err(Errno::SRCH) => self.placed.push(id),
                Err(errno) => *self.refusals.entry(errno.to_string()).or_default() += 1,
            }
        }
        self.plan = plan;
        self.version += 1;
    }

    /// A number that is another one when [`Follower::seen`] may have another answer.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The threads, with where they may run.
    pub fn seen(&self) -> Vec<Seen> {
        let everywhere = self.host.machine().numbers();
        let seen = self.known.iter().map(|(&id, known)| Seen {
            id,
            role: known.role,
            processors: self
                .plan
                .get(&id)
                .map_or(&everywhere, |decision| &decision.processors)
                .clone(),
            runs: known.runs,
        });
        seen.collect()
    }

    /// The processors that the program may use.
    pub fn usable(&self) -> Processors {
        let all = self.host.machine().numbers();
        match &self.settings.processors {
            Some(wanted) => all.intersection(wanted),
            None => all,
        }
    }

    /// What was placed since the last call.
    pub fn take_placed(&mut self) -> Vec<Placed> {
        let placed = std::mem::take(&mut self.placed);
        let describe = |thread: ThreadId| {
            let (known, decision) = (self.known.get(&thread)?, self.plan.get(&thread)?);
            Some(Placed {
                thread,
                process: known.process,
                name: known.name.clone(),
                role: known.role,
                decision: decision.clone(),
            })
        };
        placed.into_iter().filter_map(describe).collect()
    }

    /// What the kernel refused.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// What threads have used as far as it was seen, those that have ended among them.
    pub fn usages(&self) -> Usages {
        let mut usages = self.ended.clone();
        for known in self.known.values() {
            usages.entry(known.role).or_default().add(&known.usage);
        }
        usages
    }
}

/// Lets all threads of a program and of what it has started run on `processors`. Gives how many it reached.
pub fn release(root: u32, processors: &Processors) -> usize {
    let threads = tree(root).into_iter().flat_map(tasks);
    threads
        .filter(|&task| set_affinity(task, processors).is_ok())
        .count()
}

fn set_affinity(thread: u32, processors: &Processors) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|number| set.set(number));
    let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
    rustix::thread::sched_setaffinity(Some(thread.ok_or(Errno::SRCH)?), &set)
}

/// The links of a process's task directory, which has two more than the process has threads.
fn links(process: u32) -> Option<u64> {
    let found = fs::metadata(format!("/proc/{process}/task")).ok()?;
    Some(found.nlink())
}

/// The threads of a process.
fn tasks(process: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{process}/task"))
}

/// A process and all that descend from it.
fn tree(root: u32) -> Vec<u32> {
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    for process in numbers_in("/proc") {
        if let Some(stat) = Stat::read(&format!("/proc/{process}")) {
            children.entry(stat.parent).or_default().push(process);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found
}

fn numbers_in(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
