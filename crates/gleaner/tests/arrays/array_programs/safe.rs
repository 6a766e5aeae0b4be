//! Programs through the safe layer: the roots are locals of a scope.

use std::collections::HashSet;

use super::layer::{Bits, Hash, Layer, Types, expected, with_numbers};
use super::model::{Array, Code, Kind, Known, Model, ROOTS};
use super::script::{Op, Pattern, Pick, Through, Way};
use gleaner::{Local, Mutator, Scope};

/// The safe layer.
pub struct Safe<'a, 's> {
    scope: &'a mut Scope<'s>,
    roots: [Local<'s>; ROOTS],
    /// For an element that is looked at.
    element: Local<'s>,
    types: Types,
    slot_bytes: usize,
}

/// Runs `body` with the safe layer.
pub fn with_safe<R>(
    mutator: &mut Mutator,
    types: Types,
    slot_bytes: usize,
    body: impl FnOnce(&mut Safe<'_, '_>) -> R,
) -> R {
    mutator.scope(|scope| {
        let roots = [(); ROOTS].map(|()| scope.null());
        let element = scope.null();
        body(&mut Safe {
            scope,
            roots,
            element,
            types,
            slot_bytes,
        })
    })
}

/// What a pick is, as a new local of a scope.
fn local<'t>(scope: &mut Scope<'t>, roots: &[Local<'_>; ROOTS], pick: Pick) -> Local<'t> {
    match pick {
        Pick::Bits(0) => scope.null(),
        Pick::Bits(bits) => scope.integer(bits as i64 >> 1).unwrap(),
        Pick::Root(root) => {
            let made = scope.null();
            scope.assign(made, roots[root]);
            made
        }
    }
}

/// The bits of a number that is picked.
fn bits(pick: Pick) -> u64 {
    match pick {
        Pick::Bits(bits) => bits,
        Pick::Root(_) => panic!("a reference for a number"),
    }
}

/// Whether a local is what the model says, as far as that can be seen without following it far.
fn agrees(scope: &Scope<'_>, types: &Types, local: Local<'_>, code: Code, model: &Model) -> bool {
    if code == 0 {
        return scope.is_null(local);
    }
    if code & 1 == 1 {
        return scope.as_integer(local) == Some(code as i64 >> 1);
    }
    if scope.is_null(local) || scope.as_integer(local).is_some() {
        return false;
    }
    let is_box = scope.is_a(local, types.boxed);
    match model.object(code) {
        Known::Boxed(_) => is_box && scope.read_u64(local, 0) == code / 2,
        Known::Array(array) => !is_box && scope.length(local) as usize == array.elements.len(),
        Known::Gone => false,
    }
}

/// Compares elements of an array of references.
fn check_references(
    scope: &mut Scope<'_>,
    types: &Types,
    object: Local<'_>,
    array: &Array,
    from: usize,
    count: usize,
    model: &Model,
) {
    scope.nested(|scope| {
        let element = scope.null();
        for (index, &code) in array.elements.iter().enumerate().skip(from).take(count) {
            scope.load(object, index, element);
            assert!(
                agrees(scope, types, element, code, model),
                "element {index} of {:?}: expected {code:#x}, {}",
                array.kind,
                expected(model, code)
            );
        }
    });
}

impl<'s> Safe<'_, 's> {
    fn look(&mut self) -> Look<'_, 's> {
        Look {
            scope: self.scope,
            types: self.types,
        }
    }

    /// Runs `body` with a new array of zeros.
    fn with_fresh(
        &mut self,
        kind: Kind,
        length: usize,
        way: Way,
        body: impl for<'t> FnOnce(&mut Scope<'t>, Local<'t>),
    ) {
        let (numbers, references) = (
            kind.is_number().then(|| self.types.numbers(kind)),
            self.types.references(kind),
        );
        let (length, is_pinned) = (length as u32, way == Way::Pinned);
        self.scope.nested(|scope| {
            let made = match numbers {
                Some(of) if way == Way::Immortal => scope.allocate_immortal_array(of, length),
                None if way == Way::Immortal => {
                    scope.allocate_immortal_references(references, length)
                }
                Some(of) => scope.allocate_array(if is_pinned { of.pinned() } else { of }, length),
                None if is_pinned => scope.allocate_references(references.pinned(), length),
                None => scope.allocate_references(references, length),
            };
            body(scope, made.expect("there is room"));
        });
    }

    fn allocate_numbers<T: Bits>(
        &mut self,
        root: usize,
        kind: Kind,
        length: usize,
        pattern: Pattern,
    ) {
        let mut bytes = Vec::new();
        for index in 0..length {
            let word = bits(pattern.pick(kind, index, self.slot_bytes));
            bytes.extend_from_slice(&word.to_ne_bytes()[..T::BYTES]);
        }
        let (roots, of) = (self.roots, self.types.numbers(kind));
        self.scope.nested(|scope| {
            let made = scope
                .allocate_array_with(of, &bytes)
                .expect("there is room");
            scope.assign(roots[root], made);
        });
    }

    fn allocate_given(&mut self, root: usize, kind: Kind, length: usize, pattern: Pattern) {
        let (roots, slot_bytes, of) = (self.roots, self.slot_bytes, self.types.references(kind));
        self.scope.nested(|scope| {
            let mut elements = Vec::new();
            for index in 0..length {
                elements.push(local(scope, &roots, pattern.pick(kind, index, slot_bytes)));
            }
            let made = scope
                .allocate_references_with(of, &elements)
                .expect("there is room");
            scope.assign(roots[root], made);
        });
    }

    fn store<T: Bits>(&mut self, root: usize, index: usize, pick: Pick) {
        let (array, word) = (self.roots[root], bits(pick));
        let stored = match T::BYTES {
            1 => self.scope.write_u8(array, index, word as u8),
            2 => self.scope.write_u16(array, index, word as u16),
            4 => self.scope.write_u32(array, index, word as u32),
            _ if index.is_multiple_of(2) => {
                self.scope.write_f64(array, index, f64::from_bits(word))
            }
            _ => self.scope.write_u64(array, index, word),
        };
        stored.expect("there is room");
    }

    fn load<T: Bits>(&self, root: usize, index: usize) -> u64 {
        let array = self.roots[root];
        match T::BYTES {
            1 => self.scope.read_u8(array, index).into(),
            2 => self.scope.read_u16(array, index).into(),
            4 => self.scope.read_u32(array, index).into(),
            _ if index.is_multiple_of(2) => self.scope.read_f64(array, index).to_bits(),
            _ => self.scope.read_u64(array, index),
        }
    }

    fn set(&mut self, root: usize, index: usize, pick: Pick) {
        let roots = self.roots;
        self.scope.nested(|scope| {
            let value = local(scope, &roots, pick);
            scope.set(roots[root], index, value).expect("there is room");
        });
    }

    fn exchange<T: Bits>(&mut self, root: usize, index: usize, hits: bool, pick: Pick, code: Code) {
        let wanted = T::of(if hits { code } else { code ^ 1 });
        let (array, new) = (self.roots[root], T::of(bits(pick)));
        let done = self
            .scope
            .compare_exchange_number(array, index, wanted, new);
        let done = done.expect("there is room").map_err(T::bits);
        assert_eq!(
            done,
            if hits { Ok(()) } else { Err(code) },
            "a swap of element {index}"
        );
    }

    fn exchange_references(&mut self, root: usize, index: usize, hits: bool, pick: Pick) {
        let roots = self.roots;
        self.scope.nested(|scope| {
            let new = local(scope, &roots, pick);
            let found = scope.get(roots[root], index);
            let mut others = vec![scope.null()];
            others.extend(roots);
            let other = others.into_iter().find(|&other| !scope.same(other, found));
            let wanted = if hits { Some(found) } else { other };
            if let Some(wanted) = wanted {
                let done = scope.compare_exchange(roots[root], index, wanted, new);
                assert_eq!(
                    done.expect("there is room"),
                    hits,
                    "a swap of element {index}"
                );
            }
        });
    }

    fn fill<T: Bits>(&mut self, root: usize, index: usize, count: usize, pick: Pick) {
        let filled = self
            .scope
            .fill_numbers(self.roots[root], index, count, T::of(bits(pick)));
        filled.expect("there is room");
    }

    fn fill_references(&mut self, root: usize, index: usize, count: usize, pick: Pick) {
        let roots = self.roots;
        self.scope.nested(|scope| {
            let value = local(scope, &roots, pick);
            scope
                .fill(roots[root], index, count, value)
                .expect("there is room");
        });
    }

    fn read<T: Bits>(
        &self,
        root: usize,
        array: &Array,
        index: usize,
        count: usize,
        through: Through,
    ) {
        let object = self.roots[root];
        let found: Vec<u64> = match through {
            Through::Buffer | Through::Window => {
                let mut buffer = vec![T::of(u64::MAX); count];
                self.scope.read_elements(object, index, &mut buffer);
                buffer.into_iter().map(T::bits).collect()
            }
            Through::Cursor => self
                .scope
                .numbers::<T>(object, index, count)
                .map(T::bits)
                .collect(),
            Through::Elements => (index..index + count)
                .map(|index| self.load::<T>(root, index))
                .collect(),
        };
        assert_eq!(found.len(), count);
        for (at, (found, expected)) in found.into_iter().zip(&array.elements[index..]).enumerate() {
            assert_eq!(
                found,
                *expected,
                "element {} of {:?}",
                index + at,
                array.kind
            );
        }
    }

    fn write<T: Bits>(
        &mut self,
        root: usize,
        kind: Kind,
        index: usize,
        count: usize,
        pattern: Pattern,
    ) {
        let number = |at| T::of(bits(pattern.pick(kind, at, self.slot_bytes)));
        let numbers: Vec<T> = (0..count).map(number).collect();
        let written = self.scope.write_elements(self.roots[root], index, &numbers);
        written.expect("there is room");
    }
}

/// Compares what is in a heap with the model.
struct Look<'a, 's> {
    scope: &'a mut Scope<'s>,
    types: Types,
}

impl Look<'_, '_> {
    fn check_numbers<T: Bits>(&self, object: Local<'_>, array: &Array) {
        let numbers = self.scope.numbers::<T>(object, 0, array.elements.len());
        for (index, (number, &expected)) in numbers.zip(&array.elements).enumerate() {
            assert_eq!(
                number.bits(),
                expected,
                "element {index} of {:?}",
                array.kind
            );
        }
    }

