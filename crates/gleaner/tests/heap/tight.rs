//! Heaps with little more room than what lives takes, whose old generation is collected by lines. What is free lies in lines
//! between what lives, where it is of no use to the young generation: it is slid together, and not more often than that helps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::Rng;
use crate::setups::FORMATS;
use gleaner::{
    Builder, Elements, Generations, Heap, Local, NurseryPolicy, OldPolicy, Phase, References,
    Scope, Structure, Type,
};

const NODE: Structure = Structure {
    references: 2,
    bytes: 40,
};
const COUNT: usize = 60_000;
const MB: usize = 1 << 20;
const NURSERIES: [NurseryPolicy; 3] = [
    NurseryPolicy::Copying,
    NurseryPolicy::InPlace,
    NurseryPolicy::Auto,
];

/// What collections of a heap did.
#[derive(Default)]
struct Heard {
    slid: AtomicU64,
    evacuations: AtomicU64,
}

impl Heard {
    fn slid(&self) -> u64 {
        self.slid.load(Ordering::Relaxed)
    }
}

fn listen(heap: &Heap) -> Arc<Heard> {
    let all = Arc::<Heard>::default();
    let heard = all.clone();
    heap.add_listener(move |event| {
        let counter = match event.phase {
            Phase::Slide => &heard.slid,
            Phase::Evacuation => &heard.evacuations,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    });
    all
}

fn builder(references: References, limit: usize, nursery: NurseryPolicy) -> Builder {
    Heap::builder()
        .limit(limit)
        .old(OldPolicy::MarkRegion)
        .nursery(nursery)
        .references(references)
        .workers(2)
        .crew(gleaner::Crew::All)
        .ignore_environment()
}

/// How much a heap has beside what lives in it, in sixteenths of that.
fn limit_of(references: References, sixteenths: usize) -> usize {
    let (node, slot) = match references {
        References::Wide => (64, 8),
        _ => (56, 4),
    };
    COUNT * (node + slot) / 16 * (16 + sixteenths)
}

fn put<'s>(scope: &mut Scope<'s>, table: Local<'s>, node: Type, place: usize) {
    scope.nested(|scope| {
        let one = scope.allocate(node).unwrap();
        scope.write_u64(one, 0, place as u64).unwrap();
        scope.set(table, place, one).unwrap();
    });
}

fn fill<'s>(scope: &mut Scope<'s>, heap: &Heap, node: Type) -> Local<'s> {
    let slots = heap.reference_array().unwrap();
    let table = scope.allocate_references(slots, COUNT as u32).unwrap();
    (0..COUNT).for_each(|place| put(scope, table, node, place));
    table
}

/// Nodes at random places of the table get new ones instead, and as many others die at once.
fn replace<'s>(scope: &mut Scope<'s>, table: Local<'s>, node: Type, steps: usize, seed: u64) {
    let mut random = Rng::new(seed);
    for _ in 0..steps {
        put(scope, table, node, random.below(COUNT));
        scope.nested(|scope| _ = scope.allocate(node).unwrap());
    }
}

fn check<'s>(scope: &mut Scope<'s>, table: Local<'s>) {
    for place in 0..COUNT {
        scope.nested(|scope| {
            let one = scope.get(table, place);
            assert_eq!(scope.read_u64(one, 0), place as u64);
        });
    }
}

/// A program that leaves no line free, and how many collections it takes: of new objects, of everything, and of these those
/// that slid everything together and those that tried to do without.
fn collections(builder: Builder, steps: usize) -> [u64; 4] {
    let heap = builder.build().unwrap();
    let heard = listen(&heap);
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let table = fill(scope, &heap, node);
        replace(scope, table, node, steps, 3);
        check(scope, table);
    });
    let totals = heap.totals();
    let tried = heard.evacuations.load(Ordering::Relaxed);
    [
        totals.scavenges,
        totals.full_collections,
        heard.slid(),
        tried,
    ]
}

