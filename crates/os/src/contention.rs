//! Whether others want the processors: how long threads of this machine that could run had to wait for one.
//!
//! Linux counts the time in which at least one runnable thread waited (pressure stall information), for a virtual
//! machine the time in which the host ran others instead (steal), and that in which processors were idle. Nobody is asked
//! before [`watch_idle`] or [`watch_waiting`]. Any thread, any state of the world; nothing here allocates.

use core::ops::Range;

use crate::kept_file::KeptFile;
use crate::procfs;

static PRESSURE: KeptFile = KeptFile::new(c"/proc/pressure/cpu");
static STAT: KeptFile = KeptFile::new(c"/proc/stat");

/// Makes [`idle_ns`] known from now on: opens a file, which stays open.
pub fn watch_idle() {
    STAT.open();
}

/// Makes [`waited_ns`] known from now on: opens two files, which stay open.
pub fn watch_waiting() {
    PRESSURE.open();
    STAT.open();
}

/// Nanoseconds since the machine started in which some thread waited for a processor, on this machine or for the host;
/// `None` where the system counts neither. It takes some microseconds to ask.
pub fn waited_ns() -> Option<u64> {
    let mut buffer = [0; 512];
    let pressure = PRESSURE.read(&mut buffer).and_then(pressure_ns);
    let stolen = STAT
        .read(&mut buffer)
        .and_then(|text| spent_ns(text, STOLEN, ticks_a_second()));
    match (pressure, stolen) {
        (None, None) => None,
        (pressure, stolen) => Some(pressure.unwrap_or(0) + stolen.unwrap_or(0)),
    }
}

/// Nanoseconds since the machine started in which its processors had nothing to do, of all of them together; `None` where
/// the system does not say. Exact to some hundredths of a second.
pub fn idle_ns() -> Option<u64> {
    let mut buffer = [0; 512];
    STAT.read(&mut buffer)
        .and_then(|text| spent_ns(text, IDLE, ticks_a_second()))
}

/// Of `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, the total, which is in microseconds.
fn pressure_ns(text: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let total = line
        .split(|&byte| byte == b' ')
        .find_map(|word| procfs::labelled(word, b"total="))?;
    Some(total * 1000)
}

/// Columns of `cpu  user nice system idle iowait irq softirq steal`, which are in ticks.
const IDLE: Range<usize> = 3..5;
const STOLEN: Range<usize> = 7..8;

/// The sum of some columns.
fn spent_ns(text: &[u8], columns: Range<usize>, ticks_a_second: u64) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let mut words = line
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty());
    if words.next()? != b"cpu" {
        return None;
    }
    let mut ticks = 0;
    for column in 0..columns.end {
        let word = words.next()?;
        if column >= columns.start {
            ticks += procfs::number(word)?;
        }
    }
    Some(ticks.saturating_mul(1_000_000_000 / ticks_a_second.max(1)))
}

fn ticks_a_second() -> u64 {
    // SAFETY: a plain question.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_systems_lines_are_read() {
        let pressure = b"some avg10=21.89 avg60=27.92 avg300=25.24 total=6122142888\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure_ns(pressure), Some(6_122_142_888_000));
        assert_eq!(pressure_ns(b"some avg10=1.0\n"), None);
        let stat = b"cpu  1 2 3 4 5 6 7 914 9 10\ncpu0 1 2 3\n";
        assert_eq!(spent_ns(stat, STOLEN, 100), Some(9_140_000_000));
        assert_eq!(spent_ns(stat, IDLE, 100), Some(90_000_000), "4 and 5 ticks");
        assert_eq!(
            spent_ns(b"cpu  1 2 3\n", STOLEN, 100),
            None,
            "an old kernel"
        );
        assert_eq!(spent_ns(b"intr 1 2 3 4 5 6 7 8 9\n", STOLEN, 100), None);
    }

    #[test]
    fn more_threads_than_processors_wait() {
        watch_waiting();
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
