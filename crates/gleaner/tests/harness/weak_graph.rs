//! Random graphs of objects with strong slots, weak slots and ephemerons, and with finalizers; beside them weak references
//! and ephemerons by handles. What a collection of everything clears and makes ready is exactly what an oracle says; a
//! scavenge clears nothing that is reachable, and what it leaves is what it was.
//!
//! The oracle follows the whole graph after each collection, also through weak slots, so it knows what every object holds
//! that a program can still get at.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::random::Rng;
use gleaner::raw::{Address, Fresh, NewObject, Shape, Slots, TypeId, Value, tailed_bytes};
use gleaner::{Builder, Ephemeron, Finalizing, Handle, Heap, Mutator, References, Weak};

const ROOTS: usize = 16;
/// Where the number of an object lies, and its first unit.
const NUMBER: usize = 16;
const UNITS: usize = 24;
/// Elements of a table that is a large object in either format.
const MANY: u32 = 1200;
/// Weak references and ephemerons by handles, at most.
const MOST_SINGLE: usize = 24;

/// Slots of a unit: the head is one, and each element.
const STRONG: usize = 0;
const WEAK: usize = 1;
const KEY: usize = 2;
const VALUE: usize = 3;

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Held {
    Null,
    Integer,
    Object(usize),
}

impl Held {
    fn object(self) -> Option<usize> {
        match self {
            Held::Object(object) => Some(object),
            _ => None,
        }
    }
}

type Unit = [Held; 4];

#[derive(Clone, Debug)]
struct Object {
    units: Vec<Unit>,
}

/// A weak reference or an ephemeron by a handle. To the oracle it is an object of one unit, and a root.
enum Single {
    Weak(Weak),
    Ephemeron(Ephemeron),
}

impl Single {
    /// What its unit holds.
    fn values(&self) -> [Value; 4] {
        let mut values = [Value::NULL; 4];
        match self {
            Single::Weak(weak) => values[WEAK] = weak.get_raw(),
            Single::Ephemeron(ephemeron) => {
                [values[KEY], values[VALUE]] = [ephemeron.key_raw(), ephemeron.value_raw()];
            }
        }
        values
    }
}

/// A finalizer that waits. If it does not revive its object, its value is the number of those made before.
#[derive(Debug)]
struct Waiting {
    object: usize,
    value: Option<usize>,
    order: u8,
    /// How many were made before.
    made: usize,
    /// Holds the value, which the finalizer keeps anyway.
    handle: Handle,
}

impl Waiting {
    /// Ready ones are handed out by this.
    fn rank(&self) -> (u8, usize) {
        (self.order, self.made)
    }
}

/// What a run came to, so that tests can say that it was not idle.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Done {
    pub cleared: usize,
    pub kept: usize,
    pub pairs_cleared: usize,
    pub pairs_kept: usize,
    /// Of those that were cleared, weak references and ephemerons by handles.
    pub single: usize,
    pub handed_out: usize,
    pub full: u64,
}

struct Program {
    random: Rng,
    objects: Vec<Object>,
    roots: [Held; ROOTS],
    /// In the order in which they were made.
    waiting: Vec<Waiting>,
    made: usize,
    /// With the numbers that the oracle gave them.
    single: Vec<(usize, Single)>,
    of: TypeId,
    slot: usize,
    done: Done,
}

/// What is reached from some objects, as the oracle sees it: strongly, and by way of ephemerons.
fn closure(objects: &[Object], from: impl IntoIterator<Item = usize>) -> HashSet<usize> {
    let mut live = HashSet::new();
    let mut grey: Vec<usize> = from.into_iter().collect();
    loop {
        while let Some(object) = grey.pop() {
            if live.insert(object) {
                let units = &objects[object].units;
                grey.extend(units.iter().filter_map(|unit| unit[STRONG].object()));
            }
        }
        let held = |unit: &Unit| match unit[KEY] {
            Held::Null => false,
            Held::Integer => true,
            Held::Object(key) => live.contains(&key),
        };
        grey = live
            .iter()
            .flat_map(|&object| &objects[object].units)
            .filter(|unit| held(unit))
            .filter_map(|unit| unit[VALUE].object())
            .filter(|value| !live.contains(value))
            .collect();
        if grey.is_empty() {
            return live;
        }
    }
}

