//! The parts of the phase engine by themselves under loom: the deque, seats, the monitor, termination. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-work --release --test models_parts`.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell};
use gleaner_work::parking::{Call, Monitor, Park, Seat};
use gleaner_work::termination::{PhaseNumber, Termination};
use gleaner_work::{Deque, MAX_WORKERS, Steal};
use loom::thread::{self, JoinHandle};

fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

// Deque.

fn ring(length: usize) -> &'static [AtomicU32] {
    Box::leak((0..length).map(|_| AtomicU32::new(0)).collect())
}

fn shared_deque(length: usize) -> Arc<Deque<'static, AtomicU32>> {
    Arc::new(Deque::new(ring(length)))
}

fn steal_all(deque: &Deque<'static, AtomicU32>, attempts: usize) -> Vec<u32> {
    let mut taken = Vec::new();
    for _ in 0..attempts {
        if let Steal::Taken(item) = deque.steal() {
            taken.push(item);
        }
    }
    taken
}

/// Owner and two thieves at the last item: exactly one of them gets it.
#[test]
fn deque_last_item_has_one_taker() {
    check(None, || {
        let deque = shared_deque(2);
        deque.push(7).unwrap();
        let thieves: Vec<_> = (0..2)
            .map(|_| {
                let deque = deque.clone();
                thread::spawn(move || steal_all(&deque, 1))
            })
            .collect();
        let mut taken: Vec<u32> = deque.pop().into_iter().collect();
        for thief in thieves {
            taken.extend(thief.join().unwrap());
        }
        taken.extend(deque.pop());
        assert_eq!(taken, [7]);
    });
}

/// A full ring is drained at both ends while the owner writes over the cells that thieves read.
#[test]
fn deque_wraps_around_under_a_thief() {
    check(Some(3), || {
        let deque = shared_deque(2);
        deque.push(1).unwrap();
        deque.push(2).unwrap();
        let thief = {
            let deque = deque.clone();
            thread::spawn(move || steal_all(&deque, 2))
        };
        let mut taken = Vec::new();
        for item in [3, 4] {
            if deque.push(item).is_err() {
                taken.extend(deque.pop());
                taken.push(item);
            }
        }
        while let Some(item) = deque.pop() {
            taken.push(item);
        }
        taken.extend(thief.join().unwrap());
        taken.sort();
        assert_eq!(taken, [1, 2, 3, 4]);
    });
}

/// What a thief takes, it sees as the owner prepared it before the push.
#[test]
fn deque_hands_over_what_the_item_stands_for() {
    struct Shared {
        deque: Deque<'static, AtomicU32>,
        batch: UnsafeCell<u32>,
    }
    // SAFETY: the batch is passed from the owner to the taker of its number; loom checks that.
    unsafe impl Sync for Shared {}
    check(None, || {
        let shared = Arc::new(Shared {
            deque: Deque::new(ring(2)),
            batch: UnsafeCell::new(0),
        });
        let thief = {
            let shared = shared.clone();
            thread::spawn(move || {
                if let Steal::Taken(1) = shared.deque.steal() {
                    // SAFETY: item 1 stands for the batch, and this thread has taken it.
                    shared.batch.with(|batch| assert_eq!(unsafe { *batch }, 5));
                }
            })
        };
        // SAFETY: the batch is not published yet.
        shared.batch.with_mut(|batch| unsafe { *batch = 5 });
        shared.deque.push(1).unwrap();
        shared.deque.push(2).unwrap();
        // Takes 2, and stores `bottom` without a release of its own.
        shared.deque.pop();
        thief.join().unwrap();
    });
}

// Seats.

/// A call that comes at any moment of going to sleep is taken, also through two phases, and a
/// recall to the first never disturbs the second.
#[test]
fn seat_loses_no_call() {
    check(Some(3), || {
        let first = PhaseNumber::NONE.next();
        let second = first.next();
        let seat = Arc::new(Seat::new());
        let owner = {
            let seat = seat.clone();
            thread::spawn(move || {
                let mut calls = Vec::new();
                while let Call::To(phase) = seat.wait() {
                    calls.push(phase);
                    seat.rest(phase);
                    if phase == second {
                        break;
                    }
                }
                calls
            })
        };
        let recaller = {
            let seat = seat.clone();
            thread::spawn(move || {
                seat.recall(first);
            })
        };
        seat.call(first);
        seat.call(second);
        let calls = owner.join().unwrap();
        assert_eq!(calls.last(), Some(&second));
        recaller.join().unwrap();
    });
}

// The monitor.

struct OnMonitor {
    monitor: Monitor,
    termination: Termination,
    idle: AtomicU64,
    /// How often helpers worked.
    worked: AtomicUsize,
}

