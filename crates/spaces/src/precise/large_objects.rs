//! Large objects of the precise heap, young and old: whole pages each, in a range of their own, where they never move.
//!
//! The range is several times the limit, so that pages between large objects are not lost; what counts is the pages in
//! use. Each object has a generation beside the heap. A scavenge reclaims the young ones that it did not reach, a full
//! collection all that was not marked. Free runs of pages are kept in the order of their addresses and joined when a
//! sweep is over; first fit. A run is clean while its pages read as zero. Where the system limits addresses, the range is
//! not reserved: it is mapped up to a little above the frontier, and what is mapped follows the frontier down, too.
//!
//! A fenced object ([`gleaner_mem::spine`]) has its header and length at the end of a page, the rest of it before, and
//! pages without access behind, its fence. These take addresses and no memory: they do not count as used.
//!
//! # Invariants
//! - An object begins at a page and is the only one in its pages. A fenced one begins before the end of a page, by as
//!   many bytes as its header and length have. An object is in one of the two lists, as its generation says.
//! - Pages have no access while they are the fence of an object, and no longer.
//! - Free runs do not touch each other, and lie below the frontier. Pages above were never used, or read as zero again.
//! - What is mapped reaches to the frontier at least.
//!
//! The lock for allocation beside the TLABs protects what is not atomic; [`LargeObjects::strip`] is for every worker of
//! a phase, also while one of them gives back memory under the lock. Any thread may ask whether an object is young.

use core::ptr::NonNull;

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::sync::{AtomicBool, AtomicU8, AtomicUsize, Ordering, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::mapped_list::MappedList;
use gleaner_mem::object_model::ELEMENTS;
use gleaner_mem::side::Side;
use gleaner_os::memory::{self, Access};

/// Bytes of a page, as a power of two.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Bytes of an object that are one strip.
pub const STRIP_BYTES: usize = 64 << 10;

const YOUNG: u8 = 1;
const OLD: u8 = 2;
/// Set beside one of them.
const FENCED: u8 = 4;

/// Pages of an object, or free ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: u32,
    pages: u32,
    /// How many of them, the last ones, are without access.
    fence: u32,
    /// Its pages read as zero; of free runs.
    clean: bool,
}

impl Run {
    /// How many pages can be accessed: that much memory it takes.
    fn open(&self) -> u32 {
        self.pages - self.fence
    }
}

/// A piece of an object.
#[derive(Clone, Copy)]
struct Strip {
    object: Address,
    /// The first page of the piece, and the one after its last.
    pages: (u32, u32),
}

/// Where pages are mapped as they are used, this many more than are needed are mapped.
const AHEAD_PAGES: u32 = 256;

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
    /// Pages from here on are not mapped.
    mapped: u32,
}

/// The space.
pub struct LargeObjects {
    start: Address,
    pages: u32,
    /// For the page in which each object begins its generation, and whether it is fenced. Written by the allocating
    /// mutator, and in a stopped world.
    generations: Side<AtomicU8>,
    /// Pages of objects. Written with the lock.
    used: AtomicUsize,
    /// Pages of young objects. Written with the lock.
    young: AtomicUsize,
    /// Pages of free runs that are not clean. Written with the lock.
    dirty: AtomicUsize,
    /// Whether the system refused the last fence. Written with the lock.
    lacks_fences: AtomicBool,
    /// Whether the range is mapped as it is used.
    as_used: bool,
    inner: UnsafeCell<Inner>,
}

// SAFETY: who follows the `UnsafeCell` has borrowed the lock for allocation beside the TLABs, or reads strips, which
// change between phases alone; the rest is atomics.
unsafe impl Sync for LargeObjects {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for LargeObjects {}

impl LargeObjects {
    /// An empty space over `bytes` bytes from `start`, both whole pages, that read as zero, or where nothing is mapped and
    /// nobody maps anything else, if it is to be mapped `as_used`; `None` when the system gives no memory.
    pub fn new(start: Address, bytes: usize, as_used: bool) -> Option<LargeObjects> {
        let pages = bytes / PAGE_BYTES;
        let strips = pages + bytes / STRIP_BYTES;
        Some(LargeObjects {
            start,
            pages: pages as u32,
            generations: Side::new(start, bytes.max(1), PAGE_SHIFT)?,
            used: AtomicUsize::new(0),
            young: AtomicUsize::new(0),
            dirty: AtomicUsize::new(0),
            lacks_fences: AtomicBool::new(false),
            as_used,
            inner: UnsafeCell::new(Inner {
                free: MappedList::new(pages)?,
                young: MappedList::new(pages)?,
                old: MappedList::new(pages)?,
                strips: MappedList::new(strips)?,
                frontier: 0,
                mapped: if as_used { 0 } else { pages as u32 },
            }),
        })
    }

