//! What a heap does where a helper marks beside the program.
//!
//! The helper is a thread of the collector's that the door has, and that is never stopped. It calls
//! [`Heap::mark_beside_program`] with the allocator lock, again and again. What it does between two stops is one event.

use gleaner_base::events::{Event, Phase};
use gleaner_base::sync::AtomicU32;
use gleaner_os::clock;
use gleaner_spaces::mark_sweep::mark::{MarkOutcome, Until};
use gleaner_spaces::mark_sweep::scan::MarkMode;

use super::state::{Helped, State};
use crate::mark_sweep::decide::helper::{NO_PROCESSOR, TURN_NS, Turn, trusted_with};
use crate::mark_sweep::heap::Heap;

/// What the helper is to do after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// To come back at once, unless others want the lock.
    GoOn,
    /// To come back after this many nanoseconds.
    ComeBack(u64),
    /// To rest until the next cycle begins, or this one is put off.
    Rest,
}

impl Heap {
    /// For the helper: marks for a turn in the cycle that is under way, if there is one. The turn ends as soon as another thread
    /// wants the lock, and has counted itself in `waiting`.
    pub fn mark_beside_program(&mut self, waiting: &AtomicU32) -> Next {
        self.helped.is_there = true;
        if self.cycle.state != State::Marking || self.helped.helper.sits_out() {
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
        self.cycle.progress.trusted = trusted_with(self.cycle.progress.expected);
        self.take_turn(waiting);
        match self.cycle.state {
            State::Marking => Next::GoOn,
            State::None | State::Marked => Next::Rest,
        }
    }

    fn leave_to_steps(&mut self, next: Next) -> Next {
        self.cycle.progress.trusted = 0;
        next
    }

    fn take_turn(&mut self, waiting: &AtomicU32) {
        let (began, own) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        let until = Until::time_or_waiting(began.saturating_add(TURN_NS), waiting);
        let outcome = self.mark_turn(until);
        let ended = clock::monotonic_ns();
        self.helped.cpu_ns = clock::thread_cpu_ns();
        let turn = Turn {
            ended_ns: ended,
            took_ns: ended.saturating_sub(began),
            own_ns: self.helped.cpu_ns.saturating_sub(own),
            scanned: outcome.scanned + outcome.passed_over,
            passed_over: match self.steps_call_procs() {
                true => outcome.passed_over,
                false => 0,
            },
        };
        self.free_processors.note_beside(turn.own_ns);
        self.count_turn(&turn, outcome.scanned_bytes);
        if let Some(reason) = self.helped.helper.note(&turn) {
            self.helped.marked.reason = reason;
            self.cycle.progress.trusted = 0;
        }
    }

    /// Marks on the calling thread alone what is grey in the cycle that is under way, beside the program.
    pub fn mark_turn(&mut self, until: Until<'_>) -> MarkOutcome {
        if self.cycle.state != State::Marking {
            return MarkOutcome::default();
        }
        let is_all = self.mark_on(until, |heap| {
            heap.marking(MarkMode::Beside, |heap| {
                let (engine, space, context) = (&heap.engine, &heap.space, &heap.context);
                engine.mark_until(until, heap.crew, 1, space, context)
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

    /// Whether a step would call mark procedures: it is a stop where no other thread runs.
    fn steps_call_procs(&self) -> bool {
        self.context.has_client_procs() && self.mutators.running() <= 1
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
        self.helped.is_expected() && self.free_processors.is_any_idle()
    }

    /// Marking goes on beside the program, in a cycle that has just begun if it is `new`: steps are not due before the helper,
    /// if there is one, has had time to come.
    pub(super) fn expect_helper(&mut self, new: bool) {
        if new {
            self.helped.helper.begin_cycle();
        } else if let Some(reason) = self.helped.helper.note_put_off() {
            self.helped.marked.reason = reason;
        }
        if self.is_helper_expected() {
            self.cycle.progress.trusted = trusted_with(self.cycle.progress.expected);
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

    /// In a forked child, whose parent has the helper.
    pub(crate) fn forget_helper_after_fork(&mut self) {
        self.helped = Helped::new();
        self.cycle.progress.trusted = 0;
    }
}
