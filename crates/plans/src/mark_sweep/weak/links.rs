//! Disappearing links: words that the collector sets to null when the object they stand for dies.
//!
//! The idea: a link is the address of a word, registered with an object. The word is usually a disguised pointer, or
//! lies where no trace looks; it may also be an ordinary field, which is how clients break finalization cycles. The
//! same table serves twice, for short links and for long ones: only the moment of [`Links::clear_dead`] differs.
//!
//! A link that lies inside a heap object is forgotten when that object dies, because its word is about to be reused.
//!
//! # Invariants
//! A link has one object; registering it again replaces the object.
//!
//! Threads: the holder of the allocator lock; the functions that take a tracer belong to the stopped world.

use super::outcome::{Fault, NoMemory};
use super::table::Table;
use super::tracer::Tracer;
use gleaner_mem::address::Address;

/// How a registration went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// The link is new.
    Registered,
    /// The link was registered already; it now stands for the object given last.
    Duplicate,
}

/// How a move went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The registration is at the new address, which may equal the old one.
    Moved,
    /// Another link is registered at the new address; nothing has changed.
    Duplicate,
    /// No link is registered at the old address.
    NotFound,
}

/// A set of links. Protected by the allocator lock.
pub struct Links {
    /// From the link's address to its object.
    objects: Table<Address>,
}

impl Default for Links {
    fn default() -> Links {
        Links::new()
    }
}

impl Links {
    /// No links; allocates nothing.
    pub const fn new() -> Links {
        Links {
            objects: Table::new(),
        }
    }

    /// Number of registered links.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// True if no link is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object for which `link` is registered.
    pub fn object_of(&self, link: Address) -> Option<Address> {
        self.objects.get(link).copied()
    }

    /// Has the word at `link` cleared when `object` dies. The word stays writable until the link is gone.
    pub fn register(&mut self, link: Address, object: Address) -> Result<Registration, NoMemory> {
        if let Some(present) = self.objects.get_mut(link) {
            *present = object;
            return Ok(Registration::Duplicate);
        }
        self.objects.reserve_one()?;
        self.objects.insert_reserved(link, object);
        Ok(Registration::Registered)
    }

    /// Forgets `link`; false if it was not registered.
    pub fn unregister(&mut self, link: Address) -> bool {
        self.objects.remove(link).is_some()
    }

    /// Moves the registration of `old` to `new`, for a client that copies the word elsewhere. Needs no memory.
    pub fn move_link(&mut self, old: Address, new: Address) -> Move {
        let Some(object) = self.object_of(old) else {
            return Move::NotFound;
        };
        if old == new {
            return Move::Moved;
        }
        if self.objects.get(new).is_some() {
            return Move::Duplicate;
        }
        self.objects.remove(old);
        self.objects.insert_reserved(new, object);
        Move::Moved
    }

    /// Clears and forgets the links whose objects are unmarked; returns their number.
    pub(super) fn clear_dead(&mut self, tracer: &mut dyn Tracer) -> usize {
        self.objects.retain(|link, object| {
            let keep = tracer.is_marked(*object);
            if !keep {
                tracer.clear_link(link);
            }
            keep
        })
    }

    /// Whether all objects are marked.
    pub(super) fn lead_to_marked(&self, tracer: &dyn Tracer) -> bool {
        self.objects
            .iter()
            .all(|(_, object)| tracer.is_marked(*object))
    }

    /// Forgets the links that lie in unmarked heap objects; returns their number.
    pub(super) fn drop_dangling(&mut self, tracer: &dyn Tracer) -> usize {
        self.objects.retain(|link, _| !dangles(tracer, link))
    }

    /// Checks that links and objects outlive this collection.
    pub(super) fn verify(&self, tracer: &dyn Tracer) -> Result<(), Fault> {
        for (link, object) in self.objects.iter() {
            if !tracer.is_marked(*object) {
                let rule = "the object of a disappearing link is marked";
                let address = *object;
                return Err(Fault { rule, address });
            }
            if dangles(tracer, link) {
                let rule = "a disappearing link lies outside unmarked objects";
                let address = link;
                return Err(Fault { rule, address });
            }
        }
        Ok(())
    }
}

/// Whether `link` lies in a heap object that is about to be reclaimed.
fn dangles(tracer: &dyn Tracer, link: Address) -> bool {
    tracer
        .base(link)
        .is_some_and(|container| !tracer.is_marked(container))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address::new(0x100);
    const B: Address = Address::new(0x108);
    const OBJECT: Address = Address::new(0x4000);
    const OTHER: Address = Address::new(0x5000);

    #[test]
    fn a_second_registration_replaces_the_object() {
        let mut links = Links::new();
        assert_eq!(links.register(A, OBJECT), Ok(Registration::Registered));
        assert_eq!(links.register(A, OTHER), Ok(Registration::Duplicate));
        assert_eq!(links.object_of(A), Some(OTHER));
        assert_eq!(links.len(), 1);
    }

    #[test]
    fn unregistering_tells_whether_there_was_a_link() {
        let mut links = Links::new();
        links.register(A, OBJECT).unwrap();
        assert!(!links.unregister(B));
        assert!(links.unregister(A));
        assert!(!links.unregister(A));
        assert!(links.is_empty());
    }

    #[test]
    fn a_move_keeps_the_object_and_disturbs_no_other_link() {
        let mut links = Links::new();
        assert_eq!(links.move_link(A, B), Move::NotFound);
        assert_eq!(links.move_link(A, A), Move::NotFound);
        links.register(A, OBJECT).unwrap();
        assert_eq!(links.move_link(A, A), Move::Moved);
        assert_eq!(links.move_link(A, B), Move::Moved);
        assert_eq!(links.object_of(A), None);
        assert_eq!(links.object_of(B), Some(OBJECT));
        links.register(A, OTHER).unwrap();
        assert_eq!(links.move_link(A, B), Move::Duplicate);
        assert_eq!(links.object_of(A), Some(OTHER));
        assert_eq!(links.object_of(B), Some(OBJECT));
    }
}
