//! Virtual memory: reserve, commit, release.
//!
//! A range is *reserved* (addresses without storage), then *committed* piece by piece (readable and
//! writable, zero), then *released* (storage given back, contents zero again, addresses kept). Unmapping is
//! for whole reservations, because each hole in a reservation costs the kernel a mapping of its own and
//! their number is limited.
//!
//! Any thread, any state of the world.

use crate::own_ranges;
use crate::places::{EXTENT, FIRST, MOST_RANDOM, is_apart};
use crate::procfs;
use crate::refusal::{self, Limit};
use crate::syscall::{Errno, call};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use gleaner_base::faults::{self, FaultPoint};

use crate::pages::{SMALLEST, within};
pub use crate::pages::{page_size, whole_pages};
pub use crate::places::APART;
pub use crate::residency::{peak_resident_bytes, resident_bytes};

/// Reserves `bytes` of addresses at a multiple of `align`, without storage and without access.
///
/// `align` is a power of two; `bytes` is rounded up to whole pages. None when the kernel refuses (address
/// limit, number of mappings), when a size overflows, or when `bytes` is zero.
pub fn reserve(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    if !align.is_power_of_two() || bytes == 0 {
        return None;
    }
    let bytes = whole_pages(bytes)?;
    if align <= page_size() {
        return anonymous(bytes, libc::PROT_NONE);
    }
    // The kernel aligns to pages only: take too much and give both ends back.
    let taken = bytes.checked_add(align - page_size())?;
    let start = anonymous(taken, libc::PROT_NONE)?;
    let low = start.as_ptr() as usize;
    let aligned = low.next_multiple_of(align);
    let (front, back) = (aligned - low, low + taken - (aligned + bytes));
    // SAFETY: both trimmed ends are parts of the fresh mapping that nobody has seen.
    unsafe {
        if front > 0 {
            unmap(start, front);
        }
        if back > 0 {
            unmap(start.add(front + bytes), back);
        }
        Some(start.add(front))
    }
}

/// Maps `bytes` of zero memory, readable and writable at once.
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    if bytes == 0 {
        return None;
    }
    anonymous(whole_pages(bytes)?, libc::PROT_READ | libc::PROT_WRITE)
}

fn anonymous(bytes: usize, access: i32) -> Option<NonNull<u8>> {
    if faults::armed(FaultPoint::ReserveMemory) {
        return None;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping where the kernel likes disturbs no existing one.
    let start = unsafe {
        call(
            libc::SYS_mmap,
            [0, bytes, access as usize, flags as usize, usize::MAX, 0],
        )
    };
    let data = if access & libc::PROT_WRITE != 0 {
        bytes
    } else {
        0
    };
    noted(start.is_ok(), bytes, data);
    let start = start.ok()?;
    own_ranges::add(start, bytes);
    NonNull::new(start as *mut u8)
}

/// Why nothing was mapped at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotMapped {
    /// Something else is mapped there.
    Taken,
    /// The kernel refused; [`refusal()`] says why.
    Refused,
}

/// What may be done with memory that is mapped at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Nothing: its addresses are set aside, as by [`reserve`].
    None,
    /// It is read, and reads as zero.
    Read,
    /// It is read and written.
    Write,
    /// It is read and written, and may hold instructions.
    Execute,
}

/// Maps `bytes` of zero memory at `start`, whole pages, where nothing is mapped yet. Nothing was set aside before, so this
/// counts as new addresses, and may find them taken.
pub fn map_at(start: NonNull<u8>, bytes: usize, access: Access) -> Result<(), NotMapped> {
    let (point, rights, data) = match access {
        Access::None => (FaultPoint::ReserveMemory, libc::PROT_NONE, 0),
        Access::Read => (FaultPoint::ReserveMemory, libc::PROT_READ, 0),
        Access::Write => {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            (FaultPoint::CommitMemory, rights, bytes)
        }
        Access::Execute => {
            let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            (FaultPoint::CommitMemory, rights, bytes)
        }
    };
    if faults::armed(point) {
        return Err(NotMapped::Refused);
    }
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let wished = start.as_ptr() as usize;
    let arguments = [
        wished,
        bytes,
        rights as usize,
        flags as usize,
        usize::MAX,
        0,
    ];
    // SAFETY: a new anonymous mapping that replaces none: with this flag the kernel refuses, or, before Linux 4.17, puts
    // it elsewhere.
    match unsafe { call(libc::SYS_mmap, arguments) } {
        Ok(mapped) if mapped == wished => {
            if !is_apart(wished) {
                own_ranges::add(wished, bytes);
            }
            Ok(())
        }
        Ok(elsewhere) => {
            if let Some(elsewhere) = NonNull::new(elsewhere as *mut u8) {
                // SAFETY: mapped just now, and nobody knows it.
                unsafe { unmap(elsewhere, bytes) };
            }
            Err(NotMapped::Taken)
        }
        Err(Errno(libc::EEXIST)) => Err(NotMapped::Taken),
        Err(_) => {
            noted(false, bytes, data);
            Err(NotMapped::Refused)
        }
    }
}

