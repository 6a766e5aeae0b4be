//! Where a trace of the precise heap begins: the root tasks, and the strips of cards that `copy` scans (ASPLOS 2013,
//! section 2.3.3). The leader makes them in a stopped world; each is done by one worker.

use core::ops::Range;

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::root::Root;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::regions::{MOST_REGIONS, Region};

use crate::scavenge::Scavenge;
use crate::scavenge::handles::{self, TASK_HANDLES};
use crate::scavenge::heap_roots::TASK_SLOTS;
use crate::scavenge::mutator::Mutator;
use crate::scavenge::mutator_list::{MutatorList, Stopped};

/// Bytes of a space that are one task.
pub const STRIP_BYTES: usize = 128 * CARD_BYTES;

/// Segments of the table of finalizers that are one task.
const TASK_FINALIZERS: usize = 4;

/// The tasks: a mutator each, pieces of the tables of handles and of finalizers and of the heap's root ranges, parts of its root visitor, pieces of
/// what conservative words lead to, strips of regions, strips of large objects and of the space of arraylets.
pub struct Tasks<'a> {
    mutators: Stopped<'a>,
    handles: usize,
    /// Segments of the table of finalizers, by their places in its list.
    finalizers: Range<usize>,
    /// Slots of root ranges.
    root_slots: usize,
    /// Parts of the heap's root visitor.
    root_parts: usize,
    /// Objects that conservative words lead to.
    referents: usize,
    /// Ranges that are cut into strips, as (low, high).
    ranges: [(Address, Address); MOST_REGIONS],
    /// How many of them.
    regions: usize,
    /// Strips of large objects.
    large: usize,
    /// Strips of the space of arraylets.
    arraylets: usize,
}

/// What a task is.
pub enum Task<'a> {
    /// The roots of a mutator.
    Mutator(&'a Mutator),
    /// Handles of these numbers.
    Handles(Range<u32>),
    /// Segments of finalizers, by their places in the list.
    Finalizers(Range<usize>),
    /// Slots of root ranges with these numbers.
    RootSlots(Range<usize>),
    /// The part of the heap's root visitor with this number.
    RootPart(usize),
    /// Objects that conservative words lead to, by their numbers.
    Referents(Range<usize>),
    /// Whole cards of a region.
    Strip(Address, Address),
    /// The strip of a large object with this number.
    Large(usize),
    /// The strip of the space of arraylets with this number.
    Arraylets(usize),
}

// SAFETY: the mutators do not run, and each is one worker's task.
unsafe impl Sync for Tasks<'_> {}

