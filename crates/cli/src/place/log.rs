//! The log of decisions: a file with a line of JSON for each.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::time::Instant;

use gleaner_place::{Change, Placed};

use super::warn::warn;
use crate::failure::Failure;

/// Whether a line that begins like this is one of such a log.
pub(crate) fn is_line(beginning: &str) -> bool {
    ["place", "refused", "speed", "unplaced"]
        .iter()
        .any(|event| beginning.contains(&format!("\"event\":\"{event}\"")))
}

/// What is said of such a log where another file is wanted.
pub(crate) const OTHER: &str = "the log of 'gleaner place': which threads ran where. No command reads it; it is a line of JSON for each decision";

/// A file with a line of JSON for each decision.
pub(super) struct Log {
    file: File,
    /// Whether it ended because a line could not be written.
    has_ended: bool,
}

impl Log {
    pub(super) fn open(path: &std::path::Path) -> Result<Log, Failure> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let log = |file| Log {
            file,
            has_ended: false,
        };
        file.map(log).map_err(|error| {
            Failure::usage(format_args!(
                "the log {} cannot be written: {error}",
                path.display()
            ))
        })
    }

    pub(super) fn write(&mut self, start: Instant, placed: &Placed) {
        let line = serde_json::json!({
            "event": "place",
            "time_s": start.elapsed().as_secs_f64(),
            "process": placed.process,
            "thread": placed.thread.number,
            "name": placed.name,
            "role": placed.role.name(),
            "processors": placed.decision.processors.to_string(),
            "pinned": placed.decision.is_pinned(),
            "reason": placed.decision.reason,
        });
        self.add(&line);
    }

    pub(super) fn write_refusal(&mut self, start: Instant, why: &str) {
        let line = serde_json::json!({
            "event": "refused",
            "time_s": start.elapsed().as_secs_f64(),
            "reason": why,
        });
        self.add(&line);
    }

    /// The program has ended, and the policy did nothing.
    pub(super) fn write_lack(&mut self, start: Instant, why: &str) {
        let line = serde_json::json!({
            "event": "unplaced",
            "time_s": start.elapsed().as_secs_f64(),
            "reason": why,
        });
        self.add(&line);
    }

    pub(super) fn write_change(&mut self, start: Instant, change: &Change) {
        let line = serde_json::json!({
            "event": "speed",
            "time_s": start.elapsed().as_secs_f64(),
            "by": change.by,
            "what": change.what,
            "value": change.value,
            "reason": change.reason,
        });
        self.add(&line);
    }

    /// A full disk must not end the program that is placed.
    fn add(&mut self, line: &serde_json::Value) {
        if self.has_ended {
            return;
        }
        if let Err(error) = writeln!(self.file, "{line}") {
            self.has_ended = true;
            warn(format_args!(
                "the log cannot be written: it ends here ({error})"
            ));
        }
    }
}
