//! Idle time: unused memory goes back to the system while the program runs, piece by piece, and nobody is stopped for it.
//!
//! The door has a thread that looks ([`Heap::look_for_idleness`](crate::mark_sweep::Heap::look_for_idleness)), or has the program's
//! own calls look ([`Heap::note_call`](crate::mark_sweep::Heap::note_call)). Both run under the allocator lock, piece by piece, and see
//! after each piece whether the program goes on.

mod state;
mod steps;

pub use state::Idle;
