//! The compacting full collection: every reference is updated to where its object will be, then what lives in the old
//! space and the nursery slides down (ASPLOS 2013, section 2.4). Objects of the other spaces stay.
//!
//! Updating visits each marked object once and every root, and rebuilds the cards: a slot of an object that will be old
//! and refers to one that will be young dirties the card where the slot will be (I5).

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::header;
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::root::Root;
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_spaces::precise::large_objects::Generation;
use gleaner_spaces::precise::mark_compact::{Planned, Segments};
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::regions::{Kind, Regions};

use super::generation::OldGeneration;
use crate::scavenge::memory::release::{Released, release};
use crate::scavenge::roots::{Task, Tasks};
use crate::scavenge::trace::derived::visit_base;
use crate::scavenge::trace::{Item, Trace, WorkerState};
use crate::scavenge::walk::Edge;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

/// Live objects are slid together.
pub struct MarkCompact;

impl<F: SlotFormat> OldGeneration<F> for MarkCompact {
    fn collect(
        &self,
        heap: &Scavenge<F>,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        why: &'static str,
    ) -> Option<&'static str> {
        heap.mark(state, world, record, why);
        let (planned, empties) = record.step(Phase::Plan, |_| {
            heap.sweep_large(world, Generation::Old);
            heap.sweep_large(world, Generation::Young);
            let emptying = heap.is_to_empty(state).then(|| heap.plan_to_empty(world));
            match emptying.flatten() {
                Some(planned) => (planned, true),
                None => (heap.make_plan(world), false),
            }
        });
        state.last_full.young_lived = planned.lived[1..].iter().sum();
        record.step(Phase::Update, |_| heap.update_all(state, world));
        heap.sweep_arraylets(world, true);
        record.step(Phase::Slide, |event| {
            event.objects = heap.slide_all(state, world, (&planned, empties)) as u64;
            event.bytes = heap.used() as u64;
        });
        heap.verify(state, world, record, Edge::Slid);
        // Objects that fit nowhere else are in the survivor spaces: nothing can be copied there.
        let occupied = heap.nursery.to().used() + heap.nursery.from().used() > 0;
        state.wants_full = occupied.then_some("objects are left in the survivor spaces");
        None
    }

    fn slides(&self) -> bool {
        true
    }
}

/// Replaces references by those to the new places.
struct Updating<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    tasks: Tasks<'a>,
    /// The old space and the nursery: where objects move. As (start, bytes).
    moving: (Address, usize),
}

impl<F: SlotFormat> Updating<'_, F> {
    #[inline(always)]
    fn new_address(&self, object: Address) -> Address {
        if object.offset_from(self.moving.0) < self.moving.1 {
            self.heap.plan.new_address(self.heap.bits(), object)
        } else {
            object
        }
    }

    /// The slot at `slot` will be at `target`.
    #[inline(always)]
    fn slot(&self, slot: Address, target: Address, will_be_old: bool) {
        let (heap, base) = (self.heap, self.heap.model.base);
        // SAFETY: a slot of a marked object, which one worker updates.
        unsafe {
            let Some(referent) = F::load(slot, base).as_object() else {
                return;
            };
            let place = self.new_address(referent);
            F::store(slot, base, Value::reference(place));
            if will_be_old && heap.in_nursery(place) {
                heap.cards.dirty(target);
            }
        }
    }

    fn object(&self, object: Address) {
        let target = self.new_address(object);
        let will_be_old = !self.heap.in_nursery(target);
        // What is weak lives by now, or was cleared; so weak slots are as others.
        // SAFETY: a marked object; it is in one strip, so one worker updates it, and its type does not change.
        unsafe {
            let header = header::load(object, Ordering::Relaxed);
            self.heap.model.scan_all(header, object, |slot| {
                self.slot(slot, target.add(slot.offset_from(object)), will_be_old)
            });
        }
    }

    fn root(&self, root: Root<'_>) {
        match root {
            Root::Value(slot) => self.root_slot::<Wide>(slot),
            Root::Slot(slot) => self.root_slot::<F>(slot),
            Root::Derived(base, derived) => {
                visit_base(base, derived, |base| self.root_slot::<Wide>(base));
            }
        }
    }

    fn root_slot<S: SlotFormat>(&self, slot: Address) {
        let base = self.heap.model.base;
        // SAFETY: the root slot has this format, and its owner does not run.
        unsafe {
            if let Some(object) = S::load(slot, base).as_object() {
                let place = self.new_address(object);
                S::store(slot, base, Value::reference(place));
            }
        }
    }
}

