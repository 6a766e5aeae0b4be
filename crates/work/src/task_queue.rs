//! The tasks of a phase that exist from its start: root tasks, strips of cards (ASPLOS 2013, sections 2.3.3 and 3.1.1).
//!
//! The tasks are numbers below a count, which workers take one after the other; what a number means is the phase's
//! business. How they are taken is a policy. `locked`: under one lock, the monitor's where the crew waits on one, as the
//! paper finds Parallel Scavenge. `lock-free`: by compare-and-swap, the paper's cure. The paper needs a list (Michael and
//! Scott's queue); numbers in order need one word.
//!
//! # The fill
//! The paper fills its queue without synchronisation, since "there is no concurrency between enqueue and dequeue
//! operations". That holds as long as all threads meet at the end of a phase, and the paper removes that barrier. A
//! thread that was preempted in phase k may still look for a task when the queue is filled for phase k+1. A model in
//! `tests/models.rs` shows what comes of it. Here the words carry the number of the phase, and the fill is published by
//! one release write, so that a worker of another phase finds nothing, whenever it looks.
//!
//! # Invariants
//! - I9: the next task and the end each lie in one word with the phase that they belong to. A task is taken by a step
//!   that succeeds only on a word of the taker's phase, and the number of a phase does not come back within 2^29 phases.
//! - A task is taken once, and tasks are taken in ascending order.
//! - Under `locked`, `next` and `end` change under the lock, also in the fill; all use the same lock.
//!
//! The crew fills the queue when it begins a phase, since it alone knows the number; workers take through
//! [`Worker::take_task`](crate::Worker::take_task).

use core::cell::Cell;

use gleaner_base::options;
use gleaner_base::sync::{AtomicU64, Ordering};

use crate::tally::CountedLock;
use crate::termination::PhaseNumber;

/// A word has the number of a task in its low bits, and that of the phase above.
const TASK_BITS: u32 = 35;
const TASK_MASK: u64 = (1 << TASK_BITS) - 1;

/// The most tasks of a phase.
pub const MOST_TASKS: usize = TASK_MASK as usize;

const fn word(phase: PhaseNumber, task: usize) -> u64 {
    (phase.get() as u64) << TASK_BITS | task as u64
}

const fn is_of(word: u64, phase: PhaseNumber) -> bool {
    word >> TASK_BITS == phase.get() as u64
}

/// The tasks of the current phase, or of the last one.
#[derive(Debug)]
#[repr(align(128))]
pub struct TaskQueue {
    /// The next task. The Release of a fill publishes it; `take` partners it with Acquire.
    next: AtomicU64,
    /// One past the last task. Written in a fill, before `next` is.
    end: AtomicU64,
    /// Whether the policy is `locked`. Not the policy itself, whose default is no 0: a crew in a static begins as bytes of 0.
    is_locked: bool,
    /// What tasks are taken under where the crew has no lock for it.
    lock: CountedLock,
}

impl Default for TaskQueue {
    fn default() -> Self {
        Self::new(options::TaskQueue::LockFree)
    }
}

impl TaskQueue {
    gleaner_base::sync_const_fn! {
        /// A queue without tasks.
        pub fn new(policy: options::TaskQueue) -> Self {
            Self {
                next: AtomicU64::new(0),
                end: AtomicU64::new(0),
                is_locked: matches!(policy, options::TaskQueue::Locked),
                lock: CountedLock::new(),
            }
        }
    }

    /// Leader, with no phase open: puts the tasks `0..count` of `phase` there. Panics if there are more than
    /// [`MOST_TASKS`].
    pub fn fill(&self, phase: PhaseNumber, count: usize) {
        self.fill_under(&self.lock, phase, count);
    }

    /// As [`TaskQueue::fill`], under a lock of the crew.
    pub(crate) fn fill_under(&self, lock: &CountedLock, phase: PhaseNumber, count: usize) {
        assert!(count <= MOST_TASKS, "{count} tasks in one phase");
        self.under(lock, || {
            self.end.store(word(phase, count), Ordering::Relaxed);
            // Release publishes. A store would do; but loom does not see that a compare-and-swap of a late worker, which
            // read what was there before, comes before it.
            self.next.swap(word(phase, 0), Ordering::AcqRel);
        });
    }

    /// Takes a task of `phase`; nothing if none is left, or if the queue is another phase's.
    pub fn take(&self, phase: PhaseNumber) -> Option<usize> {
        self.take_under(&self.lock, phase, &Cell::new(0))
    }

    /// As [`TaskQueue::take`], under a lock of the crew. It adds to `lost` how often it aimed at a task that another
    /// worker took.
    pub(crate) fn take_under(
        &self,
        lock: &CountedLock,
        phase: PhaseNumber,
        lost: &Cell<u32>,
    ) -> Option<usize> {
        while self.next(phase).is_some() {
            let taken = self.under(lock, || {
                let next = self.next(phase)?;
                Some((next, self.advance(next)))
            });
            if let Some((next, true)) = taken {
                return Some((next & TASK_MASK) as usize);
            }
            lost.set(lost.get() + u32::from(taken.is_some()));
        }
        None
    }

