//! Following a program that knows nothing of placement: its threads and those of the processes that it starts come and
//! go; each is recognised by its name and put where the policy says.
//!
//! The kernel tells nobody without privileges of new threads, so they are looked for. How many a process has stands in
//! the number of links of its task directory: that is asked for often. When it has changed, and while a thread is young
//! enough to be given its name yet, the new and the young ones are read. A whole look reads all threads, a wide one finds
//! out which processes there are, too. Where it is counted what threads use, those that ran lately are read more often.
//! What is new and what is counted have a budget each, so that what is new is not placed late because of figures; a look
//! that its budget does not suffice for goes on with the next call.
//!
//! A thread that its program has put on processors of its own is left there. Until a thread of a process is recognised, its
//! threads run where the limits allow, as they started: programs look at the processors that they may use, and decide by
//! that.

mod budget;
mod descent;
mod family;
mod look;
mod put;
mod record;
mod tasks;
mod walk;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use rustix::thread::CpuSet;

use budget::{Budget, Limit, processor_time};
use descent::tree;
use family::Family;
use record::Record;
use tasks::{processors_of, set_affinity, set_of};
use walk::Walk;

pub use family::has_children;
pub use record::{put_back_threads, put_back_threads_left};
pub use tasks::confined;

use crate::files::Files;
use crate::habits::Watch;
use crate::machine::Host;
use crate::usage::{Clock, Counters, Stat};
use crate::{
    Decision, Hotspot, Naming, Placement, Plan, Processors, Role, Seen, Settings, ThreadId, Usage,
    Usages, Writer, lack, within_limits,
};

/// How long to wait between two calls of [`Follower::follow`]: at first and after news, and at most. Between these it is
/// a part of the program's age, so that what is missed at its end is as small a part.
const SHORT_WAIT: Duration = Duration::from_millis(10);
const LONG_WAIT: Duration = Duration::from_millis(80);
const PART: u32 = 64;
/// How many threads have a clock and counters, each of which is an open file.
const CLOCKS: usize = 64;
/// Processor time that whole looks leave for those at threads that ran lately.
const RESERVE: Duration = Duration::from_micros(300);
/// Where there is no budget, at most.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The least time between two whole looks, between two of them where nothing is counted, and between two wide ones.
const WHOLE: Duration = Duration::from_millis(100);
const WIDE: Duration = Duration::from_millis(500);
/// For how long a thread may still be given its name, and a program is young.
const YOUTH: Duration = Duration::from_millis(300);

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
    began: Instant,
    settings: Settings,
    naming: Naming,
    host: Host,
    /// Whether the host was read in this call.
    is_host_fresh: bool,
    /// Where the threads of the program may run that were not placed.
    usual: CpuSet,
    counts: bool,
    known: BTreeMap<ThreadId, Known>,
    family: Family,
    record: Option<Record>,
    /// The sets that are in the record.
    recorded: Vec<CpuSet>,
    plan: Plan,
    /// Whether the plan may not be right any more, how many threads were new since, and what the last decision took for
    /// how many.
    is_stale: bool,
    fresh: usize,
    took: (Duration, usize),
    /// Threads that are not yet where the plan says.
    queue: VecDeque<ThreadId>,
    refusals: Refusals,
    /// The roles of threads of recognised processes, and the processes that run HotSpot, by their first threads.
    roles: BTreeSet<Role>,
    hotspots: BTreeMap<ThreadId, Hotspot>,
    /// Processes that began on fewer processors than they have since they were found.
    began_confined: u64,
    /// As they were when they were put there: they may end at once.
    placed: Vec<Placed>,
    /// How often threads or what is known of them may have changed.
    version: u64,
    ended: Usages,
    /// Of what is new, and of all.
    new_walk: Option<Walk>,
    whole_walk: Option<Walk>,
    whole_walks: u64,
    /// Those that ran lately, and all that have a clock; how many these are.
    watched: Vec<ThreadId>,
    clocks: usize,
    /// Whether the processor counts for us.
    has_counters: bool,
    new_budget: Budget,
    whole_budget: Budget,
    /// The processor time of this thread that was charged last: what lies between two calls is for what is new, too. None
    /// before the first, since what it takes to start the program is no looking.
    charged: Option<Duration>,
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
    /// When a look at what is new reads it again, while it is young.
    next_read: Instant,
    /// Of the first threads.
    clock: Option<Clock>,
    counters: Option<Counters>,
    /// Its time when the rest was read, and when its switches were.
    read_at: Option<Duration>,
    switched_at: Option<Duration>,
    /// The whole look that saw it last.
    seen_in: u64,
    usage: Usage,
    /// Whether it ran at the last look, or since the one before.
    runs: bool,
    watch: Watch,
    /// Whether the last look of the watch is to be decided on.
    is_watched: bool,
    placement: Affinity,
}

