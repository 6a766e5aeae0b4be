//! The invariants of the precise heap, checked in a stopped world at the edges of phases (`verify=edges`).
//!
//! Every space is walked: each header is normal and names a type, each object ends before the next begins and inside
//! its space, and no space reaches into the next, and the table of marks is empty. All together use no more than the
//! limit (I7). Every slot and root then holds null, an immediate, or the address of an object that was walked over. A
//! slot of an old object that refers to a young one lies on a dirty card (I5). Where new objects lie in the old space the
//! table of marks serves as the set of those. A spine points at live arraylets that are
//! as old as it is at least, or at the zero arraylet (I6). The start bits of the nursery, which are
//! clear outside of a full collection, serve as its set of objects.
//!
//! At the edges inside a collection the same holds of the objects that there are:
//! - when it begins, when it is over, and after sliding, those that every space holds from start to top;
//! - after copying, those outside of eden and the from-space: so all that was reached lies in the to-space, an old
//!   space or the large space, and no reference leads back; after promoting in place, those outside of the nursery. While
//!   objects of the nursery keep their places these two edges are left out, and the last one finds the same;
//! - after marking, those that are marked: nothing that can be reached was left out (I3).
//!
//! The leader runs it, in the collector's own memory, without a lock. A violation stops the process with the edge,
//! space, address, header and the last events.

use core::fmt;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Ring;
use gleaner_mem::Address;
use gleaner_mem::header::Header;
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::object_model::ELEMENTS;
use gleaner_mem::root::Root;
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_spaces::precise::regions::Regions;

use crate::scavenge::handles::{self, TASK_HANDLES};
use crate::scavenge::walk::{Edge, Found};
use crate::scavenge::{Scavenge, State};

impl<F: SlotFormat> Scavenge<F> {
    /// Checks everything; how many objects there are.
    pub(in crate::scavenge) fn verify_heap(
        &self,
        state: &State,
        world: &mut WorldStopped<'_>,
        edge: Edge,
    ) -> usize {
        Verifier {
            heap: self,
            state,
            edge,
            regions: self.regions(),
        }
        .run(world)
    }
}

/// The heap at one edge.
struct Verifier<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    state: &'a State,
    edge: Edge,
    /// Asked about each slot.
    regions: Regions<'a>,
}

