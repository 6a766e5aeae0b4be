//! Constants: no collection looks at them, however many there are, and what has no room among them is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gleaner::raw::{NewObject, Shape, TypeId, Value, array_bytes};
use gleaner::{Elements, Heap, Mutator, OldPolicy, Phase, References};

const COUNT: usize = 2000;

#[test]
fn constants_are_neither_marked_nor_moved() {
    for references in [References::Wide, References::Compressed] {
        for old in [
            OldPolicy::MarkCompact,
            OldPolicy::MarkSweep,
            OldPolicy::MarkRegion,
        ] {
            let heap = Heap::builder()
                .limit(4 << 20)
                .references(references)
                .old(old)
                .verify(true)
                .poison(true)
                .build()
                .unwrap();
            let marked = Arc::new(AtomicU64::new(u64::MAX));
            let told = Arc::clone(&marked);
            heap.add_listener(move |event| {
                if event.phase == Phase::Mark {
                    told.store(event.objects, Ordering::Relaxed);
                }
            });
            let shape = Shape::Structure {
                bytes: 24,
                references: &[8],
            };
            let of = heap.register_raw(shape).unwrap();
            let mut mutator = heap.attach().unwrap();
            let mut before = Value::NULL;
            let mut all = Vec::new();
            for number in 0..COUNT {
                let new = NewObject::structure(of, 24);
                // SAFETY: what a constant refers to is a constant; its number lies behind its slot.
                unsafe {
                    let constant = mutator.allocate_constant_raw(new).unwrap();
                    mutator.store_raw(constant, 8, before);
                    constant.add(16).ptr::<usize>().write(number);
                    before = Value::reference(constant);
                    all.push(constant);
                }
            }
            assert!(heap.used() >= COUNT * 24, "constants do not count");
            // SAFETY: a constant is valid for ever.
            let handle = unsafe { mutator.handle_raw(before) }.unwrap();
            for everything in [false, true, false, true] {
                mutator.collect(everything);
                assert_eq!(handle.get_raw(), before);
            }
            assert_eq!(marked.load(Ordering::Relaxed), 0, "constants were marked");
            for (number, &constant) in all.iter().enumerate() {
                let expected = match number {
                    0 => Value::NULL,
                    _ => Value::reference(all[number - 1]),
                };
                // SAFETY: a constant, with its slot and its number.
                unsafe {
                    assert_eq!(mutator.load_raw(constant, 8), expected);
                    assert_eq!(constant.add(16).ptr::<usize>().read(), number);
                }
            }
            drop(handle);
        }
    }
}

/// A heap, and a type of 24 bytes with one slot.
fn heap(options: &str) -> (Heap, TypeId) {
    let builder = Heap::builder().ignore_environment().verify(true);
    let heap = builder.options(options).unwrap().build().unwrap();
    let shape = Shape::Structure {
        bytes: 24,
        references: &[8],
    };
    let of = heap.register_raw(shape).unwrap();
    (heap, of)
}

/// Allocates constants until there is no room; how many there are.
fn fill(mutator: &mut Mutator, of: TypeId) -> usize {
    let new = NewObject::structure(of, 24);
    // SAFETY: a structure of 24 bytes, whose slot stays null.
    let made = || unsafe { mutator.allocate_constant_raw(new) };
    std::iter::repeat_with(made)
        .take_while(Result::is_ok)
        .count()
}

fn collections(mutator: &mut Mutator) -> u64 {
    let totals = mutator.totals();
    totals.scavenges + totals.full_collections
}

#[test]
fn where_there_is_no_room_for_constants_nothing_else_is_allocated() {
    for options in [
        "heap-limit=4m",
        "heap-limit=4m,refs=compressed,old=mark-sweep",
        "heap-limit=4m,arrays=zray",
        "heap-limit=4m,quarantine=2",
        "heap-limit=4m,generations=never",
    ] {
        let (heap, of) = heap(options);
        let room = heap.constants_left();
        assert!((256 << 10..=512 << 10).contains(&room), "{options}: {room}");
        let mut mutator = heap.attach().unwrap();
        let count = fill(&mut mutator, of);
        assert_eq!(count, room / 24, "{options}");
        assert_eq!(heap.constants_left(), room % 24);
        let before = (heap.used(), collections(&mut mutator));
        let new = NewObject::structure(of, 24);
        // SAFETY: a structure of 24 bytes, whose slot stays null.
        unsafe {
            let refused = mutator.allocate_constant_raw(new).unwrap_err();
            assert_eq!(refused.bytes, 24);
            assert_eq!((heap.used(), collections(&mut mutator)), before);
            // The program decides on what costs more.
            let pinned = mutator.allocate_pinned_raw(new).unwrap();
            let kept = mutator.handle_raw(Value::reference(pinned)).unwrap();
            mutator.collect(true);
            assert_eq!(kept.get_raw(), Value::reference(pinned));
        }
    }
}

