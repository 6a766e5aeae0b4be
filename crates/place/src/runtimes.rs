//! What HotSpot decides by itself, and by what: it takes its collector, and how many threads collect and compile, from the
//! number of processors that it is told of at its start; a program asks for that number later, too.
//!
//! It is the option `ActiveProcessorCount` where that is given, and otherwise what the thread that asks may run on
//! (`sched_getaffinity`), within what the quota of its group allows. So a thread that was placed is told of fewer
//! processors, unless the option says the number ([`keep_count`]).

use std::collections::BTreeSet;
use std::fmt;

use crate::Files;
use crate::speed::quota;

/// The option of HotSpot that says how many processors there are.
const OPTION: &str = "-XX:ActiveProcessorCount=";
/// The variables in which HotSpot looks for options: before those of the command line, and after them. The last one counts.
const BEFORE: [&str; 2] = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"];
const AFTER: [&str; 1] = ["_JAVA_OPTIONS"];

/// How many processors a program is told of that may run on `allowed` ones, in the group of this process.
pub fn told(files: &Files, allowed: usize) -> usize {
    let most = quota(files, std::process::id()).map_or(usize::MAX, |quota| quota.ceil() as usize);
    allowed.min(most.max(1))
}

/// The value of `JAVA_TOOL_OPTIONS` by which HotSpot is told of `count` processors, wherever its threads run. What was there
/// `before` stands behind it, and so wins if it says a number, too; so do all other places of options.
pub fn keep_count(before: &str, count: usize) -> String {
    format!("{OPTION}{count} {before}").trim_end().into()
}

/// A process that runs HotSpot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hotspot {
    /// The kernel's number of the process.
    pub process: u32,
    /// How many processors it was told of.
    pub told: Told,
    /// The names of its threads that collect.
    threads: BTreeSet<String>,
}

/// How many processors a process was told of, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// `ActiveProcessorCount`.
    ByOption(usize),
    /// How many processors could run its first thread when it was recognised; it may have a quota, too.
    ByAffinity(usize),
}

impl Hotspot {
    /// `affinity` is how many processors its first thread may use.
    pub(crate) fn read(process: u32, affinity: usize) -> Hotspot {
        let text = |name: &str| {
            let bytes = std::fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let option = active_count(&text("environ"), &text("cmdline"));
        Hotspot {
            process,
            told: option.map_or(Told::ByAffinity(affinity), Told::ByOption),
            threads: BTreeSet::new(),
        }
    }

    /// Takes in the name of one of its threads that collect.
    pub(crate) fn has_collector(&mut self, name: &str) {
        if !self.threads.contains(name) {
            self.threads.insert(name.into());
        }
    }

    /// The collector that it chose, by the names of its threads.
    fn collector(&self) -> &'static str {
        let is_there = |start: &str| self.threads.iter().any(|name| name.starts_with(start));
        let found = COLLECTORS.iter().find(|(start, _)| is_there(start));
        found.map_or("Serial", |&(_, collector)| collector)
    }
}

/// By which names of threads HotSpot's collectors are known; the first that is there counts. Serial has no threads.
const COLLECTORS: [(&str, &str); 8] = [
    ("G1 ", "G1"),
    ("Shenandoah", "Shenandoah"),
    ("ZD", "ZGC"),
    ("ZW", "ZGC"),
    ("RuntimeWorker", "ZGC"),
    ("XDriver", "ZGC"),
    ("Concurrent Mark", "CMS"),
    ("GC Thread#", "Parallel"),
];

impl fmt::Display for Hotspot {
    /// `G1 (GC Thread 2, G1 Conc 1)`: the collector, and how many threads of the kinds that are numbered were seen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.collector())?;
        let kinds = self
            .threads
            .iter()
            .filter_map(|name| Some(name.split_once('#')?.0));
        let counts = kinds.fold(Vec::<(&str, usize)>::new(), |mut counts, kind| {
            match counts.last_mut() {
                Some((last, count)) if *last == kind => *count += 1,
                _ => counts.push((kind, 1)),
            }
            counts
        });
        let counts: Vec<_> = counts
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        match counts.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", counts.join(", ")),
        }
    }
}

