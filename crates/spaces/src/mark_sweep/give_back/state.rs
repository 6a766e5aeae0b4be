//! How far unused memory went back.

use crate::mark_sweep::block::BlockIndex;
use crate::mark_sweep::large_runs::Progress;

/// What goes back next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// What the system was asked for ahead.
    Ahead,
    /// Free blocks of the small part.
    Blocks,
    /// Free runs of the large part.
    Runs,
    /// Marks of free blocks.
    Marks,
    /// Pages between survivors.
    Pages,
}

impl Part {
    /// The part after it, if there is one.
    pub(super) fn next(self) -> Option<Part> {
        match self {
            Part::Ahead => Some(Part::Blocks),
            Part::Blocks => Some(Part::Runs),
            Part::Runs => Some(Part::Marks),
            Part::Marks => Some(Part::Pages),
            Part::Pages => None,
        }
    }
}

/// Where the next piece begins.
pub(crate) struct GivingBack {
    pub(super) part: Part,
    /// The block at which a part goes on that looks at all of them.
    pub(super) at: BlockIndex,
    /// Where the large part goes on.
    pub(super) runs: Progress,
    /// Whether blocks went back whose marks are to follow.
    pub(super) some_blocks: bool,
    /// Whether the pages between survivors went back since the last collection.
    pub(super) pages_are_back: bool,
}

impl GivingBack {
    /// At the beginning.
    pub(crate) const fn new() -> GivingBack {
        GivingBack {
            part: Part::Ahead,
            at: 0,
            runs: Progress::START,
            some_blocks: false,
            pages_are_back: false,
        }
    }

    /// A part is done; whether that was the last, and the next piece begins anew.
    pub(super) fn go_on(&mut self) -> bool {
        self.at = 0;
        match self.part.next() {
            Some(next) => {
                self.part = next;
                false
            }
            None => {
                self.part = Part::Ahead;
                true
            }
        }
    }

    /// A collection has decided anew which pages have survivors.
    pub(crate) fn note_collection(&mut self) {
        self.pages_are_back = false;
    }
}
