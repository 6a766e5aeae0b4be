//! The two system calls of the facade on a 64-bit Arm processor, by the `svc` instruction.
//!
//! Any thread, also in a signal handler.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

const SYS_SCHED_YIELD: usize = 124;
const SYS_FUTEX: usize = 98;

/// `sched_yield`.
#[inline]
pub(super) fn sched_yield() {
    // SAFETY: sched_yield takes no argument and touches no memory of ours; the kernel changes the result register alone.
    unsafe {
        asm!("svc 0", in("x8") SYS_SCHED_YIELD, lateout("x0") _, options(nostack));
    }
}

/// `futex`, whose result is dropped.
///
/// # Safety
/// `timeout` is null or leads to a `struct timespec`.
#[inline]
pub(super) unsafe fn futex(word: &AtomicU32, operation: usize, value: u32, timeout: usize) {
    // SAFETY: the word is live for the call, and the timeout is null or leads to a timespec, as asked; the kernel reads
    // both and writes neither, and changes the result register alone. No `nomem`: the compiler must not move memory
    // accesses across the call.
    unsafe {
        asm!("svc 0", in("x8") SYS_FUTEX, inlateout("x0") word.as_ptr() as usize => _,
             in("x1") operation, in("x2") value as usize, in("x3") timeout, options(nostack));
    }
}
