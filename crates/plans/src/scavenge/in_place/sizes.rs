//! After a collection: how much is allocated in place until the next one, and whether that is of everything.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_base::options::Generations;
use gleaner_base::sync::Ordering;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::mark_region::lines::LINE_BYTES;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use super::state::{Growth, InPlace};
use crate::scavenge::config::LARGE_BYTES;
use crate::scavenge::decide::alone;
use crate::scavenge::decide::in_place::{self, Measurements};
use crate::scavenge::decide::sliding;
use crate::scavenge::resize::Collection;
use crate::scavenge::state::NEVER;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

impl<F: SlotFormat> Scavenge<F> {
    /// Bytes that new objects may take now.
    fn left_in_place(&self) -> usize {
        self.old_space_room() + self.old.holes()
    }

    /// Bytes that new objects may take now, of which there may be `young`. Holes that are too small for what is asked for are no
    /// room for that, and none is for large objects, which take pages.
    fn left_for_what_is_asked(
        &self,
        state: &State,
        world: &mut WorldStopped<'_>,
        young: usize,
    ) -> usize {
        match (state.growth.asked, self.lines()) {
            (asked, _) if asked > LARGE_BYTES => self.old_space_room(),
            (asked, Some(lines)) if (LINE_BYTES + 1..=LARGE_BYTES).contains(&asked) => {
                let holes = lines.in_holes(world, &self.old.region, asked, young);
                self.old_space_room() + holes
            }
            _ => self.left_in_place(),
        }
    }

    /// What a collection of everything left to new objects, and what a sliding would, as [`sliding`] wants it.
    pub(in crate::scavenge) fn free_in_place(
        &self,
        state: &State,
        world: &mut WorldStopped<'_>,
        lines: &MarkRegion,
    ) -> sliding::Measurements {
        let (wanted, asked) = (state.lately.young, state.growth.asked);
        let left = self.left_for_what_is_asked(state, world, wanted);
        let has_room = match asked > LARGE_BYTES {
            true => left >= asked,
            false => asked == 0 || self.has_room_in_place(world, asked),
        };
        sliding::Measurements {
            left,
            by_sliding: lines.most().saturating_sub(state.last_full.old_lived),
            wanted,
            least: self.least_young_at(self.limit()),
            lacking: if has_room { 0 } else { asked },
        }
    }

    /// Whether new objects are collected by themselves until the next collection, where that is open.
    fn pays_alone(
        &self,
        memory: &mut alone::Memory,
        found: &Measurements,
        collection: &Collection,
    ) -> bool {
        let options = &self.config.options;
        let is_open = options.generations == Generations::Auto && options.stress == 0;
        let kept = found.filled.saturating_sub(found.filled_before);
        let lines_lived = self.lines().and_then(MarkRegion::take_new_lived);
        if !is_open || !options.resize {
            return true;
        }
        if !collection.for_room {
            return memory.is_alone();
        }
        alone::decide(
            memory,
            &alone::Measurements {
                was_full: found.was_full,
                took_ns: collection.now_ns - collection.stopped_ns,
                allocated: found.allocated,
                given_back: found.allocated.saturating_sub(kept),
                filled: found.filled,
                room: in_place::until_full(found),
                lines_lived,
            },
        )
    }

    /// Measures, decides, and does it. New objects lie in the old space just since this collection for the reason `place`, if there is one.
    pub(in crate::scavenge) fn decide_in_place(
        &self,
        (pieces, place): (&InPlace, Option<&'static str>),
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        collection: &Collection,
    ) {
        let limit = self.limit();
        self.old_limit.store(limit, Ordering::Relaxed);
        self.make_resident_room(&mut world.allocator(), 0);
        self.set_old_end(&mut world.allocator());
        let left = self.left_for_what_is_asked(state, world, state.lately.young);
        let lately = &mut state.lately;
        let filled = self.old_used() - self.old_holes();
        let mut found = Measurements {
            limit,
            was_full: collection.was_full,
            filled,
            filled_before: state.growth.filled,
            filled_at_full: state.last_full.filled,
            allocated: collection.allocated,
            left,
            young: lately.young,
            least_young: self.least_young_at(limit),
            adapts: self.config.options.resize && collection.for_room,
            scavenging: state.scavenging,
            alone: true,
            poor: state.growth.poor,
            survival: match state.evacuates {
                true => state.growth.survival,
                false => 1000,
            },
            workers: state.crew_sizes.workers,
            target: lately.old_target,
            young_share: lately.scavenge_share,
            full_share: lately.full_share,
        };
        found.alone = self.pays_alone(&mut state.alone, &found, collection);
        let decision = in_place::decide(&found);
        let lately = &mut state.lately;
        lately.young = decision.young;
        lately.old_target = decision.target;
        state.growth = Growth {
            filled,
            poor: decision.poor,
            survival: state.growth.survival,
            ..Growth::NEW
        };
        let most = decision.most.max(BLOCK_BYTES);
        pieces.begin(most);
        self.young_large_limit.store(most, Ordering::Relaxed);
        record.step(Phase::Resize, |event| {
            event.bytes = most as u64;
            event.reason = place.unwrap_or(decision.reason);
        });
        if collection.was_full {
            self.set_pinned_due(decision.target.saturating_sub(filled));
        }
        if state.wants_full.is_none() {
            state.wants_full = match state.scavenging {
                true => decision.full.then_some(decision.reason),
                false => Some(NEVER),
            };
        }
    }
}
