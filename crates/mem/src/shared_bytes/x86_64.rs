//! Accesses to shared bytes by instructions of an x86-64 processor.
//!
//! What makes them sound is said in `vectors.rs`.
//!
//! No block keeps anything in a vector register: those that use wide ones say that all are overwritten, and clear the
//! upper halves, which would slow down what uses narrow ones.

use core::arch::asm;

use crate::Address;
use crate::zero::Processor;

/// Bytes that one turn of a loop over wide vectors takes.
pub const BLOCK: usize = 128;

/// Bytes at whose multiples long copies store.
pub const WIDE: usize = 32;

/// From so many bytes on one instruction that fills all of them is faster than a loop.
pub const LONG_FILL: usize = 512;

/// Whether there are loops over blocks.
#[inline(always)]
pub fn has_blocks() -> bool {
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
pub unsafe fn copy_piece(from: Address, to: Address, log2: u32) {
    // SAFETY: one relaxed load of each of these bytes, and one relaxed store of each, as `vectors.rs` says.
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

/// Stores 2^`log2` bytes of a word, at most 8.
///
/// # Safety
/// They lie there.
#[inline(always)]
pub unsafe fn store_piece(to: Address, word: u64, log2: u32) {
    // SAFETY: one relaxed store of each of these bytes, as `vectors.rs` says.
    unsafe {
        match log2 {
            3 => store_by!("mov [{to}], {word}", to, word),
            2 => store_by!("mov [{to}], {word:e}", to, word),
            1 => store_by!("mov [{to}], {word:x}", to, word),
            _ => store_by!("mov [{to}], {word:l}", to, word),
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

/// Eight bytes, the first of them lowest.
///
/// # Safety
/// They lie there.
#[inline(always)]
pub unsafe fn load_eight(from: Address) -> u64 {
    // SAFETY: one relaxed load of each of these bytes, as `vectors.rs` says.
    unsafe { load_by!("mov {bytes}, [{from}]", from) }
}

/// Four bytes, the first of them lowest.
///
/// # Safety
/// They lie there.
#[inline(always)]
pub unsafe fn load_four(from: Address) -> u64 {
    // SAFETY: one relaxed load of each of these bytes, as `vectors.rs` says.
    unsafe { load_by!("mov {bytes:e}, [{from}]", from) }
}

/// Which of 16 bytes differ: 0 for none, else what [`first_of`] takes.
///
/// # Safety
/// 16 bytes lie at both places.
#[inline(always)]
pub unsafe fn differing_of_16(one: Address, other: Address) -> u32 {
    let equal: u32;
    // SAFETY: one relaxed load of each of 16 bytes at both places, as `vectors.rs` says.
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
    equal ^ 0xffff
}

/// The first of 16 bytes that differs.
#[inline(always)]
pub fn first_of(differing: u32) -> usize {
    differing.trailing_zeros() as usize
}

/// Copies blocks from the first on.
///
/// # Safety
/// There is one at least, they lie at both places, and [`has_blocks`].
#[inline(always)]
pub unsafe fn copy_blocks_upward(from: Address, to: Address, blocks: usize) {
    // SAFETY: one relaxed load and store of each byte of the blocks, as `vectors.rs` says.
    unsafe { copy_blocks!(from, to, blocks, "128") };
}

/// Copies blocks from the last one on, whose places these are.
///
/// # Safety
/// As for [`copy_blocks_upward`].
#[inline(always)]
pub unsafe fn copy_blocks_downward(from: Address, to: Address, blocks: usize) {
    // SAFETY: one relaxed load and store of each byte of the blocks, as `vectors.rs` says.
    unsafe { copy_blocks!(from, to, blocks, "-128") };
}

/// Copies blocks of words from the first on, each word by one load and one store.
///
/// # Safety
/// As for [`copy_blocks_upward`]; they lie at multiples of 16.
#[inline(always)]
pub unsafe fn copy_blocks_of_words(from: Address, to: Address, blocks: usize) {
    // SAFETY: one relaxed load and store of each word of the blocks, as `vectors.rs` says.
    unsafe { copy_pairs!(from, to, blocks) };
}

/// How many of the blocks are left at the first that differs, with it; 0 if none does.
///
/// # Safety
/// As for [`copy_blocks_upward`].
#[inline(always)]
pub unsafe fn equal_blocks(one: Address, other: Address, blocks: usize) -> usize {
    // SAFETY: one relaxed load of each byte of the blocks, as `vectors.rs` says.
    unsafe {
        for_each_block!(
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
        )
    }
}

/// Stores one value into many bytes.
///
/// # Safety
/// `count` bytes lie there.
#[inline(always)]
pub unsafe fn fill_long(at: Address, value: u8, count: usize) {
    // SAFETY: one relaxed store of each of `count` bytes, as `vectors.rs` says.
    unsafe {
        asm!(
            "rep stosb",
            inout("rdi") at.word() => _,
            inout("rcx") count => _,
            in("al") value,
            options(nostack, preserves_flags),
        );
    }
}
