//! Marking by lines, in parallel, and what it copies: what lives in sparse blocks (Immix, PLDI 2008, section 2.2), and in the
//! nursery.
//!
//! An object of the old space marks its lines beside its start bit; all others are marked as in any collection of everything
//! ([`mark`](crate::scavenge::trace::mark)). With `MOVES`, an object of a candidate block or of the nursery is copied into a free
//! block when it is reached, as in a scavenge: speculatively, and published by one compare-and-swap on its header (I4). If no
//! block is free, it is forwarded to itself and stays, until marking is over. Every slot that leads to what was copied is
//! updated, since each slot that holds a reference is visited once.
//!
//! # Invariants
//! - A copy is marked, start and lines, before another worker can know of it. So nobody makes it grey a second time.
//! - A slot of an old object that refers to a young one is on a dirty card (I5): those of copies are dirtied as they are
//!   scanned.

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
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use crate::scavenge::edges::{slot_entry, slot_of};
use crate::scavenge::roots::Tasks;
use crate::scavenge::trace::derived::visit_base;
use crate::scavenge::trace::{Item, Trace, WorkerState, scan_item};
use crate::scavenge::waiting::{Keys, Nothing, Watch};
use crate::scavenge::weak::heap_trace::HeapTrace;
use crate::scavenge::weak::objects;
use crate::scavenge::weak::{Liveness, Process};
use crate::scavenge::{Scavenge, State};

/// Marks all that can be reached; with `MOVES`, evacuates candidates.
struct MarkingLines<'a, F: SlotFormat, W, const MOVES: bool> {
    heap: &'a Scavenge<F>,
    marks: &'a ObjectBits,
    lines: &'a MarkRegion,
    /// The old space, as (start, bytes).
    old: (Address, usize),
    /// The nursery if what lives there is promoted, or an empty range.
    nursery: (Address, usize),
    /// What is below is a constant, which is not marked.
    lowest: Address,
    roots: Tasks<'a>,
    /// Whether slots wait until the cache has what they refer to.
    edges: bool,
    /// Whether something may be young afterwards, so that slots of old objects that refer to it are to be on dirty cards.
    cards: bool,
    /// Whether some object that was to be copied found no room. Set by any worker, read by the leader after the phase.
    stayed: AtomicBool,
    /// What looks at each object that is marked.
    watch: W,
}

impl<F: SlotFormat, W: Watch, const MOVES: bool> MarkingLines<'_, F, W, MOVES> {
    #[inline(always)]
    fn is_old(&self, object: Address) -> bool {
        object.offset_from(self.old.0) < self.old.1
    }

    /// Whether an object is to be copied.
    #[inline(always)]
    fn moves(&self, object: Address) -> bool {
        if !MOVES {
            return false;
        }
        match self.is_old(object) {
            true => self.lines.is_candidate(object),
            false => object.offset_from(self.nursery.0) < self.nursery.1,
        }
    }

    /// Makes an object live, and says where it is from now on.
    #[inline(always)]
    fn reach(&self, local: &mut WorkerState, object: Address) -> Address {
        if object < self.lowest {
            return object;
        }
        if self.moves(object) {
            return self.copy(local, object);
        }
        if self.marks.mark(object) {
            self.won(local, object);
        }
        object
    }

    /// This worker has marked an object that stays.
    #[inline(always)]
    fn won(&self, local: &mut WorkerState, object: Address) {
        let model = &self.heap.model;
        // SAFETY: references lead to objects; the worker that marked one is the only one that changes its header.
        unsafe {
            let mut header = header::load(object, Ordering::Relaxed);
            if !header.is_normal() {
                header = header.normal();
                header::store(object, header);
            }
            if self.is_old(object) {
                let bytes = model.size(header, object);
                self.lines.mark(object, bytes);
                local.lived += bytes;
            } else if object < self.old.0 {
                self.marks.mark_granules(object, model.size(header, object));
            }
        }
        local.objects += 1;
        local.grey(Item::object(object, model.base));
        self.watch.won(local, object);
    }

    /// Copies an object, unless that was done, or there is no room: then it stays. Where it is.
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
        let is_old = self.is_old(object);
        let kept = if is_old { header } else { header.older() };
        // SAFETY: the target is this worker's, of `bytes` bytes. Of the object only slots change in a stopped world, and
        // only once another worker forwarded it to itself: then the claim below fails.
        unsafe {
            copy_words(object.add(8), target.add(8), bytes - 8);
            header::store(target, kept);
        }
        self.marks.mark(target);
        self.lines.mark(target, bytes);
        match header::publish(word, object, header, Some(target)) {
            Ok(target) => {
                // SAFETY: the copy is this worker's until it is grey: others only hand its address on.
                unsafe { model.moved(header, target) };
                if let Some(locality) = &self.heap.locality {
                    locality.note_touched(target, bytes, local.node);
                }
                let copied = match is_old {
                    true => &mut local.evacuated,
                    false => &mut local.promoted,
                };
                *copied += bytes;
                local.objects += 1;
                local.grey(Item::object(target, model.base));
                self.watch.won(local, object);
                target
            }
            Err(place) => {
                self.marks.unmark(target);
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
            if bytes > BLOCK_BYTES || faults::armed(FaultPoint::Evacuation) {
                return None;
            }
            let block = self.lines.take_for_copies(&self.heap.old.region)?;
            local.evacuation.refill(block);
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
                self.marks.mark(stays);
                if self.is_old(stays) {
                    self.lines.mark(stays, bytes);
                    local.lived += bytes;
                }
                local.objects += 1;
                local.grey(Item::object(stays, self.heap.model.base));
                self.watch.won(local, stays);
                stays
            }
            Err(place) => place,
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

    #[inline(always)]
    fn slot(&self, local: &mut WorkerState, slot: Address, holder_is_old: bool) {
        // SAFETY: a slot of an object that this worker scans.
        let Some(object) = unsafe { F::load(slot, self.heap.model.base) }.as_object() else {
            return;
        };
        if !self.edges || !local.is_busy() || object < self.lowest {
            return self.edge(local, slot, object, holder_is_old);
        }
        object.prefetch();
        self.marks.prefetch(object);
        if let Some(waited) = local.edges.exchange(slot_entry(slot, holder_is_old)) {
            self.waited(local, waited);
        }
    }

    /// A slot that has waited, as an entry.
    #[inline(always)]
    fn waited(&self, local: &mut WorkerState, entry: usize) {
        let (slot, holder_is_old) = slot_of(entry);
        // SAFETY: a slot of an object that this worker scanned.
        if let Some(object) = unsafe { F::load(slot, self.heap.model.base) }.as_object() {
            self.edge(local, slot, object, holder_is_old);
        }
    }

    /// The slot refers to the object.
    #[inline(always)]
    fn edge(&self, local: &mut WorkerState, slot: Address, object: Address, holder_is_old: bool) {
        let place = self.reach(local, object);
        if !MOVES {
            return;
        }
        if place != object {
            // SAFETY: a slot of an object that this worker scans.
            unsafe { F::store(slot, self.heap.model.base, Value::reference(place)) };
        }
        if self.cards && holder_is_old && self.heap.is_young(place) {
            self.heap.cards.dirty(slot);
        }
    }
}

