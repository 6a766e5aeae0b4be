//! A coarse look at cache lines: whether any of the eight words of one may lie in the heap.
//!
//! In roots, buffers and large arrays most lines have no such word. The upper halves of eight words are compared at once with
//! those of the heap's span, in a third of the instructions that it takes to compare the words. What is let through is
//! compared word by word by who asked.
//!
//! Used by markers; what it holds never changes.

use gleaner_mem::Address;
use gleaner_mem::instructions::UpperHalves;

/// The span of a heap, as four upper halves of words are compared with it.
#[derive(Clone, Copy)]
pub(super) struct LineFilter(UpperHalves);

impl LineFilter {
    /// A filter for the span of `span` bytes from `heap`, at least one.
    #[inline(always)]
    pub fn new(heap: usize, span: usize) -> LineFilter {
        let upper = |address: usize| (address >> 32) as u32;
        let first = upper(heap);
        let reach = upper(heap + (span - 1)) - first;
        LineFilter(UpperHalves::new(first, reach))
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
        unsafe { self.0.none_of_line(line) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use gleaner_mem::address::CACHE_LINE;

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
