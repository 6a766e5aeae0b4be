//! Starts and joins the zeroing threads of one heap (`zeroing=concurrent` and its like), also anew in a forked child;
//! what they do is in `plans`, `scavenge/zeroing`.

use gleaner_mem::slot::SlotFormat;
use gleaner_os::threads::Role;
use gleaner_plans::scavenge::zeroing::{fragment_of, wanted_threads};
use gleaner_plans::scavenge::{Config, Scavenge};

use crate::threads::{self, Factory, Threads};

/// The threads, and how they are told to end.
pub(crate) struct Zeroers {
    pub(crate) threads: Threads,
    /// What the thread of that number does, from 0.
    work: fn(usize, usize),
    dismiss: fn(usize),
    /// The heap, and how it is set up.
    heap: usize,
    config: Config,
    factory: Factory,
}

impl Zeroers {
    /// Of a heap that is not complete: they are yet to be started.
    ///
    /// # Safety
    /// The heap stays where it is, and is dropped after this value.
    pub(crate) unsafe fn new<F: SlotFormat + 'static>(
        heap: &Scavenge<F>,
        factory: Factory,
    ) -> Zeroers {
        /// # Safety
        /// `place` is that of a heap that exists.
        unsafe fn heap_at<'a, F>(place: usize) -> &'a Scavenge<F> {
            // SAFETY: a heap is at `place`, as the caller promises.
            unsafe { &*(place as *const Scavenge<F>) }
        }
        Zeroers {
            threads: Threads::new(Vec::new()),
            // SAFETY: the promise of `new`'s caller: this value ends the threads before the heap ends.
            work: |place, index| unsafe { heap_at::<F>(place) }.zeroing_thread(index),
            // SAFETY: these threads end before the heap does, as `new` asks.
            dismiss: |place| unsafe { heap_at::<F>(place) }.zeroing.dismiss(),
            heap: heap as *const Scavenge<F> as usize,
            config: heap.config,
            factory,
        }
    }

    /// Starts those that there are to be and are not, or fewer if the system refuses: mutators then zero by themselves.
    /// Nobody changes the heap itself from then on.
    pub(crate) fn start(&self) {
        let (work, heap) = (self.work, self.heap);
        self.threads.with(|threads| {
            while threads.len() < wanted_threads(&self.config) {
                let number = threads.len();
                let (node, role) = (
                    fragment_of(&self.config, number),
                    (Role::Zeroer, number + 1),
                );
                let work = move || work(heap, number);
                match self.factory.start(&self.config, node, role, work) {
                    Some(thread) => threads.push(thread),
                    None => break,
                }
            }
        });
    }
}

impl Drop for Zeroers {
    fn drop(&mut self) {
        (self.dismiss)(self.heap);
        threads::join(&self.threads);
    }
}
