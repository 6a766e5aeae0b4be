//! What arrays in pieces that shrink give back, and what they keep.

use super::heap;
use super::used::{array, assert_holds, used, write};
use gleaner::raw::Value;
use gleaner::{Handle, Heap, Mutator, ReferenceArray, Structure, Type};

/// Bytes of an array.
const BYTES: usize = 2 << 20;
/// What is left of it: whole arraylets of no size.
const LEFT: usize = 300_008;

/// Shrinks an array in pieces to `length` elements.
fn shrink(mutator: &mut Mutator, array: &Handle, length: usize) {
    let object = array.get_raw().as_object().unwrap();
    assert!(mutator.is_cut(object));
    // SAFETY: an array, over which no cursor is open; there is no other thread.
    unsafe { mutator.shrink_raw(object, length as u32) };
    assert!(mutator.is_cut(object), "compiled code may know that it is");
}

/// A dense array, young or old: what it had to itself is free after a scavenge.
pub fn dense(options: &str) {
    let heap = heap(&format!("heap-limit=24m,{options}"));
    let mut mutator = heap.attach().unwrap();
    let before = used(&heap, &mut mutator);
    for is_old in [false, true] {
        let array = array(&mut mutator, &heap, BYTES);
        write(&mut mutator, &array, 64, 5);
        if is_old {
            mutator.collect(true);
        }
        let full = heap.used();
        assert!(full > before + BYTES);
        shrink(&mut mutator, &array, LEFT / 8);
        assert_eq!(heap.used(), full, "an array that shrinks collects");
        mutator.collect(false);
        let left = heap.used();
        assert!(
            left + (BYTES - LEFT) / 10 * 9 < full,
            "{full} bytes before, {left} after"
        );
        assert_holds(&mut mutator, &array, 64, 5);
        // What it gave back is used again, and it is not.
        let other = super::used::array(&mut mutator, &heap, BYTES);
        write(&mut mutator, &other, 64, 9);
        assert_holds(&mut mutator, &array, 64, 5);
        shrink(&mut mutator, &array, 0);
        shrink(&mut mutator, &array, 0);
        drop(array);
        let only = used(&heap, &mut mutator);
        assert!(only < before + BYTES + BYTES / 10, "{only} bytes");
        assert_holds(&mut mutator, &other, 64, 9);
    }
    let after = used(&heap, &mut mutator);
    assert!(
        after < before + (128 << 10),
        "{before} bytes before, {after} after"
    );
}

/// An old array that loses an arraylet at a time: a scavenge, which frees no old ones itself, finds them free.
pub fn one_by_one(options: &str) {
    let heap = heap(&format!("heap-limit=24m,{options}"));
    let mut mutator = heap.attach().unwrap();
    let arraylet = 1 << heap.fast_paths().arraylet_shift;
    let array = array(&mut mutator, &heap, BYTES);
    write(&mut mutator, &array, 64, 5);
    let full = used(&heap, &mut mutator);
    let mut left = BYTES;
    while left > LEFT + arraylet {
        left -= arraylet;
        shrink(&mut mutator, &array, left / 8);
    }
    mutator.collect(false);
    let after = heap.used();
    assert!(
        after + (BYTES - left) / 10 * 9 < full,
        "{full} bytes before, {after} after"
    );
    assert_holds(&mut mutator, &array, 64, 5);
}

