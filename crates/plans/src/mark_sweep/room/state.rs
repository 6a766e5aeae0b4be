//! What is known of the limits.

use gleaner_os::headroom::Headroom;

/// The limits, and what was left.
pub struct Room {
    pub(super) limits: Headroom,
    /// What the limits left.
    pub(super) left: Option<usize>,
    /// What the heap held then.
    pub(super) held: usize,
}

/// A heap that has grown by this part of what was left asks again.
pub(super) const ASKED_PART: usize = 8;

impl Room {
    /// No limits.
    pub const NONE: Room = Room {
        limits: Headroom::NONE,
        left: None,
        held: 0,
    };

    /// What is left now that the heap holds `held` bytes, if nobody else has taken any since; `None` if nothing is
    /// limited.
    pub(super) fn left(&self, held: usize) -> Option<usize> {
        let left = self.left?;
        Some(left.saturating_add(self.held).saturating_sub(held))
    }

    /// Whether that was asked too long ago.
    pub(super) fn is_outdated(&self, held: usize) -> bool {
        self.left
            .is_some_and(|left| held > self.held.saturating_add(left / ASKED_PART))
    }

    /// Asks, to be told exactly if it is less than `enough`. What cannot be read any more stays as it was.
    pub(super) fn ask(&mut self, held: usize, enough: usize) {
        if let Some(left) = self.limits.left(enough as u64) {
            self.left = Some(usize::try_from(left).unwrap_or(usize::MAX));
            self.held = held;
        }
    }
}
