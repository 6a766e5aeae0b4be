//! Explicit freeing: what it refuses, what it hands out again, and that a freed object leaves nothing behind.
#![cfg(not(loom))]

mod support;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::Stage;
use gleaner_spaces::mark_sweep::block::NO_BLOCK;
use gleaner_spaces::mark_sweep::cache::Cache;
use gleaner_spaces::mark_sweep::explicit_free::{FreeError, push_cell, push_magazine};
use gleaner_spaces::mark_sweep::kinds::{
    ATOMIC_UNCOLLECTABLE, Kind, NORMAL, PTRFREE, UNCOLLECTABLE, descriptor,
};
use gleaner_spaces::mark_sweep::reclaim::Ageing;
use gleaner_spaces::mark_sweep::scan::FROM_STACK;
use gleaner_spaces::mark_sweep::settle::Waiting;
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, class_of};
use gleaner_spaces::mark_sweep::view::SpaceView;
use gleaner_spaces::mark_sweep::{FREE, MARKED, SweepMode};
use std::collections::BTreeSet;
use support::Space;

const BLOCK: usize = gleaner_spaces::mark_sweep::block::BLOCK_BYTES;

fn store(object: Address, word: usize, value: usize) {
    // SAFETY: an object of the test's own heap, and `word` is inside it.
    unsafe { object.add(word * 8).store(value) };
}

fn load(object: Address, word: usize) -> usize {
    // SAFETY: an object of the test's own heap, and `word` is inside it.
    unsafe { object.add(word * 8).load() }
}

#[test]
fn a_freed_cell_is_the_next_one_handed_out_and_reads_as_zero() {
    for poison in [false, true] {
        let mut space = Space::new(SweepMode::Lazy, poison);
        for kind in [NORMAL, UNCOLLECTABLE] {
            let class = class_of(100);
            let object = space.0.allocate_small(kind, class).unwrap();
            (0..usize::from(CELL_BYTES[class]) / 8).for_each(|word| store(object, word, 7));
            assert_eq!(space.0.free(object), Ok(usize::from(CELL_BYTES[class])));
            assert_eq!(space.0.allocate_small(kind, class), Ok(object));
            assert!((0..usize::from(CELL_BYTES[class]) / 8).all(|word| load(object, word) == 0));
        }
    }
}

#[test]
fn freeing_twice_is_noticed_in_every_kind() {
    for kind in [PTRFREE, NORMAL, UNCOLLECTABLE, ATOMIC_UNCOLLECTABLE] {
        let mut space = Space::new(SweepMode::Lazy, false);
        let object = space.0.allocate_small(kind, 3).unwrap();
        space.0.free(object).unwrap();
        assert_eq!(space.0.free(object), Err(FreeError::Twice));
        let again = space.0.allocate_small(kind, 3).unwrap();
        assert_eq!(again, object);
        assert!(
            space.0.free(again).is_ok(),
            "a cell that was allocated again can be freed again"
        );
        assert_eq!(space.0.uncollectable_bytes, 0);
    }
}

#[test]
fn addresses_that_are_no_objects_are_refused() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let small = space.0.allocate_small(NORMAL, 3).unwrap();
    let large = space.large(NORMAL, 3 * BLOCK);
    let beyond = space.0.layout.table.heap.add(space.0.layout.table.span);
    for wild in [
        Address::NULL,
        Address::new(8),
        beyond,
        large.add(4 * BLOCK),
        small.add(BLOCK),
    ] {
        assert_eq!(space.0.free(wild), Err(FreeError::NotAnObject), "{wild:?}");
    }
    assert_eq!(
        space.0.free(small.add(8)),
        Err(FreeError::Interior { displacement: 8 })
    );
    assert_eq!(
        space.0.free(large.add(BLOCK)),
        Err(FreeError::Interior {
            displacement: BLOCK
        })
    );
}

