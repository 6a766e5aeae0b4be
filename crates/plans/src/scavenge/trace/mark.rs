//! Marking in parallel, for a full collection.
//!
//! Marking sets bits beside the heap and touches no object but to scan it and to end its self-forwarding. When it
//! begins, no bit is set in the table of marks; when it is over, that has become the table of objects, and its bits say
//! what lives ([`gleaner_mem::object_bits`] says who touches either).

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_base::options::Prefetch;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_bits::{ObjectBits, WORD_BYTES};
use gleaner_mem::root::Root;
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_spaces::precise::large_objects::{Fate, Generation};
use gleaner_spaces::precise::tenured::BlockBuffer;

use crate::scavenge::roots::Tasks;
use crate::scavenge::trace::{Item, Trace, WorkerState, scan_item};
use crate::scavenge::waiting::{Keys, Nothing, Watch};
use crate::scavenge::walk::Edge;
use crate::scavenge::weak::heap_trace::HeapTrace;
use crate::scavenge::weak::objects;
use crate::scavenge::weak::{Liveness, Process};
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

/// Marks all that can be reached.
struct Marking<'a, F: SlotFormat, W> {
    heap: &'a Scavenge<F>,
    marks: &'a ObjectBits,
    /// What is below is a constant, which is not marked.
    lowest: Address,
    roots: Tasks<'a>,
    /// Whether objects wait until the cache has them.
    edges: bool,
    /// What looks at each object that is marked.
    watch: W,
}

impl<F: SlotFormat, W: Watch> Marking<'_, F, W> {
    #[inline(always)]
    fn edge(&self, local: &mut WorkerState, object: Address) {
        if !self.edges || !local.is_busy() || object < self.lowest {
            return self.object(local, object);
        }
        object.prefetch();
        self.marks.prefetch(object);
        if let Some(waited) = local.edges.exchange(object.word()) {
            self.object(local, Address::new(waited));
        }
    }

    #[inline(always)]
    fn object(&self, local: &mut WorkerState, object: Address) {
        let heap = self.heap;
        if object < self.lowest || !self.marks.mark(object) {
            return;
        }
        // SAFETY: references lead to objects; the worker that marked one is the only one that changes its header.
        unsafe {
            let mut header = header::load(object, Ordering::Relaxed);
            if !header.is_normal() {
                header = header.normal();
                header::store(object, header);
            }
            if !heap.large.contains(object) {
                self.marks
                    .mark_granules(object, heap.model.size(header, object));
            }
        }
        local.objects += 1;
        local.grey(Item::object(object, heap.model.base));
        self.watch.won(local, object);
    }

    fn root(&self, local: &mut WorkerState, root: Root<'_>) {
        match root {
            Root::Value(slot) => self.root_slot::<Wide>(local, slot),
            Root::Slot(slot) => self.root_slot::<F>(local, slot),
            Root::Derived(base, derived) => {
                self.root_slot::<Wide>(local, base);
                self.heap.check_derived(base, derived);
            }
        }
    }

    fn root_slot<S: SlotFormat>(&self, local: &mut WorkerState, slot: Address) {
        // SAFETY: the root slot has this format, and its owner does not run.
        if let Some(object) = unsafe { S::load(slot, self.heap.model.base) }.as_object() {
            self.object(local, object);
        }
    }
}

impl<F: SlotFormat, W: Watch> Liveness for Marking<'_, F, W> {
    fn place(&self, object: Address) -> Option<Address> {
        (object < self.lowest || self.marks.is_marked(object)).then_some(object)
    }

    fn keep(&self, local: &mut WorkerState, object: Address) -> Address {
        self.object(local, object);
        object
    }

    fn is_full(&self) -> bool {
        true
    }
}

impl<F: SlotFormat, W: Watch> HeapTrace for Marking<'_, F, W> {
    type Format = F;

    fn heap(&self) -> &Scavenge<F> {
        self.heap
    }

    /// Nothing moves, so the cards are as before.
    fn needs_cards(&self, _: Address) -> bool {
        false
    }
}

