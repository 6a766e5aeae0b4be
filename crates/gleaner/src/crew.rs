//! The helper threads of one heap: made with it, and anew in a forked child; gone before it.

use gleaner_os::threads::Role;
use gleaner_plans::scavenge::Config;
use gleaner_work::Crew;

use crate::threads::{self, Factory, Threads};

/// A crew with the threads that serve it.
pub(crate) struct Helpers {
    crew: *mut Crew,
    /// How the heap is set up: how many there are to be, and where.
    config: Config,
    factory: Factory,
    pub(crate) threads: Threads,
}

// SAFETY: a crew is made for sharing, and the pointer is this value's alone.
unsafe impl Sync for Helpers {}
// SAFETY: the pointer may be dropped on any thread: nothing of a crew belongs to one.
unsafe impl Send for Helpers {}

impl Helpers {
    /// A crew with the helpers that a heap is to have, or fewer if the system refuses; they wait and take tasks as its
    /// options say.
    pub(crate) fn new(config: &Config, factory: &Factory) -> Helpers {
        let crew = Crew::with_policies(config.options.parking, config.options.task_queue);
        crew.expect_processors(config.topology.processors);
        let helpers = Helpers {
            crew: Box::into_raw(Box::new(crew)),
            config: *config,
            factory: factory.clone(),
            threads: Threads::new(Vec::new()),
        };
        helpers.start();
        helpers
    }

    /// Starts those that there are to be and are not.
    pub(crate) fn start(&self) {
        self.threads.with(|threads| {
            let crew = self.crew();
            let wanted = self.config.workers.saturating_sub(1);
            crew.ensure_helpers(wanted, &mut |index| {
                // SAFETY: the crew gave out the index, and this thread alone is started for it.
                let serve = move || unsafe { crew.serve(index) };
                let node = self.config.homes.of_worker(index);
                let factory = &self.factory;
                let started = factory.start(&self.config, node, (Role::Worker, index), serve);
                started.map(|thread| threads.push(thread)).is_some()
            });
        });
    }

    /// The crew. It lives until this value is dropped; what keeps the reference is dropped before.
    pub(crate) fn crew(&self) -> &'static Crew {
        // SAFETY: the box is freed in `drop` alone.
        unsafe { &*self.crew }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.crew().dismiss();
        threads::join(&self.threads);
        // SAFETY: made by `Box::into_raw`; the helpers are gone, and so is the heap.
        drop(unsafe { Box::from_raw(self.crew) });
    }
}
