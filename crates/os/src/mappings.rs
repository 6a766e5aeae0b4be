//! The memory of the process in which a program may keep what it refers to, stacks of coroutines among it.
//!
//! It is read by copying ([`Copier`]): threads that the collector does not stop may unmap memory meanwhile, and then a copy
//! is refused where a read would fault. Pages that were never touched are left out where the kernel tells of them.
//!
//! Any thread, any state of the world; no allocation, no lock.

use core::ffi::CStr;
use core::ptr::NonNull;

use crate::memory::{self, page_size};
use crate::output::{Fd, open_read};
use crate::syscall::{Errno, call};
use crate::written::page_scan;
use crate::{own_ranges, procfs, stacks};

/// A range of addresses: from the first to behind the last.
pub type Range = (usize, usize);

/// What is copied at once, at least: a page, or a part of one where pages are larger.
const PIECE_BYTES: usize = 4096;
const PIECE_WORDS: usize = PIECE_BYTES / size_of::<usize>();
type Piece = [usize; PIECE_WORDS];

// Of this thread: the first one may have ended, and tells nothing then.
const MAPS: &CStr = c"/proc/thread-self/maps";
const PAGEMAP: &CStr = c"/proc/thread-self/pagemap";

/// The most pages that are asked about, and pieces that are copied, with one system call: as many as a word has bits.
const AT_ONCE: usize = 64;

/// The most of a mapping that is looked through where the kernel does not tell which pages were touched.
const MOST_UNTOLD: usize = 1 << 30;

/// The most bytes of a shared mapping whose pages are all asked about, with those that only other processes touched. A collection
/// takes 12 ms longer for each GB.
const MOST_SHARED: usize = 16 << 30;

/// A mapping in which the program may keep what it refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mapping {
    range: Range,
    is_shared: bool,
}

/// The mapping that a line of /proc/self/maps is of, if it can be written; or could, where it has no file. Left out are data segments
/// of files, which are roots if they count at all, and memory of devices.
fn mapping_of(line: &[u8]) -> Option<Mapping> {
    let range = stacks::mapping_bounds(line)?;
    let mut fields = line
        .split(|&byte| byte == b' ')
        .filter(|field| !field.is_empty());
    let access = fields.nth(1)?;
    let name = fields.nth(3).unwrap_or_default();
    let is_shared = access.get(3) == Some(&b's');
    let begins = |names: &[&[u8]]| names.iter().any(|of| name.starts_with(of));
    let has_no_file = name.is_empty() || begins(&[b"[heap]", b"[stack", b"[anon", b"/dev/zero"]);
    let is_in_memory = begins(&[b"/dev/shm/", b"/dev/hugepages/", b"/memfd:"]);
    let is_device = begins(&[b"/dev/"]) && !has_no_file && !is_in_memory;
    let is_temporary = is_in_memory || (line.ends_with(b" (deleted)") && !is_device);
    let counts = match (access.starts_with(b"rw"), is_shared) {
        (true, true) => !is_device,
        (true, false) => has_no_file || is_temporary,
        // A coroutine that waits may have its stack protected.
        (false, _) => access.starts_with(b"r--") && (has_no_file || is_temporary),
    };
    counts.then_some(Mapping { range, is_shared })
}

/// Whether [`for_each_piece`] would find what there is.
pub fn can_be_read() -> bool {
    let mut is_told = false;
    let read = procfs::lines(MAPS, |_| {
        is_told = true;
        false
    });
    read && is_told
}

/// Calls `visit` with the memory of the program's own, piece by piece: the mapping that it lies in, its address, and a copy of
/// its words. What is the collector's is left out, and what is `hidden`.
/// False where the system does not say what is mapped, or what was touched of more than can be looked through without that.
pub fn for_each_piece(hidden: Range, visit: &mut dyn FnMut(Range, usize, &[usize])) -> bool {
    let mut touched = None;
    let mut copier = Copier::new();
    let (mut is_told, mut is_whole) = (false, true);
    let read = procfs::lines(MAPS, |line| {
        is_told = true;
        // Behind the other file: with one descriptor left, there is no telling what is mapped, or what was touched.
        let touched = touched.get_or_insert_with(|| Touched(open_read(PAGEMAP)));
        if let Some(mapping) = mapping_of(line) {
            let mut left_out = |address| {
                let own = own_ranges::first_above(address);
                let hidden = (hidden.0 < hidden.1 && hidden.1 > address).then_some(hidden);
                own.into_iter().chain(hidden).min_by_key(|&(_, end)| end)
            };
            without(mapping.range, &mut left_out, &mut |part| {
                is_whole &= touched.for_each_run(part, mapping.is_shared, &mut |run| {
                    copier.copy_all(run, &mut |start, words| visit(mapping.range, start, words));
                });
            });
        }
        is_whole
    });
    read && is_told && is_whole
}

