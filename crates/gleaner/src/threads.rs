//! The threads of a heap: each blocks all signals, since a handler of the program must not run on one of them, and a
//! thread that waits for a signal must not lose it to one. Faults of their own are not blocked: a handler names them.

use std::thread::{Builder, JoinHandle};

use gleaner_base::faults::{self, FaultPoint};
use gleaner_os::signals;

use crate::guarded::Guarded;

/// Threads that were started and are to be joined. Its holder waits for the system at most, which starts one.
pub(crate) type Threads = Guarded<Vec<JoinHandle<()>>>;

/// Starts a thread; `None` when the system refuses.
pub(crate) fn start(name: String, body: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    if faults::armed(FaultPoint::StartWorker) {
        return None;
    }
    let mask = signals::block_all_but_faults();
    // A new thread starts with the mask of the one that makes it.
    let started = Builder::new().name(name).spawn(body);
    signals::restore(mask);
    started.ok()
}

/// Waits until all of them have ended.
pub(crate) fn join(threads: &Threads) {
    for thread in threads.with(std::mem::take) {
        // One that panicked has said so.
        let _ = thread.join();
    }
}
