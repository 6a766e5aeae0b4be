//! `Counter`: a number for statistics that several threads add to.
//!
//! The idea: what is counted decides nothing, so a count orders nothing and is no step of a model. The code that counts
//! never reads it. That is why this is an atomic of `core` in both builds: loom would explore each addition.
//!
//! Invariants: all accesses are relaxed. A reader that is ordered after the threads that added (by a lock, or by the end
//! of a phase) reads all that they added. Any thread runs it.

use core::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at 0.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it, beside other threads that do.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds to it where no other thread does at the same time: a plain load and a plain store.
    #[inline]
    pub fn add_alone(&self, count: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(count);
        self.0.store(sum, Ordering::Relaxed);
    }

    /// What was added so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
