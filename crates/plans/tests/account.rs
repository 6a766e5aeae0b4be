//! What was allocated and freed is known to the byte, and decides when to collect.

#![cfg(not(loom))]

mod harness;

use std::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_spaces::mark_sweep::block::BLOCK_BYTES;
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE, UNCOLLECTABLE};
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, CLASSES, class_of};
use harness::Bench;
use harness::rng::Rng;

fn cell(bytes: usize) -> usize {
    usize::from(CELL_BYTES[class_of(bytes)])
}

#[test]
fn allocation_is_counted_to_the_byte() {
    for options in ["sweep=lazy", "sweep=eager", "poison=on"] {
        let mut bench = Bench::new(options);
        let mut rng = Rng::new(7);
        let (mut allocated, mut freed) = (0, 0);
        let mut held: Vec<(Address, usize)> = Vec::new();
        for step in 0..40_000 {
            let kind = [NORMAL, PTRFREE, UNCOLLECTABLE][rng.below(3)];
            let bytes = [16, 100, 600, 3000, 50_000][rng.below(5).min(rng.below(5))];
            let object = bench.allocate(kind, bytes).unwrap();
            let counted = if bytes == 50_000 { 50_000 } else { cell(bytes) };
            allocated += counted;
            bench.roots[held.len()] = object.word();
            held.push((object, counted));
            if held.len() == 200 {
                for (object, counted) in held.drain(..) {
                    bench.free(object);
                    freed += counted;
                }
            }
            if step % 5000 == 4999 {
                held.clear();
                bench.collect();
                assert_eq!(bench.heap.allocated_before, allocated, "{options}");
                assert_eq!(bench.heap.freed_before, freed, "{options}");
            }
            if step % 97 == 0 {
                let view = bench.heap.view();
                assert_eq!(view.allocated_bytes(), allocated, "{options}, {step}");
                assert_eq!(view.freed_bytes(), freed, "{options}, {step}");
            }
        }
    }
}

/// To walk the threads' lists takes time, which nobody waits for.
#[test]
fn what_was_allocated_is_counted_after_the_stop() {
    let mut bench = Bench::new("");
    for round in 1..4 {
        let before = bench.heap.allocated_before;
        bench.allocate(NORMAL, 16).unwrap();
        bench.collect();
        let in_stop = bench.client.counted_in_stop.load(Ordering::Relaxed);
        assert_eq!((in_stop, bench.heap.allocated_before), (before, round * 16));
    }
}

#[test]
fn cells_that_are_freed_and_reused_cost_nothing() {
    let collections_with = |pairs: usize| {
        let mut bench = Bench::new("least-room=0");
        for _ in 0..20_000 {
            for _ in 0..pairs {
                let object = bench.allocate(NORMAL, 64).unwrap();
                bench.free(object);
            }
            bench.allocate(NORMAL, 200).unwrap();
        }
        bench.heap.collections
    };
    let alone = collections_with(0);
    assert!(alone >= 8, "{alone}");
    for pairs in [1, 8, 50] {
        let with = collections_with(pairs);
        assert!(with.abs_diff(alone) <= alone / 4, "{with}, alone {alone}");
    }
}

#[test]
fn cells_on_the_shared_lists_cost_nothing() {
    let mut bench = Bench::new("");
    bench.thread_lists = false;
    let class = class_of(64);
    let objects: Vec<Address> = (0..3000)
        .map(|_| bench.heap.space.allocate_small(NORMAL, class).unwrap())
        .collect();
    let handed = bench.heap.space.account.handed;
    assert!(handed >= 3000 * 64);
    for object in objects {
        bench.free(object);
    }
    let account = &bench.heap.space.account;
    assert_eq!(account.handed, handed);
    assert_eq!(account.net_allocated(), 0, "all cells wait to be reused");
    assert_eq!(account.shared_bytes, handed);
}

/// Of each size and kind a thread gets a block's cells, of which it may take few: a program of many sizes would seem to have
/// allocated enough for a collection.
#[test]
fn cells_that_no_thread_has_taken_do_not_call_for_a_collection() {
    let mut bench = Bench::new("least-room=300k");
    let mut taken = 0;
    for bytes in CELL_BYTES
        .map(usize::from)
        .into_iter()
        .filter(|&it| it <= 512)
    {
        for kind in [NORMAL, PTRFREE] {
            bench.allocate(kind, bytes).unwrap();
            taken += bytes;
        }
    }
    let handed = bench.heap.space.account.net_allocated();
    assert!(
        handed > 8 * taken && handed < 4 << 20,
        "{handed} for {taken}"
    );
    assert_eq!(bench.heap.collections, 0);
    assert!(!bench.heap.is_collection_due(), "{handed} for {taken}");
    // More is, until it is enough.
    while bench.heap.collections == 0 && !bench.heap.is_collection_due() {
        bench.allocate(NORMAL, 64).unwrap();
        assert!(bench.heap.space.account.net_allocated() < 16 << 20);
    }
}

/// A thread takes what it needs soon, so that its list stays short enough to be walked in a pause.
#[test]
fn a_long_shared_list_is_taken_in_pieces() {
    let mut bench = Bench::new("");
    let class = class_of(16);
    let objects: Vec<Address> = (0..10_000)
        .map(|_| bench.heap.space.allocate_small(NORMAL, class).unwrap())
        .collect();
    for object in objects {
        bench.heap.space.free(object).unwrap();
    }
    bench.allocate(NORMAL, 16).unwrap();
    // SAFETY: the test's own record.
    let listed = unsafe {
        let cache = &raw const (*bench.record).cache;
        bench.heap.view().space().listed_bytes(cache)
    };
    assert!((16..1024 * 16).contains(&listed), "{listed}");
    assert!(class < CLASSES);
    bench.verify();
}

/// What a thread has freed and listed keeps no block where it collects: each of the cells may be the last of its block.
#[test]
fn what_the_collecting_thread_freed_keeps_no_block() {
    for kind in [NORMAL, UNCOLLECTABLE] {
        let mut bench = Bench::new("");
        bench.collect();
        let used = bench.heap.space.used_bytes();
        let objects: Vec<Address> = (0..40 * 256)
            .map(|_| bench.allocate(UNCOLLECTABLE, 64).unwrap())
            .collect();
        // The list takes the first cells, and the magazine the last, each of another block.
        for first in 0..256 {
            for object in objects.iter().skip(first).step_by(256) {
                bench.free(*object);
            }
        }
        bench.allocate(kind, 64).unwrap();
        bench.collect();
        let blocks = (bench.heap.space.used_bytes() - used) / BLOCK_BYTES;
        assert!(blocks <= 2, "{blocks} blocks in use");
        bench.verify();
    }
}

/// Marks that are kept leave the shared lists; what waits there from before is no gain of the time since.
#[test]
fn cells_that_waited_at_the_last_collection_are_no_gain() {
    let mut bench = Bench::new("generations=sticky,stress=1000000");
    if bench.heap.unwatched.is_some() {
        return;
    }
    bench.thread_lists = false;
    // From now on there are marks to keep.
    bench.collect();
    let objects: Vec<Address> = (0..3000)
        .map(|_| bench.allocate(NORMAL, 64).unwrap())
        .collect();
    for object in objects {
        bench.free(object);
    }
    assert_eq!(bench.collect_new("new"), Outcome::Done);
    assert!(bench.kept_marks());
    assert!(bench.heap.space.account.shared_bytes >= 3000 * 64);
    bench.allocate(NORMAL, 100_000).unwrap();
    assert!(bench.heap.space.account.net_allocated() >= 100_000);
}