/// Calls `visit` with the parts of a range that are not left out.
fn without(
    (low, high): Range,
    left_out: &mut dyn FnMut(usize) -> Option<Range>,
    visit: &mut dyn FnMut(Range),
) {
    let mut at = low;
    while at < high {
        let (start, end) = left_out(at).unwrap_or((high, high));
        if at < start.min(high) {
            visit((at, start.min(high)));
        }
        at = end;
    }
}

/// Copies memory that others may unmap meanwhile.
pub struct Copier {
    one: [Piece; 1],
    /// Where the system gave memory for it.
    many: Option<NonNull<Piece>>,
}

impl Copier {
    /// With room for many pages, if the system gives it. While it exists it is the collector's memory, and no one else's.
    pub fn new() -> Copier {
        Copier {
            one: [[0; PIECE_WORDS]],
            many: memory::map(AT_ONCE * PIECE_BYTES).map(NonNull::cast),
        }
    }

    fn buffer(&mut self) -> &mut [Piece] {
        match self.many {
            // SAFETY: mapped, zero at first, and this one's alone.
            Some(many) => unsafe { core::slice::from_raw_parts_mut(many.as_ptr(), AT_ONCE) },
            None => &mut self.one,
        }
    }

    /// Calls `visit` with the address and a copy of what can be read of a range, piece by piece.
    pub fn copy_all(&mut self, (low, high): Range, visit: &mut dyn FnMut(usize, &[usize])) {
        let mut at = low;
        while at < high {
            at = self.copy_up((at, high), visit).saturating_add(page_size()) & !(page_size() - 1);
        }
    }

    /// The same up to the first address that cannot be read, or the end of the range: that is returned.
    pub fn copy_up(&mut self, (low, high): Range, visit: &mut dyn FnMut(usize, &[usize])) -> usize {
        let mut piece = low & !(PIECE_BYTES - 1);
        while piece < high {
            let buffer = self.buffer();
            let wanted = (high - piece).div_ceil(PIECE_BYTES).min(buffer.len());
            let copied = copy(piece, &mut buffer[..wanted]);
            if copied == 0 {
                break;
            }
            let (from, end) = (low.max(piece), high.min(piece + copied * PIECE_BYTES));
            let (first, last) = (
                (from - piece).div_ceil(size_of::<usize>()),
                (end - piece) / size_of::<usize>(),
            );
            visit(
                piece + first * size_of::<usize>(),
                buffer.as_flattened().get(first..last).unwrap_or_default(),
            );
            piece += copied * PIECE_BYTES;
        }
        piece.clamp(low, high.max(low))
    }
}

impl Default for Copier {
    fn default() -> Copier {
        Copier::new()
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        if let Some(many) = self.many {
            // SAFETY: mapped by `new`, and used no more.
            unsafe { memory::unmap(many.cast(), AT_ONCE * PIECE_BYTES) };
        }
    }
}

/// Copies the pieces from `start` on, as many as there is room for; how many could be read.
fn copy(start: usize, pieces: &mut [Piece]) -> usize {
    let ours = [pieces.as_mut_ptr() as usize, size_of_val(pieces)];
    let theirs = [start, size_of_val(pieces)];
    let arguments = [
        crate::threads::current_tid().0 as usize,
        ours.as_ptr() as usize,
        1,
        theirs.as_ptr() as usize,
        1,
        0,
    ];
    // SAFETY: the kernel writes no more than the pieces that are named first, and answers for the others.
    match unsafe { call(libc::SYS_process_vm_readv, arguments) } {
        Ok(bytes) => bytes / PIECE_BYTES,
        // The kernel may refuse all where it cannot give one.
        Err(Errno(libc::EFAULT | libc::ENOMEM)) if pieces.len() > 1 => {
            copy(start, &mut pieces[..1])
        }
        Err(Errno(libc::EFAULT)) => 0,
        // Where nobody may ask (a filter of system calls), they are read.
        Err(_) => {
            let starts = (start..).step_by(PIECE_BYTES);
            let readable = starts
                .zip(pieces)
                .take_while(|&(from, _)| memory::readable_end(from, from + 1) > from);
            readable
                .map(|(from, piece)| {
                    for (number, word) in piece.iter_mut().enumerate() {
                        // SAFETY: the piece can be read, and no reference to it is made: others may write to it.
                        *word = unsafe { (from as *const usize).add(number).read_volatile() };
                    }
                })
                .count()
        }
    }
}

