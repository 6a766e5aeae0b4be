//! What a policy of the old generation does.

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::slot::SlotFormat;

use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

/// Why everything is slid together where it was to stay.
pub const NO_HOLES: &str = "the holes are too small for what was to be promoted";
/// The same where what is free is of no use to new objects.
pub const FRAGMENTED: &str = "what is free lies in pieces between what lives";

/// A policy of the old generation.
pub trait OldGeneration<F: SlotFormat> {
    /// Collects everything, and leaves eden and the survivor spaces empty where there is room; why everything is to be slid
    /// together after it, if it is: where something found no room, always. The phases are events of the record, with the
    /// invariants verified between them.
    fn collect(
        &self,
        heap: &Scavenge<F>,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        why: &'static str,
    ) -> Option<&'static str>;

    /// Whether a collection leaves no holes: all that is free is one piece, which the young generation may have.
    fn slides(&self) -> bool;
}
