//! Zeroing fresh memory of eden (OOPSLA 2011): by each allocation, by the mutator that takes a buffer, or by threads of
//! their own.
//!
//! At the end of each collection a [`Mode`](super::decide::zeroing::Mode) is chosen, which holds until the next. A
//! mutator that takes a buffer prepares it as the mode says; its record tells it whether it has to zero each object
//! itself.
//!
//! Zeroing threads sleep between rounds. The collecting thread wakes them by `Zeroing::wake` when the world runs
//! again. They work through the blocks of eden from its start; a mutator that needs a block to which they have not come
//! zeroes it itself. A thread that keeps a bounded lead sleeps within a round, too, until mutators have taken buffers
//! ([`ahead::Ahead::note_taken`]).
//!
//! # Invariants
//! - What is handed out reads as zero, or the mutator's `zeroes` is not 0 (I2). Under
//!   [`Mode::Window`](super::decide::zeroing::Mode::Window) that holds up to the limit of its buffer.
//! - A fragment of eden at and above its `virgin` was never written to since the system gave it: it reads as zero
//!   (`fragment`).
//! - [`ahead`] says which thread zeroes a block ahead, and which waits for that.

pub mod ahead;
mod calibration;
mod eden;
mod fragment;
mod state;
mod time;
mod zeroed;

pub(super) use state::Contention;
pub use state::{Zeroing, fragment_of, wanted_threads};
pub use zeroed::{BLOCK, Zeroed};