impl OnMonitor {
    const PHASE: PhaseNumber = PhaseNumber::NONE.next();

    /// The leader has begun the phase, and helpers begin to wait: each does `work` when it is called, told how often
    /// it worked before, and says whether it is still active.
    fn with_helpers(
        count: usize,
        work: fn(&Self, usize) -> bool,
    ) -> (Arc<Self>, Vec<JoinHandle<usize>>) {
        let shared = Arc::new(Self {
            monitor: Monitor::new(),
            termination: Termination::new(),
            idle: AtomicU64::new(0),
            worked: AtomicUsize::new(0),
        });
        shared.termination.begin(Self::PHASE);
        let helpers = (1..=count).map(|index| {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut before = 0;
                shared.monitor.serve(index, &shared.termination, &mut |_| {
                    let active = work(&shared, before);
                    before += 1;
                    shared.worked.fetch_add(1, Ordering::Relaxed);
                    shared.monitor.tell_leader(Self::PHASE);
                    active
                });
                before
            })
        });
        let helpers = helpers.collect();
        (shared, helpers)
    }

    fn wait(&self, done: impl Fn() -> bool) {
        while !done() {
            self.monitor.wait(Self::PHASE, &done);
        }
    }

    fn finish(&self) {
        self.termination.step_down(Self::PHASE);
        self.wait(|| self.termination.is_drained(Self::PHASE));
        self.termination.end(Self::PHASE);
        self.monitor.dismiss(MAX_WORKERS - 1);
    }
}

/// Two helpers and the leader on one condition. A call reaches both helpers, at whatever moment of going to sleep it
/// comes; the leader hears that they worked and that they are out; the dismissal reaches both. One that missed a
/// wake-up would be waited for without end.
#[test]
fn monitor_loses_no_wake_up() {
    check(Some(2), || {
        let (shared, helpers) = OnMonitor::with_helpers(2, |_, _| true);
        shared.monitor.call(OnMonitor::PHASE, 3);
        shared.wait(|| shared.worked.load(Ordering::Relaxed) == 2);
        shared.finish();
        for helper in helpers {
            assert_eq!(helper.join().unwrap(), 1);
        }
    });
}

/// A helper that has told that it waits for work is called back by the announcement, also if that comes before it has
/// left the phase.
#[test]
fn monitor_calls_back_who_is_about_to_sleep() {
    check(Some(3), || {
        let (shared, helpers) = OnMonitor::with_helpers(1, |shared, before| {
            if before == 0 {
                shared.idle.fetch_or(1 << 1, Ordering::AcqRel);
                shared.termination.step_down(OnMonitor::PHASE);
            }
            before > 0
        });
        shared.monitor.call(OnMonitor::PHASE, 2);
        shared.wait(|| shared.idle.load(Ordering::Relaxed) != 0);
        shared
            .monitor
            .call_back(u64::MAX, &shared.idle, OnMonitor::PHASE);
        shared.wait(|| shared.worked.load(Ordering::Relaxed) == 2);
        shared.finish();
        for helper in helpers {
            assert_eq!(helper.join().unwrap(), 2);
        }
    });
}

// Termination by itself: dynamic join, two phases.

/// A helper that joins two phases if it comes in time. The cell is the phase's data: loom fails the
/// model if the helper touches it after the leader saw the phase drained.
#[test]
fn termination_keeps_late_joiners_out() {
    struct Shared {
        termination: Termination,
        data: [UnsafeCell<u32>; 2],
    }
    // SAFETY: the data of a phase is accessed inside it, by turns; loom checks that.
    unsafe impl Sync for Shared {}
    check(Some(3), || {
        let shared = Arc::new(Shared {
            termination: Termination::new(),
            data: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let first = PhaseNumber::NONE.next();
        let phases = [first, first.next()];
        shared.termination.begin(phases[0]);
        let helper = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut worked = 0;
                for (index, &phase) in phases.iter().enumerate() {
                    if shared.termination.join(phase) {
                        // SAFETY: inside the phase, where the leader does not touch the data.
                        shared.data[index].with_mut(|data| unsafe { *data += 1 });
                        worked += 1;
                        shared.termination.leave(phase, true);
                    }
                }
                worked
            })
        };
        let mut seen = 0;
        for (index, &phase) in phases.iter().enumerate() {
            if index > 0 {
                shared.termination.begin(phase);
            }
            shared.termination.step_down(phase);
            while !shared.termination.is_drained(phase) {
                thread::yield_now();
            }
            // SAFETY: the phase is drained.
            shared.data[index].with_mut(|data| unsafe {
                seen += *data;
                *data += 1;
            });
            shared.termination.end(phase);
        }
        assert_eq!(helper.join().unwrap(), seen);
    });
}
