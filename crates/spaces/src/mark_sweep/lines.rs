//! A coarse look at cache lines: whether any of the eight words of one may lie in the heap.
//!
//! In roots, buffers and large arrays most lines have no such word. The upper halves of eight words are compared at once with
//! those of the heap's span, in a third of the instructions that it takes to compare the words. What is let through is
//! compared word by word by who asked.
//!
//! Used by markers; what it holds never changes.

use core::arch::asm;
use core::arch::x86_64::{
    __m128, __m128i, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpgt_epi32,
    _mm_movemask_ps, _mm_set1_epi32, _mm_shuffle_ps, _mm_sub_epi32,
};

use gleaner_mem::Address;
use gleaner_mem::address::CACHE_LINE;

/// Takes the upper halves of two pairs of words.
const UPPER_HALVES: i32 = 0b11_01_11_01;

/// The span of a heap, as four upper halves of words are compared with it.
#[derive(Clone, Copy)]
pub(super) struct LineFilter {
    /// What is subtracted from upper halves; with half of their range added, since they are compared as signed numbers.
    first: __m128i,
    /// The greatest difference that lies in the span.
    reach: __m128i,
}

impl LineFilter {
    /// A filter for the span of `span` bytes from `heap`, at least one.
    #[inline(always)]
    pub fn new(heap: usize, span: usize) -> LineFilter {
        let upper = |address: usize| (address >> 32) as u32;
        let first = upper(heap);
        let reach = upper(heap + (span - 1)) - first;
        // SAFETY: every x86-64 processor has SSE2.
        let all = |half: u32| unsafe { _mm_set1_epi32(half.wrapping_add(1 << 31) as i32) };
        LineFilter {
            first: all(first),
            reach: all(reach),
        }
    }

    /// Whether no word of the line lies in the span; it may be that none does where this says no.
    ///
    /// # Safety
    /// The line must be readable and aligned.
    #[inline(always)]
    pub unsafe fn is_passed_over(&self, line: Address) -> bool {
        if cfg!(loom) {
            return false; // Models keep shared words elsewhere.
        }
        // SAFETY: the line is readable and aligned, as asked.
        unsafe {
            let outside = _mm_and_si128(
                self.outside::<0>(line),
                self.outside::<{ CACHE_LINE / 2 }>(line),
            );
            _mm_movemask_ps(_mm_castsi128_ps(outside)) == 0b1111
        }
    }

    /// All ones for each of the four words from byte `AT` of a line that lies outside of the span.
    ///
    /// # Safety
    /// As for [`LineFilter::is_passed_over`].
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Line([usize; CACHE_LINE / 8]);

    #[test]
    fn a_word_of_the_span_is_seen_in_each_place_and_others_by_their_upper_halves() {
        let spans = [
            (0x7f12_0000_0000, 1 << 32),
            (0x7f12_8000_0000, 1 << 20),
            (0x7fff_ffff_0000, 1 << 36),
            (0x1_0000, 1 << 16),
            (0x6000_0000_0000, 1 << 40),
        ];
        for (heap, span) in spans {
            let filter = LineFilter::new(heap, span);
            let (first, last) = (heap >> 32, (heap + span - 1) >> 32);
            let words = [
                0,
                1,
                heap,
                heap + span - 1,
                heap + span / 2,
                heap.wrapping_sub(1),
                heap.wrapping_sub(1 << 32),
                heap + span,
                heap + span + (1 << 32),
                heap | 1 << 63,
                heap ^ 1 << 62,
                usize::MAX,
                1 << 63,
                u32::MAX as usize,
            ];
            for at in 0..CACHE_LINE / 8 {
                for word in words {
                    let mut line = Line([usize::MAX; CACHE_LINE / 8]);
                    line.0[at] = word;
                    // SAFETY: a line of this test.
                    let passed =
                        unsafe { filter.is_passed_over(Address::new(line.0.as_ptr() as usize)) };
                    let is_near = (first..=last).contains(&(word >> 32));
                    assert_eq!(
                        passed, !is_near,
                        "{word:#x} at {at}, heap {heap:#x}, {span:#x} bytes"
                    );
                }
            }
        }
    }
}
