//! Weak references, ephemerons and finalizers: what a full collection clears is exactly what an oracle says; a scavenge
//! clears nothing that is strongly reachable, and what it leaves is what it was. Under each old generation.

use std::collections::{HashMap, HashSet};

use crate::finalized::{finalize, next_finalized};
use crate::random::Rng;
use crate::setups::{SETUPS, Setup, checked_under};
use gleaner::{Ephemeron, Heap, Local, Scope, Structure, Type, Weak};

fn heap(setup: Setup, workers: usize) -> Heap {
    checked_under(setup, 8 << 20)
        .young(1 << 20)
        .workers(workers)
        .build()
        .unwrap()
}

const NODE: Structure = Structure {
    references: 2,
    bytes: 8,
};

/// A loop over many ephemerons needs no scope for each: the mutator has room for a few locals alone.
#[test]
fn keys_and_values_are_read_into_locals_that_exist() {
    for setup in SETUPS {
        let heap = checked_under(setup, 8 << 20).locals(64).build().unwrap();
        let of = heap.structure(NODE).unwrap();
        let list = heap.reference_array().unwrap();
        heap.attach().unwrap().scope(|scope| {
            let keys = scope.allocate_references(list, 200).unwrap();
            let ephemerons: Vec<Ephemeron> = (0..200)
                .map(|number| {
                    scope.nested(|scope| {
                        let (key, value) =
                            (node(scope, of, number), node(scope, of, 1000 + number));
                        scope.set(keys, number as usize, key).unwrap();
                        scope.ephemeron(key, value).unwrap()
                    })
                })
                .collect();
            let (key, value) = (scope.null(), scope.null());
            for (number, ephemeron) in ephemerons.iter().enumerate() {
                scope.load_key(ephemeron, key);
                scope.load_value(ephemeron, value);
                assert_eq!(scope.read_u64(key, 0), number as u64);
                assert_eq!(scope.read_u64(value, 0), 1000 + number as u64);
            }
            for local in [keys, key, value] {
                scope.assign_null(local);
            }
            scope.collect(true);
            for ephemeron in &ephemerons {
                scope.load_key(ephemeron, key);
                scope.load_value(ephemeron, value);
                assert!(scope.is_null(key) && scope.is_null(value));
            }
        });
    }
}

/// To make one is to allocate: what it refers to is found again where it lies then.
#[test]
fn they_are_made_while_all_that_moves_does() {
    for setup in SETUPS {
        let heap = checked_under(setup, 8 << 20).stress(1).build().unwrap();
        let of = heap.structure(NODE).unwrap();
        heap.attach().unwrap().scope(|scope| {
            for number in 0..50 {
                scope.nested(|scope| {
                    let key = node(scope, of, number);
                    let value = node(scope, of, 1000 + number);
                    let weak = scope.weak(value).unwrap();
                    let ephemeron = scope.ephemeron(key, value).unwrap();
                    let found = [scope.key(&ephemeron), scope.value_of(&ephemeron)];
                    assert!(scope.same(found[0], key) && scope.same(found[1], value));
                    let found = scope.upgrade(&weak);
                    assert_eq!(scope.read_u64(found, 0), 1000 + number);
                });
            }
        });
    }
}

#[test]
fn a_full_heap_makes_no_more_and_has_room_again_when_they_are_gone() {
    for setup in SETUPS {
        let heap = checked_under(setup, 1 << 20).build().unwrap();
        let of = heap.structure(NODE).unwrap();
        heap.attach().unwrap().scope(|scope| {
            let object = node(scope, of, 7);
            for _ in 0..2 {
                let mut weak = Vec::new();
                let full = loop {
                    match scope.weak(object) {
                        Ok(one) => weak.push(one),
                        Err(full) => break full,
                    }
                };
                assert!(full.bytes == 16 && weak.len() > 10_000, "{}", weak.len());
                for one in &weak {
                    scope.nested(|scope| {
                        let found = scope.upgrade(one);
                        assert!(scope.same(found, object));
                    });
                }
            }
        });
    }
}

fn node<'s>(scope: &mut Scope<'s>, of: Type, number: u64) -> Local<'s> {
    let object = scope.allocate(of).unwrap();
    scope.write_u64(object, 0, number).unwrap();
    object
}

