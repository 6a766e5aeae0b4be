//! Sharing: by the only mutator, in a stop, and of what is shared already.

use std::collections::BTreeSet;
use std::sync::Arc;

use gleaner_base::sync::{AtomicU64, Ordering};
use gleaner_spaces::precise::arraylets::ArrayletBuffer;
use loom::thread;

use super::stage::{Seen, Stage, WORDS, check};

/// When a mutator shares an arraylet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Shipped,
    /// Also while others are attached.
    Always,
    /// When it was alone a moment before.
    Late,
}

impl Stage {
    /// Whether the first spine's arraylet is that of the second, too.
    fn share(&self, when: Share) -> bool {
        let body = || {
            // SAFETY: both spines have a part; the first way asks for no other mutator, and the others are wrong.
            unsafe { self.part(1).share(self.part(0), false, |_| ()) };
        };
        match when {
            Share::Shipped => self.collecting.while_alone(|&count| count, body),
            Share::Always => {
                body();
                true
            }
            Share::Late => {
                let is_alone = self.collecting.while_alone(|&count| count, || ());
                if is_alone {
                    body();
                }
                is_alone
            }
        }
    }
}

/// A mutator copies an array by sharing while another one comes, writes to the original, and goes: it may have read the
/// pointer before that was tainted. What it writes is not seen in the copy, and what is written to the copy not in the
/// original.
fn a_writer_comes_and_goes(when: Share) -> BTreeSet<Option<u64>> {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::new());
        let buffer = ArrayletBuffer::default();
        let [original, stock @ ..] = [(); 3].map(|()| stage.take(&buffer));
        stage.set(original, 0, 1);
        stage.point(0, original);
        stage.attach();
        let writer = {
            let stage = stage.clone();
            thread::spawn(move || {
                stage.attach();
                stage.write(0, 0, 2, stock[1]);
                stage.detach();
            })
        };
        let copied = stage.share(when).then(|| stage.read(1, 0));
        seen.lock().unwrap().insert(copied);
        // The write to the copy: all of it is there before.
        if let Some(copied) = copied {
            let at = stage.instantiate(1, false, stock[0]);
            let found = stage.word(at, 0);
            assert_eq!(found, copied, "a write is seen through the copy");
            stage.set(at, 0, 3);
        }
        stage.detach();
        writer.join().unwrap();
        assert_eq!(stage.read(0, 0), 2, "a write to the original is lost");
        if copied.is_some() {
            assert_eq!(stage.read(1, 0), 3, "a write to the copy is lost");
        }
    });
    all.lock().unwrap().clone()
}

#[test]
fn a_writer_that_comes_and_goes_writes_to_one_array() {
    let seen = a_writer_comes_and_goes(Share::Shipped);
    // It was there meanwhile, came later, and was gone before.
    assert_eq!(seen, [None, Some(1), Some(2)].into());
}

#[test]
#[should_panic(expected = "a write is seen through the copy")]
fn a_writer_that_is_attached_writes_through_what_is_shared() {
    a_writer_comes_and_goes(Share::Always);
}

#[test]
#[should_panic(expected = "a write is seen through the copy")]
fn a_writer_that_comes_when_the_lock_is_free_again_writes_through_what_is_shared() {
    a_writer_comes_and_goes(Share::Late);
}

/// How a mutator taints a pointer while another one is attached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taint {
    /// As `Scavenge::in_a_stop` does.
    InAStop,
    /// While the other runs.
    Running,
    /// In a stop, in which the other keeps the place that it writes to.
    KeptPlace,
}

/// A mutator copies an array by sharing, in a stop, while another one writes to the original. What is read from the copy
/// once is there afterwards.
fn a_copy_stays_what_it_was(how: Taint) -> BTreeSet<u64> {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::new());
        let buffer = ArrayletBuffer::default();
        let [original, stock] = [(); 2].map(|()| stage.take(&buffer));
        stage.set(original, 0, 1);
        stage.point(0, original);
        stage.attach();
        stage.attach();
        let writer = {
            let stage = stage.clone();
            thread::spawn(move || {
                let poll = || {
                    stage.gate.leave();
                    stage.gate.enter();
                };
                if how != Taint::KeptPlace {
                    poll();
                }
                let at = stage.instantiate(0, false, stock);
                if how == Taint::KeptPlace {
                    poll();
                }
                stage.set(at, 0, 2);
                stage.gate.leave();
            })
        };
        // SAFETY: both spines have a part; the first way stops the other mutator, and the others are wrong.
        let share = || unsafe { stage.part(1).share(stage.part(0), false, |_| ()) };
        if how == Taint::Running {
            share();
        } else {
            stage.gate.leave();
            stage.collecting.with(&stage.gate, |_| {
                stage.gate.close();
                stage.gate.drain();
                share();
                stage.gate.open_from_inside();
            });
        }
        let copied = stage.read(1, 0);
        seen.lock().unwrap().insert(copied);
        stage.gate.leave();
        writer.join().unwrap();
        assert_eq!(stage.read(1, 0), copied, "a write is seen through the copy");
        assert_eq!(stage.read(0, 0), 2, "a write to the original is lost");
    });
    all.lock().unwrap().clone()
}

#[test]
fn a_copy_that_was_shared_in_a_stop_stays_what_it_was() {
    // The write came before the stop, and after it.
    assert_eq!(a_copy_stays_what_it_was(Taint::InAStop), [1, 2].into());
}

