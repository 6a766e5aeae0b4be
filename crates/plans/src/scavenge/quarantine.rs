//! Quarantine (`quarantine=N`): where eden and the survivor spaces were is without access for N collections, so that a
//! reference that was kept outside of a root slot faults at its first use, with a message that says which collection
//! evacuated the place.
//!
//! Each fragment of the three spaces has N + 1 places of its largest size. One that was in use and is empty after a
//! collection goes to its next place. The place that it leaves gives its memory back and loses access, and gets it
//! again when the space comes round. Without this a space is used again from its start, and a stale reference finds a
//! valid object.
//!
//! # Invariants
//! - A place without access was evacuated: no object, filler or buffer is there, and no reference but stale ones.
//! - The leader moves spaces, in a stopped world. The handler of a fault reads atomics only, at any time.

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::ptr::NonNull;

use gleaner_base::sync::{AtomicU64, Ordering};
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::access::{self, Access, Watch};
use gleaner_os::memory;
use gleaner_spaces::precise::regions::Kind;

use super::{Config, Scavenge};

/// What is known of the places of one nursery.
pub struct Quarantine {
    /// The collection that evacuated a place last, by [`Quarantine::place`]; 0 for none. Empty unless places are left.
    /// Written in stopped worlds.
    evacuated: Vec<AtomicU64>,
    nodes: usize,
    turns: usize,
    /// The addresses are watched as long as this is here.
    watch: Option<Watch>,
}

impl Quarantine {
    /// Nothing was evacuated yet.
    pub(super) fn new(config: &Config) -> Quarantine {
        let (nodes, turns) = (config.cut.nodes, 1 + config.options.quarantine as usize);
        let places = match config.options.quarantine {
            0 => 0,
            _ => Kind::YOUNG.len() * nodes * turns,
        };
        Quarantine {
            evacuated: (0..places).map(|_| AtomicU64::new(0)).collect(),
            nodes,
            turns,
            watch: None,
        }
    }

    /// What is known of a place: of a fragment's turn.
    fn place(&self, kind: Kind, node: usize, turn: usize) -> Option<&AtomicU64> {
        let space = match kind {
            Kind::Survivor(place) => 1 + place,
            _ => 0,
        };
        self.evacuated
            .get((space * self.nodes + node) * self.turns + turn)
    }

    /// Faults have no message from now on.
    pub(super) fn end(&mut self) {
        self.watch = None;
    }
}

/// Where something was, for messages.
pub(super) struct Evacuated {
    kind: Kind,
    /// By which collection, and how many there were.
    collection: u64,
    so_far: u64,
}

impl fmt::Display for Evacuated {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = match self.kind {
            Kind::Survivor(_) => "a survivor space",
            kind => kind.name(),
        };
        write!(
            out,
            "{} was evacuated from there by collection {} of {} so far; a reference was kept over an allocation or a poll \
             outside of a root slot, or went around the write barrier",
            space, self.collection, self.so_far
        )
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Faults in the nursery have a message from now on. The heap stays where it is until it is dropped.
    pub(super) fn begin_quarantine(&mut self) {
        if self.config.options.quarantine > 0 {
            let owner = core::ptr::from_ref(self).cast();
            let (start, bytes) = (self.nursery.start().word(), self.nursery.bytes());
            // SAFETY: the watch ends before the heap does, and threads that use the heap have ended with it by then.
            self.quarantine.watch = unsafe { access::watch(start, bytes, owner, describe::<F>) };
        }
    }

    /// What lay at an address of the nursery where no space is at the moment.
    pub(super) fn evacuated(&self, at: Address) -> Option<Evacuated> {
        let (kind, node, turn, is_there) = self.nursery.turn_of(at)?;
        let collection = self
            .quarantine
            .place(kind, node, turn)?
            .load(Ordering::Relaxed);
        (!is_there && collection > 0).then(|| Evacuated {
            kind,
            collection,
            so_far: self.epoch(),
        })
    }

    /// Whether an address was evacuated by this collection.
    pub(super) fn was_just_evacuated(&self, at: Address) -> bool {
        self.evacuated(at)
            .is_some_and(|place| place.collection == self.epoch() + 1)
    }

    /// Leader, at the end of a collection: the fragments that were in use when it began, up to `tops`, and are empty
    /// now leave where they are. Where the system refuses, they stay.
    pub(super) fn leave_evacuated(&self, tops: &[Address]) {
        for (region, &top) in self.nursery.regions().iter().zip(tops) {
            if top == region.space.start() || region.space.used() > 0 {
                continue;
            }
            let (kind, node) = (region.kind, region.node);
            let (here, bytes) = self.nursery.here(kind, node);
            let (next, _) = self.nursery.next(kind, node);
            let [Some(old), Some(new)] = [here, next].map(|at| NonNull::new(at.ptr::<u8>())) else {
                continue;
            };
            // SAFETY: both are whole granules of the heap's reservation, in which no object is.
            let moved = unsafe { memory::commit(new, bytes) && memory::forbid(old, bytes) };
            if moved
                && let Some((_, _, turn, _)) = self.nursery.turn_of(here)
                && let Some(place) = self.quarantine.place(kind, node, turn)
            {
                place.store(self.epoch() + 1, Ordering::Relaxed);
                self.nursery.move_on(kind, node);
            }
        }
    }
}

/// For the handler of a fault.
///
/// # Safety
/// `owner` is a heap with such slots.
unsafe fn describe<F: SlotFormat>(owner: *const (), access: Access, out: &mut dyn Write) -> bool {
    let address = access.address;
    // SAFETY: `owner` is a heap with such slots, as asked; only atomics and fields that never change are read.
    let heap = unsafe { &*owner.cast::<Scavenge<F>>() };
    let Some(place) = heap.evacuated(Address::new(address)) else {
        return false;
    };
    let base = heap.model.base.word();
    writeln!(
        out,
        "gleaner: a stale reference was used: address {address:#x} of the heap at {base:#x}: {place}"
    )
    .is_ok()
}
