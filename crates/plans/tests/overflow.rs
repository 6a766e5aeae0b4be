//! Mark stacks of one page: whatever the shape of the graph, everything reachable is marked, by one worker and by
//! several, and the event log tells of it.

#![cfg(not(loom))]

mod harness;

use std::collections::BTreeSet;

use gleaner_base::events::Phase;
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::roots::Range;
use gleaner_plans::mark_sweep::weak::{Finalizer, Order};
use gleaner_spaces::mark_sweep::kinds::{Kind, NORMAL, PTRFREE, descriptor};
use gleaner_spaces::mark_sweep::size_classes::LARGEST_SMALL;
use gleaner_work::Crew;
use harness::rng::Rng;
use harness::{Bench, crew, grow};

fn store(object: Address, word: usize, value: Address) {
    // SAFETY: the test's own object, and inside it.
    unsafe { object.add(word * 8).store(value.word()) };
}

/// The objects of a graph; the first is its root.
type Graph = Vec<Address>;

fn object(bench: &mut Bench, bytes: usize) -> Address {
    bench.allocate(NORMAL, bytes).unwrap()
}

/// Lists, each of which hangs in the one before.
fn deep(bench: &mut Bench) -> Graph {
    let all: Graph = (0..60_000).map(|_| object(bench, 32)).collect();
    for pair in all.windows(2) {
        store(pair[0], 3, pair[1]);
    }
    all
}

/// One object that refers to all others.
fn wide(bench: &mut Bench) -> Graph {
    let mut all = vec![object(bench, 20_000 * 8)];
    for leaf in 0..20_000 {
        all.push(object(bench, 48));
        store(all[0], leaf, all[leaf + 1]);
    }
    all
}

/// Large objects side by side, each with more references than a stack holds: the rest of one that is being scanned
/// competes with the references of another for the room that is left.
fn wide_and_large(bench: &mut Bench) -> Graph {
    const LARGE: usize = 64;
    const LEAVES: usize = 3 * 512;
    let mut all = vec![object(bench, LARGE * 8)];
    for large in 0..LARGE {
        let holder = object(bench, LEAVES * 8 + 8200);
        store(all[0], large, holder);
        all.push(holder);
        for leaf in 0..LEAVES {
            let leaf_object = object(bench, 16);
            store(holder, leaf, leaf_object);
            all.push(leaf_object);
        }
    }
    all
}

/// Many large objects found at once: most of them do not fit the stack, and each alone refers to an object.
fn many_large(bench: &mut Bench) -> Graph {
    const LARGE: usize = 1000;
    let mut all = vec![object(bench, LARGE * 8)];
    for large in 0..LARGE {
        let holder = object(bench, LARGEST_SMALL + 8);
        let leaf = object(bench, 16);
        store(all[0], large, holder);
        store(holder, 1, leaf);
        all.extend([holder, leaf]);
    }
    all
}

/// A tree of which every node has many children: each level overflows again.
fn bushy(bench: &mut Bench) -> Graph {
    let mut all = vec![object(bench, 200 * 8)];
    let mut parent = 0;
    while all.len() < 12_000 {
        for child in 0..200 {
            all.push(object(bench, 200 * 8));
            // Those that have children of their own come last in their parent, so that they are scanned first.
            store(all[parent], 199 - child, all[all.len() - 1]);
        }
        parent += 1;
    }
    all
}

/// References every which way.
fn tangled(bench: &mut Bench) -> Graph {
    let mut rng = Rng::new(7);
    let all: Graph = (0..30_000).map(|_| object(bench, 128)).collect();
    for number in 1..all.len() {
        store(all[rng.below(number)], rng.below(8) + 8, all[number]);
        store(all[number], rng.below(8), all[rng.below(all.len())]);
        store(all[number - 1], 0, all[number]);
    }
    all
}

/// Like `wide`, of a kind that only the collecting thread may scan.
fn procedures(bench: &mut Bench) -> Graph {
    let kind = leader_kind(bench);
    let mut all = vec![object(bench, 8000 * 8)];
    for leaf in 0..8000 {
        all.push(bench.allocate(kind, 32).unwrap());
        let behind = object(bench, 16);
        store(all[0], leaf, all[all.len() - 1]);
        store(all[all.len() - 1], 1, behind);
        all.push(behind);
    }
    all
}

