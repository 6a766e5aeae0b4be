//! Which processors the process may use, and to which memory node each belongs.
//!
//! Read from the kernel when asked; only the quota of the control group is remembered, for a second. A machine without nodes
//! has one, number 0.

use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::syscall::call;
use crate::{cgroup, clock, procfs};

/// The most processors that a set can name.
pub const PROCESSORS_MAX: usize = 4096;
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

/// The processors that the calling thread may run on; empty when the kernel does not say.
pub fn allowed_processors() -> ProcessorSet {
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

/// How many threads can really run at once: the allowed processors, or the control group's quota of
/// processor time (`cpu.max`, rounded up) when that is smaller. At least 1. The quota is read again after a second at the
/// earliest: it is asked for at each collection, and lies in a dozen files.
pub fn processors() -> usize {
    let allowed = allowed_processors().count().max(1);
    allowed.min(quota(clock::monotonic_ns()) as usize)
}

/// What was read of the quota, and the time from which on that is too old. Relaxed: a thread that sees the time without the
/// quota takes the one before.
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

/// The processor and the node that the calling thread runs on at this moment.
pub fn current_place() -> (usize, usize) {
    let (mut processor, mut node) = (0u32, 0u32);
    // SAFETY: the kernel fills both numbers.
    let _ = unsafe {
        let places = [&raw mut processor as usize, &raw mut node as usize];
        call(libc::SYS_getcpu, [places[0], places[1], 0, 0, 0, 0])
    };
    (processor as usize, node as usize)
}

/// How many numbers memory nodes have, from 0; at least 1. A machine may leave some out, which then have no
/// processors.
pub fn nodes() -> usize {
    let mut buffer = [0u8; 256];
    let text = procfs::read(c"/sys/devices/system/node/online", &mut buffer);
    text.map_or(1, |text| {
        ProcessorSet::parse(text).iter().last().unwrap_or(0) + 1
    })
}

/// The processors of a memory node. A machine that does not tell has one node with all that are allowed.
pub fn processors_of_node(node: usize) -> ProcessorSet {
    let mut path = Path {
        text: [0; 64],
        length: 0,
    };
    let written = write!(path, "/sys/devices/system/node/node{node}/cpulist\0");
    let path = core::ffi::CStr::from_bytes_until_nul(&path.text);
    let mut buffer = [0u8; 4096];
    match (written, path) {
        (Ok(()), Ok(path)) => match procfs::read(path, &mut buffer) {
            Some(text) => ProcessorSet::parse(text),
            None if node == 0 => allowed_processors(),
            None => ProcessorSet::EMPTY,
        },
        _ => ProcessorSet::EMPTY,
    }
}

/// A short path under construction.
struct Path {
    text: [u8; 64],
    length: usize,
}

impl Write for Path {
    fn write_str(&mut self, part: &str) -> core::fmt::Result {
        let end = self.length + part.len();
        let place = self
            .text
            .get_mut(self.length..end)
            .ok_or(core::fmt::Error)?;
        place.copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_thread_bound_to_one_processor_counts_one() {
        std::thread::spawn(|| {
            let all = allowed_processors();
            assert!(all.count() >= processors() && processors() >= 1);
            let last = all.iter().last().unwrap();
            // SAFETY: binds this thread alone, to a processor it may use.
            unsafe {
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(last, &mut one);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
            }
            assert_eq!(processors(), 1);
            assert_eq!(current_place().0, last);
            assert!(current_place().1 < nodes());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn every_allowed_processor_is_on_some_node() {
        for processor in allowed_processors().iter() {
            let homes = (0..nodes()).filter(|&n| processors_of_node(n).contains(processor));
            assert_eq!(homes.count(), 1);
        }
        assert_eq!(processors_of_node(999_999), ProcessorSet::EMPTY);
    }
}
