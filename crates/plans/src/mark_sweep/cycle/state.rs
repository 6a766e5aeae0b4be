//! How far a cycle has come.

use crate::mark_sweep::decide::cycle::Progress;

/// How a cycle stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycle {
    pub(super) state: State,
    pub(super) progress: Progress,
    /// Stops in which marking was put off, the first among them.
    pub(super) stops: u32,
    /// Whether it adds to marks that were kept.
    pub(super) of_new: bool,
    /// What had been handed out when it began, and in its last stop.
    pub(super) handed_first: usize,
    /// See `handed_first`.
    pub(super) handed_before: usize,
    /// The heap's capacity when it began, to which it returns.
    pub(super) capacity: usize,
    /// How many workers take part, and why: as the collection that began was given.
    pub(super) workers: (usize, &'static str),
    /// Bytes that all of it was expected to scan, and that were scanned before the last stop ended.
    pub(super) whole: usize,
    /// See `whole`.
    pub(super) scanned: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    #[default]
    None,
    Marking,
    /// Everything is marked but what the next stop finds.
    Marked,
}

/// What a cycle had come to when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// There was none.
    None,
    /// Its marks hold.
    Marked,
    /// Its marks hold, and what is grey is left to be scanned.
    Early,
}

impl Cycle {
    /// None is under way.
    pub const fn new() -> Cycle {
        Cycle {
            state: State::None,
            progress: Progress {
                expected: 0,
                scanned: 0,
                allowance: 0,
                most: 0,
                allocated: 0,
                in_all: 0,
            },
            stops: 0,
            of_new: false,
            handed_first: 0,
            handed_before: 0,
            capacity: 0,
            workers: (1, ""),
            whole: 0,
            scanned: 0,
        }
    }

    /// Whether marking is under way.
    pub fn is_under_way(&self) -> bool {
        self.state != State::None
    }

    /// Whether nothing is left but another stop.
    pub fn can_end(&self) -> bool {
        self.state == State::Marked
    }

    /// Whether it adds to marks that were kept.
    pub fn is_of_new(&self) -> bool {
        self.of_new
    }

    /// Bytes that its stops and steps have scanned.
    pub(crate) fn scanned(&self) -> usize {
        self.scanned + self.progress.scanned
    }

    /// The capacity of a heap that has grown to `now` bytes while this was under way, of which it uses `used`.
    pub(crate) fn capacity_after(&self, now: usize, used: usize) -> usize {
        match self.state {
            State::None => now,
            State::Marking | State::Marked => self.capacity.max(used).min(now),
        }
    }

    /// What it has come to.
    pub(crate) fn ended(&self) -> Ended {
        match self.state {
            State::None => Ended::None,
            State::Marking => Ended::Early,
            State::Marked => Ended::Marked,
        }
    }
}

/// Nanoseconds of a step under `stress=N`, where steps are to be many.
pub(super) const STRESS_STEP_NS: u64 = 20_000;
