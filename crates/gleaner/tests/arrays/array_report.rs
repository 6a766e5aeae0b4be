//! The report on arrays: what small programs that are known exactly do with arrays is counted exactly, by every accessor,
//! on both sides of N; what lives of known arrays is found, as they lie and as they would lie; and nothing is counted that
//! was not asked for.

use gleaner::raw::{
    Address, Counted, Fresh, In, NewObject, Shape, TypeId, Value, Wide, array_bytes,
};
use gleaner::report::{Access, Living};
use gleaner::{ArrayReport, Heap, Mutator};

/// N is 64 bytes, an arraylet has 256.
const SIZES: &str = "array-report=1g,first-n=64,arraylet=256,heap-limit=8m,verify=edges,poison=on";
/// How arrays lie.
const ARRAYS: [&str; 4] = [
    "arrays=contiguous",
    "arrays=zray",
    "arrays=perf-zray,old=mark-sweep",
    "arrays=naive",
];

fn heap(options: &str) -> Heap {
    let built = Heap::builder().options(options).unwrap().build();
    built.unwrap()
}

/// And in heaps with references of 4 bytes, or that look for mistakes.
const OTHERS: [&str; 2] = [
    "arrays=zray,refs=compressed,stress=2",
    "arrays=contiguous,refs=compressed,quarantine=2",
];

/// Runs `body` with an array of `length` numbers of `log2` in heaps with all layouts of arrays; what was counted.
fn counted(
    log2: u32,
    length: u32,
    body: impl Fn(&mut Mutator, &dyn Fn() -> Address),
) -> Vec<ArrayReport> {
    let run = |arrays: &&str| {
        let heap = heap(&format!("{SIZES},{arrays}"));
        let id = heap.register_raw(Shape::Primitives { log2 }).unwrap();
        let mut mutator = heap.attach().unwrap();
        // SAFETY: a type of this heap and the size that follows from it; the array is in a root.
        unsafe {
            mutator.with_roots([Value::NULL], |mutator, [root]| {
                let array = mutator.allocate_raw(
                    NewObject::array(id, length, array_bytes(length, log2)),
                    Fresh::Zeroed,
                );
                root.set(Value::reference(array.unwrap()));
                body(mutator, &|| root.get().as_object().unwrap());
                mutator.array_report().unwrap()
            })
        }
    };
    ARRAYS.iter().chain(&OTHERS).map(run).collect()
}

/// Loads within N and beyond, and stores.
fn accesses(report: &ArrayReport) -> [u64; 4] {
    let [loads, stores] = [&report.tally.loads, &report.tally.stores];
    let within = [loads.below(64), stores.below(64)];
    [
        within[0],
        loads.total() - within[0],
        within[1],
        stores.total() - within[1],
    ]
}

type Words = In<Counted, u32>;

#[test]
fn pinned_arrays_are_allocated_like_others() {
    let reports = counted(2, 200, |mutator, array| {
        // SAFETY: the type of the other array, with the same length and size.
        unsafe {
            let id = mutator.type_raw(array());
            let new = NewObject::array(id, 200, array_bytes(200, 2));
            mutator.allocate_pinned_raw(new).unwrap();
        }
    });
    for report in reports {
        let allocated = report.allocated_of(|_| true);
        let bytes = 2 * array_bytes(200, 2) as u64;
        assert_eq!((allocated.arrays, allocated.bytes), (2, bytes));
    }
}

#[test]
fn every_accessor_counts_each_element_on_both_sides_of_n() {
    // Element 15 is the last within 64 bytes.
    let reports = counted(2, 200, |mutator, array| {
        // SAFETY: the array has 200 words, and these indices are inside of it.
        unsafe {
            for index in [0, 15, 16, 199, 199] {
                mutator.load_element_in::<Words>(array(), index);
            }
            for (index, number) in [(15, 0), (16, 0), (16, 7), (90, 1)] {
                let stored = mutator.store_element_in::<Words>(array(), index, number);
                stored.unwrap();
            }
        }
    });
    for report in reports {
        assert_eq!(accesses(&report), [2, 3, 1, 3]);
        let composition = report.composition();
        assert_eq!(composition.accesses, 9);
        assert_eq!(composition.stores_beyond, 3.0 / 9.0);
        assert_eq!(composition.loads_within, 2.0 / 9.0);
    }
    let reports = counted(2, 200, |mutator, array| {
        // SAFETY: as above.
        unsafe {
            let done = mutator.compare_exchange_element_in::<Words>(array(), 15, 0, 1);
            assert_eq!(done, Ok(Ok(())));
            let done = mutator.compare_exchange_element_in::<Words>(array(), 16, 1, 2);
            assert_eq!(done, Ok(Err(0)));
        }
    });
    reports
        .iter()
        .for_each(|report| assert_eq!(accesses(report), [0, 0, 1, 1]));
    let reports = counted(2, 200, |mutator, array| {
        // SAFETY: the array has these elements.
        unsafe {
            for index in [15, 16, 16] {
                let updated = mutator.update_element_in::<Words>(array(), index, |old| old + 1);
                updated.unwrap();
            }
        }
    });
    reports
        .iter()
        .for_each(|report| assert_eq!(accesses(report), [1, 2, 1, 2]));
    let reports = counted(2, 200, |mutator, array| {
        // SAFETY: the range lies inside of the array.
        let filled = unsafe { mutator.fill_elements_in::<Words>(array(), 10, 100, 5) };
        filled.unwrap();
    });
    reports
        .iter()
        .for_each(|report| assert_eq!(accesses(report), [0, 0, 6, 94]));
}