    /// Whether no task of `phase` seems to be left. Once true it stays true.
    pub fn is_empty(&self, phase: PhaseNumber) -> bool {
        self.next(phase).is_none()
    }

    /// Leader, with no other worker in the phase: how many tasks of the phase that was filled last were taken.
    pub(crate) fn taken(&self) -> usize {
        // Relaxed: the workers left the phase before the leader found it drained.
        (self.next.load(Ordering::Relaxed) & TASK_MASK) as usize
    }

    /// How tasks are taken.
    pub(crate) fn policy(&self) -> options::TaskQueue {
        if self.is_locked {
            options::TaskQueue::Locked
        } else {
            options::TaskQueue::LockFree
        }
    }

    /// The queue's own lock.
    pub(crate) fn lock(&self) -> &CountedLock {
        &self.lock
    }

    /// In a forked child: the thread that held the lock may exist in the parent only.
    pub(crate) fn reset(&self) {
        self.lock.reset_after_fork();
    }

    /// The word of the next task, if it is one of `phase`.
    fn next(&self, phase: PhaseNumber) -> Option<u64> {
        // Acquire partners the Release of the fill: an end of that phase or of a later one is seen next.
        let next = self.next.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Relaxed);
        (is_of(next, phase) && is_of(end, phase) && next < end).then_some(next)
    }

    /// Goes on from `next`, if that is still the next task.
    fn advance(&self, next: u64) -> bool {
        if self.is_locked {
            // Release: a store of another thread's ends the release sequence of the fill, whose end is to be seen.
            self.next.store(next + 1, Ordering::Release);
            true
        } else {
            // Relaxed: it goes on with the release sequence of the fill, and a task is handed to nobody.
            self.next
                .compare_exchange_weak(next, next + 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        }
    }

    /// Does `body` under the lock if the policy has one.
    fn under<R>(&self, lock: &CountedLock, body: impl FnOnce() -> R) -> R {
        if !self.is_locked {
            return body();
        }
        lock.lock();
        let result = body();
        lock.unlock();
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    const POLICIES: [options::TaskQueue; 2] =
        [options::TaskQueue::Locked, options::TaskQueue::LockFree];
    const FIRST: PhaseNumber = PhaseNumber::NONE.next();
    const SECOND: PhaseNumber = FIRST.next();

    #[test]
    fn a_lock_that_was_held_when_the_process_forked_is_free_in_the_child() {
        let phase = PhaseNumber::new(1);
        let queue = TaskQueue::new(options::TaskQueue::Locked);
        queue.lock().lock();
        queue.reset();
        queue.fill(phase, 1);
        assert_eq!(queue.take(phase), Some(0));
    }

    #[test]
    fn each_task_is_taken_once() {
        for policy in POLICIES {
            let queue = TaskQueue::new(policy);
            assert_eq!(queue.take(FIRST), None);
            queue.fill(FIRST, 1000);
            let mut taken: Vec<usize> = std::thread::scope(|scope| {
                let takers: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            let own: Vec<_> = std::iter::from_fn(|| queue.take(FIRST)).collect();
                            assert!(own.is_sorted(), "a later task is taken later");
                            own
                        })
                    })
                    .collect();
                takers
                    .into_iter()
                    .flat_map(|taker| taker.join().unwrap())
                    .collect()
            });
            taken.sort_unstable();
            assert_eq!(taken, (0..1000).collect::<Vec<_>>());
            assert!(queue.is_empty(FIRST));
        }
    }

    #[test]
    fn other_phases_find_nothing_and_change_nothing() {
        for policy in POLICIES {
            let queue = TaskQueue::new(policy);
            queue.fill(FIRST, 2);
            assert!(queue.is_empty(SECOND) && queue.take(SECOND).is_none());
            assert_eq!(queue.take(FIRST), Some(0));
            // One is left over.
            queue.fill(SECOND, 1);
            assert!(queue.is_empty(FIRST) && queue.take(FIRST).is_none());
            assert!(!queue.is_empty(SECOND));
            assert_eq!(queue.take(SECOND), Some(0));
            assert_eq!(queue.take(SECOND), None);
            queue.fill(SECOND.next(), 0);
            assert!(queue.is_empty(SECOND.next()));
        }
    }

    #[test]
    fn the_most_tasks_do_not_reach_into_the_phase() {
        let last = PhaseNumber::new(u32::MAX);
        let queue = TaskQueue::default();
        queue.fill(last, MOST_TASKS);
        assert_eq!(queue.take(last), Some(0));
        assert!(queue.is_empty(last.next()));
        assert_eq!(word(last, MOST_TASKS), u64::MAX);
    }
}
