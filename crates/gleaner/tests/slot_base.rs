//! Where compressed slots count from: 0 in a heap below 16 GB of addresses, and elsewhere the start of the heap. A process
//! of its own: which places are free is the process's.

use gleaner::{Heap, References, Structure};

/// The reach of slots of 4 bytes that count from 0.
const REACH: u64 = 16 << 30;

fn heap(references: References, arrays: &str) -> Heap {
    Heap::builder()
        .options(arrays)
        .unwrap()
        .limit(2 << 20)
        .references(references)
        .workers(2)
        .verify(true)
        .poison(true)
        .build()
        .unwrap()
}

/// Lists, arrays and collections; what an object's address is.
fn works(heap: &Heap) -> u64 {
    let node = heap
        .structure(Structure {
            references: 1,
            bytes: 8,
        })
        .unwrap();
    let list = heap.reference_array().unwrap();
    heap.attach().unwrap().scope(|scope| {
        let array = scope.allocate_references(list, 3000).unwrap();
        for round in 0..3 {
            for index in 0..3000 {
                scope.nested(|scope| {
                    let new = scope.allocate(node).unwrap();
                    scope.write_u64(new, 0, index as u64 + round).unwrap();
                    let before = scope.get(array, index);
                    scope.set(new, 0, before).unwrap();
                    scope.set(array, index, new).unwrap();
                });
            }
            scope.collect(round == 1);
        }
        for index in 0..3000 {
            scope.nested(|scope| {
                let found = scope.get(array, index);
                for round in (0..3).rev() {
                    assert_eq!(scope.read_u64(found, 0), index as u64 + round);
                    scope.load(found, 0, found);
                }
                assert!(scope.is_null(found));
            });
        }
        scope.get_raw(array).bits()
    })
}

#[test]
fn slots_count_from_0_where_the_low_addresses_are_free() {
    for arrays in ["arrays=contiguous", "arrays=zray,first-n=64,arraylet=256"] {
        let wide = heap(References::Wide, arrays);
        assert_eq!(wide.fast_paths().slot_base, 0);
        assert!(
            works(&wide) >= REACH,
            "a heap with wide references lies low"
        );
        // As many as find a place, and two more.
        let mut heaps = Vec::new();
        let high = |heaps: &[Heap]| {
            let bases = heaps.iter().map(|heap| heap.fast_paths().slot_base);
            bases.filter(|&base| base != 0).count()
        };
        while high(&heaps) < 2 {
            assert!(heaps.len() < 100, "all heaps lie low");
            heaps.push(heap(References::Compressed, arrays));
        }
        assert!(
            heaps.len() > 2,
            "no heap lies low: are the addresses below 16 GB taken?"
        );
        for heap in &heaps {
            let (base, object) = (heap.fast_paths().slot_base, works(heap));
            assert_eq!(
                base == 0,
                object < REACH,
                "base {base:#x}, object {object:#x}"
            );
        }
        // The places of heaps that are gone are free again.
        drop(heaps);
        let again = heap(References::Compressed, arrays);
        assert_eq!(again.fast_paths().slot_base, 0);
        assert!(works(&again) < REACH);
    }
}
