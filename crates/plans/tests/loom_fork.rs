//! Forking under loom: the shipped order of `stop::fork`, with the lock, the gate and collections. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_fork`.
//!
//! The heap is a cell: mutators inside the gate write their part of it, the thread that stops the world writes all of
//! it, and the holder of the lock writes the state. A fork is a look at everything, as if it were copied: loom fails
//! the model if anybody writes at the same time. What the model leaves out is the child, which is one thread. Threads
//! that wait for each other in a cycle are a deadlock, which loom finds, too.
#![cfg(loom)]

use std::cell::Cell;
use std::sync::Arc;

use gleaner_base::sync::{AtomicU32, Ordering, RawLock, UnsafeCell};
use gleaner_plans::scavenge::stop::collecting::{Collecting, resume, resume_inside, stop};
use gleaner_plans::scavenge::stop::fork::Patience;
use gleaner_plans::scavenge::stop::poll::PollGate;
use loom::thread;

/// One heap with a part for each of its threads.
struct Heap {
    gate: PollGate,
    collecting: Collecting<u32>,
    parts: [UnsafeCell<u32>; 2],
}

struct Stage {
    /// The door's lock: one thread forks at a time.
    forking: RawLock,
    heap: Heap,
    polls: [AtomicU32; 2],
    /// How many threads have ended inside the gate: the system knows.
    ended: AtomicU32,
}

// SAFETY: the gate and the locks decide who may touch what; loom checks that they do.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

impl Stage {
    fn new() -> Arc<Stage> {
        Arc::new(Stage {
            forking: RawLock::new(),
            heap: Heap {
                gate: PollGate::new(),
                collecting: Collecting::new(0),
                parts: [UnsafeCell::new(0), UnsafeCell::new(0)],
            },
            polls: [AtomicU32::new(0), AtomicU32::new(0)],
            ended: AtomicU32::new(0),
        })
    }

    /// A mutator inside the gate works in its part.
    fn work(&self, part: usize) {
        // SAFETY: inside the gate; the other thread has the other part.
        self.heap.parts[part].with_mut(|part| unsafe { *part += 1 });
    }

    /// A mutator comes in, works and goes out.
    fn work_inside(&self, part: usize) {
        self.heap.gate.enter();
        self.work(part);
        self.heap.gate.leave();
    }

    /// A thread outside of the gate collects.
    fn collect(&self) {
        self.with_stopped_world(|polls| resume(&self.heap.gate, polls.iter()));
    }

    /// A mutator inside the gate stops the others, and is inside again at once.
    fn share(&self) {
        self.heap.gate.leave();
        self.with_stopped_world(|polls| resume_inside(&self.heap.gate, polls.iter()));
    }

    fn with_stopped_world(&self, resume: impl FnOnce(&[AtomicU32; 2])) {
        self.heap.collecting.with(&self.heap.gate, |state| {
            *state += 1;
            stop(&self.heap.gate, self.polls.iter());
            for part in &self.heap.parts {
                // SAFETY: the world is stopped.
                part.with_mut(|part| unsafe { *part += 1 });
            }
            resume(&self.polls);
        });
    }

