//! Constants: no collection looks at them, however many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gleaner::raw::{NewObject, Shape, Value};
use gleaner::{Heap, OldPolicy, Phase, References};

const COUNT: usize = 2000;

#[test]
fn constants_are_neither_marked_nor_moved() {
    for references in [References::Wide, References::Compressed] {
        for old in [OldPolicy::MarkCompact, OldPolicy::MarkSweep] {
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
