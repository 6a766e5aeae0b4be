//! A thread that works ahead of others by so much and no more: it sleeps until they have come nearer.
//!
//! # Invariants
//! - Who comes nearer counts, then looks for sleepers; who wants to sleep is counted first, then reads the count, then
//!   looks once more how near the others are. Both touch the count by a read-modify-write that acquires and releases:
//!   whoever is second sees what the first did before. So nobody sleeps through the last step that others make, nor
//!   through [`Lead::dismiss`].
//! - The count that a sleeper sleeps on is the one that it read before it looked.

use gleaner_base::sync::{AtomicBool, AtomicU32, Ordering, futex_wait, futex_wake};

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

/// Somebody is about to sleep.
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
        /// Nobody sleeps.
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

    /// Nobody is to sleep any more.
    pub fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Relaxed);
        self.step();
    }

    /// Somebody wants to sleep, and looks how near the others are once more before [`Drowsy::sleep`].
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
        if !self.lead.dismissed.load(Ordering::Relaxed) {
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
}
