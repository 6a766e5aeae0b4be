//! The parallel parts of a full collection: marking, and updating references to where objects will be.
//!
//! Marking sets bits beside the heap and touches no object but to scan it and to end its self-forwarding. Updating
//! visits each marked object once and every root, and rebuilds the cards: a slot of an object that will be old and
//! refers to one that will be young dirties the card where the slot will be (I5).

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::mark_bits::WORD_BYTES;
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_spaces::bump::BumpRegion;
use gleaner_spaces::mark_compact::Ends;

use super::copy::{STRIP_BYTES, Task, Tasks, scan_item};
use super::trace::{Item, Share, Trace};
use super::weak::Liveness;
use super::{Scavenge, State};

/// Marks all that can be reached.
struct Marking<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    roots: Tasks<'a>,
}

impl<F: SlotFormat> Marking<'_, F> {
    #[inline(always)]
    fn object(&self, share: &mut Share, object: Address) {
        if !self.heap.marks.mark(object) {
            return;
        }
        // SAFETY: references lead to objects; whoever marked one is the only one who changes its header.
        unsafe {
            let mut header = header::load(object, Ordering::Relaxed);
            if !header.is_normal() {
                header = header.normal();
                header::store(object, header);
            }
            self.heap
                .marks
                .mark_granules(object, self.heap.model.size(header, object));
        }
        share.objects += 1;
        share.grey(Item::object(object, self.heap.model.base));
    }

    fn root(&self, share: &mut Share, slot: Address) {
        // SAFETY: root slots are wide, and their owner is stopped.
        if let Some(object) = unsafe { Wide::load(slot, Address::NULL) }.as_object() {
            self.object(share, object);
        }
    }
}

impl<F: SlotFormat> Liveness for Marking<'_, F> {
    fn place(&self, object: Address) -> Option<Address> {
        self.heap.marks.is_marked(object).then_some(object)
    }

    fn keep(&self, share: &mut Share, object: Address) -> Address {
        self.object(share, object);
        object
    }
}

impl<F: SlotFormat> Trace for Marking<'_, F> {
    fn task(&self, share: &mut Share, task: usize) {
        let visit = |slot| self.root(share, slot);
        match self.roots.get(task) {
            Task::Finalizers => self.heap.weak.visit_roots(visit),
            other => visit_roots(self.heap, other, visit),
        }
    }

    #[inline]
    fn item(&self, share: &mut Share, item: Item) {
        let base = self.heap.model.base;
        let (object, chunk) = item.get(base);
        // SAFETY: a marked object, scanned by this worker alone.
        unsafe {
            let header = header::load(object, Ordering::Relaxed);
            scan_item(
                &self.heap.model,
                header,
                item,
                object,
                chunk,
                share,
                |share, slot| {
                    if let Some(object) = F::load(slot, base).as_object() {
                        self.object(share, object);
                    }
                },
            );
        }
    }
}

/// Visits the roots of mutators and handles.
fn visit_roots<F: SlotFormat>(heap: &Scavenge<F>, task: Task<'_>, mut visit: impl FnMut(Address)) {
    match task {
        // SAFETY: the mutator is stopped.
        Task::Mutator(mutator) => unsafe { mutator.visit_roots(visit) },
        Task::Handles(numbers) => {
            numbers.for_each(|number| visit(heap.handles.slot(number as u32)))
        }
        Task::Finalizers | Task::Strip(..) => {}
    }
}

/// Replaces references by those to the new places.
struct Updating<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    roots: Tasks<'a>,
    regions: [&'a BumpRegion; 4],
}

impl<F: SlotFormat> Updating<'_, F> {
    fn strips(region: &BumpRegion) -> usize {
        region.used().div_ceil(STRIP_BYTES)
    }

    fn tasks(&self) -> usize {
        self.roots.count()
            + self
                .regions
                .iter()
                .map(|region| Self::strips(region))
                .sum::<usize>()
    }

    fn strip(&self, number: usize) -> (Address, Address) {
        let mut number = number;
        for region in self.regions {
            if number < Self::strips(region) {
                let low = region.start().add(number * STRIP_BYTES);
                let high = low.add(STRIP_BYTES);
                let top = region.top().align_up(WORD_BYTES);
                return (low, if high < top { high } else { top });
            }
            number -= Self::strips(region);
        }
        (Address::NULL, Address::NULL)
    }

    fn object(&self, object: Address) {
        let heap = self.heap;
        let target = heap.plan.new_address(&heap.marks, object);
        let will_be_old = !heap.is_young(target);
        let base = heap.model.base;
        // SAFETY: a marked object; it is in one strip, so one worker updates it, and its type does not change.
        unsafe {
            let header: Header = header::load(object, Ordering::Relaxed);
            heap.model.scan(header, object, |slot| {
                let Some(referent) = F::load(slot, base).as_object() else {
                    return;
                };
                let place = heap.plan.new_address(&heap.marks, referent);
                F::store(slot, base, Value::reference(place));
                if will_be_old && heap.is_young(place) {
                    heap.old.cards.dirty(target.add(slot.offset_from(object)));
                }
            });
        }
    }
}

