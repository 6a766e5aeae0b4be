//! The events of one collection, and the log: gathered while the world is stopped, written after it runs again. Nothing
//! here allocates.

use gleaner_base::events::{Event, LineBuffer, Phase};
use gleaner_os::log_file::LogFile;
use gleaner_os::{clock, threads};

/// The events of one collection.
pub struct Record {
    events: [Event; Record::MOST],
    count: usize,
    collection: u64,
}

impl Record {
    const MOST: usize = 40;

    /// A record of collection `collection`.
    // Not inline: it writes each field of each event.
    #[inline(never)]
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
        let mut event = self.begin(phase);
        let result = step(&mut event);
        self.end(&mut event);
        result
    }

    // These are called from each kind of step: inline they would be there some fifty times.
    #[inline(never)]
    fn begin(&self, phase: Phase) -> Event {
        let mut event = Event::new(phase, self.collection);
        event.start_ns = clock::monotonic_ns();
        event
    }

    #[inline(never)]
    fn end(&mut self, event: &mut Event) {
        event.duration_ns = clock::monotonic_ns() - event.start_ns;
        self.add(*event);
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

    /// What the events of a phase counted.
    pub fn objects(&self, phase: Phase) -> u64 {
        let of = self.events().iter().filter(|event| event.phase == phase);
        of.map(|event| event.objects).sum()
    }

    /// Bytes that the events of a phase counted.
    pub fn bytes(&self, phase: Phase) -> u64 {
        let of = self.events().iter().filter(|event| event.phase == phase);
        of.map(|event| event.bytes).sum()
    }

    /// For how long the world was stopped, its stopping and resuming included, in nanoseconds; 0 before it goes on.
    pub fn stopped_ns(&self) -> u64 {
        let last = |phase| self.events().iter().rfind(|event| event.phase == phase);
        match (last(Phase::StopWorld), last(Phase::ResumeWorld)) {
            (Some(stop), Some(resume)) => {
                (resume.start_ns + resume.duration_ns).saturating_sub(stop.start_ns)
            }
            _ => 0,
        }
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
