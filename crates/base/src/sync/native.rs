//! The facade over `core` atomics and raw system calls of Linux.
//!
//! The calls are made by the processor's instruction (`processor/`) and not through libc: a libc wrapper reports
//! errors in `errno`, which belongs to the interrupted program when a signal handler waits here.
//! The result of a system call is dropped: every caller rechecks its word after a wait, so "woken",
//! "value differed", "interrupted" and "timed out" are one case. Any thread runs it.

use super::processor;

pub use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

const FUTEX_PRIVATE: usize = 128;
const FUTEX_WAIT: usize = FUTEX_PRIVATE;
const FUTEX_WAKE: usize = 1 | FUTEX_PRIVATE;

/// The kernel's `struct timespec`.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// A cell whose accesses loom can check for data races; in this build a plain `UnsafeCell`.
#[derive(Debug)]
pub struct UnsafeCell<T: ?Sized>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer that it may read through. No writer may run meanwhile.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer that it may write through. Nobody else may access the value
    /// meanwhile.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Tells the processor that this thread spins.
#[inline]
pub fn spin_hint() {
    core::hint::spin_loop();
}

/// How many rounds a bounded spin of `rounds` rounds makes; fewer under loom.
#[inline]
pub const fn spin_rounds(rounds: u32) -> u32 {
    rounds
}

/// A table size: `full` in ordinary builds, `small` under loom, where every atomic costs.
#[inline]
pub const fn model_size(full: usize, small: usize) -> usize {
    let _ = small;
    full
}

/// A word that may stand anywhere: elements of typed arrays need not be aligned.
#[repr(C, packed)]
struct AnyPlace(usize);

/// The word that stands there, which another thread may write at the same moment: one load, as if relaxed. No atomic type
/// has it, since all want their words aligned.
///
/// # Safety
/// Eight readable bytes stand there.
#[inline(always)]
pub unsafe fn load_shared(word: *const usize) -> usize {
    // SAFETY: eight readable bytes stand there, as asked. Volatile: it is one load, and no other is made of it.
    unsafe { word.cast::<AnyPlace>().read_volatile().0 }
}

/// Lets other threads of this processor run first (`sched_yield`).
#[inline]
pub fn yield_now() {
    processor::sched_yield();
}

/// Sleeps while `word` holds `expected`: returns at once if it does not, else after a
/// [`futex_wake`] on this word, a signal, or for no reason. The comparison and the falling asleep
/// are one step with regard to wakers.
#[inline]
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    futex(word, FUTEX_WAIT, expected, core::ptr::null());
}

/// As [`futex_wait`], for at most `nanoseconds`.
pub fn futex_wait_timeout(word: &AtomicU32, expected: u32, nanoseconds: u64) {
    let timeout = Timespec {
        seconds: (nanoseconds / 1_000_000_000) as i64,
        nanoseconds: (nanoseconds % 1_000_000_000) as i64,
    };
    futex(word, FUTEX_WAIT, expected, &timeout);
}

/// Wakes at most `count` threads that sleep on `word`.
#[inline]
pub fn futex_wake(word: &AtomicU32, count: u32) {
    // The kernel reads the count as a signed int.
    futex(
        word,
        FUTEX_WAKE,
        count.min(i32::MAX as u32),
        core::ptr::null(),
    );
}

// Not inline: the doors have some hundred of these calls, and the kernel takes much longer than one.
#[inline(never)]
fn futex(word: &AtomicU32, operation: usize, value: u32, timeout: *const Timespec) {
    // SAFETY: the timeout is null or points to a timespec of the caller's, live for the call.
    unsafe { processor::futex(word, operation, value, timeout as usize) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn wait_returns_at_once_if_the_value_differs() {
        let word = AtomicU32::new(1);
        futex_wait(&word, 0);
        futex_wait_timeout(&word, 0, u64::MAX);
        assert_eq!(word.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_timed_wait_ends_without_a_waker() {
        let word = AtomicU32::new(0);
        futex_wait_timeout(&word, 0, 1_000);
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_wake_reaches_the_sleeper() {
        let word = Arc::new(AtomicU32::new(0));
        let sleeper = {
            let word = word.clone();
            thread::spawn(move || {
                while word.load(Ordering::Acquire) == 0 {
                    futex_wait(&word, 0);
                }
            })
        };
        yield_now();
        word.store(1, Ordering::Release);
        futex_wake(&word, u32::MAX);
        sleeper.join().unwrap();
    }
}
