//! Segments of the table of finalizers: some hundred entries one behind the other, with a header in front.
//!
//! A segment has finalizers that wait, as they were made, or ready ones of one order, or is free. It has a number. So has
//! each entry, which is that of its segment times [`SEGMENT_ENTRIES`] and its place there.
//!
//! # Invariants
//! - An entry is touched by a mutator inside the gate with the table's lock, or in a stopped world by the worker whose task
//!   its segment is, or by the one that moves a finalizer there.
//! - Headers are atomics, all Relaxed: the lock, or the phases of the collection, order what is done with them.

use core::array;
use core::ops::Range;

use gleaner_base::sync::{AtomicBool, AtomicU32, Ordering};
use gleaner_mem::Address;
use gleaner_mem::slot::{SlotFormat, Value, Wide};

use super::finalizers::{Condition, ORDERS};

/// Entries of a segment.
pub(super) const SEGMENT_ENTRIES: u32 = 512;
/// No segment.
pub(super) const NONE: u32 = u32::MAX;
/// Where finalizers of a segment go that wait on: behind those that become ready, which go by their orders.
pub(super) const KEPT: usize = ORDERS;

const ENTRY_BYTES: usize = 3 * Wide::BYTES;
const HEADER_BYTES: usize = size_of::<Header>().next_multiple_of(64);
/// Bytes of a segment.
pub(super) const SEGMENT_BYTES: usize = HEADER_BYTES + SEGMENT_ENTRIES as usize * ENTRY_BYTES;

/// What is known of a segment. It may be all zero before it is first used.
#[repr(C)]
struct Header {
    position: AtomicU32,
    is_ready: AtomicBool,
    is_young: AtomicBool,
    has_values: AtomicBool,
    first: AtomicU32,
    end: AtomicU32,
    next: AtomicU32,
    taken_back: AtomicU32,
    dead: [AtomicU32; ORDERS],
    to: [AtomicU32; ORDERS + 1],
}

/// A segment.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) number: u32,
    header: &'a Header,
}

