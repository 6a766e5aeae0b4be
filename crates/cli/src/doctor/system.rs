//! What of the environment and of the system a heap will meet.

use std::ffi::OsStr;
use std::path::Path;

use gleaner_os::topology::Topology;
use gleaner_os::{cgroup, memory, threads, written};
use rustix::process::{Resource, getrlimit};

use super::{Finding, Mark};
use crate::launch;
use crate::words;

/// What libgc's own variables begin with.
const OF_LIBGC: &str = "GC_";

/// Settings that the program will see: libgc's variables, and what else is preloaded.
pub(super) fn look_at_environment(library: Option<&Path>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut set: Vec<_> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(OF_LIBGC))
        .map(|(name, value)| format!("{name}={}", value.to_string_lossy()))
        .collect();
    set.sort();
    if !set.is_empty() {
        let text = format!("libgc's own variables count, too: {}", set.join(" "));
        findings.push(Finding::new(Mark::Note, "options", text));
    }
    let list = std::env::var_os(launch::PRELOAD).unwrap_or_default();
    let others = launch::others(library.unwrap_or(Path::new("")), &list);
    if !others.is_empty() {
        let text = format!(
            "{} is preloaded behind Gleaner's library",
            others.join(OsStr::new(" ")).to_string_lossy()
        );
        findings.push(Finding::new(Mark::Note, "preload", text));
    }
    findings
}

/// Memory, addresses, mappings, processors, and whether written pages can be watched.
pub(super) fn look_at_limits() -> Vec<Finding> {
    let (have, limit) = (memory::physical_memory(), cgroup::memory_limit());
    let mut findings = vec![match limit {
        Some(limit) if limit <= have => Finding::new(
            Mark::Note,
            "memory",
            format!("{}, which the control group allows", words::size(limit)),
        ),
        _ => Finding::new(Mark::Fine, "memory", words::size(have)),
    }];
    findings.extend(look_at_resources());
    let processors = Topology::host().refresh() as u64;
    findings.push(match processors {
        1 => Finding::new(
            Mark::Note,
            "processor",
            "one may be used, so the thread that collects marks alone, and nothing runs beside the program",
        ),
        _ => Finding::new(
            Mark::Fine,
            "processor",
            format!("{processors} may be used, and as many threads mark, up to 16"),
        ),
    });
    findings.push(match written::available() {
        Ok(_) if threads::is_filtered() => Finding::new(
            Mark::Note,
            "writes",
            "the kernel tells which pages were written, but a filter of system calls (seccomp) is in force: a program that \
             does not ask for it is collected as with generations=none",
        ),
        Ok(mechanism) => Finding::new(
            Mark::Fine,
            "writes",
            format!(
                "the kernel tells which pages were written ({}): option generations works",
                mechanism.as_str()
            ),
        ),
        Err(unavailable) => Finding::new(
            Mark::Note,
            "writes",
            format!(
                "the kernel does not tell which pages were written, so option generations collects everything each \
                 time ({unavailable})"
            ),
        ),
    });
    findings
}

/// Limits of the process and of the kernel that leave less than usual.
fn look_at_resources() -> Vec<Finding> {
    let mut texts = Vec::new();
    if let Some(bytes) = getrlimit(Resource::As).current {
        texts.push(format!(
            "{} of addresses may be used (ulimit -v): the heap reserves a part of that, and grows in pieces",
            words::size(bytes)
        ));
    }
    if let Some(bytes) = getrlimit(Resource::Data).current {
        texts.push(format!(
            "{} of data may be used (ulimit -d), the heap included",
            words::size(bytes)
        ));
    }
    if let Ok(mode) = std::fs::read_to_string("/proc/sys/vm/overcommit_memory")
        && mode.trim() == "2"
    {
        texts.push(
            "the kernel promises no more memory than it has (vm.overcommit_memory=2): the heap may be full sooner"
                .into(),
        );
    }
    let mappings = memory::most_mappings();
    if mappings < memory::USUAL_MAPPINGS {
        texts.push(format!(
            "{mappings} mappings may be made (vm.max_map_count), of {} that are usual",
            memory::USUAL_MAPPINGS
        ));
    }
    texts
        .into_iter()
        .map(|text| Finding::new(Mark::Note, "limit", text))
        .collect()
}
