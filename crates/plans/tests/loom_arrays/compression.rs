//! Compression: a collection takes zeros back between two writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use gleaner_base::contexts::WorldStopped;
use gleaner_plans::scavenge::parts::Target;
use gleaner_spaces::precise::arraylets::{ArrayletBuffer, Claim};
use loom::thread;

use super::stage::{Seen, Stage, WORDS, check};

/// What a mutator does with the place that it writes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    /// It keeps it over a poll.
    Place,
    /// It keeps none, but writes the first value outside of the gate.
    Gate,
}

/// A scavenge, by a thread outside of the gate; then that thread is a mutator that writes to an array of its own.
fn scavenge_and_write(stage: &Stage) {
    stage.collecting.with(&stage.gate, |_| {
        stage.gate.close();
        stage.gate.drain();
        // SAFETY: nobody is inside the gate, and this thread is the one at work.
        unsafe {
            let mut world = WorldStopped::begin();
            stage.arraylets.begin_scavenge(&mut world);
            let is_zero = |at| (0..WORDS).all(|word| stage.word(at, word) == 0);
            if let Target::Own(arraylet) = stage.part(0).target(is_zero) {
                assert_eq!(stage.arraylets.claim_own(arraylet, false), Claim::Won);
            }
            stage.arraylets.finish_scavenge(&mut world, |_| ());
        }
        stage.gate.open();
    });
    stage.attach();
    stage.write(1, 0, 9, stage.take(&ArrayletBuffer::default()));
    stage.detach();
}

/// A mutator writes one value, polls, and writes another one, while everything that is zero is taken back and used for
/// another array.
fn writes_around_a_collection(first: u64, keeps: Keeps) -> BTreeSet<bool> {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::new());
        stage.attach();
        let collector = {
            let stage = stage.clone();
            thread::spawn(move || scavenge_and_write(&stage))
        };
        let stock = stage.take(&ArrayletBuffer::default());
        let at = stage.instantiate(0, false, stock);
        if keeps == Keeps::Gate {
            stage.gate.leave();
        }
        stage.set(at, 0, first);
        assert_eq!(stage.read(0, 0), first, "a write is lost");
        if keeps != Keeps::Gate {
            stage.gate.leave();
        }
        // Here a collection empties the stock.
        stage.gate.enter();
        assert_eq!(stage.read(0, 0), first, "a write is lost");
        seen.lock().unwrap().insert(stage.pointer(0).is_tainted());
        let at = match keeps {
            Keeps::Nothing | Keeps::Gate => {
                stage.instantiate(0, false, stage.take(&ArrayletBuffer::default()))
            }
            Keeps::Place => at,
        };
        stage.set(at, 0, 7);
        stage.detach();
        collector.join().unwrap();
        assert_eq!(stage.read(0, 0), 7, "a write is lost");
        assert_eq!(stage.read(1, 0), 9, "a write reaches another array");
        let targets = [0, 1].map(|spine| stage.pieces.target(stage.pointer(spine)));
        assert_ne!(targets[0], targets[1], "two arrays have one arraylet");
        assert!(targets.iter().all(|&at| stage.arraylets.is_live(at)));
    });
    all.lock().unwrap().clone()
}

#[test]
fn what_is_written_before_and_after_a_compression_is_there() {
    // The collection comes in between, or before or after.
    let seen = writes_around_a_collection(0, Keeps::Nothing);
    assert_eq!(seen, [false, true].into());
    let seen = writes_around_a_collection(6, Keeps::Nothing);
    assert_eq!(seen, [false].into());
}

#[test]
#[should_panic(expected = "a write is lost")]
fn a_place_that_is_kept_over_a_poll_is_no_longer_the_array_s() {
    writes_around_a_collection(0, Keeps::Place);
}

#[test]
#[should_panic(expected = "a write is lost")]
fn a_write_outside_of_the_gate_is_lost() {
    writes_around_a_collection(6, Keeps::Gate);
}
