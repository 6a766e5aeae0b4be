//! Which threads are in a phase, and the moment at which it is finished: one word counted in epochs.
//!
//! The idea: a worker is *inside* a phase while it may touch the phase's data, and *active* while it may hold or
//! publish work. The word holds the phase number, whether the phase is open, and both counts, so that entering,
//! offering and finishing are single atomic steps on one value. The phase is closed by the very step that takes
//! `active` to zero, unless batches are undelivered ([`crate::mailbox`]). Their number is in the word as well, and the
//! phase stays open until their receivers have become active, taken them and stopped being active again. Compare ASPLOS
//! 2013, 2.3.3 and 3.1.2, whose workers also leave when all queues *look* empty (kept as a model that must fail, in
//! `tests/models.rs`).
//!
//! # The contract of a worker
//! **Before it stops being active** (offers, or returns from the phase) a worker has looked, after
//! its last publication, into every place where it published, and found it empty; and it holds no
//! work privately. The leader counts as the publisher of everything that lay there when the phase
//! began. What it sent in a batch it need not look for: that is counted.
//!
//! # Why a closed phase has no work left
//! Suppose item x exists when `active` becomes zero. It is not held privately: only active workers hold work. So it
//! lies in some shared place p, where worker w put it while active. Later w stopped being active, and before that w
//! found p empty after putting x there. Then x had been taken, by an active worker, and an item is taken once: it does
//! not lie in p. Contradiction. If p is the box of a node, no batch in it is undelivered, for then the phase would be
//! open. The worker w counted the batch before it put it there, and the worker that took it discounts it while it is
//! active itself. The argument never asks what an idle worker sees in the queues of others: `active` alone decides, and
//! looking is a hint to come back.
//!
//! # Why nobody acts after the end
//! Becoming active again and joining are compare-and-swaps on the same word that fail once the phase is closed or
//! another phase's number is in it. So "finished" is final, a worker that arrives late by any number of phases changes
//! nothing, and the leader waits only for the threads that are inside (`drained`), never for a helper that the system
//! has not scheduled yet.
//!
//! # Orderings
//! Every change is an AcqRel read-modify-write, so all changes of a phase form one release sequence from `begin` on. A
//! thread that reads a later value with Acquire sees everything that the workers who changed the word before did
//! before. The leader that reads "drained" sees the whole phase; a helper that joins sees what the leader prepared.

use gleaner_base::sync::{AtomicU64, Ordering, model_size};

/// The most workers of a phase, the leader included: the idle mask is one 64-bit word.
pub const MAX_WORKERS: usize = model_size(64, 4);

/// The leader's index.
pub(crate) const LEADER: usize = 0;

/// The number of a phase: 29 bits, never 0, counted up and wrapping. A word is mistaken for
/// another phase's only if its reader slept through exactly 2^29 - 1 phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseNumber(u32);

impl PhaseNumber {
    /// Before the first phase.
    pub const NONE: Self = Self(0);
    const MASK: u32 = (1 << 29) - 1;

    /// The phase with this number.
    pub const fn new(number: u32) -> Self {
        Self(number & Self::MASK)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The phase after this one.
    pub const fn next(self) -> Self {
        let next = self.0.wrapping_add(1) & Self::MASK;
        Self(if next == 0 { 1 } else { next })
    }
}

const ACTIVE_ONE: u64 = 1;
const ACTIVE_MASK: u64 = 0xff;
const INSIDE_ONE: u64 = 1 << 8;
const INSIDE_MASK: u64 = 0xff << 8;
const UNDELIVERED_ONE: u64 = 1 << 16;
const UNDELIVERED_MASK: u64 = 0x7fff << 16;
const OPEN: u64 = 1 << 31;
const PHASE_SHIFT: u32 = 32;

/// The most batches that are on their way at a time: their count has the 15 bits that the word has left, and one more
/// would run into `OPEN`. It is 16 MB of batches, more than a collector reserves for them.
pub const MOST_UNDELIVERED: usize = model_size(0x7fff, 1);

/// What a worker brought about by leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The leader may be waiting for this: the phase was closed by this step, or is closed and the
    /// leader is alone inside.
    pub leader_may_wait: bool,
}

