//! The capacity holds (I7): what is in use and what is free but still backed stay below it together, or below it and its slack.
#![cfg(not(loom))]

mod support;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::SweepMode;
use gleaner_spaces::mark_sweep::allocate::Shortage;
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE};
use gleaner_spaces::mark_sweep::reclaim::Ageing;
use gleaner_spaces::mark_sweep::settle::Waiting;
use gleaner_spaces::mark_sweep::size_classes::class_of;
use support::Space;

const BLOCK: usize = gleaner_spaces::mark_sweep::block::BLOCK_BYTES;
const MIB: usize = 1 << 20;

/// The number of collections is that of the option, for blocks and for runs, up to the most that it may be.
#[test]
fn free_memory_goes_back_after_so_many_collections() {
    for large in [false, true] {
        for after in [1, 2, 6, u8::MAX] {
            let mut space = Space::new(SweepMode::Lazy, false);
            if large {
                space.large(NORMAL, 3 * BLOCK);
            } else {
                space.0.allocate_small(NORMAL, 3).unwrap();
            }
            let mut collections = 0;
            // The first one finds the object dead.
            let released = loop {
                space.0.clear_marks(Waiting::TakenBack);
                let released = space.0.reclaim(Ageing::ReleaseAfter(after)).released_bytes;
                if released > 0 || collections > 2 * usize::from(after) {
                    break released;
                }
                collections += 1;
            };
            let all = if large { 3 * BLOCK } else { BLOCK };
            assert_eq!(
                (released, collections),
                (all, usize::from(after)),
                "large: {large}"
            );
            space.0.clear_marks(Waiting::TakenBack);
            assert_eq!(
                space.0.reclaim(Ageing::ReleaseAfter(after)).released_bytes,
                0,
                "it went back once"
            );
        }
    }
}

/// Collections in idle time do not count.
#[test]
fn free_memory_becomes_no_older_where_it_stays() {
    for large in [false, true] {
        let mut space = Space::new(SweepMode::Lazy, false);
        if large {
            space.large(NORMAL, 3 * BLOCK);
        } else {
            space.0.allocate_small(NORMAL, 3).unwrap();
        }
        for ageing in [Ageing::ReleaseAfter(2), Ageing::Stays, Ageing::Stays] {
            space.0.clear_marks(Waiting::TakenBack);
            assert_eq!(space.0.reclaim(ageing).released_bytes, 0, "{ageing:?}");
        }
        let mut collections = 0;
        while space.0.dirty_bytes() > 0 {
            space.0.clear_marks(Waiting::TakenBack);
            space.0.reclaim(Ageing::ReleaseAfter(2));
            collections += 1;
        }
        assert_eq!(collections, 2, "large: {large}");
    }
}

fn backed(space: &Space) -> usize {
    space.0.used_bytes() + space.0.dirty_bytes()
}

/// A space of 2 MiB that is full of large objects of whole blocks.
fn full() -> (Space, Vec<Address>) {
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.capacity = 2 * MIB;
    let objects = (0..8).map(|_| space.large(PTRFREE, 256 << 10)).collect();
    assert_eq!(
        space.0.allocate_large(PTRFREE, 256 << 10, 16, false),
        Err(Shortage::Capacity(256 << 10))
    );
    (space, objects)
}

#[test]
fn small_blocks_take_the_place_of_large_objects() {
    let (mut space, objects) = full();
    for object in objects {
        space.0.free(object).unwrap();
    }
    let mut cells = 0;
    while space.0.allocate_small(NORMAL, class_of(2000)).is_ok() {
        cells += 1;
        assert!(backed(&space) <= 2 * MIB, "{}", backed(&space));
    }
    assert_eq!(cells, 2 * MIB / BLOCK * (BLOCK / 2000));
    space.verify();
}

#[test]
fn large_objects_take_the_place_of_small_blocks() {
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.capacity = 2 * MIB;
    while space.0.allocate_small(NORMAL, class_of(2000)).is_ok() {}
    space.collect([]);
    let mut objects = 0;
    while space.0.allocate_large(NORMAL, 3 * BLOCK, 16, false).is_ok() {
        objects += 1;
        assert!(backed(&space) <= 2 * MIB, "{}", backed(&space));
    }
    assert_eq!(objects, 2 * MIB / (3 * BLOCK));
}

