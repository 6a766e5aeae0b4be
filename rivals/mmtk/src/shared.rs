//! What the workloads here share with those of `gleaner-bench native`, since nothing of it depends on a heap: random
//! numbers, texts, documents.

#[path = "../../../crates/workloads/src/chacha.rs"]
pub mod chacha;
#[path = "../../../crates/workloads/src/document.rs"]
pub mod document;
#[path = "../../../crates/workloads/src/random.rs"]
pub mod random;
#[path = "../../../crates/workloads/src/texts.rs"]
pub mod texts;

use std::path::PathBuf;

/// The scale of a run.
pub struct Scale {
    /// A thousandth or so.
    pub tiny: bool,
    /// What is read instead of Debian's files.
    pub input: Option<PathBuf>,
}

impl Scale {
    /// A number of things: `full`, or `tiny` in a test.
    pub fn of<T>(&self, full: T, tiny: T) -> T {
        if self.tiny { tiny } else { full }
    }
}
