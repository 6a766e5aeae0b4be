//! Zeroing kernels: the ways to zero a block of memory (OOPSLA 2011, sections 4.2, 5 and 6.1).
//!
//! A temporal kernel leaves the block in the cache, as ordinary stores do. The others pass the caches by: they evict
//! nothing that the program uses, and the processor need not fetch the lines that it overwrites. Their stores are
//! weakly ordered, so each of them ends with one fence.
//!
//! Invariants: exactly the range is zeroed, for any 8-aligned start and any multiple of 8. A weakly ordered or aligned
//! store goes to a whole cache line, and what lies before and after the whole lines gets ordinary stores. What the
//! caller stores later is seen after the zeros. Any thread; a kernel keeps no state.

use core::arch::asm;
use core::arch::x86_64::{
    __m256i, _mm_setzero_si128, _mm_stream_si64, _mm_stream_si128, _mm256_setzero_si256,
    _mm256_stream_si256, _mm512_setzero_si512, _mm512_stream_si512,
};

use gleaner_base::options::ZeroingKernel;

use super::processor::{Feature, Processor};
use super::{zero, zero_fresh};
use crate::Address;

/// Bytes in a cache line, of every processor that is served.
pub const LINE: usize = 64;

/// A way to zero a block of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// The C library's.
    Memset,
    /// Stores of a 4-byte constant, 16 bytes a turn (OOPSLA 2011, section 5.1).
    Immediate,
    /// The processor's string instruction.
    String,
    /// Vector stores of 32 bytes.
    Vector,
    /// Non-temporal stores of 8 bytes.
    Movnti,
    /// Non-temporal stores of 16 bytes (section 6.1).
    Movntdq,
    /// Non-temporal stores of 64 bytes, or of 32 where the processor has no wider ones.
    WideNonTemporal,
    /// The processor's instruction that zeroes a cache line.
    LineZero,
}

impl Kernel {
    /// Every kernel, temporal ones first.
    pub const ALL: [Kernel; 8] = [
        Kernel::Memset,
        Kernel::Immediate,
        Kernel::String,
        Kernel::Vector,
        Kernel::Movnti,
        Kernel::Movntdq,
        Kernel::WideNonTemporal,
        Kernel::LineZero,
    ];

    /// The value of the option that asks for it.
    pub const fn option(self) -> ZeroingKernel {
        match self {
            Kernel::Memset => ZeroingKernel::Memset,
            Kernel::Immediate => ZeroingKernel::Immediate,
            Kernel::String => ZeroingKernel::String,
            Kernel::Vector => ZeroingKernel::Vector,
            Kernel::Movnti => ZeroingKernel::Movnti,
            Kernel::Movntdq => ZeroingKernel::Movntdq,
            Kernel::WideNonTemporal => ZeroingKernel::WideNonTemporal,
            Kernel::LineZero => ZeroingKernel::LineZero,
        }
    }

    /// Its name, the same as the option's value.
    pub const fn name(self) -> &'static str {
        self.option().as_str()
    }

    /// Whether the block is in the cache afterwards.
    pub const fn is_temporal(self) -> bool {
        matches!(
            self,
            Kernel::Memset | Kernel::Immediate | Kernel::String | Kernel::Vector
        )
    }

    /// What the processor must have beyond what every one has.
    pub const fn needs(self) -> Option<Feature> {
        match self {
            Kernel::Vector | Kernel::WideNonTemporal => Some(Feature::Avx),
            Kernel::LineZero => Some(Feature::LineZero),
            _ => None,
        }
    }

    /// Overwrites `bytes` bytes, a multiple of 8 and possibly none, from `start` with zero.
    ///
    /// # Safety
    /// As for [`zero`]; `start` must be 8-aligned, and the processor must have what the kernel [needs](Kernel::needs).
    pub unsafe fn zero(self, start: Address, bytes: usize) {
        debug_assert!(start.word().is_multiple_of(8) && bytes.is_multiple_of(8));
        // SAFETY: the range is writable and the caller's alone, 8-aligned, and the processor has what the kernel needs,
        // as asked; the lines are inside the range; the fence orders what was stored past the caches before all later
        // stores.
        unsafe {
            let lines = || zero_edges(start, bytes);
            match self {
                Kernel::Memset => zero(start, bytes),
                Kernel::Immediate => immediate(start, bytes),
                Kernel::String => string(start, bytes),
                Kernel::Vector => vector(lines()),
                Kernel::Movnti => movnti(lines()),
                Kernel::Movntdq => movntdq(lines()),
                Kernel::WideNonTemporal if Processor::detect().avx512 => non_temporal_64(lines()),
                Kernel::WideNonTemporal => non_temporal_32(lines()),
                Kernel::LineZero => line_zero(lines()),
            }
            if !self.is_temporal() {
                asm!("sfence", options(nostack, preserves_flags));
            }
        }
    }
}

/// Whole cache lines, possibly none.
#[derive(Clone, Copy)]
struct Lines {
    first: Address,
    end: Address,
}

impl Lines {
    /// The addresses of the lines, in ascending order.
    #[inline(always)]
    fn addresses(self) -> impl Iterator<Item = Address> {
        (self.first.word()..self.end.word())
            .step_by(LINE)
            .map(Address::new)
    }
}

/// Zeroes what lies before and after the whole cache lines of the range, with ordinary stores; the lines are left.
///
/// # Safety
/// As for [`Kernel::zero`].
unsafe fn zero_edges(start: Address, bytes: usize) -> Lines {
    let limit = start.add(bytes);
    let first = start.align_up(LINE);
    let end = limit.align_down(LINE);
    // SAFETY: the range is writable and the caller's alone, as asked, and both edges lie inside.
    unsafe {
        if first >= end {
            // At most a line less 8 bytes on either side of one boundary.
            zero_small(start, bytes);
            return Lines { first, end: first };
        }
        zero_small(start, first.offset_from(start));
        zero_small(end, limit.offset_from(end));
    }
    Lines { first, end }
}

/// As [`zero_fresh`], also for no bytes.
///
/// # Safety
/// As for [`zero_fresh`].
#[inline(always)]
unsafe fn zero_small(start: Address, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the range is writable, 8-aligned and the caller's alone, as asked, and not empty.
        unsafe { zero_fresh(start, bytes) };
    }
}

/// The paper's loop for the hot path. Volatile, or the compiler would make it a call of the C library's.
///
/// # Safety
/// As for [`Kernel::zero`].
unsafe fn immediate(start: Address, bytes: usize) {
    let turns = bytes & !15;
    // SAFETY: each store lies inside the range, which is writable and the caller's alone, as asked.
    unsafe {
        for offset in (0..turns).step_by(16) {
            let place = start.add(offset);
            place.ptr::<u32>().write_volatile(0);
            place.add(4).ptr::<u32>().write_volatile(0);
            place.add(8).ptr::<u32>().write_volatile(0);
            place.add(12).ptr::<u32>().write_volatile(0);
        }
        if turns < bytes {
            let place = start.add(turns);
            place.ptr::<u32>().write_volatile(0);
            place.add(4).ptr::<u32>().write_volatile(0);
        }
    }
}

/// The string instruction.
///
/// # Safety
/// As for [`Kernel::zero`].
unsafe fn string(start: Address, bytes: usize) {
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

/// Vector stores of 32 bytes. Volatile for the reason that [`immediate`] has.
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
unsafe fn non_temporal_32(lines: Lines) {
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
unsafe fn non_temporal_64(lines: Lines) {
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
mod tests;
