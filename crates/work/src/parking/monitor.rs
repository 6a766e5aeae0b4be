//! The monitor: one lock and one condition for all threads (ASPLOS 2013, 2.3.1 and 2.3.3; 3.1 says what it costs).
//!
//! The idea: which threads are called, which are in the phase and, with `task-queue=locked`, which task is next are
//! guarded by one lock, and a thread that waits, for whatever reason, sleeps on one condition. Each change that a thread may wait for is a
//! broadcast: all wake, take the lock one after the other, and the threads that it does not concern sleep again. The
//! lock spins for a bounded time and then sleeps; the condition is a word that each broadcast changes, and sleeping on it
//! begins at once.
//!
//! # What the paper's version does, and ours
//! - There, the VM thread wakes the GC threads by their monitor and sleeps on one of its own. Here the collecting
//!   thread works too, as the leader, so the second monitor has nobody to wait on it.
//! - There, a thread that runs out of work raises an atomic counter and polls it in a bounded loop, then looks once
//!   into the queues; it leaves if all have raised the counter, *or if all queues look empty*. Then it counts itself
//!   under the lock, wakes the thread that drew the final task, and sleeps; when all are counted, the phase is over.
//!   Here a worker polls as under the other policy ([`Worker::offer`](crate::Worker::offer)) and looks each time, but
//!   empty queues prove nothing: the phase is finished when no worker is active, and [`Termination`] says so, which
//!   carries the number of the phase. A helper that has polled in vain leaves in the paper's way, counted under the
//!   lock that it then sleeps on. It is not lost to the phase: an announcement of work calls it back.
//! - There, the count goes up to the number of GC threads, so the end waits for the last of them to be scheduled. Here
//!   the leader stands for the final task and waits for the helpers that joined. One that wakes too late finds the
//!   phase closed, so there is nothing it could disturb.
//! - There, a thread cannot miss a call to the next phase because it holds the lock from when it is counted until it
//!   sleeps, and calling takes the lock. This is kept.
//!
//! # Invariants
//! - The state and the condition are changed by the holder of the lock. A thread sleeps on the condition as it was when
//!   it found, under that lock, that it has to wait; so no broadcast after that is missed.
//! - A call is a bit of `called`, which the called worker takes. It may come for a phase that is over: joining fails.
//! - The lock is taken by workers, and by the collecting thread while it leads or dismisses them. Work of a phase is
//!   done without it, but for taking a task if the queue is locked.
//!
//! Helpers run it for their whole life, the leader in a phase.

use gleaner_base::sync::{
    AtomicU32, AtomicU64, Counter, Ordering, UnsafeCell, futex_wait, futex_wake,
};

use super::policy::{Park, hold_up, is_late};
use crate::tally::CountedLock;
use crate::termination::{LEADER, PhaseNumber, Termination};

/// What the lock guards.
#[derive(Debug)]
struct State {
    /// The phase of the last call to helpers.
    phase: PhaseNumber,
    /// One bit for each worker that was called and has not come.
    called: u64,
    /// How many sleep, or are on their way to it or back.
    sleepers: u32,
    /// Whether the helpers are to leave for good.
    dismissed: bool,
}

impl State {
    const NEW: Self = Self {
        phase: PhaseNumber::NONE,
        called: 0,
        sleepers: 0,
        dismissed: false,
    };
}

/// One lock, and one condition on which all sleep.
#[derive(Debug)]
#[repr(align(128))]
pub struct Monitor {
    lock: CountedLock,
    /// How many broadcasts there were, wrapping. Changed under the lock; the system reads it when a thread falls
    /// asleep.
    condition: AtomicU32,
    state: UnsafeCell<State>,
    /// How many sleeps of helpers ended. The holder of the lock adds.
    wakeups: Counter,
}

// SAFETY: the state is accessed under the lock.
unsafe impl Sync for Monitor {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Monitor {}

impl Default for Monitor {
    fn default() -> Self {
        Self::new()
    }
}

impl Monitor {
    gleaner_base::sync_const_fn! {
        /// Nobody waits, and nobody is called.
        pub fn new() -> Self {
            Self {
                lock: CountedLock::new(),
                condition: AtomicU32::new(0),
                state: UnsafeCell::new(State::NEW),
                wakeups: Counter::new(),
            }
        }
    }

