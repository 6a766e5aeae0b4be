//! How arrays are counted.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::object_model::{Shape, TypeId, array_bytes, element};
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::spine::Pieces;
use gleaner_mem::zero;

use super::found::{ArrayReport, ArrayType, Footprint, Living};
use crate::scavenge::arrays::{ArrayCounts, Geometry};
use crate::scavenge::collect::Extent;
use crate::scavenge::mutator::Mutator;
use crate::scavenge::tally::{Allocated, Tally};
use crate::scavenge::walk::{Edge, Found};
use crate::scavenge::{Scavenge, State};

/// Room for the types of a heap, and for some that are registered before the world stops.
pub(in crate::scavenge) fn room(types: u32) -> usize {
    types as usize + 256
}

/// What mutators count.
impl<F: SlotFormat> Scavenge<F> {
    /// The tally of a new mutator, if the heap reports on arrays.
    pub(in crate::scavenge) fn new_tally(&self) -> Option<Tally> {
        (self.config.options.array_report > 0).then(|| Tally::new(room(self.model.types.count())))
    }

    /// The size of elements of a type of arrays, as a logarithm, and whether they are references.
    fn elements_of(&self, id: TypeId) -> Option<(u32, bool)> {
        match self.model.shape(id)? {
            Shape::References => Some((F::BYTES.trailing_zeros(), true)),
            Shape::Primitives { log2 } => Some((log2, false)),
            _ => None,
        }
    }

    /// Whether an array of a type, with `bytes` bytes of elements, is cut where it is not pinned, or would be.
    fn is_large(&self, id: TypeId, bytes: usize) -> bool {
        // SAFETY: the callers have found an array of that type in this heap.
        let may_be_cut = unsafe { self.model.types.element_of(id) };
        let kinds_fit = |slots| {
            self.config
                .cutting
                .is_none_or(|cutting| cutting.cuts(slots))
        };
        bytes > self.config.report.first_n && may_be_cut.is_some_and(|(_, slots)| kinds_fit(slots))
    }

    /// Notes that the calling mutator has allocated an array, whose object takes `taken` bytes.
    pub fn note_array(&self, mutator: &Mutator, id: TypeId, length: u32, taken: usize) {
        let Some((log2, _)) = self.elements_of(id) else {
            return;
        };
        let (bytes, elements) = (array_bytes(length, log2), (length as usize) << log2);
        let large = u64::from(self.is_large(id, elements));
        let allocated = Allocated {
            arrays: 1,
            bytes: bytes as u64,
            large,
            large_bytes: large * bytes as u64,
        };
        mutator.tally(|tally| tally.note_array(id, &allocated, taken));
        let beyond = bytes.saturating_sub(taken);
        self.uncounted.fetch_add(beyond, Ordering::Relaxed);
    }

    /// Notes that the calling mutator copies `bytes` bytes between offsets of arrays.
    pub fn note_copy(&self, mutator: &Mutator, from: usize, to: usize, bytes: usize) {
        mutator.tally(|tally| tally.note_copy(&self.config.report, from, to, bytes));
    }

    /// Collects everything, for a census, if as much was allocated since the last one as option `array-report` says.
    pub(in crate::scavenge) fn census_if_due(&self, mutator: &Mutator) {
        let most = self.config.options.array_report;
        if most == 0 {
            return;
        }
        let fresh = mutator.newly_allocated() as usize;
        if self.uncounted.fetch_add(fresh, Ordering::Relaxed) + fresh >= most {
            self.collect(mutator, Extent::Full, "a census of arrays");
        }
    }

    /// A mutator is gone, whose buffer is retired.
    pub(in crate::scavenge) fn keep_tally(&self, state: &mut State, mutator: &Mutator) {
        let Some(mut all) = state.censuses.gone.take().or_else(|| self.new_tally()) else {
            return;
        };
        mutator.tally(|tally| all.add(tally));
        state.censuses.gone = Some(all);
        state.censuses.gone_bytes += mutator.allocated_bytes.get();
    }
}