#[test]
#[should_panic(expected = "a write is seen through the copy")]
fn a_copy_that_is_shared_while_others_run_changes() {
    a_copy_stays_what_it_was(Taint::Running);
}

#[test]
#[should_panic(expected = "a write is seen through the copy")]
fn a_place_that_is_kept_over_a_stop_is_shared() {
    a_copy_stays_what_it_was(Taint::KeptPlace);
}

/// A mutator stops the world while another thread collects: between what it does in the stop and what it does behind it,
/// nothing is collected. Whether the collection came before.
fn a_stop_keeps_the_stock(goes_in: impl Fn(&Stage) + Sync + Send + 'static) -> BTreeSet<bool> {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::new());
        stage.attach();
        let collections = Arc::new(AtomicU64::new(0));
        let collector = {
            let (stage, collections) = (stage.clone(), collections.clone());
            thread::spawn(move || {
                stage.collecting.with(&stage.gate, |_| {
                    stage.gate.close();
                    stage.gate.drain();
                    collections.fetch_add(1, Ordering::Relaxed);
                    stage.gate.open();
                });
            })
        };
        stage.gate.leave();
        let before = stage.collecting.with(&stage.gate, |_| {
            stage.gate.close();
            stage.gate.drain();
            let before = collections.load(Ordering::Relaxed);
            stage.gate.open_from_inside();
            before
        });
        goes_in(&stage);
        let now = collections.load(Ordering::Relaxed);
        assert_eq!(now, before, "a collection came between");
        seen.lock().unwrap().insert(now > 0);
        stage.detach();
        collector.join().unwrap();
    });
    all.lock().unwrap().clone()
}

#[test]
fn nothing_is_collected_between_a_stop_and_what_follows() {
    assert_eq!(a_stop_keeps_the_stock(|_| ()), [false, true].into());
}

#[test]
#[should_panic(expected = "a collection came between")]
fn a_mutator_that_goes_out_again_behind_its_stop_has_lost_its_stock() {
    a_stop_keeps_the_stock(|stage| {
        stage.gate.leave();
        stage.gate.enter();
    });
}

/// How a mutator leads a part to what is shared already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    Shipped,
    /// By a store.
    Stored,
    /// As shipped; but the first to write to the part installs what it had filled, although the part was led elsewhere.
    Unfilled,
}

/// What two arrays share is shared by a third, without a stop, while one mutator writes to the first array and another one
/// to the third. Whether the part was led there before it was written.
fn a_third_array_shares(how: Lead, is_old: bool) -> BTreeSet<bool> {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::new());
        let buffer = ArrayletBuffer::default();
        let [shared, stock @ ..] = [(); 3].map(|()| stage.take(&buffer));
        (0..WORDS).for_each(|word| stage.set(shared, word, 5));
        stage.point(0, shared);
        // SAFETY: only this thread knows the spines.
        unsafe { stage.part(1).share(stage.part(0), false, |_| ()) };
        let original = {
            let stage = stage.clone();
            thread::spawn(move || stage.write(0, 0, 7, stock[0]))
        };
        let third = {
            let stage = stage.clone();
            thread::spawn(move || {
                let filled = core::cell::Cell::new(false);
                let fill = |before| match how == Lead::Unfilled && filled.replace(true) {
                    true => stock[1],
                    false => stage.filled(stock[1], before),
                };
                let at = stage.instantiate_with(2, is_old, fill);
                stage.set(at, 1, 10);
            })
        };
        // The pointer of the array that nobody writes.
        let found = stage.pointer(1);
        assert!(found.is_tainted());
        let arraylet = stage.pieces.target(found);
        let led = if how == Lead::Stored {
            let part = stage.part(2);
            // SAFETY: the spine has this part.
            unsafe { stage.pieces.store(part.spine, 0, found) };
            Ok(true)
        } else {
            // SAFETY: the spine has this part, and the pointer was found.
            unsafe { stage.part(2).lead_to(arraylet, is_old, |_| ()) }
        };
        if let Err(at) = led {
            (0..WORDS).for_each(|word| stage.set(at, word, stage.word(arraylet, word)));
        }
        original.join().unwrap();
        third.join().unwrap();
        let read = |spine| [0, 1].map(|word| stage.read(spine, word));
        assert_eq!(read(0), [7, 5], "a write to the original is lost");
        assert_eq!(read(1), [5, 5], "a write is seen by a sharer");
        let [copied, written] = read(2);
        assert_eq!(copied, 5, "what was copied is lost");
        assert!(written == 10 || led.is_err(), "a write to the copy is lost");
        let third = stage.pieces.target(stage.pointer(2));
        assert_eq!(stage.arraylets.is_old(third), is_old);
        assert!(stage.arraylets.is_old(shared) == is_old || led.is_err());
        seen.lock().unwrap().insert(led.is_ok());
    });
    all.lock().unwrap().clone()
}

#[test]
fn what_is_shared_is_shared_again_while_others_write() {
    for is_old in [false, true] {
        assert_eq!(
            a_third_array_shares(Lead::Shipped, is_old),
            [false, true].into()
        );
    }
}

#[test]
#[should_panic(expected = "is lost")]
fn a_part_that_is_led_by_a_store_loses_what_was_written_or_copied() {
    a_third_array_shares(Lead::Stored, false);
}

#[test]
#[should_panic(expected = "what was copied is lost")]
fn an_arraylet_that_was_filled_before_the_part_was_led_elsewhere_loses_what_was_copied() {
    a_third_array_shares(Lead::Unfilled, false);
}
