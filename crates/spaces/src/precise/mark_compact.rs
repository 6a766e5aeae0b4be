//! Mark-compact: where each live object goes, and the sliding itself (ASPLOS 2013, section 2.4; the table of block
//! destinations after Kermany and Petrank, PLDI 2006).
//!
//! The marks say which granules are live. [`Plan::make`] walks the words of marks in the order of addresses and gives
//! each word the destination of its first live granule. The old space is filled first, then eden, and what does not fit
//! slides down in its own survivor space. The new address of an object is then its word's destination and the live
//! granules before it in the word. References are updated by that, and [`Segments::slide`] moves the objects.
//!
//! # Invariants
//! - Regions are planned in ascending order of addresses: the old space, eden, the survivor spaces, of those each
//!   fragment. So no object moves up.
//! - Objects keep their order, and the objects that begin in one word stay together.
//! - The regions are slid in segments, each by one worker. A segment is taken when all segments from which an object may
//!   have to leave the place where its own go are finished; so none is overwritten before it has moved. The plan says
//!   which these are: nobody looks at objects that another worker may be moving.
//!
//! One thread plans, in a stopped world. Any worker asks for new addresses, and slides segments afterwards.

use core::ops::Range;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::AtomicU8;
use gleaner_mem::Address;
use gleaner_mem::object_bits::{ObjectBits, WORD_BYTES, WORD_SHIFT};
use gleaner_mem::object_model::GRANULE;
use gleaner_mem::side::Side;

use gleaner_work::Prefix;

use crate::precise::regions::{MOST_REGIONS, Regions};

/// The destinations of one full collection.
pub struct Plan {
    /// For each word of marks, the destination of its first live granule if all were live objects that begin in it:
    /// wrapping, since the tail of an earlier object may come before the first start.
    destinations: Side<usize>,
    /// For each segment whether it was slid; see [`Segments`].
    slid: Side<AtomicU8>,
    /// For each segment where the last object that begins in it ends after sliding; 0 where none moves.
    ends: Side<usize>,
}

/// Bytes of a segment, as a power of two.
const SEGMENT_SHIFT: u32 = 16;
/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = 1 << SEGMENT_SHIFT;

/// What was planned for each region, by its place in the list.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Where its last object ends after sliding.
    pub ends: [Address; MOST_REGIONS],
    /// Bytes of what lives in it before.
    pub lived: [usize; MOST_REGIONS],
}

impl Plan {
    /// Room for the destinations of a span; `None` when the system gives no memory.
    pub fn new(base: Address, bytes: usize) -> Option<Plan> {
        let destinations = Side::new(base, bytes, WORD_SHIFT)?;
        // A region's last segment may not be whole.
        let spare = MOST_REGIONS * SEGMENT_BYTES;
        let slid = Side::new(base, bytes + spare, SEGMENT_SHIFT)?;
        let ends = Side::new(base, bytes + spare, SEGMENT_SHIFT)?;
        Some(Plan {
            destinations,
            slid,
            ends,
        })
    }

