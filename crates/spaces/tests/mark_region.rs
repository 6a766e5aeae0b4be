//! An old space by lines: holes are kept until an object fits, and blocks in which nothing lives are given out as a whole.
//! Counts of bytes, objects and blocks say so.

#![cfg(not(loom))]

use std::collections::BTreeMap;

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_mem::Address;
use gleaner_spaces::precise::bump::BumpRegion;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::mark_region::lines::LINE_BYTES;
use gleaner_spaces::precise::tenured::{BLOCK_BYTES, BlockBuffer, Growth, Tenured};

const KB: usize = 1 << 10;
const BASE: Address = Address::new(0x100_0000);

fn stopped() -> WorldStopped<'static> {
    // SAFETY: each test has one thread.
    unsafe { WorldStopped::begin() }
}

fn locked() -> AllocatorLocked<'static> {
    // SAFETY: each test has one thread.
    unsafe { AllocatorLocked::begin() }
}

fn block(number: usize) -> Address {
    BASE.add(number * BLOCK_BYTES)
}

struct Space {
    old: Tenured,
    lines: MarkRegion,
}

impl Space {
    fn new(blocks: usize) -> Space {
        let bytes = blocks * BLOCK_BYTES;
        Space {
            old: Tenured::new(BumpRegion::new(BASE, bytes)).unwrap(),
            lines: MarkRegion::new(BASE, bytes, true).unwrap(),
        }
    }

    /// A space of which `used` blocks were taken.
    fn with_used(used: usize, blocks: usize) -> Space {
        let space = Space::new(blocks);
        for _ in 0..used {
            space.old.region.take_block(BLOCK_BYTES).unwrap();
        }
        space
    }

    fn put(&self, buffer: &mut BlockBuffer, bytes: usize) -> Option<Address> {
        self.old
            .allocate(&self.lines, buffer, bytes, Growth::Allowed)
    }

    /// These objects live, and no other.
    fn collect(&self, live: impl IntoIterator<Item = (Address, usize)>) {
        let region = &self.old.region;
        self.lines.begin_marking(&mut stopped(), region);
        live.into_iter()
            .for_each(|(object, bytes)| self.lines.mark(object, bytes));
        for strip in 0..self.lines.strips(region) {
            self.lines.sweep(region, strip);
        }
        self.lines.finish_sweeping(&mut stopped(), &self.old);
    }
}

#[test]
fn objects_of_2_kb_lose_no_hole_of_1_kb() {
    const BLOCKS: usize = 512;
    const HOLES: usize = BLOCK_BYTES / (2 * KB);
    // The line behind an object of a line or less may be in use, and is left alone.
    const HOLE: usize = KB - LINE_BYTES;
    let space = Space::with_used(BLOCKS, BLOCKS + 64);
    let starts = (0..BLOCKS * HOLES).map(|number| BASE.add(2 * KB * number));
    space.collect(starts.map(|start| (start, KB)));
    let top = space.old.region.top();
    assert_eq!(space.old.holes(), BLOCKS * HOLES * HOLE);
    let mut buffer = BlockBuffer::default();
    space.put(&mut buffer, 64).unwrap();
    let (holes, looks) = (space.old.holes(), space.old.looks());
    for _ in 0..100 {
        assert!(space.put(&mut buffer, 2 * KB).unwrap() >= top);
    }
    assert!(space.old.holes() >= holes, "{}", space.old.holes());
    let looks = space.old.looks() - looks;
    assert!(looks <= 100 * 10, "{looks} looks for 100 objects");
    // All of them are filled by what fits.
    let mut filled = 0;
    while let Some(object) = space.put(&mut buffer, HOLE) {
        filled += usize::from(object < top);
    }
    assert!(filled >= BLOCKS * HOLES - 1, "{filled} objects");
}