/// Which pages of the process were touched, as `/proc/self/pagemap` says.
struct Touched(Option<Fd>);

impl Touched {
    /// Calls `visit` with the parts of a range that were touched; with all of it, where that is not told, unless it is too much: then
    /// the answer is false. Pages of shared memory may be there without having been touched by this process; where it is too much to ask about
    /// each, they are left out.
    fn for_each_run(
        &self,
        (low, high): Range,
        is_shared: bool,
        visit: &mut dyn FnMut(Range),
    ) -> bool {
        let first = low & !(page_size() - 1);
        let mut run = |start: usize, end: usize| visit((low.max(start), high.min(end)));
        if !is_shared || high - low > MOST_SHARED {
            // It passes over what has no page table, which may be terabytes.
            let end = high.next_multiple_of(page_size());
            let scanned = self
                .0
                .is_some_and(|file| page_scan::touched(file, first, end, &mut run).is_ok());
            if scanned {
                return true;
            }
        }
        let mut group = first;
        let untold = high.min(first.saturating_add(MOST_UNTOLD));
        while group < high {
            let pages = (high - group).div_ceil(page_size()).min(AT_ONCE);
            let told = if is_shared {
                resident(group, pages)
            } else {
                self.of(group, pages)
            };
            if told.is_none() && group >= untold {
                return false;
            }
            for_each_set(told.unwrap_or(u64::MAX), pages, &mut |at, length| {
                let start = group + at * page_size();
                run(start, start + length * page_size());
            });
            group += pages * page_size();
        }
        true
    }

    /// A bit for each of up to 64 pages from `start` on: whether it is in memory, or was swapped out; `None`, where that is not told.
    fn of(&self, start: usize, pages: usize) -> Option<u64> {
        const ENTRY: usize = size_of::<u64>();
        const PRESENT_OR_SWAPPED: u64 = 3 << 62;
        let mut entries = [0u8; AT_ONCE * ENTRY];
        let wanted = &mut entries[..pages * ENTRY];
        let length = wanted.len();
        let read = self.0?.read_at(start / page_size() * ENTRY, wanted);
        let (entries, _) = entries[..length].as_chunks::<ENTRY>();
        let bits = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| u64::from_ne_bytes(**entry) & PRESENT_OR_SWAPPED != 0)
            .fold(0, |bits, (number, _)| bits | 1 << number);
        (read == Some(length)).then_some(bits)
    }
}

