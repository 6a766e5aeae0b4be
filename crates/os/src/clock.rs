//! Clocks, in nanoseconds.
//!
//! The monotonic clock reads a page shared with the kernel; the two processor clocks are system calls.

use crate::processor;

/// Nanoseconds of a clock that never goes back.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of processor time that the calling thread used.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of processor time that all threads of the process used.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Ticks of the processor's counter of time, which takes a few nanoseconds to read and runs at one pace on all processors.
#[inline(always)]
pub fn ticks() -> u64 {
    processor::ticks()
}

/// Ticks since an earlier reading; 0 where a processor's counter is behind.
#[inline(always)]
pub fn ticks_since(earlier: u64) -> u64 {
    ticks().saturating_sub(earlier)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the struct is filled. These three clocks exist on every kernel, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance_with_work() {
        let start = (monotonic_ns(), thread_cpu_ns(), process_cpu_ns());
        let mut rounds = 0u64;
        while thread_cpu_ns() == start.1 || process_cpu_ns() == start.2 {
            rounds = std::hint::black_box(rounds + 1);
        }
        assert!(monotonic_ns() >= start.0);
        assert!(thread_cpu_ns() > start.1);
        assert!(process_cpu_ns() > start.2);
    }

    #[test]
    fn a_new_thread_starts_its_own_processor_clock() {
        while thread_cpu_ns() < 5_000_000 {
            std::hint::black_box(0);
        }
        let mine = thread_cpu_ns();
        let its = std::thread::spawn(thread_cpu_ns).join().unwrap();
        assert!(its < mine + process_cpu_ns());
        assert!(its > 0);
    }
}
