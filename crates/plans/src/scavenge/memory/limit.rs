//! The limit, which a program may change while it runs, up to the one that the heap was made with: that has the
//! addresses.
//!
//! A lower limit is taken behind a collection that slides what lives together, if that fits under it with a young
//! generation of the least size. Then memory beyond it goes back (I7). A higher one is taken at once. Either happens while
//! the world is stopped, so of several threads that change the limit each gets the answer to what it asked.

use core::fmt;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::options::Size;
use gleaner_base::sync::Ordering;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use crate::scavenge::allocate::Request;
use crate::scavenge::collect::Extent;
use crate::scavenge::config::{LEAST_LIMIT, REGION_GRANULE};
use crate::scavenge::mutator::Mutator;
use crate::scavenge::sizes;
use crate::scavenge::{Scavenge, State};

/// Why a limit was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitError {
    /// It is less than a heap can have, or more than the heap was made with.
    Range {
        /// What was asked for.
        asked: usize,
        /// The most.
        most: usize,
    },
    /// What lives does not fit under it.
    Lives {
        /// What was asked for.
        asked: usize,
        /// The least that would do now.
        least: usize,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Range { asked, most } => write!(
                out,
                "a limit of {asked} bytes: the heap was made for {} to {} (option heap-limit); make it with the largest \
                 limit that it is to have, and lower that",
                Size(LEAST_LIMIT),
                Size(*most)
            ),
            LimitError::Lives { asked, least } => write!(
                out,
                "a limit of {asked} bytes: what lives needs {least} after collecting everything; drop what is not needed, \
                 or choose a higher limit"
            ),
        }
    }
}

impl core::error::Error for LimitError {}

impl<F: SlotFormat> Scavenge<F> {
    /// The most bytes of all spaces together.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit, which is rounded down to whole granules. A mutator inside the gate calls it; a lower limit collects
    /// everything.
    pub fn set_limit(&self, mutator: &Mutator, asked: usize) -> Result<(), LimitError> {
        let most = self.config.limit;
        if asked < LEAST_LIMIT || asked > most {
            return Err(LimitError::Range { asked, most });
        }
        let limit = match asked {
            _ if asked == most => most,
            _ => asked / REGION_GRANULE * REGION_GRANULE,
        };
        if self.with_stopped_world(mutator, |_, world| self.raise_limit(world, limit)) {
            return Ok(());
        }
        let mut least = 0;
        self.collect_and(
            mutator,
            (Extent::Compact, "the program lowers the limit"),
            (None, Request::NOTHING),
            Some(&mut |state, world, _| least = self.lower_limit(state, world, limit)),
        );
        match least <= limit {
            true => Ok(()),
            false => Err(LimitError::Lives { asked, least }),
        }
    }

    /// Takes a limit that is no lower than the present one. Whether it is none.
    fn raise_limit(&self, world: &mut WorldStopped<'_>, limit: usize) -> bool {
        let is_no_lower = limit >= self.limit();
        if is_no_lower {
            self.limit.store(limit, Ordering::Relaxed);
            let old_limit = limit.saturating_sub(self.nursery.capacity());
            self.old_limit.store(old_limit, Ordering::Relaxed);
            self.set_old_end(&mut world.allocator());
        }
        is_no_lower
    }

    /// The least limit under which everything fits that is there now.
    fn least_limit(&self) -> usize {
        let young = if self.config.options.resize {
            self.nursery.used() + self.least_young_at(0)
        } else {
            self.nursery.capacity()
        };
        // Each space of the young generation ends with a block.
        self.old_used() + young + 3 * BLOCK_BYTES
    }

    /// The least young generation that makes sense under a limit.
    pub(in crate::scavenge) fn least_young_at(&self, limit: usize) -> usize {
        sizes::least_young(limit).min(self.least_young)
    }

    /// When everything was slid together, and before the generations get their sizes: takes a limit under which that fits.
    /// The least one.
    fn lower_limit(&self, state: &mut State, world: &mut WorldStopped<'_>, limit: usize) -> usize {
        let least = self.least_limit();
        if limit < least {
            return least;
        }
        self.limit.store(limit, Ordering::Relaxed);
        let lately = &mut state.lately;
        lately.young = lately.young.min(limit / 2).max(self.least_young_at(limit));
        if !self.config.options.resize {
            let old_limit = limit - self.nursery.capacity();
            self.old_limit.store(old_limit, Ordering::Relaxed);
            self.make_resident_room(&mut world.allocator(), 0);
        }
        least
    }
}
