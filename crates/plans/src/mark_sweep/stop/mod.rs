//! Stopping the world by signals, with the protocol of their words: for threads that cannot be asked to poll.

pub mod protocol;
pub mod signal;
