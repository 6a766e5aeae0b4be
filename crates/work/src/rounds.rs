//! Rounds of work that is done ahead of time, by threads that sleep from one to the next.
//!
//! # Invariants
//! - One word holds the number of the round. An even one has something to do; an odd one has nothing. Numbers grow, and
//!   the first is odd.
//! - A round begins while no thread works: working threads look at [`Rounds::is`] inside the gate, and the thread that
//!   begins a round has closed it. A thread that sees that the round is the one it was given works on nothing older.
//! - Release by the thread that begins a round partners Acquire in [`Rounds::next`]: what was prepared for the round is
//!   seen.
//! - A thread sleeps on the number that it read before it checked for dismissal; dismissal is set before the number
//!   changes. So no thread sleeps through the beginning of an announced round, nor through dismissal.

use gleaner_base::sync::{AtomicBool, AtomicU32, Ordering, futex_wait, futex_wake};

/// What both sides share.
#[derive(Debug)]
pub struct Rounds {
    /// The number of the round. Threads that wait for the next one sleep on it.
    number: AtomicU32,
    /// Set once: there is no further round.
    dismissed: AtomicBool,
}

/// A round that has something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round(u32);

impl Default for Rounds {
    fn default() -> Self {
        Self::new()
    }
}

impl Rounds {
    gleaner_base::sync_const_fn! {
        /// The first round, which has nothing to do.
        pub fn new() -> Self {
            Self {
                number: AtomicU32::new(1),
                dismissed: AtomicBool::new(false),
            }
        }
    }

    /// Whether no round has begun since the first.
    pub fn is_first(&self) -> bool {
        self.number.load(Ordering::Relaxed) == 1
    }

    /// Begins a round, with something to do or not. One thread at a time, and nobody works. Nobody wakes yet.
    pub fn begin(&self, has_work: bool) {
        let idle = (self.number.load(Ordering::Relaxed) | 1) + 2;
        // One at a time: dismissal comes when all that is over.
        self.number
            .store(idle - u32::from(has_work), Ordering::Release);
    }

    /// Wakes the threads that wait for the round that has begun.
    pub fn announce(&self) {
        futex_wake(&self.number, u32::MAX >> 1);
    }

    /// There is no further round: threads that wait for one end. Nobody begins one any more.
    pub fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Relaxed);
        self.number.fetch_add(2, Ordering::Release);
        self.announce();
    }

    /// Whether it is still this round.
    pub fn is(&self, round: Round) -> bool {
        self.number.load(Ordering::Relaxed) == round.0
    }

    /// Waits for a round that has something to do, other than the one that the caller has `seen`; `None` when there is
    /// no further one.
    pub fn next(&self, seen: Option<Round>) -> Option<Round> {
        loop {
            let number = self.number.load(Ordering::Acquire);
            if self.dismissed.load(Ordering::Relaxed) {
                return None;
            }
            let round = Round(number);
            if number.is_multiple_of(2) && seen != Some(round) {
                return Some(round);
            }
            futex_wait(&self.number, number);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rounds_with_work_are_seen_once_and_others_never() {
        let rounds = Rounds::new();
        assert!(rounds.is_first());
        rounds.begin(true);
        let first = rounds.next(None).unwrap();
        assert!(rounds.is(first) && !rounds.is_first());
        rounds.begin(false);
        assert!(!rounds.is(first));
        rounds.begin(true);
        let second = rounds.next(Some(first)).unwrap();
        assert!(rounds.is(second) && second != first);
        rounds.begin(true);
        assert!(!rounds.is(second));
        assert_ne!(rounds.next(Some(second)), Some(second));
        rounds.dismiss();
        assert_eq!(rounds.next(Some(second)), None);
    }
}
