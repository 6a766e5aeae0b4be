//! The invariants of the precise heap, checked in a stopped world at the edges of phases (`verify=edges`).
//!
//! Every space is walked: each header is normal and names a type, each object ends before the next begins and inside
//! its space, and no space reaches into the next. Every slot and root then holds null, an immediate, or the address of an
//! object that was walked over. A slot of an old object that refers to a young one lies on a dirty card (I5). The start
//! bits of the nursery, which are clear outside of a full collection, serve as its set of objects.
//!
//! A violation stops the process with space, address, header and the last events.

use core::fmt;

use gleaner_base::events::Ring;
use gleaner_mem::Address;
use gleaner_mem::header::Header;
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::slot::{SlotFormat, Wide};

use super::walk::Found;
use super::{Scavenge, State};

impl<F: SlotFormat> Scavenge<F> {
    /// Checks everything; how many objects there are.
    pub(super) fn verify_heap(&self, state: &State) -> usize {
        self.verify_ends(state);
        let (mut objects, mut free) = (0, ("", Address::NULL));
        self.for_each_object(&mut |found| {
            if free.0 != found.space || found.space == "large" {
                free = (found.space, Address::NULL);
            }
            self.verify_place(state, found, free.1);
            free.1 = found.object.add(found.bytes);
            if self.in_nursery(found.object) {
                self.bits.mark(found.object);
            }
            objects += 1;
        });
        self.for_each_object(&mut |found| self.verify_slots(state, found));
        self.verify_roots(state);
        for region in self.nursery.regions() {
            self.bits
                .clear_starts(region.start(), region.top().align_up(WORD_BYTES));
        }
        objects
    }

    fn verify_ends(&self, state: &State) {
        let [eden, first, second] = self.nursery.regions();
        let regions = [&self.immobile.region, &self.old.region, eden, first, second];
        let next = regions.iter().skip(1).map(|region| region.start());
        let names = ["immobile", "old", "eden", "survivor 0", "survivor 1"];
        let ends = next.chain([self.large.start()]);
        for ((region, next), space) in regions.iter().zip(ends).zip(names) {
            self.require(
                state,
                region.end() <= next,
                "a space ends where the next begins",
                space,
                region.end(),
                Header::forwarded_to(Address::NULL),
            );
        }
    }

    fn verify_place(&self, state: &State, found: &Found, free: Address) {
        let &Found {
            space,
            object,
            header,
            bytes,
            end,
        } = found;
        let require = |holds, what| self.require(state, holds, what, space, object, header);
        require(
            object >= free,
            "an object begins where the one before has ended",
        );
        require(
            bytes <= end.offset_from(object),
            "an object ends inside its space",
        );
    }

    fn verify_slots(&self, state: &State, found: &Found) {
        let (object, header, space) = (found.object, found.header, found.space);
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
                    let dirty = self.cards.is_dirty(slot);
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
        if self.large.contains(at) {
            return self.large.is_object(at);
        }
        let [eden, first, second] = self.nursery.regions();
        let regions = [&self.immobile.region, &self.old.region, eden, first, second];
        at.word().is_multiple_of(8)
            && regions
                .iter()
                .any(|region| at >= region.start() && at < region.top())
            && self.bits.is_marked(at)
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
