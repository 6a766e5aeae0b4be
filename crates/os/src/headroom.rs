//! What the memory limits of the process's control groups leave it.
//!
//! The files that say so are opened once, when the process starts, and read by their descriptors from then on: no path is
//! looked up later, which a filter of system calls may forbid by then. Only groups are kept that have a limit below the
//! machine's memory, so most processes keep no file at all, and no limit that is set later where there was none is seen;
//! one that is changed is. A descriptor that the program has closed, and perhaps used again, tells by its file's number.
//!
//! What counts: `memory.max` and `memory.high` (version 2), `memory.limit_in_bytes` (version 1), of the group and of those
//! around it. Beyond `memory.high` a process is slowed down until it hardly runs, which a heap has to avoid as well. Limits
//! on swapped memory do not count, nor does swap: a program is to collect before it swaps. The group's files in the page
//! cache are charged to it, but the kernel takes them back first, so those that were not used lately count as left, and
//! half of the others.
//!
//! No allocation, no lock; where it is not said otherwise, any state of the world.

use crate::cgroup::{Path, Version, for_each_directory, least, number_in};
use crate::kept_file::Kept;
use crate::{memory, procfs};

/// Groups with limits that are kept: more of them lie one in another rarely.
const MOST: usize = 4;

/// The limits that were there at the start.
pub struct Headroom {
    levels: [Level; MOST],
    count: usize,
}

/// The files of a group, in any version.
#[derive(Clone, Copy)]
struct Level {
    limits: [Kept; 2],
    used: Kept,
    statistics: Kept,
}

/// Names of the files of a [`Level`].
const fn names(version: Version) -> [&'static [u8]; 4] {
    match version {
        Version::One => [
            b"/memory.limit_in_bytes",
            b"",
            b"/memory.usage_in_bytes",
            b"/memory.stat",
        ],
        Version::Two => [
            b"/memory.max",
            b"/memory.high",
            b"/memory.current",
            b"/memory.stat",
        ],
    }
}

impl Headroom {
    /// No limits.
    pub const NONE: Headroom = Headroom {
        levels: [Level::NONE; MOST],
        count: 0,
    };

    /// Finds the limits. Wants some kilobytes of stack, and opens files.
    pub fn find() -> Headroom {
        Headroom::below(b"", memory::machine_memory())
    }

    /// Finds the limits below the directory `root`, on a machine with `machine` bytes of memory.
    pub fn below(root: &[u8], machine: u64) -> Headroom {
        let mut found = Headroom::NONE;
        for_each_directory(root, b"memory", |version, directory| {
            if found.count < MOST
                && let Some(level) = Level::open(directory, names(version), machine)
            {
                let known = &found.levels[..found.count];
                if known.iter().any(|it| it.used.is(&level.used)) {
                    return level.close();
                }
                found.levels[found.count] = level;
                found.count += 1;
            }
        });
        found
    }

    /// Whether there is a limit to be asked.
    pub fn is_limited(&self) -> bool {
        self.count > 0
    }

    /// Bytes that the limits leave; `None` where there is none, or its files cannot be read any more. An answer of `enough`
    /// or more may be too small: what the kernel can take back is looked for only where less seems to be left.
    pub fn left(&self, enough: u64) -> Option<u64> {
        let mut left = None;
        for level in &self.levels[..self.count] {
            left = least(left, level.left(enough));
        }
        left
    }

    /// Closes the files.
    pub fn close(&mut self) {
        for level in &self.levels[..self.count] {
            level.close();
        }
        self.count = 0;
    }
}

impl Level {
    const NONE: Level = Level {
        limits: [Kept::NONE; 2],
        used: Kept::NONE,
        statistics: Kept::NONE,
    };

    /// The files in a directory, if they say of a limit below the machine's memory.
    fn open(directory: &[u8], names: [&[u8]; 4], machine: u64) -> Option<Level> {
        let [most, high, used, statistics] = names;
        let number = |name: &[u8]| match name {
            b"" => None,
            name => number_in(directory, name),
        };
        let limit = least(number(most), number(high));
        limit.filter(|&limit| limit < machine).map(|_| Level {
            limits: [keep(directory, most), keep(directory, high)],
            used: keep(directory, used),
            statistics: keep(directory, statistics),
        })
    }

    fn limit(&self) -> Option<u64> {
        let [most, high] = &self.limits;
        least(most.number(), high.number())
    }

    fn left(&self, enough: u64) -> Option<u64> {
        let used = self.used.number()?;
        // One that was there and was lifted is more than anybody needs.
        let limit = self.limit().unwrap_or(u64::MAX);
        let left = limit.saturating_sub(used);
        if left >= enough {
            return Some(left);
        }
        let cached = self.reclaimable().min(used);
        Some(limit.saturating_sub(used - cached))
    }

    /// Bytes of the page cache that the kernel takes back before it refuses memory.
    fn reclaimable(&self) -> u64 {
        // Version 1 says what is in the group itself before it says what is in its children, too.
        let mut buffer = [0u8; 3072];
        let text = self.statistics.read(&mut buffer).unwrap_or(b"");
        let of = |with_children: &[u8], label: &[u8]| {
            let mut lines = text.split(|&b| b == b'\n');
            let all = lines.find_map(|line| procfs::labelled(line, with_children));
            let mut lines = text.split(|&b| b == b'\n');
            all.or_else(|| lines.find_map(|line| procfs::labelled(line, label)))
                .unwrap_or(0)
        };
        let inactive = of(b"total_inactive_file ", b"inactive_file ");
        let active = of(b"total_active_file ", b"active_file ");
        inactive.saturating_add(active / 2)
    }

    fn close(&self) {
        for file in self.limits.iter().chain([&self.used, &self.statistics]) {
            file.close();
        }
    }
}

