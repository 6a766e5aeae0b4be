//! Memory of arrays that are cut: what a sparse array, a copied one and one of zeros take; what happens when there is none
//! left; lengths and options at the ends of what is accepted; arrays that are in one piece nevertheless.
//!
//! Each case runs in a child. A failure says how to repeat it.

mod full;
mod shrunk;
mod used;

use crate::again::path;
use crate::cases::in_a_child;
use gleaner::raw::{Address, Fresh, NewObject, Shape, TypeId, Value, array_bytes};
use gleaner::{Elements, Heap, Mutator};

/// Runs `body` in heaps with these options, one after the other in a child.
fn all(test: &str, options: &[&str], body: impl Fn(&str)) {
    let lines: Vec<String> = options.iter().map(|line| line.to_string()).collect();
    in_a_child(&path(module_path!(), test), &lines, body);
}

fn heap(options: &str) -> Heap {
    Heap::builder().options(options).unwrap().build().unwrap()
}

/// How arrays are cut in full heaps. Arraylets are allocated lazily.
const LAZY: [&str; 12] = [
    "arrays=zray",
    "arrays=zray,first-n=64,arraylet=256,refs=compressed,verify=edges,poison=on",
    "arrays=zray,first-n=64,old=mark-sweep,workers=3",
    "arrays=zray,first-n=64,arraylet=4096,refs=compressed,generations=never,verify=edges",
    "arrays=zray,first-n=64,arraylet=512,fast-copy=off,tenure=0",
    "arrays=zray,first-n=64,zero-compression=off,resize=off,poison=on",
    "arrays=perf-zray,refs=compressed,old=mark-sweep,verify=edges",
    "arrays=perf-zray,first-n=64,arraylet=256,zeroing=concurrent",
    "arrays=naive-a,verify=edges,poison=on",
    "arrays=naive-a,refs=compressed,young=256k,quarantine=2",
    "arrays=zray,array-guard=on,verify=edges,poison=on",
    "arrays=naive-a,array-guard=on,refs=compressed,old=mark-sweep",
];

#[test]
fn a_store_without_memory_stores_nothing() {
    all("a_store_without_memory_stores_nothing", &LAZY, full::stores);
}

#[test]
fn a_fill_or_a_window_without_memory_changes_nothing() {
    let test = "a_fill_or_a_window_without_memory_changes_nothing";
    all(test, &LAZY, full::ranges);
}

#[test]
fn a_copy_without_memory_loses_nothing() {
    all("a_copy_without_memory_loses_nothing", &LAZY, full::copies);
}

#[test]
fn a_reference_without_memory_is_not_stored() {
    let test = "a_reference_without_memory_is_not_stored";
    all(test, &LAZY, full::references);
}

/// Where all arraylets are allocated with the array, and for arrays that are written as they are made.
#[test]
fn an_array_without_memory_is_an_error() {
    let mut options = vec![
        "arrays=contiguous",
        "arrays=naive",
        "arrays=naive,first-n=64,arraylet=256,refs=compressed,verify=edges,poison=on",
        "arrays=naive-b,old=mark-sweep,workers=3",
        "arrays=zray,lazy-arraylets=off,generations=never",
    ];
    options.extend(LAZY);
    all(
        "an_array_without_memory_is_an_error",
        &options,
        full::allocations,
    );
}

/// Where all arraylets are allocated with the array: a large spine takes pages that would hold arraylets.
#[test]
fn an_array_that_almost_fits_is_an_error() {
    let options = [
        "heap-limit=8m,arrays=naive",
        "heap-limit=8m,arrays=naive,array-guard=on",
        "heap-limit=8m,arrays=naive,old=mark-sweep,refs=compressed",
        "heap-limit=8m,arrays=zray,lazy-arraylets=off,arraylet=256",
    ];
    all(
        "an_array_that_almost_fits_is_an_error",
        &options,
        |options| {
            let heap = heap(options);
            let doubles = heap.array(Elements::Doubles).unwrap();
            let mut mutator = heap.attach().unwrap();
            let mut fits = |bytes: u32| {
                mutator.scope(|scope| scope.allocate_array(doubles, bytes / 8).is_ok())
            };
            assert!(fits(2 << 20) && !fits(8 << 20));
            let fitting = (2 << 20..8 << 20)
                .step_by(24 << 10)
                .filter(|&bytes| fits(bytes));
            assert!((100..256).contains(&fitting.count()));
            assert!(fits(2 << 20));
        },
    );
}

