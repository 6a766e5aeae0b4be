//! Marking what is new, in parallel: from roots and dirty cards.
//!
//! A worker that reaches a new object sets its start bit by fetch-or, and marks its lines (I4). What is old has its start
//! bit already, and is not touched. Large objects are marked where they are, and their generation is settled when all is
//! traced.
//!
//! With `MOVES`, a new object of a block that was chosen is copied into a free block when it is reached, as in an evacuation
//! while everything is marked: speculatively, and published by one compare-and-swap on its header. If no block is free, it is
//! forwarded to itself and stays, until marking is over. Every slot that leads to what was copied is updated.
//!
//! # Invariants
//! - A slot is visited by one worker; but that of a new object may also be found on a dirty card that an old object shares with
//!   it. Where nothing moves, both then mark the same; else cards leave out what lies in new lines.
//! - In a block that was chosen nothing is old, so what has a start bit there stays.
//! - A copy is marked, start and lines, before another worker can know of it. No card of its block is dirty.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::options::Prefetch;
use gleaner_base::sync::{AtomicBool, Ordering};
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_bits::ObjectBits;
use gleaner_mem::root::Root;
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_mem::speculative::copy_words;
use gleaner_spaces::precise::bump::LocalBuffer;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use crate::scavenge::edges::{slot_entry, slot_of};
use crate::scavenge::handles::TASK_HANDLES;
use crate::scavenge::roots::{Task, Tasks};
use crate::scavenge::trace::derived::visit_base;
use crate::scavenge::trace::{Item, Trace, WorkerState, scan_item};
use crate::scavenge::waiting::{Keys, Nothing, Watch};
use crate::scavenge::weak::heap_trace::HeapTrace;
use crate::scavenge::weak::objects;
use crate::scavenge::weak::{Liveness, Process};
use crate::scavenge::{Scavenge, State};

/// Marks all new objects that can be reached; with `MOVES`, evacuates those of blocks that were chosen.
struct MarkingNew<'a, F: SlotFormat, W, const MOVES: bool> {
    heap: &'a Scavenge<F>,
    bits: &'a ObjectBits,
    lines: &'a MarkRegion,
    /// The old space, as (start, bytes): above are large objects.
    old: (Address, usize),
    tasks: Tasks<'a>,
    /// Whether objects wait until the cache has them.
    edges: bool,
    /// Whether some object that was to be copied found no room. Set by any worker, read by the leader after the phase.
    stayed: AtomicBool,
    /// What looks at each object that is marked.
    watch: W,
}

