//! The mechanisms that tell which pages were written, by name, and why one does not work here.

use core::fmt;

use crate::syscall::Errno;

/// Bytes of a page, of which both mechanisms speak.
pub const PAGE_BYTES: usize = 4096;

/// What tells which pages were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// `PAGEMAP_SCAN` over pages that are protected through a userfaultfd.
    PageScan,
    /// Soft-dirty bits of the page table.
    SoftDirty,
}

impl Mechanism {
    /// All, in the order in which they are tried.
    pub const ALL: [Mechanism; 2] = [Mechanism::PageScan, Mechanism::SoftDirty];

    /// The name that options and logs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mechanism::PageScan => "page-scan",
            Mechanism::SoftDirty => "soft-dirty",
        }
    }
}

/// Why a mechanism does not work here, or works no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Pages have another size than 4096 bytes.
    PageSize,
    /// The kernel has no system call `userfaultfd`, or a filter of system calls hides it.
    NoUserfaultfd,
    /// The system call is not permitted: `vm.unprivileged_userfaultfd`, or a container's filter.
    Forbidden,
    /// The kernel cannot resolve the faults by itself: it is older than 6.7, or was built without.
    OldKernel,
    /// A file below `/proc/self` cannot be opened.
    NoProc,
    /// A write was not seen, as where `CONFIG_MEM_SOFT_DIRTY` is missing.
    NotSeen,
    /// A page counted as written that was not.
    Inexact,
    /// There is no memory for the trial, or none for the kernel's tables.
    Memory,
    /// The process has forked: the child starts anew.
    Forked,
    /// Another watch of the process has the bits.
    Taken,
    /// A filter of system calls is in force, which might end the process.
    Filtered,
    /// A fault was injected.
    Injected,
    /// The kernel refused a request, with this error number.
    Refused(i32),
}

impl Reason {
    pub(super) fn of(Errno(number): Errno) -> Reason {
        match number {
            libc::ENOMEM => Reason::Memory,
            other => Reason::Refused(other),
        }
    }

    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::PageSize => "pages are not of 4096 bytes",
            Reason::NoUserfaultfd => {
                "the system call userfaultfd is missing, or a filter of system calls hides it"
            }
            Reason::Forbidden => "the system call userfaultfd is not permitted",
            Reason::OldKernel => {
                "the kernel cannot resolve write faults by itself (Linux 6.7 or later can)"
            }
            Reason::NoProc => "/proc/self cannot be read or written",
            Reason::NotSeen => "the kernel did not see a write (CONFIG_MEM_SOFT_DIRTY is off)",
            Reason::Inexact => "the kernel took a page for written that was not",
            Reason::Memory => "there is no memory for it",
            Reason::Forked => "the process has forked",
            Reason::Taken => "another heap of the process uses it",
            Reason::Filtered => {
                "a filter of system calls (seccomp) is in force, which might end the process"
            }
            Reason::Injected => "a fault was injected",
            Reason::Refused(libc::EPERM) => {
                "a request is denied, or the kernel does not watch these addresses any more"
            }
            Reason::Refused(_) => "the kernel refused the request",
        }
    }
}

/// What a watch does where a filter of system calls (seccomp) is in force for the calling thread. Nobody knows which calls it lets
/// through, and whether the others end the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filters {
    /// The kernel is asked nevertheless.
    Ignored,
    /// Nothing is asked of the kernel but whether there is a filter, each time before anything else is.
    Heeded,
}

/// What the mechanisms that were tried answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unavailable {
    /// Why each does not work; `None` for one that was not tried.
    pub reasons: [Option<Reason>; Mechanism::ALL.len()],
}

impl Unavailable {
    /// Not tried, since a filter of system calls is in force.
    pub const FILTERED: Unavailable = Unavailable {
        reasons: [Some(Reason::Filtered); Mechanism::ALL.len()],
    };
}

impl fmt::Display for Unavailable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (mechanism, reason) in Mechanism::ALL.into_iter().zip(self.reasons) {
            if let Some(reason) = reason {
                write!(
                    out,
                    "{separator}{}: {}",
                    mechanism.as_str(),
                    reason.as_str()
                )?;
                if let Reason::Refused(number) = reason {
                    write!(out, " (error {number})")?;
                }
                separator = "; ";
            }
        }
        Ok(())
    }
}
