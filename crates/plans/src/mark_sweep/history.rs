//! What the libgc heap remembers of its collections: totals, the ring of events, the log.

use gleaner_base::events::{Event, Phase};
use gleaner_base::options::HeapSizing;
use gleaner_os::{clock, memory};

use crate::mark_sweep::decide::balance::{Price, Rates};
use crate::mark_sweep::decide::heap_size;
use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::weak::Outcome;
use crate::shared::log_ends;
use crate::shared::record::{Record, write_event};

/// Sums over the life of a heap. Times in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    /// When the heap started, by the monotonic clock.
    pub started_ns: u64,
    /// Bytes that lived after each collection, in sum; and the same times what was allocated before it.
    pub live_bytes: u64,
    /// See `live_bytes`.
    pub live_by_allocated: f64,
    /// Time in which the world was stopped, but for snapshots.
    pub stopped_ns: u64,
    /// Time in which it was stopped for snapshots.
    pub snapshots_ns: u64,
    /// How many stops there were.
    pub stops: u64,
    /// Collections that the program asked for by name.
    pub asked: u64,
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
    /// Those of the last one.
    pub last_reclaimed_bytes: u64,
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
    /// Those of them that took too long because their thread lost the processor.
    pub steps_lost: u64,
    /// Bytes that were scanned for finalizers that became ready, in the last collection or, a little forgotten, before it.
    pub revived: usize,
    /// Bytes that the last marking in a stop scanned, and how long that takes (`decide::cycle::remember`).
    pub last_scanned: usize,
    /// See `last_scanned`.
    pub last_marking_ns: u64,
    /// Where this process began.
    pub begun: Begun,
}

/// What had been counted when this process began: all of it by the process that forked it, in sums that go on in the child since
/// the interface tells of them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Begun {
    /// Collections.
    pub collections: u64,
    /// Bytes allocated.
    pub allocated: u64,
    /// Bytes reclaimed by collections.
    pub reclaimed: u64,
}

impl Totals {
    /// Those of a child, which begins `now`: what only its own report tells begins anew.
    fn in_child(&self, begun: Begun, now: u64) -> Totals {
        Totals {
            started_ns: now,
            begun,
            collecting_ns: self.collecting_ns,
            reclaimed_bytes: self.reclaimed_bytes,
            last_reclaimed_bytes: self.last_reclaimed_bytes,
            peak_capacity: self.peak_capacity,
            dropped_entries: self.dropped_entries,
            revived: self.revived,
            last_scanned: self.last_scanned,
            last_marking_ns: self.last_marking_ns,
            ..Totals::default()
        }
    }
}

/// How fast the program allocates and its heap is marked, and what memory is left.
#[derive(Clone, Copy, Default, Debug)]
pub struct Pace {
    rates: Rates,
    /// Bytes that the machine had left at the last collection.
    left: usize,
    /// When that is asked again, by the monotonic clock.
    ask_after_ns: u64,
    /// When the last collection ended, by the monotonic clock; 0 before there was one.
    ended_ns: u64,
}

/// To ask what memory is left may take one part in so many of the time, and is done after so many nanoseconds at the soonest.
const RARELY: u64 = 1000;
const LEAST_WAIT_NS: u64 = 50_000_000;

impl Heap {
    /// Remembers what a collection has left of finalizers and links.
    pub(crate) fn note_weak(&mut self, outcome: &Outcome) {
        self.finalizers_before = self.weak.finalizers.count();
        let left = self.weak.links();
        let found = left + outcome.links_cleared + outcome.links_dropped;
        self.dying_links.note(found, left);
    }

    /// Where links die that cost more than what the program allocates, the next collection is decided about early.
    fn note_what_was_saved(&mut self, allocated: u64) {
        self.space.capacity = heap_size::where_much_was_saved(
            self.space.capacity,
            self.space.used_bytes(),
            usize::try_from(allocated).unwrap_or(usize::MAX),
            self.dying_links.last_bytes(),
            heap_size::least_between_collections(&self.measure(0, 0)),
            self.space.initial_capacity,
        );
    }

    /// Asks what limits leave. Under `heap-sizing=balanced` remembers a collection that began when `started` says, was a stop of so many
    /// nanoseconds, and left so many bytes alive.
    pub(crate) fn note_pace(&mut self, record: &Record, started: u64, stopped: u64, live: usize) {
        self.ask_room();
        self.note_what_was_saved(record.bytes(Phase::Start));
        if self.options.heap_sizing != HeapSizing::Balanced {
            return;
        }
        let since = match self.pace.ended_ns {
            0 => self.totals.started_ns,
            ended => ended,
        };
        let rates = &mut self.pace.rates;
        rates.note_allocation(record.bytes(Phase::Start), started.saturating_sub(since));
        if !self.extent.is_of_new() {
            rates.note_marking(live as u64, stopped);
        }
        let now = clock::monotonic_ns();
        // Asking takes as long as marking a small heap.
        if now >= self.pace.ask_after_ns {
            self.pace.left = usize::try_from(memory::available_memory()).unwrap_or(usize::MAX);
            let asked_ns = clock::monotonic_ns();
            self.pace.ask_after_ns = asked_ns + ((asked_ns - now) * RARELY).max(LEAST_WAIT_NS);
        }
        self.pace.ended_ns = clock::monotonic_ns();
    }

    /// What is to be allocated before the next collection where so many bytes `live`, if memory is traded for time.
    pub(crate) fn balanced(&self, live: usize) -> Option<usize> {
        if self.options.heap_sizing != HeapSizing::Balanced {
            return None;
        }
        let price = Price {
            hundredths_for_gigabyte: self.options.heap_price,
            divisor: self.settings.divisor,
            left: self.left().unwrap_or(usize::MAX).min(self.pace.left),
        };
        self.pace.rates.interval(live, &price)
    }

    /// This process was forked: its own log, statistics and advice begin here.
    pub fn begin_in_child(&mut self) {
        self.space.forget_readers();
        let begun = Begun {
            collections: self.collections,
            allocated: self.view().allocated_bytes() as u64,
            reclaimed: self.totals.reclaimed_bytes,
        };
        self.totals = self.totals.in_child(begun, clock::monotonic_ns());
        self.weighing.begin_in_child();
        if let Some(snapshots) = &mut self.snapshots {
            snapshots.begin_in_child();
        }
        log_ends::write_fork(
            &mut self.log,
            &self.options,
            &self.topology,
            self.collections,
        );
    }

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
