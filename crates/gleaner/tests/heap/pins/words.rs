//! Words of native code: what they hit, and what not.

use super::*;

/// Words that a test changes while the collector reads them.
struct Words(Box<[UnsafeCell<u64>]>);

impl Words {
    fn new(count: usize) -> Words {
        Words((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    fn set(&self, index: usize, word: usize) {
        // SAFETY: the words are this test's, and the collector reads them in stops alone.
        unsafe { *self.0[index].get() = word as u64 };
    }

    fn register(&self, mutator: &mut Mutator) {
        let range = WordRange {
            start: self.start(),
            words: self.0.len(),
            lowest: Address::NULL,
        };
        // SAFETY: the words live until the tests unregister them, or their heaps end.
        unsafe { mutator.add_words(range) }.unwrap();
    }

    fn start(&self) -> Address {
        Address::of(self.0[0].get())
    }
}

/// A type of objects of 32 bytes: header, slot, number, another.
fn raw_type(heap: &Heap) -> TypeId {
    let shape = Shape::Structure {
        bytes: 32,
        references: &[8],
    };
    heap.register_raw(shape).unwrap()
}

fn raw_node(mutator: &mut Mutator, of: TypeId, number: u64) -> Address {
    // SAFETY: nothing is held but by words, and the object has room for its number.
    unsafe {
        let new = NewObject::structure(of, 32);
        let object = mutator.allocate_raw(new, Fresh::Zeroed).unwrap();
        object.add(16).ptr::<u64>().write(number);
        object
    }
}

/// The numbers of all objects of a type that a walk finds.
fn numbers(mutator: &mut Mutator, of: TypeId) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    mutator.walk(&mut |found| {
        if found.header.type_id() == of {
            // SAFETY: an object of the type lies there.
            all.insert(unsafe { found.object.add(16).ptr::<u64>().read() });
        }
    });
    all
}

#[test]
fn words_keep_what_they_point_into_and_nothing_else() {
    in_place_too(
        8 * MB,
        |heap| heap.workers(3).ignore_environment(),
        |heap| {
            let of = raw_type(heap);
            let mut mutator = heap.attach().unwrap();
            let words = Words::new(8);
            words.register(&mut mutator);
            let other = heap_of(MB);
            let foreign = raw_node(&mut other.attach().unwrap(), raw_type(&other), 1);
            let nodes: Vec<Address> = (0..100)
                .map(|number| raw_node(&mut mutator, of, number))
                .collect();
            assert!(nodes.windows(2).all(|pair| pair[1] == pair[0].add(32)));
            words.set(0, nodes[10].word());
            words.set(1, nodes[20].add(31).word());
            words.set(2, nodes[30].add(32).word());
            words.set(3, nodes[99].add(32).word());
            words.set(4, foreign.word());
            words.set(5, usize::MAX);
            words.set(6, nodes[20].add(13).word());
            words.set(7, Address::of(&raw const words).word());
            let expected = BTreeSet::from([10, 20, 31]);
            for everything in [false, true, false, true] {
                mutator.collect(everything);
                assert_eq!(numbers(&mut mutator, of), expected);
                for number in [10, 20, 31] {
                    // SAFETY: the object is kept, with its number.
                    let found = unsafe { nodes[number].add(16).ptr::<u64>().read() };
                    assert_eq!(found, number as u64);
                }
            }
            words.set(1, 0);
            words.set(6, 0);
            mutator.collect(true);
            assert_eq!(numbers(&mut mutator, of), BTreeSet::from([10, 31]));
            mutator.remove_words(words.start()).unwrap();
            mutator.collect(true);
            assert_eq!(numbers(&mut mutator, of), BTreeSet::new());
        },
    );
}

/// What is left of a mutator's buffer is no object, whatever leads to it.
#[test]
fn words_into_what_is_between_objects_keep_nothing() {
    in_place_too(
        8 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let of = raw_type(heap);
            let mut mutator = heap.attach().unwrap();
            let words = Words::new(1);
            words.register(&mut mutator);
            for everything in [false, true] {
                let node = raw_node(&mut mutator, of, 1);
                words.set(0, node.add(40).word());
                mutator.collect(everything);
                assert_eq!(heap.used(), 0);
            }
            mutator.remove_words(words.start()).unwrap();
        },
    );
}

/// A thread outside of the gate may meet a collection that reads the table.
#[test]
#[should_panic(expected = "a range of words is unregistered")]
fn words_are_not_removed_in_a_blocking_region() {
    let heap = heap_of(MB);
    let mut mutator = heap.attach().unwrap();
    let words = Words::new(1);
    words.register(&mut mutator);
    // SAFETY: nothing is done in the region that needs the gate, but for what is refused.
    unsafe { mutator.blocking_begin() };
    let removed = mutator.remove_words(words.start());
    assert!(removed.is_ok(), "it was not refused");
}

/// Objects grow old, and all but a few die: words to where the others were keep nothing. A word to an object keeps what that
/// refers to, which moves.
#[test]
fn words_do_not_hit_free_cells() {
    in_each_setup(
        16 * MB,
        |heap| heap.workers(2).ignore_environment(),
        |heap| {
            const COUNT: usize = 20_000;
            let of = raw_type(heap);
            let mut mutator = heap.attach().unwrap();
            let words = Words::new(COUNT);
            words.register(&mut mutator);
            let node = heap.structure(NODE).unwrap();
            // They grow old behind a table, and their addresses are words when nothing refers to them any more.
            let mut kept = mutator.scope(|scope| Kept::new(scope, heap, node, COUNT));
            mutator.collect(true);
            mutator.collect(true);
            mutator.scope(|scope| {
                for index in 0..COUNT {
                    kept.pin(scope, index);
                    let place = kept.places[index].unwrap();
                    kept.unpin(scope, index);
                    words.set(index, place.as_ptr() as usize + 8);
                }
                let table = scope.open(&kept.table);
                let nothing = scope.null();
                (0..COUNT).for_each(|index| scope.set(table, index, nothing).unwrap());
            });
            for index in (0..COUNT).filter(|index| index % 100 != 0) {
                words.set(index, 0);
            }
            let count = |mutator: &mut Mutator| {
                let mut found = 0;
                mutator.walk(&mut |object| found += usize::from(object.bytes <= 32));
                found
            };
            mutator.collect(true);
            assert_eq!(count(&mut mutator), COUNT / 100);
            for index in 0..COUNT {
                words.set(index, 0);
            }
            mutator.collect(true);
            assert_eq!(count(&mut mutator), 0);
            let young = raw_node(&mut mutator, of, 5);
            words.set(0, young.word());
            mutator.collect(false);
            let referent = raw_node(&mut mutator, of, 6);
            // SAFETY: both are objects of the heap, of which one is kept.
            unsafe { mutator.store_raw(young, 8, Value::reference(referent)) };
            mutator.collect(false);
            // SAFETY: the object is kept.
            let moved = unsafe { mutator.load_raw(young, 8) }.as_object().unwrap();
            assert_ne!(moved, referent);
            assert_eq!(numbers(&mut mutator, of), BTreeSet::from([5, 6]));
        },
    );
}

/// A word one past an old object does not keep it, whether another object lies there or nothing does.
#[test]
fn words_behind_old_objects_keep_nothing() {
    const COUNT: usize = 1000;
    const BYTES: usize = 32;
    in_place_too(
        4 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            let words = Words::new(COUNT);
            words.register(&mut mutator);
            let mut kept = mutator.scope(|scope| Kept::new(scope, heap, node, COUNT));
            mutator.collect(true);
            mutator.collect(true);
            let drop_all = |mutator: &mut Mutator, kept: &Kept, indices: &[usize]| {
                mutator.scope(|scope| {
                    let (table, nothing) = (scope.open(&kept.table), scope.null());
                    for &index in indices {
                        scope.set(table, index, nothing).unwrap();
                    }
                });
                mutator.collect(true);
            };
            mutator.scope(|scope| (0..COUNT).for_each(|index| kept.pin(scope, index)));
            let place = |index: usize| kept.places[index].unwrap().as_ptr() as usize;
            let mut order: Vec<usize> = (0..COUNT).collect();
            order.sort_by_key(|&index| place(index));
            let pairs = order.chunks_exact(2);
            let pairs: Vec<_> = pairs
                .filter(|pair| place(pair[1]) == place(pair[0]) + BYTES)
                .collect();
            assert!(pairs.len() > COUNT / 4, "{} pairs", pairs.len());
            drop_all(
                &mut mutator,
                &kept,
                &pairs.iter().map(|pair| pair[1]).collect::<Vec<_>>(),
            );
            for (number, pair) in pairs.iter().enumerate() {
                words.set(number, place(pair[0]) + BYTES);
            }
            drop_all(
                &mut mutator,
                &kept,
                &pairs.iter().map(|pair| pair[0]).collect::<Vec<_>>(),
            );
            let mut found = 0;
            mutator.walk(&mut |object| found += usize::from(object.bytes == BYTES));
            assert_eq!(found, COUNT - 2 * pairs.len());
        },
    );
}

