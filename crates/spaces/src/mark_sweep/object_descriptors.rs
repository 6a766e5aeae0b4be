//! Descriptors that objects bring along (`GC_DS_PER_OBJECT` in `gc_mark.h`), where marks are kept or made in steps.
//!
//! Such a descriptor stands in the object itself, and a change to it writes the object's page. Or it stands in the type
//! to which the first word leads, as in gcj, and that may be memory that nobody watches. Types are few. Each that a marker
//! has followed is noted, with its descriptor and one object of it. When the kernel is asked which pages were written, the
//! types are looked at again. As long as all say what they said, only objects on written pages are scanned again.
//!
//! Where that cannot be known, all objects of the kind are scanned again at the next question: a type has changed, or found
//! no room in the table; a descriptor names a mark procedure of the client's, which may read any memory; or a step beside the
//! program could not tell a type from the link of a free cell.
//!
//! # Invariants
//! - A type is read at a question only through a marked object that still has it: its program keeps the type of such an
//!   object readable, since a collection may scan it at any time.
//! - Marks that are kept were made since [`ObjectDescriptors::forget`], and the types that they rest on are in the table, or
//!   the kind's bit is set in `again`.
//!
//! Markers note types at the same time, without a lock. All else runs in the stopped world, on the collecting thread.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use gleaner_mem::Address;

use super::kinds::{Kinds, MAX_KINDS, descriptor};
use crate::mark_sweep::block::GRANULE;

/// Types that are remembered.
const TYPES: usize = 256;
/// Places at which one may stand.
const PROBES: usize = 8;

const _: () = assert!(MAX_KINDS <= u32::BITS as usize);

/// A type that was followed.
struct SeenType {
    /// Where its descriptor stands; 0 in an empty entry.
    place: AtomicUsize,
    /// The complement of the descriptor; 0 until it was noted.
    inverted: AtomicUsize,
    /// An object of the type; 0 until it was noted.
    object: AtomicUsize,
}

/// What is known of the descriptors that objects bring along.
pub struct ObjectDescriptors {
    /// Whether marks may be kept, so that types are noted.
    pub(super) noted: bool,
    /// The kinds of which all objects are scanned again at the next question, a bit for each.
    again: AtomicU32,
    types: [SeenType; TYPES],
}

impl ObjectDescriptors {
    /// Nothing is known.
    pub const fn new() -> ObjectDescriptors {
        ObjectDescriptors {
            noted: false,
            again: AtomicU32::new(0),
            types: [const {
                SeenType {
                    place: AtomicUsize::new(0),
                    inverted: AtomicUsize::new(0),
                    object: AtomicUsize::new(0),
                }
            }; TYPES],
        }
    }

    /// Marks are cleared. Types are noted from now on if marks may be kept.
    pub fn forget(&mut self, noted: bool) {
        self.noted = noted;
        *self.again.get_mut() = 0;
        self.forget_types();
    }

    fn forget_types(&self) {
        for seen in &self.types {
            // Relaxed: no marker runs.
            seen.place.store(0, Ordering::Relaxed);
            seen.inverted.store(0, Ordering::Relaxed);
            seen.object.store(0, Ordering::Relaxed);
        }
    }

    /// Whether all objects of a kind are scanned again at the next question.
    pub(super) fn is_scanned_again(&self, kind: usize) -> bool {
        self.again.load(Ordering::Relaxed) >> kind & 1 != 0
    }

    /// All objects of a kind are to be scanned again at the next question.
    pub(super) fn scan_again(&self, kind: u8) {
        // Relaxed: read when the phase has ended.
        if !self.is_scanned_again(usize::from(kind)) {
            self.again.fetch_or(1 << kind, Ordering::Relaxed);
        }
    }

    /// Notes that at `place` the descriptor `found` stands, which `object` brings along; false if that cannot be remembered, or
    /// was noted differently.
    #[inline]
    pub(super) fn note(&self, place: usize, found: usize, object: usize) -> bool {
        if found == usize::MAX {
            return false; // Its complement says that nothing was noted.
        }
        let first = hash(place);
        for probe in 0..PROBES {
            let seen = &self.types[(first + probe) % TYPES];
            // Relaxed, here and below: each word is of use by itself, and the end of the phase orders all.
            let known = match seen.place.load(Ordering::Relaxed) {
                0 => {
                    let taken =
                        seen.place
                            .compare_exchange(0, place, Ordering::Relaxed, Ordering::Relaxed);
                    taken.err().unwrap_or(place)
                }
                known => known,
            };
            if known != place {
                continue;
            }
            if seen.inverted.load(Ordering::Relaxed) == !found {
                return true;
            }
            let noted =
                seen.inverted
                    .compare_exchange(0, !found, Ordering::Relaxed, Ordering::Relaxed);
            return match noted {
                Ok(_) => {
                    seen.object.store(object, Ordering::Relaxed);
                    true
                }
                Err(other) => other == !found,
            };
        }
        false
    }

