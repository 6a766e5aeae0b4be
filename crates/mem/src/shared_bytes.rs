//! Many bytes or numbers at once, of arrays that other threads may use at the same moment.
//!
//! # What a function here does
//! It loads and stores single bytes (`copy_numbers`: single numbers), each by one relaxed atomic access: so another thread
//! may load and store the same bytes, if it does so byte by byte, too, and finds of each byte one of the values that were
//! stored. Nothing is said of the order of different bytes, and none of them synchronises.
//!
//! Many of these accesses are one instruction (`vectors.rs`); what that leaves over, and everything under Miri and in
//! models, goes through the loops here. Fewer than 16 bytes take no loop and no call (`copy_few`, `fill_few`). The compiler
//! cannot be told of a vector of atomic bytes otherwise: a copy that it makes itself must not race, and an atomic access of
//! eight bytes must not meet one of a single byte.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::Address;

#[cfg(all(target_arch = "aarch64", not(any(miri, loom))))]
#[path = "shared_bytes/aarch64.rs"]
mod processor;
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
#[path = "shared_bytes/x86_64.rs"]
mod processor;
#[cfg(not(any(miri, loom)))]
mod vectors;

/// No vectors: all is left over.
#[cfg(any(miri, loom))]
mod vectors {
    use crate::Address;

    pub const FEW: usize = 0;

    pub unsafe fn copy_few(_: Address, _: Address, _: usize) {
        unreachable!("no number of bytes is less");
    }

    pub unsafe fn fill_few(_: Address, _: u8, _: usize) {
        unreachable!("no number of bytes is less");
    }

    pub unsafe fn copy_upward(_: Address, _: Address, _: usize) -> usize {
        0
    }

    pub unsafe fn copy_downward(_: Address, _: Address, count: usize) -> usize {
        count
    }

    pub unsafe fn copy_words(_: Address, _: Address, _: usize, _: bool) {
        unreachable!("nothing is copied by words");
    }

    pub unsafe fn equal(_: Address, _: Address, _: usize) -> usize {
        0
    }

    pub unsafe fn fill(_: Address, _: u8, _: usize) -> usize {
        0
    }
}

/// # Safety
/// A byte lies at `at`, which other threads use by atomic accesses alone.
#[inline(always)]
unsafe fn byte<'a>(at: Address) -> &'a AtomicU8 {
    // SAFETY: a byte lies there, and is used by atomic accesses, as the caller promises.
    unsafe { &*at.ptr::<AtomicU8>() }
}

/// Copies `count` bytes, as if all were loaded before the first is stored.
///
/// # Safety
/// Bytes lie at both places, which other threads use as this file says, or not at all.
#[inline(always)]
pub unsafe fn copy(from: Address, to: Address, count: usize) {
    // SAFETY: the bytes lie there, as the caller promises. Upward, none of them is stored before it is loaded.
    unsafe {
        if count < vectors::FEW && goes_upward(from, to, count) {
            vectors::copy_few(from, to, count);
        } else {
            copy_many(from, to, count);
        }
    }
}

/// Whether a copy from the first byte on stores none before it is loaded.
#[inline(always)]
fn goes_upward(from: Address, to: Address, count: usize) -> bool {
    to <= from || from.add(count) <= to
}

/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_many(from: Address, to: Address, count: usize) {
    let one = |index: usize| {
        // SAFETY: one of the bytes that lie there, as the caller promises.
        let value = unsafe { byte(from.add(index)) }.load(Ordering::Relaxed);
        // SAFETY: as before.
        unsafe { byte(to.add(index)) }.store(value, Ordering::Relaxed);
    };
    if goes_upward(from, to, count) {
        // SAFETY: the bytes lie there, as the caller promises, and none is stored before it is loaded.
        let done = unsafe { vectors::copy_upward(from, to, count) };
        (done..count).for_each(one);
    } else {
        // SAFETY: as before.
        let left = unsafe { vectors::copy_downward(from, to, count) };
        (0..left).rev().for_each(one);
    }
}

/// Copies numbers of 2, 4 or 8 bytes (the size of `A`), as if all were loaded before the first is stored. `copy` copies one by
/// a relaxed atomic access of its size. Those in whole words are copied a word or more at once, if they lie in the words of
/// both places in the same way.
///
/// # Safety
/// Aligned numbers of that size in `bytes` bytes lie at both places, which other threads use by such accesses, or not at all.
#[inline]
pub unsafe fn copy_numbers<A>(from: Address, to: Address, bytes: usize, copy: impl Fn(&A, &A)) {
    let [before, words] = match from.word() % 8 == to.word() % 8 {
        true if cfg!(not(any(miri, loom))) => {
            let before = (from.word().wrapping_neg() % 8).min(bytes);
            [before, (bytes - before) / 8 * 8]
        }
        _ => [bytes, 0],
    };
    let one = |at: usize| {
        // SAFETY: one of the numbers that lie there, as the caller promises.
        unsafe { copy(&*from.add(at).ptr::<A>(), &*to.add(at).ptr::<A>()) };
    };
    let behind = before + words;
    let downward = from < to && to < from.add(bytes);
    // SAFETY: whole words lie there, which are aligned at both places.
    let copy_words = || unsafe {
        if words > 0 {
            vectors::copy_words(from.add(before), to.add(before), words, downward);
        }
    };
    if downward {
        (behind..bytes).step_by(size_of::<A>()).rev().for_each(one);
        copy_words();
        (0..before).step_by(size_of::<A>()).rev().for_each(one);
    } else {
        (0..before).step_by(size_of::<A>()).for_each(one);
        copy_words();
        (behind..bytes).step_by(size_of::<A>()).for_each(one);
    }
}

