//! Types with elements behind a head, and types with a trace function: chains of such objects, under both slot formats,
//! with the verifier and poison, with a collection now and then and at every allocation. What is no slot holds numbers
//! that look like references, so a slot too many is found as surely as one too few.

use std::sync::atomic::{AtomicUsize, Ordering};

use gleaner::raw::{
    Address, FIELDS, LENGTH, Shape, Size, Trace, TypeId, Value, Visitor, tailed_bytes,
};
use gleaner::{Heap, Mutator, OldPolicy, References, TypeError};

/// Looks like a reference into nowhere.
const GARBAGE: u64 = 0x1234_5678_9abc_def0;

fn word(object: Address, offset: usize) -> *mut u64 {
    object.add(offset).ptr()
}

/// The heap's slot width, which is the data of the functions.
static WIDTHS: [usize; 2] = [8, 4];

/// A head with `next`, then elements of a slot or a number, with a tag that says which.
unsafe extern "C" fn trace_tagged(_: *mut (), object: *mut u8, visitor: *mut Visitor) {
    // SAFETY: the collector gives an object of this type.
    unsafe {
        Visitor::visit(visitor, object.add(16));
        for index in 0..object.add(LENGTH).cast::<u32>().read() as usize {
            let element = object.add(24 + index * 16);
            if element.add(8).cast::<u64>().read() == 1 {
                Visitor::visit(visitor, element);
            }
        }
    }
}

/// Six words, the set bits of the first field being those that are slots.
unsafe extern "C" fn trace_mapped(_: *mut (), object: *mut u8, visitor: *mut Visitor) {
    // SAFETY: as above.
    unsafe {
        let map = object.add(FIELDS).cast::<u64>().read();
        for index in (0..6).filter(|index| map & 1 << index != 0) {
            Visitor::visit(visitor, object.add(16 + index * 8));
        }
    }
}

/// `next`, how many slots follow, and these.
unsafe extern "C" fn trace_sized(width: *mut (), object: *mut u8, visitor: *mut Visitor) {
    // SAFETY: as above; the data is one of the widths.
    unsafe {
        Visitor::visit(visitor, object.add(8));
        for index in 0..object.add(16).cast::<u64>().read() as usize {
            Visitor::visit(visitor, object.add(24 + index * *width.cast::<usize>()));
        }
    }
}

static SIZES_ASKED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn size_of_sized(width: *mut (), object: *const u8) -> usize {
    SIZES_ASKED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { 24 + object.add(16).cast::<u64>().read() as usize * *width.cast::<usize>() }
}

struct Types {
    leaf: TypeId,
    kinds: [TypeId; 4],
    slot: usize,
}

const TAILED: Shape<'static> = Shape::Tailed {
    head: 32,
    references: &[16],
    element: 24,
    element_references: &[8],
};

impl Types {
    fn register(heap: &Heap) -> Types {
        let width = &WIDTHS[usize::from(heap.references() == References::Compressed)];
        let traced = |size, function| {
            let data = (&raw const *width).cast_mut().cast();
            let trace = Trace { function, data };
            heap.register_raw(Shape::Traced { size, trace }).unwrap()
        };
        let leaf = Shape::Structure {
            bytes: 16,
            references: &[],
        };
        let tagged = Size::Tailed {
            head: 24,
            element: 16,
        };
        Types {
            leaf: heap.register_raw(leaf).unwrap(),
            kinds: [
                heap.register_raw(TAILED).unwrap(),
                traced(tagged, trace_tagged),
                traced(Size::Fixed(64), trace_mapped),
                traced(Size::Function(size_of_sized), trace_sized),
            ],
            slot: *width,
        }
    }

    fn leaf(&self, mutator: &mut Mutator, number: u64) -> Value {
        // SAFETY: the callers have what they need in roots.
        unsafe {
            let leaf = mutator.allocate_raw(self.leaf, 16).unwrap();
            word(leaf, FIELDS).write(number);
            Value::reference(leaf)
        }
    }

    /// How many elements object `number` has.
    fn length(number: u64) -> u32 {
        (number % 7) as u32
    }

