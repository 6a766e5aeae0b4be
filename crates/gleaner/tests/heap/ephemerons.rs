//! Ephemerons cost what there is of them: the collector's looks at keys are counted, and their number is linear in the
//! number of ephemerons, in whatever order chains of them lie in the table.

use crate::finalized::finalize;
use crate::link_order::Order;
use crate::random::Rng;
use gleaner::{Builder, Ephemeron, Heap, Local, Mutator, OldPolicy, References, Scope, Structure};

/// Ephemerons of one chain: several tasks of the table, which have 4096 entries each.
const LINKS: usize = 13_000;
/// At most so many looks at keys for each ephemeron in one trace: one that registers, one at what was registered, one
/// at the end, and those at its neighbours in the table of what waits.
const MOST_LOOKS: u64 = 6;

const NODE: Structure = Structure {
    references: 1,
    bytes: 8,
};

/// One way to collect: the policy of the old space, how many workers, and whether it is everything.
type Way = (References, OldPolicy, usize, bool);

fn ways() -> impl Iterator<Item = Way> {
    [false, true].into_iter().flat_map(|everything| {
        [1, 4].into_iter().flat_map(move |workers| {
            [
                (References::Wide, OldPolicy::MarkCompact),
                (References::Compressed, OldPolicy::MarkSweep),
                (References::Wide, OldPolicy::MarkRegion),
            ]
            .map(|(references, old)| (references, old, workers, everything))
        })
    })
}

/// The most looks of one collection. A full collection in place marks, and then copies the young objects.
fn most_looks((_, old, _, everything): Way) -> u64 {
    let traces = 1 + u64::from(everything && old != OldPolicy::MarkCompact);
    traces * MOST_LOOKS * LINKS as u64
}

fn builder((references, old, workers, _): Way) -> Builder {
    Heap::builder()
        .references(references)
        .old(old)
        .limit(64 << 20)
        .young(32 << 20)
        .workers(workers)
        .crew(gleaner::Crew::All)
}

/// A chain of ephemerons: the value of each is the next key, or, if it is `boxed`, an object that refers to it.
struct Chain<'s> {
    first: Local<'s>,
    links: Vec<Ephemeron>,
    boxed: bool,
}

fn chain<'s>(scope: &mut Scope<'s>, heap: &Heap, order: Order, boxed: bool) -> Chain<'s> {
    let of = heap.structure(NODE).unwrap();
    let array = heap.reference_array().unwrap();
    let first = scope.null();
    let mut links: Vec<Option<Ephemeron>> = (0..LINKS).map(|_| None).collect();
    scope.nested(|scope| {
        let keys = scope.allocate_references(array, LINKS as u32 + 1).unwrap();
        for number in 0..=LINKS {
            scope.nested(|scope| {
                let key = scope.allocate(of).unwrap();
                scope.write_u64(key, 0, number as u64).unwrap();
                scope.set(keys, number, key).unwrap();
            });
        }
        for number in order.links(LINKS) {
            scope.nested(|scope| {
                let (key, next) = (scope.get(keys, number), scope.get(keys, number + 1));
                let value = if boxed {
                    let value = scope.allocate(of).unwrap();
                    scope.set(value, 0, next).unwrap();
                    value
                } else {
                    next
                };
                links[number] = Some(scope.ephemeron(key, value).unwrap());
            });
        }
        let key = scope.get(keys, 0);
        scope.assign(first, key);
    });
    let links = links.into_iter().map(Option::unwrap).collect();
    Chain {
        first,
        links,
        boxed,
    }
}

impl Chain<'_> {
    /// Every link is what it was made.
    fn check(&self, scope: &mut Scope<'_>) {
        for (number, link) in self.links.iter().enumerate() {
            scope.nested(|scope| {
                let (key, value) = (scope.key(link), scope.value_of(link));
                assert!(!scope.is_null(key), "link {number} lives");
                assert_eq!(scope.read_u64(key, 0), number as u64);
                let next = if self.boxed {
                    scope.get(value, 0)
                } else {
                    value
                };
                assert_eq!(scope.read_u64(next, 0), number as u64 + 1);
            });
        }
    }

    fn check_dead(&self, scope: &mut Scope<'_>) {
        for (number, link) in self.links.iter().enumerate() {
            scope.nested(|scope| {
                let (key, value) = (scope.key(link), scope.value_of(link));
                assert!(scope.is_null(key) && scope.is_null(value), "link {number}");
            });
        }
    }
}

