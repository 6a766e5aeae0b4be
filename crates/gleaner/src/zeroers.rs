//! The zeroing threads of one heap (`zeroing=concurrent` and its like): started with it, gone before it.

use std::thread::JoinHandle;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_mem::slot::SlotFormat;
use gleaner_plans::scavenge::Scavenge;
use gleaner_plans::scavenge::zeroing::wanted_threads;

/// The threads, and how they are told to end.
pub(crate) struct Zeroers {
    threads: Vec<JoinHandle<()>>,
    dismiss: Box<dyn Fn() + Send + Sync>,
}

impl Zeroers {
    /// As many threads as the heap wants, or fewer if the system refuses: mutators then zero by themselves.
    ///
    /// # Safety
    /// The heap stays where it is, and is dropped after this value.
    pub(crate) unsafe fn start<F: SlotFormat + 'static>(heap: &Scavenge<F>) -> Zeroers {
        let place = heap as *const Scavenge<F> as usize;
        // SAFETY: the caller's promise.
        let heap_of = move || unsafe { &*(place as *const Scavenge<F>) };
        let mut threads = Vec::new();
        for index in 0..wanted_threads(&heap.config) {
            if faults::armed(FaultPoint::StartWorker) {
                break;
            }
            let started = std::thread::Builder::new()
                .name(format!("gleaner-zero-{}", index + 1))
                .spawn(move || heap_of().zeroing_thread(index));
            let Ok(thread) = started else { break };
            threads.push(thread);
        }
        let dismiss = Box::new(move || heap_of().zeroing.dismiss());
        Zeroers { threads, dismiss }
    }
}

impl Drop for Zeroers {
    fn drop(&mut self) {
        (self.dismiss)();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
