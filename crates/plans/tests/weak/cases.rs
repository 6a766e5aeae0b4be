//! The contract case by case, on small graphs drawn by hand.

use crate::count_allocations::{calls, without_memory};
use crate::heap::{Heap, process};
use gleaner_mem::address::Address;
use gleaner_plans::mark_sweep::weak::{
    Finalizer, NoMemory, Order, Outcome, Settings, Tracer, Weak,
};

const JAVA: Settings = Settings {
    java_finalization: true,
};
const PLAIN: Settings = Settings {
    java_finalization: false,
};

/// A heap with its weak requests and the roots of its program.
struct World {
    heap: Heap,
    weak: Weak,
    roots: Vec<usize>,
}

impl World {
    fn new(count: usize) -> World {
        World {
            heap: Heap::new(count),
            weak: Weak::new(),
            roots: vec![],
        }
    }

    fn finalize(&mut self, n: usize, order: Order) {
        self.finalize_with(n, order, Address::NULL);
    }

    fn finalize_with(&mut self, n: usize, order: Order, data: Address) {
        let finalizer = Finalizer {
            proc: n + 1,
            data,
            order,
        };
        let object = self.heap.object(n);
        let previous = self.weak.finalizers.register(object, finalizer);
        assert_eq!(previous, Ok(None));
    }

    /// Stops, traces, processes and sweeps.
    fn collect(&mut self, settings: Settings) -> Outcome {
        let mut roots: Vec<Address> = self.roots.iter().map(|n| self.heap.object(*n)).collect();
        self.weak.for_each_root(&mut |root| roots.push(root));
        self.heap.trace(roots);
        let outcome = process(&mut self.weak, &mut self.heap, settings);
        assert_eq!(self.weak.verify(&self.heap), Ok(()));
        self.heap.sweep();
        outcome
    }

    fn newly_ready(&self) -> Vec<usize> {
        let objects = (0..).map_while(|index| self.weak.finalizers.newly_ready(index));
        let mut numbers: Vec<usize> = objects.map(|o| self.heap.number(o).unwrap()).collect();
        numbers.sort();
        numbers
    }

    /// Collects, and runs what became ready; returns the numbers of the objects finalized.
    fn finalized(&mut self, settings: Settings) -> Vec<usize> {
        self.collect(settings);
        let mut numbers = vec![];
        while let Some(ready) = self.weak.finalizers.take_ready() {
            numbers.push(self.heap.number(ready.object).unwrap());
        }
        numbers.sort();
        numbers
    }

    fn alive(&self, n: usize) -> bool {
        self.heap.marks()[n]
    }
}

#[test]
fn a_reachable_object_is_not_finalized() {
    let mut world = World::new(2);
    world.roots = vec![0];
    world.heap.point(0, 0, 1);
    world.finalize(1, Order::Ordered);
    assert_eq!(world.collect(PLAIN), Outcome::default());
    assert_eq!(world.weak.finalizers.count(), 1);
}

#[test]
fn referents_wait_for_their_referrers() {
    for order in [Order::Ordered, Order::IgnoreSelf, Order::Unreachable] {
        let mut world = World::new(3);
        world.heap.point(0, 0, 1);
        world.heap.point(1, 0, 2);
        for n in 0..3 {
            world.finalize(n, order);
        }
        assert_eq!(world.finalized(JAVA), [0]);
        assert!(world.alive(2));
        assert_eq!(world.finalized(JAVA), [1]);
        assert_eq!(world.finalized(JAVA), [2]);
        assert_eq!(world.finalized(JAVA), []);
        assert!(!world.alive(2));
    }
}

#[test]
fn an_ordered_cycle_is_kept_and_reported() {
    let mut world = World::new(2);
    world.heap.point(0, 0, 1);
    world.heap.point(1, 0, 0);
    world.finalize(0, Order::Ordered);
    for _ in 0..3 {
        let outcome = world.collect(PLAIN);
        assert_eq!((outcome.newly_ready, outcome.cycles), (0, 1));
        assert_eq!(outcome.cycle_example, Some(world.heap.object(0)));
        assert!(world.alive(0) && world.alive(1));
    }
}

