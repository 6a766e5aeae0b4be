//! A collection, step by step: stop, roots, mark, weak, resume, reclaim, resize.
//!
//! Reclaiming reads marks and descriptors only, so it follows the resumption: the pause ends with weak processing.
//!
//! The collecting thread runs all of it under the allocator lock; helpers take part in marking. Between stop and
//! resume nothing of ours calls malloc or takes a lock that a stopped thread may hold (I1); the client's callbacks are
//! bound by their own contract.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::reasons::{ABANDONED, NOTHING_FREED, UNANSWERED};
use gleaner_base::events::{Event, Phase};
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::goals::Stop;
use gleaner_base::options::Verify;
use gleaner_mem::Address;
use gleaner_os::{clock, threads};
use gleaner_spaces::mark_sweep::Stage;
use gleaner_spaces::mark_sweep::mark::Until;
use gleaner_spaces::mark_sweep::reclaim::Ageing;
use gleaner_spaces::mark_sweep::scan::{Entry, MarkMode};
use gleaner_spaces::mark_sweep::settle::Waiting;

use crate::mark_sweep::cycle::Cycle;
use crate::mark_sweep::decide::cycle::{self as decide, Marking};
use crate::mark_sweep::decide::extent::Extent;
use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::mutator::Mutator;
pub use crate::mark_sweep::request::{Client, Moment, Outcome, Request};
use crate::mark_sweep::stack_bounds::LeaderStack;
use crate::mark_sweep::stop::signal;
use crate::mark_sweep::tracing::Tracing;
use crate::mark_sweep::weak;
use crate::shared::record::Record;

/// Bytes from which the time that marking took says how long it takes.
const WORTH_MEASURING: usize = 256 << 10;

/// Ready finalizers below which helpers are not woken to mark what these need.
const FEW_READY: usize = 256;

/// Where there is a deadline the world may go on before everything is marked.
fn mode_until(deadline: Option<u64>) -> MarkMode {
    match deadline {
        None => MarkMode::Whole,
        Some(_) => MarkMode::MayPause,
    }
}

/// What a part of a stop has marked.
#[derive(Clone, Copy, Debug)]
struct Marked {
    /// Whether nothing is grey any more.
    is_all: bool,
    /// Bytes that were scanned.
    bytes: usize,
}

impl Heap {
    /// Runs a collection, whose steps are methods: those up to the resumption in `collect_stopped`.
    pub fn collect(&mut self, mut request: Request<'_>, client: &dyn Client) -> Outcome {
        let mut record = self.begin(&mut request, client);
        let started = clock::monotonic_ns();
        // A thread may lose its processor when it asks for that: before the stop here, and after it below.
        let began_ns = clock::process_cpu_ns();
        let Some(mut world) = self.stop(&mut record, client) else {
            return self.give_stop_up(&mut record, started, client);
        };
        let outcome = self.collect_stopped(&mut record, &mut world, (&request, started), client);
        self.space.stage = match outcome {
            Outcome::Done => Stage::Marked,
            _ => Stage::Between,
        };
        self.resume(&mut record, world, client);
        let used_ns = clock::process_cpu_ns().saturating_sub(began_ns);
        // A snapshot is the user's, and no cost of collecting.
        let written = record.duration(Phase::Snapshot);
        let stopped = record.stopped_ns().saturating_sub(written);
        match outcome {
            Outcome::Done => {
                self.count_allocation(&mut record);
                self.reclaim(&mut record, &request, client);
                self.weigh_watch(&mut record, &request, used_ns);
                self.finish(&mut record, started, stopped, &request);
                self.note_collection();
            }
            Outcome::Begun => drop(self.count_stop(&record, started, stopped)),
            Outcome::Abandoned => self.give_up(&mut record, started, NOTHING_FREED),
            Outcome::LibrariesChanged => {}
        }
        // Where blocks are reclaimed, not before: until then the blocks of such a thread's free cells must stay owned.
        self.forget_gone_threads();
        self.publish(&record);
        self.end(outcome, client);
        outcome
    }