/// One of two arrays that share all arraylets: the other one keeps them.
pub fn shared(options: &str) {
    let heap = heap(&format!("heap-limit=24m,{options}"));
    let mut mutator = heap.attach().unwrap();
    let before = used(&heap, &mut mutator);
    let first = array(&mut mutator, &heap, BYTES);
    write(&mut mutator, &first, 64, 5);
    let copy = array(&mut mutator, &heap, BYTES);
    mutator.scope(|scope| {
        let [from, to] = [&first, &copy].map(|array| scope.open(array));
        scope.copy_elements(from, 0..BYTES / 8, to, 0).unwrap();
    });
    let both = used(&heap, &mut mutator);
    assert!(both < before + BYTES + BYTES / 4, "{both} bytes");
    shrink(&mut mutator, &copy, LEFT / 8);
    for everything in [false, true] {
        mutator.collect(everything);
        assert_holds(&mut mutator, &first, 64, 5);
        assert_holds(&mut mutator, &copy, 64, 5);
    }
    assert!(heap.used() > before + BYTES);
    // Its last arraylet, of which it has a part: from now on it has one to itself.
    mutator.scope(|scope| {
        let copy = scope.open(&copy);
        scope.write_u64(copy, LEFT / 8 - 1, 5).unwrap();
        scope.write_u64(copy, LEFT / 8 - 1, 0).unwrap();
    });
    mutator.collect(true);
    assert_holds(&mut mutator, &first, 64, 5);
    assert_holds(&mut mutator, &copy, 64, 5);
    drop(first);
    let left = used(&heap, &mut mutator);
    assert!(left < before + LEFT + (128 << 10), "{left} bytes");
    assert_holds(&mut mutator, &copy, 64, 5);
}

/// Where each element refers to an object of its own.
const OBJECTS: usize = 4001;

fn references(mutator: &mut Mutator, list: ReferenceArray, node: Type) -> Handle {
    mutator.scope(|scope| {
        let array = scope.allocate_references(list, OBJECTS as u32).unwrap();
        for index in 0..OBJECTS {
            scope.nested(|scope| {
                let object = scope.allocate(node).unwrap();
                scope.write_u64(object, 0, index as u64).unwrap();
                scope.set(array, index, object).unwrap();
            });
        }
        scope.handle(array).unwrap()
    })
}

fn objects(heap: &Heap) -> (ReferenceArray, Type) {
    let structure = Structure {
        references: 0,
        bytes: 8,
    };
    (
        heap.reference_array().unwrap(),
        heap.structure(structure).unwrap(),
    )
}

/// What the elements that are gone referred to dies, whether they were in the spine, or in a piece of which others remain.
pub fn referents(options: &str) {
    let heap = heap(&format!("heap-limit=24m,{options}"));
    let (list, node) = objects(&heap);
    let mut mutator = heap.attach().unwrap();
    for is_old in [false, true] {
        let array = references(&mut mutator, list, node);
        if is_old {
            mutator.collect(true);
        }
        for left in [OBJECTS - 1, 3001, 2900, 1100, 1024, 1023, 500, 7, 0] {
            shrink(&mut mutator, &array, left);
            mutator.collect(true);
            let mut found = 0;
            mutator.walk(&mut |object| {
                found += usize::from(object.header.type_id() == node.id());
            });
            assert_eq!(found, left);
            mutator.scope(|scope| {
                let array = scope.open(&array);
                assert_eq!(scope.length(array) as usize, left);
                for index in 0..left {
                    scope.nested(|scope| {
                        let object = scope.get(array, index);
                        assert_eq!(scope.read_u64(object, 0), index as u64);
                    });
                }
            });
        }
    }
}

/// An immortal array shrinks, too. All its arraylets are its own, still.
pub fn immortal(options: &str) {
    let heap = heap(&format!("heap-limit=24m,{options}"));
    let (list, _) = objects(&heap);
    let mut mutator = heap.attach().unwrap();
    let array = mutator.scope(|scope| {
        let array = scope.allocate_immortal_references(list, 200_000).unwrap();
        scope.handle(array).unwrap()
    });
    let full = used(&heap, &mut mutator);
    shrink(&mut mutator, &array, 50_001);
    let left = used(&heap, &mut mutator);
    assert!(left < full - full / 2, "{full} bytes before, {left} after");
    // SAFETY: the array has these elements, and null and an immediate are valid.
    unsafe {
        for index in 0..50_001 {
            let object = array.get_raw().as_object().unwrap();
            assert_eq!(mutator.load_element_raw(object, index), Value::NULL);
            let value = Value::immediate(index as i64);
            mutator.store_element_raw(object, index, value).unwrap();
        }
    }
    mutator.collect(true);
    let object = array.get_raw().as_object().unwrap();
    for index in 0..50_001 {
        // SAFETY: the array has this element.
        let value = unsafe { mutator.load_element_raw(object, index) };
        assert_eq!(value, Value::immediate(index as i64));
    }
}
