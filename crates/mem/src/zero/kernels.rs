//! Zeroing kernels: the ways to zero a block of memory (OOPSLA 2011, sections 4.2, 5 and 6.1).
//!
//! A temporal kernel leaves the block in the cache, as ordinary stores do. The others pass the caches by: they evict
//! nothing that the program uses, and the processor need not fetch the lines that it overwrites. Their stores are
//! weakly ordered, so each of them ends with one fence. What is one processor's alone is in `kernels/`.
//!
//! Invariants: exactly the range is zeroed, for any 8-aligned start and any multiple of 8. A weakly ordered or aligned
//! store goes to a whole cache line, and what lies before and after the whole lines gets ordinary stores. What the
//! caller stores later is seen after the zeros. Any thread; a kernel keeps no state.

use gleaner_base::options::ZeroingKernel;

use super::processor::Feature;
use super::{zero, zero_fresh};
use crate::Address;

#[cfg(target_arch = "aarch64")]
#[path = "kernels/aarch64.rs"]
mod instructions;
#[cfg(target_arch = "x86_64")]
#[path = "kernels/x86_64.rs"]
mod instructions;

/// Bytes in a cache line, of every processor that is served; some Arm processors have lines of two of these.
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
            Kernel::String | Kernel::Movnti | Kernel::Movntdq => Some(Feature::X86),
            Kernel::Memset | Kernel::Immediate => None,
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
            match self {
                Kernel::Memset => zero(start, bytes),
                Kernel::Immediate => immediate(start, bytes),
                Kernel::String => instructions::string(start, bytes),
                _ => instructions::zero_lines(self, zero_edges(start, bytes)),
            }
            if !self.is_temporal() {
                instructions::order();
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
    #[cfg(target_arch = "x86_64")]
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

#[cfg(all(test, not(loom)))]
mod tests;