#[test]
fn an_ephemeron_whose_value_refers_to_its_key_does_not_keep_it() {
    for setup in SETUPS {
        let heap = heap(setup, 2);
        let of = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        for everything in [false, true] {
            mutator.scope(|scope| {
                let key = node(scope, of, 1);
                let ephemeron = scope.nested(|scope| {
                    let value = node(scope, of, 2);
                    let inner = scope.null();
                    scope.assign(inner, key);
                    scope.set(value, 0, inner).unwrap();
                    scope.ephemeron(key, value).unwrap()
                });
                scope.collect(everything);
                let value = scope.value_of(&ephemeron);
                assert_eq!(scope.read_u64(value, 0), 2);
                let back = scope.get(value, 0);
                assert!(scope.same(back, key));
                let nothing = scope.null();
                for local in [key, value, back] {
                    scope.assign(local, nothing);
                }
                scope.collect(true);
                let (key, value) = (scope.key(&ephemeron), scope.value_of(&ephemeron));
                assert!(scope.is_null(key) && scope.is_null(value));
            });
        }
    }
}

#[test]
fn chains_of_ephemerons_are_followed_to_the_end() {
    for setup in SETUPS {
        let heap = heap(setup, 3);
        let of = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let first = node(scope, of, 0);
            let mut chain = Vec::new();
            scope.nested(|scope| {
                let key = scope.null();
                scope.assign(key, first);
                for number in 1..300 {
                    let value = node(scope, of, number);
                    chain.push(scope.ephemeron(key, value).unwrap());
                    scope.assign(key, value);
                }
            });
            // The last first, so that each pass over the table finds one more.
            chain.reverse();
            for everything in [false, true, false, true] {
                scope.collect(everything);
                for (index, ephemeron) in chain.iter().enumerate() {
                    scope.nested(|scope| {
                        let value = scope.value_of(ephemeron);
                        assert_eq!(scope.read_u64(value, 0), 299 - index as u64);
                    });
                }
            }
            let nothing = scope.null();
            scope.assign(first, nothing);
            scope.collect(true);
            for ephemeron in &chain {
                let key = scope.key(ephemeron);
                assert!(scope.is_null(key));
            }
        });
    }
}

#[test]
fn chains_across_a_large_table_are_followed_from_roots_and_from_finalizers() {
    // Three tasks of the table: one chain from a root, one from what a finalizer sees, one from nothing.
    const LINKS: u64 = 4000;
    // The first collection is the one in which the finalizer's chain is found.
    for (setup, first) in SETUPS
        .into_iter()
        .flat_map(|one| [(one, false), (one, true)])
    {
        let heap = heap(setup, 3);
        let of = heap.structure(NODE).unwrap();
        let array = heap.reference_array().unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            let [root, finalized, dead] = [0, 1, 2].map(|chain| node(scope, of, chain));
            finalize(scope, finalized);
            let mut random = Rng::new(14);
            let mut chains: [Vec<Ephemeron>; 3] = Default::default();
            scope.nested(|scope| {
                // All nodes first, so that the links of the chains can be made in any order.
                let all = scope.allocate_references(array, 3 * LINKS as u32).unwrap();
                for number in 0..3 * LINKS {
                    scope.nested(|scope| {
                        let node = node(scope, of, number);
                        scope.set(all, number as usize, node).unwrap();
                    });
                }
                let mut order: Vec<u64> = (0..3 * LINKS).collect();
                for index in (1..order.len()).rev() {
                    order.swap(index, random.below(index + 1));
                }
                let mut links: Vec<Option<Ephemeron>> = order.iter().map(|_| None).collect();
                for number in order {
                    scope.nested(|scope| {
                        let value = scope.get(all, number as usize);
                        let key = match number.checked_sub(3) {
                            Some(before) => scope.get(all, before as usize),
                            None => [root, finalized, dead][number as usize],
                        };
                        links[number as usize] = Some(scope.ephemeron(key, value).unwrap());
                    });
                }
                for (number, link) in links.into_iter().enumerate() {
                    chains[number % 3].push(link.unwrap());
                }
            });
            let nothing = scope.null();
            if first {
                // They are old when the roots go.
                scope.collect(true);
            }
            scope.assign(finalized, nothing);
            scope.assign(dead, nothing);
            for everything in [first, false, true, true] {
                scope.collect(everything);
                for (chain, links) in chains.iter().enumerate().take(2) {
                    for (step, link) in links.iter().enumerate() {
                        scope.nested(|scope| {
                            let value = scope.value_of(link);
                            let number = (3 * step + chain) as u64;
                            assert_eq!(scope.read_u64(value, 0), number);
                        });
                    }
                }
            }
            for link in &chains[2] {
                let (key, value) = (scope.key(link), scope.value_of(link));
                assert!(scope.is_null(key) && scope.is_null(value));
            }
        });
    }
}

