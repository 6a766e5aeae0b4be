//! Stopping the world, in two ways: by signals, with the protocol of their words, for threads that know nothing of us;
//! by polls, for mutators of the precise heap, and how those attach, detach and fork.

pub mod collecting;
pub mod fork;
pub mod poll;
pub mod protocol;
pub mod signal;