impl Program {
    fn offset(&self, unit: usize, slot: usize) -> usize {
        UNITS + (4 * unit + slot) * self.slot
    }

    fn value(&self, held: Held, roots: &[Cell<Value>]) -> Value {
        match held {
            Held::Null => Value::NULL,
            Held::Integer => Value::immediate(7),
            Held::Object(_) => {
                let root = self.roots.iter().position(|&root| root == held);
                roots[root.expect("a root holds it")].get()
            }
        }
    }

    fn allocate(&mut self, mutator: &mut Mutator, roots: &[Cell<Value>]) {
        let elements = match self.random.below(40) {
            0 => MANY,
            1..8 => self.random.below(70) as u32,
            _ => self.random.below(4) as u32,
        };
        let bytes = tailed_bytes(self.offset(1, 0), elements, 4 * self.slot);
        let new = NewObject::array(self.of, elements, bytes);
        // SAFETY: the type is this heap's, the size follows from the length, and all references are in the frame.
        let object = unsafe {
            let object = if self.random.below(12) == 0 {
                mutator.allocate_pinned_raw(new)
            } else {
                mutator.allocate_raw(new, Fresh::Zeroed)
            };
            let object = object.unwrap();
            let number = object.add(NUMBER).ptr::<u64>();
            number.write(self.objects.len() as u64);
            object
        };
        let root = self.random.below(ROOTS);
        roots[root].set(Value::reference(object));
        self.roots[root] = Held::Object(self.objects.len());
        self.objects.push(Object {
            units: vec![[Held::Null; 4]; elements as usize + 1],
        });
        (0..4).for_each(|_| self.store_into(mutator, roots, root));
    }

    /// A root that holds an object, and that.
    fn holder(&mut self) -> Option<(usize, usize)> {
        let root = self.random.below(ROOTS);
        Some((root, self.roots[root].object()?))
    }

    /// A unit of an object: more often one that lies in front.
    fn unit(&mut self, object: usize) -> usize {
        let units = self.objects[object].units.len();
        let units = if self.random.below(3) == 0 {
            units
        } else {
            units.min(3)
        };
        self.random.below(units)
    }

    /// Stores into what a root holds, if that is an object.
    fn store_into(&mut self, mutator: &Mutator, roots: &[Cell<Value>], root: usize) {
        let Some(object) = self.roots[root].object() else {
            return;
        };
        let unit = self.unit(object);
        let put = |program: &mut Program, slot: usize| {
            let other = program.random.below(ROOTS);
            let held = match program.random.below(12) {
                0 => Held::Null,
                1 if slot != STRONG => Held::Integer,
                _ => program.roots[other],
            };
            let address = roots[root].get().as_object().unwrap();
            // SAFETY: the slot is one of the object, and the value was taken from a root just now.
            unsafe {
                let value = program.value(held, roots);
                mutator.store_raw(address, program.offset(unit, slot), value);
            }
            program.objects[object].units[unit][slot] = held;
        };
        match self.random.below(5) {
            0 => put(self, STRONG),
            1 => put(self, WEAK),
            _ => {
                put(self, KEY);
                put(self, VALUE);
            }
        }
    }

    fn load(&mut self, mutator: &Mutator, roots: &[Cell<Value>]) {
        let Some((root, object)) = self.holder() else {
            return;
        };
        let (unit, slot, into) = (
            self.unit(object),
            self.random.below(4),
            self.random.below(ROOTS),
        );
        let address = roots[root].get().as_object().unwrap();
        // SAFETY: the slot is one of the object.
        let value = unsafe { mutator.load_raw(address, self.offset(unit, slot)) };
        let held = self.objects[object].units[unit][slot];
        assert_eq!(
            held_by(value),
            held,
            "object {object}, unit {unit}, slot {slot}"
        );
        roots[into].set(value);
        self.roots[into] = held;
    }

