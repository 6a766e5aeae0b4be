//! Marking what is new, in parallel: from roots and dirty cards.
//!
//! A worker that reaches a new object sets its start bit by fetch-or, and marks its lines (I4). What is old has its start
//! bit already, and is not touched. Large objects are marked where they are, and their generation is settled when all is
//! traced.
//!
//! With `MOVES`, a new object of a block that was chosen is copied into a free block when it is reached, as in an evacuation
//! while everything is marked ([`tracing`](crate::scavenge::old::tracing)).
//!
//! # Invariants
//! - A slot is visited by one worker; but that of a new object may also be found on a dirty card that an old object shares with
//!   it. Where nothing moves, both then mark the same; else cards leave out what lies in new lines.
//! - In a block that was chosen nothing is old, so what has a start bit there stays.
//! - No card of the block of a copy is dirty.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_spaces::precise::bump::LocalBuffer;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use crate::scavenge::handles::TASK_HANDLES;
use crate::scavenge::old::tracing::{Traced, Tracing};
use crate::scavenge::roots::{Task, Tasks};
use crate::scavenge::trace::{Item, WorkerState};
use crate::scavenge::waiting::Watch;
use crate::scavenge::weak::objects;
use crate::scavenge::{Scavenge, State};

/// Marks all new objects that can be reached; with `MOVES`, evacuates those of blocks that were chosen.
struct NewObjects;

impl<F: SlotFormat> Traced<F> for NewObjects {
    const IS_FULL: bool = false;

    #[inline(always)]
    fn moves<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> bool {
        trace.is_inside(object) && trace.lines.is_candidate(object)
    }

    #[inline(always)]
    fn reach<W: Watch, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        object: Address,
    ) {
        if trace.is_inside(object) {
            if trace.marks.mark(object) {
                trace.won_new(local, object);
            }
        } else if object > trace.old.0 {
            trace.reach_large(local, object);
        }
    }

    #[inline(always)]
    fn place<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> Option<Address> {
        let may_be_new =
            trace.is_inside(object) || object > trace.old.0 && trace.heap.large.is_young(object);
        (!may_be_new || trace.marks.is_marked(object)).then_some(object)
    }

    #[inline(always)]
    fn waits<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> bool {
        trace.is_inside(object)
    }

    #[inline]
    fn block<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
    ) -> Option<(Address, usize)> {
        trace.lines.take_for_copies_of_new(&trace.heap.old.region)
    }

    #[inline(always)]
    fn header<W, const MOVES: bool>(
        _: &Tracing<'_, F, Self, W, MOVES>,
        _: Address,
        header: Header,
    ) -> Header {
        header
    }

    /// A new object of the old space lives, at this place.
    #[inline(always)]
    fn copied<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        _: Address,
        (object, bytes): (Address, usize),
        header: Header,
    ) {
        local.promoted += bytes;
        local.objects += 1;
        let item = Item::object(object, trace.heap.model.base);
        if header.is_spine() {
            local.grey_spine(item);
        } else {
            local.grey(item);
        }
    }

    #[inline(always)]
    fn stayed<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        (object, bytes): (Address, usize),
        header: Header,
    ) {
        trace.lines.mark_new(object, bytes);
        Self::copied(trace, local, object, (object, bytes), header);
    }

    /// All that lives is old afterwards.
    #[inline(always)]
    fn is_old<W, const MOVES: bool>(
        _: &Tracing<'_, F, Self, W, MOVES>,
        _: Address,
        _: Header,
    ) -> bool {
        true
    }

    #[inline(always)]
    fn stored<W, const MOVES: bool>(
        _: &Tracing<'_, F, Self, W, MOVES>,
        _: Address,
        _: Address,
        _: bool,
    ) {
    }

    fn needs_cards<W, const MOVES: bool>(_: &Tracing<'_, F, Self, W, MOVES>, _: Address) -> bool {
        false
    }

    fn task<W: Watch, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        task: usize,
    ) {
        let heap = trace.heap;
        match trace.tasks.get(task) {
            Task::Strip(low, high) => heap
                .cards
                .take_dirty(low, high, |low, high| trace.card(local, low, high)),
            Task::Large(strip) => {
                // SAFETY: the strips were cut for this phase.
                let (object, low, high) = unsafe { heap.large.strip(strip) };
                heap.cards.take_dirty(low, high, |low, high| {
                    // SAFETY: an old large object.
                    unsafe { trace.scan_between(local, object, low, high) };
                });
            }
            Task::Arraylets(strip) => {
                heap.take_dirty_slots(strip, |slot| trace.slot(local, slot, true));
            }
            Task::Handles(numbers) => {
                let chunk = numbers.start as usize / TASK_HANDLES;
                if heap.handles.is_young(chunk) {
                    heap.visit_roots(Task::Handles(numbers), |root| trace.root(local, root));
                    heap.handles.set_young(chunk, false);
                }
            }
            Task::Finalizers(positions) => positions.for_each(|position| {
                let table = &heap.weak.finalizers;
                table.visit_strong(position, true, |slot| trace.root_slot::<Wide>(local, slot));
            }),
            other => heap.visit_roots(other, |root| trace.root(local, root)),
        }
    }
}

