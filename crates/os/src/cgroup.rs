//! Limits that control groups put on the process: memory and processor time.
//!
//! The limits of a group hold for its children too, so the smallest on the way up to the root counts. Version 2 has one
//! hierarchy; version 1 has one for each controller, or for several together, and both versions may be there at once.
//! `/proc/self/cgroup` names the process's group in each hierarchy, and `/proc/self/mountinfo` where each is mounted and
//! which group is the root of what is seen there: in a container often its own. Where the process's group lies outside of
//! that, the root of what is seen stands for it. Files that are missing or unreadable mean no limit.
//!
//! [`crate::headroom`] keeps the files of the memory limits open.

use crate::procfs;
use core::ffi::CStr;

/// The smallest memory limit from this process's groups to the roots, in bytes.
pub fn memory_limit() -> Option<u64> {
    memory_limit_of(b"")
}

/// The smallest processor quota from this process's groups to the roots, in whole processors, rounded up.
pub fn processor_limit() -> Option<u64> {
    processor_limit_of(b"")
}

/// Everything is found below the directory `root`.
fn memory_limit_of(root: &[u8]) -> Option<u64> {
    smallest(root, b"memory", |version, directory| match version {
        Version::One => number_in(directory, b"/memory.limit_in_bytes"),
        Version::Two => number_in(directory, b"/memory.max"),
    })
}

fn processor_limit_of(root: &[u8]) -> Option<u64> {
    smallest(root, b"cpu", |version, directory| match version {
        Version::One => {
            let share = number_in(directory, b"/cpu.cfs_quota_us")?;
            processors((share, number_in(directory, b"/cpu.cfs_period_us")?))
        }
        Version::Two => {
            let mut buffer = [0u8; 64];
            let file = Path::of(&[directory, b"/cpu.max"])?;
            quota(procfs::read(file.c(), &mut buffer)?)
        }
    })
}

/// The smallest that `limit` says of the directories of [`for_each_directory`].
fn smallest(
    root: &[u8],
    controller: &[u8],
    limit: impl Fn(Version, &[u8]) -> Option<u64>,
) -> Option<u64> {
    let mut found = None;
    for_each_directory(root, controller, |version, directory| {
        found = least(found, limit(version, directory));
    });
    found
}

/// Calls `each` with every directory of the process's groups that may limit what `controller` is about, those of parents
/// behind those of children. What is mounted twice comes twice.
pub(crate) fn for_each_directory(
    root: &[u8],
    controller: &[u8],
    mut each: impl FnMut(Version, &[u8]),
) {
    let groups = Groups::of(root, controller);
    let Some(mounts) = Path::of(&[root, b"/proc/self/mountinfo"]) else {
        return;
    };
    procfs::lines(mounts.c(), |line| {
        if let Some(mount) = Mount::parse(line, controller)
            && let Some(group) = groups.of_mount(&mount)
        {
            let top = Path::of(&[root, mount.point]);
            if let Some(top) = top {
                upwards(top.text(), mount.inside(group), &mut |it| {
                    each(mount.version, it)
                });
            }
        }
        true
    });
}

/// The process's group in the hierarchy of version 1 of a controller, and in that of version 2.
struct Groups {
    own: Option<Path>,
    unified: Option<Path>,
}

impl Groups {
    fn of(root: &[u8], controller: &[u8]) -> Groups {
        let mut groups = Groups {
            own: None,
            unified: None,
        };
        let Some(file) = Path::of(&[root, b"/proc/self/cgroup"]) else {
            return groups;
        };
        procfs::lines(file.c(), |line| {
            // Number of the hierarchy, its controllers, the group.
            let mut parts = line.splitn(3, |&b| b == b':');
            if let (Some(number), Some(names), Some(group)) =
                (parts.next(), parts.next(), parts.next())
            {
                if number == b"0" && names.is_empty() {
                    groups.unified = Path::of(&[group]);
                } else if lists(names, controller) {
                    groups.own = Path::of(&[group]);
                }
            }
            true
        });
        groups
    }

    fn of_mount(&self, mount: &Mount<'_>) -> Option<&[u8]> {
        let group = match mount.version {
            Version::One => &self.own,
            Version::Two => &self.unified,
        };
        group.as_ref().map(Path::text)
    }
}

/// A version of control groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    One,
    Two,
}

/// A hierarchy that is mounted somewhere.
struct Mount<'a> {
    version: Version,
    /// The group whose directory is mounted.
    group: &'a [u8],
    /// Where.
    point: &'a [u8],
}

impl Mount<'_> {
    /// From a line of `mountinfo`, if it is a hierarchy that may have `controller`:
    /// `31 23 0:27 GROUP POINT rw,nosuid shared:4 - cgroup cgroup rw,CONTROLLER`.
    fn parse<'a>(line: &'a [u8], controller: &[u8]) -> Option<Mount<'a>> {
        let mut words = line.split(|&b| b == b' ');
        let (group, point) = (words.nth(3)?, words.next()?);
        words.find(|&word| word == b"-")?;
        let version = match words.next()? {
            b"cgroup2" => Version::Two,
            b"cgroup" if lists(words.nth(1)?, controller) => Version::One,
            _ => return None,
        };
        Some(Mount {
            version,
            group,
            point,
        })
    }

    /// Where a group lies below the mount: nowhere but at its top, if it is not seen there.
    fn inside<'g>(&self, group: &'g [u8]) -> &'g [u8] {
        let top = self.group.strip_suffix(b"/").unwrap_or(self.group);
        match group.strip_prefix(top) {
            Some(inside) if inside.is_empty() || inside.starts_with(b"/") => inside,
            _ => b"",
        }
    }
}

