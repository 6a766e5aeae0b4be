//! Code as a compiler would emit it, written by hand from the numbers of the record alone: it allocates, loads, stores and
//! polls, its roots are in frames of its own, and a stack map says where.

#[path = "harness/setups.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod setups;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use gleaner::raw::{
    Address, Arrays, Barrier, FIELDS, FastPaths, Fresh, NewObject, Record, RootVisitor, Shape,
    TypeId, VERSION, Value, Visitor, array_bytes,
};
use gleaner::{Heap, Mutator, References};
use setups::{FORMATS, checked};

fn heap(references: References, stress: u32) -> Heap {
    checked(2 << 20)
        .references(references)
        .stress(stress)
        .build()
        .unwrap()
}

/// What the emitted code is: nothing here but the record, the mutator's address and loads and stores.
struct Code {
    fast: FastPaths,
    mutator: *mut u8,
}

impl Code {
    fn new(heap: &Heap, mutator: &mut Mutator) -> Code {
        let fast = heap.fast_paths();
        assert_eq!(
            (fast.version, fast.bytes as usize),
            (VERSION, size_of::<FastPaths>())
        );
        assert_eq!(fast.barrier, Barrier::Cards);
        assert_eq!(fast.arrays == Arrays::Contiguous, fast.first_n == u64::MAX);
        assert_eq!(fast.granule, 8);
        Code {
            fast,
            mutator: mutator.published().cast(),
        }
    }

    fn field<T>(&self, offset: u32) -> *mut T {
        // SAFETY: an offset in the mutator's record.
        unsafe { self.mutator.add(offset as usize).cast() }
    }

    /// The fast path of allocation; `None` where it would call.
    fn allocate(&self, of: TypeId, bytes: usize) -> Option<Address> {
        self.room(of, bytes, self.fast.large_bytes)
    }

    fn room(&self, of: TypeId, bytes: usize, most: u32) -> Option<Address> {
        let fast = &self.fast;
        // SAFETY: the fields are the mutator's, and so is its buffer.
        unsafe {
            let cursor: *mut usize = self.field(fast.cursor_offset);
            let object = *cursor;
            let left = *self.field::<usize>(fast.limit_offset) - object;
            if bytes > most as usize || left < bytes {
                return None;
            }
            *cursor = object + bytes;
            if fast.fresh_is_zero == 0 && *self.field::<u32>(fast.zeroes_offset) != 0 {
                ((object + FIELDS) as *mut u8).write_bytes(0, bytes - FIELDS);
            }
            *(object as *mut u64) = fast.header(of);
            Some(Address::new(object))
        }
    }

    fn allocate_array(&self, of: TypeId, length: u32, bytes: usize) -> Option<Address> {
        let array = self.room(of, bytes, self.fast.whole_bytes)?;
        // SAFETY: the fresh array.
        unsafe {
            array
                .add(self.fast.length_offset as usize)
                .ptr::<u32>()
                .write(length)
        };
        Some(array)
    }

    fn slot(&self, object: Address, slot: usize) -> Address {
        object.add(FIELDS + slot * self.fast.slot_bytes as usize)
    }

    fn store(&self, at: Address, value: Value) {
        let fast = &self.fast;
        let bits = value.bits();
        let word = if bits & 1 == 1 || bits == 0 {
            bits
        } else {
            (bits - fast.slot_base) >> fast.slot_shift
        };
        // SAFETY: a slot of the heap, and its card.
        unsafe {
            match fast.slot_bytes {
                8 => at.ptr::<u64>().write(word),
                _ => at.ptr::<u32>().write(word as u32),
            }
            let card = fast
                .card_base
                .wrapping_add(at.word() as u64 >> fast.card_shift);
            (card as *mut u8).write(fast.card_dirty as u8);
        }
    }

    fn load(&self, at: Address) -> Value {
        let fast = &self.fast;
        // SAFETY: a slot of the heap.
        let word = unsafe {
            match fast.slot_bytes {
                8 => at.ptr::<u64>().read(),
                _ => at.ptr::<i32>().read() as i64 as u64,
            }
        };
        let bits = match word {
            _ if word & 1 == 1 || word == 0 => word,
            _ if fast.slot_bytes == 8 => word,
            _ => ((word as u32 as u64) << fast.slot_shift) + fast.slot_base,
        };
        Value::from_bits(bits)
    }

