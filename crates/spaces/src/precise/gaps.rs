//! Gaps between objects that a collection has left where they were, in a space that it emptied otherwise.
//!
//! A gap is a filler until somebody allocates there, so that the space stays walkable. One cursor goes through all of them
//! upward: threads take pieces of the gap that it is in, or pass it by if it is too small for them.
//!
//! # Invariants
//! - Gaps are disjoint, in the order of their addresses, and lie below the tops of their regions.
//! - What is below the cursor was handed out or passed by. The rest of the gap that the cursor is in has no filler until
//!   [`Gaps::close`].
//!
//! The list changes in stopped worlds alone; any thread takes pieces.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicUsize, Ordering, UnsafeCell};
use gleaner_mem::mapped_list::MappedList;
use gleaner_mem::{Address, object_model};

/// Smaller gaps are not handed out.
const LEAST_GAP: usize = 64;
/// As many gaps are handed out until the next collection; more are left as fillers.
const MOST_GAPS: usize = 1 << 14;

/// The gaps of one space.
pub struct Gaps {
    /// Each as (start, end). Written in stopped worlds.
    list: UnsafeCell<MappedList<(Address, Address)>>,
    /// An address. Advanced by compare-and-swap, set in a stopped world. Relaxed: the thread that gets a piece is the only
    /// one that touches it.
    cursor: AtomicUsize,
    /// Bytes that may yet be taken. Relaxed: no more than a number to compare with.
    left: AtomicUsize,
}

// SAFETY: the list changes in stopped worlds alone, by the thread that has the proof; all else is atomic.
unsafe impl Sync for Gaps {}

impl Gaps {
    /// None; `None` when the system gives no memory.
    pub fn new() -> Option<Gaps> {
        Some(Gaps {
            list: UnsafeCell::new(MappedList::new(MOST_GAPS)?),
            cursor: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
        })
    }

    fn list<R>(&self, body: impl FnOnce(&[(Address, Address)]) -> R) -> R {
        // SAFETY: nobody changes the list while threads take pieces.
        self.list.with(|list| body(unsafe { (*list).as_slice() }))
    }

    fn change<R>(
        &self,
        _: &mut WorldStopped<'_>,
        body: impl FnOnce(&mut MappedList<(Address, Address)>) -> R,
    ) -> R {
        // SAFETY: the world is stopped, and the caller has the only proof that may change the list.
        self.list.with_mut(|list| body(unsafe { &mut *list }))
    }

    /// Bytes that may yet be taken.
    #[inline]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// The gap that the cursor is in or before, from the cursor on, as (start, end).
    fn at(&self, cursor: usize) -> Option<(Address, Address)> {
        self.list(|gaps| {
            let cursor = Address::new(cursor);
            let &(start, end) = gaps.get(gaps.partition_point(|&(_, end)| end <= cursor))?;
            Some((start.max(cursor), end))
        })
    }

    /// Whether some gap has `bytes` bytes. The world is stopped.
    pub fn has_piece(&self, bytes: usize) -> bool {
        let cursor = Address::new(self.cursor.load(Ordering::Relaxed));
        let fits = |&(start, end): &(Address, Address)| {
            end > cursor && end.offset_from(start.max(cursor)) >= bytes
        };
        self.left() >= bytes && self.list(|gaps| gaps.iter().any(fits))
    }

    /// Takes `wanted` bytes, or what is left of a gap if that is at least `least`. All are multiples of 8. Gaps that are too
    /// small are passed by if `passes`; otherwise only those that are smaller than any gap that is handed out.
    pub fn take(&self, least: usize, wanted: usize, passes: bool) -> Option<(Address, usize)> {
        loop {
            let (start, bytes) = self.advance(least, wanted, passes)?;
            if bytes >= least {
                return Some((start, bytes));
            }
            // SAFETY: this thread alone has moved the cursor over the rest of the gap, so it is nobody else's.
            unsafe { object_model::fill(start, bytes) };
        }
    }

    /// Moves the cursor over a piece, or over the rest of a gap, which has fewer than `least` bytes then. It is this thread's
    /// alone.
    fn advance(&self, least: usize, wanted: usize, passes: bool) -> Option<(Address, usize)> {
        if self.left() == 0 {
            return None;
        }
        let mut cursor = self.cursor.load(Ordering::Relaxed);
        loop {
            let (start, end) = self.at(cursor)?;
            let left = end.offset_from(start);
            let fits = left >= least;
            if !fits && !passes && left >= LEAST_GAP {
                return None;
            }
            let bytes = if fits { wanted.min(left) } else { left };
            match self.cursor.compare_exchange_weak(
                cursor,
                start.add(bytes).word(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.left.fetch_sub(bytes, Ordering::Relaxed);
                    return Some((start, bytes));
                }
                Err(now) => cursor = now,
            }
        }
    }

    /// Fills what is left of the gap that the cursor is in: all of the space can be walked over then.
    pub fn close(&self, world: &mut WorldStopped<'_>) {
        let cursor = self.cursor.load(Ordering::Relaxed);
        let current = self.change(world, |list| {
            let cursor = Address::new(cursor);
            let gaps = list.as_slice();
            let at = gaps.partition_point(|&(_, end)| end <= cursor);
            gaps.get(at).filter(|&&(start, _)| start < cursor).copied()
        });
        if let Some((_, end)) = current {
            let start = Address::new(cursor);
            // SAFETY: nobody has taken the rest of the gap, and nobody can in a stopped world.
            unsafe { object_model::fill(start, end.offset_from(start)) };
        }
    }

