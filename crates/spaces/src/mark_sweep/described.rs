//! How the marker follows descriptors that objects bring along, and what it counts for objects that are not described by a
//! length ([`super::object_descriptors`]).
//!
//! Runs on all markers: in the stopped world, or beside the program.

use core::sync::atomic::Ordering;

use gleaner_mem::Address;

use super::MARKED;
use super::allocate::cookie;
use super::entry::Entry;
use super::kinds::{Kinds, descriptor};
use super::object_descriptors::{is_in_type, place_in_type};
use super::scan::{MarkContext, Scanner};
use crate::mark_sweep::block::Resolved;

impl MarkContext {
    /// Looks at all types that marks rest on: see [`ObjectDescriptors::look_at_types`].
    pub(super) fn look_at_types(&self, kinds: &Kinds) {
        self.descriptors.look_at_types(kinds, |object, place| {
            let found = self.table.resolve_checked(object)?;
            // SAFETY: a resolved object's block, mark and first word.
            let (descriptor, mark, first) = unsafe {
                let mark = (*found.mark).load(Ordering::Relaxed);
                ((*found.block).descriptor, mark, found.base.load())
            };
            let has_type = found.displacement == 0
                && mark == MARKED
                && is_in_type(descriptor)
                && place_in_type(first, descriptor).word() == place;
            // SAFETY: the type of a marked object is readable.
            has_type.then(|| unsafe { Address::new(place).load_shared() })
        });
    }

    /// The object or element that begins at `start` was scanned by what may change without a write to it, or could not be
    /// scanned in a step. If its block does not say so of all its objects, all objects of the kind are scanned again at the next
    /// question.
    pub(super) fn scan_again(&self, start: usize) {
        let Some(found) = self.table.resolve_checked(start) else {
            return;
        };
        // SAFETY: a resolved object's block.
        let (descriptor, kind) = unsafe { ((*found.block).descriptor, (*found.block).kind) };
        if !self.is_client_proc(descriptor) {
            self.descriptors.scan_again(kind);
        }
    }

    /// What scanning an entry counts for, which has no length as its `descriptor`, in bytes: whole objects, since what is to be
    /// scanned is reckoned by these. Of an element that a bitmap describes, as far as that goes.
    pub(super) fn described_bytes(&self, entry: Entry, descriptor: usize) -> usize {
        if descriptor & descriptor::TAGS == descriptor::BITMAP && entry.descriptor == descriptor {
            return (u64::BITS - (descriptor & !descriptor::TAGS).trailing_zeros()) as usize * 8;
        }
        match self.table.resolve_checked(entry.start) {
            // SAFETY: a resolved object's block.
            Some(found) if found.displacement == 0 => unsafe { (*found.block).bytes },
            _ => 0,
        }
    }

    /// Whether the first word of an object may be the link of a free cell: it leads into a block of the same kind.
    fn may_link(&self, start: usize, first_word: usize) -> bool {
        // SAFETY: a resolved object's block.
        let kind_of = |found: Resolved| unsafe { (*found.block).kind };
        let kind = |word| self.table.resolve_checked(word).map(kind_of);
        self.table.contains(first_word)
            && kind(first_word).is_none_or(|linked| Some(linked) == kind(start))
    }
}

impl Scanner {
    /// The descriptor that an object brings along; nothing if it has none, or could not be read in a step.
    ///
    /// # Safety
    /// As for [`Scanner::scan_entry`], for an object of the heap with such a `descriptor`.
    pub(super) unsafe fn descriptor_of(&self, start: usize, descriptor: usize) -> Option<usize> {
        let object = Address::new(start);
        if !is_in_type(descriptor) {
            let place = object.add(descriptor - descriptor::PER_OBJECT);
            // SAFETY: the client promised that a descriptor stands there.
            let found = unsafe { place.load_shared() };
            return (!self.is_of_free(place, found)).then_some(found);
        }
        // SAFETY: the first word of an object is readable.
        let first_word = unsafe { object.load_shared() };
        if first_word == 0 || self.is_poison(first_word) {
            return None;
        }
        let context = self.context();
        // Beside the program a cell to which a link leads may be handed out and written before it is read.
        if context.mode.world_runs() && context.may_link(start, first_word) {
            context.scan_again(start);
            return None;
        }
        let place = place_in_type(first_word, descriptor);
        // SAFETY: the client promised that a type with a descriptor stands there; the first word of a free cell links to
        // another free cell.
        let found = unsafe { place.load_shared() };
        let is_of_free = self.is_of_free(place, found);
        if context.descriptors.noted && !context.observes {
            let is_type = !is_of_free || !context.may_link(start, first_word);
            if !is_type || !context.descriptors.note(place.word(), found, start) {
                context.scan_again(start);
            }
        }
        (!is_of_free).then_some(found)
    }

    /// Whether what was read at `place` as a descriptor is of a free cell. Words of a free cell are zero, poison, the cookie of an
    /// explicit free in its second word, or a link: an address of the heap, as no length is. Bitmaps and procedures may look
    /// so, but no link has their tags.
    fn is_of_free(&self, place: Address, found: usize) -> bool {
        let is_link =
            found & descriptor::TAGS == descriptor::LENGTH && self.context().table.contains(found);
        found == 0 || self.is_poison(found) || found == cookie(place.sub(8)) || is_link
    }
}
