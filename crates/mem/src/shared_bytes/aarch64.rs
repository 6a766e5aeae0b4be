//! Accesses to shared bytes by instructions of a 64-bit Arm processor.
//!
//! What makes them sound is said in `vectors.rs`. A pair of words is two accesses, each of them at once where the word is
//! aligned.

use core::arch::asm;

use crate::Address;

/// Bytes that one turn of a loop takes.
pub const BLOCK: usize = 64;

/// Bytes at whose multiples long copies store.
pub const WIDE: usize = 16;

/// From so many bytes on a loop over vectors fills them.
pub const LONG_FILL: usize = 128;

/// Whether there are loops over blocks.
#[inline(always)]
pub fn has_blocks() -> bool {
    true
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
                vreg,
                "ldr {bytes:q}, [{from}]",
                "str {bytes:q}, [{to}]",
                from,
                to
            ),
            3 => copy_by!(
                reg,
                "ldr {bytes}, [{from}]",
                "str {bytes}, [{to}]",
                from,
                to
            ),
            2 => copy_by!(
                reg,
                "ldr {bytes:w}, [{from}]",
                "str {bytes:w}, [{to}]",
                from,
                to
            ),
            1 => copy_by!(
                reg,
                "ldrh {bytes:w}, [{from}]",
                "strh {bytes:w}, [{to}]",
                from,
                to
            ),
            _ => copy_by!(
                reg,
                "ldrb {bytes:w}, [{from}]",
                "strb {bytes:w}, [{to}]",
                from,
                to
            ),
        }
    }
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

