//! Copies the words of an object to which another thread may store meanwhile.
//!
//! A worker copies an object before it knows whether its copy will count. While it reads, another may forward the
//! object to itself and store to its slots; then the copy does not count, whatever was read. A plain read beside a
//! store would be undefined nevertheless, so the reads here are machine instructions: what relaxed atomic loads of all
//! slots would do, but several slots at a time, and slots of either width. Only the copy is written by Rust.

use crate::Address;
use crate::instructions::{copy_four_pairs, copy_two_pairs, copy_two_words};

/// Copies `bytes` bytes, a multiple of 8 and at least 8: most objects are small, and a call would take longer than
/// that.
///
/// # Safety
/// Both ranges are memory of the heap, and they do not overlap. `to` is the caller's alone. Others may store
/// to slots at `from` meanwhile; then what was copied is not used.
#[inline(always)]
pub unsafe fn copy_words(from: Address, to: Address, bytes: usize) {
    debug_assert!(bytes >= 8 && bytes.is_multiple_of(8));
    // SAFETY: each call reads and writes the first and the last bytes of the ranges, which may overlap, and together
    // all.
    unsafe {
        match bytes {
            0..=16 => copy_two_words(from, to, bytes - 8),
            17..=32 => copy_two_pairs(from, to, bytes - 16),
            33..=64 => copy_four_pairs(from, to, bytes - 32),
            _ => many(from, to, bytes),
        }
    }
}

/// More than 64 bytes.
///
/// # Safety
/// As for [`copy_words`].
#[inline(never)]
unsafe fn many(from: Address, to: Address, bytes: usize) {
    let last = bytes - 64;
    let mut at = 0;
    while at < last {
        // SAFETY: `at < bytes - 64`, so 64 bytes from `at` lie inside of both ranges.
        unsafe { copy_four_pairs(from.add(at), to.add(at), 32) };
        at += 64;
    }
    // SAFETY: the last 64 of the `bytes` bytes of both ranges.
    unsafe { copy_four_pairs(from.add(last), to.add(last), 32) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_word_is_copied_and_no_other_written() {
        let from: Vec<u64> = (1..=600).collect();
        for words in (1..40).chain([63, 64, 65, 200, 599]) {
            let mut to: Vec<u64> = (0..602).map(|_| 7777).collect();
            // SAFETY: both are this test's, and long enough.
            unsafe {
                copy_words(
                    Address::of(from.as_ptr()),
                    Address::of(to.as_mut_ptr()).add(8),
                    words * 8,
                );
            }
            assert_eq!(to[1..=words], from[..words], "{words} words");
            assert_eq!((to[0], to[words + 1]), (7777, 7777), "{words} words");
        }
    }
}
