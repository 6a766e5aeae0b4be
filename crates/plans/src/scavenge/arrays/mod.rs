//! Arrays in pieces (PLDI 2010): how the options have them cut, and how mutators are given arraylets.
//!
//! A mutator takes arraylets into its stock first, as many as what it is about to do may need; that may collect, and may
//! find no memory. What it then does with them does neither: so an access that instantiates arraylets happens as a whole
//! or not at all. What was not needed stays in the stock until a collection empties it.
//!
//! # Invariants
//! - What uses the stock has filled it, and nothing polls in between: a collection empties it.
//! - An arraylet of the stock is young, and no spine points at it. Who makes an old spine point at it makes it old first.
//! - What is tainted is never written; who writes makes a private copy and installs it by compare-and-swap, once
//!   ([`parts`]).

mod counts;
mod cutting;
pub(super) mod guard;
pub mod parts;
pub mod report;
mod spines;
mod stock;
pub mod tally;

pub use counts::{ArrayCounts, Filling};
pub use cutting::{Cutting, Geometry};
pub use gleaner_spaces::precise::arraylets::Contents;