impl<F: SlotFormat> Verifier<'_, F> {
    fn run(&self, world: &mut WorldStopped<'_>) -> usize {
        let heap = self.heap;
        self.verify_ends();
        let (mut objects, mut free) = (0, ("", Address::NULL));
        heap.for_each_object(world, self.edge, &mut |found| {
            if free.0 != found.space || found.space == "large" {
                free = (found.space, Address::NULL);
            }
            self.verify_place(found, free.1);
            free.1 = found.object.add(found.bytes);
            if heap.in_nursery(found.object) {
                heap.bits().mark(found.object);
            } else if self.is_new(found.object) {
                self.require_new_lines(found);
                heap.tables.marks().mark(found.object);
            }
            objects += 1;
        });
        heap.for_each_object(world, self.edge, &mut |found| self.verify_slots(found));
        self.verify_roots(world);
        if heap.in_place().is_some() {
            heap.old.clear(world, heap.tables.marks());
        }
        if self.edge != Edge::Marked {
            for region in heap.nursery.regions().iter() {
                let top = region.space.top().align_up(WORD_BYTES);
                heap.bits().clear_starts(region.space.start(), top);
            }
        }
        objects
    }

    /// Whether all that is marked is about to be old, where new objects lie in the old space: the bits say so already, and
    /// large objects not yet.
    fn is_adopting(&self) -> bool {
        self.heap.in_place().is_some() && self.edge == Edge::Marked
    }

    /// Whether an object of the old space is new.
    fn is_new(&self, object: Address) -> bool {
        let heap = self.heap;
        heap.in_place().is_some() && heap.old.region.contains(object) && heap.is_young(object)
    }

    /// No start bit lies among those of a new object: what is old does not lie in lines that were handed out.
    fn require_new_lines(&self, found: &Found) {
        let bits = self.heap.bits();
        let end = found.object.add(found.bytes).align_up(WORD_BYTES);
        let words = bits.word_of(found.object)..bits.word_of(end);
        let inside = |&start: &Address| start.offset_from(found.object) < found.bytes;
        let old = words.flat_map(|word| bits.starts(word)).find(inside);
        self.require(
            old.is_none(),
            "no old object lies where a new one does",
            found.space,
            found.object,
            found.header,
        );
    }

    fn verify_ends(&self) {
        let heap = self.heap;
        let regions = heap.regions();
        self.require(
            heap.used() <= heap.limit(),
            "the spaces together use no more than the limit (I7)",
            "all",
            Address::new(heap.used()),
            Header::forwarded_to(Address::NULL),
        );
        for region in regions.iter() {
            let (start, top) = (region.space.start(), region.space.top());
            let marks = heap.tables.marks();
            let words = marks.word_of(start)..marks.word_of(top.align_up(WORD_BYTES));
            let marked = words.flat_map(|word| marks.starts(word)).next();
            self.require(
                marked.is_none(),
                "nothing is marked outside of marking",
                region.kind.name(),
                marked.unwrap_or(start),
                Header::forwarded_to(Address::NULL),
            );
        }
        let next = regions.iter().skip(1).map(|region| region.space.start());
        let ends = next.chain([heap.large.start()]);
        for (region, next) in regions.iter().zip(ends) {
            self.require(
                region.space.end() <= next,
                "a space ends where the next begins",
                region.kind.name(),
                region.space.end(),
                Header::forwarded_to(Address::NULL),
            );
        }
    }

    fn verify_place(&self, found: &Found, free: Address) {
        let &Found {
            space,
            object,
            header,
            bytes,
            end,
        } = found;
        let require = |holds, what| self.require(holds, what, space, object, header);
        let start = if header.is_spine() {
            // SAFETY: the spine was walked over.
            unsafe {
                let (elements, _) = self.heap.model.spine_elements(header, object);
                self.heap.model.pieces.start(object, elements)
            }
        } else {
            object
        };
        require(
            start >= free,
            "an object begins where the one before has ended",
        );
        require(
            bytes <= end.offset_from(start),
            "an object ends inside its space",
        );
    }

    /// What a reference leads to.
    fn referent(&self) -> &'static str {
        match self.edge {
            Edge::Copied => "a slot refers to an object outside of eden and the from-space",
            Edge::Promoted => "a slot refers to an object outside of the nursery",
            Edge::Marked => "a slot of a marked object refers to a marked one",
            _ => "a slot refers to an object",
        }
    }

    fn verify_slots(&self, found: &Found) {
        let (object, header, space) = (found.object, found.header, found.space);
        let heap = self.heap;
        let base = heap.model.base;
        let is_old = !heap.is_young(object);
        // SAFETY: slots of objects that were walked over.
        let verify_slot = |slot, is_old| unsafe {
            let Some(referent) = F::load(slot, base).as_object() else {
                return;
            };
            self.require_object(referent, space, slot, header);
            self.require(
                !heap.is_constant(object) || heap.never_moves(referent),
                "a constant refers only to objects that never move",
                space,
                slot,
                header,
            );
            if is_old && heap.is_young(referent) && !self.is_adopting() {
                let dirty = heap.cards.is_dirty(slot);
                self.require(
                    dirty,
                    "an old slot to a young object is on a dirty card",
                    space,
                    slot,
                    header,
                );
            }
        };
        // SAFETY: the object was walked over.
        unsafe {
            heap.model
                .scan_all(header, object, |slot| verify_slot(slot, is_old))
        };
        if header.is_spine() {
            self.verify_spine(found, is_old, verify_slot);
        }
    }

    /// What a spine points at lives, is as old as the spine at least, and holds what the spine's elements are (I6).
    fn verify_spine(&self, found: &Found, is_old: bool, verify_slot: impl Fn(Address, bool)) {
        let (heap, spine, header) = (self.heap, found.object, found.header);
        let (pieces, arraylets) = (heap.model.pieces, heap.arraylets());
        // SAFETY: the spine was walked over.
        let (bytes, slots, count) = unsafe {
            let (bytes, slots) = heap.model.spine_elements(header, spine);
            (bytes, slots, pieces.beyond(spine, bytes).arraylets)
        };
        let require = |holds, what, at| self.require(holds, what, found.space, at, header);
        let fence = spine.add(ELEMENTS);
        require(
            !pieces.is_fenced() || heap.large.fenced_object(fence) == Some(spine),
            "a fence lies behind the length of a fenced spine",
            fence,
        );
        for number in 0..pieces.pointers(bytes) {
            // SAFETY: a spine with `bytes` bytes of elements has a pointer of this number.
            let pointer = unsafe { pieces.load(spine, number) };
            let at = pieces.target(pointer);
            require(
                !header.is_immortal() || !pointer.is_tainted(),
                "an immortal array has all its arraylets to itself",
                spine,
            );
            if number == count {
                // In guard mode it lies where it was before the array shrank.
                let own = pieces.remainder(spine, bytes);
                let leads = at == own || pieces.is_fenced() && at < own;
                let leads = leads && !pointer.is_tainted();
                require(leads, "a remainder's pointer leads to it", at);
                continue;
            }
            if pointer == pieces.zero {
                continue;
            }
            require(
                arraylets.contains(at) && arraylets.is_live(at),
                "a spine points at a live arraylet (I6)",
                at,
            );
            require(
                !is_old || arraylets.is_old(at),
                "an old spine points at old arraylets",
                at,
            );
            require(
                arraylets.has_slots(at) == slots,
                "an arraylet holds what the elements of its array are",
                at,
            );
            // SAFETY: bytes of a live arraylet.
            let is_clear = |offset| unsafe { at.add(offset).ptr::<u8>().read() } == 0;
            let here = bytes - pieces.offset_of(number);
            require(
                pointer.is_tainted() || (here..pieces.arraylet_bytes()).all(is_clear),
                "behind the end of its array an arraylet is zero",
                at,
            );
            if slots {
                let is_old = arraylets.is_old(at);
                heap.slots_of(at).for_each(|slot| verify_slot(slot, is_old));
            }
        }
    }

    fn verify_roots(&self, world: &WorldStopped<'_>) {
        let value = |slot: Address| self.verify_root::<Wide>(slot);
        let check = |root: Root<'_>| match root {
            Root::Value(slot) => value(slot),
            Root::Slot(slot) => self.verify_root::<F>(slot),
            Root::Derived(base, derived) => {
                value(base);
                self.heap.check_derived(base, derived);
            }
        };
        for mutator in self.state.mutators.stopped(world).iter() {
            // SAFETY: it does not run, and the root visitor is set by the holder of `collecting`, which the leader is.
            unsafe { mutator.visit_roots(check) };
        }
        let heap = self.heap;
        let finalizers = &heap.weak.finalizers;
        (0..finalizers.listed()).for_each(|position| finalizers.visit_all(position, value));
        heap.heap_roots.visit_all(check);
        (0..heap.handles.prepare()).for_each(|number| value(heap.handles.slot(number as u32)));
        self.verify_chunks();
        self.verify_old_finalizers();
    }

    /// A handle to a young object lies in a chunk that is marked young.
    fn verify_chunks(&self) {
        let (heap, table) = (self.heap, &self.heap.handles);
        let count = table.prepare();
        let old = (0..count.div_ceil(TASK_HANDLES)).filter(|&chunk| !table.is_young(chunk));
        for number in old.flat_map(|number| handles::chunk(number, count)) {
            let object = table.load(number).as_object();
            self.require(
                !object.is_some_and(|object| heap.is_young(object)),
                "a handle to a young object lies in a chunk that is marked young",
                "handles",
                table.slot(number),
                Header::forwarded_to(Address::NULL),
            );
        }
    }

    /// Segments of finalizers that are not young hold old objects, and in front of where scavenges begin there are no others.
    fn verify_old_finalizers(&self) {
        let (heap, table) = (self.heap, &self.heap.weak.finalizers);
        for position in 0..table.listed() {
            let is_young = table.is_young(position);
            self.require(
                !is_young || position >= table.young_from(),
                "no segment of finalizers is young in front of where scavenges begin",
                "finalizers",
                Address::new(position),
                Header::forwarded_to(Address::NULL),
            );
            table.visit_all(position, |slot| {
                // SAFETY: a slot of a finalizer, which is wide.
                let held = unsafe { Wide::load(slot, Address::NULL) }.as_object();
                self.require(
                    is_young || !held.is_some_and(|object| heap.is_young(object)),
                    "a segment of finalizers with a young object is marked young",
                    "finalizers",
                    slot,
                    Header::forwarded_to(Address::NULL),
                );
            });
        }
    }

    fn verify_root<S: SlotFormat>(&self, slot: Address) {
        // SAFETY: the root slot has this format, and its owner does not run.
        if let Some(object) = unsafe { S::load(slot, self.heap.model.base) }.as_object() {
            let header = Header::forwarded_to(Address::NULL);
            self.require_object(object, "roots", slot, header);
        }
    }

    /// The slot at `slot` refers to `referent`.
    fn require_object(&self, referent: Address, space: &str, slot: Address, header: Header) {
        let is_object = self.is_object(referent);
        if !is_object && let Some(place) = self.heap.evacuated(referent) {
            panic!(
                "verify {}: a stale reference: the slot at {slot:?}, space {space}, header {:#018x}, holds {referent:?}: \
                 {place}",
                self.edge.when(),
                header.word()
            );
        }
        self.require(is_object, self.referent(), space, slot, header);
    }

    fn is_object(&self, at: Address) -> bool {
        let heap = self.heap;
        if heap.is_constant(at) {
            return at.word().is_multiple_of(8)
                && at >= heap.constants.start()
                && at < heap.constants.top();
        }
        if heap.large.contains(at) {
            return heap.large.is_object(at)
                && (self.edge != Edge::Marked || heap.bits().is_marked(at));
        }
        at.word().is_multiple_of(8)
            && self
                .regions
                .iter()
                .any(|region| at >= region.space.start() && at < region.space.top())
            && (heap.bits().is_marked(at) || self.is_new(at) && heap.tables.marks().is_marked(at))
    }

    fn require(&self, holds: bool, what: &str, space: &str, at: Address, header: Header) {
        if !holds {
            panic!(
                "verify {}: broken: {what}; space {space}, address {at:?}, header {:#018x}; last events:\n{}",
                self.edge.when(),
                header.word(),
                LastEvents(&self.state.events)
            );
        }
    }
}

/// The last events, one a line.
struct LastEvents<'a>(&'a Ring);

impl fmt::Display for LastEvents<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|event| writeln!(out, "{event}"))
    }
}