impl<F: SlotFormat> Trace for Updating<'_, F> {
    fn task(&self, _: &mut WorkerState, task: usize) {
        let heap = self.heap;
        match self.tasks.get(task) {
            Task::Strip(low, high) => {
                for word in heap.bits().word_of(low)..heap.bits().word_of(high) {
                    heap.bits()
                        .starts(word)
                        .for_each(|object| self.object(object));
                }
            }
            Task::Large(strip) => {
                // SAFETY: the strips were cut for this phase; the objects are large ones that live.
                unsafe {
                    let (object, low, high) = heap.large.strip(strip);
                    let header = header::load(object, Ordering::Relaxed);
                    heap.model
                        .scan_all_between(header, object, low, high, |slot| {
                            self.slot(slot, slot, true)
                        });
                }
            }
            Task::Arraylets(strip) => {
                // Whatever holds an arraylet is old from now on.
                for (low, high) in heap.chunks_of_strip(strip) {
                    for arraylet in heap.arraylets().live_in(low, high) {
                        heap.slots_of(arraylet)
                            .for_each(|slot| self.slot(slot, slot, true));
                    }
                }
            }
            Task::Finalizers(positions) => positions.for_each(|position| {
                let table = &heap.weak.finalizers;
                table.visit_all(position, |slot| self.root_slot::<Wide>(slot));
            }),
            other => heap.visit_roots(other, |root| self.root(root)),
        }
    }

    fn item(&self, _: &mut WorkerState, _: Item) {}
}

/// Slides segments: a task is to do so beside the other workers.
struct Sliding<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    segments: Segments<'a>,
    /// Whether memory that objects leave goes back at once.
    is_tight: bool,
    /// Segments of which some did. Added to by any worker, read by the leader after the phase.
    given_back: AtomicUsize,
}

impl<F: SlotFormat> Trace for Sliding<'_, F> {
    fn task(&self, _: &mut WorkerState, _: usize) {
        let heap = self.heap;
        let size = |object| heap.live_bytes(object);
        // SAFETY: the object was moved there just now, and its header is normal.
        let moved = |to| unsafe {
            let header = header::load(to, Ordering::Relaxed);
            heap.model.moved(header, to);
        };
        let left = |low, high| {
            if release(low, high) == Released::All {
                self.given_back.fetch_add(1, Ordering::Relaxed);
            }
        };
        // SAFETY: references were updated, and no header of a live object is forwarded.
        unsafe {
            match self.is_tight {
                false => self.segments.slide(heap.bits(), size, moved),
                true => self.segments.slide_away(heap.bits(), size, moved, left),
            }
        }
    }

    fn item(&self, _: &mut WorkerState, _: Item) {}
}

