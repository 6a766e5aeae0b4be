//! Random programs over the whole interface, run on a heap and, in plain Rust, on an oracle that never frees.
//!
//! A program holds some roots. Each step allocates, links, unlinks, copies, reads or collects, or does something of
//! what [`beside`] has; what it does depends on its source of decisions alone: a seeded generator, or bytes that a
//! fuzzer made up. Every object carries a number of its own; at the end the graphs that the roots reach must be the
//! same, number by number.
//!
//! Most steps are the safe layer's: the roots are locals of a scope then. For a step of the raw layer ([`shaped`],
//! [`regions`]) the scope ends, and the roots go to a frame of the shadow stack.

mod arrays;
mod beside;
#[path = "../harness/bits.rs"]
mod bits;
mod did;
mod globals;
mod places;
mod regions;
mod shaped;
mod shapes;

use std::cell::Cell;
use std::collections::HashMap;

use super::random::Rng;
use arrays::{Cuts, Numbers};
use beside::Beside;
pub use did::Did;
use gleaner::raw::Value;
use gleaner::{Elements, Handle, Heap, Local, Mutator, OutOfMemory, Scope, Structure};
use places::Places;
use shapes::{Form, Shapes};

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
    /// An array of numbers that are written at any time.
    Numbers(Numbers),
    /// What only the raw layer makes.
    Shaped(Form, Vec<Held>),
}

impl Known {
    /// What it refers to.
    fn slots(&self) -> &[Held] {
        match self {
            Known::Node { slots, .. } | Known::List(slots) | Known::Shaped(_, slots) => slots,
            Known::Bytes(..) | Known::Numbers(_) => &[],
        }
    }
}

/// How a program went.
#[derive(Default, Debug)]
pub struct Outcome {
    /// How many steps it took, those of programs in its blocking regions included.
    pub steps: u64,
    /// How many allocations failed, which both sides left out.
    pub failed: usize,
    /// What it did, and how often.
    pub did: HashMap<Did, usize>,
}

impl Outcome {
    /// That of another program is added.
    pub fn add(&mut self, other: Outcome) {
        self.steps += other.steps;
        self.failed += other.failed;
        for (did, count) in other.did {
            *self.did.entry(did).or_default() += count;
        }
    }
}

/// How often a program does what takes long: once in so many of the steps that it decides for; always unless told.
#[derive(Clone, Copy, Debug)]
pub struct Rarely {
    /// Collections that it asks for.
    pub collect: usize,
    /// Blocking regions with other programs in them.
    pub region: usize,
    /// Large lists and arrays.
    pub large: usize,
}

impl Rarely {
    /// Each time.
    pub const NOT: Rarely = Rarely {
        collect: 1,
        region: 1,
        large: 1,
    };
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
    places: Places,
    outcome: Outcome,
    rarely: Rarely,
    /// In how many blocking regions of other programs this one runs.
    depth: usize,
    /// Whether the innermost of them is one of this thread.
    nested: bool,
    /// How many regions it had itself.
    regions: u64,
}

/// Slots that go from an object to another or to the same one, the first of each pair being the source.
struct Transfer {
    roots: [usize; 2],
    objects: [usize; 2],
    at: [usize; 2],
    count: usize,
}

/// A step: two roots, and what to do with them.
#[derive(Clone, Copy)]
struct Step {
    root: usize,
    other: usize,
    kind: usize,
}

/// The most roots of a program.
const MOST_ROOTS: usize = 400;

const SLOTS: usize = 3;

/// The kinds of the steps of the raw layer. A kind is a byte's worth.
const RAW: std::ops::Range<usize> = 176..200;

/// The types that programs use, of one heap.
#[derive(Clone, Copy)]
pub struct Types {
    node: gleaner::Type,
    list: gleaner::ReferenceArray,
    bytes: gleaner::Array,
    numbers: [gleaner::Array; 4],
    shapes: Shapes,
    cuts: Cuts,
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
            shapes: Shapes::register(heap),
            cuts: Cuts::of(&heap.fast_paths()),
        }
    }
}

