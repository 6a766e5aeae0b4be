//! Bytes outside of the heap, a limit that changes, memory that is given back, and censuses: all is counted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::finalized::{finalize, next_finalized};
use gleaner::{
    Elements, Generations, Heap, LimitError, Mutator, OldPolicy, Phase, Scope, Structure, Type,
};

const MB: usize = 1 << 20;
const NODE: Structure = Structure {
    references: 2,
    bytes: 0,
};

fn node(heap: &Heap) -> Type {
    heap.structure(NODE).unwrap()
}

/// A list of `count` nodes, which is in the scope's newest local.
fn list<'s>(scope: &mut Scope<'s>, node: Type, count: usize) -> gleaner::Local<'s> {
    let newest = scope.null();
    for _ in 0..count {
        scope.nested(|scope| {
            let one = scope.allocate(node).unwrap();
            scope.set(one, 0, newest).unwrap();
            scope.assign(newest, one);
        });
    }
    newest
}

/// Frees what objects held that are dead by now. How many bytes.
fn free_the_dead(heap: &Heap, scope: &mut Scope<'_>, held: usize) {
    while scope.nested(|scope| next_finalized(scope).is_some()) {
        heap.note_external(-(held as isize));
    }
}

/// 20,000 objects of 16 bytes with 100 KB outside each: the most bytes outside at a time, and collections of the young
/// generation and of everything. Each lives until `kept` others were allocated.
fn hold_outside(heap: &Heap, kept: usize) -> (usize, u64, u64) {
    const HELD: usize = 100 << 10;
    let small = heap
        .structure(Structure {
            references: 0,
            bytes: 8,
        })
        .unwrap();
    assert_eq!(small.size(), 16);
    let slots = heap.reference_array().unwrap();
    let mut mutator = heap.attach().unwrap();
    let mut most = 0;
    mutator.scope(|scope| {
        let live = scope
            .allocate_references(slots, kept.max(1) as u32)
            .unwrap();
        for number in 0..20_000 {
            scope.nested(|scope| {
                let object = scope.allocate(small).unwrap();
                finalize(scope, object);
                if kept > 0 {
                    scope.set(live, number % kept, object).unwrap();
                }
                heap.note_external(HELD as isize);
            });
            most = most.max(heap.external());
            free_the_dead(heap, scope, HELD);
        }
    });
    let totals = mutator.totals();
    (most, totals.scavenges, totals.full_collections)
}

#[test]
fn objects_that_hold_bytes_outside_are_collected_before_these_are_too_many() {
    for old in [
        OldPolicy::MarkCompact,
        OldPolicy::MarkSweep,
        OldPolicy::MarkRegion,
    ] {
        let builder = Heap::builder().limit(1 << 30).old(old).ignore_environment();
        let heap = builder.build().unwrap();
        let (most, scavenges, full) = hold_outside(&heap, 0);
        // 2 GB in all, and a young generation of 64 MB, which becomes smaller while scavenges take no time.
        assert!(most <= 65 * MB, "{old:?}: {most}");
        assert!(
            (28..=260).contains(&scavenges) && full == 0,
            "{old:?}: {scavenges}, {full}"
        );
        let (most, ..) = hold_outside(&heap, 2000);
        assert!(most < 2 * 2000 * (100 << 10) + 130 * MB, "{old:?}: {most}");
    }
}

#[test]
fn where_everything_is_collected_each_time_bytes_outside_count_too() {
    let builder = Heap::builder()
        .limit(64 * MB)
        .generations(Generations::Never);
    let heap = builder.ignore_environment().build().unwrap();
    let (most, scavenges, full) = hold_outside(&heap, 0);
    assert!(most <= 65 * MB, "{most}");
    assert!(
        scavenges == 0 && (25..=40).contains(&full),
        "{scavenges}, {full}"
    );
}

#[test]
fn the_log_tells_of_bytes_outside_and_a_negative_total_counts_as_nothing() {
    let heap = Heap::builder()
        .limit(8 * MB)
        .ignore_environment()
        .build()
        .unwrap();
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = told.clone();
    heap.add_listener(move |event| {
        if event.phase == Phase::External {
            tell.lock().unwrap().push((event.bytes, event.reason));
        }
    });
    let mut mutator = heap.attach().unwrap();
    mutator.collect(true);
    heap.note_external(5000);
    mutator.collect(false);
    heap.note_external(-8000);
    assert_eq!(heap.external(), 0);
    mutator.collect(true);
    heap.note_external(3000);
    mutator.collect(true);
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].0 == 5000 && told[1].0 == 0 && told[1].1.contains("twice"),
        "{told:?}"
    );
}

