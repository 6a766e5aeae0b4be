//! A look at many threads, which can stop at each and go on later.

use std::time::Instant;

use super::family::Census;
use super::tasks::Numbers;

/// A look at the threads of some processes.
#[derive(Debug)]
pub(super) struct Walk {
    /// Of one that reads all threads: its number, and when it began. Others read new ones alone.
    pub(super) whole: Option<(u64, Instant)>,
    /// Whether it finds out which processes there are, and reads how often threads were switched.
    pub(super) is_wide: bool,
    /// The census, which comes first.
    pub(super) census: Option<Census>,
    /// The processes that were not read yet, and what is left of the one that is being read.
    pub(super) processes: Vec<u32>,
    pub(super) threads: Option<(u32, Numbers)>,
}

impl Walk {
    /// Over the new threads of some processes.
    pub(super) fn of(processes: Vec<u32>) -> Walk {
        Walk {
            whole: None,
            is_wide: false,
            census: None,
            processes,
            threads: None,
        }
    }

    /// Over all threads of the processes that are known.
    pub(super) fn whole(number: u64, now: Instant, processes: Vec<u32>) -> Walk {
        Walk {
            whole: Some((number, now)),
            ..Walk::of(processes)
        }
    }

    /// Over all threads of all processes that a census finds.
    pub(super) fn wide(number: u64, now: Instant, census: Census) -> Walk {
        Walk {
            is_wide: true,
            census: Some(census),
            ..Walk::whole(number, now, Vec::new())
        }
    }
}
