use super::*;
use crate::places::Place;
use crate::slot::{Compressed, Wide};
use gleaner_base::sync::Ordering;
use std::vec::Vec;

fn model<F: SlotFormat>() -> ObjectModel<F> {
    ObjectModel::new(
        TypeTable::new(MOST_TYPES).unwrap(),
        Address::new(0x1000),
        Pieces::WHOLE,
    )
}

#[test]
fn sizes_follow_from_shape_and_length() {
    let model = model::<Wide>();
    let pair = model
        .types
        .register(
            Shape::Structure {
                bytes: 23,
                references: &[8],
            },
            8,
        )
        .unwrap();
    let shorts = model
        .types
        .register(Shape::Primitives { log2: 1 }, 8)
        .unwrap();
    let mut place = [0u64; 8];
    let object = Address::of(&raw mut place);
    let size = |id| {
        // SAFETY: the place is large enough for header and length.
        unsafe { model.size(Header::fresh(id), object) }
    };
    assert_eq!(size(pair), 24);
    // SAFETY: `LENGTH + 4` is within the 64 bytes of the place.
    unsafe { object.add(LENGTH).ptr::<u32>().write(5) };
    assert_eq!(size(shorts), 32);
    assert_eq!((size(TypeId::GAP), size(TypeId::FILLER)), (8, 24));
    assert_eq!(array_bytes(0, 3), 16);
    assert_eq!(tailed_bytes(24, 3, 5), 40);
    let most = usize::MAX - 7;
    assert_eq!(tailed_bytes(24, u32::MAX, usize::MAX / 2), most);
    assert_eq!(tailed_bytes(usize::MAX - 3, 1, 1), most);
    assert_eq!([0, 1, 8, usize::MAX].map(whole_granules), [0, 8, 8, most]);
}

#[test]
fn fillers_cover_every_range() {
    let model = model::<Wide>();
    let mut place = [!0u64; 8];
    let start = Address::of(&raw mut place);
    for granules in 1..=8 {
        // SAFETY: the place is this test's.
        unsafe {
            fill(start, granules * 8);
            assert_eq!(
                model.size(header::load(start, Ordering::Relaxed), start),
                granules * 8
            );
        }
    }
}

#[test]
fn scanning_visits_the_slots_and_no_others() {
    fn slots<F: SlotFormat>() {
        let model = model::<F>();
        let id = model.types.register(Shape::References, F::BYTES).unwrap();
        let mut place = [0u64; 16];
        let object = Address::of(&raw mut place);
        // SAFETY: the place is large enough.
        unsafe { object.add(LENGTH).ptr::<u32>().write(6) };
        let mut found = Vec::new();
        // SAFETY: an array of six slots lies there.
        unsafe {
            model.scan_all(Header::fresh(id), object, |slot| {
                found.push(slot.offset_from(object))
            });
        }
        let all: Vec<usize> = (0..6).map(|index| 16 + index * F::BYTES).collect();
        assert_eq!(found, all);
        let (low, high) = (object.add(all[2]), object.add(all[4]));
        let mut part = Vec::new();
        // SAFETY: an array of six slots lies there, in the test's own place.
        unsafe {
            model.scan_all_between(Header::fresh(id), object, low, high, |slot| {
                part.push(slot.offset_from(object));
            });
        }
        assert_eq!(part, &all[2..4]);
    }
    slots::<Wide>();
    slots::<Compressed>();
}

#[test]
fn a_tail_is_scanned_element_by_element() {
    fn slots<F: SlotFormat>() {
        let model = model::<F>();
        let slot = F::BYTES as u32;
        let shape = Shape::Tailed {
            head: 32,
            references: &[16],
            element: 24,
            element_references: &[8, 16],
        };
        let id = model.types.register(shape, F::BYTES).unwrap();
        let mut place = [0u64; 64];
        let object = Address::of(&raw mut place);
        // SAFETY: the place has room for twenty elements.
        unsafe { object.add(LENGTH).ptr::<u32>().write(20) };
        let header = Header::fresh(id);
        // SAFETY: the place holds the length that `size` reads, and the header is that of a registered type.
        assert_eq!(unsafe { model.size(header, object) }, 32 + 20 * 24);
        let mut all = Vec::new();
        // SAFETY: an object of the registered type lies there, with the length 20 that was written above.
        unsafe { model.scan_all(header, object, |at| all.push(at.offset_from(object))) };
        let expected: Vec<usize> = core::iter::once(16)
            .chain((0..20).flat_map(|number| [40 + number * 24, 48 + number * 24]))
            .collect();
        assert_eq!(all, expected);
        // Every range has just the slots that lie in it.
        for low in (0..520).step_by(8) {
            for high in (low..520).step_by(8) {
                let mut part = Vec::new();
                // SAFETY: an object of the registered type lies there, with the length 20 that was written above.
                unsafe {
                    model.scan_all_between(
                        header,
                        object,
                        object.add(low),
                        object.add(high),
                        |at| {
                            part.push(at.offset_from(object));
                        },
                    );
                }
                let inside = expected.iter().filter(|at| (low..high).contains(at));
                assert!(part.iter().eq(inside), "{low}..{high}: {part:?}");
            }
        }
        assert!(matches!(
            model.shape(id),
            Some(Shape::Tailed {
                head: 32,
                element: 24,
                element_references: &[8, 16],
                ..
            })
        ));
        let unaligned = Shape::Tailed {
            head: 16 + slot as usize / 2,
            references: &[],
            element: 24,
            element_references: &[0],
        };
        assert_eq!(
            model.types.register(unaligned, F::BYTES),
            Err(TypeError::Tail(24))
        );
    }
    slots::<Wide>();
    slots::<Compressed>();
}