    /// A thread did not stop, and nobody waits for it: those that did go on, and nothing was done.
    #[cold]
    fn give_stop_up(&mut self, record: &mut Record, started: u64, client: &dyn Client) -> Outcome {
        record.step(Phase::ResumeWorld, |_| {});
        self.give_up(record, started, UNANSWERED);
        self.forget_gone_threads();
        self.publish(record);
        self.end(Outcome::Abandoned, client);
        Outcome::Abandoned
    }

    /// The collection ends here, and nothing comes of it.
    fn give_up(&mut self, record: &mut Record, started: u64, reason: &'static str) {
        record.step(Phase::End, |event| event.reason = reason);
        record.set_last_duration(clock::monotonic_ns() - started);
        self.note_abandoned();
    }

    /// What comes before the stop.
    fn begin(&mut self, request: &mut Request<'_>, client: &dyn Client) -> Record {
        let mut record = Record::new(self.collections + 1);
        self.note_begin(request.reason);
        self.record_start(&mut record, request);
        self.record_lazy_sweeping(&mut record);
        if let Some(marked) = self.take_marked_beside(record.collection()) {
            record.add(marked);
        }
        self.roots.replace_libraries(request.libraries);
        if !request.again {
            client.settle_toggle_refs(self);
        }
        if !core::mem::replace(&mut self.start_told, true) {
            client.moment(self, Moment::Start);
        }
        record
    }

    /// What comes last: where nothing goes on, the client hears of the end.
    fn end(&mut self, outcome: Outcome, client: &dyn Client) {
        let is_abandoned = outcome == Outcome::Abandoned && !self.cycle.is_under_way();
        if is_abandoned {
            self.space.free_waiting();
        }
        if is_abandoned || outcome == Outcome::Done {
            self.start_told = false;
            client.moment(self, Moment::End);
        }
    }

