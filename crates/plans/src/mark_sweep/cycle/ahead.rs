//! What a heap asks the kernel ahead of a stop: which pages were written, in pieces, so that the stop's own question finds little.
//!
//! Before the first stop of a cycle that is all: what was written is old news then. Before the last one what is on written pages is
//! scanned again in steps, so that the stop has less to mark, too.

use core::sync::atomic::Ordering;

use gleaner_base::events::Phase;
use gleaner_base::events::reasons::ASKED_AHEAD;
use gleaner_os::{clock, threads};
use gleaner_spaces::mark_sweep::mark::Until;
use gleaner_spaces::mark_sweep::sticky::Asked;

use super::state::{Ahead, State};
use crate::mark_sweep::decide::cycle;
use crate::mark_sweep::heap::Heap;
use crate::shared::record::Record;

impl Heap {
    /// Whether questions are long enough to be asked in pieces. Under `stress=N` all are.
    fn asks_ahead(&self) -> bool {
        let question_ns = match self.options.stress {
            0 => self.totals.last_question_ns,
            _ => u64::MAX,
        };
        self.space.can_be_asked_ahead() && cycle::is_asked_ahead(question_ns, self.step_ns())
    }

    /// Whether the first stop of a cycle need not wait for a question any more. If it has to, asks for as long as a step takes.
    pub(super) fn is_asked_ahead(&mut self) -> bool {
        if self.pacing.ahead == Ahead::Done || !self.asks_ahead() {
            return true;
        }
        let quantum = self.step_ns();
        let mut record = Record::new(self.collections + 1);
        record.step(Phase::MarkStep, |event| {
            let until = Until::time(event.start_ns.saturating_add(quantum));
            let asked = match self.generations.keeps {
                true => Asked::All,
                false => Asked::Begun,
            };
            self.pacing.ahead = self.ask_ahead(asked, self.pacing.ahead, until);
            event.workers = 1;
            event.objects = quantum;
            event.thread = threads::current_tid().0 as u32;
            event.reason = ASKED_AHEAD;
        });
        self.totals.note_step(record.duration(Phase::MarkStep));
        self.publish(&record);
        self.pacing.ahead == Ahead::Done
    }

    /// Marks on in the cycle that is under way, `until` its time is over, by `mark`, which says whether nothing is grey any more.
    /// Whether nothing is left but the last stop.
    pub(super) fn mark_on(
        &mut self,
        until: Until<'_>,
        mut mark: impl FnMut(&mut Heap) -> bool,
    ) -> bool {
        loop {
            if let Ahead::At(_) = self.cycle.ahead {
                self.cycle.ahead = self.ask_ahead(Asked::Old, self.cycle.ahead, until);
                if self.cycle.ahead != Ahead::Done {
                    return false;
                }
                self.engine.look_again();
            }
            if !mark(self) {
                return false;
            }
            if self.is_nothing_left_to_ask() {
                return true;
            }
        }
    }

    /// Everything is marked: whether nothing is to be asked ahead of the last stop. If there is, it is asked from now on.
    pub(super) fn is_nothing_left_to_ask(&mut self) -> bool {
        if self.cycle.ahead == Ahead::Done || !self.asks_ahead() {
            return true;
        }
        self.cycle.ahead = Ahead::At(0);
        false
    }

    /// Whether a cycle that has marked everything asks what was written since, and scans that.
    pub fn is_asking(&self) -> bool {
        self.cycle.state == State::Marking && self.cycle.ahead != Ahead::NotBegun
    }

    /// Asks about one piece after the other, and at least one. Where the kernel does not answer, what the next stop finds is not
    /// built on.
    fn ask_ahead(&mut self, asked: Asked, ahead: Ahead, until: Until<'_>) -> Ahead {
        let began = clock::monotonic_ns();
        let mut at = match ahead {
            Ahead::At(block) => block,
            Ahead::NotBegun | Ahead::Done => 0,
        };
        let found = loop {
            match self.space.ask_ahead(&self.context, asked, at) {
                Ok(Some(next)) => at = next,
                Ok(None) => break Ahead::Done,
                Err(_) => {
                    self.context.disturbed.store(true, Ordering::Relaxed);
                    break Ahead::Done;
                }
            }
            if until.is_over() {
                break Ahead::At(at);
            }
        };
        self.totals.ahead_ns += clock::monotonic_ns() - began;
        found
    }

    /// A question in a stop has taken `took_ns`. Those ahead of it would have been part of it.
    pub(crate) fn note_question(&mut self, took_ns: u64) {
        let ahead = core::mem::take(&mut self.totals.ahead_ns);
        self.totals.last_question_ns = took_ns.saturating_add(ahead);
    }
}
