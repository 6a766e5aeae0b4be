//! The crew: the leader publishes a phase, wakes helpers, and works with them until it is finished.
//! Helpers are made when they are first wanted.
//!
//! The idea: helpers wait ([`crate::parking`]) for the whole life of the process. A run publishes a phase, calls as
//! many helpers as are wanted and works at once; a helper that gets a processor in time joins, a helper that does not
//! finds the phase closed and waits for the next. The run returns when the phase is finished and all helpers that had
//! joined are out again.
//!
//! # Invariants
//! - The phase object is touched only by workers inside the phase: the leader between `begin` and
//!   `end`, a helper between a successful `join` and its `leave`. `run` returns after the last.
//! - Only one thread leads at a time (the caller holds the collector's lock), and no phase is
//!   running while a process forks (the fork hook holds the same lock).
//! - The idle mask is changed only by workers inside the phase, and by the leader before it opens
//!   one. It is a hint; parking decides.
//!
//! `run` and `ensure_helpers` run on mutator threads, `serve` on the helpers. Helpers never call
//! malloc, std or libc.

use core::fmt;
use core::ptr::NonNull;

use gleaner_base::options;
use gleaner_base::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering, UnsafeCell};

use crate::mailbox::Mailboxes;
use crate::shared::Shared;
use crate::tally::{CountedLock, Synchronisation, Tally};
use crate::termination::{LEADER, MAX_WORKERS, PhaseNumber};
use crate::worker::Worker;

const FORGOT_MAIL: &str = "a worker left a phase that has boxes without a last offer";

/// The work of one parallel phase.
pub trait Phase: Sync {
    /// How many tasks there are when the phase begins: workers take the numbers below ([`Worker::take_task`]). Asked
    /// once, before any work.
    fn tasks(&self) -> usize {
        0
    }

    /// The boxes through which workers send to other nodes, if they do. Asked once, before any work. No other crew may
    /// be in a phase with the same boxes.
    fn mail(&self) -> Option<&Mailboxes<'_>> {
        None
    }

    /// Does a worker's share. It returns when nothing is left to do: on a verdict of
    /// [`Worker::offer`] other than `WorkAgain`, or, in a phase whose work is only divided up and
    /// never published anew, as soon as its share is done.
    /// With boxes it is the former.
    ///
    /// Called once on the leader. On a helper called never (it came too late), once, or again each
    /// time that work is announced after it stood by. Must not leave by `longjmp` or
    /// `pthread_exit`.
    fn work(&self, worker: &Worker<'_>);
}

/// The objects of a phase, with their lifetimes forgotten. `None` of it is bytes of 0, as all of a new crew: a static takes no room in the file.
#[derive(Clone, Copy)]
struct Current {
    phase: *const dyn Phase,
    mail: Option<NonNull<Mailboxes<'static>>>,
}

/// The threads that work together. One lives in a static of each door, or inside a heap.
pub struct Crew {
    /// What its workers see.
    shared: Shared,
    /// What is counted of finished phases.
    tally: Tally,
    /// The objects of the current phase. Written by the leader before `begin`, read by helpers
    /// inside the phase.
    phase: UnsafeCell<Option<Current>>,
    /// Number of the current or last phase. Only the leader touches it.
    number: AtomicU32,
    /// How many helpers may be called. Written under `growing`; Release there partners Acquire in
    /// `helpers`.
    helpers: AtomicUsize,
    /// Whether some thread is making helpers, or the crew was dismissed.
    growing: AtomicBool,
}

// SAFETY: the pointers to the phase's objects are the only part that is not `Sync` by itself. They are written by the
// leader while nobody is inside a phase and read by helpers inside one (see the invariants), and they
// point to `Sync` objects.
unsafe impl Sync for Crew {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Crew {}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew")
            .field("termination", &self.shared.termination)
            .field("helpers", &self.helpers)
            .finish_non_exhaustive()
    }
}

impl Default for Crew {
    fn default() -> Self {
        Self::new()
    }
}

impl Crew {
    gleaner_base::sync_const_fn! {
        /// A crew without helpers: its leader works alone. Its threads wait on seats and take tasks without a lock.
        pub fn new() -> Self {
            Self::with_policies(options::Parking::Futex, options::TaskQueue::LockFree)
        }
    }

