//! After each collection: measures, asks the deciders whether the young generation is collected by itself from now on
//! and how large the generations are, and does what they say. What was not used for some collections of everything goes
//! back to the system ([`release`](super::memory::release)).
//!
//! The young generation and the old one share the limit: what the one gains the other loses. Ranges of addresses are
//! reserved for the largest sizes. The leader does this before the mutators go on.

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::events::{Event, Phase};
use gleaner_base::options::Generations;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::memory;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::regions::MOST_REGIONS;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use super::state::Lately;
use super::walk::Edge;
use super::{Scavenge, State};
use crate::scavenge::decide::collection::{self, faded, fading_most, moving_average};
use crate::scavenge::decide::generation_sizes::{self, Decision, Measurements};
use crate::scavenge::decide::generations;
use crate::scavenge::decide::young_size;
use crate::shared::record::Record;

/// A collection that is over.
pub(super) struct Collection {
    /// Whether everything was collected.
    pub was_full: bool,
    /// Whether it was for lack of room.
    pub for_room: bool,
    /// Bytes that a mutator waits for outside of the nursery.
    pub needed: usize,
    /// Bytes that it waits for in the nursery.
    pub piece: usize,
    /// Bytes that were taken beside the nursery since the collection before.
    pub beside: usize,
    /// What was used there when it began.
    pub beside_used: usize,
    /// What was used of the old space then.
    pub old_used: usize,
    /// How long the mutators ran since the one before, in nanoseconds.
    pub mutator_ns: u64,
    /// Bytes that were allocated since the one before.
    pub allocated: usize,
    /// When the world was stopped.
    pub stopped_ns: u64,
    /// What the process had taken of processor time then, in nanoseconds, where that is asked for.
    pub stopped_cpu_ns: u64,
    /// When the collection was over.
    pub now_ns: u64,
    /// Where the nursery's regions were in use up to when it began.
    pub tops: [Address; MOST_REGIONS],
}

impl<F: SlotFormat> Scavenge<F> {
    /// After a collection: measures, decides, and does it.
    pub(super) fn resize(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        collection: &Collection,
    ) {
        state.lately.note_pause(collection);
        state.lately.used = self.used();
        state.lately.beside_used = self.beside_used();
        self.needed.set(world, &state.lately);
        if collection.was_full {
            state.last_full.filled = self.old_used() - self.old_holes();
        }
        let adapts = self.config.options.resize;
        // First of all: that scavenges are left out says much of where new objects are to lie.
        let changed = match self.in_place() {
            None if adapts => self.decide_generations(state, collection),
            _ => None,
        };
        let place = self.decide_nursery(state, world, collection);
        if let Some(pieces) = self.in_place() {
            self.decide_in_place((pieces, place), state, world, record, collection);
        } else if !adapts {
            if let Some(reason) = place {
                self.give_first_sizes(state, world, record, reason);
            }
            state.lately.old_target = self.old_limit.load(Ordering::Relaxed);
        } else {
            record.step(Phase::Resize, |event| {
                let mut found = self.measure(state, collection);
                found.wanted = self.decide_young(state, collection, &found);
                let decision = generation_sizes::next_sizes(&found);
                self.apply(&mut state.lately, world, &decision, event);
                event.reason = place.or(changed).unwrap_or(event.reason);
            });
        }
        if self.in_place().is_none() {
            self.balance(world, record);
        }
        if place.is_some() {
            self.verify(state, world, record, Edge::After);
        }
        if collection.was_full {
            self.release_unused(state, world);
            (state.lately.cycle_ns, state.lately.cycle_allocated) = (0, 0);
        }
    }

