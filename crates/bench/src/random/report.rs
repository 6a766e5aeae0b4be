//! What is counted of seeds, and the log of a run: one JSON object a line.
#![forbid(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use gleaner_workloads::failure::{Failure, Result};

/// What programs did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Counts {
    /// Seeds that ran to their end.
    pub programs: u64,
    /// Steps of all programs, exactly.
    pub operations: u64,
    /// Collections that ended.
    pub collections: u64,
    /// Allocations that found no memory.
    pub failed: u64,
    /// Fault points that fired.
    pub faults: u64,
}

impl Counts {
    /// Adds the counts of other seeds.
    pub fn add(&mut self, other: &Counts) {
        self.programs += other.programs;
        self.operations += other.operations;
        self.collections += other.collections;
        self.failed += other.failed;
        self.faults += other.faults;
    }

    /// What [`fmt::Display`] writes, after a seed.
    pub fn parse(line: &str) -> Option<(u64, Counts)> {
        let mut numbers = line.split(' ').map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let seed = next()?;
        let counts = Counts {
            programs: next()?,
            operations: next()?,
            collections: next()?,
            failed: next()?,
            faults: next()?,
        };
        numbers.next().is_none().then_some((seed, counts))
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            programs,
            operations,
            collections,
            failed,
            faults,
        } = self;
        write!(
            out,
            "{programs} {operations} {collections} {failed} {faults}"
        )
    }
}

/// A line of the log.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Line<'a> {
    /// The seeds from `from` up to and without `to` are behind us.
    Range {
        /// Which generator made programs of the seeds.
        generator: u32,
        /// The first seed.
        from: u64,
        /// The one after the last.
        to: u64,
        /// Of those that ran to their end.
        #[serde(flatten)]
        counts: &'a Counts,
    },
    /// A seed that found a fault.
    Failure {
        /// The seed.
        seed: u64,
        /// How its process ended.
        status: &'a str,
        /// What repeats it.
        command: &'a str,
    },
}

/// The log, to which lines are appended.
pub struct Log(File);

impl Log {
    /// Opens it, with the folders above it.
    pub fn open(path: &Path) -> Result<Log> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| Failure::at(folder, error))?;
        }
        let opened = File::options().append(true).create(true).open(path);
        opened.map(Log).map_err(|error| Failure::at(path, error))
    }

    /// Writes a line.
    pub fn write(&mut self, line: &Line<'_>) -> Result<()> {
        let text = serde_json::to_string(line).expect("numbers and strings");
        writeln!(self.0, "{text}").map_err(|error| Failure::new(format!("the log: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_child_is_read_as_it_was_written() {
        let counts = Counts {
            programs: 1,
            operations: 20_000,
            collections: 31,
            failed: 0,
            faults: 2,
        };
        assert_eq!(Counts::parse(&format!("17 {counts}")), Some((17, counts)));
        for bad in ["", "17", "17 1 2 3 4", "17 1 2 3 4 5 6", "17 1 2 3 4 x"] {
            assert_eq!(Counts::parse(bad), None, "{bad}");
        }
    }
}