/// Where a thread was put.
#[derive(Debug, Default)]
struct Affinity {
    /// What it was given last, if the kernel did not refuse.
    given: Option<CpuSet>,
    /// What was last tried.
    tried: Option<CpuSet>,
    /// Where its program put it, which is left so.
    own: Option<CpuSet>,
    /// Whether the machine has changed since, and the kernel may have moved it.
    is_shaken: bool,
}

impl Follower {
    /// Follows process `root`, which began within the limits of the settings ([`within_limits`]), and all that it starts. That may be the calling process; the thread that calls
    /// [`Follower::follow`] is not placed, for its processors say which ones there are.
    pub fn new(root: u32, settings: Settings, naming: Naming) -> Follower {
        let now = Instant::now();
        let host = Host::read();
        let usual = host.machine().numbers();
        let limits = within_limits(host.machine(), &settings).numbers();
        // Half of it for what is new, half for the rest.
        let share = settings.effort * 1000 / 2;
        let limited = Some(set_of(&limits)).filter(|_| !limits.is_empty() && limits != usual);
        let mut family = Family::new(root);
        limited.iter().for_each(|&set| family.give(root, set));
        Follower {
            began: now,
            settings,
            naming,
            usual: set_of(&usual),
            host,
            is_host_fresh: true,
            counts: true,
            known: BTreeMap::new(),
            family,
            record: None,
            recorded: limited.into_iter().collect(),
            plan: Plan::new(),
            is_stale: false,
            fresh: 0,
            took: (Duration::ZERO, 1),
            queue: VecDeque::new(),
            refusals: Refusals::new(),
            roles: BTreeSet::new(),
            hotspots: BTreeMap::new(),
            began_confined: 0,
            placed: Vec::new(),
            version: 0,
            ended: Usages::new(),
            new_walk: None,
            whole_walk: None,
            whole_walks: 0,
            watched: Vec::new(),
            clocks: 0,
            has_counters: Counters::are_there(),
            new_budget: Budget::new(now, share),
            whole_budget: Budget::new(now, share),
            charged: None,
            next_whole: now,
            next_wide: now,
            young_until: now,
        }
    }

    /// Says whether it is to be counted what threads use. `auto` and slow roles want it anyway.
    pub fn count(&mut self, counts: bool) {
        let wanted = self.settings.placement == Placement::Auto || self.settings.slow.is_any();
        self.counts = counts || wanted;
    }

    /// The calling process is the parent of the program's processes whose own has ended (`PR_SET_CHILD_SUBREAPER`), and
    /// of its guard, which is none of them. Where it `had_children` before, nobody can tell these apart from others.
    pub fn adopt(&mut self, guard: Option<u32>, had_children: bool) {
        self.family.adopt(std::process::id(), guard, had_children);
    }

    /// The program has ended in order: nothing is to be put back.
    pub fn forget(&mut self) {
        if let Some(record) = self.record.take() {
            record.remove();
        }
    }

    /// Writes down what is to be put back if this process, `writer`, is killed.
    pub fn write_down(&mut self, files: &Files, writer: Writer) -> Result<(), String> {
        self.record = Some(Record::start(files, writer)?);
        let Err(error) = self.rewrite() else {
            return Ok(());
        };
        // Half of it would be taken for all.
        self.forget();
        Err(error.to_string())
    }

    /// Processes that ended after their parents did, for which nobody but the calling process can wait.
    pub fn take_ended(&mut self) -> Vec<u32> {
        self.family.take_ended()
    }

    /// Looks at the program, as far as that is due and the budgets allow, and places what is new. Gives how long to wait
    /// before the next call.
    pub fn follow(&mut self) -> Duration {
        let (now, since) = (Instant::now(), processor_time());
        self.is_host_fresh = false;
        let charged = self.charged.unwrap_or(since);
        self.new_budget.charge(since.saturating_sub(charged));
        let mut limit = Limit::of(self.new_budget.left(now));
        self.look_at_new(now, &mut limit);
        let between = processor_time();
        self.new_budget.charge(between.saturating_sub(since));
        let left = self.whole_budget.left(now);
        if self.counts {
            self.look_at_watched(&mut Limit::of(left));
        }
        let mut limit = Limit::of(left.saturating_sub(RESERVE));
        self.look_at_all(now, &mut limit);
        let ended = processor_time();
        self.whole_budget.charge(ended.saturating_sub(between));
        self.charged = Some(ended);
        self.wait(now)
    }

