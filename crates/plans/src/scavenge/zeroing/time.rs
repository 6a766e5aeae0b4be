//! What zeroing takes of the processors. A thread that zeroes may lose its processor in the middle, to its neighbours
//! or to the hypervisor's, and the time until it comes back is not zeroing's. So what counts is the thread's processor
//! time, as on both sides of the share in the paper's DirectZeroingCost (OOPSLA 2011, section 4.3).
//!
//! The kernel's clock of a thread is a system call, as long as zeroing a block. So one piece for each [`INTERVAL`]
//! bytes is timed by the time-stamp counter, which goes on while the thread has no processor. A sample slower than any
//! memory is not believed: the next piece is timed by the kernel's clock, too, and stands for both.
//!
//! # Invariants
//! - A sample is either shorter than [`believed_ns`], or at most the processor time that the thread used meanwhile. So
//!   what a lost processor adds is less than that, whatever the neighbours do.

use gleaner_os::clock;

use super::zeroed::Zeroed;

/// A thread times one piece for each this many bytes that it zeroes: each block, or one of many windows.
const INTERVAL: u64 = 32 << 10;

/// The longest time, in nanoseconds, that zeroing `bytes` bytes is believed to take without asking the kernel: 1 GB/s,
/// and two microseconds for an interrupt.
const fn believed_ns(bytes: usize) -> u64 {
    2000 + bytes as u64
}

/// Which threads zeroed: the mutators, or zeroing threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    Mutators,
    Ahead,
}

/// Zeroes `bytes` bytes by `work`, and counts them. `nanoseconds` converts ticks of the time-stamp counter.
pub(super) fn zero_timed(
    zeroed: &mut Zeroed,
    whose: Whose,
    bytes: usize,
    nanoseconds: impl Fn(u64) -> u64,
    work: impl FnOnce(),
) {
    let (all, time, timed) = match whose {
        Whose::Mutators => (&mut zeroed.bytes, &mut zeroed.time, &mut zeroed.timed),
        Whose::Ahead => (
            &mut zeroed.ahead_bytes,
            &mut zeroed.ahead_time,
            &mut zeroed.ahead_timed,
        ),
    };
    *all += bytes as u64;
    let untimed = *all - *timed;
    let piece = bytes as u64;
    // The first piece since the last collection is timed, too: small nurseries have a figure.
    let is_due = *timed == 0 || untimed >= INTERVAL;
    if bytes == 0 || !is_due {
        return work();
    }
    // A piece before this one was due, and was not believed.
    let is_doubted = untimed >= INTERVAL + piece || (*timed == 0 && untimed > piece);
    let sample = if is_doubted {
        processor_time(nanoseconds, work)
    } else {
        let ticks = clock::ticks();
        work();
        let passed = nanoseconds(clock::ticks_since(ticks));
        if passed > believed_ns(bytes) {
            return;
        }
        passed
    };
    *time += (u128::from(sample) * u128::from(untimed) / u128::from(piece)) as u64;
    *timed = *all;
}

/// What `work` takes of the calling thread's processor time, in nanoseconds. While the thread keeps its processor that
/// is what the time-stamp counter says, which the kernel's clock, read outside of it, exceeds by its own call.
fn processor_time(nanoseconds: impl Fn(u64) -> u64, work: impl FnOnce()) -> u64 {
    let used = clock::thread_cpu_ns();
    let ticks = clock::ticks();
    work();
    let passed = nanoseconds(clock::ticks_since(ticks));
    passed.min(clock::thread_cpu_ns() - used)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Pieces that take what `work` takes; a tick is a nanosecond here.
    fn zero(zeroed: &mut Zeroed, whose: Whose, bytes: usize, work: impl FnOnce()) {
        zero_timed(zeroed, whose, bytes, |ticks| ticks, work);
    }

    #[test]
    fn a_thread_that_loses_its_processor_is_not_charged_for_it() {
        let used = clock::thread_cpu_ns();
        let mut zeroed = Zeroed::default();
        for whose in [Whose::Mutators, Whose::Ahead] {
            for _ in 0..2 {
                zero(&mut zeroed, whose, 64 << 10, || {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                });
            }
        }
        let used = clock::thread_cpu_ns() - used;
        assert_eq!((zeroed.bytes, zeroed.timed), (128 << 10, 128 << 10));
        assert_eq!(
            (zeroed.ahead_bytes, zeroed.ahead_timed),
            (128 << 10, 128 << 10)
        );
        // Each believed sample stands for itself and for the one before it, which was as long.
        assert!(
            zeroed.time + zeroed.ahead_time <= 2 * used,
            "{zeroed:?} of {used}"
        );
    }

    #[test]
    fn a_sample_stands_for_the_bytes_before_it() {
        let (mut zeroed, mut samples) = (Zeroed::default(), 0);
        for window in 1..=129 {
            let before = zeroed.timed;
            let ticks = |_| 100;
            zero_timed(&mut zeroed, Whose::Mutators, 512, ticks, || ());
            if zeroed.timed != before {
                samples += 1;
                assert_eq!(zeroed.timed, zeroed.bytes, "window {window}");
                assert_eq!(zeroed.time, 100 * window, "window {window}");
            }
        }
        assert_eq!((zeroed.bytes, samples), (129 * 512, 3));
    }

    #[test]
    fn a_sample_that_is_slower_than_memory_is_left_to_the_next() {
        let mut zeroed = Zeroed::default();
        for (ticks, timed) in [(34_769, 0), (34_768, 65_536)] {
            // What the kernel says of nothing is less.
            zero_timed(&mut zeroed, Whose::Ahead, 32 << 10, |_| ticks, || ());
            assert_eq!(zeroed.ahead_timed, timed);
        }
        assert!(zeroed.ahead_time < 2 * 34_768, "{zeroed:?}");
    }

    #[test]
    fn an_empty_piece_is_nothing() {
        let (mut zeroed, mut done) = (Zeroed::default(), false);
        zero(&mut zeroed, Whose::Mutators, 0, || done = true);
        assert!(done);
        assert_eq!(zeroed, Zeroed::default());
    }
}
