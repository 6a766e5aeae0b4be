//! The helper threads of one heap: made with it, gone before it.

use std::thread::JoinHandle;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::options::Parking;
use gleaner_work::Crew;

/// A crew with the threads that serve it.
pub(crate) struct Helpers {
    crew: *mut Crew,
    threads: Vec<JoinHandle<()>>,
}

// SAFETY: a crew is made for sharing, and the pointer is this value's alone.
unsafe impl Sync for Helpers {}
// SAFETY: as above.
unsafe impl Send for Helpers {}

impl Helpers {
    /// A crew with so many helpers, or fewer if the system refuses, that wait as `parking` says.
    pub(crate) fn new(wanted: usize, parking: Parking) -> Helpers {
        let mut helpers = Helpers {
            crew: Box::into_raw(Box::new(Crew::with_parking(parking))),
            threads: Vec::new(),
        };
        let crew = helpers.crew();
        crew.ensure_helpers(wanted, &mut |entry, argument| {
            if faults::armed(FaultPoint::StartWorker) {
                return false;
            }
            let argument = argument as usize;
            let name = format!("gleaner-{}", helpers.threads.len() + 1);
            let started = std::thread::Builder::new().name(name).spawn(move || {
                entry(argument as *mut _);
            });
            started.map(|thread| helpers.threads.push(thread)).is_ok()
        });
        helpers
    }

    /// The crew. It lives until this value is dropped: whoever keeps the reference is dropped before.
    pub(crate) fn crew(&self) -> &'static Crew {
        // SAFETY: the box is freed in `drop` alone.
        unsafe { &*self.crew }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.crew().dismiss();
        for thread in self.threads.drain(..) {
            // A helper that panicked has said so.
            let _ = thread.join();
        }
        // SAFETY: made by `Box::into_raw`; the helpers are gone, and so is the heap.
        drop(unsafe { Box::from_raw(self.crew) });
    }
}
