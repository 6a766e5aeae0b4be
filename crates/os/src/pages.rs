//! Pages of memory: how large they are, and how many bytes whole ones have.

pub use crate::processor::page_size;

/// `bytes` rounded up to whole pages; `None` when that overflows.
pub fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page_size())
}