    /// The steps of a stop, in the order of their phases.
    fn collect_stopped(
        &mut self,
        record: &mut Record,
        world: &mut WorldStopped<'_>,
        (request, started): (&Request<'_>, u64),
        client: &dyn Client,
    ) -> Outcome {
        if let Some(refused) = self.refuses(record, world, request, client) {
            return refused;
        }
        client.moment(self, Moment::MarkStart);
        let (extent, marking, cycle) = self.decide_extent(record, request);
        let is_whole = marking == Marking::InStop && !extent.keeps_marks();
        self.choose_prefetching(record, is_whole, request.workers.1);
        self.prepare_marks(record, world, (extent, marking));
        let deadline = match marking {
            Marking::InStop => None,
            Marking::For(nanoseconds) => Some(started.saturating_add(nanoseconds)),
        };
        let mut marked = self.marking(mode_until(deadline), |heap| {
            heap.push_roots(record, world, request.stack_pointer, client);
            if extent.keeps_marks() {
                heap.engine.look_again();
            }
            heap.mark(record, request.workers, deadline)
        });
        if marked.is_all && (client.wants_to_stop(self) || self.stacks_were_hidden) {
            if extent.keeps_marks() {
                self.record_end(record, &cycle, ABANDONED);
            }
            return Outcome::Abandoned;
        }
        let is_decided = marked.is_all;
        if is_decided {
            let revived = self.process_weak(record, world, request.workers, deadline);
            marked.is_all = revived.is_all;
            marked.bytes += revived.bytes;
        }
        if marked.is_all {
            client.moment(self, Moment::MarkEnd);
            self.verify_marks(record, world, request.stack_pointer, client);
            self.take_snapshot(record, world, request, client);
            self.note_marked(record, world, extent, (cycle, marked.bytes));
        } else {
            self.begin_cycle(record, extent, (&cycle, marked.bytes), request);
        }
        if is_decided {
            self.tell_of_finalizers(client);
        }
        match marked.is_all {
            true => Outcome::Done,
            false => Outcome::Begun,
        }
    }

    /// Why the stop ends before anything was done, if it does.
    fn refuses(
        &mut self,
        record: &mut Record,
        world: &WorldStopped<'_>,
        request: &Request<'_>,
        client: &dyn Client,
    ) -> Option<Outcome> {
        let changed = faults::armed(FaultPoint::LibraryListChanged);
        if changed || !self.roots.libraries_are_current(world) {
            if !request.last_attempt {
                return Some(Outcome::LibrariesChanged);
            }
            if !self.roots.settle_libraries(world) {
                return Some(Outcome::Abandoned);
            }
        }
        if client.wants_to_stop(self) {
            return Some(Outcome::Abandoned);
        }
        if self.has_hidden_stacks() {
            // Before free cells are taken from their lists: no collection would return them.
            self.give_up_cycle_in_stop(record, ABANDONED);
            return Some(Outcome::Abandoned);
        }
        None
    }

    /// Runs `mark` with markers in another mode than that in which everything is marked in a stop.
    pub(crate) fn marking<R>(&mut self, mode: MarkMode, mark: impl FnOnce(&mut Heap) -> R) -> R {
        self.context.mode = mode;
        let result = mark(self);
        // Also where a callback of the client has left an earlier marking by a jump.
        self.context.mode = MarkMode::Whole;
        result
    }

    /// Everything is marked: what the next collections build on.
    fn note_marked(
        &mut self,
        record: &mut Record,
        _: &WorldStopped<'_>,
        extent: Extent,
        (cycle, bytes): (Cycle, usize),
    ) {
        if extent.keeps_marks() {
            self.space.forget_fresh();
        }
        self.extent = extent;
        self.generations.note_scanned(extent, &cycle, bytes);
        self.record_marked(record, &cycle, extent);
        if extent.keeps_marks() {
            self.note_last_stop(record, &cycle);
        }
        self.ended_cycle = cycle;
        self.collections += 1;
        self.turns += 1;
        self.engine.release_stacks();
    }

    /// Stops the world; nothing if the client waits for no thread, and one does not stop.
    fn stop(&mut self, record: &mut Record, client: &dyn Client) -> Option<WorldStopped<'static>> {
        client.moment(self, Moment::PreStopWorld);
        self.note_stop();
        let world = record.step(Phase::StopWorld, |event| {
            let signal = self.settings.suspend_signal;
            event.objects = self.mutators.count() as u64;
            event.goal_ns = self.stop_goal_ns();
            if !client.waits_for_threads() {
                // SAFETY: who has the heap to change holds the allocator lock, until after `resume`.
                return unsafe { signal::try_stop_world(self.world, &self.mutators, signal) };
            }
            // SAFETY: who has the heap to change holds the allocator lock, until after `resume`.
            let stopped = unsafe { signal::stop_world(self.world, &self.mutators, signal) };
            Some(stopped.unwrap_or_else(|refused| client.cannot_stop(refused)))
        })?;
        client.moment(self, Moment::PostStopWorld);
        self.tell_of_threads(Moment::ThreadSuspended, client);
        Some(world)
    }

    fn resume(&mut self, record: &mut Record, world: WorldStopped<'_>, client: &dyn Client) {
        self.tell_of_threads(Moment::ThreadUnsuspended, client);
        client.moment(self, Moment::PreStartWorld);
        record.step(Phase::ResumeWorld, |_| {
            signal::resume_world(self.world, world)
        });
        client.moment(self, Moment::PostStartWorld);
    }

    fn tell_of_threads(&mut self, moment: Moment, client: &dyn Client) {
        let own = threads::current_tid();
        // SAFETY: null is allowed: it asks for the first record.
        let mut at = unsafe { self.mutators.after(core::ptr::null_mut()) };
        while let Some(thread) = at {
            // SAFETY: records stay mapped, and the lock guards these fields.
            let (tid, blocked) = unsafe { ((*thread).tid, (*thread).is_blocked()) };
            if tid != own && !blocked {
                client.thread_moment(self, moment, thread);
            }
            // SAFETY: the record comes from the list.
            at = unsafe { self.mutators.after(thread) };
        }
    }

