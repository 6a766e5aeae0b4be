//! Random programs over the safe interface, run on a heap and, in plain Rust, on an oracle that never frees.
//!
//! A program holds some roots. Each step allocates, links, unlinks, copies, reads or collects, or does something of
//! what [`beside`] has; what it does depends on its source of decisions alone: a seeded generator, or bytes that a
//! fuzzer made up. Every object carries a number of its own; at the end the graphs that the roots reach must be the
//! same, number by number.

mod beside;

use std::collections::HashMap;

use crate::random::Rng;
use beside::{Beside, Numbers};
use gleaner::{Elements, Heap, Local, OutOfMemory, Scope, Structure};

/// What a slot holds, as the oracle sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Held {
    Null,
    Integer(i64),
    Object(usize),
}

/// An object as the oracle sees it.
enum Known {
    /// A structure with its number.
    Node { number: u64, slots: Vec<Held> },
    /// An array of references.
    List(Vec<Held>),
    /// An array of bytes that all hold this.
    Bytes(u32, u8),
    /// An array of numbers of another size, or one that never moves.
    Numbers(Numbers),
}

/// Where the decisions of a program come from.
pub trait Source {
    /// Any number.
    fn next(&mut self) -> u64;
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize;
    /// Whether the program ends here.
    fn is_over(&self) -> bool {
        false
    }
}

impl Source for Rng {
    fn next(&mut self) -> u64 {
        Rng::next(self)
    }

    fn below(&mut self, bound: usize) -> usize {
        Rng::below(self, bound)
    }
}

/// A program that is running.
pub struct Program<S> {
    random: S,
    roots: Vec<Held>,
    objects: Vec<Known>,
    beside: Beside,
}

const SLOTS: usize = 3;

/// The types that programs use, of one heap.
#[derive(Clone, Copy)]
pub struct Types {
    node: gleaner::Type,
    list: gleaner::ReferenceArray,
    bytes: gleaner::Array,
    numbers: [gleaner::Array; 4],
}

impl Types {
    pub fn register(heap: &Heap) -> Types {
        let shape = Structure {
            references: SLOTS as u32,
            bytes: 8,
        };
        Types {
            node: heap.structure(shape).unwrap(),
            list: heap.reference_array().unwrap(),
            bytes: heap.array(Elements::Bytes).unwrap(),
            numbers: [
                Elements::Bytes,
                Elements::Halves,
                Elements::Words,
                Elements::Doubles,
            ]
            .map(|elements| heap.array(elements).unwrap()),
        }
    }
}

impl Types {
    /// A node that is dropped at once.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn allocate(&self, scope: &mut Scope<'_>) -> Result<(), OutOfMemory> {
        scope.allocate(self.node).map(|_| ())
    }
}

impl Program<Rng> {
    /// A program with so many roots: the more, the more of its objects live.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn new(seed: u64, roots: usize) -> Program<Rng> {
        Program::from(Rng::new(seed), roots)
    }
}

impl<S: Source> Program<S> {
    /// A program that decides by this.
    pub fn from(source: S, roots: usize) -> Program<S> {
        Program {
            random: source,
            roots: vec![Held::Null; roots],
            objects: Vec::new(),
            beside: Beside::default(),
        }
    }

    /// Runs so many steps in a scope of its own and compares, and compares again after a full collection. An allocation
    /// that fails is left out by both sides; how many did.
    pub fn run(&mut self, scope: &mut Scope<'_>, types: Types, steps: usize) -> usize {
        scope.nested(|scope| {
            let roots: Vec<Local<'_>> = self.roots.iter().map(|_| scope.null()).collect();
            let mut failed = 0;
            for _ in 0..steps {
                if self.random.is_over() {
                    break;
                }
                failed += usize::from(self.step(scope, &roots, types).is_err());
            }
            self.compare(scope, &roots);
            scope.collect(true);
            self.compare(scope, &roots);
            failed
        })
    }

