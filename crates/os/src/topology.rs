//! The machine as a heap sees it: which processors its threads may use, and to which memory node each belongs.
//!
//! A [`Topology`] is a value that a heap is set up with. That of the host asks the kernel; only the number of
//! processors is kept until [`Topology::refresh`], and the quota of the control group for a second. A synthetic one is
//! the same on every machine, so that what depends on processors and nodes can be tested. A machine without nodes has
//! one, number 0.

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};

use gleaner_base::events::LineBuffer;
use gleaner_base::options::{MOST_PROCESSORS, Machine};

use crate::syscall::call;
use crate::{cgroup, clock, procfs};

/// The most processors that a set can name.
pub const PROCESSORS_MAX: usize = MOST_PROCESSORS;
const WORDS: usize = PROCESSORS_MAX / 64;

/// A set of processor numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProcessorSet([u64; WORDS]);

impl core::fmt::Debug for ProcessorSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl ProcessorSet {
    /// The set without members.
    pub const EMPTY: ProcessorSet = ProcessorSet([0; WORDS]);

    /// The processors from `first` up to and without `end`; numbers that a set cannot name are left out.
    pub fn range(first: usize, end: usize) -> ProcessorSet {
        let mut set = ProcessorSet::EMPTY;
        (first..end.min(PROCESSORS_MAX)).for_each(|processor| set.insert(processor));
        set
    }

    /// How many processors it names.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it names `processor`.
    pub fn contains(&self, processor: usize) -> bool {
        processor < PROCESSORS_MAX && self.0[processor / 64] >> (processor % 64) & 1 == 1
    }

    /// Adds a processor; numbers that a set cannot name are left out.
    pub fn insert(&mut self, processor: usize) {
        if processor < PROCESSORS_MAX {
            self.0[processor / 64] |= 1 << (processor % 64);
        }
    }

    /// The members, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..PROCESSORS_MAX).filter(|&processor| self.contains(processor))
    }

    /// A bit for each processor, as the kernel has it.
    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    /// Reads the kernel's list format, such as `0-3,8`.
    fn parse(text: &[u8]) -> ProcessorSet {
        let mut set = ProcessorSet::EMPTY;
        for part in text.trim_ascii().split(|&b| b == b',') {
            let Some(first) = procfs::number(part) else {
                continue;
            };
            let last = part
                .iter()
                .position(|&b| b == b'-')
                .and_then(|dash| procfs::number(&part[dash + 1..]))
                .unwrap_or(first);
            for processor in first..=last.min(PROCESSORS_MAX as u64) {
                set.insert(processor as usize);
            }
        }
        set
    }
}

/// Processors and memory nodes.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    source: Source,
    /// How many threads can really run at once, as of the last [`Topology::refresh`]; at least 1.
    pub processors: usize,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// The machine that this runs on, as far as the process may use it.
    Host,
    /// So many nodes, each with so many processors; both are numbered from 0, the processors node after node.
    Synthetic {
        nodes: usize,
        processors_of_each: usize,
    },
}

/// Where a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the processor.
    pub processor: usize,
    /// The number of its memory node.
    pub node: usize,
}

impl Topology {
    /// That of the machine that the options name.
    pub fn of(machine: Machine) -> Topology {
        match machine {
            Machine::Host => Topology::host(),
            Machine::Synthetic(it) => Topology::synthetic(it.nodes(), it.processors_of_each()),
        }
    }

    /// That of the machine, as the calling thread may use it now.
    pub fn host() -> Topology {
        Topology {
            source: Source::Host,
            processors: host_processors(),
        }
    }

    /// One of `nodes` memory nodes, at least 1, with `processors_of_each`, at least 1, and [`PROCESSORS_MAX`] together
    /// at most.
    pub const fn synthetic(nodes: usize, processors_of_each: usize) -> Topology {
        let processors = nodes * processors_of_each;
        assert!(0 < processors && processors <= PROCESSORS_MAX);
        Topology {
            source: Source::Synthetic {
                nodes,
                processors_of_each,
            },
            processors,
        }
    }

