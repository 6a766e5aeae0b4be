//! Unused memory goes back a piece at a time: objects stay whole, fresh memory reads as zero, and of what is free no page is left.

#![cfg(not(loom))]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;

use gleaner_mem::Address;
use gleaner_os::residency;
use gleaner_os::written::{KernelModel, Mechanism, Reason, Watch};
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, State};
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE, UNCOLLECTABLE};
use gleaner_spaces::mark_sweep::settle::Waiting;
use gleaner_spaces::mark_sweep::size_classes::class_of;
use gleaner_spaces::mark_sweep::{Stage, SweepMode};
use proptest::prelude::*;
use support::Space;

const PAGE: usize = 4096;

#[derive(Clone, Debug)]
enum Step {
    Large(usize, bool),
    Small(usize, bool),
    Free(usize),
    Collect(usize),
    GiveBack(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![4 => 8_193..70_000usize, 1 => 70_000..900_000usize];
    prop_oneof![
        4 => (bytes, any::<bool>()).prop_map(|(bytes, clear)| Step::Large(bytes, clear)),
        6 => (16..5_000usize, any::<bool>()).prop_map(|(bytes, clear)| Step::Small(bytes, clear)),
        4 => any::<usize>().prop_map(Step::Free),
        2 => (1..9usize).prop_map(Step::Collect),
        4 => (1..4usize).prop_map(Step::GiveBack),
    ]
}

fn words(base: Address, bytes: usize) -> impl Iterator<Item = Address> {
    (0..bytes & !7).step_by(8).map(move |at| base.add(at))
}

fn fill(base: Address, bytes: usize) {
    for word in words(base, bytes) {
        // SAFETY: a word of an object of the test's.
        unsafe { word.store(!word.word()) };
    }
}

fn is_whole(base: Address, bytes: usize) -> bool {
    // SAFETY: words of an object of the test's.
    words(base, bytes).all(|word| unsafe { word.load() } == !word.word())
}

fn is_zero(base: Address, bytes: usize) -> bool {
    // SAFETY: words of an object of the test's.
    words(base, bytes).all(|word| unsafe { word.load() } == 0)
}

/// Bytes of a range that are in memory.
fn backed(start: Address, bytes: usize) -> usize {
    residency::backed_bytes(NonNull::new(start.ptr()).unwrap(), bytes, bytes)
}

/// Bytes of free blocks and free runs that are in memory.
fn backed_free_bytes(space: &Space) -> usize {
    let table = space.0.layout.table;
    let mut bytes = 0;
    let mut add = |index| {
        // SAFETY: a descriptor below a frontier.
        let block = unsafe { &*table.block(index) };
        let blocks = if index < table.large_start {
            1
        } else {
            block.next
        };
        if block.state == State::Free {
            bytes += backed(table.start(index), table.bytes_of(index, blocks));
        }
        blocks
    };
    (0..space.0.small_frontier()).for_each(|index| _ = add(index));
    let mut run = table.large_start;
    while run < space.0.large_frontier() {
        run += add(run);
    }
    bytes
}

/// Gives back until nothing is left; how many bytes, in how many pieces.
fn give_all_back(space: &mut Space) -> (usize, usize) {
    let (mut bytes, mut pieces) = (0, 0);
    loop {
        let given = space.0.give_back_piece();
        bytes += given.bytes;
        pieces += 1;
        if given.is_all {
            return (bytes, pieces);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn objects_stay_whole_whatever_goes_between_two_pieces(steps in prop::collection::vec(step(), 1..60)) {
        let mut space = Space::new(SweepMode::Lazy, false);
        // Bytes of each object, by its base.
        let mut objects = BTreeMap::new();
        for step in steps {
            match step {
                Step::Large(bytes, clear) => {
                    let kind = if clear { NORMAL } else { PTRFREE };
                    if let Ok(base) = space.0.allocate_large(kind, bytes, 16, false) {
                        prop_assert!(!clear || is_zero(base, bytes), "{:?} of {} bytes", base, bytes);
                        fill(base, bytes);
                        objects.insert(base.word(), bytes);
                    }
                }
                // Blocks full of them.
                Step::Small(bytes, clear) => {
                    let kind = if clear { NORMAL } else { PTRFREE };
                    for _ in 0..6 * BLOCK_BYTES / bytes {
                        let Ok(base) = space.0.allocate_small(kind, class_of(bytes)) else { break };
                        prop_assert!(!clear || is_zero(base, bytes), "{:?} of {} bytes", base, bytes);
                        fill(base, bytes);
                        objects.insert(base.word(), bytes);
                    }
                }
                Step::Free(which) => {
                    let nth = objects.keys().copied().nth(which % objects.len().max(1));
                    if let Some(base) = nth {
                        objects.remove(&base);
                        space.0.free(Address::new(base)).unwrap();
                    }
                }
                Step::Collect(nth) => {
                    let live: BTreeSet<usize> = objects.keys().copied().step_by(nth).collect();
                    objects.retain(|base, _| live.contains(base));
                    space.collect(live.into_iter().map(Address::new));
                }
                Step::GiveBack(pieces) => {
                    (0..pieces).for_each(|_| _ = space.0.give_back_piece());
                }
            }
            space.verify();
            for (base, bytes) in &objects {
                prop_assert!(is_whole(Address::new(*base), *bytes), "{:#x} of {} bytes", base, bytes);
            }
        }
        // The first time may begin in the middle.
        give_all_back(&mut space);
        give_all_back(&mut space);
        space.verify();
        prop_assert_eq!(backed_free_bytes(&space), 0);
        prop_assert_eq!(space.0.unused_bytes(), 0);
    }
}

#[test]
fn free_memory_goes_in_pieces_with_its_marks_and_comes_back_as_it_is_needed() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let class = class_of(256);
    let small: Vec<Address> = (0..12 * 1024 * 4)
        .map(|_| space.0.allocate_small(NORMAL, class).unwrap())
        .collect();
    small.iter().for_each(|base| fill(*base, 256));
    let large = space.large(NORMAL, 10 << 20);
    fill(large, 10 << 20);
    space.collect([]);
    space.collect([]);
    let (unused, capacity) = (space.0.dirty_bytes(), space.0.capacity);
    assert!(unused >= 20 << 20, "{unused}");
    let (bytes, pieces) = give_all_back(&mut space);
    assert_eq!((bytes, backed_free_bytes(&space)), (unused, 0));
    assert!(
        pieces >= 5,
        "{pieces}: a thread that wants the lock waits for one"
    );
    assert_eq!((space.0.dirty_bytes(), space.0.capacity), (0, capacity));
    let table = space.0.layout.table;
    let marks = Address::of(table.marks_of(0));
    let whole = space.0.small_frontier() as usize / 4 * PAGE;
    assert_eq!(backed(marks, whole), 0, "marks of free blocks");
    assert_eq!(give_all_back(&mut space), (0, 1), "nothing is done twice");
    let again = space.0.allocate_small(NORMAL, class).unwrap();
    assert!(is_zero(again, 256));
    assert_eq!(space.mark_of(again), 0);
    let again = space.large(NORMAL, 10 << 20);
    assert!(again == large && is_zero(again, 10 << 20));
    space.verify();
}

#[test]
fn a_run_that_is_used_between_two_pieces_is_clean_when_all_of_it_has_gone() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let first = space.large(NORMAL, 10 << 20);
    fill(first, 10 << 20);
    space.0.free(first).unwrap();
    assert!(!space.0.give_back_piece().is_all);
    let dirty = space.0.dirty_bytes();
    assert_eq!(dirty, 10 << 20, "it does not count as clean yet");
    // What went already is written again.
    let part = space.large(NORMAL, 2 << 20);
    assert!(part == first && is_zero(part, 2 << 20));
    fill(part, 2 << 20);
    space.0.free(part).unwrap();
    give_all_back(&mut space);
    assert_eq!((space.0.dirty_bytes(), backed(first, 10 << 20)), (0, 0));
    let whole = space.large(NORMAL, 10 << 20);
    assert!(whole == first && is_zero(whole, 10 << 20));
}

/// 64 blocks of 512-byte cells, of which those survive that lie where `survives` says, in bytes from the start of their block.
fn with_survivors(kind: usize, survives: impl Fn(usize) -> bool) -> (Space, Vec<Address>) {
    with_survivors_in(SweepMode::Lazy, kind, survives)
}

fn with_survivors_in(
    mode: SweepMode,
    kind: usize,
    survives: impl Fn(usize) -> bool,
) -> (Space, Vec<Address>) {
    let mut space = Space::new(mode, false);
    let cells: Vec<Address> = (0..64 * 32)
        .map(|_| space.0.allocate_small(kind, class_of(512)).unwrap())
        .collect();
    cells.iter().for_each(|cell| fill(*cell, 512));
    let live: Vec<Address> = cells
        .into_iter()
        .filter(|cell| survives(cell.word() % BLOCK_BYTES))
        .collect();
    space.collect(live.iter().copied());
    (space, live)
}

/// Objects of 480 bytes, of which no whole number fits into a page: what loses a part has no second word any more.
#[test]
fn what_is_left_of_a_dead_object_looks_like_none() {
    const BYTES: usize = 480;
    let mut space = Space::new(SweepMode::Lazy, false);
    let cells: Vec<Address> = (0..64 * (BLOCK_BYTES / BYTES))
        .map(|_| space.0.allocate_small(NORMAL, class_of(BYTES)).unwrap())
        .collect();
    cells.iter().for_each(|cell| fill(*cell, BYTES));
    // One on the first page of each block, and one on the third.
    let lives = |cell: &Address| [BYTES, 20 * BYTES].contains(&(cell.word() % BLOCK_BYTES));
    let live: Vec<Address> = cells.iter().copied().filter(lives).collect();
    assert_eq!(live.len(), 2 * 64);
    space.collect(live.iter().copied());
    give_all_back(&mut space);
    assert_eq!(backed_small_bytes(&space), 64 * 2 * PAGE);
    let (mut whole, mut begun) = (0, 0);
    for cell in &cells {
        // SAFETY: words of a block of the test's.
        let (first, second) = unsafe { (cell.load(), cell.add(8).load()) };
        whole += usize::from(is_whole(*cell, BYTES));
        begun += usize::from(first != 0 && second == 0);
        assert!(second == 0 || is_whole(*cell, BYTES), "{cell:?}");
    }
    // Two in each block begin on a page that stayed, and end on one that went.
    assert_eq!((whole, begun), (64 * 15, 64 * 2));
    assert!(live.iter().all(|cell| is_whole(*cell, BYTES)));
    space.verify();
}

fn backed_small_bytes(space: &Space) -> usize {
    let bytes = space.0.small_frontier() as usize * BLOCK_BYTES;
    backed(space.0.layout.table.heap, bytes)
}

/// Whether a cell survives that begins at this byte of its block.
type Survives = fn(usize) -> bool;

#[test]
fn pages_between_survivors_go_once_after_each_collection() {
    let cases: [(Survives, usize); 4] = [
        (|at| at < PAGE, 1),
        // The last bytes of one page and the first of the next.
        (|at| at == 2 * PAGE - 512 || at == 2 * PAGE, 2),
        (|at| at == 3 * PAGE + 512, 1),
        (|at| at % PAGE == 0, 4),
    ];
    for (survives, pages) in cases {
        for kind in [NORMAL, PTRFREE] {
            let (mut space, live) = with_survivors(kind, survives);
            assert!(space.0.unused_bytes() > 0);
            give_all_back(&mut space);
            assert_eq!(space.0.unused_bytes(), 0);
            assert_eq!(backed_small_bytes(&space), 64 * pages * PAGE);
            assert!(live.iter().all(|cell| is_whole(*cell, 512)));
            assert_eq!(give_all_back(&mut space), (0, 1));
            // The sweep fills the holes.
            let cells: BTreeSet<usize> = (0..64 * 24)
                .map(|_| space.0.allocate_small(kind, class_of(512)).unwrap())
                .inspect(|cell| assert!(kind != NORMAL || is_zero(*cell, 512)))
                .map(Address::word)
                .collect();
            assert_eq!(cells.len(), 64 * 24);
            assert!(live.iter().all(|cell| !cells.contains(&cell.word())));
            assert!(live.iter().all(|cell| is_whole(*cell, 512)));
            space.collect(live);
            assert!(space.0.unused_bytes() > 0, "a collection makes new holes");
        }
    }
}

/// A cell that is free and linked to others is not marked where free cells have a mark of their own.
#[test]
fn pages_stay_of_blocks_whose_free_cells_may_be_listed() {
    let (mut space, _) = with_survivors(UNCOLLECTABLE, |_| true);
    let cells: Vec<Address> = (0..64 * 32)
        .map(|_| {
            space
                .0
                .allocate_small(UNCOLLECTABLE, class_of(512))
                .unwrap()
        })
        .collect();
    for cell in cells
        .iter()
        .filter(|cell| cell.word() % BLOCK_BYTES >= PAGE)
    {
        space.0.free(*cell).unwrap();
    }
    space.collect([]);
    for cell in cells
        .iter()
        .filter(|cell| cell.word() % BLOCK_BYTES < PAGE)
        .take(600)
    {
        space.0.free(*cell).unwrap();
    }
    give_all_back(&mut space);
    space.verify();
    for _ in 0..600 {
        space
            .0
            .allocate_small(UNCOLLECTABLE, class_of(512))
            .unwrap();
    }
    space.verify();
}

#[test]
fn pages_between_survivors_stay_where_they_may_be_read() {
    let survives = |at: usize| at < PAGE;
    let (mut space, _) = with_survivors(NORMAL, survives);
    let before = backed_small_bytes(&space);
    let stay = |space: &mut Space, why: &str| {
        assert_eq!(space.0.unused_bytes(), space.0.dirty_bytes(), "{why}");
        give_all_back(space);
        assert_eq!(backed_small_bytes(space), before, "{why}");
    };
    space.0.marked_in_steps = true;
    stay(&mut space, "marks are being made");
    space.0.marked_in_steps = false;
    space.0.stage = Stage::Marking;
    stay(&mut space, "a collection marks");
    space.0.stage = Stage::Between;
    space.0.poison = true;
    stay(&mut space, "free memory is checked");
    space.0.poison = false;
    space
        .0
        .watch_by(|_| Ok(Watch::modelled(Mechanism::PageScan, &NothingWritten)))
        .unwrap();
    stay(&mut space, "marks may be kept");
    space.0.written = None;
    space.0.layout.set_huge_pages(true);
    stay(&mut space, "a huge page would be torn");
    space.0.layout.set_huge_pages(false);
    give_all_back(&mut space);
    assert!(backed_small_bytes(&space) < before / 2);
}

/// A kernel that is asked nothing.
struct NothingWritten;

impl KernelModel for NothingWritten {
    fn take(&self, _: usize, _: usize, _: &mut dyn FnMut(usize, usize)) -> Result<(), Reason> {
        Ok(())
    }