/// A collection that is due comes with the thread's next allocation, not before, and not inside the call.
#[test]
fn telling_of_bytes_collects_nothing_and_the_next_allocation_does() {
    let heap = Heap::builder()
        .limit(8 * MB)
        .ignore_environment()
        .build()
        .unwrap();
    let node = node(&heap);
    let mut mutator = heap.attach().unwrap();
    let collections = |mutator: &mut Mutator| {
        let totals = mutator.totals();
        totals.scavenges + totals.full_collections
    };
    mutator
        .scope(|scope| scope.allocate(node).map(drop))
        .unwrap();
    heap.note_external(5 * MB as isize);
    assert_eq!(collections(&mut mutator), 0);
    mutator
        .scope(|scope| scope.allocate(node).map(drop))
        .unwrap();
    assert_eq!(collections(&mut mutator), 1);
    // In a blocking region, by another thread, and by a listener it is only counted.
    mutator.blocking(|| heap.note_external(5 * MB as isize));
    std::thread::scope(|threads| {
        threads.spawn(|| heap.note_external(1));
    });
    let other = heap.clone();
    heap.add_listener(move |_| other.note_external(MB as isize));
    mutator
        .scope(|scope| scope.allocate(node).map(drop))
        .unwrap();
    assert_eq!(collections(&mut mutator), 2);
    assert!(heap.external() > 11 * MB);
}

/// Live data of 228 MB under a limit of 1 GB dies: behind so many collections of everything as `release-after` says, the
/// memory is given back, and at once by a call.
#[test]
fn memory_goes_back_when_what_lives_shrinks() {
    for (list_of, old) in [
        ("", OldPolicy::MarkCompact),
        ("young=16m", OldPolicy::MarkCompact),
        ("", OldPolicy::MarkSweep),
        ("", OldPolicy::MarkRegion),
    ] {
        let builder = Heap::builder().limit(1 << 30).old(old).ignore_environment();
        let heap = builder.options(list_of).unwrap().build().unwrap();
        let structure = Structure {
            references: 2,
            bytes: 16,
        };
        let node = heap.structure(structure).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let first = scope.nested(|scope| {
                let newest = list(scope, node, 6_000_000);
                scope.handle(newest).unwrap()
            });
            let full = heap.resident();
            assert!(
                full >= 228 * MB && full >= heap.used(),
                "{list_of} {old:?}: {full}"
            );
            drop(first);
            // The first of them finds the memory in use.
            (0..7).for_each(|_| scope.collect(true));
            let left = heap.resident();
            assert!(left < 2 * MB, "{list_of} {old:?}: {left}");
            // It is there again when it is wanted.
            scope.nested(|scope| {
                list(scope, node, 1_000_000);
            });
            let held = heap.resident();
            let given = scope.trim();
            assert!(
                given >= held - 2 * MB && heap.resident() < 2 * MB,
                "{list_of} {old:?}: {given}"
            );
            scope.nested(|scope| {
                list(scope, node, 100_000);
            });
        });
        drop(mutator);
        heap.close().unwrap();
    }
}

#[test]
fn what_lives_stays_when_memory_is_given_back() {
    for options in [
        "zeroing=hot-path",
        "zeroing=window,refs=compressed",
        "zeroing=bulk",
        "zeroing=concurrent-static",
        "zeroing=concurrent,refs=compressed",
        "poison=on",
        "quarantine=2",
        "arrays=zray,first-n=64,arraylet=256",
        "old=mark-sweep",
        "old=mark-region",
        "generations=never",
        "resize=off",
        "topology=node:4 core:1 pu:1,plan=naps",
        "topology=node:2 core:1 pu:1,pages=fragmented-fixed",
        "count-types=on",
    ] {
        let builder = Heap::builder().limit(64 * MB).verify(true);
        let options = format!("{options},release-after=1");
        let builder = builder.ignore_environment().options(&options);
        gives_memory_back(&builder.unwrap().build().unwrap());
    }
}

fn gives_memory_back(heap: &Heap) {
    let node = node(heap);
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let newest = list(scope, node, 10_000);
        let large = scope.allocate_array(bytes, 100_000).unwrap();
        scope.fill_numbers(large, 0, 100_000, 7_u8).unwrap();
        for round in 0..4 {
            scope.nested(|scope| {
                list(scope, node, 200_000);
                // Fresh memory is zero, wherever it comes from.
                let fresh = scope.allocate_array(bytes, 10_000).unwrap();
                assert!((0..10_000).all(|at| scope.read_u8(fresh, at) == 0));
                scope.fill_numbers(fresh, 0, 10_000, 9_u8).unwrap();
            });
            match round % 2 {
                0 => assert!(scope.trim() <= 64 * MB),
                _ => scope.collect(true),
            }
        }
        // What was used last lies below what goes back, and is not zero.
        for count in [60, 12, 12] {
            for _ in 0..count {
                scope.nested(|scope| {
                    let fresh = scope.allocate_array(bytes, 5000).unwrap();
                    assert!((0..5000).all(|at| scope.read_u8(fresh, at) == 0));
                    scope.fill_numbers(fresh, 0, 5000, 9_u8).unwrap();
                });
            }
            scope.collect(true);
        }
        assert!((0..100_000).all(|at| scope.read_u8(large, at) == 7));
        let mut length = 0;
        while !scope.is_null(newest) {
            scope.load(newest, 0, newest);
            length += 1;
        }
        assert_eq!(length, 10_000);
    });
}

