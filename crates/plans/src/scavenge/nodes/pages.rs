//! On which memory nodes the heap's pages lie (ASPLOS 2013, sections 3.2 and 3.3): which node's fragment a thread takes
//! memory from, and how fragments get the memory that they lack.
//!
//! A fragment has addresses for all of its space, and memory for as much as its node's threads took so far; one counter
//! governs what all of them have (I7, `spaces/src/precise/fragmented.rs`). A thread whose node has used up the last of
//! it takes what it needs from the nearest fragment. So no collection comes before the space's bytes are used up. After
//! the next collection what fragments have and did not need goes back to the system, and is any node's again.
//!
//! Under `fragmented-fixed` each fragment has an equal share of its space, as in Parallel Scavenge, where the fragments
//! lie side by side. When the space changes its size, the borders between them move there, and pages that come to
//! another node are given back and placed anew. Here fragments do not touch each other; as many pages are given back
//! and placed anew as would be there, so that it costs the same, and they are counted (section 3.3).

use core::ptr::NonNull;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_base::options::{OldPages, Pages};
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::numa::{self, Refusal};
use gleaner_os::topology::NodeSet;
use gleaner_spaces::precise::regions::{Kind, MOST_REGIONS, Region};

use crate::scavenge::memory::release::{Released, release};
use crate::scavenge::mutator::Mutator;
use crate::scavenge::{LARGE_BYTES, Scavenge};
use crate::shared::record::Record;

/// Where the regions of the nursery end.
pub(in crate::scavenge) struct Ends([Address; MOST_REGIONS]);

impl<F: SlotFormat> Scavenge<F> {
    /// The memory node that the calling mutator runs on.
    #[inline]
    pub(in crate::scavenge) fn node_here(&self, mutator: &Mutator) -> usize {
        match self.config.cut.nodes {
            1 => 0,
            nodes if self.config.topology.is_synthetic() => mutator.number as usize % nodes,
            _ => self.node_here_of_host(),
        }
    }

    fn node_here_of_host(&self) -> usize {
        match self.config.topology.nodes() {
            1 => 0,
            _ => self.config.topology.place().node,
        }
    }

    /// The memory node that the thread that leads a collection works for: a mutator's thread, which is where it is. On
    /// a synthetic machine that would say nothing; there it works for the first worker's.
    pub(in crate::scavenge) fn node_of_leader(&self) -> usize {
        if self.config.topology.is_synthetic() {
            self.config.homes.of_worker(0)
        } else {
            self.node_here_of_host()
        }
    }

    /// The calling mutator took memory, of which the system may just have given it all.
    #[inline]
    pub(in crate::scavenge) fn note_touched(
        &self,
        mutator: &Mutator,
        taken: (Address, usize),
        is_new: bool,
    ) {
        if let Some(locality) = &self.locality {
            let ((start, bytes), nodes) = (taken, self.config.topology.nodes());
            if is_new {
                locality.note_released(start, bytes);
            }
            locality.note_touched(start, bytes, mutator.number as usize % nodes);
        }
    }

    /// Asks the kernel to place the heap's pages as the policies say, before any is touched; on a synthetic machine
    /// nobody is asked. After a refusal they lie where they are touched first.
    pub(in crate::scavenge) fn place_pages(&self) -> Result<(), Refusal> {
        let config = &self.config;
        if config.topology.is_synthetic() || config.topology.nodes() == 1 {
            return Ok(());
        }
        let all = config.topology.usable_nodes();
        let all: NodeSet = all
            .filter_map(|node| Some(usize::from(node.number?.0)))
            .collect();
        let interleave = |start: Address, bytes| match NonNull::new(start.ptr::<u8>()) {
            // SAFETY: whole granules of the heap's reservation.
            Some(start) => unsafe { numa::interleave(start, bytes, &all) },
            None => Ok(()),
        };
        match config.options.pages {
            Pages::Auto | Pages::FirstTouch => {}
            Pages::Interleaved => interleave(self.nursery.start(), self.nursery.bytes())?,
            Pages::Fragmented | Pages::FragmentedFixed | Pages::Segregated => self
                .nursery
                .ranges()
                .try_for_each(|(node, start, bytes)| self.bind(node, start, bytes))?,
        }
        match config.options.old_pages {
            OldPages::Auto | OldPages::FirstTouch => Ok(()),
            OldPages::Interleaved => {
                let pinned = self.pinned.region.start();
                interleave(pinned, self.nursery.start().offset_from(pinned))?;
                let end = Address::of(self.reservation.0.as_ptr()).add(self.reservation.1);
                interleave(self.large.start(), end.offset_from(self.large.start()))
            }
        }
    }

