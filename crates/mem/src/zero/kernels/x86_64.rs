//! Zeroing by instructions of an x86-64 processor.

use core::arch::asm;
use core::arch::x86_64::{
    __m256i, _mm_setzero_si128, _mm_stream_si64, _mm_stream_si128, _mm256_setzero_si256,
    _mm256_stream_si256, _mm512_setzero_si512, _mm512_stream_si512,
};

use super::{Kernel, Lines};
use crate::Address;
use crate::zero::Processor;

/// Zeroes a range by its whole lines, by a kernel that is this processor's own.
///
/// # Safety
/// As for [`Kernel::zero`]; where the kernel passes the caches by, [`order`] follows.
#[inline(always)]
pub(super) unsafe fn zero_lines(kernel: Kernel, lines: Lines) {
    // SAFETY: the lines are the caller's to write, and the processor has what the kernel needs, as asked.
    unsafe {
        match kernel {
            Kernel::Vector => vector(lines),
            Kernel::Movnti => movnti(lines),
            Kernel::Movntdq => movntdq(lines),
            Kernel::WideNonTemporal if Processor::detect().avx512 => non_temporal_64(lines),
            Kernel::WideNonTemporal => non_temporal_32(lines),
            Kernel::LineZero => line_zero(lines),
            Kernel::Memset | Kernel::Immediate | Kernel::String => {
                unreachable!("these zero bytes, not lines")
            }
        }
    }
}

/// Orders what was stored past the caches before all later stores.
#[inline(always)]
pub(super) fn order() {
    // SAFETY: a fence touches no memory.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}

/// The string instruction.
///
/// # Safety
/// As for [`Kernel::zero`].
pub(super) unsafe fn string(start: Address, bytes: usize) {
    // SAFETY: `bytes` bytes from `start` are writable and the caller's alone, as asked; the direction flag is clear, as
    // it is at every call.
    unsafe {
        asm!(
            "rep stosb",
            inout("rcx") bytes => _,
            inout("rdi") start.word() => _,
            in("al") 0u8,
            options(nostack, preserves_flags)
        );
    }
}

/// Vector stores of 32 bytes. Volatile for the reason that the loop of constants has.
///
/// # Safety
/// The lines are the caller's to write, and the processor has AVX.
#[target_feature(enable = "avx")]
unsafe fn vector(lines: Lines) {
    let zero = _mm256_setzero_si256();
    for line in lines.addresses() {
        // SAFETY: both halves are in the line, and aligned.
        unsafe {
            line.ptr::<__m256i>().write_volatile(zero);
            line.add(32).ptr::<__m256i>().write_volatile(zero);
        }
    }
}

/// Non-temporal stores of 8 bytes. Unrolled over a line: a loop of single ones is half as fast.
///
/// # Safety
/// The lines are the caller's to write, and a fence follows.
#[target_feature(enable = "sse2")]
unsafe fn movnti(lines: Lines) {
    for line in lines.addresses() {
        for offset in [0, 8, 16, 24, 32, 40, 48, 56] {
            // SAFETY: the place is in the line.
            unsafe { _mm_stream_si64(line.add(offset).ptr(), 0) };
        }
    }
}

/// Non-temporal stores of 16 bytes.
///
/// # Safety
/// The lines are the caller's to write, and a fence follows.
#[target_feature(enable = "sse2")]
unsafe fn movntdq(lines: Lines) {
    let zero = _mm_setzero_si128();
    for line in lines.addresses() {
        for offset in [0, 16, 32, 48] {
            // SAFETY: the place is in the line, and aligned.
            unsafe { _mm_stream_si128(line.add(offset).ptr(), zero) };
        }
    }
}

/// Non-temporal stores of 32 bytes.
///
/// # Safety
/// The lines are the caller's to write, a fence follows, and the processor has AVX.
#[target_feature(enable = "avx")]
pub(super) unsafe fn non_temporal_32(lines: Lines) {
    let zero = _mm256_setzero_si256();
    for line in lines.addresses() {
        // SAFETY: both halves are in the line, and aligned.
        unsafe {
            _mm256_stream_si256(line.ptr(), zero);
            _mm256_stream_si256(line.add(32).ptr(), zero);
        }
    }
}

/// Non-temporal stores of 64 bytes.
///
/// # Safety
/// The lines are the caller's to write, a fence follows, and the processor has AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn non_temporal_64(lines: Lines) {
    let zero = _mm512_setzero_si512();
    for line in lines.addresses() {
        // SAFETY: the place is the whole line, 64 bytes that are aligned.
        unsafe { _mm512_stream_si512(line.ptr(), zero) };
    }
}

/// One instruction a line.
///
/// # Safety
/// The lines are the caller's to write, a fence follows, and the processor has the instruction.
unsafe fn line_zero(lines: Lines) {
    for line in lines.addresses() {
        // SAFETY: the instruction zeroes the line whose address is in this register.
        unsafe { asm!("clzero", in("rax") line.word(), options(nostack, preserves_flags)) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use gleaner_os::signals::{Information, install_suspend_handler};

    use super::*;
    use crate::zero::kernels::tests::{check, here, small};
    use crate::zero::kernels::{LINE, zero_edges};

    #[test]
    fn wide_stores_are_right_in_both_widths() {
        if !here(Kernel::WideNonTemporal) {
            return;
        }
        let by = |stores: unsafe fn(Lines)| {
            move |start, bytes| {
                // SAFETY: the range is the test's; the processor was asked.
                unsafe { stores(zero_edges(start, bytes)) }
            }
        };
        check("32 bytes", small(), &by(non_temporal_32));
        if Processor::detect().avx512 {
            check("64 bytes", small(), &by(non_temporal_64));
        }
    }

    /// How many instructions were emulated.
    static EMULATED: AtomicUsize = AtomicUsize::new(0);

    /// Does what `clzero` does where a processor does not know it.
    extern "C" fn emulate_line_zero(_: c_int, _: *mut Information, context: *mut c_void) {
        // Where the kernel keeps the interrupted registers, and their order (`ucontext_t`).
        const REGISTERS: usize = 40;
        const RAX: usize = REGISTERS + 13 * 8;
        const RIP: usize = REGISTERS + 16 * 8;
        const INSTRUCTION: [u8; 3] = [0x0f, 0x01, 0xfc];
        let context = Address::of(context);
        // SAFETY: the registers are where the kernel puts them; the instruction pointer points to code; the line is what
        // the instruction would write.
        unsafe {
            let at = Address::new(context.add(RIP).load());
            if at.ptr::<[u8; 3]>().read() != INSTRUCTION {
                std::process::abort();
            }
            let line = Address::new(context.add(RAX).load()).align_down(LINE);
            line.ptr::<[u8; LINE]>().write([0; LINE]);
            context.add(RIP).store(at.word() + INSTRUCTION.len());
        }
        EMULATED.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn lines_are_zeroed_by_the_processor_or_by_its_emulation() {
        const ILLEGAL_INSTRUCTION: c_int = 4;
        assert!(install_suspend_handler(
            ILLEGAL_INSTRUCTION,
            emulate_line_zero
        ));
        check("line-zero", small(), &|start, bytes| {
            // SAFETY: the range is the test's; the instruction is there, or emulated.
            unsafe { Kernel::LineZero.zero(start, bytes) }
        });
        let emulated = EMULATED.load(Ordering::Relaxed);
        assert_eq!(emulated > 0, !Processor::detect().line_zero);
    }
}