/// Collections that it does not need, for stress or a census, do not give away the room that was made for an array with all
/// its arraylets.
#[test]
fn an_array_is_allocated_although_others_collect() {
    let options = [
        "heap-limit=64m,generations=never,stress=1,arrays=naive",
        "heap-limit=64m,generations=never,stress=2,arrays=zray,lazy-arraylets=off",
        "heap-limit=64m,generations=never,array-report=64k,arrays=zray,lazy-arraylets=off,first-n=262144",
    ];
    let test = "an_array_is_allocated_although_others_collect";
    all(test, &options, |options| {
        let heap = heap(options);
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        for length in [1_000_000, 10_000_000, 20_000_000] {
            mutator.scope(|scope| scope.allocate_array(bytes, length).map(drop).unwrap());
        }
    });
}

#[test]
fn a_sparse_array_takes_its_spine_and_what_was_written() {
    let options = [
        "arrays=zray",
        "arrays=zray,refs=compressed",
        "arrays=zray,zero-compression=off,copy-on-write=off,old=mark-sweep",
        "arrays=naive-a",
        "arrays=zray,first-n=64,arraylet=4096",
    ];
    let test = "a_sparse_array_takes_its_spine_and_what_was_written";
    all(test, &options, |options| used::sparse(options, 256 << 20));
}

#[test]
#[ignore = "it is large"]
fn a_sparse_array_of_a_gigabyte_takes_its_spine_and_what_was_written() {
    let test = "a_sparse_array_of_a_gigabyte_takes_its_spine_and_what_was_written";
    let options = ["arrays=zray", "arrays=perf-zray,refs=compressed"];
    all(test, &options, |options| used::sparse(options, 1 << 30));
}

/// The configurations whose arraylets are shared by copies.
const SHARING: [&str; 5] = [
    "arrays=zray",
    "arrays=zray,first-n=64,arraylet=4096,refs=compressed,verify=edges",
    "arrays=zray,arraylet=512,old=mark-sweep",
    "arrays=zray,zero-compression=off,fast-copy=off",
    "arrays=naive,copy-on-write=on,lazy-arraylets=on",
];

#[test]
fn a_copied_array_takes_its_spine_until_it_is_written() {
    all(
        "a_copied_array_takes_its_spine_until_it_is_written",
        &SHARING,
        used::copied,
    );
}

#[test]
fn arraylets_of_zeros_are_taken_back() {
    let options = [
        "arrays=zray",
        "arrays=zray,first-n=64,arraylet=4096,refs=compressed,verify=edges,poison=on",
        "arrays=perf-zray,old=mark-sweep,workers=3",
        "arrays=naive,zero-compression=on,lazy-arraylets=on",
    ];
    all("arraylets_of_zeros_are_taken_back", &options, used::zeros);
}

#[test]
fn arraylets_die_with_their_arrays() {
    let mut options = vec![
        "arrays=naive,verify=edges",
        "arrays=naive-b,refs=compressed,old=mark-sweep,generations=never",
    ];
    options.extend(SHARING);
    all("arraylets_die_with_their_arrays", &options, used::dropped);
}

/// Of the arrays in pieces that shrink, those that are cut in some way.
fn shrinking() -> Vec<&'static str> {
    let mut options = vec![
        "arrays=naive,verify=edges,poison=on",
        "arrays=naive-b,refs=compressed,old=mark-sweep,generations=never",
        "arrays=naive,array-guard=on,verify=edges,refs=compressed",
    ];
    options.extend(LAZY);
    options
}

#[test]
fn an_array_that_shrinks_gives_its_arraylets_back() {
    let test = "an_array_that_shrinks_gives_its_arraylets_back";
    all(test, &shrinking(), shrunk::dense);
}

