//! Quarantine (`quarantine=N`): where eden and the survivor spaces were is without access for N collections. So a
//! reference that was kept outside of a root slot faults at its first use, with a message that says which collection
//! evacuated the place.
//!
//! Each fragment of the three spaces has N + 1 places of its largest size. One that was in use and is empty after a
//! collection goes to its next place. The place that it leaves gives its memory back and loses access, and gets it
//! again when the space comes round. Without this a space is used again from its start, and a stale reference finds a
//! valid object.
//!
//! # Invariants
//! - A place without access was evacuated: no object, filler or buffer is there, and no reference but stale ones.
//! - The leader moves spaces, in a stopped world. The handler of a fault reads atomics only, at any time.

mod state;
mod watch;

pub use state::Quarantine;
