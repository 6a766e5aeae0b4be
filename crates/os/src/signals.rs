//! Signals: the handlers of the suspend and the restart signal, sending to one thread, masks.
//!
//! This file gives the pieces; the protocol that stops the world is in the layer that owns it. A signal is
//! sent to a thread, not to the process, and the answer tells a thread that has ended from a failure that
//! may pass.

use crate::processor;
use crate::syscall::{Errno, call};
use crate::threads::ThreadId;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// What the kernel tells a handler about its signal.
pub use libc::siginfo_t as Information;

/// The signal that stops a thread unless the program chooses another.
pub const DEFAULT_SUSPEND: c_int = libc::SIGPWR;
/// The signal that lets it go on in other collectors. Here none is sent for that, but programs send it themselves, to wake
/// threads that sleep. It is also the one by which the kernel says that processor time is used up (`RLIMIT_CPU`).
pub const DEFAULT_RESTART: c_int = libc::SIGXCPU;

/// The signal that calls for a snapshot of the heap, where one may.
pub const SNAPSHOT: c_int = libc::SIGUSR2;

/// A signal handler: number, what the kernel knows about the signal, and the interrupted registers
/// (`ucontext_t`).
pub type Handler = extern "C" fn(c_int, *mut Information, *mut c_void);

/// The C library's signal by which `setuid` reaches every thread. It does no harm to a stopped thread, and the thread
/// that calls `setuid` waits for it. The C library's other signal, of cancellation, must wait: it would carry the
/// thread out of the handler, with every signal blocked. `sigfillset` leaves out both, so the mask is written by hand.
const SETXID: u32 = 33;

/// Signal numbers run from 1 to 64.
const NUMBERS: usize = 65;

/// The handler installed here per signal, 0 for none. Written before the kernel learns of the handler;
/// relaxed, because it is only compared with what the kernel says.
static OURS: [AtomicUsize; NUMBERS] = [const { AtomicUsize::new(0) }; NUMBERS];

/// Installs `handler` for a signal, in place of any other; false for a number that cannot be caught.
///
/// While it runs every signal is blocked, that of cancellation included, so that nothing of the program runs on a
/// stopped thread.
/// Interrupted system calls are repeated. The handler runs on the thread's ordinary stack: the stack
/// pointer it sees is the one from which the stack is scanned. Takes no lock, allocates nothing; not for
/// handlers.
pub fn install_suspend_handler(signal: c_int, handler: Handler) -> bool {
    let Some(ours) = slot(signal) else {
        return false;
    };
    ours.store(handler as usize, Ordering::Relaxed);
    install_suspending(signal, handler as usize)
}

/// Installs the suspend handler of a signal again, if it was installed and the program has put another in its place since:
/// no thread would stop for that. Takes no lock, allocates nothing.
pub fn keep_suspend_handler(signal: c_int) {
    let ours = slot(signal).map_or(0, |ours| ours.load(Ordering::Relaxed));
    if ours != 0 && !is_handler_ours(signal) {
        install_suspending(signal, ours);
    }
}

/// Installs a handler of type [`Handler`] that suspends.
fn install_suspending(signal: c_int, handler: usize) -> bool {
    // SAFETY: the action is fully set, with a handler of the three-argument form that SA_SIGINFO calls for.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        (&raw mut action.sa_mask)
            .cast::<u64>()
            .write(!(1 << (SETXID - 1)));
        libc::sigaction(signal, &action, core::ptr::null_mut()) == 0
    }
}

/// Lets a signal do nothing but interrupt: without a handler of the program's it gets one that returns at once, also where
/// it was ignored. False for a number that cannot be caught. Interrupted system calls are repeated where the kernel can.
/// Not for handlers.
pub fn install_idle_handler(signal: c_int) -> bool {
    extern "C" fn idle(_: c_int) {}
    // SAFETY: the action is fully set, with a handler of the one-argument form, as is called for without SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(signal, core::ptr::null(), &mut action) != 0 {
            return false;
        }
        if ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
            return true;
        }
        action = core::mem::zeroed();
        action.sa_sigaction = idle as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, core::ptr::null_mut()) == 0
    }
}

