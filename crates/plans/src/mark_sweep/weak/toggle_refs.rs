//! Toggle references: outside references to heap objects that are strong or weak as their owner says at the time.
//!
//! The idea: before each collection the door asks the client about every object and records the verdict; then strong
//! references are roots and weak ones go when their objects die. The client is asked one [`Turn`] at a time, with the
//! table consistent between turns, because its procedure may leave in the middle.
//!
//! # Invariants
//! An object added twice has two references, each with its own verdict.
//!
//! Threads: the holder of the allocator lock; the functions that take a tracer belong to the stopped world.

use super::outcome::{Fault, NoMemory};
use super::tracer::Tracer;
use alloc::vec::Vec;
use gleaner_mem::address::Address;

/// What the client wants done with a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Forget it.
    Drop,
    /// Let it keep its object alive.
    Strong,
    /// Let it go with its object.
    Weak,
}

/// How far one round of asking has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(usize);

/// One reference.
struct ToggleRef {
    object: Address,
    strong: bool,
}

/// The toggle references of a heap. Protected by the allocator lock.
pub struct ToggleRefs {
    references: Vec<ToggleRef>,
}

impl Default for ToggleRefs {
    fn default() -> ToggleRefs {
        ToggleRefs::new()
    }
}

impl ToggleRefs {
    /// No references; allocates nothing.
    pub const fn new() -> ToggleRefs {
        ToggleRefs {
            references: Vec::new(),
        }
    }

    /// Number of references.
    pub fn len(&self) -> usize {
        self.references.len()
    }

    /// True if there is no reference.
    pub fn is_empty(&self) -> bool {
        self.references.is_empty()
    }

    /// Adds a reference to `object`.
    pub fn add(&mut self, object: Address, strong: bool) -> Result<(), NoMemory> {
        self.references.try_reserve(1)?;
        self.references.push(ToggleRef { object, strong });
        Ok(())
    }

    /// The object to ask about in this turn; `None` when the round is over. A round starts with `Turn::default()`:
    /// while there is an object, ask, then [`ToggleRefs::decide`].
    pub fn object_at(&self, turn: Turn) -> Option<Address> {
        self.references
            .get(turn.0)
            .map(|reference| reference.object)
    }

    /// Records the verdict on the object of `turn` and passes to the next turn.
    pub fn decide(&mut self, turn: &mut Turn, verdict: Verdict) {
        match verdict {
            // The last reference takes the place, and thereby this same turn.
            Verdict::Drop => {
                self.references.swap_remove(turn.0);
            }
            Verdict::Strong | Verdict::Weak => {
                self.references[turn.0].strong = verdict == Verdict::Strong;
                turn.0 += 1;
            }
        }
    }

    /// Visits the objects of strong references, roots of the main trace.
    pub fn for_each_root(&self, visit: &mut dyn FnMut(Address)) {
        for reference in self.references.iter().filter(|r| r.strong) {
            visit(reference.object);
        }
    }

    /// Whether all objects are marked.
    pub(super) fn lead_to_marked(&self, tracer: &dyn Tracer) -> bool {
        self.references.iter().all(|r| tracer.is_marked(r.object))
    }

    /// Forgets the references to unmarked objects; returns their number.
    pub(super) fn drop_dead(&mut self, tracer: &dyn Tracer) -> usize {
        let before = self.references.len();
        self.references.retain(|r| tracer.is_marked(r.object));
        before - self.references.len()
    }

    /// Checks that all objects outlive this collection.
    pub(super) fn verify(&self, tracer: &dyn Tracer) -> Result<(), Fault> {
        match self.references.iter().find(|r| !tracer.is_marked(r.object)) {
            None => Ok(()),
            Some(reference) => Err(Fault {
                rule: "the object of a toggle reference is marked",
                address: reference.object,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn objects(count: usize) -> Vec<Address> {
        (1..=count).map(|n| Address::new(n * 64)).collect()
    }

    #[test]
    fn a_round_asks_about_each_reference_once() {
        let mut refs = ToggleRefs::new();
        for object in objects(9) {
            refs.add(object, true).unwrap();
        }
        let verdicts = [Verdict::Drop, Verdict::Strong, Verdict::Weak];
        let mut asked = Vec::new();
        let mut turn = Turn::default();
        while let Some(object) = refs.object_at(turn) {
            asked.push(object);
            refs.decide(&mut turn, verdicts[object.word() / 64 % 3]);
        }
        asked.sort();
        assert_eq!(asked, objects(9));
        assert_eq!(refs.len(), 6);
        let mut roots = Vec::new();
        refs.for_each_root(&mut |root| roots.push(root.word() / 64));
        roots.sort();
        assert_eq!(roots, [1, 4, 7]);
    }

    #[test]
    fn a_round_that_breaks_off_leaves_the_rest_as_it_was() {
        let mut refs = ToggleRefs::new();
        for object in objects(3) {
            refs.add(object, true).unwrap();
        }
        let mut turn = Turn::default();
        refs.decide(&mut turn, Verdict::Weak);
        let mut strong = 0;
        refs.for_each_root(&mut |_| strong += 1);
        assert_eq!((refs.len(), strong), (3, 2));
    }
}
