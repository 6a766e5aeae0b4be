//! Which kernel zeroes, by what the processor offers.
//!
//! The choice is a pure function, so it can be asked about processors that nobody has here.

use gleaner_base::options::ZeroingKernel;

use super::kernels::Kernel;
use super::processor::Processor;

/// A kernel, and why this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// What zeroes; the processor has what it needs.
    pub kernel: Kernel,
    /// Its name, and why.
    pub reason: &'static str,
}

/// A choice with the kernel's name before the reason.
macro_rules! choice {
    ($kernel:expr, $why:literal) => {{
        let kernel = $kernel;
        let reason = match kernel {
            Kernel::Memset => concat!("memset: ", $why),
            Kernel::Immediate => concat!("immediate: ", $why),
            Kernel::String => concat!("string: ", $why),
            Kernel::Vector => concat!("vector: ", $why),
            Kernel::Movnti => concat!("movnti: ", $why),
            Kernel::Movntdq => concat!("movntdq: ", $why),
            Kernel::WideNonTemporal => concat!("wide-non-temporal: ", $why),
            Kernel::LineZero => concat!("line-zero: ", $why),
        };
        Choice { kernel, reason }
    }};
}

impl Choice {
    /// The kernel that proved fastest when all were measured.
    pub fn measured(kernel: Kernel) -> Choice {
        choice!(kernel, "the fastest when all were measured")
    }

    /// The usual kernel, which none beat by much.
    pub fn unbeaten(kernel: Kernel) -> Choice {
        choice!(kernel, "when all were measured, none was much faster")
    }
}

/// Decides which kernel zeroes. One that is asked for by name is used, whatever `temporal` says, if the processor has
/// what it needs; `Auto` follows `temporal`.
pub fn choose(wanted: ZeroingKernel, temporal: bool, processor: &Processor) -> Choice {
    let named = Kernel::ALL
        .into_iter()
        .find(|kernel| kernel.option() == wanted);
    match named {
        None if temporal => choice!(
            Kernel::Memset,
            "the C library knows the fastest stores into the cache"
        ),
        None if !processor.x86 => past_the_caches_elsewhere(processor),
        None => choice!(
            Kernel::Movntdq,
            "non-temporal stores of 16 bytes are as fast as wider ones"
        ),
        Some(kernel) => match kernel.needs() {
            Some(feature) if !processor.has(feature) => instead_of(kernel, processor),
            _ => as_asked(kernel, processor),
        },
    }
}

/// What `Auto` takes for blocks that need not be in the cache, on a processor without stores that pass the caches by.
fn past_the_caches_elsewhere(processor: &Processor) -> Choice {
    match processor.line_zero {
        true => choice!(
            Kernel::LineZero,
            "no line is fetched for it, and the processor has no stores past the caches"
        ),
        false => choice!(
            Kernel::Memset,
            "the processor has no stores past the caches, and dc zva is forbidden"
        ),
    }
}

/// What is used where a processor lacks what the kernel needs.
fn instead_of(kernel: Kernel, processor: &Processor) -> Choice {
    match kernel {
        Kernel::LineZero if !processor.x86 => {
            choice!(Kernel::Memset, "the system forbids dc zva")
        }
        _ if !processor.x86 && kernel.is_temporal() => {
            choice!(
                Kernel::Memset,
                "what was asked for is of x86-64 processors alone"
            )
        }
        _ if !processor.x86 && processor.line_zero => {
            choice!(
                Kernel::LineZero,
                "what was asked for is of x86-64 processors alone"
            )
        }
        _ if !processor.x86 => {
            choice!(
                Kernel::Memset,
                "what was asked for is of x86-64 processors alone, and dc zva is forbidden"
            )
        }
        Kernel::LineZero => choice!(Kernel::Movntdq, "the processor lacks clzero"),
        Kernel::WideNonTemporal => choice!(Kernel::Movntdq, "the processor lacks AVX"),
        _ => choice!(Kernel::Memset, "the processor lacks AVX"),
    }
}

