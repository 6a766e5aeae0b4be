//! Arrays in pieces as the collector sees them (PLDI 2010, sections 4.2, 4.5 and 5.1): a trace that reaches a spine claims
//! its arraylets, and those that hold nothing but zeros are taken back.
//!
//! # Invariants
//! - An arraylet that was claimed is scanned with the slots of the spine through which it was claimed, and as old as that.
//! - A slot of an old arraylet that refers to a young object lies on a dirty card (I5): the card is one of the arraylet's
//!   own address.
//! - Pointers of a spine are changed by the worker that scans the chunk of pointers that they lie in, in a stopped world.

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_mem::header::Header;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::arraylets::{Arraylets, CHUNK_BYTES, Claim};

use crate::scavenge::Scavenge;
use crate::scavenge::parts::{Part, Target};
use crate::scavenge::trace::{CHUNK_POINTERS, Item, WorkerState};

/// How many arraylets ahead of the one that is scanned are fetched into the cache: that each begins with something other
/// than zero costs little then.
const LOOK_AHEAD: usize = 8;

/// A task's share of the space of arraylets. A chunk of numbers costs a look; a task for each would be most of a scavenge
/// beside large arrays of numbers.
const ARRAYLET_STRIP_BYTES: usize = 32 * CHUNK_BYTES;

impl<F: SlotFormat> Scavenge<F> {
    /// Scans a spine that was reached and will be `old`, or a chunk of its pointers: claims the arraylets, and visits their
    /// slots and those that lie in the spine. Arraylets of zeros are taken back (section 4.5), but for those of immortal
    /// arrays.
    ///
    /// # Safety
    /// A spine of this heap lies at `spine`, and `header` is its header; the calling worker alone scans the item, in a
    /// stopped world.
    #[cold]
    #[inline(never)]
    pub(in crate::scavenge) unsafe fn scan_spine(
        &self,
        header: Header,
        item: Item,
        (spine, chunk): (Address, usize),
        old: bool,
        local: &mut WorkerState,
        mut visit: impl FnMut(&mut WorkerState, Address),
    ) {
        let pieces = &self.model.pieces;
        // SAFETY: a spine with this header, as asked.
        let (count, slots) = unsafe {
            let (bytes, slots) = self.model.spine_elements(header, spine);
            (pieces.beyond(spine, bytes).arraylets, slots)
        };
        if chunk == 0 {
            (1..count.div_ceil(CHUNK_POINTERS)).for_each(|number| local.grey(item.chunk(number)));
            // SAFETY: a spine with this header, as asked; it has no weak slots.
            unsafe {
                self.model
                    .scan_all(header, spine, |slot| visit(local, slot))
            };
        }
        let compresses = !header.is_immortal()
            && self
                .config
                .cutting
                .is_some_and(|cutting| cutting.zero_compression);
        let first = chunk * CHUNK_POINTERS;
        let arraylets = self.arraylets();
        let mut pointers = [pieces.zero; CHUNK_POINTERS];
        let pointers = &mut pointers[..CHUNK_POINTERS.min(count - first)];
        for (index, pointer) in pointers.iter_mut().enumerate() {
            // SAFETY: the spine has this pointer.
            *pointer = unsafe { pieces.load(spine, first + index) };
        }
        for (index, &pointer) in pointers.iter().enumerate() {
            if (compresses || slots)
                && let Some(&ahead) = pointers.get(index + LOOK_AHEAD)
            {
                pieces.target(ahead).prefetch();
            }
            let part = Part {
                pieces,
                arraylets,
                spine,
                number: first + index,
            };
            // SAFETY: an arraylet that a spine points at, in a stopped world.
            let is_zero = |at| compresses && unsafe { arraylets.is_zero(at) };
            // SAFETY: the world is stopped, and the spine has this part, which this worker alone scans, as asked.
            let (arraylet, claim) = match unsafe { part.target_of(pointer, is_zero) } {
                Target::Zero => continue,
                Target::Compressed => {
                    local.compressed += 1;
                    continue;
                }
                Target::Own(at) => (at, arraylets.claim_own(at, old)),
                Target::Shared(at) => (at, arraylets.claim(at, old)),
            };
            match claim {
                Claim::Won => {
                    if slots {
                        self.slots_of(arraylet).for_each(|slot| visit(local, slot));
                    }
                }
                Claim::MadeOld if slots => self.dirty_arraylet(arraylet),
                Claim::MadeOld | Claim::Lost => {}
            }
        }
    }