/// Censuses.
impl<F: SlotFormat> Scavenge<F> {
    /// Before the world is stopped: room for all types.
    pub(in crate::scavenge) fn prepare_census(&self, state: &mut State) {
        if self.config.options.array_report > 0 {
            let types = &mut state.censuses.types;
            types.resize(
                room(self.model.types.count()).max(types.len()),
                <_>::default(),
            );
        }
    }

    /// When everything was collected.
    pub(in crate::scavenge) fn take_census(&self, state: &mut State, world: &mut WorldStopped<'_>) {
        if self.config.options.array_report == 0 {
            return;
        }
        self.uncounted.store(0, Ordering::Relaxed);
        let censuses = &mut state.censuses;
        let types = &mut censuses.types;
        types
            .iter_mut()
            .for_each(|(_, last)| *last = Living::default());
        let mut all = Footprint::default();
        self.for_each_object(world, Edge::After, &mut |found| {
            let mut bytes = found.bytes;
            if let Some(array) = self.living(found) {
                bytes = array.bytes as usize;
                if let Some((_, last)) = types.get_mut(found.header.type_id().get() as usize) {
                    last.add(&array);
                }
            }
            all.objects += 1;
            all.bytes += bytes as u64;
            all.taken += found.bytes as u64;
        });
        if let Some(space) = &self.arraylets {
            all.arraylets = space.live_in(space.start(), space.reached()).count() as u64;
            all.taken += all.arraylets << self.model.pieces.arraylet_shift;
        }
        types.iter_mut().for_each(|(sum, last)| sum.add(last));
        censuses.last = all;
        censuses.count += 1;
        let sum = &mut censuses.sum;
        sum.objects += all.objects;
        sum.bytes += all.bytes;
        sum.taken += all.taken;
        sum.arraylets += all.arraylets;
    }

    /// An object, if it is an array.
    fn living(&self, found: &Found) -> Option<Living> {
        let id = found.header.type_id();
        let (log2, _) = self.elements_of(id)?;
        // SAFETY: an array lies there, in a stopped world, as its type says.
        let length = unsafe { self.model.length(found.object) };
        let (bytes, elements) = (array_bytes(length, log2) as u64, (length as usize) << log2);
        let mut living = Living {
            arrays: 1,
            bytes,
            ..Living::default()
        };
        let is_large = if self.config.report.is_made {
            found.header.is_spine()
        } else {
            self.is_large(id, elements)
        };
        if is_large {
            let Geometry {
                first_n,
                arraylet_shift,
                is_made,
            } = self.config.report;
            // Of those that are made the same, but in guard mode.
            let pieces = if is_made {
                self.model.pieces
            } else {
                Pieces {
                    first_n,
                    arraylet_shift,
                    ..self.model.pieces
                }
            };
            living.large = 1;
            living.large_bytes = bytes;
            let arraylets = if is_made {
                // SAFETY: a spine lies there, as its header says.
                unsafe { pieces.beyond(found.object, elements) }.arraylets
            } else {
                pieces.arraylets(elements)
            };
            living.beyond = elements.saturating_sub(first_n) as u64;
            living.spines = match is_made {
                true => found.bytes as u64,
                false => pieces.spine_bytes(elements) as u64,
            };
            living.arraylets = arraylets as u64;
            for number in 0..arraylets {
                // SAFETY: the array has this part, and the world is stopped.
                unsafe { self.look_at_part(&pieces, found.object, number, is_made, &mut living) };
            }
        }
        Some(living)
    }

    /// # Safety
    /// An array of this heap lies there that has this part: a spine, if arrays are cut. The world is stopped.
    unsafe fn look_at_part(
        &self,
        pieces: &Pieces,
        array: Address,
        number: usize,
        is_cut: bool,
        living: &mut Living,
    ) {
        let at = if is_cut {
            // SAFETY: a spine that has this pointer, as asked.
            let pointer = unsafe { pieces.load(array, number) };
            if pointer == pieces.zero {
                living.absent += 1;
                living.zero += 1;
                return;
            }
            living.shared += u64::from(pointer.is_tainted());
            pieces.target(pointer)
        } else {
            element(array, pieces.offset_of(number), 1)
        };
        // SAFETY: an arraylet lies there, or elements of an array that are as many bytes; N is a multiple of 8.
        let zero = unsafe { zero::is_zero(at, pieces.arraylet_bytes()) };
        living.zero += u64::from(zero);
    }