/// A freed large object joins its neighbours; whichever it joins, its address is no object any more.
#[test]
fn a_large_object_is_gone_after_its_free_whatever_it_joins() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut space = Space::new(SweepMode::Lazy, false);
        let objects: Vec<Address> = (0..3)
            .map(|_| space.large(NORMAL, 2 * BLOCK + 16))
            .collect();
        space.large(NORMAL, BLOCK);
        for which in order {
            space.0.free(objects[which]).unwrap();
            assert_eq!(
                space.0.free(objects[which]),
                Err(FreeError::NotAnObject),
                "{order:?}: freed twice"
            );
            assert!(space.0.object_at(objects[which].word() + BLOCK).is_none());
            space.verify();
        }
    }
}

/// An object freed and allocated again while its block waits to be swept belongs to its new owner: the sweep must not
/// offer it to the disclaim procedure, nor hand it out a second time.
#[test]
fn a_cell_reused_before_the_sweep_is_not_swept() {
    extern "C-unwind" fn never_keep(_: *mut core::ffi::c_void) -> core::ffi::c_int {
        0
    }
    for mode in [SweepMode::Lazy, SweepMode::Eager] {
        for disclaims in [false, true] {
            for uncollectable in [false, true] {
                let mut space = Space::new(mode, false);
                let kind = Kind {
                    descriptor: descriptor::LENGTH,
                    add_size: true,
                    clear: true,
                    uncollectable,
                    disclaim: disclaims.then_some(never_keep as _),
                    mark_unconditionally: false,
                    unlocked: false,
                };
                let kind = space.0.kinds.add(kind).unwrap();
                let class = class_of(1000);
                let first: Vec<Address> = (0..16)
                    .map(|_| space.0.allocate_small(kind, class).unwrap())
                    .collect();
                for dead in &first[4..] {
                    if uncollectable {
                        space.0.free(*dead).unwrap();
                    }
                }
                space.collect(first[..4].iter().copied());
                space.0.free(first[1]).unwrap();
                let reused = space.0.allocate_small(kind, class).unwrap();
                assert_eq!(reused, first[1]);
                let mut live: BTreeSet<Address> = [first[0], first[1], first[2], first[3]].into();
                for _ in 0..30 {
                    let object = space.0.allocate_small(kind, class).unwrap();
                    assert!(
                        live.insert(object),
                        "{mode:?}: {object:?} was handed out twice"
                    );
                }
            }
        }
    }
}

/// What a thread takes off the shared list may be of any block, also of one that is swept: a collection keeps it.
#[test]
fn freed_cells_that_a_thread_took_are_not_swept() {
    for mode in [SweepMode::Lazy, SweepMode::Eager] {
        let mut space = Space::new(mode, false);
        let class = class_of(1000);
        let all: Vec<Address> = (0..16)
            .map(|_| space.0.allocate_small(NORMAL, class).unwrap())
            .collect();
        let (live, freed) = (&all[..4], &all[4..8]);
        for cell in freed {
            space.0.free(*cell).unwrap();
        }
        let mut cache = Box::new(Cache::new());
        // SAFETY: this thread's own cache.
        unsafe { space.0.refill(&mut *cache, NORMAL, class) }.unwrap();
        assert_eq!(cache.heads[NORMAL][class], freed[3]);
        space.collect_beside(&cache, live.iter().copied());
        let mut known = BTreeSet::from_iter(all[..8].iter().copied());
        for _ in 0..30 {
            let object = space.0.allocate_small(NORMAL, class).unwrap();
            assert!(
                known.insert(object),
                "{mode:?}: {object:?} is alive, or on the thread's list"
            );
        }
    }
}

