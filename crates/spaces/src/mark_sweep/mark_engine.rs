//! The parts of the marking engine: what each worker has, and what all share. See [`super::mark`] for the invariants.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicUsize;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::{AtomicU32, Ordering};
use gleaner_os::clock;
use gleaner_work::MAX_WORKERS;

use super::batches::{Inbox, Outbox};
use super::entry::Entry;
use super::prefetch::PrefetchSettings;
use super::scan::Scanner;

pub(super) const MAX_FIFO: usize = 64;

/// One worker's part of the marking engine, in mapped memory.
pub(super) struct Marker {
    /// See the invariants.
    pub(super) own: UnsafeCell<Own>,
    pub(super) outbox: Outbox<'static>,
    /// Bytes of the mapping, at the start of which this stands.
    pub(super) mapped: usize,
}

/// What a worker has for itself.
pub(super) struct Own {
    pub(super) scanner: Scanner,
    pub(super) fifo: [Entry; MAX_FIFO],
    pub(super) fifo_first: usize,
    pub(super) fifo_length: usize,
    /// The buffer in which entries for the leader are collected until it is full.
    pub(super) for_leader: u32,
}

/// The marking engine of a heap.
pub struct MarkEngine {
    pub(super) markers: [*const Marker; MAX_WORKERS],
    pub(super) ready: usize,
    pub(super) stack_bytes: usize,
    pub(super) settings: PrefetchSettings,
    pub(super) inbox: Inbox,
    /// First block that no worker has looked at in the current round of looking again.
    pub(super) rescan_cursor: AtomicUsize,
}

// SAFETY: see the invariants for what a worker has for itself; outboxes and the rest are made to be shared.
unsafe impl Sync for MarkEngine {}
// SAFETY: the mappings behind the pointers belong to no thread.
unsafe impl Send for MarkEngine {}

/// What a collection's marking did.
#[derive(Clone, Copy, Default, Debug)]
pub struct MarkOutcome {
    /// Entries scanned.
    pub scanned: usize,
    /// Bytes scanned.
    pub scanned_bytes: usize,
    /// Entries dropped because a stack was full.
    pub dropped: usize,
    /// Workers that could take part.
    pub workers: usize,
    /// Of what was scanned, objects whose mark procedures or own descriptors were left to the next stop.
    pub passed_over: usize,
}

/// Until when markers mark what may be left for later.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until<'a> {
    /// In nanoseconds of the monotonic clock; 0 never comes.
    deadline: u64,
    /// How many threads wait for the markers to leave.
    waiting: Option<&'a AtomicU32>,
}

impl<'a> Until<'a> {
    /// Until nothing is grey.
    pub const NOTHING_IS_GREY: Until<'static> = Until {
        deadline: 0,
        waiting: None,
    };

    /// Until a time of the monotonic clock, in nanoseconds.
    pub const fn time(deadline: u64) -> Until<'static> {
        Until {
            deadline,
            waiting: None,
        }
    }

    /// Until a time of the monotonic clock, in nanoseconds, or until another thread waits for the markers to leave. It counts
    /// itself in `waiting`.
    pub const fn time_or_waiting(deadline: u64, waiting: &'a AtomicU32) -> Until<'a> {
        Until {
            deadline,
            waiting: Some(waiting),
        }
    }

    /// Whether that has come.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_wanted()
            || self.deadline != 0
                && (clock::monotonic_ns() >= self.deadline
                    || faults::armed(FaultPoint::MarkTimeOver))
    }

    /// Whether another thread waits for the markers to leave.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        // Relaxed: a hint. The lock for which that thread waits orders what it does then.
        self.waiting
            .is_some_and(|waiting| waiting.load(Ordering::Relaxed) > 0)
    }

    /// Whether another thread may be waiting, so that this is to be asked often.
    #[inline]
    pub(super) fn is_urgent(&self) -> bool {
        self.waiting.is_some()
    }
}
