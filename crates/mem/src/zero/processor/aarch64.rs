//! What a 64-bit Arm processor says of itself.

use core::arch::asm;

use super::Processor;

/// The one that this runs on.
pub(super) fn found() -> Processor {
    Processor {
        x86: false,
        avx: false,
        avx512: false,
        line_zero: zeroed_at_once().is_some(),
        fast_strings: false,
    }
}

/// Bytes that `dc zva` zeroes, a power of two; `None` where programs may not use it.
pub(in crate::zero) fn zeroed_at_once() -> Option<usize> {
    let register: u64;
    // SAFETY: every program may read this register.
    unsafe {
        asm!("mrs {}, dczid_el0", out(reg) register, options(nomem, nostack, preserves_flags));
    }
    block_of(register)
}

/// What the register `DCZID_EL0` says: the logarithm of the block in words of 4 bytes, and a bit that forbids the instruction.
fn block_of(register: u64) -> Option<usize> {
    (register & 1 << 4 == 0).then_some(4 << (register & 0xf))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_register_tells_the_block() {
        assert_eq!(block_of(4), Some(64));
        assert_eq!(block_of(9), Some(2048));
        assert_eq!(block_of(4 | 1 << 4), None);
    }
}
