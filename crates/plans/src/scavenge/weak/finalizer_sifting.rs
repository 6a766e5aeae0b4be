//! What a collection does with the [table of finalizers](super::finalizer_table), in four steps:
//!
//! 1. workers *decide*, a segment each: of each finalizer that waits whether its object lives;
//! 2. the leader *plans* where the finalizers of segments go from which some leave: those that wait on are put together
//!    in their order, behind what stays in front of them; those whose objects are dead go to the queues of their orders;
//! 3. workers *move* them, a segment each, and revive what comes to life again;
//! 4. the leader *ends* it: what was moved away leaves free segments, and the next scavenge begins where the first young
//!    one stands.
//!
//! The plan takes a few steps for each segment, so what it does for many finalizers is little. Each has a place of its own
//! to go to, which follows from the numbers of those in front of it, so the order is that in which they were made, whichever
//! worker comes first. No worker waits for another, and none takes what another could take: tasks are handed out by the
//! engine.
//!
//! # Invariants
//! - The leader runs steps 2 and 4 between phases; in a phase a segment is decided about, or moved away, by one worker.
//! - A segment to which finalizers are moved is none from which some are. Workers write to different entries of it, and
//!   set flags of it that stay set.

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::slot::Value;

use super::finalizer_segments::{KEPT, NONE, SEGMENT_ENTRIES, Segment};
use super::finalizer_table::{FinalizerTable, State};
use super::finalizers::{Condition, ORDERS};

/// How many entries ahead of the one that is looked at objects are fetched into the cache.
const AHEAD: u32 = 16;
/// A segment from which none leave is added to the one in front if no more wait in it than this.
const FEW: u32 = SEGMENT_ENTRIES / 2;

/// What a plan comes to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Segments whose finalizers are moved.
    pub(super) moving: usize,
    /// Finalizers that become ready.
    pub(super) ready: usize,
    /// Where the list of segments changes at first.
    lowest: usize,
}

/// Where the list of segments is written anew.
struct Listing {
    /// Whether all segments were decided about, or young ones alone.
    is_full: bool,
    /// How many segments stand there by now.
    written: usize,
    /// The segment whose finalizers wait that stands there last, if what waits on may be added to it.
    last: u32,
}

impl FinalizerTable {
    /// A worker: decides about the finalizers of the segment at a place of the list, if it is young or everything is
    /// collected. `place` says where an object is if it lives. How many entries it has looked at.
    pub(super) fn decide(
        &self,
        (position, is_full): (usize, bool),
        place: impl Fn(Address) -> Option<Address>,
        is_young: impl Fn(Address) -> bool,
    ) -> u64 {
        let Some(segment) = self.at(position) else {
            return 0;
        };
        if !is_full && !segment.is_young() {
            segment.set_dead([0; ORDERS]);
            segment.set_taken_back(0);
            return 0;
        }
        let looks = segment.places().len() as u64;
        let young_value = |value: Value| value.as_object().is_some_and(&is_young);
        if segment.is_ready() {
            let young = segment
                .entries()
                .any(|entry| young_value(entry.object()) || young_value(entry.value()));
            segment.set_young(young);
            return looks;
        }
        let (mut dead, mut taken_back, mut young) = ([0; ORDERS], 0, false);
        for at in segment.places() {
            prefetch(segment, at + AHEAD, |_| true);
            let (entry, condition) = (segment.entry(at), segment.entry(at).condition());
            if condition.is_taken_back() {
                taken_back += 1;
                continue;
            }
            let object = entry.object();
            let Some(place) = object.as_object().and_then(&place) else {
                entry.set_condition(condition.dead());
                dead[condition.order()] += 1;
                continue;
            };
            if object != Value::reference(place) {
                entry.set_object(Value::reference(place));
            }
            young |= is_young(place) || young_value(entry.value());
        }
        segment.set_dead(dead);
        segment.set_taken_back(taken_back);
        segment.set_young(young);
        looks
    }