/// What `ActiveProcessorCount` says in the environment and the command line of a process, as the kernel has these.
fn active_count(environ: &str, cmdline: &str) -> Option<usize> {
    let variable = |wanted: &&str| {
        let pairs = environ.split('\0').filter_map(|item| item.split_once('='));
        let found = pairs.clone().find(|(name, _)| name == wanted);
        found.map_or("", |(_, value)| value)
    };
    let words = |text| str::split_whitespace(text);
    let mut items: Vec<&str> = BEFORE.iter().map(variable).flat_map(words).collect();
    items.extend(cmdline.split('\0'));
    items.extend(AFTER.iter().map(variable).flat_map(words));
    let found = items
        .iter()
        .rev()
        .find_map(|item| item.strip_prefix(OPTION));
    // HotSpot counts by itself where the number is -1, which is what it has unless told, or 0.
    found?.parse().ok().filter(|&count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likeness::Tree;

    #[test]
    fn the_last_option_counts() {
        for (environ, cmdline, count) in [
            ("", "java\0Main\0", None),
            (
                "JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=8\0",
                "java\0Main\0",
                Some(8),
            ),
            (
                "A=1\0JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=8 -XX:ActiveProcessorCount=4 -Xint\0",
                "java\0Main\0",
                Some(4),
            ),
            (
                "JDK_JAVA_OPTIONS=-XX:ActiveProcessorCount=3\0JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=8\0",
                "java\0",
                Some(3),
            ),
            (
                "JDK_JAVA_OPTIONS=-XX:ActiveProcessorCount=3\0",
                "java\0-XX:ActiveProcessorCount=2\0Main\0",
                Some(2),
            ),
            (
                "_JAVA_OPTIONS=-XX:ActiveProcessorCount=5\0",
                "java\0-XX:ActiveProcessorCount=2\0Main\0",
                Some(5),
            ),
            ("", "java\0-XX:ActiveProcessorCount=-1\0Main\0", None),
            ("", "java\0-XX:ActiveProcessorCount=0\0Main\0", None),
        ] {
            assert_eq!(active_count(environ, cmdline), count, "{environ} {cmdline}");
        }
    }

    #[test]
    fn what_the_user_says_stands_behind_and_wins() {
        assert_eq!(keep_count("", 8), "-XX:ActiveProcessorCount=8");
        let both = keep_count("-Xint -XX:ActiveProcessorCount=2", 8);
        assert_eq!(
            both,
            "-XX:ActiveProcessorCount=8 -Xint -XX:ActiveProcessorCount=2"
        );
        assert_eq!(
            active_count(&format!("JAVA_TOOL_OPTIONS={both}"), ""),
            Some(2)
        );
    }

    #[test]
    fn collectors_are_known_by_their_threads() {
        for (names, said) in [
            (&[][..], "Serial"),
            (&["GC Thread#0", "GC Thread#1"], "Parallel (GC Thread 2)"),
            (
                &[
                    "GC Thread#0",
                    "GC Thread#1",
                    "G1 Main Marker",
                    "G1 Conc#0",
                    "GC Thread#1",
                    "G1 Refine#0",
                ],
                "G1 (G1 Conc 1, G1 Refine 1, GC Thread 2)",
            ),
            (&["ZDriver", "ZWorker#0"], "ZGC (ZWorker 1)"),
            (&["Shenandoah GC T"], "Shenandoah"),
        ] {
            let mut hotspot = Hotspot {
                process: 1,
                told: Told::ByAffinity(2),
                threads: BTreeSet::new(),
            };
            names.iter().for_each(|name| hotspot.has_collector(name));
            assert_eq!(hotspot.to_string(), said);
        }
    }

    #[test]
    fn a_quota_is_rounded_up() {
        let (own, this) = (
            format!("/proc/{}/cgroup", std::process::id()),
            "/proc/self/mountinfo",
        );
        let second = "36 25 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let first = "36 25 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        for (groups, mounts, files, count) in [
            ("0::/a/b\n", second, &[][..], 8),
            (
                "0::/a/b\n",
                second,
                &[("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n")],
                8,
            ),
            // The tightest of all groups around it.
            (
                "0::/a/b\n",
                second,
                &[
                    ("/sys/fs/cgroup/a/b/cpu.max", "500000 100000\n"),
                    ("/sys/fs/cgroup/a/cpu.max", "250000 100000\n"),
                ],
                3,
            ),
            (
                "0::/\n",
                second,
                &[("/sys/fs/cgroup/cpu.max", "1000 100000\n")],
                1,
            ),
            (
                "3:cpu,cpuacct:/a\n",
                first,
                &[
                    ("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n"),
                    ("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
                    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
                    ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
                ],
                2,
            ),
        ] {
            let tree = Tree::new(&[]);
            let write = |path: &str, text: &str| tree.write(path.trim_start_matches('/'), text);
            write(&own, groups);
            write(this, mounts);
            files.iter().for_each(|(path, text)| write(path, text));
            assert_eq!(told(&tree.files(), 8), count, "{groups} {files:?}");
        }
    }
}