    /// Allocates object `number` without leaves, and says where its `next` is. What is no slot is written at once.
    fn allocate(&self, mutator: &mut Mutator, number: u64) -> (Address, usize) {
        let length = Types::length(number);
        // SAFETY: types and sizes fit each other; the callers have what they need in roots.
        unsafe {
            match number % 4 {
                0 => {
                    let bytes = tailed_bytes(32, length, 24);
                    let object = mutator
                        .allocate_array_raw(self.kinds[0], length, bytes)
                        .unwrap();
                    word(object, 24).write(GARBAGE);
                    for index in 0..length as usize {
                        word(object, 32 + index * 24).write(GARBAGE);
                        word(object, 48 + index * 24).write(GARBAGE);
                    }
                    (object, 16)
                }
                1 => {
                    let bytes = tailed_bytes(24, length, 16);
                    let object = mutator
                        .allocate_array_raw(self.kinds[1], length, bytes)
                        .unwrap();
                    for index in 0..length as usize {
                        let is_slot = (number + index as u64).is_multiple_of(2);
                        word(object, 32 + index * 16).write(is_slot.into());
                        if !is_slot {
                            word(object, 24 + index * 16).write(GARBAGE);
                        }
                    }
                    (object, 16)
                }
                2 => {
                    let object = mutator.allocate_raw(self.kinds[2], 64).unwrap();
                    let map = number & 0b11_1110 | 1;
                    word(object, FIELDS).write(map);
                    for index in (1..6).filter(|index| map & 1 << index == 0) {
                        word(object, 16 + index * 8).write(GARBAGE);
                    }
                    (object, 16)
                }
                _ => {
                    let bytes = (24 + length as usize * self.slot).next_multiple_of(8);
                    let object = mutator.allocate_raw(self.kinds[3], bytes).unwrap();
                    word(object, 16).write(length.into());
                    (object, 8)
                }
            }
        }
    }

    /// The offsets of the slots of object `number` that hold leaves.
    fn slots(&self, number: u64) -> Vec<usize> {
        let all = 0..Types::length(number) as usize;
        match number % 4 {
            0 => all.map(|index| 40 + index * 24).collect(),
            1 => all
                .filter(|&index| (number + index as u64).is_multiple_of(2))
                .map(|index| 24 + index * 16)
                .collect(),
            2 => (1..6)
                .filter(|index| number & 1 << index != 0)
                .map(|index| 16 + index * 8)
                .collect(),
            _ => all.map(|index| 24 + index * self.slot).collect(),
        }
    }

    /// A chain of the objects `0..count`, the last one first; drops as many on the way.
    fn chain(&self, mutator: &mut Mutator, count: u64) -> Value {
        // SAFETY: what is needed over an allocation is in a root, and the offsets are those of slots.
        unsafe {
            mutator.with_roots([Value::NULL; 2], |mutator, roots| {
                for number in 0..count {
                    self.allocate(mutator, number);
                    let (object, next) = self.allocate(mutator, number);
                    roots[1].set(Value::reference(object));
                    mutator.store_raw(object, next, roots[0].get());
                    for slot in self.slots(number) {
                        let leaf = self.leaf(mutator, number + slot as u64);
                        let object = roots[1].get().as_object().unwrap();
                        mutator.store_raw(object, slot, leaf);
                    }
                    roots[0].set(roots[1].get());
                }
                roots[0].get()
            })
        }
    }

    fn check(&self, mutator: &Mutator, chain: Value, count: u64) {
        let mut link = chain;
        for number in (0..count).rev() {
            let object = link.as_object().unwrap();
            // SAFETY: the chain's objects, in their order; nothing is allocated meanwhile.
            unsafe {
                assert_eq!(mutator.type_raw(object), self.kinds[number as usize % 4]);
                for slot in self.slots(number) {
                    let leaf = mutator.load_raw(object, slot).as_object().unwrap();
                    assert_eq!(word(leaf, FIELDS).read(), number + slot as u64);
                }
                let next = if number % 4 == 3 { 8 } else { 16 };
                link = mutator.load_raw(object, next);
            }
        }
        assert!(link.is_null());
    }
}

fn heap(references: References, stress: u32) -> Heap {
    with_policy(references, stress, OldPolicy::MarkCompact)
}

