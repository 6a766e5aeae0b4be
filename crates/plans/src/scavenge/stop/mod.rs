//! Stopping the world by polls, and how mutators attach, detach and fork.

pub mod collecting;
pub mod fork;
pub mod poll;
