//! Memory that goes back to the system: what the heap has not used for some collections of everything
//! ([`decide::unused`](crate::scavenge::decide::unused)), and all that nothing lives in when the program asks for that.
//!
//! Runs in stopped worlds, behind the decision on sizes. Addresses stay reserved, and the sizes of the spaces do not
//! change: memory comes back when it is used. The system may refuse memory that is locked (`mlockall`): then the heap holds
//! it still, counts it as resident, and offers it again after the next collection of everything.

use core::ptr::NonNull;

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::memory;
use gleaner_spaces::precise::regions::{Kind, MOST_REGIONS, Region};

use super::uses::Uses;
use crate::scavenge::collect::Extent;
use crate::scavenge::mutator::Mutator;
use crate::scavenge::{Scavenge, State};

impl<F: SlotFormat> Scavenge<F> {
    /// Gives all memory back that nothing lives in, behind a collection that slides what lives together. How many bytes
    /// fewer the heap holds. A mutator inside the gate calls it.
    pub fn trim(&self, mutator: &Mutator) -> usize {
        let before = self.resident();
        self.give_back_next.store(1, Ordering::Relaxed);
        self.collect(
            mutator,
            Extent::Compact,
            "the program asks for memory to be given back",
        );
        before.saturating_sub(self.resident())
    }

    /// Bytes of all spaces that hold memory, as far as the heap knows: what was used once and was not given back.
    pub fn resident(&self) -> usize {
        let touched = |(region, touched): (&Region<'_>, &AtomicUsize)| {
            touched.load(Ordering::Relaxed).max(region.space.used())
        };
        let regions = self.nursery.regions();
        let young = regions.iter().zip(&self.touched.0).map(touched);
        self.old_resident() + self.beside_resident() + young.sum::<usize>()
    }

    /// When a collection begins: what is used now, of each region of the nursery up to its top.
    pub(in crate::scavenge) fn note_used(
        &self,
        state: &mut State,
        large_used: [usize; 2],
        tops: &[Address],
    ) {
        let uses = &mut state.uses;
        for (most, used) in uses.most_large.iter_mut().zip(large_used) {
            *most = used.max(*most);
        }
        for (index, region) in self.nursery.regions().iter().enumerate() {
            let used = tops[index].offset_from(region.space.start());
            uses.most_young[index] = used.max(uses.most_young[index]);
            self.touched.0[index].fetch_max(used, Ordering::Relaxed);
        }
    }

    /// Behind a scavenge that found no room: it may have filled the to-space.
    pub(in crate::scavenge) fn note_given_up(&self) {
        for (index, region) in self.nursery.regions().iter().enumerate() {
            if region.kind != Kind::Eden {
                self.touched.0[index].fetch_max(region.space.bytes(), Ordering::Relaxed);
            }
        }
    }

    /// Behind a collection of everything: memory goes back that was not used in the last ones, or all that nothing lives
    /// in, if the program asked for that.
    pub(in crate::scavenge) fn release_unused(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
    ) {
        self.note_old_top();
        let all = self.give_back_next.swap(0, Ordering::Relaxed) != 0;
        let every = self.config.options.release_after;
        self.release_unused_blocks(state, world, (all, every));
        let uses = &mut state.uses;
        let start = self.old.region.start();
        let top = self.old.region.top();
        let high = self.old_high_lately.swap(top.word(), Ordering::Relaxed);
        let [large, arraylets] = core::mem::take(&mut uses.most_large);
        let young = core::mem::replace(&mut uses.most_young, [0; MOST_REGIONS]);
        let kept_old = uses.old.note(Address::new(high).offset_from(start), every);
        let kept_large = uses.large.note(large, every);
        let kept_arraylets = uses.arraylets.note(arraylets, every);
        let mut kept_young = [0; MOST_REGIONS];
        for (index, kept) in kept_young.iter_mut().enumerate() {
            *kept = uses.nursery[index].note(young[index], every);
        }
        if all {
            *uses = Uses::NONE;
            self.release_old_above(top);
            self.release_beside(&mut world.allocator(), usize::MAX);
            self.release_young_above(world, &[0; MOST_REGIONS]);
        } else if every > 0 {
            self.release_old_above(start.add(kept_old).max(top));
            let locked = &mut world.allocator();
            let excess = self.large.resident().saturating_sub(kept_large);
            self.large.release_free(locked, excess);
            if let Some(space) = &self.arraylets {
                let excess = space.resident().saturating_sub(kept_arraylets);
                space.release_free(locked, excess);
            }
            self.release_young_above(world, &kept_young);
        }
    }

