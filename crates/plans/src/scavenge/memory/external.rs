//! Bytes outside of the heap that its objects hold, as far as the embedder tells of them: they make collections come
//! earlier ([`decide::external`](crate::scavenge::decide::external)).
//!
//! # Invariants
//! - Any thread adds and takes back, inside of the gate or outside, and nothing is collected there. A thread that
//!   allocates off the fast path asks whether a collection is due.
//! - The total is negative for a moment where a thread tells of bytes that were freed before another tells that they
//!   were allocated. It counts as nothing then.
//! - The total stops at the largest and the smallest signed number, and does not wrap.
//!
//! All words are relaxed: they are no more than numbers to compare with.

use gleaner_base::sync::{AtomicUsize, Ordering};

use crate::scavenge::decide::external::{self, Due, Measurements, Outside};

/// The bytes, and when a collection is due because of them.
pub struct External {
    /// What was added, less what was taken back: a signed number.
    total: AtomicUsize,
    /// The least that there was since the last collection.
    least: AtomicUsize,
    /// The least that there was since the last collection of everything.
    least_since_full: AtomicUsize,
    /// What is known of the heap: what it was filled with, its young generation, its limit. Written in stopped worlds.
    heap: [AtomicUsize; 3],
}

/// A negative total counts as nothing.
fn of_signed(total: usize) -> usize {
    (total as isize).max(0) as usize
}

impl External {
    /// None yet, in a heap that is as `found` says.
    pub(in crate::scavenge) fn new(found: &Measurements) -> External {
        let Measurements {
            filled,
            young,
            limit,
        } = *found;
        External {
            total: AtomicUsize::new(0),
            least: AtomicUsize::new(0),
            least_since_full: AtomicUsize::new(0),
            heap: [filled, young, limit].map(AtomicUsize::new),
        }
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        of_signed(self.total.load(Ordering::Relaxed))
    }

    /// Whether more was taken back than was added.
    pub(in crate::scavenge) fn is_negative(&self) -> bool {
        (self.total.load(Ordering::Relaxed) as isize) < 0
    }

    /// Adds bytes, or takes some back. Whether a collection is due.
    pub fn note(&self, change: isize) -> bool {
        let changed = |total: usize| (total as isize).saturating_add(change) as usize;
        let relaxed = Ordering::Relaxed;
        let (Ok(before) | Err(before)) = self
            .total
            .fetch_update(relaxed, relaxed, |total| Some(changed(total)));
        let now = of_signed(changed(before));
        if change <= 0 {
            self.least.fetch_min(now, Ordering::Relaxed);
            self.least_since_full.fetch_min(now, Ordering::Relaxed);
            return false;
        }
        self.due().is_some()
    }

    /// What is to be collected because of what was added.
    #[inline]
    pub(in crate::scavenge) fn due(&self) -> Option<Due> {
        let now = self.bytes();
        if now == 0 {
            return None;
        }
        let [filled, young, limit] =
            [0, 1, 2].map(|at: usize| self.heap[at].load(Ordering::Relaxed));
        let heap = Measurements {
            filled,
            young,
            limit,
        };
        let outside = Outside {
            now,
            least: self.least.load(Ordering::Relaxed),
            least_since_full: self.least_since_full.load(Ordering::Relaxed),
        };
        external::due(&heap, &outside)
    }

    /// Behind a collection: what there is is compared with from now on.
    pub(in crate::scavenge) fn begin(&self, found: &Measurements, was_full: bool) {
        let now = self.bytes();
        self.least.store(now, Ordering::Relaxed);
        if was_full {
            self.least_since_full.store(now, Ordering::Relaxed);
        }
        let words = [found.filled, found.young, found.limit];
        for (word, value) in self.heap.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MB: isize = 1 << 20;
    const HEAP: Measurements = Measurements {
        filled: 0,
        young: 2 << 20,
        limit: 8 << 20,
    };

    #[test]
    fn a_collection_is_due_when_the_room_was_added() {
        let external = External::new(&HEAP);
        assert!(!external.note(2 * MB - 1));
        assert!(external.note(1) && external.due() == Some(Due::Young));
        assert!(
            !external.note(-1),
            "bytes that are taken back call for nothing"
        );
        assert_eq!(
            (external.due(), external.bytes()),
            (None, 2 * MB as usize - 1)
        );
        assert!(external.note(7 * MB) && external.due() == Some(Due::Everything));
    }

    #[test]
    fn what_is_freed_behind_a_collection_lowers_what_is_compared_with() {
        let external = External::new(&HEAP);
        external.note(100 * MB);
        external.begin(&HEAP, true);
        assert_eq!(external.due(), None);
        external.note(-90 * MB);
        assert!(
            external.note(2 * MB),
            "that is more than the ten that are left"
        );
        external.note(8 * MB);
        assert_eq!(external.due(), Some(Due::Everything));
    }

    #[test]
    fn collections_of_the_young_generation_do_not_put_off_one_of_everything() {
        let external = External::new(&HEAP);
        for _ in 0..3 {
            assert!(external.note(2 * MB) && external.due() == Some(Due::Young));
            external.begin(&HEAP, false);
            assert_eq!(external.due(), None);
        }
        external.note(2 * MB);
        assert_eq!(external.due(), Some(Due::Everything));
    }

    #[test]
    fn a_total_beyond_the_largest_number_stays_there() {
        let external = External::new(&HEAP);
        for _ in 0..3 {
            assert!(external.note(isize::MAX) && !external.is_negative());
            assert_eq!(external.bytes(), isize::MAX as usize);
            assert_eq!(external.due(), Some(Due::Everything));
        }
        // Bytes that are taken back are told from there.
        assert!(!external.note(-MB));
        assert_eq!(external.bytes(), (isize::MAX - MB) as usize);
        external.note(-isize::MAX);
        for _ in 0..3 {
            assert!(!external.note(isize::MIN) && external.is_negative());
        }
        assert!(!external.note(isize::MAX), "one is missing");
        assert_eq!(external.bytes(), 0);
        assert!(!external.note(1) && !external.is_negative());
    }

    #[test]
    fn a_negative_total_counts_as_nothing() {
        let external = External::new(&HEAP);
        assert!(!external.note(-5 * MB) && external.is_negative());
        assert_eq!((external.bytes(), external.due()), (0, None));
        assert!(!external.note(6 * MB), "one is left of it");
        assert_eq!(external.bytes(), MB as usize);
    }
}
