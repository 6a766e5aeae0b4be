//! Relaxed accesses to many bytes by one instruction of an x86-64 processor each.
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
//! No block says `nomem` or `pure`: to the compiler each may read and write the memory that its pointers lead to. No
//! block keeps anything in a vector register: those that use wide ones say that all are overwritten, and clear the
//! upper halves, which would slow down what uses narrow ones.

use core::arch::asm;

use crate::Address;
use crate::zero::Processor;

/// Bytes that one turn of a loop over wide vectors takes.
const BLOCK: usize = 128;
/// Bytes of a wide vector. A copy of [`LONG`] bytes or more stores aligned ones, since a store into two cache lines takes twice
/// as long as one into one.
const WIDE: usize = 32;
const LONG: usize = 4 * BLOCK;

fn has_wide_vectors() -> bool {
    Processor::detect().avx
}

/// A loop over blocks with four wide vectors in `ymm0` to `ymm3`: `rsi` and `rdi` lead to the first block, and go on by
/// `$step` bytes. The result is how many of the blocks are left.
macro_rules! for_each_block {
    ($from:expr, $to:expr, $blocks:expr, $step:literal, $($instruction:literal),+ $(,)?) => {{
        let left: usize;
        asm!(
            "2:",
            $($instruction,)+
            concat!("add rsi, ", $step),
            concat!("add rdi, ", $step),
            "sub rcx, 1",
            "jnz 2b",
            "3:",
            "vzeroupper",
            inout("rsi") $from.word() => _,
            inout("rdi") $to.word() => _,
            inout("rcx") $blocks => left,
            clobber_abi("sysv64"),
            options(nostack),
        );
        left
    }};
}

/// Copies one block: loads all of it, then stores all of it.
macro_rules! copy_blocks {
    ($from:expr, $to:expr, $blocks:expr, $step:literal) => {
        for_each_block!(
            $from,
            $to,
            $blocks,
            $step,
            "vmovdqu ymm0, [rsi]",
            "vmovdqu ymm1, [rsi + 32]",
            "vmovdqu ymm2, [rsi + 64]",
            "vmovdqu ymm3, [rsi + 96]",
            "vmovdqu [rdi], ymm0",
            "vmovdqu [rdi + 32], ymm1",
            "vmovdqu [rdi + 64], ymm2",
            "vmovdqu [rdi + 96], ymm3",
        )
    };
}

/// Copies blocks of aligned pairs of words from the first on: loads half of a block, then stores it, then the other half.
macro_rules! copy_pairs {
    ($from:expr, $to:expr, $blocks:expr) => {
        for_each_block!(
            $from,
            $to,
            $blocks,
            "128",
            "vmovdqa xmm0, [rsi]",
            "vmovdqa xmm1, [rsi + 16]",
            "vmovdqa xmm2, [rsi + 32]",
            "vmovdqa xmm3, [rsi + 48]",
            "vmovdqa [rdi], xmm0",
            "vmovdqa [rdi + 16], xmm1",
            "vmovdqa [rdi + 32], xmm2",
            "vmovdqa [rdi + 48], xmm3",
            "vmovdqa xmm0, [rsi + 64]",
            "vmovdqa xmm1, [rsi + 80]",
            "vmovdqa xmm2, [rsi + 96]",
            "vmovdqa xmm3, [rsi + 112]",
            "vmovdqa [rdi + 64], xmm0",
            "vmovdqa [rdi + 80], xmm1",
            "vmovdqa [rdi + 96], xmm2",
            "vmovdqa [rdi + 112], xmm3",
        )
    };
}

/// Stores as many bytes of a word as the instruction does.
macro_rules! store_by {
    ($store:literal, $to:expr, $word:expr) => {
        asm!(
            $store,
            to = in(reg) $to.word(),
            word = in(reg) $word,
            options(nostack, preserves_flags),
        )
    };
}

/// Copies as many bytes as the instructions load and store: loads all, then stores all.
macro_rules! copy_by {
    ($class:ident, $load:literal, $store:literal, $from:expr, $to:expr) => {
        asm!(
            $load,
            $store,
            from = in(reg) $from.word(),
            to = in(reg) $to.word(),
            bytes = out($class) _,
            options(nostack, preserves_flags),
        )
    };
}

/// Copies 2^`log2` bytes, at most 16.
///
/// # Safety
/// They lie at both places.
#[inline(always)]
unsafe fn copy_piece(from: Address, to: Address, log2: u32) {
    // SAFETY: one relaxed load of each of these bytes, and one relaxed store of each, as the file says.
    unsafe {
        match log2 {
            4 => copy_by!(
                xmm_reg,
                "movdqu {bytes}, [{from}]",
                "movdqu [{to}], {bytes}",
                from,
                to
            ),
            3 => copy_by!(
                reg,
                "mov {bytes}, [{from}]",
                "mov [{to}], {bytes}",
                from,
                to
            ),
            2 => copy_by!(
                reg,
                "mov {bytes:e}, [{from}]",
                "mov [{to}], {bytes:e}",
                from,
                to
            ),
            1 => copy_by!(
                reg,
                "movzx {bytes:e}, word ptr [{from}]",
                "mov [{to}], {bytes:x}",
                from,
                to
            ),
            _ => copy_by!(
                reg,
                "movzx {bytes:e}, byte ptr [{from}]",
                "mov [{to}], {bytes:l}",
                from,
                to
            ),
        }
    }
}

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

