//! Random programs on the real structures and on the naive model, compared after every step.

use crate::count_allocations::calls;
use crate::heap::{Heap, SLOTS, process};
use crate::model::{Expected, Model, Set};
use gleaner_mem::address::Address;
use gleaner_plans::mark_sweep::weak::{
    Finalizer, Links, Move, Order, Outcome, Registration, Settings, Turn, Verdict, Weak,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const OBJECTS: usize = 9;

/// A word that may be a link: a slot of an object, or outside the heap.
#[derive(Clone, Copy, Debug)]
enum Place {
    Slot(usize, usize),
    Outside(usize),
}

#[derive(Clone, Debug)]
enum Step {
    Point(usize, usize, Option<usize>, usize),
    Root(usize, bool),
    Finalizer(usize, Option<Order>, Option<usize>),
    Register(bool, Place, usize),
    Unregister(bool, Place),
    Move(bool, Place, Place),
    AddToggle(usize, bool),
    Decide(Vec<Verdict>),
    Take(usize),
    AllToReady,
    Collect(bool),
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        (0..OBJECTS, 0..SLOTS).prop_map(|(n, slot)| Place::Slot(n, slot)),
        (0..OBJECTS / 2).prop_map(Place::Outside),
    ]
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::Ordered),
        Just(Order::IgnoreSelf),
        Just(Order::NoOrder),
        Just(Order::Unreachable),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Drop),
        Just(Verdict::Strong),
        Just(Verdict::Weak),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let object = || 0..OBJECTS;
    prop_oneof![
        8 => (object(), 0..SLOTS, prop::option::weighted(0.8, object()), 0..SLOTS)
            .prop_map(|(from, slot, to, inside)| Step::Point(from, slot, to, inside)),
        2 => (object(), prop::bool::weighted(0.3)).prop_map(|(n, on)| Step::Root(n, on)),
        8 => (object(), prop::option::weighted(0.9, order()), prop::option::weighted(0.2, object()))
            .prop_map(|(n, order, data)| Step::Finalizer(n, order, data)),
        4 => (any::<bool>(), place(), object()).prop_map(|(s, l, n)| Step::Register(s, l, n)),
        1 => (any::<bool>(), place()).prop_map(|(s, l)| Step::Unregister(s, l)),
        1 => (any::<bool>(), place(), place()).prop_map(|(s, a, b)| Step::Move(s, a, b)),
        1 => (object(), any::<bool>()).prop_map(|(n, strong)| Step::AddToggle(n, strong)),
        1 => prop::collection::vec(verdict(), 8).prop_map(Step::Decide),
        1 => (0..4usize).prop_map(Step::Take),
        1 => prop::bool::weighted(0.1).prop_map(|all| match all {
            true => Step::AllToReady,
            false => Step::Take(OBJECTS),
        }),
        3 => any::<bool>().prop_map(Step::Collect),
    ]
}

