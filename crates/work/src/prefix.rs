//! Tasks that are done in any order, of which one may have to wait for all below a number: sliding objects over the
//! places of others.
//!
//! Workers take tasks in ascending order, so the lowest one that is not finished never waits, and nobody waits for
//! ever.
//!
//! # Invariants
//! - All tasks below `prefix` are finished. Release by the worker that finishes a task partners Acquire by one that
//!   waits: what was done is seen.

use gleaner_base::sync::{AtomicU8, AtomicUsize, Ordering, spin_hint, spin_rounds, yield_now};

/// Which tasks are finished.
pub struct Prefix<'a> {
    /// `[i]` is not 0 when task i is finished. Written by its worker.
    finished: &'a [AtomicU8],
    /// Advanced by compare-and-swap by any worker that finds the next one finished.
    prefix: AtomicUsize,
}

impl<'a> Prefix<'a> {
    /// Tasks that are not finished: one for each element, which is 0.
    pub fn new(finished: &'a [AtomicU8]) -> Prefix<'a> {
        Prefix {
            finished,
            prefix: AtomicUsize::new(0),
        }
    }

    /// The calling worker has finished a task.
    pub fn finish(&self, task: usize) {
        self.finished[task].store(1, Ordering::Release);
    }

    /// Waits until all tasks below `task` are finished. The caller works on a task that is not below.
    pub fn wait_for(&self, task: usize) {
        let mut rounds = spin_rounds(100);
        while self.advance() < task {
            if rounds > 0 {
                rounds -= 1;
                spin_hint();
            } else {
                yield_now();
            }
        }
    }

    /// Counts what is finished; the number below which all is.
    fn advance(&self) -> usize {
        let mut prefix = self.prefix.load(Ordering::Acquire);
        while let Some(next) = self.finished.get(prefix)
            && next.load(Ordering::Acquire) != 0
        {
            // Workers that come later see what this one has seen.
            let counted = self.prefix.compare_exchange(
                prefix,
                prefix + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            prefix = match counted {
                Ok(_) => prefix + 1,
                Err(now) => now,
            };
        }
        prefix
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_task_sees_what_those_below_did() {
        const TASKS: usize = 2000;
        let finished: Vec<AtomicU8> = (0..TASKS).map(|_| AtomicU8::new(0)).collect();
        let prefix = Prefix::new(&finished);
        let next = AtomicUsize::new(0);
        let done: Vec<AtomicU8> = (0..TASKS).map(|_| AtomicU8::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    loop {
                        let task = next.fetch_add(1, Ordering::Relaxed);
                        if task >= TASKS {
                            return;
                        }
                        // Every third needs all below, the others those far below.
                        let needed = if task.is_multiple_of(3) {
                            task
                        } else {
                            task.saturating_sub(20)
                        };
                        prefix.wait_for(needed);
                        let below = &done[needed.saturating_sub(8)..needed];
                        assert!(below.iter().all(|one| one.load(Ordering::Relaxed) == 1));
                        // A worker that waited for one task too few would get here meanwhile.
                        std::thread::yield_now();
                        done[task].store(1, Ordering::Relaxed);
                        prefix.finish(task);
                    }
                });
            }
        });
        prefix.wait_for(TASKS);
        assert!(done.iter().all(|one| one.load(Ordering::Relaxed) == 1));
    }
}