#[test]
fn an_array_that_shrinks_by_an_arraylet_gives_it_back() {
    let test = "an_array_that_shrinks_by_an_arraylet_gives_it_back";
    all(test, &shrinking(), shrunk::one_by_one);
}

#[test]
fn what_the_lost_elements_referred_to_dies() {
    let test = "what_the_lost_elements_referred_to_dies";
    all(test, &shrinking(), shrunk::referents);
}

#[test]
fn a_shared_array_shrinks_alone() {
    all("a_shared_array_shrinks_alone", &SHARING, shrunk::shared);
}

#[test]
fn an_immortal_array_shrinks() {
    all("an_immortal_array_shrinks", &shrinking(), shrunk::immortal);
}

/// More elements than the heap has bytes, and than an `i32` counts.
#[test]
fn lengths_near_the_largest_are_kept() {
    let options = [
        "heap-limit=96m,arrays=zray,arraylet=4096",
        "heap-limit=96m,arrays=zray,first-n=64,arraylet=4096,refs=compressed,verify=edges",
        "heap-limit=96m,arrays=naive-a,arraylet=4096,old=mark-sweep",
    ];
    let test = "lengths_near_the_largest_are_kept";
    all(test, &options, |options| {
        let heap = heap(options);
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        for length in [
            i32::MAX as u32,
            1 << 31,
            (1 << 31) + 1,
            u32::MAX - 1,
            u32::MAX,
        ] {
            mutator.scope(|scope| {
                let array = scope.allocate_array(bytes, length).unwrap();
                assert_eq!(scope.length(array), length);
                let last = length as usize - 1;
                let middle = (1 << 31) - 4097;
                for (at, number) in [(0, 1), (100, 2), (middle, 3), (last, 4)] {
                    scope.write_u8(array, at, number).unwrap();
                }
                let end = length as usize - 9000;
                scope
                    .copy_elements(array, end..end + 9000, array, end - 300)
                    .unwrap();
                scope.fill_numbers(array, last - 299, 300, 7_u8).unwrap();
                scope.collect(true);
                for (at, number) in [
                    (0, 1),
                    (100, 2),
                    (last - 300, 4),
                    (last - 299, 7),
                    (last, 7),
                ] {
                    assert_eq!(scope.read_u8(array, at), number, "element {at} of {length}");
                }
                let mut found = [9_u8; 400];
                scope.read_elements(array, last - 399, &mut found);
                assert_eq!(found[..99], [0; 99]);
                assert_eq!(found[100..], [7; 300]);
            });
            mutator.collect(true);
        }
    });
}