#[test]
fn cursors_count_what_they_have_passed() {
    let reports = counted(2, 200, |mutator, array| {
        // SAFETY: the ranges lie inside of the array; numbers are valid.
        unsafe {
            let mut cursor = mutator.cursor_mut::<Words>(array(), 14, 186).unwrap();
            // Zeros into arraylets that are not there, then a number.
            (0..80).for_each(|_| assert!(cursor.store(0)));
            assert!(cursor.store(9));
            assert_eq!(cursor.load(), Some(0));
            let sum: u32 = mutator.cursor::<Words>(array(), 0, 200).sum();
            assert_eq!(sum, 9);
            assert_eq!(mutator.cursor::<Words>(array(), 95, 100).next(), Some(0));
        }
    });
    reports
        .iter()
        .for_each(|report| assert_eq!(accesses(report), [16, 184 + 2, 2, 79]));
}

#[test]
fn what_a_caller_counts_for_a_window_is_counted() {
    let reports = counted(0, 1000, |mutator, array| {
        mutator.count_elements_in::<In<Counted, u8>>(Access::Load, 10, 990);
        mutator.count_elements_in::<u8>(Access::Load, 10, 990);
        // SAFETY: the array has these bytes.
        unsafe {
            mutator.load_element_in::<u8>(array(), 500);
            mutator.store_element_in::<u8>(array(), 500, 1).unwrap();
        }
    });
    for report in reports {
        assert_eq!(
            accesses(&report),
            [54, 936, 0, 0],
            "other layouts count nothing"
        );
    }
}

#[test]
fn copies_are_counted_with_what_they_share_or_could() {
    let reports = counted(0, 64 + 10 * 256, |mutator, array| {
        let length = 64 + 10 * 256;
        // SAFETY: a type of this heap with its size; the ranges lie inside of both arrays.
        unsafe {
            let id = mutator.type_raw(array());
            let all = mutator.cursor_mut::<u8>(array(), 0, length as usize);
            let mut all = all.unwrap();
            while all.store(1) {}
            mutator.with_roots([Value::NULL], |mutator, [other]| {
                let made = mutator.allocate_raw(
                    NewObject::array(id, length, array_bytes(length, 0)),
                    Fresh::Zeroed,
                );
                other.set(Value::reference(made.unwrap()));
                let to = || other.get().as_object().unwrap();
                // 6 bytes within N, and beyond it 250 that are not shared, 2 arraylets that may be, 50.
                let copied =
                    mutator.copy_elements_raw(array(), 64 + 6, to(), 64 + 6, 250 + 512 + 50);
                copied.unwrap();
                mutator
                    .copy_elements_raw(array(), 0, to(), 58, 6 + 256)
                    .unwrap();
            });
        }
    });
    for (report, arrays) in reports.iter().zip(ARRAYS.iter().chain(&OTHERS)) {
        let copied = &report.tally.copied;
        assert_eq!((copied.total(), copied.below(64)), (812 + 262, 6));
        assert_eq!(report.tally.shareable, 512);
        let savings = report.savings();
        // Without copy-on-write nothing is shared.
        let shared = if report.geometry.is_made {
            256 * report.counts.shared
        } else {
            512
        };
        assert_eq!(savings.copy_on_write, shared as f64 / (812.0 + 256.0));
        if report.geometry.is_made {
            // Of the copy 4 arraylets are there, shared or not.
            let never = if arrays.contains("naive") { 0 } else { 6 };
            assert_eq!(report.counts.touched, 20 - never);
            assert_eq!(savings.lazy, Some((never * 256) as f64 / (2.0 * 2640.0)));
            assert_eq!(report.counts.copied_bytes + shared, 812 + 256);
        }
    }
}