    /// Asks anew how many processors there are: the limits of a process change while it runs. Gives the number.
    pub fn refresh(&mut self) -> usize {
        if let Source::Host = self.source {
            self.processors = host_processors();
        }
        self.processors
    }

    /// The processors that the calling thread may run on; empty when the kernel does not say.
    pub fn allowed(&self) -> ProcessorSet {
        match self.source {
            Source::Host => allowed_processors(),
            Source::Synthetic { .. } => ProcessorSet::range(0, self.processors),
        }
    }

    /// How many numbers memory nodes have, from 0; at least 1. A machine may leave some out, which then have no
    /// processors.
    pub fn nodes(&self) -> usize {
        match self.source {
            Source::Host => host_nodes(),
            Source::Synthetic { nodes, .. } => nodes,
        }
    }

    /// The processors of a memory node, also those that the process may not use. A machine that does not tell has one
    /// node with all that are allowed.
    pub fn processors_of_node(&self, node: usize) -> ProcessorSet {
        match self.source {
            Source::Host => host_processors_of_node(node),
            Source::Synthetic {
                nodes,
                processors_of_each,
            } if node < nodes => {
                ProcessorSet::range(node * processors_of_each, (node + 1) * processors_of_each)
            }
            Source::Synthetic { .. } => ProcessorSet::EMPTY,
        }
    }

    /// Where the calling thread runs at this moment. The machine's processors take turns in standing for those of a
    /// synthetic one.
    pub fn place(&self) -> Place {
        let host = host_place();
        match self.source {
            Source::Host => host,
            Source::Synthetic {
                processors_of_each, ..
            } => {
                let processor = host.processor % self.processors;
                Place {
                    processor,
                    node: processor / processors_of_each,
                }
            }
        }
    }
}

