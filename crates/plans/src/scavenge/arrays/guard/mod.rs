//! Guard mode (`array-guard=on`; PLDI 2010, section 5.3): a raw access to where the elements of an array in pieces would
//! lie if it were in one faults at once, and is reported with the array, the element and the instruction.
//!
//! Every array that is cut is a fenced spine ([`gleaner_mem::spine`]) in the large space: what an access finds that computes
//! an address from the array and an index is pages without access. Accessors find no element behind the length, since N is
//! 0 for them, and pointers and remainder before the header.
//!
//! # Invariants
//! - A fence has no access from the allocation of its array until it is dead.
//! - The handler of a fault reads atomics, and what never changes in an array. The array is alive, or was just now: its
//!   memory stays mapped.

mod fences;
mod state;

pub use state::Guard;
