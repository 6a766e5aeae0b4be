//! How far a cycle has come.

use gleaner_base::events::{Event, Phase};
use gleaner_os::clock;
use gleaner_spaces::mark_sweep::block::BlockIndex;

use crate::mark_sweep::decide::beside::Choice;
use crate::mark_sweep::decide::cycle::{Progress, PuttingOff};
use crate::mark_sweep::decide::helper::Helper;
use crate::mark_sweep::decide::pacer::{Pacer, Taken};

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
    /// Bytes that were to be allocated until its end when it began.
    pub(super) allowance: usize,
    /// Bytes that its steps have scanned, and in how many nanoseconds.
    pub(super) stepped: (usize, u64),
    /// How many steps these were.
    pub(super) steps: u64,
    /// When it began, by the monotonic clock.
    pub(super) began_ns: u64,
    /// Bytes that a helper has scanned beside the program.
    pub(super) helped: usize,
    /// How far was asked what was written since it marked everything.
    pub(super) ahead: Ahead,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    #[default]
    None,
    Marking,
    /// Everything is marked but what the next stop finds.
    Marked,
}

/// How far the kernel was asked ahead of the next stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Ahead {
    #[default]
    NotBegun,
    /// The first block of the next piece.
    At(BlockIndex),
    Done,
}

impl Ahead {
    /// Whether a piece is to be asked about.
    pub(super) fn is_asking(self) -> bool {
        matches!(self, Ahead::At(_))
    }
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
                helped: false,
                waits: false,
                allowance: 0,
                room: 0,
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
            allowance: 0,
            stepped: (0, 0),
            steps: 0,
            began_ns: 0,
            helped: 0,
            ahead: Ahead::NotBegun,
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

    /// Bytes that its steps and a helper have scanned.
    pub(super) fn scanned_beside(&self) -> usize {
        self.stepped.0 + self.helped
    }

    /// The capacity of a heap that has grown to `now` bytes while this was under way, of which it uses `used`.
    pub(crate) fn capacity_after(&self, now: usize, used: usize) -> usize {
        match self.state {
            State::None => now,
            State::Marking | State::Marked => self.capacity.max(used).min(now),
        }
    }

    /// What it has taken, of which `handed` bytes had been handed out at its end.
    pub(crate) fn taken(&self, handed: usize) -> Taken {
        Taken {
            allowance: self.allowance,
            allocated: handed.saturating_sub(self.handed_first),
            scanned: self.stepped.0,
            took_ns: self.stepped.1,
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

/// When a cycle begins.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// What decides it.
    pub pacer: Pacer,
    /// Whether it helps to put last stops off.
    pub(super) putting_off: PuttingOff,
    /// It is to be decided again when this many bytes have been handed out since the last collection.
    pub(crate) look_at: usize,
    /// Nanoseconds of the processor's time that the process had used when the last collection ended; 0 before there was one.
    pub(super) ended_cpu_ns: u64,
    /// How far was asked what was written, before a cycle begins.
    pub(super) ahead: Ahead,
}

impl Pacing {
    /// Nothing is known yet.
    pub const fn new() -> Pacing {
        Pacing {
            pacer: Pacer::new(),
            putting_off: PuttingOff::new(),
            look_at: 0,
            ended_cpu_ns: 0,
            ahead: Ahead::NotBegun,
        }
    }

    /// A collection has ended when the process had used `cpu_ns` nanoseconds of the processor's time.
    pub(crate) fn note_collection(&mut self, cpu_ns: u64) {
        self.pacer.note_collection();
        self.ended_cpu_ns = cpu_ns;
        self.look_at = 0;
        self.ahead = Ahead::NotBegun;
    }

    /// This process was forked, and its processor's time begins at 0.
    pub(crate) fn begin_in_child(&mut self) {
        self.ended_cpu_ns = 0;
    }
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing::new()
    }
}

/// What is known of the helper.
pub struct Helped {
    /// What decides whether it marks.
    pub(super) helper: Helper,
    /// Whether there is one.
    pub(super) is_there: bool,
    /// What it has marked since the last stop.
    pub(super) marked: Event,
    /// Nanoseconds of the processor's time that its thread had used when its last turn ended.
    pub(super) cpu_ns: u64,
    /// Whether its last turn ended before it had well begun.
    pub(super) was_disturbed: bool,
}

impl Helped {
    /// By nobody yet.
    pub const fn new() -> Helped {
        Helped {
            helper: Helper::new(),
            is_there: false,
            marked: Event::new(Phase::MarkBeside, 0),
            cpu_ns: 0,
            was_disturbed: false,
        }
    }

    /// Whether it would mark now if a processor is idle.
    pub(super) fn is_expected(&self) -> bool {
        let stays_away = || self.helper.stays_away(clock::monotonic_ns());
        self.is_there && stays_away().is_none()
    }
}

impl Default for Helped {
    fn default() -> Helped {
        Helped::new()
    }
}

/// Under `generations=auto`: what is known of cycles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto {
    /// What decides whether there are any.
    pub(super) choice: Choice,
    /// Nanoseconds of all turns of the helper, and how many these were, when a collection was weighed last.
    pub(super) turned: (u64, u64),
    /// Bytes that steps and the helper marked in the last cycle that has ended, until that is weighed.
    pub(super) marked: (usize, usize),
    /// Whether memory was used up before that had marked everything, until it is weighed.
    pub(super) was_overtaken: bool,
    /// Pages that its last stop found written.
    pub(crate) written: usize,
}

impl Auto {
    /// This process was forked, and counts turns from 0.
    pub(crate) fn begin_in_child(&mut self) {
        self.turned = (0, 0);
    }
}

/// Nanoseconds of a step under `stress=N`, where steps are to be many.
pub(super) const STRESS_STEP_NS: u64 = 20_000;
