//! Zeroing of memory ranges (invariant I2: fresh is zero).
//!
//! The functions here zero single objects and whatever is zeroed without a choice. [`kernels`] are the ways to zero a
//! block, and [`choice`] chooses one of them by what the [`processor`] has.

pub mod choice;
pub mod kernels;
pub mod processor;

pub use choice::{Choice, choose};
pub use kernels::Kernel;
pub use processor::{Feature, Processor};

use crate::Address;

/// Overwrites `bytes` bytes from `start` with zero.
///
/// # Safety
/// The range must be writable memory that nobody else reads or writes meanwhile.
#[inline]
pub unsafe fn zero(start: Address, bytes: usize) {
    // SAFETY: the range is writable memory that nobody else reads or writes meanwhile, as asked.
    unsafe { core::ptr::write_bytes(start.ptr::<u8>(), 0, bytes) };
}

/// As [`zero`], for an object that was just allocated: at least 8 bytes, a multiple of 8, most often few. Stores that
/// overlap instead of a loop (compare OOPSLA 2011, section 3.1); of a size known to the compiler only the stores are
/// left.
///
/// # Safety
/// As for [`zero`]; `start` must be 8-aligned.
#[inline(always)]
pub unsafe fn zero_fresh(start: Address, bytes: usize) {
    // SAFETY: each store lies inside the range, which is writable, 8-aligned and used by nobody else, as asked.
    unsafe {
        if bytes <= 16 {
            start.store(0);
            start.add(bytes - 8).store(0);
        } else if bytes <= 32 {
            start.ptr::<[usize; 2]>().write([0; 2]);
            start.add(bytes - 16).ptr::<[usize; 2]>().write([0; 2]);
        } else if bytes <= 64 {
            start.ptr::<[usize; 4]>().write([0; 4]);
            if bytes > 48 {
                start.add(bytes - 32).ptr::<[usize; 4]>().write([0; 4]);
            } else {
                start.add(bytes - 16).ptr::<[usize; 2]>().write([0; 2]);
            }
        } else {
            zero(start, bytes);
        }
    }
}

/// Whether the `bytes` bytes from `start` on, a multiple of 64, are all zero. Another thread may replace what is not
/// zero by something else that is not zero.
///
/// # Safety
/// Memory of `bytes` bytes lies at `start`, which is 8-aligned.
#[inline]
pub unsafe fn is_zero(start: Address, bytes: usize) -> bool {
    // SAFETY: the first word of the memory, as asked. Most memory that is not zero begins with something.
    if unsafe { start.ptr::<u64>().read_volatile() } != 0 {
        return false;
    }
    let words = start.ptr::<[u64; 8]>();
    (0..bytes / 64).all(|index| {
        // SAFETY: 64 bytes of the memory, aligned to 8, as asked.
        let line = unsafe { words.add(index).read_volatile() };
        line.iter().fold(0, |all, word| all | word) == 0
    })
}

/// Overwrites `bytes` bytes, a multiple of 8, from `start` with the word `pattern`.
///
/// # Safety
/// As for [`zero`]; `start` must be 8-aligned.
pub unsafe fn fill(start: Address, bytes: usize, pattern: usize) {
    for offset in (0..bytes).step_by(8) {
        // SAFETY: `offset` is below `bytes`; the range is writable, 8-aligned and used by nobody else, as asked.
        unsafe { start.add(offset).store(pattern) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_zero_and_nothing_beside_it() {
        for words in 1..=20 {
            let mut place = [!0usize; 22];
            // SAFETY: the place is this test's, and larger.
            unsafe { zero_fresh(Address::of(&raw mut place).add(8), words * 8) };
            assert!(place[1..=words].iter().all(|&word| word == 0));
            assert!(place[0] == !0 && place[words + 1] == !0, "{words} words");
        }
    }
}
