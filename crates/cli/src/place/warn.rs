//! What the user is told while a program runs.

use std::fmt::Display;
use std::io::Write as _;

/// Says it on the standard error stream; where nobody reads that, nothing is lost.
pub(super) fn warn(message: impl Display) {
    let _ = writeln!(std::io::stderr(), "gleaner: {message}");
}
