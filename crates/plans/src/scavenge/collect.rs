//! A collection of the precise heap, step by step.
//!
//! A thread that wants one leaves the gate, takes `collecting`, and closes the gate; the same thread leads the workers.
//! A scavenge that finds no room for everything is followed by a full collection in the same stop. Under
//! `old=mark-sweep` that one marks, frees in place, and promotes all that is young into the holes, under `old=mark-region`
//! into free lines; if they are too small, or what is free is of no use otherwise, everything is slid together after all.

use alloc::boxed::Box;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::{Event, Phase};
use gleaner_base::options::{Generations, OldPolicy, Verify};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::zero;
use gleaner_os::clock;
use gleaner_spaces::precise::arraylets::Arraylets;
use gleaner_spaces::precise::bump::BumpRegion;
use gleaner_spaces::precise::regions::{Kind, MOST_REGIONS};
use gleaner_spaces::precise::tenured::Tenured;

use super::allocate::{Place, Request};
pub use super::extent::Extent;
use super::heap::NO_ROOM;
use super::mutator::Mutator;
use super::old::{self, MarkCompact, MarkRegion, MarkSweep, OldGeneration};
use super::resize::Collection;
use super::state::{MUCH_SURVIVES, NEVER};
use super::walk::Edge;
use super::{Scavenge, State};
use crate::scavenge::decide::collection::{self, Measurements};
use crate::scavenge::decide::sliding::Outcome;
use crate::scavenge::stop::collecting;
use crate::scavenge::stop::slow::{self, Wait};
use crate::scavenge::stop::whereabouts::Passage;
use crate::shared::record::{Record, write_event};

/// What overwrites freed memory under `poison`: no header, no reference, easy to see.
const POISON: usize = 0xdead_dead_dead_dead;

/// What is done in a stop when everything was collected.
pub(super) type Also<'a> =
    Option<&'a mut dyn FnMut(&mut State, &mut WorldStopped<'_>, &mut Record)>;

impl<F: SlotFormat> Scavenge<F> {
    /// How many collections there were: to be given to [`Scavenge::collect_unless_past`].
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// A mutator inside the gate collects. Its references move; so may those of all others. The collector changes the
    /// cells of all mutators' records.
    pub fn collect(&self, mutator: &Mutator, extent: Extent, reason: &'static str) {
        self.collect_if(mutator, extent, reason, (None, Request::NOTHING));
    }

    /// As [`Scavenge::collect`], but does nothing if another thread has collected since the epoch was `seen`. Whether
    /// there was room for the request when it was over.
    pub fn collect_unless_past(
        &self,
        mutator: &Mutator,
        extent: Extent,
        reason: &'static str,
        seen: u64,
        request: Request,
    ) -> Option<bool> {
        self.collect_if(mutator, extent, reason, (Some(seen), request))
    }

    pub(super) fn collect_if(
        &self,
        mutator: &Mutator,
        extent: Extent,
        reason: &'static str,
        (seen, request): (Option<u64>, Request),
    ) -> Option<bool> {
        self.collect_and(mutator, (extent, reason), (seen, request), None)
    }

