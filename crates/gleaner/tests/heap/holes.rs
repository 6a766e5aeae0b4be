//! Holes of the old space are kept for objects that fit, and what pinned objects leave is used again. Counts of
//! collections and of objects say so.

use gleaner::{
    Elements, Generations, Heap, Local, NurseryPolicy, OldPolicy, Scope, Structure, Totals,
};

const MB: usize = 1 << 20;
const NODES: u64 = 50_000;
const GROUPS: u64 = 83;

/// What is put beside small objects: the same bytes, and they live as long.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Group {
    /// One array of 4 KB.
    Array,
    /// A list of small objects.
    List,
}

/// Small objects and groups are replaced at random in an old generation that is half full.
fn churn(group: Group, old: OldPolicy, nursery: NurseryPolicy) -> Totals {
    let heap = Heap::builder()
        .limit(8 * MB)
        .young(2 * MB / 3)
        .resize(false)
        .generations(Generations::Always)
        .old(old)
        .nursery(nursery)
        .workers(1)
        .build()
        .unwrap();
    let shape = Structure {
        references: 1,
        bytes: 48,
    };
    let node = heap.structure(shape).unwrap();
    let slots = heap.reference_array().unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let nodes = scope.allocate_references(slots, NODES as u32).unwrap();
        let groups = scope.allocate_references(slots, GROUPS as u32).unwrap();
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below) as usize
        };
        let list = |scope: &mut Scope<'_>, into: Local<'_>, at: usize| {
            let newest = scope.null();
            for _ in 0..4096 / 64 {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    scope.set(one, 0, newest).unwrap();
                    scope.assign(newest, one);
                });
            }
            scope.set(into, at, newest).unwrap();
        };
        for step in 0..750_000 {
            scope.nested(|scope| {
                let one = scope.allocate(node).unwrap();
                scope.set(nodes, random(NODES), one).unwrap();
                if step % 200 == 0 {
                    let at = random(GROUPS);
                    match group {
                        Group::List => list(scope, groups, at),
                        Group::Array => {
                            let array = scope.allocate_array(bytes, 4096).unwrap();
                            scope.set(groups, at, array).unwrap();
                        }
                    }
                }
            });
        }
    });
    mutator.totals()
}

#[test]
fn objects_of_4_kb_lead_to_no_more_full_collections_than_small_ones() {
    for (old, nursery) in [
        (OldPolicy::MarkSweep, NurseryPolicy::Copying),
        (OldPolicy::MarkCompact, NurseryPolicy::Copying),
        (OldPolicy::MarkRegion, NurseryPolicy::Copying),
        (OldPolicy::MarkRegion, NurseryPolicy::InPlace),
    ] {
        let small = churn(Group::List, old, nursery).full_collections;
        let medium = churn(Group::Array, old, nursery).full_collections;
        assert!(small > 8, "{small} full collections");
        assert!(
            medium <= small + (small / 10).max(1),
            "{old:?} {nursery:?}: {medium} full collections, {small} if all objects are small"
        );
    }
}

/// A heap that is small, and how much of it pinned objects of 24 bytes can have.
#[test]
fn pinned_objects_may_have_nearly_all_of_the_heap() {
    const LIMIT: usize = 16 * MB;
    let heap = Heap::builder().limit(LIMIT).workers(1).build().unwrap();
    let shape = Structure {
        references: 1,
        bytes: 8,
    };
    let node = heap.structure(shape).unwrap().pinned();
    let mut mutator = heap.attach().unwrap();
    let count = mutator.scope(|scope| {
        let newest = scope.null();
        let mut count = 0;
        while scope.nested(|scope| match scope.allocate(node) {
            Ok(one) => {
                scope.set(one, 0, newest).unwrap();
                scope.assign(newest, one);
                true
            }
            Err(_) => false,
        }) {
            count += 1;
        }
        count
    });
    let held = count * 24;
    assert!(held > LIMIT / 10 * 9, "{held} bytes of {LIMIT}");
    let totals = mutator.totals();
    assert!(
        totals.full_collections < 40,
        "{} full collections",
        totals.full_collections
    );
}

#[test]
fn pinned_objects_that_die_lead_to_full_collections_and_leave_room_for_others() {
    for old in [
        OldPolicy::MarkSweep,
        OldPolicy::MarkCompact,
        OldPolicy::MarkRegion,
    ] {
        let heap = Heap::builder()
            .limit(4 * MB)
            .workers(1)
            .old(old)
            .build()
            .unwrap();
        let shape = Structure {
            references: 1,
            bytes: 8,
        };
        let node = heap.structure(shape).unwrap().pinned();
        let mut mutator = heap.attach().unwrap();
        const COUNT: usize = 1_000_000;
        for _ in 0..COUNT {
            mutator.scope(|scope| assert!(scope.allocate(node).is_ok()));
        }
        let totals = mutator.totals();
        let least = (COUNT * 24 / (4 * MB)) as u64;
        let full = totals.full_collections;
        assert!(
            (least..6 * least).contains(&full),
            "{old:?}: {full} full collections"
        );
        assert!(
            totals.scavenges <= full,
            "{old:?}: {} scavenges of nothing",
            totals.scavenges
        );
        assert!(heap.used() < 4 * MB);
    }
}
