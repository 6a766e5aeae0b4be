//! Which pages of a range were written since the last time that was asked.
//!
//! Two mechanisms of the kernel answer that, behind one interface. One is *page scan* (Linux 6.7): it protects the
//! pages of the range through a userfaultfd whose write faults the kernel resolves by itself; one call tells the
//! written pages and protects them anew. The other is *soft-dirty* bits (`CONFIG_MEM_SOFT_DIRTY`), which are set in the
//! page table by the first write to a page, and cleared for the whole process at once. So they cost a fault for each
//! page that the process writes, and are shared with everybody who clears them. In both, the kernel sees its own writes
//! to user memory: a `read` into a page works and counts. No signal is used, and the program's handler of SIGSEGV is
//! never called.
//!
//! `mprotect` with a handler is not among them: a system call that writes to a protected page fails with `EFAULT`
//! instead of raising a signal, so each call that a program makes would have to be wrapped.
//!
//! What neither sees is a device that writes to a page which was pinned before the question (direct I/O, registered
//! buffers of io_uring).
//!
//! [`Watch::start`] tries a mechanism on a few pages of its own before it is used: whether it finds exactly what was
//! written, by the program and by a system call, and what it costs.
//!
//! # Invariants
//! - A [`Round`] that ended without an error has named every page of the ranges asked about that was written since the
//!   round before ended, whether that asked about the page or not. It may name pages that were written earlier.
//! - A round that failed, or a fork, ends the watch: pages may have been written unseen.
//! - A watch that heeds filters makes no call but `prctl`, and `getpid`, in a thread for which a filter is in force.
//! - One watch of a process at a time uses soft-dirty bits, since clearing them clears them for all.
//!
//! Any thread, one at a time; no allocation, no lock.

pub(crate) mod page_scan;
mod soft_dirty;
mod why;

use core::ffi::CStr;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use gleaner_base::faults::{self, FaultPoint};

use crate::kept_file::{Kept, Lent};
use crate::output::open_read;
use crate::syscall::call;
use crate::{clock, memory, threads};
use page_scan::PageScan;
use soft_dirty::SoftDirty;
pub use why::{Filters, Mechanism, PAGE_BYTES, Reason, Unavailable};

/// What both mechanisms ask.
const PAGES: &CStr = c"/proc/self/pagemap";
/// What a mechanism cost when it was tried.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Nanoseconds that the first write to a watched page takes.
    pub write_ns: u64,
    /// Nanoseconds for each page that a round asks about.
    pub page_ns: u64,
}

/// What answers in the kernel's place, in a model of what is built on the answers.
pub trait KernelModel: Sync {
    /// As [`Round::take`].
    fn take(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason>;

    /// As [`Round::begin`].
    fn begin(&self, low: usize, high: usize) -> Result<(), Reason> {
        self.take(low, high, &mut |_, _| {})
    }

    /// As [`Round::read`].
    fn read(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        self.take(low, high, visit)
    }

    /// As [`Round::finish`].
    fn finish(&self) -> Result<(), Reason>;

    /// As [`Watch::release`].
    fn release(&self, low: usize, high: usize);
}

enum Means {
    PageScan(PageScan),
    SoftDirty(SoftDirty),
    Modelled(Mechanism, &'static dyn KernelModel),
}

impl Means {
    /// # Safety
    /// As for [`Watch::start`].
    unsafe fn start(mechanism: Mechanism, ranges: &[Range<usize>]) -> Result<Means, Reason> {
        match mechanism {
            // SAFETY: the ranges are whole pages of private mappings of the caller's, as asked.
            Mechanism::PageScan => unsafe { PageScan::start(ranges) }.map(Means::PageScan),
            Mechanism::SoftDirty => SoftDirty::claim().map(Means::SoftDirty),
        }
    }
}

/// Ranges of addresses that are watched.
pub struct Watch {
    /// Left open at the end where a filter forbids to close it. That does no harm: the kernel resolves faults of what it protects
    /// by itself, without anybody who listens.
    means: ManuallyDrop<Means>,
    filters: Filters,
    /// The process that started it: what it holds says nothing of a child.
    process: i32,
    /// What is asked. Kept open: a program that has confined itself may open files no more.
    pages: Kept,
    /// What it costs.
    pub cost: Cost,
}

impl Watch {
    /// Watches ranges by the mechanism named, or by the first that works; [`Watch::add`] adds more. Which parts
    /// of them are asked about is said in each round: pages outside of those are not protected by page scan. `filters` says
    /// whether it is started, and goes on, where a filter of system calls is in force.
    ///
    /// # Safety
    /// The ranges are whole pages of private anonymous mappings of the caller's, and stay that as long as this exists.
    pub unsafe fn start(
        named: Option<Mechanism>,
        filters: Filters,
        ranges: &[Range<usize>],
    ) -> Result<Watch, Unavailable> {
        let mut reasons = [None; Mechanism::ALL.len()];
        if filters == Filters::Heeded && threads::is_filtered() {
            return Err(Unavailable::FILTERED);
        }
        for (mechanism, answer) in Mechanism::ALL.into_iter().zip(&mut reasons) {
            if named.is_some_and(|named| named != mechanism) {
                continue;
            }
            // SAFETY: the ranges are whole pages of private mappings of the caller's, as asked.
            match unsafe { Watch::by(mechanism, filters, ranges) } {
                Ok(watch) => return Ok(watch),
                Err(reason) => *answer = Some(reason),
            }
        }
        Err(Unavailable { reasons })
    }

