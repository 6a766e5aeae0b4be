//! How the command fails: a message for the user and the exit status that shells expect.

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

/// The exit status where Gleaner cannot be used with a program, or not at all.
pub(crate) const REFUSED: u8 = 125;

/// Why the command gives up.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    fn new(status: u8, message: impl Display) -> Failure {
        Failure {
            status,
            message: message.to_string(),
        }
    }

    /// The program failed by itself.
    pub(crate) fn failed(message: impl Display) -> Failure {
        Failure::new(1, message)
    }

    /// A wrong option.
    pub(crate) fn usage(message: impl Display) -> Failure {
        Failure::new(2, message)
    }

    /// Gleaner cannot be used with this program, or not at all.
    pub(crate) fn refused(message: impl Display) -> Failure {
        Failure::new(REFUSED, message)
    }

    /// The program is there but cannot be executed.
    pub(crate) fn not_executable(message: impl Display) -> Failure {
        Failure::new(126, message)
    }

    /// There is no such program.
    pub(crate) fn not_found(message: impl Display) -> Failure {
        Failure::new(127, message)
    }

    /// The same failure, said to be about `what`.
    pub(crate) fn context(self, what: impl Display) -> Failure {
        Failure::new(self.status, format_args!("{what}: {}", self.message))
    }

    /// The message and the exit status.
    pub(crate) fn parts(self) -> (String, u8) {
        (self.message, self.status)
    }

    /// Prints the message; returns the exit status.
    pub(crate) fn report(self) -> ExitCode {
        // Where nobody can be told, the status still says it.
        let _ = writeln!(std::io::stderr(), "gleaner: {}", self.message);
        ExitCode::from(self.status)
    }
}
