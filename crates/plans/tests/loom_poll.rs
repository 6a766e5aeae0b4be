//! Stopping by polls under loom: the shipped word of `stop::poll`. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_poll`.
//!
//! Mutators go in and out as often as the model likes; a poll is going out and in. The heap is a cell: loom fails the
//! model if a mutator inside and the stopper touch it at the same time, or if a wake-up is lost and a thread sleeps for
//! ever.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::sync::{RawLock, UnsafeCell};
use gleaner_plans::scavenge::stop::poll::PollGate;
use loom::thread;

struct Stage {
    gate: PollGate,
    /// Held by the stopper.
    collecting: RawLock,
    /// One cell for each mutator: mutators do not share theirs, the stopper takes all.
    heap: [UnsafeCell<usize>; 2],
}

// SAFETY: the gate decides who may touch the cells; loom checks that it does.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

impl Stage {
    fn new() -> Arc<Stage> {
        Arc::new(Stage {
            gate: PollGate::new(),
            collecting: RawLock::new(),
            heap: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn mutate(&self, own: usize) {
        // SAFETY: inside the gate the mutator's cell is its own.
        self.heap[own].with_mut(|cell| unsafe { *cell += 1 });
    }

    fn poll(&self) {
        self.gate.leave();
        self.gate.enter();
    }

    /// A mutator that is inside collects.
    fn collect(&self) {
        self.gate.leave();
        self.collecting.lock();
        self.gate.close();
        self.gate.drain();
        for cell in &self.heap {
            // SAFETY: the gate is closed and drained.
            cell.with_mut(|cell| unsafe { *cell += 1 });
        }
        self.gate.open();
        self.collecting.unlock();
        self.gate.enter();
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn a_stop_waits_for_those_inside_and_holds_up_those_outside() {
    check(|| {
        let stage = Stage::new();
        let other = stage.clone();
        let mutator = thread::spawn(move || {
            other.gate.enter();
            other.mutate(1);
            other.poll();
            other.mutate(1);
            other.gate.leave();
        });
        stage.gate.enter();
        stage.mutate(0);
        stage.collect();
        stage.mutate(0);
        stage.gate.leave();
        mutator.join().unwrap();
        assert_eq!(stage.gate.inside(), 0);
    });
}

#[test]
fn two_mutators_that_both_want_to_collect_take_turns() {
    check(|| {
        let stage = Stage::new();
        let other = stage.clone();
        let mutator = thread::spawn(move || {
            other.gate.enter();
            other.mutate(1);
            other.collect();
            other.mutate(1);
            other.gate.leave();
        });
        stage.gate.enter();
        stage.collect();
        stage.mutate(0);
        stage.gate.leave();
        mutator.join().unwrap();
    });
}