impl<F: SlotFormat, W: Watch, const MOVES: bool> Tracing<'_, F, NewObjects, W, MOVES> {
    /// This worker has marked a new object of the old space.
    #[inline(always)]
    fn won_new(&self, local: &mut WorkerState, object: Address) {
        // SAFETY: references lead to objects, and this one does not move.
        let (header, bytes) = unsafe {
            let header = header::load(object, Ordering::Relaxed);
            (header, self.heap.model.size(header, object))
        };
        NewObjects::stayed(self, local, (object, bytes), header);
        self.watch.won(local, object);
    }

    fn reach_large(&self, local: &mut WorkerState, object: Address) {
        if self.heap.large.is_young(object) && self.marks.mark(object) {
            local.objects += 1;
            local.grey(Item::object(object, self.heap.model.base));
            self.watch.won(local, object);
        }
    }

    /// A dirty card: the old objects that begin in it, and the one before, which may reach into it.
    fn card(&self, local: &mut WorkerState, low: Address, high: Address) {
        let heap = self.heap;
        let start = match self.is_inside(low) {
            false => heap.pinned.region.start(),
            true if self.lines.are_new(low, high) => return,
            true => self.old.0,
        };
        // No object of these spaces is larger than a block.
        let nearest = low.word().saturating_sub(BLOCK_BYTES);
        let before = self
            .marks
            .start_before(low, start.max(Address::new(nearest)));
        let here = self.marks.starts(self.marks.word_of(low));
        for object in before.into_iter().chain(here) {
            // A new object is scanned as a whole, where it lies then.
            if MOVES && self.is_inside(object) && self.lines.is_new(object) {
                continue;
            }
            // SAFETY: start bits are those of objects that are complete.
            unsafe { self.scan_between(local, object, low, high) };
        }
    }

    /// A dirty card, and an object that may have slots there.
    ///
    /// # Safety
    /// An object of this heap lies there.
    unsafe fn scan_between(
        &self,
        local: &mut WorkerState,
        object: Address,
        low: Address,
        high: Address,
    ) {
        local.looked += 1;
        let visit = |local: &mut WorkerState, slot| self.slot(local, slot, true);
        // SAFETY: an object of this heap, as asked, whose header is normal.
        let elements = unsafe {
            let header = header::load(object, Ordering::Relaxed);
            let model = &self.heap.model;
            model.scan_between(header, object, low, high, |slot| visit(local, slot))
        };
        if let Some(elements) = elements {
            objects::discover(self, local, object, elements, self.watch.waiting(), visit);
        }
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Marks the new objects that live, and settles what is beside the old space: all that lives is old from now on. With
    /// `MOVES`, those of blocks that were chosen are copied; whether some of these found no room.
    pub(super) fn mark_new<const MOVES: bool>(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        lines: &MarkRegion,
    ) -> bool {
        self.begin_arraylets(world);
        let tasks = Tasks::with_strips(self, &state.mutators, world, &self.old_regions())
            .of_young_finalizers(self);
        let workers = state.crew_sizes.workers;
        let crew = (&mut state.engine, &mut state.waiting, workers);
        let stayed = self.trace_lines::<_, MOVES>(crew, (self.bits(), lines), (NewObjects, tasks));
        for local in state.engine.worker_states() {
            local.evacuation = LocalBuffer::default();
            state.totals.ephemeron_looks += core::mem::take(&mut local.weak.looks);
            state.totals.weak_looks += core::mem::take(&mut local.weak.weak_looks);
            state.totals.arrays.compressed += core::mem::take(&mut local.compressed);
            state.totals.remembered_looks += core::mem::take(&mut local.looked);
        }
        // All that lives is old, whatever its age.
        self.settle_young_large(world, 0);
        self.settle_young_arraylets(world);
        stayed
    }
}
