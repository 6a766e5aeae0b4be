//! What a heap remembers of its collections: totals, the ring of events, the log.
//!
//! Events are collected while the world is stopped and written after it runs again; nothing here allocates.

use gleaner_base::events::{Event, LineBuffer, Phase};
use gleaner_os::log_file::LogFile;
use gleaner_os::{clock, threads};

use crate::heap::Heap;

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
}

/// The events of one collection.
pub struct Record {
    events: [Event; Record::MOST],
    count: usize,
    collection: u64,
}

impl Record {
    const MOST: usize = 40;

    /// A record of collection `collection`.
    pub fn new(collection: u64) -> Record {
        Record {
            events: [Event::new(Phase::Start, collection); Record::MOST],
            count: 0,
            collection,
        }
    }

    /// The number of the collection.
    pub fn collection(&self) -> u64 {
        self.collection
    }

    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        if self.count < Record::MOST {
            self.events[self.count] = event;
            self.count += 1;
        }
    }

    /// Runs `step`, times it and adds its event; `step` may fill in the event's numbers.
    pub fn step<R>(&mut self, phase: Phase, step: impl FnOnce(&mut Event) -> R) -> R {
        let mut event = Event::new(phase, self.collection);
        event.start_ns = clock::monotonic_ns();
        let result = step(&mut event);
        event.duration_ns = clock::monotonic_ns() - event.start_ns;
        self.add(event);
        result
    }

    /// Corrects the duration of the event added last.
    pub fn set_last_duration(&mut self, nanoseconds: u64) {
        if let Some(last) = self.count.checked_sub(1) {
            self.events[last].duration_ns = nanoseconds;
        }
    }

    /// Says what was allocated before the collection, which is known when the world has stopped.
    pub fn set_start_bytes(&mut self, bytes: u64) {
        if let Some(start) = self.events[..self.count]
            .iter_mut()
            .find(|event| event.phase == Phase::Start)
        {
            start.bytes = bytes;
        }
    }

    /// The events so far.
    pub fn events(&self) -> &[Event] {
        &self.events[..self.count]
    }

    /// Time spent in a phase.
    pub fn duration(&self, phase: Phase) -> u64 {
        self.events()
            .iter()
            .filter(|event| event.phase == phase)
            .map(|event| event.duration_ns)
            .sum()
    }
}

/// Writes an event to the log. One that cannot be written is the last: the program goes on.
pub(crate) fn write_event(log: &mut Option<LogFile>, event: &Event) {
    let Some(file) = *log else { return };
    let mut line = LineBuffer::<512>::new();
    if !file.append(event.write_line(threads::current_process() as u32, &mut line)) {
        *log = None;
    }
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use gleaner_os::output::open_append;

    #[test]
    fn a_log_that_cannot_be_written_ends() {
        let event = Event::new(Phase::Start, 1);
        for (path, lasts) in [(c"/dev/null", true), (c"/dev/full", false)] {
            let mut log = open_append(path).map(LogFile::new);
            write_event(&mut log, &event);
            write_event(&mut log, &event);
            assert_eq!(log.is_some(), lasts, "{path:?}");
        }
    }
}