/// Collects once; how often it looked at keys. The heap has no other mutator, which this one could keep from stopping.
fn looks(scope: &mut Scope<'_>, heap: &Heap, everything: bool) -> u64 {
    let before = heap.totals();
    scope.collect(everything);
    let after = heap.totals();
    let full = after.full_collections - before.full_collections;
    assert_eq!(
        (after.scavenges - before.scavenges, full),
        (u64::from(!everything), u64::from(everything))
    );
    after.ephemeron_looks - before.ephemeron_looks
}

/// For each way, order, and kind of value: makes a chain in a heap of its own.
fn for_each(body: impl Fn(&mut Scope<'_>, &Heap, Order, bool, Way)) {
    for way in ways() {
        for order in Order::ALL {
            for boxed in [false, true] {
                let heap = builder(way).build().unwrap();
                let mut mutator: Mutator = heap.attach().unwrap();
                mutator.scope(|scope| body(scope, &heap, order, boxed, way));
            }
        }
    }
}

#[test]
fn looks_are_linear_in_chains_that_live() {
    for_each(|scope, heap, order, boxed, way| {
        let chain = chain(scope, heap, order, boxed);
        let looks = looks(scope, heap, way.3);
        chain.check(scope);
        assert!(
            looks <= most_looks(way),
            "{looks} looks, {order:?}, boxed {boxed}, {way:?}"
        );
    });
}

#[test]
fn looks_are_linear_in_dead_chains() {
    for_each(|scope, heap, order, boxed, way| {
        let chain = chain(scope, heap, order, boxed);
        let nothing = scope.null();
        scope.assign(chain.first, nothing);
        let looks = looks(scope, heap, way.3);
        chain.check_dead(scope);
        assert!(
            looks <= most_looks(way),
            "{looks} looks, {order:?}, boxed {boxed}, {way:?}"
        );
    });
}

#[test]
fn looks_are_linear_in_chains_that_finalizers_bring_back() {
    for_each(|scope, heap, order, boxed, way| {
        let chain = chain(scope, heap, order, boxed);
        finalize(scope, chain.first);
        let nothing = scope.null();
        scope.assign(chain.first, nothing);
        let looks = looks(scope, heap, way.3);
        chain.check(scope);
        assert!(
            looks <= most_looks(way),
            "{looks} looks, {order:?}, boxed {boxed}, {way:?}"
        );
    });
}

#[test]
fn many_ephemerons_of_one_key_are_found_together() {
    for way in ways() {
        let heap = builder(way).build().unwrap();
        let of = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            // The key is the last value of a chain of one, which comes after all that wait for it.
            let root = scope.allocate(of).unwrap();
            let mut all = Vec::new();
            let last = scope.nested(|scope| {
                let key = scope.allocate(of).unwrap();
                for number in 0..LINKS {
                    scope.nested(|scope| {
                        let value = scope.allocate(of).unwrap();
                        scope.write_u64(value, 0, number as u64).unwrap();
                        all.push(scope.ephemeron(key, value).unwrap());
                    });
                }
                scope.ephemeron(root, key).unwrap()
            });
            let looks = looks(scope, &heap, way.3);
            for (number, one) in all.iter().enumerate() {
                scope.nested(|scope| {
                    let value = scope.value_of(one);
                    assert_eq!(scope.read_u64(value, 0), number as u64);
                });
            }
            assert!(looks <= most_looks(way), "{looks} looks, {way:?}");
            drop(last);
        });
    }
}

/// Nodes with an edge each at most, and ephemerons on them, several on some.
struct Graph {
    edges: Vec<Option<usize>>,
    ephemerons: Vec<(usize, usize)>,
}

impl Graph {
    fn random(random: &mut Rng, nodes: usize) -> Graph {
        let edges = (0..nodes)
            .map(|_| random.one_in(3).then(|| random.below(nodes)))
            .collect();
        // Some keys are in demand.
        let popular: Vec<usize> = (0..5).map(|_| random.below(nodes)).collect();
        let ephemerons = (0..nodes)
            .map(|_| {
                let key = match random.below(8) {
                    0 => popular[random.below(5)],
                    _ => random.below(nodes),
                };
                (key, random.below(nodes))
            })
            .collect();
        Graph { edges, ephemerons }
    }