    /// Gives memory of vacant blocks of the old space back: of all, or as far as so many collections did not need them.
    fn release_unused_blocks(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        (all, every): (bool, u32),
    ) {
        let Some(lines) = self.lines() else {
            return;
        };
        let (uses, region) = (&mut state.uses, &self.old.region);
        let kept = uses
            .blocks
            .note(core::mem::take(&mut uses.most_blocks), every);
        let kept = match (all, every) {
            (true, _) => 0,
            (false, 0) => return,
            _ => kept,
        };
        let excess = (region.used() - lines.released_bytes()).saturating_sub(kept);
        self.release_vacant(&mut world.allocator(), excess);
    }

    /// Gives memory of vacant blocks of the old space back, at least `bytes` bytes or all that the system takes. How many. No
    /// worker is at work.
    pub(in crate::scavenge) fn release_vacant(
        &self,
        locked: &mut AllocatorLocked<'_>,
        bytes: usize,
    ) -> usize {
        let give_back = |low, high: Address| {
            let is_released = release(low, high) == Released::All;
            if is_released && let Some(locality) = &self.locality {
                locality.note_released(low, high.offset_from(low));
            }
            is_released
        };
        let region = &self.old.region;
        self.lines().map_or(0, |lines| {
            lines.release_vacant(locked, region, bytes, give_back)
        })
    }

    /// Gives memory of each region of the nursery back that lies above as many bytes, or above what is in use.
    fn release_young_above(&self, world: &mut WorldStopped<'_>, kept: &[usize]) {
        if self.checks() {
            // Under quarantine a region has gone elsewhere, and where it is nothing was used.
            return;
        }
        let page = memory::page_size();
        for (index, region) in self.nursery.regions().iter().enumerate() {
            let (start, touched) = (region.space.start(), &self.touched.0[index]);
            let kept = kept[index].max(region.space.used()).next_multiple_of(page);
            let bytes = touched.load(Ordering::Relaxed);
            if kept >= bytes {
                continue;
            }
            let low = start.add(kept);
            let released = release(low, start.add(bytes.next_multiple_of(page)));
            if released != Released::All {
                continue;
            }
            touched.store(kept, Ordering::Relaxed);
            if let Some(locality) = &self.locality {
                locality.note_released(low, bytes - kept);
            }
            if region.kind == Kind::Eden {
                self.zeroing.note_released(world, region.node, low);
            }
        }
    }

    /// Gives memory above an address back, which is not below the top of the old space; how many bytes less the old space
    /// holds.
    pub(in crate::scavenge) fn release_old_above(&self, low: Address) -> usize {
        let high = self.old_reached();
        let low = low.min(high);
        if release(low, high) == Released::Refused {
            return 0;
        }
        if let Some(locality) = &self.locality {
            let low = low.align_up(memory::page_size());
            locality.note_released(low, high.word().saturating_sub(low.word()));
        }
        self.old_high.store(low.word(), Ordering::Relaxed);
        high.offset_from(low)
    }

    /// The pinned space, whose top was at `top`, ends lower: what lies between goes back.
    pub(in crate::scavenge) fn release_pinned_above(&self, _: &mut WorldStopped<'_>, top: Address) {
        let low = self.pinned.region.top();
        let held = Address::new(self.pinned_held.load(Ordering::Relaxed)).max(top);
        let held = match release(low, held) {
            Released::Refused => held,
            Released::Nothing | Released::All => low,
        };
        self.pinned_held.store(held.word(), Ordering::Relaxed);
    }

    /// Bytes of the pinned space that hold memory.
    pub(in crate::scavenge) fn pinned_resident(&self) -> usize {
        let region = &self.pinned.region;
        let held = Address::new(self.pinned_held.load(Ordering::Relaxed));
        held.max(region.top()).offset_from(region.start())
    }
}

/// What became of memory that nobody uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::scavenge) enum Released {
    /// It has no whole page.
    Nothing,
    /// All whole pages went back, and read as zero.
    All,
    /// The system refuses: some pages, or all, hold what they held.
    Refused,
}

/// Gives back the whole pages of memory that no object uses.
pub(in crate::scavenge) fn release(low: Address, high: Address) -> Released {
    let page = memory::page_size();
    let (low, high) = (low.align_up(page), high.align_down(page));
    if low < high
        && let Some(start) = NonNull::new(low.ptr::<u8>())
    {
        // SAFETY: whole pages where no object is.
        return match unsafe { memory::release(start, high.offset_from(low)) } {
            true => Released::All,
            false => Released::Refused,
        };
    }
    Released::Nothing
}
