//! Claims of arraylets that two spines share, by workers.

use std::sync::Arc;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{Ordering, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::cards::{CARD_BYTES, CardTable};
use gleaner_spaces::precise::arraylets::{ArrayletBuffer, Claim};
use loom::thread;

use super::stage::{Stage, check};

/// What a worker does with a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    Shipped,
    /// It looks first, and claims then.
    LooksFirst,
    /// It leaves the cards of what it made old.
    LeavesCards,
    /// It dirties the card first, and claims then.
    DirtiesFirst,
}

/// Two workers reach an arraylet that two spines share.
struct Shared {
    stage: Stage,
    arraylet: Address,
    /// The first card of the arraylet, on which its only slot lies. That refers to a young object.
    cards: CardTable,
    /// How often the slot was scanned by a worker that won the claim: loom checks that there is one at a time.
    scanned: UnsafeCell<usize>,
    /// Whether the card has been dirtied. Not an atomic of loom's: it is set in the same step.
    dirtied: core::sync::atomic::AtomicBool,
}

// SAFETY: the claim decides who may scan; loom checks that it does.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Shared {}

impl Shared {
    fn dirty(&self) {
        self.cards.dirty(self.arraylet);
        self.dirtied.store(true, Ordering::Relaxed);
    }

    fn claim(&self, old: bool, how: Claims) -> Claim {
        let arraylets = &self.stage.arraylets;
        match how {
            Claims::LooksFirst if arraylets.is_live(self.arraylet) => Claim::Lost,
            Claims::LooksFirst => {
                arraylets.make_young(self.arraylet);
                Claim::Won
            }
            Claims::DirtiesFirst if old => {
                self.dirty();
                arraylets.claim(self.arraylet, old)
            }
            _ => arraylets.claim(self.arraylet, old),
        }
    }

    /// A worker has reached a spine that will be `old`.
    fn reach(&self, old: bool, how: Claims) {
        match self.claim(old, how) {
            Claim::Won => {
                // SAFETY: the claim is this worker's.
                self.scanned.with_mut(|scanned| unsafe { *scanned += 1 });
                if old {
                    self.dirty();
                }
            }
            Claim::MadeOld if how != Claims::LeavesCards => self.dirty(),
            Claim::MadeOld | Claim::Lost => {}
        }
    }

    /// A worker has the strip of cards. Whose dirtying it takes away, it sees old.
    fn take_dirty(&self) {
        let (low, high) = (self.arraylet, self.arraylet.add(CARD_BYTES));
        self.cards.take_dirty(low, high, |low, high| {
            let taken = self.dirtied.load(Ordering::Relaxed);
            let found = self.stage.arraylets.old_in(low, high).count();
            assert!(found == 1 || !taken, "a young object is forgotten");
            // The slot still refers to a young object.
            if found == 1 {
                self.dirty();
            }
        });
    }
}

/// Workers with spines that will be old, or not, reach one arraylet, in a scavenge or when everything is marked.
fn workers_claim(spines: [bool; 2], is_marking: bool, how: Claims) {
    check(3, move || {
        let stage = Stage::new();
        let arraylet = stage.take(&ArrayletBuffer::default());
        let shared = Arc::new(Shared {
            arraylet,
            cards: CardTable::new(arraylet, CARD_BYTES).unwrap(),
            scanned: UnsafeCell::new(0),
            dirtied: Default::default(),
            stage,
        });
        let arraylets = &shared.stage.arraylets;
        if is_marking {
            // What `begin_marking` makes of all of them by clearing bytes; loom's atomics are more than bytes.
            arraylets.free(arraylet);
        } else {
            // SAFETY: there is only this thread.
            unsafe { arraylets.begin_scavenge(&mut WorldStopped::begin()) };
        }
        assert!(!arraylets.is_live(arraylet));
        // Without a reason, so that the card is scanned in any case.
        shared.cards.dirty(arraylet);
        let workers = spines.map(|old| {
            let shared = shared.clone();
            thread::spawn(move || shared.reach(old, how))
        });
        shared.take_dirty();
        for worker in workers {
            worker.join().unwrap();
        }
        let scanned = shared.scanned.with(|scanned| {
            // SAFETY: the workers are done.
            unsafe { *scanned }
        });
        assert_eq!(scanned, 1, "an arraylet is scanned once");
        let is_old = spines.contains(&true);
        assert_eq!(arraylets.is_old(arraylet), is_old);
        assert!(arraylets.is_live(arraylet));
        let dirtied = shared.dirtied.load(Ordering::Relaxed);
        assert_eq!(dirtied, is_old, "a young object is forgotten");
    });
}

#[test]
fn one_worker_scans_what_two_young_arrays_share() {
    workers_claim([false, false], false, Claims::Shipped);
}

#[test]
fn what_a_young_and_a_promoted_array_share_is_old_and_its_card_dirty() {
    workers_claim([false, true], false, Claims::Shipped);
}

#[test]
fn one_worker_scans_what_two_promoted_arrays_share() {
    workers_claim([true, true], false, Claims::Shipped);
}

#[test]
fn one_worker_scans_a_shared_arraylet_when_everything_is_marked() {
    for spines in [[false, false], [false, true], [true, true]] {
        workers_claim(spines, true, Claims::Shipped);
    }
}

#[test]
#[should_panic(expected = "Concurrent write accesses")]
fn a_claim_that_looks_first_has_two_winners() {
    workers_claim([false, false], false, Claims::LooksFirst);
}

#[test]
#[should_panic(expected = "a young object is forgotten")]
fn cards_of_what_was_made_old_must_be_dirtied() {
    workers_claim([false, true], false, Claims::LeavesCards);
}

#[test]
#[should_panic(expected = "a young object is forgotten")]
fn cards_that_are_dirtied_before_the_claim_are_cleaned() {
    workers_claim([false, true], false, Claims::DirtiesFirst);
}
