//! The lowest layer: what every other crate of Gleaner shares and that needs neither memory nor an operating system.
//!
//! - [`contexts`]: proofs that the world is stopped, or that the allocator's lock is held.
//! - [`options`]: the one table of options, their values, and errors that help.
//! - [`events`]: records of what a collection did, the ring of the last ones, and their JSON form.
//! - [`goals`]: whether stops and steps of marking kept their goals, and what to say where they did not.
//! - [`faults`]: named points where a test can make something fail.
//! - [`roles`]: what the threads of a managed program are for.
//! - [`sync`]: the facade over atomics and waiting that lets loom run the protocols.
//!
//! Nothing here allocates, prints or calls the system: this code runs inside the user's process and while its threads
//! are stopped. A caller that wants output passes something to write to.
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod contexts;
pub mod events;
pub mod faults;
pub mod goals;
pub mod options;
pub mod roles;
pub mod sync;
