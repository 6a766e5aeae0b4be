//! The random mutator: does the same to the heap and to the model, and compares.

use std::cell::Cell;
use std::collections::BTreeSet;

use gleaner_base::options::MarkGenerations;
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::weak::{Finalizer, Order};
use gleaner_spaces::mark_sweep::kinds::{
    ATOMIC_UNCOLLECTABLE, Kind, NORMAL, PTRFREE, UNCOLLECTABLE, descriptor,
};
use gleaner_spaces::mark_sweep::scan::{Entry, MarkContext};

use super::harness::rng::Rng;
use super::harness::{Bench, ROOTS};
use super::model::{Id, Link, Model, Object, Reading, Reference, Registered, Word};

thread_local! {
    /// The context of this thread's heap, for the mark procedure, which runs on the collecting thread only.
    static CONTEXT: Cell<*const MarkContext> = const { Cell::new(std::ptr::null()) };
}

/// Visits word 1.
unsafe extern "C-unwind" fn second_word(
    object: *mut usize,
    top: *mut Entry,
    limit: *mut Entry,
    _: usize,
) -> *mut Entry {
    // SAFETY: the collector calls with an object of the kind, which has at least two words, and with its own stack.
    unsafe { (*CONTEXT.get()).mark_and_push(object.add(1).read(), top, limit) }
}

/// The numbers of the kinds that the program uses besides the four standard ones.
#[derive(Clone, Copy)]
pub(crate) struct OwnKinds {
    bitmap: usize,
    procedure: usize,
}

/// The program, its heap and its model.
pub struct Program {
    pub bench: Bench,
    pub model: Model,
    pub(crate) rng: Rng,
    pub(crate) kinds: OwnKinds,
    /// Words that links lie in: outside of the heap, scanned by nobody.
    pub(crate) outside: Box<[usize]>,
    pub(crate) description: String,
    /// Objects that live throughout, so that the heap is large enough to be marked by several workers, and so wide
    /// that a small mark stack cannot hold it.
    pub(crate) ballast: BTreeSet<usize>,
    pub collections: usize,
    /// Whether collections may keep marks, and how many did.
    pub(crate) sticky: bool,
    /// Whether marking may go on in steps, and how many collections did.
    pub(crate) incremental: bool,
    pub stepped: usize,
    pub stepped_new: usize,
    /// Objects that were there when steps ended, and that these could not come upon.
    pub never_reached: usize,
    pub kept_marks: usize,
}

const BALLAST_BYTES: usize = 1100 << 10;
const BALLAST_LEAVES: usize = 3000;
const OUTSIDE: usize = 64;

impl Program {
    pub fn new(mut bench: Bench, seed: u64, description: String) -> Program {
        CONTEXT.set(&raw const *bench.heap.context);
        bench.heap.context.procs[0] = Some(second_word);
        let own = |descriptor| Kind {
            descriptor,
            add_size: false,
            clear: true,
            uncollectable: false,
            disclaim: None,
            mark_unconditionally: false,
            unlocked: true,
        };
        let kinds = &mut bench.heap.space.kinds;
        let bitmap = kinds.add(own(0b101 << 61 | descriptor::BITMAP)).unwrap();
        let procedure = kinds.add(own(descriptor::PROC)).unwrap();
        let mut model = Model::default();
        if seed % 3 == 2 {
            bench.heap.context.all_interior = false;
            bench.heap.context.displacements[8] = true;
            model.displacements = Some(vec![8]);
        }
        let sticky = bench.heap.space.written.is_some();
        let in_steps = [MarkGenerations::Incremental, MarkGenerations::Auto];
        let incremental = sticky && in_steps.contains(&bench.heap.mode);
        let outside = vec![0; OUTSIDE].into_boxed_slice();
        let rng = Rng::new(seed);
        let kinds = OwnKinds { bitmap, procedure };
        let ballast = BTreeSet::new();
        let mut program = Program {
            bench,
            model,
            rng,
            kinds,
            outside,
            description,
            ballast,
            collections: 0,
            sticky,
            incremental,
            stepped: 0,
            stepped_new: 0,
            never_reached: 0,
            kept_marks: 0,
        };
        program.take_ballast();
        program
    }