/// Declares a word of the header with its setter.
macro_rules! words {
    ($($(#[$meta:meta])* $word:ident, $set:ident;)+) => {
        $(
            $(#[$meta])*
            pub(super) fn $word(self) -> u32 {
                self.header.$word.load(Ordering::Relaxed)
            }

            pub(super) fn $set(self, to: u32) {
                self.header.$word.store(to, Ordering::Relaxed);
            }
        )+
    };
}

/// Declares a flag of the header with its setter.
macro_rules! flags {
    ($($(#[$meta:meta])* $flag:ident, $set:ident;)+) => {
        $(
            $(#[$meta])*
            pub(super) fn $flag(self) -> bool {
                self.header.$flag.load(Ordering::Relaxed)
            }

            /// Writes only what is not there already: others may read the line.
            pub(super) fn $set(self, to: bool) {
                if self.$flag() != to {
                    self.header.$flag.store(to, Ordering::Relaxed);
                }
            }
        )+
    };
}

impl<'a> Segment<'a> {
    words! {
        /// Where it stands in the table's list.
        position, set_position;
        /// The first entry that was not handed out yet.
        first, set_first;
        /// Behind the last entry.
        end, set_end;
        /// The one behind it: of ready finalizers of the same order, of free segments, or where finalizers are moved to.
        next, set_next;
        /// How many entries were taken back, as this collection has found.
        taken_back, set_taken_back;
    }
    flags! {
        /// Whether its finalizers are ready.
        is_ready, set_ready;
        /// Whether a slot may hold a young object.
        is_young, set_young;
        /// Whether the value of some finalizer may be an object.
        has_values, set_values;
    }

    /// It is empty from now on, and in no list.
    pub(super) fn clear(self, is_ready: bool) {
        self.set_first(0);
        self.set_end(0);
        self.set_next(NONE);
        self.set_ready(is_ready);
        self.set_young(false);
        self.set_values(is_ready);
    }

    /// How many more entries it has room for.
    pub(super) fn room(self) -> u32 {
        SEGMENT_ENTRIES - self.end()
    }

    /// By order, of how many finalizers this collection has found that their objects are dead.
    pub(super) fn dead(self) -> [u32; ORDERS] {
        array::from_fn(|order| self.header.dead[order].load(Ordering::Relaxed))
    }

    pub(super) fn set_dead(self, dead: [u32; ORDERS]) {
        for (word, count) in self.header.dead.iter().zip(dead) {
            word.store(count, Ordering::Relaxed);
        }
    }

    /// By order, the entries to which the finalizers are moved, from there on; the last is for those that are [`KEPT`].
    pub(super) fn targets(self) -> [u32; ORDERS + 1] {
        array::from_fn(|stream| self.header.to[stream].load(Ordering::Relaxed))
    }

    pub(super) fn set_target(self, stream: usize, number: u32) {
        self.header.to[stream].store(number, Ordering::Relaxed);
    }

    /// The number of its entry at this place.
    pub(super) fn number_of(self, place: u32) -> u32 {
        self.number * SEGMENT_ENTRIES + place
    }

    /// Its entry at this place.
    pub(super) fn entry(self, place: u32) -> Entry {
        let start = Address::of(&raw const *self.header).add(HEADER_BYTES);
        Entry(start.add(place as usize * ENTRY_BYTES))
    }

    /// The places of its entries.
    pub(super) fn places(self) -> Range<u32> {
        self.first()..self.end()
    }

    /// Its entries.
    pub(super) fn entries(self) -> impl Iterator<Item = Entry> + 'a {
        self.places().map(move |place| self.entry(place))
    }
}

/// The segment of this number, where segments lie from `start` on.
///
/// # Safety
/// Its memory is there as long as the reference.
pub(super) unsafe fn segment<'a>(start: Address, number: u32) -> Segment<'a> {
    let header = start.add(number as usize * SEGMENT_BYTES).ptr::<Header>();
    // SAFETY: the memory is there, as asked, and zeroed memory is a header.
    let header = unsafe { &*header };
    Segment { number, header }
}

/// A finalizer's place in a segment: two wide slots, for the object and the value, and the [`Condition`].
#[derive(Clone, Copy)]
pub(super) struct Entry(Address);

impl Entry {
    pub(super) fn slots(self) -> [Address; 2] {
        [self.0, self.0.add(Wide::BYTES)]
    }

    pub(super) fn object(self) -> Value {
        self.load(self.slots()[0])
    }

    pub(super) fn value(self) -> Value {
        self.load(self.slots()[1])
    }

    fn load(self, slot: Address) -> Value {
        // SAFETY: a slot of an entry, in memory that is there.
        unsafe { Wide::load(slot, Address::NULL) }
    }

    pub(super) fn set_object(self, object: Value) {
        // SAFETY: a slot of an entry, in memory that is there.
        unsafe { Wide::store(self.slots()[0], Address::NULL, object) };
    }

    fn set_value(self, value: Value) {
        // SAFETY: a slot of an entry, in memory that is there.
        unsafe { Wide::store(self.slots()[1], Address::NULL, value) };
    }

    pub(super) fn condition(self) -> Condition {
        // SAFETY: the word behind the slots of an entry, which nobody else touches (see the invariants).
        Condition(unsafe { self.0.add(2 * Wide::BYTES).load() } as u64)
    }

    pub(super) fn set_condition(self, condition: Condition) {
        // SAFETY: the word behind the slots of an entry, which nobody else touches (see the invariants).
        unsafe { self.0.add(2 * Wide::BYTES).store(condition.0 as usize) };
    }

    pub(super) fn set(self, object: Value, value: Value, condition: Condition) {
        self.set_object(object);
        self.set_value(value);
        self.set_condition(condition);
    }
}
