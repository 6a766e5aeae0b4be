//! One line of the log, and what its name says about it.

use std::borrow::Cow;

use gleaner_base::events::Phase;
use serde::Deserialize;

/// One thing that happened. A field that a line does not have is 0 or empty; fields that are not named here are ignored.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Event<'a> {
    /// The phase; of another version of Gleaner perhaps.
    #[serde(rename = "event", alias = "phase", borrow)]
    pub name: Cow<'a, str>,
    /// The process.
    pub pid: u64,
    /// Which of the heaps of the process, from 1; 0 where it has one alone.
    #[serde(default)]
    pub heap: u64,
    /// The number of the collection, from 1; outside of one, that of the last.
    #[serde(default)]
    pub collection: u64,
    /// When it began, in nanoseconds of the monotonic clock; of an end, when that was.
    #[serde(default)]
    pub start_ns: u64,
    /// How long it took.
    #[serde(default, alias = "ns")]
    pub duration_ns: u64,
    /// What these count is said at [`Phase`].
    #[serde(default)]
    pub bytes: u64,
    /// See `bytes`.
    #[serde(default)]
    pub objects: u64,
    /// Workers that took part.
    #[serde(default)]
    pub workers: u64,
    /// Nanoseconds of the duration for which the thread did not have the processor, as far as that was measured.
    #[serde(default)]
    pub lost_ns: u64,
    /// Nanoseconds that the stop that began here was to take at most; 0 where it had no such goal.
    #[serde(default)]
    pub goal_ns: u64,
    /// The thread that waited for a step; 0 where the log does not say it.
    #[serde(default)]
    pub thread: u64,
    /// Why it happened, or what was decided.
    #[serde(default, borrow)]
    pub reason: Cow<'a, str>,
    /// The command that started the process, of the event `options` alone, as are the fields after it.
    #[serde(default, borrow)]
    pub command: Cow<'a, str>,
    /// The version of Gleaner that wrote it.
    #[serde(default, borrow)]
    pub version: Cow<'a, str>,
    /// The system and its version.
    #[serde(default, borrow)]
    pub system: Cow<'a, str>,
    /// Processors that the process may use.
    #[serde(default)]
    pub processors: u64,
    /// Bytes of memory that it may use.
    #[serde(default)]
    pub memory_bytes: u64,
}

/// Phases outside of the pause: those before the threads stop and after they go on, the one about the whole, and those
/// that tell what was done since the collection before, or that something is over. `snapshot` is one of them: it is written in a stop and not
/// counted.
const NOT_PAUSED: [&str; 14] = [
    "start",
    "libraries",
    "zeroing-kernel",
    "write-watch",
    "reclaim",
    "resize",
    "end",
    "cycle-end",
    "snapshot",
    "sweep",
    "mark-beside",
    "zeroing",
    "zeroing-ahead",
    "zeroing-stalls",
];

/// Events whose duration is a sum of what was done here and there since the collection before, or of the whole
/// collection or cycle; they say when they were written, and not when that was done.
const SUMS: [&str; 7] = [
    "end",
    "cycle-end",
    "sweep",
    "mark-beside",
    "zeroing",
    "zeroing-ahead",
    "zeroing-stalls",
];

/// Events that belong to no collection although they carry the number of the last.
const OUTSIDE: [&str; 8] = [
    "heap-grow",
    "heap-shrink",
    "give-back",
    "slow-stop",
    "out-of-memory",
    "fork",
    "options",
    "exit",
];

/// Whether this version of Gleaner writes events of that name.
pub fn is_known(name: &str) -> bool {
    Phase::named(name).is_some()
}

impl Event<'_> {
    /// Whether this version of Gleaner writes such events.
    pub fn is_known(&self) -> bool {
        is_known(&self.name)
    }

    /// Whether it belongs to a collection.
    pub fn is_of_collection(&self) -> bool {
        self.collection > 0 && !OUTSIDE.contains(&&*self.name)
    }

    /// Whether the program waits meanwhile, as far as the name says.
    pub(crate) fn is_paused(&self) -> bool {
        !NOT_PAUSED.contains(&&*self.name) && !OUTSIDE.contains(&&*self.name)
    }

    /// Whether the duration is a sum of what was done at other times.
    pub(crate) fn is_sum(&self) -> bool {
        SUMS.contains(&&*self.name)
    }

    /// When it was over.
    pub fn end_ns(&self) -> u64 {
        if self.is_sum() {
            self.start_ns
        } else {
            self.start_ns.saturating_add(self.duration_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_names_events_that_there_are() {
        for name in NOT_PAUSED.iter().chain(&SUMS).chain(&OUTSIDE) {
            let found = Phase::ALL.iter().find(|phase| phase.as_str() == *name);
            let found = found.unwrap_or_else(|| panic!("{name} is no event"));
            assert_eq!(!OUTSIDE.contains(name), found.is_of_collection(), "{name}");
        }
        let outside = Phase::ALL.iter().filter(|phase| !phase.is_of_collection());
        assert_eq!(outside.count(), OUTSIDE.len());
    }

    #[test]
    fn both_names_of_the_fields_are_read() {
        let new =
            r#"{"event":"mark","pid":1,"collection":4,"start_ns":5,"duration_ns":6,"later":[1]}"#;
        let old = r#"{"phase":"mark","pid":1,"collection":4,"start_ns":5,"ns":6}"#;
        let new: Event = serde_json::from_str(new).unwrap();
        assert_eq!(new, serde_json::from_str(old).unwrap());
        assert_eq!((&*new.name, new.end_ns()), ("mark", 11));
        assert!(new.is_known() && new.is_paused() && new.is_of_collection());
    }
}
