//! Every object of the precise heap, one after the other, in a stopped world: for the verifier and for embedders.
//!
//! Objects that died since they could last have been found dead are among them; what their slots refer to is there,
//! too.

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::large_objects::Generation;
use gleaner_spaces::precise::regions::{Kind, Region};

use super::collect::Outside;
use super::{Scavenge, State};

/// When a heap is walked over. It says what objects there are, and what references lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// For an embedder, between collections.
    Walk,
    /// When a collection begins.
    Before,
    /// After a complete scavenge, before eden and the from-space are emptied: nothing lives there any more.
    Copied,
    /// After a complete promotion of all that is young: nothing lives in the nursery.
    Promoted,
    /// After marking: what is marked lives.
    Marked,
    /// After sliding.
    Slid,
    /// When a collection is over.
    After,
}

impl Edge {
    /// For messages and events.
    pub(super) fn when(self) -> &'static str {
        match self {
            Edge::Walk => "walking",
            Edge::Before => "before the collection",
            Edge::Copied => "after copying",
            Edge::Promoted => "after promoting",
            Edge::Marked => "after marking",
            Edge::Slid => "after sliding",
            Edge::After => "after the collection",
        }
    }
}

/// An object that was walked over.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The space that it lies in.
    pub space: &'static str,
    /// Where it begins.
    pub object: Address,
    /// Its header.
    pub header: Header,
    /// Its bytes.
    pub bytes: usize,
    /// Where its space ends at the moment.
    pub end: Address,
}

impl<F: SlotFormat> Scavenge<F> {
    /// A mutator inside the gate stops all others and visits every object. Nothing moves; `visit` must not use the heap
    /// otherwise.
    pub fn walk(&self, visit: &mut dyn FnMut(&Found)) {
        self.with_stopped_world(|state| {
            self.retire_tlabs(state);
            self.for_each_object(Edge::Walk, visit);
        });
    }

    /// Visits every object that is no filler and that there is at this edge. The world is stopped, and buffers are
    /// retired.
    pub(super) fn for_each_object(&self, edge: Edge, visit: &mut dyn FnMut(&Found)) {
        for region in self.regions().iter() {
            match edge {
                _ if !region.kind.is_nursery() => self.walk_bits(edge, region, visit),
                Edge::Copied if region.kind != self.nursery.to_kind() => {}
                Edge::Promoted => {}
                Edge::Marked => self.walk_bits(edge, region, visit),
                _ => self.walk_from_start(edge, region, visit),
            }
        }
        for generation in [Generation::Young, Generation::Old] {
            let end = self.large.start().add(self.large.bytes());
            // SAFETY: the world is stopped.
            unsafe {
                self.large.for_each(generation, |object| {
                    if edge != Edge::Marked || self.bits().is_marked(object) {
                        visit(&self.found(edge, Kind::Large, object, end));
                    }
                });
            }
        }
    }

    pub(super) fn found(&self, edge: Edge, kind: Kind, object: Address, end: Address) -> Found {
        let space = kind.name();
        // SAFETY: the callers found an object, or a filler, that begins at `object`.
        let header = unsafe { header::load(object, Ordering::Relaxed) };
        let known = header.is_normal() && header.type_id().get() < self.model.types.count();
        assert!(
            known,
            "{}: no object in space {space} at {object:?}, header {:#018x}",
            edge.when(),
            header.word()
        );
        Found {
            space,
            object,
            header,
            // SAFETY: an object or a filler lies there; its header, just checked, is normal and names a type of this
            // heap.
            bytes: unsafe { self.model.size(header, object) },
            end,
        }
    }

    fn walk_bits(&self, edge: Edge, region: &Region<'_>, visit: &mut dyn FnMut(&Found)) {
        let (kind, region) = (region.kind, region.space);
        let words = self.bits().word_of(region.start())
            ..self.bits().word_of(region.top().align_up(WORD_BYTES));
        for object in words.flat_map(|word| self.bits().starts(word)) {
            visit(&self.found(edge, kind, object, region.top()));
        }
    }

    fn walk_from_start(&self, edge: Edge, region: &Region<'_>, visit: &mut dyn FnMut(&Found)) {
        let (kind, region) = (region.kind, region.space);
        let mut at = region.start();
        while at < region.top() {
            let found = self.found(edge, kind, at, region.top());
            if !found.header.type_id().is_filler() {
                visit(&found);
            }
            at = at.add(found.bytes);
        }
    }

    /// A mutator inside the gate stops all others, and does something that leaves the heap as it is: a panic there does
    /// no harm.
    pub(super) fn with_stopped_world<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        self.gate.leave();
        let _outside = Outside(&self.gate);
        self.collecting.with(&self.gate, |state| {
            self.stop(state);
            let resume = Resume { heap: self, state };
            body(&mut *resume.state)
        })
    }
}

/// Lets the mutators run again.
struct Resume<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    state: &'a mut State,
}

impl<F: SlotFormat> Drop for Resume<'_, F> {
    fn drop(&mut self) {
        self.heap.resume(self.state);
    }
}
