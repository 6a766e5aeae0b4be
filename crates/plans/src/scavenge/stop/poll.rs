//! The gate at which mutators of the precise heap, which poll, wait while the world is stopped; no signal is sent.
//!
//! One word counts the mutators that may touch the heap and says whether they are to stop. A mutator that polls, or
//! goes into a blocking region, takes itself out of the count; one that comes back waits while the world is stopped.
//! The stopper raises the flag, tells each mutator through its own poll word, and waits for the count to fall to 0.
//!
//! # Invariants
//! - A mutator touches the heap only between [`PollGate::enter`] and [`PollGate::leave`].
//! - Nobody enters while the flag is up. The stopper is outside, and is the only one (the caller holds a lock).
//! - The thread that takes the count to 0 under the flag wakes the stopper; the one that lowers the flag wakes all who
//!   wait.
//!
//! - A thread that stands is inside, and stays there: it touches the heap again when it no longer stands. So once the
//!   gate is closed and as many stand as are inside, nobody touches the heap, and no stopper gets to. Forks wait for
//!   that ([`fork`](super::fork)).
//!
//! The poll words are hints: a mutator that misses one stops at its next poll.

use gleaner_base::sync::{
    AtomicU32, Ordering, futex_wait, futex_wait_timeout, futex_wake, spin_hint, spin_rounds,
    yield_now,
};

const STOP: u32 = 1 << 31;
/// Beside the first flag: a thread forks.
const FORK: u32 = 1 << 30;
const COUNT: u32 = FORK - 1;
/// How long a stopper waits before it looks after those inside, in nanoseconds.
const OVERDUE_NS: u64 = 100_000_000;

/// What a thread does that finds another one about to fork: it returns when that may be over. It is given the number of
/// the heap, outside of whose gate it is.
pub type StandAside = fn(heap: u32);

/// The word.
#[derive(Debug)]
pub struct PollGate {
    /// The flags and the count. Changed by read-modify-writes: a mutator's Release on leaving partners the stopper's
    /// Acquire, the stopper's Release on opening partners the Acquire of a thread that enters.
    word: AtomicU32,
    /// How many of those inside stand. Release in `stand` partners Acquire in `is_still`.
    standing: AtomicU32,
    stand_aside: (StandAside, u32),
}

impl Default for PollGate {
    fn default() -> Self {
        Self::new()
    }
}

impl PollGate {
    gleaner_base::sync_const_fn! {
        /// Nobody is inside, and all may enter.
        pub fn new() -> Self {
            Self {
                word: AtomicU32::new(0),
                standing: AtomicU32::new(0),
                stand_aside: (|_| yield_now(), 0),
            }
        }
    }

    /// Says what threads do that want to come in while another one forks, and the number by which they know this heap.
    pub fn set_stand_aside(&mut self, stand_aside: StandAside, heap: u32) {
        self.stand_aside = (stand_aside, heap);
    }

    /// Returns when a fork may be over that the calling thread, outside of the gate, has found under way.
    pub(super) fn stand_aside(&self) {
        let (stand_aside, heap) = self.stand_aside;
        stand_aside(heap);
    }