    /// The lock, which guards the tasks of the phase as well if they are locked.
    pub(crate) fn lock(&self) -> &CountedLock {
        &self.lock
    }

    /// Under the lock: reads or changes the state.
    fn state<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        debug_assert!(self.lock.is_locked());
        // SAFETY: the callers hold the lock, and no body takes the state again.
        self.state.with_mut(|state| body(unsafe { &mut *state }))
    }

    /// Under the lock, which is let go while the caller sleeps: waits for a broadcast.
    fn sleep(&self) {
        let seen = self.condition.load(Ordering::Relaxed);
        self.state(|state| state.sleepers += 1);
        self.lock.unlock();
        futex_wait(&self.condition, seen);
        self.lock.lock();
        self.state(|state| state.sleepers -= 1);
    }

    /// Under the lock: wakes all that sleep.
    fn broadcast(&self) {
        let seen = self.condition.load(Ordering::Relaxed);
        self.condition
            .store(seen.wrapping_add(1), Ordering::Relaxed);
        if self.state(|state| state.sleepers) > 0 {
            futex_wake(&self.condition, u32::MAX);
        }
    }

    /// Under the lock: whether the worker was called. It has come now.
    fn take_call(&self, index: usize) -> bool {
        self.state(|state| {
            let called = state.called & 1 << index != 0;
            state.called &= !(1 << index);
            called
        })
    }

    /// Under the lock: takes a call to a phase and joins it, if there is a call and the phase is open.
    fn join(&self, index: usize, termination: &Termination) -> Option<PhaseNumber> {
        let called = self.take_call(index);
        let phase = self.state(|state| state.phase);
        (called && termination.join(phase)).then_some(phase)
    }
}

impl Park for Monitor {
    fn call(&self, phase: PhaseNumber, workers: usize) {
        if workers > 1 {
            self.lock.lock();
            self.state(|state| {
                state.phase = phase;
                state.called = u64::MAX >> (u64::BITS as usize - workers) & !(1 << LEADER);
            });
            self.broadcast();
            self.lock.unlock();
        }
    }

    fn serve(
        &self,
        index: usize,
        termination: &Termination,
        work: &mut dyn FnMut(PhaseNumber) -> bool,
    ) {
        self.lock.lock();
        while !self.state(|state| state.dismissed) {
            let Some(phase) = self.join(index, termination) else {
                self.sleep();
                self.wakeups.add_alone(1);
                if is_late() {
                    self.lock.unlock();
                    hold_up();
                    self.lock.lock();
                }
                continue;
            };
            self.lock.unlock();
            let active = work(phase);
            self.lock.lock();
            if termination.leave(phase, active).leader_may_wait {
                self.broadcast();
            }
        }
        self.lock.unlock();
    }

    /// A worker that rests is in the mask of the idle: nothing else is needed.
    fn rest(&self, _: usize, _: PhaseNumber) {}

    /// A call that came meanwhile stays: the worker's next wait ends at once.
    fn rise(&self, _: usize, _: PhaseNumber) {}

    /// A worker that polls looks for work by itself, as in the paper; it is called in case that it falls asleep.
    fn is_called(&self, _: usize) -> bool {
        false
    }

    fn wait(&self, _: PhaseNumber, done: &dyn Fn() -> bool) {
        self.lock.lock();
        while !self.take_call(LEADER) && !done() {
            self.sleep();
        }
        self.lock.unlock();
    }

    fn tell_leader(&self, _: PhaseNumber) {
        self.lock.lock();
        self.broadcast();
        self.lock.unlock();
    }

    /// All wanted workers that wait are called: all wake anyway.
    fn call_back(&self, wanted: u64, idle: &AtomicU64, _: PhaseNumber) {
        self.lock.lock();
        let waiting = idle.fetch_and(!wanted, Ordering::AcqRel) & wanted;
        if waiting != 0 {
            self.state(|state| state.called |= waiting);
            self.broadcast();
        }
        self.lock.unlock();
    }

    fn wakeups(&self) -> u64 {
        self.wakeups.get()
    }

    fn dismiss(&self, _: usize) {
        self.lock.lock();
        self.state(|state| state.dismissed = true);
        self.broadcast();
        self.lock.unlock();
    }

    fn reset(&self) {
        self.lock.reset_after_fork();
        self.state.with_mut(|state| {
            // SAFETY: the child has one thread.
            unsafe { *state = State::NEW }
        });
    }
}