fn with_policy(references: References, stress: u32, old: OldPolicy) -> Heap {
    Heap::builder()
        .old(old)
        .limit(6 << 20)
        .young(1 << 20)
        .references(references)
        .workers(3)
        .verify(true)
        .poison(true)
        .stress(stress)
        .build()
        .unwrap()
}

const FORMATS: [References; 2] = [References::Wide, References::Compressed];

fn chains(stress: u32, count: u64, rounds: usize) {
    let policies = [OldPolicy::MarkCompact, OldPolicy::MarkSweep];
    for (references, old) in FORMATS
        .iter()
        .flat_map(|&references| policies.map(|old| (references, old)))
    {
        let heap = with_policy(references, stress, old);
        let types = Types::register(&heap);
        let mut mutator = heap.attach().unwrap();
        let first = types.chain(&mut mutator, count);
        // SAFETY: a valid reference.
        unsafe {
            mutator.with_roots([first], |mutator, roots| {
                for round in 0..rounds {
                    let other = types.chain(mutator, count);
                    types.check(mutator, other, count);
                    types.check(mutator, roots[0].get(), count);
                    mutator.collect(round % 2 == 0);
                    types.check(mutator, roots[0].get(), count);
                }
            });
        }
        let totals = mutator.totals();
        assert!(
            totals.scavenges > 1 && totals.full_collections > 1,
            "{totals:?}"
        );
    }
}

#[test]
fn chains_survive_collections() {
    chains(0, 3000, 8);
    assert!(SIZES_ASKED.load(Ordering::Relaxed) > 1000);
}

#[test]
fn chains_survive_a_collection_at_every_allocation() {
    chains(1, 60, 2);
}

/// A large object is born old: what is stored into its tail is found by its cards alone.
#[test]
fn the_tail_of_an_old_object_is_scanned_by_cards() {
    const LENGTH: u32 = 20_000;
    for references in FORMATS {
        let heap = heap(references, 0);
        let types = Types::register(&heap);
        let mut mutator = heap.attach().unwrap();
        for (kind, head, element, slot) in [(0, 32, 24, 8), (1, 24, 16, 0)] {
            let bytes = tailed_bytes(head, LENGTH, element);
            // SAFETY: the type has this layout, and roots hold what is needed.
            unsafe {
                let large = mutator
                    .allocate_array_raw(types.kinds[kind], LENGTH, bytes)
                    .unwrap();
                if kind == 1 {
                    (0..LENGTH as usize).for_each(|index| word(large, 32 + index * 16).write(1));
                }
                mutator.with_roots([Value::reference(large)], |mutator, roots| {
                    let at = |index: usize| head + index * element + slot;
                    for index in (0..LENGTH as usize).step_by(371) {
                        let leaf = types.leaf(mutator, index as u64);
                        mutator.store_raw(roots[0].get().as_object().unwrap(), at(index), leaf);
                    }
                    mutator.collect(false);
                    mutator.collect(false);
                    mutator.collect(true);
                    let large = roots[0].get().as_object().unwrap();
                    for index in 0..LENGTH as usize {
                        let leaf = mutator.load_raw(large, at(index)).as_object();
                        assert_eq!(leaf.is_some(), index.is_multiple_of(371));
                        if let Some(leaf) = leaf {
                            assert_eq!(word(leaf, FIELDS).read(), index as u64);
                        }
                    }
                });
            }
        }
    }
}

#[test]
fn wrong_heads_and_sizes_are_refused() {
    let heap = heap(References::Wide, 0);
    let trace = Trace {
        function: trace_mapped,
        data: std::ptr::null_mut(),
    };
    let traced = |size| heap.register_raw(Shape::Traced { size, trace });
    assert_eq!(traced(Size::Fixed(8)), Err(TypeError::Size(8)));
    let size = Size::Tailed {
        head: 8,
        element: 4,
    };
    assert_eq!(traced(size), Err(TypeError::Size(8)));
    let size = Size::Tailed {
        head: 16,
        element: 0,
    };
    let error = traced(size).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("elements of 0 bytes behind a head"),
        "{error}"
    );
}
