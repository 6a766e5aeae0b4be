//! Counters of the processor for one thread: cycles, and misses of the last cache.
//!
//! They count in user mode alone, which the kernel lets everybody do with threads of their own unless
//! `perf_event_paranoid` is above 2. Many virtual machines have none; then the kernel says so when one is opened. Where it
//! has fewer than are asked for it gives them in turns and says for how long each has counted, and the number is what it
//! would have been. Not in a signal handler.

use crate::syscall::call;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Cycles in which the thread ran.
    Cycles,
    /// Accesses to memory that no cache had, as far as the processor tells.
    CacheMisses,
    /// Times that the kernel gave the processor to another thread: counted by the kernel, so also without hardware.
    Switches,
}

impl Event {
    /// The kernel's type and number.
    fn numbers(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        match self {
            Event::Cycles => (HARDWARE, 0),
            Event::CacheMisses => (HARDWARE, 3),
            Event::Switches => (SOFTWARE, 3),
        }
    }
}

/// The first version of the kernel's `perf_event_attr`, which all kernels take.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    config1: u64,
}

/// Read with the count: for how long it was wanted, and for how long it counted.
const TIMES: u64 = 1 | 2;
/// Bits of `flags`.
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// The descriptor is not for programs that this one starts.
const CLOSE_ON_EXEC: usize = 8;

/// A counter of one thread.
#[derive(Debug)]
pub struct Counter {
    descriptor: usize,
}

impl Counter {
    /// Counts from now on for a thread, by the kernel's number; 0 is the calling one. The error is the kernel's number:
    /// ENOENT where there is no such counter, EACCES or EPERM where it is refused, ESRCH where there is no such thread.
    pub fn open(thread: u32, event: Event) -> Result<Counter, i32> {
        let (kind, config) = event.numbers();
        let is_hardware = kind == 0;
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            read_format: TIMES,
            // The kernel switches, and nobody else.
            flags: if is_hardware {
                EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
            } else {
                0
            },
            ..Attributes::default()
        };
        let any_processor = -1isize as usize;
        let no_group = any_processor;
        let pointer = &raw const attributes as usize;
        let arguments = [
            pointer,
            thread as usize,
            any_processor,
            no_group,
            CLOSE_ON_EXEC,
            0,
        ];
        // SAFETY: the kernel reads as many bytes of the attributes as their size says, which live until it returns.
        let opened = unsafe { call(libc::SYS_perf_event_open, arguments) };
        opened
            .map(|descriptor| Counter { descriptor })
            .map_err(|errno| errno.0)
    }

    /// How many there were since it was opened; `None` when it has not counted yet. Also of a thread that has ended.
    pub fn read(&self) -> Option<u64> {
        let mut words = [0u64; 3];
        let arguments = [
            self.descriptor,
            &raw mut words as usize,
            size_of_val(&words),
            0,
            0,
            0,
        ];
        // SAFETY: the kernel writes at most as many bytes as the words have.
        let count = unsafe { call(libc::SYS_read, arguments) };
        (count == Ok(size_of_val(&words)))
            .then(|| scaled(words))
            .flatten()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this counter's alone, and nobody uses it any more.
        let _ = unsafe { call(libc::SYS_close, [self.descriptor, 0, 0, 0, 0, 0]) };
    }
}

/// The count of all the time in which it was wanted, from that of the part in which it counted.
fn scaled([count, wanted, counted]: [u64; 3]) -> Option<u64> {
    match counted {
        0 => None,
        _ => Some((u128::from(count) * u128::from(wanted) / u128::from(counted)) as u64),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counters_that_took_turns_are_scaled() {
        assert_eq!(scaled([100, 8, 8]), Some(100));
        assert_eq!(scaled([100, 8, 2]), Some(400));
        assert_eq!(scaled([0, 8, 0]), None);
        assert_eq!(
            scaled([u64::MAX / 4, 1 << 40, 1 << 39]),
            Some(u64::MAX / 4 * 2)
        );
    }

    #[test]
    fn what_the_kernel_counts_itself_is_read() {
        let counter = match Counter::open(0, Event::Switches) {
            Ok(counter) => counter,
            Err(errno) => {
                // Some containers filter the call.
                assert!([libc::EACCES, libc::EPERM, libc::ENOSYS].contains(&errno));
                println!("skipped: the kernel lets nobody count ({errno})");
                return;
            }
        };
        let before = counter.read().unwrap_or(0);
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let switches = counter.read().unwrap() - before;
        assert!(switches >= 20, "{switches}");
        // A thread that is none.
        let none = Counter::open(u32::MAX >> 2, Event::Switches);
        assert_eq!(none.err(), Some(libc::ESRCH));
    }

    #[test]
    fn cycles_are_counted_or_refused_by_name() {
        match Counter::open(0, Event::Cycles) {
            Ok(counter) => {
                let before = counter.read().unwrap_or(0);
                (0..100_000).for_each(|it| {
                    std::hint::black_box(it);
                });
                assert!(counter.read().unwrap() - before > 50_000);
            }
            Err(errno) => {
                let known = [
                    libc::ENOENT,
                    libc::EOPNOTSUPP,
                    libc::EACCES,
                    libc::EPERM,
                    libc::ENOSYS,
                    libc::ENODEV,
                ];
                assert!(known.contains(&errno), "{errno}");
            }
        }
    }
}
