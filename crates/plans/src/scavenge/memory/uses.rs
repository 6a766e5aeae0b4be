//! What a heap remembers of the use of its memory.

use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_spaces::precise::regions::MOST_REGIONS;

use crate::scavenge::decide::unused::Unused;

/// What a heap remembers of the use of its memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::scavenge) struct Uses {
    pub(in crate::scavenge) old: Unused,
    /// Of the old space, blocks that are not vacant.
    pub(in crate::scavenge) blocks: Unused,
    pub(in crate::scavenge) large: Unused,
    pub(in crate::scavenge) arraylets: Unused,
    pub(in crate::scavenge) nursery: [Unused; MOST_REGIONS],
    /// The most that large objects and arraylets took since everything was collected when a collection began.
    pub(in crate::scavenge) most_large: [usize; 2],
    /// The most bytes of blocks of the old space that were not vacant when everything was about to be marked, by lines.
    pub(in crate::scavenge) most_blocks: usize,
    /// The most that each region of the nursery took when a collection began.
    pub(in crate::scavenge) most_young: [usize; MOST_REGIONS],
}

impl Uses {
    /// Nothing was used.
    pub(in crate::scavenge) const NONE: Uses = Uses {
        old: Unused::NONE,
        blocks: Unused::NONE,
        large: Unused::NONE,
        arraylets: Unused::NONE,
        nursery: [Unused::NONE; MOST_REGIONS],
        most_large: [0; 2],
        most_blocks: 0,
        most_young: [0; MOST_REGIONS],
    };
}

/// How many bytes of each region of the nursery hold memory, from its start, as far as collections have seen it in use.
/// Written in stopped worlds.
#[derive(Debug)]
pub(in crate::scavenge) struct Touched(pub(in crate::scavenge) [AtomicUsize; MOST_REGIONS]);

impl Touched {
    pub(in crate::scavenge) fn new() -> Touched {
        Touched(core::array::from_fn(|_| AtomicUsize::new(0)))
    }

    /// What lay above as many bytes of a region was given back.
    pub(in crate::scavenge) fn note_released(&self, index: usize, bytes: usize) {
        self.0[index].fetch_min(bytes, Ordering::Relaxed);
    }
}
