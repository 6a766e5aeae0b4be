//! Ephemerons of the precise heap: each makes its value live as far as its key does.
//!
//! The first pass goes over all of them, and notes those whose keys were not found to live; further passes look at
//! these alone, until one finds nothing. Chains in which each value is the key of another are followed at once in the
//! order in which one worker looks at them: so every other pass goes the other way.
//!
//! # Invariants
//! - A task has the entries of its part of the table, and its part of the list of pending ones. Its worker alone
//!   changes both during a pass; between passes the leader has all.
//! - After the first pass of a trace, what is not pending has a value that lives, or is no object, or is no ephemeron
//!   any more.

use core::ptr::NonNull;

use gleaner_base::sync::{AtomicBool, AtomicU32, Ordering};
use gleaner_mem::Address;
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_os::memory;
use gleaner_work::Crew;

use super::handles::{Handles, MOST_HANDLES, TASK_HANDLES};
use super::trace::{Engine, Item, Share, Trace};
use super::weak::Liveness;

const TASKS: usize = MOST_HANDLES.div_ceil(TASK_HANDLES);
const PENDING_BYTES: usize = (MOST_HANDLES + TASKS) * size_of::<AtomicU32>();

/// The table of one heap.
pub struct Ephemerons {
    /// Keys and values.
    pub handles: Handles,
    /// `[t * TASK_HANDLES..]`: the pending entries of task t; `[MOST_HANDLES + t]`: how many it has.
    pending: NonNull<AtomicU32>,
    /// Whether the lists of pending entries go from the last entry to the first. The leader's.
    backward: AtomicBool,
}

// SAFETY: the list is of atomics, in memory of this value's own; the table may be shared and sent by itself.
unsafe impl Sync for Ephemerons {}
// SAFETY: as above.
unsafe impl Send for Ephemerons {}

/// What the second slot of an entry holds.
fn value(handles: &Handles, number: u32) -> Value {
    // SAFETY: a slot of the table.
    unsafe { Wide::load(handles.second(number), Address::NULL) }
}

impl Ephemerons {
    /// None yet; `None` when the system gives no memory.
    pub fn new() -> Option<Ephemerons> {
        Some(Ephemerons {
            handles: Handles::new(2)?,
            pending: memory::map(PENDING_BYTES)?.cast(),
            backward: AtomicBool::new(false),
        })
    }

    /// The pending entries of all tasks, and their counts.
    fn pending(&self) -> (&[AtomicU32], &[AtomicU32]) {
        // SAFETY: `new` mapped so many, and zeroed memory is an atomic.
        let all =
            unsafe { core::slice::from_raw_parts(self.pending.as_ptr(), MOST_HANDLES + TASKS) };
        all.split_at(MOST_HANDLES)
    }

    /// Leader: makes the values of ephemerons with live keys live, until nothing changes. It is `again` when this was
    /// done before in the same trace, and more was traced since: what was not pending then need not be looked at.
    pub fn trace(
        &self,
        engine: &mut Engine,
        crew: &Crew,
        workers: usize,
        trace: &dyn Liveness,
        again: bool,
    ) {
        let count = self.handles.prepare();
        let tasks = count.div_ceil(TASK_HANDLES);
        let (_, counts) = self.pending();
        let mut looks_at_all = !again;
        // The lists were reversed by each pass before.
        let mut backward = again && self.backward.load(Ordering::Relaxed);
        loop {
            let is_done = |count: &AtomicU32| count.load(Ordering::Relaxed) == 0;
            if tasks == 0 || !looks_at_all && counts[..tasks].iter().all(is_done) {
                return;
            }
            let pass = Pass {
                table: self,
                count,
                looks_at_all,
                last_task: if backward { tasks - 1 } else { 0 },
                trace,
                changed: AtomicBool::new(false),
            };
            engine.run(crew, workers, tasks, &pass);
            backward = !backward;
            self.backward.store(backward, Ordering::Relaxed);
            if !pass.changed.into_inner() {
                return;
            }
            looks_at_all = false;
        }
    }

