//! What only the holder of the lock `collecting` touches, the list of mutators above all; and how threads attach and
//! detach while others stop the world.
//!
//! The list belongs to the state, whose type is the heap's. What is here is the order in which things happen: a thread
//! that attaches is in the list before it first enters the gate, and one that detaches leaves the gate for good before
//! it takes itself off the list. In between it is visited by collections as a mutator that blocks.
//!
//! # Invariants
//! - The state is touched by the holder of the lock alone. Its holder is outside of the gate, so that nobody whom it
//!   waits for waits for the lock; or waits for nobody.
//! - The thread that stops the world holds the lock until the world runs again: the list does not change meanwhile.
//! - A mutator inside the gate is in the list, so no collection misses it. A record is freed when it was taken off the
//!   list, so no collection visits it afterwards.

use gleaner_base::sync::{AtomicU32, Ordering, RawLock, UnsafeCell};

use super::poll::PollGate;

/// A state behind the lock.
#[derive(Debug)]
pub struct Collecting<S> {
    pub(super) lock: RawLock,
    /// What a fork has done to this heap: see [`fork`](super::fork). Written by the thread that forks.
    pub(super) forking: AtomicU32,
    /// Protected by `lock`.
    pub(super) state: UnsafeCell<S>,
}

// SAFETY: the state is lent to the holder of the lock alone.
unsafe impl<S> Sync for Collecting<S> {}
// SAFETY: nothing in it belongs to a thread; the heap that owns the state vouches for what it refers to.
unsafe impl<S> Send for Collecting<S> {}

/// Gives the lock back, also when the body panics.
struct Held<'a>(&'a RawLock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<S> Collecting<S> {
    /// Nobody holds it.
    pub fn new(state: S) -> Collecting<S> {
        Collecting {
            lock: RawLock::new(),
            forking: AtomicU32::new(0),
            state: UnsafeCell::new(state),
        }
    }

    /// Takes the lock. No thread sleeps on it while another forks, which would hold up the fork: that may wait for the
    /// same thread in another heap, and the holder of the lock for the thread that forks.
    fn lock(&self, gate: &PollGate) {
        // Relaxed: it is raised before the thread that forks has held the lock, or while it waits for its holder; and
        // that thread wakes the sleepers until they have seen it.
        let forks = || self.forking.load(Ordering::Relaxed) != 0;
        loop {
            if self.lock.lock_unless(forks) {
                if !forks() {
                    return;
                }
                self.lock.unlock();
            }
            gate.stand_aside();
        }
    }

    /// Lends the state. The caller is outside of the gate.
    pub fn with<R>(&self, gate: &PollGate, body: impl FnOnce(&mut S) -> R) -> R {
        self.lock(gate);
        let _held = Held(&self.lock);
        // SAFETY: `lock` is held, which protects the state.
        self.state.with_mut(|state| body(unsafe { &mut *state }))
    }

    /// Lends the state to a thread that may be inside of the gate, if nobody holds the lock. The body waits for nobody.
    pub fn try_with<R>(&self, body: impl FnOnce(&mut S) -> R) -> Option<R> {
        if !self.lock.try_lock() {
            return None;
        }
        let _held = Held(&self.lock);
        // SAFETY: `lock` is held, which protects the state.
        Some(self.state.with_mut(|state| body(unsafe { &mut *state })))
    }

    /// Runs `body` if the calling thread, a mutator inside of the gate, is the only one in the list, which has as many as
    /// `mutators` says, and nobody holds the lock. None comes into the list meanwhile. Whether it ran.
    pub fn while_alone(&self, mutators: impl FnOnce(&S) -> usize, body: impl FnOnce()) -> bool {
        self.try_with(|state| {
            let is_alone = mutators(state) == 1;
            if is_alone {
                body();
            }
            is_alone
        })
        .unwrap_or(false)
    }

    /// A thread becomes a mutator: `add` puts it into the list, and then it enters the gate; or neither, and `None`.
    pub fn attach<R>(&self, gate: &PollGate, add: impl FnOnce(&mut S) -> Option<R>) -> Option<R> {
        let added = self.with(gate, add)?;
        gate.enter();
        Some(added)
    }

    /// A mutator that has left the gate for good stops being one: `remove` takes it off the list. Its record may be
    /// freed afterwards.
    pub fn detach<R>(&self, gate: &PollGate, remove: impl FnOnce(&mut S) -> R) -> R {
        self.with(gate, remove)
    }
}

/// Waits until no mutator is inside the gate; `polls` are the poll words of all. The caller holds the lock.
pub fn stop<'a>(gate: &PollGate, polls: impl Iterator<Item = &'a AtomicU32>) {
    announce(gate, polls);
    gate.drain();
}

/// The first half of [`stop`]: nobody comes in, and all are told. Then they are waited for.
pub fn announce<'a>(gate: &PollGate, polls: impl Iterator<Item = &'a AtomicU32>) {
    gate.close();
    tell(polls);
}

/// Ends what [`stop`] began, with the same mutators.
pub fn resume<'a>(gate: &PollGate, polls: impl Iterator<Item = &'a AtomicU32>) {
    take_back(polls);
    gate.open();
}

/// As [`resume`], by a mutator, which is inside the gate then before anybody else stops the world.
pub fn resume_inside<'a>(gate: &PollGate, polls: impl Iterator<Item = &'a AtomicU32>) {
    take_back(polls);
    gate.open_from_inside();
}

/// In a poll word: all are to stop.
const STOP: u32 = 1;
/// In a poll word: the mutator is interrupted. Set by any thread, taken by the mutator.
pub const INTERRUPT: u32 = 2;

/// In a poll word: the mutator has a note ([`handshake`](super::handshake)).
pub(super) const HANDSHAKE: u32 = 4;

/// Asks all to stop. The words are hints: relaxed.
pub fn tell<'a>(polls: impl Iterator<Item = &'a AtomicU32>) {
    for poll in polls {
        poll.fetch_or(STOP, Ordering::Relaxed);
    }
}

/// Asks none to stop any more.
pub fn take_back<'a>(polls: impl Iterator<Item = &'a AtomicU32>) {
    for poll in polls {
        poll.fetch_and(!STOP, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A mutator that only polls looks at its word and at nothing else.
    #[test]
    fn all_mutators_are_told_to_stop_and_to_go_on() {
        let gate = PollGate::new();
        let polls = [0, INTERRUPT, 0].map(AtomicU32::new);
        let told = || polls.each_ref().map(|poll| poll.load(Ordering::Relaxed));
        announce(&gate, polls.iter());
        assert_eq!(told(), [STOP, STOP | INTERRUPT, STOP]);
        resume(&gate, polls.iter());
        assert_eq!(told(), [0, INTERRUPT, 0]);
    }
}