    /// Why the young generation is or is not collected by itself any more, if that changes.
    fn decide_generations(
        &self,
        state: &mut State,
        collection: &Collection,
    ) -> Option<&'static str> {
        let config = &self.config;
        let open = config.options.generations == Generations::Auto && config.options.stress == 0;
        if !open || !self.can_slide_each_time(state) {
            return None;
        }
        if self.pins.keeps() {
            return self.scavenge_around_kept(state);
        }
        if !collection.for_room {
            return None;
        }
        let lately = &state.lately;
        // Where ranges are small, the young generation cannot take all that the old one does not need.
        let budget = (lately.young + lately.old_target).min(self.limit());
        let found = generations::Measurements {
            scavenging: state.scavenging,
            was_full: collection.was_full,
            first_scavenges: match state.totals.full_collections {
                0 => state.totals.scavenges,
                _ => 0,
            },
            fresh_survived: lately.fresh,
            fresh_allocated: collection.allocated,
            full_ns: state.last_full.ns,
            cycle_ns: lately.cycle_ns,
            cycle_allocated: lately.cycle_allocated,
            copy_ns_per_kb: lately.copy_ns_per_kb,
            used: lately.used,
            budget: budget.min(lately.used + self.nursery.most()),
            young_lived: state.last_full.young_lived,
        };
        let decision = generations::decide(&mut state.generations, &found);
        let changed = decision.scavenging != state.scavenging;
        state.scavenging = decision.scavenging;
        if decision.try_everything {
            state.wants_full = Some("much of what is young survives");
        }
        changed.then_some(decision.reason)
    }

    /// While objects keep their places full collections do not slide, and cost more than they promise: the young generation
    /// is collected by itself. Why, if that changes.
    fn scavenge_around_kept(&self, state: &mut State) -> Option<&'static str> {
        let changes = !state.scavenging;
        state.bring_scavenges_back();
        changes.then_some("nothing slides while objects keep their places")
    }

    /// The young generation that is wanted, and why.
    fn decide_young(
        &self,
        state: &mut State,
        collection: &Collection,
        found: &Measurements,
    ) -> (usize, &'static str) {
        // One that came before eden was full says nothing of its size.
        if collection.was_full || !state.scavenging || !collection.for_room {
            return found.wanted;
        }
        let lately = &state.lately;
        let filled = found.old_used - found.old_holes;
        let guess = (lately.copy_ns_per_kb * (filled / 1024)) as u64;
        let known = state.totals.full_collections > 0;
        let paused = collection.now_ns - collection.stopped_ns;
        let size = &mut state.young_size;
        size.note_scavenge(paused, collection.allocated, lately.last_promoted);
        size.decide(&young_size::Measurements {
            young: found.young,
            most: generation_sizes::most_young(found),
            least: found.least_young,
            limit: found.limit,
            filled: if known {
                state.last_full.filled.min(filled)
            } else {
                filled
            },
            full_ns: if known { state.last_full.ns } else { guess },
            busy: found.scavenge_share > generation_sizes::GOAL,
            full_collections: state.totals.full_collections,
        })
    }

    fn measure(&self, state: &State, collection: &Collection) -> Measurements {
        let lately = &state.lately;
        Measurements {
            limit: self.limit(),
            scavenging: state.scavenging,
            slides: self.slides_each_time(state) && !self.pins.keeps(),
            nursery_used: self.nursery.used(),
            kept: self.kept_in_eden(collection),
            least_eden: match self.pins.keeps() {
                true => self.nursery.eden.used(),
                false => 0,
            },
            allocated_lately: lately.allocated,
            beside_lately: lately.beside,
            more_beside_lately: lately.most_beside.saturating_sub(lately.beside_used),
            least_survivors: 2 * BLOCK_BYTES,
            young: lately.young,
            wanted: (lately.young, "the sizes do"),
            survivor: self.nursery.to().bytes(),
            least_young: self.least_young_at(self.limit()),
            old_used: self.old_used(),
            old_holes: self.old_holes(),
            old_target: lately.old_target,
            promoted_lately: lately.promoted,
            survived_lately: lately.survived,
            scavenge_share: lately.scavenge_share,
            full_share: lately.full_share,
            was_full: collection.was_full,
            needed: collection.needed,
            finalizers: self.weak.finalizers.is_used(),
        }
    }

    /// What objects that keep their places have of eden: with all that lies between them, if no gap there has the room
    /// that a mutator waits for.
    fn kept_in_eden(&self, collection: &Collection) -> usize {
        let used = self.nursery.eden.used();
        match self.pins.keeps() {
            false => 0,
            true if self.gaps.has_piece(collection.piece) => used.saturating_sub(self.gaps.left()),
            true => used,
        }
    }

    pub(super) fn apply(
        &self,
        lately: &mut Lately,
        world: &mut WorldStopped<'_>,
        decision: &Decision,
        event: &mut Event,
    ) {
        let nursery = &self.nursery;
        let ends = self.nursery_ends();
        let whole = |bytes: usize| bytes / BLOCK_BYTES * BLOCK_BYTES;
        nursery.resize_within(
            world,
            whole(decision.eden).max(BLOCK_BYTES),
            whole(decision.survivor).max(BLOCK_BYTES),
            self.limit().saturating_sub(self.old_used()),
        );
        self.release_above(world, &ends);
        event.objects = (self.place_shares_anew(world, &ends) / memory::page_size()) as u64;
        let old_limit = self.limit().saturating_sub(nursery.capacity());
        debug_assert!(
            old_limit >= self.old_used(),
            "more than the limit is in use"
        );
        self.old_limit.store(old_limit, Ordering::Relaxed);
        self.make_resident_room(&mut world.allocator(), 0);
        lately.young = decision.young;
        // While the young generation takes what the old one does not need, the target is for later.
        lately.old_target = decision.old_target;
        event.bytes = nursery.capacity() as u64;
        event.reason = decision.reason;
    }

    /// The old space may grow as far as the limit allows.
    pub(super) fn set_old_end(&self, locked: &mut AllocatorLocked<'_>) {
        self.let_old_space_reach(locked, self.farthest_old_end());
    }

    /// The old space ends at `end` from now on; where it has lines, it may use as many bytes as if it did, wherever blocks
    /// are vacant.
    fn let_old_space_reach(&self, locked: &mut AllocatorLocked<'_>, end: Address) {
        let region = &self.old.region;
        match self.lines() {
            None => region.set_end(locked, end),
            Some(lines) => {
                lines.set_most(locked, end.offset_from(region.start()));
                region.set_end(locked, self.nursery.start());
            }
        }
    }

    /// Where the old space ends, or would if nothing of it were vacant.
    fn old_space_end(&self) -> Address {
        let region = &self.old.region;
        let end = |lines: &MarkRegion| region.start().add(lines.most());
        self.lines().map_or(region.end(), end)
    }

    fn farthest_old_end(&self) -> Address {
        let region = &self.old.region;
        // Scavenges leave blocks to the next evacuation.
        let held = self.lines().map_or(0, MarkRegion::held) * BLOCK_BYTES;
        let others = self.beside_used() + held;
        let limit = self.old_limit.load(Ordering::Relaxed);
        let bytes = limit.saturating_sub(others) / BLOCK_BYTES * BLOCK_BYTES;
        // Sizes are rounded: the limit may be a little more than the range.
        let range = self.nursery.start().offset_from(region.start());
        region.start().add(bytes.min(range))
    }

    /// Up to where live objects may slide in the old space: as far as the limit allows, and at least as far as those that
    /// lie there now may need.
    pub(super) fn end_of_sliding(&self) -> Address {
        let region = &self.old.region;
        let needed = region.start().add(self.old_space_used());
        self.farthest_old_end().max(needed)
    }

    /// Reserves `bytes` for promotions, before anybody uses them: the old space may grow by as much, and no more is
    /// resident then than the limit allows. All that may be promoted would be more than is used, as a rule, and what is
    /// given back is soon asked for again. [`Scavenge::reserve_more`] does the rest.
    pub(super) fn reserve_old(&self, locked: &mut AllocatorLocked<'_>, bytes: usize) {
        let region = &self.old.region;
        let used = self.old_space_used().saturating_add(bytes);
        let end = region.start().add(used.next_multiple_of(BLOCK_BYTES));
        self.let_old_space_reach(locked, end.min(self.farthest_old_end()));
        self.make_old_room(locked, self.old_space_room());
    }

    /// A worker of a scavenge found no room in the old space: whether there is more now, reserved by it or by another.
    pub(super) fn reserve_more(&self) -> bool {
        let seen = self.old_space_end();
        // No mutator holds the lock in a stopped world.
        let reserve = |locked: &mut AllocatorLocked<'_>| {
            if seen == self.old_space_end() {
                let end = seen.add(RESERVED_AT_ONCE).min(self.farthest_old_end());
                let resident = self.old_resident_up_to(end) + self.beside_resident();
                let limit = self.old_limit.load(Ordering::Relaxed);
                // Memory above the top is about to be used by other workers: only that of large objects and arraylets is
                // given back. The others read strips and generations and claim arraylets that live meanwhile, and both
                // spaces are swept when all is traced.
                self.release_beside(locked, resident.saturating_sub(limit));
                self.let_old_space_reach(locked, end.max(seen));
            }
            seen < self.old_space_end()
        };
        // SAFETY: the calling worker has no proof: the leader's is borrowed for reading while the phase runs.
        unsafe { self.beside.with(reserve) }
    }

    /// Bytes of the old space that hold memory when it was filled up to `end`, at most.
    fn old_resident_up_to(&self, end: Address) -> usize {
        let region = &self.old.region;
        match self.lines() {
            None => {
                let high = Address::new(self.old_high.load(Ordering::Relaxed)).max(end);
                high.offset_from(region.start())
            }
            Some(lines) => {
                // In this order: a block that a worker takes meanwhile counts twice, or as one without memory.
                let more = end
                    .offset_from(region.start())
                    .saturating_sub(lines.used(region));
                let without = more.saturating_sub(lines.held_vacant_bytes());
                self.old_resident() + without
            }
        }
    }

    /// Bytes of the old space that hold memory, as far as the heap knows.
    pub(super) fn old_resident(&self) -> usize {
        let released = self.lines().map_or(0, MarkRegion::released_bytes);
        self.old_reached().offset_from(self.old.region.start()) - released
    }

    /// Remembers how high the old space has been: memory above its top may be resident.
    pub(super) fn note_old_top(&self) {
        let top = self.old.region.top().word();
        self.old_high.fetch_max(top, Ordering::Relaxed);
        self.old_high_lately.fetch_max(top, Ordering::Relaxed);
    }

    /// How high the old space has been since memory above its top was given back.
    pub(super) fn old_reached(&self) -> Address {
        Address::new(self.old_high.load(Ordering::Relaxed)).max(self.old.region.top())
    }
}

