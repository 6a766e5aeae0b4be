//! Large objects that die young lie beside the nursery until a scavenge frees them: they do not take the room that the
//! scavenge promotes into, so none is thrown away because it is missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gleaner::{Elements, Generations, Heap, NurseryPolicy, OldPolicy, Phase, Structure};

/// 3 MB that live.
const LIVE: usize = 32_000;

/// Replaces the oldest of the objects that live, again and again, and drops an array of 64 KB after every so many: how
/// many full collections there were, and how many of those because a promotion found no room.
///
/// The counts are the same in every run: one worker fills blocks of the old space in one order, and generations of fixed
/// size do not follow measured times.
fn run(old: OldPolicy) -> (usize, usize) {
    let heap = Heap::builder()
        .limit(16 << 20)
        .old(old)
        .resize(false)
        .generations(Generations::Always)
        .workers(1)
        .build()
        .unwrap();
    let (full, in_vain) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (full.clone(), in_vain.clone());
    heap.add_listener(move |event| {
        if event.phase == Phase::Mark {
            counts.0.fetch_add(1, Ordering::Relaxed);
            let failed = event.reason.contains("found no room");
            counts.1.fetch_add(usize::from(failed), Ordering::Relaxed);
        }
    });
    let shape = Structure {
        references: 1,
        bytes: 80,
    };
    let node = heap.structure(shape).unwrap();
    let slots = heap.reference_array().unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let live = scope.allocate_references(slots, LIVE as u32).unwrap();
        for number in 0..LIVE * 30 {
            scope.nested(|scope| {
                let one = scope.allocate(node).unwrap();
                scope.write_u64(one, 0, number as u64).unwrap();
                scope.set(live, number % LIVE, one).unwrap();
                if number % 1500 == 0 {
                    scope.allocate_array(bytes, 64 << 10).unwrap();
                }
            });
        }
        let one = scope.null();
        for index in 0..LIVE {
            scope.load(live, index, one);
            assert_eq!(scope.read_u64(one, 0), (LIVE * 29 + index) as u64);
        }
    });
    (
        full.load(Ordering::Relaxed),
        in_vain.load(Ordering::Relaxed),
    )
}

#[test]
fn no_scavenge_is_thrown_away_for_large_objects() {
    for old in [
        OldPolicy::MarkCompact,
        OldPolicy::MarkSweep,
        OldPolicy::MarkRegion,
    ] {
        let (full, in_vain) = run(old);
        let what = format!("{old:?}: {full}, {in_vain} after a scavenge");
        println!("{what}");
        assert!(3 * in_vain <= full, "{what}");
    }
}

/// Where new objects lie in the old space, they and young large ones share what may be allocated between two collections.
#[test]
fn in_place_small_objects_wait_no_longer_than_large_ones_leave_them() {
    let heap = Heap::builder()
        .limit(16 << 20)
        .old(OldPolicy::MarkRegion)
        .nursery(NurseryPolicy::InPlace)
        .young(1 << 20)
        .resize(false)
        .workers(1)
        .ignore_environment()
        .build()
        .unwrap();
    let node = heap.structure(Structure {
        references: 1,
        bytes: 80,
    });
    let (node, bytes) = (node.unwrap(), heap.array(Elements::Bytes).unwrap());
    let mut mutator = heap.attach().unwrap();
    for large in [0, 14] {
        mutator.scope(|scope| scope.collect(true));
        let before = mutator.totals().scavenges;
        mutator.scope(|scope| {
            for _ in 0..large {
                scope.nested(|scope| _ = scope.allocate_array(bytes, 60_000).unwrap());
            }
        });
        // 840 KB, if they are large, and 400 KB.
        assert_eq!(mutator.totals().scavenges, before);
        mutator.scope(|scope| {
            for _ in 0..4200 {
                scope.nested(|scope| _ = scope.allocate(node).unwrap());
            }
        });
        let collected = mutator.totals().scavenges - before;
        assert_eq!(collected, u64::from(large > 0), "{large} large objects");
    }
}