/// Whether `name` is one of those that commas separate.
fn lists(names: &[u8], name: &[u8]) -> bool {
    names.split(|&b| b == b',').any(|it| it == name)
}

pub(crate) fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Calls `each` with the directories from `group` up to `top`.
fn upwards(top: &[u8], group: &[u8], each: &mut dyn FnMut(&[u8])) {
    let mut group = group.strip_suffix(b"/").unwrap_or(group);
    loop {
        if let Some(directory) = Path::of(&[top, group]) {
            each(directory.text());
        }
        let Some(parent) = group.iter().rposition(|&b| b == b'/') else {
            return;
        };
        group = &group[..parent];
    }
}

pub(crate) fn number_in(directory: &[u8], file: &[u8]) -> Option<u64> {
    let mut buffer = [0u8; 64];
    let path = Path::of(&[directory, file])?;
    procfs::number(procfs::read(path.c(), &mut buffer)?)
}

/// A path without allocation.
pub(crate) struct Path {
    bytes: [u8; 1024],
    length: usize,
}

impl Path {
    /// The parts one after the other, unless that is too long.
    pub(crate) fn of(parts: &[&[u8]]) -> Option<Path> {
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

    pub(crate) fn c(&self) -> &CStr {
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

#[cfg(all(test, not(loom)))]
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

    use crate::test_tree::Tree;

    fn memory(tree: &Tree, groups: &str) -> Option<u64> {
        tree.write("proc/self/cgroup", groups);
        memory_limit_of(tree.root())
    }

    fn processors(tree: &Tree, groups: &str) -> Option<u64> {
        tree.write("proc/self/cgroup", groups);
        processor_limit_of(tree.root())
    }

    const UNIFIED: (&str, &str) = (
        "proc/self/mountinfo",
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
         30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let tree = Tree::new(
            "2",
            &[
                UNIFIED,
                ("sys/fs/cgroup/memory.max", "900\n"),
                ("sys/fs/cgroup/a/memory.max", "500\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ],
        );
        assert_eq!(memory(&tree, "0::/a/b\n"), Some(500));
        assert_eq!(memory(&tree, "0::/a\n"), Some(500));
        assert_eq!(memory(&tree, "0::/\n"), Some(900));
        assert_eq!(memory(&tree, "0::/elsewhere\n"), Some(900));
        assert_eq!(memory(&tree, "1:name=systemd:/\n"), None);
        assert_eq!(processors(&tree, "0::/a/b\n"), Some(2));
        assert_eq!(processors(&tree, "0::/\n"), None);
        tree.remove("sys/fs/cgroup/memory.max");
        assert_eq!(memory(&tree, "0::/\n"), None);
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let unlimited = "9223372036854771712\n";
        let at = |file: &'static str, text: &'static str| (file, text);
        let tree = Tree::new(
            "1",
            &[
                at(
                    "proc/self/mountinfo",
                    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                     32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                     33 31 0:30 / /elsewhere/memory rw shared:9 - cgroup cgroup rw,memory\n\
                     34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                ),
                at("elsewhere/memory/memory.limit_in_bytes", unlimited),
                at("elsewhere/memory/docker/memory.limit_in_bytes", "7000\n"),
                at(
                    "elsewhere/memory/docker/one/memory.limit_in_bytes",
                    "8000\n",
                ),
                at("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                at("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
                at(
                    "sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us",
                    "250000\n",
                ),
                at(
                    "sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us",
                    "100000\n",
                ),
                at("sys/fs/cgroup/unified/docker/memory.max", "6000\n"),
            ],
        );
        let groups =
            "12:cpu,cpuacct:/docker/one\n9:name=systemd:/docker/one\n4:memory:/docker/one\n";
        assert_eq!(memory(&tree, groups), Some(7000));
        assert_eq!(processors(&tree, groups), Some(3));
        let all = memory(&tree, "4:memory:/\n");
        assert_eq!(all, Some(9_223_372_036_854_771_712));
        assert_eq!(processors(&tree, "12:cpu,cpuacct:/\n"), None);
        assert_eq!(processors(&tree, "11:cpuset:/docker\n"), None);
        let both = "4:memory:/docker/one\n0::/docker/one\n";
        assert_eq!(memory(&tree, both), Some(6000));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let tree = Tree::new(
            "inner",
            &[
                (
                    "proc/self/mountinfo",
                    "32 31 0:29 /docker/of /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     33 31 0:30 /docker/of /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
                ),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n"),
                ("sys/fs/cgroup/memory/part/memory.limit_in_bytes", "4000\n"),
                ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
                ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ],
        );
        assert_eq!(memory(&tree, "4:memory:/docker/of\n"), Some(5000));
        assert_eq!(memory(&tree, "4:memory:/docker/of/part\n"), Some(4000));
        assert_eq!(memory(&tree, "4:memory:/docker/often/part\n"), Some(5000));
        assert_eq!(memory(&tree, "4:memory:/../other\n"), Some(5000));
        assert_eq!(processors(&tree, "1:cpu:/docker/of/the/host\n"), Some(1));
    }

    #[test]
    fn without_a_mounted_hierarchy_nothing_is_known() {
        let nowhere = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        let tree = Tree::new("none", &[("proc/self/mountinfo", nowhere)]);
        assert_eq!(memory(&tree, "4:memory:/docker\n0::/docker\n"), None);
        tree.remove("proc/self/mountinfo");
        assert_eq!(memory(&tree, "0::/\n"), None);
    }
}
