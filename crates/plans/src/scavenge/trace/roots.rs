//! Where a trace of the precise heap begins: the root tasks, and the strips of cards that `copy` scans (ASPLOS 2013,
//! section 2.3.3). The leader makes them in a stopped world; each is done by one worker.

use core::ops::Range;

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::regions::{MOST_REGIONS, Region};

use crate::scavenge::Scavenge;
use crate::scavenge::handles::{self, TASK_HANDLES};
use crate::scavenge::mutator::Mutator;
use crate::scavenge::mutator_list::{MutatorList, Stopped};

/// Bytes of a space that are one task.
pub const STRIP_BYTES: usize = 128 * CARD_BYTES;

/// The tasks: a mutator each, the ready finalizers, pieces of the handle table, strips of regions, strips of large
/// objects and of the space of arraylets.
pub struct Tasks<'a> {
    mutators: Stopped<'a>,
    handles: usize,
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
    /// Objects that wait to be finalized.
    Finalizers,
    /// Handles of these numbers.
    Handles(Range<u32>),
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
        Tasks {
            mutators: mutators.stopped(world),
            handles: heap.handles.prepare(),
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

    fn ranges(&self) -> &[(Address, Address)] {
        &self.ranges[..self.regions]
    }

    fn strips((low, high): (Address, Address)) -> usize {
        high.offset_from(low).div_ceil(STRIP_BYTES)
    }

    fn handle_tasks(&self) -> usize {
        self.handles.div_ceil(TASK_HANDLES)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let strips: usize = self.ranges().iter().map(|&range| Self::strips(range)).sum();
        self.mutators.len() + 1 + self.handle_tasks() + strips + self.large + self.arraylets
    }

    /// The task of that number.
    pub fn get(&self, task: usize) -> Task<'a> {
        if let Some(mutator) = self.mutators.get(task) {
            return Task::Mutator(mutator);
        }
        if task == self.mutators.len() {
            return Task::Finalizers;
        }
        let mut task = task - self.mutators.len() - 1;
        if task < self.handle_tasks() {
            return Task::Handles(handles::chunk(task, self.handles));
        }
        task -= self.handle_tasks();
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

impl<F: SlotFormat> Scavenge<F> {
    /// Visits the root slots of a task, all wide; `Finalizers` and strips have none here.
    pub(in crate::scavenge) fn visit_roots(&self, task: Task<'_>, mut visit: impl FnMut(Address)) {
        match task {
            // SAFETY: a task is made of a mutator that does not run, and the root visitor is set by the holder of `collecting`,
            // which the leader is.
            Task::Mutator(mutator) => unsafe { mutator.visit_roots(visit) },
            Task::Handles(numbers) => numbers.for_each(|number| visit(self.handles.slot(number))),
            Task::Finalizers | Task::Strip(..) | Task::Large(_) | Task::Arraylets(_) => {}
        }
    }
}
