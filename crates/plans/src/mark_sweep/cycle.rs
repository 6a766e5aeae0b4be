//! Incremental marking: a cycle of steps beside the program, from the stop in which a collection began to the one in which
//! it ends (ISMM 2000, section 6, *incremental*). [`super::decide::cycle`] says when.
//!
//! Marks are cleared or kept, as the collection is of everything or of new objects, and all pages with pointers are watched
//! in the first stop, which scans the roots. Then the allocator lock alone protects a step from others that allocate:
//! threads may write to objects while these are scanned, and what they write is found by the pages. Objects are born
//! unmarked, so those of the cycle are looked at in another stop, as in a collection of new objects; so is what old objects
//! on written pages refer to. Where that takes too long, the rest is marked in steps again: all that was there is old then.
//!
//! Where other threads run, a step reads words of objects and nothing else: a client's mark procedure may not be ready for
//! objects that others are writing. What such a procedure leads to is found in the next stop. Where none does, a step is
//! a stop for it; but it is asked in the next stop again, since nobody knows whether what it reads was written.
//!
//! # Invariants
//! - While a cycle is under way: each marked object either is grey (on a mark stack, or in a block that is flagged to be
//!   scanned again), or was scanned since its page was last known to be written, or is of a kind whose objects are all
//!   looked at in the last stop.
//! - Between steps no helper is at work, and what is grey lies on the leader's stack or in outboxes.
//! - A cycle whose writes the kernel has lost, or whose marks the client changed, is given up: everything is collected in
//!   a stop.
//!
//! Runs under the allocator lock; steps on the thread that allocates and on helpers, in the running world.

use gleaner_base::events::{Event, PROCESSOR_LOST, Phase};
use gleaner_base::options::MarkGenerations;
use gleaner_os::clock;
use gleaner_os::written::PAGE_BYTES;

use crate::mark_sweep::collect::Request;
use crate::mark_sweep::decide::cycle::{self, Marking, Measurements, Progress};
use crate::mark_sweep::decide::extent::Extent;
use crate::mark_sweep::decide::heap_size;
use crate::mark_sweep::heap::Heap;
use crate::shared::record::Record;

/// How a cycle stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycle {
    state: State,
    progress: Progress,
    /// Stops in which marking was put off, the first among them.
    stops: u32,
    /// Whether it adds to marks that were kept.
    of_new: bool,
    /// What had been handed out when it began, and in its last stop.
    handed_first: usize,
    /// See `handed_first`.
    handed_before: usize,
    /// The heap's capacity when it began, to which it returns.
    capacity: usize,
    /// How many workers take part, and why: as the collection that began was given.
    workers: (usize, &'static str),
    /// Bytes that all of it was expected to scan, and that were scanned before the last stop ended.
    whole: usize,
    /// See `whole`.
    scanned: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    None,
    Marking,
    /// Everything is marked but what the next stop finds.
    Marked,
}

/// What a cycle had come to when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// There was none.
    None,
    /// Its marks hold.
    Marked,
    /// Its marks hold, and what is grey is left to be scanned.
    Early,
}

impl Cycle {
    /// None is under way.
    pub const fn new() -> Cycle {
        Cycle {
            state: State::None,
            progress: Progress {
                expected: 0,
                scanned: 0,
                allowance: 0,
                most: 0,
                allocated: 0,
                in_all: 0,
            },
            stops: 0,
            of_new: false,
            handed_first: 0,
            handed_before: 0,
            capacity: 0,
            workers: (1, ""),
            whole: 0,
            scanned: 0,
        }
    }

    /// Whether marking is under way.
    pub fn is_under_way(&self) -> bool {
        self.state != State::None
    }

    /// Whether nothing is left but another stop.
    pub fn can_end(&self) -> bool {
        self.state == State::Marked
    }

    /// Whether it adds to marks that were kept.
    pub fn is_of_new(&self) -> bool {
        self.of_new
    }

    /// Bytes that its stops and steps have scanned.
    pub(crate) fn scanned(&self) -> usize {
        self.scanned + self.progress.scanned
    }

    /// The capacity of a heap that has grown while this was under way to `now`, of which it uses so much.
    pub(crate) fn capacity_after(&self, now: usize, used: usize) -> usize {
        match self.state {
            State::None => now,
            State::Marking | State::Marked => self.capacity.max(used).min(now),
        }
    }

