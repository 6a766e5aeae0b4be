//! `initnone`, `initfresh` and `initstale`: which array was written, and where the reading of the working set ended.

use super::random::{Random, chained};

const ARRAYS: u64 = 1 << 16;

pub fn arrays(name: &str, thread: u32, kilobytes: u32) -> u64 {
    let looked_at = (0..ARRAYS).step_by(7).fold(0, chained);
    let fresh = (0..8).map(|index| if name == "initfresh" { index } else { 0 });
    let stale = (0..8).map(|index| if name == "initstale" { index } else { 0 });
    let elements = fresh.chain(stale).fold(looked_at, chained);
    chained(elements, 16 * last_line(thread, 16 * kilobytes))
}

/// The line of the working set that is read beside the last array.
fn last_line(thread: u32, lines: u32) -> u64 {
    if lines == 0 {
        return 0;
    }
    let mut random = Random::new(13_000 + u64::from(thread));
    let mut next: Vec<u64> = (0..u64::from(lines)).collect();
    for line in (1..lines).rev() {
        next.swap(line as usize, random.below(line) as usize);
    }
    (0..ARRAYS).fold(0, |line, _| next[line as usize])
}