impl<F: SlotFormat, W: Watch, const MOVES: bool> MarkingNew<'_, F, W, MOVES> {
    /// Whether an object lies in the old space.
    #[inline(always)]
    fn is_inside(&self, object: Address) -> bool {
        object.offset_from(self.old.0) < self.old.1
    }

    /// Whether an object is to be copied.
    #[inline(always)]
    fn moves(&self, object: Address) -> bool {
        MOVES && self.is_inside(object) && self.lines.is_candidate(object)
    }

    /// Makes an object live, and says where it is from now on.
    #[inline(always)]
    fn reach(&self, local: &mut WorkerState, object: Address) -> Address {
        if self.moves(object) {
            return self.copy(local, object);
        }
        if self.is_inside(object) {
            if self.bits.mark(object) {
                self.won(local, object);
            }
        } else if object > self.old.0 {
            self.reach_large(local, object);
        }
        object
    }

    /// Copies a new object, unless that was done, or there is no room: then it stays. Where it is.
    fn copy(&self, local: &mut WorkerState, object: Address) -> Address {
        let model = &self.heap.model;
        // SAFETY: references lead to objects; one that moved has left its place mapped.
        let word = unsafe { header::word_of(object) };
        let header = header::look(word);
        if let Some(place) = header.forwardee(object) {
            return place;
        }
        // SAFETY: the header was normal, and size and length of an object never change.
        let bytes = unsafe { model.size(header, object) };
        let Some(target) = self.room(local, bytes) else {
            return self.stay(local, object, (header, bytes));
        };
        // SAFETY: the target is this worker's, of `bytes` bytes. Of the object only slots change in a stopped world, and
        // only once another worker forwarded it to itself: then the claim below fails.
        unsafe {
            copy_words(object.add(8), target.add(8), bytes - 8);
            header::store(target, header);
        }
        self.bits.mark(target);
        self.lines.mark(target, bytes);
        match header::publish(word, object, header, Some(target)) {
            Ok(target) => {
                // SAFETY: the copy is this worker's until it is grey: others only hand its address on.
                unsafe { model.moved(header, target) };
                if let Some(locality) = &self.heap.locality {
                    locality.note_touched(target, bytes, local.node);
                }
                self.found(local, (target, bytes), header);
                self.watch.won(local, object);
                target
            }
            Err(place) => {
                self.bits.unmark(target);
                local.evacuation.retract(target);
                place
            }
        }
    }

    /// Room for a copy.
    #[inline]
    fn room(&self, local: &mut WorkerState, bytes: usize) -> Option<Address> {
        loop {
            if let Some(target) = local.evacuation.allocate(bytes) {
                return Some(target);
            }
            if faults::armed(FaultPoint::Evacuation) {
                return None;
            }
            let region = &self.heap.old.region;
            local
                .evacuation
                .refill(self.lines.take_for_copies_of_new(region)?);
        }
    }

    /// An object for whose copy there is no room stays.
    #[cold]
    fn stay(
        &self,
        local: &mut WorkerState,
        object: Address,
        (header, bytes): (Header, usize),
    ) -> Address {
        // SAFETY: the object's place stays mapped.
        let word = unsafe { header::word_of(object) };
        match header::publish(word, object, header, None) {
            Ok(stays) => {
                self.stayed.store(true, Ordering::Relaxed);
                self.bits.mark(stays);
                self.lines.mark_new(stays, bytes);
                self.found(local, (stays, bytes), header);
                self.watch.won(local, stays);
                stays
            }
            Err(place) => place,
        }
    }

    /// A new object of the old space lives, at this place.
    #[inline(always)]
    fn found(&self, local: &mut WorkerState, (object, bytes): (Address, usize), header: Header) {
        local.promoted += bytes;
        local.objects += 1;
        let item = Item::object(object, self.heap.model.base);
        if header.is_spine() {
            local.grey_spine(item);
        } else {
            local.grey(item);
        }
    }

    /// This worker has marked a new object of the old space.
    #[inline(always)]
    fn won(&self, local: &mut WorkerState, object: Address) {
        // SAFETY: references lead to objects, and nothing moves.
        let (header, bytes) = unsafe {
            let header = header::load(object, Ordering::Relaxed);
            (header, self.heap.model.size(header, object))
        };
        self.lines.mark_new(object, bytes);
        self.found(local, (object, bytes), header);
        self.watch.won(local, object);
    }

    fn reach_large(&self, local: &mut WorkerState, object: Address) {
        if self.heap.large.is_young(object) && self.bits.mark(object) {
            local.objects += 1;
            local.grey(Item::object(object, self.heap.model.base));
            self.watch.won(local, object);
        }
    }

    /// The slot refers to the object.
    #[inline(always)]
    fn edge(&self, local: &mut WorkerState, slot: Address, object: Address) {
        let place = self.reach(local, object);
        if MOVES && place != object {
            // SAFETY: a slot of an object that this worker scans.
            unsafe { F::store(slot, self.heap.model.base, Value::reference(place)) };
        }
    }

    #[inline(always)]
    fn slot(&self, local: &mut WorkerState, slot: Address) {
        // SAFETY: a slot of an object that this worker scans.
        let Some(object) = unsafe { F::load(slot, self.heap.model.base) }.as_object() else {
            return;
        };
        if !self.edges || !local.is_busy() || !self.is_inside(object) {
            return self.edge(local, slot, object);
        }
        object.prefetch();
        self.bits.prefetch(object);
        // What does not move needs its slot no more.
        let entry = match MOVES {
            true => slot_entry(slot, false),
            false => object.word(),
        };
        if let Some(waited) = local.edges.exchange(entry) {
            self.waited(local, waited);
        }
    }

    /// A slot that has waited, or what it led to, as an entry.
    #[inline(always)]
    fn waited(&self, local: &mut WorkerState, entry: usize) {
        if !MOVES {
            self.reach(local, Address::new(entry));
            return;
        }
        let (slot, _) = slot_of(entry);
        // SAFETY: a slot of an object that this worker scanned.
        if let Some(object) = unsafe { F::load(slot, self.heap.model.base) }.as_object() {
            self.edge(local, slot, object);
        }
    }

    fn root(&self, local: &mut WorkerState, root: Root<'_>) {
        match root {
            Root::Value(slot) => self.root_slot::<Wide>(local, slot),
            Root::Slot(slot) => self.root_slot::<F>(local, slot),
            Root::Derived(base, derived) => {
                visit_base(base, derived, |base| self.root_slot::<Wide>(local, base));
                self.heap.check_derived(base, derived);
            }
        }
    }

    fn root_slot<S: SlotFormat>(&self, local: &mut WorkerState, slot: Address) {
        let base = self.heap.model.base;
        // SAFETY: the root slot has this format, and its owner does not run.
        if let Some(object) = unsafe { S::load(slot, base) }.as_object() {
            let place = self.reach(local, object);
            if MOVES && place != object {
                // SAFETY: the root slot has this format, and its owner does not run.
                unsafe { S::store(slot, base, Value::reference(place)) };
            }
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
            .bits
            .start_before(low, start.max(Address::new(nearest)));
        let here = self.bits.starts(self.bits.word_of(low));
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
        let visit = |local: &mut WorkerState, slot| self.slot(local, slot);
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

impl<F: SlotFormat, W: Watch, const MOVES: bool> Liveness for MarkingNew<'_, F, W, MOVES> {
    fn place(&self, object: Address) -> Option<Address> {
        if self.moves(object) {
            // SAFETY: references lead to objects; one that moved has left its place mapped.
            return header::look(unsafe { header::word_of(object) }).forwardee(object);
        }
        let may_be_new =
            self.is_inside(object) || object > self.old.0 && self.heap.large.is_young(object);
        (!may_be_new || self.bits.is_marked(object)).then_some(object)
    }

    fn keep(&self, local: &mut WorkerState, object: Address) -> Address {
        self.reach(local, object)
    }

    fn is_full(&self) -> bool {
        false
    }
}

impl<F: SlotFormat, W: Watch, const MOVES: bool> HeapTrace for MarkingNew<'_, F, W, MOVES> {
    type Format = F;

    fn heap(&self) -> &Scavenge<F> {
        self.heap
    }

    /// All that lives is old afterwards.
    fn needs_cards(&self, _: Address) -> bool {
        false
    }
}