/// A clean run that joins a dirty one counts as dirty. Before it is taken as that, other memory makes room for it.
#[test]
fn a_run_of_which_a_part_is_backed_is_taken_in_place_of_other_memory() {
    for grows in [false, true] {
        let mut space = Space::new(SweepMode::Lazy, false);
        space.0.capacity = 3 * MIB;
        let [stays, first, second] =
            [768 << 10, 256 << 10, 3 * MIB / 2].map(|bytes| space.large(PTRFREE, bytes));
        space.large(PTRFREE, 256 << 10); // Else the second would end at the frontier.
        space.0.free(second).unwrap();
        assert_eq!(space.0.release_dirty(usize::MAX), 3 * MIB / 2);
        while space.0.allocate_small(NORMAL, class_of(2000)).is_ok() {}
        space.collect([stays, first]);
        space.0.free(first).unwrap();
        if grows {
            assert!(space.0.grow_large(stays, 2 * MIB));
        } else {
            space.large(PTRFREE, 3 * MIB / 2);
        }
        assert!(backed(&space) <= 3 * MIB, "{grows}: {}", backed(&space));
        space.verify();
    }
}

/// Beside an object of 1 MiB that lives, 512 KiB of large objects and 1.75 MiB of small ones are needed in turn.
fn need_in_turn(space: &mut Space, live: Address) {
    for (large, small) in [(2, 5 * MIB / 4), (0, 7 * MIB / 4)] {
        for _ in 0..large {
            space.large(NORMAL, 256 << 10);
        }
        for _ in 0..small / BLOCK * (BLOCK / 2000) {
            space.0.allocate_small(NORMAL, class_of(2000)).unwrap();
        }
        assert!(backed(space) <= 3 * MIB + MIB / 4);
        space.collect([live]);
        space.0.slack.note_collection(3 * MIB, usize::MAX);
    }
}

/// The first time one kind takes the place of the other; from then on both stay, a little beyond the capacity.
#[test]
fn what_is_needed_in_turn_is_kept_beyond_the_capacity() {
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.capacity = 3 * MIB;
    let live = space.large(PTRFREE, MIB);
    need_in_turn(&mut space, live);
    for _ in 0..3 {
        need_in_turn(&mut space, live);
        assert_eq!(backed(&space), 3 * MIB + MIB / 4);
    }
    // Where nobody needs both any more, it goes.
    (0..99).for_each(|_| space.0.slack.note_collection(3 * MIB, usize::MAX));
    space.large(NORMAL, MIB);
    assert!(backed(&space) <= 3 * MIB, "{}", backed(&space));
}

/// A free run that was released counts as fresh memory when it is taken again: other free memory makes room for it.
#[test]
fn a_released_run_is_backed_again_only_in_place_of_other_memory() {
    let (mut space, objects) = full();
    for object in &objects {
        space.0.free(*object).unwrap();
    }
    assert!(space.0.release_dirty(usize::MAX) > 0);
    assert_eq!(space.0.dirty_bytes(), 0);
    while space.0.allocate_small(NORMAL, class_of(2000)).is_ok() {}
    space.collect([]);
    assert_eq!(space.0.dirty_bytes(), 2 * MIB);
    space.large(NORMAL, MIB);
    assert!(backed(&space) <= 2 * MIB, "{}", backed(&space));
}

#[test]
fn without_capacity_nothing_is_allocated() {
    let mut space = Space::new(SweepMode::Eager, true);
    space.0.capacity = 0;
    assert_eq!(
        space.0.allocate_small(NORMAL, 0),
        Err(Shortage::Capacity(BLOCK))
    );
    assert_eq!(
        space.0.allocate_large(NORMAL, 10_000, 16, false),
        Err(Shortage::Capacity(12_288))
    );
    assert_eq!(backed(&space), 0);
}

#[test]
fn an_object_that_grows_where_it_is_keeps_to_the_capacity() {
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.capacity = 2 * MIB;
    let dirty = space.large(PTRFREE, MIB);
    write(dirty, MIB);
    let growing = space.large(NORMAL, 4 * BLOCK);
    space.0.free(dirty).unwrap();
    let mut bytes = 4 * BLOCK;
    while space.0.grow_large(growing, bytes + 1000) {
        bytes += 1000;
        assert!(backed(&space) <= 2 * MIB, "{}", backed(&space));
    }
    assert_eq!(space.0.used_bytes(), 2 * MIB);
    space.0.free(growing).unwrap();
    assert_eq!(space.0.used_bytes(), 0);
    space.verify();
}

