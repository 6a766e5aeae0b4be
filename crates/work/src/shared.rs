//! What the workers of a crew see of it while they are in a phase.

use core::cell::Cell;
use core::fmt;

use gleaner_base::options;
use gleaner_base::sync::{AtomicU64, AtomicUsize, Ordering};

use crate::parking::{Park, Parking};
use crate::tally::CountedLock;
use crate::task_queue::TaskQueue;
use crate::termination::{PhaseNumber, Termination};

/// The state of a crew that its workers share.
pub(crate) struct Shared {
    pub(crate) termination: Termination,
    /// One bit for each worker of the current phase that waits for work.
    pub(crate) idle: AtomicU64,
    /// Where the workers wait.
    pub(crate) parking: Parking,
    /// The tasks that the current phase began with.
    pub(crate) tasks: TaskQueue,
    /// How many processors the workers share; 0 if nobody said. Written by [`Crew::expect_processors`](crate::Crew::expect_processors)
    /// between phases, read by workers.
    pub(crate) processors: AtomicUsize,
    /// How many workers the current phase calls. Written by the leader before it begins, read by workers inside the phase.
    pub(crate) called: AtomicUsize,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("termination", &self.termination)
            .finish_non_exhaustive()
    }
}

impl Shared {
    gleaner_base::sync_const_fn! {
        /// Without a phase, with these policies.
        pub(crate) fn new(parking: options::Parking, tasks: options::TaskQueue) -> Self {
            Self {
                termination: Termination::new(),
                idle: AtomicU64::new(0),
                parking: Parking::new(parking),
                tasks: TaskQueue::new(tasks),
                processors: AtomicUsize::new(0),
                called: AtomicUsize::new(0),
            }
        }
    }

    /// Whether a worker that has run out of work may look for more before it sleeps.
    pub(crate) fn may_poll(&self) -> bool {
        let processors = self.processors.load(Ordering::Relaxed);
        processors == 0 || self.called.load(Ordering::Relaxed) <= processors
    }

    /// A worker inside the phase takes a task: under the monitor's lock, or the queue's own, if there is to be one.
    pub(crate) fn take_task(&self, phase: PhaseNumber, lost: &Cell<u32>) -> Option<usize> {
        self.tasks.take_under(self.task_lock(), phase, lost)
    }

    /// The lock under which tasks are taken.
    pub(crate) fn task_lock(&self) -> &CountedLock {
        self.parking.lock().unwrap_or(self.tasks.lock())
    }

    /// Where the workers wait, as they ask it.
    pub(crate) fn parking(&self) -> &dyn Park {
        self.parking.policy()
    }
}
