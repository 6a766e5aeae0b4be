//! What a heap remembers of idle times.

use gleaner_base::events::{Event, Phase};
use gleaner_os::pressure::Pressure;

use crate::mark_sweep::decide::idle::{Fading, Strain, Unlowered};
use crate::mark_sweep::decide::idle_collection::Collecting;

/// See the module.
pub struct Idle {
    /// What sees from the program's calls that they become rare, if the options ask for that.
    pub(super) fading: Option<Fading>,
    /// Bytes that had been handed out in sum at the last call, modulo the width of a word.
    pub(super) entered: usize,
    /// What went back and is still in the capacity.
    pub(super) unlowered: Unlowered,
    /// What has gone back in the idle time that is in progress.
    pub(super) given: Event,
    /// Of it, bytes of free blocks and runs.
    pub(super) free_bytes: usize,
    /// What tells that memory is short.
    pub(super) pressure: Pressure,
    /// See `pressure`.
    pub(super) strain: Strain,
    /// What is known of collections in idle time.
    pub(super) collecting: Collecting,
    /// Whether a collection has stopped another thread than the collecting one by a signal.
    pub(super) has_stopped_others: bool,
}

impl Idle {
    /// Of a heap in which a program is idle that has not allocated for `after_ns` nanoseconds, or in which nobody asks.
    pub fn new(after_ns: Option<u64>) -> Idle {
        Idle {
            fading: after_ns.map(Fading::new),
            entered: 0,
            unlowered: Unlowered::NONE,
            given: Event::new(Phase::GiveBack, 0),
            free_bytes: 0,
            pressure: Pressure::NONE,
            strain: Strain::NONE,
            collecting: Collecting::new(),
            has_stopped_others: false,
        }
    }

    /// In a forked child: what its parent gives back is the parent's.
    pub(crate) fn begin_in_child(&mut self) {
        self.given = Event::new(Phase::GiveBack, 0);
        self.free_bytes = 0;
    }
}
