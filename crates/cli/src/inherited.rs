//! What the program inherits from the process that started this command: the signal mask, and whether SIGPIPE and SIGCHLD
//! are ignored.
//!
//! The Rust runtime ignores SIGPIPE before `main` runs, and `Command::exec` sets SIGPIPE and the mask to their
//! defaults. A program under `nohup` or in a pipeline of a careful shell would notice. So the disposition is read
//! before the runtime starts, and both are set again as the last step before the program takes over.
//!
//! One thread only, but for [`let_in`]: nothing else here runs beside anything.
#![allow(
    unsafe_code,
    reason = "signal dispositions have no safe interface that runs before main"
)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether SIGPIPE was ignored when this process started.
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);
/// Whether SIGCHLD was ignored when this process started.
static IGNORES_CHILDREN: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the loader calls what stands in this section once, before `main`; the function needs nothing of the runtime.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = read_disposition;

extern "C" fn read_disposition() {
    let is_ignored = |signal| {
        // SAFETY: all zeros is a valid sigaction, and a query changes nothing.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            action
        };
        action.sa_sigaction == libc::SIG_IGN
    };
    IGNORES_PIPE.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    IGNORES_CHILDREN.store(is_ignored(libc::SIGCHLD), Ordering::Relaxed);
}

/// Lets this process wait for its children where it was told to ignore how they end. What it starts is told so again.
pub(crate) fn wait_for_children() {
    if IGNORES_CHILDREN.load(Ordering::Relaxed) {
        // SAFETY: a system call that takes no pointers.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Makes this process stay when it is asked to go, by a terminal or who ends a session.
pub(crate) fn ignore_requests_to_end() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: a system call that takes no pointers.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Makes a write beyond the limit of a file's size (`ulimit -f`) fail, and not end this process. What it starts from now on is told
/// the same.
pub(crate) fn survive_file_limit() {
    // SAFETY: a system call that takes no pointers.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Lets these signals come to the calling thread, whatever the mask that this process was given says: they are meant for the
/// program, which has that mask.
pub(crate) fn let_in(signals: &[i32]) {
    // SAFETY: all zeros is a valid set, which is emptied; numbers that are no signals change nothing.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Ends this process without a word when nobody reads its output any more, as `head` does; unless it was told not to.
pub(crate) fn end_on_closed_pipe() {
    if !IGNORES_PIPE.load(Ordering::Relaxed) {
        // SAFETY: a system call that takes no pointers.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}

/// Those of these signals that this process was not told to ignore: what it starts ignores the others, too.
pub(crate) fn heeded(signals: &[i32]) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let is_heeded = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
    signals.iter().copied().filter(is_heeded).collect()
}

/// Makes the kernel kill the program that `command` starts when this process ends before it.
pub(crate) fn end_with_this(command: &mut Command) {
    // SAFETY: the closure makes one system call, about the process that calls it, and its arguments are numbers.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        )
    };
}

/// Makes `command` start its program with the signal mask that this process was given, and what it was to ignore.
pub(crate) fn pass_on(command: &mut Command) {
    // SAFETY: a query of the calling thread's mask; all zeros is a valid set.
    let mask = unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
        mask
    };
    let restore = move || {
        // SAFETY: system calls, on values read from the system.
        unsafe {
            if IGNORES_PIPE.load(Ordering::Relaxed) {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            if IGNORES_CHILDREN.load(Ordering::Relaxed) {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls that are allowed at any time.
    unsafe { command.pre_exec(restore) };
}
