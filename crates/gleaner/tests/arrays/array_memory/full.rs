//! Full heaps: what would take another arraylet is an error that changes nothing, what needs none goes on, and when
//! something is dropped, all of it does.

use super::heap;
use gleaner::raw::{Address, Fresh, NewObject, Value, array_bytes};
use gleaner::{Array, Elements, Handle, Heap, Mutator, OutOfMemory, ReferenceArray};

/// The heap's.
const LIMIT: usize = 2 << 20;
/// Elements of sparse arrays of numbers: more than there will be memory for.
const LENGTH: usize = 1 << 20;
/// Elements from one that is written to the next, at least: the largest arraylet.
const STRIDE: usize = 512;
/// What a number is that was there before.
const BEFORE: u64 = 0xb4;

struct Full {
    heap: Heap,
    mutator: Mutator,
    of: Array,
    /// Takes all memory, until it is dropped. In `taken` of its elements there is a number.
    ballast: Option<Handle>,
    taken: usize,
    /// Has only as much as was written before.
    sparse: Handle,
}

fn place(handle: &Handle) -> Address {
    handle.get_raw().as_object().expect("an array")
}

impl Full {
    /// A heap, and a sparse array whose elements up to the third arraylet, and every hundredth one after that, are
    /// written.
    fn new(options: &str) -> Full {
        let heap = heap(&format!("heap-limit={LIMIT},{options}"));
        let of = heap.array(Elements::Doubles).unwrap();
        let mut mutator = heap.attach().unwrap();
        let [ballast, sparse] = [(); 2].map(|()| {
            mutator.scope(|scope| {
                let made = scope.allocate_array(of, LENGTH as u32).unwrap();
                scope.handle(made).unwrap()
            })
        });
        mutator.scope(|scope| {
            let sparse = scope.open(&sparse);
            for at in (0..LENGTH).filter(|&at| is_written(at)) {
                scope.write_u64(sparse, at, BEFORE).unwrap();
            }
        });
        let ballast = Some(ballast);
        let mut full = Full {
            heap,
            mutator,
            of,
            ballast,
            taken: 0,
            sparse,
        };
        full.fill();
        full
    }

    /// Writes the ballast until there is no memory.
    fn fill(&mut self) {
        let ballast = self.ballast.as_ref().expect("not dropped");
        loop {
            let at = self.taken * 32;
            assert!(
                at < LENGTH,
                "the ballast takes no memory: {} bytes used",
                self.heap.used()
            );
            // SAFETY: the ballast has this element, and is in a handle.
            let done = unsafe {
                self.mutator
                    .store_element_in::<u64>(place(ballast), at, !(at as u64))
            };
            match done {
                Ok(()) => self.taken += 1,
                Err(error) => {
                    assert!(error.bytes >= 256, "{error}");
                    break;
                }
            }
        }
        assert!(self.heap.used() <= self.heap.limit());
        // What is used is not worth the name otherwise.
        let used = self.heap.used();
        assert!(
            used > LIMIT / 2,
            "{used} of {LIMIT} bytes are used, and memory is out"
        );
    }

    /// Both arrays hold what was stored; `but` is a range where the sparse one holds zeros or what was there.
    #[track_caller]
    fn check(&mut self, what: &str) {
        let (taken, is_kept) = (self.taken, self.ballast.is_some());
        // SAFETY: all elements of the arrays, which are in handles.
        unsafe {
            if let (true, Some(ballast)) = (is_kept, &self.ballast) {
                let all = self.mutator.cursor::<u64>(place(ballast), 0, LENGTH);
                for (at, found) in all.enumerate() {
                    let is_written = at % 32 == 0 && at / 32 < taken;
                    let expected = if is_written { !(at as u64) } else { 0 };
                    assert_eq!(found, expected, "{what}: element {at} of the ballast");
                }
            }
            let all = self.mutator.cursor::<u64>(place(&self.sparse), 0, LENGTH);
            for (at, found) in all.enumerate() {
                let expected = if is_written(at) { BEFORE } else { 0 };
                assert_eq!(found, expected, "{what}: element {at}");
            }
        }
    }

    /// Runs what needs memory in a full heap, where it fails and changes nothing; then with memory, where it does not.
    #[track_caller]
    fn fails(
        &mut self,
        what: &str,
        body: impl Fn(&mut Mutator, &Handle) -> Result<(), OutOfMemory>,
    ) {
        let error = body(&mut self.mutator, &self.sparse).expect_err(what);
        assert!(
            error.bytes > 0 && error.to_string().starts_with("out of memory"),
            "{error}"
        );
        self.check(what);
        self.mutator.collect(false);
        body(&mut self.mutator, &self.sparse).expect_err(what);
        self.mutator.collect(true);
        self.check(what);
    }

