//! The parallel phase: how the collecting thread and its helpers share the work of a stopped world.
//!
//! - [`deque`]: a worker's own end and the thieves' end of a bounded queue of small words.
//! - [`termination`]: which threads are in a phase, and the moment at which it is finished.
//! - [`parking`]: where a thread sleeps until it is called to a phase: on a seat of its own, or with all others.
//! - [`task_queue`]: the tasks that a phase begins with.
//! - [`mailbox`]: words sent from one memory node to another in batches.
//! - [`outbox`]: the batches that one worker fills.
//! - [`tally`]: what the workers did with each other, counted.
//! - [`claims`]: work that is done ahead of time, by the thread that comes first.
//! - [`lead`]: a thread that works ahead of others sleeps until they have come nearer.
//! - [`idle_watch`]: a thread that looks for idle time rests when nothing is left to be done.
//! - [`rounds`]: a thread that works ahead of others sleeps from one round to the next.
//! - [`turns`]: which piece of that work a thread comes to next.
//! - [`prefix`]: tasks of which one may have to wait for those below it.
//! - [`crew`]: helpers, the leader, and a run of one phase.
//! - [`worker`]: what the code of a phase sees: its index, offering, announcing.
//!
//! The phases are counted. Every word that outlives a phase carries the phase number, so a worker
//! of phase k that is late by any amount cannot touch phase k+1.
//! Nothing here allocates, uses std or thread-locals, or takes a lock that a mutator may hold.
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod claims;
pub mod crew;
pub mod deque;
pub mod idle_watch;
pub mod lead;
pub mod mailbox;
pub mod outbox;
pub mod parking;
pub mod prefix;
pub mod rounds;
mod shared;
pub mod tally;
pub mod task_queue;
pub mod termination;
pub mod turns;
pub mod worker;

pub use claims::{Claims, Done};
pub use crew::{Crew, Phase};
pub use deque::{Deque, Steal};
pub use idle_watch::IdleWatch;
pub use lead::{Drowsy, Lead, Spinning};
pub use mailbox::{Batch, Mailboxes};
pub use outbox::Outbox;
pub use prefix::Prefix;
pub use rounds::{Round, Rounds};
pub use tally::Synchronisation;
pub use task_queue::TaskQueue;
pub use termination::MAX_WORKERS;
pub use turns::{Cursor, Turn};
pub use worker::{Verdict, Worker};
