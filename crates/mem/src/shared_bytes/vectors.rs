//! Relaxed accesses to many bytes by one instruction of an x86-64 processor each.
//!
//! # Why this is sound
//! An `asm!` block may do what some Rust code might do there, and each block here states which: one relaxed load of each
//! byte that it reads, one relaxed store of each byte that it writes, of just these bytes, and nothing else. The
//! processor keeps that. A byte is the least that it loads and stores; it may take the bytes of a vector in any order
//! and in parts, which relaxed accesses to different bytes allow; a store writes no byte beside those of its operand.
//! Other threads use these bytes byte by byte as well, so no atomic access of another size meets them.
//!
//! No block says `nomem` or `pure`: to the compiler each may read and write the memory that its pointers lead to. No
//! block keeps anything in a vector register: those that use wide ones say that all are overwritten, and clear the
//! upper halves, which would slow down what uses narrow ones.

use core::arch::asm;

use crate::Address;
use crate::zero::Processor;

/// Bytes that one turn of a loop over wide vectors takes.
const BLOCK: usize = 128;

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

/// Copies 16 bytes: loads all, then stores all.
///
/// # Safety
/// They lie at both places.
#[inline(always)]
unsafe fn copy_16(from: Address, to: Address) {
    // SAFETY: one relaxed load of each of 16 bytes, and one relaxed store of each, as the file says.
    unsafe {
        asm!(
            "movdqu {bytes}, [{from}]",
            "movdqu [{to}], {bytes}",
            from = in(reg) from.word(),
            to = in(reg) to.word(),
            bytes = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Eight bytes, the first of them lowest.
///
/// # Safety
/// They lie there.
#[inline(always)]
unsafe fn load_8(from: Address) -> u64 {
    let bytes: u64;
    // SAFETY: one relaxed load of each of 8 bytes, as the file says.
    unsafe {
        asm!(
            "mov {bytes}, [{from}]",
            from = in(reg) from.word(),
            bytes = lateout(reg) bytes,
            options(nostack, preserves_flags, readonly),
        );
    }
    bytes
}

/// # Safety
/// Eight bytes lie there.
#[inline(always)]
unsafe fn store_8(to: Address, bytes: u64) {
    // SAFETY: one relaxed store of each of 8 bytes, as the file says.
    unsafe {
        asm!(
            "mov [{to}], {bytes}",
            to = in(reg) to.word(),
            bytes = in(reg) bytes,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies bytes from the first on. The result is how many: fewer than 8 are left.
///
/// # Safety
/// `count` bytes lie at both places, and `to` does not lie in those that are copied behind the first.
pub unsafe fn copy_upward(from: Address, to: Address, count: usize) -> usize {
    let mut done = 0;
    // SAFETY: the bytes lie there, as the caller promises, and are used as the file says.
    unsafe {
        if count >= BLOCK && has_wide_vectors() {
            let blocks = count / BLOCK;
            copy_blocks!(from, to, blocks, "128");
            done = blocks * BLOCK;
        }
        while count - done >= 16 {
            copy_16(from.add(done), to.add(done));
            done += 16;
        }
        if count - done >= 8 {
            store_8(to.add(done), load_8(from.add(done)));
            done += 8;
        }
    }
    done
}

/// Copies bytes from the last on. The result is how many at the start are left: fewer than 8.
///
/// # Safety
/// `count` bytes lie at both places, and `from` does not lie in those that are written behind the first.
pub unsafe fn copy_downward(from: Address, to: Address, count: usize) -> usize {
    let mut left = count;
    // SAFETY: the bytes lie there, as the caller promises, and are used as the file says.
    unsafe {
        if count >= BLOCK && has_wide_vectors() {
            let blocks = count / BLOCK;
            let last = count - BLOCK;
            copy_blocks!(from.add(last), to.add(last), blocks, "-128");
            left -= blocks * BLOCK;
        }
        while left >= 16 {
            left -= 16;
            copy_16(from.add(left), to.add(left));
        }
        if left >= 8 {
            left -= 8;
            store_8(to.add(left), load_8(from.add(left)));
        }
    }
    left
}

/// How many bytes were found equal, from the first on. Either fewer than 8 are left, or the next one was found to
/// differ.
///
/// # Safety
/// `count` bytes lie at both places.
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
        while count - done >= 8 {
            let differs = load_8(one.add(done)) ^ load_8(other.add(done));
            if differs != 0 {
                return done + differs.trailing_zeros() as usize / 8;
            }
            done += 8;
        }
    }
    done
}

/// Stores one value into all bytes. The result is how many.
///
/// # Safety
/// `count` bytes lie there.
pub unsafe fn fill(at: Address, value: u8, count: usize) -> usize {
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
    count
}