    /// Threads that ended without unregistering are forgotten; their cells go to the shared lists.
    fn forget_gone_threads(&mut self) {
        while let Some(thread) = self.mutators.find(|thread| thread.gone) {
            // SAFETY: the record comes from the list, and its thread has ended.
            unsafe { self.retire(thread) };
        }
    }

    /// Ends the use of a thread's record: its cells go to the shared lists.
    ///
    /// # Safety
    /// The record must come from this heap's list. Its thread must have ended, or be the calling one and not use the
    /// record again.
    pub unsafe fn retire(&mut self, thread: *mut Mutator) {
        // SAFETY: the record comes from the list, so it stays mapped, and its thread uses it no more, as asked.
        unsafe {
            self.unknown_remain |= (*thread).shows_unknown;
            self.space.adopt_cells(&raw mut (*thread).cache);
            self.mutators.vacate(thread);
        }
    }

    /// Clears the marks, or keeps them. What callbacks of the client allocate is born marked from now on.
    fn prepare_marks(
        &mut self,
        record: &mut Record,
        world: &WorldStopped<'_>,
        (extent, marking): (Extent, Marking),
    ) {
        let waiting = match (marking, extent) {
            (Marking::InStop, _) => Waiting::TakenBack,
            (_, Extent::Everything(_) | Extent::New(_)) => Waiting::Settled,
            (_, Extent::Stepped(_) | Extent::SteppedNew(_)) => Waiting::Stays,
        };
        record.step(Phase::ClearMarks, |_| {
            match extent {
                Extent::Everything(_) => {
                    let own = threads::current_tid();
                    if let Some(thread) = self.mutators.find(|it| !it.gone && it.tid == own) {
                        // SAFETY: the record is the calling thread's, which is changing no list.
                        unsafe { self.space.take_over_freed(&raw mut (*thread).cache) };
                    }
                    self.space.clear_marks(waiting);
                    self.context
                        .descriptors
                        .forget(self.space.written.is_some());
                }
                Extent::New(_) | Extent::Stepped(_) | Extent::SteppedNew(_) => {
                    self.space.keep_marks(waiting)
                }
            }
            self.mutators.for_each_stopped(world, |thread| {
                // SAFETY: the thread does not run, or is the calling one.
                unsafe { self.space.keep_listed_cells(&raw const (*thread).cache) };
            });
        });
        self.space.stage = Stage::Marking;
    }

    fn push_roots(
        &mut self,
        record: &mut Record,
        _: &WorldStopped<'_>,
        stack_pointer: Address,
        client: &dyn Client,
    ) {
        record.step(Phase::Roots, |event| {
            let mut bytes = 0;
            self.roots.for_each(|range| {
                bytes += range.bytes();
                // SAFETY: data segments and registered ranges are readable; the world is stopped.
                unsafe { self.engine.push_range(range.low, range.high) };
            });
            self.push_inner_roots();
            self.leader_stack = Some(LeaderStack {
                pointer: stack_pointer,
                scanned: None,
            });
            client.push_other_roots(self);
            let scanned = self.leader_stack.and_then(|stack| stack.scanned);
            bytes += scanned.unwrap_or_else(|| self.push_stacks(client));
            self.leader_stack = None;
            bytes += self.push_unnamed_stacks(stack_pointer);
            self.root_bytes = bytes;
            event.bytes = bytes as u64;
        });
    }

    fn push_inner_roots(&self) {
        self.space
            .for_each_inner_root(|start, descriptor| self.push_entry(start, descriptor));
        for (_, result) in &self.thread_results {
            self.engine.visit_any(result.word());
        }
        self.weak
            .for_each_root(&mut |root| self.engine.visit_any(root.word()));
    }

