//! Programs that keep lists of numbers in a precise heap, several at once, and check them all the time.
//!
//! Each has one array, whose slots lead to lists; so there are old objects that refer to young ones, and much dies young
//! and some later. Threads: each program is a mutator on a thread of its own.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::ptr::NonNull;
use std::thread;

use gleaner_base::options::{Generations, HugePages, Options, Pages, Verify};
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_model::{ELEMENTS, Shape, TypeId, array_bytes};
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_mem::{Address, zero};
use gleaner_plans::scavenge::allocate::{Fresh, Place};
use gleaner_plans::scavenge::collect::Extent;
use gleaner_plans::scavenge::mutator::Mutator;
use gleaner_plans::scavenge::zeroing::wanted_threads;
use gleaner_plans::scavenge::{Config, Scavenge};
use gleaner_spaces::precise::regions::Kind;
use gleaner_work::Crew;

/// Lists of a mutator, all of them in one array.
pub const LISTS: usize = 300;
const LONGEST: usize = 40;

/// Of a small heap that collects in every way, with all checks.
pub fn options() -> Options {
    Options {
        heap_limit: 12 << 20,
        young: 3 << 20,
        workers: 3,
        tenure: 2,
        tlab: 4096,
        huge_pages: HugePages::Off,
        generations: Generations::Always,
        pages: Pages::Fragmented,
        verify: Verify::Edges,
        poison: true,
        ..Options::DEFAULT
    }
}

/// The types of the program.
#[derive(Clone, Copy)]
struct Types {
    /// A reference to the next, and a number behind it.
    node: TypeId,
    lists: TypeId,
}

const NEXT: u32 = 8;
const NUMBER: usize = 16;

/// One mutator and its lists, with what they are to hold.
struct Program<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    types: Types,
    record: NonNull<Mutator>,
    expected: Vec<Vec<u64>>,
    random: u64,
    /// How many nodes were allocated, and how many of them in the fragment of the mutator's memory node.
    nodes: usize,
    at_home: usize,
}

