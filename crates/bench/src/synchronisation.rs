//! What the workers of a heap did with each other in all collections, as JSON: what the lab's model of a machine reads.

use gleaner::Synchronisation;
use serde::Serialize;

/// The counts of one run ([`Synchronisation`] says what they are), and the policies under which they came about.
#[derive(Serialize)]
pub struct Line {
    phases: u64,
    tasks: u64,
    wakeups: u64,
    lock_acquisitions: u64,
    failed_cas: u64,
    task_queue: &'static str,
    parking: &'static str,
}

impl Line {
    /// Of a heap that counted this.
    pub fn new(all: &Synchronisation) -> Line {
        Line {
            phases: all.phases,
            tasks: all.tasks,
            wakeups: all.wakeups,
            lock_acquisitions: all.lock_acquisitions,
            failed_cas: all.failed_cas,
            task_queue: all.task_queue.as_str(),
            parking: all.parking.as_str(),
        }
    }
}
