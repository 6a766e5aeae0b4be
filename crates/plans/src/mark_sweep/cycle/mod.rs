//! Incremental marking: a cycle of steps beside the program, from the stop in which a collection began to the one in which
//! it ends (ISMM 2000, section 6, *incremental*). [`super::decide::cycle`] says when.
//!
//! Marks are cleared or kept, as the collection is of everything or of new objects, and all pages with pointers are watched
//! in the first stop, which scans the roots. Then the allocator lock alone protects a step from others that allocate:
//! threads may write to objects while these are scanned, and what they write is found by the pages. Objects are born
//! unmarked, so those of the cycle are looked at in another stop, as in a collection of new objects; so is what old objects
//! on written pages refer to. Where that takes too long, the rest is marked in steps again: all that was there is old then.
//!
//! Where other threads run, a step reads words of objects and nothing else: a client's mark procedure may not be ready for
//! objects that others are writing. What such a procedure leads to is found in the next stop. Where none does, a step is
//! a stop for it; but it is asked in the next stop again, since nobody knows whether what it reads was written.
//!
//! # Invariants
//! - While a cycle is under way, one of three things holds of each marked object. It is grey: on a mark stack, or in a
//!   block that is flagged to be scanned again. Or it was scanned since its page was last known to be written. Or it is
//!   of a kind whose objects are all looked at in the last stop.
//! - Between steps no helper is at work, and what is grey lies on the leader's stack or in outboxes.
//! - A cycle whose writes the kernel has lost, or whose marks the client changed, is given up: everything is collected in
//!   a stop.
//!
//! Runs under the allocator lock; steps on the thread that allocates and on helpers, in the running world.

mod state;
mod steps;

pub use state::{Cycle, Ended};