/// Whether memory backs a page.
fn is_backed(page: Address) -> bool {
    let mut answer = 0u8;
    // SAFETY: one page, so one byte is written; the kernel refuses what is not mapped.
    let status = unsafe { libc::mincore(page.ptr(), 4096, &mut answer) };
    status == 0 && answer & 1 == 1
}

/// What is backed ahead of small blocks counts, and goes where a large object or the client wants its place.
#[test]
fn what_is_backed_ahead_gives_way() {
    const CAPACITY: usize = 14 * MIB;
    if !support::can_populate() {
        return;
    }
    for blocks in 780..=800 {
        let mut space = Space::new(SweepMode::Lazy, false);
        space.0.capacity = CAPACITY;
        space.0.set_populate_ahead(MIB);
        let mut last = Address::NULL;
        for _ in 0..blocks * (BLOCK / 2000) {
            last = space.0.allocate_small(NORMAL, class_of(2000)).unwrap();
        }
        let next = last.add(1).align_up(BLOCK);
        assert!(backed(&space) <= CAPACITY, "{}", backed(&space));
        assert_eq!(space.0.dirty_bytes() > 0, is_backed(next), "{blocks}");
        while space.0.allocate_large(PTRFREE, BLOCK, 16, false).is_ok() {
            assert!(backed(&space) <= CAPACITY, "{}", backed(&space));
        }
        assert_eq!((space.0.used_bytes(), space.0.dirty_bytes()), (CAPACITY, 0));
        assert!(!is_backed(next), "{blocks}");
        space.verify();
    }
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.set_populate_ahead(MIB);
    while space.0.dirty_bytes() == 0 {
        space.0.allocate_small(NORMAL, class_of(2000)).unwrap();
    }
    let ahead = space.0.dirty_bytes();
    assert_eq!(space.0.release_dirty(usize::MAX), ahead);
    assert_eq!(space.0.dirty_bytes(), 0);
}

/// Writes the first bytes of an object.
fn write(object: Address, bytes: usize) {
    // SAFETY: the test's own object.
    (0..bytes / 8).for_each(|word| unsafe { object.add(word * 8).store(7) });
}

#[test]
fn what_was_never_written_is_no_room_for_others() {
    for (written, is_backed) in [
        (0, false),
        (200 << 10, false),
        (300 << 10, true),
        (MIB, true),
    ] {
        let mut space = Space::new(SweepMode::Lazy, false);
        space.0.capacity = 8 * MIB;
        space.0.initial_capacity = 2 * MIB;
        space.0.allocate_small(PTRFREE, class_of(2000)).unwrap();
        for _ in 0..4 {
            write(space.large(PTRFREE, MIB), written);
        }
        space.collect([]);
        let left = if is_backed { 8 * MIB } else { 4 * MIB };
        assert_eq!(space.0.capacity, left, "{written}");
        assert_eq!(space.0.dirty_bytes() >= 4 * MIB, is_backed, "{written}");
        // What was given back reads as zero.
        let again = space.large(NORMAL, MIB);
        // SAFETY: the test's own object.
        assert!((0..MIB / 8).all(|word| unsafe { again.add(word * 8).load() } == 0));
        // Not below what the heap begins with.
        for _ in 0..3 {
            space.large(PTRFREE, MIB);
        }
        space.collect([]);
        space.verify();
        assert!(space.0.capacity >= 2 * MIB);
    }
}

#[test]
fn what_the_program_frees_is_looked_at_where_it_is_much() {
    for (bytes, goes) in [(4 * MIB, true), (2 * MIB, true), (MIB, false)] {
        let mut space = Space::new(SweepMode::Lazy, false);
        space.0.capacity = 8 * MIB;
        let object = space.large(PTRFREE, bytes);
        space.0.free(object).unwrap();
        let capacity = if goes { 8 * MIB - bytes } else { 8 * MIB };
        let dirty = if goes { 0 } else { bytes };
        assert_eq!((space.0.capacity, space.0.dirty_bytes()), (capacity, dirty));
    }
}

#[test]
fn a_heap_that_is_used_keeps_what_was_not_written() {
    for (live, goes) in [(MIB, true), (2 * MIB, false)] {
        let mut space = Space::new(SweepMode::Lazy, false);
        space.0.capacity = 8 * MIB;
        let live = space.large(PTRFREE, live);
        space.large(PTRFREE, 4 * MIB);
        space.collect([live]);
        let expected = if goes {
            (4 * MIB, 0)
        } else {
            (8 * MIB, 4 * MIB)
        };
        assert_eq!((space.0.capacity, space.0.dirty_bytes()), expected);
    }
}
