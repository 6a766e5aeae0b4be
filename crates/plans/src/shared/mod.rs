//! What both collectors use.

pub mod crew_size;
pub mod free_processors;
pub mod record;
pub mod trials;