/// Several threads do all of it at once.
#[test]
fn threads_change_the_limit_trim_count_and_tell_of_bytes_at_once() {
    let builder = Heap::builder().limit(64 * MB).workers(2).verify(true);
    let builder = builder.options("count-types=on").unwrap();
    let heap = builder.ignore_environment().build().unwrap();
    let node = node(&heap);
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let heap = &heap;
            threads.spawn(move || {
                let mut mutator = heap.attach().unwrap();
                for round in 0..12 {
                    mutator.scope(|scope| {
                        let kept = list(scope, node, 5000);
                        heap.note_external(3 * MB as isize);
                        match (thread + round) % 4 {
                            0 => assert!(scope.trim() <= 64 * MB),
                            1 => assert!(scope.set_limit((16 + 12 * (round % 5)) * MB).is_ok()),
                            2 => {
                                let census = scope.census();
                                let of = census.iter().find(|of| of.id == node.id()).unwrap();
                                assert!(of.live.objects >= 5000);
                                assert!(of.allocated.unwrap().objects >= of.live.objects);
                            }
                            _ => scope.collect(false),
                        }
                        heap.note_external(-3 * MB as isize);
                        let mut length = 0;
                        while !scope.is_null(kept) {
                            scope.load(kept, 0, kept);
                            length += 1;
                        }
                        assert_eq!(length, 5000);
                    });
                }
            });
        }
    });
    assert_eq!(heap.external(), 0);
    let mut mutator = heap.attach().unwrap();
    let census = mutator.census();
    let allocated = census[0].allocated.unwrap().objects;
    assert_eq!((allocated, census[0].live.objects), (4 * 12 * 5000, 0));
}

#[test]
fn the_limit_changes_while_the_program_runs() {
    for (resize, old) in [
        (true, OldPolicy::MarkCompact),
        (true, OldPolicy::MarkSweep),
        (true, OldPolicy::MarkRegion),
        (false, OldPolicy::MarkCompact),
    ] {
        let builder = Heap::builder()
            .limit(64 * MB)
            .young(4 * MB)
            .resize(resize)
            .old(old);
        let heap = builder.verify(true).ignore_environment().build().unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        // How many megabytes fit.
        let fill = |mutator: &mut Mutator| {
            let mut kept = Vec::new();
            let one = |scope: &mut Scope<'_>| {
                let array = scope.allocate_array(bytes, 10_000).ok()?;
                scope.handle(array)
            };
            while let Some(handle) = mutator.scope(one) {
                kept.push(handle);
                assert!(heap.used() <= heap.limit() && heap.resident() <= heap.limit());
            }
            (kept.len() * 10_000 / MB, kept)
        };
        let (all, kept) = fill(&mut mutator);
        assert!((45..64).contains(&all), "{all}");
        let refused = mutator.set_limit(32 * MB);
        let Err(LimitError::Lives { asked, least }) = refused else {
            panic!("{refused:?}");
        };
        assert!(asked == 32 * MB && least > all * MB && heap.limit() == 64 * MB);
        drop(kept);
        mutator.set_limit(32 * MB).unwrap();
        assert!(heap.limit() == 32 * MB && heap.resident() <= 32 * MB);
        let (half, kept) = fill(&mut mutator);
        assert!((20..32).contains(&half), "{half}");
        mutator.set_limit(48 * MB).unwrap();
        let (more, more_kept) = fill(&mut mutator);
        assert!((10..=16).contains(&more), "{more}");
        drop((kept, more_kept));
        mutator.set_limit(64 * MB).unwrap();
        let (again, _) = fill(&mut mutator);
        assert!(again + 3 >= all, "{again} of {all}");
    }
}

