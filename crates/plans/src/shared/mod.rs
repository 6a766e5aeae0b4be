//! What both collectors use.

pub mod record;
