//! Whether what a collection by lines left free is of use, or everything is slid together
//! ([`sliding`](crate::scavenge::decide::sliding)): what that is decided on.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::options::{Generations, OldPolicy};
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::mark_region::MarkRegion;

use crate::scavenge::decide::generation_sizes;
use crate::scavenge::decide::sliding::{self, Measurements};
use crate::scavenge::{Scavenge, State};

impl<F: SlotFormat> Scavenge<F> {
    /// Whether a collection by lines may end in a sliding: not while objects are kept, nor in a forked child, whose pages
    /// are shared.
    fn may_slide(&self, state: &State) -> bool {
        state.evacuates && !self.pins.keeps()
    }

    /// Whether a collection of everything for lack of room slides at once: since others had to after all, or since scavenges
    /// do not pay.
    pub(in crate::scavenge) fn slides_at_once(&self, state: &State) -> bool {
        let by_lines = state.old == OldPolicy::MarkRegion && self.may_slide(state);
        by_lines && (state.slidings.slides_at_once() || self.slides_each_time(state))
    }

    /// Whether everything may be slid together in each collection, if scavenges do not pay: the young generation can take all
    /// that nothing lives in then, which promotions into free blocks would need a part of.
    pub(in crate::scavenge) fn can_slide_each_time(&self, state: &State) -> bool {
        let by_lines = state.old == OldPolicy::MarkRegion && state.evacuates;
        by_lines || super::policy::<F>(state.old).slides()
    }

    /// Whether collections of everything slide now.
    pub(in crate::scavenge) fn slides_each_time(&self, state: &State) -> bool {
        let by_itself = self.config.options.generations == Generations::Auto && !state.scavenging;
        super::policy::<F>(state.old).slides() || by_itself && self.can_slide_each_time(state)
    }

    /// Whether everything is to be slid together, behind a collection of everything that left what lives in its place and
    /// promoted all that was young: after a scavenge that found no room, if it `gave_up`.
    pub(super) fn is_fragmented(
        &self,
        state: &State,
        world: &mut WorldStopped<'_>,
        lines: &MarkRegion,
        gave_up: bool,
    ) -> bool {
        if !self.may_slide(state) {
            return false;
        }
        self.set_old_end(&mut world.allocator());
        if self.in_place().is_some() {
            return sliding::slides(&self.free_in_place(state, world, lines));
        }
        let resize = self.config.options.resize;
        sliding::slides(&self.free_to_promotions(state, lines, gave_up))
            || resize && sliding::slides(&self.free_to_generations(state))
    }

    /// The young generation takes what the old one leaves, and has no use for holes.
    fn free_to_generations(&self, state: &State) -> Measurements {
        let (limit, used) = (self.limit(), self.old_used());
        let slid = used - self.old_space_used() + state.last_full.old_lived;
        let left = |used: usize, filled: usize| {
            let promoted = state.lately.promoted;
            generation_sizes::left_by(limit, (used, filled), promoted, state.growth.needed)
        };
        Measurements {
            left: left(used, used - self.old_holes()),
            by_sliding: left(slid, slid - self.pinned.holes()),
            wanted: state.lately.young.max(self.first_young.min(limit / 3)),
            least: self.least_young_at(limit),
            lacking: 0,
        }
    }

    /// Scavenges promote into free blocks and holes; but if one found no room, holes are too small.
    fn free_to_promotions(&self, state: &State, lines: &MarkRegion, gave_up: bool) -> Measurements {
        let holes = if gave_up { 0 } else { self.old.holes() };
        Measurements {
            left: self.old_space_room() + holes,
            by_sliding: lines.most().saturating_sub(state.last_full.old_lived),
            wanted: state.lately.promoted,
            least: self.least_young_at(self.limit()),
            lacking: 0,
        }
    }
}
