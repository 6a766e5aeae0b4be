//! Tracing by lines, in parallel, with or without moves: of everything ([`trace`](super::trace)), or of new objects in free
//! lines ([`in_place`](crate::scavenge::in_place)). What the two differ in, a [`Traced`] says.
//!
//! With `MOVES`, an object that is to be copied is copied into a free block when it is reached: speculatively, and published by
//! one compare-and-swap on its header (I4). If no block is free, it is forwarded to itself and stays, until tracing is over.
//! Every slot that leads to what was copied is updated.
//!
//! # Invariants
//! - A copy is marked, start and lines, before another worker can know of it. So nobody makes it grey a second time.

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

use crate::scavenge::Scavenge;
use crate::scavenge::edges::{slot_entry, slot_of};
use crate::scavenge::roots::Tasks;
use crate::scavenge::trace::derived::visit_base;
use crate::scavenge::trace::{Engine, Item, Trace, WorkerState, scan_item};
use crate::scavenge::waiting::{Keys, Nothing, Waiting, Watch};
use crate::scavenge::weak::heap_trace::HeapTrace;
use crate::scavenge::weak::objects;
use crate::scavenge::weak::{Liveness, Process};

/// What is traced, and what becomes of what is reached.
pub(in crate::scavenge) trait Traced<F: SlotFormat>: Sized + Sync {
    /// Whether that is everything.
    const IS_FULL: bool;

    /// Whether an object is to be copied, in a trace with moves.
    fn moves<W, const MOVES: bool>(trace: &Tracing<'_, F, Self, W, MOVES>, object: Address)
    -> bool;

    /// Makes an object live that stays where it is.
    fn reach<W: Watch, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        object: Address,
    );

    /// Where an object that is not copied lives, if it was reached or always does.
    fn place<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> Option<Address>;

    /// Whether an object is worth waiting for until the cache has it.
    fn waits<W, const MOVES: bool>(trace: &Tracing<'_, F, Self, W, MOVES>, object: Address)
    -> bool;

    /// A block for copies, with its bytes, if any may be taken.
    fn block<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
    ) -> Option<(Address, usize)>;

    /// The header of an object's copy.
    fn header<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
        header: Header,
    ) -> Header;

    /// This worker has copied an object of `bytes` bytes to `target`: it counts it, and makes it grey.
    fn copied<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        object: Address,
        copy: (Address, usize),
        header: Header,
    );

    /// An object for whose copy there was no room stays, and its start is marked: the same, with its lines.
    fn stayed<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        object: (Address, usize),
        header: Header,
    );

    /// Whether an object that is scanned is old, as far as that is asked for.
    fn is_old<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
        header: Header,
    ) -> bool;

    /// In a trace with moves a slot of an object that is old or not refers to an object at this place from now on.
    fn stored<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        slot: Address,
        place: Address,
        holder_is_old: bool,
    );

    /// Whether cards have to say what an object refers to when the trace is over.
    fn needs_cards<W, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        object: Address,
    ) -> bool;

    /// A task of the trace.
    fn task<W: Watch, const MOVES: bool>(
        trace: &Tracing<'_, F, Self, W, MOVES>,
        local: &mut WorkerState,
        task: usize,
    );
}

/// A trace.
pub(in crate::scavenge) struct Tracing<'a, F: SlotFormat, E, W, const MOVES: bool> {
    pub(in crate::scavenge) heap: &'a Scavenge<F>,
    /// Where what is reached is marked.
    pub(in crate::scavenge) marks: &'a ObjectBits,
    pub(in crate::scavenge) lines: &'a MarkRegion,
    pub(in crate::scavenge) tasks: Tasks<'a>,
    pub(in crate::scavenge) extent: E,
    /// The old space, as (start, bytes).
    pub(in crate::scavenge) old: (Address, usize),
    /// Whether objects wait until the cache has them.
    edges: bool,
    /// Whether some object that was to be copied found no room. Set by any worker, read by the leader after the phase.
    stayed: AtomicBool,
    /// What looks at each object that is marked.
    pub(in crate::scavenge) watch: W,
}

impl<F: SlotFormat, E: Traced<F>, W, const MOVES: bool> Tracing<'_, F, E, W, MOVES> {
    /// Whether an object lies in the old space.
    #[inline(always)]
    pub(in crate::scavenge) fn is_inside(&self, object: Address) -> bool {
        object.offset_from(self.old.0) < self.old.1
    }

    /// Whether an object is to be copied.
    #[inline(always)]
    fn moves(&self, object: Address) -> bool {
        MOVES && E::moves(self, object)
    }
}

