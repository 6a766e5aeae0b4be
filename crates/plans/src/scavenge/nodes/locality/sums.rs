//! What a heap sums up of the counts that its workers keep by memory node.

use alloc::boxed::Box;

use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::regions::Kind;

use super::counts::{ByNode, Locality, Sums};
use crate::scavenge::{Scavenge, State};

impl<F: SlotFormat> Scavenge<F> {
    /// Where something lies that a worker counts.
    pub(in crate::scavenge) fn node_of(&self, locality: &Locality, at: Address) -> usize {
        locality.node_of(&self.nursery, at)
    }

    /// When a collection begins: the pages that mutators use.
    pub(in crate::scavenge) fn count_eden_pages(&self, state: &mut State) {
        if let (Some(locality), Some(sums)) = (&self.locality, &mut state.locality) {
            for fragment in self.nursery.eden.fragments() {
                self.count_pages(
                    locality,
                    fragment.start(),
                    fragment.top(),
                    &mut sums.eden_pages,
                );
            }
        }
    }

    /// When a collection is over: what workers did, and the pages of what lives.
    pub(in crate::scavenge) fn sum_locality(&self, state: &mut State) {
        let (Some(locality), Some(sums)) = (&self.locality, &mut state.locality) else {
            return;
        };
        for local in state.engine.worker_states() {
            let mut counts = core::mem::take(&mut local.counts);
            let all = sums.by_worker[local.node].parts();
            for (sum, count) in all.into_iter().zip(counts.parts()) {
                sum.iter_mut()
                    .zip(count)
                    .for_each(|(sum, count)| *sum += *count);
            }
        }
        for region in self.regions().iter() {
            let pages = match region.kind {
                Kind::Survivor(_) => &mut sums.survivor_pages,
                Kind::Old => &mut sums.old_pages,
                _ => continue,
            };
            self.count_pages(locality, region.space.start(), region.space.top(), pages);
        }
    }

    fn count_pages(&self, locality: &Locality, start: Address, top: Address, pages: &mut ByNode) {
        for page in (start.word()..top.word()).step_by(1 << locality.page_bits) {
            pages[self.node_of(locality, Address::new(page))] += 1;
        }
    }

    /// What was counted so far; nothing but on a synthetic machine of several nodes. The caller is no mutator inside
    /// the gate.
    pub fn locality(&self) -> Option<Box<Sums>> {
        self.collecting
            .with(&self.gate, |state| state.locality.clone())
    }
}