impl<'a> Tasks<'a> {
    /// The roots alone.
    pub fn of_roots<F: SlotFormat>(
        heap: &Scavenge<F>,
        mutators: &'a MutatorList,
        world: &'a WorldStopped<'_>,
    ) -> Tasks<'a> {
        let (root_slots, root_parts) = heap.heap_roots.count();
        Tasks {
            mutators: mutators.stopped(world),
            handles: heap.handles.prepare(),
            finalizers: 0..heap.weak.finalizers.listed(),
            root_slots,
            root_parts,
            referents: heap.pins.slots(),
            ranges: [(Address::NULL, Address::NULL); MOST_REGIONS],
            regions: 0,
            large: 0,
            arraylets: 0,
        }
    }

    /// And strips of what is in use of these regions now, of the old large objects with slots, and of arraylets.
    pub fn with_strips<F: SlotFormat>(
        heap: &Scavenge<F>,
        mutators: &'a MutatorList,
        world: &'a mut WorldStopped<'_>,
        regions: &[Region<'_>],
    ) -> Tasks<'a> {
        let large = &heap.large;
        let large = large.cut_into_strips(world, |object| heap.has_slots(object));
        let mut tasks = Tasks::of_roots(heap, mutators, world);
        for (range, region) in tasks.ranges.iter_mut().zip(regions) {
            *range = (
                region.space.start(),
                region.space.top().align_up(CARD_BYTES),
            );
        }
        tasks.regions = regions.len();
        tasks.large = large;
        tasks.arraylets = heap.arraylet_strips();
        tasks
    }

    /// The same, with those finalizers alone that may be young.
    pub fn of_young_finalizers<F: SlotFormat>(mut self, heap: &Scavenge<F>) -> Tasks<'a> {
        self.finalizers.start = heap.weak.finalizers.young_from();
        self
    }

    fn ranges(&self) -> &[(Address, Address)] {
        &self.ranges[..self.regions]
    }

    fn strips((low, high): (Address, Address)) -> usize {
        high.offset_from(low).div_ceil(STRIP_BYTES)
    }

    fn handle_tasks(&self) -> usize {
        self.handles.div_ceil(TASK_HANDLES)
    }

    fn finalizer_tasks(&self) -> usize {
        self.finalizers.len().div_ceil(TASK_FINALIZERS)
    }

    fn slot_tasks(&self) -> usize {
        self.root_slots.div_ceil(TASK_SLOTS)
    }

    fn referent_tasks(&self) -> usize {
        self.referents.div_ceil(TASK_SLOTS)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let strips: usize = self.ranges().iter().map(|&range| Self::strips(range)).sum();
        let slots = self.slot_tasks() + self.referent_tasks();
        let heap_wide = self.handle_tasks() + self.finalizer_tasks() + slots + self.root_parts;
        self.mutators.len() + heap_wide + strips + self.large + self.arraylets
    }

    /// The task of that number.
    pub fn get(&self, task: usize) -> Task<'a> {
        if let Some(mutator) = self.mutators.get(task) {
            return Task::Mutator(mutator);
        }
        let mut task = task - self.mutators.len();
        if task < self.handle_tasks() {
            return Task::Handles(handles::chunk(task, self.handles));
        }
        task -= self.handle_tasks();
        if task < self.finalizer_tasks() {
            let piece = piece(task, TASK_FINALIZERS, self.finalizers.len());
            let first = self.finalizers.start;
            return Task::Finalizers(first + piece.start..first + piece.end);
        }
        task -= self.finalizer_tasks();
        if task < self.slot_tasks() {
            return Task::RootSlots(piece(task, TASK_SLOTS, self.root_slots));
        }
        task -= self.slot_tasks();
        if task < self.root_parts {
            return Task::RootPart(task);
        }
        task -= self.root_parts;
        if task < self.referent_tasks() {
            return Task::Referents(piece(task, TASK_SLOTS, self.referents));
        }
        task -= self.referent_tasks();
        for &range in self.ranges() {
            let strips = Self::strips(range);
            if task < strips {
                let low = range.0.add(task * STRIP_BYTES);
                let high = low.add(STRIP_BYTES);
                return Task::Strip(low, if high < range.1 { high } else { range.1 });
            }
            task -= strips;
        }
        if task < self.large {
            return Task::Large(task);
        }
        Task::Arraylets(task - self.large)
    }
}

/// The numbers of a task that has `size` of `all`.
fn piece(task: usize, size: usize, all: usize) -> Range<usize> {
    let first = task * size;
    first..(first + size).min(all)
}

impl<F: SlotFormat> Scavenge<F> {
    /// Visits the roots of a task; strips have none.
    pub(in crate::scavenge) fn visit_roots(&self, task: Task<'_>, mut visit: impl FnMut(Root<'_>)) {
        match task {
            // SAFETY: a task is made of a mutator that does not run, and the root visitor is set by the holder of `collecting`,
            // which the leader is.
            Task::Mutator(mutator) => unsafe { mutator.visit_roots(visit) },
            Task::Handles(numbers) => {
                numbers.for_each(|number| visit(Root::Value(self.handles.slot(number))))
            }
            Task::Finalizers(positions) => {
                let table = &self.weak.finalizers;
                positions.for_each(|position| {
                    table.visit_strong(position, false, |slot| visit(Root::Value(slot)));
                })
            }
            Task::RootSlots(numbers) => self.heap_roots.visit_slots(numbers, visit),
            Task::RootPart(part) => self.heap_roots.visit_part(part, visit),
            Task::Referents(numbers) => self.pins.visit(numbers, |slot| visit(Root::Value(slot))),
            Task::Strip(..) | Task::Large(_) | Task::Arraylets(_) => {}
        }
    }
}
