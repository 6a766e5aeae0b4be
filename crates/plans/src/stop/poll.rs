//! Stopping by polls: mutators of the precise heap stop where they look, never by signal.
//!
//! One word counts the mutators that may touch the heap and says whether they are to stop. A mutator that polls, or
//! goes into a blocking region, takes itself out of the count; whoever comes back waits while the world is stopped.
//! The stopper raises the flag, tells each mutator through its own poll word, and waits for the count to fall to 0.
//!
//! # Invariants
//! - A mutator touches the heap only between [`PollGate::enter`] and [`PollGate::leave`].
//! - Nobody enters while the flag is up. The stopper is outside, and is the only one (the caller holds a lock).
//! - Whoever takes the count to 0 under the flag wakes the stopper; whoever lowers the flag wakes all who wait.
//!
//! The poll words are hints: a mutator that misses one stops at its next poll.

use gleaner_base::sync::{AtomicU32, Ordering, futex_wait, futex_wake, spin_hint, spin_rounds};

const STOP: u32 = 1 << 31;
const COUNT: u32 = STOP - 1;

/// The word.
#[derive(Debug)]
pub struct PollGate {
    /// The flag and the count. Changed by read-modify-writes: a mutator's Release on leaving partners the stopper's
    /// Acquire, the stopper's Release on opening partners the Acquire of whoever enters.
    word: AtomicU32,
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
            Self { word: AtomicU32::new(0) }
        }
    }

    /// A mutator comes in; waits while the world is stopped.
    pub fn enter(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & STOP != 0 {
                futex_wait(&self.word, word);
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
        if before == STOP | 1 {
            // The stopper sleeps on the same word as those who want to enter, so all are woken.
            futex_wake(&self.word, u32::MAX >> 1);
        }
    }

    /// Stopper, outside: nobody may enter from now on. Then it tells the mutators, and waits with [`PollGate::drain`].
    pub fn close(&self) {
        let before = self.word.fetch_or(STOP, Ordering::Acquire);
        debug_assert_eq!(before & STOP, 0, "two threads stop the world");
    }

    /// Stopper: waits until nobody is inside. Who zeroes a block is out again in a microsecond or two, so it spins first.
    pub fn drain(&self) {
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
                futex_wait(&self.word, word);
            }
        }
    }

    /// Stopper: the world goes on.
    pub fn open(&self) {
        self.word.fetch_and(!STOP, Ordering::Release);
        futex_wake(&self.word, u32::MAX >> 1);
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
