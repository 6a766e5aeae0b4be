//! What threads have used, as the kernel counts it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use gleaner_os::counters::{Counter, Event};

use crate::habits::Deeds;
use crate::{Processors, Role};

/// What one thread, or all of a role, have used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many threads.
    pub threads: u64,
    /// Processor time in user mode, in the kernel's ticks.
    pub user_ticks: u64,
    /// Processor time in the kernel, in its ticks.
    pub system_ticks: u64,
    /// Processor time of both kinds as the scheduler counts it, where the kernel tells: ticks leave out up to two of each
    /// thread.
    pub ran: Duration,
    /// How often it gave its processor up to wait.
    pub voluntary: u64,
    /// How often it was taken.
    pub involuntary: u64,
    /// How often the kernel moved it to another processor; `None` on kernels that do not say.
    pub migrations: Option<u64>,
    /// Cycles, and accesses to memory that no cache had, in user mode; `None` where the processor does not count for us.
    pub cycles: Option<u64>,
    /// See `cycles`.
    pub misses: Option<u64>,
    /// The processors that it was seen on.
    pub processors: Processors,
}

/// What the threads of each role have used.
pub type Usages = BTreeMap<Role, Usage>;

impl Usage {
    /// Both kinds of processor time, in seconds.
    pub fn seconds(&self) -> f64 {
        let ticks = (self.user_ticks + self.system_ticks) as f64 / ticks_per_second() as f64;
        ticks.max(self.ran.as_secs_f64())
    }

    /// Adds what others have used.
    pub(crate) fn add(&mut self, other: &Usage) {
        self.threads += other.threads;
        self.user_ticks += other.user_ticks;
        self.system_ticks += other.system_ticks;
        self.ran += other.ran;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        for (mine, theirs) in [
            (&mut self.migrations, other.migrations),
            (&mut self.cycles, other.cycles),
            (&mut self.misses, other.misses),
        ] {
            *mine = match (*mine, theirs) {
                (Some(mine), Some(theirs)) => Some(mine + theirs),
                (mine, theirs) => mine.or(theirs),
            };
        }
        for processor in other.processors.iter() {
            self.processors.insert(processor);
        }
    }

    /// Brings what a thread has used up to date.
    pub(crate) fn sample(&mut self, stat: &Stat) {
        self.threads = 1;
        self.user_ticks = stat.user_ticks;
        self.system_ticks = stat.system_ticks;
        self.processors.insert(stat.processor);
    }

    /// Brings how often it was switched and moved up to date. What can no longer be read, as of a thread that has ended,
    /// stays.
    pub(crate) fn sample_switches(&mut self, task: &str) {
        if let Ok(status) = fs::read_to_string(format!("{task}/status")) {
            let number = |name| number_after(&status, name);
            self.voluntary = number("\nvoluntary_ctxt_switches:").unwrap_or(self.voluntary);
            self.involuntary = number("\nnonvoluntary_ctxt_switches:").unwrap_or(self.involuntary);
        }
        if let Ok(sched) = fs::read_to_string(format!("{task}/sched")) {
            self.migrations = number_after(&sched, "\nse.nr_migrations").or(self.migrations);
        }
    }
}

/// A thread's processor time, which costs a system call to ask while the file is open. So the kernel is asked for more
/// only of threads that ran.
#[derive(Debug)]
pub(crate) struct Clock(File);

impl Clock {
    /// Of `/proc/PID/task/TID`; none on kernels that do not tell.
    pub(crate) fn open(directory: &str) -> Option<Clock> {
        let clock = Clock(File::open(format!("{directory}/schedstat")).ok()?);
        clock.ran().map(|_| clock)
    }

    /// `None`: the thread has ended.
    pub(crate) fn ran(&self) -> Option<Duration> {
        let mut bytes = [0; 64];
        let count = self.0.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..count]).ok()?;
        let nanoseconds = text.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

/// The processor's counters for a thread.
#[derive(Debug)]
pub(crate) struct Counters {
    cycles: Option<Counter>,
    misses: Option<Counter>,
}

impl Counters {
    /// Whether the kernel offers any, asked of the calling thread.
    pub(crate) fn are_there() -> bool {
        let counters = Counters::open(0);
        counters.cycles.is_some() || counters.misses.is_some()
    }

    /// Of a thread, from now on; nothing is counted that is refused.
    pub(crate) fn open(thread: u32) -> Counters {
        Counters {
            cycles: Counter::open(thread, Event::Cycles).ok(),
            misses: Counter::open(thread, Event::CacheMisses).ok(),
        }
    }

    pub(crate) fn read(&self, usage: &mut Usage) {
        let count = |counter: &Option<Counter>| counter.as_ref().and_then(Counter::read);
        usage.cycles = count(&self.cycles).or(usage.cycles);
        usage.misses = count(&self.misses).or(usage.misses);
    }
}

/// What a thread has done, for `placement=auto`: `schedstat` has two times in nanoseconds. A kernel that keeps neither
/// says nothing; one that does not count moves tells of none.
pub(crate) fn deeds(task: &str, usage: &Usage) -> Option<Deeds> {
    let text = fs::read_to_string(format!("{task}/schedstat")).ok()?;
    let mut times = text.split_ascii_whitespace();
    let mut time = || Some(Duration::from_nanos(times.next()?.parse().ok()?));
    Some(Deeds {
        ran: time()?,
        waited: time()?,
        moves: usage.migrations.unwrap_or(0),
    })
}

/// The number behind a name and its blanks and colon.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = &text[text.find(name)? + name.len()..];
    let line = rest.lines().next()?;
    line.trim_matches([' ', '\t', ':']).parse().ok()
}

