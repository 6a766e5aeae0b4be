//! The collector's own memory: a small allocator over mapped pages.
//!
//! Gleaner lives inside other people's processes, where `malloc` may itself be routed to the collector, so nothing
//! of ours may come from it. The arena serves the door as its `GlobalAlloc`: powers of two from 16 bytes to 32 KiB
//! out of mapped slabs, larger requests as mappings of their own.
//!
//! # Invariants
//! - No memory of the arena is a root and none is scanned.
//! - The arena is used under the allocator lock or during start-up, never while the world is stopped (I1): a
//!   stopped thread could hold `lock`.
//!
//! Any mutator may call it; `lock` protects every field.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::RawLock;
use gleaner_os::{memory, threads};

const SMALLEST_SHIFT: u32 = 4;
const LARGEST_SHIFT: u32 = 15;
const CLASSES: usize = (LARGEST_SHIFT - SMALLEST_SHIFT + 1) as usize;
/// Bytes that the arena maps at a time.
pub const SLAB_BYTES: usize = 256 << 10;
/// How long the fault `arena-held` holds a thread up.
const HELD_UP_NS: u64 = 300_000_000;

struct FreeCell {
    next: *mut FreeCell,
}

struct Slabs {
    free: [*mut FreeCell; CLASSES],
    cursor: *mut u8,
    left: usize,
    mapped: usize,
}

/// An allocator over mapped pages, usable as a `#[global_allocator]`.
pub struct Arena {
    lock: RawLock,
    slabs: UnsafeCell<Slabs>,
}

// SAFETY: `slabs` is only touched while `lock` is held.
unsafe impl Sync for Arena {}
// SAFETY: the raw pointers inside belong to the arena, not to a thread.
unsafe impl Send for Arena {}

impl Arena {
    gleaner_base::sync_const_fn! {
        /// An arena that has mapped nothing yet.
        pub fn new() -> Arena {
            Arena {
                lock: RawLock::new(),
                slabs: UnsafeCell::new(Slabs {
                    free: [ptr::null_mut(); CLASSES],
                    cursor: ptr::null_mut(),
                    left: 0,
                    mapped: 0,
                }),
            }
        }
    }

    /// Bytes that the arena has mapped so far; they do not count toward the heap limit.
    pub fn mapped_bytes(&self) -> usize {
        self.with(|slabs| slabs.mapped)
    }

    /// Keeps all other threads out, so that `fork` copies a consistent arena and no thread is held up inside. Nothing can
    /// be allocated until [`Arena::unlock`].
    pub fn lock(&self) {
        self.lock.lock();
    }

    /// Whether a thread is in the arena, or keeps others out.
    pub fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    /// Ends what [`Arena::lock`] began, after a fork in both processes. All who wait are woken: one of them may be a thread
    /// that is held up from now on, and the only one that was woken before.
    pub fn unlock(&self) {
        self.lock.unlock();
        self.lock.wake_all();
    }

    fn with<R>(&self, body: impl FnOnce(&mut Slabs) -> R) -> R {
        self.lock.lock();
        if faults::armed(FaultPoint::ArenaHeld) {
            threads::sleep_ns(HELD_UP_NS); // A fork meanwhile waits for the lock.
        }
        // SAFETY: the lock is held, so this is the only reference.
        let result = body(unsafe { &mut *self.slabs.get() });
        self.lock.unlock();
        result
    }
}

impl Default for Arena {
    fn default() -> Self {
        Arena::new()
    }
}

fn class_of(layout: Layout) -> Option<usize> {
    let bytes = layout.size().max(layout.align()).max(1 << SMALLEST_SHIFT);
    let shift = bytes.next_power_of_two().trailing_zeros();
    (shift <= LARGEST_SHIFT).then_some((shift - SMALLEST_SHIFT) as usize)
}

fn mapping_bytes(layout: Layout) -> Option<usize> {
    let page = memory::page_size();
    if layout.align() > page {
        return None;
    }
    Some(layout.size().checked_add(page - 1)? & !(page - 1))
}

impl Slabs {
    fn take(&mut self, class: usize) -> *mut u8 {
        let cell = self.free[class];
        if cell.is_null() {
            return self.carve(1 << (class as u32 + SMALLEST_SHIFT));
        }
        // SAFETY: cells on the free list are ours, unused, and hold a link.
        self.free[class] = unsafe { (*cell).next };
        cell.cast()
    }

    fn give(&mut self, class: usize, cell: *mut u8) {
        let cell = cell.cast::<FreeCell>();
        // SAFETY: the cell was handed out by `take` and is given back, so we may write to it.
        unsafe { (*cell).next = self.free[class] };
        self.free[class] = cell;
    }