    gleaner_base::sync_const_fn! {
        /// A crew without helpers whose threads wait and take tasks as these say.
        pub fn with_policies(parking: options::Parking, tasks: options::TaskQueue) -> Self {
            Self {
                shared: Shared::new(parking, tasks),
                tally: Tally::new(),
                phase: UnsafeCell::new(None),
                number: AtomicU32::new(0),
                helpers: AtomicUsize::new(0),
                growing: AtomicBool::new(false),
            }
        }
    }

    /// What the workers did with each other so far. Exact between phases (see [`crate::tally`]).
    pub fn synchronisation(&self) -> Synchronisation {
        let monitor = self.shared.parking.lock();
        Synchronisation {
            phases: self.tally.phases.get(),
            tasks: self.tally.tasks.get(),
            wakeups: self.shared.parking().wakeups(),
            lock_acquisitions: self.shared.tasks.lock().acquisitions()
                + monitor.map_or(0, CountedLock::acquisitions),
            failed_cas: self.tally.lost_races.get(),
            task_queue: self.shared.tasks.policy(),
            parking: self.shared.parking.option(),
        }
    }

    /// Says how many processors the workers share; as many as there are workers unless said. Between phases.
    ///
    /// Where a phase calls more workers, one that has run out of work sleeps at once: while it polled, the system would
    /// take the processor from it inside of the phase, and the leader would wait for it.
    pub fn expect_processors(&self, processors: usize) {
        self.shared.processors.store(processors, Ordering::Relaxed); // ordered by the Release in `begin`
    }

    /// How many helpers there are.
    pub fn helpers(&self) -> usize {
        self.helpers.load(Ordering::Acquire)
    }

    /// Makes helpers until there are `wanted`, and says how many there are. `spawn` starts the thread
    /// that calls [`Crew::serve`] with the index it is given, and says whether it did; after a failure
    /// no more are tried, and the next call begins with the same index. Indices count from 1, in a
    /// forked child again. Called outside of stopped worlds and without locks. If another thread is
    /// making helpers at this moment, nothing is done.
    pub fn ensure_helpers(&self, wanted: usize, spawn: &mut dyn FnMut(usize) -> bool) -> usize {
        let wanted = wanted.min(MAX_WORKERS - 1);
        // Acquire partners the Release below: the next to grow the crew sees the count.
        if self.helpers() < wanted && !self.growing.swap(true, Ordering::Acquire) {
            while self.helpers() < wanted && spawn(self.helpers() + 1) {
                self.helpers.fetch_add(1, Ordering::Release);
            }
            self.growing.store(false, Ordering::Release);
        }
        self.helpers()
    }

    /// Sends all helpers home: they return from their entry, now or when they are next scheduled.
    /// The crew has no helpers from now on, and must outlive their threads. No phase is running
    /// and no thread is making helpers.
    pub fn dismiss(&self) {
        let growing = self.growing.swap(true, Ordering::Acquire); // and stays so: no more helpers
        debug_assert!(!growing && self.shared.termination.is_quiet());
        let helpers = self.helpers.swap(0, Ordering::AcqRel);
        self.shared.parking().dismiss(helpers);
    }

    /// In a forked child: the helpers exist in the parent only. Nothing is needed in the parent.
    pub fn forget_helpers_after_fork(&self) {
        self.shared.termination.reset();
        self.shared.idle.store(0, Ordering::Relaxed);
        self.shared.parking().reset();
        self.shared.tasks.reset();
        self.helpers.store(0, Ordering::Relaxed);
        self.growing.store(false, Ordering::Relaxed);
    }

    /// Runs `phase` on the calling thread and on up to `workers - 1` helpers, and returns when it
    /// is finished. The caller is the only leader. Helpers that the system does not schedule in
    /// time take no part.
    pub fn run(&self, workers: usize, phase: &dyn Phase) {
        let callable = workers.min(self.helpers() + 1).max(1);
        self.run_calling(callable, 1, phase);
    }

    /// Runs `phase` on the calling thread, which stands in for `workers` of them ([`Worker::stand_in`]), boxes
    /// included, and calls nobody. As [`Crew::run`].
    pub fn run_alone(&self, workers: usize, phase: &dyn Phase) {
        self.run_calling(1, workers.clamp(1, MAX_WORKERS), phase);
    }

    /// Calls the helpers below `callable`; or nobody, and the leader stands in for `alone` workers.
    fn run_calling(&self, callable: usize, alone: usize, phase: &dyn Phase) {
        let mail = phase.mail();
        if let Some(mail) = mail {
            mail.open(callable.max(alone)); // ordered by the Release in `begin`
        }
        self.shared.called.store(callable, Ordering::Relaxed); // ordered by the Release in `begin`
        let number = self.begin(phase, mail);
        self.shared.parking().call(number, callable);
        let leading = Leading {
            crew: self,
            worker: Worker::new(&self.shared, LEADER, number, mail).alone(alone),
        };
        phase.work(&leading.worker);
        assert!(!leading.worker.forgot_its_mail(), "{FORGOT_MAIL}");
    }