#[test]
fn vacant_blocks_are_no_holes_and_the_last_ones_are_cut_off() {
    let space = Space::with_used(5, 8);
    // Blocks 0 and 2 have little in them, 1, 3 and 4 nothing.
    space.collect([(block(0), 64), (block(2).add(KB), 300)]);
    let used = space.old.region.used();
    assert_eq!(used, 3 * BLOCK_BYTES);
    assert_eq!(space.lines.vacant_bytes(), BLOCK_BYTES);
    // Two lines of block 0, one of which may be reached into; four of block 2, likewise.
    assert_eq!(space.old.holes(), 2 * BLOCK_BYTES - 6 * LINE_BYTES);
    let found = space.lines.occupancy(&space.old.region);
    assert_eq!((found.in_use, found.sparse[1]), (2, 2));
    assert_eq!(space.lines.used(&space.old.region), 2 * BLOCK_BYTES);
    space.lines.set_most(&mut locked(), 6 * BLOCK_BYTES);
    assert_eq!(space.lines.room(&space.old.region), 4 * BLOCK_BYTES);
    let mut buffer = BlockBuffer::default();
    let mut places = Vec::new();
    while let Some(object) = space.put(&mut buffer, 128) {
        places.push(object.offset_from(BASE) / BLOCK_BYTES);
    }
    let count = |number| places.iter().filter(|&&place| place == number).count();
    assert_eq!(count(0), BLOCK_BYTES / 128 - 2);
    assert_eq!(count(2), BLOCK_BYTES / 128 - 4);
    assert!(
        [1, 3, 4, 5]
            .iter()
            .all(|&number| count(number) == BLOCK_BYTES / 128)
    );
    assert_eq!(count(6) + count(7), 0, "so much may be in use");
    assert_eq!(space.lines.occupancy(&space.old.region).in_use, 6);
    assert_eq!(space.lines.occupancy(&space.old.region).sparse[1], 0);
    assert_eq!(space.lines.vacant_bytes(), 0);
    space.lines.set_most(&mut locked(), 7 * BLOCK_BYTES);
    assert_eq!(space.put(&mut buffer, 128), Some(block(6)));
}

/// Nothing lies above the top of the region: that is no hole of the last block, which is filled from there.
#[test]
fn the_rest_of_a_last_block_is_no_hole() {
    let space = Space::new(4);
    space.old.region.take(8, 2 * BLOCK_BYTES + KB).unwrap();
    space.collect([(block(0), KB), (block(2), 64)]);
    assert_eq!(space.old.region.used(), 2 * BLOCK_BYTES + KB);
    assert_eq!(space.lines.vacant_bytes(), BLOCK_BYTES);
    assert_eq!(space.old.holes(), BLOCK_BYTES - KB - LINE_BYTES);
    let mut buffer = BlockBuffer::default();
    let mut places = Vec::new();
    while let Some(object) = space.put(&mut buffer, 128) {
        places.push(object.offset_from(block(2)));
    }
    let last = places.iter().filter(|&&place| place < BLOCK_BYTES);
    assert_eq!(last.clone().count(), (BLOCK_BYTES - KB) / 128);
    assert_eq!(last.min(), Some(&KB));
}

#[test]
fn an_evacuation_takes_vacant_blocks_first_and_no_more_than_it_may() {
    let space = Space::with_used(6, 8);
    let region = &space.old.region;
    let half = BLOCK_BYTES / 2;
    space.collect([
        (block(0), KB),
        (block(2), half),
        (block(3), half - LINE_BYTES),
        (block(5), BLOCK_BYTES),
    ]);
    // The line behind each object counts.
    assert_eq!(space.lines.occupancy(region).sparse[8], 1);
    space.lines.begin_marking(&mut stopped(), region);
    space.lines.evacuate(&mut stopped(), region, 8, 3);
    let is_candidate = |number| space.lines.is_candidate(block(number).add(KB));
    assert_eq!(
        [0, 1, 2, 3, 4, 5].map(is_candidate),
        [true, false, false, true, false, false]
    );
    let mut candidates = Vec::new();
    space
        .lines
        .for_each_candidate(region, |low, high| candidates.push((low, high)));
    assert_eq!(candidates, [(block(0), block(1)), (block(3), block(4))]);
    let taken: Vec<Address> = std::iter::from_fn(|| space.lines.take_for_copies(region))
        .map(|(start, bytes)| {
            assert_eq!(bytes, BLOCK_BYTES);
            start
        })
        .collect();
    assert_eq!(taken, [block(1), block(4), block(6)]);
    // All that lived in block 0 went to block 1; something stayed in block 3.
    for (object, bytes) in [
        (block(1), KB),
        (block(2), half),
        (block(3), 64),
        (block(5), 64),
    ] {
        space.lines.mark(object, bytes);
    }
    space.lines.sweep(region, 0);
    space.lines.finish_sweeping(&mut stopped(), &space.old);
    assert_eq!(space.lines.vacant_bytes(), 2 * BLOCK_BYTES);
    assert_eq!(space.old.region.used(), 6 * BLOCK_BYTES);
    assert!((0..6).all(|number| !space.lines.is_candidate(block(number))));
    // What one evacuation leaves of its blocks is not for the next marking.
    space.lines.evacuate(&mut stopped(), region, 0, 5);
    assert!(space.lines.take_for_copies(region).is_some());
    space.lines.begin_marking(&mut stopped(), region);
    assert_eq!(space.lines.take_for_copies(region), None);
}