/// Installs a handler that notes something and returns; false if the signal has a handler, is ignored, or cannot be caught.
/// Interrupted system calls are repeated. Not for handlers.
pub fn install_note_handler(signal: c_int, handler: Handler) -> bool {
    // SAFETY: the action is fully set, with a handler of the three-argument form that SA_SIGINFO calls for.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(signal, core::ptr::null(), &mut action) != 0
            || action.sa_sigaction != libc::SIG_DFL
        {
            return false;
        }
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, core::ptr::null_mut()) == 0
    }
}

fn slot(signal: c_int) -> Option<&'static AtomicUsize> {
    usize::try_from(signal)
        .ok()
        .filter(|&number| number > 0)
        .and_then(|number| OURS.get(number))
}

/// Whether the handler that the process has now is the one installed here: programs replace handlers.
pub fn is_handler_ours(signal: c_int) -> bool {
    let Some(ours) = slot(signal) else {
        return false;
    };
    // SAFETY: asks only, into a struct that is valid when zero.
    let now = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(signal, core::ptr::null(), &mut action) != 0 {
            return false;
        }
        action.sa_sigaction
    };
    now != 0 && now == ours.load(Ordering::Relaxed)
}

/// Whether a runtime in this process keeps signals back until the thread next calls a function that it has replaced:
/// ThreadSanitizer's does so with all handlers. A thread that waits here calls none. The loader has decided it before this
/// code runs, so it takes no lock; safe in a handler.
pub fn are_kept_back() -> bool {
    processor::thread_sanitizer() != 0
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The kernel took it.
    Sent,
    /// No such thread in this process: it has ended.
    Gone,
    /// The error number; EAGAIN means that the queue of a real-time signal is full, and passes.
    Failed(i32),
}

/// Sends a signal to one thread of this process. Safe in a handler.
pub fn send(thread: ThreadId, signal: c_int) -> Delivery {
    let process = crate::threads::current_process();
    let arguments = [
        process as usize,
        thread.0 as usize,
        signal as usize,
        0,
        0,
        0,
    ];
    // SAFETY: tgkill takes numbers only, and reaches no other process.
    match unsafe { call(libc::SYS_tgkill, arguments) } {
        Ok(_) => Delivery::Sent,
        Err(Errno(libc::ESRCH)) => Delivery::Gone,
        Err(Errno(error)) => Delivery::Failed(error),
    }
}

/// Takes a signal that the calling thread was sent and has blocked, without its handler; whether there was one. Never waits;
/// safe in a handler. Where the system refuses, the signal stays.
pub fn take_pending(signal: c_int) -> bool {
    let (mask, at_once) = (Mask(bit(signal)), [0_i64; 2]);
    let (mask, at_once) = (&raw const mask.0 as usize, at_once.as_ptr() as usize);
    // SAFETY: a mask of eight bytes, as the kernel is told, no room for what it knows of the signal, and a time of two words.
    unsafe { call(libc::SYS_rt_sigtimedwait, [mask, 0, at_once, 8, 0, 0]) }.is_ok()
}

/// The set of signals that a thread blocks; bit n - 1 stands for signal n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub u64);

impl Mask {
    /// Everything but the two signals that the C library keeps for itself (cancellation, and changes of
    /// user id, which wait for every thread).
    pub const ALL: Mask = Mask(!(1 << (32 - 1) | 1 << (33 - 1)));

    /// The same without what tells of a fault of the thread itself: the one that watches addresses
    /// ([`access`](crate::access)) has a word to say.
    pub const ALL_BUT_FAULTS: Mask =
        Mask(Mask::ALL.0 & !(1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1)));

    /// The set as the C library has it.
    pub fn set(self) -> libc::sigset_t {
        // SAFETY: a set is valid when zero, and its first word is that of signals 1 to 64.
        unsafe {
            let mut set: libc::sigset_t = core::mem::zeroed();
            (&raw mut set).cast::<u64>().write(self.0);
            set
        }
    }

    /// Whether the set holds `signal`.
    pub fn contains(self, signal: c_int) -> bool {
        self.0 & bit(signal) != 0
    }
}

