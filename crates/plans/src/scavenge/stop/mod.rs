//! Stopping the world by polls, how mutators attach, detach and fork, how each is asked for something, and who holds up
//! a stop.

pub mod collecting;
pub mod fork;
pub mod handshake;
pub mod poll;
pub mod slow;
pub mod whereabouts;
