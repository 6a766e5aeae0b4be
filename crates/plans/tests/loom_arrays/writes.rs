//! The first write to a part.

use std::sync::Arc;

use gleaner_mem::Address;
use gleaner_spaces::precise::arraylets::ArrayletBuffer;
use loom::thread;

use super::stage::{Seen, Stage, WORDS, check};

/// How a mutator installs an arraylet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Install {
    Shipped,
    /// With what was in it.
    Unfilled,
    /// By a store.
    Stored,
}

impl Stage {
    fn install(&self, how: Install, spine: usize, is_old: bool, stock: Address) -> Address {
        let before = self.pointer(spine);
        match how {
            Install::Shipped => self.instantiate(spine, is_old, stock),
            Install::Unfilled => self.instantiate_with(spine, is_old, |_| stock),
            Install::Stored if before.is_tainted() => {
                self.point(spine, self.filled(stock, before));
                stock
            }
            Install::Stored => self.pieces.target(before),
        }
    }
}

/// Two mutators are the first to write to a part, each to a word of its own, and a third one reads both: what was there
/// or what was written, and nothing else. The part is the zero arraylet at first, or one that is shared.
fn first_writers(how: Install, slot_bytes: usize, is_old: bool, is_shared: bool) {
    let all = Seen::default();
    let seen = all.clone();
    check(3, move || {
        let stage = Arc::new(Stage::with_slots(slot_bytes));
        let buffer = ArrayletBuffer::default();
        let [shared, stock @ ..] = [(); 3].map(|()| stage.take(&buffer));
        if is_shared {
            (0..WORDS).for_each(|word| stage.set(shared, word, 5));
            stage.point(1, shared);
            // SAFETY: only this thread knows the spines.
            unsafe { stage.part(0).share(stage.part(1), is_old, |_| ()) };
            assert_eq!(stage.arraylets.is_old(shared), is_old);
        }
        let before = if is_shared { 5 } else { 0 };
        let write = move |stage: &Stage, own: usize| {
            let at = stage.install(how, 0, is_old, stock[own]);
            stage.set(at, own, 10 + own as u64);
        };
        let writer = {
            let stage = stage.clone();
            thread::spawn(move || write(&stage, 1))
        };
        let reader = {
            let stage = stage.clone();
            thread::spawn(move || {
                for word in 0..WORDS {
                    let read = stage.read(0, word);
                    let is_known = read == before || read == 10 + word as u64;
                    assert!(is_known, "a reader finds what lay there");
                }
            })
        };
        write(&stage, 0);
        writer.join().unwrap();
        reader.join().unwrap();
        for word in 0..WORDS {
            assert_eq!(stage.read(0, word), 10 + word as u64, "a write is lost");
            if is_shared {
                assert_eq!(stage.read(1, word), 5, "a write is seen by a sharer");
            }
        }
        // The loser has its arraylet back, young.
        let own = stage.pieces.target(stage.pointer(0));
        let others = stock.into_iter().find(|&one| one != own).unwrap();
        let is_old_now = [own, others].map(|one| stage.arraylets.is_old(one));
        assert_eq!(is_old_now, [is_old, false]);
        assert!(stage.arraylets.is_live(own) && stage.arraylets.is_live(others));
        seen.lock().unwrap().insert(own == stock[0]);
    });
    assert_eq!(all.lock().unwrap().len(), 2, "either mutator wins");
}

#[test]
fn first_writers_agree_on_one_arraylet() {
    first_writers(Install::Shipped, 8, false, false);
    first_writers(Install::Shipped, 4, false, false);
}

#[test]
fn first_writers_of_an_old_array_agree_on_one_arraylet() {
    first_writers(Install::Shipped, 8, true, false);
}

#[test]
fn first_writers_of_a_shared_part_agree_on_one_copy() {
    first_writers(Install::Shipped, 8, false, true);
    first_writers(Install::Shipped, 4, true, true);
}

#[test]
#[should_panic(expected = "a reader finds what lay there")]
fn an_arraylet_that_is_not_filled_shows_what_lay_there() {
    first_writers(Install::Unfilled, 8, false, false);
}

#[test]
#[should_panic(expected = "a write is lost")]
fn an_arraylet_that_is_installed_by_a_store_loses_a_write() {
    first_writers(Install::Stored, 8, false, false);
}
