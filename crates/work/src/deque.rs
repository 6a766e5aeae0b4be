//! A bounded work-stealing deque of `u32` or `u64` items.
//!
//! The idea (Chase and Lev, SPAA 2005; orderings of Lê, Pop, Cohen and Zappella Nardelli,
//! "Correct and Efficient Work-Stealing for Weak Memory Models", PPoPP 2013): the owner pushes and
//! pops at `bottom`, thieves take at `top`. Owner and thief compete by compare-and-swap only for
//! the last item. The ring does not grow: its storage is mapped memory that the caller supplies,
//! and a full deque says so.
//!
//! # Invariants
//! - `top` only grows; `bottom - top` is the number of items, and -1 for a moment in a `pop` that a
//!   thief forestalled.
//! - An item lies in the ring from its push until exactly one `pop` or `steal` returns it.
//! - `pop` returns `None` only if every item that was pushed is taken, or is being taken by a thief
//!   that has already won it: what termination relies on. `steal` returns `Empty` only if that held
//!   of the items whose push happened before the call.
//!
//! One thread at a time is the owner (`push`, `pop`); any thread steals.

use gleaner_base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// An atomic cell of the ring: `AtomicU32` or `AtomicU64`.
pub trait Cell: Sync {
    /// The item that it holds.
    type Item: Copy;
    /// Reads the item, relaxed.
    fn get(&self) -> Self::Item;
    /// Writes the item, relaxed.
    fn set(&self, item: Self::Item);
}

impl Cell for AtomicU32 {
    type Item = u32;
    #[inline]
    fn get(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }
    #[inline]
    fn set(&self, item: u32) {
        self.store(item, Ordering::Relaxed);
    }
}

impl Cell for AtomicU64 {
    type Item = u64;
    #[inline]
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
    #[inline]
    fn set(&self, item: u64) {
        self.store(item, Ordering::Relaxed);
    }
}

/// What came of an attempt to steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steal<T> {
    /// The oldest item, now the caller's.
    Taken(T),
    /// There was nothing.
    Empty,
    /// Another thread took the item that was aimed at; there may be more.
    Retry,
}

/// A counter on a cache line pair of its own (the adjacent-line prefetcher couples two).
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicUsize);

/// The deque. `C` is the cell type of the ring: `AtomicU32` or `AtomicU64`.
#[derive(Debug)]
pub struct Deque<'a, C: Cell> {
    /// Index of the oldest item. Advanced by compare-and-swap of thieves, and of the owner for the
    /// last item.
    top: Padded,
    /// One past the index of the newest item. Written by the owner only.
    bottom: Padded,
    /// The ring; its length is zero or a power of two.
    ring: &'a [C],
}

impl<'a, C: Cell> Deque<'a, C> {
    gleaner_base::sync_const_fn! {
        /// An empty deque over `ring`, whose length is zero (always full and empty at once) or a
        /// power of two.
        pub fn new(ring: &'a [C]) -> Self {
            assert!(ring.is_empty() || ring.len().is_power_of_two());
            Self {
                top: Padded(AtomicUsize::new(0)),
                bottom: Padded(AtomicUsize::new(0)),
                ring,
            }
        }
    }

    /// An empty deque over `capacity` cells at `ring`.
    ///
    /// # Safety
    /// `ring` points to `capacity` initialised cells (zeroed memory is) that live as long as `'a`
    /// and are accessed by this deque only.
    pub unsafe fn from_raw(ring: *const C, capacity: usize) -> Self {
        // SAFETY: `ring` points to `capacity` initialised cells that live as long as `'a`, as asked.
        Self::new(unsafe { core::slice::from_raw_parts(ring, capacity) })
    }

    #[inline]
    fn cell(&self, index: usize) -> &C {
        &self.ring[index & (self.ring.len() - 1)]
    }

