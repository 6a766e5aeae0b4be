//! The first and the last line of a process in a log: what runs with which options on which machine, and what is advised at
//! the end. Nothing here allocates.

use core::fmt::{self, Write};

use gleaner_base::events::{LineBuffer, Phase, write_json_string};
use gleaner_base::options::Options;
use gleaner_os::log_file::LogFile;
use gleaner_os::topology::Topology;
use gleaner_os::{clock, memory, program, threads};

/// Bytes of a line.
const LINE: usize = 4096;

/// Writes that a heap started, the one of that number in its process, or 0 if that is not said. The caller runs no
/// collection.
pub fn write_start(log: &mut Option<LogFile>, options: &Options, topology: &Topology, heap: u32) {
    write_head(log, (Phase::Options, heap, 0), options, topology);
}

/// Writes that this process was forked after `collections` collections of those before it. The caller runs no
/// collection.
pub fn write_fork(
    log: &mut Option<LogFile>,
    options: &Options,
    topology: &Topology,
    collections: u64,
) {
    write_head(log, (Phase::Fork, 0, collections), options, topology);
}

/// Writes what begins, with which options, on which machine.
fn write_head(
    log: &mut Option<LogFile>,
    which: (Phase, u32, u64),
    options: &Options,
    topology: &Topology,
) {
    // What is asked of the system now may be forbidden since the start.
    if log.is_none() {
        return;
    }
    let mut buffer = [0; LINE / 4];
    let command = program::command_line(&mut buffer);
    let with = |command: &str, line: &mut LineBuffer<LINE>| {
        begin(line, which)?;
        line.write_str(",\"reason\":")?;
        let mut list = LineBuffer::<{ LINE / 4 }>::new();
        options.write_list(&mut list)?;
        write_json_string(line, list.as_str())?;
        line.write_str(",\"command\":")?;
        write_json_string(line, command)?;
        write!(
            line,
            ",\"version\":\"{}\",\"system\":\"",
            env!("CARGO_PKG_VERSION")
        )?;
        program::write_system(line)?;
        let memory = memory::physical_memory();
        write!(
            line,
            "\",\"processors\":{},\"memory_bytes\":{memory}}}",
            topology.processors
        )
    };
    // Letters that JSON has to spell may make it too long.
    let fits = append(log, |line| with(command, line));
    if !fits {
        append(log, |line| with("", line));
    }
}

/// Writes that the process ends in order after `collections` collections, or that the heap of that number does; how many
/// bytes it allocated in all, and what is advised for the next time. The caller runs no collection.
pub fn write_exit(
    log: &mut Option<LogFile>,
    (heap, collections): (u32, u64),
    allocated: u64,
    advice: &str,
) {
    append(log, |line| {
        begin(line, (Phase::Exit, heap, collections))?;
        write!(line, ",\"bytes\":{allocated},\"reason\":")?;
        write_json_string(line, advice)?;
        line.write_str("}")
    });
}

fn begin(
    line: &mut LineBuffer<LINE>,
    (phase, heap, collections): (Phase, u32, u64),
) -> fmt::Result {
    let (process, now) = (threads::current_process(), clock::monotonic_ns());
    let name = phase.as_str();
    write!(line, "{{\"event\":\"{name}\",\"pid\":{process}")?;
    if heap > 0 {
        write!(line, ",\"heap\":{heap}")?;
    }
    write!(
        line,
        ",\"collection\":{collections},\"start_ns\":{now},\"duration_ns\":0"
    )
}

/// Appends a line, if it fits, and says whether it does. A log that cannot be written ends.
fn append(
    log: &mut Option<LogFile>,
    text: impl FnOnce(&mut LineBuffer<LINE>) -> fmt::Result,
) -> bool {
    let Some(file) = log else { return true };
    let mut line = LineBuffer::<LINE>::new();
    let _ = text(&mut line);
    let _ = line.write_str("\n");
    if !line.is_truncated() && !file.append(line.as_bytes()) {
        *log = None;
    }
    !line.is_truncated()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};
    use gleaner_os::output::open_append;
    use std::ffi::CString;
    use std::string::String;

    /// What `write` appends to a log.
    fn written(write: impl FnOnce(&mut Option<LogFile>)) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = std::format!("gleaner-log-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let name = CString::new(path.to_str().unwrap()).unwrap();
        write(&mut open_append(&name).map(LogFile::new));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text
    }

    #[test]
    fn both_ends_of_a_log_are_lines_of_json() {
        let options = Options {
            stress: 7,
            ..Options::DEFAULT
        };
        let text = written(|log| {
            write_start(log, &options, &Topology::host(), 0);
            write_fork(log, &options, &Topology::host(), 2);
            write_exit(log, (0, 3), 4096, "one \"piece\"\nand another");
        });
        let lines: std::vec::Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[0].contains("\"reason\":\"stress=7\",\"command\":\"") && lines[0].ends_with('}')
        );
        assert!(
            lines[1].starts_with("{\"event\":\"fork\",") && lines[1].contains("\"collection\":2,")
        );
        assert_eq!(
            lines[1].split("\"reason\"").nth(1),
            lines[0].split("\"reason\"").nth(1)
        );
        assert!(
            lines[2].ends_with(r#","bytes":4096,"reason":"one \"piece\"\u000aand another"}"#),
            "{text}"
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_none() {
        let text = written(|log| {
            assert!(!append(log, |line| (0..LINE).try_for_each(|_| line.write_str("x"))));
        });
        assert_eq!(text, "");
    }
}