/// An address far from all that the kernel and the C library map by themselves, a multiple of [`APART`]. This function
/// names no other place in the `bytes` bytes behind it before all places have been named. What is mapped there by
/// [`map_at`] can grow to `bytes` bytes, as long as nobody else chooses the same place.
pub fn place_apart(bytes: usize) -> Option<NonNull<u8>> {
    let bytes = bytes.checked_next_multiple_of(APART)?;
    if bytes > EXTENT {
        return None;
    }
    // Where the kernel puts a page differs from run to run, and so does what follows from that.
    let page = anonymous(page_size(), libc::PROT_NONE)?;
    // SAFETY: mapped just now, and nobody knows it.
    unsafe { unmap(page, page_size()) };
    let random = page.as_ptr() as usize >> 28 & MOST_RANDOM;
    // Relaxed: it is a number alone.
    let named = NAMED.fetch_add(bytes + APART, Ordering::Relaxed) % EXTENT;
    let start = if named + bytes <= EXTENT { named } else { 0 };
    NonNull::new((FIRST + random * APART + start) as *mut u8)
}

/// Bytes of the places apart that were named, and of the gaps between them.
static NAMED: AtomicUsize = AtomicUsize::new(0);

/// Why the kernel refused last, as a number of [`Limit`]. Relaxed: it is for messages.
static REFUSED: AtomicU8 = AtomicU8::new(Limit::Other as u8);

/// Notes why `addresses` bytes of addresses and `data` bytes that can be written were refused, if they were. Returns
/// `given`, whether they were given. The reason is found out here: a caller that gives back what it was given before
/// leaves room below the limit.
fn noted(given: bool, addresses: usize, data: usize) -> bool {
    if !given {
        REFUSED.store(refusal::reason(addresses, data) as u8, Ordering::Relaxed);
    }
    given
}

/// Why the last request was refused, for the thread whose request that was.
pub fn refusal() -> Limit {
    Limit::ALL[REFUSED.load(Ordering::Relaxed) as usize]
}

/// Makes a reserved range readable and writable; it reads as zero. False when the kernel refuses.
///
/// # Safety
/// The range is whole pages inside a reservation of the caller.
pub unsafe fn commit(start: NonNull<u8>, bytes: usize) -> bool {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: whole pages inside a reservation of the caller, as asked; giving access takes no right away.
    let given =
        !faults::armed(FaultPoint::CommitMemory) && unsafe { protect(start, bytes, access) };
    noted(given, 0, bytes)
}

/// Like [`commit`], and the range may hold instructions too (`GC_set_pages_executable`).
///
/// # Safety
/// As for [`commit`].
pub unsafe fn commit_executable(start: NonNull<u8>, bytes: usize) -> bool {
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: whole pages inside a reservation of the caller, as asked; giving access takes no right away.
    !faults::armed(FaultPoint::CommitMemory) && unsafe { protect(start, bytes, access) }
}

/// Makes a range readable only; a write faults from now on.
///
/// # Safety
/// The range is whole pages of the caller's, and nobody writes there any more.
pub unsafe fn make_read_only(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: whole pages of the caller's, which nobody writes to any more, as asked: the right to write is all that
    // goes.
    unsafe { take_access(start, bytes, libc::PROT_READ) }
}