/// A bit for each of up to 64 pages from `start` on: whether it is in memory, for this process or another; `None`, where that is not told.
fn resident(start: usize, pages: usize) -> Option<u64> {
    let mut told = [0u8; AT_ONCE];
    let arguments = [
        start,
        pages * page_size(),
        told.as_mut_ptr() as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes a byte for each page.
    unsafe { call(libc::SYS_mincore, arguments) }.ok()?;
    let bits = told[..pages].iter().enumerate();
    Some(bits.fold(0, |bits, (number, byte)| {
        bits | u64::from(byte & 1) << number
    }))
}

/// Calls `visit` with the first and the length of each run of ones among the lowest `length` bits.
fn for_each_set(bits: u64, length: usize, visit: &mut dyn FnMut(usize, usize)) {
    let mut next = 0;
    while next < length {
        let rest = bits >> next;
        let run = (rest.trailing_ones() as usize).min(length - next);
        if run > 0 {
            visit(next, run);
        }
        next += run.max((!rest).trailing_ones() as usize);
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            file.close();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Nothing is read here: the ranges are numbers.
    #[test]
    fn too_much_of_which_nothing_is_told_is_an_answer_of_its_own() {
        let untold = Touched(None);
        let low = 0x10_0000_0000;
        let mut bytes = 0;
        let mut count = |bytes_of: Range| {
            untold.for_each_run(bytes_of, false, &mut |(from, to)| bytes += to - from)
        };
        assert!(count((low, low + MOST_UNTOLD)));
        assert!(!count((low, low + MOST_UNTOLD + page_size())));
        assert_eq!(
            bytes,
            2 * MOST_UNTOLD,
            "what was not too much is looked through"
        );
    }

    #[test]
    fn only_memory_of_the_program_counts() {
        let counts = |line: &[u8]| {
            mapping_of(line).map(|found| {
                assert_eq!(found.range, (0x7f00, 0x8f00));
                found.is_shared
            })
        };
        let (private, shared) = (Some(false), Some(true));
        for (line, expected) in [
            ("7f00-8f00 rw-p 00000000 00:00 0 ", private),
            ("7f00-8f00 rw-p 00000000 00:00 0", private),
            ("7f00-8f00 r--p 00000000 00:00 0 ", private),
            ("7f00-8f00 rwxp 00000000 00:00 0   [heap]", private),
            ("7f00-8f00 rw-p 00000000 00:00 0   [stack]", private),
            ("7f00-8f00 rw-p 00000000 00:00 0   [stack:77]", private),
            ("7f00-8f00 rw-p 00000000 00:06 4   /dev/zero", private),
            ("7f00-8f00 rw-s 00000000 00:0f 7   /dev/hugepages/x", shared),
            ("7f00-8f00 r--p 00000000 00:00 0   [heap]", private),
            (
                "7f00-8f00 rw-p 00000000 00:00 0   [anon: glibc: malloc]",
                private,
            ),
            (
                "7f00-8f00 rw-s 00000000 00:01 7   /dev/zero (deleted)",
                shared,
            ),
            (
                "7f00-8f00 rw-s 00000000 00:01 7   /memfd:stacks (deleted)",
                shared,
            ),
            (
                "7f00-8f00 rw-p 00000000 00:01 7   /memfd:stacks (deleted)",
                private,
            ),
            (
                "7f00-8f00 rw-s 00000000 00:01 7   /SYSV00000000 (deleted)",
                shared,
            ),
            (
                "7f00-8f00 rw-s 00000000 00:01 7   /anon_hugepage (deleted)",
                shared,
            ),
            (
                "7f00-8f00 rw-p 00000000 00:0f 7   /anon_hugepage (deleted)",
                private,
            ),
            ("7f00-8f00 rw-s 00000000 00:1b 7   /dev/shm/stacks", shared),
            ("7f00-8f00 rw-p 00000000 00:1b 7   /dev/shm/stacks", private),
            ("7f00-8f00 rw-s 00012000 08:01 999 /var/lib/data", shared),
            (
                "7f00-8f00 rw-p 00000000 08:01 999 /tmp/#12 (deleted)",
                private,
            ),
            ("7f00-8f00 ---p 00000000 00:00 0 ", None),
            ("7f00-8f00 r--p 00000000 00:00 0   [vvar]", None),
            ("7f00-8f00 r--p 00000000 08:01 999 /usr/share/locale", None),
            ("7f00-8f00 rw-p 00012000 08:01 999 /usr/lib/libc.so.6", None),
            ("7f00-8f00 rw-s 00012000 00:05 99  /dev/dri/card0", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(counts(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn runs_of_bits_are_found() {
        let runs = |bits, length| {
            let mut found = Vec::new();
            for_each_set(bits, length, &mut |at, length| found.push((at, length)));
            found
        };
        assert_eq!(runs(0, 64), []);
        assert_eq!(runs(u64::MAX, 64), [(0, 64)]);
        assert_eq!(runs(u64::MAX, 7), [(0, 7)]);
        assert_eq!(runs(0b1101_1000, 8), [(3, 2), (6, 2)]);
        assert_eq!(runs(1 << 63 | 1, 64), [(0, 1), (63, 1)]);
    }

    #[test]
    fn what_is_left_out_is_cut_out() {
        let parts = |left_out: &[Range]| {
            let mut found = Vec::new();
            let mut first_above = |at| {
                left_out
                    .iter()
                    .copied()
                    .filter(|&(_, end)| end > at)
                    .min_by_key(|&(_, end)| end)
            };
            without((100, 200), &mut first_above, &mut |part| found.push(part));
            found
        };
        assert_eq!(parts(&[]), [(100, 200)]);
        assert_eq!(parts(&[(0, 100), (200, 300)]), [(100, 200)]);
        assert_eq!(
            parts(&[(0, 120), (140, 150), (180, 300)]),
            [(120, 140), (150, 180)]
        );
        assert_eq!(parts(&[(110, 130), (120, 150)]), [(100, 110), (150, 200)]);
        assert_eq!(parts(&[(0, 300)]), []);
    }

    /// Pages of shared memory are there although this process has not touched them, and those that nobody has touched stay away.
    #[test]
    fn shared_memory_is_found_that_only_others_touched() {
        const SECRET: usize = 0x5ec2_e700_0000_0002;
        let bytes = 3 * page_size();
        // SAFETY: a new mapping, which disturbs nothing; its first page is given up, which keeps what is shared.
        let low = unsafe {
            let mapped = libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(mapped, libc::MAP_FAILED);
            mapped.cast::<usize>().add(3).write(SECRET);
            assert_eq!(libc::madvise(mapped, page_size(), libc::MADV_DONTNEED), 0);
            mapped as usize
        };
        let mut found = Vec::new();
        let told = for_each_piece((0, 0), &mut |_, start, words| {
            if (low..low + bytes).contains(&start) {
                found.push((start - low, words.len(), words[3]));
            }
        });
        assert!(told);
        assert_eq!(found, [(0, page_size() / size_of::<usize>(), SECRET)]);
        assert_eq!(resident(low, 3), Some(0b001));
        // SAFETY: mapped above, and used no more.
        unsafe { libc::munmap(low as *mut core::ffi::c_void, bytes) };
    }

    /// A page of the program's is found with what was written to it; neither one that was never touched, nor one of the
    /// collector's, nor what is hidden.
    #[test]
    fn pages_that_were_written_are_found() {
        const SECRET: usize = 0x5ec2_e700_0000_0001;
        let pages = 4;
        // SAFETY: a new mapping, which disturbs nothing.
        let mapped = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                pages * page_size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        let low = mapped as usize;
        let own = memory::map(page_size()).unwrap();
        let write = |address: usize| {
            // SAFETY: mapped above.
            unsafe { (address as *mut usize).write_volatile(SECRET) }
        };
        write(low + 40);
        write(low + 3 * page_size() + 16);
        write(low + 3 * page_size() + 32);
        write(own.as_ptr() as usize);
        let (mut found, mut words_seen) = (Vec::new(), 0);
        let hidden = (low + 3 * page_size() + 24, low + 4 * page_size());
        let told = for_each_piece(hidden, &mut |mapping, start, words| {
            assert_ne!(start, own.as_ptr() as usize);
            if !(low..low + pages * page_size()).contains(&start) {
                return;
            }
            assert!(mapping.0 <= low && low + pages * page_size() <= mapping.1);
            words_seen += words.len();
            let at = words
                .iter()
                .enumerate()
                .filter(|(_, word)| **word == SECRET);
            found.extend(at.map(|(number, _)| start + number * 8));
        });
        assert!(told && can_be_read());
        let pagemap = Touched(open_read(PAGEMAP));
        assert_eq!(pagemap.of(low, pages), Some(0b1001));
        assert_eq!(found, [low + 40, low + 3 * page_size() + 16]);
        assert_eq!(words_seen, page_size() / size_of::<usize>() + 3);
        // SAFETY: mapped above.
        let changed = unsafe {
            let third = (low + 2 * page_size()) as *mut core::ffi::c_void;
            libc::mprotect(third, page_size(), libc::PROT_NONE)
        };
        assert_eq!(changed, 0);
        let many = Copier::new();
        let one = Copier {
            many: None,
            ..Copier::new()
        };
        for mut copier in [many, one] {
            let mut pieces = Vec::new();
            let mut visit =
                |start: usize, words: &[usize]| pieces.push((start - low, words.len(), words[0]));
            let end = copier.copy_up((low + 40, low + pages * page_size()), &mut visit);
            assert_eq!(end, low + 2 * page_size());
            copier.copy_all(
                (low + 2 * page_size() + 8, low + 3 * page_size() + 17),
                &mut visit,
            );
            assert_eq!((pieces[0].0, pieces[0].2), (40, SECRET));
            let words: usize = pieces.iter().map(|piece| piece.1).sum();
            assert_eq!(words, 2 * page_size() / size_of::<usize>() - 5 + 2);
        }
        // SAFETY: mapped above, and used no more.
        unsafe {
            libc::munmap(mapped, pages * page_size());
            memory::unmap(own, page_size());
        }
        assert_eq!(copy(low, &mut [[0; PIECE_WORDS]; 2]), 0);
    }
}
