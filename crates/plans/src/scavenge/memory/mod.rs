//! Memory that the program decides on, and what there is in it: a limit that changes, memory that goes back, bytes outside of
//! the heap, counts by type, and snapshots.

mod by_type;
pub mod counts;
mod due;
pub mod external;
pub mod limit;
pub mod needed;
pub mod release;
mod room;
pub mod snapshot;
pub mod uses;