impl<F: SlotFormat, E: Traced<F>, W: Watch, const MOVES: bool> Tracing<'_, F, E, W, MOVES> {
    /// Makes an object live, and says where it is from now on.
    #[inline(always)]
    fn reach(&self, local: &mut WorkerState, object: Address) -> Address {
        if self.moves(object) {
            return self.copy(local, object);
        }
        E::reach(self, local, object);
        object
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
        let kept = E::header(self, object, header);
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
                E::copied(self, local, object, (target, bytes), header);
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
            local.evacuation.refill(E::block(self)?);
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
                E::stayed(self, local, (stays, bytes), header);
                self.watch.won(local, stays);
                stays
            }
            Err(place) => place,
        }
    }

    pub(in crate::scavenge) fn root(&self, local: &mut WorkerState, root: Root<'_>) {
        match root {
            Root::Value(slot) => self.root_slot::<Wide>(local, slot),
            Root::Slot(slot) => self.root_slot::<F>(local, slot),
            Root::Derived(base, derived) => {
                visit_base(base, derived, |base| self.root_slot::<Wide>(local, base));
                self.heap.check_derived(base, derived);
            }
        }
    }

    pub(in crate::scavenge) fn root_slot<S: SlotFormat>(
        &self,
        local: &mut WorkerState,
        slot: Address,
    ) {
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
    pub(in crate::scavenge) fn slot(
        &self,
        local: &mut WorkerState,
        slot: Address,
        holder_is_old: bool,
    ) {
        // SAFETY: a slot of an object that this worker scans.
        let Some(object) = unsafe { F::load(slot, self.heap.model.base) }.as_object() else {
            return;
        };
        if !self.edges || !local.is_busy() || !E::waits(self, object) {
            return self.edge(local, slot, object, holder_is_old);
        }
        object.prefetch();
        self.marks.prefetch(object);
        // What does not move needs its slot no more.
        let entry = match MOVES {
            true => slot_entry(slot, holder_is_old),
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
        E::stored(self, slot, place, holder_is_old);
    }
}

impl<F: SlotFormat, E: Traced<F>, W: Watch, const MOVES: bool> Liveness
    for Tracing<'_, F, E, W, MOVES>
{
    fn place(&self, object: Address) -> Option<Address> {
        if self.moves(object) {
            // SAFETY: references lead to objects; one that moved has left its place mapped.
            return header::look(unsafe { header::word_of(object) }).forwardee(object);
        }
        E::place(self, object)
    }

    fn keep(&self, local: &mut WorkerState, object: Address) -> Address {
        self.reach(local, object)
    }

    fn is_full(&self) -> bool {
        E::IS_FULL
    }
}

impl<F: SlotFormat, E: Traced<F>, W: Watch, const MOVES: bool> HeapTrace
    for Tracing<'_, F, E, W, MOVES>
{
    type Format = F;

    fn heap(&self) -> &Scavenge<F> {
        self.heap
    }

    fn needs_cards(&self, object: Address) -> bool {
        E::needs_cards(self, object)
    }
}

impl<F: SlotFormat, E: Traced<F>, W: Watch, const MOVES: bool> Trace
    for Tracing<'_, F, E, W, MOVES>
{
    fn task(&self, local: &mut WorkerState, task: usize) {
        E::task(self, local, task);
    }

    #[inline]
    fn item(&self, local: &mut WorkerState, item: Item) {
        let (object, chunk) = item.get(self.heap.model.base);
        // SAFETY: a marked object, scanned by this worker alone, whose header is normal or says that it stays.
        unsafe {
            let header = header::load(object, Ordering::Relaxed);
            let is_old = E::is_old(self, object, header);
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
    /// Traces by lines, with what is weak. Whether some object that was to be copied found no room.
    pub(in crate::scavenge) fn trace_lines<'a, E: Traced<F>, const MOVES: bool>(
        &'a self,
        (engine, waiting, workers): (&mut Engine, &mut Waiting, usize),
        (marks, lines): (&'a ObjectBits, &'a MarkRegion),
        (extent, tasks): (E, Tasks<'a>),
    ) -> bool {
        let start = self.old.region.start();
        let trace = Tracing::<F, E, Nothing, MOVES> {
            heap: self,
            marks,
            lines,
            tasks,
            extent,
            old: (start, self.nursery.start().offset_from(start)),
            edges: self.config.options.prefetch == Prefetch::Edges,
            stayed: AtomicBool::new(false),
            watch: Nothing,
        };
        engine.run(self.crew, workers, trace.tasks.count(), &trace);
        let waiting = waiting.begin(self.weak.most_waiting(engine));
        let trace = Tracing::<F, E, Keys<'_>, MOVES> {
            heap: self,
            marks,
            lines,
            tasks: trace.tasks,
            extent: trace.extent,
            old: trace.old,
            edges: trace.edges,
            stayed: trace.stayed,
            watch: Keys(waiting),
        };
        self.weak.process(&mut Process {
            engine,
            crew: self.crew,
            workers,
            trace: &trace,
            waiting,
            looked: 0,
        });
        trace.stayed.into_inner()
    }
}
