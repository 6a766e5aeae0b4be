//! What a program has made so far, without a heap: arrays as words, boxes, and the roots.
//!
//! A number is the word of its bits. A reference is a [`Code`]: 0 for null, an odd word for an immediate (the bits
//! that the heap has for it), else twice the number of the object. Numbers of objects count from 1 and are not used
//! twice.

use super::script::{Op, Pattern, Pick};

/// How many roots a program has.
pub const ROOTS: usize = 12;

/// An element as the model has it.
pub type Code = u64;

/// What the elements of an array are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
    /// References, immediates among them.
    Values,
    /// References without immediates.
    Objects,
}

impl Kind {
    pub const ALL: [Kind; 12] = {
        use Kind::*;
        [
            U8, I8, U16, I16, U32, I32, F32, U64, I64, F64, Values, Objects,
        ]
    };

    pub fn is_number(self) -> bool {
        !matches!(self, Kind::Values | Kind::Objects)
    }

    /// Bytes of an element.
    pub fn bytes(self, slot_bytes: usize) -> usize {
        match self {
            Kind::U8 | Kind::I8 => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 => 8,
            Kind::Values | Kind::Objects => slot_bytes,
        }
    }

    /// Whether elements of one may be copied to the other.
    pub fn copies_to(self, to: Kind) -> bool {
        self == to || (self.is_number() && to.is_number() && self.bytes(0) == to.bytes(0))
    }
}

/// An array.
#[derive(Clone)]
pub struct Array {
    pub kind: Kind,
    pub elements: Vec<Code>,
}

/// An object.
pub enum Known {
    /// A structure that refers to one object or none, and has its own number.
    Boxed(Code),
    Array(Array),
    /// Nothing refers to it.
    Gone,
}

pub struct Model {
    known: Vec<Known>,
    pub roots: [Code; ROOTS],
    pub slot_bytes: usize,
}

impl Model {
    pub fn new(slot_bytes: usize) -> Model {
        Model {
            known: vec![Known::Gone],
            roots: [0; ROOTS],
            slot_bytes,
        }
    }

    /// The number of the next object.
    pub fn next(&self) -> usize {
        self.known.len()
    }

    pub fn object(&self, code: Code) -> &Known {
        assert!(code != 0 && code & 1 == 0, "{code:#x} is no object");
        &self.known[code as usize / 2]
    }

    /// The array in a root, if there is one.
    pub fn array(&self, root: usize) -> Option<&Array> {
        match self.roots[root] {
            0 => None,
            code => match self.object(code) {
                Known::Array(array) => Some(array),
                _ => None,
            },
        }
    }

    fn array_mut(&mut self, root: usize) -> &mut Array {
        match &mut self.known[self.roots[root] as usize / 2] {
            Known::Array(array) => array,
            _ => panic!("root {root} is no array"),
        }
    }

    fn add(&mut self, known: Known) -> Code {
        self.known.push(known);
        2 * (self.known.len() as u64 - 1)
    }

    /// The element that a pick is, as the roots are now.
    pub fn code(&self, pick: Pick) -> Code {
        match pick {
            Pick::Bits(bits) => bits,
            Pick::Root(root) => self.roots[root],
        }
    }

    fn codes(&self, kind: Kind, pattern: Pattern, count: usize) -> Vec<Code> {
        let pick = |index| self.code(pattern.pick(kind, index, self.slot_bytes));
        (0..count).map(pick).collect()
    }

    /// Does what the step does.
    pub fn apply(&mut self, op: &Op) {
        match *op {
            Op::Allocate {
                root,
                kind,
                length,
                way,
                pattern,
            } => {
                let elements = match way.is_given() {
                    true => self.codes(kind, pattern, length),
                    false => vec![0; length],
                };
                self.roots[root] = self.add(Known::Array(Array { kind, elements }));
            }
            Op::Snapshot { from, to } => {
                let array = self.array(from).expect("an array").clone();
                self.roots[to] = self.add(Known::Array(array));
            }
            Op::Drop { root } => self.roots[root] = 0,
            Op::Alias { from, to } => self.roots[to] = self.roots[from],
            Op::Box { root } => self.roots[root] = self.add(Known::Boxed(self.roots[root])),
            Op::Unbox { root } => match *self.object(self.roots[root]) {
                Known::Boxed(inner) => self.roots[root] = inner,
                _ => panic!("root {root} is no box"),
            },
            Op::LoadInto { from, index, to } => {
                self.roots[to] = self.array(from).expect("an array").elements[index];
            }
            Op::Store { root, index, pick } => {
                let code = self.code(pick);
                self.array_mut(root).elements[index] = code;
            }
            Op::Exchange {
                root,
                index,
                hits,
                pick,
            } => {
                let code = self.code(pick);
                if hits {
                    self.array_mut(root).elements[index] = code;
                }
            }
            Op::Fill {
                root,
                index,
                count,
                pick,
            } => {
                let code = self.code(pick);
                self.array_mut(root).elements[index..index + count].fill(code);
            }
            Op::Write {
                root,
                index,
                stop,
                pattern,
                ..
            } => {
                let kind = self.array(root).expect("an array").kind;
                let codes = self.codes(kind, pattern, stop);
                self.array_mut(root).elements[index..index + stop].copy_from_slice(&codes);
            }
            Op::Copy {
                from,
                from_index,
                to,
                to_index,
                count,
            } => {
                let source = &self.array(from).expect("an array").elements;
                let codes = source[from_index..from_index + count].to_vec();
                self.array_mut(to).elements[to_index..to_index + count].copy_from_slice(&codes);
            }
            Op::Shrink { root, length } => self.array_mut(root).elements.truncate(length),
            Op::Read { .. } | Op::Collect { .. } | Op::Poll | Op::Garbage { .. } => {}
        }
    }

    /// What an object refers to.
    pub fn references(&self, code: Code) -> impl Iterator<Item = Code> {
        let (one, many): (Code, &[Code]) = match self.object(code) {
            Known::Boxed(inner) => (*inner, &[]),
            Known::Array(array) if !array.kind.is_number() => (0, &array.elements),
            _ => (0, &[]),
        };
        let all = many.iter().copied().chain([one]);
        all.filter(|&code| code != 0 && code & 1 == 0)
    }

    /// Forgets what the roots do not reach. How many bytes they reach.
    pub fn trim(&mut self) -> usize {
        let mut reached = vec![false; self.known.len()];
        let mut waiting: Vec<Code> = self.roots.into_iter().filter(|&code| code != 0).collect();
        let mut bytes = 0;
        while let Some(code) = waiting.pop() {
            if !std::mem::replace(&mut reached[code as usize / 2], true) {
                bytes += match self.object(code) {
                    Known::Array(array) => {
                        16 + array.elements.len() * array.kind.bytes(self.slot_bytes)
                    }
                    _ => 24,
                };
                waiting.extend(self.references(code));
            }
        }
        for (known, _) in self
            .known
            .iter_mut()
            .zip(reached)
            .filter(|(_, reached)| !reached)
        {
            *known = Known::Gone;
        }
        bytes
    }
}
