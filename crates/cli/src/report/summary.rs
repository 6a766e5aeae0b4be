//! What a process did in a few sentences, for the head of its section and for the terminal.

use std::fmt::Write as _;
use std::path::Path;

use gleaner_eventlog::{Process, Spread, Utilisation};

use super::found::{Found, Named, peak};
use crate::words::{counted, percent, processes, size, time};

/// Processes that the terminal shows.
const MOST_ON_TERMINAL: usize = 3;

/// The numbers of one process.
pub(super) struct Summary {
    pub(super) count: u64,
    /// From the first to the last moment that the log tells of, in nanoseconds.
    pub(super) run: u64,
    pub(super) stops: Spread,
    pub(super) steps: Spread,
    /// Nanoseconds of all stops.
    pub(super) stopped: u64,
    /// Of the heap at the end and at the most; nothing if the log does not tell.
    pub(super) heap: Option<(u64, u64)>,
    /// What lived after the last collection, and at the most.
    pub(super) live: Option<(u64, u64)>,
    /// How many snapshots were written, and for how long the program waited for them, which no other number has.
    snapshots: (u64, u64),
    moves: bool,
}

impl Summary {
    pub(super) fn of(process: &Process) -> Summary {
        let (first, last) = process.time();
        let last_and_peak =
            |points: &[(u64, u64)]| points.last().map(|(_, bytes)| (*bytes, peak(points)));
        let stops = process.spans().iter().filter(|span| !span.is_step);
        Summary {
            count: process.count(),
            run: last - first,
            stopped: Utilisation::new(stops.map(|span| (span.start, span.end))).paused(),
            stops: process.spread(false),
            steps: process.spread(true),
            heap: last_and_peak(process.capacity()),
            live: last_and_peak(process.live()),
            snapshots: process.snapshots(),
            moves: process.moves(),
        }
    }

    /// What the size in the log is the size of.
    pub(super) fn heap_name(&self) -> &'static str {
        if self.moves {
            "young generation"
        } else {
            "heap"
        }
    }

    /// The head of the section.
    pub(super) fn sentences(&self) -> String {
        let mut text = format!(
            "It ran for {} as far as the log tells, and collected {}. ",
            time(self.run),
            if self.count == 1 {
                "once".to_string()
            } else {
                counted(self.count, "time")
            },
        );
        if self.stops.count() == 0 {
            text += "The log does not tell when it was stopped. ";
        } else {
            let _ = write!(
                text,
                "It was stopped for {} of that time: {} took {}, the longest {}. ",
                percent(self.stopped, self.run),
                counted(self.stops.count() as u64, "stop"),
                time(self.stopped),
                time(self.stops.longest()),
            );
        }
        if self.steps.count() > 0 {
            let _ = write!(
                text,
                "Beside it, {} of marking took {}, the longest {}; meanwhile one thread waited. ",
                counted(self.steps.count() as u64, "step"),
                time(self.steps.total()),
                time(self.steps.longest()),
            );
        }
        if let (count @ 1.., took) = self.snapshots {
            let _ = write!(
                text,
                "Writing {} stopped it for another {}, which all numbers and pictures here leave out. ",
                counted(count, "snapshot"),
                time(took),
            );
        }
        if let Some((end, most)) = self.live {
            let _ = write!(
                text,
                "{} lived after the last collection, {} at the peak. ",
                size(end),
                size(most)
            );
        }
        if let Some((end, most)) = self.heap {
            let name = self.heap_name();
            let _ = write!(
                text,
                "The {name} had {} at the end and {} at the peak.",
                size(end),
                size(most)
            );
        }
        text.trim_end().to_string()
    }

    /// The same for a terminal: a few lines.
    fn lines(&self, name: &str) -> String {
        let mut text = format!(
            "{name}: {} in {}\n",
            counted(self.count, "collection"),
            time(self.run)
        );
        let mut spread = |name: &str, spread: &Spread, share: String| {
            if spread.count() > 0 {
                let _ = writeln!(
                    text,
                    "  {name:6} {}, {} in all ({share}); median {}, 99 of 100 within {}, longest {}",
                    spread.count(),
                    time(spread.total()),
                    time(spread.at(50.0)),
                    time(spread.at(99.0)),
                    time(spread.longest()),
                );
            }
        };
        spread("stops", &self.stops, percent(self.stopped, self.run));
        spread("steps", &self.steps, percent(self.steps.total(), self.run));
        if let (count @ 1.., took) = self.snapshots {
            let _ = writeln!(
                text,
                "  and    {} for {}, left out of what is above",
                counted(count, "snapshot"),
                time(took)
            );
        }
        if let Some((end, most)) = self.live {
            let _ = writeln!(
                text,
                "  live   {} after the last collection, {} at the peak",
                size(end),
                size(most)
            );
        }
        if let Some((end, most)) = self.heap {
            let name = if self.moves { "young" } else { "heap" };
            let _ = writeln!(
                text,
                "  {name:6} {} at the end, {} at the peak",
                size(end),
                size(most)
            );
        }
        text
    }
}

