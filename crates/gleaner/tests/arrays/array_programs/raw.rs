//! Programs through the raw layer. Elements are carried as words (`words.rs`).

use std::cell::Cell;
use std::collections::HashMap;
use std::marker::PhantomData;

use super::layer::{Bits, Hash, Layer, Types, expected, with_numbers};
use super::model::{Array, Code, Kind, Known, Model, ROOTS};
use super::script::{Op, Pattern, Pick, Through, Way};
use super::words::{Word, with_elements};
use gleaner::Mutator;
use gleaner::raw::{
    Address, CursorMut, FIELDS, Fresh, NewObject, Object, SlotFormat, TypeId, Value, array_bytes,
};

/// Where the number of a box lies, under both formats.
const NUMBER: usize = 16;

/// The raw layer of a heap whose slots have the format `F`. The roots are those of a frame.
pub struct Raw<'a, F> {
    mutator: &'a mut Mutator,
    roots: &'a [Cell<Value>; ROOTS],
    types: Types,
    format: PhantomData<F>,
}

/// Runs `body` with the raw layer.
pub fn with_raw<F: SlotFormat + Word<Item = Value>, R>(
    mutator: &mut Mutator,
    types: Types,
    body: impl FnOnce(&mut Raw<'_, F>) -> R,
) -> R {
    // SAFETY: null is valid, and the programs keep references to objects in the roots.
    unsafe {
        mutator.with_roots([Value::NULL; ROOTS], |mutator, roots| {
            body(&mut Raw {
                mutator,
                roots,
                types,
                format: PhantomData,
            })
        })
    }
}

impl<F: SlotFormat + Word<Item = Value>> Raw<'_, F> {
    fn array(&self, root: usize) -> Address {
        self.roots[root].get().as_object().expect("an array")
    }

    fn id(&self, kind: Kind) -> TypeId {
        match kind.is_number() {
            true => self.types.numbers(kind).id(),
            false => self.types.references(kind).id(),
        }
    }

    /// What a pick is now. It is no address after a collection.
    fn word(&self, pick: Pick) -> u64 {
        match pick {
            Pick::Bits(bits) => bits,
            Pick::Root(root) => self.roots[root].get().bits(),
        }
    }

    /// A function that says what the elements of a pattern are, while nothing moves.
    fn words(&self, kind: Kind, pattern: Pattern) -> impl Fn(usize) -> u64 + use<F> {
        let roots = self.roots.each_ref().map(|root| root.get().bits());
        move |index| match pattern.pick(kind, index, <F as SlotFormat>::BYTES) {
            Pick::Bits(bits) => bits,
            Pick::Root(root) => roots[root],
        }
    }

    /// Whether a word is what the model says, as far as that can be seen without following it far.
    fn agrees(
        mutator: &Mutator,
        types: &Types,
        kind: Kind,
        word: u64,
        code: Code,
        model: &Model,
    ) -> bool {
        if kind.is_number() || code == 0 || code & 1 == 1 {
            return word == code;
        }
        let Some(object) = Value::from_bits(word).as_object() else {
            return false;
        };
        // SAFETY: an element of an array is a valid reference where it is one; a box has its number there, an array its
        // length.
        unsafe {
            let id = mutator.type_raw(object);
            match model.object(code) {
                Known::Boxed(_) => {
                    id == types.boxed.id() && object.add(NUMBER).ptr::<u64>().read() == code / 2
                }
                Known::Array(array) => {
                    let expected = match array.kind.is_number() {
                        true => types.numbers(array.kind).id(),
                        false => types.references(array.kind).id(),
                    };
                    id == expected && mutator.length_raw(object) as usize == array.elements.len()
                }
                Known::Gone => false,
            }
        }
    }

    #[track_caller]
    fn assert_agrees(
        &self,
        what: &str,
        index: usize,
        kind: Kind,
        word: u64,
        code: Code,
        model: &Model,
    ) {
        assert!(
            Self::agrees(self.mutator, &self.types, kind, word, code, model),
            "{what}: element {index} ({kind:?}) is {word:#x}; expected {code:#x}, {}",
            expected(model, code)
        );
    }

    fn allocate<E: Word>(
        &mut self,
        root: usize,
        kind: Kind,
        length: u32,
        way: Way,
        pattern: Pattern,
    ) {
        let id = self.id(kind);
        let new = NewObject::array(id, length, array_bytes(length, E::BYTES.trailing_zeros()));
        // SAFETY: a type with such elements and their bytes; what is needed later is in the roots; all elements are written.
        let made = unsafe {
            match way {
                Way::Zeroed => self.mutator.allocate_raw(new, Fresh::Zeroed),
                Way::Pinned => self.mutator.allocate_pinned_raw(new),
                Way::Immortal => self.mutator.allocate_immortal_raw(new),
                Way::With | Way::By => {
                    let roots = self.roots;
                    let by = |cursor: &mut CursorMut<'_, E>| {
                        for index in 0..length as usize {
                            assert_eq!(cursor.index(), index);
                            assert_eq!(
                                cursor.load().map(E::word),
                                Some(0),
                                "fresh element {index}"
                            );
                            // The roots are read here: the allocation may have moved things.
                            let word = match pattern.pick(kind, index, <F as SlotFormat>::BYTES) {
                                Pick::Bits(bits) => bits,
                                Pick::Root(root) => roots[root].get().bits(),
                            };
                            assert!(cursor.store(E::item(word)));
                        }
                        assert!(cursor.load().is_none());
                    };
                    self.mutator.allocate_array_by_cursor::<E>(id, length, by)
                }
                Way::Initialized => {
                    let made = self.mutator.allocate_raw(new, Fresh::Unwritten);
                    if let Ok(array) = made {
                        let words = self.words(kind, pattern);
                        for index in 0..length as usize {
                            let item = E::item(words(index));
                            self.mutator.initialize_element_in::<E>(array, index, item);
                        }
                    }
                    made
                }
            }
        };
        self.roots[root].set(Value::reference(made.expect("there is room")));
    }

    /// An array of numbers that is filled through a view.
    fn allocate_with<T: Bits>(&mut self, root: usize, kind: Kind, length: u32, pattern: Pattern) {
        let id = self.id(kind);
        let words = self.words(kind, pattern);
        // SAFETY: a type of such numbers; what is needed later is in the roots.
        let made = unsafe {
            self.mutator
                .allocate_array_by_window::<T>(id, length, |_, view| {
                    assert_eq!(view.len(), length as usize);
                    for (index, number) in view.iter_mut().enumerate() {
                        assert_eq!(number.bits(), 0, "fresh element {index}");
                        *number = T::of(words(index));
                    }
                })
        };
        self.roots[root].set(Value::reference(made.expect("there is room")));
    }

    fn store<E: Word>(&mut self, root: usize, index: usize, pick: Pick) {
        let item = E::item(self.word(pick));
        // SAFETY: the array has this element; the item was read just now, and nothing else is used again.
        unsafe {
            let stored = self
                .mutator
                .store_element_in::<E>(self.array(root), index, item);
            stored.expect("there is room");
        }
    }

    fn store_raw(&mut self, root: usize, index: usize, pick: Pick) {
        let value = Value::from_bits(self.word(pick));
        // SAFETY: as for `store`, of an array of references.
        unsafe {
            let stored = self
                .mutator
                .store_element_raw(self.array(root), index, value);
            stored.expect("there is room");
        }
    }

    fn fill_raw(&mut self, root: usize, index: usize, count: usize, pick: Pick) {
        let value = Value::from_bits(self.word(pick));
        // SAFETY: as for `fill`, of an array of references.
        unsafe {
            let array = self.array(root);
            let filled = self.mutator.fill_elements_raw(array, index, count, value);
            filled.expect("there is room");
        }
    }

    fn load<E: Word>(&self, root: usize, index: usize) -> u64 {
        // SAFETY: the array has this element.
        E::word(unsafe { self.mutator.load_element_in::<E>(self.array(root), index) })
    }

    /// Something that an element is not.
    fn other_than(&self, kind: Kind, word: u64) -> u64 {
        match kind {
            Kind::Values => {
                let is_five = word == Value::immediate(5).bits();
                Value::immediate(5 + i64::from(is_five)).bits()
            }
            Kind::Objects => {
                let roots = self.roots.iter().map(Cell::get).chain([Value::NULL]);
                let mut words = roots.map(Value::bits).filter(|&other| other != word);
                // Null or a root: one of them is another one, unless all roots are null.
                words.next().unwrap_or(word)
            }
            _ => word ^ 1,
        }
    }

    fn exchange<E: Word>(
        &mut self,
        root: usize,
        index: usize,
        hits: bool,
        pick: Pick,
        model: &Model,
    ) {
        let Array { kind, ref elements } = *model.array(root).expect("an array");
        let code = elements[index];
        let found = self.load::<E>(root, index);
        self.assert_agrees("before a compare-and-swap", index, kind, found, code, model);
        let wanted = if hits {
            found
        } else {
            self.other_than(kind, found)
        };
        if !hits && wanted == found {
            return;
        }
        let new = E::item(self.word(pick));
        // SAFETY: the array has this element; what is given was read just now, and nothing else is used again.
        let done = unsafe {
            let array = self.array(root);
            if !kind.is_number() && index.is_multiple_of(2) {
                let (wanted, new) = (Value::from_bits(wanted), Value::from_bits(E::word(new)));
                let done = self
                    .mutator
                    .compare_exchange_element_raw(array, index, wanted, new);
                done.map(|done| done.map_err(|found| E::item(found.bits())))
            } else {
                let wanted = E::item(wanted);
                self.mutator
                    .compare_exchange_element_in::<E>(array, index, wanted, new)
            }
        };
        match done.expect("there is room") {
            Ok(()) => assert!(
                hits,
                "a swap of element {index} found {wanted:#x} for {found:#x}"
            ),
            Err(other) => {
                assert!(
                    !hits,
                    "a swap of element {index} failed: {:#x} for {found:#x}",
                    E::word(other)
                );
                self.assert_agrees(
                    "a swap that failed",
                    index,
                    kind,
                    E::word(other),
                    code,
                    model,
                );
            }
        }
    }

    fn fill<E: Word>(&mut self, root: usize, index: usize, count: usize, pick: Pick) {
        let item = E::item(self.word(pick));
        // SAFETY: the array has this range; the item was read just now, and nothing else is used again.
        unsafe {
            let filled = self
                .mutator
                .fill_elements_in::<E>(self.array(root), index, count, item);
            filled.expect("there is room");
        }
    }

    /// Reads a range one by one, or with a cursor that stops half way and goes on after a poll.
    fn read<E: Word>(
        &mut self,
        root: usize,
        array: &Array,
        index: usize,
        count: usize,
        by_cursor: bool,
        model: &Model,
    ) {
        let half = if by_cursor { index + count / 2 } else { index };
        for (from, to) in [(index, half), (half, index + count)] {
            // SAFETY: the array has this range.
            let cursor = unsafe { self.mutator.cursor::<E>(self.array(root), from, to - from) };
            assert_eq!(cursor.len(), to - from);
            let mut at = from;
            if by_cursor {
                for item in cursor {
                    self.assert_agrees(
                        "a cursor",
                        at,
                        array.kind,
                        E::word(item),
                        array.elements[at],
                        model,
                    );
                    at += 1;
                }
                assert_eq!(at, to, "a cursor stops early");
                self.mutator.poll();
            } else {
                for at in from..to {
                    let word = self.load::<E>(root, at);
                    self.assert_agrees("a load", at, array.kind, word, array.elements[at], model);
                }
            }
        }
    }

    fn read_numbers<T: Bits>(
        &self,
        root: usize,
        array: &Array,
        index: usize,
        count: usize,
        is_window: bool,
    ) {
        let expected = &array.elements[index..index + count];
        let compare = |found: &[T]| {
            assert_eq!(found.len(), count);
            let differs = (0..count).find(|&at| found[at].bits() != expected[at]);
            if let Some(at) = differs {
                let (found, expected) = (found[at].bits(), expected[at]);
                panic!(
                    "element {} is {found:#x}; expected {expected:#x}",
                    index + at
                );
            }
        };
        // SAFETY: the array has this range, and there is no other thread.
        unsafe {
            if is_window {
                self.mutator.window(self.array(root), index, count, compare);
            } else {
                let mut buffer = vec![T::of(u64::MAX); count];
                self.mutator
                    .read_elements(self.array(root), index, &mut buffer);
                compare(&buffer);
            }
        }
    }

    /// Writes a range by a cursor: `stop` of its `count` elements.
    fn write<E: Word>(
        &mut self,
        root: usize,
        index: usize,
        count: usize,
        stop: usize,
        pattern: Pattern,
        model: &Model,
    ) {
        let array = model.array(root).expect("an array");
        let (kind, types, roots) = (array.kind, self.types, self.roots);
        // SAFETY: the array has this range; what is stored is read from the roots after the cursor was opened.
        unsafe {
            let object = self.array(root);
            let opened = self.mutator.cursor_mut::<E>(object, index, count);
            let mut cursor = opened.expect("there is room");
            for number in 0..stop {
                let at = index + number;
                assert_eq!(cursor.index(), at);
                let found = E::word(cursor.load().expect("not at the end"));
                assert!(
                    Self::agrees(
                        cursor.mutator(),
                        &types,
                        kind,
                        found,
                        array.elements[at],
                        model
                    ),
                    "a cursor for stores finds {found:#x} at {at}; expected {}",
                    expected(model, array.elements[at])
                );
                let word = match pattern.pick(kind, number, <F as SlotFormat>::BYTES) {
                    Pick::Bits(bits) => bits,
                    Pick::Root(root) => roots[root].get().bits(),
                };
                assert!(cursor.store(E::item(word)));
                // By another way, while the cursor is there.
                let object = roots[root].get().as_object().expect("the array");
                let stored = cursor.mutator().load_element_in::<E>(object, at);
                assert_eq!(
                    E::word(stored),
                    word,
                    "element {at} after a store by a cursor"
                );
            }
            if stop == count {
                assert!(cursor.load().is_none() && cursor.index() == index + count);
            }
        }
    }

    fn write_numbers<T: Bits>(
        &mut self,
        root: usize,
        array: &Array,
        index: usize,
        count: usize,
        pattern: Pattern,
        is_window: bool,
    ) {
        let words = self.words(array.kind, pattern);
        let object = self.array(root);
        // SAFETY: the array has this range, there is no other thread, and nothing else is used again.
        let done = unsafe {
            if is_window {
                self.mutator
                    .window_mut::<T, _>(object, index, count, |_, view| {
                        assert_eq!(view.len(), count);
                        for (at, number) in view.iter_mut().enumerate() {
                            assert_eq!(
                                number.bits(),
                                array.elements[index + at],
                                "a view of {}",
                                index + at
                            );
                            *number = T::of(words(at));
                        }
                    })
            } else {
                let buffer: Vec<T> = (0..count).map(|at| T::of(words(at))).collect();
                self.mutator.write_elements(object, index, &buffer)
            }
        };
        done.expect("there is room");
    }

    fn snapshot(&mut self, from: usize, to: usize, array: &Array) {
        let (id, length) = (self.id(array.kind), array.elements.len() as u32);
        let bytes = array_bytes(
            length,
            array.kind.bytes(<F as SlotFormat>::BYTES).trailing_zeros(),
        );
        // SAFETY: a type with such elements; the arrays are in the roots again where something collects.
        unsafe {
            let source = self.roots[from].get();
            let made = self.mutator.with_roots([source], |mutator, [source]| {
                let made = mutator
                    .allocate_raw(NewObject::array(id, length, bytes), Fresh::Zeroed)
                    .expect("there is room");
                mutator.with_roots([Value::reference(made)], |mutator, [made]| {
                    let objects = [source, made].map(|root| root.get().as_object().unwrap());
                    let copied = mutator.copy_elements_raw(objects[0], 0, objects[1], 0, length);
                    copied.expect("there is room");
                    made.get()
                })
            });
            self.roots[to].set(made);
        }
    }

    fn make_box(&mut self, root: usize, number: usize) {
        // SAFETY: the type's own size; a slot and a number lie there; the reference is read after the allocation.
        unsafe {
            let made = self.mutator.allocate_raw(
                NewObject::structure(self.types.boxed.id(), self.types.boxed.size()),
                Fresh::Zeroed,
            );
            let made = made.expect("there is room");
            self.mutator.store_raw(made, FIELDS, self.roots[root].get());
            made.add(NUMBER).ptr::<u64>().write(number as u64);
            self.roots[root].set(Value::reference(made));
        }
    }

    fn check_elements<E: Word>(&self, what: &str, object: Address, array: &Array, model: &Model) {
        // SAFETY: a valid reference to an array of this kind, whose length is compared first.
        unsafe {
            assert_eq!(
                self.mutator.type_raw(object),
                self.id(array.kind),
                "{what}: the type"
            );
            let length = self.mutator.length_raw(object) as usize;
            assert_eq!(length, array.elements.len(), "{what}: the length");
            let cursor = self.mutator.cursor::<E>(object, 0, length);
            for (index, (item, &code)) in cursor.zip(&array.elements).enumerate() {
                self.assert_agrees(what, index, array.kind, E::word(item), code, model);
            }
        }
    }

    /// Where the objects are that something refers to, in the order of the model.
    fn referents<E: Word>(&self, object: Address, array: &Array) -> Vec<Value> {
        // SAFETY: a valid reference to an array of this kind.
        let cursor = unsafe { self.mutator.cursor::<E>(object, 0, array.elements.len()) };
        let values = cursor.map(|item| Value::from_bits(E::word(item)));
        values.filter(|value| value.as_object().is_some()).collect()
    }

    fn hash_elements<E: Word>(&self, object: Address, length: usize, hash: &mut Hash) {
        // SAFETY: a valid reference to an array of this kind and length.
        let cursor = unsafe { self.mutator.cursor::<E>(object, 0, length) };
        cursor.for_each(|item| hash.add(E::word(item)));
    }
}

