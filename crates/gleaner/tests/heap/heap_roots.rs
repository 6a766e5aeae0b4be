//! Roots of a heap: ranges of either width, in more than one task, the heap's root visitor, derived pointers, handles that
//! are set. Under both slot formats and both policies of the old generation, with the verifier and poison.

use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use gleaner::raw::{
    Address, Compressed, FIELDS, Fresh, HeapRootVisitor, NewObject, RootRange, RootRangeError,
    RootWidth, Shape, SlotFormat, TypeId, Value, Visitor, Wide,
};
use gleaner::{Heap, Mutator, References, Structure};

use crate::setups::{SETUPS, checked, checked_under};

/// Slots of one task of a collection.
const TASK: usize = 4096;

/// Each heap in turn: a type of objects with a slot and a number.
fn in_each_heap(body: impl Fn(&Heap, TypeId)) {
    for setup in SETUPS {
        let heap = checked_under(setup, 16 << 20).workers(3).build().unwrap();
        let shape = Shape::Structure {
            bytes: 24,
            references: &[8],
        };
        let of = heap.register_raw(shape).unwrap();
        body(&heap, of);
    }
}

fn node(mutator: &mut Mutator, of: TypeId, number: usize) -> Value {
    let new = NewObject::structure(of, 24);
    // SAFETY: the callers have what they need in roots, and an object of the type has room for the number.
    unsafe {
        let object = mutator.allocate_raw(new, Fresh::Zeroed).unwrap();
        object.add(16).ptr::<usize>().write(number);
        Value::reference(object)
    }
}

fn number_of(value: Value) -> usize {
    let object = value.as_object().expect("an object");
    // SAFETY: the callers' objects are alive, and have their number there.
    unsafe { object.add(16).ptr::<usize>().read() }
}

/// Collections of each kind, and `check` after each.
fn collect_and(mutator: &mut Mutator, check: impl Fn(&mut Mutator)) {
    // Copied twice, promoted, marked and slid twice.
    for everything in [false, false, false, true, true] {
        mutator.collect(everything);
        check(mutator);
    }
}

/// Memory of root slots.
struct Globals {
    words: Box<[UnsafeCell<u64>]>,
    width: RootWidth,
    slots: usize,
    base: Address,
}

impl Globals {
    fn new(mutator: &mut Mutator, slots: usize, width: RootWidth) -> Globals {
        // SAFETY: the record of this mutator.
        let base = unsafe { (*mutator.published()).base };
        Globals {
            words: (0..slots).map(|_| UnsafeCell::new(0)).collect(),
            width,
            slots,
            base,
        }
    }

    fn is_narrow(&self, mutator: &Mutator) -> bool {
        self.width == RootWidth::Slots && mutator.heap().references() == References::Compressed
    }

    fn start(&self) -> Address {
        Address::of(self.words[0].get())
    }

    fn range(&self) -> RootRange {
        RootRange {
            start: self.start(),
            slots: self.slots,
            width: self.width,
        }
    }

    fn get(&self, mutator: &Mutator, index: usize) -> Value {
        // SAFETY: a slot of this memory, of that format.
        unsafe {
            if self.is_narrow(mutator) {
                Compressed::load(self.start().add(index * 4), self.base)
            } else {
                Wide::load(self.start().add(index * 8), self.base)
            }
        }
    }

    fn set(&self, mutator: &Mutator, index: usize, value: Value) {
        // SAFETY: a slot of this memory, of that format; the values are valid.
        unsafe {
            if self.is_narrow(mutator) {
                Compressed::store(self.start().add(index * 4), self.base, value);
            } else {
                Wide::store(self.start().add(index * 8), self.base, value);
            }
        }
    }
}

/// Two long ranges, and many short ones.
fn globals(mutator: &mut Mutator) -> Vec<Globals> {
    let mut all = Vec::new();
    for width in [RootWidth::Values, RootWidth::Slots] {
        all.push(Globals::new(mutator, 2 * TASK + 5, width));
        all.extend((0..50).map(|number| Globals::new(mutator, 1 + number % 3, width)));
    }
    all
}

