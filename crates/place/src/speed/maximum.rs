//! The file with the maximum frequency of a processor: its name, and how what it said is put back.

use std::io::ErrorKind;

use crate::files::Files;

/// Where the kernel has its processors.
pub(super) const PROCESSORS: &str = "/sys/devices/system/cpu";

/// The file with the maximum frequency of a processor.
pub(super) fn maximum_of(processor: usize) -> String {
    format!("{PROCESSORS}/cpu{processor}/cpufreq/scaling_max_freq")
}

/// Whether it is such a file: only these are put back.
pub(super) fn is_maximum(path: &str) -> bool {
    let number = path
        .strip_prefix(PROCESSORS)
        .and_then(|rest| rest.strip_prefix("/cpu"))
        .and_then(|rest| rest.strip_suffix("/cpufreq/scaling_max_freq"));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Puts a maximum back. One that is as high, or higher, was set by others in the meantime, and stays.
pub(super) fn put_back(files: &Files, path: &str, khz: u64) -> Result<(), String> {
    let problem =
        |error: &dyn std::fmt::Display| format!("{path} cannot be put back to {khz}: {error}");
    let now = match files.text(path) {
        // The processor is offline, and its file with it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        // An older kernel keeps the file, which nobody can read until the processor is online again.
        Err(error) => return Err(problem(&error)),
        Ok(text) => text.trim().parse::<u64>().ok(),
    };
    match now {
        // It is as fast.
        Some(now) if now >= khz => Ok(()),
        _ => files
            .set(path, &khz.to_string())
            .map_err(|error| problem(&error)),
    }
}
