//! Zeroing of memory ranges (invariant I2: fresh is zero).

use crate::Address;

/// Overwrites `bytes` bytes from `start` with zero.
///
/// # Safety
/// The range must be writable memory that nobody else reads or writes meanwhile.
#[inline]
pub unsafe fn zero(start: Address, bytes: usize) {
    // SAFETY: the caller vouches for the range.
    unsafe { core::ptr::write_bytes(start.ptr::<u8>(), 0, bytes) };
}

/// Overwrites `bytes` bytes, a multiple of 8, from `start` with the word `pattern`.
///
/// # Safety
/// As for [`zero`]; `start` must be 8-aligned.
pub unsafe fn fill(start: Address, bytes: usize, pattern: usize) {
    for offset in (0..bytes).step_by(8) {
        // SAFETY: the caller vouches for the range.
        unsafe { start.add(offset).store(pattern) };
    }
}
