//! Stopping the world: the protocol, and the stopper that works by signals.

pub mod protocol;
pub mod signal;