/// Only words from the published one on count, and a large object is found by a word into its middle.
#[test]
fn words_below_the_lowest_one_do_not_count() {
    in_place_too(
        8 * MB,
        |heap| heap.ignore_environment(),
        |heap| {
            let of = raw_type(heap);
            let bytes = heap.array(Elements::Bytes).unwrap();
            let mut mutator = heap.attach().unwrap();
            let (words, lowest) = (Words::new(16), Words::new(1));
            let range = WordRange {
                start: words.start(),
                words: 16,
                lowest: lowest.start(),
            };
            // SAFETY: both live until the range is removed.
            unsafe { mutator.add_words(range) }.unwrap();
            let below = raw_node(&mut mutator, of, 1);
            let above = raw_node(&mut mutator, of, 2);
            words.set(3, below.word());
            words.set(4, above.add(8).word());
            lowest.set(0, words.start().add(4 * 8).word());
            let (place, weak) = mutator.scope(|scope| {
                let large = scope.allocate_array(bytes, 100_000).unwrap();
                (scope.pin(large).unwrap(), scope.weak(large).unwrap())
            });
            words.set(5, place.as_ptr() as usize + 60_000);
            mutator.collect(true);
            assert_eq!(numbers(&mut mutator, of), BTreeSet::from([2]));
            let is_there = |mutator: &mut Mutator| {
                mutator.scope(|scope| {
                    let large = scope.upgrade(&weak);
                    !scope.is_null(large)
                })
            };
            assert!(is_there(&mut mutator));
            lowest.set(0, words.start().add(6 * 8).word());
            mutator.collect(true);
            assert_eq!(numbers(&mut mutator, of), BTreeSet::new());
            assert!(!is_there(&mut mutator));
            mutator.remove_words(words.start()).unwrap();
        },
    );
}