    /// The same, and does something else in the stop when everything was collected, if it was.
    pub(super) fn collect_and(
        &self,
        mutator: &Mutator,
        what: (Extent, &'static str),
        (seen, request): (Option<u64>, Request),
        also: Also<'_>,
    ) -> Option<bool> {
        let _outside = self.outside(mutator, Passage::Collection);
        if let Some(prepare) = &self.before_collection {
            prepare();
        }
        let done = self.collecting.with(&self.gate, |state| {
            let wanted = seen.is_none_or(|seen| seen == self.epoch());
            wanted.then(|| self.lead(state, what, request, also))
        });
        let (room, record) = done?;
        if let Some(listener) = &self.listener {
            listener(record.events());
        }
        Some(room)
    }

    /// The collection, as the door has it led.
    fn lead(
        &self,
        state: &mut State,
        what: (Extent, &'static str),
        request: Request,
        mut also: Also<'_>,
    ) -> (bool, Record) {
        let Some(leading) = &self.leading else {
            return self.stop_and_collect(state, what, request, also);
        };
        let mut done = None;
        leading(&mut || done = Some(self.stop_and_collect(state, what, request, also.take())));
        done.expect("what leads a collection runs it")
    }

    /// A mutator inside the gate stops here if it is asked to. As for [`Scavenge::collect`].
    #[cold]
    pub fn poll(&self, mutator: &Mutator) {
        mutator.partner().answer();
        self.leave(mutator, Passage::Poll);
        self.enter(mutator, Passage::Poll);
    }

    /// The collection, whose steps are methods: whether there is room for the request afterwards, and what happened.
    fn stop_and_collect(
        &self,
        state: &mut State,
        (extent, reason): (Extent, &'static str),
        request: Request,
        also: Also<'_>,
    ) -> (bool, Record) {
        let broken = StopsTheProcess;
        let mut record = Record::new(self.epoch() + 1);
        record.step(Phase::Start, |event| event.reason = reason);
        state.crew_sizes.look(self.crew.helpers());
        let started = clock::monotonic_ns();
        self.prepare_census(state);
        self.prepare_types();
        let mut stopped = self.stop_world(state, &mut record);
        let world = &mut stopped;
        let mut collection = self.begin_collection(state, world, started, request);
        self.verify(state, world, &mut record, Edge::Before);
        let why = self.wants_everything(state, extent);
        let why = why.or_else(|| self.collect_young(state, world, &mut record));
        if let Some(why) = why {
            self.collect_everything(state, world, &mut record, (extent, why));
        }
        self.leave_nothing(world, &collection, why == Some(NO_ROOM));
        self.verify(state, world, &mut record, Edge::After);
        self.check_after(state, world);
        if why.is_some() {
            self.take_census(state, world);
            if let Some(also) = also {
                also(state, world, &mut record);
            }
            self.take_snapshot(state, world, &mut record, (reason, false));
        }
        self.end_collection(state, world, &mut record, (&mut collection, why.is_some()));
        let room = self.has_room(world, request);
        record.step(Phase::ResumeWorld, |_| self.resume(state, stopped));
        self.zeroing.wake();
        self.finish(state, &mut record, started, reason);
        core::mem::forget(broken);
        (room, record)
    }

    fn stop_world<'a>(&'a self, state: &mut State, record: &mut Record) -> WorldStopped<'a> {
        let world = record.step(Phase::StopWorld, |event| {
            // SAFETY: a collection begins in a running world, and `stop_and_collect` resumes it.
            let world = unsafe { self.stop(state) };
            event.objects = state.mutators.len() as u64;
            world
        });
        state.engine.lead_on(self.node_of_leader());
        world
    }

    /// What mutators held is given up, and what there was before is noted.
    fn begin_collection(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        started: u64,
        request: Request,
    ) -> Collection {
        let beside = self.beside_used();
        let arraylets = self.arraylets.as_ref().map_or(0, Arraylets::used);
        let large_used = [self.large.used(), arraylets];
        let allocated = match self.in_place() {
            None => self.used().saturating_sub(state.lately.used),
            Some(pieces) => pieces.taken() + beside.saturating_sub(state.lately.beside_used),
        };
        state.totals.allocated_bytes += allocated as u64;
        self.retire_tlabs(state, world);
        self.retire_arraylets(state, world);
        self.count_fresh(state, world);
        self.gaps.clear(world);
        self.resolve_pins(world);
        self.check_before(state, world);
        let mut tops = [Address::NULL; MOST_REGIONS];
        for (top, region) in tops.iter_mut().zip(self.nursery.regions().iter()) {
            *top = region.space.top();
        }
        self.zeroing.note_taken(world, &self.nursery.eden);
        self.count_eden_pages(state);
        self.note_used(state, large_used, &tops);
        state.growth.asked = match request.place {
            Place::Anywhere => request.bytes,
            _ => 0,
        };
        state.growth.needed = request.beside();
        Collection {
            was_full: false,
            mutator_ns: started.saturating_sub(state.lately.resumed_ns),
            for_room: request.bytes > 0,
            needed: request.beside(),
            piece: request.young(),
            beside: beside.saturating_sub(state.lately.beside_used),
            beside_used: beside,
            old_used: self.old_space_used(),
            allocated,
            stopped_ns: started,
            stopped_cpu_ns: self.cpu_ns_of_places(),
            now_ns: started,
            tops,
        }
    }

    /// Why everything is collected, if that is known without a scavenge.
    fn wants_everything(&self, state: &State, extent: Extent) -> Option<&'static str> {
        match extent {
            Extent::Full | Extent::Compact => Some("everything was asked for"),
            Extent::Young => state.wants_full,
        }
    }