    /// Drops the ballast.
    fn drop_ballast(&mut self) {
        self.ballast = None;
    }
}

/// Whether there is a number in element `at` of the sparse array.
fn is_written(at: usize) -> bool {
    at < 3 * STRIDE || at.is_multiple_of(100 * STRIDE)
}

/// The first of many elements that were never written.
const NEVER: usize = 105 * STRIDE;
/// How many: they need more memory than may be left in some chunk.
const MANY: usize = 60 * STRIDE;

pub fn stores(options: &str) {
    let mut full = Full::new(options);
    full.check("when full");
    // SAFETY: the sparse array has these elements, and is in a handle.
    unsafe {
        // What is there can be written, and zero is there already.
        let (mutator, sparse) = (&mut full.mutator, &full.sparse);
        for at in (0..LENGTH).filter(|&at| is_written(at)) {
            mutator
                .store_element_in::<u64>(place(sparse), at, 1)
                .unwrap();
            let swap = mutator.compare_exchange_element_in::<u64>(place(sparse), at, 1, BEFORE);
            assert_eq!(swap.unwrap(), Ok(()));
            mutator
                .store_element_in::<u64>(place(sparse), NEVER + at % MANY, 0)
                .unwrap();
        }
        full.check("after stores that need no memory");
        // Arraylets may be left in the chunk that is used now; each is of another part.
        let (mutator, sparse) = (&mut full.mutator, &full.sparse);
        let mut stored = Vec::new();
        for at in (NEVER..NEVER + MANY).step_by(32) {
            match mutator.store_element_in::<u64>(place(sparse), at, 5) {
                Ok(()) => stored.push(at),
                Err(_) => {
                    assert_eq!(mutator.load_element_in::<u64>(place(sparse), at), 0);
                    let swap = mutator.compare_exchange_element_in::<u64>(place(sparse), at, 0, 5);
                    swap.expect_err("memory was out for a store");
                    assert_eq!(mutator.load_element_in::<u64>(place(sparse), at), 0);
                    break;
                }
            }
        }
        let count = stored.len();
        assert!(count < MANY / 32, "a full heap has room for all");
        for at in stored {
            mutator
                .store_element_in::<u64>(place(sparse), at, 0)
                .unwrap();
        }
        full.check("after stores");
        // With memory it goes on.
        full.drop_ballast();
        let (mutator, sparse) = (&mut full.mutator, &full.sparse);
        for at in NEVER..NEVER + MANY / 8 {
            mutator
                .store_element_in::<u64>(place(sparse), at, at as u64)
                .unwrap();
        }
        for at in NEVER..NEVER + MANY / 8 {
            let swap = mutator.compare_exchange_element_in::<u64>(place(sparse), at, at as u64, 0);
            assert_eq!(swap.unwrap(), Ok(()));
        }
        full.check("when there was memory again");
    }
}

pub fn ranges(options: &str) {
    let mut full = Full::new(options);
    // SAFETY: the sparse array has these elements, and is in a handle.
    unsafe {
        full.fails("a fill", |mutator, sparse| {
            mutator.fill_elements_in::<u64>(place(sparse), NEVER, MANY, 7)
        });
        full.fails(
            "a fill that begins where there is memory",
            |mutator, sparse| mutator.fill_elements_in::<u64>(place(sparse), 2 * STRIDE, MANY, 7),
        );
        full.fails("a cursor", |mutator, sparse| {
            mutator
                .cursor_mut::<u64>(place(sparse), NEVER, MANY)
                .map(drop)
        });
        full.fails("a window", |mutator, sparse| {
            mutator.window_mut(place(sparse), NEVER, MANY, |_, _: &mut [u64]| {
                panic!("the window is open without memory")
            })
        });
        full.fails("a copy from a buffer", |mutator, sparse| {
            mutator.write_elements(place(sparse), STRIDE, &[3_u64; MANY])
        });
        // Zeros need nothing.
        let (mutator, sparse) = (&mut full.mutator, &full.sparse);
        mutator
            .fill_elements_in::<u64>(place(sparse), NEVER, MANY, 0)
            .unwrap();
        full.check("after a fill with zeros");
        full.drop_ballast();
        let (mutator, sparse) = (&mut full.mutator, &full.sparse);
        let count = MANY / 4;
        let mut cursor = mutator
            .cursor_mut::<u64>(place(sparse), NEVER, count)
            .unwrap();
        while cursor.store(8) {}
        mutator
            .fill_elements_in::<u64>(place(sparse), NEVER + 1, count - 1, 9)
            .unwrap();
        let window = mutator.window_mut(place(sparse), NEVER, count, |_, view: &mut [u64]| {
            assert_eq!(view[0], 8);
            assert!(view[1..].iter().all(|&number| number == 9));
            view.fill(1);
        });
        window.unwrap();
        let mut found = vec![0_u64; count];
        mutator.read_elements(place(sparse), NEVER, &mut found);
        assert!(found.iter().all(|&number| number == 1));
        mutator
            .write_elements(place(sparse), NEVER, &vec![0_u64; count])
            .unwrap();
    }
    full.check("when there was memory again");
}

