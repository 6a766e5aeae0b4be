//! Forking while other threads use the heap: the child has a copy of it in which no thread was at work.
//!
//! The thread that forks, and is perhaps a mutator inside the gate, *stands*: it stays inside, so nothing that it holds
//! moves, and no collection begins. It closes the gate and waits until all others inside have come out at a poll, or
//! stands, too, since it waits for the same fork. If another thread is about to stop the world, it has closed the gate
//! already, holds the lock, and waits for those that stand. The heap is still then, too: the stopper has touched
//! nothing yet.
//!
//! # Invariants
//! - One thread of the process forks at a time: it holds a lock of the door's, under which threads also cease to stand.
//! - Between [`Collecting::hold_still`] and [`Collecting::let_go`] every thread inside stands, and no thread holds the
//!   lock but a stopper that waits for those that stand. A thread that comes for the lock or to the gate stands aside:
//!   it waits for the door's lock, and stands in other heaps where it is inside.
//! - The intention is declared in all heaps before any is waited for: a thread inside one heap that waits for the gate
//!   or the lock of another finds it there, and stands.
//! - No thread that has ended inside the gate is waited for: a stopper takes such threads out, and so does the thread
//!   that forks, under the lock.
//! - So in the child the list of mutators is whole, their buffers are whole, and every lock that is taken inside the
//!   gate is free. The lock of `collecting` may have been a stopper's, and is made anew.
//!
//! # The order
//! The door's lock, under which processes fork and heaps come and go; then all heaps, as here; then
//! locks whose holders wait for nobody: types, listeners, lists of threads, the list of mutators of all heaps.

use gleaner_base::sync::{AtomicU32, Ordering, futex_wait_timeout, model_size, yield_now};

use super::collecting::Collecting;
use super::poll::PollGate;

/// A thread is about to fork.
const WANTED: u32 = 1;
/// It has closed the gate.
const CLOSED: u32 = 2;

impl<S> Collecting<S> {
    /// The thread that forks says so: in all heaps of the process, before it waits for any.
    pub fn begin_fork(&self, gate: &PollGate) {
        // Relaxed: a thread that takes the lock after this one sees it, and one that took it before is waited for.
        self.forking.store(WANTED, Ordering::Relaxed);
        gate.begin_fork();
    }

    /// The thread that forks, and stands if it is inside the gate: whether no thread touches the heap any more. That
    /// stays true; until all heaps say so, all are asked again and again. `set_polls` sets the poll words of all
    /// mutators. `bury` goes out of the gate in the place of threads that have ended inside, when a thread is
    /// `overdue`.
    pub fn hold_still(
        &self,
        gate: &PollGate,
        set_polls: impl Fn(&S, bool),
        overdue: bool,
        bury: impl FnOnce(&mut S),
    ) -> bool {
        // Threads that sleep on the lock may be waited for in another heap.
        self.lock.wake_all();
        if self.forking.load(Ordering::Relaxed) == WANTED {
            if !self.lock.try_lock() {
                // The holder of the lock stops the world, and waits for threads that stand: this asks that it waits for
                // no others.
                return gate.has_standing() && gate.is_still();
            }
            gate.close();
            // SAFETY: `lock` is held, which protects the state.
            self.state.with(|state| set_polls(unsafe { &*state }, true));
            self.forking.store(CLOSED, Ordering::Relaxed);
            self.lock.unlock();
        } else if overdue && !gate.is_still() {
            // No thread has the lock for long: those that come for it stand aside.
            self.lock.lock();
            // SAFETY: `lock` is held, which protects the state.
            self.state.with_mut(|state| bury(unsafe { &mut *state }));
            self.lock.unlock();
        }
        gate.is_still()
    }

    /// In the parent: ends what [`Collecting::begin_fork`] began, with the same mutators.
    pub fn let_go(&self, gate: &PollGate, set_polls: impl Fn(&S, bool)) {
        if self.forking.load(Ordering::Relaxed) == CLOSED {
            self.lock.lock();
            // SAFETY: `lock` is held, which protects the state.
            self.state
                .with(|state| set_polls(unsafe { &*state }, false));
            self.lock.unlock();
            gate.open();
        }
        gate.end_fork();
        self.forking.store(0, Ordering::Relaxed);
    }

    /// In the child, whose one thread is inside the gate or not: the same. `keep` makes the state that of this thread.
    pub fn let_go_in_child(&self, gate: &PollGate, inside: u32, keep: impl FnOnce(&mut S)) {
        self.lock.reset_after_fork();
        // SAFETY: the process has one thread, which is not using the state.
        self.state.with_mut(|state| keep(unsafe { &mut *state }));
        gate.reset_after_fork(inside);
        self.forking.store(0, Ordering::Relaxed);
    }
}

/// Waits by looking again and again: forks are rare, so the threads that are waited for make no call to wake this one.
#[derive(Debug)]
pub struct Patience {
    rounds: u32,
    nobody: AtomicU32,
}

impl Patience {
    /// How many rounds take about a tenth of a second.
    const OVERDUE: u32 = model_size(1000, 2) as u32;

    /// No time was spent yet.
    #[allow(
        clippy::new_without_default,
        reason = "it is no value of a type, but the begin of a wait"
    )]
    pub fn new() -> Patience {
        Patience {
            rounds: 0,
            nobody: AtomicU32::new(0),
        }
    }

    /// Waits for a moment; whether it is time to look whether threads that are waited for have ended.
    pub fn wait(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds < 100 {
            yield_now();
        } else {
            futex_wait_timeout(&self.nobody, 0, 100_000);
        }
        self.rounds.is_multiple_of(Patience::OVERDUE)
    }
}
