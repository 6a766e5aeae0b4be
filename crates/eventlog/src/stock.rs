//! Reads what stock libgc says about a run when `GC_PRINT_STATS` is set: one group of lines a collection.
//!
//! Two lines are read. One begins with `GC #`: a collection has freed something. The other is `Complete collection took
//! M ms N ns`: its whole time, all of it with the world stopped, as sweeping is lazy. The text has no process identifier;
//! children that log to the same file are counted with it. It says only what was allocated before the last collection,
//! and so nothing of what a program allocated in all.

use std::io::{self, BufRead};

/// What stock libgc said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StockLog {
    /// There was a line.
    pub is_written: bool,
    /// Collections that freed something.
    pub count: u64,
    /// Each stop, in nanoseconds.
    pub pauses: Vec<u64>,
}

impl StockLog {
    /// Reads all of it.
    pub fn read(input: impl BufRead) -> io::Result<StockLog> {
        let mut found = StockLog::default();
        for line in input.split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            found.is_written = true;
            found.count += u64::from(line.starts_with("GC #"));
            let took = line
                .strip_prefix("Complete collection took ")
                .and_then(nanoseconds);
            found.pauses.extend(took);
        }
        Ok(found)
    }
}

/// "12 ms 345 ns" in nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let milliseconds: u64 = words.next()?.parse().ok()?;
    if words.next()? != "ms" {
        return None;
    }
    let rest: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Some(milliseconds.saturating_mul(1_000_000).saturating_add(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_and_pauses_are_found() {
        let log = "Grow heap to 64 KiB\nGC #1 freed 0 bytes\nComplete collection took 2 ms 500000 ns\n\
                   GC #2 freed 9 bytes\nComplete collection took 0 ms 47451 ns\n";
        let read = StockLog::read(log.as_bytes()).unwrap();
        assert_eq!(read.count, 2);
        assert_eq!(read.pauses, [2_500_000, 47_451]);
        assert!(read.is_written);
        assert_eq!(
            StockLog::read(&b""[..]).unwrap(),
            StockLog::default(),
            "nothing was said"
        );
    }
}
