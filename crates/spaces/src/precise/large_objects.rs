//! Large objects of the precise heap, young and old: whole pages each, in a range of their own, where they never move.
//!
//! The range is several times the limit, so that pages between large objects are not lost; what counts is the pages in
//! use. Each object has a generation beside the heap. A scavenge reclaims the young ones that it did not reach, a full
//! collection all that was not marked. Free runs of pages are kept in the order of their addresses and joined when a
//! sweep is over; first fit. A run is clean while its pages read as zero.
//!
//! # Invariants
//! - An object begins at a page and is the only one in its pages. It is in one of the two lists, as its generation
//!   says.
//! - Free runs do not touch each other, and lie below the frontier. Pages above were never used.
//!
//! The unsafe functions are called by the holder of the lock for allocation beside the TLABs, or in a stopped world by
//! one thread; but [`LargeObjects::strip`] by every worker of a phase, also while one of them gives back memory under
//! the lock. Any thread may ask whether an object is young.

use core::ptr::NonNull;

use gleaner_base::sync::{AtomicU8, AtomicUsize, Ordering, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::mapped_list::MappedList;
use gleaner_mem::side::Side;
use gleaner_os::memory;

/// Bytes of a page, as a power of two.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Bytes of an object that are one strip.
pub const STRIP_BYTES: usize = 64 << 10;

const YOUNG: u8 = 1;
const OLD: u8 = 2;

/// Pages of an object, or free ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: u32,
    pages: u32,
    /// Its pages read as zero; of free runs.
    clean: bool,
}

/// A piece of an object.
#[derive(Clone, Copy)]
struct Strip {
    /// The object's first page.
    object: u32,
    /// The first page of the piece, and the one after its last.
    pages: (u32, u32),
}

const STRIP_PAGES: u32 = (STRIP_BYTES / PAGE_BYTES) as u32;

/// What becomes of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Its pages are free.
    Dies,
    /// It is young, still.
    Young,
    /// It is old from now on.
    Old,
}

/// Which objects are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generation {
    /// The young ones.
    Young,
    /// The old ones.
    Old,
}

struct Inner {
    free: MappedList<Run>,
    young: MappedList<Run>,
    old: MappedList<Run>,
    strips: MappedList<Strip>,
    /// Pages from here on were never used.
    frontier: u32,
}

/// The space.
pub struct LargeObjects {
    start: Address,
    pages: u32,
    /// For the first page of each object its generation. Written by the allocating mutator, and in a stopped world.
    generations: Side<AtomicU8>,
    /// Pages of objects. Written with the lock.
    used: AtomicUsize,
    /// Pages of young objects. Written with the lock.
    young: AtomicUsize,
    /// Pages of free runs that are not clean. Written with the lock.
    dirty: AtomicUsize,
    inner: UnsafeCell<Inner>,
}

// SAFETY: the unsafe functions that follow the `UnsafeCell` are called by the holder of the lock for allocation beside
// the TLABs, or in a stopped world by one thread (see the file's comment); the rest is atomics.
unsafe impl Sync for LargeObjects {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for LargeObjects {}

impl LargeObjects {
    /// An empty space over `bytes` bytes from `start`, both whole pages, that read as zero; `None` when the system
    /// gives no memory.
    pub fn new(start: Address, bytes: usize) -> Option<LargeObjects> {
        let pages = bytes / PAGE_BYTES;
        let strips = pages + bytes / STRIP_BYTES;
        Some(LargeObjects {
            start,
            pages: pages as u32,
            generations: Side::new(start, bytes.max(1), PAGE_SHIFT)?,
            used: AtomicUsize::new(0),
            young: AtomicUsize::new(0),
            dirty: AtomicUsize::new(0),
            inner: UnsafeCell::new(Inner {
                free: MappedList::new(pages)?,
                young: MappedList::new(pages)?,
                old: MappedList::new(pages)?,
                strips: MappedList::new(strips)?,
                frontier: 0,
            }),
        })
    }

