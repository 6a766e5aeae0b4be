//! A precise heap on a machine of four memory nodes, under every page policy: programs find in it what they put there,
//! with the verifier on and under every way to collect; and what mutators and workers of each node do lands where the
//! policy says.

#![cfg(not(loom))]

use std::ptr::NonNull;
use std::thread;

use gleaner_base::options::{
    Generations, HugePages, OldPages, OldPolicy, Options, Pages, Prefetch, TraceOrder, Verify,
    Zeroing,
};
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_model::{ELEMENTS, Shape, TypeId, array_bytes};
use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};
use gleaner_mem::{Address, zero};
use gleaner_os::topology::Topology;
use gleaner_plans::scavenge::allocate::{Fresh, Place};
use gleaner_plans::scavenge::collect::Extent;
use gleaner_plans::scavenge::locality::{ByNode, Counts, Sums};
use gleaner_plans::scavenge::mutator::Mutator;
use gleaner_plans::scavenge::zeroing::wanted_threads;
use gleaner_plans::scavenge::{Config, Scavenge};
use gleaner_spaces::precise::regions::Kind;
use gleaner_work::Crew;

const NODES: usize = 4;
/// Lists of a mutator, all of them in one array.
const LISTS: usize = 300;
const LONGEST: usize = 40;

fn options() -> Options {
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
        let array = unsafe { Wide::load(self.mutator().local(0), Address::NULL) };
        array.as_object().unwrap().add(ELEMENTS + list * F::BYTES)
    }

    fn push(&mut self, list: usize, number: u64) {
        let node = self.allocate(self.types.node, 24);
        let (kind, place, ..) = self.heap.nursery.turn_of(node).expect("it is young");
        let own = self.mutator().number as usize % NODES;
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
                self.mutator().local(0),
                Address::NULL,
                Value::reference(array),
            );
        }
        self.mutator().local_count.set(1);
        for step in 0..steps {
            let list = self.below(LISTS);
            if self.expected[list].len() == LONGEST {
                // SAFETY: a slot of the live array; null needs no card.
                unsafe { F::store(self.slot(list), self.base(), Value::NULL) };
                self.expected[list].clear();
            }
            self.push(list, step as u64);
            match self.below(1500) {
                0 => self.heap.collect(Extent::Young, "the test"),
                1 => self.heap.collect(Extent::Full, "the test"),
                2 => self.heap.collect(Extent::Compact, "the test"),
                3..100 => self.check(list),
                _ => {}
            }
        }
        (0..LISTS).for_each(|list| self.check(list));
        // The others were found elsewhere, when the memory of this one was used up.
        let least = match self.heap.config.options.pages {
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
        self.mutator().local_count.set(0);
        // SAFETY: the record is not used again.
        unsafe {
            self.heap.leave_for_good(self.record);
            self.heap.detach(self.record);
        }
    }
}

/// As many mutators as there are nodes, and one more.
fn run<F: SlotFormat>(options: Options) -> Sums {
    run_with::<F>(options, NODES as u64 + 1)
}

/// What such mutators do. Returns what the workers did on which node.
fn run_with<F: SlotFormat>(options: Options, mutators: u64) -> Sums {
    let config = Config::new(&options, Topology::synthetic(NODES, 1));
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
        let programs: Vec<_> = (0..mutators)
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
                    program.run(6_000);
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
    *heap.locality().expect("a synthetic machine of four nodes")
}

/// The standard deviation of the nodes' numbers over their mean.
fn imbalance(all: &ByNode) -> f64 {
    let of_nodes = || all[..NODES].iter().map(|&one| one as f64);
    let mean = of_nodes().sum::<f64>() / NODES as f64;
    let variance = of_nodes().map(|one| (one - mean).powi(2)).sum::<f64>() / NODES as f64;
    variance.sqrt() / mean
}

/// The share of what workers did on other nodes than theirs.
fn remote(sums: &Sums, part: impl Fn(&Counts) -> ByNode) -> f64 {
    let (mut own, mut all) = (0, 0);
    for (node, counts) in sums.by_worker.iter().enumerate() {
        own += part(counts)[node];
        all += part(counts).iter().sum::<u64>();
    }
    assert!(all > 1000, "too little to tell: {all}");
    1.0 - own as f64 / all as f64
}

#[test]
fn lists_live_in_four_fragments() {
    run::<Wide>(options());
    run::<Compressed>(options());
}