#[test]
fn a_census_finds_what_lives_of_each_type() {
    for arrays in ARRAYS {
        let heap = heap(&format!("{SIZES},{arrays},workers=2"));
        let [bytes, words] =
            [0, 2].map(|log2| heap.register_raw(Shape::Primitives { log2 }).unwrap());
        let list = heap.register_raw(Shape::References).unwrap();
        let whole = heap
            .register_whole_raw(Shape::Primitives { log2: 0 })
            .unwrap();
        let mut mutator = heap.attach().unwrap();
        // SAFETY: types of this heap and their sizes; what is needed later is in the roots; indices are inside of arrays.
        let report = unsafe {
            mutator.with_roots([Value::NULL; 5], |mutator, roots| {
                let at = |index: usize| roots[index].get().as_object().unwrap();
                let wanted = [
                    (bytes, 64, 0),
                    (bytes, 65, 0),
                    (words, 272, 2),
                    (list, 72, 3),
                    (whole, 999, 0),
                ];
                for (root, (id, length, log2)) in roots.iter().zip(wanted) {
                    // The first of them dies.
                    for _ in 0..2 {
                        let made = mutator.allocate_raw(
                            NewObject::array(id, length, array_bytes(length, log2)),
                            Fresh::Zeroed,
                        );
                        root.set(Value::reference(made.unwrap()));
                    }
                }
                mutator.store_element_in::<u32>(at(2), 16 + 64, 1).unwrap();
                mutator
                    .store_element_in::<Wide>(at(3), 8 + 40, roots[0].get())
                    .unwrap();
                let report = mutator.array_report().unwrap();
                let again = mutator.array_report().unwrap();
                for (one, two) in report.types.iter().zip(again.types) {
                    assert_eq!(one.last, two.last, "{arrays}");
                    assert_eq!(2 * one.sum.bytes, two.sum.bytes, "{arrays}");
                }
                assert_eq!(report.last, again.last);
                report
            })
        };
        assert_eq!((report.censuses, report.types.len()), (1, 4), "{arrays}");
        let of = |id: TypeId| report.types.iter().find(|of| of.id == id).unwrap();
        let found = of(bytes);
        assert_eq!((found.allocated.arrays, found.allocated.large), (4, 2));
        let two = (16 + 64) + (16 + 72);
        let expected = Living {
            arrays: 2,
            bytes: two,
            large: 1,
            large_bytes: 16 + 72,
            beyond: 1,
            spines: found.last.spines,
            ..Living::default()
        };
        assert_eq!((found.last, found.sum), (expected, expected), "{arrays}");
        // A pointer, and a granule for the remainder.
        assert_eq!(found.last.spines, 16 + 64 + 8 + 8);
        let is_lazy = arrays.contains("zray");
        for (id, arraylets, zero) in [(words, 4, 3), (list, 2, 1)] {
            let found = of(id).last;
            assert_eq!((found.arrays, found.large), (1, 1));
            assert_eq!((found.arraylets, found.zero), (arraylets, zero), "{arrays}");
            assert_eq!(found.absent, if is_lazy { zero } else { 0 });
            assert_eq!(found.beyond, arraylets * 256);
            assert_eq!(found.spines, 16 + 64 + arraylets * 8);
        }
        let found = of(whole);
        assert_eq!(
            (found.allocated.large, found.last.large),
            (0, 0),
            "an excluded type is not cut"
        );
        let all: u64 = report.types.iter().map(|of| of.last.bytes).sum();
        assert_eq!((report.last.objects, report.last.bytes), (5, all));
        let arrays_allocated: u64 = report.types.iter().map(|of| of.allocated.bytes).sum();
        assert_eq!(
            report.allocated, arrays_allocated,
            "{arrays}: there are only arrays"
        );
        // Where arrays are in one piece, the report says what lies there when they are cut with all optimisations.
        let saved = report.savings().saved * all as f64;
        let expected = match arrays {
            "arrays=naive" => (report.last.bytes as f64) - (report.last.taken as f64),
            _ => (4.0 * 256.0) - (8.0 + 4.0 * 8.0 + 2.0 * 8.0),
        };
        assert!(
            (saved - expected).abs() < 1e-6,
            "{arrays}: {saved} {expected}"
        );
    }
}