    /// Where the range begins.
    #[inline(always)]
    pub fn start(&self) -> Address {
        self.start
    }

    /// Bytes of the range that were ever used, from its start.
    ///
    /// # Safety
    /// The caller holds the lock for allocation beside the TLABs, or is the one thread at work in a stopped world.
    pub unsafe fn reached(&self) -> usize {
        // SAFETY: the caller holds the lock or has stopped the world, as asked.
        unsafe { self.inner() }.frontier as usize * PAGE_BYTES
    }

    /// Bytes of the range.
    pub fn bytes(&self) -> usize {
        self.pages as usize * PAGE_BYTES
    }

    /// Whether an address lies in the range.
    #[inline(always)]
    pub fn contains(&self, at: Address) -> bool {
        at.offset_from(self.start) < self.bytes()
    }

    /// Bytes of the pages of all objects.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed) * PAGE_BYTES
    }

    /// Bytes of the pages of young objects.
    pub fn young_used(&self) -> usize {
        self.young.load(Ordering::Relaxed) * PAGE_BYTES
    }

    /// Bytes that are resident at most: of objects, and of free pages that are not clean.
    pub fn resident(&self) -> usize {
        self.used() + self.dirty.load(Ordering::Relaxed) * PAGE_BYTES
    }

    /// Whether the object in the range at `object` is young.
    #[inline(always)]
    pub fn is_young(&self, object: Address) -> bool {
        self.generation(object).load(Ordering::Relaxed) == YOUNG
    }

