//! Marking everything by lines, and what it copies: what lives in sparse blocks (Immix, PLDI 2008, section 2.2), and in the
//! nursery.
//!
//! An object of the old space marks its lines beside its start bit; all others are marked as in any collection of everything
//! ([`mark`](crate::scavenge::trace::mark)). With `MOVES`, an object of a candidate block or of the nursery is copied into a free
//! block when it is reached ([`tracing`](super::tracing)). Each slot that holds a reference is visited once.
//!
//! # Invariants
//! - A slot of an old object that refers to a young one is on a dirty card (I5): those of copies are dirtied as they are
//!   scanned.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::mark_region::MarkRegion;

use super::tracing::{Traced, Tracing};
use crate::scavenge::roots::Tasks;
use crate::scavenge::trace::{Item, WorkerState};
use crate::scavenge::waiting::Watch;
use crate::scavenge::{Scavenge, State};

/// Marks all that can be reached; with `MOVES`, evacuates candidates.
struct Everything {
    /// The nursery if what lives there is promoted, or an empty range.
    nursery: (Address, usize),
    /// What is below is a constant, which is not marked.
    lowest: Address,
    /// Whether something may be young afterwards, so that slots of old objects that refer to it are to be on dirty cards.
    cards: bool,
}

impl<F: SlotFormat> Traced<F> for Everything {
    const IS_FULL: bool = true;

    #[inline(always)]
    fn moves<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> bool {
        let nursery = &trace.extent.nursery;
        match trace.is_inside(object) {
            true => trace.lines.is_candidate(object),
            false => object.offset_from(nursery.0) < nursery.1,
        }
    }

    #[inline(always)]
    fn reach<W: Watch, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        object: Address,
    ) {
        if object < trace.extent.lowest || !trace.marks.mark(object) {
            return;
        }
        let model = &trace.heap.model;
        // SAFETY: references lead to objects; the worker that marked one is the only one that changes its header.
        unsafe {
            let mut header = header::load(object, Ordering::Relaxed);
            if !header.is_normal() {
                header = header.normal();
                header::store(object, header);
            }
            if trace.is_inside(object) {
                let bytes = model.size(header, object);
                trace.lines.mark(object, bytes);
                local.lived += bytes;
            } else if object < trace.old.0 {
                trace
                    .marks
                    .mark_granules(object, model.size(header, object));
            }
        }
        local.objects += 1;
        local.grey(Item::object(object, model.base));
        trace.watch.won(local, object);
    }

    #[inline(always)]
    fn place<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> Option<Address> {
        (object < trace.extent.lowest || trace.marks.is_marked(object)).then_some(object)
    }

    #[inline(always)]
    fn waits<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> bool {
        object >= trace.extent.lowest
    }

    #[inline]
    fn block<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
    ) -> Option<(Address, usize)> {
        trace.lines.take_for_copies(&trace.heap.old.region)
    }

    #[inline(always)]
    fn header<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
        header: Header,
    ) -> Header {
        match trace.is_inside(object) {
            true => header,
            false => header.older(),
        }
    }

    #[inline(always)]
    fn copied<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        object: Address,
        (target, bytes): (Address, usize),
        _: Header,
    ) {
        let copied = match trace.is_inside(object) {
            true => &mut local.evacuated,
            false => &mut local.promoted,
        };
        *copied += bytes;
        local.objects += 1;
        local.grey(Item::object(target, trace.heap.model.base));
    }

    fn stayed<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        (object, bytes): (Address, usize),
        _: Header,
    ) {
        if trace.is_inside(object) {
            trace.lines.mark(object, bytes);
            local.lived += bytes;
        }
        local.objects += 1;
        local.grey(Item::object(object, trace.heap.model.base));
    }

    #[inline(always)]
    fn is_old<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
        header: Header,
    ) -> bool {
        !trace.extent.cards || (MOVES || header.is_spine()) && !trace.heap.is_young(object)
    }

    #[inline(always)]
    fn stored<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        slot: Address,
        place: Address,
        holder_is_old: bool,
    ) {
        if trace.extent.cards && holder_is_old && trace.heap.is_young(place) {
            trace.heap.cards.dirty(slot);
        }
    }

    fn needs_cards<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> bool {
        MOVES && trace.extent.cards && !trace.heap.is_young(object)
    }

    fn task<W: Watch, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        task: usize,
    ) {
        let task = trace.tasks.get(task);
        trace.heap.visit_roots(task, |root| trace.root(local, root));
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Marks all that lives, that of the old space by its lines, too, and adopts the marks. With `MOVES`, candidates are
    /// evacuated, and what lives in the nursery is promoted if it is `emptied`. How many objects live, and whether some of these
    /// found no room.
    pub(super) fn mark_lines<const MOVES: bool>(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        lines: &MarkRegion,
        emptied: bool,
    ) -> (usize, bool) {
        self.begin_marking(state, world);
        let everything = Everything {
            nursery: match emptied {
                true => (self.nursery.start(), self.nursery.bytes()),
                false => (Address::NULL, 0),
            },
            lowest: self.constants.end(),
            cards: self.in_place().is_none(),
        };
        let roots = Tasks::of_roots(self, &state.mutators, world);
        let tables = (self.tables.marks(), lines);
        let workers = state.crew_sizes.workers;
        let crew = (&mut state.engine, &mut state.waiting, workers);
        let stayed = self.trace_lines::<_, MOVES>(crew, tables, (everything, roots));
        let objects = self.finish_marking(state, world);
        if stayed {
            self.end_forwarding(lines);
        }
        (objects, stayed)
    }
}
