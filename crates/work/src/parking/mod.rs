//! Where threads sleep until they are called: to a phase, back into it, or to its end (ASPLOS 2013, 2.3.3 and 3.1.2).
//!
//! Two policies stand beside each other. With [`monitor`] all wait for one condition under one lock, which guards the
//! tasks of the phase as well if they are `locked`: Parallel Scavenge as the paper finds it. With [`futex`] each thread sleeps on a word of
//! its own and no lock is taken: what the paper's cure comes to here.
//!
//! Parking decides where a thread sleeps and which thread wakes it, and nothing else. Which threads are in a phase and
//! when it is finished, [`crate::termination`] says under either policy, so a wake-up that comes too often or too late
//! costs time and never work.

pub mod futex;
pub mod monitor;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::options;
use gleaner_base::sync::{AtomicU32, AtomicU64, futex_wait_timeout};

use crate::tally::CountedLock;
use crate::termination::{PhaseNumber, Termination};
pub use futex::{Call, Seat};
pub use monitor::Monitor;

use futex::Seats;

/// What the crew asks of a policy. Workers are named by their index, 0 being the leader.
pub trait Park: Sync {
    /// Leader, alone inside `phase`, which is open: takes its place, and calls the helpers below `workers`.
    fn call(&self, phase: PhaseNumber, workers: usize);

    /// The life of helper `index`: waits, joins the phases that it is called to and comes in time for, does `work` in
    /// each and leaves it. `work` says whether the worker still counts as active. Returns after `dismiss`.
    fn serve(
        &self,
        index: usize,
        termination: &Termination,
        work: &mut dyn FnMut(PhaseNumber) -> bool,
    );

    /// Worker `index`, inside `phase`, has nothing to do from now on and can be called back.
    fn rest(&self, index: usize, phase: PhaseNumber);

    /// Worker `index`, inside `phase`, is busy again.
    fn rise(&self, index: usize, phase: PhaseNumber);

    /// Whether worker `index`, which rests and does not sleep, was called back. A hint.
    fn is_called(&self, index: usize) -> bool;

    /// Leader, inside `phase`, with nothing to do: sleeps until it is called back or `done` is true. May return early.
    /// The worker that makes `done` true tells the leader afterwards.
    fn wait(&self, phase: PhaseNumber, done: &dyn Fn() -> bool);

    /// A helper: `done` may be true for the leader of `phase`. Does nothing if that phase is over.
    fn tell_leader(&self, phase: PhaseNumber);

    /// A worker inside `phase` published work for the workers in the mask `wanted`, and looked afterwards into `idle`, the
    /// mask of those that wait for work: calls at least one of those in both back, unless there is none, and takes the
    /// ones that it called out of `idle`.
    fn call_back(&self, wanted: u64, idle: &AtomicU64, phase: PhaseNumber);

    /// How often helpers that slept were woken.
    fn wakeups(&self) -> u64;

    /// Sends the helpers `1..=helpers` home. No phase is running.
    fn dismiss(&self, helpers: usize);

    /// Back to the new state. Only in a forked child, before it has helpers.
    fn reset(&self);
}

/// How long the fault `worker-late` holds a helper up.
const HELD_UP_NS: u64 = 5_000_000;

/// Whether the calling helper is to be late. It then calls [`hold_up`], with no lock.
fn is_late() -> bool {
    faults::armed(FaultPoint::WorkerLate)
}

#[cold]
fn hold_up() {
    futex_wait_timeout(&AtomicU32::new(0), 0, HELD_UP_NS);
}

/// The policy of a crew, with its state.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each crew, and nothing here allocates"
)]
pub(crate) enum Parking {
    Futex(Seats),
    Monitor(Monitor),
}

impl Parking {
    gleaner_base::sync_const_fn! {
        /// Nobody waits yet.
        pub(crate) fn new(policy: options::Parking) -> Self {
            match policy {
                options::Parking::Futex => Self::Futex(Seats::new()),
                options::Parking::Monitor => Self::Monitor(Monitor::new()),
            }
        }
    }

    /// Which policy it is.
    pub(crate) fn option(&self) -> options::Parking {
        match self {
            Self::Futex(_) => options::Parking::Futex,
            Self::Monitor(_) => options::Parking::Monitor,
        }
    }

    /// The lock that all threads share, where the policy has one.
    pub(crate) fn lock(&self) -> Option<&CountedLock> {
        match self {
            Self::Futex(_) => None,
            Self::Monitor(monitor) => Some(monitor.lock()),
        }
    }

    /// The policy by its interface.
    pub(crate) fn policy(&self) -> &dyn Park {
        match self {
            Self::Futex(seats) => seats,
            Self::Monitor(monitor) => monitor,
        }
    }
}
