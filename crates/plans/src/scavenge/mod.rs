//! The precise generational collector, Parallel Scavenge as ASPLOS 2013, section 2 describes it.
//!
//! Objects are born in eden. A scavenge copies what lives there to a survivor space, and to the old space what has
//! survived often enough. When the old space is full, everything is marked; then what lives is slid together, or stays
//! and the holes are filled. Large objects and pinned ones have spaces of their own. Mutators stop at polls.
//!
//! - `config`: how a heap is set up; `heap`: its spaces and tables; `state`: what it remembers from collection to
//!   collection
//! - [`mutator`], [`handles`]: roots, and what a mutator has to itself
//! - [`allocate`]: buffers, large and pinned objects, and when to collect
//! - [`arrays`]: arrays in pieces, as mutators see them; `spines`: as the collector does; [`parts`]: on what they agree
//! - [`tally`]: what mutators do with arrays, counted; [`report`]: what arrays there are, and what cutting them saves
//! - [`collect`]: a collection, step by step; [`stop`]: how mutators stop, attach, detach and fork
//! - [`trace`]: what the workers do in parallel; `grey`: their stacks; [`roots`]: where they begin; [`copy`]:
//!   scavenging; [`mark`]: marking; [`compact`]: updating and sliding; [`edges`]: prefetching; [`weak`]: weak
//!   references, finalizers; `ephemerons`; [`waiting`]: those whose keys were not reached yet
//! - [`zeroing`]: what zeroes eden, and when; [`ahead`]: by threads of their own; `calibration`: which kernel is
//!   fastest
//! - `quarantine`, `checks`: for embedders who look for mistakes of theirs
//! - `sizes`: the ranges of the spaces; [`resize`]: the sizes of the generations after a collection; [`decide`]: as
//!   pure functions, what is decided then
//! - [`verify`]: the invariants, checked; [`walk`]: every object, for embedders; [`fork`]: before and after a fork
//!
//! The spaces lie in ascending order: pinned, old, eden, survivors, large, arraylets. So one comparison tells what is surely old.
//!
//! # Invariants
//! - `collecting` is held by a thread that stops the world, attaches or detaches; its holder is outside of the gate.
//! - The state is touched by the holder of `collecting` alone; all else is shared as its type says.
//! - The old, the pinned and the large space and that of arraylets together use no more than `old_limit` bytes (I7).

pub mod allocate;
pub mod arrays;
mod checks;
pub mod collect;
pub mod compact;
mod config;
pub mod copy;
mod crew_sizes;
pub mod decide;
pub mod edges;
mod ephemerons;
pub mod extent;
pub mod fork;
mod found;
mod grey;
mod guard;
pub mod handles;
mod heap;
mod liveness;
pub mod locality;
mod lockstep;
pub mod mark;
pub mod mutator;
mod outside;
mod pages;
pub mod parts;
mod quarantine;
pub mod report;
pub mod resize;
pub mod roots;
mod segregated;
mod sizes;
mod spines;
mod state;
pub mod stop;
pub mod tally;
pub mod trace;
pub mod verify;
pub mod waiting;
pub mod walk;
pub mod weak;
pub mod zeroing;

pub use config::{Config, CreateError, LARGE_BYTES, LEAST_LIMIT, REGION_GRANULE};
pub use heap::{Listener, Scavenge};
pub use state::{State, Totals};