/// No file, where there is none of that name.
fn keep(directory: &[u8], name: &[u8]) -> Kept {
    let path = match name {
        b"" => None,
        name => Path::of(&[directory, name]),
    };
    path.map_or(Kept::NONE, |path| Kept::open(path.c()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::test_tree::Tree;

    const MACHINE: u64 = 1 << 40;
    const MOUNTS: &str = "30 23 0:26 / /cgroup rw shared:4 - cgroup2 cgroup2 rw\n\
                          33 31 0:30 / /memory rw - cgroup cgroup rw,memory\n";

    fn tree(name: &str, groups: &str, files: &[(&str, &str)]) -> Tree {
        let tree = Tree::new(name, files);
        tree.write("proc/self/mountinfo", MOUNTS);
        tree.write("proc/self/cgroup", groups);
        tree
    }

    fn found(tree: &Tree) -> Headroom {
        Headroom::below(tree.root(), MACHINE)
    }

    #[test]
    fn nested_groups_leave_the_least_of_all() {
        let tree = tree(
            "headroom-2",
            "0::/a/b\n",
            &[
                ("cgroup/a/memory.max", "1000\n"),
                ("cgroup/a/memory.high", "max\n"),
                ("cgroup/a/memory.current", "100\n"),
                ("cgroup/a/b/memory.max", "max\n"),
                ("cgroup/a/b/memory.high", "700\n"),
                ("cgroup/a/b/memory.current", "50\n"),
            ],
        );
        let mut headroom = found(&tree);
        assert_eq!(headroom.count, 2);
        assert_eq!(headroom.left(0), Some(650));
        // The files are read anew, and limits change.
        tree.write("cgroup/a/memory.current", "900\n");
        assert_eq!(headroom.left(0), Some(100));
        tree.write("cgroup/a/memory.current", "1200\n");
        assert_eq!(headroom.left(0), Some(0));
        tree.write("cgroup/a/memory.max", "max\n");
        assert_eq!(headroom.left(0), Some(650));
        tree.write("cgroup/a/b/memory.high", "60\n");
        assert_eq!(headroom.left(0), Some(10));
        headroom.close();
        assert_eq!((headroom.is_limited(), headroom.left(0)), (false, None));
    }

    #[test]
    fn what_the_kernel_can_take_back_is_left() {
        let tree = tree(
            "headroom-cache",
            "0::/a\n",
            &[
                ("cgroup/a/memory.max", "1000\n"),
                ("cgroup/a/memory.current", "900\n"),
                (
                    "cgroup/a/memory.stat",
                    "anon 200\nfile 700\ninactive_file 300\nactive_file 200\n",
                ),
            ],
        );
        let headroom = found(&tree);
        assert_eq!(headroom.left(100), Some(100), "no need to look");
        assert_eq!(headroom.left(101), Some(500));
    }

    #[test]
    fn no_more_is_taken_back_than_is_used() {
        let tree = tree(
            "headroom-shared",
            "0::/a\n",
            &[
                ("cgroup/a/memory.max", "1000\n"),
                ("cgroup/a/memory.current", "900\n"),
                ("cgroup/a/memory.stat", "inactive_file 5000\n"),
            ],
        );
        assert_eq!(found(&tree).left(u64::MAX), Some(1000));
    }

    #[test]
    fn version_1_has_other_names() {
        let tree = tree(
            "headroom-1",
            "4:memory:/one\n0::/\n",
            &[
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/memory.usage_in_bytes", "5000\n"),
                ("memory/one/memory.limit_in_bytes", "4000\n"),
                ("memory/one/memory.usage_in_bytes", "3000\n"),
                (
                    "memory/one/memory.stat",
                    "active_file 1\ninactive_file 2\ntotal_inactive_file 20\ntotal_active_file 100\n",
                ),
            ],
        );
        let headroom = found(&tree);
        assert_eq!(headroom.count, 1, "the machine's is no limit");
        assert_eq!(headroom.left(0), Some(1000));
        assert_eq!(headroom.left(u64::MAX), Some(1070));
    }

    #[test]
    fn a_descriptor_that_was_closed_or_is_anothers_is_not_believed() {
        let tree = tree(
            "headroom-closed",
            "0::/a\n",
            &[
                ("cgroup/a/memory.max", "1000\n"),
                ("cgroup/a/memory.current", "900\n"),
                ("cgroup/a/other", "1\n"),
            ],
        );
        let mut headroom = found(&tree);
        let used = headroom.levels[0].used.file;
        assert!(used.0 >= 64, "low descriptors are the program's");
        let other = keep(tree.root(), b"/cgroup/a/other").file;
        // SAFETY: both descriptors are this test's; what was `used` is closed as it.
        unsafe { assert_eq!(libc::dup2(other.0, used.0), used.0) };
        assert_eq!(headroom.left(0), None);
        headroom.close();
        // SAFETY: asks for the flags of a descriptor.
        unsafe {
            assert!(
                libc::fcntl(used.0, libc::F_GETFD) >= 0,
                "it is not ours to close"
            )
        };
        used.close();
        other.close();
    }

    #[test]
    fn a_hierarchy_that_is_mounted_twice_is_kept_once() {
        let tree = tree(
            "headroom-twice",
            "0::/a\n",
            &[
                ("cgroup/a/memory.max", "1000\n"),
                ("cgroup/a/memory.current", "900\n"),
            ],
        );
        tree.write("proc/self/mountinfo", &format!("{MOUNTS}{MOUNTS}"));
        assert_eq!(found(&tree).count, 1);
        tree.write("proc/self/cgroup", "0::/elsewhere\n");
        assert!(!found(&tree).is_limited());
    }
}
