//! A collection of the precise heap, step by step.
//!
//! Whoever wants one leaves the gate, takes `collecting`, and closes the gate; the same thread leads the workers. A
//! scavenge that finds no room for everything is followed by a full collection in the same stop.

use gleaner_base::events::{Event, LineBuffer, Phase};
use gleaner_base::options::Verify;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::zero;
use gleaner_os::{clock, threads};

use super::{Scavenge, State};
use crate::decide::collection::{self, Measurements};
use crate::record::Record;
use crate::stop::poll::PollGate;

/// What overwrites freed memory under `poison`: no header, no reference, easy to see.
const POISON: usize = 0xdead_dead_dead_dead;

/// What is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The young generation, and all of it if that is called for.
    Young,
    /// Everything.
    Full,
}

impl<F: SlotFormat> Scavenge<F> {
    /// How many collections there were: to be given to [`Scavenge::collect_unless_past`].
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// A mutator inside the gate collects. Its references move; so may those of all others. The caller holds no Rust
    /// reference to a mutator's record: the collector changes it.
    pub fn collect(&self, extent: Extent, reason: &'static str) {
        self.collect_if(extent, reason, None, 0);
    }

    /// As [`Scavenge::collect`], unless somebody has collected since the epoch was `seen`: then nothing. Whether there
    /// was room for `bytes` bytes when it was over.
    pub fn collect_unless_past(
        &self,
        extent: Extent,
        reason: &'static str,
        seen: u64,
        bytes: usize,
    ) -> Option<bool> {
        self.collect_if(extent, reason, Some(seen), bytes)
    }

    fn collect_if(
        &self,
        extent: Extent,
        reason: &'static str,
        seen: Option<u64>,
        bytes: usize,
    ) -> Option<bool> {
        self.gate.leave();
        let _outside = Outside(&self.gate);
        self.collecting.lock();
        let done = seen
            .is_none_or(|seen| seen == self.epoch())
            .then(|| self.with_state(|state| self.stop_and_collect(state, extent, reason, bytes)));
        self.collecting.unlock();
        let (room, record) = done?;
        if let Some(listener) = &self.listener {
            listener(record.events());
        }
        Some(room)
    }

    /// A mutator inside the gate stops here if it is asked to. As for [`Scavenge::collect`].
    #[cold]
    pub fn poll(&self) {
        self.gate.leave();
        self.gate.enter();
    }

    /// Whether there is room for `bytes` bytes afterwards, and what happened.
    fn stop_and_collect(
        &self,
        state: &mut State,
        extent: Extent,
        reason: &'static str,
        bytes: usize,
    ) -> (bool, Record) {
        let broken = StopsTheProcess;
        let mut record = Record::new(self.epoch() + 1);
        record.step(Phase::Start, |event| event.reason = reason);
        let started = clock::monotonic_ns();
        record.step(Phase::StopWorld, |event| {
            self.gate.close();
            self.set_polls(state, 1);
            self.gate.drain();
            event.objects = state.mutators.len() as u64;
        });
        self.collect_stopped(state, &mut record, extent);
        self.epoch.fetch_add(1, Ordering::Relaxed);
        let room = self.has_room(bytes);
        record.step(Phase::ResumeWorld, |_| {
            self.set_polls(state, 0);
            self.gate.open();
        });
        let stopped = clock::monotonic_ns() - started;
        state.totals.stopped_ns += stopped;
        state.totals.longest_stop_ns = state.totals.longest_stop_ns.max(stopped);
        record.step(Phase::End, |event| {
            event.bytes = self.used() as u64;
            event.reason = reason;
        });
        record.set_last_duration(stopped);
        publish(state, &record);
        core::mem::forget(broken);
        (room, record)
    }

