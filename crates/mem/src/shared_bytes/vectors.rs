//! Relaxed accesses to many bytes by one instruction of the processor each.
//!
//! # Why this is sound
//! An `asm!` block may do what some Rust code might do there, and each block here states which: one relaxed load of each
//! byte that it reads, one relaxed store of each byte that it writes, of just these bytes, and nothing else. The
//! processor keeps that. A byte is the least that it loads and stores; it may take the bytes of a vector in any order
//! and in parts, which relaxed accesses to different bytes allow; a store writes no byte beside those of its operand.
//! Other threads use these bytes byte by byte as well, so no atomic access of another size meets them.
//!
//! Blocks that copy words of numbers load and store each number once and at once, since the words are aligned; other threads
//! use these numbers by accesses of their size.
//!
//! No block says `nomem` or `pure`: to the compiler each may read and write the memory that its pointers lead to.

use super::processor::{
    BLOCK, LONG_FILL, WIDE, copy_blocks_downward, copy_blocks_of_words, copy_blocks_upward,
    copy_piece, differing_of_16, equal_blocks, fill_long, first_of, has_blocks, load_eight,
    load_four, store_piece,
};
use crate::Address;

/// A copy of so many bytes or more stores whole vectors at multiples of their size, since a store into two cache lines takes twice
/// as long as one into one.
const LONG: usize = 4 * BLOCK;

/// Fewer bytes than these are at most one piece of each size: 8, 4, 2 and 1 bytes.
pub const FEW: usize = 16;

/// The sizes of these pieces, as logarithms.
const PIECES: [u32; 4] = [3, 2, 1, 0];

/// Copies fewer than [`FEW`] bytes, from the first on.
///
/// # Safety
/// As for [`copy_upward`].
#[inline(always)]
pub unsafe fn copy_few(from: Address, to: Address, count: usize) {
    let (mut from, mut to) = (from, to);
    // SAFETY: pieces of the bytes, which lie at both places, as the caller promises, and are used as the file says.
    unsafe {
        if count & 8 != 0 {
            copy_piece(from, to, 3);
            (from, to) = (from.add(8), to.add(8));
        }
        if count & 4 != 0 {
            copy_piece(from, to, 2);
            (from, to) = (from.add(4), to.add(4));
        }
        if count & 2 != 0 {
            copy_piece(from, to, 1);
            (from, to) = (from.add(2), to.add(2));
        }
        if count & 1 != 0 {
            copy_piece(from, to, 0);
        }
    }
}

/// Copies all bytes, from the first on. The result is how many.
///
/// # Safety
/// `count` bytes lie at both places, and `to` does not lie in those that are copied behind the first.
#[inline]
pub unsafe fn copy_upward(from: Address, to: Address, count: usize) -> usize {
    let mut done = 0;
    // SAFETY: the bytes lie there, as the caller promises, and are used as the file says.
    unsafe {
        if count >= BLOCK && has_blocks() {
            if count >= LONG {
                done = to.word().wrapping_neg() % WIDE;
                let odd = done % 16;
                copy_few(from, to, odd);
                if odd < done {
                    copy_piece(from.add(odd), to.add(odd), 4);
                }
            }
            let blocks = (count - done) / BLOCK;
            copy_blocks_upward(from.add(done), to.add(done), blocks);
            done += blocks * BLOCK;
        }
        while count - done >= 16 {
            copy_piece(from.add(done), to.add(done), 4);
            done += 16;
        }
        copy_few(from.add(done), to.add(done), count - done);
    }
    count
}

/// Of `count` bytes copies the last `few`, from the last on.
///
/// # Safety
/// As for [`copy_downward`].
#[inline(always)]
unsafe fn copy_last(from: Address, to: Address, count: usize, few: usize) {
    let mut left = count;
    // SAFETY: pieces of the bytes, which lie at both places, as the caller promises, and are used as the file says.
    unsafe {
        for _ in 0..few / 16 {
            left -= 16;
            copy_piece(from.add(left), to.add(left), 4);
        }
        for log2 in PIECES {
            if few & (1 << log2) != 0 {
                left -= 1 << log2;
                copy_piece(from.add(left), to.add(left), log2);
            }
        }
    }
}

/// Copies all bytes, from the last on. The result is how many at the start are left: none.
///
/// # Safety
/// `count` bytes lie at both places, and `from` does not lie in those that are written behind the first.
#[inline]
pub unsafe fn copy_downward(from: Address, to: Address, count: usize) -> usize {
    let mut left = count;
    // SAFETY: the bytes lie there, as the caller promises, and are used as the file says.
    unsafe {
        if count >= BLOCK && has_blocks() {
            if count >= LONG {
                let odd = to.add(count).word() % WIDE;
                copy_last(from, to, left, odd);
                left -= odd;
            }
            let blocks = left / BLOCK;
            let last = left - BLOCK;
            copy_blocks_downward(from.add(last), to.add(last), blocks);
            left -= blocks * BLOCK;
        }
        copy_last(from, to, left, left);
    }
    0
}

