//! What a heap does where a helper marks beside the program.
//!
//! The helper is a thread of the collector's that the door has, and that is never stopped. It calls
//! [`Heap::mark_beside_program`] with the allocator lock, again and again. That begins a turn without the lock, in which what is
//! grey is scanned ([`gleaner_spaces::mark_sweep::beside`]). Where the kernel is to be asked what was written, or addresses are limited,
//! it is one with the lock. What the helper does between two stops is one event.

use core::ptr::NonNull;

use gleaner_base::events::reasons::CUT_OFF;
use gleaner_base::events::{Event, Phase};
use gleaner_base::sync::AtomicU32;
use gleaner_os::clock;
use gleaner_spaces::mark_sweep::beside::{Done, Marking, Turn as Begun};
use gleaner_spaces::mark_sweep::mark::{MarkOutcome, Until};
use gleaner_spaces::mark_sweep::scan::MarkMode;

use super::state::{Helped, State};
use crate::mark_sweep::decide::helper::{LOCKED_TURN_NS, NO_PROCESSOR, PAUSE_NS, TURN_NS, Turn};
use crate::mark_sweep::heap::Heap;

/// What the helper is to do after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// To come back at once, unless others want the lock.
    GoOn,
    /// To give the lock back, mark in the turn that has begun, and come back.
    Mark(Begun),
    /// To come back after this many nanoseconds.
    ComeBack(u64),
    /// To rest until the next cycle begins, this one is put off, or the step is made for which it waits.
    Rest,
}

impl Heap {
    /// For the helper: begins a turn in the cycle that is under way, if there is one, or marks for one with the lock. That ends as
    /// soon as another thread wants the lock, and has counted itself in `waiting`.
    pub fn mark_beside_program(&mut self, waiting: &AtomicU32) -> Next {
        self.end_turn_beside();
        self.helped.is_there = true;
        if self.cycle.state != State::Marking || !self.wants_helper() {
            return self.leave_to_steps(Next::Rest);
        }
        let now = clock::monotonic_ns();
        if self.settings.markers == 0 {
            self.free_processors.look();
        }
        if !self.free_processors.is_any_idle() {
            self.helped.helper.note_busy(now);
            self.helped.marked.reason = NO_PROCESSOR;
        }
        if let Some(nanoseconds) = self.helped.helper.stays_away(now) {
            return self.leave_to_steps(Next::ComeBack(nanoseconds));
        }
        self.cycle.progress.helped = true;
        if self.helper_waits() {
            return Next::Rest;
        }
        if core::mem::take(&mut self.helped.was_disturbed) {
            return Next::ComeBack(PAUSE_NS);
        }
        if self.cycle.ahead.is_asking() || self.space.layout.is_in_pieces() {
            self.take_turn(waiting);
        } else {
            return Next::Mark(self.begin_turn());
        }
        match self.cycle.state {
            State::Marking => Next::GoOn,
            State::None | State::Marked => Next::Rest,
        }
    }

    fn begin_turn(&mut self) -> Begun {
        self.context.mode = self.mode_beside();
        let marking = Marking {
            engine: NonNull::from(&self.engine),
            space: NonNull::from(&self.space),
            context: NonNull::from(&*self.context),
            crew: NonNull::from(self.crew),
        };
        self.beside.begin_turn(marking, TURN_NS)
    }

    /// Has a turn end that the helper has begun without the lock, and counts what it did. For who has the lock, before
    /// anything but cells for a list of a thread's is asked of the heap.
    #[inline]
    pub fn end_turn_beside(&mut self) {
        if self.beside.has_begun() {
            self.end_begun_turn();
        }
    }

    #[cold]
    fn end_begun_turn(&mut self) {
        let Done {
            outcome,
            is_all,
            has_left_procs,
            took_ns,
            own_ns,
            cpu_ns,
        } = self.beside.end_turn();
        self.context.mode = MarkMode::Whole;
        self.cycle.progress.scanned += outcome.scanned_bytes;
        self.cycle.helped += outcome.scanned_bytes;
        self.totals.dropped_entries += outcome.dropped as u64;
        self.helped.cpu_ns = cpu_ns.max(self.helped.cpu_ns);
        self.cycle.progress.waits = is_all && has_left_procs;
        let is_marking = self.cycle.state == State::Marking;
        if is_marking && is_all && !has_left_procs && self.is_nothing_left_to_ask() {
            self.cycle.state = State::Marked;
        }
        self.note_turn(&outcome, took_ns, own_ns);
    }

    fn leave_to_steps(&mut self, next: Next) -> Next {
        self.cycle.progress.helped = false;
        next
    }

