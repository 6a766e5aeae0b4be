//! Why the system refused memory, as far as that can be found out at once, and what helps.
//!
//! The kernel answers every refusal with the same error. What it counts can be read, so each limit is compared with
//! what the process has now and what it asked for. Another thread may have changed the numbers meanwhile: the answer is
//! for messages.
//!
//! Any thread, any state of the world.

use crate::pages::page_size;
use crate::procfs;
use crate::syscall::call;

/// A limit that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// `RLIMIT_AS`, `ulimit -v`: addresses, used or not.
    Addresses,
    /// `RLIMIT_DATA`, `ulimit -d`: private memory that can be written.
    Data,
    /// `vm.overcommit_memory=2`: what the system has promised to all processes.
    Promises,
    /// `vm.max_map_count`: mappings of one process.
    Mappings,
    /// None of those.
    Other,
}

impl Limit {
    /// Each limit, in the order of their numbers.
    pub const ALL: [Limit; 5] = [
        Limit::Addresses,
        Limit::Data,
        Limit::Promises,
        Limit::Mappings,
        Limit::Other,
    ];

    /// Says which limit it is and what helps.
    pub fn text(self) -> &'static str {
        match self {
            Limit::Addresses => {
                "the process may have no more addresses (RLIMIT_AS): raise the limit with ulimit -v"
            }
            Limit::Data => {
                "the process may have no more data (RLIMIT_DATA): raise the limit with ulimit -d"
            }
            Limit::Promises => {
                "the system promises no more memory (vm.overcommit_memory=2): raise vm.overcommit_ratio or add swap"
            }
            Limit::Mappings => {
                "the process may have no more mappings (vm.max_map_count): raise the limit with sysctl"
            }
            Limit::Other => "the system has no more memory",
        }
    }
}

/// What the system counts for this process, in bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    addresses: u64,
    address_limit: Option<u64>,
    data: u64,
    data_limit: Option<u64>,
    strict: bool,
    promised: u64,
    promise_limit: u64,
    mappings: u64,
    mapping_limit: u64,
}

/// Why `bytes` of addresses, of which `data` bytes were to be writable, were refused just now.
pub fn reason(bytes: usize, data: usize) -> Limit {
    decide(&count(), bytes as u64, data as u64)
}

/// Whether the process has a limit on data.
pub fn is_data_limited() -> bool {
    limit(libc::RLIMIT_DATA as usize).is_some()
}

fn decide(counts: &Counts, bytes: u64, data: u64) -> Limit {
    let over = |have: u64, more: u64, limit: Option<u64>| {
        limit.is_some_and(|limit| have.saturating_add(more) > limit)
    };
    if over(counts.addresses, bytes, counts.address_limit) {
        Limit::Addresses
    } else if over(counts.data, data, counts.data_limit) {
        Limit::Data
    } else if counts.strict && over(counts.promised, data, Some(counts.promise_limit)) {
        Limit::Promises
    } else if counts.mapping_limit > 0 && counts.mappings + 2 > counts.mapping_limit {
        Limit::Mappings
    } else {
        Limit::Other
    }
}

fn count() -> Counts {
    let mut counts = Counts {
        address_limit: limit(libc::RLIMIT_AS as usize),
        data_limit: limit(libc::RLIMIT_DATA as usize),
        ..Counts::default()
    };
    let kibibytes = |line: &[u8], label: &[u8]| procfs::labelled(line, label).map(|kib| kib << 10);
    procfs::lines(c"/proc/self/status", |line| {
        if let Some(bytes) = kibibytes(line, b"VmSize:") {
            counts.addresses = bytes;
        }
        if let Some(bytes) = kibibytes(line, b"VmData:") {
            counts.data = bytes;
        }
        true
    });
    counts.strict = single(c"/proc/sys/vm/overcommit_memory") == Some(2);
    procfs::lines(c"/proc/meminfo", |line| {
        if let Some(bytes) = kibibytes(line, b"CommitLimit:") {
            counts.promise_limit = bytes;
        }
        if let Some(bytes) = kibibytes(line, b"Committed_AS:") {
            counts.promised = bytes;
        }
        true
    });
    counts.mapping_limit = single(c"/proc/sys/vm/max_map_count").unwrap_or(0);
    procfs::lines(c"/proc/self/maps", |_| {
        counts.mappings += 1;
        true
    });
    counts
}

fn single(path: &core::ffi::CStr) -> Option<u64> {
    let mut buffer = [0u8; 32];
    procfs::read(path, &mut buffer).and_then(procfs::number)
}

/// A limit of this process in whole pages, as the kernel compares it; nothing if there is none.
fn limit(which: usize) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    let place = &raw mut limit as usize;
    // SAFETY: the kernel fills the struct; a null new limit changes nothing.
    unsafe { call(libc::SYS_prlimit64, [0, which, 0, place, 0, 0]).ok()? };
    let page = page_size() as u64;
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur / page * page)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory;

    #[test]
    fn the_limit_that_was_passed_is_named() {
        let roomy = Counts {
            addresses: 100 << 20,
            data: 10 << 20,
            promised: 1 << 30,
            promise_limit: 1 << 30,
            mappings: 100,
            mapping_limit: 65530,
            ..Counts::default()
        };
        let ask = |counts: &Counts| decide(counts, 4 << 20, 4 << 20);
        assert_eq!(ask(&roomy), Limit::Other);
        let addresses = Counts {
            address_limit: Some(103 << 20),
            ..roomy
        };
        assert_eq!(ask(&addresses), Limit::Addresses);
        let data = Counts {
            data_limit: Some(13 << 20),
            ..roomy
        };
        assert_eq!(ask(&data), Limit::Data);
        assert_eq!(
            decide(&data, 4 << 20, 0),
            Limit::Other,
            "addresses are no data"
        );
        assert_eq!(
            ask(&Counts {
                strict: true,
                ..roomy
            }),
            Limit::Promises
        );
        assert_eq!(
            ask(&Counts {
                mappings: 65530,
                ..roomy
            }),
            Limit::Mappings
        );
    }

    #[test]
    fn each_limit_has_the_number_of_its_place() {
        for (number, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, number);
        }
    }

    /// Whether `holds` in a child with that limit. It makes system calls only.
    fn in_a_child_with(which: u32, bytes: u64, holds: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child, whose limit alone changes, makes system calls only, then leaves.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let low = libc::rlimit {
                    rlim_cur: bytes,
                    rlim_max: bytes,
                };
                libc::setrlimit(which, &low);
                libc::_exit(if holds() { 0 } else { 1 });
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            status == 0
        }
    }

    #[test]
    fn a_process_at_its_data_limit_is_told_so() {
        assert!(in_a_child_with(libc::RLIMIT_DATA, 1 << 20, || {
            let refused = memory::map(8 << 20).is_none();
            let reserved = memory::reserve(8 << 20, 4096).is_some();
            refused && reserved && memory::refusal() == Limit::Data
        }));
    }

    #[test]
    fn the_reason_is_known_after_other_memory_was_given_back() {
        let room = count().addresses + (64 << 20);
        assert!(in_a_child_with(libc::RLIMIT_AS, room, || {
            let Some(first) = memory::map(40 << 20) else {
                return false;
            };
            let refused = memory::map(40 << 20).is_none();
            // SAFETY: mapped above, and nobody uses it.
            unsafe { memory::unmap(first, 40 << 20) };
            refused && memory::refusal() == Limit::Addresses
        }));
    }
}
