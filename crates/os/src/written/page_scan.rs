//! Scans of `/proc/self/pagemap` (`PAGEMAP_SCAN`) over pages that are write-protected through a userfaultfd, whose
//! faults the kernel resolves by itself (`UFFD_FEATURE_WP_ASYNC`). One call tells the written pages of a range and
//! protects them again, page by page under the lock of the page table, so that no write is lost in between.
//!
//! The numbers are those of the kernel's `userfaultfd.h` and `fs.h`. A child does not inherit the protection: the kernel
//! drops it at the fork. Closing the descriptor ends it, too; then a scan is refused (`PM_SCAN_CHECK_WPASYNC`). A program, or a
//! child, may have closed it and given its number to a file of its own, so it is asked for nothing and not closed unless it is ours:
//! each userfaultfd has an inode of its own (Linux 5.12).

use core::ops::Range;

use super::why::Reason;
use crate::kept_file::Kept;
use crate::output::Fd;
use crate::syscall::{Errno, call};

/// `_IOWR(0xAA, 0x3F, struct uffdio_api)`.
const UFFDIO_API: usize = 0xc018_aa3f;
/// `_IOWR(0xAA, 0x00, struct uffdio_register)`.
const UFFDIO_REGISTER: usize = 0xc020_aa00;
/// `_IOWR(0xAA, 0x06, struct uffdio_writeprotect)`.
const UFFDIO_WRITEPROTECT: usize = 0xc018_aa06;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: usize = 0xc060_6610;

const UFFD_API: u64 = 0xaa;
/// Only faults of user mode are reported; needs no privilege. Faults that the kernel resolves are none of these.
const UFFD_USER_MODE_ONLY: usize = 1;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;

const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const WP_MATCHING: u64 = 1 << 0;
const CHECK_WPASYNC: u64 = 1 << 1;

#[repr(C)]
struct ApiArgument {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct RegisterArgument {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

/// With mode 0, ends the protection of a range.
#[repr(C)]
struct ProtectArgument {
    start: u64,
    bytes: u64,
    mode: u64,
}

/// A run of pages in the kernel's answer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Run {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    runs: u64,
    runs_length: u64,
    most_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<ScanArgument>() == 96 && size_of::<RegisterArgument>() == 32);
const _: () = assert!(size_of::<ProtectArgument>() == 24);

/// Ranges whose pages may be protected.
pub(super) struct PageScan {
    userfaultfd: Kept,
}

impl PageScan {
    /// # Safety
    /// The ranges are whole pages of private anonymous mappings that stay the caller's as long as this exists.
    pub(super) unsafe fn start(ranges: &[Range<usize>]) -> Result<PageScan, Reason> {
        let flags = libc::O_CLOEXEC as usize | libc::O_NONBLOCK as usize | UFFD_USER_MODE_ONLY;
        // SAFETY: the call takes flags alone.
        let opened = unsafe { call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) };
        let opened = match opened {
            Ok(number) => Fd(number as i32),
            Err(Errno(libc::ENOSYS)) => return Err(Reason::NoUserfaultfd),
            Err(Errno(libc::EPERM)) => return Err(Reason::Forbidden),
            Err(Errno(libc::EINVAL)) => return Err(Reason::OldKernel),
            Err(error) => return Err(Reason::of(error)),
        };
        let userfaultfd = Kept::of(Some(opened));
        let scan = PageScan { userfaultfd }; // Closed where the rest fails.
        let mut api = ApiArgument {
            api: UFFD_API,
            features: WP_ASYNC | WP_UNPOPULATED,
            ioctls: 0,
        };
        // SAFETY: the argument is what this request reads and writes.
        match unsafe { request(userfaultfd.file, UFFDIO_API, &mut api) } {
            Ok(_) => {}
            Err(Errno(libc::EINVAL)) => return Err(Reason::OldKernel),
            Err(error) => return Err(Reason::of(error)),
        }
        for range in ranges {
            // SAFETY: whole pages of private mappings of the caller's, as asked.
            unsafe { scan.add(range)? };
        }
        Ok(scan)
    }

