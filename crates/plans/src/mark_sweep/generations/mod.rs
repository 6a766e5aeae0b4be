//! Sticky marks: what the heap remembers from one collection to the next to decide whether marks are kept.
//!
//! A collection begins by asking which pages were written. It asks even if it is going to be of everything, so that the
//! next one has to look only at what is written from then on. If keeping marks did not pay, marks are not kept for some
//! collections, and these do not ask; what is written meanwhile counts at the next question. If the kernel does not
//! answer any more, everything is collected and the watch is started anew. If that is refused, everything is collected
//! from then on.
//!
//! Runs under the allocator lock, on the collecting thread.

mod extent;
mod state;

pub use state::{Generations, Weighing, before_the_watch, watch_writes};
