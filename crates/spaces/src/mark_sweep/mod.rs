//! The mark-sweep space of conservatively scanned, non-moving objects (ISMM 2000).
//!
//! Small objects live in blocks of one size and kind, large ones in runs of pages. What is dead is found by side
//! marks; its memory is reused by sweeping blocks when an allocator needs cells (lazy) or right after marking (eager).
//!
//! # Invariants
//! - A block is in at most one of: the free pool, one sweep queue, one cache's ownership.
//! - Nothing is allocated from a block that waits in a sweep queue (I5), but for cells that were freed explicitly.
//!   These are marked. In kinds that mark free cells, they are on the shared list instead, which is used up before a
//!   block of their kind is swept.
//! - `used_bytes` counts whole small blocks in use and the pages of large objects; together with the dirty free
//!   memory it never exceeds `capacity` unless the program itself forces growth (I7).
//! - Cells on a thread's list are marked from the first stop on, or their block is owned by that thread (I8).
//! - Some kinds mark free cells: uncollectable ones, and those with a disclaim procedure that was registered before any
//!   block had their objects. In these no allocated cell has the mark `FREE`, and every free cell has it, since a sweep
//!   lists what is `FREE`. Exceptions are cells that a thread has listed from other blocks than the one that it owns:
//!   they are `MARKED`.
//! - Where the procedure came later, free cells look dead, so that it sees cleared cells, as libgc allows.
//! - In such kinds an object is born `MARKED`: its block may still wait to be swept if the cell was freed explicitly.
//! - Between the clearing of marks and reclaiming (`Stage`) every object is born `MARKED`, from a fresh block or
//!   run, and what is freed explicitly goes on no list: it dies with this collection, or with the next.
//! - While marks are made in steps (`marked_in_steps`), no block or run becomes free or changes its descriptor, so that
//!   what is grey stays readable: large objects that are freed explicitly go when the cycle ends. Where they are not grey
//!   they are not scanned again. What is swept meanwhile was dead before (`settle`).
//! - Under sticky marks: a marked object of a collectable kind whose pages were not written since the last collection
//!   refers to no unmarked object, except by words that are no references (`sticky`).
//!
//! All methods that take `&mut self` run under the allocator lock.

pub mod account;
mod ahead;
pub mod allocate;
mod batches;
pub mod beside;
pub mod block;
pub mod cache;
mod described;
mod edge_queue;
pub mod edges;
mod entry;
pub mod explicit_free;
pub mod give_back;
pub mod kinds;
pub mod large_runs;
pub mod layout;
mod lines;
pub mod mark;
mod mark_counts;
mod mark_engine;
mod mark_phase;
mod marks;
pub mod object_descriptors;
pub mod pool;
pub mod prefetch;
pub mod reclaim;
pub mod roots;
pub mod scan;
pub mod settle;
pub mod size_classes;
mod slack;
mod space;
pub mod sticky;
pub mod sweep;
pub mod targets;
pub mod verify;
pub mod view;
mod written_pages;

pub use marks::{FREE, MARKED, POISON, WHITE};
pub use space::{Census, MarkSweep, Stage, SweepMode};
