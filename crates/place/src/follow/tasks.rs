//! Threads as the kernel lists them, and where it lets them run.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::CpuSet;

use crate::Processors;

/// The links of a process's task directory, which has two more than the process has threads.
pub(crate) fn links(process: u32) -> Option<u64> {
    let found = fs::metadata(format!("/proc/{process}/task")).ok()?;
    Some(found.nlink())
}

/// The numbers that name entries of a directory, as they are read, and `None` for other entries.
#[derive(Debug)]
pub(crate) struct Numbers(fs::ReadDir);

impl Numbers {
    /// None where there is no such directory.
    pub(crate) fn of(directory: &str) -> Option<Numbers> {
        fs::read_dir(directory).ok().map(Numbers)
    }

    /// The threads of a process.
    pub(crate) fn of_threads(process: u32) -> Option<Numbers> {
        Numbers::of(&format!("/proc/{process}/task"))
    }
}

impl Iterator for Numbers {
    type Item = Option<u32>;

    fn next(&mut self) -> Option<Option<u32>> {
        let entry = self.0.next()?.ok()?;
        Some(
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok()),
        )
    }
}

/// The threads of a process.
pub(crate) fn tasks(process: u32) -> Vec<u32> {
    let numbers = Numbers::of_threads(process);
    numbers.into_iter().flatten().flatten().collect()
}

fn pid(thread: u32) -> Result<Pid, Errno> {
    let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
    thread.ok_or(Errno::SRCH)
}

/// Where the kernel lets a thread run.
pub(crate) fn affinity(thread: u32) -> Result<CpuSet, Errno> {
    rustix::thread::sched_getaffinity(Some(pid(thread)?))
}

pub(crate) fn set_affinity(thread: u32, set: &CpuSet) -> Result<(), Errno> {
    rustix::thread::sched_setaffinity(Some(pid(thread)?), set)
}

/// Does something, as to start a process, while the calling thread may run on `processors` alone, which new processes and
/// threads inherit. Where the kernel refuses, it is done on the processors of before.
pub fn confined<T>(processors: &Processors, act: impl FnOnce() -> T) -> T {
    let before = rustix::thread::sched_getaffinity(None);
    let _ = rustix::thread::sched_setaffinity(None, &set_of(processors));
    let done = act();
    if let Ok(before) = before {
        let _ = rustix::thread::sched_setaffinity(None, &before);
    }
    done
}

pub(crate) fn set_of(processors: &Processors) -> CpuSet {
    let mut set = CpuSet::new();
    processors.iter().for_each(|number| set.set(number));
    set
}

pub(crate) fn processors_of(set: &CpuSet) -> Processors {
    (0..CpuSet::MAX_CPU)
        .filter(|&number| set.is_set(number))
        .collect()
}