    /// One object that refers to many: 512 words at a time, then the next worker's piece.
    fn take_ballast(&mut self) {
        let all = self.bench.allocate(NORMAL, BALLAST_BYTES).unwrap();
        self.bench.keep(all);
        for leaf in 0..BALLAST_LEAVES {
            let object = self.bench.allocate(NORMAL, 16).unwrap();
            store(all, leaf * 2, object.word());
            self.ballast.insert(object.word());
        }
        self.ballast.insert(all.word());
    }

    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            if self.rng.one_in(8) {
                self.bench.heap.step();
            }
            match self.rng.below(100) {
                0..40 => self.allocate(),
                40..70 => self.link(),
                70..80 => self.root(),
                80..88 => self.unroot(),
                88..92 => self.write(),
                92..94 => self.free(),
                94..96 => self.register_finalizer(),
                96..98 => self.register_link(),
                98 if self.rng.one_in(4) => self.abandon(),
                98 => self.take_ready(),
                _ => self.collect(),
            }
        }
        self.collect();
        self.roots_go();
        self.collect();
        self.collect();
        self.bench.collect();
        self.settle(None);
    }

    fn shape(&mut self) -> (usize, Reading, usize) {
        let bytes = match self.rng.below(20) {
            0 => 8_200 + self.rng.below(60_000),
            1..4 => 600 + self.rng.below(7_000),
            _ => 16 + self.rng.below(300),
        };
        match self.rng.below(24) {
            0..6 => (PTRFREE, Reading::Nothing, bytes),
            6 => (UNCOLLECTABLE, Reading::Words, bytes.min(4000)),
            7 => (ATOMIC_UNCOLLECTABLE, Reading::Nothing, bytes.min(4000)),
            8..10 => (self.kinds.bitmap, Reading::Bitmap, bytes.max(24)),
            10..12 => (self.kinds.procedure, Reading::Procedure, bytes),
            _ => (NORMAL, Reading::Words, bytes),
        }
    }

    pub fn allocate(&mut self) {
        let (kind, reading, bytes) = self.shape();
        let uncollectable = kind == UNCOLLECTABLE || kind == ATOMIC_UNCOLLECTABLE;
        if uncollectable
            && self
                .model
                .objects
                .values()
                .filter(|object| object.uncollectable)
                .count()
                > 20
        {
            return;
        }
        let off_page = bytes > 8192 && self.rng.one_in(3);
        let before = self.bench.heap.collections;
        let (cycles, turns) = (self.bench.heap.totals.cycles, self.bench.heap.turns);
        let object = self.bench.allocate_with(kind, bytes, 16, off_page).unwrap();
        if self.bench.heap.collections != before {
            // The allocation collected by itself, before the new object was there.
            let listed = self.bench.heap.space.object_base(object.word()).is_some();
            assert!(listed, "{}", self.description);
            self.settle(Some(object));
        }
        if self.bench.heap.turns != turns && self.bench.heap.cycle.is_under_way() {
            self.go_on_in_steps(cycles);
        }
        let usable = self.bench.block(object).bytes & !7;
        assert!(usable >= bytes & !7 && object.word().is_multiple_of(16));
        let mut known = Object::new(object, usable, reading);
        known.uncollectable = uncollectable;
        known.off_page = off_page;
        if kind == PTRFREE || kind == ATOMIC_UNCOLLECTABLE {
            let seed = self.rng.below(1 << 30);
            let words = (0..usable / 8).map(|word| (word, seed ^ word));
            words
                .clone()
                .for_each(|(word, data)| store(object, word, data));
            known.words = words.map(|(word, data)| (word, Word::Data(data))).collect();
        } else {
            let dirty = (0..usable / 8).find(|word| load(object, *word) != 0);
            assert_eq!(
                dirty, None,
                "a fresh object of {bytes} bytes is not zero: {}",
                self.description
            );
        }
        let id = self.model.insert(known);
        if self.bench.is_marked(object) {
            let listed = self.bench.listed_before.contains(&object.word());
            assert!(
                uncollectable || listed,
                "{object:?} of {bytes} bytes was born marked: {}",
                self.description
            );
            self.model.born_old(id);
        }
        if !self.rng.one_in(4) {
            let root = self.rng.below(ROOTS);
            self.set_root(
                root,
                Reference {
                    to: id,
                    displacement: 0,
                },
            );
        }
    }

    fn any(&mut self) -> Option<Id> {
        let count = self.model.objects.len();
        if count == 0 {
            return None;
        }
        let at = self.rng.below(count);
        self.model.objects.keys().nth(at).copied()
    }

    /// A reference to a random object that the program still knows.
    fn reference(&mut self) -> Option<Reference> {
        let to = self.any()?;
        let bytes = self.model.objects[&to].bytes;
        let displacement = match self.rng.below(4) {
            0 => self.rng.below(bytes),
            1 => 8,
            _ => 0,
        };
        Some(Reference { to, displacement })
    }

    pub(crate) fn word_of(&self, reference: Reference) -> usize {
        self.model.objects[&reference.to].address().word() + reference.displacement
    }

    fn link(&mut self) {
        let (Some(from), Some(reference)) = (self.any(), self.reference()) else {
            return;
        };
        let words = self.model.objects[&from].bytes / 8;
        let word = self.rng.below(words.min(12));
        let word = if self.rng.one_in(8) {
            self.rng.below(words)
        } else {
            word.min(words - 1)
        };
        store(
            self.model.objects[&from].address(),
            word,
            self.word_of(reference),
        );
        self.model.link(from, word, reference);
    }

    fn write(&mut self) {
        let Some(id) = self.any() else { return };
        let object = self.model.objects.get_mut(&id).unwrap();
        let (word, value) = (self.rng.below(object.bytes / 8), self.rng.below(1 << 32));
        object.words.insert(word, Word::Data(value));
        store(object.address(), word, value);
    }

    fn set_root(&mut self, root: usize, reference: Reference) {
        self.bench.roots[root] = self.word_of(reference);
        self.model.roots.insert(root, reference);
    }

    fn root(&mut self) {
        if let Some(reference) = self.reference() {
            let root = self.rng.below(ROOTS);
            self.set_root(root, reference);
        }
    }

    fn unroot(&mut self) {
        for _ in 0..8 {
            let root = self.rng.below(ROOTS);
            self.bench.roots[root] = self.rng.below(1 << 32);
            self.model.roots.remove(&root);
        }
    }

    fn roots_go(&mut self) {
        self.bench.roots.fill(0);
        self.model.roots.clear();
    }

    /// Frees an object explicitly after removing every reference to it.
    fn free(&mut self) {
        let Some(id) = self.any() else { return };
        let linked = self
            .model
            .short
            .iter()
            .chain(&self.model.long)
            .any(|link| link.object == id);
        let ready = self
            .model
            .ready
            .iter()
            .any(|(object, data)| *object == id || *data == Some(id));
        let data = self
            .model
            .finalizers
            .values()
            .any(|finalizer| finalizer.data == Some(id));
        if linked || ready || data || self.model.finalizers.contains_key(&id) {
            return;
        }
        let (words, roots) = self.model.forget(id);
        for (holder, word) in words {
            store(self.model.objects[&holder].address(), word, 0);
        }
        for root in roots {
            self.bench.roots[root] = 0;
        }
        let object = self.model.objects.remove(&id).unwrap();
        self.model.old.remove(&id);
        if self.bench.heap.cycle.is_under_way() && !self.bench.heap.cycle.can_end() {
            // If it is large, and grey at this moment, what it refers to may outlive it.
            let references = object
                .words
                .iter()
                .filter(|(_, value)| matches!(value, Word::Ref(_)));
            references.for_each(|(word, _)| store(object.address(), *word, 0));
        }
        self.bench.free(object.address());
    }

    fn register_finalizer(&mut self) {
        let (Some(id), Some(data)) = (self.any(), self.any()) else {
            return;
        };
        let order = [
            Order::Ordered,
            Order::IgnoreSelf,
            Order::NoOrder,
            Order::Unreachable,
        ][self.rng.below(4)];
        let data = self.rng.one_in(3).then_some(data);
        // Data is any word of the client's: also one that lies nowhere near the heap.
        let word = match data {
            Some(data) => self.model.objects[&data].address(),
            None => Address::new([0, 1, usize::MAX, 0x1000][self.rng.below(4)]),
        };
        let finalizer = Finalizer {
            proc: id,
            data: word,
            order,
        };
        let object = self.model.objects[&id].address();
        self.bench
            .heap
            .weak
            .finalizers
            .register(object, finalizer)
            .unwrap();
        self.model.finalizers.insert(id, Registered { order, data });
    }

    fn register_link(&mut self) {
        let Some(object) = self.any() else { return };
        let place = self.rng.below(OUTSIDE);
        let taken = self
            .model
            .short
            .iter()
            .chain(&self.model.long)
            .any(|link| link.place == place);
        if taken {
            return;
        }
        let address = self.model.objects[&object].address();
        self.outside[place] = !address.word();
        let word = Address::of(&raw const self.outside[place]);
        let (known, links) = if self.rng.one_in(2) {
            (&mut self.model.short, &mut self.bench.heap.weak.short_links)
        } else {
            (&mut self.model.long, &mut self.bench.heap.weak.long_links)
        };
        links.register(word, address).unwrap();
        known.push(Link { place, object });
    }

    fn take_ready(&mut self) {
        while let Some(ready) = self.bench.heap.weak.finalizers.take_ready() {
            let id = ready.finalizer.proc;
            let at = self
                .model
                .ready
                .iter()
                .position(|(object, _)| *object == id);
            assert_eq!(
                self.model.objects[&id].address(),
                ready.object,
                "{}",
                self.description
            );
            self.model.ready.remove(at.expect("the model knows of it"));
        }
    }
}

pub(crate) fn store(object: Address, word: usize, value: usize) {
    // SAFETY: an object of the program, and `word` is inside it.
    unsafe { object.add(word * 8).store(value) };
}

pub(crate) fn load(object: Address, word: usize) -> usize {
    // SAFETY: an object of the program, and `word` is inside it.
    unsafe { object.add(word * 8).load() }
}
