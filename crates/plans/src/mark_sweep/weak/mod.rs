//! Weak processing: what becomes of objects that the trace did not reach.
//!
//! A program may ask to be told of an object's death (finalizers), or to have a word cleared by it (disappearing links,
//! short and long). Or it may ask to hold a reference whose strength it changes from collection to collection (toggle
//! references). These structures hold such requests as plain addresses in memory that no trace scans, so they keep
//! nothing alive by themselves. After the main trace [`Weak::decide`] says what is dead to the program. Then that is
//! marked which finalizers still need, and [`Weak::settle`] does the rest. The program may run before that, if marking
//! goes on in steps and no long link or toggle reference is of an object that is unmarked. What was decided still holds
//! afterwards, since only the finalizers that are ready can reach what was unmarked then. The next stop decides about what has died
//! since, before all is settled.
//!
//! Nothing here touches the heap: the marker does that, through [`Tracer`]. Nothing here calls the client: the door
//! does that once the state is consistent again, one request at a time, so that a callback may leave by any route.
//!
//! # Invariants
//! 1. [`Weak::decide`] and [`Weak::settle`] allocate nothing: registration has reserved, for every registered
//!    finalizer, its place in the queue of ready ones, and an entry put back finds the place that it left.
//! 2. An object has at most one registered finalizer, and a link address at most one object per table.
//! 3. After `settle`, every object named by any entry is marked, and no link lies in an unmarked heap object
//!    ([`Weak::verify`] checks it).
//!
//! Threads: the collecting thread runs `decide` and `settle` in the stopped world; the holder of the allocator lock
//! runs everything else. The contract is that of libgc 8.2.2's public header; there is no paper section.

mod finalizers;
mod links;
mod outcome;
mod table;
mod toggle_refs;
mod tracer;

pub use finalizers::{Finalizer, Finalizers, Order, Ready};
pub use links::{Links, Move, Registration};
pub use outcome::{Fault, NoMemory, Outcome, Settings};
pub use toggle_refs::{ToggleRefs, Turn, Verdict};
pub use tracer::Tracer;

use gleaner_mem::address::Address;

/// All weak requests of one heap.
#[derive(Default)]
pub struct Weak {
    /// Finalizers, registered and ready.
    pub finalizers: Finalizers,
    /// Links cleared as soon as their object is unreachable, before finalization is decided.
    pub short_links: Links,
    /// Links cleared when no finalizer can bring their object back any more.
    pub long_links: Links,
    /// References that the client turns strong or weak before each collection.
    pub toggle_refs: ToggleRefs,
}

impl Weak {
    /// No requests; allocates nothing.
    pub const fn new() -> Weak {
        Weak {
            finalizers: Finalizers::new(),
            short_links: Links::new(),
            long_links: Links::new(),
            toggle_refs: ToggleRefs::new(),
        }
    }

    /// Number of registered links, short and long.
    pub fn links(&self) -> usize {
        self.short_links.len() + self.long_links.len()
    }

    /// Visits every word that the main trace must treat as a root: the closure data of all finalizers, the objects of
    /// the ready ones, and the objects of strong toggle references. Data words are the client's: any bit pattern.
    pub fn for_each_root(&self, visit: &mut dyn FnMut(Address)) {
        self.finalizers.for_each_root(visit);
        self.toggle_refs.for_each_root(visit);
    }

    /// Decides, once the main trace is finished and drained, which objects are dead to the program: clears short links
    /// and makes finalizers ready, whose objects are grey then.
    ///
    /// Short links go first, so that a pointer which the client declared weak has no say in the order of finalization.
    pub fn decide(&mut self, tracer: &mut dyn Tracer, settings: Settings) -> Outcome {
        let mut outcome = Outcome {
            links_cleared: self.short_links.clear_dead(tracer),
            ..Outcome::default()
        };
        self.finalizers.trace_order(tracer, &mut outcome);
        outcome.newly_ready = self.finalizers.enqueue_unreached(tracer, settings);
        outcome
    }

    /// Whether the program may run between [`Weak::decide`] and [`Weak::settle`]: not where it could still reach what is
    /// dead, by a long link that is not cleared before, or be asked about it again. An object whose finalizer is ready is marked:
    /// its long links and toggle references stay, whenever they are settled.
    pub fn may_be_put_off(&self, tracer: &dyn Tracer) -> bool {
        self.long_links.lead_to_marked(tracer) && self.toggle_refs.lead_to_marked(tracer)
    }

    /// Settles the rest, once all that ready finalizers can reach is marked: long links, toggle references, and links in
    /// memory that is about to be reused.
    pub fn settle(&mut self, tracer: &mut dyn Tracer, outcome: &mut Outcome) {
        outcome.links_dropped = self.short_links.drop_dangling(tracer);
        outcome.toggle_refs_dropped = self.toggle_refs.drop_dead(tracer);
        outcome.links_cleared += self.long_links.clear_dead(tracer);
        outcome.links_dropped += self.long_links.drop_dangling(tracer);
    }

    /// Checks invariant 3 in the stopped world, after [`Weak::settle`] and before the sweep.
    pub fn verify(&self, tracer: &dyn Tracer) -> Result<(), Fault> {
        self.finalizers.verify(tracer)?;
        self.short_links.verify(tracer)?;
        self.long_links.verify(tracer)?;
        self.toggle_refs.verify(tracer)
    }
}