    /// Leader, when the segments from this place of the list on were decided about, all or young ones alone: where their
    /// finalizers go. Those that become ready are counted as ready.
    pub(super) fn plan(&self, from: usize, is_full: bool) -> Plan {
        let plan = self.with_state(|state| {
            let mut plan = Plan {
                lowest: from,
                ..Plan::default()
            };
            state.filling = NONE;
            let mut listing = Listing {
                is_full,
                written: from,
                last: NONE,
            };
            let is_in_front =
                |&number: &u32| number != NONE && (self.segment(number).position() as usize) < from;
            state.last_waiting = Some(state.last_waiting).filter(is_in_front).unwrap_or(NONE);
            // Those of finalizers that become ready stand behind all others, for now behind the list.
            let (listed, mut fresh) = (state.listed, state.listed);
            for position in from..listed {
                let Some(segment) = self.at(position) else {
                    state.holes -= 1;
                    continue;
                };
                if segment.is_ready() || self.stays(&listing, segment) {
                    self.list(state, &mut listing, segment);
                    continue;
                }
                self.set_moving(plan.moving, segment);
                plan.moving += 1;
                state.waiting -= 1;
                let dead = segment.dead();
                for (order, &count) in dead.iter().enumerate().filter(|(_, count)| **count > 0) {
                    let lowest = self.make_room(state, (segment, order), count, &mut fresh);
                    plan.lowest = plan.lowest.min(lowest);
                }
                let dead = dead.iter().sum::<u32>();
                let kept = segment.end() - segment.taken_back() - dead;
                self.keep(state, &mut listing, segment, kept);
                state.waiting_entries -= (segment.end() - kept) as usize;
                plan.ready += dead as usize;
            }
            for position in listed..fresh {
                if let Some(segment) = self.at(position) {
                    self.enter(listing.written, segment);
                    listing.written += 1;
                }
            }
            state.listed = listing.written;
            plan
        });
        self.ready_count.fetch_add(plan.ready, Ordering::Relaxed);
        plan
    }

    /// Whether a segment whose finalizers wait stays as it is.
    fn stays(&self, listing: &Listing, segment: Segment<'_>) -> bool {
        let leaves = segment.taken_back() > 0 || segment.dead() != [0; ORDERS];
        let is_decided = listing.is_full || segment.is_young();
        let is_added = is_decided
            && segment.end() <= FEW
            && listing.last != NONE
            && self.segment(listing.last).room() > 0;
        !leaves && !is_added
    }

    /// The segment stands behind those that were listed so far.
    fn list(&self, state: &mut State, listing: &mut Listing, segment: Segment<'_>) {
        self.enter(listing.written, segment);
        listing.written += 1;
        if !segment.is_ready() {
            (listing.last, state.last_waiting) = (segment.number, segment.number);
        }
    }

    /// Of a segment that is moved away, as many finalizers as that wait on.
    fn keep(&self, state: &mut State, listing: &mut Listing, from: Segment<'_>, mut count: u32) {
        let mut first = None;
        while count > 0 {
            let last = Some(listing.last).filter(|&number| number != NONE);
            let last = last.map(|number| self.segment(number));
            let to = match last.filter(|segment| segment.room() > 0) {
                Some(segment) => segment,
                None => {
                    let segment = self.take_segment(state, false);
                    if let Some(last) = last {
                        last.set_next(segment.number);
                    }
                    state.waiting += 1;
                    self.list(state, listing, segment);
                    segment
                }
            };
            let target = take_room(to, &mut count);
            first = first.or(Some(target));
        }
        if let Some(first) = first {
            from.set_target(KEPT, first);
        }
    }