    /// Looks at all types, before the kernel is asked what was written: where one has changed, all objects that have their
    /// descriptors in types are scanned again. `read` reads the descriptor of the type of an object, if that still has its
    /// descriptor at this place.
    pub(super) fn look_at_types(
        &self,
        kinds: &Kinds,
        read: impl Fn(usize, usize) -> Option<usize>,
    ) {
        let by_type = kinds_by_type(kinds);
        let holds = |seen: &SeenType| {
            let place = seen.place.load(Ordering::Relaxed);
            let object = seen.object.load(Ordering::Relaxed);
            place == 0 || read(object, place) == Some(!seen.inverted.load(Ordering::Relaxed))
        };
        if self.again.load(Ordering::Relaxed) & by_type != 0 || !self.types.iter().all(holds) {
            self.forget_types();
            self.again.fetch_or(by_type, Ordering::Relaxed);
        }
    }

    /// The question has been answered: what is to be scanned again is known.
    pub(super) fn note_question(&self) {
        self.again.store(0, Ordering::Relaxed);
    }
}

impl Default for ObjectDescriptors {
    fn default() -> ObjectDescriptors {
        ObjectDescriptors::new()
    }
}

fn hash(place: usize) -> usize {
    (place >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - TYPES.trailing_zeros())
}

/// Whether a descriptor says that the object's is in its type.
pub(super) fn is_in_type(descriptor: usize) -> bool {
    descriptor & descriptor::TAGS == descriptor::PER_OBJECT && (descriptor as isize) < 0
}

/// The kinds whose objects have their descriptors in types, a bit for each.
fn kinds_by_type(kinds: &Kinds) -> u32 {
    (0..kinds.count())
        .filter(|number| {
            let kind = kinds.get(*number);
            kind.is_some_and(|kind| is_in_type(kind.descriptor_for(GRANULE)))
        })
        .fold(0, |all, number| all | 1 << number)
}

/// Where the descriptor stands in the type to which the first word of an object leads.
pub(super) fn place_in_type(first_word: usize, descriptor: usize) -> Address {
    let back = descriptor.wrapping_add(descriptor::INDIRECT_BIAS - descriptor::PER_OBJECT);
    Address::new(first_word.wrapping_sub(back))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn by_type() -> Kinds {
        let mut kinds = Kinds::new();
        let mut kind = *kinds
            .get(1)
            .expect("there is a kind of objects with pointers");
        kind.add_size = false;
        kind.descriptor =
            0usize.wrapping_sub(8 + descriptor::INDIRECT_BIAS) | descriptor::PER_OBJECT;
        assert_eq!(kinds.add(kind), Some(4));
        kinds
    }

    #[test]
    fn types_that_say_what_they_said_need_no_second_scan() {
        let (kinds, noted) = (by_type(), ObjectDescriptors::new());
        assert!(noted.note(0x1008, 41, 16) && noted.note(0x2008, 0, 32));
        assert!(noted.note(0x1008, 41, 48));
        noted.look_at_types(&kinds, |object, place| {
            assert!(matches!((object, place), (16, 0x1008) | (32, 0x2008)));
            Some(if place == 0x1008 { 41 } else { 0 })
        });
        assert!(!noted.is_scanned_again(4));
    }

    #[test]
    fn a_type_that_has_changed_has_the_kinds_with_types_scanned_again_once() {
        for now in [Some(42), None] {
            let (kinds, noted) = (by_type(), ObjectDescriptors::new());
            assert!(noted.note(0x1008, 41, 16));
            noted.look_at_types(&kinds, |_, _| now);
            assert!(noted.is_scanned_again(4) && !noted.is_scanned_again(1));
            noted.note_question();
            noted.look_at_types(&kinds, |_, _| panic!("the types are forgotten"));
            assert!(!noted.is_scanned_again(4));
        }
    }

    #[test]
    fn what_was_seen_differently_or_finds_no_room_is_said() {
        let noted = ObjectDescriptors::new();
        assert!(noted.note(0x1008, 41, 16) && !noted.note(0x1008, 43, 16));
        assert!(!noted.note(0x2008, usize::MAX, 16));
        let refused = (1..=2 * TYPES).filter(|number| !noted.note(number << 12, 41, 16));
        assert!(refused.count() >= TYPES);
    }

    #[test]
    fn a_kind_that_is_scanned_again_has_its_types_noted_anew() {
        let (kinds, noted) = (by_type(), ObjectDescriptors::new());
        assert!(noted.note(0x1008, 41, 16));
        noted.scan_again(4);
        noted.look_at_types(&kinds, |_, _| Some(41));
        noted.note_question();
        // 43 is no contradiction: nothing is known of that type.
        assert!(!noted.is_scanned_again(4) && noted.note(0x1008, 43, 16));
    }
}