    /// Where the byte at an offset into the elements of an array lies, and whether it may be written there; or `None`, where
    /// all is zero.
    fn element(&self, array: Address, offset: u64) -> Option<(Address, bool)> {
        let fast = &self.fast;
        let near = array.add(fast.elements_offset as usize + offset as usize);
        // SAFETY: an array of the heap, which has this byte.
        let header = unsafe { array.ptr::<u64>().read() };
        if offset < fast.first_n || header & fast.spine_bit == 0 {
            return Some((near, true));
        }
        let beyond = offset - fast.first_n;
        let number = beyond >> fast.arraylet_shift;
        let pointers = array.add((u64::from(fast.elements_offset) + fast.first_n) as usize);
        let at = pointers.add((number << fast.pointer_shift) as usize);
        // SAFETY: the array has a pointer for each part of what is beyond.
        let pointer = unsafe {
            match fast.pointer_shift {
                3 => (*at.ptr::<AtomicU64>()).load(Ordering::Acquire),
                _ => u64::from((*at.ptr::<AtomicU32>()).load(Ordering::Acquire)),
            }
        };
        if pointer == fast.zero_pointer {
            return None;
        }
        let taint = u64::from(fast.taint_bit);
        let target = fast.pointer_base + ((pointer & !taint) << fast.slot_shift);
        let within = beyond & ((1 << fast.arraylet_shift) - 1);
        Some((
            Address::new((target + within) as usize),
            pointer & taint == 0,
        ))
    }

    fn poll(&self, mutator: &mut Mutator) {
        // SAFETY: the poll word is the mutator's.
        if unsafe { self.field::<u32>(self.fast.poll_offset).read_volatile() } != 0 {
            mutator.poll();
        }
    }
}

#[test]
fn emitted_code_builds_lists() {
    for references in FORMATS {
        for (stress, length) in [(0, 20_000), (1, 300)] {
            let heap = heap(references, stress);
            let slot = heap.fast_paths().slot_bytes;
            let shape = Shape::Structure {
                bytes: 32,
                references: &[8, 8 + slot],
            };
            let node = heap.register_raw(shape).unwrap();
            let list = heap.register_raw(Shape::References).unwrap();
            let mut mutator = heap.attach().unwrap();
            let code = Code::new(&heap, &mut mutator);
            let array_length = array_bytes(5, slot.trailing_zeros());
            let (mut fast, mut slow) = (0, 0);
            // SAFETY: the layout is that of the types; roots hold what is needed over a call.
            unsafe {
                mutator.with_roots([Value::NULL; 2], |mutator, roots| {
                    for number in 0..length {
                        let object = match code.allocate(node, 32) {
                            Some(object) => {
                                fast += 1;
                                object
                            }
                            None => {
                                slow += 1;
                                mutator
                                    .allocate_raw(NewObject::structure(node, 32), Fresh::Zeroed)
                                    .unwrap()
                            }
                        };
                        assert_eq!(object.add(8).ptr::<[u64; 3]>().read(), [0; 3], "not zero");
                        object.add(24).ptr::<u64>().write(number);
                        code.store(code.slot(object, 0), roots[0].get());
                        code.store(code.slot(object, 1), Value::immediate(-(number as i64)));
                        roots[1].set(Value::reference(object));
                        let array = match code.allocate_array(list, 5, array_length) {
                            Some(array) => array,
                            None => mutator
                                .allocate_raw(
                                    NewObject::array(list, 5, array_length),
                                    Fresh::Zeroed,
                                )
                                .unwrap(),
                        };
                        assert_eq!(mutator.length_raw(array), 5);
                        let last = array.add((code.fast.elements_offset + 4 * slot) as usize);
                        code.store(last, roots[1].get());
                        assert_eq!(code.load(last), roots[1].get());
                        roots[0].set(roots[1].get());
                        code.poll(mutator);
                    }
                    mutator.collect(true);
                    let mut link = roots[0].get();
                    for number in (0..length).rev() {
                        let object = link.as_object().unwrap();
                        assert_eq!(mutator.type_raw(object), node);
                        assert_eq!(object.add(24).ptr::<u64>().read(), number);
                        let integer = code.load(code.slot(object, 1));
                        assert_eq!(integer.as_immediate(), Some(-(number as i64)));
                        link = code.load(code.slot(object, 0));
                        assert_eq!(link, mutator.load_raw(object, FIELDS));
                    }
                    assert!(link.is_null());
                });
            }
            assert!(if stress == 0 {
                fast > 10 * slow
            } else {
                fast == 0
            });
        }
    }
}