    /// The report, if the heap makes one. A mutator inside the gate stops all others for it.
    pub fn array_report(&self, mutator: &Mutator) -> Option<ArrayReport> {
        let mut report = self.empty_report()?;
        self.with_stopped_world(mutator, |state, world| {
            self.gather(state, world, &mut report)
        });
        Some(report)
    }

    /// As [`Scavenge::array_report`], of a heap that has no mutators any more.
    ///
    /// # Safety
    /// There are none, and none attaches.
    pub unsafe fn last_array_report(&self) -> Option<ArrayReport> {
        let mut report = self.empty_report()?;
        // SAFETY: the heap has no mutators, as the caller promises, and the holder of `collecting` is the one thread at work.
        let mut world = unsafe { WorldStopped::begin() };
        self.collecting.with(&self.gate, |state| {
            self.gather(state, &mut world, &mut report)
        });
        Some(report)
    }

    /// With the types of arrays that there are now, so that nothing allocates memory while it is filled.
    fn empty_report(&self) -> Option<ArrayReport> {
        let types = (0..self.model.types.count()).filter_map(|number| {
            let id = TypeId::new(number);
            let (log2, references) = self.elements_of(id)?;
            Some(ArrayType {
                id,
                element_bytes: 1 << log2,
                references,
                allocated: Allocated::default(),
                sum: Living::default(),
                last: Living::default(),
            })
        });
        Some(ArrayReport {
            tally: self.new_tally()?,
            geometry: self.config.report,
            allocated: 0,
            counts: ArrayCounts::default(),
            censuses: 0,
            sum: Footprint::default(),
            last: Footprint::default(),
            types: types.collect(),
        })
    }

    fn gather(&self, state: &mut State, world: &mut WorldStopped<'_>, report: &mut ArrayReport) {
        self.retire_tlabs(state, world);
        let (censuses, tally) = (&state.censuses, &mut report.tally);
        report.counts = state.totals.arrays;
        let mut taken = censuses.gone_bytes;
        if let Some(gone) = &censuses.gone {
            tally.add(gone);
        }
        for mutator in state.mutators.stopped(world).iter() {
            report.counts.add(mutator.array_counts.get());
            mutator.tally(|other| tally.add(other));
            taken += mutator.allocated_bytes.get();
        }
        // As if every array were in one piece.
        report.allocated = taken.saturating_sub(tally.taken);
        for of in &mut report.types {
            let number = of.id.get() as usize;
            of.allocated = tally.allocated.get(number).copied().unwrap_or_default();
            (of.sum, of.last) = censuses.types.get(number).copied().unwrap_or_default();
            report.allocated += of.allocated.bytes;
        }
        report
            .types
            .retain(|of| of.allocated.arrays + of.sum.arrays > 0);
        (report.censuses, report.sum, report.last) = (censuses.count, censuses.sum, censuses.last);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whole_arraylets_at_the_same_distance_can_be_shared() {
        let geometry = Geometry {
            first_n: 4096,
            arraylet_shift: 10,
            is_made: false,
        };
        assert_eq!(geometry.shareable(0, 0, 4096), 0);
        assert_eq!(geometry.shareable(0, 0, 4096 + 2047), 1024);
        assert_eq!(geometry.shareable(4097, 4097, 3000), 1024);
        assert_eq!(geometry.shareable(0, 1024, 1 << 20), (1 << 20) - 4096);
        assert_eq!(geometry.shareable(5120, 4096, 2048), 2048);
        assert_eq!(geometry.shareable(5120, 4096 + 512, 1 << 20), 0);
    }
}
