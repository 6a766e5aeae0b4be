//! Transparent huge pages: asking the kernel for them, range by range.
//!
//! Advice only: the kernel backs aligned 2 MB pieces when it can. Any thread, any state of the world.

use crate::memory;
use core::ptr::NonNull;

/// Asks for huge pages in a range. False when the kernel cannot.
///
/// # Safety
/// The range is whole pages of the caller's.
pub unsafe fn advise(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller owns the range; the advice changes no contents.
    unsafe { memory::advise(start, bytes, libc::MADV_HUGEPAGE).is_ok() }
}

/// Asks for small pages in a range. False when the kernel cannot.
///
/// # Safety
/// The range is whole pages of the caller's.
pub unsafe fn unadvise(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller owns the range; the advice changes no contents.
    unsafe { memory::advise(start, bytes, libc::MADV_NOHUGEPAGE).is_ok() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn advice_is_taken_where_the_kernel_knows_huge_pages() {
        let start = memory::map(4 << 20).unwrap();
        let known = std::fs::exists("/sys/kernel/mm/transparent_hugepage/enabled").unwrap();
        // SAFETY: the mapping is this test's.
        unsafe {
            assert_eq!(advise(start, 4 << 20), known);
            start.write(1);
            assert_eq!(unadvise(start, 4 << 20), known);
            assert_eq!(start.read(), 1);
            assert!(memory::unmap(start, 4 << 20));
            // Addresses of the kernel itself, which it never hands out.
            let refused = NonNull::new(0xffff_8000_0000_0000_usize as *mut u8).unwrap();
            assert!(!advise(refused, 4 << 20));
        }
    }
}
