//! Handles: references that outlive scopes and may go to other threads. They end when they are dropped, by any thread.
//!
//! A [`Scope`](crate::Scope) makes and opens them.

use std::fmt;
use std::sync::Arc;

use gleaner_mem::Address;
use gleaner_mem::slot::{SlotFormat, Value, Wide};

use crate::body::{Shared, with_heap};

/// A reference that keeps an object alive.
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u32,
    /// It stays where it is as long as the handle exists.
    slot: Address,
}

impl Handle {
    /// A mutator inside the gate: a new handle to a value; `None` when there are as many as there can be.
    pub(crate) fn create(shared: Arc<Shared>, value: Value) -> Option<Handle> {
        let handles = with_heap!(&shared.kind, heap => &heap.handles);
        let number = handles.create(value)?;
        let slot = handles.slot(number);
        Some(Handle {
            shared,
            number,
            slot,
        })
    }

    /// A mutator inside the heap of the handle: it keeps another value, which is valid there.
    pub(crate) fn put(&self, value: Value) {
        with_heap!(&self.shared.kind, heap => heap.handles.put(self.number, value));
    }

    /// What it refers to, for a mutator inside its heap.
    pub(crate) fn held(&self) -> Value {
        // SAFETY: the slot of a handle that exists.
        unsafe { Wide::load(self.slot, Address::NULL) }
    }
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