/// As many bytes as the instruction loads, the first of them lowest.
macro_rules! load_by {
    ($load:literal, $from:expr) => {{
        let bytes: u64;
        asm!(
            $load,
            from = in(reg) $from.word(),
            bytes = lateout(reg) bytes,
            options(nostack, preserves_flags, readonly),
        );
        bytes
    }};
}

/// Which of 16 bytes are equal, a bit for each.
///
/// # Safety
/// 16 bytes lie at both places.
#[inline(always)]
unsafe fn equal_of_16(one: Address, other: Address) -> u32 {
    let equal: u32;
    // SAFETY: one relaxed load of each of 16 bytes at both places, as the file says.
    unsafe {
        asm!(
            "movdqu {mine}, [{one}]",
            "movdqu {theirs}, [{other}]",
            "pcmpeqb {mine}, {theirs}",
            "pmovmskb {equal:e}, {mine}",
            one = in(reg) one.word(),
            other = in(reg) other.word(),
            mine = out(xmm_reg) _,
            theirs = out(xmm_reg) _,
            equal = lateout(reg) equal,
            options(nostack, preserves_flags, readonly),
        );
    }
    equal
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
        if count >= BLOCK && has_wide_vectors() {
            if count >= LONG {
                done = to.word().wrapping_neg() % WIDE;
                let odd = done % 16;
                copy_few(from, to, odd);
                if odd < done {
                    copy_piece(from.add(odd), to.add(odd), 4);
                }
            }
            let blocks = (count - done) / BLOCK;
            copy_blocks!(from.add(done), to.add(done), blocks, "128");
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
        if count >= BLOCK && has_wide_vectors() {
            if count >= LONG {
                let odd = to.add(count).word() % WIDE;
                copy_last(from, to, left, odd);
                left -= odd;
            }
            let blocks = left / BLOCK;
            let last = left - BLOCK;
            copy_blocks!(from.add(last), to.add(last), blocks, "-128");
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
    if bytes >= 2 * BLOCK && pairs_match && has_wide_vectors() {
        if !from.word().is_multiple_of(16) {
            word(0);
            done = 8;
        }
        let blocks = (bytes - done) / BLOCK;
        // SAFETY: the blocks lie there, as the caller promises, aligned, and are used as said above.
        unsafe { copy_pairs!(from.add(done), to.add(done), blocks) };
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
        if count >= BLOCK && has_wide_vectors() {
            let blocks = count / BLOCK;
            let left = for_each_block!(
                one,
                other,
                blocks,
                "128",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu ymm1, [rsi + 32]",
                "vmovdqu ymm2, [rsi + 64]",
                "vmovdqu ymm3, [rsi + 96]",
                "vxorps ymm0, ymm0, [rdi]",
                "vxorps ymm1, ymm1, [rdi + 32]",
                "vxorps ymm2, ymm2, [rdi + 64]",
                "vxorps ymm3, ymm3, [rdi + 96]",
                "vorps ymm0, ymm0, ymm1",
                "vorps ymm2, ymm2, ymm3",
                "vorps ymm0, ymm0, ymm2",
                "vptest ymm0, ymm0",
                "jnz 3f",
            );
            done = (blocks - left) * BLOCK;
        }
        let piece = |at: usize| equal_of_16(one.add(at), other.add(at)) ^ 0xffff;
        let found = |at: usize, differs: u32| at + differs.trailing_zeros() as usize;
        while count - done >= 16 {
            match piece(done) {
                0 => done += 16,
                differs => return found(done, differs),
            }
        }
        if done == count {
            return count;
        }
        if count >= 16 {
            return match piece(count - 16) {
                0 => count,
                differs => found(count - 16, differs),
            };
        }
        let word_of = |of: Address| load_by!("mov {bytes}, [{from}]", of);
        let half_of = |of: Address| load_by!("mov {bytes:e}, [{from}]", of);
        let word = |at: usize| word_of(one.add(at)) ^ word_of(other.add(at));
        let half = |at: usize| half_of(one.add(at)) ^ half_of(other.add(at));
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
            store_by!("mov [{to}], {word}", at, word);
            at = at.add(8);
        }
        if count & 4 != 0 {
            store_by!("mov [{to}], {word:e}", at, word);
            at = at.add(4);
        }
        if count & 2 != 0 {
            store_by!("mov [{to}], {word:x}", at, word);
            at = at.add(2);
        }
        if count & 1 != 0 {
            store_by!("mov [{to}], {word:l}", at, word);
        }
    }
}

/// From so many bytes on one instruction that fills all of them is faster than a loop.
const LONG_FILL: usize = 512;

/// Stores one value into all bytes. The result is how many.
///
/// # Safety
/// `count` bytes lie there.
#[inline]
pub unsafe fn fill(at: Address, value: u8, count: usize) -> usize {
    if count >= LONG_FILL {
        // SAFETY: one relaxed store of each of `count` bytes, as the file says.
        unsafe {
            asm!(
                "rep stosb",
                inout("rdi") at.word() => _,
                inout("rcx") count => _,
                in("al") value,
                options(nostack, preserves_flags),
            );
        }
        return count;
    }
    let word = repeated(value);
    let mut done = 0;
    // SAFETY: the bytes lie there, as the caller promises; one relaxed store of each, as the file says.
    unsafe {
        while count - done >= 16 {
            store_by!("mov [{to}], {word}", at.add(done), word);
            store_by!("mov [{to}], {word}", at.add(done + 8), word);
            done += 16;
        }
        fill_few(at.add(done), value, count - done);
    }
    count
}
