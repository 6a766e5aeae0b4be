//! The invariants of the precise heap, checked in a stopped world at the edges of phases (`verify=edges`).
//!
//! Every space is walked from its start to its top: each header is normal and names a type, each object ends inside.
//! Every slot and root then holds null, an immediate, or the address of an object that was walked over. A slot of an
//! old object that refers to a young one lies on a dirty card (I5). The start bits of the marks, which are clear
//! outside of a full collection, serve as the set of objects.
//!
//! A violation stops the process with space, address, header and the last events.

use core::fmt;

use gleaner_base::events::Ring;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::mark_bits::WORD_BYTES;
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_spaces::bump::BumpRegion;

use super::{Scavenge, State};

const SPACES: [&str; 4] = ["old", "eden", "survivor 0", "survivor 1"];

impl<F: SlotFormat> Scavenge<F> {
    /// Checks everything; how many objects there are.
    pub(super) fn verify_heap(&self, state: &State) -> usize {
        let mut objects = 0;
        for (region, space) in self.regions().into_iter().zip(SPACES) {
            self.walk(region, |object, header, bytes| {
                let ends_inside = bytes <= region.top().offset_from(object);
                self.require(
                    state,
                    ends_inside,
                    "an object ends inside its space",
                    space,
                    object,
                    header,
                );
                self.marks.mark(object);
                objects += 1;
            });
        }
        for (region, space) in self.regions().into_iter().zip(SPACES) {
            self.walk(region, |object, header, _| {
                self.verify_slots(state, space, object, header)
            });
        }
        self.verify_roots(state);
        for region in self.regions() {
            // SAFETY: the world is stopped, and no phase runs.
            unsafe {
                self.marks
                    .clear(region.start(), region.top().align_up(WORD_BYTES))
            };
        }
        objects
    }

    /// Visits each object that is no filler, with its header and size.
    fn walk(&self, region: &BumpRegion, mut visit: impl FnMut(Address, Header, usize)) {
        let mut at = region.start();
        while at < region.top() {
            // SAFETY: spaces are walkable from their start.
            let header = unsafe { header::load(at, Ordering::Relaxed) };
            let known = header.is_normal() && header.type_id().get() < self.model.types.count();
            assert!(
                known,
                "verify: no object at {at:?}, header {:#018x}",
                header.word()
            );
            // SAFETY: as above.
            let bytes = unsafe { self.model.size(header, at) };
            if !header.type_id().is_filler() {
                visit(at, header, bytes);
            }
            at = at.add(bytes);
        }
    }

    fn verify_slots(&self, state: &State, space: &str, object: Address, header: Header) {
        let base = self.model.base;
        let is_old = !self.is_young(object);
        // SAFETY: the object was walked over.
        unsafe {
            self.model.scan(header, object, |slot| {
                let Some(referent) = F::load(slot, base).as_object() else {
                    return;
                };
                self.require(
                    state,
                    self.is_object(referent),
                    "a slot refers to an object",
                    space,
                    slot,
                    header,
                );
                if is_old && self.is_young(referent) {
                    let dirty = self.old.cards.is_dirty(slot);
                    self.require(
                        state,
                        dirty,
                        "an old slot to a young object is on a dirty card",
                        space,
                        slot,
                        header,
                    );
                }
            });
        }
    }

    fn verify_roots(&self, state: &State) {
        let check = |slot: Address| {
            // SAFETY: root slots are wide, and their owner is stopped.
            if let Some(object) = unsafe { Wide::load(slot, Address::NULL) }.as_object() {
                let header = Header::forwarded_to(Address::NULL);
                self.require(
                    state,
                    self.is_object(object),
                    "a root refers to an object",
                    "roots",
                    slot,
                    header,
                );
            }
        };
        for mutator in &state.mutators {
            // SAFETY: attached mutators exist, and they are stopped.
            unsafe { mutator.as_ref().visit_roots(check) };
        }
        self.weak.visit_all(check);
        (0..self.handles.prepare()).for_each(|number| check(self.handles.slot(number as u32)));
    }

    fn is_object(&self, at: Address) -> bool {
        at.word().is_multiple_of(8)
            && self
                .regions()
                .iter()
                .any(|region| at >= region.start() && at < region.top())
            && self.marks.is_marked(at)
    }

    fn require(
        &self,
        state: &State,
        holds: bool,
        what: &str,
        space: &str,
        at: Address,
        header: Header,
    ) {
        if !holds {
            panic!(
                "verify: broken: {what}; space {space}, address {at:?}, header {:#018x}; last events:\n{}",
                header.word(),
                LastEvents(&state.events)
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
