//! What Gleaner's event log says about a run.
//!
//! Only lines of the process with the most collections count, since children inherit the setting and write to the same
//! file. Lines that are not events (a line cut off when a process was killed) are counted, not hidden.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use gleaner_eventlog::{Line, Process, Reader};

use crate::collections::{Collections, WINDOWS_MS};
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
    let mut processes = BTreeMap::<u64, Process>::new();
    let mut broken = 0;
    let mut reader = Reader::new(BufReader::new(file));
    while let Some(line) = reader.next().map_err(|error| Failure::at(path, error))? {
        match line {
            Line::Event(event) => processes.entry(event.pid).or_default().add(&event),
            Line::Unreadable(_) | Line::NoLog => broken += 1,
        }
    }
    let Some(main) = processes
        .into_values()
        .max_by_key(|one| (one.count(), one.allocated()))
    else {
        return Ok(Collections {
            broken_lines: broken,
            ..Collections::default()
        });
    };
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let pauses: Vec<f64> = main.pauses().into_iter().map(seconds).collect();
    let (steps, long_steps) = main.steps();
    Ok(Collections {
        logged: true,
        count: main.count(),
        longest_pause: pauses.iter().copied().fold(0.0, f64::max),
        total_pause: pauses.iter().sum(),
        utilisation: (!main.spans().is_empty()).then(|| {
            let found = main.utilisation();
            WINDOWS_MS.map(|window| found.least(window * 1_000_000))
        }),
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
