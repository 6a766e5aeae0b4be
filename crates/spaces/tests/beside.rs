//! One thread gets cells while another resolves words into the same blocks, as a helper does that marks beside the program: what it
//! finds is a cell, complete, or nothing.
#![cfg(not(loom))]

mod support;

use std::collections::BTreeSet;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{scope, yield_now};

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, BlockIndex, BlockTable};
use gleaner_spaces::mark_sweep::kinds::{NORMAL, UNCOLLECTABLE};
use gleaner_spaces::mark_sweep::reclaim::Ageing;
use gleaner_spaces::mark_sweep::settle::Waiting;
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, CLASSES};
use gleaner_spaces::mark_sweep::{FREE, MARKED, POISON, SweepMode, WHITE};
use support::{SPAN, Space};

/// Blocks of which each is looked at from before it has cells on.
const BLOCKS: BlockIndex = 400;

/// What the thread that resolves words is told.
struct Shared {
    table: BlockTable,
    /// The block that it looks at; none until it does.
    looked_at: AtomicU32,
}

// SAFETY: the tables stay mapped; the other thread reads descriptors and marks as markers do.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(space: &Space) -> Shared {
        Shared {
            table: space.0.layout.table,
            looked_at: AtomicU32::new(BlockIndex::MAX),
        }
    }

    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn mark(&self, block: BlockIndex, cell: usize) -> u8 {
        // SAFETY: a block has marks for all its cells, which stay mapped.
        unsafe { (*self.table.marks_of(block).add(cell)).load(Ordering::Relaxed) }
    }

    fn start(&self, block: BlockIndex) -> usize {
        self.table.heap.word() + block as usize * BLOCK_BYTES
    }

    /// Looks at a block until it has cells of `bytes` bytes, and then at once what these are. `by_base` goes the short way.
    fn see_cells_come(&self, block: BlockIndex, bytes: usize, second: usize, by_base: bool) {
        let (start, cells) = (self.start(block), BLOCK_BYTES / bytes);
        // The last that is linked to another one.
        let word = start + (cells - 2) * bytes;
        let mut spins = 0;
        self.looked_at.store(block, Ordering::Release);
        loop {
            let base = match by_base {
                true => self.table.resolve_base(word).map(|_| word),
                false => self.table.resolve(word + 8).map(|found| {
                    assert_eq!(found.displacement, 8, "a descriptor that is not complete");
                    found.base.word()
                }),
            };
            if let Some(base) = base {
                assert_eq!(base, word, "a descriptor that is not complete");
                break;
            }
            spins += 1;
            match spins % 1000 {
                0 => yield_now(),
                _ => spin_loop(),
            }
        }
        for cell in (0..cells - 1).rev() {
            let base = start + cell * bytes;
            // SAFETY: cells of the test's own heap, which nobody changes any more.
            let words = unsafe { [0, 8].map(|at| Address::new(base).add(at).load_shared()) };
            assert_eq!(
                words,
                [base + bytes, second],
                "cell {cell} of {cells} is not linked"
            );
            assert_eq!(self.mark(block, cell), WHITE, "a mark from before");
            let (found, short) = (self.table.resolve(base + 1), self.table.resolve_base(base));
            let found = found.expect("a cell");
            assert_eq!((found.base.word(), found.displacement), (base, 1));
            assert_eq!(short, Some((found.block, found.mark)));
            // SAFETY: a block with objects does not change.
            let described = unsafe { ((*found.block).bytes, (*found.block).kind) };
            assert_eq!(described, (bytes, NORMAL as u8));
        }
    }
}

/// Which class the `n`-th block is of: each of them in turn that has more than two cells.
fn class_of_block(number: BlockIndex) -> usize {
    let several = |class: &usize| BLOCK_BYTES / usize::from(CELL_BYTES[*class]) > 2;
    let classes: Vec<usize> = (0..CLASSES).filter(several).collect();
    classes[number as usize % classes.len()]
}

/// Gets cells of the first `BLOCKS` blocks in their order, each when the other thread looks at it.
fn see_all_come(space: &mut Space, second: usize) {
    let shared = Shared::new(space);
    scope(|scope| {
        let sees = scope.spawn(|| {
            for number in 0..BLOCKS {
                let bytes = usize::from(CELL_BYTES[class_of_block(number)]);
                shared.see_cells_come(number, bytes, second, number % 2 == 0);
            }
        });
        for number in 0..BLOCKS {
            while shared.looked_at.load(Ordering::Acquire) != number && !sees.is_finished() {
                yield_now();
            }
            let list = space.0.take_cells(NORMAL, class_of_block(number)).unwrap();
            assert_eq!(list.block, number);
        }
    });
    space.verify();
}

#[test]
fn cells_of_new_blocks_are_found_when_they_are_linked() {
    for _ in 0..5 {
        see_all_come(&mut Space::new(SweepMode::Lazy, false), 0);
    }
    see_all_come(&mut Space::new(SweepMode::Lazy, true), POISON);
}

