//! Rounds of work that is done ahead of time, under loom. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-work --release --test rounds`.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::sync::{AtomicU8, RawLock, UnsafeCell};
use gleaner_work::{Claims, Cursor, Rounds, Turn};
use loom::thread;

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

const BLOCKS: usize = 2;

/// What is done in rounds. A thread that works does so inside the gate, which the one that begins a round has for
/// itself: here it is a lock. Loom watches the cells.
struct Work {
    rounds: Rounds,
    gate: RawLock,
    /// Which round was prepared.
    prepared: UnsafeCell<u32>,
    cursor: Cursor,
    states: [AtomicU8; BLOCKS],
    /// How often each block was done in this round.
    cells: [UnsafeCell<u32>; BLOCKS],
}

// SAFETY: the gate and the claims decide who may touch a cell; loom checks that they do.
unsafe impl Sync for Work {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Work {}

impl Work {
    fn new() -> Arc<Work> {
        let work = Arc::new(Work {
            rounds: Rounds::new(),
            gate: RawLock::new(),
            prepared: UnsafeCell::new(0),
            cursor: Cursor::new(),
            states: [AtomicU8::new(0), AtomicU8::new(0)],
            cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        // Until a round begins, nothing is left.
        work.cursor.begin(BLOCKS);
        work
    }

    fn begin(&self, has_work: bool) {
        self.gate.lock();
        // SAFETY: nobody else is inside the gate.
        self.prepared.with_mut(|number| unsafe { *number += 1 });
        self.rounds.begin(has_work);
        self.gate.unlock();
        if has_work {
            self.rounds.announce();
        }
    }

    /// What was prepared for each round that a thread worked on until it was dismissed.
    fn worker(&self) -> Vec<u32> {
        let (mut seen, mut worked) = (None, Vec::new());
        while let Some(round) = self.rounds.next(seen) {
            seen = Some(round);
            self.gate.lock();
            if self.rounds.is(round) {
                // SAFETY: the writer is outside of the gate.
                worked.push(self.prepared.with(|number| unsafe { *number }));
            }
            self.gate.unlock();
        }
        worked
    }

    fn zero(&self, block: usize) {
        // SAFETY: the block is claimed by this thread.
        self.cells[block].with_mut(|cell| unsafe { *cell += 1 });
    }

    /// One of several threads that go through the blocks of a round.
    fn racer(&self) {
        let Some(_) = self.rounds.next(None) else {
            return;
        };
        let mut turn = Turn::Racing;
        while turn.peek(&self.cursor) < BLOCKS {
            let block = turn.take(&self.cursor);
            if block >= BLOCKS {
                break;
            }
            if let Some(claim) = Claims::new(&self.states).claim(block) {
                self.zero(block);
                claim.finish();
            }
        }
    }
}

/// A thread waits for rounds, two begin, and it is dismissed: it ends, or loom finds nobody left to run; it works on no
/// round that is over, on none twice, and on none that has nothing to do.
#[test]
fn rounds_that_are_over_are_not_worked_on() {
    for has_work in [[true, true], [false, true], [true, false]] {
        check(3, move || {
            let work = Work::new();
            let other = {
                let work = work.clone();
                thread::spawn(move || work.worker())
            };
            for one in has_work {
                work.begin(one);
            }
            work.rounds.dismiss();
            let worked = other.join().unwrap();
            assert!(
                worked.windows(2).all(|pair| pair[0] < pair[1]),
                "{worked:?}"
            );
            for number in worked {
                assert!(has_work[number as usize - 1], "round {number}");
            }
        });
    }
}

/// Nobody dismisses the thread: it sees the first round with work, or loom finds nobody left to run.
#[test]
fn rounds_are_never_slept_through() {
    for idle_first in [false, true] {
        check(4, move || {
            let work = Work::new();
            let other = {
                let work = work.clone();
                thread::spawn(move || work.rounds.next(None).is_some())
            };
            if idle_first {
                work.begin(false);
            }
            work.begin(true);
            assert!(other.join().unwrap());
        });
    }
}

/// Two that are asleep, or about to be, end.
#[test]
fn rounds_end_for_all_who_are_dismissed() {
    check(3, || {
        let work = Work::new();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let work = work.clone();
                thread::spawn(move || assert_eq!(work.rounds.next(None), None))
            })
            .collect();
        work.rounds.dismiss();
        others.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// Two threads with one cursor, and a mutator that needs a block: each block is done once, and none is left out.
#[test]
fn rounds_shared_by_two_do_each_block_once() {
    check(3, || {
        let work = Work::new();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let work = work.clone();
                thread::spawn(move || work.racer())
            })
            .collect();
        work.gate.lock();
        work.cursor.begin(0);
        work.gate.unlock();
        work.begin(true);
        Claims::new(&work.states).ensure(1, 0, || work.zero(1));
        others.into_iter().for_each(|one| one.join().unwrap());
        for (block, cell) in work.cells.iter().enumerate() {
            assert!(Claims::new(&work.states).is_done(block), "block {block}");
            // SAFETY: all others are over.
            assert_eq!(cell.with(|cell| unsafe { *cell }), 1, "block {block}");
        }
    });
}
