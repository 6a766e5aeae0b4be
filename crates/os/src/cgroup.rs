//! Limits that a control group (version 2) puts on the process: memory and processor time.
//!
//! The limits of a group hold for its children too, so the smallest on the way up to the root counts. Files
//! that are missing or unreadable mean no limit. Version 1 hierarchies are not read.

use crate::procfs;
use core::ffi::CStr;

const ROOT: &[u8] = b"/sys/fs/cgroup";
const LONGEST: usize = 1024;

/// The smallest `memory.max` from this process's group to the root, in bytes.
pub fn memory_limit() -> Option<u64> {
    smallest(b"/memory.max", procfs::number)
}

/// The smallest processor quota from this process's group to the root, in whole processors, rounded up.
pub fn processor_limit() -> Option<u64> {
    smallest(b"/cpu.max", quota)
}

fn smallest(file: &[u8], parse: fn(&[u8]) -> Option<u64>) -> Option<u64> {
    let mut buffer = [0u8; LONGEST];
    let mut group: Option<&[u8]> = None;
    let text = procfs::read(c"/proc/self/cgroup", &mut buffer)?;
    for line in text.split(|&b| b == b'\n') {
        group = group.or(line.strip_prefix(b"0::"));
    }
    smallest_below(ROOT, group?, file, parse)
}

/// Asks every group from `group` up to the root of the hierarchy mounted at `root`.
fn smallest_below(
    root: &[u8],
    group: &[u8],
    file: &[u8],
    parse: fn(&[u8]) -> Option<u64>,
) -> Option<u64> {
    let mut group = group.strip_suffix(b"/").unwrap_or(group);
    let mut least: Option<u64> = None;
    loop {
        let found = limit_in(root, group, file, parse);
        least = match (least, found) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let Some(parent) = group.iter().rposition(|&b| b == b'/') else {
            return least;
        };
        group = &group[..parent];
    }
}

fn limit_in(
    root: &[u8],
    group: &[u8],
    file: &[u8],
    parse: fn(&[u8]) -> Option<u64>,
) -> Option<u64> {
    let mut path = [0u8; LONGEST + 64];
    let mut length = 0;
    for part in [root, group, file] {
        path.get_mut(length..length + part.len())?
            .copy_from_slice(part);
        length += part.len();
    }
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let mut buffer = [0u8; 64];
    parse(procfs::read(path, &mut buffer)?)
}

/// `"50000 100000"` is half a processor; `"max 100000"` is no limit.
fn quota(text: &[u8]) -> Option<u64> {
    let space = text.iter().position(|&b| b == b' ')?;
    let (share, period) = (
        procfs::number(&text[..space])?,
        procfs::number(&text[space..])?,
    );
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

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let root = std::env::temp_dir().join(format!("gleaner-cgroup-{}", std::process::id()));
        let inner = root.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(root.join("memory.max"), "900\n").unwrap();
        std::fs::write(root.join("a/memory.max"), "500\n").unwrap();
        std::fs::write(inner.join("memory.max"), "max\n").unwrap();
        let name = root.to_str().unwrap().as_bytes();
        let ask = |group| smallest_below(name, group, b"/memory.max", procfs::number);
        assert_eq!(ask(b"/a/b"), Some(500));
        assert_eq!(ask(b"/a"), Some(500));
        assert_eq!(ask(b"/"), Some(900));
        assert_eq!(ask(b"/elsewhere"), Some(900));
        std::fs::remove_file(root.join("memory.max")).unwrap();
        assert_eq!(ask(b"/"), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