    /// Of a segment that is moved away, as many finalizers as that become ready in an order. Segments that are added to the
    /// queue stand at places of the list from `fresh` on. The lowest place of a segment to which some go.
    fn make_room(
        &self,
        state: &mut State,
        (from, order): (Segment<'_>, usize),
        mut count: u32,
        fresh: &mut usize,
    ) -> usize {
        let (mut first, mut lowest) = (None, usize::MAX);
        state.ready_entries += count as usize;
        while count > 0 {
            let last = Some(state.ready[order].last).filter(|&number| number != NONE);
            let last = last.map(|number| self.segment(number));
            let to = match last.filter(|segment| segment.room() > 0) {
                Some(segment) => segment,
                None => {
                    let segment = self.take_segment(state, true);
                    match last {
                        Some(last) => last.set_next(segment.number),
                        None => state.ready[order].first = segment.number,
                    }
                    state.ready[order].last = segment.number;
                    self.enter(*fresh, segment);
                    *fresh += 1;
                    segment
                }
            };
            lowest = lowest.min(to.position() as usize);
            let target = take_room(to, &mut count);
            first = first.or(Some(target));
        }
        if let Some(first) = first {
            from.set_target(order, first);
        }
        lowest
    }

    /// A worker: moves the finalizers of a segment to where the plan says. `keep` makes an object live, and says where it
    /// is.
    pub(super) fn hand_over(
        &self,
        number: usize,
        mut keep: impl FnMut(Address) -> Address,
        is_young: impl Fn(Address) -> bool,
    ) {
        let segment = self.moving(number);
        let mut targets = segment.targets();
        for at in segment.places() {
            prefetch(segment, at + AHEAD, Condition::is_dead);
            let (entry, condition) = (segment.entry(at), segment.entry(at).condition());
            if condition.is_taken_back() {
                continue;
            }
            let (mut object, mut stream) = (entry.object(), KEPT);
            if condition.is_dead() {
                stream = condition.order();
                let revived = object.as_object().filter(|_| condition.revives());
                object = revived.map_or(Value::NULL, |object| Value::reference(keep(object)));
            }
            let (target, value) = (&mut targets[stream], entry.value());
            let (to, place) = self.segment_of(*target);
            to.entry(place).set(object, value, condition.settled());
            if let Some(id) = condition.id() {
                self.put_id(id, *target);
            }
            let is_last = place + 1 == SEGMENT_ENTRIES;
            *target = match is_last {
                false => *target + 1,
                true => to.next().wrapping_mul(SEGMENT_ENTRIES),
            };
            if value.as_object().is_some() {
                to.set_values(true);
            }
            if [object, value]
                .iter()
                .any(|held| held.as_object().is_some_and(&is_young))
            {
                to.set_young(true);
            }
        }
    }

    /// Leader: all finalizers were moved as planned, after the segments from this place of the list on were decided about.
    pub(super) fn end_sifting(&self, from: usize, plan: &Plan) {
        self.with_state(|state| {
            for number in (0..plan.moving).rev() {
                self.free(state, self.moving(number));
            }
            let first = plan.lowest.min(from);
            let is_old =
                |&position: &usize| self.at(position).is_none_or(|segment| !segment.is_young());
            let old = (first..state.listed).take_while(is_old).count();
            state.young_from = first + old;
        });
    }

    /// Leader, when a collection begins to sift: has fewer empty places in the list than others.
    pub(super) fn begin_sifting(&self) {
        self.with_state(|state| {
            if 2 * state.holes <= state.listed {
                return;
            }
            let (mut written, mut young_from) = (0, 0);
            for position in 0..state.listed {
                if position == state.young_from {
                    young_from = written;
                }
                if let Some(segment) = self.at(position) {
                    self.enter(written, segment);
                    written += 1;
                }
            }
            if state.young_from == state.listed {
                young_from = written;
            }
            (state.listed, state.holes) = (written, 0);
            state.young_from = young_from;
        });
    }
}

/// Has the cache fetch the object of the entry at this place, if there is one and it is `wanted`.
fn prefetch(segment: Segment<'_>, place: u32, wanted: impl Fn(Condition) -> bool) {
    if place >= segment.end() {
        return;
    }
    let entry = segment.entry(place);
    if let Some(object) = entry.object().as_object()
        && wanted(entry.condition())
    {
        object.prefetch();
    }
}

/// Takes as much room of a segment as there is, for that many. The number of the first entry.
fn take_room(segment: Segment<'_>, count: &mut u32) -> u32 {
    let (end, taken) = (segment.end(), segment.room().min(*count));
    segment.set_end(end + taken);
    *count -= taken;
    segment.number_of(end)
}