#[test]
fn a_limit_that_the_heap_cannot_have_is_refused() {
    let heap = Heap::builder()
        .limit(8 * MB)
        .ignore_environment()
        .build()
        .unwrap();
    let mut mutator = heap.attach().unwrap();
    for asked in [0, MB - 1, 8 * MB + 1, usize::MAX] {
        let error = mutator.set_limit(asked).unwrap_err();
        let most = 8 * MB;
        assert_eq!(error, LimitError::Range { asked, most });
        assert!(error.to_string().contains("made for 1m to 8m"), "{error}");
    }
    assert_eq!(heap.limit(), 8 * MB);
    mutator.set_limit(MB).unwrap();
    mutator.set_limit(8 * MB).unwrap();
    // A mutator in a blocking region does none of this.
    let heap = heap.clone();
    // SAFETY: the region is ended below.
    unsafe { mutator.blocking_begin() };
    for refused in [
        catch_unwind(AssertUnwindSafe(|| mutator.set_limit(2 * MB).is_ok())),
        catch_unwind(AssertUnwindSafe(|| mutator.trim() > 0)),
        catch_unwind(AssertUnwindSafe(|| mutator.census().is_empty())),
    ] {
        let text = *refused.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("inside a blocking region"), "{text}");
    }
    // SAFETY: begun above.
    unsafe { mutator.blocking_end() };
    assert_eq!(heap.limit(), 8 * MB);
}

#[test]
fn a_type_with_the_number_of_another_that_was_unregistered_counts_from_nothing() {
    let builder = Heap::builder().limit(8 * MB).ignore_environment();
    let heap = builder.options("count-types=on").unwrap().build().unwrap();
    let mut mutator = heap.attach().unwrap();
    for _ in 0..2 {
        let node = node(&heap);
        mutator.scope(|scope| {
            for _ in 0..100 {
                scope
                    .nested(|scope| scope.allocate(node).map(drop))
                    .unwrap();
            }
        });
        let census = mutator.census();
        let found = census.iter().find(|of| of.id == node.id()).unwrap();
        assert_eq!((&*found.name, found.allocated.unwrap().objects), ("", 100));
        heap.name_type(node.id(), "node");
        // Twice: a number that was free twice would be that of two types.
        let mut types = vec![node.id(); 2];
        // SAFETY: nobody allocates a node from now on.
        unsafe { mutator.unregister_types(&mut types) };
        assert_eq!(types, []);
    }
    assert_ne!(node(&heap).id(), node(&heap).id());
}

#[test]
fn a_census_counts_what_lives_and_what_was_allocated_of_each_type() {
    for arrays in ["contiguous", "zray"] {
        let builder = Heap::builder()
            .limit(32 * MB)
            .young(2 * MB)
            .verify(true)
            .ignore_environment();
        let options = format!("count-types=on,arrays={arrays}");
        let heap = builder.options(&options).unwrap().build().unwrap();
        let node = node(&heap);
        let leaf = heap
            .structure(Structure {
                references: 0,
                bytes: 8,
            })
            .unwrap();
        let pinned = heap
            .structure(Structure {
                references: 0,
                bytes: 40,
            })
            .unwrap()
            .pinned();
        let bytes = heap.array(Elements::Bytes).unwrap();
        for (id, name) in [
            (node.id(), "node"),
            (leaf.id(), "leaf"),
            (bytes.id(), "bytes"),
        ] {
            heap.name_type(id, name);
        }
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let _kept = list(scope, node, 1000);
            for number in 0..200_000 {
                scope.nested(|scope| {
                    scope.allocate(leaf).unwrap();
                    if number % 1000 == 0 {
                        scope.allocate(pinned).unwrap();
                        scope.allocate_array(bytes, 50_000).unwrap();
                    }
                });
            }
            let census = scope.census();
            let of = |id| census.iter().find(|of| of.id == id).unwrap();
            let found = of(node.id());
            assert_eq!(
                (&*found.name, found.live.objects, found.live.bytes),
                ("node", 1000, 24_000)
            );
            let allocated = |id| of(id).allocated.unwrap();
            assert_eq!(allocated(node.id()).objects, 1000);
            assert_eq!(
                (of(leaf.id()).live.objects, allocated(leaf.id()).objects),
                (0, 200_000)
            );
            assert_eq!(allocated(leaf.id()).bytes, 200_000 * 16);
            assert_eq!(
                (&*of(pinned.id()).name, allocated(pinned.id()).objects),
                ("", 200)
            );
            assert_eq!(allocated(bytes.id()).objects, 200);
            assert_eq!(census[0].id, node.id(), "most bytes first");
        });
        let totals = mutator.totals();
        assert!(totals.scavenges > 0, "{totals:?}");
    }
    let heap = Heap::builder()
        .limit(4 * MB)
        .ignore_environment()
        .build()
        .unwrap();
    let node = node(&heap);
    heap.attach().unwrap().scope(|scope| {
        let _one = scope.allocate(node).unwrap();
        let census = scope.census();
        assert_eq!(
            (census.len(), census[0].live.objects, census[0].allocated),
            (1, 1, None)
        );
    });
    let unknown = gleaner::raw::TypeId::new(1000);
    assert!(catch_unwind(AssertUnwindSafe(|| heap.name_type(unknown, "unknown"))).is_err());
}
