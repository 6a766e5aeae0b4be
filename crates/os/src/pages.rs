//! Pages of memory: how large they are, and how many bytes whole ones have.
//!
//! Heaps give and take memory in granules of [`SMALLEST`] bytes. Where pages are larger, the kernel would round the length of a
//! range up, and take what lies behind it as well. So what takes something away is asked for whole pages inside of the range
//! alone ([`within`]).

pub use crate::processor::page_size;

/// Bytes of the smallest pages of any processor that is served.
pub(crate) const SMALLEST: usize = 4096;

/// `bytes` rounded up to whole pages; `None` when that overflows.
pub fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page_size())
}

/// The whole pages inside of a range, by their first address and their bytes, which may be none. Where pages are the
/// smallest, it is the range.
#[inline]
pub(crate) fn within(start: usize, bytes: usize) -> (usize, usize) {
    match page_size() {
        SMALLEST => (start, bytes),
        page => within_of(start, bytes, page),
    }
}

fn within_of(start: usize, bytes: usize, page: usize) -> (usize, usize) {
    let first = start.next_multiple_of(page);
    let end = (start + bytes.next_multiple_of(SMALLEST)) & !(page - 1);
    (first, end.saturating_sub(first))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_page_is_touched_that_is_not_all_of_the_range() {
        const PAGE: usize = 65536;
        let base = 5 * PAGE;
        for (from, bytes, expected) in [
            (0, PAGE, (base, PAGE)),
            (0, SMALLEST, (base, 0)),
            (SMALLEST, PAGE, (base + PAGE, 0)),
            (SMALLEST, 2 * PAGE, (base + PAGE, PAGE)),
            (0, 2 * PAGE - SMALLEST, (base, PAGE)),
            (0, 2 * PAGE - 8, (base, 2 * PAGE)),
        ] {
            assert_eq!(within_of(base + from, bytes, PAGE), expected);
        }
        let smallest = within_of(base + 100 * SMALLEST, 3 * SMALLEST, SMALLEST);
        assert_eq!(smallest, (base + 100 * SMALLEST, 3 * SMALLEST));
    }
}
