//! What becomes of the old generation when everything is collected: an implementation of [`OldGeneration`] each.
//!
//! Both mark the whole heap first. The one moves what lives, the other frees what does not; the space that scavenges
//! promote into is the same ([`Tenured`](gleaner_spaces::precise::tenured::Tenured)), with holes or without.

mod mark_compact;
mod mark_sweep;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::options::OldPolicy;
use gleaner_mem::slot::SlotFormat;

pub use self::mark_compact::MarkCompact;
pub use self::mark_sweep::MarkSweep;
use super::{Scavenge, State};
use crate::shared::record::Record;

/// Why everything is slid together where it was to stay.
pub const NO_HOLES: &str = "the holes are too small for what was to be promoted";

/// A policy of the old generation.
pub trait OldGeneration<F: SlotFormat> {
    /// Collects everything, and leaves eden and the survivor spaces empty where there is room; whether all that lives found
    /// some. The phases are events of the record, with the invariants verified between them.
    fn collect(
        &self,
        heap: &Scavenge<F>,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        why: &'static str,
    ) -> bool;

    /// Whether a collection leaves no holes: all that is free is one piece, which the young generation may have.
    fn slides(&self) -> bool;
}

/// The policy of that name.
pub fn policy<F: SlotFormat>(name: OldPolicy) -> &'static dyn OldGeneration<F> {
    match name {
        OldPolicy::MarkCompact => &MarkCompact,
        OldPolicy::MarkSweep => &MarkSweep,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use gleaner_mem::slot::Wide;

    use super::*;

    #[test]
    fn only_what_slides_leaves_no_holes() {
        assert!(policy::<Wide>(OldPolicy::MarkCompact).slides());
        assert!(!policy::<Wide>(OldPolicy::MarkSweep).slides());
    }
}
