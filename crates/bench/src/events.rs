//! What Gleaner's event log says about a run: one JSON object a line, one line a phase.
//!
//! Only lines of the process with the most collections count, since children inherit the setting and write to the same
//! file. Lines that are not events (a line cut off when a process was killed) are counted, not hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::failure::{Failure, Result};
use crate::trial::{Collections, WINDOWS_MS};
use crate::utilisation::Utilisation;

/// The part of an event that is read here.
#[derive(Deserialize)]
struct Event {
    #[serde(alias = "phase")]
    event: String,
    pid: u64,
    #[serde(default)]
    collection: u64,
    #[serde(default, alias = "ns")]
    duration_ns: u64,
    #[serde(default)]
    start_ns: u64,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    objects: u64,
}

/// What one process did.
#[derive(Default)]
struct Process {
    /// Nanoseconds per phase, summed.
    phases: BTreeMap<String, u64>,
    /// First start and last end of the phases of each stop of each collection, and of each step of marking beside the
    /// program.
    spans: BTreeMap<(u64, u64), (u64, u64)>,
    /// Steps, and those among them that took more than one and a half times what they were given.
    steps: u64,
    /// See `steps`.
    long_steps: u64,
    /// Stops and steps so far.
    stops: u64,
    /// Whether the last stop is over.
    runs: bool,
    /// Time of each whole collection, from the events that say so.
    whole: BTreeMap<u64, u64>,
    /// Bytes allocated before each collection, since the one before it. A collection may start more than once.
    allocated: BTreeMap<u64, u64>,
}

/// Phases outside the pause: those before the threads stop and after they go on, and the one about the whole.
const NOT_PAUSED: [&str; 8] = [
    "start",
    "libraries",
    "zeroing-kernel",
    "write-watch",
    "reclaim",
    "resize",
    "end",
    "sweep",
];
/// Events that belong to no collection although they carry the number of the last.
const OUTSIDE: [&str; 5] = [
    "heap-grow",
    "heap-shrink",
    "out-of-memory",
    "fork",
    "options",
];

impl Process {
    fn add(&mut self, event: &Event) {
        let name = event.event.as_str();
        *self.phases.entry(name.into()).or_default() += event.duration_ns;
        if OUTSIDE.contains(&name) || event.collection == 0 {
            return;
        }
        if name == "mark-step" {
            self.steps += 1;
            self.long_steps += u64::from(event.duration_ns * 2 > event.objects * 3);
        }
        if name == "start" {
            self.allocated.insert(event.collection, event.bytes);
        }
        if name == "end" {
            self.whole.insert(event.collection, event.duration_ns);
        } else if !NOT_PAUSED.contains(&name) {
            let begins = name == "stop-world" || name == "mark-step" && self.runs;
            self.stops += u64::from(begins);
            self.runs = name == "resume-world" || self.runs && name != "stop-world";
            let end = event.start_ns + event.duration_ns;
            let span = self
                .spans
                .entry((event.collection, self.stops))
                .or_insert((event.start_ns, end));
            *span = (span.0.min(event.start_ns), span.1.max(end));
        }
    }

    fn count(&self) -> usize {
        let numbers = self.spans.keys().map(|(collection, _)| collection);
        let numbers: BTreeSet<_> = numbers.chain(self.whole.keys()).collect();
        numbers.len()
    }

    fn pauses(&self) -> Vec<f64> {
        let paused: Vec<u64> = if self.spans.is_empty() {
            self.whole.values().copied().collect()
        } else {
            self.spans
                .values()
                .map(|(start, end)| end - start)
                .collect()
        };
        paused.into_iter().map(|ns| ns as f64 * 1e-9).collect()
    }
}