    /// Pushes an object whose contents are to be scanned; scans at once what fits no more, if there is time for that.
    pub(crate) fn push_entry(&self, start: Address, descriptor: usize) {
        let entry = Entry {
            start: start.word(),
            descriptor,
        };
        if self.context.mode.may_pause() {
            self.engine.push_or_drop(entry);
        } else if !self.engine.push(entry) {
            self.engine.drain(self.crew, 1, &self.space, &self.context);
            self.engine.push(entry);
        }
    }

    /// Marks, until the deadline if there is one.
    fn mark(
        &mut self,
        record: &mut Record,
        (workers, reason): (usize, &'static str),
        deadline: Option<u64>,
    ) -> Marked {
        let available = self.available(workers);
        let (is_all, outcome) = record.step(Phase::Mark, |event| {
            let is_all = self.mark_grey(available, deadline);
            let outcome = self.engine.finish(&self.context);
            event.bytes = outcome.scanned_bytes as u64;
            event.objects = outcome.scanned as u64;
            event.workers = available as u32;
            event.reason = reason;
            (is_all, outcome)
        });
        let took = record.duration(Phase::Mark);
        self.note_overflow(record, outcome.dropped, "a mark stack was full");
        if is_all {
            self.note_marking(available, outcome.scanned_bytes, took);
        }
        if is_all && outcome.scanned_bytes >= WORTH_MEASURING {
            let before = (self.totals.last_scanned, self.totals.last_marking_ns);
            self.totals.last_scanned = outcome.scanned_bytes;
            self.totals.last_marking_ns = decide::remember(outcome.scanned_bytes, took, before);
        }
        Marked {
            is_all,
            bytes: outcome.scanned_bytes,
        }
    }

    /// How many of the `workers` workers that are wanted there are.
    pub(crate) fn available(&self, workers: usize) -> usize {
        workers
            .min(self.crew.helpers() + 1)
            .min(self.engine.ready())
    }

    /// Marks what is grey and what it leads to, until the deadline if there is one; whether that was all.
    pub(crate) fn mark_grey(&self, workers: usize, deadline: Option<u64>) -> bool {
        let (engine, crew, space, context) = (&self.engine, self.crew, &self.space, &self.context);
        match deadline {
            Some(deadline) => {
                engine.mark_until(Until::time(deadline), crew, workers, space, context)
            }
            None => {
                engine.drain(crew, workers, space, context);
                true
            }
        }
    }

    fn note_overflow(&mut self, record: &mut Record, dropped: usize, reason: &'static str) {
        if dropped > 0 {
            record.step(Phase::Overflow, |event| {
                event.objects = dropped as u64;
                event.reason = reason;
            });
            self.totals.dropped_entries += dropped as u64;
        }
    }

    /// Settles what becomes of dead objects. What finalizers still need of them is marked until the deadline, if there is
    /// one; where that is not all, steps go on with it and another stop settles the rest.
    fn process_weak(
        &mut self,
        record: &mut Record,
        _: &WorldStopped<'_>,
        (workers, _): (usize, &'static str),
        deadline: Option<u64>,
    ) -> Marked {
        let mut weak = core::mem::take(&mut self.weak);
        let settings = weak::Settings {
            java_finalization: self.settings.java_finalization,
        };
        let (is_all, outcome) = record.step(Phase::Weak, |event| {
            let mut outcome = weak.decide(&mut Tracing::new(self), settings);
            event.objects = outcome.newly_ready as u64;
            let workers = match outcome.newly_ready {
                0..FEW_READY => 1,
                _ => self.available(workers),
            };
            event.workers = workers as u32;
            let has_ready = outcome.newly_ready > 0;
            let deadline =
                deadline.filter(|_| has_ready && weak.may_be_put_off(&Tracing::new(self)));
            let is_all = !has_ready
                || self.marking(mode_until(deadline), |heap| {
                    heap.mark_grey(workers, deadline.map(|d| heap.revival_ends(d)))
                });
            if is_all {
                weak.settle(&mut Tracing::new(self), &mut outcome);
            }
            (is_all, outcome)
        });
        if self.options.verify == Verify::Edges
            && is_all
            && let Err(fault) = weak.verify(&Tracing::new(self))
        {
            panic!(
                "weak processing broke its promise: {} at {:?}",
                fault.rule, fault.address
            );
        }
        self.weak = weak;
        let traced = self.engine.finish(&self.context);
        self.totals.revived = traced.scanned_bytes.max(self.totals.revived / 5 * 4);
        let reason = "a mark stack was full in weak processing";
        self.note_overflow(record, traced.dropped, reason);
        self.finalization_cycle = self.finalization_cycle.or(outcome.cycle_example);
        self.note_weak(&outcome);
        self.totals.finalized += outcome.newly_ready as u64;
        Marked {
            is_all,
            bytes: traced.scanned_bytes,
        }
    }

    /// Until when that is marked which finalizers need, in a stop that may take until `deadline`: what takes no longer than
    /// a step is not worth another stop.
    fn revival_ends(&self, deadline: u64) -> u64 {
        let limit = self.limit_ns().unwrap_or(u64::MAX);
        deadline.max(clock::monotonic_ns().saturating_add(decide::step_ns(limit)))
    }

    /// Tells the client which objects this stop has made ready for finalization.
    fn tell_of_finalizers(&mut self, client: &dyn Client) {
        let mut index = 0;
        while let Some(object) = self.weak.finalizers.newly_ready(index) {
            client.awaits_finalization(self, object);
            index += 1;
        }
    }

    /// Begins a new count of what is allocated and freed. Threads' lists are walked, for which nobody has to wait: a thread that takes a
    /// cell meanwhile has taken it before or after.
    fn count_allocation(&mut self, record: &mut Record) {
        let allocated = self.view().allocated_bytes();
        record.set_start_bytes(allocated.wrapping_sub(self.allocated_before) as u64);
        self.allocated_before = allocated;
        self.freed_before = self.view().freed_bytes();
    }

    /// Queues and frees blocks. The world runs again, but a thread that needs shared memory waits for the lock; threads
    /// only use the blocks that they own, which are left alone.
    fn reclaim(&mut self, record: &mut Record, request: &Request<'_>, client: &dyn Client) {
        client.moment(self, Moment::ReclaimStart);
        let ageing = match request.release_all {
            true => Ageing::ReleaseAfter(1),
            // The next collection by itself comes when it would have come.
            false if self.is_collected_in_idle_time() => Ageing::Stays,
            false => Ageing::ReleaseAfter(self.settings.release_after),
        };
        self.space.stage = Stage::Reclaiming;
        let allocated = self.space.account.net_allocated();
        let capacity = self.space.capacity;
        let unused = self.unused_since_idle(capacity, self.held());
        self.note_cycle();
        let reclaimed = record.step(Phase::Reclaim, |event| {
            let reclaimed = self.space.reclaim(ageing);
            self.count_reclaimed();
            event.bytes = self.totals.last_reclaimed_bytes;
            event.objects = self.space.census.objects as u64;
            reclaimed
        });
        self.note_extent(self.extent, allocated);
        record.step(Phase::Sweep, |event| {
            event.objects = self.space.sweep_all() as u64
        });
        self.space.disclaim_all();
        self.verify_structure();
        record.step(Phase::Resize, |event| {
            let mut released = reclaimed.released_bytes + unused;
            if request.release_all {
                released += self.space.release_dirty(usize::MAX);
                self.give_addresses_back();
            }
            self.shrink(capacity, released, client);
            event.bytes = self.space.capacity as u64;
        });
        client.moment(self, Moment::ReclaimEnd);
        self.space.stage = Stage::Between;
    }

    /// What was allocated and not freed by the program, and does not live, was reclaimed. Dead cells are not counted: those
    /// that are free since an earlier collection are among them.
    fn count_reclaimed(&mut self) {
        let live = self.space.census.live_bytes();
        let kept = self.allocated_before.wrapping_sub(self.freed_before);
        let all = (kept.saturating_sub(live) as u64).max(self.totals.reclaimed_bytes);
        self.totals.last_reclaimed_bytes = all - self.totals.reclaimed_bytes;
        self.totals.reclaimed_bytes = all;
    }

    fn shrink(&mut self, before: usize, released: usize, client: &dyn Client) {
        let used = self.space.used_bytes();
        let ended = core::mem::take(&mut self.ended_cycle);
        let capacity = crate::mark_sweep::decide::heap_size::shrink(
            ended.capacity_after(self.space.capacity, used),
            used,
            released,
            self.space.initial_capacity,
        );
        if capacity < before {
            self.space.capacity = capacity;
            client.heap_resized(self, capacity);
        }
    }

    /// Under lazy sweeping the time is spent between collections; it is recorded at the start of the next.
    fn record_start(&self, record: &mut Record, request: &Request<'_>) {
        record.step(Phase::Start, |event| {
            event.reason = request.reason;
        });
        let mut libraries = Event::new(Phase::Libraries, record.collection());
        libraries.start_ns = request.libraries.read_at_ns;
        libraries.duration_ns = request.libraries.read_for_ns;
        libraries.objects = request.libraries.segments() as u64;
        record.add(libraries);
        if record.collection() == 1 {
            self.record_watch(record, "");
            record.step(Phase::ZeroingKernel, |event| {
                event.reason = self.space.zeroing.reason;
            });
        }
    }

    fn record_lazy_sweeping(&mut self, record: &mut Record) {
        let (blocks, nanoseconds) = (self.space.swept_blocks as u64, self.space.sweep_ns);
        if self.space.sweep_mode == gleaner_spaces::mark_sweep::SweepMode::Lazy && blocks > 0 {
            record.step(Phase::Sweep, |event| {
                event.objects = blocks;
                event.reason = "lazily, since the collection before";
            });
            record.set_last_duration(nanoseconds);
            self.totals.sweeping_ns += nanoseconds;
        }
    }

    /// Adds a stop to the totals; returns how long all of the collection took.
    fn count_stop(&mut self, record: &Record, started: u64, stopped: u64) -> u64 {
        let all = clock::monotonic_ns() - started;
        self.totals.stopped_ns += stopped;
        self.totals.stops += 1;
        self.totals.longest_stop_ns = self.totals.longest_stop_ns.max(stopped);
        let mut stop = Stop::default();
        for event in record.events() {
            stop.add(event.phase, event.duration_ns, event.goal_ns, event.reason);
        }
        self.totals.goals.note(&stop, stopped);
        let stopping = stop.stopping_ns();
        self.totals.stopping_ns += stopping;
        self.totals.longest_stopping_ns = self.totals.longest_stopping_ns.max(stopping);
        self.totals.collecting_ns += all;
        all
    }

    fn finish(&mut self, record: &mut Record, started: u64, stopped: u64, request: &Request<'_>) {
        self.totals.asked += u64::from(request.asked);
        let all = self.count_stop(record, started, stopped);
        self.totals.marking_ns += record.duration(Phase::Mark) + record.duration(Phase::Weak);
        let census = self.space.census;
        self.note_pace(record, started, stopped, census.live_bytes());
        let cpu_ns = self.program_cpu_ns();
        self.pacing.note_collection(cpu_ns);
        let live = census.live_bytes() as u64;
        self.totals.live_bytes += live;
        self.totals.live_by_allocated += live as f64 * record.bytes(Phase::Start) as f64;
        record.step(Phase::End, |event| {
            event.bytes = census.live_bytes() as u64;
            event.objects = census.objects as u64;
            event.reason = request.reason;
        });
        record.set_last_duration(all);
    }
}