    fn collect_everything(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        (extent, why): (Extent, &'static str),
    ) {
        let started = clock::monotonic_ns();
        state.crew_sizes.begin(true);
        let keeps = self.pins.keeps();
        let at_once = extent == Extent::Young && self.slides_at_once(state);
        let policy: &dyn OldGeneration<F> = match (extent, state.old) {
            (_, OldPolicy::MarkCompact) if keeps => self.where_it_lies(),
            (Extent::Compact, _) if !keeps => &MarkCompact,
            _ if at_once => &MarkCompact,
            (_, old) => old::policy(old),
        };
        let after_all = policy.collect(self, state, world, record, why);
        match after_all {
            None => {}
            Some(_) if keeps => self.leave_young(state, world),
            Some(why) => _ = MarkCompact.collect(self, state, world, record, why),
        }
        // Where everything is slid each time that says nothing of lines.
        if extent == Extent::Young && !keeps && !self.slides_each_time(state) {
            state.slidings.note(match after_all {
                _ if at_once => Outcome::AtOnce,
                Some(_) => Outcome::AfterAll,
                None => Outcome::InPlace,
            });
        }
        state.totals.full_collections += 1;
        let took = clock::monotonic_ns() - started;
        state.last_full.ns = took;
        state.crew_sizes.end(true, self.used(), took);
    }

    /// The policy that frees in place where nothing may be slid. A forked child of a heap whose holes are free lines goes
    /// on with these.
    fn where_it_lies(&self) -> &'static dyn OldGeneration<F> {
        match self.lines() {
            Some(_) => &MarkRegion,
            None => &MarkSweep,
        }
    }

    /// Where nothing may be slid, since objects are kept: what found no room to be promoted stays young.
    fn leave_young(&self, state: &mut State, world: &mut WorldStopped<'_>) {
        let tops = self.settle_stayed(world, None);
        self.nursery.reset(world);
        self.adopt_stayed(world, tops);
        state.wants_full = Some("young objects are left for which there was no room");
    }

    /// Under `quarantine` and `poison`: what is empty now is left, and what is free is overwritten.
    fn leave_nothing(&self, world: &mut WorldStopped<'_>, collection: &Collection, gave_up: bool) {
        if self.checks() {
            self.leave_evacuated(world, &collection.tops);
        }
        self.poison_free_memory(&collection.tops, gave_up);
        if gave_up {
            self.note_given_up();
        }
    }

    /// What follows from what was found: sizes, how eden is zeroed, and what is collected next.
    fn end_collection(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        (collection, was_full): (&mut Collection, bool),
    ) {
        (collection.was_full, collection.now_ns) = (was_full, clock::monotonic_ns());
        self.resize(state, world, record, collection);
        self.decide_external(state, record, was_full);
        self.sum_locality(state);
        if self.in_place().is_none() {
            self.decide_next(state, world, was_full);
        }
        self.decide_zeroing(state, world, record, collection);
        self.note_fresh(state);
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// The mutators run again: what the stop came to.
    fn finish(&self, state: &mut State, record: &mut Record, started: u64, reason: &'static str) {
        // A snapshot is the user's, and no cost of collecting.
        let stopped = clock::monotonic_ns() - started - record.duration(Phase::Snapshot);
        state.totals.stopped_ns += stopped;
        state.totals.longest_stop_ns = state.totals.longest_stop_ns.max(stopped);
        let stopping = record.duration(Phase::StopWorld);
        state.totals.stopping_ns += stopping;
        state.totals.longest_stopping_ns = state.totals.longest_stopping_ns.max(stopping);
        record.step(Phase::End, |event| {
            event.bytes = self.used() as u64;
            event.reason = reason;
        });
        record.set_last_duration(stopped);
        publish(state, record);
    }

    /// Whether the next collection is of everything.
    fn decide_next(&self, state: &mut State, world: &mut WorldStopped<'_>, was_full: bool) {
        if !state.scavenging && state.wants_full.is_none() {
            state.wants_full = Some(match self.config.options.generations {
                Generations::Never => NEVER,
                _ => MUCH_SURVIVES,
            });
        }
        self.set_old_end(&mut world.allocator());
        let eden = self.nursery.eden.bytes();
        let filled = self.old_used() - self.old_holes();
        let room = state.lately.old_target.saturating_sub(filled);
        if was_full {
            self.set_pinned_due(room);
        }
        let decision = collection::next_extent(&Measurements {
            // Holes between pinned objects are no room for others.
            old_free: room.min(self.old_space_room() + self.old.holes()),
            promoted_lately: state.lately.promoted,
            survivors: self.nursery.from().used(),
            left: self.old_left(),
            holes: self.old.holes(),
            eden,
        });
        // Without scavenges nothing is promoted, and a full collection frees large objects that are dead.
        let young_large = if state.scavenging {
            decision.young_large
        } else {
            eden
        };
        self.young_large_limit.store(young_large, Ordering::Relaxed);
        if decision.full && state.wants_full.is_none() {
            state.wants_full = Some(decision.reason);
        }
    }

    pub(super) fn retire_tlabs(&self, state: &State, world: &mut WorldStopped<'_>) {
        for mutator in state.mutators.stopped(world).iter() {
            // SAFETY: the mutator does not run, and no worker is at work on it.
            unsafe {
                mutator.retire_tlab();
                mutator.blocks.retire();
            }
        }
        self.gaps.close(world);
    }

    /// Before arraylets are swept.
    fn retire_arraylets(&self, state: &State, world: &mut WorldStopped<'_>) {
        for mutator in state.mutators.stopped(world).iter() {
            mutator.retire_arraylets();
        }
    }

    /// Waits until no mutator is inside the gate. The caller is outside, and holds `collecting`.
    ///
    /// # Safety
    /// The world runs, so there is no other proof; [`Scavenge::resume`] gets this one.
    pub(super) unsafe fn stop(&self, state: &mut State) -> WorldStopped<'_> {
        let mut wait = Wait::begin(self.config.options.stop_warning);
        collecting::announce(&self.gate, state.mutators.polls());
        self.gate.drain_watching(|| {
            self.bury(state);
            let late = slow::say_if_slow(&mut wait, state.mutators.whereabouts(), self.epoch());
            late.inspect(|event| publish_event(state, event));
        });
        // SAFETY: no mutator is inside the gate, and none comes in until `resume`; so none holds `beside`, which is taken
        // inside. There is no other proof, as the caller promises.
        unsafe { WorldStopped::begin() }
    }

