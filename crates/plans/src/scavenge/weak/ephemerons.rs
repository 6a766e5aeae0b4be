//! Ephemerons of the precise heap: each makes its value live as far as its key does.
//!
//! A pass goes over all of them, and registers those whose keys were not found to live; these are found by their keys
//! when they are reached ([`waiting`](crate::scavenge::waiting) says how, and why none is missed). So each is looked at a few
//! times, however long the chains are in which the value of one leads to the key of another.
//!
//! Where there is no memory for the table of those that wait, passes go over all of them until one finds nothing.
//!
//! # Invariants
//! - A task has the entries of its part of the table.
//! - After [`Ephemerons::trace`], what does not wait has a value that lives, or is no object, or is no ephemeron any
//!   more; and what waits is found when its key is reached later in the same trace.

use gleaner_base::sync::{AtomicBool, Ordering};
use gleaner_mem::Address;
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_work::Crew;

use super::liveness::Liveness;
use crate::scavenge::handles::{Handles, TASK_HANDLES};
use crate::scavenge::trace::{Engine, WithTasks, WorkerState};
use crate::scavenge::waiting::Waiting;

/// The table of one heap.
pub struct Ephemerons {
    /// Keys and values.
    pub handles: Handles,
}

/// What the second slot of an entry holds.
fn value(handles: &Handles, number: u32) -> Value {
    // SAFETY: the number of a handle is below `most`, so its second slot is in the mapping.
    unsafe { Wide::load(handles.second(number), Address::NULL) }
}

impl Ephemerons {
    /// None yet, and `most` at most; `None` when the system gives no memory.
    pub fn new(most: usize) -> Option<Ephemerons> {
        Some(Ephemerons {
            handles: Handles::new(2, most)?,
        })
    }

    /// Leader: how many entries the table has, in use or not.
    pub fn count(&self) -> usize {
        self.handles.prepare()
    }

    /// Leader, once in a trace: makes the values of ephemerons with live keys live, until nothing changes. The trace
    /// looks keys up in the table of those that wait, if there is one.
    pub fn trace(
        &self,
        engine: &mut Engine,
        crew: &Crew,
        workers: usize,
        trace: &dyn Liveness,
        waiting: Option<&Waiting<'_>>,
    ) {
        let Some(waiting) = waiting else {
            return self.trace_by_passes(engine, crew, workers, trace);
        };
        let changed = self.pass(engine, crew, workers, trace, Part::First(waiting));
        waiting.complete();
        if changed && waiting.any() {
            self.pass(engine, crew, workers, trace, Part::Second(waiting));
        }
    }

    /// Leader, where no table says which wait: as `trace`, at any time after more was traced.
    pub fn trace_by_passes(
        &self,
        engine: &mut Engine,
        crew: &Crew,
        workers: usize,
        trace: &dyn Liveness,
    ) {
        while self.pass(engine, crew, workers, trace, Part::All) {}
    }

    /// Leader: whether a pass made anything live.
    fn pass(
        &self,
        engine: &mut Engine,
        crew: &Crew,
        workers: usize,
        trace: &dyn Liveness,
        part: Part<'_>,
    ) -> bool {
        let count = self.count();
        if count == 0 {
            return false;
        }
        let pass = Pass {
            handles: &self.handles,
            count,
            part,
            trace,
            changed: AtomicBool::new(false),
        };
        let task = |local: &mut WorkerState, task| pass.task(local, task);
        let tasks = count.div_ceil(TASK_HANDLES);
        engine.run(crew, workers, tasks, &WithTasks { task, trace });
        pass.changed.into_inner()
    }

    /// Leader, at the end: clears ephemerons whose key does not live, and updates the others.
    pub fn settle(&self, engine: &mut Engine, crew: &Crew, workers: usize, trace: &dyn Liveness) {
        let count = self.count();
        if count > 0 {
            let task = |local: &mut WorkerState, task| {
                for number in entries(task, count) {
                    local.looks += 1;
                    self.settle_entry(number, trace);
                }
            };
            let settling = WithTasks { task, trace };
            let tasks = count.div_ceil(TASK_HANDLES);
            engine.run(crew, workers.min(tasks), tasks, &settling);
        }
    }

    fn settle_entry(&self, number: u32, trace: &dyn Liveness) {
        let Some(key) = self.handles.load(number).as_object() else {
            return;
        };
        let key = trace.place(key).map(Value::reference);
        let value = match (key, value(&self.handles, number).as_object()) {
            (None, _) => Some(Value::NULL),
            (_, Some(value)) => trace.place(value).map(Value::reference),
            _ => None,
        };
        self.handles.store(number, key.unwrap_or(Value::NULL));
        if let Some(value) = value {
            // SAFETY: the number of a handle is below `most`, so its second slot is in the mapping.
            unsafe { Wide::store(self.handles.second(number), Address::NULL, value) };
        }
    }
}

/// The entries of a task.
fn entries(task: usize, count: usize) -> core::ops::Range<u32> {
    let first = task * TASK_HANDLES;
    first as u32..(first + TASK_HANDLES).min(count) as u32
}

/// Which entries a pass looks at, and what it does with those whose key was not reached.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// All, and nothing.
    All,
    /// All, and registers them.
    First(&'a Waiting<'a>),
    /// Those that were registered.
    Second(&'a Waiting<'a>),
}

/// One pass over the table.
struct Pass<'a> {
    handles: &'a Handles,
    /// Entries of the table.
    count: usize,
    part: Part<'a>,
    trace: &'a dyn Liveness,
    /// Whether some value became live. Set by any worker, read by the leader after the phase.
    changed: AtomicBool,
}

impl Pass<'_> {
    /// Makes the value live if the key does; otherwise returns the key.
    fn visit(&self, local: &mut WorkerState, number: u32) -> Option<Address> {
        local.looks += 1;
        let key = self.handles.load(number).as_object()?;
        if self.trace.place(key).is_none() {
            return Some(key);
        }
        let dead = value(self.handles, number)
            .as_object()
            .filter(|&value| self.trace.place(value).is_none());
        if let Some(value) = dead {
            self.trace.keep(local, value);
            // Others read its cache line.
            if !self.changed.load(Ordering::Relaxed) {
                self.changed.store(true, Ordering::Relaxed);
            }
        }
        None
    }

    fn task(&self, local: &mut WorkerState, task: usize) {
        for number in entries(task, self.count) {
            if let Part::Second(waiting) = self.part
                && !waiting.waits(number)
            {
                continue;
            }
            let key = self.visit(local, number);
            if let Part::First(waiting) = self.part {
                match key {
                    Some(key) => {
                        let value = value(self.handles, number).as_object();
                        waiting.register(number, key, value.unwrap_or(Address::NULL));
                    }
                    None => waiting.pass_by(number),
                }
            }
        }
    }
}