/// A per-object descriptor in word 3 that says "length": scanned like any other, by way of the described path.
fn described(bench: &mut Bench) -> Graph {
    let kind = kind(bench, 24 | descriptor::PER_OBJECT);
    let mut all = vec![object(bench, 6000 * 8)];
    for leaf in 0..6000 {
        let object_with = bench.allocate(kind, 32).unwrap();
        store(object_with, 3, Address::new(16));
        let behind = object(bench, 16);
        store(all[0], leaf, object_with);
        store(object_with, 1, behind);
        all.extend([object_with, behind]);
    }
    all
}

fn kind(bench: &mut Bench, descriptor: usize) -> usize {
    let kind = Kind {
        descriptor,
        add_size: false,
        clear: true,
        uncollectable: false,
        disclaim: None,
        mark_unconditionally: false,
        unlocked: true,
    };
    bench.heap.space.kinds.add(kind).unwrap()
}

mod procedure {
    use super::*;
    use gleaner_spaces::mark_sweep::scan::{Entry, MarkContext};
    use std::cell::Cell;

    thread_local! {
        static CONTEXT: Cell<*const MarkContext> = const { Cell::new(std::ptr::null()) };
    }

    unsafe extern "C-unwind" fn second(
        object: *mut usize,
        top: *mut Entry,
        limit: *mut Entry,
        _: usize,
    ) -> *mut Entry {
        let context = CONTEXT.get();
        assert!(!context.is_null(), "a procedure ran on a helper");
        // SAFETY: called by the collector on the collecting thread, with an object of two words at least.
        unsafe { (*context).mark_and_push(object.add(1).read(), top, limit) }
    }

    pub fn install(bench: &mut Bench) {
        CONTEXT.set(&raw const *bench.heap.context);
        bench.heap.context.procs[1] = Some(second);
    }
}

fn leader_kind(bench: &mut Bench) -> usize {
    procedure::install(bench);
    kind(bench, 1 << 2 | descriptor::PROC)
}

/// Builds a graph beside garbage and collects it several times, with `workers` workers.
fn check(
    crew: &'static Crew,
    workers: usize,
    (policy, waiting): (&str, Option<usize>),
    shape: &Shape,
) {
    let options = format!("reserve=128m,initial-heap=64m,markers={workers},{policy}");
    let mut bench = Bench::with_crew(&options, crew);
    bench.shrink_mark_stacks_and_queues(waiting);
    // Pointer-free garbage shows that nothing but the graph is marked.
    (0..100).for_each(|_| drop(bench.allocate(PTRFREE, 64)));
    let mut graph = (shape.build)(&mut bench);
    bench.keep(graph[0]);
    // Small heaps are marked by one worker.
    graph.push(object(&mut bench, 1100 << 10));
    bench.keep(graph[graph.len() - 1]);
    let expected: BTreeSet<usize> = graph.iter().map(|object| object.word()).collect();
    for _ in 0..3 {
        bench.collect();
        let marked = bench.marked();
        let missing = expected.difference(&marked).count();
        assert_eq!(
            (missing, marked.len()),
            (0, expected.len()),
            "{}, {policy}, {workers} workers",
            shape.name
        );
        bench.verify_collected();
    }
    let overflows = bench.events(Phase::Overflow);
    let marks = bench.events(Phase::Mark);
    assert_eq!(marks.last().unwrap().workers as usize, workers);
    // A list needs one entry at a time; all else is wider than a stack.
    assert_eq!(
        overflows.is_empty(),
        shape.name == "deep",
        "{policy}, {}",
        shape.name
    );
    assert!(
        overflows
            .iter()
            .all(|event| event.objects > 0 && !event.reason.is_empty())
    );
}