#[test]
fn each_slot_of_a_range_keeps_its_object() {
    in_each_heap(|heap, of| {
        let mut mutator = heap.attach().unwrap();
        let all = globals(&mut mutator);
        for part in &all {
            // SAFETY: the slots are null, and remain until they are unregistered.
            unsafe { mutator.add_root_range(part.range()) }.unwrap();
        }
        let numbers = || {
            let places = all.iter().enumerate();
            let places = places.flat_map(|(part, of)| (0..of.slots).map(move |slot| (part, slot)));
            places.enumerate()
        };
        for (number, (part, slot)) in numbers() {
            // Each seventh refers to none.
            let value = match number % 7 {
                0 => Value::immediate(number as i64),
                _ => node(&mut mutator, of, number),
            };
            all[part].set(&mutator, slot, value);
        }
        let check = |mutator: &mut Mutator| {
            for (number, (part, slot)) in numbers() {
                let value = all[part].get(mutator, slot);
                match number % 7 {
                    0 => assert_eq!(value, Value::immediate(number as i64)),
                    _ => assert_eq!(number_of(value), number, "slot {slot} of {part}"),
                }
            }
        };
        collect_and(&mut mutator, check);
        // A store into a root of an old object's place takes no barrier.
        let fresh = node(&mut mutator, of, 77);
        all[0].set(&mutator, 0, fresh);
        mutator.collect(false);
        assert_eq!(number_of(all[0].get(&mutator, 0)), 77);
        for (number, part) in all.iter().enumerate() {
            let range = part.range();
            assert_eq!(
                mutator.remove_root_range(range.start),
                Ok(range),
                "{number}"
            );
            assert_eq!(
                mutator.remove_root_range(range.start),
                Err(RootRangeError::Unknown)
            );
        }
        mutator.collect(true);
        assert_eq!(heap.used(), 0, "objects are alive that no range keeps");
    });
}

#[test]
fn a_range_outlives_the_mutator_that_registered_it() {
    in_each_heap(|heap, of| {
        let mut mutator = heap.attach().unwrap();
        let part = Globals::new(&mut mutator, 1, RootWidth::Slots);
        let fresh = node(&mut mutator, of, 5);
        part.set(&mutator, 0, fresh);
        // SAFETY: the slot holds a valid value, and remains until it is unregistered.
        unsafe { mutator.add_root_range(part.range()) }.unwrap();
        drop(mutator);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                heap.attach().unwrap().collect(false);
            });
        });
        let mut other = heap.attach().unwrap();
        other.collect(true);
        assert_eq!(number_of(part.get(&other, 0)), 5);
        // In the heap itself there are no roots.
        let object = part.get(&other, 0).as_object().unwrap();
        let inside = RootRange {
            start: object.add(FIELDS),
            ..part.range()
        };
        // SAFETY: it is refused.
        let refused = unsafe { other.add_root_range(inside) };
        assert_eq!(refused, Err(RootRangeError::InHeap));
        other.remove_root_range(part.start()).unwrap();
    });
}

/// What the visitor of a heap finds: a base for each part, and two words that were derived from it.
struct Parts {
    bases: Vec<Cell<u64>>,
    derived: Vec<[Cell<usize>; 2]>,
    visits: AtomicUsize,
}

unsafe extern "C" fn visit_part(data: *mut (), part: usize, visitor: *mut Visitor) {
    // SAFETY: the data are those that the visitor was set with.
    let parts = unsafe { &*data.cast::<Parts>() };
    parts.visits.fetch_add(1, Ordering::Relaxed);
    let places = parts.derived[part]
        .each_ref()
        .map(|word| word.as_ptr().cast::<u8>());
    // SAFETY: the base is a root slot; the words lead into its object, if it has one.
    unsafe { Visitor::visit_derived(visitor, parts.bases[part].as_ptr().cast(), &places) };
}

#[test]
fn derived_pointers_keep_their_offsets() {
    const PARTS: usize = 700;
    in_each_heap(|heap, of| {
        let parts = Parts {
            bases: vec![Cell::new(0); PARTS],
            derived: vec![[const { Cell::new(0) }; 2]; PARTS],
            visits: AtomicUsize::new(0),
        };
        let mut mutator = heap.attach().unwrap();
        let visitor = HeapRootVisitor {
            function: visit_part,
            parts: PARTS,
            data: (&raw const parts).cast_mut().cast(),
        };
        // SAFETY: the function visits the same roots each time, and the parts remain until it is taken back.
        unsafe { mutator.set_heap_root_visitor(Some(visitor)) };
        for part in 0..PARTS {
            if part % 5 == 0 {
                // What was derived from nothing is no pointer.
                parts.derived[part][0].set(part);
                continue;
            }
            let base = node(&mut mutator, of, part).as_object().unwrap();
            parts.bases[part].set(base.word() as u64);
            parts.derived[part][0].set(base.word() + part % 24);
            parts.derived[part][1].set(base.word() + 24);
        }
        let before: Vec<u64> = parts.bases.iter().map(Cell::get).collect();
        collect_and(&mut mutator, |_| {
            for part in 0..PARTS {
                let base = parts.bases[part].get();
                let derived = parts.derived[part].each_ref().map(Cell::get);
                if part % 5 == 0 {
                    assert_eq!((base, derived), (0, [part, 0]));
                    continue;
                }
                assert_eq!(number_of(Value::from_bits(base)), part);
                let base = base as usize;
                assert_eq!(derived, [base + part % 24, base + 24], "part {part}");
            }
        });
        assert!(
            parts
                .bases
                .iter()
                .zip(&before)
                .any(|(base, &old)| base.get() != old)
        );
        assert!(parts.visits.load(Ordering::Relaxed) >= 5 * PARTS);
        // SAFETY: none is always right.
        unsafe { mutator.set_heap_root_visitor(None) };
        let visits = parts.visits.load(Ordering::Relaxed);
        mutator.collect(true);
        assert_eq!(parts.visits.load(Ordering::Relaxed), visits);
        assert_eq!(heap.used(), 0);
    });
}

