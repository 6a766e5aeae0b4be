//! Accesses to memory that is without access on purpose: before the process gets its SIGSEGV, the owner of the
//! addresses says what they were, and by which instruction they were accessed if that matters.
//!
//! The first [`watch`] installs a handler for SIGSEGV. Where the address of a fault lies in a watched range, the
//! owner's function writes a message to the standard error stream, and the action that the process had before is put
//! back. The access is repeated, and what follows is what would have followed without this. Other faults, and signals
//! that were sent, go to that action: our handler has its flags and its mask, so a handler that it calls runs as
//! without ours. A program that installs its own handler later loses the message, nothing else. So do threads that
//! block the signal.
//!
//! # Invariants
//! - An entry is claimed by compare-and-swap of its `owner`; `start` is written last (Release, partner Acquire in the
//!   handler), and taken back first, so the one that finds an address inside sees the rest.
//! - The action before ours is written before ours is installed, by the thread that claimed `INSTALLED`.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use gleaner_base::events::LineBuffer;

use crate::output::STDERR;
use crate::processor;
use crate::signals::{self, Information, SavedErrno};
use crate::threads::current_tid;

/// An access that faulted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Where.
    pub address: usize,
    /// The address of the instruction.
    pub instruction: usize,
    /// Whether it was a write.
    pub writes: bool,
}

impl Access {
    /// # Safety
    /// `context` is what the kernel gave the handler of the signal.
    unsafe fn of(address: usize, context: *const c_void) -> Access {
        // SAFETY: what the kernel gave the handler, as asked.
        let (instruction, writes) = unsafe { processor::fault(context) };
        Access {
            address,
            instruction,
            writes,
        }
    }
}

/// Writes an instruction's address, and the function and file that it lies in if they are known. For the handler of a
/// fault: the lock of the loader's that this takes may be taken by the same thread again, and what waits for it ends
/// with the process.
#[derive(Clone, Copy, Debug)]
pub struct Instruction(pub usize);

impl fmt::Display for Instruction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)?;
        // SAFETY: all zeros is a valid answer.
        let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: the address is only compared, and the answer is this function's.
        if unsafe { libc::dladdr(self.0 as *const c_void, &raw mut found) } == 0 {
            return Ok(());
        }
        let text = |start: *const core::ffi::c_char| {
            // SAFETY: null, or a string of the loader's, which lasts as long as the library is loaded that runs.
            (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_bytes())
        };
        let text = |start| text(start).and_then(|bytes| core::str::from_utf8(bytes).ok());
        if let Some(name) = text(found.dli_sname) {
            write!(out, " in {name}+{:#x}", self.0 - found.dli_saddr as usize)?;
        }
        match text(found.dli_fname) {
            Some(file) => write!(out, " ({file}+{:#x})", self.0 - found.dli_fbase as usize),
            None => Ok(()),
        }
    }
}

/// Writes what the address of an access is; false if it has nothing to say. It runs in a signal handler: it reads memory
/// that others may write only through atomics, allocates nothing and waits for no lock.
///
/// # Safety
/// What [`watch`] was given is still there.
pub type Describe = unsafe fn(owner: *const (), access: Access, out: &mut dyn fmt::Write) -> bool;

/// Bytes of what is written about an access; the rest is cut off.
const MOST_BYTES: usize = 2048;

/// How many ranges can be watched at a time.
const MOST: usize = 32;

struct Entry {
    /// 0 while the entry is not complete.
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// Null while the entry is free.
    owner: AtomicPtr<()>,
    /// A [`Describe`].
    describe: AtomicPtr<()>,
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        owner: AtomicPtr::new(core::ptr::null_mut()),
        describe: AtomicPtr::new(core::ptr::null_mut()),
    }
}; MOST];

/// The action that the process had before.
struct Before(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, before the handler is installed that reads it.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new(MaybeUninit::zeroed()));
/// Set by the thread that installs the handler.
static INSTALLED: AtomicU32 = AtomicU32::new(0);

/// A range that is watched, as long as this exists.
#[derive(Debug)]
pub struct Watch(usize);

