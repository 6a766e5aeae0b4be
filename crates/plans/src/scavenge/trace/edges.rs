//! Prefetching in the precise heap (`prefetch=edges`; after ISMM 2000, section 4, and edge enqueuing, ISMM 2007): what
//! a scan finds waits in a short queue while the cache fetches the object that it leads to.
//!
//! While copying, an entry is a slot, and the header of the object that it refers to is fetched; while marking, it is
//! an object, fetched with its mark. A worker that has nothing else to do waits for the one object that it found, as in
//! a long list: nothing is queued then. A worker's queue is empty whenever it looks for work elsewhere (I3).

use gleaner_mem::Address;

/// How many entries wait.
const LENGTH: usize = 16;

/// The queue of one worker.
#[derive(Debug, Default)]
pub struct Edges {
    entries: [usize; LENGTH],
    /// How many entries were taken out, and put in, so far.
    out: usize,
    into: usize,
}

impl Edges {
    /// Puts an entry in; gives out the one that has waited longest if there are many.
    #[inline(always)]
    pub fn exchange(&mut self, entry: usize) -> Option<usize> {
        let waited = if self.into - self.out == LENGTH {
            self.take()
        } else {
            None
        };
        self.entries[self.into % LENGTH] = entry;
        self.into += 1;
        waited
    }

    /// Whether nothing waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.out == self.into
    }

    /// Takes the entry out that has waited longest.
    #[inline(always)]
    pub fn take(&mut self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        self.out += 1;
        Some(self.entries[(self.out - 1) % LENGTH])
    }
}

/// A slot of an object, and whether that is old: an entry while copying. Slots are 4-aligned.
#[inline(always)]
pub fn slot_entry(slot: Address, holder_is_old: bool) -> usize {
    slot.word() | usize::from(holder_is_old)
}

/// The slot of an entry, and whether its object is old.
#[inline(always)]
pub fn slot_of(entry: usize) -> (Address, bool) {
    (Address::new(entry & !1), entry & 1 != 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn entries_come_out_in_order_and_none_is_lost() {
        let mut edges = Edges::default();
        let mut out: Vec<usize> = (1..=100)
            .filter_map(|entry| edges.exchange(entry))
            .collect();
        assert_eq!(out.len(), 100 - LENGTH);
        while let Some(entry) = edges.take() {
            out.push(entry);
        }
        assert_eq!(out, (1..=100).collect::<Vec<_>>());
        assert_eq!(edges.exchange(7), None);
        assert_eq!((edges.take(), edges.take()), (Some(7), None));
    }

    #[test]
    fn a_slot_keeps_its_bit() {
        let slot = Address::new(0x7f00_1234);
        assert_eq!(slot_of(slot_entry(slot, true)), (slot, true));
        assert_eq!(slot_of(slot_entry(slot, false)), (slot, false));
    }
}
