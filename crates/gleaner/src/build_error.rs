//! Why a heap could not be built, in words that name the option and the remedy.

use std::fmt;
use std::path::PathBuf;

use gleaner_base::options::OptionError;
use gleaner_plans::scavenge::CreateError;

/// The environment variable with options for all heaps of the process.
pub(crate) const VARIABLE: &str = "GLEANER_OPTIONS";

/// Why a heap could not be built.
#[derive(Debug)]
pub enum BuildError {
    /// An option that the program set is refused. The text says why.
    Option(String),
    /// The list of options in the environment is refused. The text says why.
    Environment(String),
    /// The file that option `log` names cannot be opened.
    Log(PathBuf, std::io::Error),
    /// Each option is accepted, but no heap can be made with them.
    Create(CreateError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Option(error) => out.write_str(error),
            BuildError::Environment(error) => write!(out, "in {VARIABLE}: {error}"),
            BuildError::Log(path, error) => write!(
                out,
                "option log: cannot open {} to append to it: {error}",
                path.display()
            ),
            BuildError::Create(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for BuildError {}

impl From<CreateError> for BuildError {
    fn from(error: CreateError) -> BuildError {
        BuildError::Create(error)
    }
}

impl BuildError {
    pub(crate) fn refused(error: OptionError<'_>) -> BuildError {
        BuildError::Option(error.to_string())
    }
}