/// Reads a log; a missing file means that nothing was collected.
pub fn read(path: &Path) -> Result<Collections> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Collections::default());
        }
        Err(error) => return Err(Failure::at(path, error)),
    };
    let mut processes = BTreeMap::<u64, Process>::new();
    let mut broken = 0;
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| Failure::at(path, error))?;
        match serde_json::from_slice::<Event>(&line) {
            Ok(event) => processes.entry(event.pid).or_default().add(&event),
            Err(_) => broken += 1,
        }
    }
    let Some(main) = processes.into_values().max_by_key(Process::count) else {
        return Ok(Collections {
            broken_lines: broken,
            ..Collections::default()
        });
    };
    let pauses = main.pauses();
    Ok(Collections {
        logged: true,
        count: main.count() as u64,
        longest_pause: pauses.iter().copied().fold(0.0, f64::max),
        total_pause: pauses.iter().sum(),
        utilisation: (!main.spans.is_empty()).then(|| {
            let found = Utilisation::new(main.spans.values().copied());
            WINDOWS_MS.map(|window| found.least(window * 1_000_000))
        }),
        steps: main.steps,
        long_steps: main.long_steps,
        pauses,
        allocated_bytes: main.allocated.values().sum(),
        phases: main
            .phases
            .into_iter()
            .map(|(name, ns)| (name, ns as f64 * 1e-9))
            .collect(),
        broken_lines: broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(name: &str, text: &str) -> Collections {
        let path =
            std::env::temp_dir().join(format!("gleaner-events-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        read
    }

    #[test]
    fn a_pause_runs_from_stopping_to_resuming() {
        let log = r#"{"event":"options","pid":1,"collection":0,"start_ns":0,"duration_ns":0}
{"event":"start","pid":1,"collection":1,"start_ns":10,"duration_ns":0,"bytes":500}
{"event":"start","pid":1,"collection":1,"start_ns":12,"duration_ns":0,"bytes":512}
{"event":"zeroing-kernel","pid":1,"collection":1,"start_ns":13,"duration_ns":0}
{"event":"stop-world","pid":1,"collection":1,"start_ns":100,"duration_ns":50}
{"event":"mark","pid":1,"collection":1,"start_ns":150,"duration_ns":1000}
{"event":"resume-world","pid":1,"collection":1,"start_ns":1150,"duration_ns":50}
{"event":"reclaim","pid":1,"collection":1,"start_ns":1200,"duration_ns":90}
{"event":"end","pid":1,"collection":1,"start_ns":10,"duration_ns":1280}
{"event":"mark","pid":2,"collection":1,"start_ns":0,"duration_ns":7}
{"event":"start","pid":1,"collection":2,"start_ns":2900,"duration_ns":0,"bytes":30}
{"event":"mark","pid":1,"collection":2,"start_ns":3000,"duration_ns":400}
"#;
        let read = read_text("pause", log);
        assert_eq!(read.count, 2);
        assert!((read.longest_pause - 1100e-9).abs() < 1e-15);
        assert!((read.total_pause - 1500e-9).abs() < 1e-15);
        assert!((read.phases["mark"] - 1400e-9).abs() < 1e-15);
        assert_eq!(read.allocated_bytes, 542);
        assert_eq!(read.broken_lines, 0);
    }

    /// A cycle stops the program twice, and for each of its steps; it is one collection.
    #[test]
    fn a_step_is_a_pause_of_its_own() {
        let log = r#"{"event":"start","pid":1,"collection":1,"start_ns":90,"duration_ns":0,"bytes":500}
{"event":"write-watch","pid":1,"collection":1,"start_ns":91,"duration_ns":3000}
{"event":"stop-world","pid":1,"collection":1,"start_ns":100,"duration_ns":50}
{"event":"mark","pid":1,"collection":1,"start_ns":150,"duration_ns":10}
{"event":"resume-world","pid":1,"collection":1,"start_ns":160,"duration_ns":40}
{"event":"mark-step","pid":1,"collection":1,"start_ns":1000,"duration_ns":200,"objects":190}
{"event":"heap-grow","pid":1,"collection":0,"start_ns":1500,"duration_ns":0}
{"event":"mark-step","pid":1,"collection":1,"start_ns":2000,"duration_ns":300,"objects":190}
{"event":"start","pid":1,"collection":1,"start_ns":3000,"duration_ns":0,"bytes":700}
{"event":"stop-world","pid":1,"collection":1,"start_ns":3000,"duration_ns":50}
{"event":"mark","pid":1,"collection":1,"start_ns":3100,"duration_ns":50}
{"event":"resume-world","pid":1,"collection":1,"start_ns":3150,"duration_ns":50}
{"event":"end","pid":1,"collection":1,"start_ns":3000,"duration_ns":300}
"#;
        let read = read_text("steps", log);
        assert_eq!(read.count, 1);
        assert!((read.longest_pause - 300e-9).abs() < 1e-15);
        assert!((read.total_pause - 800e-9).abs() < 1e-15);
        assert_eq!(read.allocated_bytes, 700);
        assert_eq!((read.steps, read.long_steps, read.pauses.len()), (2, 1, 4));
    }

    #[test]
    fn both_names_of_the_fields_are_read_and_broken_lines_counted() {
        let read = read_text(
            "names",
            "{\"phase\":\"mark\",\"pid\":1,\"collection\":4,\"start_ns\":5,\"ns\":6}\n{\"pha",
        );
        assert_eq!((read.count, read.broken_lines), (1, 1));
    }

    #[test]
    fn no_log_is_no_collection() {
        assert_eq!(read(Path::new("/no/such/log")).unwrap().count, 0);
    }
}