#[test]
fn a_finalizer_sees_a_whole_object_once() {
    for setup in SETUPS {
        let heap = heap(setup, 2);
        let of = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        let weak = mutator.scope(|scope| {
            let parent = node(scope, of, 1);
            let child = node(scope, of, 2);
            scope.set(parent, 0, child).unwrap();
            finalize(scope, parent);
            assert!(next_finalized(scope).is_none());
            scope.collect(false);
            assert!(next_finalized(scope).is_none());
            scope.weak(parent).unwrap()
        });
        mutator.scope(|scope| {
            scope.collect(true);
            let gone = scope.upgrade(&weak);
            assert!(
                scope.is_null(gone),
                "weak references are cleared before finalizers run"
            );
            // It waits through further collections.
            scope.collect(false);
            scope.collect(true);
            let parent = next_finalized(scope).unwrap();
            assert_eq!(scope.read_u64(parent, 0), 1);
            let child = scope.get(parent, 0);
            assert_eq!(scope.read_u64(child, 0), 2);
            assert!(next_finalized(scope).is_none());
        });
        mutator.collect(true);
        assert!(mutator.scope(|scope| next_finalized(scope).is_none()));
        assert!(heap.used() < 100_000);
    }
}

/// A graph of nodes with edges, some of which are kept by roots; weak things on random nodes.
struct World {
    random: Rng,
    edges: HashMap<u64, [Option<u64>; 2]>,
    weak: Vec<(u64, Weak)>,
    ephemerons: Vec<(u64, u64, Ephemeron)>,
    finalizers: HashSet<u64>,
}

impl World {
    /// What lives when these are the strong roots: by edges, and by ephemerons whose key lives.
    fn reach(&self, roots: impl IntoIterator<Item = u64>) -> HashSet<u64> {
        let mut live = HashSet::new();
        let mut grey: Vec<u64> = roots.into_iter().collect();
        loop {
            while let Some(number) = grey.pop() {
                if live.insert(number) {
                    grey.extend(self.edges[&number].iter().flatten());
                }
            }
            let more = self
                .ephemerons
                .iter()
                .filter(|one| live.contains(&one.0) && !live.contains(&one.1));
            grey.extend(more.map(|one| one.1));
            if grey.is_empty() {
                return live;
            }
        }
    }
}

impl World {
    /// References to what is `live` are there, also those of ephemerons to whatever finalizers see, which is `all`;
    /// those to what is `dead` are not. Those that are there refer to what they were made for.
    fn judge(
        &self,
        scope: &mut Scope<'_>,
        live: &HashSet<u64>,
        all: &HashSet<u64>,
        dead: &HashSet<u64>,
    ) {
        for (number, weak) in &self.weak {
            scope.nested(|scope| {
                let found = scope.upgrade(weak);
                if scope.is_null(found) {
                    assert!(!live.contains(number), "weak {number} is cleared");
                } else {
                    assert!(!dead.contains(number), "weak {number} is not cleared");
                    assert_eq!(scope.read_u64(found, 0), *number);
                }
            });
        }
        for (key, value, ephemeron) in &self.ephemerons {
            scope.nested(|scope| {
                let (found, of) = (scope.key(ephemeron), scope.value_of(ephemeron));
                if scope.is_null(found) {
                    assert!(!all.contains(key), "ephemeron of {key} is cleared");
                    assert!(scope.is_null(of));
                } else {
                    // A key that only a finalizer reaches is none of the dead here.
                    assert!(
                        all.contains(key) || !dead.contains(key),
                        "ephemeron of {key}"
                    );
                    let numbers = (scope.read_u64(found, 0), scope.read_u64(of, 0));
                    assert_eq!(numbers, (*key, *value));
                }
            });
        }
    }
}

