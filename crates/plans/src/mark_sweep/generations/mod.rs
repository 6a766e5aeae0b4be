//! Sticky marks: what the heap remembers from one collection to the next to decide whether marks are kept.
//!
//! A collection first asks which pages were written, also where it is going to be of everything: then the next one has to
//! look only at what is written from then on. It does not ask where marks are not kept for some more collections, since that
//! did not pay: what is written meanwhile counts at the next question. Where the kernel does not answer any more, everything
//! is collected and the watch is started anew; where that is refused, everything is collected from then on.
//!
//! Runs under the allocator lock, on the collecting thread.

mod extent;
mod state;

pub use state::{Generations, Weighing, watch_writes};
