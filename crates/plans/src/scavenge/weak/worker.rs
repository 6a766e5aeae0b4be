//! What a worker has to itself of what is weak; the leader makes and reads it between phases.

use core::ops::Range;

use super::discovered::Filling;

/// What one worker has found and counted.
pub struct WeakState {
    /// How often it looked at the key of an ephemeron.
    pub looks: u64,
    /// How often it looked at a weak slot.
    pub weak_looks: u64,
    /// The objects with weak slots that it has reached.
    pub discovered: Filling,
    /// How many ephemerons the objects have.
    pub ephemerons: usize,
    /// Entries that it has taken of the table of ephemerons that wait (`waiting`).
    pub numbers: Range<u32>,
    /// The ephemerons there whose keys it won and whose values it has not traced yet: the first of a list.
    pub found: u32,
    /// Whether it made the value of an ephemeron live that it looked at.
    pub kept: bool,
}

impl WeakState {
    /// Nothing was found yet.
    pub const NEW: WeakState = WeakState {
        looks: 0,
        weak_looks: 0,
        discovered: Filling::NONE,
        ephemerons: 0,
        numbers: 0..0,
        found: 0,
        kept: false,
    };
}