impl Types {
    /// The list is as it was; what it refers to is `pending`.
    fn compare_list(
        &self,
        mutator: &Mutator,
        value: Value,
        slots: &[Held],
        pending: &mut Vec<(Held, Value)>,
    ) {
        let list = value.as_object().expect("an object");
        // SAFETY: a list of this heap, and then offsets of its elements.
        unsafe {
            assert_eq!(mutator.length_raw(list) as usize, slots.len());
            for (index, &expected) in slots.iter().enumerate() {
                let slot = mutator.load_element_raw(list, index);
                if expected == Held::Null {
                    assert!(slot.is_null());
                } else {
                    pending.push((expected, slot));
                }
            }
        }
    }

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

/// So many elements of an array are read and written one by one; the rest by the raw layer, which takes less time.
const BY_ONE: usize = 64;

/// What a local holds, until the next allocation or poll.
fn held(scope: &Scope<'_>, local: Local<'_>) -> Value {
    scope.get_raw(local)
}

/// A handle to a valid value.
fn handle(mutator: &mut Mutator, value: Value) -> Handle {
    // SAFETY: the callers' values are of roots, and nothing was allocated since.
    unsafe { mutator.handle_raw(value) }.unwrap()
}

impl<S: Source> Program<S> {
    /// A program that decides by this.
    pub fn from(source: S, roots: usize) -> Program<S> {
        Program {
            random: source,
            roots: vec![Held::Null; roots],
            objects: Vec::new(),
            beside: Beside::default(),
            places: Places::default(),
            outcome: Outcome::default(),
            rarely: Rarely::NOT,
            depth: 0,
            nested: false,
            regions: 0,
        }
    }

    /// The same program, which does some things rarely.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn rarely(self, rarely: Rarely) -> Program<S> {
        Program { rarely, ..self }
    }

    /// Whether a step is one of those that are done: once in `n` times. Where it always is, no decision is taken.
    fn once_in(&mut self, n: usize) -> bool {
        n == 1 || self.random.below(n) == 0
    }

    /// Runs so many steps and compares, and compares again after a full collection.
    pub fn run(self, mutator: &mut Mutator, types: Types, steps: usize) -> Outcome {
        self.run_and_collect(mutator, types, steps, true)
    }

    fn run_and_collect(
        mut self,
        mutator: &mut Mutator,
        types: Types,
        steps: usize,
        everything: bool,
    ) -> Outcome {
        // SAFETY: nulls, and then what locals, allocations and other roots held.
        unsafe {
            mutator.with_roots([Value::NULL; MOST_ROOTS], |mutator, roots| {
                let roots = &roots[..self.roots.len()];
                self.steps(mutator, roots, types, steps);
                self.compare(mutator, roots, types);
                mutator.collect(everything);
                self.compare(mutator, roots, types);
                self.let_go(mutator);
            });
        }
        self.outcome
    }

    fn steps(&mut self, mutator: &mut Mutator, roots: &[Cell<Value>], types: Types, steps: usize) {
        let mut left = steps;
        while let Some(step) = self.steps_in_scope(mutator, roots, types, &mut left) {
            let done = self.step_raw(mutator, roots, types, step);
            self.outcome.failed += usize::from(done.is_err());
        }
    }

    /// Steps in a scope of their own, up to the next one of the raw layer.
    fn steps_in_scope(
        &mut self,
        mutator: &mut Mutator,
        roots: &[Cell<Value>],
        types: Types,
        left: &mut usize,
    ) -> Option<Step> {
        mutator.scope(|scope| {
            let values = roots.iter().map(|root| root.replace(Value::NULL));
            // SAFETY: what a root holds is valid, and nothing is allocated here.
            let locals: Vec<Local<'_>> = values
                .map(|value| unsafe { scope.local_raw(value) })
                .collect();
            let mut raw = None;
            while *left > 0 && raw.is_none() && !self.random.is_over() {
                *left -= 1;
                self.outcome.steps += 1;
                let count = self.roots.len();
                let step = Step {
                    root: self.random.below(count),
                    other: self.random.below(count),
                    kind: self.random.below(256),
                };
                if RAW.contains(&step.kind) {
                    raw = Some(step);
                } else {
                    let done = self.step(scope, &locals, types, step);
                    self.outcome.failed += usize::from(done.is_err());
                }
            }
            for (root, local) in roots.iter().zip(locals) {
                root.set(held(scope, local));
            }
            raw
        })
    }