#[test]
fn random_graphs_are_cleared_exactly() {
    for (seed, setup) in SETUPS.into_iter().enumerate() {
        let seed = 1 + seed as u64;
        let heap = heap(setup, seed as usize);
        let of = heap.structure(NODE).unwrap();
        let mut mutator = heap.attach().unwrap();
        for round in 0..30 {
            let scavenges = [0, 1, 2, 5][round as usize % 4];
            mutator.scope(|scope| one_world(scope, of, seed * 1000 + round, scavenges));
            // What still waits must not trouble the next world.
            mutator.collect(true);
            mutator.scope(|scope| while next_finalized(scope).is_some() {});
        }
    }
}

/// Makes a world, lets go of most of it, and judges what so many scavenges leave, and a full collection after them.
fn one_world(scope: &mut Scope<'_>, of: Type, seed: u64, scavenges: usize) {
    let mut world = World {
        random: Rng::new(seed),
        edges: HashMap::new(),
        weak: Vec::new(),
        ephemerons: Vec::new(),
        finalizers: HashSet::new(),
    };
    let roots: Vec<Local<'_>> = (0..6).map(|_| scope.null()).collect();
    let kept: Vec<u64> = scope.nested(|scope| {
        let count = 40 + world.random.below(100);
        let nodes: Vec<Local<'_>> = (0..count)
            .map(|number| node(scope, of, number as u64))
            .collect();
        for number in 0..count {
            let mut edges = [None; 2];
            for (side, edge) in edges.iter_mut().enumerate() {
                if world.random.below(3) == 0 {
                    let to = world.random.below(count);
                    scope.set(nodes[number], side, nodes[to]).unwrap();
                    *edge = Some(to as u64);
                }
            }
            world.edges.insert(number as u64, edges);
        }
        for _ in 0..count / 2 {
            let (one, other) = (world.random.below(count), world.random.below(count));
            match world.random.below(3) {
                0 => world
                    .weak
                    .push((one as u64, scope.weak(nodes[one]).unwrap())),
                1 => {
                    let ephemeron = scope.ephemeron(nodes[one], nodes[other]).unwrap();
                    world.ephemerons.push((one as u64, other as u64, ephemeron));
                }
                _ => {
                    if world.finalizers.insert(one as u64) {
                        finalize(scope, nodes[one]);
                    }
                }
            }
        }
        // Some grow old before they die.
        for _ in 0..world.random.below(4) {
            scope.collect(false);
        }
        let kept: Vec<usize> = roots.iter().map(|_| world.random.below(count)).collect();
        for (&root, &number) in roots.iter().zip(&kept) {
            scope.assign(root, nodes[number]);
        }
        kept.into_iter().map(|number| number as u64).collect()
    });
    let live = world.reach(kept.iter().copied());
    let resurrected = world
        .finalizers
        .iter()
        .copied()
        .filter(|number| !live.contains(number));
    let all = world.reach(kept.iter().copied().chain(resurrected));
    for _ in 0..scavenges {
        scope.collect(false);
        world.judge(scope, &live, &all, &HashSet::new());
    }
    scope.collect(true);
    // What a scavenge found finalizable is a root since then, so that weak references to old objects that it reaches
    // may be left.
    let cleared = |number: &u64| !(if scavenges > 0 { &all } else { &live }).contains(number);
    let dead = world.edges.keys().copied().filter(cleared).collect();
    world.judge(scope, &live, &all, &dead);
    let mut finalized = HashSet::new();
    while let Some(object) = next_finalized(scope) {
        assert!(finalized.insert(scope.read_u64(object, 0)));
    }
    let expected: HashSet<u64> = world
        .finalizers
        .iter()
        .copied()
        .filter(|number| !live.contains(number))
        .collect();
    assert_eq!(finalized, expected, "seed {seed}");
}
