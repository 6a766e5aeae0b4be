//! Whether others want the processors: how long threads of this machine that could run had to wait for one.
//!
//! Linux counts the time in which at least one runnable thread waited (pressure stall information), and, for a virtual
//! machine, the time in which the host ran others instead (steal). Any thread, any state of the world; nothing here
//! allocates.

use core::ffi::CStr;

use crate::procfs;

const PRESSURE: &CStr = c"/proc/pressure/cpu";
const STAT: &CStr = c"/proc/stat";

/// Nanoseconds since the machine started in which some thread waited for a processor, on this machine or for the host;
/// `None` where the system counts neither. It takes some microseconds to ask.
pub fn waited_ns() -> Option<u64> {
    let mut buffer = [0; 512];
    let pressure = procfs::read(PRESSURE, &mut buffer).and_then(pressure_ns);
    let stolen = procfs::read(STAT, &mut buffer).and_then(|text| stolen_ns(text, ticks_a_second()));
    match (pressure, stolen) {
        (None, None) => None,
        (pressure, stolen) => Some(pressure.unwrap_or(0) + stolen.unwrap_or(0)),
    }
}

/// Of `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, the total, which is in microseconds.
fn pressure_ns(text: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let total = line
        .split(|&byte| byte == b' ')
        .find_map(|word| procfs::labelled(word, b"total="))?;
    Some(total * 1000)
}

/// Of `cpu  user nice system idle iowait irq softirq steal`, the last, in ticks.
fn stolen_ns(text: &[u8], ticks_a_second: u64) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let mut words = line
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty());
    if words.next()? != b"cpu" {
        return None;
    }
    let ticks = procfs::number(words.nth(7)?)?;
    Some(ticks.saturating_mul(1_000_000_000 / ticks_a_second.max(1)))
}

fn ticks_a_second() -> u64 {
    // SAFETY: a plain question.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_lines_are_read() {
        let pressure = b"some avg10=21.89 avg60=27.92 avg300=25.24 total=6122142888\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure_ns(pressure), Some(6_122_142_888_000));
        assert_eq!(pressure_ns(b"some avg10=1.0\n"), None);
        let stat = b"cpu  1 2 3 4 5 6 7 914 9 10\ncpu0 1 2 3\n";
        assert_eq!(stolen_ns(stat, 100), Some(9_140_000_000));
        assert_eq!(stolen_ns(b"cpu  1 2 3\n", 100), None, "an old kernel");
        assert_eq!(stolen_ns(b"intr 1 2 3 4 5 6 7 8 9\n", 100), None);
    }

    #[test]
    fn more_threads_than_processors_wait() {
        let Some(before) = waited_ns() else {
            return;
        };
        let busy = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            for _ in 0..=crate::topology::Topology::host().processors {
                scope.spawn(|| {
                    while busy.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            while waited_ns().unwrap() == before {
                std::thread::yield_now();
            }
            busy.store(false, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
