//! The forwarding claim under loom (I4): workers that reach the same object copy it, publish by one compare-and-swap, and
//! all go on with the winner's copy. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_forward`.
//!
//! The header word is the shipped one, with the shipped functions. A copy is a cell: loom fails the model if somebody
//! reads one before the winner has finished writing it.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::sync::{AtomicU64, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_model::TypeId;
use loom::thread;

const OBJECT: u64 = 4711;

struct Stage {
    header: AtomicU64,
    /// The PLAB of each worker, with room for one copy.
    copies: [UnsafeCell<u64>; 3],
}

// SAFETY: the header decides who may touch a copy; loom checks that it does.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

fn address(worker: usize) -> Address {
    Address::new((worker + 1) * 8)
}

impl Stage {
    fn new() -> Arc<Stage> {
        Arc::new(Stage {
            header: AtomicU64::new(Header::fresh(TypeId::new(7)).word()),
            copies: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    /// What a worker does that reaches the object; where it is then. `room` is false when promotion fails.
    fn forward(&self, worker: usize, room: bool) -> Address {
        let here = Address::new(0x1000);
        let found = header::look(&self.header);
        let place = match found.forwardee(here) {
            Some(place) => place,
            None => {
                let target = if room {
                    // SAFETY: the PLAB is this worker's until the copy is published.
                    self.copies[worker].with_mut(|copy| unsafe { *copy = OBJECT });
                    Header::forwarded_to(address(worker))
                } else {
                    found.self_forwarded()
                };
                match header::claim(&self.header, found, target) {
                    Ok(()) => target.forwardee(here).unwrap(),
                    Err(now) => {
                        if room {
                            // SAFETY: the copy was not published: it is taken back.
                            self.copies[worker].with_mut(|copy| unsafe { *copy = 0 });
                        }
                        now.forwardee(here).unwrap()
                    }
                }
            }
        };
        if place != here {
            let copy = &self.copies[place.word() / 8 - 1];
            // SAFETY: published copies are only read.
            copy.with(|copy| assert_eq!(unsafe { *copy }, OBJECT));
        }
        place
    }
}

fn check(rooms: [bool; 3]) {
    loom::model(move || {
        let stage = Stage::new();
        let workers: Vec<_> = (1..3)
            .map(|worker| {
                let stage = stage.clone();
                thread::spawn(move || stage.forward(worker, rooms[worker]))
            })
            .collect();
        let own = stage.forward(0, rooms[0]);
        for worker in workers {
            assert_eq!(worker.join().unwrap(), own, "all go on with the same copy");
        }
    });
}

#[test]
fn one_copy_wins_and_is_whole() {
    check([true; 3]);
}

#[test]
fn an_object_that_stays_is_where_it_was_for_all() {
    check([true, false, true]);
    check([false; 3]);
}
