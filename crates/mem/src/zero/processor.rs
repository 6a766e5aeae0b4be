//! What the processor offers for zeroing.
//!
//! It is read once and remembered in one byte, since some machines take many microseconds to answer.

use core::sync::atomic::{AtomicU8, Ordering};

#[cfg(target_arch = "aarch64")]
#[path = "processor/aarch64.rs"]
mod facts;
#[cfg(target_arch = "x86_64")]
#[path = "processor/x86_64.rs"]
mod facts;

#[cfg(target_arch = "aarch64")]
pub(super) use facts::zeroed_at_once;

/// Something that not every processor has, and that a kernel needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// Registers of 32 bytes, which the system saves for each thread.
    Avx,
    /// The instruction `clzero`, or on Arm `dc zva`.
    LineZero,
    /// That it is an x86-64 processor, of which each has string stores and stores that pass the caches by.
    X86,
}

/// What a processor offers for zeroing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processor {
    /// That it is an x86-64 processor, not an Arm one.
    pub x86: bool,
    /// Registers of 32 bytes, which the system saves for each thread.
    pub avx: bool,
    /// The same with 64 bytes.
    pub avx512: bool,
    /// The instruction `clzero`, with lines of 64 bytes, or on Arm `dc zva`.
    pub line_zero: bool,
    /// It says that `rep stosb` is fast.
    pub fast_strings: bool,
}

/// What [`Processor::detect`] found, see [`Processor::packed`]; 0 before. All threads write the same byte, which stands
/// for nothing else, so relaxed ordering does.
static FOUND: AtomicU8 = AtomicU8::new(0);

/// The bit of [`FOUND`] that says that it was found.
const KNOWN: u8 = 1 << 7;

impl Processor {
    /// The one that this runs on.
    pub fn detect() -> Processor {
        let found = FOUND.load(Ordering::Relaxed);
        if found & KNOWN != 0 {
            return Processor::unpacked(found);
        }
        let processor = facts::found();
        FOUND.store(processor.packed() | KNOWN, Ordering::Relaxed);
        processor
    }

    /// Whether it has that.
    pub const fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Avx => self.avx,
            Feature::LineZero => self.line_zero,
            Feature::X86 => self.x86,
        }
    }

    /// As bits.
    fn packed(&self) -> u8 {
        let bits = [
            self.avx,
            self.avx512,
            self.line_zero,
            self.fast_strings,
            self.x86,
        ];
        bits.into_iter()
            .rev()
            .fold(0, |packed, bit| packed << 1 | u8::from(bit))
    }

    /// What [`Processor::packed`] packed.
    fn unpacked(packed: u8) -> Processor {
        let bit = |number| bit(u32::from(packed), number);
        Processor {
            avx: bit(0),
            avx512: bit(1),
            line_zero: bit(2),
            fast_strings: bit(3),
            x86: bit(4),
        }
    }
}

fn bit(word: u32, number: u32) -> bool {
    word >> number & 1 == 1
}

/// Processors that nobody has.
#[cfg(all(test, not(loom)))]
pub(super) mod made_up {
    use super::Processor;

    /// An x86-64 one without anything.
    pub const PLAIN: Processor = Processor {
        x86: true,
        avx: false,
        avx512: false,
        line_zero: false,
        fast_strings: false,
    };
    /// An Arm one.
    pub const ARM: Processor = Processor {
        x86: false,
        line_zero: true,
        ..PLAIN
    };
    /// An x86-64 one with everything.
    pub const FULL: Processor = Processor {
        x86: true,
        avx: true,
        avx512: true,
        line_zero: true,
        fast_strings: true,
    };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_remembered() {
        for number in 0..32 {
            assert_eq!(Processor::unpacked(number | KNOWN).packed(), number);
        }
        let found = facts::found();
        assert_eq!(Processor::detect(), found);
        assert_eq!(Processor::detect(), found);
        assert_eq!(found.x86, cfg!(target_arch = "x86_64"));
    }
}