    /// Cuts `bytes`, a power of two, off the slab; cells are aligned to their own size.
    fn carve(&mut self, bytes: usize) -> *mut u8 {
        let padding = self.cursor.align_offset(bytes);
        if self.cursor.is_null() || padding + bytes > self.left {
            let Some(slab) = memory::map(SLAB_BYTES) else {
                return ptr::null_mut();
            };
            self.mapped += SLAB_BYTES;
            self.cursor = slab.as_ptr();
            self.left = SLAB_BYTES;
            return self.carve(bytes);
        }
        // SAFETY: `padding + bytes <= left`, so both stay inside the slab.
        let cell = unsafe { self.cursor.add(padding) };
        // SAFETY: `padding + bytes <= left`, so the end of the cell is at most one past the slab.
        self.cursor = unsafe { cell.add(bytes) };
        self.left -= padding + bytes;
        cell
    }
}

// SAFETY: cells are aligned to the power of two that covers size and alignment, mappings to the page; memory is
// handed out once until it is given back; nothing here unwinds.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            Some(class) => self.with(|slabs| slabs.take(class)),
            None => mapping_bytes(layout)
                .and_then(memory::map)
                .map_or(ptr::null_mut(), NonNull::as_ptr),
        }
    }

    unsafe fn dealloc(&self, cell: *mut u8, layout: Layout) {
        match (class_of(layout), NonNull::new(cell)) {
            (Some(class), _) => self.with(|slabs| slabs.give(class, cell)),
            (None, Some(mapping)) => {
                if let Some(bytes) = mapping_bytes(layout) {
                    // SAFETY: `alloc` mapped exactly these bytes, and the caller gives them up.
                    unsafe { memory::unmap(mapping, bytes) };
                }
            }
            (None, None) => {}
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn cells_are_aligned_distinct_and_reused() {
        let arena = Arena::new();
        let mut cells = Vec::new();
        for shift in 0..17 {
            let layout = Layout::from_size_align(1 << shift, 1 << shift.min(12)).unwrap();
            // SAFETY: the layout has a size.
            let cell = unsafe { arena.alloc(layout) };
            assert_eq!(cell as usize % layout.align(), 0);
            // SAFETY: the cell is ours for `layout.size()` bytes.
            unsafe { ptr::write_bytes(cell, shift as u8, layout.size()) };
            cells.push((cell, layout, shift as u8));
        }
        for (cell, layout, fill) in cells {
            // SAFETY: `take` handed out the cell to this test, which has not given it back.
            assert!((0..layout.size()).all(|i| unsafe { *cell.add(i) } == fill));
            // SAFETY: allocated above with this layout.
            unsafe { arena.dealloc(cell, layout) };
        }
        let layout = Layout::new::<[u64; 3]>();
        // SAFETY: the layout has a size.
        let first = unsafe { arena.alloc(layout) };
        // SAFETY: allocated just above.
        unsafe { arena.dealloc(first, layout) };
        // SAFETY: the layout has a size.
        assert_eq!(unsafe { arena.alloc(layout) }, first);
    }

    #[test]
    fn a_small_record_may_have_a_large_alignment() {
        let arena = Arena::new();
        let layout = Layout::from_size_align(8, 512).unwrap();
        for _ in 0..4 {
            // SAFETY: the layout has a size.
            let cell = unsafe { arena.alloc(layout) };
            assert_eq!(cell as usize % 512, 0);
        }
    }

    #[test]
    fn the_slabs_are_used_under_the_lock() {
        let arena = Arena::new();
        assert!(arena.with(|_| arena.lock.is_locked()));
        assert!(!arena.lock.is_locked());
    }

    #[test]
    fn no_two_threads_have_the_same_cell() {
        let arena = Arena::new();
        let layout = Layout::new::<usize>();
        std::thread::scope(|scope| {
            for own in 1..5 {
                let arena = &arena;
                scope.spawn(move || {
                    for _ in 0..2000 {
                        // SAFETY: the layout has a size.
                        let cells = [(); 8].map(|()| unsafe { arena.alloc(layout) });
                        for cell in cells {
                            // SAFETY: the arena handed out the cell to this thread alone, for a word.
                            unsafe { cell.cast::<usize>().write_volatile(own) };
                        }
                        std::thread::yield_now();
                        for cell in cells {
                            // SAFETY: the cell is this thread's until it is given back here, and was allocated with
                            // this layout.
                            unsafe {
                                assert_eq!(cell.cast::<usize>().read_volatile(), own);
                                arena.dealloc(cell, layout);
                            }
                        }
                    }
                });
            }
        });
    }
}
