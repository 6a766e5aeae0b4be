//! Zeroing by instructions of a 64-bit Arm processor: `dc zva`, which zeroes a block of its own size.

use core::arch::asm;

use super::{Kernel, LINE, Lines};
use crate::Address;
use crate::zero::processor::zeroed_at_once;

/// Zeroes a range by its whole lines, by a kernel that is this processor's own.
///
/// # Safety
/// As for [`Kernel::zero`].
#[inline(always)]
pub(super) unsafe fn zero_lines(kernel: Kernel, lines: Lines) {
    debug_assert!(
        kernel == Kernel::LineZero,
        "no other kernel here needs lines"
    );
    // SAFETY: the lines are the caller's to write, and the processor has what the kernel needs, as asked.
    unsafe { line_zero(lines) };
}

/// Orders what was stored before all later stores.
#[inline(always)]
pub(super) fn order() {
    // SAFETY: a barrier touches no memory.
    unsafe { asm!("dmb ishst", options(nostack, preserves_flags)) };
}

/// The string instruction, which no Arm processor has that is served.
///
/// # Safety
/// Nobody calls it: [`Processor::has`](crate::zero::Processor::has) says so.
pub(super) unsafe fn string(_: Address, _: usize) {
    unreachable!("an instruction of x86-64 processors");
}

/// One instruction for each block that the processor zeroes at once; the lines before and behind whole blocks by ordinary
/// stores.
///
/// # Safety
/// The lines are the caller's to write, and the processor has the instruction.
unsafe fn line_zero(lines: Lines) {
    let block = zeroed_at_once().unwrap_or(usize::MAX / 2 + 1).max(LINE);
    let first = lines.first.word().next_multiple_of(block);
    let end = lines.end.word() & !(block - 1);
    // SAFETY: the blocks from `first` to `end` lie in the lines, and what is left before and behind them, too.
    unsafe {
        if first >= end {
            zero_ordinary(lines.first, lines.end);
            return;
        }
        zero_ordinary(lines.first, Address::new(first));
        for block in (first..end).step_by(block) {
            asm!("dc zva, {}", in(reg) block, options(nostack, preserves_flags));
        }
        zero_ordinary(Address::new(end), lines.end);
    }
}

/// Zeroes whole lines by ordinary stores.
///
/// # Safety
/// The lines are the caller's to write.
unsafe fn zero_ordinary(first: Address, end: Address) {
    // SAFETY: the lines are the caller's to write, as asked.
    unsafe { crate::zero::zero(first, end.offset_from(first)) };
}
