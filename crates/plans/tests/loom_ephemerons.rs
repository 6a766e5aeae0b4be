//! Ephemerons that wait for their keys under loom: the shipped table, its two phases, and workers that reach a key
//! while another looks whether it was reached. Run with `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release
//! --test loom_ephemerons`.
//!
//! Objects are flags that one worker wins, as a mark is. Two ephemerons form a chain: the value of the first is the key
//! of the second. Whatever the order of events, both values live when both phases are over; if keys were looked up
//! while entries are still registered, one would be missed, which the last model shows.
#![cfg(loom)]

use gleaner_base::sync::{AtomicBool, AtomicU32, Ordering};
use gleaner_mem::Address;
use gleaner_plans::scavenge::waiting::{Entry, Waiting};
use loom::thread;

/// Key and value of each entry, as numbers of objects.
const ENTRIES: [(usize, usize); 2] = [(0, 1), (1, 2)];

struct Stage {
    live: [AtomicBool; 3],
    waiting: Waiting<'static>,
}

/// What an object is for the table: with one bucket every key has the same.
fn address(object: usize) -> Address {
    Address::new(8 + 8 * object)
}

impl Stage {
    fn new() -> &'static Stage {
        let buckets = Box::leak(Box::new([AtomicU32::new(0)]));
        let entries = Box::leak(Box::new([Entry::default(), Entry::default()]));
        Box::leak(Box::new(Stage {
            live: [false; 3].map(AtomicBool::new),
            waiting: Waiting::new(buckets, entries),
        }))
    }

    fn is_live(&self, object: usize) -> bool {
        self.live[object].load(Ordering::Relaxed)
    }

    /// Whether this call made it live.
    fn win(&self, object: usize) -> bool {
        !self.live[object].swap(true, Ordering::Relaxed)
    }

    /// Phase 1, the worker that has the entry.
    fn first_look(&self, entry: usize) {
        let (key, value) = ENTRIES[entry];
        if self.is_live(key) {
            self.waiting.pass_by(entry as u32);
            self.win(value);
        } else {
            self.waiting
                .register(entry as u32, address(key), address(value));
        }
    }

    /// An object is reached where keys are looked up, and what follows from that.
    fn reach(&self, object: usize) {
        let mut found = 0;
        self.reach_one(object, &mut found);
        while let Some(value) = self.waiting.take_found(&mut found) {
            self.reach_one(value.word() / 8 - 1, &mut found);
        }
    }

    fn reach_one(&self, object: usize, found: &mut u32) {
        if self.win(object) {
            self.waiting.look_up(address(object), found);
        }
    }

    /// Phase 2, the worker that has the entry.
    fn second_look(&self, entry: usize) {
        let (key, value) = ENTRIES[entry];
        if self.waiting.waits(entry as u32) && self.is_live(key) {
            self.reach(value);
        }
    }
}

/// Two workers run a phase; its end is ordered before what follows.
fn phase(stage: &'static Stage, one: fn(&Stage), other: fn(&Stage)) {
    let helper = thread::spawn(move || other(stage));
    one(stage);
    helper.join().unwrap();
}

fn assert_all_live(stage: &Stage) {
    assert!((0..3).all(|object| stage.is_live(object)));
}

#[test]
fn a_key_that_is_reached_while_its_entry_registers_is_seen_by_the_second_look() {
    loom::model(|| {
        let stage = Stage::new();
        phase(
            stage,
            |stage| stage.first_look(0),
            |stage| {
                stage.first_look(1);
                stage.win(0);
            },
        );
        stage.waiting.complete();
        phase(
            stage,
            |stage| stage.second_look(0),
            |stage| stage.second_look(1),
        );
        assert_all_live(stage);
    });
}

#[test]
fn a_key_that_is_reached_during_the_second_look_is_looked_up() {
    loom::model(|| {
        let stage = Stage::new();
        phase(
            stage,
            |stage| stage.first_look(0),
            |stage| stage.first_look(1),
        );
        assert!(stage.waiting.any());
        stage.waiting.complete();
        phase(
            stage,
            |stage| {
                stage.second_look(1);
                stage.second_look(0);
            },
            |stage| stage.reach(0),
        );
        assert_all_live(stage);
    });
}

#[test]
fn two_workers_that_reach_different_keys_of_a_bucket_find_their_own() {
    loom::model(|| {
        let stage = Stage::new();
        phase(
            stage,
            |stage| stage.first_look(0),
            |stage| stage.first_look(1),
        );
        stage.waiting.complete();
        phase(stage, |stage| stage.reach(0), |stage| stage.reach(1));
        assert_all_live(stage);
    });
}

/// The table as it must not be used.
#[test]
#[should_panic(expected = "is_live")]
fn in_a_single_phase_an_entry_is_missed() {
    loom::model(|| {
        let stage = Stage::new();
        phase(stage, |stage| stage.first_look(0), |stage| stage.reach(0));
        assert!(stage.is_live(1), "is_live");
    });
}