    /// Whether an object begins at `at`, in the range.
    pub fn is_object(&self, at: Address) -> bool {
        at.word().is_multiple_of(PAGE_BYTES) && self.generation(at).load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn generation(&self, at: Address) -> &AtomicU8 {
        self.generations.get(self.generations.index(at))
    }

    /// # Safety
    /// The caller holds the lock for allocation beside the TLABs, or is the one thread at work in a stopped
    /// world; it has no other reference from here, and lends this one to nobody who would ask for another.
    #[allow(clippy::mut_from_ref, reason = "the callers have it to themselves")]
    unsafe fn inner(&self) -> &mut Inner {
        // SAFETY: the caller holds the lock, or is the only thread in a stopped world, and uses no other reference from
        // here, as asked.
        self.inner.with_mut(|inner| unsafe { &mut *inner })
    }

    fn address(&self, page: u32) -> Address {
        self.start.add(page as usize * PAGE_BYTES)
    }

    /// Pages for a young object of `bytes` bytes; and whether they read as zero.
    ///
    /// # Safety
    /// The caller holds the lock for allocation beside the TLABs, or is the one thread at work in a stopped world.
    pub unsafe fn allocate(&self, bytes: usize) -> Option<(Address, bool)> {
        // SAFETY: the caller holds the lock or has stopped the world, as asked; no other reference to the inner part is
        // in use here.
        let inner = unsafe { self.inner() };
        let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES)).ok()?;
        let run = self
            .take_free(inner, pages)
            .or_else(|| self.take_fresh(inner, pages))?;
        inner.young.push(run)?;
        let object = self.address(run.first);
        self.generation(object).store(YOUNG, Ordering::Relaxed);
        self.used.fetch_add(pages as usize, Ordering::Relaxed);
        self.young.fetch_add(pages as usize, Ordering::Relaxed);
        Some((object, run.clean))
    }

    /// Whether pages for an object of `bytes` bytes are free in one piece.
    ///
    /// # Safety
    /// The caller holds the lock for allocation beside the TLABs, or is the one thread at work in a stopped world.
    pub unsafe fn has_room(&self, bytes: usize) -> bool {
        // SAFETY: the caller holds the lock or has stopped the world, as asked; no other reference to the inner part is
        // in use here.
        let inner = unsafe { self.inner() };
        let pages = bytes.div_ceil(PAGE_BYTES);
        pages <= (self.pages - inner.frontier) as usize
            || inner
                .free
                .as_slice()
                .iter()
                .any(|run| run.pages as usize >= pages)
    }

    /// Whether an object of `bytes` bytes would lie in pages that are resident already.
    ///
    /// # Safety
    /// The caller holds the lock for allocation beside the TLABs, or is the one thread at work in a stopped world.
    pub unsafe fn is_resident(&self, bytes: usize) -> bool {
        // SAFETY: the caller holds the lock or has stopped the world, as asked; no other reference to the inner part is
        // in use here.
        let free = unsafe { self.inner() }.free.as_slice();
        let pages = bytes.div_ceil(PAGE_BYTES);
        let first = free.iter().find(|run| run.pages as usize >= pages);
        first.is_some_and(|run| !run.clean)
    }

    fn take_free(&self, inner: &mut Inner, pages: u32) -> Option<Run> {
        let free = inner.free.as_mut_slice();
        let index = free.iter().position(|run| run.pages >= pages)?;
        let run = &mut free[index];
        let taken = Run { pages, ..*run };
        run.first += pages;
        run.pages -= pages;
        if run.pages == 0 {
            inner.free.retain(|run| run.pages > 0);
        }
        if !taken.clean {
            self.dirty.fetch_sub(pages as usize, Ordering::Relaxed);
        }
        Some(taken)
    }

    fn take_fresh(&self, inner: &mut Inner, pages: u32) -> Option<Run> {
        if pages > self.pages - inner.frontier {
            return None;
        }
        let first = inner.frontier;
        inner.frontier += pages;
        Some(Run {
            first,
            pages,
            clean: true,
        })
    }

    /// Gives memory of free pages back to the system, the highest first, until it is `wanted` bytes or no more is left.
    ///
    /// # Safety
    /// The caller holds the lock for allocation beside the TLABs, or is the one thread at work in a stopped world.
    pub unsafe fn release_free(&self, mut wanted: usize) {
        let (free, frontier) = self.inner.with_mut(|inner| {
            // SAFETY: the caller holds the lock or has stopped the world, as asked. Workers that draw strips meanwhile,
            // with `strip` and no lock, read another field.
            unsafe { (&mut (*inner).free, &mut (*inner).frontier) }
        });
        for run in free.as_mut_slice().iter_mut().rev() {
            if run.clean {
                continue;
            }
            if wanted == 0 {
                break;
            }
            let Some(start) = NonNull::new(self.address(run.first).ptr::<u8>()) else {
                continue;
            };
            let bytes = run.pages as usize * PAGE_BYTES;
            // SAFETY: whole pages of the range that no object uses.
            run.clean = unsafe { memory::release(start, bytes) };
            if run.clean {
                self.dirty.fetch_sub(run.pages as usize, Ordering::Relaxed);
                wanted = wanted.saturating_sub(bytes);
            }
        }
        // Pages below the frontier that are as if they had never been used.
        if let Some(last) = free.as_slice().last().copied()
            && last.clean
            && last.first + last.pages == *frontier
        {
            *frontier = last.first;
            free.truncate(free.as_slice().len() - 1);
        }
    }

    /// Asks of each object of a generation, with its bytes, what becomes of it.
    ///
    /// # Safety
    /// The caller is the one thread at work in a stopped world.
    pub unsafe fn sweep(
        &self,
        generation: Generation,
        mut fate: impl FnMut(Address, usize) -> Fate,
    ) {
        // SAFETY: the world is stopped and this is the only thread, as asked.
        let inner = unsafe { self.inner() };
        let Inner {
            free, young, old, ..
        } = inner;
        let (list, mut other) = match generation {
            Generation::Young => (young, Some(old)),
            Generation::Old => (old, None),
        };
        let before = free.as_slice().len();
        list.retain(|run| {
            let (object, pages) = (self.address(run.first), run.pages as usize);
            let fate = fate(object, pages * PAGE_BYTES);
            let stays = match (fate, &mut other) {
                (Fate::Dies, _) => {
                    self.generation(object).store(0, Ordering::Relaxed);
                    self.used.fetch_sub(pages, Ordering::Relaxed);
                    self.dirty.fetch_add(pages, Ordering::Relaxed);
                    run.clean = false;
                    // There is room: each page is in one list.
                    free.push(*run).is_none()
                }
                (Fate::Old, Some(old)) => {
                    self.generation(object).store(OLD, Ordering::Relaxed);
                    old.push(*run).is_none()
                }
                (Fate::Old | Fate::Young, _) => true,
            };
            if generation == Generation::Young && !stays {
                self.young.fetch_sub(pages, Ordering::Relaxed);
            }
            stays
        });
        if free.as_slice().len() > before {
            let joined = join(free);
            self.dirty.fetch_add(joined, Ordering::Relaxed);
        }
    }

    /// Visits the objects of a generation.
    ///
    /// # Safety
    /// The caller holds the lock for allocation beside the TLABs, or is the one thread at work in a stopped world.
    pub unsafe fn for_each(&self, generation: Generation, visit: impl FnMut(Address)) {
        // SAFETY: the caller holds the lock or has stopped the world, as asked; `visit` must not come back into this
        // space.
        let inner = unsafe { self.inner() };
        let list = match generation {
            Generation::Young => &inner.young,
            Generation::Old => &inner.old,
        };
        list.as_slice()
            .iter()
            .map(|run| self.address(run.first))
            .for_each(visit);
    }

    /// Cuts the old objects that have slots into strips; how many there are. They are valid until the next sweep.
    ///
    /// # Safety
    /// The caller is the one thread at work in a stopped world.
    pub unsafe fn cut_into_strips(&self, has_slots: impl Fn(Address) -> bool) -> usize {
        // SAFETY: the world is stopped and this is the only thread, as asked.
        let Inner { old, strips, .. } = unsafe { self.inner() };
        strips.truncate(0);
        for run in old.as_slice() {
            if has_slots(self.address(run.first)) {
                let end = run.first + run.pages;
                for low in (run.first..end).step_by(STRIP_PAGES as usize) {
                    let strip = Strip {
                        object: run.first,
                        pages: (low, end.min(low + STRIP_PAGES)),
                    };
                    let room = strips.push(strip);
                    debug_assert!(room.is_some(), "there is room for a strip of every object");
                }
            }
        }
        strips.as_slice().len()
    }

    /// A strip: its object and its bounds, whole pages of the object.
    ///
    /// # Safety
    /// The strips were cut, and nobody changes them meanwhile.
    pub unsafe fn strip(&self, index: usize) -> (Address, Address, Address) {
        let strip = self.inner.with(|inner| {
            // SAFETY: the strips were cut and nobody changes them meanwhile, as asked, so no reference to change them
            // is in use.
            let strips = unsafe { &(*inner).strips };
            strips.as_slice()[index]
        });
        let (low, high) = strip.pages;
        (
            self.address(strip.object),
            self.address(low),
            self.address(high),
        )
    }

    /// Bytes of the tables beside the heap that depend on the range.
    pub fn metadata_bytes(&self) -> usize {
        self.generations.bytes()
    }
}

