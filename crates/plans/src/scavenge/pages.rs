//! On which memory nodes the heap's pages lie (ASPLOS 2013, sections 3.2 and 3.3): which node's fragment a thread takes
//! memory from, and how fragments get the memory that they lack.
//!
//! A fragment has addresses for all of its space, and memory for as much as its node's threads took so far; one counter
//! governs what all of them have (I7, `spaces/src/precise/nursery.rs`). A thread whose node has used up the last of it
//! takes what it needs from the nearest fragment, so no collection comes before the space's bytes are used up; and the
//! collection after that moves memory to where it was lacking: it gives the others' back to the system.

use gleaner_base::events::Phase;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::regions::{Kind, MOST_REGIONS};

use super::Scavenge;
use super::mutator::Mutator;
use super::resize::release;
use crate::shared::record::Record;

/// Where the regions of the nursery end.
pub(super) struct Ends([Address; MOST_REGIONS]);

impl<F: SlotFormat> Scavenge<F> {
    /// The memory node that the calling mutator runs on.
    #[inline]
    pub(super) fn node_here(&self, mutator: &Mutator) -> usize {
        match self.config.cut.nodes {
            1 => 0,
            nodes if self.config.topology.is_synthetic() => mutator.number as usize % nodes,
            nodes => self.config.topology.place().node % nodes,
        }
    }

    /// The calling mutator took memory, of which the system may just have given it all.
    #[inline]
    pub(super) fn note_touched(&self, mutator: &Mutator, taken: (Address, usize), is_new: bool) {
        if let Some(locality) = &self.locality {
            let ((start, bytes), nodes) = (taken, self.config.nodes);
            if is_new {
                locality.note_released(start, bytes);
            }
            locality.note_touched(start, bytes, mutator.number as usize % nodes);
        }
    }

    /// Where the regions of the nursery end at the moment.
    pub(super) fn nursery_ends(&self) -> Ends {
        let mut ends = Ends([Address::NULL; MOST_REGIONS]);
        for (end, region) in ends.0.iter_mut().zip(self.nursery.regions().iter()) {
            *end = region.space.end();
        }
        ends
    }

    /// The regions of the nursery ended there, and some end lower now: what lies between goes back to the system. In a
    /// stopped world.
    pub(super) fn release_above(&self, ends: &Ends) {
        for (region, &end) in self.nursery.regions().iter().zip(&ends.0) {
            let low = region.space.end();
            let zero = release(low, end);
            if let (Some(locality), true) = (&self.locality, low < end) {
                locality.note_released(low, end.offset_from(low));
            }
            if zero && region.kind == Kind::Eden {
                self.zeroing.note_released(region.node, region.space.end());
            }
        }
    }

    /// After a collection, in a stopped world: memory goes to the fragments whose nodes lacked it.
    pub(super) fn balance(&self, record: &mut Record) {
        if self.config.cut.nodes == 1 {
            return;
        }
        let ends = self.nursery_ends();
        let elsewhere = self.nursery.balance();
        if elsewhere > 0 {
            record.step(Phase::Balance, |event| {
                event.bytes = elsewhere as u64;
                event.reason = "threads found memory on other nodes than their own";
                self.release_above(&ends);
            });
        }
    }
}