    fn begin(&self, phase: &dyn Phase, mail: Option<&Mailboxes<'_>>) -> PhaseNumber {
        assert!(self.shared.termination.is_quiet(), "a phase within a phase");
        let number = PhaseNumber::new(self.number.load(Ordering::Relaxed)).next();
        self.number.store(number.get(), Ordering::Relaxed);
        self.shared
            .tasks
            .fill_under(self.shared.task_lock(), number, phase.tasks());
        // SAFETY: this only forgets the lifetime: the pointer is followed by workers inside the
        // phase, and `run` does not return before they are out.
        let phase: *const (dyn Phase + 'static) = unsafe { core::mem::transmute(phase) };
        let mail = mail.map(|mail| NonNull::from(mail).cast());
        let current = Current { phase, mail };
        self.phase.with_mut(|slot| {
            // SAFETY: no phase is open and nobody is inside one, so nobody reads the slot.
            unsafe { *slot = Some(current) }
        });
        self.shared.idle.store(0, Ordering::Relaxed); // ordered by the Release in `begin`
        self.shared.termination.begin(number);
        number
    }

    /// Leader: stops being active, waits until the phase is finished and all helpers are out.
    fn finish(&self, leader: &Worker<'_>) {
        let number = leader.phase();
        if leader.is_active() {
            self.shared.termination.step_down(number);
        }
        let is_drained = || self.shared.termination.is_drained(number);
        while !is_drained() {
            leader.refuse_mail();
            self.shared.parking().wait(number, &is_drained);
        }
        self.tally.add_lost_races(leader.lost_races());
        self.tally.finish_phase(self.shared.tasks.taken());
        self.shared.termination.end(number);
    }

    /// The life of helper `index`: what its thread runs. Returns after the crew was dismissed.
    ///
    /// `extern "C"`, so that a panic in a helper's work ends the process: the leader waits for all helpers inside the
    /// phase, and the phase object may not outlive a helper that unwinds.
    ///
    /// # Safety
    /// [`Crew::ensure_helpers`] gave this index to its `spawn`, which said that it started this thread,
    /// and no other thread serves under it.
    pub unsafe extern "C" fn serve(&self, index: usize) {
        self.shared
            .parking()
            .serve(index, &self.shared.termination, &mut |number| {
                self.take_part(index, number)
            });
    }

    /// A helper that has joined does its share; whether it is still active.
    fn take_part(&self, index: usize, number: PhaseNumber) -> bool {
        self.phase.with(|slot| {
            // SAFETY: this worker is inside the phase, so the slot is set and not written.
            let Some(Current { phase, mail }) = (unsafe { *slot }) else {
                return true;
            };
            // SAFETY: the leader keeps the phase object and its boxes alive until this worker leaves the phase.
            let (phase, mail) = unsafe { (&*phase, mail.map(|mail| mail.as_ref())) };
            let worker = Worker::new(&self.shared, index, number, mail);
            phase.work(&worker);
            assert!(!worker.forgot_its_mail(), "{FORGOT_MAIL}");
            self.tally.add_lost_races(worker.lost_races());
            worker.is_active()
        })
    }
}

/// The leader's stay in a phase. It ends in `drop`, so that also a panic in the leader's share
/// waits for the helpers that still use the phase object.
struct Leading<'a> {
    crew: &'a Crew,
    worker: Worker<'a>,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.crew.finish(&self.worker);
        if let Some(mail) = self.worker.mail() {
            mail.close();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mailbox::BatchMemory;
    use crate::outbox::Outbox;
    use crate::worker::Verdict;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::vec::Vec;

    const WORKERS: usize = 4;

    /// Each worker takes tasks in its turn and sends their numbers to the other of two nodes.
    struct InTurns<'a> {
        mail: &'a Mailboxes<'a>,
        panics: bool,
        /// Which worker took which task, and which received it.
        taken: Mutex<Vec<(usize, usize)>>,
        received: Mutex<Vec<(usize, u64)>>,
    }

    impl Phase for InTurns<'_> {
        fn tasks(&self) -> usize {
            2 * WORKERS
        }

