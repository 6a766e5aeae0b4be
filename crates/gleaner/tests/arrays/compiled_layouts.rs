//! Code that is compiled for one layout of arrays: seeded accesses through it leave what a vector has, in heaps of that
//! layout, while arraylets are instantiated, shared and taken back.

use std::fmt::Debug;

use crate::random::Rng;
use gleaner::Heap;
use gleaner::raw::{
    AnyArrays, Compressed, CutArrays, Element, Fresh, In, Layout, NewObject, Number, Shape, TypeId,
    Value, WholeArrays, Wide, array_bytes,
};

/// Arrays of a program, and elements of each beyond several arraylets.
const ARRAYS: usize = 4;
const LENGTH: usize = 3000;
const STEPS: usize = 4000;

/// Numbers that are elements here, and how one is made of a word.
trait Cut: Number + PartialEq + Debug {
    fn of(word: u64) -> Self;
}

impl Cut for u8 {
    fn of(word: u64) -> u8 {
        word as u8
    }
}

impl Cut for u32 {
    fn of(word: u64) -> u32 {
        word as u32
    }
}

impl Cut for i64 {
    fn of(word: u64) -> i64 {
        word as i64
    }
}

/// Numbers of `T`, through code for the layout `L`.
fn numbers<L: Layout, T: Cut>(heap: &Heap, seed: u64) {
    let of = T::of;
    let log2 = T::BYTES.trailing_zeros();
    let id: TypeId = heap.register_raw(Shape::Primitives { log2 }).unwrap();
    let mut rng = Rng::new(seed);
    let mut model = vec![vec![of(0); LENGTH]; ARRAYS];
    let mut mutator = heap.attach().unwrap();
    let length = LENGTH as u32;
    let body = |mutator: &mut gleaner::Mutator, roots: &[std::cell::Cell<Value>; ARRAYS]| {
        let array = |root: usize| roots[root].get().as_object().unwrap();
        // SAFETY: arrays of such numbers, which are in roots, with these elements; there is no other thread. None is pinned
        // or of a type that is excluded.
        unsafe {
            for root in roots {
                let bytes = array_bytes(length, log2);
                let made = mutator
                    .allocate_raw(NewObject::array(id, length, bytes), Fresh::Zeroed)
                    .unwrap();
                root.set(Value::reference(made));
            }
            for _ in 0..STEPS {
                let [root, other] = [(); 2].map(|()| rng.below(ARRAYS));
                let index = rng.below(LENGTH);
                // Zeros now and then: what is zero already is not instantiated for them.
                let number = of(if rng.one_in(4) { 0 } else { rng.next() });
                match rng.below(9) {
                    0 | 1 => {
                        let at = array(root);
                        mutator
                            .store_element_in::<In<L, T>>(at, index, number)
                            .unwrap();
                        model[root][index] = number;
                    }
                    2 | 3 => {
                        let before = model[root][index];
                        let change = |found: T| {
                            assert_eq!(found, before, "element {index} is changed");
                            number
                        };
                        let at = array(root);
                        mutator
                            .update_element_in::<In<L, T>>(at, index, change)
                            .unwrap();
                        model[root][index] = number;
                    }
                    4 => {
                        let expected = if rng.one_in(2) {
                            model[root][index]
                        } else {
                            number
                        };
                        let done = mutator
                            .compare_exchange_element_in::<In<L, T>>(
                                array(root),
                                index,
                                expected,
                                of(9),
                            )
                            .unwrap();
                        let found = model[root][index];
                        assert_eq!(
                            done,
                            if found == expected {
                                Ok(())
                            } else {
                                Err(found)
                            }
                        );
                        if done.is_ok() {
                            model[root][index] = of(9);
                        }
                    }
                    5 => {
                        let count = rng.below(LENGTH - index);
                        let (from, to) = ((array(root), 0), (array(other), index));
                        let differs =
                            (0..count).find(|&at| model[root][at] != model[other][index + at]);
                        assert_eq!(mutator.compare_elements_raw(from, to, count), differs);
                        if rng.one_in(3) {
                            let (from, to) = (array(root), array(other));
                            mutator.copy_elements_raw(from, 0, to, 0, length).unwrap();
                            model[other] = model[root].clone();
                            let all = ((array(root), 0), (array(other), 0));
                            assert_eq!(mutator.compare_elements_raw(all.0, all.1, LENGTH), None);
                        }
                    }
                    6 => {
                        let count = (LENGTH - index).min(700);
                        let mut cursor = mutator
                            .cursor_mut::<In<L, T>>(array(root), index, count)
                            .unwrap();
                        for number in &mut model[root][index..index + count] {
                            assert_eq!(cursor.load(), Some(*number));
                            *number = of(rng.below(3) as u64);
                            assert!(cursor.store(*number));
                        }
                    }
                    7 => {
                        let count = (LENGTH - index).min(700);
                        let cursor = mutator.cursor::<In<L, T>>(array(root), index, count);
                        assert!(cursor.eq(model[root][index..index + count].iter().copied()));
                        if rng.one_in(20) {
                            mutator.collect(rng.one_in(2));
                        }
                    }
                    _ => {
                        let found = mutator.load_element_in::<In<L, T>>(array(root), index);
                        assert_eq!(found, model[root][index], "element {index}");
                    }
                }
            }
            for (root, expected) in model.iter().enumerate() {
                let all = mutator.cursor::<In<L, T>>(array(root), 0, LENGTH);
                assert!(all.eq(expected.iter().copied()), "array {root}");
            }
        }
    };
    // SAFETY: null is valid, and the program keeps arrays in the roots.
    unsafe { mutator.with_roots([Value::NULL; ARRAYS], body) };
}

