//! What a process did in a few sentences, for the head of its section and for the terminal.

use std::fmt::Write as _;
use std::path::Path;

use gleaner_eventlog::{Process, Spread, Utilisation};

use super::cycles::Together;
use super::found::{Found, Named, peak};
use crate::words::{counted, percent, processes, size, time, wrapped};

/// Processes that the terminal shows.
const MOST_ON_TERMINAL: usize = 3;

/// The numbers of one process.
pub(super) struct Summary {
    pub(super) count: u64,
    /// From the first to the last moment that the log tells of, in nanoseconds.
    pub(super) run: u64,
    pub(super) stops: Spread,
    pub(super) steps: Spread,
    /// Until all threads had stopped, of each stop.
    pub(super) stopping: Spread,
    pub(super) cycles: Together,
    /// Nanoseconds of all stops.
    pub(super) stopped: u64,
    /// Of the heap at the end and at the most; nothing if the log does not tell.
    pub(super) heap: Option<(u64, u64)>,
    /// What lived after the last collection, and at the most.
    pub(super) live: Option<(u64, u64)>,
    /// How many snapshots were written, and for how long the program waited for them, which no other number has.
    snapshots: (u64, u64),
    idle: Idle,
    /// What to say of goals that were missed, a line for each.
    pub(super) missed: String,
    moves: bool,
}

/// What was done in idle time.
#[derive(Default)]
struct Idle {
    /// Times in which memory was given back.
    given_back: u64,
    bytes: u64,
    collections: u64,
}

impl Idle {
    fn of(process: &Process) -> Idle {
        let mut idle = Idle::default();
        for action in process.idle() {
            match action.given_back {
                Some(bytes) => {
                    idle.given_back += 1;
                    idle.bytes = idle.bytes.saturating_add(bytes);
                }
                None => idle.collections += 1,
            }
        }
        idle
    }

    /// In a few words; nothing if nothing was done.
    fn words(&self) -> Option<String> {
        let given_back = format!(
            "{} given back in {}",
            size(self.bytes),
            counted(self.given_back, "idle time")
        );
        let collections = counted(self.collections, "idle collection");
        match (self.given_back, self.collections) {
            (0, 0) => None,
            (_, 0) => Some(given_back),
            (0, _) => Some(collections),
            (_, _) => Some(format!("{given_back}, {collections}")),
        }
    }
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
            stopping: process.stopping(),
            cycles: Together::of(process),
            heap: last_and_peak(process.capacity()),
            live: last_and_peak(process.live()),
            snapshots: process.snapshots(),
            idle: Idle::of(process),
            missed: process.missed(),
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
            if self.stopping.total() > 0 {
                let _ = write!(
                    text,
                    "Of that, {} passed until all threads had stopped. ",
                    time(self.stopping.total())
                );
            }
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
        if self.cycles.count > 0 {
            let _ = write!(
                text,
                "{} of such steps lasted {}. ",
                counted(self.cycles.count, "cycle"),
                time(self.cycles.lasted)
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
                "The {name} had {} at the end and {} at the peak. ",
                size(end),
                size(most)
            );
        }
        if let Some(words) = self.idle.words() {
            let _ = write!(text, "While it was idle: {words}.");
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
        if self.stopping.total() > 0 {
            let _ = writeln!(
                text,
                "  wait   {} until all threads had stopped, longest {}",
                time(self.stopping.total()),
                time(self.stopping.longest())
            );
        }
        if self.cycles.count > 0 {
            let _ = writeln!(
                text,
                "  cycles {}, {} from first to last stop ({}); {} overtaken by allocation",
                self.cycles.count,
                time(self.cycles.lasted),
                percent(self.cycles.lasted, self.run),
                self.cycles.overtaken
            );
        }
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
        if let Some(words) = self.idle.words() {
            let _ = writeln!(text, "  idle   {words}");
        }
        for sentences in self.missed.lines() {
            text += &wrapped(sentences);
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
             1 stop took 2.00 ms, the longest 2.00 ms. Of that, 1.00 µs passed until all threads had stopped. \
             1.00 MiB lived after the last collection, 1.00 MiB at the peak. \
             The heap had 4.00 MiB at the end and 4.00 MiB at the peak."
        );
        let lines = summary.lines("process 1");
        assert!(
            lines.starts_with(
                "process 1: 1 collection in 100 ms\n  stops  1, 2.00 ms in all (2.0 %)"
            ),
            "{lines}"
        );
        let wait = "\n  wait   1.00 µs until all threads had stopped, longest 1.00 µs\n";
        assert!(lines.contains(wait), "{lines}");
        assert_eq!(lines.lines().count(), 5);
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
    fn cycles_idle_time_and_missed_goals_are_said() {
        let summary = Summary::of(&process(&[
            r#"{"event":"stop-world","pid":1,"collection":1,"start_ns":0,"duration_ns":1000000,"goal_ns":5000000}"#,
            r#"{"event":"roots","pid":1,"collection":1,"start_ns":1000000,"duration_ns":6000000}"#,
            r#"{"event":"pace","pid":1,"collection":1,"start_ns":7000000,"bytes":5000}"#,
            r#"{"event":"resume-world","pid":1,"collection":1,"start_ns":7000000,"duration_ns":1000000}"#,
            r#"{"event":"mark-step","pid":1,"collection":1,"start_ns":9000000,"duration_ns":1000000}"#,
            r#"{"event":"give-back","pid":1,"collection":1,"start_ns":20000000,"bytes":1048576}"#,
            r#"{"event":"end","pid":1,"collection":1,"start_ns":40000000,"reason":"little is allocated any more"}"#,
        ]));
        let text = summary.sentences();
        assert!(
            text.contains("1 cycle of such steps lasted 10.0 ms. "),
            "{text}"
        );
        let idle = "1.00 MiB given back in 1 idle time, 1 idle collection";
        assert!(
            text.ends_with(&format!("While it was idle: {idle}.")),
            "{text}"
        );
        let lines = summary.lines("process 1");
        let cycles =
            "\n  cycles 1, 10.0 ms from first to last stop (25.0 %); 0 overtaken by allocation\n";
        assert!(lines.contains(cycles), "{lines}");
        assert!(lines.contains(&format!("\n  idle   {idle}\n")), "{lines}");
        let missed = lines.split(idle).nth(1).unwrap();
        assert!(
            missed.starts_with("\n1 of 1 stops was longer than the goal of 5 ms. The longest took 8 ms, 6 ms of it to scan roots"),
            "{missed}"
        );
        assert!(
            missed.lines().all(|line| line.chars().count() <= 110),
            "{missed}"
        );
        let quiet = Idle::default();
        assert_eq!(quiet.words(), None);
        let collected = Idle {
            collections: 2,
            ..quiet
        };
        assert_eq!(collected.words().as_deref(), Some("2 idle collections"));
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