        fn mail(&self) -> Option<&Mailboxes<'_>> {
            Some(self.mail)
        }

        fn work(&self, leader: &Worker<'_>) {
            assert!(leader.is_leader(), "a helper joined");
            for round in 0..3 {
                for index in 0..WORKERS {
                    let worker = leader.stand_in(index);
                    assert_eq!(worker.anyone_waits_of(1 << index), round > 0);
                    worker.set_waiting(false);
                    assert!(!worker.anyone_waits_of(1 << index));
                    assert_eq!(worker.anyone_waiting(), round > 0 || index > 0);
                    while let Some(batch) = worker.receive() {
                        let words = batch.words().map(|word| (index, word));
                        self.received.lock().unwrap().extend(words);
                    }
                    let mut outbox = Outbox::EMPTY;
                    if let Some(task) = worker.take_task() {
                        self.taken.lock().unwrap().push((index, task));
                        worker.announce();
                        let other = 1 - self.mail.home(index);
                        outbox.put(&worker, self.mail, other, task as u64).unwrap();
                    }
                    assert!(outbox.flush(&worker));
                    worker.set_waiting(true);
                }
                assert!(!self.panics, "on purpose");
            }
            assert_eq!(
                leader.offer(|| true),
                Verdict::Finished,
                "something is left"
            );
        }
    }

    /// The leader ends the phase when the helper has offered once and found nothing.
    struct OffersOnce {
        looks: AtomicUsize,
        is_over: AtomicBool,
    }

    impl Phase for OffersOnce {
        fn work(&self, worker: &Worker<'_>) {
            if !worker.is_leader() {
                let verdict = worker.offer(|| {
                    self.looks.fetch_add(1, Ordering::Relaxed);
                    false
                });
                assert_eq!(verdict, Verdict::StandBy);
                self.is_over.store(true, Ordering::Release);
                return;
            }
            while !self.is_over.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert_eq!(worker.offer(|| false), Verdict::Finished);
        }
    }

    #[test]
    fn workers_poll_while_each_has_a_processor() {
        for parking in [options::Parking::Futex, options::Parking::Monitor] {
            let crew: &'static Crew = std::boxed::Box::leak(std::boxed::Box::new(
                Crew::with_policies(parking, options::TaskQueue::LockFree),
            ));
            crew.ensure_helpers(1, &mut |index| {
                // SAFETY: the crew gave out the index, and this thread alone was started for it.
                std::thread::spawn(move || unsafe { crew.serve(index) });
                true
            });
            let looks = || {
                let phase = OffersOnce {
                    looks: AtomicUsize::new(0),
                    is_over: AtomicBool::new(false),
                };
                crew.run(2, &phase);
                phase.looks.into_inner()
            };
            let many = looks();
            assert!(many > 10, "a helper looked {many} times");
            crew.expect_processors(2);
            assert_eq!(looks(), many);
            crew.expect_processors(1);
            assert_eq!(looks(), 1);
            crew.dismiss();
        }
    }

    #[test]
    fn a_leader_that_runs_alone_does_the_share_of_all() {
        for parking in [options::Parking::Futex, options::Parking::Monitor] {
            let crew: &'static Crew = std::boxed::Box::leak(std::boxed::Box::new(
                Crew::with_policies(parking, options::TaskQueue::LockFree),
            ));
            crew.ensure_helpers(WORKERS - 1, &mut |index| {
                // SAFETY: the crew gave out the index, and this thread alone was started for it.
                std::thread::spawn(move || unsafe { crew.serve(index) });
                true
            });
            let memory: Vec<BatchMemory> = (0..16).map(|_| BatchMemory::new()).collect();
            let mail = Mailboxes::new(&memory, 2);
            for panics in [false, true, false] {
                let phase = InTurns {
                    mail: &mail,
                    panics,
                    taken: Mutex::default(),
                    received: Mutex::default(),
                };
                let run = || crew.run_alone(WORKERS, &phase);
                assert_eq!(catch_unwind(AssertUnwindSafe(run)).is_err(), panics);
                let taken = phase.taken.into_inner().unwrap();
                let rounds = if panics { 1 } else { 2 };
                let expected = (0..rounds * WORKERS).map(|task| (task % WORKERS, task));
                assert!(taken.into_iter().eq(expected));
                // The first worker of each node serves its box.
                for (by, task) in phase.received.into_inner().unwrap() {
                    assert_eq!(by, 1 - task as usize % 2);
                }
            }
            crew.dismiss();
        }
    }
}