/// What becomes of one array of numbers and one of references, of so many elements each.
fn write_and_read(
    code: &Code,
    mutator: &mut Mutator,
    (numbers, list, node): (TypeId, TypeId, TypeId),
    length: u32,
) {
    let slot = code.fast.slot_bytes;
    let make = |mutator: &mut Mutator, of, element: u32| {
        let bytes = array_bytes(length, element.trailing_zeros());
        let array = code.allocate_array(of, length, bytes);
        // SAFETY: the bytes are those of the type; what is needed afterwards is in a root.
        array.unwrap_or_else(|| unsafe {
            mutator
                .allocate_raw(NewObject::array(of, length, bytes), Fresh::Zeroed)
                .unwrap()
        })
    };
    let first = Value::reference(make(mutator, numbers, 4));
    // SAFETY: a valid reference, in a root while the other array is allocated.
    let arrays = unsafe {
        mutator.with_roots([first], |mutator, roots| {
            let second = make(mutator, list, slot);
            [roots[0].get(), Value::reference(second)]
        })
    };
    // SAFETY: elements of both arrays, which are in roots where something may collect.
    unsafe {
        mutator.with_roots(arrays, |mutator, roots| {
            let array = |index: usize| roots[index].get().as_object().unwrap();
            for round in 0..3_u32 {
                for index in (0..length).filter(|index| (index / 40 + round) % 3 == 0) {
                    let number = index + (round << 16);
                    match code.element(array(0), u64::from(index) * 4) {
                        Some((at, true)) => at.ptr::<u32>().write(number),
                        _ => mutator
                            .store_element_in::<u32>(array(0), index as usize, number)
                            .unwrap(),
                    }
                    let object = mutator
                        .allocate_raw(NewObject::structure(node, 16), Fresh::Zeroed)
                        .unwrap();
                    object.add(8).ptr::<u32>().write(number);
                    let value = Value::reference(object);
                    match code.element(array(1), u64::from(index) * u64::from(slot)) {
                        Some((at, true)) => code.store(at, value),
                        _ => mutator
                            .store_element_raw(array(1), index as usize, value)
                            .unwrap(),
                    }
                    code.poll(mutator);
                }
                mutator.collect(round == 1);
                for index in 0..length {
                    let written = (0..=round)
                        .rev()
                        .find(|round| (index / 40 + round) % 3 == 0);
                    let expected = written.map_or(0, |round| index + (round << 16));
                    let number = code
                        .element(array(0), u64::from(index) * 4)
                        .map_or(0, |(at, _)| at.ptr::<u32>().read());
                    assert_eq!(number, expected, "{index} of {length}");
                    let found = mutator.load_element_in::<u32>(array(0), index as usize);
                    assert_eq!(found, expected, "{index} of {length}");
                    let value = code
                        .element(array(1), u64::from(index) * u64::from(slot))
                        .map_or(Value::NULL, |(at, _)| code.load(at));
                    assert_eq!(value, mutator.load_element_raw(array(1), index as usize));
                    let held = value
                        .as_object()
                        .map(|object| object.add(8).ptr::<u32>().read());
                    assert_eq!(held.unwrap_or(0), expected, "{index} of {length}");
                }
                // What is shared may not be written.
                let copy = mutator
                    .allocate_raw(
                        NewObject::array(numbers, length, array_bytes(length, 2)),
                        Fresh::Zeroed,
                    )
                    .unwrap();
                mutator
                    .copy_elements_raw(array(0), 0, copy, 0, length)
                    .unwrap();
            }
        });
    }
}