    /// Adds a range, all of which is mapped. The kernel leaves pages that were added before as they are. Where the program
    /// closed the descriptor, that is refused as the next question will be.
    ///
    /// # Safety
    /// As for [`PageScan::start`].
    pub(super) unsafe fn add(&self, range: &Range<usize>) -> Result<(), Reason> {
        if !self.userfaultfd.is_held() {
            return Err(Reason::Refused(libc::EPERM));
        }
        let mut register = RegisterArgument {
            start: range.start as u64,
            bytes: range.len() as u64,
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: the argument is what this request reads and writes. It changes nothing that the owner of the range
        // sees: faults on pages that a scan protects are resolved by the kernel.
        let added = unsafe { request(self.userfaultfd.file, UFFDIO_REGISTER, &mut register) };
        added.map(drop).map_err(Reason::of)
    }

    /// Ends the protection of the pages of `low..high`, which count as written from then on. A refusal does no harm: each
    /// page is written with a fault, as before.
    pub(super) fn release(&self, low: usize, high: usize) {
        if !self.userfaultfd.is_held() {
            return;
        }
        let mut argument = ProtectArgument {
            start: low as u64,
            bytes: (high - low) as u64,
            mode: 0,
        };
        // SAFETY: the argument is what this request reads; faults on what is protected are resolved by the kernel.
        let _ = unsafe { request(self.userfaultfd.file, UFFDIO_WRITEPROTECT, &mut argument) };
    }
}

#[cfg(all(test, not(loom)))]
impl PageScan {
    /// The descriptor, which a program may close that does not know it.
    pub(super) fn descriptor(&self) -> Fd {
        self.userfaultfd.file
    }
}

impl Drop for PageScan {
    fn drop(&mut self) {
        self.userfaultfd.close();
    }
}

/// # Safety
/// `argument` is what the request reads and writes, and it must be sound to make.
unsafe fn request<T>(file: Fd, request: usize, argument: &mut T) -> Result<usize, Errno> {
    let arguments = [
        file.0 as usize,
        request,
        &raw mut *argument as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the request is sound and its argument fits, as asked.
    unsafe { call(libc::SYS_ioctl, arguments) }
}

/// Names the written pages of `low..high` and protects them.
pub(super) fn take(
    pages: Fd,
    low: usize,
    high: usize,
    visit: &mut dyn FnMut(usize, usize),
) -> Result<(), Reason> {
    scan(pages, (low, high), TAKEN, &WRITTEN, visit)
}

/// Protects the pages of `low..high`, and names none.
pub(super) fn protect(pages: Fd, low: usize, high: usize) -> Result<(), Reason> {
    // Without runs to write the kernel has a way of its own, again.
    scan_into(pages, (low, high), TAKEN, &WRITTEN, &mut [], &mut |_, _| {})
}

/// Names the written pages of `low..high`, and leaves them as they are.
pub(super) fn read(
    pages: Fd,
    low: usize,
    high: usize,
    visit: &mut dyn FnMut(usize, usize),
) -> Result<(), Reason> {
    scan(pages, (low, high), CHECK_WPASYNC, &WRITTEN, visit)
}

/// Names the pages of `low..high` that the process has in memory or swapped out. Pages of shared memory are there without that,
/// too.
pub(crate) fn touched(
    pages: Fd,
    low: usize,
    high: usize,
    visit: &mut dyn FnMut(usize, usize),
) -> Result<(), Reason> {
    let wanted = Wanted {
        all: 0,
        any: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
    };
    scan(pages, (low, high), 0, &wanted, visit)
}

/// The categories of the pages that are named: all of `all`, and one of `any` unless that is 0.
struct Wanted {
    all: u64,
    any: u64,
}

/// Asked in these words the kernel has a way of its own for it, which looks at nothing else.
const WRITTEN: Wanted = Wanted {
    all: PAGE_IS_WRITTEN,
    any: 0,
};
/// What is named is protected.
const TAKEN: u64 = WP_MATCHING | CHECK_WPASYNC;

/// Names the pages of a range that are wanted.
fn scan(
    pages: Fd,
    range: (usize, usize),
    flags: u64,
    wanted: &Wanted,
    visit: &mut dyn FnMut(usize, usize),
) -> Result<(), Reason> {
    scan_into(
        pages,
        range,
        flags,
        wanted,
        &mut [Run::default(); 64],
        visit,
    )
}

/// The same with the room that the kernel has for its answers; without any it names nothing.
fn scan_into(
    pages: Fd,
    (mut low, high): (usize, usize),
    flags: u64,
    wanted: &Wanted,
    runs: &mut [Run],
    visit: &mut dyn FnMut(usize, usize),
) -> Result<(), Reason> {
    let names = !runs.is_empty();
    while low < high {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            flags,
            start: low as u64,
            end: high as u64,
            walk_end: 0,
            runs: if names { runs.as_mut_ptr() as u64 } else { 0 },
            runs_length: runs.len() as u64,
            most_pages: 0,
            category_inverted: 0,
            category_mask: wanted.all,
            category_anyof_mask: wanted.any,
            return_mask: if names { wanted.all | wanted.any } else { 0 },
        };
        // SAFETY: the argument is what this request reads and writes, and its runs are writable. What is protected is
        // registered for that, which the kernel checks.
        let found = match unsafe { request(pages, PAGEMAP_SCAN, &mut argument) } {
            Ok(found) => found,
            Err(Errno(libc::EINTR)) => continue,
            Err(error) => return Err(Reason::of(error)),
        };
        for run in &runs[..found.min(runs.len())] {
            visit(run.start as usize, run.end as usize);
        }
        if argument.walk_end <= low as u64 {
            return Err(Reason::Refused(0)); // No progress: not what the interface promises.
        }
        low = argument.walk_end as usize;
    }
    Ok(())
}