/// With sliding alone this takes as many collections of everything as there is room for garbage: some twenty.
#[test]
fn holes_do_not_starve_the_young_generation() {
    const STEPS: usize = 500_000;
    for references in FORMATS {
        for nursery in NURSERIES {
            let limit = limit_of(references, 10);
            let found = collections(builder(references, limit, nursery), STEPS);
            let [_, full, slid, tried] = found;
            assert!((5..60).contains(&full), "{nursery:?} {found:?}");
            // Most slide, and half of them at least without another try.
            assert!(
                2 * slid > full && 2 * tried <= full,
                "{nursery:?} {found:?}"
            );
        }
    }
}

/// Where all that is in use lives, a sliding would gain nothing: there is none, however little is left.
#[test]
fn what_leaves_no_holes_is_not_slid_together() {
    for references in FORMATS {
        for nursery in NURSERIES {
            let limit = limit_of(references, 5);
            let heap = builder(references, limit, nursery).build().unwrap();
            let heard = listen(&heap);
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let table = fill(scope, &heap, node);
                scope.collect(true);
                let before = heard.slid();
                (0..4).for_each(|_| scope.collect(true));
                assert_eq!(heard.slid(), before, "{nursery:?}");
                check(scope, table);
            });
        }
    }
}

/// A node in each pair of lines takes them all. That is slid together once; but not while a node is pinned.
#[test]
fn lines_with_little_in_them_are_slid_together_once_and_not_around_pins() {
    for references in FORMATS {
        for nursery in NURSERIES {
            let limit = limit_of(references, 5);
            let heap = builder(references, limit, nursery).build().unwrap();
            let heard = listen(&heap);
            let node = heap.structure(NODE).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let table = fill(scope, &heap, node);
                scope.collect(true);
                let last = scope.get(table, COUNT - 1);
                let place = scope.pin(last).unwrap();
                let nothing = scope.null();
                for number in (0..COUNT).filter(|number| number % 4 != 3) {
                    scope.set(table, number, nothing).unwrap();
                }
                let before = heard.slid();
                (0..4).for_each(|_| scope.collect(true));
                assert_eq!(heard.slid(), before, "{nursery:?}");
                scope.unpin(last).unwrap();
                (0..4).for_each(|_| scope.collect(true));
                assert_eq!(heard.slid(), before + 1, "{nursery:?}");
                assert_ne!(scope.pin(last), Ok(place), "{nursery:?}");
                for number in (3..COUNT).step_by(4) {
                    scope.nested(|scope| {
                        let one = scope.get(table, number);
                        assert_eq!(scope.read_u64(one, 0), number as u64);
                    });
                }
            });
        }
    }
}

/// A fifth of the new objects lives for some collections, and half of what is allocated are large arrays that die. New objects
/// leave blocks for copies of those that will live: so few collections have to be of everything.
#[test]
fn new_objects_in_place_are_collected_alone_as_a_rule() {
    let heap = Heap::builder()
        .limit(12 * MB)
        .old(OldPolicy::MarkRegion)
        .nursery(NurseryPolicy::InPlace)
        .generations(Generations::Always)
        .workers(2)
        .ignore_environment()
        .build()
        .unwrap();
    let node = heap.structure(NODE).unwrap();
    let slots = heap.reference_array().unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let table = scope.allocate_references(slots, COUNT as u32).unwrap();
        for number in 0..3_000_000 {
            scope.nested(|scope| {
                let one = scope.allocate(node).unwrap();
                scope.write_u64(one, 0, number as u64).unwrap();
                if number % 5 == 0 {
                    // Neighbours in time are none in the table.
                    scope.set(table, number / 5 * 7919 % COUNT, one).unwrap();
                }
                if number % 320 == 0 {
                    scope.allocate_array(bytes, 20_000).unwrap();
                }
            });
        }
    });
    let totals = mutator.totals();
    let (new, all) = (totals.scavenges, totals.full_collections);
    assert!(
        new > 20 && all * 14 <= new,
        "{new} of new objects, {all} of everything"
    );
}
