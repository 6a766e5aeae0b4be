//! Threads: who am I, and threads of the collector's.
//!
//! What makes threads, where a thread's stack is, the hook at its end and the thread word have files of their own and
//! are re-exported here.

use core::ffi::CStr;

use gleaner_base::events::LineBuffer;

use crate::procfs;
use crate::syscall::{Errno, call};

pub use crate::spawn::{Entry, Placement, Role, Thread, forget_markers_after_fork, spawn};
pub use crate::stacks::{
    SavedRegisters, main_thread_stack_end, stack_of_current_thread, stack_top, write_mapped_file,
};
pub use crate::thread_exit::{
    ExitHook, arm_thread_exit, set_exact_thread_exit_key, set_thread_exit_key,
};
pub use crate::thread_word::{set_thread_word, thread_word, thread_word_address};

/// The kernel's number of a thread. The kernel reuses it after the thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub i32);

/// The C library's name for a thread (`pthread_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pthread(pub usize);

/// The calling thread's number, from the kernel (so it is right in a forked child, too).
pub fn current_tid() -> ThreadId {
    // SAFETY: no argument, cannot fail.
    ThreadId(unsafe { call(libc::SYS_gettid, [0; 6]) }.unwrap_or(0) as i32)
}

/// The process's number, from the kernel.
pub fn current_process() -> i32 {
    // SAFETY: no argument, cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as i32
}

/// The calling thread as the C library names it.
pub fn current_pthread() -> Pthread {
    // SAFETY: reads the thread pointer.
    Pthread(unsafe { libc::pthread_self() } as usize)
}

/// The name of a thread of this process, without its end; empty where there is no such thread. Any state of the world.
pub fn name_of(thread: ThreadId, buffer: &mut [u8; 17]) -> &str {
    use core::fmt::Write;
    let mut path = LineBuffer::<64>::new();
    let _ = write!(path, "/proc/self/task/{}/comm\0", thread.0);
    let name = CStr::from_bytes_until_nul(path.as_bytes())
        .ok()
        .and_then(|path| procfs::read(path, buffer))
        .unwrap_or_default();
    core::str::from_utf8(name)
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
}

/// Whether a thread of this process sleeps in the kernel; `None` where there is no such thread, or the system does not tell.
/// Any state of the world.
pub fn is_asleep(thread: ThreadId) -> Option<bool> {
    use core::fmt::Write;
    let mut path = LineBuffer::<64>::new();
    let _ = write!(path, "/proc/self/task/{}/stat\0", thread.0);
    let path = CStr::from_bytes_until_nul(path.as_bytes()).ok()?;
    let mut buffer = [0; 64];
    let text = procfs::read(path, &mut buffer)?;
    // The name is in brackets, and may have some itself; the state is the letter behind the last one.
    let bracket = text.iter().rposition(|&byte| byte == b')')?;
    let state = text.get(bracket + 2)?;
    Some(matches!(state, b'S' | b'D'))
}

/// Gives the calling thread a name, which ends with a zero.
pub fn name_current(name: &[u8; 16]) {
    // SAFETY: a text that ends with a zero within what the kernel reads.
    let _ = unsafe {
        call(
            libc::SYS_prctl,
            [
                libc::PR_SET_NAME as usize,
                name.as_ptr() as usize,
                0,
                0,
                0,
                0,
            ],
        )
    };
}

/// Whether a filter of system calls (seccomp) is in force for the calling thread, so that a call that it does not expect may end
/// the process. A filter that refuses this question is one. One system call.
pub fn is_filtered() -> bool {
    // SAFETY: a question about the calling thread.
    let mode = unsafe {
        call(
            libc::SYS_prctl,
            [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0],
        )
    };
    // A kernel that has no filters does not know the question.
    !matches!(mode, Ok(0) | Err(Errno(libc::EINVAL)))
}

/// Lets another thread run.
pub fn yield_now() {
    // SAFETY: no argument.
    let _ = unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Sleeps for this many nanoseconds, or less when a signal arrives.
pub fn sleep_ns(nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as i64,
    };
    // SAFETY: the time outlives the call.
    let _ = unsafe {
        call(
            libc::SYS_nanosleep,
            [&raw const time as usize, 0, 0, 0, 0, 0],
        )
    };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_have_numbers_and_names_of_their_own() {
        let mine = (current_tid(), current_pthread());
        let its = std::thread::spawn(|| (current_tid(), current_pthread()));
        let its = its.join().unwrap();
        assert_ne!(mine.0, its.0);
        assert_ne!(mine.1, its.1);
        assert_eq!(current_process() as u32, std::process::id());
    }

    #[test]
    fn a_thread_that_sleeps_is_told_from_one_that_runs() {
        assert_eq!(is_asleep(current_tid()), Some(false));
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(current_tid()).unwrap();
            let _ = ended.recv();
        });
        let other = told.recv().unwrap();
        // It is about to sleep.
        while is_asleep(other) == Some(false) {
            yield_now();
        }
        assert_eq!(is_asleep(other), Some(true));
        drop(end);
        thread.join().unwrap();
    }
}
