//! The words by which threads are stopped and resumed, counted in epochs (I9), and where a stopped thread waits.
//!
//! One word holds the epoch: odd while the world is stopped. A thread that is told to stop publishes its stack
//! pointer, writes the epoch into its own word, raises the count of acknowledgements, and sleeps until the epoch has
//! moved on. The stopper waits until every thread's own word holds its epoch. A thread that is still on its way out
//! of stop k when stop k+2 begins sees that from the number, so the stopper need not wait for threads to resume.
//!
//! A thread can also be held by itself (`GC_suspend_thread`): it then sleeps on a word of its own and counts as
//! stopped in every epoch.
//!
//! Everything here may run in a signal handler: atomics and raw futexes only, `errno` untouched.

use gleaner_base::sync::{
    AtomicU32, AtomicUsize, Ordering, fence, futex_wait, futex_wait_timeout, futex_wake,
};

/// The shared words of one world.
pub struct World {
    /// The epoch; odd while stopped. Written by the stopper, under the allocator lock.
    epoch: AtomicU32,
    /// Raised with every acknowledgement; the stopper sleeps on it.
    acknowledged: AtomicU32,
    /// The station of the thread that stopped the world last; 0 if that has none. Written by the stopper, before `epoch`. What
    /// counts is whether a thread reads there what it wrote itself, so models leave the word's orders out: they would take three
    /// times as long.
    stopper: core::sync::atomic::AtomicUsize,
}

/// The words of one thread.
pub struct Station {
    /// The last epoch that the thread stopped in. Written by the thread.
    stopped_in: AtomicU32,
    /// 1 while the thread is to be held by itself. Written under the allocator lock.
    hold: AtomicU32,
    /// 1 while the thread sleeps because of `hold`. Written by the thread.
    held: AtomicU32,
    /// 1 while the thread is on its way out behind a section of the client's. Written by the thread.
    leaving: AtomicU32,
    /// Stack pointer below which nothing of the thread needs scanning. Written by the thread before it acknowledges.
    stack_pointer: AtomicUsize,
}

impl Station {
    gleaner_base::sync_const_fn! {
        /// A running thread's words.
        pub fn new() -> Self {
            Self {
                stopped_in: AtomicU32::new(0),
                hold: AtomicU32::new(0),
                held: AtomicU32::new(0),
                leaving: AtomicU32::new(0),
                stack_pointer: AtomicUsize::new(0),
            }
        }
    }

    /// The stack pointer that the thread published when it stopped.
    pub fn stack_pointer(&self) -> usize {
        // Relaxed: ordered by the acknowledgement that the stopper has seen.
        self.stack_pointer.load(Ordering::Relaxed)
    }

    /// True if the thread sleeps because it is held.
    pub fn is_held(&self) -> bool {
        // Acquire: partner of the Release in `World::stop_here`.
        self.held.load(Ordering::Acquire) == 1
    }

    /// Asks that the thread be held; it must then be sent to [`World::stop_here`].
    pub fn hold(&self) {
        self.hold.store(1, Ordering::Release);
        // Partner of the fence in `stop_here`: if the thread is just leaving an earlier hold, then either it sees this
        // one and stays, or a thread that looks after this sees that it is not held.
        fence(Ordering::SeqCst);
    }

    /// Lets a held thread go.
    pub fn release(&self) {
        self.hold.store(0, Ordering::Release);
        futex_wake(&self.hold, 1);
    }

    /// The thread, with the lock that the stopper must take, is about to give it back and to return to the client.
    pub fn begin_leaving(&self) {
        // Relaxed: the lock orders it; who takes it next sees this.
        self.leaving.store(1, Ordering::Relaxed);
    }

    /// The thread has given the lock back and returns to the client.
    pub fn end_leaving(&self) {
        // Release: partner of the Acquire in `is_leaving`.
        self.leaving.store(0, Ordering::Release);
    }