    /// A weak reference to what a root holds, or an ephemeron with what another holds as its value, by a handle.
    fn add_single(&mut self, mutator: &mut Mutator, roots: &[Cell<Value>]) {
        let (Some((root, object)), Some((other, value))) = (self.holder(), self.holder()) else {
            return;
        };
        if self.single.len() == MOST_SINGLE {
            let gone = self.random.below(MOST_SINGLE);
            self.single.swap_remove(gone);
        }
        let [address, other] = [root, other].map(|root| roots[root].get().as_object().unwrap());
        let mut unit = [Held::Null; 4];
        // SAFETY: both are valid, and nothing else is outside of roots.
        let single = unsafe {
            if self.random.one_in(2) {
                unit[WEAK] = Held::Object(object);
                Single::Weak(mutator.weak_raw(address).unwrap())
            } else {
                [unit[KEY], unit[VALUE]] = [object, value].map(Held::Object);
                Single::Ephemeron(mutator.ephemeron_raw(address, other).unwrap())
            }
        };
        self.single.push((self.objects.len(), single));
        self.objects.push(Object { units: vec![unit] });
    }

    /// A finalizer of what a root holds, with what another holds as its value.
    fn add_finalizer(&mut self, mutator: &mut Mutator, roots: &[Cell<Value>]) {
        let (Some((root, object)), Some((other, value))) = (self.holder(), self.holder()) else {
            return;
        };
        let finalizing = Finalizing {
            order: self.random.below(8) as u8,
            revives: self.random.below(3) > 0,
        };
        let address = roots[root].get().as_object().unwrap();
        let kept = |made: usize| match finalizing.revives {
            true => roots[other].get(),
            false => Value::immediate(made as i64),
        };
        // SAFETY: both are valid, and after the allocation read from the roots again.
        let handle = unsafe {
            let kept_now = kept(self.made);
            match self.made % 2 {
                0 => mutator
                    .finalizer_raw(address, kept_now, finalizing)
                    .map(|_| ()),
                _ => mutator.finalize_raw(address, kept_now, finalizing),
            }
            .unwrap();
            mutator.handle_raw(kept(self.made)).unwrap()
        };
        self.waiting.push(Waiting {
            object,
            value: finalizing.revives.then_some(value),
            order: finalizing.order,
            made: self.made,
            handle,
        });
        self.made += 1;
    }

    /// The finalizers that are ready, in order: what is handed out of each. What was `live` has no ready finalizer; an exact
    /// collection has found all of the others. Of each order, those that one of the `collections` has found are in the
    /// order in which they were made: a scavenge that was given up has found its own before everything was collected.
    fn hand_out(
        &mut self,
        mutator: &mut Mutator,
        live: &HashSet<usize>,
        (exact, collections): (bool, u64),
    ) -> Vec<Address> {
        let mut found = Vec::new();
        let mut last: Option<(u8, usize)> = None;
        let mut begun = 1;
        while let Some((object, value)) = mutator.next_finalizer_raw() {
            let made = value.as_immediate();
            let (object, value) = (object.as_object(), value.as_object());
            assert_eq!(
                (object.is_some(), value.is_some()),
                (made.is_none(), made.is_none())
            );
            found.extend(object.into_iter().chain(value));
            let fits = |waiting: &&Waiting| {
                let same = match made {
                    Some(made) => waiting.made as i64 == made && waiting.value.is_none(),
                    None => {
                        object.map(number) == Some(waiting.object)
                            && value.map(number) == waiting.value
                    }
                };
                same && !live.contains(&waiting.object)
            };
            let ranks = self.waiting.iter().filter(fits).map(Waiting::rank);
            let rank = ranks.min().expect("one that waits for a dead object");
            if last.is_none_or(|(order, _)| order < rank.0) {
                begun = 1;
            } else if last.is_some_and(|last| last > rank) {
                begun += 1;
            }
            assert!(
                last.is_none_or(|(order, _)| order <= rank.0) && begun <= collections,
                "{last:?}, then {rank:?}, after {collections} collections"
            );
            last = Some(rank);
            self.waiting.retain(|waiting| waiting.rank() != rank);
            self.done.handed_out += 1;
        }
        let missed = self
            .waiting
            .iter()
            .find(|waiting| !live.contains(&waiting.object));
        assert!(!exact || missed.is_none(), "{missed:?}");
        found
    }

