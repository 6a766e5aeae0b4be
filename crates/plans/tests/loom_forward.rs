//! The forwarding claim under loom (I4): workers that reach the same object copy it, publish by one compare-and-swap,
//! and all go on with the winner's copy. Run with `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test
//! loom_forward`.
//!
//! The header word is the shipped one, with the shipped functions. A copy is a cell: loom fails the model if a worker
//! reads one before the winner has finished writing it. The object's slot is an atomic, as slots are: a worker that
//! forwards the object to itself stores to it, while others may still copy it.
//!
//! The same for an object that marking evacuates (`old/mark_region/trace.rs`), with the shipped marks: wherever the object
//! is in the end, it has one mark there, and was made grey once.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::sync::{AtomicU64, Ordering, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_bits::{ObjectBits, WORD_BYTES};
use gleaner_mem::object_model::TypeId;
use loom::thread;

/// What the slot holds at first, and what a worker stores there that scans the object.
const BEFORE: u64 = 4711;
const SCANNED: u64 = 4712;

struct Stage {
    header: AtomicU64,
    /// The slot of the object where it was at first.
    slot: AtomicU64,
    /// The PLAB of each worker, with room for one copy, of which this is the slot.
    copies: [UnsafeCell<u64>; 3],
}

// SAFETY: the header decides who may touch a copy; loom checks that it does.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

const HERE: Address = Address::new(0x1000);

fn address(worker: usize) -> Address {
    Address::new((worker + 1) * 8)
}

impl Stage {
    fn new() -> Arc<Stage> {
        Arc::new(Stage {
            header: AtomicU64::new(Header::fresh(TypeId::new(7)).word()),
            slot: AtomicU64::new(BEFORE),
            copies: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    /// What a worker does that reaches the object; where it is then. `room` is false when promotion fails.
    fn forward(&self, worker: usize, room: bool) -> Address {
        let found = header::look(&self.header);
        if let Some(place) = found.forwardee(HERE) {
            return place;
        }
        let target = room.then(|| {
            // Relaxed, as the machine instructions of `gleaner_mem::speculative`: they may read what a worker stores
            // that forwarded the object to itself.
            let slot = self.slot.load(Ordering::Relaxed);
            // SAFETY: the PLAB is this worker's until the copy is published.
            self.copies[worker].with_mut(|copy| unsafe { *copy = slot });
            address(worker)
        });
        match header::publish(&self.header, HERE, found, target) {
            Ok(place) => {
                self.scan(worker, place);
                place
            }
            Err(place) => {
                if room {
                    // SAFETY: the copy was not published: it is taken back.
                    self.copies[worker].with_mut(|copy| unsafe { *copy = 0 });
                }
                place
            }
        }
    }

    /// The one that forwarded the object scans it: its slot is as it was, and is then updated.
    fn scan(&self, worker: usize, place: Address) {
        if place == HERE {
            assert_eq!(self.slot.load(Ordering::Relaxed), BEFORE);
            self.slot.store(SCANNED, Ordering::Relaxed);
        } else {
            assert_eq!(place, address(worker));
            // SAFETY: only the winner scans. Those who find the copy look at its header alone.
            self.copies[worker].with(|copy| assert_eq!(unsafe { *copy }, BEFORE));
        }
    }

    /// What another finds in the object after it was forwarded.
    fn see(&self, place: Address) {
        if place != HERE {
            let copy = &self.copies[place.word() / 8 - 1];
            // SAFETY: published copies are only read in this model.
            copy.with(|copy| assert_eq!(unsafe { *copy }, BEFORE));
        }
    }
}

fn check(rooms: [bool; 3]) {
    loom::model(move || {
        let stage = Stage::new();
        let workers: Vec<_> = (1..3)
            .map(|worker| {
                let stage = stage.clone();
                thread::spawn(move || {
                    let place = stage.forward(worker, rooms[worker]);
                    stage.see(place);
                    place
                })
            })
            .collect();
        let own = stage.forward(0, rooms[0]);
        stage.see(own);
        for worker in workers {
            assert_eq!(worker.join().unwrap(), own, "all go on with the same copy");
        }
        let expected = if own == HERE { SCANNED } else { BEFORE };
        assert_eq!(stage.slot.load(Ordering::Relaxed), expected);
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

/// Where copies of the evacuated object go, a word of marks each, and above them the object itself.
const BASE: Address = Address::new(0x20_0000);
const CANDIDATE: Address = BASE.add(2 * WORD_BYTES);

struct Evacuation {
    header: AtomicU64,
    marks: ObjectBits,
}

impl Evacuation {
    /// What a worker does that reaches the object. Where it is then, and whether this worker makes it grey.
    fn reach(&self, worker: usize, room: bool) -> (Address, bool) {
        let found = header::look(&self.header);
        if let Some(place) = found.forwardee(CANDIDATE) {
            return (place, false);
        }
        let target = room.then_some(BASE.add(worker * WORD_BYTES));
        if let Some(target) = target {
            assert!(self.marks.mark(target), "a copy is marked by its worker");
        }
        match header::publish(&self.header, CANDIDATE, found, target) {
            Ok(place) => {
                if target.is_none() {
                    assert!(self.marks.mark(place));
                }
                (place, true)
            }
            Err(place) => {
                if let Some(target) = target {
                    self.marks.unmark(target);
                }
                (place, false)
            }
        }
    }

    /// Another slot leads to where the object is: nobody makes it grey a second time.
    fn reach_again(&self, place: Address) {
        if place != CANDIDATE {
            assert!(!self.marks.mark(place), "a published copy is marked");
        }
    }
}

fn check_evacuation(rooms: [bool; 2]) {
    loom::model(move || {
        let stage = Arc::new(Evacuation {
            header: AtomicU64::new(Header::fresh(TypeId::new(7)).word()),
            marks: ObjectBits::new(BASE, 3 * WORD_BYTES).unwrap(),
        });
        let other = {
            let stage = stage.clone();
            thread::spawn(move || {
                let (place, is_grey) = stage.reach(1, rooms[1]);
                stage.reach_again(place);
                (place, is_grey)
            })
        };
        let (own, is_grey) = stage.reach(0, rooms[0]);
        stage.reach_again(own);
        let (place, is_grey_too) = other.join().unwrap();
        assert_eq!(own, place);
        assert!(is_grey != is_grey_too, "one worker makes it grey");
        let marked = (0..3).flat_map(|word| stage.marks.starts(word));
        assert!(
            marked.eq([own]),
            "it is marked where it is, and nowhere else"
        );
    });
}

#[test]
fn what_is_evacuated_is_marked_where_it_is() {
    check_evacuation([true, true]);
    check_evacuation([true, false]);
    check_evacuation([false, false]);
}