    fn collect_stopped(&self, state: &mut State, record: &mut Record, extent: Extent) {
        self.retire_tlabs(state);
        self.verify(state, record);
        let why = match (extent, state.wants_full) {
            (Extent::Full, _) => Some("everything was asked for"),
            (Extent::Young, Some(why)) => Some(why),
            (Extent::Young, None) if self.scavenge(state, record) => None,
            (Extent::Young, None) => Some("a promotion found no room"),
        };
        if let Some(why) = why {
            self.collect_fully(state, record, why);
        }
        self.poison_free_memory();
        self.verify(state, record);
    }

    fn retire_tlabs(&self, state: &mut State) {
        for mutator in &mut state.mutators {
            // SAFETY: attached mutators exist, and they are stopped.
            let mutator = unsafe { mutator.as_mut() };
            mutator.allocated_bytes -= mutator.tlab.left() as u64;
            // SAFETY: as above.
            unsafe { mutator.tlab.retire() };
        }
    }

    fn set_polls(&self, state: &State, value: u32) {
        for mutator in &state.mutators {
            // SAFETY: attached mutators exist; the word is atomic.
            unsafe { &(*mutator.as_ptr()).poll }.store(value, Ordering::Relaxed);
        }
    }

    /// Collects the young generation; whether everything found room.
    fn scavenge(&self, state: &mut State, record: &mut Record) -> bool {
        let complete = record.step(Phase::Copy, |event| {
            let complete = self.copy_young(state);
            let (mut survived, mut promoted, mut objects) = (0, 0, 0);
            for share in state.engine.shares() {
                survived += core::mem::take(&mut share.survived);
                promoted += core::mem::take(&mut share.promoted);
                objects += core::mem::take(&mut share.objects);
            }
            state.totals.survived_bytes += survived as u64;
            state.totals.promoted_bytes += promoted as u64;
            state.promoted_lately = collection::moving_average(state.promoted_lately, promoted);
            event.bytes = (survived + promoted) as u64;
            event.objects = objects as u64;
            complete
        });
        state.totals.scavenges += 1;
        if complete {
            self.nursery.flip();
            let decision = collection::next_extent(&Measurements {
                old_free: self.old.region.free(),
                promoted_lately: state.promoted_lately,
            });
            state.wants_full = decision.full.then_some(decision.reason);
        }
        complete
    }

    /// Marks everything and slides it together.
    fn collect_fully(&self, state: &mut State, record: &mut Record, why: &'static str) {
        record.step(Phase::Mark, |event| {
            self.mark_all(state);
            event.reason = why;
            event.objects = state
                .engine
                .shares()
                .map(|share| core::mem::take(&mut share.objects) as u64)
                .sum();
        });
        let ends = record.step(Phase::Plan, |_| self.make_plan());
        record.step(Phase::Update, |_| self.update_all(state));
        record.step(Phase::Slide, |event| {
            self.slide_all(ends);
            event.bytes = self.used() as u64;
        });
        state.totals.full_collections += 1;
        // Objects that fit nowhere else are in the survivor spaces: nothing can be copied there.
        let [_, first, second] = self.nursery.regions();
        let occupied = first.used() + second.used() > 0;
        state.wants_full = occupied.then_some("objects are left in the survivor spaces");
    }

    fn poison_free_memory(&self) {
        if !self.config.poison {
            return;
        }
        for region in self.regions() {
            let (top, end): (Address, Address) = (region.top(), region.end());
            // SAFETY: nothing above the top is in use in a stopped world.
            unsafe { zero::fill(top, end.offset_from(top), POISON) };
        }
    }

    fn verify(&self, state: &mut State, record: &mut Record) {
        if self.config.verify == Verify::Edges {
            record.step(Phase::Verify, |event| {
                event.objects = self.verify_heap(state) as u64
            });
        }
    }
}

/// A mutator that is outside of the gate goes in again, also when a listener panics.
struct Outside<'a>(&'a PollGate);

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.0.enter();
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

fn publish_event(state: &mut State, event: &Event) {
    state.events.push(event);
    if let Some(log) = state.log {
        let mut line = LineBuffer::<512>::new();
        log.write_all(event.write_line(threads::current_process() as u32, &mut line));
    }
}
