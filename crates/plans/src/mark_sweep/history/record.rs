//! How a heap records a collection.

use gleaner_base::events::{Event, Phase};
use gleaner_base::options::HeapSizing;
use gleaner_os::{clock, memory};

use super::totals::{Begun, LEAST_WAIT_NS, RARELY};
use crate::mark_sweep::decide::balance::Price;
use crate::mark_sweep::decide::heap_size;
use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::weak::Outcome;
use crate::shared::log_ends;
use crate::shared::record::{Record, write_event};

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

    /// Asks what limits leave. Under `heap-sizing=balanced` remembers a collection that began when `started` says,
    /// stopped the program for `stopped` nanoseconds, and left `live` bytes alive.
    pub(crate) fn note_pace(&mut self, record: &Record, started: u64, stopped: u64, live: usize) {
        self.ask_room();
        self.note_what_was_saved(record.bytes(Phase::Start));
        self.allow_slack();
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

    /// What is to be allocated before the next collection where `live` bytes live, if memory is traded for time.
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
        self.pacing.begin_in_child();
        self.auto.begin_in_child();
        self.idle.begin_in_child();
        self.forget_helper_after_fork();
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
