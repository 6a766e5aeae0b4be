//! Seats: the futex word of each thread, on which it waits to be called to a phase.
//!
//! The idea (ASPLOS 2013, 3.1.2, where one timestamp serves all): a seat's word carries the number of
//! the phase beside the state of the thread, and the futex sleeps only if the word is still what
//! the sleeper saw. So a thread that was preempted on its way to sleep, however long, finds
//! either an untouched word or a call. Each thread has a seat of its own: a call wakes the
//! thread that is wanted and no other.
//!
//! The leader calls all helpers of a phase, and wakes two of those that sleep; a helper that joins wakes two more. So
//! the leader begins to work after two system calls and not after one for each helper, they wake each other in
//! logarithmic time, and those whose turn does not come before the phase is over sleep on.
//!
//! # Invariants
//! - `AWAKE`, `IDLE`, `ASLEEP` are entered by the seat's owner, `CALLED` by others. A call is
//!   never overwritten except by a call to a later phase or by the owner that takes it.
//! - `ASLEEP` is written before every futex wait; the thread that replaces it makes the wake call, or puts the seat
//!   among those that are `due`, and the thread that takes it from there makes the wake call. So a call to a thread that
//!   still spins costs no system call, and no call is lost.
//! - Each helper that joins a phase wakes two of those that are due and have not taken their calls, and so does the
//!   leader when it has called all. So while a phase is open, a thread is on its way to wake the rest. A seat stays due
//!   when the phase is over: its owner sleeps, and a later call replaces the word that the owner will find.
//! - A recall names its phase and succeeds only on a word of that phase.
//!
//! The owner is a helper for its whole life, or, for the leader's seat, whichever thread leads.

use gleaner_base::sync::{
    AtomicU32, AtomicU64, Counter, Ordering, fence, futex_wait, futex_wake, model_size, spin_hint,
    spin_rounds,
};

use super::policy::{Park, hold_up, is_late};
use crate::termination::{LEADER, MAX_WORKERS, PhaseNumber, Termination};

/// The owner has nothing to do; it spins or is about to sleep. A seat begins so, and a crew in a static as bytes of 0.
const IDLE: u32 = 0;
/// The owner has taken its last call and is busy.
const AWAKE: u32 = 1;
/// The owner sleeps on the futex, or is about to.
const ASLEEP: u32 = 2;
/// Another thread called the owner to the phase in the word.
const CALLED: u32 = 3;
/// The owner is to leave its thread function.
const DISMISSED: u32 = 4;

const STATE_BITS: u32 = 3;
const STATE_MASK: u32 = (1 << STATE_BITS) - 1;

/// Rounds of spinning before a thread sleeps: some ten microseconds, the price of being woken.
const SPIN: u32 = 200;

const fn word(phase: PhaseNumber, state: u32) -> u32 {
    phase.get() << STATE_BITS | state
}

/// What a waiting thread was called to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// To join this phase, if it is still open.
    To(PhaseNumber),
    /// To leave for good.
    Dismissed,
}

/// One thread's place to wait.
#[derive(Debug)]
#[repr(align(128))]
pub struct Seat {
    /// Phase number and state. All changes are read-modify-writes with AcqRel (or stores where
    /// nobody else can interfere): a call releases what the caller wrote to the owner, and the
    /// owner's `rest` is released to callers.
    word: AtomicU32,
    /// How often the owner slept and was woken. The thread that wakes it adds, beside the system call.
    wakeups: Counter,
}

impl Default for Seat {
    fn default() -> Self {
        Self::new()
    }
}

impl Seat {
    gleaner_base::sync_const_fn! {
        /// A seat whose owner has not arrived yet: a call to it is kept for the owner.
        pub fn new() -> Self {
            Self { word: AtomicU32::new(IDLE), wakeups: Counter::new() }
        }
    }

    /// Back to the new state. Only in a forked child, before it has helpers.
    pub fn reset(&self) {
        self.word.store(IDLE, Ordering::Relaxed);
    }

    /// The leader sits down for a phase that is not published yet. Only recalls to earlier phases
    /// can be under way, and they fail on either value of the word.
    pub fn occupy(&self, phase: PhaseNumber) {
        self.word.store(word(phase, AWAKE), Ordering::Release);
    }

