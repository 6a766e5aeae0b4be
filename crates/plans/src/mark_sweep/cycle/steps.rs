//! What a heap does in the steps of a cycle.

use gleaner_base::events::reasons::{IN_TIME, LATE, PROCESSOR_LOST};
use gleaner_base::events::{Event, Phase};
use gleaner_base::options::MarkGenerations;
use gleaner_os::written::PAGE_BYTES;
use gleaner_os::{clock, threads};
use gleaner_spaces::mark_sweep::Stage;
use gleaner_spaces::mark_sweep::mark::Until;
use gleaner_spaces::mark_sweep::scan::MarkMode;

use super::state::{Ahead, Cycle, Ended, STRESS_STEP_NS, State};
use crate::mark_sweep::decide::cycle::{self, Marking, Measurements, Progress, Spent};
use crate::mark_sweep::decide::extent::Extent;
use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::request::{Request, Wish};
use crate::shared::record::Record;

impl Heap {
    /// How long a stop may take if marking can be put off, in nanoseconds; 0 where nothing bounds it.
    pub(crate) fn stop_goal_ns(&self) -> u64 {
        let is_asked = self.makes_steps() && self.mode == MarkGenerations::Incremental;
        self.settings
            .time_limit_ns
            .filter(|_| is_asked)
            .unwrap_or(0)
    }

    /// Whether collections may be marked in steps.
    pub fn makes_steps(&self) -> bool {
        let is_wanted = match self.mode {
            MarkGenerations::Incremental => true,
            MarkGenerations::Auto => self.marks_beside(),
            _ => false,
        };
        is_wanted && self.space.written.is_some()
    }

    /// Decides how a collection of `extent` is marked. Before it there was this `cycle`, and old objects on `pages`
    /// pages were written.
    pub(crate) fn decide_marking(
        &self,
        wish: Wish,
        extent: Extent,
        cycle: &Cycle,
        pages: usize,
    ) -> Marking {
        if !self.makes_steps() {
            return Marking::InStop;
        }
        let goes_on = matches!(extent, Extent::Stepped(_) | Extent::SteppedNew(_));
        let begins_beside = self.mode == MarkGenerations::Auto && !goes_on;
        if begins_beside && (extent.keeps_marks() || !self.is_cycle_expected()) {
            return Marking::InStop;
        }
        let expected = self.expected(extent, cycle, pages, false);
        let m = Measurements {
            limit_ns: self.limit_ns(),
            expected,
            at_most: self.expected(extent, cycle, pages, true) + self.revived(),
            scanned: self.totals.last_scanned,
            took_ns: self.totals.last_marking_ns,
            possible: !wish.everything
                && !wish.finds_leaks
                // One that could not keep pace, or was given up, is not tried again at once.
                && match goes_on {
                    true => {
                        cycle.ended() == Ended::Marked && !cycle::is_overdue(&self.progress(cycle))
                    }
                    false => cycle.ended() == Ended::None,
                },
            stops: cycle.stops,
            ends_at_once: self.pacing.putting_off.is_in_vain(),
            in_stop_alone: goes_on && self.context.has_client_procs(),
            steps_asked: wish.in_steps && !goes_on || begins_beside,
            even_if_small: self.options.stress != 0 && !extent.keeps_marks(),
        };
        match cycle::begin(&m) {
            // To measure memory may take long, and most heaps are small.
            Marking::For(nanoseconds) if self.has_room_for(expected) => Marking::For(nanoseconds),
            _ => Marking::InStop,
        }
    }

    /// Whether limits leave room for what is allocated during a cycle in which `expected` bytes are to be scanned.
    fn has_room_for(&self, expected: usize) -> bool {
        let memory = self.measure(0, 0);
        let room = match memory.limit {
            0 => usize::MAX,
            limit => limit.saturating_sub(memory.used),
        };
        let room = room.min(memory.left.unwrap_or(usize::MAX));
        let room = room.saturating_add(self.space.unswept_bytes);
        memory.may_grow && room >= self.plan(expected, &memory).least
    }

