//! Incremental marking: a cycle of steps beside the program, from the stop in which a collection began to the one in which
//! it ends (ISMM 2000, section 6, *incremental*). [`super::decide::cycle`] says whether, and the pacer when
//! ([`super::decide::pacer`]).
//!
//! The first stop clears the marks or keeps them, as the collection is of everything or of new objects. It begins to
//! watch all pages with pointers, and scans the roots. From then on the allocator lock alone protects a step from
//! threads that allocate. Threads may write to objects while a step scans these; the pages tell what was written.
//! Objects of the cycle are born unmarked. So another stop looks at them, as in a collection of new objects, and at
//! what old objects on written pages refer to. If that takes too long, the rest is marked in steps again, and all that
//! was there counts as old then.
//!
//! Memory is allocated as at other times: what was dead when the cycle began is swept during it
//! (`gleaner_spaces::mark_sweep::settle`). So the heap grows only where that is used up before the cycle has ended.
//!
//! If other threads run, a step reads words of objects and calls no mark procedure of the client's, which may not be
//! ready for objects that others are writing. What such a procedure leads to is found in the next stop. If no other
//! thread runs, a step may call a procedure as a stop does. The next stop calls it again, since nobody knows whether
//! what it reads was written.
//!
//! A helper, if the door has one, marks beside the program on a processor that is idle, in turns (`helped`). It does what a step does
//! beside other threads. As long as it is there and memory is left, no step is due, but for what needs mark procedures of the
//! client's where steps call them: it waits for these.
//!
//! Under `generations=auto` only the helper's marking makes a cycle worthwhile, and marks need not be kept (`auto`).
//!
//! Where a question about written pages takes longer than a step, the kernel is asked in pieces ahead of the first and the last stop
//! (`ahead`). The stops ask as ever, since programs write on.
//!
//! # Invariants
//! - While a cycle is under way, one of three things holds of each marked object. It is grey: on a mark stack, or in a
//!   block that is flagged to be scanned again. Or it was scanned since its page was last known to be written. Or it is
//!   of a kind whose objects are all looked at in the last stop.
//! - Between steps and turns no marker is at work, and what is grey lies on the leader's stack, in outboxes or in the inbox.
//! - A cycle whose writes the kernel has lost, or whose marks the client changed, is given up: everything is collected in
//!   a stop.
//!
//! All of it runs under the allocator lock, but for turns of the helper. The marking engine is used by that, or else by the holder of
//! the lock ([`gleaner_spaces::mark_sweep::beside`]). Steps run on the thread that allocates and on helpers, while the world runs.

mod ahead;
mod auto;
mod end;
mod helped;
mod pacing;
mod state;
mod steps;

pub use helped::Next;
pub use state::{Auto, Cycle, Ended, Helped, Pacing};