/// What the terminal shows when the page is there.
pub(super) fn for_terminal(found: &Found, page: &Path) -> String {
    let mut text = String::new();
    for Named { name, process } in found.processes.iter().take(MOST_ON_TERMINAL) {
        text += &Summary::of(process).lines(name);
    }
    let more = found.processes.len().saturating_sub(MOST_ON_TERMINAL) as u64;
    if more > 0 {
        let _ = writeln!(text, "and {more} more, on the page");
    }
    if found.idle > 0 {
        let _ = writeln!(text, "{} that did not collect", processes(found.idle));
    }
    let _ = writeln!(text, "the page is {}", page.display());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use gleaner_eventlog::Event;

    fn process(events: &[&str]) -> Process {
        let mut process = Process::default();
        for event in events {
            process.add(&serde_json::from_str::<Event>(event).unwrap());
        }
        process
    }

    #[test]
    fn a_process_in_words() {
        let process = process(&[
            r#"{"event":"stop-world","pid":1,"collection":1,"start_ns":0,"duration_ns":1000}"#,
            r#"{"event":"resume-world","pid":1,"collection":1,"start_ns":2000000,"duration_ns":0}"#,
            r#"{"event":"resize","pid":1,"collection":1,"start_ns":2000000,"duration_ns":0,"bytes":4194304}"#,
            r#"{"event":"end","pid":1,"collection":1,"start_ns":100000000,"duration_ns":0,"bytes":1048576}"#,
        ]);
        let summary = Summary::of(&process);
        assert_eq!(
            summary.sentences(),
            "It ran for 100 ms as far as the log tells, and collected once. It was stopped for 2.0 % of that time: \
             1 stop took 2.00 ms, the longest 2.00 ms. 1.00 MiB lived after the last collection, 1.00 MiB at the peak. \
             The heap had 4.00 MiB at the end and 4.00 MiB at the peak."
        );
        let lines = summary.lines("process 1");
        assert!(
            lines.starts_with(
                "process 1: 1 collection in 100 ms\n  stops  1, 2.00 ms in all (2.0 %)"
            ),
            "{lines}"
        );
        assert_eq!(lines.lines().count(), 4);
    }

    #[test]
    fn steps_are_no_stops() {
        let summary = Summary::of(&process(&[
            r#"{"event":"stop-world","pid":1,"collection":1,"start_ns":0,"duration_ns":1000}"#,
            r#"{"event":"resume-world","pid":1,"collection":1,"start_ns":1000,"duration_ns":1000}"#,
            r#"{"event":"mark-step","pid":1,"collection":1,"start_ns":4000,"duration_ns":6000}"#,
        ]));
        let text = summary.sentences();
        assert!(
            text.contains("stopped for 20.0 % of that time: 1 stop took 2.00 µs"),
            "{text}"
        );
        assert!(text.contains("1 step of marking took 6.00 µs"), "{text}");
    }

    #[test]
    fn a_snapshot_is_no_stop() {
        let summary = Summary::of(&process(&[
            r#"{"event":"stop-world","pid":1,"collection":1,"start_ns":0,"duration_ns":1000}"#,
            r#"{"event":"snapshot","pid":1,"collection":1,"start_ns":2000,"duration_ns":6000}"#,
            r#"{"event":"resume-world","pid":1,"collection":1,"start_ns":9000,"duration_ns":1000}"#,
        ]));
        let text = summary.sentences();
        assert!(
            text.contains("ran for 4.00 µs")
                && text.contains("stopped for 100 % of that time: 1 stop took 4.00 µs"),
            "{text}"
        );
        assert!(
            text.contains("Writing 1 snapshot stopped it for another 6.00 µs"),
            "{text}"
        );
    }

    #[test]
    fn what_the_log_does_not_tell_is_not_said() {
        let process = process(&[r#"{"event":"end","pid":1,"collection":2}"#]);
        let text = Summary::of(&process).sentences();
        assert!(text.contains("does not tell when it was stopped"), "{text}");
        assert!(!text.contains("heap") && !text.contains("step"), "{text}");
    }
}