/// Sorts the runs and joins neighbours. How many pages of clean runs became part of runs that are not.
fn join(free: &mut MappedList<Run>) -> usize {
    let runs = free.as_mut_slice();
    runs.sort_unstable_by_key(|run| run.first);
    let (mut kept, mut spoilt) = (0, 0);
    for index in 1..runs.len() {
        let run = runs[index];
        let last = &mut runs[kept];
        if last.first + last.pages != run.first {
            kept += 1;
            runs[kept] = run;
            continue;
        }
        if last.clean != run.clean {
            let clean = if last.clean { last.pages } else { run.pages };
            spoilt += clean as usize;
            last.clean = false;
        }
        last.pages += run.pages;
    }
    free.truncate(kept + 1);
    spoilt
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    const PAGES: usize = 64;

    fn space() -> (LargeObjects, usize) {
        let start = memory::map(PAGES * PAGE_BYTES).unwrap();
        let space = LargeObjects::new(Address::of(start.as_ptr()), PAGES * PAGE_BYTES).unwrap();
        (space, start.as_ptr() as usize)
    }

    #[test]
    fn pages_of_the_dead_are_used_again_when_their_neighbours_are_free_too() {
        let (space, start) = space();
        // SAFETY: there is only this thread.
        unsafe {
            let objects: Vec<Address> = (0..16)
                .map(|_| {
                    let (object, clean) = space.allocate(4 * PAGE_BYTES - 8).unwrap();
                    assert!(clean);
                    object.store(1);
                    object
                })
                .collect();
            assert!(space.allocate(1).is_none());
            assert!(space.is_object(objects[3]) && space.is_young(objects[3]));
            space.sweep(Generation::Young, |object, bytes| {
                assert_eq!(bytes, 4 * PAGE_BYTES);
                match (object.word() - start) / bytes {
                    3..6 | 9 => Fate::Dies,
                    0 => Fate::Old,
                    _ => Fate::Young,
                }
            });
            assert_eq!(space.used(), 12 * 4 * PAGE_BYTES);
            assert_eq!(space.young_used(), 11 * 4 * PAGE_BYTES);
            assert_eq!(space.resident(), 16 * 4 * PAGE_BYTES);
            assert!(!space.is_young(objects[0]) && !space.is_object(objects[9]));
            let (again, clean) = space.allocate(12 * PAGE_BYTES).unwrap();
            assert!(again == objects[3] && !clean && space.is_young(again));
            assert!(space.is_resident(PAGE_BYTES) && !space.is_resident(5 * PAGE_BYTES));
            space.release_free(PAGE_BYTES);
            let (again, clean) = space.allocate(PAGE_BYTES).unwrap();
            assert!(again == objects[9] && clean && again.load() == 0);
            assert!(space.allocate(4 * PAGE_BYTES).is_none());
        }
    }

    #[test]
    fn a_clean_run_is_not_clean_when_it_is_joined_with_a_dirty_one() {
        // The one that was given back before its neighbour died lies below it, or above.
        for first in [0, 1] {
            let (space, _) = space();
            // SAFETY: there is only this thread.
            unsafe {
                let objects = [0, 1, 2].map(|_| space.allocate(2 * PAGE_BYTES).unwrap().0);
                for dies in [first, 1 - first] {
                    objects[dies].store(1);
                    space.sweep(Generation::Young, |object, _| {
                        if object == objects[dies] {
                            Fate::Dies
                        } else {
                            Fate::Young
                        }
                    });
                    if dies == first {
                        space.release_free(2 * PAGE_BYTES);
                        assert_eq!(space.resident(), 4 * PAGE_BYTES);
                    }
                }
                assert_eq!(space.resident(), 6 * PAGE_BYTES);
                assert_eq!(space.allocate(4 * PAGE_BYTES), Some((objects[0], false)));
            }
        }
    }

    #[test]
    fn old_objects_are_cut_into_strips() {
        let (space, _) = space();
        // SAFETY: there is only this thread.
        unsafe {
            let (first, _) = space.allocate(20 * PAGE_BYTES).unwrap();
            let (second, _) = space.allocate(5 * PAGE_BYTES).unwrap();
            space.sweep(Generation::Young, |_, _| Fate::Old);
            space.allocate(5 * PAGE_BYTES).unwrap();
            assert_eq!(space.cut_into_strips(|object| object != second), 2);
            let middle = first.add(STRIP_BYTES);
            assert_eq!(space.strip(0), (first, first, middle));
            assert_eq!(space.strip(1), (first, middle, second));
            assert_eq!(space.cut_into_strips(|_| true), 3);
        }
    }
}
