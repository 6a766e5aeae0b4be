//! Every object of the precise heap, one after the other, in a stopped world: for the verifier and for embedders.
//!
//! Objects that died since they could last have been found dead are among them; what their slots refer to is there,
//! too.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self};
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::large_objects::Generation;
use gleaner_spaces::precise::regions::{Kind, Region};

pub(in crate::scavenge) use crate::scavenge::checks::found::Edge;
pub use crate::scavenge::checks::found::Found;
use crate::scavenge::mutator::Mutator;
use crate::scavenge::stop::collecting;
use crate::scavenge::stop::handshake::{self, Partner};
use crate::scavenge::stop::whereabouts::Passage;
use crate::scavenge::{Scavenge, State};

impl<F: SlotFormat> Scavenge<F> {
    /// A mutator inside the gate stops all others and visits every object. Nothing moves; `visit` must not use the heap
    /// otherwise.
    pub fn walk(&self, mutator: &Mutator, visit: &mut dyn FnMut(&Found)) {
        self.with_stopped_world(mutator, |state, world| {
            self.retire_tlabs(state, world);
            self.for_each_object(world, Edge::Walk, visit);
        });
    }

    /// A mutator inside the gate stops all others and calls `body`, which must not use the heap.
    pub fn stop_and_call<R>(&self, mutator: &Mutator, body: impl FnOnce() -> R) -> R {
        self.with_stopped_world(mutator, |_, _| body())
    }

    /// A mutator inside the gate has `function` run once for each mutator, itself among them, at a safepoint of that
    /// mutator; others run meanwhile ([`handshake`]). The function must not use the heap.
    pub fn handshake(&self, mutator: &Mutator, function: &(dyn Fn(&Mutator) + Sync)) {
        let _outside = self.outside(mutator, Passage::Stop);
        // SAFETY: what is in the list is a record that exists.
        let run = |mutator: *const ()| function(unsafe { &*mutator.cast::<Mutator>() });
        let each = |state: &State, visit: &mut dyn FnMut(Partner<'_>)| {
            state.mutators.partners().for_each(visit);
        };
        let bury = |state: &mut State| self.bury(state);
        self.collecting.with(&self.gate, |state| {
            handshake::handshake(state, each, bury, &run);
        });
    }

    /// Visits every object that is no filler and that there is at this edge. Buffers are retired.
    pub(in crate::scavenge) fn for_each_object(
        &self,
        world: &mut WorldStopped<'_>,
        edge: Edge,
        visit: &mut dyn FnMut(&Found),
    ) {
        let constants = Region {
            kind: Kind::Constants,
            node: 0,
            space: &self.constants,
        };
        self.walk_from_start(edge, &constants, visit);
        for region in self.regions().iter() {
            match edge {
                _ if !region.kind.is_nursery() => self.walk_bits(edge, region, visit),
                Edge::Copied if region.kind != self.nursery.to_kind() => {}
                Edge::Promoted => {}
                Edge::Marked => self.walk_bits(edge, region, visit),
                _ => self.walk_from_start(edge, region, visit),
            }
        }
        // Behind a marking what is new has bits, too, or is dead.
        if edge != Edge::Marked {
            self.for_each_new(edge, visit);
        }
        for generation in [Generation::Young, Generation::Old] {
            let end = self.large.start().add(self.large.bytes());
            self.large
                .for_each(&mut world.allocator(), generation, |object| {
                    if edge != Edge::Marked || self.bits().is_marked(object) {
                        visit(&self.found(edge, Kind::Large, object, end));
                    }
                });
        }
    }

    /// Visits every object that was allocated in the old space since the last collection. Buffers are retired.
    pub(in crate::scavenge) fn for_each_new(&self, edge: Edge, visit: &mut dyn FnMut(&Found)) {
        self.for_each_piece(|low, high| self.walk_range(edge, Kind::Eden, (low, high), visit));
    }

    /// Calls `each` with the bounds of every piece of the old space that was handed out since the last collection, upward.
    pub(in crate::scavenge) fn for_each_piece(&self, each: impl FnMut(Address, Address)) {
        if let (Some(_), Some(lines)) = (self.in_place(), &self.mark_region) {
            lines.for_each_piece(&self.old.region, each);
        }
    }

    pub(in crate::scavenge) fn found(
        &self,
        edge: Edge,
        kind: Kind,
        object: Address,
        end: Address,
    ) -> Found {
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
        let range = (region.space.start(), region.space.top());
        self.walk_range(edge, region.kind, range, visit);
    }

    fn walk_range(
        &self,
        edge: Edge,
        kind: Kind,
        (low, high): (Address, Address),
        visit: &mut dyn FnMut(&Found),
    ) {
        let mut at = low;
        while at < high {
            let found = self.found(edge, kind, at, high);
            if !found.header.type_id().is_filler() {
                visit(&found);
            }
            at = at.add(found.bytes);
        }
    }

    /// A mutator inside the gate stops all others, and does something that leaves the heap in order at each step: a panic
    /// there does no harm. Nothing is collected between what it does and the return.
    pub(in crate::scavenge) fn with_stopped_world<R>(
        &self,
        mutator: &Mutator,
        body: impl FnOnce(&mut State, &mut WorldStopped<'_>) -> R,
    ) -> R {
        self.leave(mutator, Passage::Stop);
        self.collecting.with(&self.gate, |state| {
            // SAFETY: the caller was inside the gate, so the world ran; `Resume` resumes it, and goes inside again.
            let world = unsafe { self.stop(state) };
            let mut resume = Resume {
                heap: self,
                mutator,
                state,
                world: Some(world),
            };
            let Resume {
                state,
                world: Some(world),
                ..
            } = &mut resume
            else {
                unreachable!("the world was stopped just now");
            };
            body(state, world)
        })
    }
}

/// Lets the mutators run again, of which the calling thread is one.
struct Resume<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    mutator: &'a Mutator,
    state: &'a mut State,
    /// Until the mutators run again.
    world: Option<WorldStopped<'a>>,
}

impl<F: SlotFormat> Drop for Resume<'_, F> {
    fn drop(&mut self) {
        if let Some(world) = self.world.take() {
            world.end();
            collecting::resume_inside(&self.heap.gate, self.state.mutators.polls());
            self.mutator.whereabouts.come_in(Passage::Stop);
        }
    }
}