/// Cells in a thread's magazine are nobody else's: a collection neither sweeps them nor counts them as allocated. The thread
/// gets them before others do, and where it shares them or ends, every one of them is had again, once.
#[test]
fn cells_of_a_magazine_are_had_again_once() {
    for (mode, kind) in [SweepMode::Lazy, SweepMode::Eager]
        .into_iter()
        .flat_map(|mode| [NORMAL, PTRFREE, UNCOLLECTABLE].map(|kind| (mode, kind)))
    {
        let mut space = Space::new(mode, false);
        let class = class_of(1000);
        let mut cache = Box::new(Cache::new());
        let all: Vec<Address> = (0..24)
            .map(|_| space.0.allocate_small(kind, class).unwrap())
            .collect();
        let (live, freed) = all.split_at(8);
        let free = |space: &mut Space, cache: &mut Cache, cell| {
            assert_ne!(space.mark_of(cell), FREE);
            // SAFETY: this thread's own cache, and the test gives the cell up.
            unsafe { push_magazine(cache, kind, class, cell, true) }
        };
        for (number, cell) in freed[..5].iter().enumerate() {
            assert_eq!(free(&mut space, &mut cache, *cell), number as u32 + 1);
        }
        // SAFETY: this thread's own cache stays mapped.
        let listed = unsafe { SpaceView::new(&raw const space.0).listed_bytes(&*cache) };
        assert_eq!(listed, 5 * usize::from(CELL_BYTES[class]));
        space.collect_beside(&cache, all[..8].iter().chain(&all[13..]).copied());
        // SAFETY: this thread's own cache.
        unsafe { space.0.verify_cache(&*cache) }.unwrap_or_else(|fault| panic!("{fault:?}"));
        let mut known = BTreeSet::from_iter(all.iter().copied());
        for _ in 0..30 {
            let object = space.0.allocate_small(kind, class).unwrap();
            assert!(
                known.insert(object),
                "{mode:?}: {object:?} is in a magazine"
            );
        }
        // What the thread's empty list is filled with first is its own magazine, the last freed before the others.
        // SAFETY: this thread's own cache.
        unsafe { space.0.refill(&mut *cache, kind, class) }.unwrap();
        let mut head = cache.heads[kind][class];
        for expected in freed[..5].iter().rev() {
            assert_eq!(head, *expected, "{mode:?}");
            head = Address::new(load(head, 0));
        }
        assert!(head.is_null() && cache.magazines[kind][class].head.is_null());
        for cell in &freed[5..10] {
            free(&mut space, &mut cache, *cell);
        }
        // SAFETY: this thread's own cache.
        unsafe { space.0.share_magazine(&mut *cache, kind, class) };
        assert_eq!(cache.magazines[kind][class].cells, 0);
        for cell in &freed[10..] {
            free(&mut space, &mut cache, *cell);
        }
        // SAFETY: this thread's own cache, which is not used again.
        unsafe { space.0.adopt_cells(&mut *cache) };
        let again: BTreeSet<Address> = (0..16)
            .map(|_| space.0.allocate_small(kind, class).unwrap())
            .collect();
        assert_eq!(
            again,
            freed.iter().copied().collect(),
            "{mode:?}, kind {kind}"
        );
        assert!(live.iter().all(|cell| !again.contains(cell)));
    }
}

/// What never was allocated is no object that lives, although it is listed beside a freed cell of another block.
#[test]
fn cells_of_the_block_that_a_thread_owns_are_not_marked() {
    for kind in [NORMAL, PTRFREE, UNCOLLECTABLE] {
        let mut space = Space::new(SweepMode::Lazy, false);
        let class = class_of(1000);
        // A whole block, so that the thread gets another one.
        let live: Vec<Address> = (0..BLOCK / 1024)
            .map(|_| space.0.allocate_small(kind, class).unwrap())
            .collect();
        let (other, live) = live.split_first().unwrap();
        let mut cache = Box::new(Cache::new());
        // SAFETY: this thread's own cache. The test gives the other cell up.
        unsafe {
            space.0.refill(&mut *cache, kind, class).unwrap();
            assert_ne!(cache.owned[kind][class], NO_BLOCK);
            push_cell(&mut *cache, kind, class, *other, true, false);
        }
        let first = Address::new(load(*other, 0));
        space.collect_beside(&cache, live.iter().copied());
        // SAFETY: this thread's own cache.
        unsafe { space.0.verify_cache(&*cache) }.unwrap_or_else(|fault| panic!("{fault:?}"));
        assert_eq!(space.mark_of(*other), MARKED);
        let mut cell = first;
        while !cell.is_null() {
            assert_ne!(space.mark_of(cell), MARKED);
            cell = Address::new(load(cell, 0));
        }
        space.0.for_each_marked(|object| {
            assert!(live.contains(&object.base), "{object:?} is none");
        });
    }
}

