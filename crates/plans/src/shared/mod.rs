//! What both collectors use.

pub mod crew_size;
pub mod free_processors;
pub mod log_ends;
pub mod record;
pub mod snapshot;
pub mod trials;
