//! What an x86-64 processor says of itself, and what the system says in a register that the processor has.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, CpuidResult};

use super::{Processor, bit};
use crate::address::CACHE_LINE;

/// The one that this runs on.
pub(super) fn found() -> Processor {
    read(cpuid, saved_state)
}

/// Asks the processor: `cpuid` answers for a leaf, `saved_state` gives the register XCR0, if there is one.
fn read(cpuid: impl Fn(u32) -> CpuidResult, saved_state: impl Fn() -> u64) -> Processor {
    let upto = |leaf: u32| cpuid(leaf & 0x8000_0000).eax >= leaf;
    let basic = cpuid(1);
    let more = if upto(7) { cpuid(7).ebx } else { 0 };
    let other = 0x8000_0008;
    let extended = if upto(other) { cpuid(other).ebx } else { 0 };
    // The system says in XCR0 which registers it saves; the others must not be used.
    let saved = if bit(basic.ecx, 27) { saved_state() } else { 0 };
    let saves = |registers: u64| saved & registers == registers;
    let avx = bit(basic.ecx, 28) && saves(0x06);
    Processor {
        x86: true,
        avx,
        avx512: avx && bit(more, 16) && saves(0xe6),
        line_zero: bit(extended, 0) && (basic.ebx >> 8 & 0xff) as usize * 8 == CACHE_LINE,
        fast_strings: bit(more, 9),
    }
}

fn cpuid(leaf: u32) -> CpuidResult {
    #[allow(unused_unsafe, reason = "unsafe in the oldest Rust that is served")]
    // SAFETY: every processor of this architecture has the instruction.
    unsafe {
        __cpuid(leaf)
    }
}

/// The register XCR0. Only for processors and systems that have it (OSXSAVE).
fn saved_state() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: asked only when the processor says that the instruction is there; it reads a register.
    unsafe {
        asm!(
            "xgetbv",
            in("ecx") 0,
            out("eax") low,
            out("edx") high,
            options(nomem, nostack, preserves_flags)
        );
    }
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::zero::processor::made_up::{FULL, PLAIN};

    /// What a made-up processor answers.
    #[derive(Clone, Copy)]
    struct Answers {
        most: u32,
        line: u32,
        ecx1: u32,
        ebx7: u32,
        most_extended: u32,
        ebx8: u32,
        xcr0: Option<u64>,
    }

    impl Answers {
        const FULL: Answers = Answers {
            most: 7,
            line: 8,
            ecx1: 1 << 27 | 1 << 28,
            ebx7: 1 << 9 | 1 << 16,
            most_extended: 0x8000_0008,
            ebx8: 1,
            xcr0: Some(0xe7),
        };

        fn leaf(&self, leaf: u32) -> CpuidResult {
            let (eax, ebx, ecx) = match leaf {
                0 => (self.most, 0, 0),
                1 => (0, self.line << 8, self.ecx1),
                7 if self.most >= 7 => (0, self.ebx7, 0),
                0x8000_0000 => (self.most_extended, 0, 0),
                0x8000_0008 if self.most_extended >= leaf => (0, self.ebx8, 0),
                _ => panic!("asked for leaf {leaf:#x}"),
            };
            CpuidResult {
                eax,
                ebx,
                ecx,
                edx: 0,
            }
        }

        fn read(self) -> Processor {
            read(
                |leaf| self.leaf(leaf),
                || self.xcr0.expect("asked for XCR0"),
            )
        }
    }

    #[test]
    fn registers_count_only_if_the_system_saves_them() {
        let full = Answers::FULL;
        assert_eq!(full.read(), FULL);
        let with = |xcr0, ecx1| Answers { xcr0, ecx1, ..full }.read();
        let both = full.ecx1;
        assert!(with(Some(0x07), both).avx && !with(Some(0x07), both).avx512);
        assert!(!with(Some(0x67), both).avx512, "not all of the three");
        assert!(!with(Some(0x03), both).avx);
        assert!(!with(None, 1 << 28).avx, "no such register");
        assert!(!with(Some(0xe7), 1 << 27).avx512, "not without AVX");
    }

    #[test]
    fn leaves_and_lines_are_checked() {
        let full = Answers::FULL;
        let old = Answers { most: 6, ..full }.read();
        assert!(old.avx && !old.avx512 && !old.fast_strings);
        let old = Answers {
            most_extended: 0x8000_0007,
            ..full
        };
        assert!(!old.read().line_zero);
        assert!(!Answers { line: 4, ..full }.read().line_zero);
        assert!(!Answers { ebx8: 2, ..full }.read().line_zero);
        let none = Answers {
            ecx1: 0,
            ebx7: 0,
            ebx8: 0,
            xcr0: None,
            ..full
        };
        assert_eq!(none.read(), PLAIN);
    }

    #[test]
    fn this_one_is_found() {
        let found = Processor::detect();
        assert_eq!(found.avx, std::is_x86_feature_detected!("avx"));
        assert_eq!(found.avx512, std::is_x86_feature_detected!("avx512f"));
    }
}