/// What workers reserve when more is promoted than was expected.
const RESERVED_AT_ONCE: usize = 1 << 20;
/// A scavenge that copies fewer KB says nothing about what a KB costs.
const LEAST_COPIED: usize = 256;

impl Lately {
    fn note_pause(&mut self, over: &Collection) {
        let was_full = over.was_full;
        let paused = over.now_ns - over.stopped_ns;
        let share = collection::share(paused, over.now_ns - self.resumed_ns);
        self.resumed_ns = over.now_ns;
        self.cycle_allocated += over.allocated;
        self.allocated = moving_average(self.allocated, over.allocated);
        self.beside = moving_average(self.beside, over.beside);
        self.most_beside = fading_most(self.most_beside, over.beside_used);
        self.most_old = fading_most(self.most_old, over.old_used);
        if over.for_room {
            self.cycle_ns += paused;
        }
        let (own, other) = if was_full {
            (&mut self.full_share, &mut self.scavenge_share)
        } else {
            (&mut self.scavenge_share, &mut self.full_share)
        };
        *own = moving_average(*own, share);
        if was_full {
            // Or no scavenge would ever say that less is promoted by now.
            self.promoted = faded(self.promoted);
        } else {
            // A full collection that is long past does not count for ever; scavenges come often.
            *other -= *other / 16;
        }
    }

    /// What a scavenge copied, and how long that took. Of that, at most `old` bytes had survived one before.
    pub(super) fn note_copied(
        &mut self,
        survived: usize,
        promoted: usize,
        old: usize,
        took_ns: u64,
    ) {
        self.fresh = (survived + promoted).saturating_sub(old);
        let kilobytes = (survived + promoted) / 1024;
        if kilobytes >= LEAST_COPIED {
            let each = took_ns as usize / kilobytes;
            self.copy_ns_per_kb = moving_average(self.copy_ns_per_kb, each);
        }
        self.last_promoted = promoted;
        self.survived = moving_average(self.survived, survived);
        self.promoted = moving_average(self.promoted, promoted);
    }
}