/// The state of the current phase, or of the last one.
#[derive(Debug)]
#[repr(align(128))]
pub struct Termination {
    /// Phase number (high half), open, undelivered, inside, active. Changed by the leader between phases and
    /// by the workers that are inside or want to be; see "Orderings" above.
    state: AtomicU64,
}

impl Default for Termination {
    fn default() -> Self {
        Self::new()
    }
}

impl Termination {
    gleaner_base::sync_const_fn! {
        /// No phase is open.
        pub fn new() -> Self {
            Self { state: AtomicU64::new(0) }
        }
    }

    /// Back to "no phase is open". Only in a forked child, before it has helpers.
    pub fn reset(&self) {
        self.state.store(0, Ordering::Relaxed);
    }

    /// Whether no phase is open and nobody is inside one.
    pub fn is_quiet(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & OPEN == 0 && state & INSIDE_MASK == 0
    }

    /// Leader: opens `phase` with itself inside and active.
    pub fn begin(&self, phase: PhaseNumber) {
        debug_assert!(self.is_quiet());
        // A plain store: with the phase before closed and drained nobody can change the word.
        // Release partners the Acquire half of `join`.
        let state = (phase.get() as u64) << PHASE_SHIFT | OPEN | INSIDE_ONE | ACTIVE_ONE;
        self.state.store(state, Ordering::Release);
    }

    /// Helper: goes inside and becomes active, unless `phase` is closed or gone.
    pub fn join(&self, phase: PhaseNumber) -> bool {
        self.change(phase, |state| {
            (state & OPEN != 0).then_some(state + INSIDE_ONE + ACTIVE_ONE)
        })
        .is_some()
    }

    /// A worker inside stops being active, under the contract above; whether this finished the
    /// phase.
    pub fn step_down(&self, phase: PhaseNumber) -> bool {
        let new = self.change(phase, |state| Some(close_if_last(state - ACTIVE_ONE)));
        debug_assert!(new.is_some(), "a worker inside a phase keeps it current");
        new.is_some_and(|state| state & OPEN == 0)
    }

    /// A worker inside becomes active again, unless the phase is closed.
    pub fn step_up(&self, phase: PhaseNumber) -> bool {
        self.change(phase, |state| {
            (state & OPEN != 0).then_some(state + ACTIVE_ONE)
        })
        .is_some()
    }

    /// A helper goes out, and stops being active if it still is, under the contract above.
    pub fn leave(&self, phase: PhaseNumber, active: bool) -> Left {
        let mut was_open = false;
        let new = self.change(phase, |state| {
            was_open = state & OPEN != 0;
            let state = state - INSIDE_ONE;
            Some(if active {
                close_if_last(state - ACTIVE_ONE)
            } else {
                state
            })
        });
        debug_assert!(new.is_some(), "a worker inside a phase keeps it current");
        let new = new.unwrap_or(0);
        let closed = new & OPEN == 0;
        Left {
            leader_may_wait: closed && (was_open || new & INSIDE_MASK == INSIDE_ONE),
        }
    }

    /// A worker that is active counts a batch that it is about to send; whether there may be one more.
    pub fn dispatch(&self, phase: PhaseNumber) -> bool {
        self.change(phase, |state| {
            (undelivered(state) < MOST_UNDELIVERED).then_some(state + UNDELIVERED_ONE)
        })
        .is_some()
    }

    /// A worker has taken a batch, while it is active or to give it up; whether one was counted, as it must be.
    pub fn deliver(&self, phase: PhaseNumber) -> bool {
        self.change(phase, |state| {
            (undelivered(state) > 0).then(|| close_if_last(state - UNDELIVERED_ONE))
        })
        .is_some()
    }

    /// Whether `phase` is closed, asked from inside.
    pub fn is_finished(&self, phase: PhaseNumber) -> bool {
        self.is_current(phase).is_none_or(|state| state & OPEN == 0)
    }

    /// Leader: whether the phase is closed and nobody else is inside.
    pub fn is_drained(&self, phase: PhaseNumber) -> bool {
        self.is_current(phase)
            .is_some_and(|state| state & OPEN == 0 && state & INSIDE_MASK == INSIDE_ONE)
    }

