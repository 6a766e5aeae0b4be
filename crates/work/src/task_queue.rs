//! The tasks of a phase that exist from its start: root tasks, strips of cards (ASPLOS 2013, section 2.3.3).
//!
//! The tasks are numbers below a count; what a number means is the phase's business. Workers take them one after the
//! other under one lock, as the paper's baseline does; its cure is to take them without one. Where the crew waits on a
//! monitor, it is the lock of that monitor.
//!
//! # Invariants
//! - During a phase all take under the same lock.
//! - The leader fills the queue while no phase is open; workers take while one is. A task is taken once.

use gleaner_base::sync::{AtomicUsize, Ordering, RawLock};

/// Tasks behind a lock.
#[derive(Debug)]
pub struct TaskQueue {
    lock: RawLock,
    /// The next task. Written under the lock; read without it as a hint.
    next: AtomicUsize,
    /// One past the last task. Written by the leader while no phase is open.
    end: AtomicUsize,
}

impl Default for TaskQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl TaskQueue {
    gleaner_base::sync_const_fn! {
        /// Without tasks.
        pub fn new() -> Self {
            Self {
                lock: RawLock::new(),
                next: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
            }
        }
    }

    /// Leader: puts the tasks `0..count` there. The phase that is opened afterwards orders it.
    pub fn fill(&self, count: usize) {
        self.next.store(0, Ordering::Relaxed);
        self.end.store(count, Ordering::Relaxed);
    }

    /// Worker: takes a task.
    pub fn take(&self) -> Option<usize> {
        self.take_under(&self.lock)
    }

    /// Worker: takes a task under a lock of the crew.
    pub(crate) fn take_under(&self, lock: &RawLock) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        lock.lock();
        let task = self.next.load(Ordering::Relaxed);
        let taken = task < self.end.load(Ordering::Relaxed);
        if taken {
            self.next.store(task + 1, Ordering::Relaxed);
        }
        lock.unlock();
        taken.then_some(task)
    }

    /// Whether no task seems to be left. Once true it stays true until the queue is filled again.
    pub fn is_empty(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.end.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_task_is_taken_once() {
        let queue = TaskQueue::new();
        assert_eq!(queue.take(), None);
        queue.fill(1000);
        let mut taken: Vec<usize> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| std::iter::from_fn(|| queue.take()).collect::<Vec<_>>()))
                .collect();
            takers
                .into_iter()
                .flat_map(|taker| taker.join().unwrap())
                .collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, (0..1000).collect::<Vec<_>>());
        assert!(queue.is_empty());
    }
}