/// The processor time of the processes that the calling one has waited for, and of those that they have waited for, in
/// seconds.
pub fn seconds_of_ended() -> Option<f64> {
    let stat = Stat::read("/proc/self")?;
    Some(stat.waited_ticks as f64 / ticks_per_second() as f64)
}

/// For how long the first thread of a process has run; also of one that has ended but was not waited for.
pub fn time_of_process(process: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    let ran = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(ran))
}

/// How many of the kernel's ticks make a second.
fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// What `/proc/PID/stat` says, of a process or of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    /// `R`: it runs or could run; `Z`, `X`: it has ended.
    state: char,
    pub(crate) parent: u32,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    /// Of the processes that it has waited for.
    waited_ticks: u64,
    /// When it started, in ticks since the machine did.
    pub(crate) started: u64,
    pub(crate) processor: usize,
}

impl Stat {
    /// Of `/proc/PID` or `/proc/PID/task/TID`; `None` when it has ended.
    pub(crate) fn read(directory: &str) -> Option<Stat> {
        // The kernel gives all of it at once, in less than that.
        let mut bytes = [0; 1024];
        let mut file = File::open(format!("{directory}/stat")).ok()?;
        let count = file.read(&mut bytes).ok()?;
        // A name need not be UTF-8.
        Stat::parse(&String::from_utf8_lossy(&bytes[..count]))
    }

    /// Whether it runs, or could if it had a processor.
    pub(crate) fn is_running(&self) -> bool {
        self.state == 'R'
    }

    /// Whether it has ended, though its parent may not know.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// A name may have blanks and brackets; nothing behind the last bracket has.
    fn parse(text: &str) -> Option<Stat> {
        let (start, rest) = text.rsplit_once(')')?;
        let (_, name) = start.split_once('(')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        // Counted as in proc(5), where the state behind the name is number 3.
        let mut at = 4;
        let mut field = |number: usize| {
            let field = fields.nth(number - at)?.parse::<u64>().ok();
            at = number + 1;
            field
        };
        Some(Stat {
            name: name.to_string(),
            state,
            parent: field(4)? as u32,
            user_ticks: field(14)?,
            system_ticks: field(15)?,
            waited_ticks: field(16)? + field(17)?,
            started: field(22)?,
            processor: field(39)? as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likeness::Tree;

    #[test]
    fn names_with_brackets_are_read() {
        let numbers: Vec<_> = (4..=52).map(|field: u64| field.to_string()).collect();
        let stat = Stat::parse(&format!("17 (a) b (c) S {}\n", numbers.join(" "))).unwrap();
        let expected = Stat {
            name: "a) b (c".into(),
            state: 'S',
            parent: 4,
            user_ticks: 14,
            system_ticks: 15,
            waited_ticks: 16 + 17,
            started: 22,
            processor: 39,
        };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parse("17 (a"), None);
        assert_eq!(Stat::parse("17 (a) S 1 2"), None);
    }

    #[test]
    fn this_thread_has_used_something() {
        let task = "/proc/thread-self";
        if let Some(clock) = Clock::open(task) {
            let since = clock.ran().unwrap();
            while clock.ran() == Some(since) {}
            assert!(clock.ran().unwrap() > since);
        }
        let mut usage = Usage::default();
        usage.sample(&Stat::read(task).unwrap());
        usage.sample_switches(task);
        assert_eq!(usage.threads, 1);
        assert_eq!(usage.processors.count(), 1);
        let counters = Counters {
            cycles: Counter::open(0, Event::Switches).ok(),
            misses: None,
        };
        std::thread::sleep(Duration::from_millis(1));
        counters.read(&mut usage);
        assert_eq!(usage.cycles.is_some(), counters.cycles.is_some());
        assert_eq!(usage.misses, None);
        let mut both = Usage::default();
        both.add(&usage);
        both.add(&usage);
        assert_eq!(both.threads, 2);
        assert_eq!(both.voluntary, 2 * usage.voluntary);
        assert_eq!(both.cycles, usage.cycles.map(|count| 2 * count));
        assert!(number_after("a\nb:\t12\nc", "\nb:") == Some(12));
        assert!(number_after("a\nb   :   12\nc", "\nb") == Some(12));
    }

    #[test]
    fn switches_and_moves_are_told_apart_and_summed() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        let sched = "a (1, #threads: 1)\nse.nr_migrations            :              5\n";
        let tree = Tree::new(&[("task/status", status), ("task/sched", sched)]);
        let task = tree.0.join("task").display().to_string();
        let mut usage = Usage {
            threads: 1,
            ran: Duration::from_secs(2),
            ..Usage::default()
        };
        usage.sample_switches(&task);
        assert_eq!((usage.voluntary, usage.involuntary), (7, 3));
        assert_eq!(usage.migrations, Some(5));
        tree.write("task/status", "");
        tree.write("task/sched", "");
        usage.sample_switches(&task);
        assert_eq!((usage.voluntary, usage.involuntary), (7, 3), "it stays");
        let other = Usage {
            voluntary: 1,
            involuntary: 20,
            migrations: None,
            ..usage.clone()
        };
        let mut both = Usage::default();
        both.add(&usage);
        both.add(&other);
        assert_eq!((both.threads, both.ran.as_secs()), (2, 4));
        assert_eq!((both.voluntary, both.involuntary), (8, 23));
        assert_eq!(both.migrations, Some(5));
        both.add(&usage);
        assert_eq!(both.migrations, Some(10));
    }
}
