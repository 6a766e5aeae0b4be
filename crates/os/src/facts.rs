//! What the layers above want to know about the system, gathered once and passed around.
//!
//! Reading takes a few system calls and small files, so whoever starts the collector does it and keeps the
//! struct; deciders and tests can make one up. A forked child may keep its parent's.

use crate::hugepages::{self, HugePages};
use crate::{memory, procfs, topology};

/// The system, as seen when the collector started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes in a page.
    pub page_size: usize,
    /// Threads that can run at once, see [`topology::processors`].
    pub processors: usize,
    /// Memory nodes.
    pub nodes: usize,
    /// Bytes of memory to hope for, see [`memory::physical_memory`].
    pub physical_memory: u64,
    /// The limit on addresses, see [`memory::address_limit`].
    pub address_limit: Option<u64>,
    /// What the kernel does about huge pages.
    pub huge_pages: HugePages,
    /// How many mappings a process may have.
    pub mappings_max: usize,
    /// The kernel's version, such as 6 and 1.
    pub kernel: (u32, u32),
}

/// What kernels allow unless told otherwise.
const MAPPINGS_MAX: usize = 65_530;

impl Facts {
    /// Asks the system.
    pub fn gather() -> Facts {
        Facts {
            page_size: memory::page_size(),
            processors: topology::processors(),
            nodes: topology::nodes(),
            physical_memory: memory::physical_memory(),
            address_limit: memory::address_limit(),
            huge_pages: hugepages::mode(),
            mappings_max: mappings_max(),
            kernel: kernel_version(),
        }
    }
}

fn mappings_max() -> usize {
    let mut buffer = [0u8; 32];
    procfs::read(c"/proc/sys/vm/max_map_count", &mut buffer)
        .and_then(procfs::number)
        .map_or(MAPPINGS_MAX, |count| count as usize)
}

fn kernel_version() -> (u32, u32) {
    let mut buffer = [0u8; 64];
    let release = procfs::read(c"/proc/sys/kernel/osrelease", &mut buffer);
    release.and_then(parse_release).unwrap_or((0, 0))
}

/// The first two numbers of a release such as `6.1.0-13-amd64`.
fn parse_release(text: &[u8]) -> Option<(u32, u32)> {
    let dot = text.iter().position(|&b| b == b'.')?;
    let major = procfs::number(&text[..dot])?;
    let minor = procfs::number(&text[dot + 1..])?;
    Some((major.try_into().ok()?, minor.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(parse_release(b"6.1.0-13-amd64\n"), Some((6, 1)));
        assert_eq!(parse_release(b"10.22"), Some((10, 22)));
        assert_eq!(parse_release(b"next"), None);
        assert_eq!(parse_release(b"99999999999.1"), None);
    }

    #[test]
    fn the_facts_are_those_of_this_system() {
        let facts = Facts::gather();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let (major, minor) = facts.kernel;
        assert!(release.starts_with(&format!("{major}.{minor}")));
        let mappings = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        assert_eq!(facts.mappings_max.to_string(), mappings.trim());
        assert_eq!(facts.page_size, memory::page_size());
        assert_eq!(facts, Facts::gather());
    }
}
