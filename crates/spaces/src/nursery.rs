//! The young generation: eden and two survivor spaces, side by side (ASPLOS 2013, section 2.1).
//!
//! Mutators allocate in eden. A scavenge copies what lives in eden and in the from-space to the to-space or to the old
//! space; then eden and the from-space are empty, and the survivor spaces change names.
//!
//! # Invariants
//! - The three spaces lie next to each other, eden lowest, so that one comparison tells young from old.
//! - Each has a range that never changes, and a size that may be less.
//! - When a scavenge begins, the to-space is empty.
//! - After a full collection eden, and if that is full the survivor spaces, hold what found no room in the old space.
//!
//! Mutators take pieces of eden; all else happens in a stopped world.

use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_os::memory;

use crate::bump::BumpRegion;

/// Eden and the survivor spaces.
#[derive(Debug)]
pub struct Nursery {
    /// Where mutators allocate.
    pub eden: BumpRegion,
    survivors: [BumpRegion; 2],
    /// Which survivor space is the to-space. Written in a stopped world.
    to: AtomicUsize,
    /// Bytes of the range.
    bytes: usize,
}

impl Nursery {
    /// Empty spaces from `start` on, of these sizes, which they never exceed.
    pub fn new(start: Address, eden: usize, survivor: usize) -> Nursery {
        let first = start.add(eden);
        Nursery {
            eden: BumpRegion::new(start, eden),
            survivors: [
                BumpRegion::new(first, survivor),
                BumpRegion::new(first.add(survivor), survivor),
            ],
            to: AtomicUsize::new(0),
            bytes: eden + 2 * survivor,
        }
    }

    /// The lowest address.
    #[inline(always)]
    pub fn start(&self) -> Address {
        self.eden.start()
    }

    /// Bytes from the lowest to the highest address.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where survivors are copied to.
    pub fn to(&self) -> &BumpRegion {
        &self.survivors[self.to.load(Ordering::Relaxed)]
    }

    /// Where the survivors of the last scavenge are.
    pub fn from(&self) -> &BumpRegion {
        &self.survivors[1 - self.to.load(Ordering::Relaxed)]
    }

    /// All three, in the order of their addresses.
    pub fn regions(&self) -> [&BumpRegion; 3] {
        [&self.eden, &self.survivors[0], &self.survivors[1]]
    }

    /// The spaces have these sizes from now on, or those of their ranges if that is less, or what is in use if that is
    /// more. Eden ends with a page. In a stopped world, by one thread.
    pub fn resize(&self, eden: usize, survivor: usize) {
        let [first, second] = &self.survivors;
        let end = self.start().add(self.bytes);
        for (region, bytes, next) in [
            (&self.eden, eden, first.start()),
            (first, survivor, second.start()),
            (second, survivor, end),
        ] {
            region.set_end(region.start().add(bytes).min(next));
        }
        let whole = self.eden.end().align_up(memory::page_size());
        self.eden.set_end(whole.min(first.start()));
    }

    /// The sizes of all three together.
    pub fn capacity(&self) -> usize {
        self.regions().iter().map(|region| region.bytes()).sum()
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.regions().iter().map(|region| region.used()).sum()
    }

    /// After a scavenge that left nothing behind: eden and from-space are empty, and the survivor spaces change names.
    pub fn flip(&self) {
        self.eden.reset();
        self.from().reset();
        self.to.fetch_xor(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_survivor_spaces_change_names() {
        let nursery = Nursery::new(Address::new(0x10000), 0x4000, 0x1000);
        assert_eq!(nursery.bytes(), 0x6000);
        nursery.eden.take(8, 64).unwrap();
        let (copied, _) = nursery.to().take(8, 24).unwrap();
        assert_eq!(nursery.used(), 88);
        nursery.flip();
        assert!(nursery.from().contains(copied) && nursery.used() == 24);
        assert_eq!(nursery.to().used(), 0);
        nursery.resize(0x2000, 16);
        assert_eq!(nursery.capacity(), 0x2000 + 24 + 16);
        assert_eq!(nursery.bytes(), 0x6000);
        nursery.resize(0x9000, 0x9000);
        assert_eq!(nursery.capacity(), 0x6000);
    }
}
