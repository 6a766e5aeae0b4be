//! How much memory is resident, and, for tests, which ranges were touched.
//!
//! Read from /proc into a small buffer on the stack: no allocation, no lock.
//!
//! **Touched ranges.** The processor sets a bit in the page table when it reads or writes a page, and the
//! kernel reports the sum of those bits per mapping ("Referenced" in /proc/self/smaps).
//! [`clear_referenced`] clears the bits of the whole process, [`referenced_bytes`] adds up those of a
//! range. The kernel merges neighbouring mappings, so [`isolate`] first makes a range a mapping of its own.
//! A count is a multiple of the page size, or of 2 MB where huge pages are in use. A page that was read but
//! never written does not count, because the kernel's one page of zeros stands for it: write a range before
//! watching it. A bit that is not set proves that nothing touched the page; one that is set may, rarely,
//! come from a processor's guess. (The kernel's "soft-dirty" bits see writes only, and its advice "cold"
//! clears the bits only of pages that no forked child shares and that have left the queues of other
//! processors.)

use crate::kept_file::KeptFile;
use crate::output::open_write;
use crate::threads::current_process;
use crate::{memory, procfs};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicI32, Ordering};

/// Bytes of the process in memory now, 0 when the kernel does not say.
pub fn resident_bytes() -> u64 {
    let mut buffer = [0u8; 128];
    let text = procfs::read(c"/proc/self/statm", &mut buffer);
    text.and_then(|text| {
        let space = text.iter().position(|&b| b == b' ')?;
        procfs::number(&text[space..])
    })
    .map_or(0, |pages| pages * memory::page_size() as u64)
}

/// The most bytes that the process has had in memory, 0 when the kernel does not say.
pub fn peak_resident_bytes() -> u64 {
    let mut peak = None;
    procfs::lines(c"/proc/self/status", |line| {
        peak = procfs::labelled(line, b"VmHWM:");
        peak.is_none()
    });
    peak.map_or(0, |kilobytes| kilobytes * 1024)
}

/// Eight bytes for each page of the process that opened it, a forked child's parent for example.
static PAGES: KeptFile = KeptFile::new(c"/proc/self/pagemap");
/// The process that opened it; 0 for none. Relaxed: it is stored before the file is read by others, or they do without.
static OPENER: AtomicI32 = AtomicI32::new(0);

/// Lets [`backed_bytes`] know of pages from now on, in this process: opens a file, which stays open.
pub fn watch_pages() {
    PAGES.open();
    let own = current_process();
    let _ = OPENER.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
}

/// Bytes of a range of whole pages that are in memory, counted until there are `enough`; all of it, where the kernel does not
/// say, before [`watch_pages`], and in a forked child. Pages that were swapped out are not in memory, and pages that were
/// only read are.
pub fn backed_bytes(start: NonNull<u8>, bytes: usize, enough: usize) -> usize {
    const ENTRY: usize = size_of::<u64>();
    const AT_ONCE: usize = 256;
    const PRESENT: u64 = 1 << 63;
    if OPENER.load(Ordering::Relaxed) != current_process() {
        return bytes;
    }
    let mut entries = [0u8; AT_ONCE * ENTRY];
    let page = memory::page_size();
    let (first, pages) = (start.as_ptr() as usize / page, bytes / page);
    let (mut done, mut backed) = (0, 0);
    while done < pages && backed * page < enough {
        let wanted = AT_ONCE.min(pages - done) * ENTRY;
        let found = PAGES.read_at((first + done) * ENTRY, &mut entries[..wanted]);
        let Some(found) = found.filter(|found| found.len() == wanted) else {
            return bytes;
        };
        let (entries, _) = found.as_chunks::<ENTRY>();
        let is_present = |entry: &&[u8; ENTRY]| u64::from_ne_bytes(**entry) & PRESENT != 0;
        backed += entries.iter().filter(is_present).count();
        done += entries.len();
    }
    backed * page
}

/// Makes a range a mapping of its own, so that [`referenced_bytes`] counts it alone. (The range is left out
/// of core dumps, which is what keeps the kernel from merging it with its neighbours.)
///
/// # Safety
/// The range is whole pages of the caller's.
pub unsafe fn isolate(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller owns the range; the advice changes no contents.
    unsafe { memory::advise(start, bytes, libc::MADV_DONTDUMP).is_ok() }
}

/// Undoes [`isolate`].
///
/// # Safety
/// The range is whole pages of the caller's.
pub unsafe fn rejoin(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller owns the range; the advice changes no contents.
    unsafe { memory::advise(start, bytes, libc::MADV_DODUMP).is_ok() }
}

/// Forgets which pages of the process were touched. False when the kernel cannot.
///
/// The processors keep copies of page table entries, through which a page could be touched again without
/// setting the bit, and the kernel leaves them alone here. Taking back a mapping of many pages makes every
/// processor drop all copies that belong to the process.
pub fn clear_referenced() -> bool {
    let Some(file) = open_write(c"/proc/self/clear_refs") else {
        return false;
    };
    let cleared = file.write_all(b"1");
    file.close();
    cleared && drop_translations()
}

/// More pages than the kernel invalidates one by one (33 unless told otherwise).
const MANY_PAGES: usize = 1024;

fn drop_translations() -> bool {
    let bytes = MANY_PAGES * memory::page_size();
    let Some(start) = memory::map(bytes) else {
        return false;
    };
    for page in 0..MANY_PAGES {
        // SAFETY: inside the mapping just made.
        unsafe { start.add(page * memory::page_size()).write_volatile(1) };
    }
    // SAFETY: the mapping just made; nobody else knows it.
    unsafe { memory::unmap(start, bytes) }
}