    fn finish(&self) -> Result<(), Reason> {
        Ok(())
    }

    fn release(&self, _: usize, _: usize) {}
}

/// The pause has linked what is dead: a page that went would cut a list.
#[test]
fn pages_stay_of_blocks_that_were_swept_in_the_pause() {
    let (mut space, live) = with_survivors_in(SweepMode::Eager, NORMAL, |at| at < PAGE);
    let before = backed_small_bytes(&space);
    assert_eq!(space.0.unused_bytes(), space.0.dirty_bytes());
    give_all_back(&mut space);
    assert_eq!(backed_small_bytes(&space), before);
    let cells: BTreeSet<usize> = (0..64 * 24)
        .map(|_| space.0.allocate_small(NORMAL, class_of(512)).unwrap())
        .map(Address::word)
        .collect();
    assert_eq!(cells.len(), 64 * 24);
    assert!(live.iter().all(|cell| !cells.contains(&cell.word())));
    space.verify();
}

/// What was handed out since the last collection is in use, whether it came out of swept blocks, fresh ones or the large part.
#[test]
fn what_is_new_is_not_unused() {
    let (mut space, _) = with_survivors(NORMAL, |at| at < PAGE);
    let holes = space.0.unused_bytes() - space.0.dirty_bytes();
    assert_eq!(holes, 64 * 24 * 512);
    space.large(NORMAL, 2 << 20);
    (0..320).for_each(|_| _ = space.0.allocate_small(NORMAL, class_of(1024)).unwrap());
    assert_eq!(space.0.unused_bytes(), holes);
    // One block of 64 is swept.
    space.0.allocate_small(NORMAL, class_of(512)).unwrap();
    assert_eq!(space.0.unused_bytes(), 63 * 24 * 512);
}

/// A cycle that is given up leaves objects without marks in blocks that wait to be swept.
#[test]
fn pages_stay_of_blocks_that_a_cycle_has_settled() {
    let (mut space, live) = with_survivors(NORMAL, |at| at < PAGE);
    let before = backed_small_bytes(&space);
    space.0.clear_marks(Waiting::Settled);
    give_all_back(&mut space);
    assert_eq!(backed_small_bytes(&space), before);
    assert!(live.iter().all(|cell| is_whole(*cell, 512)));
    space.collect(live.iter().copied());
    give_all_back(&mut space);
    assert!(backed_small_bytes(&space) < before / 2);
    assert!(live.iter().all(|cell| is_whole(*cell, 512)));
}
