//! Ephemerons that wait for their keys under loom: the shipped table, and workers that reach a key while another
//! registers who waits for it. Run with `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release
//! --test loom_ephemerons`.
//!
//! Objects are flags that one worker wins, as a mark is. Two ephemerons form a chain: the value of the first is the key
//! of the second. Whatever the order of events, both values live when what was registered was looked at once more;
//! without that second look, one is missed, which the last model shows.
#![cfg(loom)]

use gleaner_base::sync::{AtomicBool, AtomicU32, Ordering};
use gleaner_mem::Address;
use gleaner_plans::scavenge::waiting::{Entry, Waiting};
use loom::thread;

/// Key and value of each ephemeron, as numbers of objects.
const EPHEMERONS: [(usize, usize); 2] = [(0, 1), (1, 2)];

struct Stage {
    live: [AtomicBool; 3],
    waiting: Waiting,
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
            waiting: Waiting::over(buckets, entries),
        }))
    }

    fn is_live(&self, object: usize) -> bool {
        self.live[object].load(Ordering::Relaxed)
    }

    /// Whether this call made it live.
    fn win(&self, object: usize) -> bool {
        !self.live[object].swap(true, Ordering::Relaxed)
    }

    /// The worker that has reached an ephemeron.
    fn look(&self, ephemeron: usize) {
        let (key, value) = EPHEMERONS[ephemeron];
        if self.is_live(key) {
            self.reach(value);
        } else {
            let registered = self
                .waiting
                .register(&mut (0..0), address(key), address(value));
            assert!(registered, "there is room for both");
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
        if self.win(object) && self.waiting.any() {
            self.waiting.look_up(address(object), found);
        }
    }

    /// The leader, and nobody beside, when a phase is over.
    fn look_again(&self) {
        self.waiting.look_again(
            0..self.waiting.registered(),
            |key| self.is_live(key.word() / 8 - 1),
            |value| self.reach(value.word() / 8 - 1),
        );
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
fn a_key_that_is_reached_while_its_entry_registers_is_found_or_seen_by_the_second_look() {
    loom::model(|| {
        let stage = Stage::new();
        stage.look(1);
        phase(stage, |stage| stage.look(0), |stage| stage.reach(0));
        stage.look_again();
        assert_all_live(stage);
    });
}

#[test]
fn entries_of_one_bucket_that_register_together_are_both_found() {
    loom::model(|| {
        let stage = Stage::new();
        phase(stage, |stage| stage.look(0), |stage| stage.look(1));
        stage.reach(0);
        assert_all_live(stage);
    });
}

#[test]
fn two_workers_that_reach_different_keys_of_a_bucket_find_their_own() {
    loom::model(|| {
        let stage = Stage::new();
        phase(stage, |stage| stage.look(0), |stage| stage.look(1));
        phase(stage, |stage| stage.reach(0), |stage| stage.reach(1));
        assert_all_live(stage);
    });
}

/// The table as it must not be used.
#[test]
#[should_panic(expected = "is_live")]
fn without_the_second_look_an_entry_is_missed() {
    loom::model(|| {
        let stage = Stage::new();
        phase(stage, |stage| stage.look(0), |stage| stage.reach(0));
        assert!(stage.is_live(1), "is_live");
    });
}