/// Gives the storage of a range back and takes every access to it away. It is given again by [`commit`], and reads as
/// zero then, unless the memory was locked.
///
/// # Safety
/// The range is whole pages inside a reservation of the caller, and nobody accesses it any more.
pub unsafe fn forbid(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: whole pages inside a reservation of the caller, which nobody accesses any more, as asked.
    unsafe { release(start, bytes) && take_access(start, bytes, libc::PROT_NONE) }
}

/// Takes every access to a range away; its contents stay, for when [`commit`] gives access again. False when the kernel
/// refuses, as it does to a process with as many mappings as it may have.
///
/// # Safety
/// The range is whole pages inside a reservation of the caller, and nobody accesses it any more.
pub unsafe fn fence(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: whole pages inside a reservation of the caller, which nobody accesses any more, as asked.
    let fenced = !faults::armed(FaultPoint::FenceMemory)
        && unsafe { take_access(start, bytes, libc::PROT_NONE) };
    noted(fenced, 0, 0)
}

/// Takes rights to access away, of the whole pages in a range.
///
/// # Safety
/// As for [`protect`].
unsafe fn take_access(start: NonNull<u8>, bytes: usize, access: i32) -> bool {
    let (first, bytes) = within(start.as_ptr() as usize, bytes);
    // SAFETY: whole pages of the caller's, and nobody uses a right that is taken away, as asked.
    NonNull::new(first as *mut u8)
        .is_none_or(|first| bytes == 0 || unsafe { protect(first, bytes, access) })
}

/// Sets the access rights of a range, and of what lies beside it in the same pages, where pages are large.
///
/// # Safety
/// The range is whole pages of the caller's, and nobody uses a right that is taken away.
unsafe fn protect(start: NonNull<u8>, bytes: usize, access: i32) -> bool {
    let start = start.as_ptr() as usize;
    let first = match page_size() {
        SMALLEST => start,
        page => start & !(page - 1),
    };
    let arguments = [first, start + bytes - first, access as usize, 0, 0, 0];
    // SAFETY: whole pages of the caller's, and nobody uses a right that is taken away, as asked.
    unsafe { call(libc::SYS_mprotect, arguments).is_ok() }
}

/// Gives the storage of a range back; the addresses stay, with their rights, and read as zero.
///
/// False when the kernel refuses, as it does for memory locked by `mlockall`: then the contents are *unchanged*, and a
/// caller that needs zeros has to write them.
///
/// # Safety
/// The range is whole pages of the caller's, and nobody needs its contents.
pub unsafe fn release(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller owns the range and gives up its contents.
    unsafe {
        match page_size() {
            SMALLEST => advise(start, bytes, libc::MADV_DONTNEED).is_ok(),
            _ => release_within(start, bytes),
        }
    }
}

/// As [`release`], of a range whose ends may lie inside of pages: there it is overwritten with zero.
///
/// # Safety
/// As for [`release`].
unsafe fn release_within(start: NonNull<u8>, bytes: usize) -> bool {
    let (first, inner) = within(start.as_ptr() as usize, bytes);
    let before = (first - start.as_ptr() as usize).min(bytes);
    // SAFETY: all parts lie in the range, whose contents the caller gives up.
    unsafe {
        let pages = start.add(before);
        if inner > 0 && advise(pages, inner, libc::MADV_DONTNEED).is_err() {
            return false;
        }
        start.write_bytes(0, before);
        let behind = bytes.saturating_sub(before + inner);
        start.add(bytes - behind).write_bytes(0, behind);
    }
    true
}

/// Whether every page of a range can be read, which also brings the pages in. True on kernels before 5.14, which
/// cannot tell.
pub fn is_readable(start: usize, bytes: usize) -> bool {
    !is_refusal_to_read(read_in(start, bytes))
}

/// Whether that answer of [`read_in`] says that a page cannot be read. Other errors say nothing of the pages.
fn is_refusal_to_read(answer: Result<usize, Errno>) -> bool {
    matches!(
        answer,
        Err(Errno(libc::ENOMEM | libc::EFAULT | libc::EHWPOISON))
    )
}

/// Brings all pages of a range in as if they were read. Unlike reading, it does not make the first thread's stack grow.
fn read_in(start: usize, bytes: usize) -> Result<usize, Errno> {
    const POPULATE_READ: usize = 22;
    let first = start & !(page_size() - 1);
    let length = whole_pages(start + bytes - first).ok_or(Errno(libc::ENOMEM))?;
    // SAFETY: reading pages in changes nothing, and the kernel answers for bad addresses with an error.
    unsafe { call(libc::SYS_madvise, [first, length, POPULATE_READ, 0, 0, 0]) }
}

