//! Zeroing threads under loom, as a whole: the shipped rounds, claims and lead of `scavenge::zeroing::ahead`, and the gate that
//! stops the world. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_zeroing`.
//!
//! A mutator takes the blocks of eden one by one, then collects, and takes them again. Each block is a cell: loom fails
//! the model if a zeroing thread and the user of the block meet in it, or if a thread sleeps for ever.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicU8, AtomicUsize, Ordering, UnsafeCell};
use gleaner_plans::scavenge::stop::poll::PollGate;
use gleaner_plans::scavenge::zeroing::ahead::{Ahead, Blocks, Design, Rests};
use loom::thread;

const BLOCKS: usize = 2;

struct Stage {
    gate: PollGate,
    ahead: Ahead,
    states: [AtomicU8; BLOCKS],
    eden: [UnsafeCell<u32>; BLOCKS],
    /// How many blocks mutators have taken.
    taken: AtomicUsize,
    /// How many blocks a zeroing thread may be ahead.
    lead: usize,
}

// SAFETY: claims and gate decide who may touch a cell; loom checks that they do.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

impl Stage {
    fn new(design: Design, lead: usize) -> Arc<Stage> {
        Arc::new(Stage {
            gate: PollGate::new(),
            ahead: Ahead::new(design),
            states: core::array::from_fn(|_| AtomicU8::new(0)),
            eden: core::array::from_fn(|_| UnsafeCell::new(7)),
            taken: AtomicUsize::new(0),
            lead,
        })
    }

    fn zero(&self, block: usize) {
        // SAFETY: claimed, or this mutator's.
        self.eden[block].with_mut(|cell| unsafe { *cell = 0 });
    }

    /// A mutator, inside the gate, takes the next block.
    fn take(&self, is_ahead: bool) {
        let block = self.taken.fetch_add(1, Ordering::Relaxed);
        if is_ahead {
            self.ahead.ensure(&self.states, block, || self.zero(block));
            self.ahead.note_taken();
        } else {
            self.zero(block);
        }
        self.eden[block].with_mut(|cell| {
            // SAFETY: the block is zeroed, and this mutator's.
            unsafe {
                assert_eq!(*cell, 0, "what is handed out reads as zero");
                *cell = 7;
            }
        });
    }

    /// In a stopped world, the first one included: eden is empty, and used memory.
    fn begin(&self, is_ahead: bool) {
        self.taken.store(0, Ordering::Relaxed);
        self.eden.iter().for_each(|cell| {
            // SAFETY: the world is stopped.
            cell.with_mut(|cell| unsafe { *cell = 7 });
        });
        // SAFETY: nobody is inside the gate.
        let mut world = unsafe { WorldStopped::begin() };
        self.ahead
            .begin(&mut world, &self.states, is_ahead.then_some((0, BLOCKS)));
    }

    fn collect(&self, is_ahead: bool) {
        self.gate.leave();
        self.gate.close();
        self.gate.drain();
        self.begin(is_ahead);
        self.gate.open();
        if is_ahead {
            self.ahead.wake();
        }
        self.gate.enter();
    }
}

/// A zeroing thread's view.
struct Eden<'a> {
    stage: &'a Stage,
    /// The thread gives this block up, once.
    gives_up: Option<usize>,
    /// It ends after its first round.
    ends: bool,
}

impl Blocks for Eden<'_> {
    fn is_far(&self, block: usize) -> bool {
        block >= self.stage.taken.load(Ordering::Relaxed) + self.stage.lead
    }

    fn zero(&mut self, block: usize, _: Rests) -> bool {
        if self.gives_up == Some(block) {
            self.gives_up = None;
            return false;
        }
        self.stage.zero(block);
        true
    }

    fn ends(&self) -> bool {
        self.ends
    }
}

/// What the nurseries of a model are like.
#[derive(Clone, Copy)]
struct Model {
    threads: usize,
    is_static: bool,
    lead: usize,
    gives_up: Option<usize>,
    /// Zeroing threads end by themselves when the first nursery is zeroed, rather than by dismissal.
    ends: bool,
    /// Of each nursery: whether it is zeroed ahead, and how many blocks the mutator takes.
    nurseries: &'static [(bool, usize)],
}

fn check(preemptions: usize, model: Model) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let design = Design {
            threads: model.threads,
            is_static: model.is_static,
            has_lead: model.lead < BLOCKS,
            spins: 0,
        };
        let stage = Stage::new(design, model.lead);
        stage.begin(model.nurseries[0].0);
        let threads: Vec<_> = (0..model.threads)
            .map(|index| {
                let stage = stage.clone();
                thread::spawn(move || {
                    let mut eden = Eden {
                        stage: &stage,
                        gives_up: model.gives_up,
                        ends: model.ends,
                    };
                    stage
                        .ahead
                        .run(&stage.gate, &stage.states, index, &mut eden);
                })
            })
            .collect();
        stage.gate.enter();
        for (number, &(is_ahead, blocks)) in model.nurseries.iter().enumerate() {
            if number > 0 {
                stage.collect(is_ahead);
            }
            (0..blocks).for_each(|_| stage.take(is_ahead));
        }
        stage.gate.leave();
        if !model.ends {
            stage.ahead.dismiss();
        }
        threads.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// All of eden is zeroed ahead in one nursery and in the next.
#[test]
fn blocks_are_zero_in_every_round() {
    for gives_up in [None, Some(0)] {
        check(
            1,
            Model {
                threads: 1,
                is_static: false,
                lead: BLOCKS,
                gives_up,
                ends: false,
                nurseries: &[(true, 1), (true, 2)],
            },
        );
    }
}

/// After a collection mutators zero for themselves: nobody else does any more.
#[test]
fn nobody_zeroes_ahead_when_the_design_has_changed() {
    check(
        2,
        Model {
            threads: 1,
            is_static: false,
            lead: BLOCKS,
            gives_up: None,
            ends: false,
            nurseries: &[(true, 1), (false, 2)],
        },
    );
    check(
        2,
        Model {
            threads: 1,
            is_static: false,
            lead: BLOCKS,
            gives_up: None,
            ends: false,
            nurseries: &[(false, 1), (true, 2)],
        },
    );
}

/// With a bounded lead the thread sleeps, and is woken by buffers that are taken, by collections and by dismissal.
#[test]
fn a_thread_that_is_far_ahead_sleeps_and_wakes() {
    for (ends, nurseries) in [(true, &[(true, 1)][..]), (false, &[(true, 1), (true, 0)])] {
        check(
            1,
            Model {
                threads: 1,
                is_static: false,
                lead: 1,
                gives_up: None,
                ends,
                nurseries,
            },
        );
    }
}

/// Two threads race, or have blocks of their own.
#[test]
fn two_threads_share_a_round() {
    for is_static in [false, true] {
        check(
            1,
            Model {
                threads: 2,
                is_static,
                lead: BLOCKS,
                gives_up: None,
                ends: false,
                nurseries: &[(true, 2)],
            },
        );
    }
}