    /// Takes off the list the mutators whose threads ended inside the gate, and goes out in their place.
    pub(super) fn bury(&self, state: &mut State) {
        let ended = self.ended.as_ref().map(|ended| ended());
        for record in ended.into_iter().flatten() {
            state.mutators.remove(record);
            // SAFETY: leaked by `attach`; its thread has ended, and nobody else uses it.
            let mutator = unsafe { Box::from_raw(record.as_ptr()) };
            // SAFETY: the mutator's thread has ended, so nobody else uses its buffer.
            unsafe { self.keep_of(state, &mutator) };
            self.gate.leave();
        }
    }

    /// Ends what [`Scavenge::stop`] began.
    pub(super) fn resume(&self, state: &State, world: WorldStopped<'_>) {
        world.end();
        collecting::resume(&self.gate, state.mutators.polls());
    }

    /// Collects the young generation, which has a space of its own or lies in the old one: why everything is to be
    /// collected after all, if something found no room.
    fn collect_young(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
    ) -> Option<&'static str> {
        if self.in_place().is_none() {
            return self.scavenge(state, world, record);
        }
        self.collect_new(state, world, record);
        None
    }

    fn scavenge(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
    ) -> Option<&'static str> {
        let empties = self.is_to_empty(state);
        let to = (!empties && self.nursery.to().used() == 0).then(|| self.nursery.to_kind());
        let complete = record.step(Phase::Copy, |event| {
            let (started, survivors) = (clock::monotonic_ns(), self.nursery.from().used());
            state.crew_sizes.begin(false);
            // A survivor space in which objects have kept their places takes no others, nor where nothing is to stay young.
            let complete = match to {
                Some(_) => self.copy_young(state, world),
                None => self.promote_young(state, world),
            };
            let took = clock::monotonic_ns() - started;
            let (mut survived, mut promoted, mut objects) = (0, 0, 0);
            for local in state.engine.worker_states() {
                survived += core::mem::take(&mut local.survived);
                promoted += core::mem::take(&mut local.promoted);
                objects += core::mem::take(&mut local.objects);
            }
            state.totals.survived_bytes += survived as u64;
            state.totals.promoted_bytes += promoted as u64;
            state
                .lately
                .note_copied(survived, promoted, survivors, took);
            let found = survived + promoted;
            if complete {
                state.crew_sizes.end(false, found, took);
            }
            event.bytes = found as u64;
            event.objects = objects as u64;
            event.workers = state.crew_sizes.workers as u32;
            event.reason = state.crew_sizes.reason;
            complete
        });
        state.totals.scavenges += 1;
        if !complete {
            self.forget_stayed(world);
            return Some(NO_ROOM);
        }
        let tops = self.settle_stayed(world, to);
        if tops.is_none() {
            let edge = match to {
                Some(_) => Edge::Copied,
                None => Edge::Promoted,
            };
            self.verify(state, world, record, edge);
        }
        match to {
            Some(_) => self.nursery.flip(world),
            None => self.nursery.reset(world),
        }
        self.adopt_stayed(world, tops);
        None
    }

    /// Under `poison`: overwrites what is free now and was in use, and nothing else: the rest need not be resident. The
    /// spaces of the nursery were in use up to `tops`, and higher if a scavenge was given up.
    fn poison_free_memory(&self, tops: &[Address], gave_up: bool) {
        let above = |region: &BumpRegion, high: Address| {
            let high = high.min(region.end());
            if region.top() < high {
                self.poison(region.top(), high.offset_from(region.top()));
            }
        };
        above(&self.old.region, self.old_reached());
        for (region, &top) in self.nursery.regions().iter().zip(tops) {
            let (kind, region) = (region.kind, region.space);
            // Under quarantine an empty space is where nothing was lately, and its pages are not resident.
            if !self.checks() || region.used() > 0 {
                // Nothing is taken of eden in a collection.
                let high = if gave_up && kind != Kind::Eden {
                    region.end()
                } else {
                    top
                };
                above(region, high);
            }
        }
    }

    /// Under `poison`: overwrites a range that no object uses any more.
    pub(super) fn poison(&self, start: Address, bytes: usize) {
        if self.config.options.poison {
            // SAFETY: no object uses the range, as the callers see to, and nobody allocates there meanwhile.
            unsafe { zero::fill(start, bytes, POISON) };
        }
    }

    /// Under `poison`: overwrites what was not marked in a space, after marking and before anything is allocated there.
    pub(super) fn poison_holes(&self, space: &Tenured) {
        let (mut at, end) = (space.region.start(), space.region.top());
        while self.config.options.poison
            && let Some((hole, bytes)) = self.bits().next_hole(at, end, 1)
        {
            self.poison(hole, bytes);
            at = hole.add(bytes);
        }
    }

    pub(super) fn verify(
        &self,
        state: &State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        edge: Edge,
    ) {
        if self.config.options.verify == Verify::Edges {
            record.step(Phase::Verify, |event| {
                event.reason = edge.when();
                event.objects = self.verify_heap(state, world, edge) as u64
            });
        }
    }
}

