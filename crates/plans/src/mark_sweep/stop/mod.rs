//! Stopping the world by signals, for threads that cannot be asked to poll, and the words by which both sides agree.

pub mod protocol;
pub mod signal;