    /// Leader: goes out of a drained phase.
    pub fn end(&self, phase: PhaseNumber) {
        debug_assert!(self.is_drained(phase));
        let state = (phase.get() as u64) << PHASE_SHIFT;
        self.state.store(state, Ordering::Release); // nobody changes a closed, drained word
    }

    /// How many workers are inside.
    pub fn inside(&self) -> usize {
        ((self.state.load(Ordering::Relaxed) & INSIDE_MASK) >> 8) as usize
    }

    fn is_current(&self, phase: PhaseNumber) -> Option<u64> {
        // Acquire partners the release half of every change.
        let state = self.state.load(Ordering::Acquire);
        ((state >> PHASE_SHIFT) as u32 == phase.get()).then_some(state)
    }

    /// Replaces the word by `new(word)` if it belongs to `phase` and `new` agrees.
    fn change(&self, phase: PhaseNumber, mut new: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if (state >> PHASE_SHIFT) as u32 != phase.get() {
                return None;
            }
            let next = new(state)?;
            match self
                .state
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(next),
                Err(now) => state = now,
            }
        }
    }
}

/// How many batches are on their way.
const fn undelivered(state: u64) -> usize {
    ((state & UNDELIVERED_MASK) >> 16) as usize
}

const fn close_if_last(state: u64) -> u64 {
    if state & (ACTIVE_MASK | UNDELIVERED_MASK) == 0 {
        state & !OPEN
    } else {
        state
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_step_down_closes_the_phase_for_good() {
        let phase = PhaseNumber::new(7);
        let termination = Termination::new();
        termination.begin(phase);
        assert!(termination.join(phase));
        assert!(!termination.step_down(phase));
        assert!(termination.step_up(phase), "one is still active");
        assert!(!termination.step_down(phase));
        assert!(termination.step_down(phase));
        assert!(termination.is_finished(phase));
        assert!(!termination.step_up(phase) && !termination.join(phase));
        assert!(!termination.is_drained(phase) && termination.inside() == 2);
        assert!(termination.leave(phase, false).leader_may_wait);
        assert!(termination.is_drained(phase));
        termination.end(phase);
        assert!(termination.is_quiet());
    }

    #[test]
    fn a_phase_stays_open_until_all_is_delivered() {
        let phase = PhaseNumber::new(7);
        let termination = Termination::new();
        termination.begin(phase);
        assert!(!termination.deliver(phase), "nothing was sent");
        for _ in 0..MOST_UNDELIVERED {
            assert!(termination.dispatch(phase));
        }
        assert!(!termination.dispatch(phase) && !termination.is_finished(phase));
        for _ in 0..MOST_UNDELIVERED - 1 {
            assert!(termination.deliver(phase));
        }
        assert!(!termination.step_down(phase), "one is left");
        assert!(termination.join(phase));
        assert!(termination.deliver(phase) && !termination.is_finished(phase));
        let left = termination.leave(phase, true);
        assert!(left.leader_may_wait && termination.is_drained(phase));
        termination.end(phase);
        // A batch that is given up while nobody is active ends the phase.
        termination.begin(phase.next());
        assert!(termination.dispatch(phase.next()) && !termination.step_down(phase.next()));
        assert!(termination.deliver(phase.next()) && termination.is_drained(phase.next()));
    }

    #[test]
    fn other_phases_cannot_touch_the_word() {
        let phase = PhaseNumber::new(7);
        let termination = Termination::new();
        termination.begin(phase);
        for other in [PhaseNumber::new(6), PhaseNumber::new(8)] {
            assert!(!termination.join(other) && !termination.step_up(other));
            assert!(termination.is_finished(other) && !termination.is_drained(other));
            assert!(!termination.dispatch(other) && !termination.deliver(other));
        }
        assert_eq!(termination.inside(), 1);
        assert!(!termination.is_finished(phase));
    }

    #[test]
    fn phase_numbers_wrap_past_zero() {
        assert_eq!(PhaseNumber::new((1 << 29) - 1).next(), PhaseNumber::new(1));
        assert_eq!(PhaseNumber::NONE.next().get(), 1);
    }
}