    /// # Safety
    /// As for [`Watch::start`].
    unsafe fn by(
        mechanism: Mechanism,
        filters: Filters,
        ranges: &[Range<usize>],
    ) -> Result<Watch, Reason> {
        let cost = trial(mechanism)?;
        // SAFETY: the ranges are whole pages of private mappings of the caller's, as asked.
        let means = unsafe { Means::start(mechanism, ranges)? };
        Ok(Watch::with(means, filters, Kept::open(PAGES), cost))
    }

    fn with(means: Means, filters: Filters, pages: Kept, cost: Cost) -> Watch {
        Watch {
            means: ManuallyDrop::new(means),
            filters,
            process: threads::current_process(),
            pages,
            cost,
        }
    }

    /// A watch of which a model says what is written. It is taken for one of the mechanism named.
    pub fn modelled(mechanism: Mechanism, kernel: &'static dyn KernelModel) -> Watch {
        let means = Means::Modelled(mechanism, kernel);
        Watch::with(means, Filters::Ignored, Kept::NONE, Cost::default())
    }

    /// What this watches by.
    pub fn mechanism(&self) -> Mechanism {
        match *self.means {
            Means::PageScan(_) => Mechanism::PageScan,
            Means::SoftDirty(_) => Mechanism::SoftDirty,
            Means::Modelled(mechanism, _) => mechanism,
        }
    }

    /// Watches another range as well; its pages may have been added before. All of it counts as written until a round
    /// has asked about it.
    ///
    /// # Safety
    /// As for [`Watch::start`].
    pub unsafe fn add(&self, range: &Range<usize>) -> Result<(), Reason> {
        match &*self.means {
            _ if !self.may_ask() => Err(Reason::Filtered),
            // What a descriptor of the parent adds would be watched in the parent.
            _ if self.process != threads::current_process() => Err(Reason::Forked),
            // SAFETY: whole pages of private mappings of the caller's, as asked.
            Means::PageScan(scan) => unsafe { scan.add(range) },
            Means::SoftDirty(_) | Means::Modelled(..) => Ok(()),
        }
    }

    /// What is in `low..high`, whole pages, is of no interest any more, and is about to be written: it counts as written
    /// from now on, and that takes no faults if the mechanism knows how.
    pub fn release(&self, low: usize, high: usize) {
        match &*self.means {
            _ if !self.may_ask() => {}
            // The pages of a child are not watched.
            _ if self.process != threads::current_process() => {}
            Means::PageScan(scan) => scan.release(low, high),
            Means::SoftDirty(_) => {}
            Means::Modelled(_, kernel) => kernel.release(low, high),
        }
    }

    /// Begins a round of questions.
    pub fn round(&self) -> Result<Round<'_>, Reason> {
        if faults::armed(FaultPoint::WatchWrites) {
            return Err(Reason::Injected);
        }
        if !self.may_ask() {
            return Err(Reason::Filtered);
        }
        if self.process != threads::current_process() {
            return Err(Reason::Forked);
        }
        self.ask()
    }

    /// Whether no filter forbids the calling thread to ask the kernel.
    fn may_ask(&self) -> bool {
        self.filters == Filters::Ignored || !threads::is_filtered()
    }

    fn ask(&self) -> Result<Round<'_>, Reason> {
        let pages = self.pages.lent(|| open_read(PAGES)).ok_or(Reason::NoProc)?;
        Ok(Round { watch: self, pages })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.may_ask() {
            // SAFETY: nothing uses it any more, and this is the only place where it ends.
            unsafe { ManuallyDrop::drop(&mut self.means) };
            self.pages.close();
        } else if let Means::SoftDirty(bits) = &*self.means {
            bits.abandon();
        }
    }
}

/// One round of questions. From its end on, or from the question if the mechanism can do both at once, pages count as
/// written only when they are written again.
pub struct Round<'a> {
    watch: &'a Watch,
    pages: Lent,
}

