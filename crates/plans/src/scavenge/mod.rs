//! The precise generational collector, Parallel Scavenge as ASPLOS 2013, section 2 describes it.
//!
//! Objects are born in eden. A scavenge copies what lives there to a survivor space, and to the old space what has
//! survived often enough. When the old space is full, everything is marked; then what lives is slid together, or stays
//! and the holes are filled. Large objects and pinned ones have spaces of their own. Mutators stop at polls.
//!
//! The rooms, each of which says what it is and what may be touched there:
//!
//! - `config`, `sizes`, `create`: how a heap is set up, the ranges of its spaces, and how it is made; `heap`: spaces and tables; `state`: what it
//!   remembers from collection to collection
//! - [`mutator`]: what a mutator has to itself, and `mutator_list`: all of them; [`handles`] and [`heap_roots`]: roots of no mutator; [`allocate`]: buffers, large and pinned objects, [`constants`], and when to
//!   collect; [`shrink`]: arrays that shrink in place; `beside`: the lock for what has no buffers
//! - [`collect`]: a collection, step by step; [`old`]: the policies of the old generation; [`resize`]: the sizes of the generations afterwards; [`stop`]: how mutators
//!   stop, attach, detach and fork ([`fork`]); [`decide`]: as pure functions, what is decided
//! - [`trace`]: what the workers do in parallel: their stacks, [`roots`], [`mark`]ing, prefetched [`edges`]; [`copy`]:
//!   scavenging
//! - [`in_place`]: new objects in free lines of the old space, where there is no eden, and their collection
//! - [`zeroing`]: what zeroes eden, and when
//! - [`arrays`]: arrays in pieces, what mutators and the collector do with them, and the report on them
//! - [`memory`]: what the program decides on: a limit that changes, memory that goes back, bytes outside of the heap; counts
//!   by type, and snapshots
//! - [`pins`]: objects that keep their places for a while, and conservative roots
//! - [`nodes`]: memory nodes
//! - [`weak`]: weak references, finalizers and ephemerons
//! - [`checks`]: what looks for mistakes: the invariants, and for embedders guards, the quarantine and a walk
//!
//! The spaces lie in ascending order: constants, pinned, old, eden, survivors, large, arraylets. So one comparison tells what is surely old.
//!
//! # Invariants
//! - `collecting` is held by a thread that stops the world, attaches or detaches; its holder is outside of the gate.
//! - The state is touched by the holder of `collecting` alone; all else is shared as its type says.
//! - The old, the pinned and the large space and that of arraylets together use no more than `old_limit` bytes (I7).

pub mod allocate;
pub mod arrays;
mod beside;
pub mod checks;
pub mod collect;
mod config;
pub mod constants;
pub mod copy;
mod create;
mod crew_sizes;
pub mod decide;
pub mod extent;
pub mod fork;
pub mod handles;
mod heap;
pub mod heap_roots;
pub mod in_place;
pub mod memory;
pub mod mutator;
mod mutator_list;
pub mod nodes;
pub mod old;
mod outside;
pub mod pins;
mod refused;
pub mod resize;
pub mod shrink;
mod sizes;
mod state;
pub mod stop;
pub mod trace;
pub mod weak;
pub mod zeroing;

pub use arrays::{parts, report, tally};
pub use checks::{verify, walk};
pub use config::{Config, CreateError, LARGE_BYTES, LEAST_LIMIT, REGION_GRANULE};
pub use heap::{Listener, Scavenge};
pub use memory::limit::LimitError;
pub use memory::snapshot::{LastWords, SnapshotError};
pub use nodes::locality;
pub use state::{State, Totals};
pub use trace::{edges, mark, roots};
pub use weak::waiting;
