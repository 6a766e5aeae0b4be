//! Limits that control groups put on the process: memory and processor time.
//!
//! The limits of a group hold for its children too, so the smallest on the way up to the root counts. Version 2 has one
//! hierarchy; version 1 has one for each controller, or for several together, and both versions may be there at once.
//! In a container the group's path may name directories of the host that it does not see: then what it sees as the root
//! is its own group. Files that are missing or unreadable mean no limit.

use crate::procfs;
use core::ffi::CStr;

const ROOT: &[u8] = b"/sys/fs/cgroup";
/// Where version 2 is mounted beside version 1.
const BESIDE: &[u8] = b"/unified";
/// The text of all groups of a process. Version 1 has a dozen lines.
const LONGEST: usize = 4096;

/// The smallest memory limit from this process's groups to the roots, in bytes.
pub fn memory_limit() -> Option<u64> {
    let mut buffer = [0u8; LONGEST];
    memory_limit_of(ROOT, groups(&mut buffer)?)
}

/// What the memory limits from this process's groups to the roots leave, in bytes.
pub fn memory_left() -> Option<u64> {
    let mut buffer = [0u8; LONGEST];
    memory_left_of(ROOT, groups(&mut buffer)?)
}

/// The smallest processor quota from this process's groups to the roots, in whole processors, rounded up.
pub fn processor_limit() -> Option<u64> {
    let mut buffer = [0u8; LONGEST];
    processor_limit_of(ROOT, groups(&mut buffer)?)
}

fn groups(buffer: &mut [u8]) -> Option<&[u8]> {
    procfs::read(c"/proc/self/cgroup", buffer)
}

/// `groups` is as `/proc/self/cgroup`, and the hierarchies are mounted below `root`.
fn memory_limit_of(root: &[u8], groups: &[u8]) -> Option<u64> {
    smallest(root, groups, b"memory", |directory| {
        least(
            number_in(directory, b"/memory.max"),
            number_in(directory, b"/memory.limit_in_bytes"),
        )
    })
}

fn memory_left_of(root: &[u8], groups: &[u8]) -> Option<u64> {
    smallest(root, groups, b"memory", |directory| {
        let left = |limit: &[u8], used: &[u8]| {
            let limit = number_in(directory, limit)?;
            Some(limit.saturating_sub(number_in(directory, used)?))
        };
        least(
            left(b"/memory.max", b"/memory.current"),
            left(b"/memory.limit_in_bytes", b"/memory.usage_in_bytes"),
        )
    })
}

fn processor_limit_of(root: &[u8], groups: &[u8]) -> Option<u64> {
    smallest(root, groups, b"cpu", |directory| {
        let mut buffer = [0u8; 64];
        let file = Path::of(&[directory, b"/cpu.max"]);
        let unified = file.and_then(|file| quota(procfs::read(file.c(), &mut buffer)?));
        let share = number_in(directory, b"/cpu.cfs_quota_us");
        let period = number_in(directory, b"/cpu.cfs_period_us");
        least(unified, share.zip(period).and_then(processors))
    })
}

