//! Mark bits of the compactor: one bit a granule that says "a live object begins here", and one that says "live".
//!
//! Two bitmaps of the same span, in words of 64 bits: a word is about 512 bytes. The starts find the objects of a
//! word, the live granules count what lies before an address in its word (compare Kermany and Petrank, PLDI 2006).
//!
//! Workers that mark compete for a start bit by fetch-or (I4: the one that set it marks the granules). Bits are
//! cleared, range by range, in a stopped world by one thread.

use gleaner_base::sync::{AtomicU64, Ordering};

use crate::Address;
use crate::object_model::GRANULE;
use crate::side::Side;

/// Bytes that a word of bits is about, as a power of two.
pub const WORD_SHIFT: u32 = 9;
/// Bytes that a word of bits is about.
pub const WORD_BYTES: usize = 1 << WORD_SHIFT;

/// The bitmaps of a span.
pub struct MarkBits {
    starts: Side<AtomicU64>,
    live: Side<AtomicU64>,
}

#[inline(always)]
fn bit_of(at: Address) -> u32 {
    (at.word() / GRANULE) as u32 % 64
}

impl MarkBits {
    /// Nothing is live; `None` when the system gives no memory. `base` is a multiple of [`WORD_BYTES`].
    pub fn new(base: Address, bytes: usize) -> Option<MarkBits> {
        debug_assert_eq!(base.word() % WORD_BYTES, 0);
        Some(MarkBits {
            // SAFETY: zero words say that nothing is live.
            starts: unsafe { Side::new(base, bytes, WORD_SHIFT) }?,
            // SAFETY: as above.
            live: unsafe { Side::new(base, bytes, WORD_SHIFT) }?,
        })
    }

    /// Whether an object that begins at `object` is marked.
    #[inline(always)]
    pub fn is_marked(&self, object: Address) -> bool {
        let word = self.starts.get(self.starts.index(object));
        word.load(Ordering::Relaxed) & 1 << bit_of(object) != 0
    }

    /// Marks the object at `object`; whether this call did it. The caller then marks its granules.
    #[inline(always)]
    pub fn mark(&self, object: Address) -> bool {
        let word = self.starts.get(self.starts.index(object));
        let bit = 1 << bit_of(object);
        // Relaxed: the object's contents were written before the stop; the bit alone decides who scans it.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Marks the granules of an object of `bytes` bytes as live.
    #[inline]
    pub fn mark_granules(&self, object: Address, bytes: usize) {
        let (first, last) = (
            self.live.index(object),
            self.live.index(object.add(bytes - GRANULE)),
        );
        let low = !0u64 << bit_of(object);
        let high = !0u64 >> (63 - bit_of(object.add(bytes - GRANULE)));
        if first == last {
            self.live.get(first).fetch_or(low & high, Ordering::Relaxed);
            return;
        }
        // The words at both ends may be shared with other objects; those between are this object's.
        self.live.get(first).fetch_or(low, Ordering::Relaxed);
        for word in first + 1..last {
            self.live.get(word).store(!0, Ordering::Relaxed);
        }
        self.live.get(last).fetch_or(high, Ordering::Relaxed);
    }

    /// The index of the word that is about `at`.
    #[inline(always)]
    pub fn word_of(&self, at: Address) -> usize {
        self.live.index(at)
    }

    /// The first address that a word is about.
    #[inline(always)]
    pub fn address_of(&self, word: usize) -> Address {
        self.live.address(word)
    }

    /// The bits of live granules in a word.
    #[inline(always)]
    pub fn live(&self, word: usize) -> u64 {
        self.live.get(word).load(Ordering::Relaxed)
    }

    /// Live granules before `at` within its word.
    #[inline(always)]
    pub fn live_before(&self, at: Address) -> usize {
        let below = (1u64 << bit_of(at)) - 1;
        (self.live(self.live.index(at)) & below).count_ones() as usize
    }

    /// The starts in a word, in ascending order.
    #[inline(always)]
    pub fn starts(&self, word: usize) -> Starts {
        Starts {
            bits: self.starts.get(word).load(Ordering::Relaxed),
            base: self.starts.address(word),
        }
    }

    /// Forgets all marks in `low..high`, which are multiples of [`WORD_BYTES`].
    ///
    /// # Safety
    /// Nobody else uses these marks meanwhile.
    pub unsafe fn clear(&self, low: Address, high: Address) {
        // SAFETY: the caller's promise.
        unsafe {
            self.starts.clear(low, high);
            self.live.clear(low, high);
        }
    }

    /// Bytes of both bitmaps.
    pub fn bytes(&self) -> usize {
        self.starts.bytes() + self.live.bytes()
    }
}

/// The live objects that begin in a word.
#[derive(Clone, Copy, Debug)]
pub struct Starts {
    bits: u64,
    base: Address,
}

impl Starts {
    /// The bits of the starts.
    pub fn bits(self) -> u64 {
        self.bits
    }
}

impl Iterator for Starts {
    type Item = Address;

    #[inline(always)]
    fn next(&mut self) -> Option<Address> {
        if self.bits == 0 {
            return None;
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(self.base.add(bit as usize * GRANULE))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn granules_are_counted_and_starts_found() {
        let base = Address::new(0x20_0000);
        let bits = MarkBits::new(base, 1 << 16).unwrap();
        let objects = [
            (0usize, 16usize),
            (24, 8),
            (496, 32),
            (2048, 3000),
            (5048, 24),
        ];
        for (offset, bytes) in objects {
            let object = base.add(offset);
            assert!(bits.mark(object) && !bits.mark(object) && bits.is_marked(object));
            bits.mark_granules(object, bytes);
        }
        let total: u32 = (0..128).map(|word| bits.live(word).count_ones()).sum();
        assert_eq!(
            total as usize,
            objects.iter().map(|one| one.1 / 8).sum::<usize>()
        );
        assert_eq!(bits.live_before(base.add(496)), 3);
        assert_eq!(bits.live_before(base.add(512 + 64)), 2);
        let starts: Vec<usize> = (0..128)
            .flat_map(|word| bits.starts(word))
            .map(|start| start.offset_from(base))
            .collect();
        assert_eq!(starts, objects.map(|one| one.0));
        // SAFETY: the bits are this test's.
        unsafe { bits.clear(base, base.add(1 << 16)) };
        assert_eq!(bits.live(4), 0);
        assert!(!bits.is_marked(base));
    }
}
