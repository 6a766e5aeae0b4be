//! What Gleaner's event log says about a run.
//!
//! Only lines of the process with the most collections count, since children inherit the setting and write to the same
//! file. Lines that are not events (a line cut off when a process was killed) are counted, not hidden.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use gleaner_eventlog::{Process, busiest};

use crate::collections::{CURVE_MS, Collections, MOST_MOMENTS, WINDOWS_MS};
use gleaner_workloads::failure::{Failure, Result};

/// Reads a log; a missing file means that nothing was collected.
pub fn read(path: &Path) -> Result<Collections> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Collections::default());
        }
        Err(error) => return Err(Failure::at(path, error)),
    };
    let (main, broken) = busiest(BufReader::new(file)).map_err(|error| Failure::at(path, error))?;
    let Some(main) = main else {
        return Ok(Collections {
            broken_lines: broken,
            ..Collections::default()
        });
    };
    let pauses: Vec<f64> = main.pauses().into_iter().map(seconds).collect();
    let (steps, long_steps) = main.steps();
    Ok(Collections {
        logged: true,
        count: main.count(),
        longest_pause: pauses.iter().copied().fold(0.0, f64::max),
        // The sum of none is -0.
        total_pause: pauses.iter().fold(0.0, |sum, one| sum + one),
        utilisation: (!main.spans().is_empty()).then(|| {
            let found = main.utilisation();
            WINDOWS_MS.map(|window| found.least(window * 1_000_000))
        }),
        utilisations: utilisations(&main),
        moments: moments(&main),
        steps,
        long_steps,
        pauses,
        allocated_bytes: main.allocated(),
        phases: main
            .phases()
            .map(|(name, total)| (name.to_string(), seconds(total.all_ns)))
            .collect(),
        broken_lines: broken,
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// The curve of utilisation: widths of windows, and the least share of the program in one.
fn utilisations(of: &Process) -> Vec<[f64; 2]> {
    let (first, last) = of.time();
    let pauses = of.utilisation();
    let windows = CURVE_MS.map(|window| window * 1_000_000).into_iter();
    windows
        .filter(|window| *window <= last - first && !of.spans().is_empty())
        .map(|window| [seconds(window), pauses.least(window)])
        .collect()
}

/// When the longest pauses began and how long they were, in the order of time.
fn moments(of: &Process) -> Vec<[f64; 2]> {
    let mut longest = of.spans().to_vec();
    longest.sort_by_key(|span| std::cmp::Reverse(span.duration()));
    longest.truncate(MOST_MOMENTS);
    longest.sort_by_key(|span| span.start);
    let (first, _) = of.time();
    let at = |start: u64| seconds(start.saturating_sub(first));
    let pairs = longest.iter();
    pairs
        .map(|span| [at(span.start), seconds(span.duration())])
        .collect()
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
        assert_eq!(read.allocated_bytes, None);
        assert_eq!(read.broken_lines, 0);
        // A run of 3,400 ns has no window of a millisecond.
        assert_eq!(read.utilisations, Vec::<[f64; 2]>::new());
        let moments = [[100e-9, 1100e-9], [3000e-9, 400e-9]];
        for (found, expected) in read.moments.iter().flatten().zip(moments.iter().flatten()) {
            assert!((found - expected).abs() < 1e-15);
        }
        assert_eq!(read.moments.len(), 2);
        let spread = read.spread();
        assert_eq!((spread[0][0], spread[10][0]), (0.0, 100.0));
        assert!((spread[0][1] - 400e-9).abs() < 1e-15);
        assert!((spread[10][1] - 1100e-9).abs() < 1e-15);
    }

    #[test]
    fn of_many_pauses_the_longest_are_told_and_all_of_them_make_the_curves() {
        let mut log = String::new();
        for number in 1..=150_u64 {
            let start = number * 10_000_000;
            let took = 1_000_000 + number;
            log += &format!(
                "{{\"event\":\"stop-world\",\"pid\":1,\"collection\":{number},\"start_ns\":{start},\"duration_ns\":{took}}}\n\
                 {{\"event\":\"resume-world\",\"pid\":1,\"collection\":{number},\"start_ns\":{},\"duration_ns\":0}}\n",
                start + took
            );
        }
        let read = read_text("many", &log);
        assert_eq!((read.pauses.len(), read.moments.len()), (150, 100));
        assert!(read.moments.is_sorted_by(|one, other| one[0] < other[0]));
        assert!((read.moments[0][1] - 1_000_051e-9).abs() < 1e-15);
        assert_eq!(read.utilisations[0], [0.001, 0.0]);
        let of_10_ms = read.utilisations[3];
        assert!((of_10_ms[0] - 0.01).abs() < 1e-9 && (of_10_ms[1] - 0.9).abs() < 1e-4);
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
{"event":"mark-step","pid":1,"collection":1,"start_ns":2400,"duration_ns":300,"objects":190,"reason":"the processor was lost meanwhile"}
{"event":"start","pid":1,"collection":1,"start_ns":3000,"duration_ns":0,"bytes":700}
{"event":"stop-world","pid":1,"collection":1,"start_ns":3000,"duration_ns":50}
{"event":"mark","pid":1,"collection":1,"start_ns":3100,"duration_ns":50}
{"event":"resume-world","pid":1,"collection":1,"start_ns":3150,"duration_ns":50}
{"event":"end","pid":1,"collection":1,"start_ns":3000,"duration_ns":300}
"#;
        let read = read_text("steps", log);
        assert_eq!(read.count, 1);
        assert!((read.longest_pause - 300e-9).abs() < 1e-15);
        assert!((read.total_pause - 1100e-9).abs() < 1e-15);
        assert_eq!((read.steps, read.long_steps, read.pauses.len()), (3, 1, 5));
    }

    #[test]
    fn a_program_without_a_collection_allocated_what_it_says_at_its_end() {
        let log = r#"{"event":"options","pid":1,"collection":0,"start_ns":0,"duration_ns":0}
{"event":"exit","pid":1,"collection":0,"start_ns":9,"duration_ns":0,"bytes":4096,"reason":""}
{"event":"options","pid":2,"collection":0,"start_ns":0,"duration_ns":0}
"#;
        let read = read_text("exit", log);
        assert_eq!((read.count, read.allocated_bytes), (0, Some(4096)));
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