    /// The leader calls the owner to a phase that has begun, and wakes it if it sleeps.
    pub fn call(&self, phase: PhaseNumber) {
        if self.call_sleeper(phase) {
            self.wake();
        }
    }

    /// As [`Seat::call`], but the caller sees to it that the owner is woken if this is true.
    fn call_sleeper(&self, phase: PhaseNumber) -> bool {
        self.replace(word(phase, CALLED))
    }

    /// Tells the owner to leave for good. No phase is running.
    pub fn dismiss(&self) {
        self.replace(DISMISSED);
        // Also one that was due.
        futex_wake(&self.word, 1);
    }

    /// Whether the owner sleeps; then it is to be woken.
    fn replace(&self, new: u32) -> bool {
        self.word.swap(new, Ordering::AcqRel) & STATE_MASK == ASLEEP
    }

    /// Wakes the owner, which slept when the caller replaced the word.
    fn wake(&self) {
        self.wakeups.add(1);
        futex_wake(&self.word, 1);
    }

    /// Wakes the owner unless it has taken its call; whether it had not.
    ///
    /// An owner that was about to sleep may have found its call by itself, before the leader put it among those that are
    /// due: it then woke nobody in its turn. So it counts for nothing. A read-modify-write, since otherwise both could
    /// miss each other: the owner takes its call later than this, and sees those that are due, or this sees that it did.
    fn wake_if_called(&self) -> bool {
        let is_called = self.word.fetch_add(0, Ordering::AcqRel) & STATE_MASK == CALLED;
        if is_called {
            self.wake();
        }
        is_called
    }

