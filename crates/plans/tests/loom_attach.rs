//! Attaching and detaching under loom, while others stop the world: the shipped order of `stop::collecting`, its lock
//! and the gate. Run with `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_attach`.
//!
//! Collections count themselves, and visit each record in the list. A mutator knows how many there were when it got
//! into the list: inside the gate it finds that it was visited by all since, so none has missed it. When it is gone,
//! its record is marked as freed: loom fails the model if a collector looks at it afterwards, or at the same time.
#![cfg(loom)]

use std::ptr::NonNull;
use std::sync::Arc;

use gleaner_base::sync::{AtomicU32, UnsafeCell};
use gleaner_plans::scavenge::stop::collecting::{Collecting, resume, stop};
use gleaner_plans::scavenge::stop::poll::PollGate;
use loom::thread;

struct Record {
    poll: AtomicU32,
    /// The mutator's while it is inside, the collector's in a stopped world.
    visits: UnsafeCell<usize>,
    freed: UnsafeCell<bool>,
}

struct Stage {
    gate: PollGate,
    /// The list.
    collecting: Collecting<Vec<NonNull<Record>>>,
    /// How many collections there were. Written in stopped worlds, read by mutators inside and under the lock.
    collections: UnsafeCell<usize>,
}

// SAFETY: the gate and the lock decide who may touch what; loom checks that they do.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

/// A thread that is a mutator.
struct Mutator<'a> {
    stage: &'a Stage,
    record: NonNull<Record>,
    /// How many collections there were before it was in the list.
    before: usize,
}

impl Stage {
    fn new() -> Arc<Stage> {
        Arc::new(Stage {
            gate: PollGate::new(),
            collecting: Collecting::new(Vec::new()),
            collections: UnsafeCell::new(0),
        })
    }

    fn collections(&self) -> usize {
        // SAFETY: the callers hold the lock, or are inside the gate.
        self.collections.with(|count| unsafe { *count })
    }

    fn attach(&self) -> Mutator<'_> {
        let attached = self.collecting.attach(&self.gate, |list| {
            let record = NonNull::from(Box::leak(Box::new(Record {
                poll: AtomicU32::new(0),
                visits: UnsafeCell::new(0),
                freed: UnsafeCell::new(false),
            })));
            list.push(record);
            Some(Mutator {
                stage: self,
                record,
                before: self.collections(),
            })
        });
        attached.unwrap()
    }

    /// A thread outside of the gate collects.
    fn collect(&self) {
        self.collecting.with(&self.gate, |list| {
            // SAFETY: records are leaked.
            let polls = || list.iter().map(|record| unsafe { &record.as_ref().poll });
            stop(&self.gate, polls());
            // SAFETY: the world is stopped.
            self.collections.with_mut(|count| unsafe { *count += 1 });
            for record in &*list {
                // SAFETY: the world is stopped, and a record in the list was not freed.
                unsafe {
                    let record = record.as_ref();
                    record
                        .freed
                        .with(|freed| assert!(!*freed, "a record that was freed"));
                    record.visits.with_mut(|visits| *visits += 1);
                }
            }
            resume(&self.gate, polls());
        });
    }
}

impl Mutator<'_> {
    fn record(&self) -> &Record {
        // SAFETY: records are leaked.
        unsafe { self.record.as_ref() }
    }

    fn check(&self) {
        // SAFETY: inside the gate.
        let visits = self.record().visits.with_mut(|visits| unsafe { *visits });
        assert_eq!(visits, self.stage.collections() - self.before);
    }

    fn poll(&self) {
        self.stage.gate.leave();
        self.stage.gate.enter();
    }

    fn collect(&self) {
        self.stage.gate.leave();
        self.stage.collect();
        self.stage.gate.enter();
    }

    fn detach(self) {
        self.stage.gate.leave();
        let own = self.record;
        self.stage.collecting.detach(&self.stage.gate, |list| {
            list.retain(|&record| record != own)
        });
        // SAFETY: nobody else has the record any more.
        self.record()
            .freed
            .with_mut(|freed| unsafe { *freed = true });
        // SAFETY: the record is off the list, so nobody else has it.
        self.record()
            .visits
            .with_mut(|visits| unsafe { *visits = usize::MAX });
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn a_mutator_that_comes_and_goes_is_visited_by_each_collection_meanwhile_and_by_none_after() {
    check(4, || {
        let stage = Stage::new();
        let other = stage.clone();
        let thread = thread::spawn(move || {
            let mutator = other.attach();
            mutator.check();
            mutator.poll();
            mutator.check();
            mutator.detach();
        });
        stage.collect();
        stage.collect();
        thread.join().unwrap();
    });
}

#[test]
fn a_mutator_collects_while_another_comes_and_goes() {
    check(4, || {
        let stage = Stage::new();
        let other = stage.clone();
        let thread = thread::spawn(move || {
            let mutator = other.attach();
            mutator.check();
            mutator.detach();
        });
        let mutator = stage.attach();
        mutator.check();
        mutator.collect();
        mutator.check();
        mutator.detach();
        thread.join().unwrap();
        stage
            .collecting
            .with(&stage.gate, |list| assert!(list.is_empty()));
    });
}

#[test]
fn two_come_and_go_while_a_third_collects() {
    check(3, || {
        let stage = Stage::new();
        let threads = [stage.clone(), stage.clone()].map(|stage| {
            thread::spawn(move || {
                let mutator = stage.attach();
                mutator.check();
                mutator.detach();
            })
        });
        stage.collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