/// Both worlds: the real one and the model's.
struct Pair {
    heap: Heap,
    weak: Weak,
    model_heap: Heap,
    model: Model,
    roots: Set,
    /// Distinguishes finalizers.
    next_proc: usize,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            heap: Heap::new(OBJECTS),
            weak: Weak::new(),
            model_heap: Heap::new(OBJECTS),
            model: Model::default(),
            roots: Set::new(),
            next_proc: 1,
        }
    }

    fn address(&self, place: Place) -> Address {
        match place {
            Place::Slot(n, slot) => self.heap.slot(n, slot),
            Place::Outside(n) => self.heap.outside(n),
        }
    }

    fn links(&mut self, short: bool) -> (&mut Links, &mut BTreeMap<Address, usize>) {
        match short {
            true => (&mut self.weak.short_links, &mut self.model.short),
            false => (&mut self.weak.long_links, &mut self.model.long),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Point(from, slot, to, inside) => {
                let word = to.map_or(0, |to| self.heap.slot(to, inside).word());
                let slot = self.heap.slot(from, slot);
                *self.heap.word(slot) = word;
                *self.model_heap.word(slot) = word;
            }
            Step::Root(n, true) => _ = self.roots.insert(n),
            Step::Root(n, false) => _ = self.roots.remove(&n),
            Step::Finalizer(n, order, data) => self.register_finalizer(n, order, data),
            Step::Register(short, place, n) => {
                let (link, object) = (self.address(place), self.heap.object(n));
                let (links, model) = self.links(short);
                let expected = match model.insert(link, n) {
                    None => Registration::Registered,
                    Some(_) => Registration::Duplicate,
                };
                assert_eq!(links.register(link, object), Ok(expected));
            }
            Step::Unregister(short, place) => {
                let link = self.address(place);
                let (links, model) = self.links(short);
                assert_eq!(links.unregister(link), model.remove(&link).is_some());
            }
            Step::Move(short, old, new) => self.move_link(short, old, new),
            Step::AddToggle(n, strong) => {
                let object = self.heap.object(n);
                self.weak.toggle_refs.add(object, strong).unwrap();
                self.model.toggles.push((n, strong));
            }
            Step::Decide(verdicts) => self.decide(&verdicts),
            Step::Take(count) => (0..count).for_each(|_| self.take()),
            Step::AllToReady => {
                let moved = self.weak.finalizers.all_to_ready();
                assert_eq!(moved, self.model.registered.len());
                for (n, finalizer) in std::mem::take(&mut self.model.registered) {
                    self.model.ready.entry(n).or_default().push(finalizer);
                }
            }
            Step::Collect(java) => self.collect(java),
        }
        self.compare();
    }

    fn register_finalizer(&mut self, n: usize, order: Option<Order>, data: Option<usize>) {
        let finalizer = Finalizer {
            proc: order.map_or(0, |_| self.next_proc),
            data: data.map_or(Address::NULL, |n| self.heap.object(n)),
            order: order.unwrap_or(Order::Ordered),
        };
        self.next_proc += 1;
        let expected = match order {
            Some(_) => self.model.registered.insert(n, finalizer),
            None => self.model.registered.remove(&n),
        };
        let object = self.heap.object(n);
        let previous = self.weak.finalizers.register(object, finalizer);
        assert_eq!(previous, Ok(expected));
    }

    fn move_link(&mut self, short: bool, old: Place, new: Place) {
        let (old, new) = (self.address(old), self.address(new));
        let (links, model) = self.links(short);
        let expected = match model.get(&old).copied() {
            None => Move::NotFound,
            Some(_) if old == new => Move::Moved,
            Some(_) if model.contains_key(&new) => Move::Duplicate,
            Some(n) => {
                model.remove(&old);
                model.insert(new, n);
                Move::Moved
            }
        };
        assert_eq!(links.move_link(old, new), expected);
    }

    /// A verdict for each object number, so that the order of asking does not matter.
    fn decide(&mut self, verdicts: &[Verdict]) {
        let verdict_on = |n: usize| verdicts[n % verdicts.len()];
        let mut turn = Turn::default();
        while let Some(object) = self.weak.toggle_refs.object_at(turn) {
            let verdict = verdict_on(self.heap.number(object).unwrap());
            self.weak.toggle_refs.decide(&mut turn, verdict);
        }
        let toggles = &mut self.model.toggles;
        toggles.retain(|(n, _)| verdict_on(*n) != Verdict::Drop);
        for (n, strong) in toggles {
            *strong = verdict_on(*n) == Verdict::Strong;
        }
    }

    fn take(&mut self) {
        let Some(ready) = self.weak.finalizers.take_ready() else {
            assert!(self.model.ready.is_empty());
            return;
        };
        let n = self.heap.number(ready.object).unwrap();
        let waiting = self.model.ready.get_mut(&n).unwrap();
        // Of one object's finalizers the one that became ready first comes first.
        assert_eq!(waiting.remove(0), ready.finalizer);
        if waiting.is_empty() {
            self.model.ready.remove(&n);
        }
    }

    fn collect(&mut self, java: bool) {
        let mut roots: Vec<Address> = self.roots.iter().map(|n| self.heap.object(*n)).collect();
        self.weak.for_each_root(&mut |root| roots.push(root));
        self.heap.trace(roots);
        let settings = Settings {
            java_finalization: java,
        };
        let before = calls();
        let outcome = process(&mut self.weak, &mut self.heap, settings);
        assert_eq!(calls(), before, "process called the allocator");
        assert_eq!(self.weak.verify(&self.heap), Ok(()));

        let expected = self.model.collect(&mut self.model_heap, &self.roots, java);
        self.compare_outcome(&outcome, &expected);
        self.heap.sweep();
        self.model_heap
            .trace(expected.alive.iter().map(|n| self.heap.object(*n)));
        self.model_heap.sweep();
    }

    fn compare_outcome(&self, outcome: &Outcome, expected: &Expected) {
        let marked = (0..OBJECTS).filter(|n| self.heap.marks()[*n]);
        assert_eq!(marked.collect::<Set>(), expected.alive);
        let ready: Vec<usize> = (0..)
            .map_while(|index| self.weak.finalizers.newly_ready(index))
            .map(|object| self.heap.number(object).unwrap())
            .collect();
        assert_eq!(ready.len(), outcome.newly_ready);
        assert_eq!(Set::from_iter(ready), expected.newly_ready);
        assert_eq!(outcome.links_cleared, expected.cleared);
        assert_eq!(outcome.links_dropped, expected.dropped);
        assert_eq!(outcome.toggle_refs_dropped, expected.toggles_dropped);
        assert!(outcome.cycles <= expected.cyclic.len());
        assert_eq!(outcome.cycles > 0, outcome.cycle_example.is_some());
        if let Some(example) = outcome.cycle_example {
            let n = self.heap.number(example).unwrap();
            assert!(expected.cyclic.contains(&n));
        }
    }

    /// The parts of the state that both sides show.
    fn compare(&self) {
        let (weak, model) = (&self.weak, &self.model);
        assert_eq!(self.heap.contents(), self.model_heap.contents());
        assert_eq!(weak.finalizers.count(), model.registered.len());
        for n in 0..OBJECTS {
            let present = weak.finalizers.get(self.heap.object(n));
            assert_eq!(present, model.registered.get(&n).copied());
        }
        let waiting: usize = model.ready.values().map(Vec::len).sum();
        assert_eq!(weak.finalizers.ready_count(), waiting);
        assert_eq!(weak.finalizers.has_ready(), waiting > 0);
        for object in (0..).map_while(|index| weak.finalizers.newly_ready(index)) {
            let n = self.heap.number(object).unwrap();
            assert!(model.ready.contains_key(&n));
        }
        for (links, model) in [
            (&weak.short_links, &model.short),
            (&weak.long_links, &model.long),
        ] {
            assert_eq!(links.len(), model.len());
            for (link, n) in model {
                assert_eq!(links.object_of(*link), Some(self.heap.object(*n)));
            }
        }
        assert_eq!(weak.toggle_refs.len(), model.toggles.len());
        let mut roots = Set::new();
        weak.for_each_root(&mut |root| roots.extend(self.heap.number(root)));
        assert_eq!(roots, model.roots(&self.heap));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_agree_with_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step);
        }
        pair.step(Step::Collect(true));
        pair.step(Step::Collect(false));
    }
}