    /// Whether the step was a collection of everything, and nothing else.
    fn step(&mut self, mutator: &mut Mutator, roots: &[Cell<Value>]) -> bool {
        match self.random.below(100) {
            0..35 => self.allocate(mutator, roots),
            35..75 => {
                let root = self.random.below(ROOTS);
                self.store_into(mutator, roots, root);
            }
            75..88 => self.load(mutator, roots),
            88..91 => self.add_finalizer(mutator, roots),
            91..93 => self.add_single(mutator, roots),
            93..97 => {
                let root = self.random.below(ROOTS);
                roots[root].set(Value::NULL);
                self.roots[root] = Held::Null;
            }
            97..99 => mutator.collect(false),
            _ => {
                mutator.collect(true);
                return true;
            }
        }
        false
    }

    fn run(&mut self, mutator: &mut Mutator, roots: &[Cell<Value>], steps: usize) {
        for step in 0..steps {
            let before = mutator.totals();
            let exact = self.step(mutator, roots);
            let after = mutator.totals();
            let full = after.full_collections - before.full_collections;
            let collections = full + after.scavenges - before.scavenges;
            if collections > 0 {
                self.follow(mutator, roots, (exact.then_some(step), collections));
                self.done.full += full;
            }
        }
        mutator.collect(true);
        self.follow(mutator, roots, (Some(steps), 1));
    }

    /// After so many collections, the last of which was asked for and of everything if a step is given: the heap is as it may
    /// be, and the oracle knows how it is.
    fn follow(
        &mut self,
        mutator: &mut Mutator,
        roots: &[Cell<Value>],
        (full, collections): (Option<usize>, u64),
    ) {
        let held: Vec<usize> = self
            .roots
            .iter()
            .filter_map(|held| held.object())
            .chain(self.waiting.iter().filter_map(|waiting| waiting.value))
            .chain(self.single.iter().map(|(number, _)| *number))
            .collect();
        // What a step allocated after its collection, and what it dropped then, the collection did not know.
        let live = closure(&self.objects, held.iter().copied());
        let ready = self.hand_out(mutator, &live, (full.is_some(), collections));
        let numbers = ready.iter().map(|&object| number(object));
        let back = closure(&self.objects, held.into_iter().chain(numbers));
        let addresses = roots.iter().filter_map(|root| root.get().as_object());
        let values = self
            .waiting
            .iter()
            .filter_map(|waiting| waiting.handle.get_raw().as_object());
        let mut grey: Vec<Address> = addresses.chain(values).chain(ready).collect();
        let single = self.single.iter();
        let single: Vec<_> = single
            .map(|(number, one)| (*number, one.values()))
            .collect();
        for (number, values) in single {
            grey.extend(values.iter().filter_map(|value| value.as_object()));
            let before = self.done.cleared + self.done.pairs_cleared;
            self.follow_unit((number, 0), values, (&live, &back), full);
            self.done.single += self.done.cleared + self.done.pairs_cleared - before;
        }
        let mut found = HashMap::new();
        while let Some(address) = grey.pop() {
            let object = number(address);
            if let Some(before) = found.insert(object, address) {
                assert_eq!(before, address, "object {object} is there twice");
                continue;
            }
            for unit in 0..self.objects[object].units.len() {
                // SAFETY: an object that a reference leads to, and its slots.
                let values = [STRONG, WEAK, KEY, VALUE]
                    .map(|slot| unsafe { mutator.load_raw(address, self.offset(unit, slot)) });
                grey.extend(values.iter().filter_map(|value| value.as_object()));
                self.follow_unit((object, unit), values, (&live, &back), full);
            }
        }
    }

    /// A unit of an object holds these values after a collection.
    fn follow_unit(
        &mut self,
        (object, unit): (usize, usize),
        values: [Value; 4],
        (live, back): (&HashSet<usize>, &HashSet<usize>),
        full: Option<usize>,
    ) {
        let is = values.map(held_by);
        let was = self.objects[object].units[unit];
        let reach = if live.contains(&object) { live } else { back };
        let context = format!("object {object}, unit {unit}: {was:?}, {is:?}, {full:?}");
        self.check(was, is, (live, reach, back), full.is_some(), &context);
        self.objects[object].units[unit] = is;
    }

