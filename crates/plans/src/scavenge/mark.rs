//! Marking in parallel, for a full collection.
//!
//! Marking sets bits beside the heap and touches no object but to scan it and to end its self-forwarding. When it
//! begins, no bit of any space is set; when it is over, the bits say what lives.

use gleaner_base::options::Prefetch;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_spaces::precise::large_objects::{Fate, Generation};
use gleaner_spaces::precise::tenured::BlockBuffer;

use super::resize::release;
use super::roots::{Task, Tasks};
use super::trace::{Item, Share, Trace, scan_item};
use super::waiting::{Keys, Nothing, Watch};
use super::weak::Liveness;
use super::{Scavenge, State};

/// Marks all that can be reached.
struct Marking<'a, F: SlotFormat, W> {
    heap: &'a Scavenge<F>,
    roots: Tasks<'a>,
    /// Whether objects wait until the cache has them.
    edges: bool,
    /// What looks at each object that is marked.
    watch: W,
}

impl<F: SlotFormat, W: Watch> Marking<'_, F, W> {
    #[inline(always)]
    fn edge(&self, share: &mut Share, object: Address) {
        if !self.edges || !share.is_busy() {
            return self.object(share, object);
        }
        object.prefetch();
        self.heap.bits.prefetch(object);
        if let Some(waited) = share.edges.exchange(object.word()) {
            self.object(share, Address::new(waited));
        }
    }

    #[inline(always)]
    fn object(&self, share: &mut Share, object: Address) {
        let heap = self.heap;
        if !heap.bits.mark(object) {
            return;
        }
        // SAFETY: references lead to objects; whoever marked one is the only one who changes its header.
        unsafe {
            let mut header = header::load(object, Ordering::Relaxed);
            if !header.is_normal() {
                header = header.normal();
                header::store(object, header);
            }
            if !heap.large.contains(object) {
                heap.bits
                    .mark_granules(object, heap.model.size(header, object));
            }
        }
        share.objects += 1;
        share.grey(Item::object(object, heap.model.base));
        self.watch.won(share, object);
    }

    fn root(&self, share: &mut Share, slot: Address) {
        // SAFETY: root slots are wide, and their owner is stopped.
        if let Some(object) = unsafe { Wide::load(slot, Address::NULL) }.as_object() {
            self.object(share, object);
        }
    }
}

impl<F: SlotFormat, W: Watch> Liveness for Marking<'_, F, W> {
    fn place(&self, object: Address) -> Option<Address> {
        self.heap.bits.is_marked(object).then_some(object)
    }

    fn keep(&self, share: &mut Share, object: Address) -> Address {
        self.object(share, object);
        object
    }
}

impl<F: SlotFormat, W: Watch> Trace for Marking<'_, F, W> {
    fn task(&self, share: &mut Share, task: usize) {
        let visit = |slot| self.root(share, slot);
        match self.roots.get(task) {
            Task::Finalizers => self.heap.weak.visit_roots(visit),
            other => self.heap.visit_roots(other, visit),
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
                        self.edge(share, object);
                    }
                },
            );
        }
    }

    fn settle(&self, share: &mut Share) {
        loop {
            while let Some(object) = share.edges.take() {
                self.object(share, Address::new(object));
            }
            let keep = |share: &mut Share, value| self.object(share, value);
            if !self.watch.found(share, keep) {
                return;
            }
        }
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Marks all that lives. Returns how many objects that are.
    pub(super) fn mark_all(&self, state: &mut State) -> usize {
        // SAFETY: the world is stopped, and no phase runs.
        unsafe {
            self.old.begin_marking(&self.bits);
            self.immobile.begin_marking(&self.bits);
        }
        for share in state.engine.shares() {
            share.old_buffer = BlockBuffer::default();
        }
        // SAFETY: the world is stopped.
        self.immobile_buffer
            .with_mut(|buffer| unsafe { *buffer = BlockBuffer::default() });
        let marking = Marking {
            heap: self,
            roots: Tasks::of_roots(self, &state.mutators),
            edges: self.config.prefetch == Prefetch::Edges,
            watch: Nothing,
        };
        let tasks = marking.roots.count();
        state
            .engine
            .run(self.crew, self.config.workers, tasks, &marking);
        let waiting = state.waiting.table(self.weak.ephemerons.count());
        let marking = Marking {
            heap: self,
            roots: marking.roots,
            edges: marking.edges,
            watch: Keys(waiting.as_ref()),
        };
        let (engine, workers) = (&mut state.engine, self.config.workers);
        self.weak
            .process(engine, self.crew, workers, &marking, waiting.as_ref());
        self.poison_holes(&self.immobile);
        let top = self.immobile.region.top();
        // SAFETY: all that lives is marked.
        unsafe { self.immobile.finish_marking(&self.bits) };
        release(self.immobile.region.top(), top);
        let mut objects = 0;
        for share in state.engine.shares() {
            state.totals.ephemeron_looks += core::mem::take(&mut share.looks);
            objects += core::mem::take(&mut share.objects);
        }
        objects
    }

    /// Frees the large objects of a generation that were not marked; the others are old from now on.
    pub(super) fn sweep_large(&self, generation: Generation) {
        // SAFETY: the world is stopped, and the leader is alone.
        unsafe {
            self.large.sweep(generation, |object, bytes| {
                if self.bits.is_marked(object) {
                    self.bits.clear_starts(object, object.add(WORD_BYTES));
                    Fate::Old
                } else {
                    self.poison(object, bytes);
                    Fate::Dies
                }
            });
        }
    }

    /// After marking, where nothing moves: what was not marked in the old space is free, and so are old large objects.
    /// The young ones are as before, without marks.
    pub(super) fn reclaim_in_place(&self) {
        self.poison_holes(&self.old);
        // SAFETY: the world is stopped, and the leader is alone.
        unsafe {
            self.old.finish_marking(&self.bits);
            for region in self.nursery.regions() {
                self.bits
                    .clear(region.start(), region.top().align_up(WORD_BYTES));
            }
            self.large.for_each(Generation::Young, |object| {
                self.bits.clear_starts(object, object.add(WORD_BYTES));
            });
        }
        self.sweep_large(Generation::Old);
    }
}