    /// Calls the owner once more to `phase`, if it rests in that phase; whether it did.
    pub fn recall(&self, phase: PhaseNumber) -> bool {
        let mut seen = self.word.load(Ordering::Acquire);
        while seen == word(phase, IDLE) || seen == word(phase, ASLEEP) {
            match self.exchange(seen, word(phase, CALLED)) {
                Ok(()) => {
                    if seen & STATE_MASK == ASLEEP {
                        self.wake();
                    }
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Owner: has nothing to do in `phase`. No effect if a call is waiting.
    pub fn rest(&self, phase: PhaseNumber) {
        let _ = self.exchange(word(phase, AWAKE), word(phase, IDLE));
    }

    /// Owner, a member of `phase`: is busy again, and takes the call if there is one.
    pub fn rise(&self, phase: PhaseNumber) {
        // A member's word can change only from IDLE to CALLED: the leader waits for members before
        // it calls anybody to the next phase.
        if self
            .exchange(word(phase, IDLE), word(phase, AWAKE))
            .is_err()
        {
            let _ = self.exchange(word(phase, CALLED), word(phase, AWAKE));
        }
    }

    /// Owner: whether a call waits.
    pub fn is_called(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE_MASK >= CALLED
    }

    /// Owner, at rest: spins, then sleeps, until it is called, and takes the call.
    pub fn wait(&self) -> Call {
        for _ in 0..spin_rounds(SPIN) {
            if self.is_called() {
                break;
            }
            spin_hint();
        }
        loop {
            // Acquire partners the release half of the caller's exchange.
            let seen = self.word.load(Ordering::Acquire);
            match seen & STATE_MASK {
                DISMISSED => return Call::Dismissed,
                CALLED => {
                    let phase = PhaseNumber::new(seen >> STATE_BITS);
                    if self.exchange(seen, word(phase, AWAKE)).is_ok() {
                        return Call::To(phase);
                    }
                }
                ASLEEP => futex_wait(&self.word, seen),
                _ => {
                    let _ = self.exchange(seen, seen & !STATE_MASK | ASLEEP);
                }
            }
        }
    }

    fn exchange(&self, old: u32, new: u32) -> Result<(), u32> {
        self.word
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }
}

/// How many sleepers a thread wakes of those that were called.
const WOKEN_BY_EACH: usize = model_size(2, 1);

/// A seat for each worker, by index.
#[derive(Debug)]
pub(crate) struct Seats {
    seats: [Seat; MAX_WORKERS],
    /// One bit for each seat whose owner was called while it slept and is not woken yet. Set by the leader, taken by
    /// the thread that wakes the owner.
    due: AtomicU64,
}

impl Seats {
    gleaner_base::sync_const_fn! {
        /// Seats whose owners have not arrived yet.
        pub(crate) fn new() -> Self {
            Self {
                seats: gleaner_base::sync_array![Seat::new(); MAX_WORKERS],
                due: AtomicU64::new(0),
            }
        }
    }

    /// Wakes some of those that were called in their sleep.
    fn wake_some(&self) {
        let mut woken = 0;
        while woken < WOKEN_BY_EACH {
            let due = self.due.load(Ordering::Acquire);
            if due == 0 {
                return;
            }
            let lowest = due & due.wrapping_neg();
            if self.due.fetch_and(!lowest, Ordering::AcqRel) & lowest != 0 {
                woken += usize::from(self.seats[lowest.trailing_zeros() as usize].wake_if_called());
            }
        }
    }
}

impl Park for Seats {
    fn call(&self, phase: PhaseNumber, workers: usize) {
        // Before the first call: only a called worker can join and recall the leader.
        self.seats[LEADER].occupy(phase);
        let mut slept = 0;
        for (index, seat) in self.seats.iter().enumerate().take(workers).skip(1) {
            slept |= u64::from(seat.call_sleeper(phase)) << index;
        }
        self.due.fetch_or(slept, Ordering::AcqRel);
        self.wake_some();
    }

    fn serve(
        &self,
        index: usize,
        termination: &Termination,
        work: &mut dyn FnMut(PhaseNumber) -> bool,
    ) {
        let seat = &self.seats[index];
        while let Call::To(phase) = seat.wait() {
            if is_late() {
                hold_up();
            }
            if termination.join(phase) {
                self.wake_some();
                let active = work(phase);
                if termination.leave(phase, active).leader_may_wait {
                    self.tell_leader(phase);
                }
            }
            if is_late() {
                hold_up();
            }
            seat.rest(phase);
        }
    }

    fn rest(&self, index: usize, phase: PhaseNumber) {
        self.seats[index].rest(phase);
    }

    fn rise(&self, index: usize, phase: PhaseNumber) {
        self.seats[index].rise(phase);
    }

    fn is_called(&self, index: usize) -> bool {
        self.seats[index].is_called()
    }

    fn wait(&self, phase: PhaseNumber, done: &dyn Fn() -> bool) {
        self.seats[LEADER].rest(phase);
        // Partners the fence in `tell_leader`: either the helper sees the leader at rest, or the
        // leader sees what the helper did.
        fence(Ordering::SeqCst);
        if !done() {
            self.seats[LEADER].wait();
        }
    }

    /// The leader may be in a later phase by now: then this does nothing.
    fn tell_leader(&self, phase: PhaseNumber) {
        fence(Ordering::SeqCst); // partners the fence in `wait`
        self.seats[LEADER].recall(phase);
    }

    /// One worker is called, the lowest: a worker that finds more than it needs announces in turn.
    fn call_back(&self, wanted: u64, idle: &AtomicU64, phase: PhaseNumber) {
        let mut waiting = idle.load(Ordering::Relaxed) & wanted;
        while waiting != 0 {
            let index = waiting.trailing_zeros() as usize;
            let bit = 1 << index;
            // AcqRel partners the `fetch_or` in `offer`: the seat read next is at least as new.
            let was_idle = idle.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
            if was_idle && self.seats[index].recall(phase) {
                return;
            }
            waiting &= !bit;
        }
    }

    fn wakeups(&self) -> u64 {
        self.seats[LEADER + 1..]
            .iter()
            .map(|seat| seat.wakeups.get())
            .sum()
    }

    fn dismiss(&self, helpers: usize) {
        for seat in &self.seats[1..=helpers] {
            seat.dismiss();
        }
    }

    fn reset(&self) {
        self.seats.iter().for_each(Seat::reset);
        self.due.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_recall_counts_only_in_its_phase_and_at_rest() {
        let (first, second) = (PhaseNumber::new(1), PhaseNumber::new(2));
        let seat = Seat::new();
        seat.occupy(second);
        assert!(!seat.recall(second), "awake");
        seat.rest(second);
        assert!(!seat.recall(first) && !seat.is_called());
        assert!(seat.recall(second) && seat.is_called());
        assert!(!seat.recall(second), "called already");
        assert_eq!(seat.wait(), Call::To(second));
    }

    #[test]
    fn who_sleeps_is_woken_and_counted_and_nobody_else_is() {
        let (first, second) = (PhaseNumber::new(1), PhaseNumber::new(2));
        let seats = Seats::new();
        let seat = &seats.seats[3];
        let sleep = |phase, state| seat.exchange(word(phase, state), word(phase, ASLEEP));
        seats.call(first, 4);
        assert_eq!(seats.wakeups(), 0, "it has not arrived");
        assert_eq!(seat.wait(), Call::To(first));
        seat.rest(first);
        sleep(first, IDLE).unwrap();
        assert!(seat.recall(first));
        assert_eq!(seats.wakeups(), 1, "called back");
        assert_eq!(seat.wait(), Call::To(first));
        sleep(first, AWAKE).unwrap();
        seats.call(second, 4);
        assert_eq!(seats.wakeups(), 2, "called");
        let leader = &seats.seats[LEADER];
        leader
            .exchange(word(second, AWAKE), word(second, ASLEEP))
            .unwrap();
        seats.tell_leader(second);
        assert_eq!(seats.wakeups(), 2, "the leader is no helper");
    }

    /// The owner came to a phase and sleeps.
    fn fall_asleep(seat: &Seat, phase: PhaseNumber) {
        seat.call(phase);
        assert_eq!(seat.wait(), Call::To(phase));
        seat.rest(phase);
        seat.exchange(word(phase, IDLE), word(phase, ASLEEP))
            .unwrap();
    }

    #[test]
    fn sleepers_are_woken_two_at_a_time_and_stay_due_until_then() {
        let (first, second) = (PhaseNumber::new(1), PhaseNumber::new(2));
        let seats = Seats::new();
        // Worker 1 does not sleep.
        for seat in &seats.seats[2..=6] {
            fall_asleep(seat, first);
        }
        let due = || seats.due.load(Ordering::Relaxed);
        seats.call(first.next(), 7);
        assert_eq!((due(), seats.wakeups()), (0b111_0000, 2));
        // The phase is over before the others are woken; the next one calls two of them, and those that it calls
        // are woken first.
        seats.call(second.next(), 5);
        assert_eq!((due(), seats.wakeups()), (0b100_0000, 4));
        for seat in &seats.seats[1..=4] {
            assert_eq!(seat.wait(), Call::To(second.next()));
        }
        // A helper that joins wakes others.
        seats.wake_some();
        assert_eq!((due(), seats.wakeups()), (0, 5));
        seats.wake_some();
        assert_eq!(seats.wakeups(), 5);
    }

    /// A helper that was about to sleep took its call before the leader said who is due, and woke nobody.
    #[test]
    fn who_is_awake_is_not_counted_among_those_that_are_woken() {
        let (first, second) = (PhaseNumber::new(1), PhaseNumber::new(2));
        let seats = Seats::new();
        for seat in &seats.seats[1..=6] {
            fall_asleep(seat, first);
            assert!(seat.call_sleeper(second));
        }
        assert_eq!(seats.seats[1].wait(), Call::To(second));
        assert_eq!(seats.seats[2].wait(), Call::To(second));
        seats.due.store(0b111_1110, Ordering::Relaxed);
        seats.wake_some();
        let due = seats.due.load(Ordering::Relaxed);
        assert_eq!((due, seats.wakeups()), (0b110_0000, 2), "3 and 4");
    }

    #[test]
    fn a_later_call_replaces_an_earlier_and_dismissal_replaces_all() {
        let (first, second) = (PhaseNumber::new(1), PhaseNumber::new(2));
        let seat = Seat::new();
        seat.call(first);
        seat.call(second);
        assert_eq!(seat.wait(), Call::To(second));
        seat.rest(first);
        assert!(!seat.recall(second), "rested in the wrong phase");
        seat.dismiss();
        assert_eq!(seat.wait(), Call::Dismissed);
    }
}
