//! What a heap remembers of stops in which copies share arraylets, from which it decides about the next one.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicU64, AtomicUsize, Ordering};

use crate::scavenge::decide::sharing::{self, Measurements};

/// What is remembered.
#[derive(Debug)]
pub(in crate::scavenge) struct SharingStops {
    /// How many there were; raised in stopped worlds, read by mutators to see whether another one shared before them.
    done: AtomicU64,
    /// What they took lately. Written in stopped worlds; relaxed, since it is no more than a number to compare with.
    lately_ns: AtomicU64,
    /// Bytes that were copied since the last one and could have been shared in one. Relaxed, as above.
    copied: AtomicUsize,
}

impl Default for SharingStops {
    fn default() -> SharingStops {
        SharingStops {
            done: AtomicU64::new(0),
            lately_ns: AtomicU64::new(sharing::FIRST_STOP_NS),
            copied: AtomicUsize::new(0),
        }
    }
}

impl SharingStops {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Whether a copy stops `others` mutators for `bytes` bytes of arraylets. If not, they will be copied.
    pub fn decide(&self, bytes: usize, others: usize) -> bool {
        let stops = sharing::stops(&Measurements {
            bytes,
            copied: self.copied.load(Ordering::Relaxed),
            others,
            stop_ns: self.lately_ns.load(Ordering::Relaxed),
        });
        if !stops {
            self.copied.fetch_add(bytes, Ordering::Relaxed);
        }
        stops
    }

    /// There was one, which took so long.
    pub fn note(&self, _: &mut WorldStopped<'_>, ns: u64) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.copied.store(0, Ordering::Relaxed);
        let lately = self.lately_ns.load(Ordering::Relaxed);
        self.lately_ns
            .store(sharing::lately(lately, ns), Ordering::Relaxed);
    }
}
