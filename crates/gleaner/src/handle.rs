//! Handles: references that outlive scopes and may go to other threads.

use std::fmt;
use std::sync::Arc;

use crate::heap::{Shared, with_heap};

/// Keeps an object alive until it is dropped, by any thread. A [`Scope`](crate::Scope) makes and opens it.
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u32,
}

impl fmt::Debug for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Handle({})", self.number)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        with_heap!(&self.shared.kind, heap => heap.handles.discard(self.number));
    }
}