/// A kernel that was asked for and is used.
fn as_asked(kernel: Kernel, processor: &Processor) -> Choice {
    match kernel {
        Kernel::WideNonTemporal if !processor.avx512 => {
            choice!(
                kernel,
                "asked for; stores of 32 bytes, the processor lacks AVX-512"
            )
        }
        Kernel::String if !processor.fast_strings => choice!(
            kernel,
            "asked for, though the processor does not say that string stores are fast"
        ),
        _ => choice!(kernel, "asked for"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::zero::processor::made_up::{ARM, FULL, PLAIN};

    fn kernel(wanted: ZeroingKernel, temporal: bool, processor: &Processor) -> Kernel {
        choose(wanted, temporal, processor).kernel
    }

    #[test]
    fn auto_follows_the_design() {
        for processor in [PLAIN, FULL] {
            let auto = |temporal| kernel(ZeroingKernel::Auto, temporal, &processor);
            assert_eq!((auto(true), auto(false)), (Kernel::Memset, Kernel::Movntdq));
        }
    }

    #[test]
    fn a_kernel_asked_for_by_name_is_used() {
        for wanted in Kernel::ALL {
            for temporal in [false, true] {
                let choice = choose(wanted.option(), temporal, &FULL);
                assert_eq!(choice.kernel, wanted);
                assert_eq!(choice.reason, format!("{}: asked for", wanted.name()));
            }
        }
    }

    #[test]
    fn what_a_processor_lacks_falls_back_and_the_reason_names_it() {
        for (wanted, instead, names) in [
            (Kernel::LineZero, Kernel::Movntdq, "lacks clzero"),
            (Kernel::WideNonTemporal, Kernel::Movntdq, "lacks AVX"),
            (Kernel::Vector, Kernel::Memset, "lacks AVX"),
        ] {
            for temporal in [false, true] {
                let choice = choose(wanted.option(), temporal, &PLAIN);
                assert_eq!(choice.kernel, instead);
                assert!(choice.reason.contains(names), "{wanted:?}: {choice:?}");
            }
        }
        for wanted in Kernel::ALL {
            let choice = choose(wanted.option(), true, &PLAIN);
            let needs = wanted.needs();
            assert_eq!(
                choice.kernel == wanted,
                needs.is_none_or(|it| PLAIN.has(it))
            );
            assert!(choice.kernel.needs().is_none_or(|it| PLAIN.has(it)));
            assert!(wanted.is_temporal() == choice.kernel.is_temporal());
        }
    }

    #[test]
    fn an_arm_processor_has_few_and_the_reason_says_so() {
        let without = Processor {
            line_zero: false,
            ..ARM
        };
        assert_eq!(kernel(ZeroingKernel::Auto, true, &ARM), Kernel::Memset);
        assert_eq!(kernel(ZeroingKernel::Auto, false, &ARM), Kernel::LineZero);
        assert_eq!(kernel(ZeroingKernel::Auto, false, &without), Kernel::Memset);
        for wanted in Kernel::ALL {
            for processor in [ARM, without] {
                let choice = choose(wanted.option(), true, &processor);
                assert!(choice.kernel.needs().is_none_or(|it| processor.has(it)));
                match wanted.needs().is_none_or(|it| processor.has(it)) {
                    true => assert_eq!(choice.kernel, wanted),
                    false if wanted == Kernel::LineZero => {
                        assert!(choice.reason.contains("forbids dc zva"));
                    }
                    false => assert!(choice.reason.contains("of x86-64 processors alone")),
                }
            }
        }
        assert_eq!(
            kernel(ZeroingKernel::Movntdq, false, &ARM),
            Kernel::LineZero
        );
        assert_eq!(kernel(ZeroingKernel::Vector, true, &ARM), Kernel::Memset);
    }

    #[test]
    fn reasons_name_what_zeroes() {
        for kernel in Kernel::ALL {
            for choice in [Choice::measured(kernel), Choice::unbeaten(kernel)] {
                assert_eq!(choice.kernel, kernel);
                assert!(choice.reason.starts_with(&format!("{}: ", kernel.name())));
            }
        }
        let choice = choose(ZeroingKernel::LineZero, true, &PLAIN);
        assert!(choice.reason.starts_with("movntdq: "));
    }

    #[test]
    fn each_feature_is_looked_at_by_itself() {
        let avx = Processor { avx: true, ..PLAIN };
        let choice = choose(ZeroingKernel::WideNonTemporal, false, &avx);
        assert_eq!(choice.kernel, Kernel::WideNonTemporal);
        assert!(choice.reason.contains("lacks AVX-512"));
        assert_eq!(kernel(ZeroingKernel::Vector, true, &avx), Kernel::Vector);
        assert_eq!(
            kernel(ZeroingKernel::LineZero, false, &avx),
            Kernel::Movntdq
        );
        let line_zero = Processor {
            line_zero: true,
            ..PLAIN
        };
        assert_eq!(
            kernel(ZeroingKernel::LineZero, true, &line_zero),
            Kernel::LineZero
        );
        assert_eq!(
            kernel(ZeroingKernel::Vector, true, &line_zero),
            Kernel::Memset
        );
        let choice = choose(ZeroingKernel::String, true, &PLAIN);
        assert_eq!(choice.kernel, Kernel::String);
        assert!(choice.reason.contains("does not say"));
    }
}
