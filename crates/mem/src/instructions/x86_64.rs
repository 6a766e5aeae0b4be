//! What an x86-64 processor does by one or a few instructions that the language does not name: prefetches, loads that race
//! with stores, comparisons of many bytes or words at once.
//!
//! Any thread.

use core::arch::asm;
use core::arch::x86_64::{
    __m128, __m128i, _MM_HINT_NTA, _MM_HINT_T0, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps,
    _mm_cmpeq_epi8, _mm_cmpgt_epi32, _mm_load_si128, _mm_movemask_epi8, _mm_movemask_ps,
    _mm_prefetch, _mm_set1_epi8, _mm_set1_epi32, _mm_shuffle_ps, _mm_sub_epi32,
};

use crate::Address;

/// Asks the cache for the line at an address.
#[inline(always)]
pub fn prefetch(at: Address) {
    // SAFETY: a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.ptr::<i8>()) };
}

/// Asks the cache for the line at an address, which is used once.
#[inline(always)]
pub fn prefetch_once(at: Address) {
    // SAFETY: a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_NTA>(at.ptr::<i8>()) };
}

/// Asks the cache for the line at an address, which is written.
#[inline(always)]
pub fn prefetch_for_write(at: Address) {
    // The intrinsic needs a processor feature at compile time; where a processor lacks it, this does nothing.
    // SAFETY: a prefetch never faults, and changes neither memory nor flags.
    unsafe {
        asm!(
            "prefetchw [{}]",
            in(reg) at.word(),
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Copies the words at 0 and `last`, which others may write meanwhile.
///
/// # Safety
/// Both ranges are memory of `last + 8` bytes, `to` is the caller's alone, and they do not overlap.
#[inline(always)]
pub unsafe fn copy_two_words(from: Address, to: Address, last: usize) {
    let (low, high): (u64, u64);
    // SAFETY: both ranges have at least `last + 8` bytes, and `to` is the caller's alone, as asked; the instructions may
    // read what another thread writes.
    unsafe {
        asm!("mov {low}, [{from}]", "mov {high}, [{from} + {last}]",
             from = in(reg) from.word(), last = in(reg) last,
             low = out(reg) low, high = lateout(reg) high,
             options(nostack, preserves_flags, readonly));
        to.ptr::<u64>().write(low);
        to.add(last).ptr::<u64>().write(high);
    }
}

/// Copies the 16 bytes at 0 and at `last`, which others may write meanwhile.
///
/// # Safety
/// As for [`copy_two_words`], with `last + 16` bytes.
#[inline(always)]
pub unsafe fn copy_two_pairs(from: Address, to: Address, last: usize) {
    let (low, high): (__m128i, __m128i);
    // SAFETY: both ranges have at least `last + 16` bytes, and `to` is the caller's alone, as asked; the instructions may
    // read what another thread writes.
    unsafe {
        asm!("movups {low}, [{from}]", "movups {high}, [{from} + {last}]",
             from = in(reg) from.word(), last = in(reg) last,
             low = out(xmm_reg) low, high = out(xmm_reg) high,
             options(nostack, preserves_flags, readonly));
        to.ptr::<__m128i>().write_unaligned(low);
        to.add(last).ptr::<__m128i>().write_unaligned(high);
    }
}

/// Copies the 32 bytes at 0 and at `last`, which others may write meanwhile.
///
/// # Safety
/// As for [`copy_two_words`], with `last + 32` bytes.
#[inline(always)]
pub unsafe fn copy_four_pairs(from: Address, to: Address, last: usize) {
    let (low, low_next, high, high_next): (__m128i, __m128i, __m128i, __m128i);
    // SAFETY: both ranges have at least `last + 32` bytes, and `to` is the caller's alone, as asked; the instructions may
    // read what another thread writes.
    unsafe {
        asm!("movups {low}, [{from}]", "movups {low_next}, [{from} + 16]",
             "movups {high}, [{from} + {last}]", "movups {high_next}, [{from} + {last} + 16]",
             from = in(reg) from.word(), last = in(reg) last,
             low = out(xmm_reg) low, low_next = out(xmm_reg) low_next,
             high = out(xmm_reg) high, high_next = out(xmm_reg) high_next,
             options(nostack, preserves_flags, readonly));
        to.ptr::<[__m128i; 2]>().write_unaligned([low, low_next]);
        to.add(last)
            .ptr::<[__m128i; 2]>()
            .write_unaligned([high, high_next]);
    }
}

/// Which of 64 bytes are `sought`, a bit for each.
///
/// # Safety
/// The bytes are readable, at a multiple of 16, and nobody changes them meanwhile.
#[inline(always)]
pub unsafe fn equal_of_64(bytes: *const u8, sought: u8) -> u64 {
    let mut found = 0;
    for part in (0..64).step_by(16) {
        // SAFETY: sixteen of the bytes, readable, unchanged, at a multiple of 16, as asked.
        let equal = unsafe {
            let sixteen = _mm_load_si128(bytes.add(part).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(sixteen, _mm_set1_epi8(sought as i8)))
        };
        found |= (equal as u64) << part;
    }
    found
}

/// Takes the upper halves of two pairs of words.
const UPPER_HALVES: i32 = 0b11_01_11_01;

/// A span of addresses, as the upper halves of words are compared with it, four at a time.
#[derive(Clone, Copy)]
pub struct UpperHalves {
    /// What is subtracted from upper halves; with half of their range added, since they are compared as signed numbers.
    first: __m128i,
    /// The greatest difference that lies in the span.
    reach: __m128i,
}

impl UpperHalves {
    /// Of the addresses whose upper halves are `first` to `first + reach`.
    #[inline(always)]
    pub fn new(first: u32, reach: u32) -> UpperHalves {
        // SAFETY: every x86-64 processor has SSE2.
        let all = |half: u32| unsafe { _mm_set1_epi32(half.wrapping_add(1 << 31) as i32) };
        UpperHalves {
            first: all(first),
            reach: all(reach),
        }
    }

    /// Whether none of the eight words of a line lies in the span, by its upper half. The words are compared as they are
    /// found: others may write there.
    ///
    /// # Safety
    /// 64 readable bytes lie there, at a multiple of 64.
    #[inline(always)]
    pub unsafe fn none_of_line(&self, line: Address) -> bool {
        // SAFETY: the line is readable and aligned, as asked.
        unsafe {
            let outside = _mm_and_si128(self.outside::<0>(line), self.outside::<32>(line));
            _mm_movemask_ps(_mm_castsi128_ps(outside)) == 0b1111
        }
    }

    /// All ones for each of the four words from byte `AT` of a line that lies outside of the span.
    ///
    /// # Safety
    /// As for [`UpperHalves::none_of_line`].
    #[inline(always)]
    unsafe fn outside<const AT: usize>(&self, line: Address) -> __m128i {
        let (low, high): (__m128, __m128);
        // SAFETY: the line is readable and aligned, as asked. This is no load of the language, since the program may write there:
        // in a step, or where it lent memory to the system. The words are compared as they are found.
        unsafe {
            asm!(
                "movaps {low}, [{line} + {at}]",
                "movaps {high}, [{line} + {at} + 16]",
                low = out(xmm_reg) low,
                high = out(xmm_reg) high,
                line = in(reg) line.word(),
                at = const AT,
                options(nostack, readonly, pure, preserves_flags)
            );
        }
        // SAFETY: every x86-64 processor has SSE2.
        unsafe {
            let halves = _mm_castps_si128(_mm_shuffle_ps::<UPPER_HALVES>(low, high));
            _mm_cmpgt_epi32(_mm_sub_epi32(halves, self.first), self.reach)
        }
    }
}
