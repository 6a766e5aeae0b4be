//! What mutators may take between two collections where new objects lie in place: each object under `stress`, and as many bytes
//! of large ones as of small ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::setups::FORMATS;
use gleaner::{
    Builder, Elements, Generations, Heap, NurseryPolicy, OldPolicy, Phase, References, Structure,
};

const MB: usize = 1 << 20;

fn builder(references: References) -> Builder {
    Heap::builder()
        .limit(24 * MB)
        .resize(false)
        .generations(Generations::Always)
        .old(OldPolicy::MarkRegion)
        .nursery(NurseryPolicy::InPlace)
        .references(references)
        .workers(1)
        .ignore_environment()
}

/// Several small objects would have room in one line; but under `stress` each of them comes to where it may be collected.
#[test]
fn under_stress_small_objects_of_one_line_are_allocated_one_by_one() {
    const COUNT: u64 = 200;
    for references in FORMATS {
        let heap = builder(references).stress(1).build().unwrap();
        let small = Structure {
            references: 1,
            bytes: 0,
        };
        let small = heap.structure(small).unwrap();
        heap.attach().unwrap().scope(|scope| {
            let before = heap.totals();
            for _ in 0..COUNT {
                scope.nested(|scope| _ = scope.allocate(small).unwrap());
            }
            let after = heap.totals();
            let collections = after.scavenges + after.full_collections
                - before.scavenges
                - before.full_collections;
            assert!(collections >= COUNT, "{collections}");
        });
    }
}

/// Copies of what lives will take some of the room: large objects leave it as small ones do.
#[test]
fn large_objects_leave_room_for_copies_of_what_lives() {
    const LENGTH: usize = 12_000;
    for references in FORMATS {
        let heap = builder(references).young(12 * MB).build().unwrap();
        let most = Arc::new(AtomicU64::new(0));
        let heard = most.clone();
        heap.add_listener(move |event| {
            if event.phase == Phase::Resize {
                heard.store(event.bytes, Ordering::Relaxed);
            }
        });
        let node = Structure {
            references: 1,
            bytes: 48,
        };
        let node = heap.structure(node).unwrap();
        let doubles = heap.array(Elements::Doubles).unwrap();
        heap.attach().unwrap().scope(|scope| {
            let collections = || heap.totals().scavenges;
            let chain = scope.null();
            // A fifth of what is new lives.
            let mut number = 0;
            while collections() < 2 {
                scope.nested(|scope| {
                    let one = scope.allocate(node).unwrap();
                    if number % 5 == 0 {
                        scope.set(one, 0, chain).unwrap();
                        scope.assign(chain, one);
                    }
                });
                number += 1;
            }
            let most = most.load(Ordering::Relaxed) as usize;
            assert!((4 * MB..23 * MB / 2).contains(&most), "{most}");
            let (before, mut bytes) = (collections(), 0);
            while collections() == before {
                scope.nested(|scope| _ = scope.allocate_array(doubles, LENGTH as u32).unwrap());
                bytes += 8 * LENGTH;
            }
            // The one for which the collection came is none of those before.
            assert!(bytes <= most + 8 * LENGTH, "{bytes} {most}");
            assert_eq!(heap.totals().full_collections, 0);
        });
    }
}