    /// Decides where everything that is marked in these regions goes: the old space first, up to `old_end`, then the
    /// nursery's. What lives in the old space fits below `old_end`. No object is looked at: the bits tell.
    ///
    /// # Safety
    /// Marking is over: each object that is marked has its granules.
    pub unsafe fn make(
        &self,
        _: &mut WorldStopped<'_>,
        marks: &ObjectBits,
        regions: &Regions<'_>,
        old_end: Address,
    ) -> Planned {
        let mut planned = Planned {
            ends: [Address::NULL; MOST_REGIONS],
            lived: [0; MOST_REGIONS],
        };
        for (end, region) in planned.ends.iter_mut().zip(regions.iter()) {
            *end = region.space.start();
        }
        let first = first_segments(regions);
        for segment in 0..first[regions.len()] {
            self.set_end(segment, 0);
        }
        let (mut target, mut target_end) = (0, old_end);
        for (from, region) in regions.iter().enumerate() {
            let region = region.space;
            let words =
                marks.word_of(region.start())..marks.word_of(region.top().add(WORD_BYTES - 1));
            // `next` is where the next live object begins, or where the region ends.
            let mut place = |word: usize, tail: usize, granules: usize, next: Address| {
                let bytes = granules * GRANULE;
                // A region has room for its own objects, so this ends there at the latest.
                while target_end.offset_from(planned.ends[target]) < bytes {
                    target += 1;
                    target_end = regions[target].space.end();
                }
                let end = &mut planned.ends[target];
                // SAFETY: elements are within the mapping; this thread alone writes them.
                unsafe {
                    let destination = self.destinations.first().add(word);
                    destination.write(end.word().wrapping_sub(tail * GRANULE));
                }
                *end = end.add(bytes);
                planned.lived[from] += bytes;
                let offset = marks.address_of(word).offset_from(region.start());
                // Where nothing was left out so far, nothing moves.
                let moved = if *end == next { 0 } else { end.word() };
                self.set_end(first[from] + offset / SEGMENT_BYTES, moved);
            };
            // The last word with starts; the granules before its first start; and those after it, up to the next start.
            let (mut last, mut before, mut granules) = (None, 0, 0);
            for word in words {
                let (starts, live) = (marks.starts(word).bits(), marks.live(word));
                if starts == 0 {
                    granules += live.count_ones() as usize;
                    continue;
                }
                let tail = (live & !(!0 << starts.trailing_zeros())).count_ones() as usize;
                if let Some(last) = last.replace(word) {
                    let next = marks
                        .address_of(word)
                        .add(starts.trailing_zeros() as usize * GRANULE);
                    place(last, before, granules + tail, next);
                }
                (before, granules) = (tail, live.count_ones() as usize - tail);
            }
            if let Some(last) = last {
                place(last, before, granules, region.top());
            }
        }
        planned
    }

    fn set_end(&self, segment: usize, end: usize) {
        // SAFETY: there is an element for each segment; this thread alone writes them.
        unsafe { self.ends.first().add(segment).write(end) };
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.destinations.bytes() + self.slid.bytes() + self.ends.bytes()
    }

    /// Where the live object at `object` goes.
    #[inline(always)]
    pub fn new_address(&self, marks: &ObjectBits, object: Address) -> Address {
        let word = marks.word_of(object);
        Address::new(
            self.destinations
                .get(word)
                .wrapping_add(marks.live_before(object) * GRANULE),
        )
    }

    /// Prepares to slide the regions; all references were updated. The next time is when these are gone.
    pub fn segments<'a>(
        &'a self,
        _: &'a mut WorldStopped<'_>,
        regions: Regions<'a>,
    ) -> Segments<'a> {
        let first = first_segments(&regions);
        let count = first[regions.len()];
        // SAFETY: there is an element for each segment, and nobody else uses them.
        let finished = unsafe {
            let flags = self.slid.first();
            flags.write_bytes(0, count);
            core::slice::from_raw_parts(flags.as_ptr(), count)
        };
        Segments {
            plan: self,
            regions,
            first,
            slid: Prefix::new(finished),
        }
    }
}

/// The number of the first segment of each region, and of all.
fn first_segments(regions: &Regions<'_>) -> [usize; MOST_REGIONS + 1] {
    let mut first = [0; MOST_REGIONS + 1];
    for (index, region) in regions.iter().enumerate() {
        first[index + 1] = first[index] + region.space.used().div_ceil(SEGMENT_BYTES);
    }
    first
}

/// The regions in pieces that workers slide, in ascending order.
pub struct Segments<'a> {
    plan: &'a Plan,
    regions: Regions<'a>,
    /// The number of the first segment of each region, and of all.
    first: [usize; MOST_REGIONS + 1],
    slid: Prefix<'a>,
}

