//! Soft-dirty bits: bit 55 of a page's entry in `/proc/self/pagemap`, set by the first write after all bits of the
//! process were cleared through `/proc/self/clear_refs`.
//!
//! A write between the question and the clearing is lost, so only threads that are stopped may write to the range, which
//! is what a stopped world promises. A mapping that the kernel merges with a new one counts as written as a whole.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering};

use super::why::{PAGE_BYTES, Reason};
use crate::kept_file::Kept;
use crate::output::{Fd, open_write};
use crate::syscall::{Errno, call};
use crate::threads;

const SOFT_DIRTY: u64 = 1 << 55;
const CLEAR_REFS: &CStr = c"/proc/self/clear_refs";
/// What `clear_refs` takes for clearing soft-dirty bits.
const CLEAR: &[u8] = b"4";
/// Entries that are read at a time.
const ENTRIES: usize = 256;

/// The process whose watch has the bits; 0 for none.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// The right to clear the bits, and the file that does.
pub(super) struct SoftDirty(Kept);

impl SoftDirty {
    /// Takes the right, unless another watch of this process has it.
    pub(super) fn claim() -> Result<SoftDirty, Reason> {
        let own = threads::current_process();
        let taken = |owner: i32| (owner != own).then_some(own);
        // Relaxed: the bits themselves are the kernel's.
        match OWNER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken) {
            Ok(_) => Ok(SoftDirty(Kept::of(open_write(CLEAR_REFS)))),
            Err(_) => Err(Reason::Taken),
        }
    }

    /// Closes the file, as a program may.
    #[cfg(all(test, not(loom)))]
    pub(super) fn forget(&self) {
        self.0.close();
    }

    /// Gives up the right, and leaves the file open.
    pub(super) fn abandon(&self) {
        OWNER.store(0, Ordering::Relaxed);
    }

    /// Clears the bits of the whole process.
    pub(super) fn clear(&self) -> Result<(), Reason> {
        let file = self.0.lent(|| open_write(CLEAR_REFS));
        let is_cleared = file.is_some_and(|lent| lent.file.write_all(CLEAR));
        if is_cleared {
            Ok(())
        } else {
            Err(Reason::NoProc)
        }
    }
}

impl Drop for SoftDirty {
    fn drop(&mut self) {
        self.0.close();
        // In a child, what its parent had is no one's.
        self.abandon();
    }
}

/// Names the written pages of `low..high`.
pub(super) fn take(
    pages: Fd,
    low: usize,
    high: usize,
    visit: &mut dyn FnMut(usize, usize),
) -> Result<(), Reason> {
    let mut entries = [0u64; ENTRIES];
    let mut run = low..low;
    let mut at = low;
    while at < high {
        let wanted = ((high - at) / PAGE_BYTES).min(ENTRIES);
        let arguments = [
            pages.0 as usize,
            entries.as_mut_ptr() as usize,
            wanted * size_of::<u64>(),
            at / PAGE_BYTES * size_of::<u64>(),
            0,
            0,
        ];
        // SAFETY: the array has `wanted` entries at least, and they are writable.
        let read = match unsafe { call(libc::SYS_pread64, arguments) } {
            Ok(bytes) => bytes / size_of::<u64>(),
            Err(Errno(libc::EINTR)) => continue,
            Err(error) => return Err(Reason::of(error)),
        };
        if read == 0 {
            return Err(Reason::NoProc);
        }
        for entry in &entries[..read] {
            if entry & SOFT_DIRTY != 0 {
                if run.end != at {
                    visit_run(&run, visit);
                    run.start = at;
                }
                run.end = at + PAGE_BYTES;
            }
            at += PAGE_BYTES;
        }
    }
    visit_run(&run, visit);
    Ok(())
}

fn visit_run(run: &core::ops::Range<usize>, visit: &mut dyn FnMut(usize, usize)) {
    if !run.is_empty() {
        visit(run.start, run.end);
    }
}
