//! Stopping the world by signals, with the protocol of their words: for threads that know nothing of us.

pub mod protocol;
pub mod signal;