#[test]
fn a_pointer_to_itself_counts_unless_it_is_to_be_ignored() {
    let mut world = World::new(2);
    world.heap.point(0, 1, 0);
    let inside = world.heap.slot(1, 2);
    *world.heap.word(world.heap.slot(1, 1)) = inside.word();
    world.finalize(0, Order::Ordered);
    world.finalize(1, Order::IgnoreSelf);
    assert_eq!(world.finalized(PLAIN), [1]);
    assert_eq!(world.weak.finalizers.count(), 1);
}

#[test]
fn ignoring_oneself_does_not_excuse_a_longer_way_back() {
    let mut world = World::new(2);
    world.heap.point(0, 0, 1);
    world.heap.point(1, 0, 0);
    world.finalize(0, Order::IgnoreSelf);
    assert_eq!(world.collect(PLAIN).cycles, 1);
    assert_eq!(world.newly_ready(), []);
}

#[test]
fn unordered_objects_go_together_and_revive_what_they_reach() {
    for settings in [PLAIN, JAVA] {
        let mut world = World::new(3);
        world.heap.point(0, 0, 1);
        world.heap.point(1, 0, 0);
        world.heap.point(1, 1, 2);
        world.finalize(0, Order::NoOrder);
        world.finalize(1, Order::NoOrder);
        let outcome = world.collect(settings);
        assert_eq!((outcome.newly_ready, outcome.cycles), (2, 0));
        assert_eq!(world.newly_ready(), [0, 1]);
        assert!(world.alive(2));
        assert_eq!(world.finalized(settings), [0, 1]);
        assert_eq!(world.finalized(settings), []);
        assert!(!world.alive(2));
    }
}

#[test]
fn an_unordered_object_waits_for_ordered_ones_that_reach_it() {
    let mut world = World::new(2);
    world.heap.point(0, 0, 1);
    world.finalize(0, Order::Ordered);
    world.finalize(1, Order::NoOrder);
    assert_eq!(world.finalized(JAVA), [0]);
    assert_eq!(world.finalized(JAVA), [1]);
}

#[test]
fn under_java_finalization_unreachable_waits_for_unordered() {
    let mut world = World::new(3);
    world.heap.point(0, 0, 1);
    world.heap.point(1, 0, 2);
    world.finalize(0, Order::NoOrder);
    world.finalize(2, Order::Unreachable);
    assert_eq!(world.collect(JAVA).newly_ready, 1);
    assert_eq!(world.newly_ready(), [0]);
    assert_eq!(world.weak.finalizers.count(), 1);
    assert_eq!(world.finalized(JAVA), [0]);
    assert_eq!(world.finalized(JAVA), [2]);
}

#[test]
fn without_java_finalization_unreachable_does_not_wait_for_unordered() {
    let mut world = World::new(2);
    world.heap.point(0, 0, 1);
    world.finalize(0, Order::NoOrder);
    world.finalize(1, Order::Unreachable);
    assert_eq!(world.finalized(PLAIN), [0, 1]);
}

#[test]
fn data_is_a_root_until_the_finalizer_is_taken() {
    let mut world = World::new(3);
    let data = world.heap.object(1);
    world.finalize_with(0, Order::Ordered, data);
    world.roots = vec![0];
    world.collect(PLAIN);
    assert!(world.alive(1));
    world.roots = vec![];
    world.collect(PLAIN);
    assert_eq!(world.newly_ready(), [0]);
    world.collect(PLAIN);
    assert!(world.alive(0) && world.alive(1));
    assert_eq!(world.newly_ready(), []);
    let taken = world.weak.finalizers.take_ready().unwrap();
    assert_eq!(taken.finalizer.data, data);
    world.collect(PLAIN);
    assert!(!world.alive(0) && !world.alive(1));
}