/// Where a copy finds no memory, each element is what it was, or what it was to be.
pub fn copies(options: &str) {
    let mut full = Full::new(options);
    // Two never-written parts, the source's arraylets are in memory and dense.
    let (from, to) = (0, NEVER + 1);
    for (from, to, count) in [
        (from, to, 3 * STRIDE),
        (to, to + 3, MANY),
        (NEVER, from, MANY),
    ] {
        // SAFETY: the sparse array has these elements, and is in a handle.
        unsafe {
            let mut before = vec![0_u64; LENGTH];
            full.mutator
                .read_elements::<u64>(place(&full.sparse), 0, &mut before);
            let sparse = place(&full.sparse);
            let [from_index, to_index] = [from, to].map(|index| index as u32);
            let copied =
                full.mutator
                    .copy_elements_raw(sparse, from_index, sparse, to_index, count as u32);
            let mut expected = before.clone();
            expected.copy_within(from..from + count, to);
            let mut found = vec![0; LENGTH];
            full.mutator
                .read_elements::<u64>(place(&full.sparse), 0, &mut found);
            for at in 0..LENGTH {
                let is_right =
                    found[at] == expected[at] || copied.is_err() && found[at] == before[at];
                assert!(
                    is_right,
                    "a copy of {count} from {from} to {to}, {copied:?}: element {at} is {}, was {}, is to be {}",
                    found[at], before[at], expected[at]
                );
            }
            full.mutator.collect(true);
            let mut again = vec![0; LENGTH];
            full.mutator
                .read_elements::<u64>(place(&full.sparse), 0, &mut again);
            assert!(found == again, "a collection changes what a copy left");
        }
    }
    full.drop_ballast();
    let of = full.of;
    full.mutator.scope(|scope| {
        let all = scope.allocate_array(of, LENGTH as u32).unwrap();
        let sparse = scope.open(&full.sparse);
        scope.copy_elements(sparse, 0..LENGTH, all, 0).unwrap();
        let pairs = scope
            .numbers::<u64>(sparse, 0, LENGTH)
            .zip(scope.numbers::<u64>(all, 0, LENGTH));
        for (at, (from, to)) in pairs.enumerate() {
            assert_eq!(from, to, "element {at}");
        }
    });
}

/// Lists of boxes whose heads are in arraylets that nobody has written.
pub fn references(options: &str) {
    let heap = heap(&format!("heap-limit={LIMIT},{options}"));
    let of: ReferenceArray = heap.reference_array().unwrap();
    let leaf = heap.array(Elements::Doubles).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let sparse = scope.allocate_references(of, LENGTH as u32).unwrap();
        let boxed = scope.allocate_array(leaf, 1).unwrap();
        scope.write_u64(boxed, 0, 77).unwrap();
        let mut count = 0;
        let error = loop {
            let at = count * 64;
            assert!(at < LENGTH, "the array takes no memory");
            let stored = scope.nested(|scope| {
                let made = scope.allocate_array(leaf, 1)?;
                scope.write_u64(made, 0, at as u64)?;
                scope.set(sparse, at, made)
            });
            match stored {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        assert!(error.bytes > 0);
        assert!(count > 100, "{count}");
        let check = |scope: &mut gleaner::Scope<'_>, what: &str| {
            for at in (0..LENGTH).step_by(8) {
                scope.nested(|scope| {
                    let found = scope.get(sparse, at);
                    if at % 64 == 0 && at / 64 < count {
                        assert_eq!(scope.read_u64(found, 0), at as u64, "{what}: element {at}");
                    } else {
                        assert!(scope.is_null(found), "{what}: element {at}");
                    }
                });
            }
            assert_eq!(scope.read_u64(boxed, 0), 77, "{what}");
        };
        check(scope, "when full");
        // A whole range is refused; the value and the array are where they were, or wherever they moved to.
        let last = LENGTH - (LENGTH >> 2);
        for _ in 0..2 {
            scope.fill(sparse, last, LENGTH >> 2, boxed).unwrap_err();
            check(scope, "after a fill");
            scope.collect(true);
        }
        // Null is there.
        let null = scope.null();
        scope.fill(sparse, last, LENGTH >> 2, null).unwrap();
        let mut at = last + 1;
        while scope.set(sparse, at, boxed).is_ok() {
            scope.set(sparse, at, null).unwrap();
            at += 64;
            assert!(at < LENGTH, "a full heap has room for all");
        }
        let swap = scope.compare_exchange(sparse, at, null, boxed);
        swap.expect_err("memory was out for a store");
        let found = scope.get(sparse, at);
        assert!(scope.is_null(found));
        check(scope, "after stores");
        // Half of the boxes go, with the arraylets that hold them.
        for number in 0..count {
            if number * 64 >= count * 32 {
                scope.set(sparse, number * 64, null).unwrap();
            }
        }
        let fresh = scope.null();
        scope.collect(true);
        let compresses = !options.contains("zero-compression=off") && !options.contains("naive-a");
        if compresses {
            for number in 0..10 {
                scope.set(sparse, last + number * 64, boxed).unwrap();
            }
            let found = scope.get(sparse, last + 64);
            scope.assign(fresh, found);
            assert!(scope.same(fresh, boxed));
        }
    });
    // With the array, all of its arraylets.
    mutator.scope(|scope| {
        let again = scope.allocate_references(of, LENGTH as u32).unwrap();
        let one = scope.integer(1).unwrap();
        for at in (0..LENGTH / 64).step_by(64) {
            scope.set(again, at, one).unwrap();
        }
    });
}