/// Copies whole words of 8 bytes, which may hold several numbers each.
///
/// A processor loads and stores an aligned word at once, and one with AVX an aligned pair of words: so each number of such a
/// word is loaded and stored at once, too.
///
/// # Safety
/// `bytes` bytes lie at both places, whole words that are aligned. If they overlap, `downward` says whether `to` lies
/// behind `from`.
#[inline]
pub unsafe fn copy_words(from: Address, to: Address, bytes: usize, downward: bool) {
    // SAFETY: a word that lies at both places, as the caller promises.
    let word = |at: usize| unsafe { copy_piece(from.add(at), to.add(at), 3) };
    if downward {
        return (0..bytes).step_by(8).rev().for_each(word);
    }
    let mut done = 0;
    let pairs_match = from.word() % 16 == to.word() % 16;
    if bytes >= 2 * BLOCK && pairs_match && has_blocks() {
        if !from.word().is_multiple_of(16) {
            word(0);
            done = 8;
        }
        let blocks = (bytes - done) / BLOCK;
        // SAFETY: the blocks lie there, as the caller promises, aligned, and are used as said above.
        unsafe { copy_blocks_of_words(from.add(done), to.add(done), blocks) };
        done += blocks * BLOCK;
    }
    (done..bytes).step_by(8).for_each(word);
}

/// How many bytes were found equal, from the first on. Either fewer than 4 are left, or the next one was found to
/// differ. The last piece may begin inside the one before: a byte that another thread writes meanwhile is then compared as
/// it was found either time.
///
/// # Safety
/// `count` bytes lie at both places.
#[inline]
pub unsafe fn equal(one: Address, other: Address, count: usize) -> usize {
    let mut done = 0;
    // SAFETY: the bytes lie there, as the caller promises, and are used as the file says: a block of the loop loads each
    // byte once and stores none.
    unsafe {
        if count >= BLOCK && has_blocks() {
            let blocks = count / BLOCK;
            let left = equal_blocks(one, other, blocks);
            done = (blocks - left) * BLOCK;
        }
        let piece = |at: usize| differing_of_16(one.add(at), other.add(at));
        while count - done >= 16 {
            match piece(done) {
                0 => done += 16,
                differs => return done + first_of(differs),
            }
        }
        if done == count {
            return count;
        }
        if count >= 16 {
            return match piece(count - 16) {
                0 => count,
                differs => count - 16 + first_of(differs),
            };
        }
        let word = |at: usize| load_eight(one.add(at)) ^ load_eight(other.add(at));
        let half = |at: usize| load_four(one.add(at)) ^ load_four(other.add(at));
        let (first, last, behind) = match count {
            8.. => (word(0), word(count - 8), count - 8),
            4.. => (half(0), half(count - 4), count - 4),
            _ => return 0,
        };
        match (first, last) {
            (0, 0) => count,
            (0, differs) => behind + differs.trailing_zeros() as usize / 8,
            (differs, _) => differs.trailing_zeros() as usize / 8,
        }
    }
}

/// A word of which each byte has this value.
#[inline(always)]
const fn repeated(value: u8) -> u64 {
    value as u64 * 0x0101_0101_0101_0101
}

/// Stores one value into fewer than [`FEW`] bytes.
///
/// # Safety
/// As for [`fill`].
#[inline(always)]
pub unsafe fn fill_few(at: Address, value: u8, count: usize) {
    let (mut at, word) = (at, repeated(value));
    // SAFETY: the bytes lie there, as the caller promises; one relaxed store of each, as the file says.
    unsafe {
        if count & 8 != 0 {
            store_piece(at, word, 3);
            at = at.add(8);
        }
        if count & 4 != 0 {
            store_piece(at, word, 2);
            at = at.add(4);
        }
        if count & 2 != 0 {
            store_piece(at, word, 1);
            at = at.add(2);
        }
        if count & 1 != 0 {
            store_piece(at, word, 0);
        }
    }
}

/// Stores one value into all bytes. The result is how many.
///
/// # Safety
/// `count` bytes lie there.
#[inline]
pub unsafe fn fill(at: Address, value: u8, count: usize) -> usize {
    if count >= LONG_FILL {
        // SAFETY: `count` bytes lie there, as the caller promises.
        unsafe { fill_long(at, value, count) };
        return count;
    }
    let word = repeated(value);
    let mut done = 0;
    // SAFETY: the bytes lie there, as the caller promises; one relaxed store of each, as the file says.
    unsafe {
        while count - done >= 16 {
            store_piece(at.add(done), word, 3);
            store_piece(at.add(done + 8), word, 3);
            done += 16;
        }
        fill_few(at.add(done), value, count - done);
    }
    count
}