/// References, through code for the layout `L`: young objects that only an old array refers to stay.
fn references<L: Layout, F: Element<Item = Value>>(heap: &Heap, seed: u64) {
    let list = heap.register_raw(Shape::References).unwrap();
    let word = heap.register_raw(Shape::Primitives { log2: 3 }).unwrap();
    let mut rng = Rng::new(seed);
    let mut model = vec![None; LENGTH];
    let mut mutator = heap.attach().unwrap();
    let body = |mutator: &mut gleaner::Mutator, [root]: &[std::cell::Cell<Value>; 1]| {
        let array = || root.get().as_object().unwrap();
        // SAFETY: an array of references in a root, and arrays of one word in it.
        unsafe {
            let bytes = array_bytes(LENGTH as u32, F::BYTES.trailing_zeros());
            let made = mutator
                .allocate_raw(NewObject::array(list, LENGTH as u32, bytes), Fresh::Zeroed)
                .unwrap();
            root.set(Value::reference(made));
            for step in 0..STEPS as u64 {
                let index = rng.below(LENGTH);
                let made = mutator
                    .allocate_raw(NewObject::array(word, 1, array_bytes(1, 3)), Fresh::Zeroed)
                    .unwrap();
                mutator.store_element_in::<u64>(made, 0, step).unwrap();
                let value = Value::reference(made);
                if step.is_multiple_of(2) {
                    mutator
                        .store_element_in::<In<L, F>>(array(), index, value)
                        .unwrap();
                } else {
                    let change = |_| value;
                    mutator
                        .update_element_in::<In<L, F>>(array(), index, change)
                        .unwrap();
                }
                model[index] = Some(step);
                if step.is_multiple_of(500) {
                    mutator.collect(step.is_multiple_of(2000));
                }
            }
            mutator.collect(false);
            for (index, expected) in model.iter().enumerate() {
                let found = mutator.load_element_in::<In<L, F>>(array(), index);
                let found = found.as_object();
                let number = found.map(|found| mutator.load_element_in::<u64>(found, 0));
                assert_eq!(number, *expected, "element {index}");
            }
        }
    };
    // SAFETY: null is valid, and the program keeps its array in the root.
    unsafe { mutator.with_roots([Value::NULL; 1], body) };
}

/// Two heaps with these options.
fn heaps(options: &str) -> impl Iterator<Item = (u64, Heap)> {
    let options = format!("{options},verify=edges,poison=on,heap-limit=12m");
    (0..2).map(move |seed| {
        let builder = Heap::builder().options(&options).unwrap();
        (seed, builder.build().unwrap())
    })
}

fn all_numbers<L: Layout, T: Cut>(options: &str) {
    heaps(options).for_each(|(seed, heap)| numbers::<L, T>(&heap, seed));
}

fn all_references<L: Layout, F: Element<Item = Value>>(options: &str) {
    heaps(options).for_each(|(seed, heap)| references::<L, F>(&heap, 30 + seed));
}

/// The optimisations: none, the three that are the mutators', and all with those of the collector.
const MADE: [&str; 3] = [
    "lazy-arraylets=off",
    "lazy-arraylets=on,fast-copy=on",
    "lazy-arraylets=on,fast-copy=on,zero-compression=on,copy-on-write=on",
];