    /// Whether the thread is between the two.
    pub fn is_leaving(&self) -> bool {
        // Acquire: partner of the Release in `end_leaving`.
        self.leaving.load(Ordering::Acquire) == 1
    }

    /// True if the thread is to be held.
    pub fn is_on_hold(&self) -> bool {
        // Acquire: partner of the Release in `release`; a thread that need not stay sees what was done while it had to.
        self.hold.load(Ordering::Acquire) == 1
    }
}

impl Default for Station {
    fn default() -> Self {
        Station::new()
    }
}

impl World {
    gleaner_base::sync_const_fn! {
        /// A running world.
        pub fn new() -> Self {
            Self {
                epoch: AtomicU32::new(0),
                acknowledged: AtomicU32::new(0),
                stopper: core::sync::atomic::AtomicUsize::new(0),
            }
        }
    }

    /// Stopper: begins a stop and returns its epoch. It is the thread with this station, or one without, for null.
    pub fn begin(&self, stopper: *const Station) -> u32 {
        // Relaxed: it is for the stopper itself, and for others before they are asked to stop.
        self.stopper.store(stopper as usize, Ordering::Relaxed);
        // Release: what the stopper wrote before is seen by threads that read the odd epoch.
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Stopper: ends the stop; every thread goes on.
    pub fn resume(&self) {
        // Release: partner of the Acquire in `stop_here`; threads see what the collector did.
        self.epoch.fetch_add(1, Ordering::AcqRel);
        futex_wake(&self.epoch, u32::MAX);
    }

    /// The epoch; odd while the world is stopped.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether a stop is in progress.
    pub fn is_stopped(&self) -> bool {
        self.epoch() & 1 == 1
    }

    /// Stopper: whether a thread has stopped in `epoch`, or is held by itself.
    pub fn has_stopped(&self, station: &Station, epoch: u32) -> bool {
        // Acquire: partner of the Release in `stop_here`.
        station.stopped_in.load(Ordering::Acquire) == epoch
            || (station.is_on_hold() && station.is_held())
    }

    /// Stopper: a ticket to sleep on, taken before looking whether threads have stopped.
    pub fn ticket(&self) -> u32 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Stopper: sleeps until some thread acknowledges after `ticket` was taken, at most `nanoseconds`.
    pub fn sleep(&self, ticket: u32, nanoseconds: u64) {
        futex_wait_timeout(&self.acknowledged, ticket, nanoseconds);
    }

    /// Thread: stops here if the world is stopped or the thread is to be held; returns when neither is so.
    pub fn stop_here(&self, station: &Station, stack_pointer: usize) {
        let is_stopper =
            self.stopper.load(Ordering::Relaxed) == core::ptr::from_ref(station) as usize;
        if is_stopper && self.is_stopped() {
            return; // Somebody else sent the signal.
        }
        loop {
            // Acquire: partner of `begin` and of `resume`.
            let epoch = self.epoch.load(Ordering::Acquire);
            let held = station.hold.load(Ordering::Acquire) == 1;
            if epoch & 1 == 0 && !held {
                return;
            }
            station
                .stack_pointer
                .store(stack_pointer, Ordering::Relaxed);
            if epoch & 1 == 1 {
                station.stopped_in.store(epoch, Ordering::Release);
                self.acknowledge();
                while self.epoch.load(Ordering::Acquire) == epoch {
                    futex_wait(&self.epoch, epoch);
                }
            } else {
                station.held.store(1, Ordering::Release);
                self.acknowledge();
                while station.hold.load(Ordering::Acquire) == 1 {
                    futex_wait(&station.hold, 1);
                }
                station.held.store(0, Ordering::Release);
                fence(Ordering::SeqCst); // Partner of the fence in `hold`.
            }
        }
    }

    fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::AcqRel);
        futex_wake(&self.acknowledged, 1);
    }
}

impl Default for World {
    fn default() -> Self {
        World::new()
    }
}