/// A panic in a collection leaves the heap in no state that anybody could go on with: it ends the process.
struct StopsTheProcess;

impl Drop for StopsTheProcess {
    fn drop(&mut self) {
        panic!("a collection was left by a panic: the heap is broken");
    }
}

/// Puts the events of a collection into the ring and the log.
fn publish(state: &mut State, record: &Record) {
    for event in record.events() {
        publish_event(state, event);
    }
}

pub(super) fn publish_event(state: &mut State, event: &Event) {
    let event = Event {
        heap: state.number,
        ..*event
    };
    state.events.push(&event);
    write_event(&mut state.log, &event);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use gleaner_mem::slot::Wide;
    use gleaner_work::Crew;

    use super::super::LEAST_LIMIT;
    use super::super::sizes::tests::config;
    use super::*;

    /// Several mutators find no room in the same epoch: the first of them collects for all.
    #[test]
    fn who_waited_for_a_collection_does_not_collect_once_more() {
        static CREW: Crew = Crew::new();
        let heap = Scavenge::<Wide>::new(config(2 * LEAST_LIMIT, 0, true), &CREW).unwrap();
        let record = heap.attach().unwrap();
        let seen = heap.epoch();
        // SAFETY: attached above, by this thread.
        let mutator = unsafe { record.as_ref() };
        let collect =
            || heap.collect_unless_past(mutator, Extent::Young, "", seen, Request::NOTHING);
        assert_eq!((collect(), heap.epoch()), (Some(true), seen + 1));
        assert_eq!((collect(), heap.epoch()), (None, seen + 1));
        // SAFETY: attached above, and not used again.
        unsafe {
            heap.leave_for_good(record);
            heap.detach(record);
        }
    }
}