impl<F: SlotFormat> Trace for Updating<'_, F> {
    fn task(&self, _: &mut Share, task: usize) {
        let heap = self.heap;
        if task < self.roots.count() {
            let update = |slot| {
                // SAFETY: root slots are wide, and their owner is stopped.
                unsafe {
                    if let Some(object) = Wide::load(slot, Address::NULL).as_object() {
                        let place = heap.plan.new_address(&heap.marks, object);
                        Wide::store(slot, Address::NULL, Value::reference(place));
                    }
                }
            };
            match self.roots.get(task) {
                // What is weak lives by now, or was cleared.
                Task::Finalizers => heap.weak.visit_all(update),
                other => visit_roots(heap, other, update),
            }
            return;
        }
        let (low, high) = self.strip(task - self.roots.count());
        for word in heap.marks.word_of(low)..heap.marks.word_of(high) {
            heap.marks
                .starts(word)
                .for_each(|object| self.object(object));
        }
    }

    fn item(&self, _: &mut Share, _: Item) {}
}

impl<F: SlotFormat> Scavenge<F> {
    /// All regions in ascending order.
    pub(super) fn regions(&self) -> [&BumpRegion; 4] {
        let [eden, first, second] = self.nursery.regions();
        [&self.old.region, eden, first, second]
    }

    /// Bytes of a live object in its normal state.
    pub(super) fn live_bytes(&self, object: Address) -> usize {
        // SAFETY: the callers ask for objects that are marked, or were reached by walking.
        unsafe {
            let header = header::load(object, Ordering::Relaxed);
            self.model.size(header, object)
        }
    }

    /// Marks all that lives.
    pub(super) fn mark_all(&self, state: &mut State) {
        let nothing = (Address::NULL, Address::NULL);
        let marking = Marking {
            heap: self,
            roots: Tasks::new(&state.mutators, self.handles.prepare(), nothing),
        };
        let tasks = marking.roots.count();
        state
            .engine
            .run(self.crew, self.config.workers, tasks, &marking);
        let (engine, workers) = (&mut state.engine, self.config.workers);
        self.weak.process(engine, self.crew, workers, &marking);
    }

    /// Decides where everything goes.
    pub(super) fn make_plan(&self) -> Ends {
        // SAFETY: the world is stopped, and the leader is alone.
        unsafe {
            self.plan.make(&self.marks, self.regions(), |object| {
                self.live_bytes(object)
            })
        }
    }

    /// Updates every root and every reference, and rebuilds the cards.
    pub(super) fn update_all(&self, state: &mut State) {
        // SAFETY: the world is stopped, and no phase runs.
        unsafe {
            self.old
                .cards
                .clean(self.old.region.start(), self.old.region.end())
        };
        let nothing = (Address::NULL, Address::NULL);
        let updating = Updating {
            heap: self,
            roots: Tasks::new(&state.mutators, self.handles.prepare(), nothing),
            regions: self.regions(),
        };
        let tasks = updating.tasks();
        state
            .engine
            .run(self.crew, self.config.workers, tasks, &updating);
    }

    /// Moves everything, and leaves the spaces as they are from now on.
    pub(super) fn slide_all(&self, ends: Ends) {
        let old = &self.old.region;
        // SAFETY: the world is stopped, and the leader is alone.
        unsafe {
            self.old.starts.clear(old.start(), old.end());
            for region in self.regions() {
                self.plan.slide(
                    &self.marks,
                    region,
                    |object| self.live_bytes(object),
                    |target, bytes| {
                        if !self.is_young(target) {
                            self.old.starts.record(target, bytes);
                        }
                    },
                );
            }
            for region in self.regions() {
                self.marks
                    .clear(region.start(), region.top().align_up(WORD_BYTES));
            }
            self.old.finish_sliding(ends[0]);
        }
        for (region, end) in self.nursery.regions().into_iter().zip(&ends[1..]) {
            region.set_top(*end);
        }
    }
}