#[test]
fn data_that_names_its_own_object_keeps_it() {
    let mut world = World::new(1);
    let data = world.heap.object(0);
    world.finalize_with(0, Order::NoOrder, data);
    assert_eq!(world.finalized(JAVA), []);
    assert!(world.alive(0));
}

#[test]
fn a_short_link_is_cleared_before_finalization_and_a_long_one_after() {
    let mut world = World::new(1);
    let object = world.heap.object(0);
    // The long link lies in the object itself: it must be cleared, not merely forgotten, when both die.
    let (short, long) = (world.heap.outside(0), world.heap.slot(0, 2));
    *world.heap.word(short) = 1;
    *world.heap.word(long) = 1;
    world.weak.short_links.register(short, object).unwrap();
    world.weak.long_links.register(long, object).unwrap();
    world.finalize(0, Order::Ordered);
    let outcome = world.collect(PLAIN);
    assert_eq!((outcome.newly_ready, outcome.links_cleared), (1, 1));
    assert_eq!((*world.heap.word(short), *world.heap.word(long)), (0, 1));
    assert!(world.weak.finalizers.take_ready().is_some());
    let outcome = world.collect(PLAIN);
    assert_eq!((outcome.links_cleared, outcome.links_dropped), (1, 0));
    assert!(world.weak.long_links.is_empty());
}

#[test]
fn a_short_link_in_a_field_breaks_a_cycle() {
    let mut world = World::new(2);
    world.heap.point(0, 0, 1);
    world.heap.point(1, 0, 0);
    world.finalize(0, Order::Ordered);
    world.finalize(1, Order::Ordered);
    let (link, object) = (world.heap.slot(1, 0), world.heap.object(1));
    world.weak.short_links.register(link, object).unwrap();
    assert_eq!(world.finalized(PLAIN), [0]);
    assert_eq!(world.finalized(PLAIN), [1]);
}

#[test]
fn a_link_is_forgotten_with_the_object_that_contains_it() {
    let mut world = World::new(2);
    world.roots = vec![0];
    let (link, object) = (world.heap.slot(1, 0), world.heap.object(0));
    world.weak.short_links.register(link, object).unwrap();
    world.weak.long_links.register(link, object).unwrap();
    let outcome = world.collect(PLAIN);
    assert_eq!((outcome.links_cleared, outcome.links_dropped), (0, 2));
    assert!(world.weak.short_links.is_empty() && world.weak.long_links.is_empty());
}

#[test]
fn a_link_in_a_revived_object_stays() {
    let mut world = World::new(3);
    world.roots = vec![0];
    world.heap.point(1, 0, 2);
    world.finalize(1, Order::NoOrder);
    let (link, object) = (world.heap.slot(2, 0), world.heap.object(0));
    world.weak.short_links.register(link, object).unwrap();
    assert_eq!(world.collect(PLAIN).links_dropped, 0);
    assert_eq!(world.weak.short_links.object_of(link), Some(object));
}

#[test]
fn toggle_references_keep_or_follow_their_objects() {
    let mut world = World::new(3);
    for (n, strong) in [(0, true), (1, false), (2, false)] {
        let object = world.heap.object(n);
        world.weak.toggle_refs.add(object, strong).unwrap();
    }
    world.finalize(2, Order::Ordered);
    assert_eq!(world.collect(PLAIN).toggle_refs_dropped, 1);
    assert!(world.alive(0) && !world.alive(1) && world.alive(2));
    assert!(world.weak.finalizers.take_ready().is_some());
    assert_eq!(world.collect(PLAIN).toggle_refs_dropped, 1);
    assert_eq!(world.weak.toggle_refs.len(), 1);
}

#[test]
fn all_finalizers_can_be_run_at_exit() {
    let mut world = World::new(3);
    world.roots = vec![0, 1, 2];
    for n in 0..3 {
        world.finalize(n, Order::Ordered);
    }
    assert_eq!(world.weak.finalizers.all_to_ready(), 3);
    assert_eq!(world.newly_ready(), []);
    assert_eq!(world.finalized(PLAIN), [0, 1, 2]);
}

