//! What the installed libgc said about a run, as collections.

use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;

use gleaner_eventlog::StockLog;

use crate::collections::Collections;
use gleaner_workloads::failure::{Failure, Result};

/// Reads a log; a missing file means that nothing was collected.
pub fn read(path: &Path) -> Result<Collections> {
    let log = match File::open(path) {
        Ok(file) => StockLog::read(BufReader::new(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(StockLog::default()),
        Err(error) => Err(error),
    };
    let log = log.map_err(|error| Failure::at(path, error))?;
    let pauses: Vec<f64> = log.pauses.iter().map(|&ns| ns as f64 * 1e-9).collect();
    Ok(Collections {
        logged: log.is_written,
        count: log.count,
        longest_pause: pauses.iter().copied().fold(0.0, f64::max),
        total_pause: pauses.iter().sum(),
        pauses,
        ..Collections::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_in_seconds() {
        let path = std::env::temp_dir().join(format!("gleaner-stock-{}", std::process::id()));
        let log = "GC #1 freed 0 bytes\nComplete collection took 2 ms 500000 ns\n\
                   GC #2 freed 9 bytes\nComplete collection took 0 ms 47451 ns\n";
        std::fs::write(&path, log).unwrap();
        let found = read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!((found.logged, found.count), (true, 2));
        assert_eq!(found.allocated_bytes, None);
        assert!((found.longest_pause - 0.0025).abs() < 1e-12);
        assert!((found.total_pause - 0.002547451).abs() < 1e-12);
        assert!(!read(Path::new("/no/such/log")).unwrap().logged);
    }
}
