//! Reads a heap snapshot, which `gleaner exec --snapshot FILE` has a program write, and finds out what keeps what.
//!
//! The parts, from below: [`read`] goes through the file as a stream and makes a [`Snapshot`], arrays of objects,
//! references and root words; [`Graph`] numbers these as nodes below one virtual root; [`Dominators`] says without which
//! node each one would not be reached, and [`Retained`] what would go with it; [`Census`], [`sharing`], [`Path`],
//! [`Suspects`] and [`Growth`] answer a question each. Nothing is recursive: a list may be as long as the heap. One thread throughout.
#![forbid(unsafe_code)]

mod addresses;
mod census;
mod dominators;
mod graph;
mod growth;
mod line;
mod path;
mod reader;
mod retained;
mod sharing;
mod snapshot;
mod suspects;
mod top;

pub use census::{Census, Class, Tally};
pub use dominators::{Dominators, Flow};
pub use graph::{Graph, Node};
pub use growth::{Change, Growth, Side};
pub use path::Path;
pub use reader::{ReadError, read};
pub use retained::Retained;
pub use sharing::sharing;
pub use snapshot::{Ending, Evidence, ObjectId, Root, Section, Snapshot, Word, WordId};
pub use suspects::Suspects;
pub use top::top;
