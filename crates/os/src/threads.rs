//! Threads: who am I, and helpers of our own.
//!
//! Where a thread's stack is, the hook at its end and the thread word have files of their own and are
//! re-exported here.

use crate::signals;
use crate::syscall::call;
use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;

use gleaner_base::faults::{self, FaultPoint};

pub use crate::stacks::{
    SavedRegisters, main_thread_stack_end, stack_of_current_thread, stack_top,
};
pub use crate::thread_exit::{
    ExitHook, arm_thread_exit, set_exact_thread_exit_key, set_thread_exit_key,
};
pub use crate::thread_word::{set_thread_word, thread_word, thread_word_address};
pub use crate::topology::processors;

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

/// Lets another thread run.
pub fn yield_now() {
    // SAFETY: no argument.
    let _ = unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Sleeps for so many nanoseconds, or less when a signal arrives.
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

/// Stack of a helper thread; more only where the program's own thread-locals need more.
const HELPER_STACK: usize = 256 << 10;

/// What runs in a helper thread.
pub type Entry = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a detached thread that runs `entry(argument)` with all signals blocked, under `name` (15 bytes
/// count).
///
/// The caller's signal mask is the same afterwards. False when the system refuses. Allocates with `malloc`
/// and takes locks of the C library: not in a stopped world, not in a handler, and no lock held that an
/// allocation may want.
pub fn spawn_helper(entry: Entry, argument: *mut c_void, name: &CStr) -> bool {
    if faults::armed(FaultPoint::StartWorker) {
        return false;
    }
    let mask = signals::block_all();
    // A new thread starts with its creator's mask.
    let started =
        create(entry, argument, Some(HELPER_STACK)).or_else(|| create(entry, argument, None));
    signals::restore(mask);
    let Some(thread) = started else {
        return false;
    };
    // SAFETY: joinable until it is detached here, so the handle is valid even if the thread has ended.
    unsafe {
        libc::pthread_setname_np(thread, name.as_ptr());
        libc::pthread_detach(thread);
    }
    true
}

fn create(entry: Entry, argument: *mut c_void, stack: Option<usize>) -> Option<libc::pthread_t> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the attributes are initialised before use and destroyed after; the entry has the type that
    // the C library calls.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return None;
        }
        if let Some(bytes) = stack {
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), bytes);
        }
        let result = libc::pthread_create(&mut thread, attributes.as_ptr(), entry, argument);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (result == 0).then_some(thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;
    use std::sync::mpsc;

    #[test]
    fn threads_have_numbers_and_names_of_their_own() {
        let mine = (current_tid(), current_pthread());
        let its = std::thread::spawn(|| (current_tid(), current_pthread()));
        let its = its.join().unwrap();
        assert_ne!(mine.0, its.0);
        assert_ne!(mine.1, its.1);
        assert_eq!(current_process() as u32, std::process::id());
    }

    extern "C" fn tell(argument: *mut c_void) -> *mut c_void {
        let (mut low, mut name) = (0usize, [0u8; 16]);
        if let Some((l, h)) = stack_of_current_thread() {
            low = h - l;
        }
        // SAFETY: PR_GET_NAME fills 16 bytes; the argument is the sender that the test leaked.
        unsafe {
            libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
            let say =
                Box::from_raw(argument.cast::<mpsc::Sender<(signals::Mask, usize, [u8; 16])>>());
            while name[..4] != *b"gc-m" {
                yield_now();
                libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
            }
            say.send((signals::blocked(), low, name)).unwrap();
        }
        ptr::null_mut()
    }

    #[test]
    fn a_helper_blocks_signals_and_has_a_small_stack_and_a_name() {
        let before = signals::blocked();
        let (say, hear) = mpsc::channel::<(signals::Mask, usize, [u8; 16])>();
        let argument = Box::into_raw(Box::new(say)).cast();
        assert!(spawn_helper(tell, argument, c"gc-mark-1"));
        let (mask, stack, name) = hear.recv().unwrap();
        assert!(name.starts_with(b"gc-mark-1\0"));
        assert!(mask.contains(libc::SIGTERM) && mask.contains(libc::SIGSEGV));
        assert!(!mask.contains(32) && !mask.contains(33));
        assert!((HELPER_STACK..2 * HELPER_STACK).contains(&stack));
        assert_eq!(signals::blocked(), before);
    }
}
