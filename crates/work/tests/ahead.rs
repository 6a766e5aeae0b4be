//! Work that is done ahead of time, under loom: claims, and the lead that a thread keeps. Run with `RUSTFLAGS="--cfg
//! loom" cargo test -p gleaner-work --release --test ahead`.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering, UnsafeCell};
use gleaner_work::{Claims, Done, Lead};
use loom::thread;

fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// What is to be zeroed, as a cell that loom watches: the thread that zeroes it and the one that uses it then never
/// meet.
struct Blocks {
    states: [AtomicU8; 2],
    cells: [UnsafeCell<u32>; 2],
}

// SAFETY: the claims decide who may touch a cell; loom checks that they do.
unsafe impl Sync for Blocks {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Blocks {}

impl Blocks {
    fn new() -> Arc<Blocks> {
        Arc::new(Blocks {
            states: [AtomicU8::new(0), AtomicU8::new(0)],
            cells: [UnsafeCell::new(7), UnsafeCell::new(7)],
        })
    }

    fn claims(&self) -> Claims<'_> {
        Claims::new(&self.states)
    }

    fn zero(&self, block: usize) {
        // SAFETY: the block is claimed by this thread.
        self.cells[block].with_mut(|cell| unsafe { *cell = 0 });
    }

    /// A mutator that has taken the block sees zero and writes its own.
    fn use_own(&self, block: usize) {
        self.claims().ensure(block, 0, || self.zero(block));
        // SAFETY: the block is done, and this mutator's.
        self.cells[block].with_mut(|cell| unsafe {
            assert_eq!(*cell, 0);
            *cell = 1 + block as u32;
        });
    }

    /// A zeroing thread comes to all blocks, and gives one up.
    fn zero_ahead(&self, given_up: Option<usize>) {
        for block in 0..2 {
            let Some(claim) = self.claims().claim(block) else {
                continue;
            };
            self.zero(block);
            if given_up == Some(block) {
                drop(claim);
            } else {
                claim.finish();
            }
        }
    }
}

/// A zeroing thread, two mutators with a block each: each sees zeros, and what it writes stays.
#[test]
fn claims_are_done_before_they_are_used_and_never_after() {
    for given_up in [None, Some(0)] {
        check(Some(3), move || {
            let blocks = Blocks::new();
            let threads: Vec<_> = (0..2)
                .map(|number| {
                    let blocks = blocks.clone();
                    thread::spawn(move || match number {
                        0 => blocks.zero_ahead(given_up),
                        _ => blocks.use_own(1),
                    })
                })
                .collect();
            blocks.use_own(0);
            threads.into_iter().for_each(|one| one.join().unwrap());
            for (block, cell) in blocks.cells.iter().enumerate() {
                // SAFETY: all threads are over.
                assert_eq!(cell.with(|cell| unsafe { *cell }), 1 + block as u32);
            }
        });
    }
}

/// Two mutators share a block: one of them zeroes it, and neither goes on before.
#[test]
fn claims_that_two_need_are_done_by_one() {
    check(None, || {
        let blocks = Blocks::new();
        let done = Arc::new(AtomicUsize::new(0));
        let ensure = {
            let (blocks, done) = (blocks.clone(), done.clone());
            move || {
                let how = blocks.claims().ensure(0, 0, || {
                    blocks.zero(0);
                    done.fetch_add(1, Ordering::Relaxed);
                });
                // SAFETY: the block is done, and nobody writes to it here.
                assert_eq!(blocks.cells[0].with(|cell| unsafe { *cell }), 0);
                how
            }
        };
        let other = thread::spawn(ensure.clone());
        let how = [ensure(), other.join().unwrap()];
        assert_eq!(done.load(Ordering::Relaxed), 1);
        assert_eq!(how.iter().filter(|&&how| how == Done::Here).count(), 1);
    });
}

/// One that works ahead waits for the second step of another, or to be dismissed after the first: it never sleeps
/// through either, or loom would find nobody left to run.
#[test]
fn lead_nobody_sleeps_through_the_last_step_or_through_dismissal() {
    for dismissed in [false, true] {
        check(Some(4), move || {
            let lead = Arc::new(Lead::new());
            let (place, over) = (
                Arc::new(AtomicU32::new(0)),
                Arc::new(AtomicBool::new(false)),
            );
            let other = {
                let (lead, place, over) = (lead.clone(), place.clone(), over.clone());
                thread::spawn(move || {
                    place.fetch_add(1, Ordering::Relaxed);
                    lead.step();
                    if dismissed {
                        over.store(true, Ordering::Relaxed);
                        lead.dismiss();
                    } else {
                        place.fetch_add(1, Ordering::Relaxed);
                        lead.step();
                    }
                })
            };
            let goes_on = || place.load(Ordering::Relaxed) == 2 || over.load(Ordering::Relaxed);
            loop {
                let seen = lead.steps();
                if goes_on() {
                    break;
                }
                // It may spin, in vain or not, before it goes to sleep.
                if lead.spin(seen, 1) {
                    continue;
                }
                let drowsy = lead.drowse();
                if !goes_on() {
                    drowsy.sleep();
                }
                // It woke for something: the model lets that be seen.
                thread::yield_now();
            }
            other.join().unwrap();
        });
    }
}
