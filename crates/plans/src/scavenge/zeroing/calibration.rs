//! Which zeroing kernel is fastest on this processor, measured once in a process and only if `zeroing=auto` asks.
//!
//! A block that fits into the second cache is zeroed by each kernel that the processor has, several times; the shortest
//! time counts, so a thread that is interrupted decides nothing. It takes some tenths of a millisecond. Any thread; two
//! that measure at once both store what they found, and either is right.

use core::sync::atomic::{AtomicU64, Ordering};

use gleaner_mem::Address;
use gleaner_mem::zero::Choice;
use gleaner_mem::zero::kernels::Kernel;
use gleaner_mem::zero::processor::Processor;
use gleaner_os::{clock, memory};

use crate::scavenge::decide::zeroing::fastest;

/// Bytes that are zeroed at a time.
const BLOCK: usize = 128 << 10;
const ROUNDS: usize = 4;

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calibration {
    /// The fastest stores into the cache.
    pub soon: Choice,
    /// The fastest ones that pass the caches by.
    pub past: Choice,
    /// How long those take for a MB, in nanoseconds; at least 1.
    pub past_ns: u64,
}

/// [`pack`]ed, or 0. It stands for nothing else, so it is no part of any model.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// What this processor is best at; `None` when the system gives no memory to measure with.
pub fn calibration() -> Option<Calibration> {
    let mut found = FOUND.load(Ordering::Relaxed);
    if found == 0 {
        found = pack(&measure()?);
        FOUND.store(found, Ordering::Relaxed);
    }
    Some(unpack(found))
}

fn measure() -> Option<Calibration> {
    let block = memory::map(BLOCK)?;
    let processor = Processor::detect();
    let mut took = [(Kernel::Memset, u64::MAX); Kernel::ALL.len()];
    let mut count = 0;
    for kernel in Kernel::ALL {
        if kernel.needs().is_none_or(|feature| processor.has(feature)) {
            let least = (0..ROUNDS).map(|_| {
                let began = clock::monotonic_ns();
                // SAFETY: the block was just mapped for this, and the processor has the kernel.
                unsafe { kernel.zero(Address::of(block.as_ptr()), BLOCK) };
                (clock::monotonic_ns() - began).max(1)
            });
            took[count] = (kernel, least.min().unwrap_or(u64::MAX));
            count += 1;
        }
    }
    // SAFETY: nothing refers to it any more.
    unsafe { memory::unmap(block, BLOCK) };
    let took = &took[..count];
    let choose = |usual| match fastest(usual, took) {
        best if best == usual => Choice::unbeaten(usual),
        best => Choice::measured(best),
    };
    let (soon, past) = (choose(Kernel::Memset), choose(Kernel::Movntdq));
    let past_took = took.iter().find(|one| one.0 == past.kernel)?.1;
    Some(Calibration {
        soon,
        past,
        past_ns: past_took * ((1 << 20) / BLOCK as u64),
    })
}

fn place(kernel: Kernel) -> u64 {
    let place = Kernel::ALL.iter().position(|&one| one == kernel);
    place.unwrap_or(0) as u64
}

/// The two kernels by their places, and the time, in a word. The reasons follow from the kernels.
fn pack(found: &Calibration) -> u64 {
    found.past_ns.min(1 << 40) << 8 | place(found.past.kernel) << 4 | place(found.soon.kernel)
}

fn unpack(word: u64) -> Calibration {
    let choice = |place: u64, usual| match Kernel::ALL[place as usize & 7] {
        kernel if kernel == usual => Choice::unbeaten(kernel),
        kernel => Choice::measured(kernel),
    };
    Calibration {
        soon: choice(word, Kernel::Memset),
        past: choice(word >> 4, Kernel::Movntdq),
        past_ns: word >> 8,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_plausible_and_kept() {
        let found = measure().unwrap();
        assert!(found.soon.kernel.is_temporal() && !found.past.kernel.is_temporal());
        // Between 1 GB/s and 1 TB/s.
        assert!((1_000..1_000_000).contains(&found.past_ns), "{found:?}");
        assert_eq!(unpack(pack(&found)), found);
        assert_eq!(calibration(), calibration());
    }

    #[test]
    fn every_pair_of_kernels_is_packed_and_unpacked() {
        for soon in Kernel::ALL {
            for past in Kernel::ALL {
                let choice = |kernel, usual| match kernel {
                    kernel if kernel == usual => Choice::unbeaten(kernel),
                    kernel => Choice::measured(kernel),
                };
                let found = Calibration {
                    soon: choice(soon, Kernel::Memset),
                    past: choice(past, Kernel::Movntdq),
                    past_ns: 41_000,
                };
                assert_eq!(unpack(pack(&found)), found);
            }
        }
    }
}
