//! A thread that works ahead of others by a bounded lead: it waits until they have come nearer. First it spins, since
//! they come nearer every few microseconds and a sleep costs both sides a system call; then it sleeps.
//!
//! # Invariants
//! - A thread that comes nearer counts, then looks for sleepers. A thread that wants to sleep is counted first, then
//!   reads the count, then looks once more how near the others are. Both touch the count by a read-modify-write that
//!   acquires and releases: the second sees what the first did before. So no thread sleeps through the last step that
//!   others make, nor through [`Lead::dismiss`].
//! - The count that a sleeper sleeps on is the one that it read before it looked.
//! - A thread that spins is not counted, so that others make no system call for it. It misses nothing by that: when it
//!   has spun in vain, it goes to sleep by the steps above.

use gleaner_base::sync::{
    AtomicBool, AtomicU32, Ordering, futex_wait, futex_wake, spin_hint, spin_rounds,
};

/// What both sides share.
#[derive(Debug)]
pub struct Lead {
    /// Counts the steps of the others. Sleepers sleep on it.
    steps: AtomicU32,
    /// How many are about to sleep, or do.
    sleepers: AtomicU32,
    /// Set once: nobody sleeps any more.
    dismissed: AtomicBool,
}

/// Whether a thread spins before it sleeps: always while that spares it the sleep, and ever more seldom while it does
/// not, as on a machine where the others wait for this thread's processor.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Spinning {
    /// How many sleeps follow the last spin that was in vain, before the next spin.
    skipped: u32,
    /// How many of them are left.
    left: u32,
}

/// The most sleeps without a spin that follow a spin in vain. So one sleep in 64 has a spin before it where none spares
/// anything.
const MOST_SKIPPED: u32 = 63;

impl Spinning {
    /// Whether the next sleep has a spin before it.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// What came of a spin: whether the others made a step.
    pub fn note(&mut self, spared: bool) {
        self.skipped = if spared {
            0
        } else {
            (2 * self.skipped + 1).min(MOST_SKIPPED)
        };
        self.left = self.skipped;
    }
}

/// The calling thread is about to sleep.
#[must_use]
#[derive(Debug)]
pub struct Drowsy<'a> {
    lead: &'a Lead,
    steps: u32,
}

impl Default for Lead {
    fn default() -> Self {
        Self::new()
    }
}

impl Lead {
    gleaner_base::sync_const_fn! {
        /// A lead for which nobody sleeps yet.
        pub fn new() -> Self {
            Self {
                steps: AtomicU32::new(0),
                sleepers: AtomicU32::new(0),
                dismissed: AtomicBool::new(false),
            }
        }
    }

    /// The others have come nearer.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::AcqRel);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            futex_wake(&self.steps, u32::MAX >> 1);
        }
    }

    /// How many steps the others have made. The one that reads that first and looks how near they are then may
    /// [`Lead::spin`].
    pub fn steps(&self) -> u32 {
        // Acquire partners the release of `step`: a thread that sees a step sees what was done before it.
        self.steps.load(Ordering::Acquire)
    }

    /// Spins for `rounds` rounds at most until the others have made a step since there were `seen`; whether they have.
    pub fn spin(&self, seen: u32, rounds: u32) -> bool {
        let mut left = spin_rounds(rounds);
        while self.steps() == seen {
            if left == 0 {
                return false;
            }
            left -= 1;
            spin_hint();
        }
        true
    }

    /// Nobody is to sleep any more.
    pub fn dismiss(&self) {
        // Release partners the acquire of `sleep`: who does not sleep for it sees why.
        self.dismissed.store(true, Ordering::Release);
        self.step();
    }

    /// In a forked child: the threads that slept exist in the parent only.
    pub fn forget_sleepers_after_fork(&self) {
        self.sleepers.store(0, Ordering::Relaxed);
    }

    /// The calling thread wants to sleep, and looks how near the others are once more before [`Drowsy::sleep`].
    pub fn drowse(&self) -> Drowsy<'_> {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        Drowsy {
            lead: self,
            steps: self.steps.fetch_add(0, Ordering::AcqRel),
        }
    }
}

impl Drowsy<'_> {
    /// Sleeps until the others have made a step since [`Lead::drowse`]; may wake earlier.
    pub fn sleep(self) {
        if !self.lead.dismissed.load(Ordering::Acquire) {
            futex_wait(&self.lead.steps, self.steps);
        }
    }
}

impl Drop for Drowsy<'_> {
    fn drop(&mut self) {
        self.lead.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn nobody_sleeps_through_a_step() {
        const STEPS: usize = 20_000;
        let (lead, place) = (Lead::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for ahead in 1..4 {
                let (lead, place) = (&lead, &place);
                scope.spawn(move || {
                    for wanted in (ahead..STEPS).step_by(ahead) {
                        while place.load(Ordering::Acquire) < wanted {
                            let seen = lead.steps();
                            // One in three does not spin.
                            if place.load(Ordering::Acquire) < wanted
                                && ahead > 1
                                && lead.spin(seen, 50)
                            {
                                continue;
                            }
                            let drowsy = lead.drowse();
                            if place.load(Ordering::Acquire) < wanted {
                                drowsy.sleep();
                            }
                        }
                    }
                });
            }
            for _ in 0..STEPS {
                place.fetch_add(1, Relaxed);
                lead.step();
            }
        });
        assert_eq!(lead.sleepers.load(Relaxed), 0);
        lead.dismiss();
        lead.drowse().sleep();
    }

    #[test]
    fn spins_in_vain_become_rare_and_one_that_is_not_brings_them_back() {
        let mut spinning = Spinning::default();
        let mut spins = 0;
        for _ in 0..1000 {
            if spinning.is_due() {
                spins += 1;
                spinning.note(false);
            }
        }
        assert!((15..25).contains(&spins), "{spins}");
        while !spinning.is_due() {}
        spinning.note(true);
        for _ in 0..10 {
            assert!(spinning.is_due());
            spinning.note(true);
        }
    }

    #[test]
    fn a_step_ends_spinning_and_nothing_else_does_but_its_bound() {
        let lead = Lead::new();
        let seen = lead.steps();
        assert!(!lead.spin(seen, 1000));
        assert!(!lead.spin(seen, 0));
        lead.step();
        assert!(lead.spin(seen, 0));
        let seen = lead.steps();
        lead.dismiss();
        assert!(lead.spin(seen, 0));
        // Nobody was counted, so nobody was woken for it.
        assert_eq!(lead.sleepers.load(Relaxed), 0);
    }
}
