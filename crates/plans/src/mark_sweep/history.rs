//! What the libgc heap remembers of its collections: totals, the ring of events, the log.

use gleaner_base::events::{Event, Phase};
use gleaner_os::clock;

use crate::mark_sweep::heap::Heap;
use crate::shared::record::{Record, write_event};

/// Sums over the life of a heap. Times in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    /// Time in which the world was stopped.
    pub stopped_ns: u64,
    /// The longest single stop.
    pub longest_stop_ns: u64,
    /// Time from the start to the end of collections.
    pub collecting_ns: u64,
    /// Time in marking.
    pub marking_ns: u64,
    /// Time in sweeping, in the pause and outside.
    pub sweeping_ns: u64,
    /// Bytes reclaimed by collections.
    pub reclaimed_bytes: u64,
    /// Entries dropped because a mark stack was full.
    pub dropped_entries: u64,
    /// The largest capacity.
    pub peak_capacity: usize,
    /// Finalizers that became ready.
    pub finalized: u64,
    /// Collections that kept the marks of the one before.
    pub kept_marks: u64,
    /// Cycles of marking in steps that began, and those of them that had to be ended in the stop.
    pub cycles: u64,
    /// See `cycles`.
    pub cycles_cut_short: u64,
    /// Steps, the time that they took, and the longest.
    pub steps: u64,
    /// See `steps`.
    pub stepping_ns: u64,
    /// See `steps`.
    pub longest_step_ns: u64,
    /// Bytes that the last marking in a stop scanned, and how long that takes (`decide::cycle::remember`).
    pub last_scanned: usize,
    /// See `last_scanned`.
    pub last_marking_ns: u64,
}

impl Heap {
    /// Puts the events of a collection into the ring and the log.
    pub fn publish(&mut self, record: &Record) {
        for event in record.events() {
            self.publish_event(event);
        }
    }

    /// Puts one event into the ring and the log.
    pub fn publish_event(&mut self, event: &Event) {
        self.events.push(event);
        write_event(&mut self.log, event);
    }

    pub(crate) fn record_growth(&mut self, before: usize, reason: &'static str) {
        let mut event = Event::new(Phase::HeapGrow, self.collections);
        event.start_ns = clock::monotonic_ns();
        event.bytes = (self.space.capacity - before) as u64;
        event.reason = reason;
        self.publish_event(&event);
    }

    /// Records that memory was exhausted.
    pub fn record_exhaustion(&mut self, bytes: usize, reason: &'static str) {
        let mut event = Event::new(Phase::OutOfMemory, self.collections);
        event.start_ns = clock::monotonic_ns();
        event.bytes = bytes as u64;
        event.reason = reason;
        self.publish_event(&event);
    }
}
