//! A thread of the collector's marks beside the program while marking in steps is under way, where a processor is idle (option
//! `cycle-helper`).
//!
//! It marks under the allocator lock, so nothing of the heap changes meanwhile, and what holds of a step holds of its turns. One
//! takes a tenth of a millisecond at most, and ends within microseconds when another thread wants the lock. Threads of the program
//! allocate from their lists without the lock, so they seldom want it.

pub mod state;
pub mod thread;
