//! The two system calls of the facade on an x86-64 processor, by the `syscall` instruction.
//!
//! Any thread, also in a signal handler.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

const SYS_SCHED_YIELD: usize = 24;
const SYS_FUTEX: usize = 202;

/// `sched_yield`.
#[inline]
pub(super) fn sched_yield() {
    // SAFETY: sched_yield takes no argument and touches no memory of ours; the instruction
    // clobbers rax, rcx and r11, all named.
    unsafe {
        asm!("syscall", inlateout("rax") SYS_SCHED_YIELD => _,
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}

/// `futex`, whose result is dropped.
///
/// # Safety
/// `timeout` is null or leads to a `struct timespec`.
#[inline]
pub(super) unsafe fn futex(word: &AtomicU32, operation: usize, value: u32, timeout: usize) {
    // SAFETY: the word is live for the call, and the timeout is null or leads to a timespec, as asked; the kernel reads
    // both and writes neither. rax, rcx and r11 are named as clobbered. No `nomem`: the compiler must not move memory
    // accesses across the call.
    unsafe {
        asm!("syscall", inlateout("rax") SYS_FUTEX => _,
             in("rdi") word.as_ptr(), in("rsi") operation, in("rdx") value as usize,
             in("r10") timeout, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}