/// One may take all that is left. What it takes, its mutator has allocated.
#[test]
fn a_constant_takes_the_last_bytes() {
    for options in ["heap-limit=4m", "heap-limit=4m,refs=compressed"] {
        let (heap, of) = heap(options);
        let bytes = heap.array(Elements::Bytes).unwrap().id();
        let mut mutator = heap.attach().unwrap();
        let small = NewObject::structure(of, 24);
        let left = heap.constants_left() - 24;
        let length = (left - array_bytes(0, 0)) as u32;
        let rest = NewObject::array(bytes, length, array_bytes(length, 0));
        for (new, taken, left) in [(small, 24, left), (rest, left, 0)] {
            let before = mutator.allocated_bytes();
            // SAFETY: a structure of 24 bytes, and an array with so many bytes.
            let made = unsafe { mutator.allocate_constant_raw(new) };
            assert!(made.is_ok(), "{options}: {taken} bytes");
            assert_eq!(mutator.allocated_bytes(), before + taken as u64);
            assert_eq!(heap.constants_left(), left, "{options}");
        }
        // SAFETY: a structure of 24 bytes.
        assert!(unsafe { mutator.allocate_constant_raw(small) }.is_err());
    }
}

/// What a collection would have to look at, and sizes and types that are wrong.
#[test]
fn what_cannot_be_a_constant_is_refused() {
    for options in ["heap-limit=4m", "heap-limit=4m,refs=compressed"] {
        let (heap, of) = heap(options);
        let weak = heap.weak_array().unwrap().id();
        let table = heap.ephemeron_table().unwrap().id();
        let unknown = TypeId::new(table.get() + 100);
        let mut mutator = heap.attach().unwrap();
        let before = heap.constants_left();
        let log2 = if options.ends_with("compressed") {
            2
        } else {
            3
        };
        let cases = [
            (
                NewObject::structure(of, 0),
                "has 24 bytes, and 0 were asked for",
            ),
            (
                NewObject::structure(of, 32),
                "has 24 bytes, and 32 were asked for",
            ),
            (
                NewObject::structure(unknown, 24),
                "was registered with this heap",
            ),
            (
                NewObject::array(weak, 10, array_bytes(10, log2)),
                "has weak slots",
            ),
            (
                NewObject::array(table, 10, array_bytes(20, log2)),
                "has weak slots or ephemerons",
            ),
        ];
        for (new, why) in cases {
            // SAFETY: it is refused before anything is allocated.
            let make = || unsafe { mutator.allocate_constant_raw(new) };
            let said = catch_unwind(AssertUnwindSafe(make)).unwrap_err();
            let said = said.downcast_ref::<String>().unwrap();
            assert!(said.starts_with("allocation of a constant: "), "{said}");
            assert!(said.contains(why), "{said}");
        }
        assert_eq!(heap.constants_left(), before);
        assert!(fill(&mut mutator, of) > 0);
    }
}

/// They count toward the limit. What else is dead makes room for them.
#[test]
fn garbage_makes_room_for_constants() {
    for options in [
        "heap-limit=4m",
        "heap-limit=4m,refs=compressed,old=mark-sweep",
        "heap-limit=4m,generations=never",
    ] {
        let (heap, _) = heap(options);
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        let mut kept = Vec::new();
        while let Some(array) = mutator.scope(|scope| {
            let made = scope.allocate_array(bytes, 100_000).ok()?;
            scope.handle(made)
        }) {
            kept.push(array);
        }
        let length = 200_000;
        let new = NewObject::array(bytes.id(), length, array_bytes(length, 0));
        // SAFETY: an array of so many bytes.
        unsafe {
            assert!(
                mutator.allocate_constant_raw(new).is_err(),
                "{options}: beyond the limit"
            );
            kept.clear();
            let constant = mutator.allocate_constant_raw(new).unwrap();
            assert_eq!(mutator.length_raw(constant), length);
            assert!(!mutator.is_cut(constant) && mutator.is_pinned_raw(constant));
        }
        assert!(heap.used() <= heap.limit());
    }
}

#[test]
fn constants_are_counted_by_type() {
    let (heap, of) = heap("heap-limit=4m,count-types=on");
    let mut mutator = heap.attach().unwrap();
    let count = fill(&mut mutator, of) as u64;
    let census = mutator.census();
    let found = census.iter().find(|found| found.id == of).unwrap();
    assert_eq!(found.live.objects, count);
    assert_eq!(found.allocated.unwrap().objects, count);
}

/// The places of others leave fewer addresses to constants, and never none.
#[test]
fn large_heaps_have_room_for_constants() {
    for (options, least) in [
        ("heap-limit=8g,refs=wide", 1 << 30),
        ("heap-limit=2g,refs=compressed", 256 << 20),
        ("heap-limit=12g,refs=compressed", 16 << 20),
        ("heap-limit=6g,refs=compressed,arrays=zray", 16 << 20),
    ] {
        let (heap, _) = heap(options);
        let room = heap.constants_left();
        assert!(room >= least - (1 << 20), "{options}: {room}");
    }
}
