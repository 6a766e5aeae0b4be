//! Blocking regions: what a mutator holds in frames and handles is right afterwards, whatever others collected meanwhile.
//!
//! The others are programs of their own, on the same thread or on another one, which may have such regions, too.

use std::cell::Cell;
use std::sync::mpsc;
use std::thread;

use gleaner::raw::Value;
use gleaner::{Heap, Mutator};

use super::globals::Globals;
use super::{Did, Outcome, Program, Rarely, Rng, Source, Types};

/// What happens while a mutator is in a blocking region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// Nothing.
    Alone,
    /// A program runs on the same thread, with another mutator.
    SameThread,
    /// A program runs on another thread.
    OtherThread,
    /// A program runs on another thread, and goes on when the region ends.
    Overlapping,
}

impl Way {
    pub const ALL: [Way; 4] = [
        Way::Alone,
        Way::SameThread,
        Way::OtherThread,
        Way::Overlapping,
    ];
}

/// So many programs may be in regions of each other.
const DEEPEST: usize = 2;

/// A program that runs in a region of another one.
#[derive(Clone, Copy)]
struct Visitor {
    types: Types,
    seed: u64,
    depth: usize,
    nested: bool,
    rarely: Rarely,
}

impl Visitor {
    fn run(self, heap: &Heap) -> Outcome {
        let mut mutator = heap.attach().unwrap();
        self.run_on(&mut mutator)
    }

    fn run_on(self, mutator: &mut Mutator) -> Outcome {
        let mut program = Program::new(self.seed, 6);
        (program.depth, program.nested) = (self.depth, self.nested);
        program.rarely = self.rarely;
        let (steps, everything) = (program.random.below(20), program.random.below(4) == 0);
        program.run_and_collect(mutator, self.types, steps, everything)
    }
}

/// A blocking region, by the safe layer or by the raw one.
fn blocking<R>(mutator: &mut Mutator, raw: bool, body: impl FnOnce() -> R) -> R {
    if !raw {
        return mutator.blocking(body);
    }
    // SAFETY: the body does not have the mutator, and the roots' frames are further up.
    unsafe { mutator.blocking_begin() };
    let result = body();
    // SAFETY: `blocking_begin` began the region, and references from before it are in frames alone.
    unsafe { mutator.blocking_end() };
    result
}

impl<S: Source> Program<S> {
    /// A region, and then a comparison. Two of the roots are also in a frame of their own, and in roots of the heap.
    pub(super) fn region(
        &mut self,
        mutator: &mut Mutator,
        roots: &[Cell<Value>],
        types: Types,
        chosen: [usize; 2],
    ) {
        let (way, raw) = (Way::ALL[self.random.below(4)], self.random.below(2) == 0);
        let way = if self.depth < DEEPEST {
            way
        } else {
            Way::Alone
        };
        self.regions += 1;
        // Mixed twice: equal or regular decisions must not lead to programs with the same numbers.
        let seed = Rng::new(self.random.next().wrapping_add(self.regions)).next();
        let visitor = Visitor {
            types,
            seed,
            depth: self.depth + 1,
            nested: way == Way::SameThread,
            rarely: self.rarely,
        };
        let kept = chosen.map(|root| roots[root].get());
        let globals = Globals::register(mutator, kept);
        // SAFETY: what the roots hold.
        let outcome = unsafe {
            mutator.with_roots(kept, |mutator, kept| {
                let outcome = stay_outside(mutator, way, raw, visitor);
                for (kept, root) in kept.iter().zip(chosen) {
                    assert!(kept.get() == roots[root].get(), "two frames differ");
                }
                outcome
            })
        };
        for held in globals.unregister(mutator) {
            assert_eq!(
                held,
                chosen.map(|root| roots[root].get()),
                "a root of the heap differs"
            );
        }
        self.did(Did::Region(way));
        if self.nested {
            self.did(Did::Nested);
        }
        self.outcome.add(outcome);
        self.compare(mutator, roots, types);
    }
}

fn stay_outside(mutator: &mut Mutator, way: Way, raw: bool, visitor: Visitor) -> Outcome {
    let heap = mutator.heap();
    match way {
        Way::Alone => {
            blocking(mutator, raw, thread::yield_now);
            Outcome::default()
        }
        Way::SameThread => blocking(mutator, raw, || visitor.run(&heap)),
        Way::OtherThread => blocking(mutator, raw, || {
            thread::scope(|threads| threads.spawn(|| visitor.run(&heap)).join().unwrap())
        }),
        Way::Overlapping => thread::scope(|threads| {
            let (begun, begins) = mpsc::channel();
            let other = threads.spawn(move || {
                let mut mutator = heap.attach().unwrap();
                begun.send(()).unwrap();
                visitor.run_on(&mut mutator)
            });
            blocking(mutator, raw, || begins.recv()).unwrap();
            mutator.collect(false);
            mutator.blocking(|| other.join()).unwrap()
        }),
    }
}