/// Numbers of one type beside wide references, of the other beside compressed ones: the three tests have each type beside
/// each, since compiling all takes long.
fn cut<const FIRST_N: usize, const ARRAYLET: usize, T: Cut, U: Cut>() {
    for made in MADE {
        // N of nothing is what `naive` has: `first-n` begins at 64.
        let first_n = if FIRST_N == 0 {
            String::new()
        } else {
            format!(",first-n={FIRST_N}")
        };
        let options = format!("arrays=naive{first_n},arraylet={ARRAYLET},{made}");
        let wide = format!("{options},refs=wide");
        all_numbers::<CutArrays<Wide, FIRST_N, ARRAYLET>, T>(&wide);
        all_references::<CutArrays<Wide, FIRST_N, ARRAYLET>, Wide>(&wide);
        let compressed = format!("{options},refs=compressed");
        all_numbers::<CutArrays<Compressed, FIRST_N, ARRAYLET>, U>(&compressed);
        all_references::<CutArrays<Compressed, FIRST_N, ARRAYLET>, Compressed>(&compressed);
        all_numbers::<AnyArrays, T>(&compressed);
        all_references::<AnyArrays, Compressed>(&compressed);
    }
}

#[test]
fn more_in_the_spine_than_in_an_arraylet() {
    cut::<4096, 1024, u8, i64>();
}

#[test]
fn less_in_the_spine_than_in_an_arraylet() {
    cut::<64, 2048, u32, u8>();
}

#[test]
fn nothing_in_the_spine() {
    cut::<0, 256, i64, u32>();
}

#[test]
fn arrays_in_one_piece() {
    all_numbers::<WholeArrays, u8>("refs=wide");
    all_numbers::<WholeArrays, i64>("refs=compressed");
    all_references::<WholeArrays, Wide>("refs=wide");
    all_references::<WholeArrays, Compressed>("refs=compressed");
}

/// Indices that take more than two bytes.
fn long<L: Layout>(options: &str) {
    let options = format!("{options},verify=edges,poison=on,heap-limit=12m");
    let heap = Heap::builder().options(&options).unwrap().build().unwrap();
    let id: TypeId = heap.register_raw(Shape::Primitives { log2: 1 }).unwrap();
    let mut mutator = heap.attach().unwrap();
    let length = 200_000_u32;
    let indices = [0, 65_535, 65_536, 65_537, 131_072, 131_073, 199_999];
    let body = |mutator: &mut gleaner::Mutator, [root]: &[std::cell::Cell<Value>; 1]| {
        // SAFETY: an array of such numbers, which is in a root, with these elements; there is no other thread.
        unsafe {
            let made = mutator
                .allocate_raw(
                    NewObject::array(id, length, array_bytes(length, 1)),
                    Fresh::Zeroed,
                )
                .unwrap();
            root.set(Value::reference(made));
            let array = || root.get().as_object().unwrap();
            for (number, &index) in (1_u16..).zip(&indices) {
                let at = array();
                mutator
                    .store_element_in::<In<L, u16>>(at, index, number)
                    .unwrap();
                let at = array();
                mutator
                    .update_element_in::<In<L, u16>>(at, index, |found| found + 100)
                    .unwrap();
            }
            for (number, &index) in (101_u16..).zip(&indices) {
                let found = mutator.load_element_in::<In<L, u16>>(array(), index);
                assert_eq!(found, number, "element {index}");
            }
            let all = mutator.cursor::<In<L, u16>>(array(), 0, length as usize);
            let written: Vec<_> = all
                .enumerate()
                .filter(|&(_, it)| it != 0)
                .map(|(index, _)| index)
                .collect();
            assert_eq!(written, indices);
        }
    };
    // SAFETY: null is valid, and the program keeps its array in the root.
    unsafe { mutator.with_roots([Value::NULL; 1], body) };
}

#[test]
fn elements_far_into_a_long_array_are_those_that_were_written() {
    long::<CutArrays<Wide, 4096, 1024>>("arrays=zray,refs=wide");
    long::<CutArrays<Wide, 0, 1024>>("arrays=naive-a,refs=wide");
    long::<AnyArrays>("arrays=zray,refs=compressed");
    long::<WholeArrays>("refs=wide");
}

/// What code that is compiled for a layout asks before it uses a heap.
#[test]
fn a_heap_says_how_its_arrays_are_cut() {
    for (options, cut, all) in [
        ("arrays=contiguous", None, false),
        ("arrays=zray", Some((4096, 1024)), true),
        ("arrays=naive", Some((0, 1024)), true),
        ("arrays=zray,first-n=64,arraylet=256", Some((64, 256)), true),
        (
            "arrays=zray,array-kinds=references",
            Some((4096, 1024)),
            false,
        ),
        (
            "arrays=zray,array-kinds=primitives",
            Some((4096, 1024)),
            false,
        ),
        ("arrays=zray,array-guard=on", Some((0, 1024)), false),
    ] {
        let builder = Heap::builder().limit(4 << 20).ignore_environment();
        let heap = builder.options(options).unwrap().build().unwrap();
        assert_eq!(
            (heap.cut_arrays(), heap.cuts_all_arrays()),
            (cut, all),
            "{options}"
        );
    }
}
