//! Threads that are outside of the gate for a while.

use gleaner_mem::slot::SlotFormat;

use super::Scavenge;
use super::mutator::Mutator;
use super::stop::poll::PollGate;
use super::stop::whereabouts::{Passage, Whereabouts};

/// A mutator that is outside of the gate goes in again, also when a listener panics.
pub(super) struct Outside<'a> {
    gate: &'a PollGate,
    whereabouts: &'a Whereabouts,
    passage: Passage,
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.gate.enter();
        self.whereabouts.come_in(self.passage);
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// The calling mutator, which is inside the gate, is outside as long as this value is there.
    pub(super) fn outside<'a>(&'a self, mutator: &'a Mutator, passage: Passage) -> Outside<'a> {
        self.leave(mutator, passage);
        Outside {
            gate: &self.gate,
            whereabouts: &mutator.whereabouts,
            passage,
        }
    }

    /// The calling mutator goes out of the gate.
    pub fn leave(&self, mutator: &Mutator, passage: Passage) {
        mutator.whereabouts.note_outside(passage);
        self.gate.leave();
    }

    /// The calling mutator, which is inside the gate, stands ([`PollGate::stand`]): a handshake does not wait for it.
    pub fn stand(&self, mutator: &Mutator) {
        mutator.whereabouts.note_outside(Passage::Fork);
        self.gate.stand();
    }

    /// The calling mutator stands no more. As for [`PollGate::go_on`].
    pub fn go_on(&self, mutator: &Mutator) {
        self.gate.go_on();
        mutator.whereabouts.come_in(Passage::Fork);
    }

    /// The calling mutator comes in.
    pub fn enter(&self, mutator: &Mutator, passage: Passage) {
        self.gate.enter();
        mutator.whereabouts.come_in(passage);
    }
}