#[test]
fn memory_of_vacant_blocks_goes_back_once_and_counts_until_it_is_used() {
    let space = Space::with_used(6, 6);
    space.collect([(block(0), 64), (block(5), 64)]);
    let release = |bytes| {
        let (mut gone, region) = (0, &space.old.region);
        let release = |low: Address, high: Address| {
            gone += high.offset_from(low);
            true
        };
        let told = space
            .lines
            .release_vacant(&mut locked(), region, bytes, release);
        assert_eq!(told, gone);
        gone / BLOCK_BYTES
    };
    assert_eq!(release(3 * BLOCK_BYTES), 3);
    assert_eq!(space.lines.released_bytes(), 3 * BLOCK_BYTES);
    assert_eq!(release(usize::MAX), 1);
    assert_eq!(release(usize::MAX), 0);
    let below = |blocks| {
        let bytes = space.lines.released_below(&space.old.region, block(blocks));
        bytes / BLOCK_BYTES
    };
    assert_eq!([0, 1, 2, 4, 6, 8].map(below), [0, 0, 1, 3, 4, 4]);
    space.collect([(block(0), 64), (block(5), 64)]);
    assert_eq!(space.lines.released_bytes(), 4 * BLOCK_BYTES);
    let mut free = 0;
    space
        .lines
        .for_each_free(&space.old.region, |_, bytes| free += bytes);
    assert_eq!(
        free,
        2 * (BLOCK_BYTES - 2 * LINE_BYTES),
        "what holds memory"
    );
    assert_eq!(space.lines.take_for_copies(&space.old.region), None);
    space
        .lines
        .evacuate(&mut stopped(), &space.old.region, 0, 1);
    assert!(space.lines.take_for_copies(&space.old.region).is_some());
    assert_eq!(space.lines.released_bytes(), 3 * BLOCK_BYTES);
    space.lines.forget(&mut stopped(), &space.old.region);
    assert_eq!(space.lines.vacant_bytes(), 0);
    let mut free = 0;
    space
        .lines
        .for_each_free(&space.old.region, |_, bytes| free += bytes);
    assert_eq!(free, 6 * BLOCK_BYTES, "no line is marked any more");
}

/// Objects of any size are put into a space by several threads, some of them die, and the space is swept: again and again.
/// Nothing is handed out in which something lives, and when all is dead nothing is in use.
#[test]
fn nothing_is_handed_out_twice() {
    const BLOCKS: usize = 40;
    for seed in 1..30u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let space = Space::new(BLOCKS);
        let mut live: BTreeMap<Address, usize> = BTreeMap::new();
        for _ in 0..12 {
            let mut buffers: [BlockBuffer; 3] = Default::default();
            for _ in 0..random(3000) {
                let bytes = 8 * match random(20) {
                    0 => 1 + random(2048),
                    1..4 => 1 + random(100),
                    _ => 1 + random(16),
                };
                let Some(object) = space.put(&mut buffers[random(3)], bytes) else {
                    continue;
                };
                let end = object.add(bytes);
                let below = live.range(..end).next_back();
                assert!(
                    below.is_none_or(|(&other, &bytes)| other.add(bytes) <= object),
                    "seed {seed}: {object:?}"
                );
                assert!(end <= space.old.region.top());
                live.insert(object, bytes);
            }
            let stays = random(10);
            live.retain(|_, _| random(10) < stays);
            space.collect(live.iter().map(|(&object, &bytes)| (object, bytes)));
            let used: usize = live.values().sum();
            let free = space.old.holes() + space.lines.vacant_bytes();
            assert!(used + free <= space.old.region.used());
        }
        space.collect([]);
        assert_eq!((space.old.region.used(), space.old.holes()), (0, 0));
        assert_eq!(space.lines.vacant_bytes(), 0);
    }
}