    /// A unit held what it `was` before a collection, and now what it `is`. What was `live`, what kept referents when the weak
    /// slot was looked at, and what was brought back.
    fn check(
        &mut self,
        was: Unit,
        is: Unit,
        (live, reach, back): (&HashSet<usize>, &HashSet<usize>, &HashSet<usize>),
        exact: bool,
        context: &str,
    ) {
        let is_in = |held: Held, set: &HashSet<usize>| match held {
            Held::Object(object) => set.contains(&object),
            held => held == Held::Integer,
        };
        assert_eq!(was[STRONG], is[STRONG], "{context}");
        if is[WEAK] == was[WEAK] {
            assert!(
                !exact || was[WEAK] == Held::Null || is_in(was[WEAK], reach),
                "{context}"
            );
            self.done.kept += usize::from(was[WEAK] != Held::Null);
        } else {
            assert!(
                is[WEAK] == Held::Null && !is_in(was[WEAK], live),
                "{context}"
            );
            assert!(!exact || !is_in(was[WEAK], reach), "{context}");
            self.done.cleared += 1;
        }
        let (key, pair) = (was[KEY], [is[KEY], is[VALUE]]);
        if key == Held::Null {
            assert_eq!(is[KEY], Held::Null, "{context}");
            let may_be_kept = !exact && is[VALUE] == was[VALUE];
            assert!(is[VALUE] == Held::Null || may_be_kept, "{context}");
        } else if is[KEY] == Held::Null {
            assert!(is[VALUE] == Held::Null && !is_in(key, live), "{context}");
            assert!(!exact || !is_in(key, back), "{context}");
            self.done.pairs_cleared += 1;
        } else {
            assert_eq!(pair, [key, was[VALUE]], "{context}");
            assert!(!exact || is_in(key, back), "{context}");
            self.done.pairs_kept += 1;
        }
    }
}

fn number(object: Address) -> usize {
    // SAFETY: every object of these heaps has its number there.
    unsafe { object.add(NUMBER).ptr::<u64>().read() as usize }
}

fn held_by(value: Value) -> Held {
    match value.as_object() {
        Some(object) => Held::Object(number(object)),
        None if value.is_null() => Held::Null,
        None => Held::Integer,
    }
}

/// The type of the objects: each unit has a strong slot, a weak one, and an ephemeron.
fn register(heap: &Heap, slot: usize) -> TypeId {
    let offsets = |start: usize| [0, 1, 2].map(|index| (start + index * slot) as u32);
    let (head, element) = (offsets(UNITS), offsets(0));
    let slots = |offsets: &'_ [u32; 3]| -> [Vec<u32>; 3] { offsets.map(|offset| vec![offset]) };
    let (head, element) = (slots(&head), slots(&element));
    fn of(lists: &[Vec<u32>; 3]) -> Slots<'_> {
        Slots {
            references: &lists[0],
            weak: &lists[1],
            ephemerons: &lists[2],
        }
    }
    let shape = Shape::Weak {
        head: UNITS + 4 * slot,
        slots: of(&head),
        element: 4 * slot,
        element_slots: of(&element),
    };
    heap.register_raw(shape).unwrap()
}

/// Runs a program in a heap of its own.
pub fn run(builder: Builder, seed: u64, steps: usize) -> Done {
    let heap = builder.build().unwrap();
    let slot = match heap.references() {
        References::Wide => 8,
        References::Compressed => 4,
    };
    let mut program = Program {
        random: Rng::new(seed),
        objects: Vec::new(),
        roots: [Held::Null; ROOTS],
        waiting: Vec::new(),
        made: 0,
        single: Vec::new(),
        of: register(&heap, slot),
        slot,
        done: Done::default(),
    };
    let mut mutator = heap.attach().unwrap();
    // SAFETY: the frame holds null, and then what the program puts there: objects of this heap and immediates.
    unsafe {
        mutator.with_roots([Value::NULL; ROOTS], |mutator, roots| {
            program.run(mutator, roots, steps);
        });
    }
    program.done
}