/// The processors that the calling thread may run on; empty when the kernel does not say.
pub(crate) fn allowed_processors() -> ProcessorSet {
    let mut set = ProcessorSet::EMPTY;
    let bytes = size_of_val(&set.0);
    // SAFETY: the kernel fills at most the bytes given.
    let _ = unsafe {
        call(
            libc::SYS_sched_getaffinity,
            [0, bytes, set.0.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    set
}

/// The allowed processors, or the control group's quota of processor time (`cpu.max`, rounded up) when that is smaller.
/// At least 1. The quota is read again after a second at the earliest: it is asked for at each collection, and lies in
/// a dozen files.
fn host_processors() -> usize {
    let allowed = allowed_processors().count().max(1);
    allowed.min(quota(clock::monotonic_ns()) as usize)
}

/// What was read of the quota, and the time from which on that is too old. Relaxed: a thread that sees the time without
/// the quota takes the one before.
static QUOTA: AtomicU64 = AtomicU64::new(u64::MAX);
static QUOTA_ENDS: AtomicU64 = AtomicU64::new(0);
const QUOTA_LASTS_NS: u64 = 1_000_000_000;

fn quota(now: u64) -> u64 {
    if now >= QUOTA_ENDS.load(Ordering::Relaxed) {
        let limit = cgroup::processor_limit().unwrap_or(u64::MAX);
        QUOTA.store(limit, Ordering::Relaxed);
        QUOTA_ENDS.store(now.saturating_add(QUOTA_LASTS_NS), Ordering::Relaxed);
    }
    QUOTA.load(Ordering::Relaxed)
}

/// Where the calling thread runs.
fn host_place() -> Place {
    let (mut processor, mut node) = (0u32, 0u32);
    // SAFETY: the kernel fills both numbers.
    let _ = unsafe {
        let places = [&raw mut processor as usize, &raw mut node as usize];
        call(libc::SYS_getcpu, [places[0], places[1], 0, 0, 0, 0])
    };
    Place {
        processor: processor as usize,
        node: node as usize,
    }
}

fn host_nodes() -> usize {
    let mut buffer = [0u8; 256];
    let text = procfs::read(c"/sys/devices/system/node/online", &mut buffer);
    text.map_or(1, |text| {
        ProcessorSet::parse(text).iter().last().unwrap_or(0) + 1
    })
}

fn host_processors_of_node(node: usize) -> ProcessorSet {
    let mut path = LineBuffer::<64>::new();
    // A buffer that truncates takes everything; without its zero the path is none.
    let _ = write!(path, "/sys/devices/system/node/node{node}/cpulist\0");
    let Ok(path) = CStr::from_bytes_until_nul(path.as_bytes()) else {
        return ProcessorSet::EMPTY;
    };
    let mut buffer = [0u8; 4096];
    match procfs::read(path, &mut buffer) {
        Some(text) => ProcessorSet::parse(text),
        None if node == 0 => allowed_processors(),
        None => ProcessorSet::EMPTY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gleaner_base::options::Options;

    #[test]
    fn lists_are_read() {
        let members = |text: &[u8]| ProcessorSet::parse(text).iter().collect::<Vec<_>>();
        assert_eq!(members(b"0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(members(b"7"), [7]);
        assert_eq!(members(b"\n"), [0usize; 0]);
        assert_eq!(members(b"4094-99999999"), [4094, 4095]);
        assert_eq!(format!("{:?}", ProcessorSet::parse(b"1-2")), "{1, 2}");
        let mut set = ProcessorSet::EMPTY;
        set.insert(PROCESSORS_MAX);
        assert_eq!(set.count(), 0);
        assert!(!set.contains(PROCESSORS_MAX));
    }

    #[test]
    fn a_thread_bound_to_one_processor_counts_one_when_it_asks_anew() {
        let mut topology = Topology::host();
        std::thread::spawn(move || {
            let (all, before) = (topology.allowed(), topology.processors);
            assert!(all.count() >= before && before >= 1);
            let last = all.iter().last().unwrap();
            // SAFETY: binds this thread alone, to a processor it may use.
            unsafe {
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(last, &mut one);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
            }
            assert_eq!(topology.processors, before);
            assert_eq!((topology.refresh(), topology.processors), (1, 1));
            assert_eq!(topology.allowed(), ProcessorSet::range(last, last + 1));
            let place = topology.place();
            assert_eq!(place.processor, last);
            assert!(topology.processors_of_node(place.node).contains(last));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn every_allowed_processor_is_on_some_node() {
        let topology = Topology::host();
        for processor in topology.allowed().iter() {
            let is_home = |node: &usize| topology.processors_of_node(*node).contains(processor);
            assert_eq!((0..topology.nodes()).filter(is_home).count(), 1);
        }
        assert_eq!(topology.processors_of_node(999_999), ProcessorSet::EMPTY);
    }

    #[test]
    fn an_option_names_the_machine() {
        let named = |text| {
            let mut options = Options::DEFAULT;
            options.set("topology", text).unwrap();
            Topology::of(options.topology)
        };
        let machine = named("node:3 core:2 pu:2");
        assert_eq!((machine.nodes(), machine.processors), (3, 12));
        assert_eq!(machine.processors_of_node(2), ProcessorSet::range(8, 12));
        assert_eq!(named("host").allowed(), Topology::host().allowed());
    }

    #[test]
    fn a_synthetic_machine_is_what_it_is_said_to_be() {
        let mut topology = Topology::synthetic(3, 4);
        assert_eq!((topology.refresh(), topology.nodes()), (12, 3));
        assert_eq!(topology.allowed(), ProcessorSet::parse(b"0-11"));
        assert_eq!(topology.processors_of_node(1), ProcessorSet::parse(b"4-7"));
        assert_eq!(topology.processors_of_node(3), ProcessorSet::EMPTY);
        let Place { processor, node } = topology.place();
        assert!(topology.processors_of_node(node).contains(processor));
    }
}