    /// A thread ends inside the gate.
    fn end_inside(&self) {
        self.heap.gate.enter();
        self.work(1);
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// The holder of the lock goes out in the place of threads that have ended.
    fn bury(&self) {
        (0..self.ended.swap(0, Ordering::Acquire)).for_each(|_| self.heap.gate.leave());
    }

    /// A thread forks that is inside the gate, or not.
    fn fork(&self, inside: bool) {
        let Heap {
            gate, collecting, ..
        } = &self.heap;
        if inside {
            gate.stand();
        }
        self.forking.lock();
        collecting.begin_fork(gate);
        let (mut patience, mut overdue) = (Patience::new(), false);
        while !collecting.hold_still(gate, |_, _| (), overdue, |_| self.bury()) {
            overdue = patience.wait();
        }
        for part in &self.heap.parts {
            // SAFETY: nobody is inside who does not stand; loom checks that.
            part.with(|part| unsafe { *part });
        }
        collecting.let_go(gate, |_, _| ());
        if inside {
            gate.go_on();
        }
        self.forking.unlock();
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// A mutator forks while another works, polls, and works again.
#[test]
fn nobody_is_at_work_when_a_mutator_forks() {
    check(3, || {
        let stage = Stage::new();
        let other = stage.clone();
        stage.heap.gate.enter();
        let thread = thread::spawn(move || {
            other.work_inside(1);
            other.work_inside(1);
        });
        stage.work(0);
        stage.fork(true);
        stage.work(0);
        stage.heap.gate.leave();
        thread.join().unwrap();
    });
}

/// A mutator forks while another thread collects: before its stop is complete, or after the collection.
#[test]
fn nobody_collects_while_a_mutator_forks() {
    check(3, || {
        let stage = Stage::new();
        let other = stage.clone();
        stage.heap.gate.enter();
        let thread = thread::spawn(move || other.collect());
        stage.work(0);
        stage.fork(true);
        stage.work(0);
        stage.heap.gate.leave();
        thread.join().unwrap();
        stage
            .heap
            .collecting
            .with(&stage.heap.gate, |state| assert_eq!(*state, 1));
    });
}

/// A thread forks that is no mutator, or is in a blocking region, while a mutator collects.
#[test]
fn nobody_collects_while_a_thread_outside_forks() {
    check(3, || {
        let stage = Stage::new();
        let other = stage.clone();
        let thread = thread::spawn(move || {
            other.work_inside(1);
            other.collect();
            other.work_inside(1);
        });
        stage.fork(false);
        thread.join().unwrap();
    });
}

/// A thread forks, inside the gate or outside, while a mutator stops the world, which is inside again when that goes on: it is
/// waited for until it has come out.
#[test]
fn nobody_is_at_work_behind_a_stop_of_its_own_when_a_thread_forks() {
    for inside in [false, true] {
        check(3, move || {
            let stage = Stage::new();
            let other = stage.clone();
            if inside {
                stage.heap.gate.enter();
            }
            let thread = thread::spawn(move || {
                other.heap.gate.enter();
                other.share();
                other.work(1);
                other.heap.gate.leave();
            });
            stage.fork(inside);
            if inside {
                stage.work(0);
                stage.heap.gate.leave();
            }
            thread.join().unwrap();
        });
    }
}

/// Two mutators fork at the same time: each stands while the other does.
#[test]
fn two_mutators_fork_at_the_same_time() {
    check(3, || {
        let stage = Stage::new();
        let other = stage.clone();
        stage.heap.gate.enter();
        let thread = thread::spawn(move || {
            let gate = &other.heap.gate;
            gate.enter();
            other.work(1);
            other.fork(true);
            other.work(1);
            gate.leave();
        });
        stage.work(0);
        stage.fork(true);
        stage.work(0);
        stage.heap.gate.leave();
        thread.join().unwrap();
    });
}

/// A thread ended inside the gate, and nobody collects: the thread that forks goes out in its place.
#[test]
fn a_thread_that_ended_inside_is_not_waited_for() {
    check(3, || {
        let stage = Stage::new();
        let other = stage.clone();
        stage.heap.gate.enter();
        let thread = thread::spawn(move || other.end_inside());
        stage.work(0);
        stage.fork(true);
        thread.join().unwrap();
        stage.heap.gate.leave();
    });
}

loom::lazy_static! {
    static ref TWO: Two = Two::new();
}

loom::thread_local! {
    /// The heap that the thread is inside of while it waits for the other.
    static INSIDE: Cell<Option<usize>> = Cell::new(None);
}

/// Two heaps under the door's lock.
struct Two {
    forking: RawLock,
    heaps: [(PollGate, Collecting<u32>); 2],
}

// SAFETY: each part of a heap is touched inside its gate or in its stopped world, the rest under the locks; loom checks
// that.
unsafe impl Sync for Two {}

impl Two {
    fn new() -> Two {
        Two {
            forking: RawLock::new(),
            heaps: [0, 1].map(|number| {
                let mut gate = PollGate::new();
                gate.set_stand_aside(stand_aside, number);
                (gate, Collecting::new(0))
            }),
        }
    }

    fn collect(&self, heap: usize) {
        let (gate, collecting) = &self.heaps[heap];
        collecting.with(gate, |state| {
            stop(gate, [].iter());
            *state += 1;
            resume(gate, [].iter());
        });
    }
}

/// What the door does: the thread stands where it is inside, and waits for the end of the fork.
fn stand_aside(_: u32) {
    let inside = INSIDE.with(Cell::get).map(|heap| &TWO.heaps[heap].0);
    inside.inspect(|gate| gate.stand());
    TWO.forking.lock();
    inside.inspect(|gate| gate.go_on());
    TWO.forking.unlock();
}

/// A thread inside the first heap forks, another one collects that, and a third, inside the second heap, wants the lock
/// of the first, or comes to its gate.
fn no_cycle(waits: fn(&(PollGate, Collecting<u32>))) {
    check(2, move || {
        let [(first, _), (second, _)] = &TWO.heaps;
        first.enter();
        let collects = thread::spawn(|| TWO.collect(0));
        let thread = thread::spawn(move || {
            second.enter();
            INSIDE.with(|inside| inside.set(Some(1)));
            waits(&TWO.heaps[0]);
            second.leave();
        });
        first.stand();
        TWO.forking.lock();
        for (gate, collecting) in &TWO.heaps {
            collecting.begin_fork(gate);
        }
        let mut patience = Patience::new();
        let moves = |(gate, collecting): &&(PollGate, Collecting<u32>)| {
            !collecting.hold_still(gate, |_, _| (), false, |_| ())
        };
        while TWO.heaps.iter().filter(moves).count() > 0 {
            patience.wait();
        }
        for (gate, collecting) in &TWO.heaps {
            collecting.let_go(gate, |_, _| ());
        }
        first.go_on();
        TWO.forking.unlock();
        first.leave();
        collects.join().unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn who_waits_for_the_lock_of_another_heap_holds_up_no_fork() {
    no_cycle(|(gate, collecting)| collecting.with(gate, |_| ()));
}

#[test]
fn who_waits_at_the_gate_of_another_heap_holds_up_no_fork() {
    no_cycle(|(gate, _)| {
        gate.enter();
        gate.leave();
    });
}