/// The most pages that are asked about at once.
const MOST_PAGES: usize = 512;

/// How many of `pages` pages can be read, up to the first that cannot. `start_of(done, step)` is where `step` pages
/// start after `done` of them. The steps double while they succeed, and halve when one fails.
fn readable_pages(pages: usize, start_of: impl Fn(usize, usize) -> usize) -> usize {
    let (mut done, mut step) = (0, 1);
    while done < pages {
        let now = step.min(pages - done);
        let start = start_of(done, now);
        let answer = read_in(start, now * page_size());
        let is_told = answer.is_ok() || is_refusal_to_read(answer);
        if answer.is_ok() || (now == 1 && !is_told && is_byte_readable(start)) {
            done += now;
            step = (now * 2).min(MOST_PAGES);
        } else if now == 1 {
            break;
        } else {
            step = now / 2;
        }
    }
    done
}

/// The first address from `low` on that cannot be read, or `high`.
pub fn readable_end(low: usize, high: usize) -> usize {
    let first = low & !(page_size() - 1);
    let pages = high.saturating_sub(first).div_ceil(page_size());
    let readable = readable_pages(pages, |done, _| first + done * page_size());
    (first + readable * page_size()).clamp(low, high.max(low))
}

/// The lowest address from which all memory up to `high` can be read; not below `low`.
pub fn readable_start(low: usize, high: usize) -> usize {
    let end = high.next_multiple_of(page_size());
    let pages = end.saturating_sub(low).div_ceil(page_size());
    let readable = readable_pages(pages, |done, step| end - (done + step) * page_size());
    (end - readable * page_size()).clamp(low.min(high), high)
}

/// Whether the page of an address can be read, on every kernel: a call that refuses its first argument, but reads what
/// the second refers to before.
fn is_byte_readable(address: usize) -> bool {
    const NO_SUCH_CHANGE: usize = usize::MAX;
    // Reading below the stack of the first thread would make it grow; asking whether a page is mapped does not. A kernel that
    // reads pages in has said so if this one is not. Where nobody may ask (seccomp), it is read.
    let (page, mut resident) = (address & !(page_size() - 1), 0u8);
    let arguments = [page, page_size(), &raw mut resident as usize, 0, 0, 0];
    let reads_in = read_in(&raw const resident as usize, 1).is_ok();
    // SAFETY: the kernel writes one byte for one page.
    if !reads_in && unsafe { call(libc::SYS_mincore, arguments) } == Err(Errno(libc::ENOMEM)) {
        return false;
    }
    let eight = address & !7;
    // SAFETY: the mask is not changed, since there is no such change; the kernel answers for bad addresses.
    let answer = unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [NO_SUCH_CHANGE, eight, 0, 8, 0, 0],
        )
    };
    answer != Err(Errno(libc::EFAULT))
}

/// Tells the kernel something about a range.
///
/// # Safety
/// The range is whole pages of the caller's and may suffer what the advice does.
pub(crate) unsafe fn advise(start: NonNull<u8>, bytes: usize, advice: i32) -> Result<(), Errno> {
    let arguments = [start.as_ptr() as usize, bytes, advice as usize, 0, 0, 0];
    // SAFETY: whole pages of the caller's, which may suffer what the advice does, as asked; the kernel reads no
    // pointer.
    unsafe { call(libc::SYS_madvise, arguments).map(|_| ()) }
}

/// Backs a range with zero pages at once, which costs less than to have each of them come when it is first written.
/// Where the kernel cannot (before 5.14, or out of memory), pages come as they would have.
///
/// # Safety
/// The range is whole committed pages of the caller's.
pub unsafe fn populate(start: NonNull<u8>, bytes: usize) -> bool {
    const POPULATE_WRITE: i32 = 23;
    // SAFETY: the caller owns the range; the advice changes no contents.
    unsafe { advise(start, bytes, POPULATE_WRITE).is_ok() }
}

