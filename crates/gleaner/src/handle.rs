//! Handles: references that outlive scopes and may go to other threads. They end when they are dropped, by any thread.
//!
//! A [`Scope`](crate::Scope) makes and opens them.

use std::fmt;
use std::sync::Arc;

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::handles::Handles;

use crate::body::{Shared, with_heap};

/// Declares a kind of handle: its table in a heap.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $heap:ident => $table:expr) => {
        $(#[$doc])*
        pub struct $name {
            pub(crate) shared: Arc<Shared>,
            number: u32,
            /// Its slot, or the first of two; they stay where they are as long as the handle exists.
            pub(crate) slot: Address,
        }

        impl $name {
            fn table(shared: &Shared) -> &Handles {
                with_heap!(&shared.kind, $heap => $table)
            }

            /// A mutator inside the gate: a new handle to these values; `None` when there are as many as there can be.
            pub(crate) fn create(shared: Arc<Shared>, values: &[Value]) -> Option<$name> {
                let table = $name::table(&shared);
                let number = table.create(values)?;
                let slot = table.slot(number);
                Some($name { shared, number, slot })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!(stringify!($name), "({})"), self.number)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                $name::table(&self.shared).discard(self.number);
            }
        }
    };
}

handle! {
    /// A reference that keeps an object alive.
    Handle, heap => &heap.handles
}

handle! {
    /// A reference that does not keep its object alive. The collection that finds the object unreachable, except
    /// through weak references or finalizers, makes it null.
    Weak, heap => &heap.weak.references
}

handle! {
    /// A key with a value. The value lives as long as the key does, even if the value refers to the key. The collection
    /// that finds the key dead makes both null.
    Ephemeron, heap => &heap.weak.ephemerons.handles
}

impl Handle {
    /// A mutator inside the heap of the handle: it keeps another value, which is valid there.
    pub(crate) fn put(&self, value: Value) {
        Handle::table(&self.shared).put(self.number, value);
    }
}

impl Ephemeron {
    /// The slot of the value.
    pub(crate) fn second(&self) -> Address {
        Ephemeron::table(&self.shared).second(self.number)
    }
}
