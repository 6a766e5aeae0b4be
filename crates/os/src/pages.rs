//! Pages of memory: how large they are, and how many bytes whole ones have.

/// Bytes in a page: fixed on this architecture, so it can shape constants.
pub const fn page_size() -> usize {
    4096
}

/// `bytes` rounded up to whole pages; `None` when that overflows.
pub const fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page_size())
}
