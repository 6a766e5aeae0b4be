//! Workloads on the precise heap: what `gleaner-bench native` runs and measures.
//!
//! Each workload is written once, against the raw layer, as a compiler's code would be; `scopes` against the safe
//! layer. What it comes to depends on its scale and its input alone, so that configurations and rivals can be compared
//! by their results. [`TABLE`] has a row for each; docs/workloads.md says what each one does.

mod agents;
mod bigmap;
mod chacha;
mod chart;
mod cipher;
mod compiler;
mod compress;
mod costs;
mod db;
mod document;
mod ephemerons;
pub mod failure;
mod finalizers;
mod gcbench;
mod index;
mod jbb;
mod matrix;
mod mutators;
mod objects;
mod producer;
pub mod program;
mod quads;
mod queue;
pub mod random;
mod refarray;
mod render;
mod scopes;
mod snapshots;
mod strings;
mod table;
mod texts;
mod tiny;
mod vector;
mod xml;
mod zeroing;

use std::fmt;
use std::path::PathBuf;

use gleaner::{Mutator, OutOfMemory};
use serde_json::Map;

use failure::{Failure, Result};

pub use mutators::Mutators;
pub use table::{Entry, Extra, TABLE, find};

/// The scale of a run.
#[derive(Clone)]
pub struct Scale {
    /// A thousandth or so.
    pub tiny: bool,
    /// Allocates as the program did that the workload follows.
    pub wasteful: bool,
    /// What is read instead of Debian's files.
    pub input: Option<PathBuf>,
    /// What each mutator reads again and again while it allocates, in KB.
    pub working_set: usize,
    /// Which sequence of random numbers.
    pub seed: u64,
    /// Transactions of each mutator, if not as many as usual.
    pub transactions: Option<u32>,
    /// Runs the code that asks how arrays are cut, also where there is code for just that.
    pub any_arrays: bool,
}

impl Scale {
    /// A number of things: `full`, or `tiny` in a test.
    fn of<T>(&self, full: T, tiny: T) -> T {
        if self.tiny { tiny } else { full }
    }
}

/// What the line says beside the fields of all workloads.
pub type Facts = Map<String, serde_json::Value>;

/// A workload that is ready to run: its types are registered, its input is read.
pub trait Workload {
    /// Runs once; what it comes to.
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        facts: &mut Facts,
    ) -> std::result::Result<u64, OutOfMemory>;
}

/// A workload whose mutators each do all of it with data of their own. It is given the number of its mutator; the sum
/// of what all of them return is the result.
struct Own<F>(F);

impl<F> Workload for Own<F>
where
    F: Fn(&mut Mutator, u32) -> std::result::Result<u64, OutOfMemory> + Sync,
{
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        _: &mut Facts,
    ) -> std::result::Result<u64, OutOfMemory> {
        let results = mutators.run(mutator, &self.0)?;
        Ok(results.into_iter().fold(0, u64::wrapping_add))
    }
}

/// What `prepare` of a workload gives.
pub type Prepared = Result<Box<dyn Workload>>;

/// A message about something that could not be done.
pub fn failed(error: impl fmt::Display) -> Failure {
    Failure::new(error.to_string())
}
