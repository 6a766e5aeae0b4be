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
mod policy;

use gleaner_base::options;

use crate::tally::CountedLock;
pub use futex::{Call, Seat};
pub use monitor::Monitor;
pub use policy::Park;

use futex::Seats;

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
