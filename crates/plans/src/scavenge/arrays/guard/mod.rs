//! Guard mode (`array-guard=on`; PLDI 2010, section 5.3): a raw access to an array in pieces, as if it lay in one
//! piece, faults at once, and is reported with the array, the element and the instruction.
//!
//! Every array that is cut is a fenced spine ([`gleaner_mem::spine`]) in the large space. An access that computes an
//! address from the array and an index finds pages without access. For accessors N is 0, so they find no element behind
//! the length; they find the pointers and the remainder before the header.
//!
//! # Invariants
//! - A fence has no access from the allocation of its array until it is dead.
//! - The handler of a fault reads only atomics, and what never changes in an array. The array is alive or has just
//!   died, so its memory is still mapped.

mod fences;
mod state;

pub use state::Guard;