impl Segments<'_> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.first[self.regions.len()]
    }

    /// Where a segment begins and ends.
    fn bounds(&self, segment: usize) -> (Address, Address) {
        let last = self.regions.len() - 1;
        let region = (0..last)
            .find(|&region| segment < self.first[region + 1])
            .unwrap_or(last);
        let space = self.regions[region].space;
        let low = space
            .start()
            .add((segment - self.first[region]) * SEGMENT_BYTES);
        let top = space.top().align_up(WORD_BYTES);
        (low, low.add(SEGMENT_BYTES).min(top))
    }

    fn words(&self, bits: &ObjectBits, segment: usize) -> Range<usize> {
        let (low, high) = self.bounds(segment);
        bits.word_of(low)..bits.word_of(high)
    }

    /// Segments below this number may have objects at or below `place`, which lies in a region.
    fn up_to(&self, place: Address) -> usize {
        let region = (0..self.regions.len())
            .rfind(|&region| self.regions[region].space.start() <= place)
            .unwrap_or(0);
        let offset = place.offset_from(self.regions[region].space.start());
        let number = self.first[region] + offset / SEGMENT_BYTES + 1;
        number.min(self.first[region + 1])
    }

    /// Moves all objects and their start bits; the live bits stay. `moved` is told where each lies then. Called by each
    /// worker.
    ///
    /// # Safety
    /// `size` tells the bytes of a live object.
    pub unsafe fn slide(
        &self,
        bits: &ObjectBits,
        size: impl Fn(Address) -> usize,
        moved: impl Fn(Address),
    ) {
        let needs = |segment| match self.end(segment) {
            Some(end) => self.up_to(end.sub(GRANULE)).min(segment),
            None => 0,
        };
        self.slid.run(needs, |segment| {
            // SAFETY: as asked; what has to move first is finished.
            unsafe { self.move_objects(bits, segment, &size, &moved) };
        });
    }

    /// As [`Segments::slide`], but a segment whose objects move is slid when all below it are. Then `left` is told from
    /// where to where there is nothing in the segment any more, before any object goes there. So a segment may give back
    /// about as much memory as its objects take elsewhere.
    ///
    /// # Safety
    /// As for [`Segments::slide`].
    pub unsafe fn slide_away(
        &self,
        bits: &ObjectBits,
        size: impl Fn(Address) -> usize,
        moved: impl Fn(Address),
        left: impl Fn(Address, Address),
    ) {
        let needs = |segment| self.end(segment).map_or(0, |_| segment);
        self.slid.run(needs, |segment| {
            let Some(end) = self.end(segment) else { return };
            // SAFETY: as asked; all segments below are finished.
            unsafe { self.move_objects(bits, segment, &size, &moved) };
            let (low, high) = self.bounds(segment);
            if end.max(low) < high {
                left(end.max(low), high);
            }
        });
    }

    /// Where the last object that begins in a segment ends after sliding, and what segments below moved at the latest;
    /// `None` if its objects stay, or there are none.
    fn end(&self, segment: usize) -> Option<Address> {
        // SAFETY: there is an element for each segment, which the plan has written.
        let end = unsafe { self.plan.ends.first().add(segment).read() };
        (end != 0).then(|| Address::new(end))
    }

    /// Moves the objects that begin in a segment, unless they stay where they are.
    ///
    /// # Safety
    /// As for [`Segments::slide`]; what lies where they go has moved, and one worker moves them.
    unsafe fn move_objects(
        &self,
        bits: &ObjectBits,
        segment: usize,
        size: impl Fn(Address) -> usize,
        moved: impl Fn(Address),
    ) {
        if self.end(segment).is_none() {
            return;
        }
        let words = self.words(bits, segment);
        let mut starts = NewStarts {
            bits,
            word: words.start,
            found: 0,
        };
        for object in words.flat_map(|word| bits.take_starts(word)) {
            let (bytes, target) = (size(object), self.plan.new_address(bits, object));
            // SAFETY: what is overwritten has moved or is dead (see the invariants).
            unsafe { core::ptr::copy(object.ptr::<u8>(), target.ptr::<u8>(), bytes) };
            moved(target);
            starts.add(target);
        }
        starts.flush();
    }
}

/// Start bits of a word that are not yet in the table.
struct NewStarts<'a> {
    bits: &'a ObjectBits,
    word: usize,
    found: u64,
}