impl<F: SlotFormat> Program<'_, F> {
    fn mutator(&self) -> &Mutator {
        // SAFETY: attached until the program ends.
        unsafe { self.record.as_ref() }
    }

    fn below(&mut self, most: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) as usize % most
    }

    fn allocate(&self, id: TypeId, bytes: usize) -> Address {
        let object = match self.mutator().tlab.allocate(bytes) {
            // SAFETY: the memory is this mutator's.
            Some(object) if self.mutator().zeroes.get() != 0 => unsafe {
                zero::zero(object, bytes);
                object
            },
            Some(object) => object,
            // SAFETY: the record is this mutator's.
            None => unsafe {
                self.heap
                    .allocate_slowly(self.record, bytes, Place::Anywhere, Fresh::Zeroed)
                    .expect("the lists are far below the limit")
            },
        };
        // SAFETY: the memory is this mutator's, and zero.
        unsafe {
            assert_eq!(object.add(8).load(), 0, "fresh memory is zero (I2)");
            header::store(object, Header::fresh(id));
        }
        object
    }

    fn base(&self) -> Address {
        self.heap.model.base
    }

    /// The slot of a list in the array, which is the first local.
    fn slot(&self, list: usize) -> Address {
        // SAFETY: locals are wide; the array is alive.
        let array = unsafe { Wide::load(self.mutator().first_local(), Address::NULL) };
        array.as_object().unwrap().add(ELEMENTS + list * F::BYTES)
    }

    fn push(&mut self, list: usize, number: u64) {
        let node = self.allocate(self.types.node, 24);
        let (kind, place, ..) = self.heap.nursery.turn_of(node).expect("it is young");
        let own = self.mutator().number as usize % self.heap.config.topology.nodes();
        assert_eq!(kind, Kind::Eden);
        self.at_home += usize::from(place == own);
        self.nodes += 1;
        let slot = self.slot(list);
        // SAFETY: fresh memory, and a slot of a live array.
        unsafe {
            let next = F::load(slot, self.base());
            F::store(node.add(NEXT as usize), self.base(), next);
            node.add(NUMBER).store(number as usize);
            F::store(slot, self.base(), Value::reference(node));
        }
        self.heap.cards.dirty(slot);
        self.expected[list].push(number);
    }

    fn check(&self, list: usize) {
        // SAFETY: slots of live objects.
        unsafe {
            let mut at = F::load(self.slot(list), self.base());
            for &number in self.expected[list].iter().rev() {
                let node = at.as_object().expect("a node is missing");
                assert_eq!(node.add(NUMBER).load() as u64, number);
                at = F::load(node.add(NEXT as usize), self.base());
            }
            assert!(at.as_object().is_none(), "a list is too long");
        }
    }

    fn run(mut self, steps: usize) {
        let array = self.allocate(
            self.types.lists,
            array_bytes(LISTS as u32, F::BYTES.ilog2()),
        );
        // SAFETY: the array was just allocated, and the local is this mutator's.
        unsafe {
            array.add(8).store(LISTS);
            Wide::store(
                self.mutator().first_local(),
                Address::NULL,
                Value::reference(array),
            );
        }
        let one_local = self.mutator().first_local().add(8);
        self.mutator().free_local.set(one_local);
        for step in 0..steps {
            let list = self.below(LISTS);
            if self.expected[list].len() == LONGEST {
                // SAFETY: a slot of the live array; null needs no card.
                unsafe { F::store(self.slot(list), self.base(), Value::NULL) };
                self.expected[list].clear();
            }
            self.push(list, step as u64);
            match self.below(1500) {
                0 => self.heap.collect(self.mutator(), Extent::Young, "the test"),
                1 => self.heap.collect(self.mutator(), Extent::Full, "the test"),
                2 => self
                    .heap
                    .collect(self.mutator(), Extent::Compact, "the test"),
                3..100 => self.check(list),
                _ => {}
            }
        }
        (0..LISTS).for_each(|list| self.check(list));
        // The others were found elsewhere, when the memory of this one was used up.
        let least = match self.heap.config.options.pages {
            // On the host it runs wherever the system has it.
            _ if !self.heap.config.topology.is_synthetic() => 0,
            Pages::FragmentedFixed => 100,
            Pages::Fragmented => 60,
            _ => 0,
        };
        assert!(
            self.at_home * 100 >= self.nodes * least,
            "{} of {} are where the mutator is",
            self.at_home,
            self.nodes
        );
        let no_local = self.mutator().first_local();
        self.mutator().free_local.set(no_local);
        // SAFETY: the record is not used again.
        unsafe {
            self.heap.leave_for_good(self.record);
            self.heap.detach(self.record);
        }
    }
}

/// Runs `programs` programs of `steps` steps each on a heap at once; then `check` looks at the heap. Gives what `check`
/// says.
pub fn run<F: SlotFormat, R>(
    config: Config,
    programs: u64,
    steps: usize,
    check: impl FnOnce(&Scavenge<F>) -> R,
) -> R {
    // A crew outlives its helpers.
    let crew: &'static Crew = Box::leak(Box::new(Crew::new()));
    let mut helpers = Vec::new();
    crew.ensure_helpers(config.workers - 1, &mut |index| {
        // SAFETY: the crew gave out the index, and this thread alone was started for it.
        helpers.push(thread::spawn(move || unsafe { crew.serve(index) }));
        true
    });
    let heap = Scavenge::<F>::new(config, crew).unwrap();
    let node = heap.register(Shape::Structure {
        bytes: 24,
        references: &[NEXT],
    });
    let types = Types {
        node: node.unwrap(),
        lists: heap.register(Shape::References).unwrap(),
    };
    thread::scope(|scope| {
        for index in 0..wanted_threads(&config) {
            let heap = &heap;
            scope.spawn(move || heap.zeroing_thread(index));
        }
        let programs: Vec<_> = (0..programs)
            .map(|seed| {
                let heap = &heap;
                scope.spawn(move || {
                    let program = Program {
                        heap,
                        types,
                        record: heap.attach().unwrap(),
                        expected: vec![Vec::new(); LISTS],
                        random: 0x9e37_79b9_7f4a_7c15 ^ seed,
                        nodes: 0,
                        at_home: 0,
                    };
                    program.run(steps);
                })
            })
            .collect();
        programs.into_iter().for_each(|one| one.join().unwrap());
        heap.zeroing.dismiss();
    });
    let totals = heap.totals();
    assert!(
        totals.scavenges > 2 && totals.full_collections > 2,
        "{totals:?}"
    );
    crew.dismiss();
    helpers.into_iter().for_each(|one| one.join().unwrap());
    check(&heap)
}