/// The first of `count` bytes that differs.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub unsafe fn first_difference(one: Address, other: Address, count: usize) -> Option<usize> {
    // SAFETY: the bytes lie there, as the caller promises.
    let equal = unsafe { vectors::equal(one, other, count) };
    (equal..count).find(|&index| {
        // SAFETY: one of the bytes that lie there, as the caller promises.
        let [one, other] = [one, other].map(|at| unsafe { byte(at.add(index)) });
        one.load(Ordering::Relaxed) != other.load(Ordering::Relaxed)
    })
}

/// Stores one value into `count` bytes.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn fill(at: Address, value: u8, count: usize) {
    // SAFETY: the bytes lie there, as the caller promises.
    unsafe {
        if count < vectors::FEW {
            vectors::fill_few(at, value, count);
        } else {
            fill_many(at, value, count);
        }
    }
}

/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn fill_many(at: Address, value: u8, count: usize) {
    // SAFETY: the bytes lie there, as the caller promises.
    let done = unsafe { vectors::fill(at, value, count) };
    for index in done..count {
        // SAFETY: one of the bytes that lie there, as the caller promises.
        unsafe { byte(at.add(index)) }.store(value, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
    use std::vec::Vec;

    /// Lengths around those of vectors and of blocks of them.
    fn lengths() -> impl Iterator<Item = usize> {
        let all = if cfg!(miri) { 0..20 } else { 0..300 };
        let long = if cfg!(miri) { 1000..1002 } else { 500..700 };
        all.chain(long)
            .chain([if cfg!(miri) { 1002 } else { 16_000 }])
    }

    fn numbered(count: usize) -> Vec<u8> {
        (0..count)
            .map(|index| (index * 7 + index / 256) as u8)
            .collect()
    }

    #[test]
    fn copies_are_what_copies_of_slices_are() {
        for count in lengths() {
            for (from, to) in [
                (0, 0),
                (0, 1),
                (1, 0),
                (3, 20),
                (20, 3),
                (0, 128),
                (150, 5),
                (0, count),
            ] {
                let mut bytes = numbered(count + from.max(to) + 1);
                let mut expected = bytes.clone();
                expected.copy_within(from..from + count, to);
                let start = Address::of(bytes.as_mut_ptr());
                // SAFETY: both ranges lie in the vector, which nobody else uses.
                unsafe { copy(start.add(from), start.add(to), count) };
                assert!(bytes == expected, "{count} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn copies_of_numbers_are_what_copies_of_slices_are() {
        copies_numbers(|from: &AtomicU16, to: &AtomicU16| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        copies_numbers(|from: &AtomicU32, to: &AtomicU32| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        copies_numbers(|from: &AtomicU64, to: &AtomicU64| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        });
    }

    fn copies_numbers<A>(copy: impl Fn(&A, &A)) {
        let size = size_of::<A>();
        for count in lengths().filter(|count| count % size == 0) {
            for (from, to) in [
                (0, 0),
                (0, 8),
                (8, 0),
                (16, 0),
                (0, 16),
                (0, 24),
                (24, 40),
                (2, 10),
                (0, 2),
                (1, 0),
            ] {
                let [from, to] = [from, to].map(|at: usize| at * size);
                let mut words: Vec<u64> = std::vec![0; (count + from.max(to)) / 8 + 1];
                let start = Address::of(words.as_mut_ptr()).ptr::<u8>();
                // SAFETY: the bytes of the vector, which nobody else uses.
                let bytes = unsafe { core::slice::from_raw_parts_mut(start, words.len() * 8) };
                bytes.copy_from_slice(&numbered(words.len() * 8));
                let mut expected = bytes.to_vec();
                expected.copy_within(from..from + count, to);
                let start = Address::of(start);
                // SAFETY: both ranges lie in the vector, which nobody else uses, and their numbers are aligned.
                unsafe { copy_numbers(start.add(from), start.add(to), count, &copy) };
                assert!(
                    bytes == expected,
                    "{count} bytes from {from} to {to} by {size}"
                );
            }
        }
    }

    #[test]
    fn the_first_difference_is_found_wherever_it_is() {
        let places = if cfg!(miri) { 20 } else { 300 };
        for count in lengths() {
            let mut one = numbered(count);
            let mut other = [[0].as_slice(), &one].concat();
            let [at, beside] = [&mut one, &mut other].map(|bytes| Address::of(bytes.as_mut_ptr()));
            // SAFETY: so many bytes lie at both places, which nobody else uses.
            let differs = || unsafe { first_difference(at, beside.add(1), count) };
            assert_eq!(differs(), None, "{count} bytes");
            for index in (0..count).step_by(1 + count / places) {
                // SAFETY: a byte of the vector.
                unsafe { *beside.add(1 + index).ptr::<u8>() ^= 0x80 };
                assert_eq!(differs(), Some(index), "of {count} bytes");
                // SAFETY: as before.
                unsafe { *beside.add(1 + index).ptr::<u8>() ^= 0x80 };
            }
        }
    }

    #[test]
    fn a_fill_ends_where_it_should() {
        for count in lengths() {
            let mut bytes = numbered(count + 2);
            let mut expected = bytes.clone();
            expected[1..=count].fill(0xa5);
            // SAFETY: the range lies in the vector, which nobody else uses.
            unsafe { fill(Address::of(bytes.as_mut_ptr()).add(1), 0xa5, count) };
            assert!(bytes == expected, "{count} bytes");
        }
    }
}