#[test]
fn verification_finds_an_entry_whose_object_is_about_to_die() {
    let mut world = World::new(2);
    let object = world.heap.object(1);
    world.finalize(1, Order::Ordered);
    world.heap.trace([]);
    let fault = world.weak.verify(&world.heap).unwrap_err();
    assert_eq!(fault.address, object);
    world.heap.mark(object);
    assert_eq!(world.weak.verify(&world.heap), Ok(()));
    let link = world.heap.slot(0, 1);
    world.weak.long_links.register(link, object).unwrap();
    assert_eq!(world.weak.verify(&world.heap).unwrap_err().address, link);
}

/// Everything dies at once, which is the most that can move, and some of it comes back.
#[test]
fn processing_allocates_nothing() {
    const COUNT: usize = 3000;
    for settings in [PLAIN, JAVA] {
        let mut world = World::new(COUNT);
        for n in 0..COUNT {
            let orders = [Order::NoOrder, Order::Unreachable, Order::Ordered];
            world.heap.point(n, 0, (n + 1) % COUNT);
            if n % 3 == 2 {
                *world.heap.word(world.heap.slot(n, 0)) = 0;
            }
            world.finalize(n, orders[n % 3]);
            let (object, link) = (world.heap.object(n), world.heap.slot(n, 1));
            world.weak.short_links.register(link, object).unwrap();
            world.weak.long_links.register(link, object).unwrap();
            world.weak.toggle_refs.add(object, false).unwrap();
        }
        for _ in 0..4 {
            let mut roots = vec![];
            world.weak.for_each_root(&mut |root| roots.push(root));
            world.heap.trace(roots);
            let before = calls();
            let outcome = process(&mut world.weak, &mut world.heap, settings);
            assert_eq!(calls(), before);
            assert_eq!(world.weak.verify(&world.heap), Ok(()));
            world.heap.sweep();
            while world.weak.finalizers.take_ready().is_some() {}
            if outcome.newly_ready == 0 {
                break;
            }
        }
        assert_eq!(world.weak.finalizers.count(), 0);
        assert!(world.weak.long_links.is_empty() && world.weak.toggle_refs.is_empty());
    }
}

/// Registers at every length between none and several growths, first without memory and then with it.
#[test]
fn a_registration_without_memory_changes_nothing() {
    const COUNT: usize = 600;
    let heap = Heap::new(COUNT);
    let mut weak = Weak::new();
    let mut failures = [0; 3];
    for n in 0..COUNT {
        let (object, link) = (heap.object(n), heap.slot(n, 0));
        let finalizer = Finalizer {
            proc: n + 1,
            data: object,
            order: Order::Ordered,
        };
        let register = |weak: &mut Weak| {
            [
                weak.finalizers.register(object, finalizer).map(|_| ()),
                weak.short_links.register(link, object).map(|_| ()),
                weak.toggle_refs.add(object, true),
            ]
        };
        let lengths = |weak: &Weak| {
            [
                weak.finalizers.count(),
                weak.short_links.len(),
                weak.toggle_refs.len(),
            ]
        };
        let results = without_memory(|| register(&mut weak));
        for kind in 0..3 {
            let failed = results[kind] == Err(NoMemory);
            failures[kind] += usize::from(failed);
            assert_eq!(lengths(&weak)[kind], n + usize::from(!failed));
        }
        assert_eq!(weak.finalizers.get(object).is_none(), results[0].is_err());
        if results[0].is_err() {
            weak.finalizers.register(object, finalizer).unwrap();
        }
        if results[1].is_err() {
            weak.short_links.register(link, object).unwrap();
        }
        if results[2].is_err() {
            weak.toggle_refs.add(object, true).unwrap();
        }
    }
    // Each grew several times and had room in between.
    assert!(failures.iter().all(|count| (4..100).contains(count)));
    assert_eq!(without_memory(|| weak.finalizers.all_to_ready()), COUNT);
}