    /// Bytes that a collection is expected to scan; if `all` that was allocated lives.
    pub(super) fn expected(&self, extent: Extent, cycle: &Cycle, pages: usize, all: bool) -> usize {
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

    /// The world goes on with what is grey, after a stop in which `scanned` bytes were scanned.
    pub(crate) fn begin_cycle(
        &mut self,
        record: &mut Record,
        extent: Extent,
        (before, scanned): (&Cycle, usize),
        request: &Request<'_>,
    ) {
        let goes_on = matches!(extent, Extent::Stepped(_) | Extent::SteppedNew(_));
        // Blocks of new objects were asked about as all others were.
        self.space.forget_fresh();
        // Not only when the stop is over: callbacks come before, and what they allocate is looked at in the last stop.
        self.space.stage = Stage::Between;
        self.space.marked_in_steps = true;
        let found = self.expected(extent, before, self.generations.written, false);
        let (whole, scanned) = match goes_on {
            true => (before.whole + found, before.scanned() + scanned),
            false => (found, scanned),
        };
        let expected = found.max(whole.saturating_sub(scanned));
        let memory = self.measure(0, 0);
        let (plan, room) = (
            self.plan(expected, &memory),
            self.room_for_allocation(&memory),
        );
        let progress = match goes_on {
            true => plan.next_round(expected, &self.progress(before)),
            false => plan.first_round(expected, room, self.interval(&memory)),
        };
        record.step(Phase::Pace, |event| {
            event.bytes = progress.allowance as u64;
            event.objects = room as u64;
            event.reason = match room >= progress.allowance {
                true => IN_TIME,
                false => LATE,
            };
        });
        self.cycle = Cycle {
            state: State::Marking,
            progress,
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
            allowance: match goes_on {
                true => before.allowance,
                false => progress.allowance,
            },
            stepped: match goes_on {
                true => before.stepped,
                false => (0, 0),
            },
            steps: if goes_on { before.steps } else { 0 },
            began_ns: match goes_on {
                true => before.began_ns,
                false => clock::monotonic_ns(),
            },
            helped: match goes_on {
                true => before.helped,
                false => 0,
            },
            ahead: Ahead::NotBegun,
        };
        self.expect_helper();
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
        if self.is_step_due() && !self.cycle.can_end() {
            self.step();
        }
        self.is_cycle_overdue()
    }

    /// Whether the cycle that is under way needs a step now.
    pub(super) fn is_step_due(&self) -> bool {
        self.options.stress != 0
            || self.is_asking() && !self.cycle.progress.helped
            || cycle::is_step_due(&self.progress(&self.cycle))
    }

    /// Whether the cycle that is under way has to be ended, marked or not.
    pub(crate) fn is_cycle_overdue(&self) -> bool {
        self.cycle.can_end() || cycle::is_overdue(&self.progress(&self.cycle))
    }

    /// How long a step takes, in nanoseconds.
    pub(super) fn step_ns(&self) -> u64 {
        let limit = self.limit_ns().unwrap_or(u64::MAX);
        match self.options.stress {
            0 => cycle::step_ns(limit),
            _ => STRESS_STEP_NS,
        }
    }

    /// Marks a little of the cycle that is under way.
    pub fn step(&mut self) {
        if self.cycle.state != State::Marking {
            return;
        }
        self.cycle.progress.waits = false;
        let quantum = self.step_ns();
        let workers = self.cycle.workers;
        let mut record = Record::new(self.collections + 1);
        let spent = record.step(Phase::MarkStep, |event| {
            let spent = self.mark_beside(quantum, workers, event);
            event.lost_ns = cycle::lost_ns(&spent);
            event.thread = threads::current_tid().0 as u32;
            if cycle::lost_processor(&spent) {
                event.reason = PROCESSOR_LOST;
            }
            spent
        });
        let took = record.duration(Phase::MarkStep);
        let lost = cycle::lost_ns(&spent);
        self.cycle.stepped.1 += took.saturating_sub(lost);
        self.cycle.steps += 1;
        self.totals.note_step(took);
        self.totals.steps_lost += u64::from(cycle::lost_processor(&spent));
        self.totals.lost_ns += lost;
        self.publish(&record);
    }

    /// Marks for `quantum` nanoseconds of this thread's own time: what others of the machine take of that is not marked in.
    fn mark_beside(
        &mut self,
        quantum: u64,
        (workers, reason): (usize, &'static str),
        event: &mut Event,
    ) -> Spent {
        let own = clock::thread_cpu_ns();
        let available = self.available(workers);
        event.reason = reason;
        event.workers = available as u32;
        event.objects = quantum;
        let mode = match self.mutators.others_run() {
            true => MarkMode::Beside,
            false => MarkMode::MayPause,
        };
        let mut deadline = event.start_ns.saturating_add(quantum);
        let (marked, spent) = loop {
            let marked = self.mark_on(Until::time(deadline), |heap| {
                heap.marking(mode, |heap| heap.mark_grey(available, Some(deadline)))
            });
            // A thread loses the processor, or is stopped, where it comes back from the kernel, and only this one asks it.
            let own_ns = clock::thread_cpu_ns() - own;
            let now = clock::monotonic_ns();
            let spent = Spent {
                quantum_ns: quantum,
                took_ns: now - event.start_ns,
                own_ns,
                is_alone: available == 1,
            };
            match cycle::rest_ns(&spent) {
                Some(rest) if !marked => deadline = now.saturating_add(rest),
                _ => break (marked, spent),
            }
        };
        if marked {
            self.cycle.state = State::Marked;
            event.reason = "everything is marked but what the next stop finds";
        }
        let outcome = self.engine.finish(&self.context);
        event.bytes = outcome.scanned_bytes as u64;
        self.totals.dropped_entries += outcome.dropped as u64;
        self.cycle.progress.scanned += outcome.scanned_bytes;
        self.cycle.stepped.0 += outcome.scanned_bytes;
        spent
    }
}