#[test]
fn a_handle_keeps_what_was_set_last() {
    let shape = Structure {
        references: 0,
        bytes: 8,
    };
    let [heap, other] = [(); 2].map(|()| Heap::builder().limit(1 << 20).build().unwrap());
    let of = heap.structure(shape).unwrap();
    let strange = other.attach().unwrap().scope(|scope| {
        let null = scope.null();
        scope.handle(null).unwrap()
    });
    heap.attach().unwrap().scope(|scope| {
        let (handle, dead) = scope.nested(|scope| {
            let [one, two] = [1, 2].map(|number| {
                let object = scope.allocate(of).unwrap();
                scope.write_u64(object, 0, number).unwrap();
                object
            });
            let handle = scope.handle(one).unwrap();
            let dead = scope.weak(one).unwrap();
            scope.set_handle(&handle, two);
            (handle, dead)
        });
        for everything in [false, true] {
            scope.collect(everything);
            let kept = scope.open(&handle);
            assert_eq!(scope.read_u64(kept, 0), 2);
        }
        let gone = scope.upgrade(&dead);
        assert!(scope.is_null(gone), "the handle keeps what it held before");
        let refused = catch_unwind(AssertUnwindSafe(|| scope.set_handle(&strange, gone)));
        let said = refused.unwrap_err();
        assert_eq!(
            said.downcast_ref::<&str>(),
            Some(&"a handle of another heap")
        );
    });
}

/// Collections of the young generation go by handles whose objects are old; one that is set is looked at again.
#[test]
fn an_old_handle_that_is_set_keeps_a_young_object() {
    let heap = checked(4 << 20).build().unwrap();
    let of = heap.structure(Structure {
        references: 0,
        bytes: 8,
    });
    let of = of.unwrap();
    heap.attach().unwrap().scope(|scope| {
        let handle = scope.nested(|scope| {
            let old = scope.allocate(of).unwrap();
            scope.handle(old).unwrap()
        });
        for number in 0..20 {
            // What the handle keeps is old behind these.
            (0..3).for_each(|_| scope.collect(false));
            scope.nested(|scope| {
                let young = scope.allocate(of).unwrap();
                scope.write_u64(young, 0, number).unwrap();
                scope.set_handle(&handle, young);
            });
            scope.collect(false);
            scope.nested(|scope| {
                let kept = scope.open(&handle);
                assert_eq!(scope.read_u64(kept, 0), number);
            });
        }
    });
}

/// Threads count by compare-and-swap of a list's head: what one put there is lost to no other.
#[test]
fn mutators_race_for_the_slot_of_a_structure() {
    const THREADS: usize = 4;
    const EACH: usize = 400;
    for references in [References::Wide, References::Compressed] {
        let heap = Heap::builder()
            .limit(4 << 20)
            .references(references)
            .workers(2)
            .verify(true)
            .poison(true)
            .stress(50)
            .build()
            .unwrap();
        let of = heap
            .structure(Structure {
                references: 1,
                bytes: 8,
            })
            .unwrap();
        let head = heap.attach().unwrap().scope(|scope| {
            let head = scope.allocate(of).unwrap();
            scope.handle(head).unwrap()
        });
        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                let (heap, head) = (&heap, &head);
                threads.spawn(move || {
                    heap.attach().unwrap().scope(|scope| {
                        let list = scope.open(head);
                        for number in 0..EACH {
                            scope.nested(|scope| {
                                let new = scope.allocate(of).unwrap();
                                let number = (thread * EACH + number) as u64;
                                scope.write_u64(new, 0, number).unwrap();
                                let first = scope.null();
                                loop {
                                    scope.load(list, 0, first);
                                    scope.set(new, 0, first).unwrap();
                                    if scope.compare_exchange(list, 0, first, new).unwrap() {
                                        break;
                                    }
                                }
                            });
                        }
                    });
                });
            }
        });
        heap.attach().unwrap().scope(|scope| {
            scope.collect(true);
            let mut seen = vec![false; THREADS * EACH];
            let next = scope.open(&head);
            scope.load(next, 0, next);
            while !scope.is_null(next) {
                let number = scope.read_u64(next, 0) as usize;
                assert!(!std::mem::replace(&mut seen[number], true), "{number}");
                scope.load(next, 0, next);
            }
            assert!(seen.iter().all(|&seen| seen), "nodes are lost");
        });
    }
}