#[test]
fn an_array_that_fits_nowhere_is_refused() {
    let options = [
        "heap-limit=8m,arrays=contiguous",
        "heap-limit=8m,arrays=naive",
        "heap-limit=8m,arrays=naive-b,first-n=262144,refs=compressed",
        "heap-limit=8m,arrays=zray",
        "heap-limit=8m,arrays=zray,lazy-arraylets=off,arraylet=256",
        "heap-limit=8m,arrays=zray,first-n=64,arraylet=4096,refs=compressed",
    ];
    all(
        "an_array_that_fits_nowhere_is_refused",
        &options,
        |options| {
            let heap = heap(options);
            let doubles = heap.array(Elements::Doubles).unwrap();
            let list = heap.reference_array().unwrap();
            heap.attach().unwrap().scope(|scope| {
                let kept = scope.allocate_array(doubles, 5000).unwrap();
                scope.fill_numbers(kept, 0, 5000, 42_u64).unwrap();
                for length in [(1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX] {
                    let error = scope.allocate_array(doubles, length).unwrap_err();
                    assert!(error.bytes > 8 << 20, "{error}");
                    // A spine with 4096 bytes to a pointer of 4 has 4 or 8 MB.
                    assert!(scope.allocate_references(list, length).is_err(), "{length}");
                }
                assert!(scope.allocate_array(doubles.pinned(), 1 << 31).is_err());
                assert!(
                    scope
                        .numbers::<u64>(kept, 0, 5000)
                        .all(|number| number == 42)
                );
                scope.allocate_array(doubles, 5000).unwrap();
            });
        },
    );
}

#[test]
fn wrong_options_are_refused_by_name() {
    let said = |options: &str| {
        let built = Heap::builder()
            .options(options)
            .and_then(gleaner::Builder::build);
        built.map(drop).expect_err(options).to_string()
    };
    for (option, values) in [
        (
            "first-n",
            ["63", "32", "100", "1000000", "524288", "-64", "4k1"],
        ),
        ("arraylet", ["255", "128", "1000", "8192", "4097", "1", "x"]),
        (
            "array-kinds",
            ["none", "bytes", "0", "", "ALL", "all+", "reference"],
        ),
        (
            "arrays",
            ["zrays", "discontiguous", "on", "1", "naive-c", "", "z-ray"],
        ),
        (
            "lazy-arraylets",
            ["yes", "1", "lazy", "", "true", "ON", "maybe"],
        ),
    ] {
        for value in values {
            let options = format!("arrays=zray,{option}={value}");
            let error = said(&options);
            assert!(error.contains(option), "{options}: {error}");
        }
    }
    for option in [
        "first-n=64",
        "arraylet=1024",
        "array-kinds=references",
        "array-kinds=primitives",
        "lazy-arraylets=on",
        "lazy-arraylets=off",
        "zero-compression=on",
        "fast-copy=off",
        "copy-on-write=on",
    ] {
        let name = option.split('=').next().unwrap();
        for options in [option.to_string(), format!("arrays=contiguous,{option}")] {
            let error = said(&options);
            assert!(
                error.contains(&format!("option {name} has no effect")) && error.contains("zray"),
                "{options}: {error}"
            );
        }
    }
}

/// The order of options does not matter, one by one or as a list.
#[test]
fn options_of_arrays_may_come_in_any_order() {
    let built = [
        Heap::builder().options("first-n=64,arraylet=256,arrays=zray"),
        Heap::builder().options("arrays=zray,first-n=64,arraylet=256"),
        Heap::builder()
            .option("arrays", "zray")
            .and_then(|builder| builder.option("first-n", "64")?.option("arraylet", "256")),
        Heap::builder()
            .options("first-n=64,fast-copy=off")
            .and_then(|builder| builder.options("arraylet=256")?.options("arrays=zray")),
    ];
    for builder in built {
        let heap = builder.unwrap().build().unwrap();
        let bytes = heap.register_raw(Shape::Primitives { log2: 0 }).unwrap();
        let mut mutator = heap.attach().unwrap();
        // SAFETY: an array type and its bytes, and arrays that were just allocated.
        unsafe {
            for (length, expected) in [(64, false), (65, true)] {
                let array = mutator
                    .allocate_raw(
                        NewObject::array(bytes, length, array_bytes(length, 0)),
                        Fresh::Zeroed,
                    )
                    .unwrap();
                assert_eq!(mutator.is_cut(array), expected, "{length} bytes");
            }
        }
    }
}

/// What `arrays` has an array of so many bytes be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    /// In pieces.
    Cut,
    /// In one piece that may move.
    Whole,
    /// In one piece that stays.
    Pinned,
}

/// What an array is, and what is said of its elements.
unsafe fn shown(mutator: &Mutator, array: Address, bytes: Option<usize>) -> Shown {
    // SAFETY: an array, as this function asks.
    let (elements, never_moves) = unsafe {
        (
            mutator.pinned_elements_raw(array),
            mutator.is_pinned_raw(array),
        )
    };
    match (mutator.is_cut(array), elements) {
        (true, None) => Shown::Cut,
        (true, Some(_)) => panic!("the elements of an array in pieces are given out"),
        (false, None) => {
            assert!(!never_moves || bytes.is_none());
            if never_moves {
                Shown::Pinned
            } else {
                Shown::Whole
            }
        }
        (false, Some((_, found))) => {
            assert!(never_moves);
            assert_eq!(Some(found), bytes, "bytes of a pinned array");
            Shown::Pinned
        }
    }
}

