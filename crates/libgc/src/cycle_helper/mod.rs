//! A thread of the collector's marks beside the program, where a processor is idle and that is asked for or pays (option
//! `cycle-helper`).
//!
//! It takes the allocator lock to begin a turn, and marks without. A turn takes half a millisecond at most, and ends within
//! microseconds when a thread that has taken the lock wants anything of the heap but cells for its list, or the tables of finalizers
//! and links ([`crate::state::Started::lock_beside_turn`]). Where the kernel is to be asked what was written, and where addresses are
//! limited, it keeps the lock for a turn of a tenth of a millisecond, and gives it back when another thread wants it.

pub mod state;
pub mod thread;
