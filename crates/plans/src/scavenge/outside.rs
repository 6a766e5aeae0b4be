//! Threads that are outside of the gate for a while.

use super::stop::poll::PollGate;

/// A mutator that is outside of the gate goes in again, also when a listener panics.
pub(super) struct Outside<'a>(pub(super) &'a PollGate);

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.0.enter();
    }
}
