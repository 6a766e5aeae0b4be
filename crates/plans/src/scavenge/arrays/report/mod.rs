//! The report on arrays of option `array-report`: what arrays there are, by type, and what each optimisation of the
//! PLDI 2010 paper would save, or saves, in the program at hand (Tables 1 and 4).
//!
//! A census is taken at the end of each collection of everything, so it counts what lives. Option `array-report` says
//! at most how many bytes are allocated between two censuses. The leader takes it, in a stopped world. It allocates no
//! memory there (I1): room for the types is made before the stop.
//!
//! Where arrays lie in one piece, the report says what cutting them would do: with the sizes of `arrays=zray`, or those
//! of options `first-n` and `arraylet`.

mod census;
mod found;
mod table;

pub use crate::scavenge::arrays::Geometry;
pub(in crate::scavenge) use census::room;
pub(in crate::scavenge) use found::Censuses;
pub use found::{ArrayReport, ArrayType, Footprint, Living};
pub use table::{Composition, Savings};