    fn step(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        types: Types,
    ) -> Result<(), OutOfMemory> {
        let count = self.roots.len();
        let (root, other) = (self.random.below(count), self.random.below(count));
        // A byte's worth. The first hundred stand for themselves twice.
        let kind = self.random.below(256);
        if kind >= 200 {
            return self.step_beside(scope, roots, types, (root, other, kind - 200));
        }
        match kind % 100 {
            0..32 => self.allocate_node(scope, roots, root, types),
            32..40 => self.allocate_given(scope, roots, root, types),
            40..48 => self.allocate_list(scope, roots, root, types),
            48..54 => self.allocate_bytes(scope, roots, root, types),
            54..76 => {
                self.link(scope, roots, root, other);
                Ok(())
            }
            76..80 => self.copy(scope, roots, root, other),
            80..92 => {
                self.follow(scope, roots, root, other);
                Ok(())
            }
            92..97 => {
                self.drop_root(scope, roots, root);
                Ok(())
            }
            97..99 => {
                let number = self.random.next() as i64 >> 34;
                scope.nested(|scope| {
                    let integer = scope.integer(number);
                    scope.assign(roots[root], integer);
                });
                self.roots[root] = Held::Integer(number);
                Ok(())
            }
            _ => {
                let everything = self.random.below(8) == 0;
                scope.collect(everything);
                Ok(())
            }
        }
    }

    fn found(&mut self, root: usize, object: Known) {
        self.objects.push(object);
        self.roots[root] = Held::Object(self.objects.len() - 1);
    }

    fn allocate_node(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        types: Types,
    ) -> Result<(), OutOfMemory> {
        let number = self.random.next();
        scope.nested(|scope| {
            // Some never move.
            let kind = if number.is_multiple_of(11) {
                types.node.pinned()
            } else {
                types.node
            };
            let object = scope.allocate(kind)?;
            assert_eq!(scope.read_u64(object, 0), 0);
            scope.write_u64(object, 0, number);
            scope.assign(roots[root], object);
            Ok(())
        })?;
        let slots = vec![Held::Null; SLOTS];
        self.found(root, Known::Node { number, slots });
        Ok(())
    }

    /// A node that is made of what other roots are.
    fn allocate_given(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        types: Types,
    ) -> Result<(), OutOfMemory> {
        let number = self.random.next();
        let chosen = [(); SLOTS].map(|()| self.random.below(self.roots.len()));
        let slots = chosen.map(|root| self.roots[root]).to_vec();
        scope.nested(|scope| {
            let references = chosen.map(|root| roots[root]);
            let object = scope.allocate_with(types.node, &references, &number.to_ne_bytes())?;
            scope.assign(roots[root], object);
            Ok(())
        })?;
        self.found(root, Known::Node { number, slots });
        Ok(())
    }

    /// Elements of a list go to another or to the same one: the first that are roots from `root` and `other` on.
    fn copy(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        other: usize,
    ) -> Result<(), OutOfMemory> {
        let count = self.roots.len();
        let first_list = |start: usize| {
            let mut all = (start..count).chain(0..start);
            all.find_map(|root| self.list(root).map(|list| (root, list)))
        };
        let (Some((root, from)), Some((other, to))) = (first_list(root), first_list(other)) else {
            return Ok(());
        };
        let lengths = [from, to].map(|(_, length)| length);
        let count = self.random.below(lengths[0].min(lengths[1]) + 1);
        let at = lengths.map(|length| self.random.below(length - count + 1));
        scope.array_copy(roots[root], at[0], roots[other], at[1], count)?;
        let Known::List(from) = &self.objects[from.0] else {
            return Ok(());
        };
        let copied = from[at[0]..at[0] + count].to_vec();
        if let Known::List(to) = &mut self.objects[to.0] {
            to[at[1]..at[1] + count].copy_from_slice(&copied);
        }
        Ok(())
    }

    /// The number and the length of the list that a root is.
    fn list(&self, root: usize) -> Option<(usize, usize)> {
        let Held::Object(object) = self.roots[root] else {
            return None;
        };
        match &self.objects[object] {
            Known::List(slots) => Some((object, slots.len())),
            _ => None,
        }
    }

    fn allocate_list(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        types: Types,
    ) -> Result<(), OutOfMemory> {
        // Now and then one of several chunks, or one that is large.
        let most = [20, 20, 20, 20, 20, 700, 2500, 40_000][self.random.below(8)];
        let length = self.random.below(most);
        scope.nested(|scope| {
            let object = scope.allocate_references(types.list, length as u32)?;
            scope.assign(roots[root], object);
            Ok(())
        })?;
        self.found(root, Known::List(vec![Held::Null; length]));
        Ok(())
    }

