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
        if process.as_ref().is_some_and(|process| process.heap() > 0) {
            return Err(Failure::refused(format_args!(
                "on {side} the program did not use libgc: the log of its run is of a heap of Gleaner's that is built into the \
                 program, and no other library takes its place. So there is nothing to compare. Name a program that uses \
                 libgc, or one that starts such a program (--any)"
            )));
        }
        match (side, process) {
            (Side::Gleaner { .. }, Some(process)) => Ok(Some(Pauses::of(&process))),
            (Side::Gleaner { .. }, None) => Err(Failure::refused(format_args!(
                "on {side} the program did not use libgc: the log of its run is empty, so neither it nor what it started \
                 allocated by libgc.so.1. So there is nothing to compare. Name a program that does, or other arguments with \
                 which this one does"
            ))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn gleaner() -> Side {
        Side::Gleaner {
            named: String::new(),
            list: String::new(),
        }
    }

    /// What is made of a log with this text.
    fn read(side: &Side, text: &str) -> Result<Option<Pauses>, String> {
        let mut log = Log::new().expect("a file in memory");
        log.0.write_all(text.as_bytes()).unwrap();
        log.read(side).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_program_that_did_not_use_libgc_is_refused_with_what_its_log_says() {
        let native = r#"{"event":"options","pid":7,"heap":1,"collection":0,"start_ns":0,"duration_ns":0}
{"event":"mark","pid":7,"heap":1,"collection":1,"start_ns":5,"duration_ns":7}
"#;
        for side in [Side::Stock, gleaner()] {
            let refusal = read(&side, native).unwrap_err();
            let expected = format!(
                "on {side} the program did not use libgc: the log of its run is of a heap of Gleaner's"
            );
            assert!(refusal.contains(&expected), "{refusal}");
            assert!(
                refusal.contains("Name a program that uses libgc"),
                "{refusal}"
            );
        }
        let refusal = read(&gleaner(), "").unwrap_err();
        assert!(refusal.contains("the log of its run is empty"), "{refusal}");
        // Some builds of stock libgc write no log.
        assert_eq!(read(&Side::Stock, ""), Ok(None));
        let libgc = native.replace(r#""heap":1,"#, "");
        assert_eq!(read(&gleaner(), &libgc).unwrap().unwrap().count, 1);
        assert!(
            read(&Side::Stock, &libgc)
                .unwrap_err()
                .contains("is Gleaner already")
        );
    }
}
