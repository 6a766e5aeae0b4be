//! Why a measurement could not be made: one message for its user.

use std::fmt;
use std::path::Path;

/// A message that names what could not be done and why.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure with that message.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }

    /// What went wrong with a file.
    pub fn at(path: &Path, error: impl fmt::Display) -> Failure {
        Failure(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What every step here returns.
pub type Result<T> = std::result::Result<T, Failure>;