impl<F: SlotFormat + Word<Item = Value>> Layer for Raw<'_, F> {
    fn apply(&mut self, op: &Op, model: &Model) {
        let of = |root: usize| model.array(root).expect("an array");
        match *op {
            Op::Allocate {
                root,
                kind,
                length,
                way: Way::With,
                pattern,
            } if kind.is_number() => {
                with_numbers!(self, kind, allocate_with(root, kind, length as u32, pattern), else ());
            }
            Op::Allocate {
                root,
                kind,
                length,
                way,
                pattern,
            } => {
                with_elements!(
                    self,
                    kind,
                    allocate(root, kind, length as u32, way, pattern)
                );
            }
            Op::Snapshot { from, to } => self.snapshot(from, to, of(from)),
            Op::Drop { root } => self.roots[root].set(Value::NULL),
            Op::Alias { from, to } => self.roots[to].set(self.roots[from].get()),
            Op::Box { root } => self.make_box(root, model.next()),
            Op::Unbox { root } => {
                // SAFETY: a box has its reference there.
                let inner = unsafe { self.mutator.load_raw(self.array(root), FIELDS) };
                self.roots[root].set(inner);
            }
            Op::LoadInto { from, index, to } => {
                let array = of(from);
                // SAFETY: an array of references that has this element.
                let value = unsafe { self.mutator.load_element_raw(self.array(from), index) };
                let code = array.elements[index];
                self.assert_agrees("a load", index, array.kind, value.bits(), code, model);
                self.roots[to].set(value);
            }
            Op::Store { root, index, pick } => {
                let kind = of(root).kind;
                if !kind.is_number() && index.is_multiple_of(2) {
                    return self.store_raw(root, index, pick);
                }
                with_elements!(self, kind, store(root, index, pick));
            }
            Op::Exchange {
                root,
                index,
                hits,
                pick,
            } => {
                with_elements!(
                    self,
                    of(root).kind,
                    exchange(root, index, hits, pick, model)
                );
            }
            Op::Fill {
                root,
                index,
                count,
                pick,
            } => {
                let kind = of(root).kind;
                if !kind.is_number() && index.is_multiple_of(2) {
                    return self.fill_raw(root, index, count, pick);
                }
                with_elements!(self, kind, fill(root, index, count, pick));
            }
            Op::Read {
                root,
                index,
                count,
                through,
            } => {
                let array = of(root);
                let by_cursor = through != Through::Elements;
                if array.kind.is_number() && matches!(through, Through::Buffer | Through::Window) {
                    let is_window = through == Through::Window;
                    with_numbers!(self, array.kind, read_numbers(root, array, index, count, is_window), else ());
                } else {
                    with_elements!(
                        self,
                        array.kind,
                        read(root, array, index, count, by_cursor, model)
                    );
                }
            }
            Op::Write {
                root,
                index,
                count,
                stop,
                through,
                pattern,
            } => {
                let array = of(root);
                match through {
                    Through::Buffer | Through::Window if array.kind.is_number() => {
                        let is_window = through == Through::Window;
                        with_numbers!(
                            self,
                            array.kind,
                            write_numbers(root, array, index, count, pattern, is_window),
                            else ()
                        );
                    }
                    Through::Elements => {
                        for number in 0..count {
                            let pick = pattern.pick(array.kind, number, <F as SlotFormat>::BYTES);
                            // What is picked is what the roots held when the step began, and they hold the same.
                            with_elements!(self, array.kind, store(root, index + number, pick));
                        }
                    }
                    _ => with_elements!(
                        self,
                        array.kind,
                        write(root, index, count, stop, pattern, model)
                    ),
                }
            }
            Op::Copy {
                from,
                from_index,
                to,
                to_index,
                count,
            } => {
                let [from_index, to_index, count] =
                    [from_index, to_index, count].map(|number| number as u32);
                // SAFETY: arrays with elements of one size, and ranges inside of them; nothing else is used again.
                let copied = unsafe {
                    let (from, to) = (self.array(from), self.array(to));
                    self.mutator
                        .copy_elements_raw(from, from_index, to, to_index, count)
                };
                copied.expect("there is room");
            }
            Op::Collect { everything } => self.mutator.collect(everything),
            Op::Poll => self.mutator.poll(),
            Op::Garbage { kind, length } => {
                let log2 = kind.bytes(<F as SlotFormat>::BYTES).trailing_zeros();
                let bytes = array_bytes(length as u32, log2);
                let new = NewObject::array(self.id(kind), length as u32, bytes);
                // SAFETY: a type with such elements; what is needed later is in the roots.
                let made = unsafe { self.mutator.allocate_raw(new, Fresh::Zeroed) };
                made.expect("there is room");
            }
            // SAFETY: an array, over which no cursor is open; there is no other thread.
            Op::Shrink { root, length } => unsafe {
                self.mutator.shrink_raw(self.array(root), length as u32);
            },
        }
    }

    fn check(&mut self, root: usize, array: &Array, model: &Model) {
        let what = format!("root {root}");
        with_elements!(
            self,
            array.kind,
            check_elements(&what, self.array(root), array, model)
        );
    }

    fn check_all(&mut self, model: &Model) -> u64 {
        let mut places: HashMap<Code, Address> = HashMap::new();
        let mut names: HashMap<Address, Code> = HashMap::new();
        let mut waiting: Vec<(Code, Value)> = Vec::new();
        for (root, &code) in model.roots.iter().enumerate() {
            let value = self.roots[root].get();
            assert_eq!(code == 0, value.is_null(), "root {root}: {value:?}");
            if code != 0 {
                waiting.push((code, value));
            }
        }
        while let Some((code, value)) = waiting.pop() {
            let what = || format!("what should be {}", expected(model, code));
            let object = value
                .as_object()
                .unwrap_or_else(|| panic!("{}: {value:?}", what()));
            let place = *places.entry(code).or_insert(object);
            assert_eq!(place, object, "{}: it is two objects", what());
            if let Some(&name) = names.get(&object) {
                assert_eq!(name, code, "{object:?} is two objects of the model");
                continue;
            }
            names.insert(object, code);
            let found = match model.object(code) {
                Known::Array(array) => {
                    with_elements!(
                        self,
                        array.kind,
                        check_elements(&what(), object, array, model)
                    );
                    match array.kind {
                        Kind::Values => self.referents::<F>(object, array),
                        Kind::Objects => self.referents::<Object<F>>(object, array),
                        _ => Vec::new(),
                    }
                }
                _ => {
                    let agrees = Self::agrees(
                        self.mutator,
                        &self.types,
                        Kind::Values,
                        value.bits(),
                        code,
                        model,
                    );
                    assert!(agrees, "{}: {value:?}", what());
                    // SAFETY: a box has its reference there.
                    let inner = unsafe { self.mutator.load_raw(object, FIELDS) };
                    inner.as_object().map(|_| inner).into_iter().collect()
                }
            };
            let codes: Vec<Code> = model.references(code).collect();
            assert_eq!(codes.len(), found.len(), "{}: references", what());
            waiting.extend(codes.into_iter().zip(found));
        }
        let mut hash = Hash::new();
        let mut all: Vec<(Code, Address)> = places.into_iter().collect();
        all.sort();
        for (code, object) in all {
            hash.add(code);
            match model.object(code) {
                Known::Array(Array { kind, elements }) if kind.is_number() => {
                    with_elements!(
                        self,
                        *kind,
                        hash_elements(object, elements.len(), &mut hash)
                    );
                }
                // Each reference was found to be what the model has.
                _ => model.references(code).for_each(|code| hash.add(code)),
            }
        }
        hash.end()
    }
}
