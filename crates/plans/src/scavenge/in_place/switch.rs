//! Under `nursery=auto`: whether new objects have a space of their own or lie in free lines of the old one changes behind a
//! collection, as [`decide::nursery`](crate::scavenge::decide::nursery) says.
//!
//! All that both need is there from the start, and both write the same: the barrier dirties the card of every slot that is
//! stored to, collections of everything mark and sweep by lines, and promotions note start bits. So nothing is converted.
//! Mutators see the change when they ask for their next piece, since they gave theirs up before the collection.
//!
//! # Invariants
//! - Where new objects lie changes behind a collection that left nothing young: eden and the survivor spaces are empty, and each
//!   object of the old space has its start bit and, when new ones begin to lie there, lines that are marked. No card is dirty then.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_base::options::{Generations, NurseryPolicy};
use gleaner_mem::slot::SlotFormat;
use gleaner_os::clock;
use gleaner_spaces::precise::mark_region::MarkRegion;

use super::state::InPlace;
use crate::scavenge::decide::generation_sizes::Decision;
use crate::scavenge::decide::nursery::{self, Measurements};
use crate::scavenge::resize::Collection;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

impl<F: SlotFormat> Scavenge<F> {
    /// Decides where new objects lie from now on, if that is decided, and does it. Why, if it changes.
    pub(in crate::scavenge) fn decide_nursery(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        collection: &Collection,
    ) -> Option<&'static str> {
        let pieces = self.decided_place()?;
        let found = self.measure_places(state, pieces, collection);
        let decision = nursery::decide(&mut state.nursery, &found);
        let lines = self.lines()?;
        let nothing_is_young = self.nursery.used() == 0 && self.large.young_used() == 0;
        if decision.in_place == found.in_place || !nothing_is_young || !state.evacuates {
            return None;
        }
        match decision.in_place {
            true => {
                self.begin_in_place(world, pieces, lines);
                self.begin_alone(state);
            }
            false => {
                pieces.set_used(world, false);
                // Where collections of new objects did not pay in place, scavenges are left out as well.
                state.scavenging &= state.alone.is_alone();
            }
        }
        state.elsewhere.change_places(&mut state.lately);
        Some(decision.reason)
    }

    /// What is allocated in the old space, if it is decided whether new objects lie there.
    fn decided_place(&self) -> Option<&InPlace> {
        let pieces = self.may_be_in_place.as_ref();
        pieces.filter(|_| self.config.options.nursery == NurseryPolicy::Auto)
    }

    /// When a collection begins: what the process has taken of processor time, if places are compared by that.
    pub(in crate::scavenge) fn cpu_ns_of_places(&self) -> u64 {
        self.decided_place().map_or(0, |_| clock::process_cpu_ns())
    }

    fn measure_places(
        &self,
        state: &mut State,
        pieces: &InPlace,
        collection: &Collection,
    ) -> Measurements {
        let (cpu_ns, limit) = (clock::process_cpu_ns(), self.limit());
        let before = core::mem::replace(&mut state.cpu_ns, cpu_ns);
        Measurements {
            in_place: pieces.is_used(),
            was_full: collection.was_full,
            allocated: collection.allocated,
            cpu_ns: cpu_ns.saturating_sub(before),
            collecting_ns: cpu_ns.saturating_sub(collection.stopped_cpu_ns),
            room: limit.saturating_sub(self.old_used()),
            young: state.lately.young,
            least_young: self.least_young_at(limit),
            left_out: !state.scavenging,
            always: self.config.options.stress > 0,
        }
    }

    /// Whether the next collection leaves nothing young if it can, since new objects are to lie in the old space then.
    pub(in crate::scavenge) fn is_to_empty(&self, state: &State) -> bool {
        let is_decided = self.decided_place().is_some() && state.nursery.goes_in_place();
        is_decided && self.in_place().is_none() && state.evacuates && !self.keeps_young()
    }

    /// New objects have a space of their own from now on, of the size of the first one: sizes do not change otherwise.
    pub(in crate::scavenge) fn give_first_sizes(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        reason: &'static str,
    ) {
        let decision = Decision {
            eden: self.first_eden,
            survivor: (self.first_young - self.first_eden) / 2,
            young: self.first_young,
            old_target: state.lately.old_target,
            reason,
        };
        record.step(Phase::Resize, |event| {
            self.apply(&mut state.lately, world, &decision, event);
        });
    }

    /// New objects are to lie in free lines: where scavenges were left out, since much of what is new lives, new objects are not
    /// collected by themselves at first. What scavenges cost says nothing else of new objects in place.
    fn begin_alone(&self, state: &mut State) {
        if self.config.options.generations == Generations::Auto {
            if !state.scavenging {
                state.alone.leave_out_at_first();
            }
            state.bring_scavenges_back();
        }
    }

    /// New objects lie in free lines from now on: eden and the survivor spaces have no bytes, and their memory goes back.
    fn begin_in_place(&self, world: &mut WorldStopped<'_>, pieces: &InPlace, lines: &MarkRegion) {
        let ends = self.nursery_ends();
        self.nursery.resize(world, 0, 0);
        self.release_above(world, &ends);
        lines.begin_new(world, &self.old.region);
        self.clean_all_cards(world);
        pieces.set_used(world, true);
    }
}