impl<F: SlotFormat, W: Watch, const MOVES: bool> Trace for MarkingNew<'_, F, W, MOVES> {
    fn task(&self, local: &mut WorkerState, task: usize) {
        let heap = self.heap;
        match self.tasks.get(task) {
            Task::Strip(low, high) => heap
                .cards
                .take_dirty(low, high, |low, high| self.card(local, low, high)),
            Task::Large(strip) => {
                // SAFETY: the strips were cut for this phase.
                let (object, low, high) = unsafe { heap.large.strip(strip) };
                heap.cards.take_dirty(low, high, |low, high| {
                    // SAFETY: an old large object.
                    unsafe { self.scan_between(local, object, low, high) };
                });
            }
            Task::Arraylets(strip) => {
                heap.take_dirty_slots(strip, |slot| self.slot(local, slot));
            }
            Task::Handles(numbers) => {
                let chunk = numbers.start as usize / TASK_HANDLES;
                if heap.handles.is_young(chunk) {
                    heap.visit_roots(Task::Handles(numbers), |root| self.root(local, root));
                    heap.handles.set_young(chunk, false);
                }
            }
            Task::Finalizers(positions) => positions.for_each(|position| {
                let table = &heap.weak.finalizers;
                table.visit_strong(position, true, |slot| self.root_slot::<Wide>(local, slot));
            }),
            other => heap.visit_roots(other, |root| self.root(local, root)),
        }
    }

    #[inline]
    fn item(&self, local: &mut WorkerState, item: Item) {
        let (object, chunk) = item.get(self.heap.model.base);
        // SAFETY: a marked object, scanned by this worker alone, whose header is normal or says that it stays.
        unsafe {
            let header = header::load(object, Ordering::Relaxed);
            let visit = |local: &mut WorkerState, slot| self.slot(local, slot);
            if header.is_spine() {
                let place = (object, chunk);
                return self
                    .heap
                    .scan_spine(header, item, place, true, local, visit);
            }
            let model = &self.heap.model;
            if let Some(elements) = scan_item(model, header, item, object, chunk, local, visit) {
                objects::discover(self, local, object, elements, self.watch.waiting(), visit);
            }
        }
    }

    fn settle(&self, local: &mut WorkerState) {
        loop {
            while let Some(waited) = local.edges.take() {
                self.waited(local, waited);
            }
            let keep = |local: &mut WorkerState, value| {
                self.reach(local, value);
            };
            if !self.watch.found(local, keep) {
                return;
            }
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
        let start = self.old.region.start();
        let marking = MarkingNew::<F, Nothing, MOVES> {
            heap: self,
            bits: self.bits(),
            lines,
            old: (start, self.nursery.start().offset_from(start)),
            tasks: Tasks::with_strips(self, &state.mutators, world, &self.old_regions())
                .of_young_finalizers(self),
            edges: self.config.options.prefetch == Prefetch::Edges,
            stayed: AtomicBool::new(false),
            watch: Nothing,
        };
        let tasks = marking.tasks.count();
        state
            .engine
            .run(self.crew, state.crew_sizes.workers, tasks, &marking);
        let waiting = state
            .waiting
            .begin(self.weak.most_waiting(&mut state.engine));
        let marking = MarkingNew::<F, Keys<'_>, MOVES> {
            heap: self,
            bits: marking.bits,
            lines,
            old: marking.old,
            tasks: marking.tasks,
            edges: marking.edges,
            stayed: marking.stayed,
            watch: Keys(waiting),
        };
        self.weak.process(&mut Process {
            engine: &mut state.engine,
            crew: self.crew,
            workers: state.crew_sizes.workers,
            trace: &marking,
            waiting,
            looked: 0,
        });
        let stayed = marking.stayed.into_inner();
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
