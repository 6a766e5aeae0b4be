//! Unused memory goes back to the system a piece at a time, in idle time, while the program runs.
//!
//! What is unused, in this order: memory that the system was asked for ahead of its use, free blocks, free runs of the large part,
//! the marks of free blocks, and pages between the survivors of blocks that wait to be swept. A piece is small enough that a thread
//! which wants the lock meanwhile waits about as long as for some page faults.
//!
//! # Invariants
//! - The capacity stays as it is, so collections come when they would have come.
//! - What goes back of free blocks and runs reads as zero, and counts as clean when all of it has gone.
//! - Of a block that waits to be swept, a page goes only if no object that was marked reaches it. What was there is dead: the sweep
//!   writes it anew, and until then it is read by nobody but by a collection that follows a stale word there, which finds zeros.
//!   Of a cell that loses its end alone the second word becomes zero, so that it is taken for no debug object.
//!   This is not done while marks are kept or made in steps, or where a cycle that was given up has settled the block, or where
//!   free memory has a pattern that is checked, or where cells of the block may be on a list (kinds that mark free cells;
//!   `sweep=eager`).
//!
//! All of it runs under the allocator lock; between two pieces anything may change.

mod pieces;
mod state;

pub use pieces::GivenBack;
pub(crate) use state::GivingBack;