/// Asks `limit` of each directory of the process's groups that may limit what `controller` is about.
fn smallest(
    root: &[u8],
    groups: &[u8],
    controller: &[u8],
    limit: impl Fn(&[u8]) -> Option<u64>,
) -> Option<u64> {
    let mut found = None;
    for line in groups.split(|&b| b == b'\n') {
        // Number of the hierarchy, its controllers, the group.
        let mut parts = line.splitn(3, |&b| b == b':');
        let (Some(number), Some(names), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        if number == b"0" && names.is_empty() {
            found = least(found, smallest_below(&[root], group, &limit));
            found = least(found, smallest_below(&[root, BESIDE], group, &limit));
        } else if names.split(|&b| b == b',').any(|name| name == controller) {
            // Mounted by the names of all its controllers, with a link for each of them.
            let all = smallest_below(&[root, b"/", names], group, &limit);
            let own = smallest_below(&[root, b"/", controller], group, &limit);
            found = least(found, least(all, own));
        }
    }
    found
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Asks every group from `group` up to the root of the hierarchy.
fn smallest_below(
    root: &[&[u8]],
    group: &[u8],
    limit: &impl Fn(&[u8]) -> Option<u64>,
) -> Option<u64> {
    let root = Path::of(root)?;
    let mut group = group.strip_suffix(b"/").unwrap_or(group);
    let mut found = None;
    loop {
        let directory = Path::of(&[root.text(), group]);
        found = least(found, directory.and_then(|path| limit(path.text())));
        let Some(parent) = group.iter().rposition(|&b| b == b'/') else {
            return found;
        };
        group = &group[..parent];
    }
}

fn number_in(directory: &[u8], file: &[u8]) -> Option<u64> {
    let mut buffer = [0u8; 64];
    let path = Path::of(&[directory, file])?;
    procfs::number(procfs::read(path.c(), &mut buffer)?)
}

/// A path without allocation.
struct Path {
    bytes: [u8; 1024],
    length: usize,
}

impl Path {
    /// The parts one after the other, unless that is too long.
    fn of(parts: &[&[u8]]) -> Option<Path> {
        let mut path = Path {
            bytes: [0; 1024],
            length: 0,
        };
        for part in parts {
            let end = path.length + part.len();
            // The last byte stays zero.
            path.bytes[..1023]
                .get_mut(path.length..end)?
                .copy_from_slice(part);
            path.length = end;
        }
        Some(path)
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn c(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// `"50000 100000"` is half a processor; `"max 100000"` is no limit.
fn quota(text: &[u8]) -> Option<u64> {
    let space = text.iter().position(|&b| b == b' ')?;
    let (share, period) = (
        procfs::number(&text[..space])?,
        procfs::number(&text[space..])?,
    );
    processors((share, period))
}

fn processors((share, period): (u64, u64)) -> Option<u64> {
    (period > 0).then(|| share.div_ceil(period).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_rounded_up() {
        assert_eq!(quota(b"max 100000\n"), None);
        assert_eq!(quota(b"50000 100000\n"), Some(1));
        assert_eq!(quota(b"250000 100000\n"), Some(3));
        assert_eq!(quota(b"1 0\n"), None);
        assert_eq!(quota(b"12"), None);
    }

    /// A tree of files below a directory of its own.
    struct Tree(std::path::PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let name = format!("gleaner-cgroup-{}-{name}", std::process::id());
            let tree = Tree(std::env::temp_dir().join(name));
            for (path, text) in files {
                let path = tree.0.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            tree
        }

        fn memory(&self, groups: &str) -> Option<u64> {
            memory_limit_of(self.0.to_str().unwrap().as_bytes(), groups.as_bytes())
        }

        fn processors(&self, groups: &str) -> Option<u64> {
            processor_limit_of(self.0.to_str().unwrap().as_bytes(), groups.as_bytes())
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let tree = Tree::new(
            "2",
            &[
                ("memory.max", "900\n"),
                ("a/memory.max", "500\n"),
                ("a/b/memory.max", "max\n"),
                ("a/cpu.max", "150000 100000\n"),
            ],
        );
        assert_eq!(tree.memory("0::/a/b\n"), Some(500));
        assert_eq!(tree.memory("0::/a\n"), Some(500));
        assert_eq!(tree.memory("0::/\n"), Some(900));
        assert_eq!(tree.memory("0::/elsewhere\n"), Some(900));
        assert_eq!(tree.memory("1:name=systemd:/\n"), None);
        assert_eq!(tree.processors("0::/a/b\n"), Some(2));
        assert_eq!(tree.processors("0::/\n"), None);
        std::fs::remove_file(tree.0.join("memory.max")).unwrap();
        assert_eq!(tree.memory("0::/\n"), None);
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let unlimited = "9223372036854771712\n";
        let tree = Tree::new(
            "1",
            &[
                ("memory/memory.limit_in_bytes", unlimited),
                ("memory/docker/memory.limit_in_bytes", "7000\n"),
                ("memory/docker/one/memory.limit_in_bytes", "8000\n"),
                ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
                ("cpu,cpuacct/docker/cpu.cfs_quota_us", "250000\n"),
                ("cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n"),
                ("unified/docker/memory.max", "6000\n"),
            ],
        );
        let groups =
            "12:cpu,cpuacct:/docker/one\n9:name=systemd:/docker/one\n4:memory:/docker/one\n";
        assert_eq!(tree.memory(groups), Some(7000));
        assert_eq!(tree.processors(groups), Some(3));
        assert_eq!(tree.memory("4:memory:/\n"), Some(9_223_372_036_854_771_712));
        assert_eq!(tree.processors("12:cpu,cpuacct:/\n"), None);
        assert_eq!(tree.processors("11:cpuset:/docker\n"), None);
        let both = "4:memory:/docker/one\n0::/docker/one\n";
        assert_eq!(tree.memory(both), Some(6000));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let tree = Tree::new(
            "inner",
            &[
                ("memory/memory.limit_in_bytes", "5000\n"),
                ("cpu/cpu.cfs_quota_us", "50000\n"),
                ("cpu/cpu.cfs_period_us", "100000\n"),
            ],
        );
        assert_eq!(tree.memory("4:memory:/docker/of/the/host\n"), Some(5000));
        assert_eq!(tree.processors("1:cpu:/docker/of/the/host\n"), Some(1));
    }
}