    /// In a stopped world: calls `each` with what was handed out or passed by of each gap, as (start, end).
    pub fn for_each_taken(&self, mut each: impl FnMut(Address, Address)) {
        let cursor = Address::new(self.cursor.load(Ordering::Relaxed));
        self.list(|gaps| {
            let taken = gaps.iter().take_while(|&&(start, _)| start < cursor);
            taken.for_each(|&(start, end)| each(start, end.min(cursor)));
        });
    }

    /// There are none.
    pub fn clear(&self, world: &mut WorldStopped<'_>) {
        self.change(world, |list| list.truncate(0));
        self.cursor.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    /// Adds a gap above all others, which is made a filler here.
    ///
    /// # Safety
    /// No object uses the memory, which is the space's.
    pub unsafe fn add(&self, world: &mut WorldStopped<'_>, start: Address, end: Address) {
        let bytes = end.offset_from(start);
        if bytes == 0 {
            return;
        }
        // SAFETY: no object uses it, as asked, and the world is stopped.
        unsafe { object_model::fill(start, bytes) };
        if bytes >= LEAST_GAP {
            self.list_gap(world, start, end);
        }
    }

    /// The gap is handed out, unless there are too many.
    fn list_gap(&self, world: &mut WorldStopped<'_>, start: Address, end: Address) {
        if self.change(world, |list| list.push((start, end))).is_some() {
            self.left
                .fetch_add(end.offset_from(start), Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::precise::single_thread::stopped;
    use gleaner_base::sync::Ordering as Order;
    use gleaner_mem::header;
    use gleaner_mem::object_model::TypeId;
    use std::vec;
    use std::vec::Vec;

    /// Memory of 512 bytes, and gaps of it.
    fn with_gaps(bounds: &[(usize, usize)]) -> (Vec<u64>, Address, Gaps) {
        let mut memory = vec![!0u64; 64];
        let base = Address::of(memory.as_mut_ptr());
        let gaps = Gaps::new().unwrap();
        for &(low, high) in bounds {
            // SAFETY: the memory is this test's.
            unsafe { gaps.add(&mut stopped(), base.add(low), base.add(high)) };
        }
        (memory, base, gaps)
    }

    fn is_filler(at: Address) -> bool {
        // SAFETY: memory of a test, where it asks for a header.
        let id = unsafe { header::load(at, Order::Relaxed) }.type_id();
        id.is_filler() && (id == TypeId::GAP || id == TypeId::FILLER)
    }

    #[test]
    fn pieces_are_taken_from_gap_to_gap_and_the_rest_is_filled() {
        let (_memory, base, gaps) = with_gaps(&[(0, 16), (64, 160), (200, 328)]);
        assert_eq!(gaps.left(), 96 + 128, "a small gap is a filler alone");
        assert!(is_filler(base) && is_filler(base.add(64)) && is_filler(base.add(200)));
        assert!(gaps.has_piece(128) && !gaps.has_piece(136));
        assert_eq!(gaps.take(8, 24, false), Some((base.add(64), 24)));
        assert_eq!(
            gaps.take(80, 80, false),
            None,
            "a large rest stays for others"
        );
        gaps.close(&mut stopped());
        assert!(is_filler(base.add(88)));
        assert_eq!(gaps.take(80, 104, true), Some((base.add(200), 104)));
        assert!(is_filler(base.add(88)), "what is passed by is filled");
        assert_eq!(gaps.left(), 24);
        assert_eq!(gaps.take(32, 32, false), None);
        assert_eq!((gaps.left(), is_filler(base.add(304))), (0, true));
        assert_eq!(gaps.take(8, 8, true), None);
        gaps.clear(&mut stopped());
        assert!(!gaps.has_piece(8));
    }

    #[test]
    fn the_last_piece_of_a_gap_may_be_short() {
        let (_memory, base, gaps) = with_gaps(&[(0, 64), (128, 192)]);
        assert_eq!(gaps.take(8, 1024, false), Some((base, 64)));
        assert_eq!(gaps.take(8, 40, false), Some((base.add(128), 40)));
        assert_eq!(gaps.take(8, 40, false), Some((base.add(168), 24)));
        assert_eq!(gaps.take(8, 40, true), None);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;
    use std::vec::Vec;

    const BASE: Address = Address::new(0x100_0000);

    /// Two threads take two pieces each of two gaps. The first has room for two, the second for one and a rest that is passed
    /// by. No byte is handed out twice, and what is left is what nobody has.
    #[test]
    fn a_piece_of_a_gap_is_taken_once() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let gaps = Arc::new(Gaps::new().unwrap());
            // SAFETY: there is only this thread.
            let mut world = unsafe { WorldStopped::begin() };
            for (low, high) in [(0, 80), (128, 192)] {
                gaps.list_gap(&mut world, BASE.add(low), BASE.add(high));
            }
            world.end();
            let take = |gaps: &Gaps| [40; 2].map(|bytes| gaps.advance(bytes, bytes, true));
            let other = {
                let gaps = gaps.clone();
                thread::spawn(move || take(&gaps))
            };
            let own = take(&gaps);
            let others = other.join().unwrap();
            let mut taken: Vec<(Address, usize)> =
                own.into_iter().chain(others).flatten().collect();
            taken.sort();
            let pieces = [(0, 40), (40, 40), (128, 40), (168, 24)];
            assert_eq!(taken, pieces.map(|(place, bytes)| (BASE.add(place), bytes)));
            assert_eq!((gaps.left(), gaps.advance(8, 8, true)), (0, None));
        });
    }
}
