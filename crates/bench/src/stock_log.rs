//! What the installed libgc says about a run when GC_PRINT_STATS is set: one group of lines a collection.
//!
//! Two lines are read. One begins with `GC #`: a collection has freed something. The other is `Complete collection took
//! M ms N ns`: its whole time, all of it with the world stopped, as sweeping is lazy. The text has no process identifier;
//! children that log to the same file are counted with it. It says only what was allocated before the last collection,
//! and so nothing of what a program allocated in all.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::collections::Collections;
use gleaner_workloads::failure::{Failure, Result};

/// Reads a log; a missing file means that nothing was collected.
pub fn read(path: &Path) -> Result<Collections> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Collections::default());
        }
        Err(error) => return Err(Failure::at(path, error)),
    };
    let mut found = Collections::default();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| Failure::at(path, error))?;
        let line = String::from_utf8_lossy(&line);
        found.logged = true;
        if line.starts_with("GC #") {
            found.count += 1;
        }
        if let Some(seconds) = line
            .strip_prefix("Complete collection took ")
            .and_then(seconds)
        {
            found.longest_pause = found.longest_pause.max(seconds);
            found.total_pause += seconds;
            found.pauses.push(seconds);
        }
    }
    Ok(found)
}

/// "12 ms 345 ns" as seconds.
fn seconds(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let milliseconds: f64 = words.next()?.parse().ok()?;
    if words.next()? != "ms" {
        return None;
    }
    let nanoseconds: f64 = words
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0);
    Some(milliseconds * 1e-3 + nanoseconds * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_and_pauses_are_found() {
        let path = std::env::temp_dir().join(format!("gleaner-stock-{}", std::process::id()));
        let log = "Grow heap to 64 KiB\n--> Marking for collection #1 after 70 allocated bytes\n\
                   --> Marking for collection #2 after 9 allocated bytes\nGC #1 freed 0 bytes\nComplete collection took 2 ms 500000 ns\n\
                   GC #2 freed 9 bytes\nComplete collection took 0 ms 47451 ns\n";
        std::fs::write(&path, log).unwrap();
        let read = read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!((read.count, read.allocated_bytes), (2, None));
        assert!((read.longest_pause - 0.0025).abs() < 1e-12);
        assert!((read.total_pause - 0.002547451).abs() < 1e-12);
    }
}