/// Bytes of the range that were touched since [`clear_referenced`]; None when the kernel does not say, or
/// when the range does not begin and end with a mapping: [`isolate`] it first.
pub fn referenced_bytes(start: NonNull<u8>, bytes: usize) -> Option<usize> {
    let (low, high) = (start.as_ptr() as usize, start.as_ptr() as usize + bytes);
    let (mut covered, mut touched) = (0, Some(0));
    let mut inside = false;
    let readable = procfs::lines(c"/proc/self/smaps", |line| {
        if let Some((from, to)) = crate::stacks::mapping_bounds(line) {
            inside = low <= from && to <= high;
            covered += if inside { to - from } else { 0 };
        } else if inside && line.starts_with(b"Referenced:") {
            let kilobytes = procfs::labelled(line, b"Referenced:");
            touched = touched
                .zip(kilobytes)
                .map(|(sum, more)| sum + more as usize * 1024);
        }
        true
    });
    touched.filter(|_| readable && covered == bytes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The bits are cleared for the whole process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    #[test]
    fn resident_bytes_follow_what_is_used() {
        assert!(resident_bytes() > 0);
        assert!(peak_resident_bytes() >= 64 * memory::page_size() as u64);
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(text.contains("VmHWM:"));
    }

    #[test]
    fn what_was_not_written_is_not_backed() {
        let pages = 3000;
        let start = memory::map(pages * memory::page_size()).unwrap();
        // SAFETY: the mapping is this test's, and all offsets are inside.
        unsafe {
            crate::hugepages::unadvise(start, pages * memory::page_size());
            watch_pages();
            let backed = |enough| backed_bytes(start, pages * memory::page_size(), enough);
            assert_eq!(backed(usize::MAX), 0);
            for page in [0, 255, 256, 2999] {
                start.add(page * memory::page_size()).write_volatile(1);
            }
            assert_eq!(backed(usize::MAX), 4 * memory::page_size());
            assert_eq!(
                backed(memory::page_size()),
                2 * memory::page_size(),
                "it stops when it knows enough"
            );
            OPENER.store(1, Ordering::Relaxed);
            assert_eq!(
                backed(usize::MAX),
                pages * memory::page_size(),
                "nobody says in a child"
            );
            OPENER.store(current_process(), Ordering::Relaxed);
            assert!(memory::unmap(start, pages * memory::page_size()));
        }
    }

    #[test]
    fn touches_are_counted_page_by_page() {
        let _one = ONE_AT_A_TIME.lock();
        let all = memory::map(64 * memory::page_size()).unwrap();
        // SAFETY: the mapping is this test's, and all offsets are inside.
        unsafe {
            crate::hugepages::unadvise(all, 64 * memory::page_size());
            all.write_bytes(1, 64 * memory::page_size());
            let (start, bytes) = (all.add(8 * memory::page_size()), 32 * memory::page_size());
            assert_eq!(
                referenced_bytes(start, bytes),
                None,
                "not a mapping of its own"
            );
            assert!(isolate(start, bytes));
            assert_eq!(referenced_bytes(start, bytes), Some(bytes));
            for round in 0..3 {
                assert!(clear_referenced());
                assert_eq!(referenced_bytes(start, bytes), Some(0));
                all.write_volatile(1);
                all.add(63 * memory::page_size()).read_volatile();
                assert_eq!(
                    referenced_bytes(start, bytes),
                    Some(0),
                    "the neighbours do not count"
                );
                start.add(5 * memory::page_size()).read_volatile();
                start.add(9 * memory::page_size() + round).write_volatile(2);
                assert_eq!(
                    referenced_bytes(start, bytes),
                    Some(2 * memory::page_size())
                );
            }
            assert_eq!(start.read(), 1, "the contents stay");
            assert!(rejoin(start, bytes));
            assert_eq!(referenced_bytes(start, bytes), None);
            assert!(memory::unmap(all, 64 * memory::page_size()));
        }
    }

    #[test]
    fn a_touch_by_another_processor_is_counted() {
        let _one = ONE_AT_A_TIME.lock();
        let start = memory::map(16 * memory::page_size()).unwrap();
        let address = start.as_ptr() as usize;
        // SAFETY: the mapping is this test's; the other thread only reads it and is joined.
        unsafe {
            crate::hugepages::unadvise(start, 16 * memory::page_size());
            start.write_bytes(1, 16 * memory::page_size());
            assert!(isolate(start, 16 * memory::page_size()));
            std::thread::scope(|scope| {
                let (go, wait) = std::sync::mpsc::channel::<usize>();
                let (say, hear) = std::sync::mpsc::channel::<u8>();
                scope.spawn(move || {
                    for page in wait {
                        let page = (address + page * memory::page_size()) as *const u8;
                        say.send(page.read_volatile()).unwrap();
                    }
                });
                for _ in 0..3 {
                    go.send(3).unwrap();
                    hear.recv().unwrap();
                    assert!(clear_referenced());
                    assert_eq!(referenced_bytes(start, 16 * memory::page_size()), Some(0));
                    go.send(3).unwrap();
                    hear.recv().unwrap();
                    assert_eq!(
                        referenced_bytes(start, 16 * memory::page_size()),
                        Some(memory::page_size())
                    );
                }
                drop(go);
            });
            assert!(memory::unmap(start, 16 * memory::page_size()));
        }
    }
}