    /// The pages of a range of the heap lie on a node from now on, when they are touched next.
    fn bind(&self, node: usize, start: Address, bytes: usize) -> Result<(), Refusal> {
        match (
            self.config.topology.number(node),
            NonNull::new(start.ptr::<u8>()),
        ) {
            // SAFETY: whole pages of the heap's reservation.
            (Some(number), Some(start)) => unsafe { numa::bind(start, bytes, number) },
            _ => Ok(()),
        }
    }

    /// Under `fragmented-fixed`, when the shares of the fragments changed: places as many pages anew as would be on
    /// another node if fragments lay side by side. Gives their bytes.
    pub(in crate::scavenge) fn place_shares_anew(
        &self,
        _: &mut WorldStopped<'_>,
        before: &Ends,
    ) -> usize {
        if !self.config.cut.shares {
            return 0;
        }
        let anew = |(region, &end): (&Region<'_>, &Address)| {
            let start = region.space.start();
            let shares = (end.offset_from(start), region.space.bytes());
            let bytes = moved(region.node, shares.0, shares.1);
            if bytes == 0 || region.space.used() > 0 {
                return 0;
            }
            release(start, start.add(bytes));
            // A range that was placed once can be placed again, unless the kernel has no memory for that, which costs time only.
            let _ = self.bind(region.node, start, bytes);
            bytes
        };
        self.nursery.regions().iter().zip(&before.0).map(anew).sum()
    }

    /// Where the regions of the nursery end at the moment.
    pub(in crate::scavenge) fn nursery_ends(&self) -> Ends {
        let mut ends = Ends([Address::NULL; MOST_REGIONS]);
        for (end, region) in ends.0.iter_mut().zip(self.nursery.regions().iter()) {
            *end = region.space.end();
        }
        ends
    }

    /// The regions of the nursery ended there, and some end lower now: what lies between goes back to the system. In a
    /// stopped world.
    pub(in crate::scavenge) fn release_above(&self, world: &mut WorldStopped<'_>, ends: &Ends) {
        let regions = self.nursery.regions();
        for (index, (region, &end)) in regions.iter().zip(&ends.0).enumerate() {
            let low = region.space.end();
            let released = release(low, end);
            if low >= end || released == Released::Refused {
                continue;
            }
            self.touched.note_released(index, region.space.bytes());
            if let Some(locality) = &self.locality {
                locality.note_released(low, end.offset_from(low));
            }
            if released == Released::All && region.kind == Kind::Eden {
                self.zeroing
                    .note_released(world, region.node, region.space.end());
            }
        }
    }

    /// After a collection: memory goes to the fragments whose nodes lacked it.
    pub(in crate::scavenge) fn balance(&self, world: &mut WorldStopped<'_>, record: &mut Record) {
        if self.config.cut.nodes == 1 {
            return;
        }
        let ends = self.nursery_ends();
        let elsewhere = self
            .nursery
            .balance(world, LARGE_BYTES + self.guard_bytes());
        if elsewhere > 0 {
            record.step(Phase::Balance, |event| {
                event.bytes = elsewhere as u64;
                event.reason = "threads lacked memory on their own nodes";
                self.release_above(world, &ends);
            });
        } else {
            self.release_above(world, &ends);
        }
    }
}

/// Of fragments that lie side by side: how many bytes of the one of that node lay in others' before the share of each
/// changed.
fn moved(node: usize, before: usize, now: usize) -> usize {
    let (start, end) = (node * now, (node + 1) * now);
    let kept = end
        .min((node + 1) * before)
        .saturating_sub(start.max(node * before));
    now - kept
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::moved;

    #[test]
    fn the_borders_between_fragments_move_with_their_share() {
        assert_eq!([0, 1, 2, 3].map(|node| moved(node, 8, 8)), [0; 4]);
        assert_eq!([0, 1, 2, 3].map(|node| moved(node, 8, 10)), [2, 4, 6, 8]);
        assert_eq!([0, 1, 2, 3].map(|node| moved(node, 8, 4)), [0, 4, 4, 4]);
        assert_eq!(moved(1, 0, 4), 4);
    }
}