    fn hash_numbers<T: Bits>(&self, object: Local<'_>, count: usize, hash: &mut Hash) {
        let numbers = self.scope.numbers::<T>(object, 0, count);
        numbers.for_each(|number| hash.add(number.bits()));
    }

    fn check_array(&mut self, object: Local<'_>, array: &Array, model: &Model) {
        let length = array.elements.len();
        assert_eq!(self.scope.length(object) as usize, length, "the length");
        with_numbers!(self, array.kind, check_numbers(object, array), else {
            check_references(self.scope, &self.types, object, array, 0, length, model);
        });
    }

    /// Compares what a local refers to, and what that refers to; each object once.
    fn check_object(
        &mut self,
        object: Local<'_>,
        code: Code,
        model: &Model,
        reached: &mut HashSet<Code>,
        hash: &mut Hash,
    ) {
        let agrees = agrees(self.scope, &self.types, object, code, model);
        assert!(agrees, "an object is not {}", expected(model, code));
        if code & 1 == 1 || code == 0 || !reached.insert(code) {
            return;
        }
        hash.add(code);
        let elements: Vec<(usize, Code)> = match model.object(code) {
            Known::Array(array) => {
                self.check_array(object, array, model);
                with_numbers!(self, array.kind, hash_numbers(object, array.elements.len(), hash), else ());
                match array.kind.is_number() {
                    true => Vec::new(),
                    false => array.elements.iter().copied().enumerate().collect(),
                }
            }
            Known::Boxed(inner) => vec![(0, *inner)],
            Known::Gone => panic!("object {} is gone", code / 2),
        };
        for (index, code) in elements {
            if code != 0 && code & 1 == 0 && !reached.contains(&code) {
                let types = self.types;
                self.scope.nested(|scope| {
                    let inner = scope.get(object, index);
                    Look { scope, types }.check_object(inner, code, model, reached, hash);
                });
            }
        }
    }
}

impl Layer for Safe<'_, '_> {
    fn apply(&mut self, op: &Op, model: &Model) {
        let of = |root: usize| model.array(root).expect("an array");
        let roots = self.roots;
        match *op {
            Op::Allocate {
                root,
                kind,
                length,
                way,
                ..
            } if !way.is_given() => {
                self.with_fresh(kind, length, way, |scope, made| {
                    scope.assign(roots[root], made)
                });
            }
            Op::Allocate {
                root,
                kind,
                length,
                pattern,
                ..
            } => {
                with_numbers!(self, kind, allocate_numbers(root, kind, length, pattern), else {
                    self.allocate_given(root, kind, length, pattern);
                });
            }
            Op::Snapshot { from, to } => {
                let Array { kind, ref elements } = *of(from);
                let length = elements.len();
                self.with_fresh(kind, length, Way::Zeroed, |scope, made| {
                    let copied = scope.copy_elements(roots[from], 0..length, made, 0);
                    copied.expect("there is room");
                    scope.assign(roots[to], made);
                });
            }
            Op::Drop { root } => self.scope.assign(roots[root], self.element),
            Op::Alias { from, to } => self.scope.assign(roots[to], roots[from]),
            Op::Box { root } => {
                let (boxed, number) = (self.types.boxed, model.next() as u64);
                self.scope.nested(|scope| {
                    let made = scope.allocate_with(boxed, &[roots[root]], &number.to_ne_bytes());
                    let made = made.expect("there is room");
                    scope.assign(roots[root], made);
                });
            }
            Op::Unbox { root } => self.scope.load(roots[root], 0, roots[root]),
            Op::LoadInto { from, index, to } => {
                let array = of(from);
                check_references(self.scope, &self.types, roots[from], array, index, 1, model);
                self.scope.load(roots[from], index, roots[to]);
            }
            Op::Store { root, index, pick } => {
                with_numbers!(self, of(root).kind, store(root, index, pick), else {
                    self.set(root, index, pick);
                });
            }
            Op::Exchange {
                root,
                index,
                hits,
                pick,
            } => {
                let Array { kind, ref elements } = *of(root);
                with_numbers!(self, kind, exchange(root, index, hits, pick, elements[index]), else {
                    check_references(self.scope, &self.types, roots[root], of(root), index, 1, model);
                    self.exchange_references(root, index, hits, pick);
                });
            }
            Op::Fill {
                root,
                index,
                count,
                pick,
            } => {
                with_numbers!(self, of(root).kind, fill(root, index, count, pick), else {
                    self.fill_references(root, index, count, pick);
                });
            }
            Op::Read {
                root,
                index,
                count,
                through,
            } => {
                let array = of(root);
                with_numbers!(self, array.kind, read(root, array, index, count, through), else {
                    check_references(self.scope, &self.types, roots[root], array, index, count, model);
                });
            }
            Op::Write {
                root,
                index,
                stop,
                through,
                pattern,
                ..
            } => {
                let kind = of(root).kind;
                if kind.is_number() && through != Through::Elements {
                    with_numbers!(self, kind, write(root, kind, index, stop, pattern), else ());
                    return;
                }
                for number in 0..stop {
                    let pick = pattern.pick(kind, number, self.slot_bytes);
                    with_numbers!(self, kind, store(root, index + number, pick), else {
                        self.set(root, index + number, pick);
                    });
                }
            }
            Op::Copy {
                from,
                from_index,
                to,
                to_index,
                count,
            } => {
                let copied = self.scope.copy_elements(
                    roots[from],
                    from_index..from_index + count,
                    roots[to],
                    to_index,
                );
                copied.expect("there is room");
            }
            Op::Collect { everything } => self.scope.collect(everything),
            Op::Poll => self.scope.poll(),
            Op::Garbage { kind, length } => self.with_fresh(kind, length, Way::Zeroed, |_, _| ()),
            Op::Shrink { .. } => unreachable!("arrays of scopes do not shrink"),
        }
    }

    fn check(&mut self, root: usize, array: &Array, model: &Model) {
        let object = self.roots[root];
        self.look().check_array(object, array, model);
    }

    fn check_all(&mut self, model: &Model) -> u64 {
        let (mut reached, mut hash) = (HashSet::new(), Hash::new());
        for (object, code) in self.roots.into_iter().zip(model.roots) {
            self.look()
                .check_object(object, code, model, &mut reached, &mut hash);
        }
        hash.end()
    }
}