#[test]
fn emitted_code_reaches_elements_of_arrays_in_pieces() {
    for references in FORMATS {
        for cut in [
            "contiguous",
            "zray",
            "zray,first-n=64,arraylet=256",
            "naive",
            "naive-a,array-kinds=references",
        ] {
            for stress in [0, 5] {
                let heap = Heap::builder()
                    .limit(4 << 20)
                    .references(references)
                    .verify(true)
                    .poison(true)
                    .stress(stress)
                    .options(&format!("arrays={cut}"))
                    .unwrap()
                    .build()
                    .unwrap();
                let numbers = heap.register_raw(Shape::Primitives { log2: 2 }).unwrap();
                let list = heap.register_raw(Shape::References).unwrap();
                let node = Shape::Structure {
                    bytes: 16,
                    references: &[],
                };
                let node = heap.register_raw(node).unwrap();
                let mut mutator = heap.attach().unwrap();
                let code = Code::new(&heap, &mut mutator);
                for length in [0, 1, 15, 16, 17, 79, 80, 81, 145, 700, 1100, 2000] {
                    write_and_read(&code, &mut mutator, (numbers, list, node), length);
                }
            }
        }
    }
}

#[test]
fn a_record_of_a_mutator_has_the_numbers_of_its_heap() {
    for references in FORMATS {
        for cut in ["contiguous", "zray", "naive-b"] {
            let builder = Heap::builder().limit(2 << 20).references(references);
            let builder = builder.options(&format!("arrays={cut}")).unwrap();
            let heap = builder.build().unwrap();
            let mut mutator = heap.attach().unwrap();
            let code = Code::new(&heap, &mut mutator);
            let fast = &code.fast;
            // SAFETY: offsets in the mutator's record.
            unsafe {
                assert_eq!(*code.field::<u64>(fast.first_n_offset), fast.first_n);
                let whole = *code.field::<u64>(fast.whole_bytes_offset);
                assert_eq!(whole, u64::from(fast.whole_bytes));
                let shift = *code.field::<u32>(fast.arraylet_shift_offset);
                assert_eq!(shift, fast.arraylet_shift);
                let shift = *code.field::<u32>(fast.pointer_shift_offset);
                assert_eq!(shift, fast.pointer_shift);
                let base = *code.field::<u64>(fast.pointer_base_offset);
                assert_eq!(base, fast.pointer_base);
            }
            assert_eq!(fast.arrays == Arrays::ZRay, cut != "contiguous");
            let expected = match cut {
                "contiguous" => u64::from(fast.large_bytes),
                _ => fast.first_n + u64::from(fast.elements_offset),
            };
            assert_eq!(u64::from(fast.whole_bytes), expected);
        }
    }
}

/// A frame of emitted code: the caller's, where it goes on, and what the stack map speaks of.
#[repr(C)]
struct CompiledFrame {
    caller: *mut CompiledFrame,
    return_address: usize,
    /// Some are references, as the map of the call says; the others are numbers.
    values: [u64; 4],
}

/// The stack maps: which values are references where a call returns to. Calls are numbered as if by address.
fn stack_maps() -> HashMap<usize, Vec<usize>> {
    HashMap::from([(0x100, vec![0]), (0x200, vec![1, 3])])
}

static VISITS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn visit_frames(maps: *mut (), mutator: *const Record, visitor: *mut Visitor) {
    // SAFETY: the record is that of a stopped mutator, and the frames are those of emitted code; the maps live on.
    unsafe {
        let maps = &*maps.cast::<HashMap<usize, Vec<usize>>>();
        let anchor = (*mutator).anchor.get();
        let mut frame = anchor.frame_pointer as *mut CompiledFrame;
        let mut here = anchor.program_counter;
        while !frame.is_null() {
            for &index in &maps[&here] {
                VISITS.fetch_add(1, Ordering::Relaxed);
                Visitor::visit(visitor, (&raw mut (*frame).values[index]).cast());
            }
            (here, frame) = ((*frame).return_address, (*frame).caller);
        }
    }
}