/// A word that refers to an uncollectable object after its free does not make it live again, which would be for ever.
#[test]
fn a_stale_word_does_not_keep_a_freed_cell() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let context = support::context(&space);
    let [live, stale] = [0, 1].map(|_| space.0.allocate_small(UNCOLLECTABLE, 3).unwrap());
    space.0.free(stale).unwrap();
    space.0.clear_marks(Waiting::TakenBack);
    assert!(context.grey(stale.word(), FROM_STACK).is_none());
    assert_eq!(space.mark_of(stale), FREE);
    space.collect([live]);
    assert_eq!(space.0.allocate_small(UNCOLLECTABLE, 3), Ok(stale));
}

/// The lists that are handed out whole (`GC_malloc_many`) carry no trace of an earlier explicit free.
#[test]
fn a_cell_from_a_whole_list_can_be_freed() {
    for kind in [PTRFREE, NORMAL] {
        let mut space = Space::new(SweepMode::Lazy, false);
        let class = class_of(1000);
        let all: Vec<Address> = (0..16)
            .map(|_| space.0.allocate_small(kind, class).unwrap())
            .collect();
        space.0.free(all[5]).unwrap();
        space.collect([all[0]]);
        let list = space.0.take_cells(kind, class).unwrap();
        assert!(list.cells > 1);
        let mut cell = list.head;
        while !cell.is_null() {
            let next = Address::new(load(cell, 0));
            assert!(
                space.0.free(cell).is_ok(),
                "{cell:?} was never freed since it was handed out"
            );
            cell = next;
        }
    }
}

/// What one thread takes off the shared list it keeps from all others: few cells where they are large.
#[test]
fn a_thread_takes_few_large_cells_at_once() {
    for (bytes, taken) in [(8000, 4), (48, 256)] {
        let mut space = Space::new(SweepMode::Lazy, false);
        let class = class_of(bytes);
        let cells: Vec<Address> = (0..1000)
            .map(|_| space.0.allocate_small(NORMAL, class).unwrap())
            .collect();
        for cell in cells {
            space.0.free(cell).unwrap();
        }
        let mut cache = Box::new(Cache::new());
        // SAFETY: this thread's own cache.
        unsafe { space.0.refill(&mut *cache, NORMAL, class) }.unwrap();
        assert_eq!(listed(cache.heads[NORMAL][class]).len(), taken);
    }
}

/// The cells of a list.
fn listed(head: Address) -> Vec<Address> {
    let next = |cell: &Address| Some(Address::new(load(*cell, 0))).filter(|next| !next.is_null());
    std::iter::successors(Some(head), next).collect()
}

/// A client that asks for a whole list gets freed cells first, without their cookies.
#[test]
fn freed_cells_are_had_as_a_list() {
    for kind in [NORMAL, PTRFREE] {
        let mut space = Space::new(SweepMode::Lazy, false);
        let mut cache = Box::new(Cache::new());
        let class = class_of(64);
        // A whole block, so that no other cells are on the shared list.
        let all: Vec<Address> = (0..BLOCK / usize::from(CELL_BYTES[class]))
            .map(|_| space.0.allocate_small(kind, class).unwrap())
            .collect();
        let cells = &all[..10];
        for cell in cells {
            store(*cell, 3, 77);
        }
        for cell in &cells[..4] {
            // SAFETY: this thread's own cache, and the test gives the cell up.
            unsafe { push_magazine(&mut *cache, kind, class, *cell, kind == NORMAL) };
        }
        for cell in &cells[4..] {
            space.0.free(*cell).unwrap();
        }
        for expected in [&cells[..4], &cells[4..]] {
            // SAFETY: this thread's own cache.
            let head = unsafe { space.0.take_freed_cells(Some(&mut *cache), kind, class) }.unwrap();
            let got = listed(head);
            assert_eq!(
                got.iter().collect::<BTreeSet<_>>(),
                expected.iter().collect()
            );
            for cell in got {
                assert_eq!(load(cell, 1), 0);
                assert!(kind == PTRFREE || (2..8).all(|word| load(cell, word) == 0));
            }
        }
        // SAFETY: this thread's own cache.
        let more = unsafe { space.0.take_freed_cells(Some(&mut *cache), kind, class) };
        assert_eq!(more, None);
    }
}

