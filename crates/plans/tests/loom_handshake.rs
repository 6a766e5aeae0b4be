//! Handshakes under loom: the shipped notes and claims of `stop::handshake`, with the gate and the lock. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_handshake`.
//!
//! A mutator has a cell that it touches while it is inside. The function of a handshake touches it, too: loom fails the
//! model if both do so at the same time, or if one does not see what the other wrote. The function counts its runs.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::sync::{AtomicU32, Ordering, UnsafeCell};
use gleaner_plans::scavenge::stop::collecting::{Collecting, resume, stop};
use gleaner_plans::scavenge::stop::handshake::{Partner, Post, handshake};
use gleaner_plans::scavenge::stop::poll::PollGate;
use gleaner_plans::scavenge::stop::whereabouts::{Passage, Whereabouts};
use loom::thread;

struct Record {
    poll: AtomicU32,
    whereabouts: Whereabouts,
    post: Post,
    /// How often the function has run for this mutator. The mutator's while it is inside, else that of who has claimed it.
    runs: UnsafeCell<usize>,
}

struct Stage {
    gate: PollGate,
    collecting: Collecting<()>,
    records: [Record; 1],
}

// SAFETY: gate, whereabouts and notes decide who may touch the cells; loom checks that they do.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

fn run_of(record: *const ()) {
    // SAFETY: a record of the stage, which outlives its handshakes; the cell is this thread's now.
    let record = unsafe { &*record.cast::<Record>() };
    // SAFETY: the cell is this thread's, which loom checks.
    record.runs.with_mut(|runs| unsafe { *runs += 1 });
}

impl Record {
    fn partner(&self) -> Partner<'_> {
        Partner {
            poll: &self.poll,
            whereabouts: &self.whereabouts,
            post: &self.post,
            mutator: (&raw const *self).cast(),
        }
    }

    fn runs(&self) -> usize {
        // SAFETY: the callers are the mutator, inside, or come behind the handshake, after which nobody writes it.
        self.runs.with(|runs| unsafe { *runs })
    }
}

impl Stage {
    fn new() -> Arc<Stage> {
        Arc::new(Stage {
            gate: PollGate::new(),
            collecting: Collecting::new(()),
            records: [Record {
                poll: AtomicU32::new(0),
                whereabouts: Whereabouts::of_calling_thread(),
                post: Post::new(),
                runs: UnsafeCell::new(0),
            }],
        })
    }

    fn enter(&self, record: &Record) {
        self.gate.enter();
        record.whereabouts.come_in(Passage::Region);
    }

    fn leave(&self, record: &Record) {
        record.whereabouts.note_outside(Passage::Region);
        self.gate.leave();
    }

    fn poll(&self, record: &Record) {
        if record.poll.load(Ordering::Relaxed) != 0 {
            record.partner().answer();
            self.leave(record);
            self.enter(record);
        }
    }

    fn handshake(&self) {
        self.collecting.with(&self.gate, |state| {
            let each = |_: &(), visit: &mut dyn FnMut(Partner<'_>)| {
                self.records
                    .iter()
                    .for_each(|record| visit(record.partner()));
            };
            handshake(state, each, |_| (), &run_of);
        });
    }

    fn collect(&self) {
        let polls = || self.records.iter().map(|record| &record.poll);
        self.collecting.with(&self.gate, |_| {
            stop(&self.gate, polls());
            resume(&self.gate, polls());
        });
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The mutator comes in, polls and goes out; it is asked once, wherever it is.
#[test]
fn a_mutator_answers_once_inside_or_is_answered_for_outside() {
    check(|| {
        let stage = Stage::new();
        let other = stage.clone();
        let mutator = thread::spawn(move || {
            let record = &other.records[0];
            other.enter(record);
            let before = record.runs();
            other.poll(record);
            assert!(record.runs() >= before);
            other.leave(record);
        });
        stage.handshake();
        // The thread that asked sees what the function did, also on the mutator's thread.
        assert_eq!(stage.records[0].runs(), 1);
        mutator.join().unwrap();
    });
}

/// A stop and a handshake, by two threads: each mutator is asked once, and nobody waits for ever.
#[test]
fn a_handshake_and_a_stop_take_turns() {
    check(|| {
        let stage = Stage::new();
        let (other, third) = (stage.clone(), stage.clone());
        let mutator = thread::spawn(move || {
            let record = &other.records[0];
            other.enter(record);
            other.poll(record);
            other.leave(record);
        });
        let stopper = thread::spawn(move || third.collect());
        stage.handshake();
        mutator.join().unwrap();
        stopper.join().unwrap();
        assert_eq!(stage.records[0].runs(), 1);
    });
}
