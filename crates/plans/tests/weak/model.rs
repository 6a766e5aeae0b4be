//! The naive model: what weak processing should do, written with sets and closures over the whole graph.
//!
//! The idea: every clause of the contract is one line over reachable sets, with no order of visits and no table, so
//! that it can be compared with the header's comments by eye. Links and finalizers are plain lists.

use crate::heap::Heap;
use gleaner_mem::address::Address;
use gleaner_plans::mark_sweep::weak::{Finalizer, Order, Tracer};
use std::collections::{BTreeMap, BTreeSet};

/// Object numbers.
pub type Set = BTreeSet<usize>;

/// The client's requests.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub registered: BTreeMap<usize, Finalizer>,
    pub ready: BTreeMap<usize, Vec<Finalizer>>,
    pub short: BTreeMap<Address, usize>,
    pub long: BTreeMap<Address, usize>,
    pub toggles: Vec<(usize, bool)>,
}

/// What one collection should do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub alive: Set,
    pub newly_ready: Set,
    pub cleared: usize,
    pub dropped: usize,
    pub toggles_dropped: usize,
    /// Unreached finalizable objects that reach themselves, after short links were cleared.
    pub cyclic: Set,
}

/// Everything reachable from `from` in one or more steps or none.
pub fn closure(heap: &Heap, from: impl IntoIterator<Item = usize>) -> Set {
    let mut reached = Set::new();
    let mut work: Vec<usize> = from.into_iter().collect();
    while let Some(n) = work.pop() {
        if reached.insert(n) {
            work.extend(heap.children(n));
        }
    }
    reached
}

impl Model {
    /// The words that keep objects alive beside the program's own roots.
    pub fn roots(&self, heap: &Heap) -> Set {
        let data = self.registered.values().map(|f| f.data);
        let ready = self.ready.values().flatten().map(|f| f.data);
        let mut roots: Set = data
            .chain(ready)
            .filter_map(|word| heap.number(word))
            .collect();
        roots.extend(self.ready.keys());
        roots.extend(self.toggles.iter().filter(|t| t.1).map(|t| t.0));
        roots
    }

    /// A collection with the given roots of the program. Clears links in `heap`.
    pub fn collect(&mut self, heap: &mut Heap, program: &Set, java: bool) -> Expected {
        let mut expected = Expected::default();
        let mut alive = closure(heap, program.union(&self.roots(heap)).copied());
        clear(&mut self.short, heap, &alive, &mut expected);

        let unreached: Vec<(usize, Finalizer)> = self
            .registered
            .iter()
            .filter(|(n, _)| !alive.contains(n))
            .map(|(n, f)| (*n, *f))
            .collect();
        for (n, finalizer) in &unreached {
            let children: Vec<usize> = match finalizer.order {
                Order::NoOrder => vec![],
                Order::IgnoreSelf => heap.children(*n).filter(|c| c != n).collect(),
                Order::Ordered | Order::Unreachable => heap.children(*n).collect(),
            };
            let reached = closure(heap, children);
            if reached.contains(n) {
                expected.cyclic.insert(*n);
            }
            alive.extend(reached);
        }
        let mut candidates: BTreeMap<usize, Finalizer> = unreached.iter().copied().collect();
        candidates.retain(|n, _| !alive.contains(n));
        if java {
            let others = candidates.iter();
            let others = others.filter(|(_, f)| f.order != Order::Unreachable);
            alive.extend(closure(heap, others.map(|(n, _)| *n)));
            candidates.retain(|n, f| f.order != Order::Unreachable || !alive.contains(n));
        }
        alive.extend(closure(heap, candidates.keys().copied()));
        for (n, finalizer) in candidates {
            self.registered.remove(&n);
            self.ready.entry(n).or_default().push(finalizer);
            expected.newly_ready.insert(n);
        }

        drop_dangling(&mut self.short, heap, &alive, &mut expected);
        clear(&mut self.long, heap, &alive, &mut expected);
        drop_dangling(&mut self.long, heap, &alive, &mut expected);
        let before = self.toggles.len();
        self.toggles.retain(|(n, _)| alive.contains(n));
        expected.toggles_dropped = before - self.toggles.len();
        expected.alive = alive;
        expected
    }
}

fn clear(
    links: &mut BTreeMap<Address, usize>,
    heap: &mut Heap,
    alive: &Set,
    expected: &mut Expected,
) {
    links.retain(|link, object| {
        let keep = alive.contains(object);
        if !keep {
            *heap.word(*link) = 0;
            expected.cleared += 1;
        }
        keep
    });
}

fn drop_dangling(
    links: &mut BTreeMap<Address, usize>,
    heap: &Heap,
    alive: &Set,
    expected: &mut Expected,
) {
    let before = links.len();
    links.retain(|link, _| {
        let container = heap.base(*link).and_then(|base| heap.number(base));
        container.is_none_or(|n| alive.contains(&n))
    });
    expected.dropped += before - links.len();
}