    fn did(&mut self, what: Did) {
        *self.outcome.did.entry(what).or_default() += 1;
    }

    fn step(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        types: Types,
        Step { root, other, kind }: Step,
    ) -> Result<(), OutOfMemory> {
        if kind >= 200 {
            return self.step_beside(scope, roots, types, (root, other, kind - 200));
        }
        // Most of the first hundred stand for themselves twice.
        match kind % 100 {
            0..16 if kind >= 100 => self.step_arrays(scope, roots, types, (root, other, kind - 94)),
            0..32 => self.allocate_node(scope, roots, root, types),
            32..40 => self.allocate_given(scope, roots, root, types),
            40..48 => self.allocate_list(scope, roots, root, types),
            48..54 => self.allocate_bytes(scope, roots, root, types),
            54..76 => self.link(scope, roots, root, other),
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
                    let integer = scope.integer(number).unwrap();
                    scope.assign(roots[root], integer);
                });
                self.roots[root] = Held::Integer(number);
                Ok(())
            }
            _ => {
                if self.once_in(self.rarely.collect) {
                    let everything = self.random.below(8) == 0;
                    scope.collect(everything);
                }
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
            scope.write_u64(object, 0, number)?;
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
        let Some(copy) = self.choose_copy(root, other) else {
            return Ok(());
        };
        let ([from, to], [from_at, to_at]) = (copy.roots, copy.at);
        scope.copy_elements(roots[from], from_at..from_at + copy.count, roots[to], to_at)?;
        self.copied(&copy);
        Ok(())
    }

    fn choose_copy(&mut self, root: usize, other: usize) -> Option<Transfer> {
        let is_list = |known: &Known| matches!(known, Known::List(_));
        let roots = [self.first(root, is_list)?, self.first(other, is_list)?];
        Some(self.choose_slots(roots))
    }

    /// Some slots of what one root is, and as many of what another one is.
    fn choose_slots(&mut self, roots: [usize; 2]) -> Transfer {
        let objects = roots.map(|root| self.object(root).expect("a root with slots"));
        let lengths = objects.map(|object| self.objects[object].slots().len());
        let count = self.random.below(lengths[0].min(lengths[1]) + 1);
        let at = lengths.map(|length| self.random.below(length - count + 1));
        Transfer {
            roots,
            objects,
            at,
            count,
        }
    }

    /// The oracle's side of a copy.
    fn copied(&mut self, copy: &Transfer) {
        let [from, to] = copy.objects;
        let from = &self.objects[from].slots()[copy.at[0]..][..copy.count];
        let copied = from.to_vec();
        if let Known::List(slots) | Known::Shaped(_, slots) = &mut self.objects[to] {
            slots[copy.at[1]..][..copy.count].copy_from_slice(&copied);
        }
    }

    /// The object that a root is.
    fn object(&self, root: usize) -> Option<usize> {
        match self.roots[root] {
            Held::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The first root from `start` on that is such an object.
    fn first(&self, start: usize, is_such: impl Fn(&Known) -> bool) -> Option<usize> {
        let mut all = (start..self.roots.len()).chain(0..start);
        all.find(|&root| {
            self.object(root)
                .is_some_and(|object| is_such(&self.objects[object]))
        })
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
        let most = if most > 1000 && !self.once_in(self.rarely.large) {
            20
        } else {
            most
        };
        let length = self.random.below(most);
        self.new_list(scope, roots, root, types, length)
    }

    fn allocate_bytes(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        types: Types,
    ) -> Result<(), OutOfMemory> {
        let most = [40, 40, 40, 4000, 100_000][self.random.below(5)];
        let most = if most > 1000 && !self.once_in(self.rarely.large) {
            40
        } else {
            most
        };
        let length = self.random.below(most);
        let byte = self.random.next() as u8;
        scope.nested(|scope| {
            let object = scope.allocate_array(types.bytes, length as u32)?;
            for index in 0..length.min(BY_ONE) {
                assert_eq!(scope.read_u8(object, index), 0);
                scope.write_u8(object, index, byte)?;
            }
            if length > BY_ONE {
                let mut rest = scope.numbers::<u8>(object, BY_ONE, length - BY_ONE);
                assert!(rest.all(|byte| byte == 0));
                scope.fill_numbers(object, 0, length, byte)?;
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
    fn link(
        &mut self,
        scope: &mut Scope<'_>,
        roots: &[Local<'_>],
        root: usize,
        other: usize,
    ) -> Result<(), OutOfMemory> {
        let held = self.roots[other];
        let place = self.random.next() as usize;
        let Held::Object(object) = self.roots[root] else {
            return Ok(());
        };
        let is_list = matches!(self.objects[object], Known::List(_));
        let Some(slots) = self.slots_of(root) else {
            return Ok(());
        };
        let index = place % slots.len();
        // Every other element by a compare-and-swap, and every eighth by a fill.
        match place / slots.len() % 8 {
            0 if is_list => scope.fill(roots[root], index, 1, roots[other])?,
            1 | 3 | 5 | 7 if is_list => scope.nested(|scope| {
                let list = roots[root];
                let (before, none) = (scope.get(list, index), scope.integer(1).unwrap());
                assert!(!scope.compare_exchange(list, index, none, roots[other])?);
                assert!(scope.compare_exchange(list, index, before, roots[other])?);
                Ok(())
            })?,
            _ => scope.set(roots[root], index, roots[other])?,
        }
        slots[index] = held;
        Ok(())
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

    /// The graph that the roots and the handles reach is the oracle's.
    fn compare(&self, mutator: &mut Mutator, roots: &[Cell<Value>], types: Types) {
        // Nothing is allocated meanwhile: values stay what they are.
        let mut seen: Vec<Option<Value>> = vec![None; self.objects.len()];
        let of_roots = self.roots.iter().copied().zip(roots.iter().map(Cell::get));
        let mut pending: Vec<(Held, Value)> = of_roots
            .chain(self.beside.held())
            .chain(self.places.held())
            .collect();
        while let Some((held, value)) = pending.pop() {
            let object = match held {
                Held::Null => {
                    assert!(value.is_null());
                    continue;
                }
                Held::Integer(number) => {
                    assert_eq!(value.as_immediate(), Some(number));
                    continue;
                }
                Held::Object(object) => object,
            };
            if let Some(before) = seen[object].replace(value) {
                assert!(before == value, "object {object} is there twice");
                continue;
            }
            match &self.objects[object] {
                Known::List(slots) if slots.len() > BY_ONE => {
                    types.compare_list(mutator, value, slots, &mut pending);
                }
                Known::Shaped(form, slots) => {
                    types
                        .shapes
                        .compare(mutator, value, *form, slots, &mut pending);
                }
                known => compare_in_scope(mutator, value, known, &mut pending),
            }
        }
        self.places.check(&seen);
    }
}

/// The object is as it was; what it refers to is `pending`.
fn compare_in_scope(
    mutator: &mut Mutator,
    value: Value,
    known: &Known,
    pending: &mut Vec<(Held, Value)>,
) {
    let handle = handle(mutator, value);
    mutator.scope(|scope| {
        let object = scope.open(&handle);
        match known {
            Known::Node { number, .. } => assert_eq!(scope.read_u64(object, 0), *number),
            Known::List(slots) => assert_eq!(scope.length(object) as usize, slots.len()),
            Known::Bytes(length, byte) => {
                assert_eq!(scope.length(object), *length);
                let length = *length as usize;
                let mut first = 0..length.min(BY_ONE);
                assert!(first.all(|index| scope.read_u8(object, index) == *byte));
                let mut all = vec![0; length];
                scope.read_elements(object, 0, &mut all);
                assert!(all.iter().all(|found| found == byte));
            }
            Known::Numbers(numbers) => numbers.compare(scope, object),
            Known::Shaped(..) => unreachable!("a scope reads no slots of it"),
        }
        for (index, &expected) in known.slots().iter().enumerate() {
            scope.nested(|scope| {
                let slot = scope.get(object, index);
                // Most slots of large arrays: not worth a handle each.
                if expected == Held::Null {
                    assert!(scope.is_null(slot));
                } else {
                    pending.push((expected, held(scope, slot)));
                }
            });
        }
    });
}