impl<F: SlotFormat, W: Watch, const MOVES: bool> Liveness for MarkingLines<'_, F, W, MOVES> {
    fn place(&self, object: Address) -> Option<Address> {
        if object < self.lowest {
            return Some(object);
        }
        if self.moves(object) {
            // SAFETY: references lead to objects; one that moved has left its place mapped.
            return header::look(unsafe { header::word_of(object) }).forwardee(object);
        }
        self.marks.is_marked(object).then_some(object)
    }

    fn keep(&self, local: &mut WorkerState, object: Address) -> Address {
        self.reach(local, object)
    }

    fn is_full(&self) -> bool {
        true
    }
}

impl<F: SlotFormat, W: Watch, const MOVES: bool> HeapTrace for MarkingLines<'_, F, W, MOVES> {
    type Format = F;

    fn heap(&self) -> &Scavenge<F> {
        self.heap
    }

    fn needs_cards(&self, object: Address) -> bool {
        MOVES && self.cards && !self.heap.is_young(object)
    }
}

impl<F: SlotFormat, W: Watch, const MOVES: bool> Trace for MarkingLines<'_, F, W, MOVES> {
    fn task(&self, local: &mut WorkerState, task: usize) {
        let task = self.roots.get(task);
        self.heap.visit_roots(task, |root| self.root(local, root));
    }

    #[inline]
    fn item(&self, local: &mut WorkerState, item: Item) {
        let (object, chunk) = item.get(self.heap.model.base);
        // SAFETY: a marked object, scanned by this worker alone, whose header is normal or says that it stays.
        unsafe {
            let header = header::load(object, Ordering::Relaxed);
            let is_old = !self.cards || (MOVES || header.is_spine()) && !self.heap.is_young(object);
            let visit = |local: &mut WorkerState, slot| self.slot(local, slot, is_old);
            if header.is_spine() {
                let place = (object, chunk);
                return self
                    .heap
                    .scan_spine(header, item, place, is_old, local, visit);
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
        let marks = self.tables.marks();
        let start = self.old.region.start();
        let nursery = match emptied {
            true => (self.nursery.start(), self.nursery.bytes()),
            false => (Address::NULL, 0),
        };
        let marking = MarkingLines::<F, Nothing, MOVES> {
            heap: self,
            marks,
            lines,
            old: (start, self.nursery.start().offset_from(start)),
            nursery,
            lowest: self.constants.end(),
            roots: Tasks::of_roots(self, &state.mutators, world),
            edges: self.config.options.prefetch == Prefetch::Edges,
            cards: self.in_place.is_none(),
            stayed: AtomicBool::new(false),
            watch: Nothing,
        };
        let tasks = marking.roots.count();
        state
            .engine
            .run(self.crew, state.crew_sizes.workers, tasks, &marking);
        let waiting = state
            .waiting
            .begin(self.weak.most_waiting(&mut state.engine));
        let marking = MarkingLines::<F, Keys<'_>, MOVES> {
            heap: self,
            marks,
            lines,
            old: marking.old,
            nursery,
            lowest: marking.lowest,
            roots: marking.roots,
            edges: marking.edges,
            cards: marking.cards,
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
        let objects = self.finish_marking(state, world);
        if stayed {
            self.end_forwarding(lines);
        }
        (objects, stayed)
    }
}