/// Gives addresses and storage back. False when the kernel refuses: the range then stays as it was.
///
/// # Safety
/// The range is whole pages of the caller's, and no pointer into it is used again.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
    let (start, bytes) = within(start.as_ptr() as usize, bytes);
    if bytes == 0 && page_size() != SMALLEST {
        return true;
    }
    own_ranges::remove(start, bytes);
    // SAFETY: whole pages of the caller's into which no pointer is used again, as asked.
    let is_done = unsafe { call(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]).is_ok() };
    if !is_done && !is_apart(start) {
        own_ranges::add(start, bytes);
    }
    is_done
}

/// Bytes of memory that this process may hope for: the machine's, or its cgroup's limit when that is
/// smaller.
pub fn physical_memory() -> u64 {
    machine_memory().min(crate::cgroup::memory_limit().unwrap_or(u64::MAX))
}

/// How many mappings the kernel lets a process have by default.
pub const USUAL_MAPPINGS: usize = 65_530;

/// How many it lets a process have here.
pub fn most_mappings() -> usize {
    let mut buffer = [0u8; 32];
    procfs::read(c"/proc/sys/vm/max_map_count", &mut buffer)
        .and_then(procfs::number)
        .map_or(USUAL_MAPPINGS, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        })
}

/// Bytes of memory that the machine has.
pub(crate) fn machine_memory() -> u64 {
    let mut bytes = core::mem::MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the kernel fills the struct, which is valid when zero, too.
    let (answer, info) = unsafe {
        let answer = call(
            libc::SYS_sysinfo,
            [bytes.as_mut_ptr() as usize, 0, 0, 0, 0, 0],
        );
        (answer, bytes.assume_init())
    };
    match answer {
        Ok(_) => info.totalram.saturating_mul(u64::from(info.mem_unit)),
        Err(_) => u64::MAX,
    }
}

/// Bytes of memory that the machine has left: what the kernel says that it can give without swapping.
pub fn available_memory() -> u64 {
    let mut left = u64::MAX;
    procfs::lines(c"/proc/meminfo", |line| {
        let Some(kilobytes) = procfs::labelled(line, b"MemAvailable:") else {
            return true;
        };
        left = kilobytes.saturating_mul(1024);
        false
    });
    left
}

/// The limit on this process's address space (`ulimit -v`), if there is one.
pub fn address_limit() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    let place = &raw mut limit as usize;
    // SAFETY: the kernel fills the struct; a null new limit changes nothing.
    unsafe {
        call(
            libc::SYS_prlimit64,
            [0, libc::RLIMIT_AS as usize, 0, place, 0, 0],
        )
        .ok()?;
    }
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Whether the kernel would let this process have `bytes` more bytes of addresses. This asks for them and gives them
/// back. It reads no file, which a filter of system calls may forbid.
pub fn has_addresses(bytes: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let asked = [
        0,
        bytes,
        libc::PROT_NONE as usize,
        flags as usize,
        usize::MAX,
        0,
    ];
    // SAFETY: a new anonymous mapping where the kernel likes disturbs no existing one, and nobody else knows it.
    unsafe {
        call(libc::SYS_mmap, asked)
            .is_ok_and(|start| call(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]).is_ok())
    }
}

