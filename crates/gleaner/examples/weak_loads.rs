//! What weak references, ephemerons and finalizers cost, by handles and as slots of objects: loads of the kinds that
//! Whippet's own benchmarks have.
//!
//! `cargo run --release --example weak_loads -- LOAD COUNT ROUNDS` prints how long the load took, how long the world was stopped
//! meanwhile, and, of loads that make something old first, how long an empty scavenge beside it takes.

use std::time::Instant;

use gleaner::{Finalizing, Heap, Local, Mutator, OutOfMemory, Scope, Structure, Type};

const NODE: Structure = Structure {
    references: 1,
    bytes: 8,
};

/// A heap, and what every load needs.
struct Load {
    heap: Heap,
    node: Type,
    count: usize,
    rounds: usize,
}

type Done = Result<(), OutOfMemory>;

impl Load {
    /// An array of `count` fresh objects.
    fn nodes<'s>(&self, scope: &mut Scope<'s>) -> Result<Local<'s>, OutOfMemory> {
        let array = self
            .heap
            .reference_array()
            .expect("there is room for types");
        let nodes = scope.allocate_references(array, self.count as u32)?;
        for index in 0..self.count {
            scope.nested(|scope| {
                let node = scope.allocate(self.node)?;
                scope.set(nodes, index, node)
            })?;
        }
        Ok(nodes)
    }

    /// Times empty scavenges, when all that there is is old.
    fn empty_scavenges(&self, scope: &mut Scope<'_>) {
        (0..20).for_each(|_| scope.collect(false));
        let before = self.heap.totals();
        (0..self.rounds).for_each(|_| scope.collect(false));
        let stopped = self.heap.totals().stopped_ns - before.stopped_ns;
        println!("empty scavenge: {} us", stopped / 1000 / self.rounds as u64);
    }

    /// Weak references to objects that live.
    fn weak(&self, mutator: &mut Mutator, slots: bool) -> Done {
        mutator.scope(|scope| {
            let nodes = self.nodes(scope)?;
            let mut single = Vec::new();
            let weak = self.heap.weak_array().expect("there is room for types");
            let array =
                scope.allocate_weak_array(weak, if slots { self.count as u32 } else { 0 })?;
            for index in 0..self.count {
                scope.nested(|scope| {
                    let node = scope.get(nodes, index);
                    if slots {
                        return scope.set(array, index, node);
                    }
                    single.push(scope.weak(node)?);
                    Ok(())
                })?;
            }
            self.empty_scavenges(scope);
            (0..self.rounds).for_each(|_| scope.collect(true));
            Ok(())
        })
    }

    /// A chain of ephemerons in a scattered order, which lives in every other round and dies in the others.
    fn ephemerons(&self, mutator: &mut Mutator, slots: bool) -> Done {
        let table = self
            .heap
            .ephemeron_table()
            .expect("there is room for types");
        for round in 0..self.rounds {
            mutator.scope(|scope| {
                let nodes = self.nodes(scope)?;
                let first = scope.get(nodes, 0);
                let mut single = Vec::new();
                let length = if slots { self.count as u32 } else { 0 };
                let pairs = scope.allocate_ephemeron_table(table, length)?;
                for index in 0..self.count {
                    // Any factor that has none in common with the number of links reaches all of them.
                    let link = index * 1_000_003 % self.count;
                    scope.nested(|scope| {
                        let key = scope.get(nodes, link);
                        let value = scope.get(nodes, (link + 1) % self.count);
                        if slots {
                            scope.set(pairs, 2 * index, key)?;
                            return scope.set(pairs, 2 * index + 1, value);
                        }
                        single.push(scope.ephemeron(key, value)?);
                        Ok(())
                    })?;
                }
                let nothing = scope.null();
                scope.assign(nodes, nothing);
                if round % 2 == 1 {
                    scope.assign(first, nothing);
                }
                scope.collect(true);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Objects with finalizers that die young, or old in every other round; all are taken.
    fn finalizers(&self, mutator: &mut Mutator) -> Done {
        for round in 0..self.rounds {
            mutator.scope(|scope| {
                let nodes = self.nodes(scope)?;
                for index in 0..self.count {
                    scope.nested(|scope| {
                        let (node, value) = (scope.get(nodes, index), scope.null());
                        let finalizing = Finalizing::default();
                        scope.finalizer(node, value, finalizing).map(drop)
                    })?;
                }
                if round % 2 == 1 {
                    scope.collect(true);
                }
                let nothing = scope.null();
                scope.assign(nodes, nothing);
                scope.collect(true);
                let mut taken = 0;
                while scope.nested(|scope| scope.next_finalizer().is_some()) {
                    taken += 1;
                }
                assert_eq!(taken, self.count, "each object is handed out once");
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, usual| match arguments.get(index) {
        Some(text) => text.parse().expect("COUNT and ROUNDS are numbers"),
        None => usual,
    };
    let name = arguments.first().map_or("", String::as_str);
    let heap = Heap::builder()
        .limit(1 << 30)
        .build()
        .expect("a gigabyte of addresses");
    let node = heap.structure(NODE).expect("there is room for types");
    let load = Load {
        node,
        count: number(1, 1_000_000),
        rounds: number(2, 10),
        heap,
    };
    let mut mutator = load.heap.attach().expect("memory for a mutator");
    let started = Instant::now();
    let done = match name {
        "weak-handles" => load.weak(&mut mutator, false),
        "weak-slots" => load.weak(&mut mutator, true),
        "ephemeron-handles" => load.ephemerons(&mut mutator, false),
        "ephemeron-table" => load.ephemerons(&mut mutator, true),
        "finalizers" => load.finalizers(&mut mutator),
        _ => {
            eprintln!(
                "weak_loads: no load {name:?}: LOAD is weak-handles, weak-slots, ephemeron-handles, ephemeron-table or \
                 finalizers"
            );
            std::process::exit(2);
        }
    };
    done.expect("a gigabyte is enough for a million");
    let took = started.elapsed().as_millis();
    let stopped = mutator.totals().stopped_ns / 1_000_000;
    println!("{name}: {took} ms, stopped for {stopped} ms");
}
