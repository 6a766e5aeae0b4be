//! How long threads have waited for memory: in the process's own control group (version 2), or on the whole machine.
//!
//! The file that says so is opened once, while the process may still open files (`kept_file`). Kernels before 4.20, or built
//! without `CONFIG_PSI`, do not say.
//!
//! No allocation, no lock; any state of the world.

use crate::cgroup::{Path, Version, for_each_directory};
use crate::kept_file::Kept;
use crate::procfs;

/// The file.
pub struct Pressure(Kept);

impl Pressure {
    /// None: nothing is known.
    pub const NONE: Pressure = Pressure(Kept::NONE);

    /// Finds the file. Wants some kilobytes of stack, and opens files.
    pub fn find() -> Pressure {
        Pressure::below(b"")
    }

    /// Finds it below the directory `root`.
    fn below(root: &[u8]) -> Pressure {
        let mut found = Kept::NONE;
        // The first group is the process's own.
        for_each_directory(root, b"memory", |version, directory| {
            if version == Version::Two && total(&found).is_none() {
                found.close();
                found = open(&[directory, b"/memory.pressure"]);
            }
        });
        if total(&found).is_none() {
            found.close();
            found = open(&[root, b"/proc/pressure/memory"]);
        }
        Pressure(found)
    }

    /// Microseconds in which at least one thread waited for memory, in sum since the group or the machine began; `None` where the
    /// kernel does not say.
    pub fn waited_us(&self) -> Option<u64> {
        total(&self.0)
    }
}

fn open(parts: &[&[u8]]) -> Kept {
    Path::of(parts).map_or(Kept::NONE, |path| Kept::open(path.c()))
}

/// The last number of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn total(file: &Kept) -> Option<u64> {
    let mut buffer = [0u8; 256];
    let text = file.read(&mut buffer)?;
    let mut lines = text.split(|&b| b == b'\n');
    let some = lines.find(|line| line.starts_with(b"some "))?;
    let mut words = some.split(|&b| b == b' ');
    procfs::number(words.find_map(|word| word.strip_prefix(b"total="))?)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::test_tree::Tree;

    const MACHINE: &str = "some avg10=0.12 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
    const GROUP: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234567\n";
    const MOUNTS: &str = "30 23 0:26 / /cgroup rw shared:4 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_processes_own_group_is_asked_before_the_machine() {
        let files = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", MOUNTS),
            ("proc/pressure/memory", MACHINE),
            ("cgroup/a/memory.pressure", "some total=9\n"),
            ("cgroup/a/b/memory.pressure", GROUP),
        ];
        let tree = Tree::new("pressure", &files);
        let pressure = Pressure::below(tree.root());
        assert_eq!(pressure.waited_us(), Some(1_234_567));
        tree.write("cgroup/a/b/memory.pressure", "some total=1234568\n");
        assert_eq!(pressure.waited_us(), Some(1_234_568), "it is read anew");
        tree.remove("cgroup/a/b/memory.pressure");
        assert_eq!(Pressure::below(tree.root()).waited_us(), Some(9));
        tree.remove("cgroup/a/memory.pressure");
        assert_eq!(Pressure::below(tree.root()).waited_us(), Some(77));
        tree.write("proc/pressure/memory", "nonsense total=\n");
        assert_eq!(Pressure::below(tree.root()).waited_us(), None);
        tree.remove("proc/pressure/memory");
        assert_eq!(Pressure::below(tree.root()).waited_us(), None);
        assert_eq!(Pressure::NONE.waited_us(), None);
    }
}