    /// The slots of an arraylet of references.
    pub(in crate::scavenge) fn slots_of(
        &self,
        arraylet: Address,
    ) -> impl Iterator<Item = Address> + use<F> {
        let slots = self.model.pieces.arraylet_bytes() / F::BYTES;
        (0..slots).map(move |index| arraylet.add(index * F::BYTES))
    }

    /// How many strips of [`ARRAYLET_STRIP_BYTES`] the space of arraylets has, for tasks.
    pub(in crate::scavenge) fn arraylet_strips(&self) -> usize {
        let reached = |space: &Arraylets| space.reached().offset_from(space.start());
        let bytes = self.arraylets.as_ref().map_or(0, reached);
        bytes.div_ceil(ARRAYLET_STRIP_BYTES)
    }

    /// The chunks with slots in a strip of the space of arraylets.
    pub(in crate::scavenge) fn chunks_of_strip(
        &self,
        strip: usize,
    ) -> impl Iterator<Item = (Address, Address)> + '_ {
        let space = self.arraylets();
        let low = space.start().add(strip * ARRAYLET_STRIP_BYTES);
        let high = low.add(ARRAYLET_STRIP_BYTES);
        space.slot_chunks(low, high.min(space.reached()))
    }

    /// Visits the slots of old arraylets that lie on dirty cards of a strip, and cleans the cards.
    pub(in crate::scavenge) fn take_dirty_slots(
        &self,
        strip: usize,
        mut visit: impl FnMut(Address),
    ) {
        for (low, high) in self.chunks_of_strip(strip) {
            self.cards.take_dirty(low, high, |low, high| {
                for arraylet in self.arraylets().old_in(low, high) {
                    self.slots_of(arraylet)
                        .filter(|&slot| low <= slot && slot < high)
                        .for_each(&mut visit);
                }
            });
        }
    }

    /// A scavenge begins.
    pub(in crate::scavenge) fn begin_arraylets(&self, world: &mut WorldStopped<'_>) {
        if let Some(arraylets) = &self.arraylets {
            arraylets.begin_scavenge(world);
        }
    }

    /// A scavenge is over: young arraylets that no live spine points at are free.
    pub(in crate::scavenge) fn settle_young_arraylets(&self, world: &mut WorldStopped<'_>) {
        if let Some(arraylets) = &self.arraylets {
            arraylets.finish_scavenge(world, |arraylet| self.poison_arraylet(arraylet));
        }
    }

    /// Before marking: nothing is claimed.
    pub(in crate::scavenge) fn unclaim_arraylets(&self, world: &mut WorldStopped<'_>) {
        if let Some(arraylets) = &self.arraylets {
            arraylets.begin_marking(world);
        }
    }

    /// When everything was collected: arraylets that no live spine points at are free. If `all_old`, the others are old.
    pub(in crate::scavenge) fn sweep_arraylets(&self, world: &mut WorldStopped<'_>, all_old: bool) {
        if let Some(arraylets) = &self.arraylets {
            let dies = |arraylet| self.poison_arraylet(arraylet);
            arraylets.finish_marking(world, all_old, dies);
        }
    }

    pub(super) fn poison_arraylet(&self, arraylet: Address) {
        self.poison(arraylet, self.model.pieces.arraylet_bytes());
    }
}
