//! What the libgc heap remembers of its collections: totals, the ring of events, the log.

mod record;
mod totals;

pub use totals::{Begun, Pace, Totals};