    /// Owner: adds an item at the bottom, or gives it back if the ring is full.
    #[inline]
    pub fn push(&self, item: C::Item) -> Result<(), C::Item> {
        let bottom = self.bottom.0.load(Ordering::Relaxed); // our own word
        // Acquire partners the compare-and-swap of the thief that advanced `top`: its read of the
        // cell is over before we overwrite it.
        let top = self.top.0.load(Ordering::Acquire);
        if bottom.wrapping_sub(top) >= self.ring.len() {
            return Err(item);
        }
        self.cell(bottom).set(item);
        // Partners the Acquire load of `bottom` in `steal`. A fence and not a Release store: a
        // thief may read `bottom` from a later relaxed store in `pop`, and the fence covers those
        // too, being before them in this thread.
        fence(Ordering::Release);
        self.bottom
            .0
            .store(bottom.wrapping_add(1), Ordering::Relaxed);
        Ok(())
    }

    /// Owner: takes the newest item.
    #[inline]
    pub fn pop(&self) -> Option<C::Item> {
        let bottom = self.bottom.0.load(Ordering::Relaxed); // our own word
        // `top` only grows, so a stale value errs on the side of looking further. This spares the
        // common empty case the fence.
        if bottom == self.top.0.load(Ordering::Relaxed) {
            return None;
        }
        let newest = bottom.wrapping_sub(1);
        self.bottom.0.store(newest, Ordering::Relaxed);
        // Partners the fence in `steal`: of an owner and a thief that aim at the same item, at
        // least one sees the other's write (`bottom` lowered here, `top` advanced there).
        fence(Ordering::SeqCst);
        let top = self.top.0.load(Ordering::Relaxed);
        let left = newest.wrapping_sub(top) as isize;
        if left > 0 {
            // More than one: no thief that starts from this `top` can reach `newest`.
            return Some(self.cell(newest).get());
        }
        let item = if left == 0 {
            self.take_last(top, newest)
        } else {
            None
        };
        self.bottom.0.store(bottom, Ordering::Relaxed);
        item
    }

    /// Owner: competes with thieves for the only item left.
    #[inline]
    fn take_last(&self, top: usize, newest: usize) -> Option<C::Item> {
        let item = self.cell(newest).get();
        self.advance_top(top).then_some(item)
    }

    /// Anyone: takes the oldest item.
    #[inline]
    pub fn steal(&self) -> Steal<C::Item> {
        // Acquire partners the compare-and-swap that advanced `top`.
        let top = self.top.0.load(Ordering::Acquire);
        // Partners the fence in `pop`.
        fence(Ordering::SeqCst);
        // Acquire partners the release fence in `push`: the cell is written.
        let bottom = self.bottom.0.load(Ordering::Acquire);
        if bottom.wrapping_sub(top) as isize <= 0 {
            return Steal::Empty;
        }
        // The owner may be overwriting this cell; then `top` has moved and the swap below fails.
        let item = self.cell(top).get();
        if self.advance_top(top) {
            Steal::Taken(item)
        } else {
            Steal::Retry
        }
    }

    /// Moves `top` on by one; the thread that succeeds owns the item that lay there. SeqCst orders it
    /// against the fences of `pop` and `steal`; its release half partners the Acquire loads of
    /// `top`.
    #[inline]
    fn advance_top(&self, top: usize) -> bool {
        self.top
            .0
            .compare_exchange(
                top,
                top.wrapping_add(1),
                Ordering::SeqCst,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// How many items there seem to be.
    #[inline]
    pub fn len(&self) -> usize {
        let top = self.top.0.load(Ordering::Relaxed);
        let bottom = self.bottom.0.load(Ordering::Relaxed);
        (bottom.wrapping_sub(top) as isize).max(0) as usize
    }

    /// Whether the deque looks empty: exact for its owner when no thief runs, else a hint for
    /// choosing a victim.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items the ring holds.
    pub fn capacity(&self) -> usize {
        self.ring.len()
    }
}