    /// Leader, at the end: clears ephemerons whose key does not live, and updates the others.
    pub fn settle(&self, engine: &mut Engine, crew: &Crew, workers: usize, trace: &dyn Liveness) {
        let count = self.handles.prepare();
        if count > 0 {
            let settling = Settling {
                handles: &self.handles,
                count,
                trace,
            };
            let tasks = count.div_ceil(TASK_HANDLES);
            engine.run(crew, workers.min(tasks), tasks, &settling);
        }
    }
}

impl Drop for Ephemerons {
    fn drop(&mut self) {
        // SAFETY: `new` mapped so much.
        unsafe { memory::unmap(self.pending.cast(), PENDING_BYTES) };
    }
}

/// One pass over what is pending, or over everything.
struct Pass<'a> {
    table: &'a Ephemerons,
    /// Entries of the table.
    count: usize,
    looks_at_all: bool,
    /// The task that is the last one if the pass goes backward, else 0.
    last_task: usize,
    trace: &'a dyn Liveness,
    /// Whether some value became live. Set by any worker, read by the leader after the phase.
    changed: AtomicBool,
}

impl Pass<'_> {
    /// Makes the value live if the key does; whether this has to be looked at again, since it does not.
    fn visit(&self, share: &mut Share, number: u32) -> bool {
        let handles = &self.table.handles;
        let Some(key) = handles.load(number).as_object() else {
            return false;
        };
        if self.trace.place(key).is_none() {
            return true;
        }
        let dead = value(handles, number)
            .as_object()
            .filter(|&value| self.trace.place(value).is_none());
        if let Some(value) = dead {
            self.trace.keep(share, value);
            // Others read its cache line.
            if !self.changed.load(Ordering::Relaxed) {
                self.changed.store(true, Ordering::Relaxed);
            }
        }
        false
    }
}

impl Trace for Pass<'_> {
    fn task(&self, share: &mut Share, task: usize) {
        let task = self.last_task.abs_diff(task);
        let first = task * TASK_HANDLES;
        let (pending, counts) = self.table.pending();
        let mut kept = 0;
        let mut look = |number| {
            if self.visit(share, number) {
                pending[first + kept].store(number, Ordering::Relaxed);
                kept += 1;
            }
        };
        if self.looks_at_all {
            let last = (first + TASK_HANDLES).min(self.count);
            (first..last).for_each(|number| look(number as u32));
        } else {
            let count = counts[task].load(Ordering::Relaxed) as usize;
            for entry in &pending[first..first + count] {
                look(entry.load(Ordering::Relaxed));
            }
        }
        for step in 0..kept / 2 {
            let (one, other) = (&pending[first + step], &pending[first + kept - 1 - step]);
            let number = one.load(Ordering::Relaxed);
            one.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
            other.store(number, Ordering::Relaxed);
        }
        counts[task].store(kept as u32, Ordering::Relaxed);
    }

    fn item(&self, share: &mut Share, item: Item) {
        self.trace.item(share, item);
    }

    fn settle(&self, share: &mut Share) {
        self.trace.settle(share);
    }
}

/// The last pass over all entries, which traces nothing.
struct Settling<'a> {
    handles: &'a Handles,
    count: usize,
    trace: &'a dyn Liveness,
}

impl Trace for Settling<'_> {
    fn task(&self, _: &mut Share, task: usize) {
        let first = task * TASK_HANDLES;
        for number in first..(first + TASK_HANDLES).min(self.count) {
            let number = number as u32;
            let Some(key) = self.handles.load(number).as_object() else {
                continue;
            };
            let key = self.trace.place(key).map(Value::reference);
            let value = match (key, value(self.handles, number).as_object()) {
                (None, _) => Some(Value::NULL),
                (_, Some(value)) => self.trace.place(value).map(Value::reference),
                _ => None,
            };
            self.handles.store(number, key.unwrap_or(Value::NULL));
            if let Some(value) = value {
                // SAFETY: a slot of the table.
                unsafe { Wide::store(self.handles.second(number), Address::NULL, value) };
            }
        }
    }

    fn item(&self, share: &mut Share, item: Item) {
        self.trace.item(share, item);
    }

    fn settle(&self, share: &mut Share) {
        self.trace.settle(share);
    }
}