impl NewStarts<'_> {
    fn add(&mut self, object: Address) {
        let word = self.bits.word_of(object);
        if word != self.word {
            self.flush();
            self.word = word;
        }
        self.found |= ObjectBits::bit(object);
    }

    fn flush(&mut self) {
        if self.found != 0 {
            self.bits.add_starts(self.word, self.found);
            self.found = 0;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::cell::RefCell;

    use super::*;
    use crate::precise::bump::BumpRegion;
    use crate::precise::fragmented::Cut;
    use crate::precise::nursery::Nursery;
    use crate::precise::regions::Kind;
    use crate::precise::single_thread::stopped;
    use gleaner_mem::header::{self, Header};
    use gleaner_mem::object_model::TypeId;
    use gleaner_os::memory;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn listed<'a>(all: impl IntoIterator<Item = &'a BumpRegion>) -> Regions<'a> {
        let mut all = all.into_iter();
        let old = Regions::of(Kind::Old, 0, all.next().unwrap());
        all.enumerate()
            .fold(old, |list, (node, space)| list.and(Kind::Eden, node, space))
    }

    /// Lays objects of these sizes out from the start of a region, each marked or not, with its number inside.
    fn lay(
        region: &BumpRegion,
        sizes: &mut BTreeMap<usize, usize>,
        marks: &ObjectBits,
        objects: &[(usize, Option<u64>)],
    ) {
        for &(bytes, number) in objects {
            let (at, _) = region.take(bytes, bytes).unwrap();
            // SAFETY: the memory is this test's.
            unsafe {
                header::store(at, Header::fresh(TypeId::new(2)));
                at.add(8).store(number.unwrap_or(u64::MAX) as usize);
            }
            sizes.insert(at.word(), bytes);
            if number.is_some() {
                assert!(marks.mark(at));
                marks.mark_granules(at, bytes);
            }
        }
    }

    #[test]
    fn what_lives_slides_down_in_order_and_overflows_into_eden() {
        let bytes = 64 << 10;
        let base = Address::of(memory::reserve(bytes, 1 << 16).unwrap().as_ptr());
        // SAFETY: the reservation is this test's.
        assert!(unsafe { memory::commit(core::ptr::NonNull::new(base.ptr()).unwrap(), bytes) });
        let marks = ObjectBits::new(base, bytes).unwrap();
        let plan = Plan::new(base, bytes).unwrap();
        let old = BumpRegion::new(base, 4096);
        let young: Vec<BumpRegion> = (1..4)
            .map(|i| BumpRegion::new(base.add(i * 8192), 8192))
            .collect();
        let young = [&young[0], &young[1], &young[2]];
        let mut sizes = BTreeMap::new();
        lay(
            &old,
            &mut sizes,
            &marks,
            &[
                (24, None),
                (600, Some(1)),
                (16, None),
                (488, Some(2)),
                (1000, None),
            ],
        );
        lay(
            young[0],
            &mut sizes,
            &marks,
            &[
                (16, None),
                (24, Some(3)),
                (3000, Some(4)),
                (40, None),
                (16, Some(5)),
            ],
        );
        lay(
            young[1],
            &mut sizes,
            &marks,
            &[(512, Some(6)), (16, None), (1504, Some(7))],
        );
        lay(young[2], &mut sizes, &marks, &[(16, Some(8))]);
        let size = |at: Address| sizes[&at.word()];
        let regions = listed([&old, young[0], young[1], young[2]]);
        // SAFETY: there is only this thread.
        let Planned { ends, lived } =
            unsafe { plan.make(&mut stopped(), &marks, &regions, old.end()) };
        let mut world = stopped();
        // SAFETY: this thread alone slides, and `size` knows every object laid out.
        unsafe {
            let segments = plan.segments(&mut world, regions);
            segments.slide(&marks, size, |_| ());
        }
        let words = marks.word_of(base)..marks.word_of(base.add(bytes));
        // SAFETY: the objects lie where their bits are.
        let places: Vec<(Address, usize)> = words
            .flat_map(|word| marks.starts(word))
            .map(|at| (at, unsafe { at.add(8).load() }))
            .collect();
        let numbers: Vec<usize> = places.iter().map(|place| place.1).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(lived[..4], [1088, 3040, 2016, 16]);
        let lengths = [600, 488, 24, 3000, 16, 512, 1504, 16];
        // 600 + 488 fit into the old space; the word with 24 and 3000 does not, and so nothing after it does.
        let mut expected = base;
        for (index, &(at, _)) in places.iter().enumerate() {
            if index == 2 {
                assert_eq!(ends[0], expected);
                expected = young[0].start();
            }
            assert_eq!(at, expected, "object {}", index + 1);
            expected = expected.add(lengths[index]);
        }
        assert_eq!(ends[1], expected);
        assert_eq!(ends[2..4], [young[1].start(), young[2].start()]);
        // SAFETY: nobody uses it any more.
        unsafe { memory::unmap(core::ptr::NonNull::new(base.ptr()).unwrap(), bytes) };
    }

    #[test]
    fn the_fragments_of_four_nodes_slide_in_the_order_of_their_addresses() {
        let bytes = 512 << 10;
        let base = Address::of(memory::map(bytes).unwrap().as_ptr()).align_up(WORD_BYTES);
        let (marks, plan) = (
            ObjectBits::new(base, bytes - WORD_BYTES).unwrap(),
            Plan::new(base, bytes - WORD_BYTES).unwrap(),
        );
        let old = BumpRegion::new(base, 8192);
        let nursery = Nursery::new(base.add(8192), 16384, 16384, 1, Cut::in_turn(4));
        let mut sizes = BTreeMap::new();
        lay(&old, &mut sizes, &marks, &[(512, None), (512, Some(0))]);
        let list = Regions::of(Kind::Old, 0, &old).and_all(&nursery.regions());
        assert_eq!(list.len(), 13);
        for (number, region) in list.iter().enumerate().skip(1) {
            let objects = [(512, None), (1024, Some(number as u64)), (512, None)];
            region.space.raise_end(4096);
            lay(region.space, &mut sizes, &marks, &objects);
        }
        let size = |at: Address| sizes[&at.word()];
        // SAFETY: there is only this thread.
        let Planned { ends, lived } =
            unsafe { plan.make(&mut stopped(), &marks, &list, old.end()) };
        assert_eq!(lived[..3], [512, 1024, 1024]);
        let mut world = stopped();
        // SAFETY: there is only this thread, and no reference is to be updated.
        unsafe {
            let segments = plan.segments(&mut world, list);
            segments.slide(&marks, size, |_| ());
        }
        // Seven fit into the old space beside the one that was there, four into the memory that the first fragment of
        // eden has, the last into the second.
        assert_eq!(ends[0], base.add(512 + 7 * 1024));
        assert_eq!(ends[1], list[1].space.start().add(4 * 1024));
        assert_eq!(ends[2], list[2].space.start().add(1024));
        for (end, region) in ends.iter().zip(list.iter()).skip(3) {
            assert_eq!(*end, region.space.start(), "nothing is left in the others");
        }
        nursery.set_tops(&mut stopped(), ends[1..13].iter().copied());
        assert_eq!(nursery.used(), 5 * 1024);
        let words = marks.word_of(base)..marks.word_of(nursery.start().add(nursery.bytes()));
        // SAFETY: the objects lie where their bits are.
        let numbers = words
            .flat_map(|word| marks.starts(word))
            .map(|at| unsafe { at.add(8).load() });
        assert!(numbers.eq(0..13));
    }

    #[test]
    fn a_segment_says_what_its_objects_have_left() {
        const KB: usize = 1 << 10;
        const SEGMENT_KB: usize = SEGMENT_BYTES / KB;
        let bytes = 4 * SEGMENT_BYTES;
        let mapped = memory::map(bytes + SEGMENT_BYTES).unwrap();
        let base = Address::of(mapped.as_ptr()).align_up(SEGMENT_BYTES);
        let marks = ObjectBits::new(base, bytes).unwrap();
        let plan = Plan::new(base, bytes).unwrap();
        let old = BumpRegion::new(base, bytes);
        // 32 KB of the first segment slide a little, every other KB of the second lives, and all of the last one.
        let lives = |number: usize| match number / SEGMENT_KB {
            0 => (16..48).contains(&number),
            1 => number.is_multiple_of(2),
            2 => false,
            _ => true,
        };
        let object = |number| (KB, lives(number).then_some(number as u64));
        let objects: Vec<_> = (0..4 * SEGMENT_KB).map(object).collect();
        let mut sizes = BTreeMap::new();
        lay(&old, &mut sizes, &marks, &objects);
        let size = |at: Address| sizes[&at.word()];
        let regions = listed([&old]);
        // SAFETY: there is only this thread.
        let planned = unsafe { plan.make(&mut stopped(), &marks, &regions, old.end()) };
        assert_eq!(planned.ends[0], base.add(128 * KB));
        let left = RefCell::new(Vec::new());
        let note = |low: Address, high: Address| {
            left.borrow_mut()
                .push([low, high].map(|at| at.offset_from(base) / KB));
            // SAFETY: memory of this test's, where no object is any more, nor one that has moved there.
            unsafe { low.ptr::<u8>().write_bytes(0, high.offset_from(low)) };
        };
        // SAFETY: this thread alone slides, and `size` knows every object laid out.
        unsafe {
            plan.segments(&mut stopped(), regions)
                .slide_away(&marks, size, |_| (), note);
        }
        let left = left.into_inner();
        assert_eq!(left, [[32, 64], [64, 128], [192, 256]]);
        let words = marks.word_of(base)..marks.word_of(old.end());
        // SAFETY: the objects lie where their bits are.
        let numbers = words
            .flat_map(|word| marks.starts(word))
            .map(|at| unsafe { at.add(8).load() });
        assert!(numbers.eq((0..4 * SEGMENT_KB).filter(|&number| lives(number))));
    }

    #[test]
    fn what_fits_nowhere_stays_in_its_survivor_space() {
        let bytes = 16 << 10;
        let base = Address::of(memory::map(bytes).unwrap().as_ptr()).align_up(512);
        let marks = ObjectBits::new(base, bytes - 512).unwrap();
        let plan = Plan::new(base, bytes - 512).unwrap();
        let regions: Vec<BumpRegion> = (0..4)
            .map(|i| BumpRegion::new(base.add(i * 1024), 1024))
            .collect();
        let list = listed(&regions);
        let mut sizes = BTreeMap::new();
        for (index, region) in regions.iter().enumerate() {
            let number = Some(index as u64);
            let dead = if index < 2 { 0 } else { 256 };
            let rest = 1024 - dead;
            if dead > 0 {
                lay(region, &mut sizes, &marks, &[(dead, None)]);
            }
            lay(
                region,
                &mut sizes,
                &marks,
                &[(rest / 2, number), (rest / 2, number)],
            );
        }
        let size = |at: Address| sizes[&at.word()];
        // SAFETY: there is only this thread.
        let ends = unsafe { plan.make(&mut stopped(), &marks, &list, regions[0].end()) }.ends;
        let mut world = stopped();
        // SAFETY: this thread alone slides, and `size` knows every object laid out.
        unsafe {
            let segments = plan.segments(&mut world, list);
            segments.slide(&marks, size, |_| ());
        }
        for (index, region) in regions.iter().enumerate() {
            let used = if index < 2 { 1024 } else { 768 };
            assert_eq!(ends[index], region.start().add(used));
            let words = marks.word_of(region.start())..marks.word_of(region.end());
            let found: Vec<Address> = words.flat_map(|word| marks.starts(word)).collect();
            assert_eq!(found.len(), 2);
            // SAFETY: the objects lie where their bits are.
            assert!(found.iter().all(|at| unsafe { at.add(8).load() } == index));
        }
    }
}