    fn allocate_bytes(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        types: Types,
    ) -> Result<(), OutOfMemory> {
        let most = [40, 40, 40, 4000, 100_000][self.random.below(5)];
        let length = self.random.below(most);
        let byte = self.random.next() as u8;
        scope.nested(|scope| {
            let object = scope.allocate_array(types.bytes, length as u32)?;
            for index in 0..length {
                assert_eq!(scope.read_u8(object, index), 0);
                scope.write_u8(object, index, byte);
            }
            scope.assign(roots[root], object);
            Ok(())
        })?;
        self.found(root, Known::Bytes(length as u32, byte));
        Ok(())
    }

    fn slots_of(&mut self, root: usize) -> Option<&mut Vec<Held>> {
        let Held::Object(object) = self.roots[root] else {
            return None;
        };
        match &mut self.objects[object] {
            Known::Node { slots, .. } | Known::List(slots) if !slots.is_empty() => Some(slots),
            _ => None,
        }
    }

    /// A slot of what `root` is becomes what `other` is.
    fn link(&mut self, scope: &mut Scope<'_>, roots: &[Local<'_>], root: usize, other: usize) {
        let held = self.roots[other];
        let place = self.random.next() as usize;
        let Some(slots) = self.slots_of(root) else {
            return;
        };
        let index = place % slots.len();
        slots[index] = held;
        scope.set(roots[root], index, roots[other]);
    }

    /// `other` becomes what a slot of `root` is.
    fn follow(&mut self, scope: &mut Scope<'_>, roots: &[Local<'_>], root: usize, other: usize) {
        let place = self.random.next() as usize;
        let Some(slots) = self.slots_of(root) else {
            return;
        };
        let index = place % slots.len();
        let held = slots[index];
        scope.load(roots[root], index, roots[other]);
        self.roots[other] = held;
    }

    fn drop_root(&mut self, scope: &mut Scope<'_>, roots: &[Local<'_>], root: usize) {
        scope.nested(|scope| {
            let nothing = scope.null();
            scope.assign(roots[root], nothing);
        });
        self.roots[root] = Held::Null;
    }

    /// The graph that the roots reach is the oracle's.
    fn compare(&self, scope: &mut Scope<'_>, roots: &[Local<'_>]) {
        scope.nested(|scope| {
            // An object of the oracle, and the local that holds its counterpart.
            let mut seen: HashMap<usize, Local<'_>> = HashMap::new();
            let mut grey: Vec<usize> = Vec::new();
            let meet =
                |scope: &mut Scope<'_>, held: Held, local: Local<'_>, kept: Local<'_>| match held {
                    Held::Null => {
                        assert!(scope.is_null(local));
                        None
                    }
                    Held::Integer(number) => {
                        assert_eq!(scope.as_integer(local), Some(number));
                        None
                    }
                    Held::Object(object) => {
                        scope.assign(kept, local);
                        Some(object)
                    }
                };
            let mut pending: Vec<(Held, Local<'_>)> = Vec::new();
            for (held, &local) in self.roots.iter().zip(roots) {
                let copy = scope.null();
                scope.assign(copy, local);
                pending.push((*held, copy));
            }
            while let Some((held, local)) = pending.pop() {
                let kept = scope.null();
                let Some(object) = meet(scope, held, local, kept) else {
                    continue;
                };
                if let Some(&before) = seen.get(&object) {
                    assert!(scope.same(before, kept), "object {object} is there twice");
                    continue;
                }
                seen.insert(object, kept);
                grey.push(object);
                let slots = match &self.objects[object] {
                    Known::Node { number, slots } => {
                        assert_eq!(scope.read_u64(kept, 0), *number);
                        slots
                    }
                    Known::List(slots) => {
                        assert_eq!(scope.length(kept) as usize, slots.len());
                        slots
                    }
                    Known::Bytes(length, byte) => {
                        assert_eq!(scope.length(kept), *length);
                        assert!(
                            (0..*length as usize).all(|index| scope.read_u8(kept, index) == *byte)
                        );
                        continue;
                    }
                    Known::Numbers(numbers) => {
                        numbers.compare(scope, kept);
                        continue;
                    }
                };
                for (index, held) in slots.iter().enumerate() {
                    if *held == Held::Null {
                        // Most slots of large arrays: not worth a local each.
                        let is_null = scope.nested(|scope| {
                            let slot = scope.get(kept, index);
                            scope.is_null(slot)
                        });
                        assert!(is_null);
                        continue;
                    }
                    let local = scope.get(kept, index);
                    pending.push((*held, local));
                }
            }
        });
    }
}
