//! What a policy of the old generation does.

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::slot::SlotFormat;

use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

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