    fn wait(&self, now: Instant) -> Duration {
        let wait = match now < self.young_until {
            true => SHORT_WAIT,
            false => (now.duration_since(self.began) / PART).clamp(SHORT_WAIT, LONG_WAIT),
        };
        let wanted = match self.wants_decision() {
            true => self.cost_of_decision(),
            false => Duration::ZERO,
        };
        let until = self.new_budget.until(wanted, now);
        wait.max(until.min(LONGEST_WAIT))
    }

    /// Looks at everything now, whatever is due and whatever it costs, and places what is new.
    pub fn look(&mut self) {
        let (now, mut limit) = (Instant::now(), Limit::none());
        (self.new_walk, self.whole_walk) = (None, None);
        (self.next_whole, self.next_wide) = (now, now);
        self.is_host_fresh = false;
        self.look_at_all(now, &mut limit);
        self.place(&mut limit);
    }

    /// A number that is another one when [`Follower::seen`] may have another answer.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The threads, with where they may run.
    pub fn seen(&self) -> Vec<Seen> {
        let everywhere = self.host.machine().numbers();
        let seen = self.known.iter().map(|(id, known)| Seen {
            id: *id,
            role: known.role,
            processors: match (&known.placement.own, self.plan.get(id)) {
                (Some(own), _) => processors_of(own),
                (None, Some(decision)) => decision.processors.clone(),
                (None, None) => everywhere.clone(),
            },
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

    /// The processors on which all of the program may run, whatever the policy.
    fn limits(&self) -> Processors {
        within_limits(self.host.machine(), &self.settings).numbers()
    }

    /// What was placed since the last call.
    pub fn take_placed(&mut self) -> Vec<Placed> {
        std::mem::take(&mut self.placed)
    }

    /// What the kernel refused.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Why the policy did nothing ([`lack`]), as far as was seen.
    pub fn lack(&self) -> Option<String> {
        lack(self.host.machine(), &self.settings, &self.roles)
    }

    /// The processes that ran HotSpot, those that have ended among them.
    pub fn hotspots(&self) -> impl Iterator<Item = &Hotspot> {
        self.hotspots.values()
    }

    /// How many processes began on fewer processors than they have since they were found: those of a thread that was placed.
    pub fn began_confined(&self) -> u64 {
        self.began_confined
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

impl Known {
    fn new(process: u32, named: Role, now: Instant) -> Known {
        Known {
            process,
            name: String::new(),
            named,
            role: named,
            first_seen: now,
            next_read: now,
            clock: None,
            counters: None,
            read_at: None,
            switched_at: None,
            seen_in: 0,
            usage: Usage::default(),
            runs: false,
            watch: Watch::default(),
            is_watched: false,
            placement: Affinity::default(),
        }
    }

    /// What is told of it when it is somewhere.
    fn placed(&self, thread: ThreadId, decision: Decision) -> Placed {
        Placed {
            thread,
            process: self.process,
            name: self.name.clone(),
            role: self.role,
            decision,
        }
    }

    /// Takes in what it has used.
    fn count(&mut self, stat: &Stat) {
        let before = self.usage.seconds();
        self.usage.sample(stat);
        self.read_at = self.clock.as_ref().and_then(Clock::ran);
        self.usage.ran = self.read_at.unwrap_or(self.usage.ran);
        if let Some(counters) = &self.counters {
            counters.read(&mut self.usage);
        }
        self.runs = stat.is_running() || self.usage.seconds() > before;
    }

    /// Takes in how long it ran, and no more, if it has a clock.
    fn is_counted_by_clock(&mut self) -> bool {
        let ran = self.clock.as_ref().and_then(Clock::ran);
        if let Some(ran) = ran {
            self.runs = ran != self.usage.ran;
            self.usage.ran = ran;
        }
        ran.is_some()
    }

    /// Whether it has a clock, and has not run since it was read; or not since its switches were, if these are wanted.
    fn stood(&self, is_wide: bool) -> bool {
        let ran = self.clock.as_ref().and_then(Clock::ran);
        let read = if is_wide {
            self.switched_at
        } else {
            self.read_at
        };
        ran.is_some() && ran == read
    }
}

/// Of a thread.
fn directory(process: u32, task: u32) -> String {
    format!("/proc/{process}/task/{task}")
}

/// Lets all threads of a program and of what it has started run on `processors`. Gives how many it reached.
pub fn release(root: u32, processors: &Processors) -> usize {
    let set = set_of(processors);
    let threads = tree(&[root]).into_iter().flat_map(tasks::tasks);
    threads
        .filter(|&task| set_affinity(task, &set).is_ok())
        .count()
}