/// Bytes of addresses that this process may have yet, if they are limited.
pub fn addresses_left() -> Option<u64> {
    let limit = address_limit()?;
    let mut taken = 0;
    procfs::lines(c"/proc/self/status", |line| {
        let found = procfs::labelled(line, b"VmSize:");
        taken = found.map_or(taken, |kilobytes| kilobytes.saturating_mul(1024));
        found.is_none()
    });
    Some(limit.saturating_sub(taken))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn page_size_is_the_kernels() {
        // SAFETY: sysconf only answers.
        assert_eq!(page_size() as i64, unsafe {
            libc::sysconf(libc::_SC_PAGESIZE)
        });
        assert_eq!(whole_pages(1), Some(4096));
        assert_eq!(whole_pages(4096), Some(4096));
        assert_eq!(whole_pages(usize::MAX), None);
    }

    #[test]
    fn more_addresses_than_there_are_are_not_had() {
        assert!(has_addresses(1 << 30) && has_addresses(4096));
        assert!(!has_addresses(1 << 60));
    }

    #[test]
    fn memory_is_mapped_where_nothing_lies_and_nowhere_else() {
        let start = reserve(3 * 4096, 4096).unwrap();
        assert_eq!(map_at(start, 4096, Access::Write), Err(NotMapped::Taken));
        // SAFETY: the reservation is this test's, three pages long.
        unsafe {
            assert!(unmap(start.add(4096), 2 * 4096));
            map_at(start.add(4096), 4096, Access::Write).unwrap();
            start.add(4096).write(1);
            assert_eq!(
                map_at(start.add(4096), 2 * 4096, Access::Write),
                Err(NotMapped::Taken)
            );
            assert_eq!(start.add(4096).read(), 1, "replaced");
            let place = start.as_ptr() as usize + 4096;
            let own = own_ranges::first_above(place);
            assert_eq!(own, Some((place, place + 4096)), "the collector's own");
            assert!(unmap(start, 2 * 4096));
        }
    }

    #[test]
    fn reservations_are_aligned_and_trimmed() {
        for align in [1, 4096, 1 << 16, 1 << 22, 1 << 30] {
            let start = reserve(3 * 4096 + 1, align).unwrap();
            assert_eq!(start.as_ptr() as usize % align.max(4096), 0);
            // SAFETY: the reservation is this test's, four pages long.
            unsafe {
                assert!(commit(start, 4 * 4096));
                start.add(4 * 4096 - 1).write(1);
                assert!(unmap(start, 4 * 4096));
            }
        }
    }

    #[test]
    fn populated_memory_is_there_before_it_is_written_and_reads_as_zero() {
        const PAGES: usize = 64;
        let faults = || {
            let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: the structure is as large as the kernel expects.
            unsafe {
                assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
                usage.assume_init().ru_minflt
            }
        };
        let start = map(2 * PAGES * 4096).unwrap();
        // SAFETY: the mapping is this test's; the second half of it is given back first.
        unsafe {
            if !populate(start, PAGES * 4096) {
                return; // A kernel before 5.14.
            }
            let before = faults();
            for page in 0..PAGES {
                assert_eq!(start.add(page * 4096).read_volatile(), 0);
                start.add(page * 4096).write_volatile(1);
            }
            // A kernel that moves pages between nodes may take some away to see who uses them.
            assert!(faults() - before < PAGES as i64 / 4);
            assert!(unmap(start.add(PAGES * 4096), PAGES * 4096));
            assert!(!populate(start, 2 * PAGES * 4096), "there is a hole");
            assert_eq!(start.read(), 1);
            assert!(unmap(start, PAGES * 4096));
        }
    }

    #[test]
    fn readable_memory_ends_where_a_read_would_fault() {
        let start = reserve(8 * 4096, 4096).unwrap();
        let low = start.as_ptr() as usize;
        // SAFETY: the reservation is this test's; its ends stay without access.
        unsafe {
            assert!(commit(start.add(2 * 4096), 4 * 4096));
            let before = crate::signals::blocked();
            assert_eq!(
                readable_end(low + 2 * 4096 + 8, low + 8 * 4096),
                low + 6 * 4096
            );
            assert_eq!(
                readable_end(low + 2 * 4096, low + 3 * 4096 + 5),
                low + 3 * 4096 + 5
            );
            assert_eq!(readable_end(low, low + 4096), low);
            assert_eq!(readable_start(low, low + 5 * 4096 + 7), low + 2 * 4096);
            assert_eq!(
                readable_start(low + 4 * 4096 + 1, low + 6 * 4096),
                low + 4 * 4096 + 1
            );
            assert_eq!(readable_start(low, low + 7 * 4096), low + 7 * 4096);
            assert!(unmap(start, 8 * 4096));
            assert_eq!(readable_end(low + 2 * 4096, low + 6 * 4096), low + 2 * 4096);
            assert_eq!(crate::signals::blocked(), before);
        }
    }

    #[test]
    fn readable_memory_is_found_whatever_its_length() {
        const PAGES: usize = 300;
        let start = reserve(PAGES * 4096, 4096).unwrap();
        let low = start.as_ptr() as usize;
        for readable in [0, 1, 2, 3, 7, 8, 9, 64, 100, 255, 256, PAGES - 1] {
            // SAFETY: the reservation is this test's; pages at both ends are given and taken.
            unsafe {
                assert!(forbid(start, PAGES * 4096));
                assert!(readable == 0 || commit(start.add(4096), readable * 4096));
            }
            let first = low + 4096;
            assert_eq!(
                readable_end(first, low + PAGES * 4096),
                first + readable * 4096
            );
            assert_eq!(readable_start(low, first + readable * 4096), first);
        }
        // SAFETY: nobody uses the reservation any more.
        unsafe { assert!(unmap(start, PAGES * 4096)) };
    }

    #[test]
    fn looking_below_the_first_stack_does_not_make_it_grow() {
        let low_end = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let line = maps
                .lines()
                .find(|line| line.ends_with("[stack]"))?
                .to_string();
            usize::from_str_radix(line.split('-').next()?, 16).ok()
        };
        let Some(low) = low_end() else { return };
        assert_eq!(readable_start(low - (1 << 20), low), low);
        assert_eq!(readable_end(low - 4096, low), low - 4096);
        assert_eq!(low_end(), Some(low));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert_eq!(reserve(0, 4096), None);
        assert_eq!(reserve(4096, 3), None);
        assert_eq!(reserve(usize::MAX, 4096), None);
        assert_eq!(reserve(1 << 62, 1 << 22), None);
        assert_eq!(reserve(usize::MAX - (1 << 20), 1 << 22), None);
        assert_eq!(map(0), None);
        assert_eq!(map(1 << 62), None);
    }

    #[test]
    fn a_released_page_reads_as_zero_and_can_be_written_again() {
        let start = reserve(1 << 20, 1 << 20).unwrap();
        // SAFETY: the reservation is this test's.
        unsafe {
            assert!(commit(start, 8192));
            assert_eq!(start.read(), 0);
            start.write(9);
            start.add(4096).write(8);
            assert!(release(start, 4096));
            assert_eq!((start.read(), start.add(4096).read()), (0, 8));
            start.write(7);
            assert_eq!(start.read(), 7);
            assert!(unmap(start, 1 << 20));
            // Addresses of the kernel itself, which it never hands out.
            let refused = NonNull::new(0xffff_8000_0000_0000_usize as *mut u8).unwrap();
            assert!(!commit(refused, 4096) && !release(refused, 4096) && !unmap(refused, 4096));
        }
    }

    #[test]
    fn locked_memory_is_not_released() {
        let start = map(4096).unwrap();
        // SAFETY: the mapping is this test's.
        unsafe {
            start.write(5);
            let page = start.as_ptr() as usize;
            call(libc::SYS_mlock, [page, 4096, 0, 0, 0, 0]).unwrap();
            assert!(!release(start, 4096));
            assert_eq!(start.read(), 5);
            assert!(unmap(start, 4096));
        }
    }

    #[test]
    fn committed_executable_memory_runs() {
        let start = reserve(4096, 4096).unwrap();
        // SAFETY: the page is this test's; the bytes are a function.
        unsafe {
            assert!(commit_executable(start, 4096));
            crate::processor::write_function(start.as_ptr());
            let run: extern "C" fn() -> i32 = core::mem::transmute(start.as_ptr());
            assert_eq!(run(), 42);
            assert!(unmap(start, 4096));
        }
    }

    #[test]
    fn the_limits_agree_with_the_c_library() {
        // SAFETY: sysconf only answers; getrlimit fills the struct.
        let (pages, limit) = unsafe {
            let mut limit: libc::rlimit = core::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_AS, &mut limit);
            (libc::sysconf(libc::_SC_PHYS_PAGES), limit.rlim_cur)
        };
        assert!(physical_memory() <= pages as u64 * 4096);
        assert!(physical_memory() > 1 << 20);
        assert_eq!(address_limit().unwrap_or(libc::RLIM_INFINITY), limit);
    }
    #[test]
    fn a_low_address_limit_is_seen_and_refuses_large_reservations() {
        let limit = 1u64 << 40;
        // SAFETY: the child, whose limit alone changes, makes system calls only, then leaves.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let low = libc::rlimit {
                    rlim_cur: limit,
                    rlim_max: limit,
                };
                libc::setrlimit(libc::RLIMIT_AS, &low);
                let seen = address_limit() == Some(limit);
                let refused = reserve(1 << 40, 1 << 22).is_none() && map(1 << 40).is_none();
                let granted = reserve(1 << 30, 1 << 22).is_some();
                libc::_exit(if seen && refused && granted { 0 } else { 1 });
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            assert_eq!(status, 0);
        }
    }
}
