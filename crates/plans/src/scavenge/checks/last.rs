//! What a mutator allocated last, until its check.

use gleaner_mem::Address;

/// What a mutator allocated last.
#[derive(Clone, Copy, Debug)]
pub(in crate::scavenge) struct Last {
    /// Null for nothing that is left to look at.
    pub(in crate::scavenge) object: Address,
    pub(in crate::scavenge) bytes: usize,
    /// Its caller is to write all of it.
    pub(in crate::scavenge) unwritten: bool,
    /// A guard lies behind it.
    pub(in crate::scavenge) guarded: bool,
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