    /// A mutator comes in; waits while the world is stopped.
    pub fn enter(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & (STOP | FORK) != 0 {
                if word & FORK != 0 {
                    self.stand_aside();
                } else {
                    futex_wait(&self.word, word);
                }
                word = self.word.load(Ordering::Relaxed);
                continue;
            }
            // Acquire partners the Release in `open`.
            match self.word.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// A mutator goes out: it does not touch the heap until it enters again.
    pub fn leave(&self) {
        // Release partners the Acquire in `close`.
        let before = self.word.fetch_sub(1, Ordering::Release);
        debug_assert_ne!(before & COUNT, 0, "a mutator leaves that was not inside");
        if before & STOP != 0 && before & COUNT == 1 {
            // The stopper sleeps on the same word as the threads that want to enter, so all are woken.
            futex_wake(&self.word, u32::MAX >> 1);
        }
    }

    /// Stopper, outside: nobody may enter from now on. Then it tells the mutators, and waits with [`PollGate::drain`].
    pub fn close(&self) {
        // Release partners the Acquire in `is_still`: what was done under the lock is seen by a thread that forks.
        let before = self.word.fetch_or(STOP, Ordering::AcqRel);
        debug_assert_eq!(before & STOP, 0, "two threads stop the world");
    }

    /// Stopper: waits until no thread is inside. A thread that zeroes a block is out again in a microsecond or two, so
    /// the stopper spins first.
    pub fn drain(&self) {
        self.drain_with(|word| futex_wait(&self.word, word));
    }

    /// As [`PollGate::drain`], and whenever no thread has come out for a while, calls `overdue`, which takes out
    /// threads that have ended inside.
    pub fn drain_watching(&self, mut overdue: impl FnMut()) {
        self.drain_with(|word| {
            futex_wait_timeout(&self.word, word, OVERDUE_NS);
            if self.word.load(Ordering::Relaxed) & COUNT != 0 {
                overdue();
            }
        });
    }

    fn drain_with(&self, mut wait: impl FnMut(u32)) {
        let mut rounds = spin_rounds(100);
        loop {
            // Acquire partners the Release in `leave`.
            let word = self.word.load(Ordering::Acquire);
            if word & COUNT == 0 {
                return;
            }
            if rounds > 0 {
                rounds -= 1;
                spin_hint();
            } else {
                wait(word);
            }
        }
    }

    /// Stopper: the world goes on.
    pub fn open(&self) {
        self.word.fetch_and(!STOP, Ordering::Release);
        futex_wake(&self.word, u32::MAX >> 1);
    }

    /// As [`PollGate::open`], by a stopper that is a mutator: it is inside at once, so nobody stops the world before it has
    /// gone on. A thread that forks waits for it as for one that never was outside.
    pub fn open_from_inside(&self) {
        let before = self.word.fetch_sub(STOP - 1, Ordering::Release);
        debug_assert_eq!(before & (STOP | COUNT), STOP, "the world was not stopped");
        futex_wake(&self.word, u32::MAX >> 1);
    }

    /// A thread forks: the one that wants to come in stands aside, also if a stopper has closed the gate and they wait
    /// for that.
    pub fn begin_fork(&self) {
        self.word.fetch_or(FORK, Ordering::Relaxed);
        futex_wake(&self.word, u32::MAX >> 1);
    }

    /// In the parent: the fork is over. The gate stays closed if a stopper has closed it.
    pub fn end_fork(&self) {
        self.word.fetch_and(!FORK, Ordering::Relaxed);
    }

    /// The calling thread, which is inside, stands until [`PollGate::go_on`].
    pub fn stand(&self) {
        self.standing.fetch_add(1, Ordering::Release);
    }

    /// The calling thread stands no more. It holds the lock under which processes fork, so no fork counts on it.
    pub fn go_on(&self) {
        self.standing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether some stand.
    pub fn has_standing(&self) -> bool {
        self.standing.load(Ordering::Relaxed) > 0
    }

    /// Whether the gate is closed and all threads inside stand. The caller holds the lock under which processes fork.
    pub fn is_still(&self) -> bool {
        // Threads that stand stay inside, so counting them first is what makes the two numbers comparable: if as many
        // are inside afterwards, they are the same threads. Acquire partners the Release in `stand`, and that in
        // `leave`.
        let standing = self.standing.load(Ordering::Acquire);
        self.word.load(Ordering::Acquire) & (STOP | COUNT) == STOP | standing
    }

    /// In a forked child, which has one thread: the gate is open, with `inside` mutators inside.
    pub fn reset_after_fork(&self, inside: u32) {
        self.word.store(inside, Ordering::Relaxed);
        self.standing.store(0, Ordering::Relaxed);
    }

    /// How many are inside.
    pub fn inside(&self) -> u32 {
        self.word.load(Ordering::Relaxed) & COUNT
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicUsize;
    use std::sync::Mutex;

    #[test]
    fn while_the_world_is_stopped_nobody_is_inside() {
        let gate = PollGate::new();
        let (stopper, inside, stops) = (Mutex::new(()), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (gate, stopper, inside, stops) = (&gate, &stopper, &inside, &stops);
                scope.spawn(move || {
                    for step in 0..500 {
                        if step % 8 == number {
                            let lock = stopper.lock().unwrap();
                            gate.close();
                            gate.drain();
                            assert_eq!(inside.load(Ordering::Relaxed), 0);
                            stops.fetch_add(1, Ordering::Relaxed);
                            gate.open();
                            drop(lock);
                        } else {
                            gate.enter();
                            inside.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::Relaxed);
                            gate.leave();
                        }
                    }
                });
            }
        });
        assert!(stops.into_inner() > 400);
        assert_eq!(gate.inside(), 0);
    }
}
