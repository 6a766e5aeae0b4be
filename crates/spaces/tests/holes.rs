//! Holes of a tenured space are kept until an object fits: counts of bytes, objects and blocks that were looked at.

#![cfg(not(loom))]

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_mem::object_bits::ObjectBits;
use gleaner_spaces::precise::bump::BumpRegion;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::mark_region::in_place::NewHoles;
use gleaner_spaces::precise::mark_region::lines::LINE_BYTES;
use gleaner_spaces::precise::tenured::{BLOCK_BYTES, BlockBuffer, Growth, Tenured};

const KB: usize = 1 << 10;

fn stopped() -> WorldStopped<'static> {
    // SAFETY: each test has one thread.
    unsafe { WorldStopped::begin() }
}

/// A space of `blocks` blocks in which every other object of `bytes` bytes lives, and of `above` blocks above them.
fn with_holes(bytes: usize, blocks: usize, above: usize) -> (Tenured, ObjectBits) {
    let base = Address::new(0x100_0000);
    let span = (blocks + above) * BLOCK_BYTES;
    let bits = ObjectBits::new(base, span).unwrap();
    let space = Tenured::new(BumpRegion::new(base, span)).unwrap();
    for _ in 0..blocks {
        space.region.take_block(BLOCK_BYTES).unwrap();
    }
    space.clear(&mut stopped(), &bits);
    for block in 0..blocks {
        let start = base.add(block * BLOCK_BYTES);
        for at in (0..BLOCK_BYTES).step_by(2 * bytes) {
            bits.mark(start.add(at));
            bits.mark_granules(start.add(at), bytes);
        }
    }
    // SAFETY: this thread alone has the space, and marked what lives with its granules.
    unsafe { space.finish_marking(&mut stopped(), &bits) };
    (space, bits)
}

fn put(
    space: &Tenured,
    bits: &ObjectBits,
    buffer: &mut BlockBuffer,
    bytes: usize,
) -> Option<Address> {
    let object = space.allocate(bits, buffer, bytes, Growth::Allowed)?;
    assert!(!bits.is_marked(object), "handed out twice");
    bits.add(object);
    Some(object)
}

#[test]
fn objects_that_are_larger_than_the_holes_leave_them_to_others() {
    const BLOCKS: usize = 512;
    let (space, bits) = with_holes(KB, BLOCKS, 64);
    let top = space.region.top();
    let mut buffer = BlockBuffer::default();
    put(&space, &bits, &mut buffer, 64).unwrap();
    let (holes, looks) = (space.holes(), space.looks());
    assert!(put(&space, &bits, &mut buffer, 2 * KB).unwrap() >= top);
    let first = space.looks() - looks;
    assert!(first <= 10, "{first} looks for one object");
    assert!(holes >= (BLOCKS - 1) * BLOCK_BYTES / 2);
    for _ in 0..100 {
        assert!(put(&space, &bits, &mut buffer, 2 * KB).unwrap() >= top);
    }
    assert!(space.holes() >= holes, "{} of {holes}", space.holes());
    let looks = space.looks() - looks;
    assert!(looks <= 100 * 10, "{looks} looks for 100 objects");
    // All of them are filled by what fits.
    let mut filled = 0;
    while let Some(object) = put(&space, &bits, &mut buffer, KB) {
        filled += usize::from(object < top);
    }
    assert!(
        filled >= BLOCKS * BLOCK_BYTES / (2 * KB) - 1,
        "{filled} objects"
    );
}

#[test]
fn when_there_is_nothing_else_every_block_is_searched_once() {
    const BLOCKS: usize = 200;
    let (space, bits) = with_holes(KB, BLOCKS, 0);
    let mut buffer = BlockBuffer::default();
    for _ in 0..1000 {
        assert_eq!(put(&space, &bits, &mut buffer, 2 * KB), None);
    }
    let looks = space.looks();
    assert!(looks <= BLOCKS + 100, "{looks} looks");
    assert_eq!(space.holes(), BLOCKS * BLOCK_BYTES / 2);
    let mut filled = 0;
    while put(&space, &bits, &mut buffer, KB).is_some() {
        filled += 1;
    }
    assert_eq!(filled, BLOCKS * BLOCK_BYTES / (2 * KB));
    assert_eq!(space.holes(), 0);
}