/// A program may free what nothing refers to any more as far as a collection could see. The sweep has the cell already.
#[test]
fn freeing_what_a_collection_found_dead_hands_its_cell_out_once() {
    for mode in [SweepMode::Lazy, SweepMode::Eager] {
        for poison in [false, true] {
            let mut space = Space::new(mode, poison);
            let class = class_of(64);
            let cells: Vec<Address> = (0..usize::from(u8::MAX))
                .map(|_| space.0.allocate_small(NORMAL, class).unwrap())
                .collect();
            space.collect([cells[7]]);
            assert_eq!(space.0.free(cells[8]), Ok(0), "found dead");
            assert_eq!(space.0.free(cells[8]), Ok(0), "and nothing happened");
            assert_eq!(space.0.free(cells[7]), Ok(64), "it lives");
            space.verify();
            let mut handed_out = BTreeSet::new();
            for _ in &cells {
                let cell = space.0.allocate_small(NORMAL, class).unwrap();
                assert!(handed_out.insert(cell.word()), "{cell:?} twice, {mode:?}");
            }
            assert!(handed_out.contains(&cells[7].word()));
            assert!(handed_out.contains(&cells[8].word()));
            // Allocated again, it is an object as any other.
            assert_eq!(space.0.free(cells[8]), Ok(64));
        }
    }
}

/// The same between the stop and the decision what becomes of the block.
#[test]
fn freeing_what_was_found_dead_before_blocks_are_reclaimed_hands_its_cell_out_once() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let class = class_of(64);
    let cells: Vec<Address> = (0..1000)
        .map(|_| space.0.allocate_small(NORMAL, class).unwrap())
        .collect();
    let lives = cells[7];
    space.0.clear_marks(Waiting::TakenBack);
    space.set_mark(lives, MARKED);
    space.0.stage = Stage::Reclaiming;
    assert_eq!(space.0.free(cells[8]), Ok(0), "found dead");
    assert_eq!(space.0.free(lives), Ok(64), "it lives");
    space.0.reclaim(Ageing::ReleaseAfter(0));
    space.0.stage = Stage::Between;
    space.verify();
    let mut handed_out = BTreeSet::new();
    for _ in &cells {
        let cell = space.0.allocate_small(NORMAL, class).unwrap();
        assert!(handed_out.insert(cell.word()), "{cell:?} twice");
    }
    assert!(handed_out.contains(&cells[8].word()) && handed_out.contains(&lives.word()));
}

/// An object that is freed again after a collection has reclaimed it looks like any other, but the list does not end any more.
#[test]
#[should_panic(expected = "leads back into itself")]
fn a_list_that_leads_back_into_itself_is_noticed() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let mut cache = Box::new(Cache::new());
    let class = class_of(64);
    let cell = space.0.allocate_small(NORMAL, class).unwrap();
    for _ in 0..2 {
        // SAFETY: this thread's own cache; the test is about who breaks the rest.
        unsafe { push_cell(&mut *cache, NORMAL, class, cell, true, false) };
    }
    space.collect_beside(&cache, std::iter::empty());
}

/// The verifier wants each listed cell to be safe from the sweep.
#[test]
fn a_listed_cell_that_a_sweep_would_list_again_is_a_fault() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let mut cache = Box::new(Cache::new());
    let class = class_of(64);
    let cells: Vec<Address> = (0..300)
        .map(|_| space.0.allocate_small(UNCOLLECTABLE, class).unwrap())
        .collect();
    // SAFETY: this thread's own cache, and the test gives the cell up.
    unsafe { push_cell(&mut *cache, UNCOLLECTABLE, class, cells[0], true, false) };
    // SAFETY: this thread's own cache.
    assert!(unsafe { space.0.verify_cache(&*cache) }.is_ok());
    space.set_mark(cells[0], FREE);
    // SAFETY: this thread's own cache.
    assert!(unsafe { space.0.verify_cache(&*cache) }.is_err());
}