impl Round<'_> {
    /// Calls `visit` with the runs of written pages in `low..high`, in order, and with nothing else.
    pub fn take(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        match &*self.watch.means {
            Means::PageScan(_) => page_scan::take(self.pages.file, low, high, visit),
            Means::SoftDirty(_) => soft_dirty::take(self.pages.file, low, high, visit),
            Means::Modelled(_, kernel) => kernel.take(low, high, visit),
        }
    }

    /// Has the pages of `low..high` watched from now on, and does not tell which of them were written before.
    pub fn begin(&self, low: usize, high: usize) -> Result<(), Reason> {
        match &*self.watch.means {
            Means::PageScan(_) => page_scan::protect(self.pages.file, low, high),
            Means::SoftDirty(_) => Ok(()), // When the round is finished.
            Means::Modelled(_, kernel) => kernel.begin(low, high),
        }
    }

    /// As [`Round::take`]; but those pages count as written on. For a round that is not finished.
    pub fn read(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        match &*self.watch.means {
            Means::PageScan(_) => page_scan::read(self.pages.file, low, high, visit),
            Means::SoftDirty(_) => soft_dirty::take(self.pages.file, low, high, visit),
            Means::Modelled(_, kernel) => kernel.read(low, high, visit),
        }
    }

    /// Ends the round.
    pub fn finish(self) -> Result<(), Reason> {
        match &*self.watch.means {
            Means::PageScan(_) => Ok(()),
            Means::SoftDirty(bits) => bits.clear(),
            Means::Modelled(_, kernel) => kernel.finish(),
        }
    }
}

/// The mechanism that a watch would take here, by a trial of each until one works.
pub fn available() -> Result<Mechanism, Unavailable> {
    let mut reasons = [None; Mechanism::ALL.len()];
    for (mechanism, answer) in Mechanism::ALL.into_iter().zip(&mut reasons) {
        match trial(mechanism) {
            Ok(_) => return Ok(mechanism),
            Err(reason) => *answer = Some(reason),
        }
    }
    Err(Unavailable { reasons })
}

/// Pages of a trial.
const TRIAL_PAGES: usize = 32;

/// Whether a mechanism finds what is written to some pages and nothing else, and what that costs.
fn trial(mechanism: Mechanism) -> Result<Cost, Reason> {
    if memory::page_size() != PAGE_BYTES {
        return Err(Reason::PageSize);
    }
    let bytes = TRIAL_PAGES * PAGE_BYTES;
    let start = memory::map(bytes).ok_or(Reason::Memory)?;
    // SAFETY: just mapped, nobody else knows it, and what watches it ends in there.
    let result = unsafe { try_on(mechanism, start) };
    // SAFETY: the mapping made above, into which no pointer is used any more.
    unsafe { memory::unmap(start, bytes) };
    result
}

/// # Safety
/// `start` is a private mapping of `TRIAL_PAGES` pages that nobody else uses.
unsafe fn try_on(mechanism: Mechanism, start: NonNull<u8>) -> Result<Cost, Reason> {
    let low = start.as_ptr() as usize;
    let high = low + TRIAL_PAGES * PAGE_BYTES;
    // SAFETY: the mapping is the caller's alone, as asked, and page numbers lie below its end.
    let write = |page: usize| unsafe { start.add(page * PAGE_BYTES).write_volatile(1) };
    (0..TRIAL_PAGES).for_each(write);
    let all = low..high;
    // SAFETY: the mapping is the caller's alone, as asked, and lasts longer than this.
    let means = unsafe { Means::start(mechanism, slice::from_ref(&all))? };
    let watch = Watch::with(means, Filters::Ignored, Kept::open(PAGES), Cost::default());
    let written = |expected: &dyn Fn(usize) -> bool| {
        let mut found = [false; TRIAL_PAGES];
        let round = watch.ask()?;
        round.take(low, high, &mut |from, to| {
            found[(from - low) / PAGE_BYTES..(to - low) / PAGE_BYTES].fill(true);
        })?;
        round.finish()?;
        match (0..TRIAL_PAGES).find(|&page| found[page] != expected(page)) {
            Some(page) if found[page] => Err(Reason::Inexact),
            Some(_) => Err(Reason::NotSeen),
            None => Ok(()),
        }
    };
    written(&|_| true)?;
    let before = clock::monotonic_ns();
    written(&|_| false)?;
    let asked = clock::monotonic_ns();
    (0..TRIAL_PAGES).step_by(2).for_each(write);
    let wrote = clock::monotonic_ns();
    let clock = [libc::CLOCK_MONOTONIC as usize, low + PAGE_BYTES, 0, 0, 0, 0];
    // SAFETY: the kernel writes the time to a page of the mapping.
    unsafe { call(libc::SYS_clock_gettime, clock) }.map_err(Reason::of)?;
    written(&|page| page % 2 == 0 || page == 1)?;
    Ok(Cost {
        write_ns: (wrote - asked) / (TRIAL_PAGES / 2) as u64,
        page_ns: (asked - before) / TRIAL_PAGES as u64,
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
