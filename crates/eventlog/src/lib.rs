//! Reads the event log: what `gleaner exec --log FILE` makes a program write, one JSON object a line, one line a phase.
//!
//! The parts, from below: [`Event`] is a line; [`Reader`] goes through a log as a stream, and says which lines it cannot
//! read; [`Process`] is what one process did, summed up while its events come; [`Cycle`] is one of its cycles of marking
//! in steps; [`Utilisation`] and [`Spread`] say how its pauses lie in time and how long they are; [`busiest`] is the process that counts; [`StockLog`] is what stock libgc
//! says instead. What is kept grows with the number of collections, not with the log.
//! One thread throughout.
#![forbid(unsafe_code)]

mod busiest;
mod cycles;
mod event;
mod process;
mod reader;
mod spread;
mod stock;
mod utilisation;

pub use busiest::busiest;
pub use cycles::Cycle;
pub use event::{Event, is_known};
pub use process::{Collection, Decision, Head, IdleAction, PhaseTotal, Process, Span};
pub use reader::{Line, Reader, Unreadable};
pub use spread::{Spread, place_of};
pub use stock::StockLog;
pub use utilisation::Utilisation;