    fn take_turn(&mut self, waiting: &AtomicU32) {
        let (began, own) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        let until = Until::time_or_waiting(began.saturating_add(LOCKED_TURN_NS), waiting);
        let outcome = self.mark_turn(until);
        self.helped.cpu_ns = clock::thread_cpu_ns();
        let took_ns = clock::monotonic_ns().saturating_sub(began);
        self.note_turn(&outcome, took_ns, self.helped.cpu_ns.saturating_sub(own));
    }

    fn note_turn(&mut self, outcome: &MarkOutcome, took_ns: u64, own_ns: u64) {
        let turn = Turn {
            ended_ns: clock::monotonic_ns(),
            took_ns,
            own_ns,
        };
        self.helped.was_disturbed = turn.was_disturbed() && self.cycle.state == State::Marking;
        self.free_processors.note_beside(turn.own_ns);
        self.count_turn(&turn, outcome.scanned_bytes);
        if let Some(reason) = self.helped.helper.note(&turn) {
            self.helped.marked.reason = reason;
            self.cycle.progress.helped = false;
        }
    }

    /// Marks on the calling thread alone what is grey in the cycle that is under way, beside the program.
    pub fn mark_turn(&mut self, until: Until<'_>) -> MarkOutcome {
        if self.cycle.state != State::Marking {
            return MarkOutcome::default();
        }
        let mode = self.mode_beside();
        let is_all = self.mark_on(until, |heap| {
            heap.marking(mode, |heap| {
                let (engine, space, context) = (&heap.engine, &heap.space, &heap.context);
                let is_all = engine.mark_until(until, heap.crew, 1, space, context);
                heap.cycle.progress.waits = is_all && engine.has_left_procs();
                is_all && !heap.cycle.progress.waits
            })
        });
        if is_all {
            self.cycle.state = State::Marked;
        }
        let outcome = self.engine.finish(&self.context);
        self.cycle.progress.scanned += outcome.scanned_bytes;
        self.cycle.helped += outcome.scanned_bytes;
        self.totals.dropped_entries += outcome.dropped as u64;
        outcome
    }

    /// Whether the helper has left nothing but what needs mark procedures, and waits for a step.
    pub fn helper_waits(&self) -> bool {
        self.cycle.progress.waits
    }

    /// Whether the program may get cells for the list of a thread while the helper marks in a turn: nothing else is due, and memory
    /// is left. What one did that is over counts at once, so that a cycle ends as soon as everything is marked.
    pub fn lets_turn_go_on(&self) -> bool {
        self.beside.is_under_way() && self.cycle.state == State::Marking && !self.is_step_due()
    }

    /// How the helper marks: what needs a mark procedure of the client's waits for a step if that would call it, as one does that is
    /// a stop where no other thread runs.
    fn mode_beside(&self) -> MarkMode {
        match self.context.has_client_procs() && self.mutators.running() <= 1 {
            true => MarkMode::BesideSteps,
            false => MarkMode::Beside,
        }
    }

    fn count_turn(&mut self, turn: &Turn, bytes: usize) {
        let (marked, lost) = (&mut self.helped.marked, turn.lost_ns());
        marked.bytes += bytes as u64;
        marked.objects += 1;
        marked.duration_ns += turn.took_ns;
        marked.lost_ns += lost;
        marked.workers = 1;
        self.totals.helped_turns += 1;
        self.totals.helped_bytes += bytes as u64;
        self.totals.helped_ns += turn.took_ns;
        self.totals.helped_lost += u64::from(lost > 0);
    }

    /// Whether the helper, if there is one, would mark now, as far as anybody knows.
    pub(super) fn is_helper_expected(&self) -> bool {
        self.wants_helper() && self.helped.is_expected() && self.free_processors.is_any_idle()
    }

    /// Marking goes on beside the program: steps are not due before the helper, if there is one, has had time to come.
    pub(super) fn expect_helper(&mut self) {
        if self.is_helper_expected() {
            self.cycle.progress.helped = true;
        }
    }

    /// What the helper has done since the last stop, once, as an event of the collection that begins.
    pub(crate) fn take_marked_beside(&mut self, collection: u64) -> Option<Event> {
        let nothing = Event::new(Phase::MarkBeside, 0);
        let mut marked = core::mem::replace(&mut self.helped.marked, nothing);
        marked.collection = collection;
        marked.start_ns = clock::monotonic_ns();
        (marked.objects > 0 || !marked.reason.is_empty()).then_some(marked)
    }

    /// In a forked child, whose parent has the helper. Who forks with the hooks has had its turn end.
    pub(crate) fn forget_helper_after_fork(&mut self) {
        if self.beside.forget_turn_after_fork() {
            self.context.mode = MarkMode::Whole;
            self.give_up_cycle_because(CUT_OFF);
        }
        self.end_turn_beside();
        self.helped = Helped::new();
        self.cycle.progress.helped = false;
    }
}