#[test]
fn a_small_hole_waits_for_a_small_object() {
    let (space, bits) = with_holes(64, 8, 8);
    let top = space.region.top();
    let mut buffer = BlockBuffer::default();
    let mut small = 0;
    // Each asks for a hole before the other has filled one.
    for _ in 0..8 * BLOCK_BYTES / 128 {
        put(&space, &bits, &mut buffer, 112).unwrap();
        small += usize::from(put(&space, &bits, &mut buffer, 64).unwrap() < top);
    }
    // A few fill the ends of other blocks.
    assert!(small >= 8 * BLOCK_BYTES / 128 - 16, "{small} holes");
}

#[test]
fn the_end_of_a_block_is_filled_by_smaller_objects() {
    let base = Address::new(0x100_0000);
    let span = 32 * BLOCK_BYTES;
    let bits = ObjectBits::new(base, span).unwrap();
    let space = Tenured::new(BumpRegion::new(base, span)).unwrap();
    // As after a sliding: the top lies within a block.
    // SAFETY: there is only this thread.
    unsafe { space.finish_sliding(&mut stopped(), &bits, base.add(1000 * 8)) };
    let mut buffer = BlockBuffer::default();
    let mut used = 1000 * 8;
    for bytes in [4112, 200, 64, 48, 24].into_iter().cycle() {
        match put(&space, &bits, &mut buffer, bytes) {
            Some(object) => {
                assert!(object >= base.add(1000 * 8), "there are objects below");
                used += bytes;
            }
            None => break,
        }
    }
    let mut last = 0;
    while put(&space, &bits, &mut buffer, 64).is_some() {
        last += 64;
    }
    assert!(used >= span - 3 * BLOCK_BYTES, "{used} of {span}");
    assert!(
        used + last >= span - span / 100,
        "{used} + {last} of {span}"
    );
}

/// Half of the blocks have a hole that lacks one line, and stand before the others: no object looks at them again.
#[test]
fn free_lines_of_which_one_is_missing_are_passed_by() {
    const BLOCKS: usize = 200;
    const HOLE: usize = 71 * LINE_BYTES;
    let base = Address::new(0x100_0000);
    let span = BLOCKS * BLOCK_BYTES;
    let lines = MarkRegion::new(base, span, true).unwrap();
    let space = Tenured::new(BumpRegion::new(base, span)).unwrap();
    for block in 0..BLOCKS {
        let start = space.region.take_block(BLOCK_BYTES).unwrap().0;
        let hole = HOLE - if block < BLOCKS / 2 { 0 } else { LINE_BYTES };
        // A large object marks its own lines, and the one behind counts as in use, too.
        lines.mark(start.add(hole), BLOCK_BYTES - hole);
    }
    (0..lines.strips(&space.region)).for_each(|strip| lines.sweep(&space.region, strip));
    lines.finish_sweeping(&mut stopped(), &space);
    let (holes, bytes) = (NewHoles(&lines), HOLE - LINE_BYTES + 8);
    let mut rest = (Address::NULL, Address::NULL);
    let larger = space.take_hole(&holes, &mut rest, (HOLE + 8, false), true);
    assert_eq!((larger, space.looks()), (None, BLOCKS), "all are sorted");
    for number in 0..=BLOCKS / 2 {
        let mut rest = (Address::NULL, Address::NULL);
        let mut take = |at_all| space.take_hole(&holes, &mut rest, (bytes, false), at_all);
        let taken = take(false).or_else(|| take(true));
        let expected = (number < BLOCKS / 2).then_some(HOLE);
        assert_eq!(taken.map(|hole| hole.1), expected, "{number}");
    }
    let looks = space.looks();
    assert!(looks <= 2 * BLOCKS, "{looks} looks for {BLOCKS} blocks");
}

#[test]
fn threads_that_give_blocks_back_never_share_one() {
    const THREADS: usize = 4;
    for round in 0..20 {
        let (space, bits) = with_holes(512 << (round % 3), 64, 16);
        let (space, bits) = (&space, &bits);
        let mut all: Vec<(usize, usize)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut buffer = BlockBuffer::default();
                        let mut mine = Vec::new();
                        let mut seed = (round * THREADS + thread) as u64 + 1;
                        let mut misses = 0;
                        while misses < 50 {
                            seed ^= seed << 13;
                            seed ^= seed >> 7;
                            seed ^= seed << 17;
                            let bytes = 16 << (seed % 9);
                            let bytes = bytes + seed as usize % bytes / 8 * 8;
                            let Some(object) = put(space, bits, &mut buffer, bytes) else {
                                misses += 1;
                                continue;
                            };
                            mine.push((object.word(), bytes));
                        }
                        mine
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        all.sort_unstable();
        for pair in all.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?} overlap");
        }
        let total: usize = all.iter().map(|one| one.1).sum();
        assert!(total > 64 * BLOCK_BYTES / 4, "{total} bytes");
    }
}