    /// Where the range begins.
    #[inline(always)]
    pub fn start(&self) -> Address {
        self.start
    }

    /// Bytes of the range that were ever used, from its start.
    pub fn reached(&self, locked: &mut AllocatorLocked<'_>) -> usize {
        self.inner(locked).frontier as usize * PAGE_BYTES
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

    /// Whether the system refused the last fence that was asked for.
    pub fn lacks_fences(&self) -> bool {
        self.lacks_fences.load(Ordering::Relaxed)
    }

    /// Bytes that are resident at most: of objects, and of free pages that are not clean.
    pub fn resident(&self) -> usize {
        self.used() + self.dirty.load(Ordering::Relaxed) * PAGE_BYTES
    }

    /// Whether the object in the range at `object` is young.
    #[inline(always)]
    pub fn is_young(&self, object: Address) -> bool {
        self.generation(object).load(Ordering::Relaxed) & YOUNG != 0
    }

    /// Whether an object begins at `at`, in the range.
    pub fn is_object(&self, at: Address) -> bool {
        let generation = self.generation(at).load(Ordering::Relaxed);
        generation != 0 && at == object_in(at.align_down(PAGE_BYTES), generation & FENCED != 0)
    }

    /// The object behind which the fence lies that an address of the range is in. It only reads atomics.
    pub fn fenced_object(&self, at: Address) -> Option<Address> {
        let page = at.offset_from(self.start) / PAGE_BYTES;
        let generation_of = |page: &u32| {
            let generation = self.generation(self.address(*page)).load(Ordering::Relaxed);
            (generation != 0).then_some((*page, generation))
        };
        // The first object below, which is not in the page itself.
        let (object, generation) = (0..page as u32)
            .rev()
            .find_map(|page| generation_of(&page))?;
        let in_fence = generation & FENCED != 0 && generation_of(&(page as u32)).is_none();
        in_fence.then(|| object_in(self.address(object), true))
    }

    #[inline(always)]
    fn generation(&self, at: Address) -> &AtomicU8 {
        self.generations.get(self.generations.index(at))
    }

    #[allow(
        clippy::mut_from_ref,
        reason = "who has borrowed the lock has what it protects"
    )]
    fn inner<'a>(&'a self, _: &'a mut AllocatorLocked<'_>) -> &'a mut Inner {
        // SAFETY: the lock protects the inner part, and is borrowed for as long as this reference is. `strip` reads
        // another field of it, which changes between phases alone.
        self.inner.with_mut(|inner| unsafe { &mut *inner })
    }

    fn address(&self, page: u32) -> Address {
        self.start.add(page as usize * PAGE_BYTES)
    }

    /// Pages for a young object of `bytes` bytes; and whether they read as zero.
    pub fn allocate(
        &self,
        locked: &mut AllocatorLocked<'_>,
        bytes: usize,
    ) -> Option<(Address, bool)> {
        let inner = self.inner(locked);
        let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES)).ok()?;
        let run = self.take(inner, pages)?;
        self.add_young(inner, run)?;
        Some((self.object(&run), run.clean))
    }

    /// As [`LargeObjects::allocate`], of an object of `bytes` bytes with `fence` bytes of pages behind it that cannot be
    /// accessed. `None` also where the system refuses to take the access away.
    pub fn allocate_fenced(
        &self,
        locked: &mut AllocatorLocked<'_>,
        bytes: usize,
        fence: usize,
    ) -> Option<(Address, bool)> {
        let inner = self.inner(locked);
        let [open, fence] = [bytes, fence].map(|bytes| u32::try_from(bytes.div_ceil(PAGE_BYTES)));
        let (open, fence) = (open.ok()?, fence.ok()?);
        let run = self.take(inner, open.checked_add(fence)?)?;
        let place = NonNull::new(self.address(run.first + open).ptr::<u8>())?;
        let fence_bytes = fence as usize * PAGE_BYTES;
        // SAFETY: whole pages of the range that no object uses. If they are not clean, they hold memory that would be
        // nobody's; it stays resident if the system keeps it.
        let is_fenced = unsafe {
            if !run.clean {
                memory::release(place, fence_bytes);
            }
            memory::fence(place, fence_bytes)
        };
        self.lacks_fences.store(!is_fenced, Ordering::Relaxed);
        if !is_fenced {
            inner.free.push(run)?;
            if !run.clean {
                self.dirty.fetch_add(run.pages as usize, Ordering::Relaxed);
            }
            let spoilt = join(&mut inner.free);
            self.dirty.fetch_add(spoilt, Ordering::Relaxed);
            return None;
        }
        let run = Run { fence, ..run };
        self.add_young(inner, run)?;
        Some((self.object(&run), run.clean))
    }

    fn take(&self, inner: &mut Inner, pages: u32) -> Option<Run> {
        self.take_free(inner, pages)
            .or_else(|| self.take_fresh(inner, pages))
    }

    fn add_young(&self, inner: &mut Inner, run: Run) -> Option<()> {
        inner.young.push(run)?;
        self.set_generation(&run, YOUNG);
        self.used.fetch_add(run.open() as usize, Ordering::Relaxed);
        self.young.fetch_add(run.open() as usize, Ordering::Relaxed);
        Some(())
    }

    fn object(&self, run: &Run) -> Address {
        let is_fenced = run.fence > 0;
        let page = if is_fenced {
            run.first + run.open() - 1
        } else {
            run.first
        };
        object_in(self.address(page), is_fenced)
    }

    fn set_generation(&self, run: &Run, generation: u8) {
        let fenced = if run.fence > 0 { FENCED } else { 0 };
        self.generation(self.object(run))
            .store(generation | fenced, Ordering::Relaxed);
    }

    /// Whether pages for an object of `bytes` bytes are free in one piece.
    pub fn has_room(&self, locked: &mut AllocatorLocked<'_>, bytes: usize) -> bool {
        let inner = self.inner(locked);
        let pages = bytes.div_ceil(PAGE_BYTES);
        let free = inner.free.as_slice();
        free.iter().any(|run| run.pages as usize >= pages)
            || u32::try_from(pages).is_ok_and(|pages| self.map_or_retreat(inner, pages))
    }

    /// Makes `pages` pages behind the frontier usable. If the system refuses, what is free below the frontier may make
    /// room.
    fn map_or_retreat(&self, inner: &mut Inner, pages: u32) -> bool {
        self.map(inner, pages) || self.as_used && self.retreat(inner) && self.map(inner, pages)
    }

    /// Makes `pages` pages behind the frontier usable, if the range has them and the system allows.
    fn map(&self, inner: &mut Inner, pages: u32) -> bool {
        if pages > self.pages - inner.frontier {
            return false;
        }
        let end = inner.frontier + pages;
        if end <= inner.mapped {
            return true;
        }
        let ahead = end.saturating_add(AHEAD_PAGES).min(self.pages);
        let start = NonNull::new(self.address(inner.mapped).ptr::<u8>());
        let mapped = start.and_then(|start| {
            [ahead, end].into_iter().find(|end| {
                let bytes = (end - inner.mapped) as usize * PAGE_BYTES;
                memory::map_at(start, bytes, Access::Write).is_ok()
            })
        });
        inner.mapped = mapped.unwrap_or(inner.mapped);
        mapped.is_some()
    }

    /// Lowers the frontier below free pages at its end, clean or not, and gives their addresses back; whether there were some.
    fn retreat(&self, inner: &mut Inner) -> bool {
        let free = inner.free.as_slice();
        let last = free.last().copied();
        let last = last.filter(|run| run.first + run.pages == inner.frontier);
        if let Some(run) = last {
            inner.free.truncate(free.len() - 1);
            inner.frontier = run.first;
            if !run.clean {
                self.dirty.fetch_sub(run.pages as usize, Ordering::Relaxed);
            }
        }
        self.unmap_above(inner.frontier, &mut inner.mapped)
    }

    /// Gives the addresses of pages above the frontier back where they are taken as they are used; whether there were some.
    fn unmap_above(&self, frontier: u32, mapped: &mut u32) -> bool {
        let Some(start) = NonNull::new(self.address(frontier).ptr::<u8>())
            .filter(|_| self.as_used && frontier < *mapped)
        else {
            return false;
        };
        // SAFETY: whole pages of the range that no object uses, mapped by `map`.
        unsafe { memory::unmap(start, (*mapped - frontier) as usize * PAGE_BYTES) };
        *mapped = frontier;
        true
    }

    /// Whether an object of `bytes` bytes would lie in pages that are resident already.
    pub fn is_resident(&self, locked: &mut AllocatorLocked<'_>, bytes: usize) -> bool {
        let free = self.inner(locked).free.as_slice();
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
        if !self.map_or_retreat(inner, pages) {
            return None;
        }
        let first = inner.frontier;
        inner.frontier += pages;
        Some(Run {
            first,
            pages,
            fence: 0,
            clean: true,
        })
    }

    /// Gives memory of free pages back to the system, the highest first, until it is `wanted` bytes or no more is left. A run
    /// below the frontier goes as a whole, and of the one that ends there as much as is wanted.
    pub fn release_free(&self, _: &mut AllocatorLocked<'_>, mut wanted: usize) {
        let (free, frontier, mapped) = self.inner.with_mut(|inner| {
            // SAFETY: the lock, which is borrowed, protects these fields. Workers that draw strips meanwhile, with `strip`
            // and no lock, read another one.
            unsafe {
                (
                    &mut (*inner).free,
                    &mut (*inner).frontier,
                    &mut (*inner).mapped,
                )
            }
        });
        let end = *frontier;
        for run in free.as_mut_slice().iter_mut().rev() {
            if run.clean {
                continue;
            }
            if wanted == 0 {
                break;
            }
            let most = u32::try_from(wanted.div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX);
            if run.first + run.pages == end && most < run.pages {
                let first = end - most;
                let bytes = most as usize * PAGE_BYTES;
                let start = NonNull::new(self.address(first).ptr::<u8>());
                // SAFETY: whole pages of the range that no object uses.
                if start.is_some_and(|start| unsafe { memory::release(start, bytes) }) {
                    self.dirty.fetch_sub(most as usize, Ordering::Relaxed);
                    run.pages -= most;
                    *frontier = first;
                    self.unmap_above(first, mapped);
                }
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
            self.unmap_above(*frontier, mapped);
        }
    }

    /// Asks of each object of a generation, with where its pages begin and their bytes, what becomes of it.
    pub fn sweep(
        &self,
        world: &mut WorldStopped<'_>,
        generation: Generation,
        mut fate: impl FnMut(Address, (Address, usize)) -> Fate,
    ) {
        let mut locked = world.allocator();
        let Inner {
            free, young, old, ..
        } = self.inner(&mut locked);
        let (list, mut other) = match generation {
            Generation::Young => (young, Some(old)),
            Generation::Old => (old, None),
        };
        let before = free.as_slice().len();
        list.retain(|run| {
            let (object, pages) = (self.object(run), run.open() as usize);
            let fate = fate(object, (self.address(run.first), pages * PAGE_BYTES));
            let stays = match (fate, &mut other) {
                (Fate::Dies, _) => {
                    self.generation(object).store(0, Ordering::Relaxed);
                    self.used.fetch_sub(pages, Ordering::Relaxed);
                    self.open_fence(run);
                    if !run.clean {
                        self.dirty.fetch_add(run.pages as usize, Ordering::Relaxed);
                    }
                    // There is room: each page is in one list.
                    free.push(*run).is_none()
                }
                (Fate::Old, Some(old)) => {
                    self.set_generation(run, OLD);
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

    /// An object died: all its pages can be accessed from now on. What lay behind a fence is given back at once: otherwise
    /// the fence would count as memory that is not clean, as soon as it is joined with what is not.
    fn open_fence(&self, run: &mut Run) {
        run.clean = false;
        if run.fence == 0 {
            return;
        }
        let [first, fence] = [run.first, run.first + run.open()]
            .map(|page| NonNull::new(self.address(page).ptr::<u8>()));
        let [bytes, fence_bytes] = [run.pages, run.fence].map(|pages| pages as usize * PAGE_BYTES);
        // SAFETY: whole pages of the range, which the object had that died.
        let is_open = fence.is_some_and(|fence| unsafe { memory::commit(fence, fence_bytes) });
        assert!(
            is_open,
            "the system refuses access to the memory behind a dead array in guard mode, {fence_bytes} bytes at {fence:?}: \
             {}",
            memory::refusal().text()
        );
        run.fence = 0;
        // SAFETY: whole pages of the range, which no object uses any more.
        run.clean = first.is_some_and(|first| unsafe { memory::release(first, bytes) });
    }

    /// Visits the objects of a generation.
    pub fn for_each(
        &self,
        locked: &mut AllocatorLocked<'_>,
        generation: Generation,
        visit: impl FnMut(Address),
    ) {
        let inner = self.inner(locked);
        let list = match generation {
            Generation::Young => &inner.young,
            Generation::Old => &inner.old,
        };
        list.as_slice()
            .iter()
            .map(|run| self.object(run))
            .for_each(visit);
    }

    /// Cuts the old objects that have slots into strips; how many there are. They are valid until the next sweep.
    pub fn cut_into_strips(
        &self,
        world: &mut WorldStopped<'_>,
        has_slots: impl Fn(Address) -> bool,
    ) -> usize {
        let mut locked = world.allocator();
        let Inner { old, strips, .. } = self.inner(&mut locked);
        strips.truncate(0);
        for run in old.as_slice() {
            let object = self.object(run);
            if has_slots(object) {
                let end = run.first + run.open();
                for low in (run.first..end).step_by(STRIP_PAGES as usize) {
                    let strip = Strip {
                        object,
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
        (strip.object, self.address(low), self.address(high))
    }

    /// Bytes of the tables beside the heap that depend on the range.
    pub fn metadata_bytes(&self) -> usize {
        self.generations.bytes()
    }
}

/// The object that begins in a page.
fn object_in(page: Address, is_fenced: bool) -> Address {
    if is_fenced {
        page.add(PAGE_BYTES - ELEMENTS)
    } else {
        page
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
mod tests;
