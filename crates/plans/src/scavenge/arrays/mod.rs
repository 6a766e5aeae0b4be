//! Arrays in pieces (PLDI 2010): how the options have them cut, and how mutators are given arraylets.
//!
//! Before a mutator writes, it takes as many arraylets into its stock as the write may need. That may collect, and may
//! find no memory. The write itself does neither, so an access that instantiates arraylets happens as a whole or not at
//! all. What was not needed stays in the stock until a collection empties it.
//!
//! # Invariants
//! - Who uses the stock has filled it, and does not poll in between, because a collection empties it.
//! - An arraylet of the stock is young, and no spine points at it. Who makes an old spine point at it makes it old first.
//! - What is tainted is never written: a writer makes a private copy first, and installs it by compare-and-swap, once
//!   ([`parts`]). What became tainted did so while no other mutator could be about to write it ([`sharing`]).

mod counts;
mod cutting;
mod ends;
pub(super) mod guard;
pub mod parts;
pub mod report;
pub mod sharing;
pub(super) mod sharing_stops;
mod spines;
mod stock;
pub mod tally;

pub use counts::{ArrayCounts, Filling};
pub use cutting::{Cutting, Geometry};
pub use gleaner_spaces::precise::arraylets::Contents;