/// Arrays that need their arraylets when they are allocated are kept until one is refused.
pub fn allocations(options: &str) {
    let heap = heap(&format!("heap-limit={LIMIT},{options}"));
    let of = heap.array(Elements::Words).unwrap();
    let list = heap.reference_array().unwrap();
    let mut mutator = heap.attach().unwrap();
    for length in [3000_u32, 20_000, 100_000] {
        mutator.scope(|scope| {
            let kept = scope.allocate_references(list, 1000).unwrap();
            let content = |number: usize| -> Vec<u8> {
                let word = |index: u32| (number as u32 * 31 + index + 1).to_ne_bytes();
                (0..length).flat_map(word).collect()
            };
            let mut count = 0;
            loop {
                let bytes = content(count);
                let made = scope.nested(|scope| {
                    let made = scope.allocate_array_with(of, &bytes)?;
                    scope.set(kept, count, made)
                });
                if let Err(error) = made {
                    assert!(error.bytes > 0, "{error}");
                    break;
                }
                count += 1;
            }
            let least = LIMIT / 4 / (length as usize * 4);
            assert!(
                count >= least && count * length as usize * 4 < LIMIT,
                "{count} of {length}"
            );
            for round in 0..2 {
                // Larger ones are refused, too: the first allocates lazily in some heaps, and is filled then.
                assert!(
                    scope
                        .allocate_array_with(of, &content(0).repeat(LIMIT / length as usize))
                        .is_err()
                );
                let id = of.id();
                for number in 0..count {
                    scope.nested(|scope| {
                        let array = scope.get(kept, number);
                        let found = scope.numbers::<u32>(array, 0, length as usize);
                        for (index, found) in found.enumerate() {
                            let expected = number as u32 * 31 + index as u32 + 1;
                            assert_eq!(found, expected, "{id:?}, array {number}, round {round}");
                        }
                    });
                }
                scope.collect(round == 0);
            }
            // Room for two.
            let null = scope.null();
            scope.set(kept, 0, null).unwrap();
            scope.set(kept, count - 1, null).unwrap();
            scope.allocate_array_with(of, &content(0)).unwrap();
        });
        // The raw ways to fill an array as it is made.
        mutator.collect(true);
        let length = (LIMIT / 4 + 1) as u32;
        // SAFETY: a type of such numbers; nothing else is used again. An array that is refused is nobody's.
        unsafe {
            let bytes = array_bytes(length, 2);
            let made =
                mutator.allocate_raw(NewObject::array(of.id(), length, bytes), Fresh::Unwritten);
            made.expect_err("initialized");
            let fill = |_: &Mutator, view: &mut [u32]| view.fill(1);
            mutator
                .allocate_array_by_window::<u32>(of.id(), length, fill)
                .expect_err("with");
            mutator
                .allocate_array_by_cursor::<u32>(of.id(), length, |cursor| while cursor.store(1) {})
                .expect_err("by");
            mutator.with_roots([Value::NULL], |mutator, [root]| {
                let fill = |_: &Mutator, view: &mut [u32]| view.fill(6);
                let length = (LIMIT / 16) as u32;
                let made = mutator
                    .allocate_array_by_window::<u32>(of.id(), length, fill)
                    .unwrap();
                root.set(Value::reference(made));
                mutator.collect(true);
                let array = root.get().as_object().unwrap();
                let mut all = mutator.cursor::<u32>(array, 0, length as usize);
                assert!(all.all(|number| number == 6));
            });
        }
    }
}
