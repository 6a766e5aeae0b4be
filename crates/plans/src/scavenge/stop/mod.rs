//! Stopping the world by polls, how mutators attach, detach and fork, and who holds up a stop.

pub mod collecting;
pub mod fork;
pub mod poll;
pub mod slow;
pub mod whereabouts;