    /// What lives: passes over all ephemerons, until one finds nothing.
    fn reach(&self, roots: &[usize]) -> Vec<bool> {
        let mut live = vec![false; self.edges.len()];
        let mut grey = roots.to_vec();
        loop {
            while let Some(node) = grey.pop() {
                if !live[node] {
                    live[node] = true;
                    grey.extend(self.edges[node]);
                }
            }
            let more = self
                .ephemerons
                .iter()
                .filter(|one| live[one.0] && !live[one.1]);
            grey.extend(more.map(|one| one.1));
            if grey.is_empty() {
                return live;
            }
        }
    }
}

#[test]
fn random_graphs_keep_what_passes_until_nothing_changes_would_keep() {
    const NODES: usize = 6000;
    for (seed, way) in ways().enumerate() {
        for round in 0..3 {
            let random = &mut Rng::new((seed * 10 + round) as u64);
            let graph = Graph::random(random, NODES);
            let heap = builder(way).build().unwrap();
            let of = heap.structure(NODE).unwrap();
            let array = heap.reference_array().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let roots: Vec<usize> = (0..20).map(|_| random.below(NODES)).collect();
                let last = random.below(NODES);
                let kept: Vec<Local<'_>> = roots.iter().map(|_| scope.null()).collect();
                let links: Vec<Ephemeron> = scope.nested(|scope| {
                    let all = scope.allocate_references(array, NODES as u32).unwrap();
                    for number in 0..NODES {
                        scope.nested(|scope| {
                            let node = scope.allocate(of).unwrap();
                            scope.write_u64(node, 0, number as u64).unwrap();
                            scope.set(all, number, node).unwrap();
                        });
                    }
                    for (number, edge) in graph.edges.iter().enumerate() {
                        if let Some(to) = edge {
                            scope.nested(|scope| {
                                let (from, to) = (scope.get(all, number), scope.get(all, *to));
                                scope.set(from, 0, to).unwrap();
                            });
                        }
                    }
                    for (local, &root) in kept.iter().zip(&roots) {
                        scope.load(all, root, *local);
                    }
                    let finalized = scope.get(all, last);
                    finalize(scope, finalized);
                    let links = graph.ephemerons.iter().map(|&(key, value)| {
                        scope.nested(|scope| {
                            let (key, value) = (scope.get(all, key), scope.get(all, value));
                            scope.ephemeron(key, value).unwrap()
                        })
                    });
                    links.collect()
                });
                scope.collect(way.3);
                let live = graph.reach(&[&roots[..], &[last]].concat());
                let count = live.iter().filter(|&&lives| lives).count();
                assert!((100..NODES - 100).contains(&count), "{count} live");
                for (link, &(key, value)) in links.iter().zip(&graph.ephemerons) {
                    scope.nested(|scope| {
                        let found = [scope.key(link), scope.value_of(link)];
                        let found = found.map(|one| (!scope.is_null(one)).then_some(one));
                        let found = found.map(|one| one.map(|one| scope.read_u64(one, 0) as usize));
                        let expected = [key, value].map(|one| live[key].then_some(one));
                        assert_eq!(found, expected, "{way:?}, round {round}");
                    });
                }
            });
        }
    }
}

#[test]
fn chains_through_large_objects_are_followed() {
    // More than 16 KB: such keys are marked where they lie, also by a scavenge.
    const LENGTH: u32 = 3000;
    const KEYS: usize = 300;
    for way in ways() {
        let heap = builder(way).build().unwrap();
        let array = heap.reference_array().unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let first = scope.null();
            let mut links = Vec::new();
            // Backward: no pass over the table in its order finds more than one.
            for number in (0..KEYS).rev() {
                scope.nested(|scope| {
                    let key = scope.allocate_references(array, LENGTH).unwrap();
                    let mark = scope.integer(number as i64).unwrap();
                    scope.set(key, LENGTH as usize - 1, mark).unwrap();
                    if number + 1 < KEYS {
                        links.push(scope.ephemeron(key, first).unwrap());
                    }
                    scope.assign(first, key);
                });
            }
            looks(scope, &heap, way.3);
            for (step, link) in links.iter().enumerate() {
                scope.nested(|scope| {
                    let key = scope.key(link);
                    assert!(!scope.is_null(key), "link {step} lives, {way:?}");
                    let mark = scope.get(key, LENGTH as usize - 1);
                    assert_eq!(scope.as_integer(mark), Some((KEYS - 2 - step) as i64));
                });
            }
        });
    }
}
