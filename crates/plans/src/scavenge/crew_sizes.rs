//! How many of the heap's workers take part in a collection: what [`crew_size`](crate::shared::crew_size) decides for
//! scavenges and for collections of everything, each from its own.
//!
//! All take part where `crew=all` says so, in segregated spaces, whose workers send each other what is theirs, and where
//! workers take turns, which is to be the same each time. Under `collecting`; workers read nothing of it.

use gleaner_base::options::Crew;

use super::config::Config;
use super::nodes::lockstep::Lockstep;
use crate::shared::crew_size::CrewSize;
use crate::shared::free_processors::FreeProcessors;

/// The numbers of workers of a heap.
#[derive(Debug)]
pub(super) struct CrewSizes {
    /// Of the collection that runs, and why.
    pub workers: usize,
    pub reason: &'static str,
    is_open: bool,
    /// The leader and its helpers.
    there: usize,
    /// Of the machine, as the thread that made the heap could use it: a mutator that is pinned says nothing of helpers.
    processors: usize,
    is_synthetic: bool,
    free: FreeProcessors,
    scavenge: CrewSize,
    full: CrewSize,
}

impl CrewSizes {
    pub fn new(config: &Config) -> CrewSizes {
        let takes_turns = Lockstep::of(&config.options).is_some();
        let is_open = config.options.crew == Crew::Auto
            && config.workers > 1
            && !config.is_segregated()
            && !takes_turns;
        CrewSizes {
            workers: config.workers,
            reason: "as configured",
            is_open,
            there: config.workers,
            processors: config.topology.processors,
            is_synthetic: config.topology.is_synthetic(),
            free: FreeProcessors::new(is_open && !config.topology.is_synthetic()),
            scavenge: CrewSize::new(),
            full: CrewSize::new(),
        }
    }

    /// Before the world stops: asks the system where that is due. `helpers` there are.
    #[inline(never)]
    pub fn look(&mut self, helpers: usize) {
        self.there = helpers + 1;
        if self.is_open && !self.is_synthetic {
            self.free.look();
        }
    }

    /// A collection begins, of everything or not.
    #[inline(never)]
    pub fn begin(&mut self, is_full: bool) {
        if self.is_open {
            let free = self.free.among(self.processors);
            let most = self.there.min(free);
            (self.workers, self.reason) = self.of(is_full).decide(0, usize::MAX, || most);
        }
    }

    /// It was completed, and has taken `took_ns` for `found` bytes that live.
    #[inline(never)]
    pub fn end(&mut self, is_full: bool, found: usize, took_ns: u64) {
        let workers = self.workers;
        self.of(is_full).note(workers, found, took_ns);
    }

    fn of(&mut self, is_full: bool) -> &mut CrewSize {
        match is_full {
            true => &mut self.full,
            false => &mut self.scavenge,
        }
    }
}