#[test]
fn a_census_comes_with_each_collection_of_everything_and_so_many_bytes() {
    for arrays in ARRAYS {
        let heap = heap(&format!("array-report=64k,heap-limit=16m,tlab=4k,{arrays}"));
        let node = Shape::Structure {
            bytes: 64,
            references: &[],
        };
        let node = heap.register_raw(node).unwrap();
        let bytes = heap.register_raw(Shape::Primitives { log2: 0 }).unwrap();
        let mut mutator = heap.attach().unwrap();
        // SAFETY: types of this heap and their sizes; nothing is used again.
        unsafe {
            for _ in 0..(1 << 20) / 64 {
                mutator
                    .allocate_raw(NewObject::structure(node, 64), Fresh::Zeroed)
                    .unwrap();
            }
        }
        let full = mutator.totals().full_collections;
        assert!((14..=16).contains(&full), "{arrays}: {full}");
        // SAFETY: as above.
        unsafe {
            for _ in 0..8 {
                mutator
                    .allocate_raw(
                        NewObject::array(bytes, 1 << 17, array_bytes(1 << 17, 0)),
                        Fresh::Zeroed,
                    )
                    .unwrap();
            }
        }
        mutator.collect(true);
        let report = mutator.array_report().unwrap();
        let full = mutator.totals().full_collections;
        assert!(
            full >= 14 + 7,
            "{arrays}: arrays count as if they lay in one piece: {full}"
        );
        assert_eq!(report.censuses, full);
        assert_eq!(report.last.objects, 0);
    }
}

#[test]
fn what_threads_did_that_are_gone_is_in_the_report() {
    let heap = heap(SIZES);
    let bytes = heap.register_raw(Shape::Primitives { log2: 0 }).unwrap();
    let work = || {
        let mut mutator = heap.attach().unwrap();
        // SAFETY: a type of this heap and its size; the array has the element, and is not used behind the store.
        unsafe {
            let array = mutator
                .allocate_raw(
                    NewObject::array(bytes, 1000, array_bytes(1000, 0)),
                    Fresh::Zeroed,
                )
                .unwrap();
            mutator
                .store_element_in::<In<Counted, u8>>(array, 100, 1)
                .unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
    work();
    let report = heap.attach().unwrap().array_report().unwrap();
    assert_eq!(accesses(&report), [0, 0, 0, 4]);
    assert_eq!(report.types[0].allocated.arrays, 4);
    assert_eq!(report.allocated, 4 * 1016);
}

#[test]
fn without_the_option_there_is_no_report() {
    for arrays in ARRAYS {
        let heap = heap(arrays);
        let bytes = heap.register_raw(Shape::Primitives { log2: 0 }).unwrap();
        let mut mutator = heap.attach().unwrap();
        // SAFETY: a type of this heap and its size; the array has the element.
        unsafe {
            let array = mutator
                .allocate_raw(NewObject::array(bytes, 9, array_bytes(9, 0)), Fresh::Zeroed)
                .unwrap();
            assert_eq!(mutator.load_element_in::<In<Counted, u8>>(array, 8), 0);
        }
        assert_eq!(mutator.array_report(), None);
        assert_eq!(mutator.totals().full_collections, 0);
        assert!(!heap.reports_arrays());
    }
}

#[test]
fn sizes_have_a_use_for_a_report_and_other_options_of_pieces_have_none() {
    let report = heap("array-report=1m,first-n=1024,arraylet=512")
        .attach()
        .unwrap()
        .array_report();
    let geometry = report.unwrap().geometry;
    assert_eq!(
        (geometry.first_n, geometry.arraylet_shift, geometry.is_made),
        (1024, 9, false)
    );
    let report = heap("array-report=1m").attach().unwrap().array_report();
    let geometry = report.unwrap().geometry;
    assert_eq!(
        (geometry.first_n, geometry.arraylet_shift, geometry.is_made),
        (4096, 10, false)
    );
    for (list, option) in [
        ("first-n=64", "first-n"),
        ("array-report=1m,copy-on-write=on", "copy-on-write"),
    ] {
        let refused = Heap::builder().options(list).unwrap().build();
        let refused = refused.map(drop).unwrap_err().to_string();
        assert!(refused.starts_with(&format!(
            "option {option} has no effect where all arrays are in one piece"
        )));
    }
    let refused = Heap::builder()
        .options("array-report=1k")
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("1024 bytes is out of range; the nearest is 64k"),
        "{refused}"
    );
}

#[test]
fn the_table_has_a_row_for_each_type_and_each_optimisation() {
    let reports = counted(2, 272, |mutator, array| {
        // SAFETY: the array has this element.
        unsafe { mutator.store_element_in::<Words>(array(), 100, 1) }.unwrap();
    });
    let table = reports[0].to_string();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0],
        "arrays of more than 64 would be cut into arraylets of 256; censuses of what lives: 1"
    );
    assert!(
        table.contains("first-n:       0.0 % of 1 accesses are within 64:"),
        "{table}"
    );
    assert!(
        table.contains("zeros:         75.0 % of the arraylets hold nothing but zeros"),
        "{table}"
    );
    assert!(!table.contains("lazy:"), "{table}");
    assert_eq!(lines.len(), 10, "{table}");
    let table = reports[1].to_string();
    assert!(table.contains("arrays of more than 64 are cut"), "{table}");
    assert!(table.contains("lazy:          "), "{table}");
}