    /// What it has come to.
    pub(crate) fn ended(&self) -> Ended {
        match self.state {
            State::None => Ended::None,
            State::Marking => Ended::Early,
            State::Marked => Ended::Marked,
        }
    }
}

/// Nanoseconds of a step under `stress=N`, where steps are to be many.
const STRESS_STEP_NS: u64 = 20_000;

impl Heap {
    /// Decides how a collection of `extent` is marked, before which there was this `cycle`, and old objects on so many
    /// `pages` were written.
    pub(crate) fn decide_marking(
        &self,
        request: &Request<'_>,
        extent: Extent,
        cycle: &Cycle,
        pages: usize,
    ) -> Marking {
        let steps = matches!(
            self.mode,
            MarkGenerations::Incremental | MarkGenerations::Auto
        );
        if !steps || self.space.written.is_none() {
            return Marking::InStop;
        }
        let room = match self.settings.limit {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.space.used_bytes()),
        }
        .min(self.left().unwrap_or(usize::MAX));
        let goes_on = matches!(extent, Extent::Stepped(_) | Extent::SteppedNew(_));
        let fits = self.settings.may_grow && room >= self.most_in_cycle();
        let m = Measurements {
            limit_ns: self.settings.time_limit_ns,
            expected: self.expected(extent, cycle, pages, false),
            at_most: self.expected(extent, cycle, pages, true) + self.revived(),
            scanned: self.totals.last_scanned,
            took_ns: self.totals.last_marking_ns,
            possible: fits
                && !request.everything
                && !request.finds_leaks
                // One that could not keep pace, or was given up, is not tried again at once.
                && match goes_on {
                    true => {
                        cycle.ended() == Ended::Marked && !cycle::is_overdue(&self.progress(cycle))
                    }
                    false => cycle.ended() == Ended::None,
                },
            stops: cycle.stops,
            in_stop_alone: goes_on && self.context.has_client_procs(),
            steps_asked: request.in_steps && !goes_on,
            even_if_small: self.options.stress != 0 && !extent.keeps_marks(),
        };
        cycle::begin(&m)
    }

    /// Bytes that a collection is expected to scan; if `all` that was allocated lives.
    fn expected(&self, extent: Extent, cycle: &Cycle, pages: usize, all: bool) -> usize {
        let before = match extent {
            Extent::Stepped(_) | Extent::SteppedNew(_) => cycle.handed_before,
            Extent::New(_) | Extent::Everything(_) => 0,
        };
        let allocated = self.space.account.handed.saturating_sub(before);
        let lives = match all {
            true => allocated,
            false => self.generations.surviving(allocated),
        };
        let census = &self.space.census;
        let share = match census.live_bytes() {
            0 => 1.0,
            live => census.composite_bytes as f64 / live as f64,
        };
        let new = (lives as f64 * share) as usize;
        match extent {
            Extent::Everything(_) => census.composite_bytes + new,
            _ => new + pages * PAGE_BYTES,
        }
    }

    /// Bytes that are to be scanned for finalizers if as much becomes ready as lately.
    fn revived(&self) -> usize {
        match self.weak.finalizers.count() {
            0 => 0,
            _ => self.totals.revived,
        }
    }

    /// Bytes that are to be allocated during a round of a cycle, at the most.
    fn most_in_cycle(&self) -> usize {
        let interval = heap_size::least_between_collections(&self.measure(0, 0));
        (interval / cycle::ALLOWANCE).max(heap_size::LEAST_GROWTH)
    }

    /// The world goes on with what is grey, after a stop in which so many bytes were `scanned`.
    pub(crate) fn begin_cycle(
        &mut self,
        extent: Extent,
        before: &Cycle,
        scanned: usize,
        request: &Request<'_>,
    ) {
        let goes_on = matches!(extent, Extent::Stepped(_) | Extent::SteppedNew(_));
        // Blocks of new objects were asked about as all others were.
        self.space.forget_fresh();
        self.space.born_marked = false;
        self.space.marked_in_steps = true;
        let most = self.most_in_cycle();
        let found = self.expected(extent, before, self.generations.written, false);
        let (whole, scanned) = match goes_on {
            true => (before.whole + found, before.scanned() + scanned),
            false => (found, scanned),
        };
        let expected = found.max(whole.saturating_sub(scanned));
        self.cycle = Cycle {
            state: State::Marking,
            progress: Progress {
                expected,
                allowance: cycle::allowance(expected, most),
                most,
                ..Progress::default()
            },
            stops: if goes_on { before.stops + 1 } else { 1 },
            of_new: extent.is_of_new(),
            handed_first: match goes_on {
                true => before.handed_first,
                false => self.space.account.handed,
            },
            capacity: match goes_on {
                true => before.capacity,
                false => self.space.capacity,
            },
            handed_before: self.space.account.handed,
            workers: request.workers,
            whole,
            scanned,
        };
        self.turns += 1;
        self.totals.cycles += u64::from(!goes_on);
    }

    /// How a cycle stands.
    fn progress(&self, cycle: &Cycle) -> Progress {
        let handed = self.space.account.handed;
        Progress {
            allocated: handed.saturating_sub(cycle.handed_before),
            in_all: handed.saturating_sub(cycle.handed_first),
            ..cycle.progress
        }
    }

    /// Marks a little where a cycle is under way and that is due; whether the cycle is to be ended now.
    pub fn step_if_due(&mut self) -> bool {
        if !self.cycle.is_under_way() {
            return false;
        }
        let due = self.options.stress != 0 || cycle::is_step_due(&self.progress(&self.cycle));
        if due && !self.cycle.can_end() {
            self.step();
        }
        self.cycle.can_end()
    }

    /// Whether the cycle that is under way has to be ended, marked or not.
    pub(crate) fn is_cycle_overdue(&self) -> bool {
        self.cycle.can_end() || cycle::is_overdue(&self.progress(&self.cycle))
    }

    /// Marks a little of the cycle that is under way.
    pub fn step(&mut self) {
        if self.cycle.state != State::Marking {
            return;
        }
        let limit = self.settings.time_limit_ns.unwrap_or(u64::MAX);
        let quantum = match self.options.stress {
            0 => cycle::step_ns(limit),
            _ => STRESS_STEP_NS,
        };
        let workers = self.cycle.workers;
        let mut record = Record::new(self.collections + 1);
        let is_lost = record.step(Phase::MarkStep, |event| {
            // The time by which the step ends is that of the program, which waits: the processor's says why it was late.
            let own = clock::thread_cpu_ns();
            let deadline = event.start_ns.saturating_add(quantum);
            self.mark_beside(deadline, workers, event);
            let took = clock::monotonic_ns() - event.start_ns;
            let is_lost = cycle::lost_processor(took, clock::thread_cpu_ns() - own, quantum);
            if is_lost {
                event.reason = PROCESSOR_LOST;
            }
            is_lost
        });
        let took = record.duration(Phase::MarkStep);
        self.totals.steps += 1;
        self.totals.steps_lost += u64::from(is_lost);
        self.totals.stepping_ns += took;
        self.totals.longest_step_ns = self.totals.longest_step_ns.max(took);
        self.publish(&record);
    }

    fn mark_beside(
        &mut self,
        deadline: u64,
        (workers, reason): (usize, &'static str),
        event: &mut Event,
    ) {
        let available = self.available(workers);
        event.reason = reason;
        event.workers = available as u32;
        event.objects = deadline - event.start_ns;
        self.context.world_runs = self.mutators.others_run();
        self.context.may_pause = true;
        let marked =
            self.engine
                .mark_until(deadline, self.crew, available, &self.space, &self.context);
        self.context.world_runs = false;
        self.context.may_pause = false;
        if marked {
            self.cycle.state = State::Marked;
            event.reason = "everything is marked but what the next stop finds";
        }
        let outcome = self.engine.finish(&self.context);
        event.bytes = outcome.scanned_bytes as u64;
        self.totals.dropped_entries += outcome.dropped as u64;
        self.cycle.progress.scanned += outcome.scanned_bytes;
    }

    /// Gives up the cycle that is under way, where collections were forbidden meanwhile: objects that are freed would wait
    /// for its end. Those that do go now.
    pub fn give_up_cycle(&mut self) {
        if core::mem::take(&mut self.cycle).is_under_way() {
            self.engine.forget_grey(&self.context);
            self.space.marked_in_steps = false;
            self.generations.marks_hold = false;
            self.space.free_waiting();
        }
    }
}
