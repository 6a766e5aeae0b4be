//! Where the threads of a heap run on a machine with several memory nodes, as the kernel tells it. On a machine with one
//! node they run anywhere; `make test-qemu` boots others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gleaner::{Heap, Pages, Plan, Zeroing};
use gleaner_os::topology::{ProcessorSet, Topology};

/// The threads of this process that the kernel lists. One that was joined may be among them a little longer.
fn threads() -> BTreeSet<PathBuf> {
    let listed = fs::read_dir("/proc/self/task").unwrap();
    listed.map(|thread| thread.unwrap().path()).collect()
}

/// The name of a thread of the heap, which has its starter's until it has run.
fn name_of(thread: &Path) -> String {
    loop {
        let name = fs::read_to_string(thread.join("comm")).unwrap();
        if name.starts_with("gleaner-") {
            return name;
        }
        std::thread::yield_now();
    }
}

/// The processors that each thread of the heap may run on, by its name: of threads that were not listed before it was
/// built. The kernel's list has processors that are offline, too, for a thread that may run anywhere.
fn allowed(before: &BTreeSet<PathBuf>, online: &ProcessorSet) -> BTreeMap<String, ProcessorSet> {
    let mut all = BTreeMap::new();
    for thread in threads().difference(before) {
        let name = name_of(thread);
        if let Some(name) = name.trim().strip_prefix("gleaner-") {
            let status = fs::read_to_string(thread.join("status")).unwrap();
            let list = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            let listed = processors(list.unwrap().trim());
            let able = listed.iter().filter(|&one| online.contains(one));
            all.insert(name.to_string(), able.collect());
        }
    }
    all
}

/// Reads the kernel's list format, such as `0-3,8`.
fn processors(list: &str) -> ProcessorSet {
    let parts = list
        .split(',')
        .map(|part| part.split_once('-').unwrap_or((part, part)));
    let ranges = parts
        .flat_map(|(first, last)| first.parse::<usize>().unwrap()..=last.parse::<usize>().unwrap());
    ranges.collect()
}

#[test]
fn workers_run_on_their_nodes_round_robin_and_zeroing_threads_on_those_of_their_fragments() {
    let topology = Topology::host();
    let all = topology.allowed();
    let homes: Vec<_> = topology
        .usable_nodes()
        .filter(|node| !node.processors.is_empty())
        .collect();
    let with_threads = |plan, pages| {
        let before = threads();
        let builder = Heap::builder()
            .limit(32 << 20)
            .workers(9)
            .crew(gleaner::Crew::All)
            .plan(plan)
            .pages(pages);
        let heap = builder
            .zeroing(Zeroing::Concurrent)
            .ignore_environment()
            .build()
            .unwrap();
        let seen = allowed(&before, &all);
        heap.close().unwrap();
        seen
    };
    for (plan, pages) in [
        (Plan::Naps, Pages::Auto),
        (Plan::Scavenge, Pages::Interleaved),
        (Plan::Scavenge, Pages::Segregated),
        (Plan::Scavenge, Pages::Auto),
    ] {
        let seen = with_threads(plan, pages);
        let is_placed = topology.nodes() > 1 && (plan, pages) != (Plan::Scavenge, Pages::Auto);
        for worker in 1..9 {
            let home = &homes[worker % homes.len()];
            let expected = if is_placed { home.processors } else { all };
            assert_eq!(seen[&worker.to_string()], expected, "worker {worker}");
        }
        let fragments = match pages {
            Pages::Interleaved => 1,
            _ if is_placed => topology.nodes(),
            _ => 1,
        };
        for node in 0..fragments {
            let own = topology.processors_of_node(node);
            let expected = if is_placed && !own.is_empty() {
                own
            } else {
                all
            };
            assert_eq!(
                seen[&format!("zero-{}", node + 1)],
                expected,
                "zeroing thread {node}"
            );
        }
        assert!(!seen.contains_key(&format!("zero-{}", fragments + 1)));
    }
}
