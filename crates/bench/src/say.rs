//! What is told on standard output, line by line.

use std::fmt;
use std::io::Write as _;

use gleaner_workloads::failure;

/// Writes a line to standard output.
pub fn say(line: impl fmt::Display) -> failure::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| failure::Failure::new(format!("standard output: {error}")))
}