/// Watches a range of addresses; `None` when there are too many, or the handler cannot be installed.
///
/// # Safety
/// `owner`, which is not null, is what `describe` may be called with until the watch is dropped and no thread accesses
/// the range any more.
pub unsafe fn watch(
    start: usize,
    bytes: usize,
    owner: *const (),
    describe: Describe,
) -> Option<Watch> {
    if !install() {
        return None;
    }
    let free = core::ptr::null_mut();
    let claims = |entry: &Entry| {
        let claim = entry.owner.compare_exchange(
            free,
            owner.cast_mut(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        claim.is_ok()
    };
    let index = ENTRIES.iter().position(claims)?;
    let entry = &ENTRIES[index];
    entry.bytes.store(bytes, Ordering::Relaxed);
    entry.describe.store(describe as *mut (), Ordering::Relaxed);
    entry.start.store(start, Ordering::Release);
    Some(Watch(index))
}

impl Drop for Watch {
    fn drop(&mut self) {
        let entry = &ENTRIES[self.0];
        entry.start.store(0, Ordering::Relaxed);
        entry.owner.store(core::ptr::null_mut(), Ordering::Release);
    }
}

/// Installs the handler, once for the process; whether it is there.
fn install() -> bool {
    if INSTALLED.swap(1, Ordering::Relaxed) != 0 {
        return true;
    }
    // SAFETY: the action is fully set, with a handler of the three-argument form that SA_SIGINFO calls for; this thread
    // alone writes what was before.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let before = (*BEFORE.0.get()).assume_init_mut();
        if libc::sigaction(libc::SIGSEGV, core::ptr::null(), before) != 0 {
            return false;
        }
        if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
            action.sa_flags = libc::SA_ONSTACK;
        } else {
            (action.sa_flags, action.sa_mask) = (before.sa_flags, before.sa_mask);
        }
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags |= libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSEGV, &action, core::ptr::null_mut()) == 0
    }
}

extern "C" fn on_fault(signal: c_int, information: *mut Information, context: *mut c_void) {
    let errno = SavedErrno::save();
    // SAFETY: the kernel fills it in for this signal; the action before was written before this one was installed.
    let (address, is_fault, before) = unsafe {
        let before = (*BEFORE.0.get()).assume_init_ref();
        // Positive where the kernel says what happened, not another process or thread.
        let is_fault = (*information).si_code > 0;
        ((*information).si_addr() as usize, is_fault, before)
    };
    let handler = before.sa_sigaction;
    let has_handler = handler != libc::SIG_DFL && handler != libc::SIG_IGN;
    // SAFETY: the context is what the kernel gave this handler.
    let access = unsafe { Access::of(address, context) };
    if is_fault && (was_described(access) || !has_handler) {
        put_back(before);
    } else if handler == libc::SIG_DFL {
        put_back(before);
        // Nothing is repeated when this returns: sent once more, it is delivered then.
        signals::send(current_tid(), signal);
    } else if handler == libc::SIG_IGN {
        // A signal that was sent.
    } else if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler that was installed with this flag takes three arguments.
        let handler: extern "C" fn(c_int, *mut Information, *mut c_void) =
            unsafe { core::mem::transmute(handler) };
        handler(signal, information, context);
    } else {
        // SAFETY: a handler that was installed without the flag takes one argument.
        let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
        handler(signal);
    }
    errno.restore();
}

/// The process has the action that it had. It gets the access when it is repeated.
fn put_back(before: &libc::sigaction) {
    // SAFETY: the action is one that the kernel gave.
    unsafe { libc::sigaction(libc::SIGSEGV, before, core::ptr::null_mut()) };
}

/// Whether the owner of an address said what it is.
fn was_described(access: Access) -> bool {
    ENTRIES.iter().any(|entry| {
        let start = entry.start.load(Ordering::Acquire);
        if start == 0 || access.address.wrapping_sub(start) >= entry.bytes.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: `watch` wrote a function of this type.
        let describe: Describe =
            unsafe { core::mem::transmute(entry.describe.load(Ordering::Relaxed)) };
        let mut line = LineBuffer::<MOST_BYTES>::new();
        // SAFETY: the owner is there: this thread has just accessed the range.
        let said = unsafe { describe(entry.owner.load(Ordering::Relaxed), access, &mut line) };
        if said {
            STDERR.write_all(line.as_bytes());
        }
        said
    })
}
