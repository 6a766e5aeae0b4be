//! Objects with weak slots that a trace has reached: what is to be decided when it is known what lives.
//!
//! An entry names an object and some of its elements, so that several workers share a large table, and a dirty card
//! brings the elements that lie in it and no others. What no trace reaches has no entry and costs nothing, nor has an old
//! object without a dirty card in a scavenge.
//!
//! Each worker fills segments of its own, which lie in blocks that are mapped as they are needed: no limit is set to the
//! number of entries, and none of this is the C library's memory. Where the system gives no memory for a block, the worker
//! takes the slots of the object for strong ones: in that collection they keep what they refer to.
//!
//! # Invariants
//! - A segment belongs to the worker that took it, until the leader [forgets](Discovered::forget) all.
//! - Workers add entries while tasks go through segments: a task reads those alone that the leader counted before
//!   ([`Discovered::prepare`]).
//! - An object has one entry for each of its pieces. A promoted one may have another for each dirty card on which it
//!   lies, once more; so what is done with an entry may be done twice, by two workers at a time.

use core::ops::Range;
use core::ptr::{self, NonNull};

use gleaner_base::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, RawLock};
use gleaner_mem::Address;
use gleaner_os::memory;

/// Elements of one entry.
const PIECE: u32 = 256;
/// Entries of a segment, which is a page.
const SEGMENT_ENTRIES: usize = 255;
/// Segments of the first block; each other has twice as many as the one before.
const FIRST_SEGMENTS: usize = 16;
/// Blocks: room for more entries than the largest heap has objects.
const BLOCKS: usize = 32;
/// Blocks that are kept after a collection: a megabyte.
const KEPT_BLOCKS: usize = 4;

/// Some elements of an object, and its head if they begin with the first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Entry {
    /// Where the object is from now on, as far as the trace knows.
    pub object: Address,
    /// The elements.
    pub elements: Range<u32>,
}

impl Entry {
    /// An object's elements in pieces; one, if it has none.
    pub fn pieces(object: Address, elements: Range<u32>) -> impl Iterator<Item = Entry> {
        let count = elements.len().div_ceil(PIECE as usize).max(1) as u32;
        (0..count).map(move |number| {
            let start = elements.start + number * PIECE;
            Entry {
                object,
                elements: start..elements.end.min(start.saturating_add(PIECE)),
            }
        })
    }
}

#[repr(C)]
struct Segment {
    /// Entries that its worker has added.
    added: u32,
    /// Entries that the leader has counted; and of those, the ones that were gone through for good.
    counted: AtomicU32,
    done: AtomicU32,
    entries: [Entry; SEGMENT_ENTRIES],
}

/// The entries of all workers of a heap.
#[derive(Default)]
pub struct Discovered {
    /// Null, or a block. Release partners Acquire.
    blocks: [AtomicPtr<Segment>; BLOCKS],
    mapping: RawLock,
    /// Segments below were taken. Relaxed: a segment is its taker's alone.
    taken: AtomicUsize,
}

/// The block of a segment, and its number there.
fn block_of(segment: usize) -> (usize, usize) {
    let number = segment / FIRST_SEGMENTS + 1;
    let block = number.ilog2() as usize;
    (block, segment - FIRST_SEGMENTS * ((1 << block) - 1))
}

/// The bytes of a block.
fn block_bytes(block: usize) -> usize {
    (FIRST_SEGMENTS << block) * size_of::<Segment>()
}

/// The segment that a worker fills.
#[derive(Debug)]
pub struct Filling(*mut Segment);

// SAFETY: the segment belongs to the worker's state, whichever thread has that.
unsafe impl Send for Filling {}

impl Filling {
    /// None yet.
    pub const NONE: Filling = Filling(ptr::null_mut());
}

// SAFETY: segments are handed out once each, and read as the invariants say.
unsafe impl Sync for Discovered {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Discovered {}

impl Discovered {
    /// A worker adds an entry; `None`, and nothing happens, when the system gives no memory.
    pub fn add(&self, filling: &mut Filling, entry: Entry) -> Option<()> {
        // SAFETY: the segment is the worker's, and has room below its count; others read it below `counted` alone.
        unsafe {
            if filling.0.is_null() || (*filling.0).added as usize == SEGMENT_ENTRIES {
                filling.0 = self.take()?.as_ptr();
            }
            let segment = filling.0;
            let place = (&raw mut (*segment).entries).cast::<Entry>();
            place.add((*segment).added as usize).write(entry);
            (*segment).added += 1;
        }
        Some(())
    }

    #[cold]
    fn take(&self) -> Option<NonNull<Segment>> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        self.map_block(block_of(number).0)?;
        let segment = self.segment(number)?;
        // SAFETY: nobody else is given this segment, and what an earlier collection left there is of no use.
        unsafe {
            let segment = segment.as_ptr();
            (*segment).added = 0;
            (&raw mut (*segment).counted).write(AtomicU32::new(0));
            (&raw mut (*segment).done).write(AtomicU32::new(0));
        }
        Some(segment)
    }

    /// The block exists from now on; `None` when the system gives no memory.
    fn map_block(&self, number: usize) -> Option<()> {
        let block = self.blocks.get(number)?;
        if !block.load(Ordering::Acquire).is_null() {
            return Some(());
        }
        self.mapping.lock();
        if block.load(Ordering::Relaxed).is_null()
            && let Some(start) = memory::map(block_bytes(number))
        {
            block.store(start.cast().as_ptr(), Ordering::Release);
        }
        self.mapping.unlock();
        NonNull::new(block.load(Ordering::Acquire)).map(|_| ())
    }

