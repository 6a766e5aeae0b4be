//! Weak references, ephemerons and finalizers of the precise heap, and the order in which they are gone through.
//!
//! Weak references and ephemerons are slots of objects (`objects`), which a trace [discovers](discovered) when it
//! reaches the object. A weak reference or an ephemeron that a program has by itself is a handle to an object of one of the
//! heap's [own types](own_types). [Finalizers](finalizers) are entries of a table, which the program has by such objects.
//! When everything that is strongly reachable was traced, all are gone through, in this order:
//!
//! 1. ephemerons whose key lives make their value live, until no more do;
//! 2. weak references to what does not live are cleared;
//! 3. objects with a finalizer that do not live are kept, with all they reach, also through ephemerons, and become
//!    ready to be finalized; weak slots that only they lead to are cleared where even now nothing keeps the referent;
//! 4. ephemerons whose key does not live are cleared.
//!
//! So a weak reference to an object that is about to be finalized is null already, and a finalizer sees whole objects.
//! A scavenge does this with the objects that it condemned; all others live as far as it is concerned.

mod decisions;
pub mod discovered;
mod ephemerons;
mod finalizer_segments;
mod finalizer_sifting;
pub mod finalizer_table;
pub mod finalizers;
pub mod finalizing;
pub mod heap_trace;
mod liveness;
pub mod objects;
pub mod own_objects;
pub mod own_types;
mod process;
pub mod waiting;
pub mod worker;

use crate::scavenge::trace::Engine;
use discovered::{Discovered, Filling};
use finalizer_table::FinalizerTable;
pub use liveness::{Liveness, WeakTrace};
use own_types::OwnTypes;
pub use process::Process;

/// What one heap has that is weak.
pub struct WeakObjects {
    /// Objects with weak slots that the trace has reached.
    pub discovered: Discovered,
    /// Finalizers that wait or are ready.
    pub finalizers: FinalizerTable,
    /// The types of what the heap makes itself.
    own_types: OwnTypes,
}

impl WeakObjects {
    /// Nothing is weak yet, and there are `most_finalizers` at most; `None` when the system gives no memory.
    pub fn new(most_finalizers: usize) -> Option<WeakObjects> {
        Some(WeakObjects {
            discovered: Discovered::default(),
            finalizers: FinalizerTable::new(most_finalizers)?,
            own_types: OwnTypes::default(),
        })
    }

    /// Leader, after all roots were traced: decides about everything weak.
    pub fn process(&self, run: &mut Process<'_>) {
        ephemerons::trace(run, &self.discovered);
        self.clear_slots(run);
        if self.resurrect(run) {
            ephemerons::finish(run, &self.discovered);
            self.clear_slots(run);
        }
        ephemerons::settle(run, &self.discovered);
        self.forget_discovered(run.engine);
    }

    /// For how many entries the table of those that wait has room at first; after all roots were traced.
    pub fn most_waiting(&self, engine: &mut Engine) -> usize {
        let room = engine
            .worker_states()
            .map(|local| local.weak.ephemerons + waiting::TAKEN);
        room.sum()
    }

    /// Clears the weak slots of objects that were discovered since the last time.
    fn clear_slots(&self, run: &mut Process<'_>) {
        let segments = self.discovered.prepare();
        run.tasks(segments, &|trace, local, task| {
            let mut clear = |entry: &_| trace.clear(local, entry);
            self.discovered.rest(task, &mut clear);
        });
    }

    fn forget_discovered(&self, engine: &mut Engine) {
        for local in engine.worker_states() {
            (local.weak.discovered, local.weak.ephemerons) = (Filling::NONE, 0);
        }
        self.discovered.forget();
    }

    /// Makes dead objects with finalizers ready, and traces from them. Whether there are any. A scavenge looks at what may be
    /// young.
    fn resurrect(&self, run: &mut Process<'_>) -> bool {
        let table = &self.finalizers;
        table.begin_sifting();
        let is_full = run.trace.is_full();
        let from = match is_full {
            true => 0,
            false => table.young_from(),
        };
        let segments = table.listed() - from;
        run.few_tasks(segments, &|trace, local, task| {
            trace.decide(local, from + task);
        });
        let plan = table.plan(from, is_full);
        run.tasks(plan.moving, &|trace, local, number| {
            trace.hand_over(local, number);
        });
        table.end_sifting(from, &plan);
        plan.ready > 0
    }
}