fn bit(signal: c_int) -> u64 {
    match signal {
        1..=64 => 1 << (signal - 1),
        _ => 0,
    }
}

/// The calling thread's alternate stack, on which handlers of the program's may run at any time: from its first address to behind
/// the last; empty if there is none.
pub fn alternate_stack() -> (usize, usize) {
    let mut stack = core::mem::MaybeUninit::<libc::stack_t>::zeroed();
    let arguments = [0, stack.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel fills the struct, which is valid when zero, too.
    let (answer, stack) = unsafe { (call(libc::SYS_sigaltstack, arguments), stack.assume_init()) };
    match answer {
        Ok(_) if stack.ss_flags & libc::SS_DISABLE == 0 => {
            let low = stack.ss_sp as usize;
            (low, low + stack.ss_size)
        }
        _ => (0, 0),
    }
}

/// Makes sure that the calling thread gets `signal`. Safe in a handler.
pub fn unblock(signal: c_int) {
    change(libc::SIG_UNBLOCK, Mask(bit(signal)));
}

/// What the calling thread blocks now.
pub fn blocked() -> Mask {
    change(libc::SIG_BLOCK, Mask(0))
}

fn change(how: c_int, mask: Mask) -> Mask {
    let mut before = Mask(0);
    let (new, old) = (&raw const mask.0 as usize, &raw mut before.0 as usize);
    // SAFETY: both masks are eight bytes, as the kernel is told. Nothing here can fail.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, [how as usize, new, old, 8, 0, 0]) };
    before
}

/// The thread's `errno`, to be put back when a handler that called the C library returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedErrno(c_int);

impl SavedErrno {
    /// Reads it.
    #[inline]
    pub fn save() -> SavedErrno {
        // SAFETY: the location is a thread-local of the C library, always there.
        SavedErrno(unsafe { libc::__errno_location().read() })
    }

    /// Puts it back.
    #[inline]
    pub fn restore(self) {
        // SAFETY: the location is a thread-local of the C library, always there.
        unsafe { libc::__errno_location().write(self.0) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::threads::{current_tid, yield_now};
    use std::sync::atomic::{AtomicBool, AtomicI32};

    static SEEN_BY: AtomicI32 = AtomicI32::new(0);
    static SEEN_MASK: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn note(_: c_int, info: *mut Information, context: *mut c_void) {
        let errno = SavedErrno::save();
        // SAFETY: a refused call, made to spoil errno.
        unsafe { libc::close(-1) };
        assert!(!info.is_null() && !context.is_null());
        SEEN_MASK.store(blocked().0 as usize, Ordering::Relaxed);
        SEEN_BY.store(current_tid().0, Ordering::Release);
        errno.restore();
    }

    extern "C" fn other(_: c_int, _: *mut Information, _: *mut c_void) {}

    #[test]
    fn a_signal_that_is_taken_does_not_come() {
        let signal = libc::SIGRTMIN() + 4;
        assert!(install_suspend_handler(signal, unwanted));
        change(libc::SIG_BLOCK, Mask(bit(signal)));
        assert!(!take_pending(signal), "none was sent");
        for _ in 0..2 {
            assert_eq!(send(current_tid(), signal), Delivery::Sent);
        }
        assert!(take_pending(signal) && take_pending(signal));
        assert!(!take_pending(signal), "two were sent");
        unblock(signal);
    }

    extern "C" fn unwanted(_: c_int, _: *mut Information, _: *mut c_void) {
        std::process::abort(); // a panic would unwind into the kernel's frame
    }

    #[test]
    fn a_signal_reaches_the_thread_it_was_sent_to() {
        let signal = libc::SIGRTMIN() + 3;
        assert!(install_suspend_handler(signal, note));
        let (number, over) = (AtomicI32::new(0), AtomicBool::new(false));
        let errno = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: this thread's errno. Until it is read again, nothing here but the handler calls
                // the C library.
                unsafe { *libc::__errno_location() = 55 };
                number.store(current_tid().0, Ordering::Release);
                while !over.load(Ordering::Acquire) {
                    yield_now();
                }
                // SAFETY: this thread's errno, which is always there.
                unsafe { *libc::__errno_location() }
            });
            while number.load(Ordering::Acquire) == 0 {
                yield_now();
            }
            let tid = ThreadId(number.load(Ordering::Acquire));
            assert_eq!(send(tid, signal), Delivery::Sent);
            while SEEN_BY.load(Ordering::Acquire) != tid.0 {
                yield_now();
            }
            over.store(true, Ordering::Release);
            thread.join().unwrap()
        });
        let tid = ThreadId(number.load(Ordering::Relaxed));
        assert_eq!(errno, 55, "the handler restored errno");
        let mask = Mask(SEEN_MASK.load(Ordering::Relaxed) as u64);
        assert!(
            mask.contains(libc::SIGINT) && mask.contains(signal) && mask.contains(libc::SIGSEGV)
        );
        while send(tid, signal) != Delivery::Gone {
            yield_now();
        }
        assert_eq!(send(current_tid(), 1000), Delivery::Failed(libc::EINVAL));
    }

    #[test]
    fn a_replaced_handler_is_noticed() {
        let signal = libc::SIGRTMIN() + 4;
        assert!(!is_handler_ours(signal));
        assert!(install_suspend_handler(signal, other));
        assert!(is_handler_ours(signal));
        // SAFETY: a signal that only this test uses.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
        assert!(!is_handler_ours(signal));
        keep_suspend_handler(signal);
        assert!(is_handler_ours(signal));
    }

    #[test]
    fn a_signal_that_had_no_suspend_handler_gets_none_again() {
        let signal = libc::SIGRTMIN() + 5;
        keep_suspend_handler(signal);
        assert!(!is_handler_ours(signal));
        // SAFETY: a signal that only this test uses.
        let before = unsafe { libc::signal(signal, libc::SIG_DFL) };
        assert_eq!(before, libc::SIG_DFL);
    }

    #[test]
    fn an_idle_handler_takes_the_place_of_none_alone() {
        let signal = libc::SIGRTMIN() + 6;
        let has = || {
            // SAFETY: asks only, into a struct that is valid when zero.
            unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                libc::sigaction(signal, core::ptr::null(), &mut action);
                action.sa_sigaction
            }
        };
        for none in [libc::SIG_DFL, libc::SIG_IGN] {
            // SAFETY: a signal that only this test uses.
            unsafe { libc::signal(signal, none) };
            assert!(install_idle_handler(signal));
            assert!(![libc::SIG_DFL, libc::SIG_IGN].contains(&has()));
            assert_eq!(send(current_tid(), signal), Delivery::Sent);
        }
        assert!(install_suspend_handler(signal, other));
        assert!(install_idle_handler(signal));
        assert_eq!(has(), other as *const () as usize, "the program's stays");
        assert!(!install_idle_handler(libc::SIGKILL) && !install_idle_handler(0));
    }

    #[test]
    fn signals_that_cannot_be_caught_are_refused() {
        for signal in [-1, 0, libc::SIGKILL, libc::SIGSTOP, 32, 33, 65, 1000] {
            assert!(!install_suspend_handler(signal, other), "{signal}");
            assert!(!is_handler_ours(signal), "{signal}");
        }
    }

    #[test]
    fn masks_leave_the_c_librarys_signals_alone() {
        std::thread::spawn(|| {
            let before = blocked();
            change(libc::SIG_SETMASK, Mask::ALL);
            let all = blocked();
            assert!(all.contains(libc::SIGINT) && all.contains(DEFAULT_SUSPEND));
            assert!(!all.contains(32) && !all.contains(33));
            assert!(!all.contains(libc::SIGKILL), "the kernel never blocks it");
            unblock(DEFAULT_SUSPEND);
            assert!(!blocked().contains(DEFAULT_SUSPEND) && blocked().contains(libc::SIGINT));
            assert!(!before.contains(0) && !before.contains(-3) && !before.contains(65));
        })
        .join()
        .unwrap();
    }
}