/// Stores 2^`log2` bytes of a word, at most 8.
///
/// # Safety
/// They lie there.
#[inline(always)]
pub unsafe fn store_piece(to: Address, word: u64, log2: u32) {
    // SAFETY: one relaxed store of each of these bytes, as `vectors.rs` says.
    unsafe {
        match log2 {
            3 => store_by!("str {word}, [{to}]", to, word),
            2 => store_by!("str {word:w}, [{to}]", to, word),
            1 => store_by!("strh {word:w}, [{to}]", to, word),
            _ => store_by!("strb {word:w}, [{to}]", to, word),
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
    unsafe { load_by!("ldr {bytes}, [{from}]", from) }
}

/// Four bytes, the first of them lowest.
///
/// # Safety
/// They lie there.
#[inline(always)]
pub unsafe fn load_four(from: Address) -> u64 {
    // SAFETY: one relaxed load of each of these bytes, as `vectors.rs` says.
    unsafe { load_by!("ldr {bytes:w}, [{from}]", from) }
}

/// Which of 16 bytes differ: 0 for none, else what [`first_of`] takes, which has a bit of each byte that differs.
///
/// # Safety
/// 16 bytes lie at both places.
#[inline(always)]
pub unsafe fn differing_of_16(one: Address, other: Address) -> u128 {
    // SAFETY: 16 bytes lie at both places, as asked.
    let [low, high] =
        [0, 8].map(|at| unsafe { load_eight(one.add(at)) ^ load_eight(other.add(at)) });
    u128::from(high) << 64 | u128::from(low)
}

/// The first of 16 bytes that differs.
#[inline(always)]
pub fn first_of(differing: u128) -> usize {
    differing.trailing_zeros() as usize / 8
}

/// A loop over blocks, in four vectors: `$from` and `$to` lead to the first block, and go on by `$step` bytes.
macro_rules! copy_blocks {
    ($from:expr, $to:expr, $blocks:expr, $step:literal) => {
        asm!(
            "2:",
            "ldp {a:q}, {b:q}, [{from}]",
            "ldp {c:q}, {d:q}, [{from}, 32]",
            "stp {a:q}, {b:q}, [{to}]",
            "stp {c:q}, {d:q}, [{to}, 32]",
            concat!("add {from}, {from}, ", $step),
            concat!("add {to}, {to}, ", $step),
            "sub {blocks}, {blocks}, 1",
            "cbnz {blocks}, 2b",
            a = out(vreg) _,
            b = out(vreg) _,
            c = out(vreg) _,
            d = out(vreg) _,
            from = inout(reg) $from.word() => _,
            to = inout(reg) $to.word() => _,
            blocks = inout(reg) $blocks => _,
            options(nostack, preserves_flags),
        )
    };
}

/// Copies blocks from the first on.
///
/// # Safety
/// There is one at least, they lie at both places, and [`has_blocks`].
#[inline(always)]
pub unsafe fn copy_blocks_upward(from: Address, to: Address, blocks: usize) {
    // SAFETY: one relaxed load and store of each byte of the blocks, as `vectors.rs` says.
    unsafe { copy_blocks!(from, to, blocks, "64") };
}

/// Copies blocks from the last one on, whose places these are.
///
/// # Safety
/// As for [`copy_blocks_upward`].
#[inline(always)]
pub unsafe fn copy_blocks_downward(from: Address, to: Address, blocks: usize) {
    // SAFETY: one relaxed load and store of each byte of the blocks, as `vectors.rs` says.
    unsafe { copy_blocks!(from, to, blocks, "-64") };
}

/// Copies blocks of words from the first on, each word by one load and one store.
///
/// # Safety
/// As for [`copy_blocks_upward`]; they lie at multiples of 16.
#[inline(always)]
pub unsafe fn copy_blocks_of_words(from: Address, to: Address, blocks: usize) {
    // SAFETY: one relaxed load and store of each word of the blocks, as `vectors.rs` says.
    unsafe {
        asm!(
            "2:",
            "ldp {a}, {b}, [{from}]",
            "ldp {c}, {d}, [{from}, 16]",
            "stp {a}, {b}, [{to}]",
            "stp {c}, {d}, [{to}, 16]",
            "ldp {a}, {b}, [{from}, 32]",
            "ldp {c}, {d}, [{from}, 48]",
            "stp {a}, {b}, [{to}, 32]",
            "stp {c}, {d}, [{to}, 48]",
            "add {from}, {from}, 64",
            "add {to}, {to}, 64",
            "sub {blocks}, {blocks}, 1",
            "cbnz {blocks}, 2b",
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            d = out(reg) _,
            from = inout(reg) from.word() => _,
            to = inout(reg) to.word() => _,
            blocks = inout(reg) blocks => _,
            options(nostack, preserves_flags),
        );
    }
}

/// How many of the blocks are left at the first that differs, with it; 0 if none does.
///
/// # Safety
/// As for [`copy_blocks_upward`].
#[inline(always)]
pub unsafe fn equal_blocks(one: Address, other: Address, blocks: usize) -> usize {
    let differs = |block: usize| {
        (0..BLOCK).step_by(16).any(|part| {
            let at = block * BLOCK + part;
            // SAFETY: 16 bytes of a block, which lies at both places, as asked.
            unsafe { differing_of_16(one.add(at), other.add(at)) != 0 }
        })
    };
    blocks - (0..blocks).find(|&block| differs(block)).unwrap_or(blocks)
}

/// Stores one value into many bytes.
///
/// # Safety
/// `count` bytes lie there, 32 at least.
#[inline(always)]
pub unsafe fn fill_long(at: Address, value: u8, count: usize) {
    // SAFETY: one relaxed store of each of these bytes, as `vectors.rs` says; the last 32 of them may get two of the same
    // value.
    unsafe {
        asm!(
            "dup {v}.16b, {value:w}",
            "2:",
            "stp {v:q}, {v:q}, [{at}], 32",
            "cmp {at}, {last}",
            "b.lo 2b",
            "stp {v:q}, {v:q}, [{last}]",
            v = out(vreg) _,
            value = in(reg) u32::from(value),
            at = inout(reg) at.word() => _,
            last = in(reg) at.add(count - 32).word(),
            options(nostack),
        );
    }
}
