//! Which turns of the nursery were evacuated.

use alloc::vec::Vec;
use core::fmt;

use gleaner_base::sync::AtomicU64;
use gleaner_os::access::Watch;
use gleaner_spaces::precise::regions::Kind;

use crate::scavenge::Config;

/// What is known of the places of one nursery.
pub struct Quarantine {
    /// The collection that evacuated a place last, by [`Quarantine::place`]; 0 for none. Empty unless places are left.
    /// Written in stopped worlds.
    pub(super) evacuated: Vec<AtomicU64>,
    pub(super) nodes: usize,
    pub(super) turns: usize,
    /// The addresses are watched as long as this is here.
    pub(super) watch: Option<Watch>,
}

impl Quarantine {
    /// Nothing was evacuated yet.
    pub(in crate::scavenge) fn new(config: &Config) -> Quarantine {
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
    pub(super) fn place(&self, kind: Kind, node: usize, turn: usize) -> Option<&AtomicU64> {
        let space = match kind {
            Kind::Survivor(place) => 1 + place,
            _ => 0,
        };
        self.evacuated
            .get((space * self.nodes + node) * self.turns + turn)
    }

    /// Faults have no message from now on.
    pub(in crate::scavenge) fn end(&mut self) {
        self.watch = None;
    }
}

/// Where something was, for messages.
pub(in crate::scavenge) struct Evacuated {
    pub(super) kind: Kind,
    /// By which collection, and how many there were.
    pub(super) collection: u64,
    pub(super) so_far: u64,
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