/// Options, and how many objects or references wait until the cache has them.
const POLICIES: [(&str, Option<usize>); 7] = [
    ("prefetch=none", None),
    ("prefetch=on-grey,push-order=permuted", None),
    ("prefetch=fifo", Some(1)),
    ("prefetch=fifo", Some(8)),
    ("prefetch=fifo,look-ahead=4", Some(64)),
    ("prefetch=edges", Some(2)),
    ("prefetch=edges,push-order=permuted", Some(64)),
];

struct Shape {
    name: &'static str,
    build: fn(&mut Bench) -> Graph,
}

const SHAPES: [Shape; 8] = [
    Shape {
        name: "deep",
        build: deep,
    },
    Shape {
        name: "wide",
        build: wide,
    },
    Shape {
        name: "wide and large",
        build: wide_and_large,
    },
    Shape {
        name: "many large",
        build: many_large,
    },
    Shape {
        name: "bushy",
        build: bushy,
    },
    Shape {
        name: "tangled",
        build: tangled,
    },
    Shape {
        name: "procedures",
        build: procedures,
    },
    Shape {
        name: "described",
        build: described,
    },
];

/// What a finalizer keeps is marked in weak processing, where a stack may be too small as well.
#[test]
fn weak_processing_marks_everything_and_says_so() {
    for (policy, waiting) in POLICIES {
        let mut bench = Bench::new(&format!("reserve=128m,initial-heap=64m,markers=1,{policy}"));
        bench.shrink_mark_stacks_and_queues(waiting);
        let graph = wide(&mut bench);
        let finalizer = Finalizer {
            proc: 1,
            data: Address::NULL,
            order: Order::Ordered,
        };
        let finalizers = &mut bench.heap.weak.finalizers;
        finalizers.register(graph[0], finalizer).unwrap();
        bench.collect();
        assert_eq!(bench.heap.weak.finalizers.ready_count(), 1, "{policy}");
        assert_eq!(bench.marked().len(), graph.len(), "{policy}");
        bench.verify_collected();
        let overflows = bench.events(Phase::Overflow);
        assert_eq!(overflows.len(), 1, "{policy}");
        assert!(overflows[0].objects > 0 && overflows[0].reason.contains("weak"));
    }
}

#[test]
fn one_worker_marks_everything() {
    let crew = crew();
    for policy in POLICIES {
        SHAPES
            .iter()
            .for_each(|shape| check(crew, 1, policy, shape));
    }
}

#[test]
fn four_workers_mark_everything() {
    let crew = crew();
    assert_eq!(grow(crew, 3), 3);
    for policy in POLICIES {
        SHAPES
            .iter()
            .for_each(|shape| check(crew, 4, policy, shape));
    }
    crew.dismiss();
}

/// A range that begins and ends anywhere in cache lines, under each policy: every word of it counts, and none beside it.
#[test]
fn every_word_of_a_range_counts_and_none_beside_it() {
    for (policy, waiting) in POLICIES {
        let mut bench = Bench::new(&format!("{policy},markers=1"));
        bench.shrink_mark_stacks_and_queues(waiting);
        // 64 words, of which the lines begin at words 0, 8, ...
        let words = Box::leak(vec![0usize; 72].into_boxed_slice());
        let first = words.as_ptr().align_offset(64);
        let base = Address::of(words.as_ptr()).add(first * 8);
        for (from, to) in (0..9).flat_map(|from| (from + 1..28).map(move |to| (from, to))) {
            let objects: Vec<Address> = (0..30)
                .map(|_| bench.allocate(NORMAL, 32).unwrap())
                .collect();
            for (number, object) in objects.iter().enumerate() {
                store(base, number, *object);
            }
            let range = Range {
                low: base.add(from * 8),
                high: base.add(to * 8),
            };
            bench.heap.roots.add(range);
            bench.collect();
            bench.heap.roots.remove(range);
            for (number, object) in objects.iter().enumerate() {
                // A block without marks may be free by now.
                let is_there = bench.heap.space.object_base(object.word()).is_some();
                assert_eq!(
                    is_there && bench.is_marked(*object),
                    (from..to).contains(&number),
                    "{policy}: word {number} of {from}..{to}"
                );
            }
        }
    }
}