impl<F: SlotFormat> Scavenge<F> {
    /// The regions whose objects move, in ascending order.
    pub(super) fn moving_regions(&self) -> Regions<'_> {
        Regions::of(Kind::Old, 0, &self.old.region).and_all(&self.nursery.regions())
    }

    /// Bytes of a live object in its normal state.
    pub(in crate::scavenge) fn live_bytes(&self, object: Address) -> usize {
        // SAFETY: the callers ask for objects that are marked, or were reached by walking.
        unsafe {
            let header = header::load(object, Ordering::Relaxed);
            self.model.size(header, object)
        }
    }

    /// Decides where everything goes if all of it fits into the old space, which has the whole limit from now on: new objects
    /// lie there behind this collection, and the nursery has no bytes then. `None` if something would stay there.
    fn plan_to_empty(&self, world: &mut WorldStopped<'_>) -> Option<Planned> {
        let old_limit = self.old_limit.swap(self.limit(), Ordering::Relaxed);
        let planned = self.make_plan(world);
        let regions = self.nursery.regions();
        let mut young = planned.ends[1..].iter().zip(regions.iter());
        if young.all(|(&end, region)| end == region.space.start()) {
            return Some(planned);
        }
        self.old_limit.store(old_limit, Ordering::Relaxed);
        None
    }

    /// Decides where everything goes.
    pub(super) fn make_plan(&self, world: &mut WorldStopped<'_>) -> Planned {
        if let Some(lines) = &self.mark_region {
            lines.hold(world, 0);
        }
        self.set_old_end(&mut world.allocator());
        let (regions, old_end) = (self.moving_regions(), self.end_of_sliding());
        // SAFETY: marking is over.
        let planned = unsafe { self.plan.make(world, self.bits(), &regions, old_end) };
        let (above, vacant) = self.taken_by_sliding(&planned);
        self.make_resident_room(&mut world.allocator(), above + vacant);
        planned
    }

    /// Updates every root and every reference, and rebuilds the cards.
    pub(super) fn update_all(&self, state: &mut State, world: &mut WorldStopped<'_>) {
        self.clean_all_cards(world);
        let old = self.old.region.start();
        let nursery_end = self.nursery.start().add(self.nursery.bytes());
        let updating = Updating {
            heap: self,
            tasks: Tasks::with_strips(self, &state.mutators, world, &self.regions()),
            moving: (old, nursery_end.offset_from(old)),
        };
        let tasks = updating.tasks.count();
        state
            .engine
            .run(self.crew, state.crew_sizes.workers, tasks, &updating);
    }

    /// Cards above the tops were never dirtied, or are those of nothing.
    pub(in crate::scavenge) fn clean_all_cards(&self, world: &mut WorldStopped<'_>) {
        let pinned = &self.pinned.region;
        for (start, end) in [
            (self.old.region.start(), self.old_reached()),
            (pinned.start(), pinned.top()),
        ] {
            self.cards.clean(world, start, end.align_up(CARD_BYTES));
        }
        let large = self.large.start();
        let reached = self.large.reached(&mut world.allocator());
        self.cards.clean(world, large, large.add(reached));
        if let Some(arraylets) = &self.arraylets {
            self.cards
                .clean(world, arraylets.start(), arraylets.reached());
        }
    }

    /// Moves everything, and leaves the spaces as they are from now on; the nursery empty, if that was planned. Of how many
    /// segments memory went back meanwhile.
    pub(super) fn slide_all(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        (planned, empties): (&Planned, bool),
    ) -> usize {
        let is_tight = self.is_tight_for_sliding(planned, empties);
        let has_gaps = self.lines().is_some_and(|lines| lines.released_bytes() > 0);
        let segments = self.plan.segments(world, self.moving_regions());
        let sliding = Sliding {
            heap: self,
            segments,
            is_tight,
            given_back: AtomicUsize::new(0),
        };
        let workers = state
            .crew_sizes
            .workers
            .min(sliding.segments.count())
            .max(1);
        state.engine.run(self.crew, workers, workers, &sliding);
        let given_back = sliding.given_back.load(Ordering::Relaxed);
        let old = &self.old.region;
        self.bits()
            .clear_live(world, old.start(), old.top().align_up(WORD_BYTES));
        if let Some(lines) = &self.mark_region {
            lines.forget(world, old);
        }
        let [end, young @ ..] = &planned.ends;
        // SAFETY: all segments were slid, with their start bits.
        unsafe { self.old.finish_sliding(world, self.bits(), *end) };
        if let (Some(_), Some(lines)) = (&self.may_be_in_place, &self.mark_region) {
            lines.fill(world, old);
        }
        for (region, &end) in self.nursery.regions().iter().zip(young) {
            let reached = region.space.top().max(end).align_up(WORD_BYTES);
            self.bits().clear(world, region.space.start(), reached);
        }
        self.nursery.set_tops(world, young.iter().copied());
        self.note_old_top();
        if has_gaps {
            // Part of what is above the top holds no memory, and nobody knows any more which.
            self.release_old_above(old.top());
        }
        given_back
    }

    /// Bytes of the old space into which objects will slide, and which hold no memory now: above its top, and of vacant
    /// blocks.
    fn taken_by_sliding(&self, planned: &Planned) -> (usize, usize) {
        let region = &self.old.region;
        let (top, end) = (region.top(), planned.ends[0]);
        let vacant = |lines: &MarkRegion| lines.released_below(region, end);
        let above = end.max(top).offset_from(top);
        (above, self.lines().map_or(0, vacant))
    }

    /// Whether more memory would be in use than the limit allows if objects took that of vacant blocks before what they
    /// leave went back; or any, where the old space takes what the nursery holds, since nothing stays there.
    fn is_tight_for_sliding(&self, planned: &Planned, empties: bool) -> bool {
        let (above, vacant) = self.taken_by_sliding(planned);
        let limit = self.old_limit.load(Ordering::Relaxed);
        let (takes_more, resident) = match empties {
            true => (above + vacant > 0, self.resident()),
            false => (vacant > 0, self.old_resident() + self.beside_resident()),
        };
        takes_more && resident + above + vacant > limit
    }
}
