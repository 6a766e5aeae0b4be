//! A heap as it may be seen without the allocator lock.
//!
//! Clients ask for counters whenever they like, also in callbacks that run with the lock held, so those questions
//! cannot take it. No reference to the heap is made either: the holder of the lock has one that excludes all others.
//! Single words are read; each is right, or was right a moment ago.

use gleaner_base::options::{FreedCells, MarkGenerations};
use gleaner_os::written::Unavailable;
use gleaner_spaces::mark_sweep::Census;
use gleaner_spaces::mark_sweep::view::SpaceView;

use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::history::Totals;
use crate::mark_sweep::mutator::Mutators;
use crate::shared::crew_size;

/// The view of a heap. Any thread, any state of the world.
#[derive(Clone, Copy)]
pub struct HeapView(*const Heap);

impl HeapView {
    /// The view of a heap.
    ///
    /// # Safety
    /// The heap must stay where it is as long as the view is used.
    pub unsafe fn new(heap: *const Heap) -> HeapView {
        HeapView(heap)
    }

    #[inline]
    fn read<T: Copy>(self, place: impl FnOnce(*const Heap) -> *const T) -> T {
        // SAFETY: `place` answers with a field of a heap that stays mapped; the holder of the lock may write it
        // meanwhile, hence volatile.
        unsafe { place(self.0).read_volatile() }
    }

    /// The view of the heap's space.
    #[inline]
    pub fn space(self) -> SpaceView {
        // SAFETY: the space is a field of the heap, which stays where it is.
        unsafe { SpaceView::new(&raw const (*self.0).space) }
    }

    /// Collections so far.
    pub fn collections(self) -> u64 {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).collections })
    }

    /// The largest capacity so far.
    pub fn peak_capacity(self) -> usize {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).totals.peak_capacity })
    }

    /// Sums over the life of the heap, each of them of its own moment.
    pub fn totals(self) -> Totals {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).totals })
    }

    /// Whether and how marks are kept.
    pub fn mode(self) -> MarkGenerations {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).mode })
    }

    /// See [`Heap::unwatched`].
    pub fn unwatched(self) -> Option<Unavailable> {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).unwatched })
    }

    /// See [`Heap::unwatched_since`].
    pub fn unwatched_since(self) -> &'static str {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).unwatched_since })
    }

    /// Nanoseconds spent in collections.
    pub fn collecting_ns(self) -> u64 {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).totals.collecting_ns })
    }

    /// Bytes reclaimed by collections.
    pub fn reclaimed_bytes(self) -> u64 {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).totals.reclaimed_bytes })
    }

    /// Bytes that the heap may not exceed; 0 for none.
    pub fn limit(self) -> usize {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).settings.limit })
    }

    /// Where freed cells go of which a thread has enough.
    pub fn freed_cells(self) -> FreedCells {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).options.freed_cells })
    }

    /// The signal that stops threads.
    pub fn suspend_signal(self) -> core::ffi::c_int {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).settings.suspend_signal })
    }

    /// What the last collection found.
    pub fn census(self) -> Census {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).space.census })
    }

    /// What had been allocated in sum at the last collection.
    pub fn allocated_before(self) -> usize {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).allocated_before })
    }

    /// What had been freed explicitly in sum at the last collection.
    pub fn freed_before(self) -> usize {
        // SAFETY: `read` passes the heap.
        self.read(|heap| unsafe { &raw const (*heap).freed_before })
    }

    /// Bytes that were allocated in sum: exact as far as other threads do not allocate meanwhile.
    pub fn allocated_bytes(self) -> usize {
        let space = self.space();
        let mut bytes = space.allocated_bytes();
        // SAFETY: the list of records is a field of the heap.
        unsafe {
            Mutators::for_each_without_lock(&raw const (*self.0).mutators, |thread| {
                let cache = &raw const (*thread).cache;
                bytes = bytes
                    .wrapping_add((&raw const (*cache).freed_bytes).read_volatile())
                    .wrapping_sub(space.listed_bytes(cache));
            });
        }
        bytes
    }

    /// A number that changes when something is allocated, freed or collected, or a thread enters or leaves a blocking region, unless
    /// changes cancel each other out. Small objects show by the lists from which threads take them.
    pub fn activity(self) -> u64 {
        let space = self.space();
        let mut mixed = mix(self.collections(), space.turnover());
        // SAFETY: the list of records is a field of the heap, and records stay mapped with their caches.
        unsafe {
            Mutators::for_each_without_lock(&raw const (*self.0).mutators, |thread| {
                space.for_each_head(&raw const (*thread).cache, |head| {
                    mixed = mix(mixed, head);
                });
                let blocked_at = (&raw const (*thread).blocked_at).read_volatile();
                mixed = mix(mixed, blocked_at.word());
            });
        }
        mixed
    }

    /// Bytes that were freed explicitly in sum.
    pub fn freed_bytes(self) -> usize {
        let mut bytes = self.space().freed_bytes();
        // SAFETY: the list of records is a field of the heap.
        unsafe {
            Mutators::for_each_without_lock(&raw const (*self.0).mutators, |thread| {
                let freed = (&raw const (*thread).cache.freed_bytes).read_volatile();
                bytes = bytes.wrapping_add(freed);
            });
        }
        bytes
    }

    /// Bytes of uncollectable objects that threads have allocated, less those that they freed, as far as they are in no sum.
    pub fn uncounted_bytes(self) -> usize {
        let mut bytes = 0usize;
        // SAFETY: the list of records is a field of the heap.
        unsafe {
            Mutators::for_each_without_lock(&raw const (*self.0).mutators, |thread| {
                let uncounted = (&raw const (*thread).cache.uncounted_bytes).read_volatile();
                bytes = bytes.wrapping_add(uncounted);
            });
        }
        bytes
    }

    /// The most workers that the next collection would have, on the processors that were there at the last.
    pub fn workers(self) -> usize {
        // SAFETY: `read` passes the heap.
        let markers = self.read(|heap| unsafe { &raw const (*heap).settings.markers });
        let expected = match self.census().composite_bytes {
            0 => self.space().used_bytes(),
            bytes => bytes,
        };
        // SAFETY: `read` passes the heap.
        let processors = || self.read(|heap| unsafe { &raw const (*heap).topology.processors });
        // SAFETY: `read` passes the heap.
        let took_long = self.read(|heap| unsafe { &raw const (*heap).crew_size.takes_long });
        crew_size::most_for(expected, took_long, markers, processors)
    }
}

/// A number from a number and a word. Two words give two numbers, and so do two numbers.
fn mix(mixed: u64, word: usize) -> u64 {
    // Multiplying by an odd number loses nothing.
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    (mixed ^ word as u64).wrapping_mul(ODD).rotate_left(32)
}

impl Heap {
    /// The heap as it may be seen without the lock.
    pub fn view(&self) -> HeapView {
        // SAFETY: a heap stays where it is while it is borrowed, and doors do not move theirs.
        unsafe { HeapView::new(self) }
    }
}