/// A table with a strong and a weak slot in its head, and elements of an ephemeron, a number and a weak slot.
fn weak_table<F: SlotFormat>(model: &ObjectModel<F>) -> TypeId {
    let slot = F::BYTES as u32;
    let shape = Shape::Weak {
        head: 32,
        slots: Slots {
            references: &[16],
            weak: &[24],
            ephemerons: &[],
        },
        element: 4 * F::BYTES,
        element_slots: Slots {
            references: &[],
            weak: &[3 * slot],
            ephemerons: &[0],
        },
    };
    model.types.register(shape, F::BYTES).unwrap()
}

#[test]
fn weak_slots_are_visited_apart_from_strong_ones() {
    fn slots<F: SlotFormat>() {
        let model = model::<F>();
        let header = Header::fresh(weak_table(&model));
        let mut place = [0u64; 64];
        let object = Address::of(&raw mut place);
        let slot = F::BYTES;
        // SAFETY: the place has room for ten elements of four slots.
        unsafe {
            object.add(LENGTH).ptr::<u32>().write(10);
            header::store(object, header);
            assert_eq!(model.size(header, object), 32 + 40 * slot);
            let mut strong = Vec::new();
            let elements = model.scan(header, object, |at| strong.push(at.offset_from(object)));
            assert_eq!((strong, elements.clone()), (Vec::from([16]), Some(0..10)));
            let mut weak = Vec::new();
            model.scan_weak(header, object, 0..10, |found| weak.push(found));
            assert_eq!(weak[0], WeakSlot::Weak(object.add(24)));
            assert_eq!(weak.len(), 21);
            let last = object.add(32 + 36 * slot);
            assert_eq!(weak[19], WeakSlot::Weak(last.add(3 * slot)));
            let (key, value) = (last, last.add(slot));
            assert_eq!(weak[20], WeakSlot::Ephemeron { key, value });
            assert_eq!(model.ephemerons(header, &(0..10)), 10);
            let all: Vec<usize> = [16, 24]
                .into_iter()
                .chain((0..10).flat_map(|number| [0, 1, 3].map(|at| 32 + (4 * number + at) * slot)))
                .collect();
            let mut found = Vec::new();
            model.scan_all(header, object, |at| found.push(at.offset_from(object)));
            found.sort_unstable();
            assert_eq!(found, all);
            for (index, &at) in all.iter().enumerate() {
                assert_eq!(
                    model.types.reference_place(object, index),
                    Some(Place::Field(at))
                );
            }
            assert_eq!(model.types.reference_place(object, all.len()), None);
            let end = 32 + 40 * slot;
            for low in (0..end).step_by(slot) {
                for high in (low..end + 64).step_by(slot) {
                    let mut part = Vec::new();
                    let (from, to) = (object.add(low), object.add(high));
                    model.scan_all_between(header, object, from, to, |at| {
                        part.push(at.offset_from(object));
                    });
                    part.sort_unstable();
                    let inside = all.iter().filter(|at| (low..high).contains(at));
                    assert!(part.iter().eq(inside), "{low}..{high}: {part:?}");
                }
            }
        }
    }
    slots::<Wide>();
    slots::<Compressed>();
}

#[test]
fn a_structure_with_weak_slots_has_no_length() {
    let model = model::<Wide>();
    let shape = |slots| Shape::Weak {
        head: 24,
        slots,
        element: 0,
        element_slots: Slots::default(),
    };
    let ephemeron = Slots {
        ephemerons: &[8],
        ..Slots::default()
    };
    let header = Header::fresh(model.types.register(shape(ephemeron), 8).unwrap());
    let mut place = [!0u64; 3];
    let object = Address::of(&raw mut place);
    // SAFETY: the place is as large as an instance.
    unsafe {
        assert_eq!(model.size(header, object), 24);
        let elements = model.scan(header, object, |_| unreachable!("no slot is strong"));
        assert_eq!(elements, Some(0..0));
        assert_eq!(model.ephemerons(header, &(0..0)), 1);
    }
    for (slots, offset) in [
        // The value lies outside.
        (
            Slots {
                ephemerons: &[16],
                ..Slots::default()
            },
            24,
        ),
        // The value is a weak slot as well.
        (
            Slots {
                weak: &[16],
                ..ephemeron
            },
            16,
        ),
        (
            Slots {
                references: &[8],
                ..ephemeron
            },
            8,
        ),
    ] {
        let refused = model.types.register(shape(slots), 8);
        assert_eq!(refused, Err(TypeError::Offset(offset)));
    }
}
