//! Types with elements behind a head, and types with a trace function: chains of such objects, under both slot formats,
//! with the verifier and poison, with a collection now and then and at every allocation. What is no slot holds numbers
//! that look like references, so a slot too many is found as surely as one too few.

#[path = "../programs/shapes.rs"]
#[allow(dead_code, reason = "shared with the random programs")]
mod shapes;

use std::sync::atomic::Ordering;

use crate::setups::{FORMATS, checked_under};
use gleaner::raw::{self, Address, FIELDS, NewObject, Shape, Size, Trace, TypeId, Value};
use gleaner::{Heap, Mutator, OldPolicy, References, TypeError};
use shapes::{FIRST, Form, Fresh, KINDS, Shapes};

fn word(object: Address, offset: usize) -> *mut u64 {
    object.add(offset).ptr()
}

struct Types {
    leaf: TypeId,
    shapes: Shapes,
}

/// What object `number` of a chain is.
fn form(number: u64) -> Form {
    Form {
        kind: number as usize % KINDS,
        length: (number % 7) as u32,
        number,
    }
}

impl Types {
    fn register(heap: &Heap) -> Types {
        let leaf = Shape::Structure {
            bytes: 16,
            references: &[],
        };
        Types {
            leaf: heap.register_raw(leaf).unwrap(),
            shapes: Shapes::register(heap),
        }
    }

    fn leaf(&self, mutator: &mut Mutator, number: u64) -> Value {
        // SAFETY: the callers have what they need in roots.
        unsafe {
            let leaf = mutator
                .allocate_raw(NewObject::structure(self.leaf, 16), raw::Fresh::Zeroed)
                .unwrap();
            word(leaf, FIELDS).write(number);
            Value::reference(leaf)
        }
    }

    fn allocate(&self, mutator: &mut Mutator, form: Form) -> Address {
        // SAFETY: the callers have what they need in roots.
        unsafe { self.shapes.allocate(mutator, form, Fresh::Zeroed) }.unwrap()
    }

    /// Where an object has its leaves: in all slots but the first, which is for the next object.
    fn leaves(&self, form: Form) -> Vec<usize> {
        self.shapes.slots(form).split_off(1)
    }

    /// A chain of the objects `0..count`, the last one first; drops as many on the way.
    fn chain(&self, mutator: &mut Mutator, count: u64) -> Value {
        // SAFETY: what is needed over an allocation is in a root, and the offsets are those of slots.
        unsafe {
            mutator.with_roots([Value::NULL; 2], |mutator, roots| {
                for form in (0..count).map(form) {
                    self.allocate(mutator, form);
                    let object = self.allocate(mutator, form);
                    roots[1].set(Value::reference(object));
                    mutator.store_raw(object, FIRST, roots[0].get());
                    for slot in self.leaves(form) {
                        let leaf = self.leaf(mutator, form.number + slot as u64);
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
        for form in (0..count).rev().map(form) {
            let object = link.as_object().unwrap();
            // SAFETY: the chain's objects, in their order; nothing is allocated meanwhile.
            unsafe {
                self.shapes.check(mutator, object, form);
                for slot in self.leaves(form) {
                    let leaf = mutator.load_raw(object, slot).as_object().unwrap();
                    assert_eq!(word(leaf, FIELDS).read(), form.number + slot as u64);
                }
                link = mutator.load_raw(object, FIRST);
            }
        }
        assert!(link.is_null());
    }
}

fn heap(references: References, stress: u32) -> Heap {
    with_policy(references, stress, OldPolicy::MarkCompact)
}

fn with_policy(references: References, stress: u32, old: OldPolicy) -> Heap {
    checked_under((references, old), 6 << 20)
        .young(1 << 20)
        .workers(3)
        .stress(stress)
        .build()
        .unwrap()
}

fn chains(stress: u32, count: u64, rounds: usize) {
    let policies = [
        OldPolicy::MarkCompact,
        OldPolicy::MarkSweep,
        OldPolicy::MarkRegion,
    ];
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
    assert!(shapes::SIZES_ASKED.load(Ordering::Relaxed) > 1000);
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
        for kind in [shapes::PAIRS, shapes::SLOTS, shapes::TAGGED, shapes::SIZED] {
            let form = Form {
                kind,
                length: LENGTH,
                number: 0,
            };
            let large = types.allocate(&mut mutator, form);
            let slots = types.leaves(form);
            // SAFETY: a valid reference, and the offsets of its slots.
            unsafe {
                mutator.with_roots([Value::reference(large)], |mutator, roots| {
                    for (index, &slot) in slots.iter().enumerate().step_by(371) {
                        let leaf = types.leaf(mutator, index as u64);
                        mutator.store_raw(roots[0].get().as_object().unwrap(), slot, leaf);
                    }
                    mutator.collect(false);
                    mutator.collect(false);
                    mutator.collect(true);
                    let large = roots[0].get().as_object().unwrap();
                    types.shapes.check(mutator, large, form);
                    for (index, &slot) in slots.iter().enumerate() {
                        let leaf = mutator.load_raw(large, slot).as_object();
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
        function: shapes::trace_mapped,
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