/// Of a kind whose free cells have a mark, which must be gone.
#[test]
fn cells_of_free_blocks_are_found_when_they_are_linked() {
    for _ in 0..5 {
        let mut space = Space::new(SweepMode::Lazy, false);
        let mut objects = Vec::new();
        while space.0.small_frontier() < BLOCKS {
            objects.push(space.0.allocate_small(UNCOLLECTABLE, 0).unwrap());
        }
        for object in objects {
            // SAFETY: an object of the test's own heap.
            unsafe { object.add(8).store(!0) };
            space.0.free(object).unwrap();
        }
        space.collect([]);
        assert_eq!(space.0.used_bytes(), 0);
        let shared = Shared::new(&space);
        // What the last objects left behind, where marks were not given back meanwhile.
        for block in 0..BLOCKS {
            for cell in 0..BLOCK_BYTES / 16 {
                // SAFETY: marks of a free block, which nobody else uses.
                unsafe { (*shared.table.marks_of(block).add(cell)).store(FREE, Ordering::Relaxed) };
            }
        }
        see_all_come(&mut space, 0);
    }
}

/// The other thread marks what lives in blocks that wait to be swept, whose other cells are handed out meanwhile.
#[test]
fn what_is_marked_while_its_block_is_swept_stays_marked() {
    const CLASS: usize = 3;
    for kept in [false, true] {
        for round in 0..20 {
            let mut space = Space::new(SweepMode::Lazy, round % 2 == 0);
            let all: Vec<Address> = (0..40_000)
                .map(|_| space.0.allocate_small(NORMAL, CLASS).unwrap())
                .collect();
            let is_live = |number: usize| number.is_multiple_of(3) || number % 200 < 100;
            let numbered = || all.iter().copied().enumerate();
            let live: Vec<usize> = numbered()
                .filter(|(number, _)| is_live(*number))
                .map(|(_, object)| object.word())
                .collect();
            space.0.clear_marks(Waiting::TakenBack);
            live.iter()
                .for_each(|object| space.set_mark(Address::new(*object), MARKED));
            space.0.reclaim(Ageing::ReleaseAfter(0));
            match kept {
                true => space.0.keep_marks(Waiting::Settled),
                false => space.0.clear_marks(Waiting::Settled),
            }
            space.0.marked_in_steps = true;
            let dead: BTreeSet<Address> = numbered()
                .filter(|(_, object)| space.mark_of(*object) == FREE)
                .map(|(_, object)| object)
                .collect();
            assert!(dead.len() > 5_000);
            let (shared, has_begun) = (Shared::new(&space), AtomicBool::new(false));
            let mut handed = BTreeSet::new();
            scope(|scope| {
                scope.spawn(|| {
                    has_begun.store(true, Ordering::Release);
                    for (at, object) in live.iter().enumerate() {
                        let found = shared
                            .table()
                            .resolve(object + at % 5 * 8)
                            .expect("it lives");
                        assert_eq!(found.base.word(), *object);
                        // SAFETY: the mark of a resolved object.
                        let mark = unsafe { &*found.mark };
                        assert_eq!(
                            mark.load(Ordering::Relaxed),
                            if kept { MARKED } else { WHITE }
                        );
                        mark.store(MARKED, Ordering::Relaxed);
                    }
                });
                while !has_begun.load(Ordering::Acquire) {
                    yield_now();
                }
                while space.0.unswept_bytes > 0 {
                    let list = space.0.take_cells(NORMAL, CLASS).unwrap();
                    let mut cell = list.head;
                    while !cell.is_null() {
                        assert!(handed.insert(cell), "handed out twice");
                        // SAFETY: a listed cell links to the next in its first word.
                        cell = unsafe { Address::new(cell.load()) };
                    }
                }
            });
            assert!(
                dead.is_subset(&handed) && !live.iter().any(|o| handed.contains(&Address::new(*o)))
            );
            let marked = |object: &usize| space.mark_of(Address::new(*object)) == MARKED;
            assert!(live.iter().all(marked), "a mark was lost");
            space.verify();
        }
    }
}

/// Where memory is short, free runs of the large part go back to the system when cells need their place.
#[test]
fn large_objects_are_found_while_free_runs_go_back() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let all: Vec<Address> = (0..12).map(|_| space.large(NORMAL, 1 << 20)).collect();
    for object in all.iter().skip(1).step_by(2) {
        space.0.free(*object).unwrap();
    }
    assert!(space.0.dirty_bytes() >= 6 << 20);
    space.0.capacity = space.0.used_bytes() + space.0.dirty_bytes();
    assert!(space.0.capacity < SPAN);
    let (shared, ends) = (Shared::new(&space), AtomicBool::new(false));
    scope(|scope| {
        scope.spawn(|| {
            let mut rounds = 0;
            while !ends.load(Ordering::Acquire) || rounds == 0 {
                for (number, object) in all.iter().enumerate() {
                    for at in (0..1 << 20).step_by(4096) {
                        let found = shared.table().resolve(object.word() + at + 16);
                        let found = found.map(|found| (found.base, found.displacement));
                        let expected = (number % 2 == 0).then_some((*object, at + 16));
                        assert_eq!(found, expected, "object {number}");
                    }
                }
                rounds += 1;
            }
        });
        for _ in 0..300 {
            space.0.take_cells(NORMAL, 3).unwrap();
            yield_now();
        }
        ends.store(true, Ordering::Release);
    });
    assert!(space.0.dirty_bytes() < 6 << 20, "nothing was given back");
    space.verify();
}