    /// A segment, if its block was mapped.
    fn segment(&self, number: usize) -> Option<NonNull<Segment>> {
        let (block, index) = block_of(number);
        let start = NonNull::new(self.blocks.get(block)?.load(Ordering::Acquire))?;
        // SAFETY: the block has a segment of this number.
        Some(unsafe { start.add(index) })
    }

    /// Leader, between phases: how many tasks there are for what was added so far.
    pub fn prepare(&self) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        for segment in (0..taken).filter_map(|number| self.segment(number)) {
            // SAFETY: it was taken, and no worker is in a phase.
            let segment = unsafe { segment.as_ref() };
            segment.counted.store(segment.added, Ordering::Relaxed);
        }
        taken
    }

    /// The worker that has a task: all its entries.
    pub fn all(&self, task: usize, visit: &mut dyn FnMut(&Entry)) {
        if let Some(segment) = self.segment(task) {
            // SAFETY: it was taken, and is visited up to what was counted.
            unsafe { Segment::visit(segment, 0, visit) };
        }
    }

    /// The worker that has a task: its entries that no such call has gone through before.
    pub fn rest(&self, task: usize, visit: &mut dyn FnMut(&Entry)) {
        if let Some(segment) = self.segment(task) {
            // SAFETY: it was taken, and is visited up to what was counted. The fields are atomics, which the leader and
            // the task's worker write.
            unsafe {
                let (done, counted) = {
                    let segment = segment.as_ptr();
                    (&(*segment).done, &(*segment).counted)
                };
                Segment::visit(segment, done.load(Ordering::Relaxed), visit);
                done.store(counted.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Leader, when all is decided: there are no entries any more, and workers begin with [`Filling::NONE`] again.
    pub fn forget(&self) {
        self.taken.store(0, Ordering::Relaxed);
        self.release(KEPT_BLOCKS);
    }

    fn release(&self, kept: usize) {
        for (number, block) in self.blocks.iter().enumerate().skip(kept) {
            if let Some(start) = NonNull::new(block.swap(ptr::null_mut(), Ordering::Relaxed)) {
                // SAFETY: mapped with this size, and nobody reads entries any more.
                unsafe { memory::unmap(start.cast(), block_bytes(number)) };
            }
        }
    }
}

impl Segment {
    /// Visits the entries from this number to the last that was counted.
    ///
    /// # Safety
    /// The segment was taken.
    unsafe fn visit(segment: NonNull<Segment>, from: u32, visit: &mut dyn FnMut(&Entry)) {
        // SAFETY: its worker may be adding entries above those that were counted, so no reference to all of it is made.
        unsafe {
            let segment = segment.as_ptr();
            let entries = (&raw const (*segment).entries).cast::<Entry>();
            for index in from..(*segment).counted.load(Ordering::Relaxed) {
                visit(&*entries.add(index as usize));
            }
        }
    }
}

impl Drop for Discovered {
    fn drop(&mut self) {
        self.release(0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn entry(number: usize) -> Entry {
        let object = Address::new(16 * number);
        Entry {
            object,
            elements: 0..0,
        }
    }

    #[test]
    fn a_table_is_cut_into_pieces_that_cover_it() {
        for elements in [0..0, 0..1, 7..300, 0..1000, u32::MAX - 300..u32::MAX] {
            let pieces: Vec<Range<u32>> = Entry::pieces(Address::NULL, elements.clone())
                .map(|entry| entry.elements)
                .collect();
            assert_eq!(pieces[0].start, elements.start);
            assert_eq!(pieces.last().unwrap().end, elements.end);
            assert!(pieces.windows(2).all(|two| two[0].end == two[1].start));
            assert!(pieces.iter().all(|piece| piece.len() <= 256));
        }
    }

    #[test]
    fn blocks_follow_each_other_without_a_gap() {
        let mut expected = (0, 0);
        for segment in 0..10_000 {
            assert_eq!(block_of(segment), expected);
            expected.1 += 1;
            if expected.1 == FIRST_SEGMENTS << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn tasks_see_what_was_counted_and_the_rest_once() {
        let discovered = Discovered::default();
        let (mut one, mut other) = (Filling::NONE, Filling::NONE);
        let all = |discovered: &Discovered, rest: bool| {
            let mut found = Vec::new();
            for task in 0..discovered.prepare() {
                let mut visit = |entry: &Entry| found.push(entry.object.word() / 16);
                if rest {
                    discovered.rest(task, &mut visit);
                } else {
                    discovered.all(task, &mut visit);
                }
            }
            found.sort_unstable();
            found
        };
        assert_eq!(discovered.prepare(), 0);
        for number in 0..30_000 {
            let filling = if number % 3 == 0 {
                &mut one
            } else {
                &mut other
            };
            discovered.add(filling, entry(number)).unwrap();
        }
        assert_eq!(all(&discovered, false), (0..30_000).collect::<Vec<_>>());
        assert_eq!(all(&discovered, true), (0..30_000).collect::<Vec<_>>());
        assert_eq!(all(&discovered, true), []);
        let tasks = discovered.prepare();
        discovered.add(&mut one, entry(30_000)).unwrap();
        let mut seen = 0;
        (0..tasks).for_each(|task| discovered.all(task, &mut |_| seen += 1));
        assert_eq!(seen, 30_000, "what was added since was not counted");
        assert_eq!(all(&discovered, true), [30_000]);
        discovered.forget();
        assert_eq!(discovered.prepare(), 0);
    }
}