#[test]
fn the_same_in_place_with_fixed_sizes_and_prefetching() {
    run::<Wide>(Options {
        old: OldPolicy::MarkSweep,
        resize: false,
        prefetch: Prefetch::Edges,
        tenure: 0,
        ..options()
    });
}

#[test]
fn each_fragment_is_zeroed_by_threads_of_its_own() {
    for zeroing in [
        Zeroing::Concurrent,
        Zeroing::ConcurrentStatic,
        Zeroing::ConcurrentRacing,
    ] {
        run::<Wide>(Options {
            zeroing,
            ..options()
        });
    }
}

#[test]
fn each_fragment_has_its_share_and_no_more() {
    for zeroing in [Zeroing::HotPath, Zeroing::Concurrent] {
        run::<Wide>(Options {
            pages: Pages::FragmentedFixed,
            zeroing,
            ..options()
        });
    }
}

#[test]
fn each_fragment_leaves_where_it_was() {
    run::<Wide>(Options {
        quarantine: 2,
        ..options()
    });
}

/// One worker for each node. What is counted does not depend on how many of them take part.
fn counted(pages: Pages, old_pages: OldPages) -> Options {
    Options {
        workers: NODES as u32,
        pages,
        old_pages,
        verify: Verify::Off,
        poison: false,
        ..options()
    }
}

#[test]
fn under_first_touch_all_of_eden_is_where_the_one_mutator_is() {
    let sums = run_with::<Wide>(counted(Pages::FirstTouch, OldPages::FirstTouch), 1);
    assert!(imbalance(&sums.eden_pages) > 1.7, "{:?}", sums.eden_pages);
    assert_eq!(sums.nodes, NODES);
}

#[test]
fn interleaved_pages_are_everybodys() {
    let sums = run::<Wide>(counted(Pages::Interleaved, OldPages::Interleaved));
    for pages in [sums.eden_pages, sums.old_pages] {
        // Few are used at a time, always from the first.
        assert!(pages[..NODES].iter().all(|&of_node| of_node > 0));
    }
    for share in [
        remote(&sums, |counts| counts.scanned),
        remote(&sums, |counts| counts.copied),
        remote(&sums, |counts| counts.copied_from),
        remote(&sums, |counts| counts.updated),
    ] {
        assert!((0.65..0.85).contains(&share), "{share}");
    }
}

#[test]
fn workers_copy_to_the_fragments_of_their_nodes() {
    let sums = run::<Wide>(counted(Pages::Fragmented, OldPages::Interleaved));
    let elsewhere = remote(&sums, |counts| counts.copied);
    assert!(elsewhere < 0.2, "{elsewhere}");
    let fixed = run::<Wide>(counted(Pages::FragmentedFixed, OldPages::FirstTouch));
    assert_eq!(remote(&fixed, |counts| counts.copied), 0.0);
}

#[test]
fn workers_of_segregated_spaces_touch_young_objects_of_their_own_nodes_alone() {
    let sums = run::<Wide>(counted(Pages::Segregated, OldPages::Interleaved));
    assert_eq!(remote(&sums, |counts| counts.copied_from), 0.0);
    // What found no room in the fragment of its node was copied elsewhere, and is scanned there.
    let elsewhere = remote(&sums, |counts| counts.copied);
    let scanned = remote(&sums, |counts| counts.scanned_young);
    assert!(elsewhere < 0.2 && scanned < 0.2, "{elsewhere} {scanned}");
    let sent = |node: usize| sums.by_worker[node].messages;
    for node in 0..NODES {
        assert_eq!(sent(node)[node], 0, "nobody sends to himself");
        assert!(sent(node).iter().sum::<u64>() > 0);
    }
}

#[test]
fn segregated_spaces_hold_what_programs_put_there() {
    let apart = Options {
        pages: Pages::Segregated,
        old_pages: OldPages::Interleaved,
        workers: NODES as u32 + 2,
        ..options()
    };
    run::<Wide>(apart);
    run::<Compressed>(Options {
        // The leader gets the messages of the nodes without a worker.
        workers: 2,
        prefetch: Prefetch::Edges,
        ..apart
    });
    run::<Wide>(Options {
        old: OldPolicy::MarkSweep,
        tenure: 0,
        trace_order: TraceOrder::Breadth,
        ..apart
    });
}
