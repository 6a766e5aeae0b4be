//! Tasks that are begun in ascending order, each when all below a number are finished: sliding objects over the places of
//! others.
//!
//! A worker takes a task only when it can do the task at once. So a chain of tasks, each of which needs the
//! one before it, stays with one worker: nobody has a task and waits for a worker that the system does not run. The
//! others sleep until two tasks can be done at the same time.
//!
//! # Invariants
//! - All tasks below `prefix` are finished. Release by the worker that finishes a task partners Acquire by one that
//!   takes another: what was done is seen.
//! - Nobody waits for ever: of the tasks that were taken, the worker that finishes the last one takes the next. Of two that
//!   finish at the same time, the one that changes `finishing` later sees both tasks finished (AcqRel).
//! - Who sleeps is woken by the worker that takes the last task: the change of `news` (Release) comes after that of `next`,
//!   and sleepers read `news` first (Acquire).

use gleaner_base::sync::{
    AtomicU8, AtomicU32, AtomicUsize, Ordering, futex_wait, futex_wake, spin_hint, spin_rounds,
};

/// Which tasks are finished, and which is next.
pub struct Prefix<'a> {
    /// `[i]` is not 0 when task i is finished. Written by its worker.
    finished: &'a [AtomicU8],
    /// Advanced by compare-and-swap by any worker that finds the next one finished.
    prefix: AtomicUsize,
    /// The lowest task that nobody has taken. Advanced by compare-and-swap by the worker that takes it.
    next: AtomicUsize,
    /// Changed by each worker that has finished a task: an order of them all.
    finishing: AtomicU32,
    /// Changed by a worker that has taken a task and left something to do, or nothing at all. What others sleep on.
    news: AtomicU32,
    /// How many do. Changed by these, read by any; only a hint, for who is not woken now will be later.
    sleeping: AtomicU32,
}

impl<'a> Prefix<'a> {
    /// Tasks that are not finished: one for each element, which is 0.
    pub fn new(finished: &'a [AtomicU8]) -> Prefix<'a> {
        Prefix {
            finished,
            prefix: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            finishing: AtomicU32::new(0),
            news: AtomicU32::new(0),
            sleeping: AtomicU32::new(0),
        }
    }

    /// Does tasks until all are taken. Task i is done by `work` when all tasks below `needs(i)` are finished, which is at
    /// most i. Called by each worker.
    pub fn run(&self, needs: impl Fn(usize) -> usize, work: impl Fn(usize)) {
        let count = self.finished.len();
        let mut rounds = spin_rounds(100);
        loop {
            let news = self.news.load(Ordering::Acquire);
            let task = self.next.load(Ordering::Relaxed);
            if task >= count {
                return;
            }
            if self.advance() < needs(task) {
                if rounds > 0 {
                    rounds -= 1;
                    spin_hint();
                } else {
                    self.sleeping.fetch_add(1, Ordering::Relaxed);
                    futex_wait(&self.news, news);
                    self.sleeping.fetch_sub(1, Ordering::Relaxed);
                }
                continue;
            }
            if !self.take(task) {
                continue;
            }
            if task + 1 == count {
                self.wake(u32::MAX);
            } else if self.sleeping.load(Ordering::Relaxed) > 0 && self.advance() >= needs(task + 1)
            {
                self.wake(1);
            }
            work(task);
            self.finished[task].store(1, Ordering::Release);
            self.finishing.fetch_add(1, Ordering::AcqRel);
            rounds = spin_rounds(100);
        }
    }

    fn take(&self, task: usize) -> bool {
        let taken =
            self.next
                .compare_exchange(task, task + 1, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok()
    }

    fn wake(&self, most: u32) {
        self.news.fetch_add(1, Ordering::Release);
        futex_wake(&self.news, most);
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
        let done: Vec<AtomicU8> = (0..TASKS).map(|_| AtomicU8::new(0)).collect();
        // Every third needs all below, the others those far below, and one stretch is a chain.
        let needs = |task: usize| match task {
            500..700 => task,
            task if task.is_multiple_of(3) => task,
            task => task.saturating_sub(20),
        };
        let work = |task: usize| {
            let needed = needs(task);
            let below = &done[needed.saturating_sub(8)..needed];
            assert!(below.iter().all(|one| one.load(Ordering::Relaxed) == 1));
            // A worker that takes a task too early gets here meanwhile.
            std::thread::yield_now();
            assert_eq!(done[task].swap(1, Ordering::Relaxed), 0, "done twice");
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| prefix.run(needs, work));
            }
        });
        assert_eq!(prefix.advance(), TASKS);
        assert!(done.iter().all(|one| one.load(Ordering::Relaxed) == 1));
    }
}
