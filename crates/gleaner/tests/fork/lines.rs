//! Children of heaps by lines: what they share with their parents stays in its pages.

use gleaner::Phase;

use super::*;

/// How often everything was slid together, and how many bytes left sparse blocks, from now on.
fn moves_of_old(heap: &Heap) -> [Arc<AtomicUsize>; 2] {
    let [slid, evacuated] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = [slid.clone(), evacuated.clone()];
    heap.add_collection_listener(move |collection| {
        for event in collection.events {
            match event.phase {
                Phase::Slide => _ = slid.fetch_add(1, Ordering::Relaxed),
                Phase::Mark => _ = evacuated.fetch_add(event.bytes as usize, Ordering::Relaxed),
                _ => {}
            }
        }
    });
    counts
}

/// A child of a heap by lines shares its pages with the parent. So few free lines are no reason to slide everything
/// together there. Objects that are young at the fork become old once, and then stay, too.
#[test]
fn a_child_with_few_free_lines_slides_nothing() {
    const COUNT: usize = 64_000;
    let _alone = alone();
    // By 7 MB a sliding may leave some of what lives in the eden of a copied nursery: measured times decide how large that is,
    // and under `auto` whether there is one.
    let options = "old=mark-region,refs=wide,generations=always";
    let all = [
        ("6m", "copy"),
        ("6m", "in-place"),
        ("6m", "auto"),
        ("7m", "copy"),
        ("7m", "auto"),
    ];
    for (limit, nursery) in all {
        let options = format!("{options},heap-limit={limit},nursery={nursery}");
        let heap = builder().options(&options).unwrap().build().unwrap();
        let shape = Structure {
            references: 2,
            bytes: 40,
        };
        let node = heap.structure(shape).unwrap();
        let slots = heap.reference_array().unwrap();
        heap.attach().unwrap().scope(|scope| {
            let table = scope.allocate_references(slots, COUNT as u32).unwrap();
            for number in 0..COUNT {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    scope.set(table, number, one).unwrap();
                });
            }
            scope.collect(true);
            // A node in each pair of lines takes both.
            let null = scope.null();
            for number in (0..COUNT).filter(|number| number % 4 != 3) {
                scope.set(table, number, null).unwrap();
            }
            let places = |scope: &mut Scope<'_>| {
                let place = |number: usize| {
                    scope.nested(|scope| {
                        let one = scope.get(table, number);
                        scope.get_raw(one).as_object().unwrap()
                    })
                };
                (3..COUNT).step_by(4).map(place).collect::<Vec<_>>()
            };
            let before = places(scope);
            let moves = moves_of_old(&heap);
            in_child(&options, || {
                scope.collect(true);
                let old = places(scope);
                assert!(nursery != "in-place" || old == before, "{options}");
                (0..3).for_each(|_| scope.collect(true));
                assert_eq!(places(scope), old, "{options}");
                let moves = moves.each_ref().map(|count| count.load(Ordering::Relaxed));
                assert_eq!(moves, [0; 2], "{options}");
            });
            (0..3).for_each(|_| scope.collect(true));
            assert_ne!(places(scope), before, "{options}");
            let slid = moves[0].load(Ordering::Relaxed);
            assert!(limit != "6m" || slid > 0, "{options}");
        });
    }
}

/// In a child new objects stay where they are, though few of them live: their pages are shared.
#[test]
fn a_child_copies_no_new_objects() {
    const COUNT: usize = 1000;
    let _alone = alone();
    let options = "old=mark-region,nursery=in-place,resize=off";
    let heap = builder().options(options).unwrap().build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let slots = heap.reference_array().unwrap();
    heap.attach().unwrap().scope(|scope| {
        let table = scope.allocate_references(slots, COUNT as u32).unwrap();
        let refill = |scope: &mut Scope<'_>| {
            for number in 0..COUNT * 20 {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    if number % 20 == 0 {
                        scope.set(table, number / 20, one).unwrap();
                    }
                });
            }
        };
        let places = |scope: &mut Scope<'_>| {
            let place = |number: usize| {
                scope.nested(|scope| {
                    let one = scope.get(table, number);
                    scope.get_raw(one).as_object().unwrap()
                })
            };
            (0..COUNT).map(place).collect::<Vec<_>>()
        };
        // It is known behind this one how few live.
        refill(scope);
        scope.collect(false);
        scope.collect(true);
        refill(scope);
        let before = places(scope);
        in_child(options, || {
            scope.collect(false);
            assert_eq!(places(scope), before);
        });
        scope.collect(false);
        assert_ne!(places(scope), before);
    });
}