/// Looks like a reference, and is none.
const NUMBER: u64 = 0x1234_5678_9abc_def0;

/// A function of emitted code that calls itself: each level allocates an object with its depth, keeps it in its frame
/// over the calls, and says where it was left.
fn recurse(code: &Code, mutator: &mut Mutator, of: TypeId, caller: *mut CompiledFrame, depth: u64) {
    let odd = depth % 2 == 1;
    // To which call of the caller this level returns: levels alternate.
    let return_address = if odd { 0x100 } else { 0x200 };
    let here = if odd { 0x200 } else { 0x100 };
    let mut frame = CompiledFrame {
        caller,
        return_address,
        values: [NUMBER; 4],
    };
    let references: &[usize] = if odd { &[1, 3] } else { &[0] };
    references.iter().for_each(|&index| frame.values[index] = 0);
    let place = &raw mut frame;
    // SAFETY: the frame is this level's; the anchor leads to it whenever something is called.
    unsafe {
        let address = place as usize;
        let leave = || {
            let anchor: *mut [usize; 3] = code.field(code.fast.anchor_offset);
            anchor.write([address, here, address]);
        };
        for &index in references {
            leave();
            let object = mutator
                .allocate_raw(NewObject::structure(of, 24), Fresh::Zeroed)
                .unwrap();
            object.add(16).ptr::<u64>().write(depth * 10 + index as u64);
            (*place).values[index] = Value::reference(object).bits();
        }
        if depth > 0 {
            recurse(code, mutator, of, place, depth - 1);
        }
        leave();
        mutator.collect(depth.is_multiple_of(3));
        for (index, &value) in (&raw const (*place).values).read().iter().enumerate() {
            if references.contains(&index) {
                let object = Value::from_bits(value).as_object().unwrap();
                assert_eq!(
                    object.add(16).ptr::<u64>().read(),
                    depth * 10 + index as u64
                );
            } else {
                assert_eq!(value, NUMBER);
            }
        }
    }
}

#[test]
fn a_stack_map_finds_the_roots_of_compiled_frames() {
    for references in FORMATS {
        let heap = heap(references, 3);
        let maps = stack_maps();
        let visitor = RootVisitor {
            function: visit_frames,
            data: (&raw const maps).cast_mut().cast(),
        };
        // SAFETY: the function visits the same slots as long as the world is stopped, and allocates nothing.
        unsafe { heap.set_root_visitor(Some(visitor)) };
        let shape = Shape::Structure {
            bytes: 24,
            references: &[8],
        };
        let boxed = heap.register_raw(shape).unwrap();
        let before = VISITS.load(Ordering::Relaxed);
        std::thread::scope(|threads| {
            for thread in 0..4_u64 {
                let heap = &heap;
                threads.spawn(move || {
                    let mut mutator = heap.attach().unwrap();
                    let code = Code::new(heap, &mut mutator);
                    // Whatever its callee returns to, all that may be a slot is null.
                    let mut root = CompiledFrame {
                        caller: std::ptr::null_mut(),
                        return_address: 0,
                        values: [0; 4],
                    };
                    // SAFETY: the embedder's word and the anchor are the mutator's.
                    unsafe {
                        code.field::<u64>(code.fast.embedder_offset).write(thread);
                        recurse(&code, &mut mutator, boxed, &raw mut root, 20 + thread);
                        code.field::<[usize; 3]>(code.fast.anchor_offset)
                            .write([0; 3]);
                        assert_eq!((*mutator.published()).embedder.get() as u64, thread);
                        // The recursion's objects are unreachable now.
                        mutator.collect(true);
                    }
                });
            }
        });
        assert!(VISITS.load(Ordering::Relaxed) - before > 1000);
        heap.attach().unwrap().collect(true);
        assert_eq!(heap.used(), 0, "objects of frames that are gone are alive");
        // SAFETY: none is always right.
        unsafe { heap.set_root_visitor(None) };
    }
}