impl<F: SlotFormat, W: Watch> Trace for Marking<'_, F, W> {
    fn task(&self, local: &mut WorkerState, task: usize) {
        let task = self.roots.get(task);
        self.heap.visit_roots(task, |root| self.root(local, root));
    }

    #[inline]
    fn item(&self, local: &mut WorkerState, item: Item) {
        let base = self.heap.model.base;
        let (object, chunk) = item.get(base);
        // SAFETY: a marked object, scanned by this worker alone.
        unsafe {
            let header = header::load(object, Ordering::Relaxed);
            let visit = |local: &mut WorkerState, slot| {
                if let Some(object) = F::load(slot, base).as_object() {
                    self.edge(local, object);
                }
            };
            if header.is_spine() {
                // New objects that lie in the old space are old behind this.
                let is_old = self.heap.in_place().is_some() || !self.heap.is_young(object);
                return self
                    .heap
                    .scan_spine(header, item, (object, chunk), is_old, local, visit);
            }
            let model = &self.heap.model;
            if let Some(elements) = scan_item(model, header, item, object, chunk, local, visit) {
                objects::discover(self, local, object, elements, self.watch.waiting(), visit);
            }
        }
    }

    fn settle(&self, local: &mut WorkerState) {
        loop {
            while let Some(object) = local.edges.take() {
                self.object(local, Address::new(object));
            }
            let keep = |local: &mut WorkerState, value| self.object(local, value);
            if !self.watch.found(local, keep) {
                return;
            }
        }
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// The phase of every collection of everything that comes first.
    pub(in crate::scavenge) fn mark(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        why: &'static str,
    ) {
        record.step(Phase::Mark, |event| {
            event.reason = why;
            event.objects = self.mark_all(state, world) as u64;
            event.workers = state.crew_sizes.workers as u32;
        });
        self.verify(state, world, record, Edge::Marked);
    }

    /// Before everything is marked: buffers of spaces that will be swept are not used any more.
    pub(in crate::scavenge) fn begin_marking(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
    ) {
        for local in state.engine.worker_states() {
            local.old_buffer = BlockBuffer::default();
        }
        *self.beside.pinned_buffer(&mut world.allocator()) = BlockBuffer::default();
        self.unclaim_arraylets(world);
    }

    /// Marks all that lives, and adopts the marks: afterwards the bits say what lives, in the nursery, too. Returns how
    /// many objects that are.
    fn mark_all(&self, state: &mut State, world: &mut WorldStopped<'_>) -> usize {
        self.begin_marking(state, world);
        let marks = self.tables.marks();
        let marking = Marking {
            heap: self,
            marks,
            lowest: self.constants.end(),
            roots: Tasks::of_roots(self, &state.mutators, world),
            edges: self.config.options.prefetch == Prefetch::Edges,
            watch: Nothing,
        };
        let tasks = marking.roots.count();
        state
            .engine
            .run(self.crew, state.crew_sizes.workers, tasks, &marking);
        let waiting = state
            .waiting
            .begin(self.weak.most_waiting(&mut state.engine));
        let marking = Marking {
            heap: self,
            marks,
            lowest: marking.lowest,
            roots: marking.roots,
            edges: marking.edges,
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
        self.finish_marking(state, world)
    }

    /// Everything that lives is marked: adopts the marks, forgets the pins of what died before anything is promoted to its
    /// place, and sweeps the space of pinned objects. How many objects workers have marked.
    pub(in crate::scavenge) fn finish_marking(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
    ) -> usize {
        self.tables.adopt_marks(world);
        self.pins
            .retain(world, |object| self.bits().is_marked(object));
        self.old.clear(world, self.tables.marks());
        self.pinned.clear(world, self.tables.marks());
        self.poison_holes(&self.pinned);
        let top = self.pinned.region.top();
        // SAFETY: all that lives is marked, with its granules.
        unsafe { self.pinned.finish_marking(world, self.bits()) };
        self.release_pinned_above(world, top);
        let mut objects = 0;
        for local in state.engine.worker_states() {
            state.totals.ephemeron_looks += core::mem::take(&mut local.weak.looks);
            state.totals.weak_looks += core::mem::take(&mut local.weak.weak_looks);
            state.totals.arrays.compressed += core::mem::take(&mut local.compressed);
            objects += core::mem::take(&mut local.objects);
        }
        objects
    }

    /// Frees the large objects of a generation that were not marked; the others are old from now on.
    pub(in crate::scavenge) fn sweep_large(
        &self,
        world: &mut WorldStopped<'_>,
        generation: Generation,
    ) {
        self.large
            .sweep(world, generation, |object, (start, bytes)| {
                if self.bits().is_marked(object) {
                    self.unmark_large(object);
                    Fate::Old
                } else {
                    self.poison(start, bytes);
                    Fate::Dies
                }
            });
    }

    /// Forgets that a large object, whose pages are its own, was reached.
    pub(in crate::scavenge) fn unmark_large(&self, object: Address) {
        let word = object.align_down(WORD_BYTES);
        self.bits().clear_starts(word, word.add(WORD_BYTES));
    }
}