#[test]
fn arrays_that_are_pinned_or_excluded_lie_in_one_piece() {
    let options = [
        "arrays=contiguous",
        "arrays=zray",
        "arrays=naive",
        "arrays=naive-a,refs=compressed",
        "arrays=zray,first-n=64,arraylet=256,verify=edges,poison=on",
        "arrays=zray,first-n=262144,arraylet=4096",
        "arrays=zray,array-kinds=references,first-n=64",
        "arrays=perf-zray,array-kinds=primitives,refs=compressed",
        "arrays=zray,first-n=64,arraylet=512,stress=1",
    ];
    let test = "arrays_that_are_pinned_or_excluded_lie_in_one_piece";
    all(test, &options, one_piece);
}

fn one_piece(options: &str) {
    let has = |option: &str| options.split(',').any(|other| other == option);
    let first_n = if options.contains("first-n=64") {
        64
    } else if options.contains("first-n=262144") {
        262_144
    } else if options.contains("naive") {
        0
    } else {
        4096
    };
    let heap = heap(&format!("heap-limit=32m,{options}"));
    let slot_log2 = if has("refs=compressed") { 2 } else { 3 };
    let mut mutator = heap.attach().unwrap();
    let types = |whole: bool| -> [(TypeId, u32); 5] {
        let register = |shape| match whole {
            true => heap.register_whole_raw(shape).unwrap(),
            false => heap.register_raw(shape).unwrap(),
        };
        [0, 1, 2, 3, 4].map(|kind: u32| match kind {
            4 => (register(Shape::References), slot_log2),
            log2 => (register(Shape::Primitives { log2 }), log2),
        })
    };
    let [cut, whole] = [false, true].map(types);
    for bytes in [0, 8, 64, 72, 4096, 4104, 10_000, 16 << 10, 20_000, 300_000] {
        for (kind, (types, is_whole)) in
            (0..5).flat_map(|kind| [(kind, (&cut, false)), (kind, (&whole, true))])
        {
            let (id, log2) = types[kind];
            let length = (bytes >> log2) as u32;
            let whole_bytes = array_bytes(length, log2);
            let is_excluded = is_whole
                || has("arrays=contiguous")
                || has("array-kinds=references") && kind < 4
                || has("array-kinds=primitives") && kind == 4;
            let numbers = (kind < 4).then_some(bytes);
            let what = format!("{bytes} bytes of kind {kind}, excluded: {is_whole}");
            // SAFETY: array types and the bytes that follow; what is needed later is in the root.
            unsafe {
                mutator.with_roots([Value::NULL], |mutator, [root]| {
                    let array = mutator
                        .allocate_raw(NewObject::array(id, length, whole_bytes), Fresh::Zeroed)
                        .unwrap();
                    let found = shown(mutator, array, numbers);
                    let expected = !is_excluded && bytes > first_n;
                    assert_eq!(found == Shown::Cut, expected, "{what}: {found:?}");
                    // What is in one piece and large never moves.
                    if !expected && bytes >= 20_000 {
                        assert_eq!(found, Shown::Pinned, "{what}");
                    }
                    let array = mutator
                        .allocate_pinned_raw(NewObject::array(id, length, whole_bytes))
                        .unwrap();
                    root.set(Value::reference(array));
                    assert_eq!(
                        shown(mutator, array, numbers),
                        Shown::Pinned,
                        "{what}, pinned"
                    );
                    if let Some((first, bytes)) = mutator.pinned_elements_raw(array) {
                        for offset in [0, bytes.saturating_sub(1)]
                            .into_iter()
                            .filter(|_| bytes > 0)
                        {
                            first.add(offset).write(0xa5);
                        }
                        mutator.collect(true);
                        let again = root.get().as_object().unwrap();
                        assert_eq!(again, array, "{what}");
                        assert_eq!(mutator.pinned_elements_raw(again), Some((first, bytes)));
                        if bytes > 0 {
                            let number = mutator.load_element_in::<u8>(again, 0);
                            assert_eq!(number, 0xa5, "{what}");
                        }
                    }
                });
            }
        }
    }
}
