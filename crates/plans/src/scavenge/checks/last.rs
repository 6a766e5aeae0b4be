//! What a mutator allocated last, until its check.

use gleaner_mem::Address;

/// What a mutator allocated last.
#[derive(Clone, Copy, Debug)]
pub(in crate::scavenge) struct Last {
    /// Null for nothing that is left to look at.
    pub(super) object: Address,
    pub(super) bytes: usize,
    /// Its caller is to write all of it.
    pub(super) unwritten: bool,
    /// A guard lies behind it.
    pub(super) guarded: bool,
}

impl Default for Last {
    fn default() -> Last {
        Last {
            object: Address::NULL,
            bytes: 0,
            unwritten: false,
            guarded: false,
        }
    }
}
