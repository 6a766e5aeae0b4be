//! The pauses of a side, from its own log of one run that is not timed: a log takes time, and stock libgc's takes more or less
//! than Gleaner's.
//!
//! The log is a file in memory that the program opens as a file of this process. So there is no file to be removed, and no disk
//! to be full.

use std::fs::File;
use std::io::{self, BufReader, Seek as _};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use gleaner_eventlog::{Process, StockLog, busiest};
use rustix::fs::{MemfdFlags, memfd_create};

use super::side::Side;
use crate::failure::Failure;

/// A log that is to be written.
pub(super) struct Log(File);

/// What a log says.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Pauses {
    /// Nanoseconds of the longest.
    pub(super) longest: u64,
    /// Nanoseconds of all.
    pub(super) all: u64,
    /// How many there were.
    pub(super) count: u64,
    /// Gleaner's advice for the next time.
    pub(super) advice: String,
}

impl Log {
    /// An empty one; nothing if this system has no such files, or does not name them.
    pub(super) fn new() -> Option<Log> {
        let file = memfd_create("gleaner-compare", MemfdFlags::CLOEXEC).ok()?;
        let log = Log(file.into());
        log.path().exists().then_some(log)
    }

    /// The name by which another process opens it.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.0.as_raw_fd()
        ))
    }

    /// What the side has written. Refuses a side that is another one than it is called.
    pub(super) fn read(mut self, side: &Side) -> Result<Option<Pauses>, Failure> {
        let unreadable =
            |error: io::Error| Failure::refused(format_args!("the log of {side}: {error}"));
        self.0.rewind().map_err(unreadable)?;
        let (process, _) = busiest(BufReader::new(&self.0)).map_err(unreadable)?;
        match (side, process) {
            (Side::Gleaner { .. }, Some(process)) => Ok(Some(Pauses::of(&process))),
            (Side::Gleaner { .. }, None) => Err(Failure::refused(
                "nothing that the program ran used libgc, so there is nothing to compare. Does it with other arguments?",
            )),
            (Side::Stock, Some(_)) => Err(Failure::refused(
                "what the program uses by itself is Gleaner already, as LD_PRELOAD or a replaced libgc.so.1 says. Compare with \
                 other options of Gleaner (--against OPTIONS), or put stock libgc back",
            )),
            (Side::Stock, None) => {
                self.0.rewind().map_err(unreadable)?;
                let log = StockLog::read(BufReader::new(&self.0)).map_err(unreadable)?;
                Ok(log.is_written.then(|| Pauses::from(log.pauses)))
            }
        }
    }
}

impl Pauses {
    fn of(process: &Process) -> Pauses {
        Pauses {
            advice: process.advice().trim().to_string(),
            ..Pauses::from(process.pauses())
        }
    }
}

impl From<Vec<u64>> for Pauses {
    fn from(pauses: Vec<u64>) -> Pauses {
        Pauses {
            longest: pauses.iter().copied().max().unwrap_or(0),
            all: pauses.iter().sum(),
            count: pauses.len() as u64,
            advice: String::new(),
        }
    }
}
