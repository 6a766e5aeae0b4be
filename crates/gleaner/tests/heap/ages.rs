//! How old objects become before they are promoted, small ones and large ones; and what a large object that becomes old
//! in a scavenge refers to afterwards.

use gleaner::raw::{Fresh, NewObject, Shape, Value, Wide, array_bytes};
use gleaner::{Elements, Generations, Heap, Structure};

const MB: usize = 1 << 20;

fn heap(tenure: u32, limit: usize) -> Heap {
    Heap::builder()
        .limit(limit)
        .young(MB)
        .resize(false)
        .generations(Generations::Always)
        .tenure(tenure)
        .workers(1)
        .verify(true)
        .build()
        .unwrap()
}

#[test]
fn a_small_object_is_promoted_by_the_scavenge_after_those_that_it_survived() {
    for tenure in [0, 1, 2, 3, 15] {
        let heap = heap(tenure, 8 * MB);
        let shape = Structure {
            references: 1,
            bytes: 16,
        };
        let bytes = 8 + 8 + 16;
        let node = heap.structure(shape).unwrap();
        let mut mutator = heap.attach().unwrap();
        let kept = mutator.scope(|scope| {
            let one = scope.allocate(node).unwrap();
            scope.handle(one).unwrap()
        });
        let mut before = mutator.totals();
        for scavenge in 0..=tenure + 2 {
            mutator.collect(false);
            let after = mutator.totals();
            let survived = after.survived_bytes - before.survived_bytes;
            let promoted = after.promoted_bytes - before.promoted_bytes;
            let expected = match scavenge {
                _ if scavenge < tenure => (bytes, 0),
                _ if scavenge == tenure => (0, bytes),
                _ => (0, 0),
            };
            assert_eq!(
                (survived, promoted),
                expected,
                "tenure {tenure}, scavenge {scavenge}"
            );
            before = after;
        }
        assert_eq!(before.full_collections, 0);
        drop(kept);
    }
}

/// Scavenges free large objects as long as they are young.
#[test]
fn a_large_object_becomes_old_by_the_scavenge_after_those_that_it_survived() {
    const LENGTH: u32 = 100_000;
    for tenure in [0, 1, 2, 3] {
        for survived in 0..tenure + 3 {
            let heap = heap(tenure, 8 * MB);
            let numbers = heap.array(Elements::Bytes).unwrap();
            let mut mutator = heap.attach().unwrap();
            let kept = mutator.scope(|scope| {
                let array = scope.allocate_array(numbers, LENGTH).unwrap();
                scope.handle(array).unwrap()
            });
            for _ in 0..survived {
                mutator.collect(false);
                assert!(heap.used() >= LENGTH as usize);
            }
            drop(kept);
            mutator.collect(false);
            let is_old = heap.used() >= LENGTH as usize;
            assert_eq!(
                is_old,
                survived > tenure,
                "tenure {tenure}, {survived} scavenges survived"
            );
            mutator.collect(true);
            assert!(heap.used() < LENGTH as usize);
        }
    }
}

/// The old space is full, so what the array refers to stays young, and a card says so though no barrier did. The verifier
/// looks, and the next scavenge finds the object by that card alone.
#[test]
fn a_large_object_that_becomes_old_has_cards_for_what_is_young() {
    const LIMIT: usize = 4 * MB;
    const PAGE: usize = 4096;
    const LARGE: usize = 5 * PAGE;
    const LENGTH: usize = 3000;
    let heap = heap(0, LIMIT);
    let shape = Shape::Structure {
        bytes: 16,
        references: &[],
    };
    let leaf = heap.register_raw(shape).unwrap();
    let slots = heap.register_raw(Shape::References).unwrap();
    let numbers = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    let bytes = array_bytes(LENGTH as u32, 3);
    let room = LIMIT - MB - bytes.next_multiple_of(PAGE);
    let others: Vec<_> = (0..room / LARGE)
        .map(|_| {
            mutator.scope(|scope| {
                let array = scope.allocate_array(numbers, LARGE as u32 - 16).unwrap();
                scope.handle(array).unwrap()
            })
        })
        .collect();
    // They are old from now on, so that the next large object finds none that is young.
    mutator.collect(false);
    // SAFETY: sizes are those of the types; what is needed after an allocation is in the frame, and the array is written
    // before the next one.
    unsafe {
        mutator.with_roots([Value::NULL], |mutator, roots| {
            let one = mutator
                .allocate_raw(NewObject::structure(leaf, 16), Fresh::Zeroed)
                .unwrap();
            one.add(8).store(4711);
            roots[0].set(Value::reference(one));
            let array = mutator
                .allocate_raw(
                    NewObject::array(slots, LENGTH as u32, bytes),
                    Fresh::Unwritten,
                )
                .unwrap();
            for index in 0..LENGTH {
                mutator.initialize_element_in::<Wide>(array, index, roots[0].get());
            }
            roots[0].set(Value::reference(array));
            for _ in 0..3 {
                mutator.collect(false);
                let array = roots[0].get().as_object().unwrap();
                let one = mutator
                    .load_element_raw(array, LENGTH - 1)
                    .as_object()
                    .unwrap();
                assert_eq!(one.add(8).load(), 4711);
            }
        });
    }
    let totals = mutator.totals();
    assert_eq!((totals.full_collections, totals.promoted_bytes), (0, 0));
    assert!(totals.survived_bytes > 0, "the old space was full");
    drop(others);
}