/// The first byte of an object counts as well as its last, whether it is young, old, pinned for good or large. Words outside of
/// the range do not, wherever the lowest one is said to be.
#[test]
fn words_to_both_ends_of_objects_of_every_kind_count() {
    let in_setup = |heap: &Heap| {
        let node = heap.structure(NODE).unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        let (words, lowest) = (Words::new(3), Words::new(1));
        let start = words.start().add(8);
        let range = WordRange {
            start,
            words: 1,
            lowest: lowest.start(),
        };
        // SAFETY: both live until the range is removed.
        unsafe { mutator.add_words(range) }.unwrap();
        for (kind, last) in [("small", 31), ("pinned", 31), ("large", 16 + 99_999)] {
            for old in [false, true] {
                let (place, weak) = mutator.scope(|scope| {
                    let one = match kind {
                        "small" => scope.allocate(node).unwrap(),
                        "pinned" => scope.allocate(node.pinned()).unwrap(),
                        _ => scope.allocate_array(bytes, 100_000).unwrap(),
                    };
                    if old {
                        (0..2).for_each(|_| scope.collect(true));
                    }
                    let weak = scope.weak(one).unwrap();
                    let place = scope.pin(one).unwrap().as_ptr() as usize;
                    // Nobody counts the pins of what never moves.
                    scope.unpin(one).unwrap();
                    assert_eq!(scope.unpin(one).is_ok(), kind != "small");
                    (place, weak)
                });
                let mut lives = |around: usize, inside: usize| {
                    (0..3).for_each(|index| words.set(index, around));
                    words.set(1, inside);
                    lowest.set(0, words.start().word());
                    mutator.collect(true);
                    mutator.scope(|scope| {
                        let one = scope.upgrade(&weak);
                        !scope.is_null(one)
                    })
                };
                assert!(lives(0, place), "{kind}, old {old}");
                assert!(lives(0, place + last), "{kind}, old {old}");
                assert!(!lives(place, 0), "{kind}, old {old}");
            }
        }
        mutator.remove_words(start).unwrap();
    };
    in_each_setup(8 * MB, |heap| heap.ignore_environment(), in_setup);
}
